"""The store: the log, what is visible at a version, exact search, several processes, kills, and paths that are no bank."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
import pytest
from banks import START, Ticks, stored

from swe_memory.bm25 import Bm25Index
from swe_memory.errors import BankError, UsageError
from swe_memory.records import Use
from swe_memory.store import UNDOABLE, Abandoned, Batch, GenerationChanged, Guard, Identity, NewItem, Store, schema
from swe_memory.store.log import Commit, fold
from swe_memory.store.upkeep import ORPHAN_AGE, optimize, orphans

SMALL = Identity("given", 4, "d")


def opened(path: Path, **more: object) -> Store:
    return Store.open(path, identity=SMALL, at=START, txn="made", **more)  # type: ignore[arg-type]


def learn(store: Store, *new: object, txn: str, session: str = "s", kind: str = "learn") -> int:
    return store.learn(kind, Batch(tuple(new)), txn=txn, session=session, at=START, generation=store.log.state.generation)  # type: ignore[arg-type]


def unit(rng: np.random.Generator, size: int = 8) -> np.ndarray:
    row = rng.integers(-3, 4, size=size).astype(np.float32)  # few distinct values: ties happen
    row[0] += 0.5
    return row / np.linalg.norm(row)


# -- the log ---------------------------------------------------------------------------------------------------------------------------------


def test_versions_count_up_from_zero_and_each_shows_what_it_showed_then(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    assert store.refresh() == 0
    first, second = stored("a", unit(rng), number=1), stored("b", unit(rng), number=2)
    assert learn(store, first, txn="t1") == 1
    assert learn(store, second, txn="t2") == 2
    assert [e.key for e in store.experiences(1)] == ["a"]
    assert [e.key for e in store.experiences(2)] == ["a", "b"] == [e.key for e in store.experiences()]
    assert [i.added for i in store.items()] == [1, 2]
    with pytest.raises(UsageError, match="no version 3"):
        store.state(3)


def test_rows_without_their_commit_are_seen_by_nobody(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    store.write(Batch((stored("a", unit(rng)),)), 1, "never", START)
    learn(store, stored("b", unit(rng), number=2), txn="t1")
    assert [e.key for e in store.experiences()] == ["b"]
    assert [i.provenance.attempt for i in store.items()] == ["b"]
    assert [h.experience.key for h in store.search(vector=unit(rng), terms="", text="x", guard=Guard())] == ["b"]
    assert {(o.table, o.txn, o.rows) for o in orphans(store)} == {("experiences", "never", 1), ("items", "never", 1)}


def test_of_two_transactions_with_the_same_lesson_the_first_commit_counts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    one, two = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    same = stored("a", unit(rng))
    one.write(Batch((same,)), 1, "t1", START)
    learn(two, same, txn="t2")
    learn(one, same, txn="t1")
    assert one.state().experiences["a"].txn == "t2"
    assert len(one.experiences()) == len(one.items()) == 1
    assert len(one.search(vector=unit(rng), terms="", text="x", guard=Guard())) == 1


def test_a_changed_verdict_supersedes_experience_and_items_and_the_old_version_keeps_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    learn(store, stored("a", unit(rng), items=2), txn="t1")
    learn(store, stored("a", unit(rng), outcome="unresolved"), txn="t2")
    assert [(e.verdict.outcome, e.added) for e in store.experiences()] == [("unresolved", 2)]
    assert [i.id for i in store.items()] == ["aunresolved0"]
    assert [i.id for i in store.items(1)] == ["aresolved0", "aresolved1"]


def test_committing_a_transaction_again_gives_its_version_and_adds_nothing(tmp_path: Path) -> None:
    store = opened(tmp_path / "bank")
    assert store.commit("retire", {"ids": []}, txn="t1", session="s", at=START, generation=1) == 1
    assert store.commit("retire", {"ids": []}, txn="t1", session="s", at=START, generation=1) == 1
    assert store.refresh() == 1


def test_rows_of_an_old_generation_cannot_be_committed(tmp_path: Path) -> None:
    store = opened(tmp_path / "bank")
    new = store.new_generation(SMALL, START)
    store.commit(
        "reembed",
        {"generation": new, "embedder": {"name": "x", "dimension": 4, "digest": ""}},
        txn="r",
        session="r",
        at=START,
        generation=new,
    )
    with pytest.raises(GenerationChanged):
        store.commit("learn", {"experiences": []}, txn="t", session="s", at=START, generation=1)


def test_an_undo_that_was_undone_takes_nothing_back() -> None:
    def entry(key: str) -> dict[str, object]:
        return {
            "key": key,
            "outcome": "resolved",
            "verdict_source": "tests",
            "extractor": "x",
            "items": [{"id": "i" + key, "status": "active"}],
        }

    def commit(seq: int, kind: str, payload: dict[str, object]) -> Commit:
        return Commit(seq, f"t{seq}", f"s{seq}", kind, payload, "")  # type: ignore[arg-type]

    log = [
        commit(0, "create", {"generation": 1, "embedder": {}}),
        commit(1, "learn", {"experiences": [entry("a")]}),
        commit(2, "retire", {"ids": ["ia"], "note": "wrong"}),
        commit(3, "undo", {"session": "s2", "commits": [2]}),
        commit(4, "undo", {"session": "s1", "commits": [1]}),
        commit(5, "undo", {"session": "s4", "commits": [4]}),
        commit(6, "undo", {"session": "s3", "commits": [3]}),
    ]
    seen = [(sorted(s.experiences), [i.status for i in s.items.values()]) for s in (fold(log[: n + 1]) for n in range(len(log)))]
    active, retired, nothing = (["a"], ["active"]), (["a"], ["retired"]), ([], [])
    assert seen == [nothing, active, retired, active, nothing, active, retired]


# -- search ----------------------------------------------------------------------------------------------------------------------------------


def scan(visible: dict[str, object], query: np.ndarray, terms: list[str], guard: Guard, limit: int) -> dict[str, tuple[float, float]]:
    """What search must find, written the plain way over a dict of key -> NewExperience."""

    def allowed(new: object) -> bool:
        issue = new.experience.issue  # type: ignore[attr-defined]
        return not (
            issue.id == guard.issue_id
            or new.text_hash == guard.text_hash  # type: ignore[attr-defined]
            or (guard.other_repos and issue.repo == guard.repo)
            or (guard.before is not None and not (issue.created_at and issue.created_at < guard.before))
        )

    index = Bm25Index()
    for key, new in visible.items():
        index.add(key, group=new.experience.issue.repo, terms=new.where_terms)  # type: ignore[attr-defined]
    paths = index.scores(" ".join(terms), group=guard.repo)
    scores = {
        key: (float(new.vector.astype(np.float64) @ query.astype(np.float64)), paths.get(key, 0.0))  # type: ignore[attr-defined]
        for key, new in visible.items()
        if allowed(new)
    }
    by_cosine = sorted(scores, key=lambda k: (-round(scores[k][0], 9), k))[:limit]
    by_path = sorted((k for k in scores if scores[k][1] > 0), key=lambda k: (-round(scores[k][1], 9), k))[:limit]
    return {key: scores[key] for key in {*by_cosine, *by_path}}


@pytest.mark.parametrize("seed", range(3))
def test_search_equals_a_plain_scan_of_what_is_visible_at_any_version(tmp_path: Path, seed: int) -> None:
    rng, pick = np.random.default_rng(seed), random.Random(seed)
    store = opened(tmp_path / "bank")
    snapshots: list[dict[str, object]] = [{}]
    commits: list[tuple[str, str, object]] = [("create", "", None)]

    def visible() -> dict[str, object]:
        """From the list of what was done, without the store's own fold."""
        gone: set[int] = set()
        for seq in range(len(commits) - 1, -1, -1):
            if commits[seq][0] == "undo" and seq not in gone:
                gone.add(commits[seq][2])  # type: ignore[arg-type]
        shown: dict[str, object] = {}
        for seq, (kind, key, what) in enumerate(commits):
            if kind == "learn" and seq not in gone:
                old = shown.get(key)
                if old is None or old.experience.verdict.outcome != what.experience.verdict.outcome:  # type: ignore[attr-defined]
                    shown[key] = what
        return shown

    for step in range(28):
        if pick.random() < 0.8 or step < 4:
            number = pick.randrange(14)
            new = stored(
                f"k{number:02}",
                unit(rng),
                repo=pick.choice(["acme/web", "acme/lib"]),
                terms=" ".join(pick.choices(["a", "b", "c", "d", "e"], k=pick.randint(0, 6))),
                outcome=pick.choice(["resolved", "unresolved"]),
                number=number,
            )
            learn(store, new, txn=f"t{step}")
            commits.append(("learn", new.experience.key, new))
        else:
            target = pick.choice([seq for seq, commit in enumerate(commits) if seq])
            store.commit("undo", {"session": "", "commits": [target]}, txn=f"t{step}", session="u", at=START, generation=1)
            commits.append(("undo", "", target))
        snapshots.append(visible())
        if pick.random() < 0.1:
            optimize(store, START)
        if pick.random() < 0.2:
            store.write(Batch((stored(f"k{pick.randrange(14):02}", unit(rng), terms="a b"),)), 1, f"orphan{step}", START)
    fresh = opened(tmp_path / "bank", read_only=True)
    for _ in range(40):
        at = pick.randrange(len(snapshots))
        query, terms = unit(rng), pick.choices(["a", "b", "c", "zz"], k=pick.randint(0, 5))
        guard = Guard(
            issue_id=f"web-{pick.randrange(14)}",
            repo=pick.choice(["acme/web", "acme/lib"]),
            text_hash=f"hash{pick.randrange(14)}",
            other_repos=pick.random() < 0.3,
            before=START + timedelta(days=pick.randrange(14)) if pick.random() < 0.3 else None,
        )
        expected = scan(snapshots[at], query, terms, guard, 3)
        for one in (store, fresh):
            found = one.search(vector=query, terms=" ".join(terms), text="", guard=guard, at=at, limit=3)
            assert {h.experience.key for h in found} == expected.keys()
            for hit in found:
                assert (hit.cosine, hit.path_score) == pytest.approx(expected[hit.experience.key], abs=1e-6)
                assert hit.experience.verdict == snapshots[at][hit.experience.key].experience.verdict  # type: ignore[attr-defined]


def test_the_order_in_which_things_were_learned_changes_no_score_and_no_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    made = [stored(f"k{i}", unit(rng), terms="a b" if i % 2 else "b c c", number=i) for i in range(12)]
    made.append(stored("twin", made[3].vector, terms="a b", number=99))  # the same vector and terms as k3
    one, two = opened(tmp_path / "one"), opened(tmp_path / "two")
    learn(one, *made, txn="t")
    for number, new in enumerate(reversed(made)):
        learn(two, new, txn=f"t{number}")
    optimize(two, START)
    query = unit(rng)

    def search(store: Store, limit: int) -> list[tuple[object, ...]]:
        hits = store.search(vector=query, terms="b c a", text="", guard=Guard(repo="acme/web"), limit=limit)
        return [(h.experience.key, h.cosine, h.path_score) for h in hits]

    for limit in range(1, 14):
        assert search(one, limit) == search(two, limit)


def test_rows_are_found_where_row_ids_do_not_outlive_compaction(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    db = lancedb.connect(tmp_path / "bank")
    db.create_table("experiences", schema=schema.experiences_schema(4))  # made by hand, without stable row ids
    db.create_table("items", schema=schema.items_schema(4))
    reader, writer = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    for number in range(4):
        learn(writer, stored(f"k{number}", unit(rng), number=number), txn=f"t{number}")
    before = reader.search(vector=unit(rng), terms="", text="", guard=Guard())
    items = reader.items_of(["k0", "k3"])
    writer.write(Batch((stored("cut", unit(rng)),)), 1, "cut", START - timedelta(days=9))
    optimize(writer, START)
    after = reader.search(vector=unit(np.random.default_rng(0)), terms="", text="", guard=Guard())
    assert sorted(h.experience.key for h in after) == sorted(h.experience.key for h in before) == ["k0", "k1", "k2", "k3"]
    assert {h.experience.key: h.experience for h in after} == {h.experience.key: h.experience for h in before}
    assert [item for item, _ in reader.items_of(["k0", "k3"])] == [item for item, _ in items] and len(items) >= 2


def test_without_a_vector_the_issue_text_decides_in_every_repository(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    learn(store, stored("a", unit(rng), number=1), stored("b", unit(rng), number=2, repo="acme/lib"), txn="t")
    hits = store.search(vector=None, terms="", text="something (case 2)", guard=Guard(repo="acme/web"), limit=1)
    assert [h.experience.key for h in hits] == ["b"]
    assert hits[0].cosine is None and hits[0].text_score > 0
    learn(store, stored("c", unit(rng), number=3), txn="t2")
    assert [h.experience.key for h in store.search(vector=None, terms="", text="case 3", guard=Guard(), limit=1)] == ["c"]
    assert store.search(vector=None, terms="", text="case 3", guard=Guard(), limit=1, at=1)[0].experience.key != "c"


def test_explaining_shows_near_candidates_that_a_guard_removed_and_counts_the_rest(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    made = [stored(f"k{i}", unit(rng), number=i, repo="acme/web" if i % 2 else "acme/lib") for i in range(8)]
    learn(store, *made, txn="t")
    guard = Guard(issue_id="web-3", repo="acme/web", text_hash="hash4", other_repos=True)
    plain = store.search(vector=made[3].vector, terms="", text="", guard=guard, limit=2)
    told = store.search(vector=made[3].vector, terms="", text="", guard=guard, limit=2, explain=True)
    assert [h for h in told if not h.removed] == plain
    assert [h.removed for h in told if h.experience.key == "k3"] == ["same issue"]
    assert store.removed(guard) == {"same issue": 1, "same text": 1, "same repository": 4}


def test_the_time_guard_drops_issues_of_unknown_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    old, new, unknown = (stored(f"k{i}", unit(rng), number=i) for i in range(3))
    unknown = replace(unknown, experience=replace(unknown.experience, issue=replace(unknown.experience.issue, created_at=None)))
    learn(store, old, new, unknown, txn="t")
    guard = Guard(before=START + timedelta(hours=1))
    assert [h.experience.key for h in store.search(vector=unit(rng), terms="", text="", guard=guard)] == ["k0"]
    assert store.removed(guard) == {"creation time unknown": 1, "not created before": 1}


# -- upkeep ----------------------------------------------------------------------------------------------------------------------------------


def test_optimizing_removes_leftovers_only_once_they_cannot_be_in_flight(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = opened(tmp_path / "bank")
    learn(store, stored("a", unit(rng), number=1), txn="t1")
    store.write(Batch((stored("b", unit(rng), number=2),)), 1, "cut", START)
    report = optimize(store, START + ORPHAN_AGE - timedelta(seconds=1))
    assert (report.orphans_removed, report.orphans_kept) == (0, 2)
    report = optimize(store, START + ORPHAN_AGE + timedelta(seconds=1))
    assert (report.orphans_removed, report.orphans_kept) == (2, 0)
    assert orphans(store) == []
    assert [e.key for e in store.experiences()] == ["a"] and len(store.items()) == 1


@pytest.mark.parametrize("kind", ["learn", "edit", "use"])
def test_rows_given_up_before_their_commit_cannot_be_committed_and_are_written_anew(tmp_path: Path, kind: str) -> None:
    rng = np.random.default_rng(0)
    writer, other = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    learn(writer, stored("a", unit(rng), number=1), txn="t1")
    new = stored("b", unit(rng), number=2)
    use = Use("aresolved0", "web-2", "acme/web", 0.5, 1, "b", "resolved")
    edited = replace(stored("a", unit(rng), number=1).items[0].item, title="Edited")
    batch = {"learn": Batch((new,)), "edit": Batch(items=(NewItem(edited, unit(rng, 4)),)), "use": Batch(uses=(use,))}[kind]
    writer.write(batch, 1, "slow", START)
    optimize(other, START + timedelta(days=3))  # its clock is ahead, or the writer slept
    with pytest.raises(Abandoned):
        writer.commit(kind, {"experiences": [], "items": []}, txn="slow", session="s", at=START, generation=1)  # type: ignore[arg-type]
    writer.learn(kind, batch, txn="again", session="s", at=START, generation=1)  # type: ignore[arg-type]
    optimize(other, START + timedelta(days=3))
    shown = opened(tmp_path / "bank")
    assert {
        "learn": [e.key for e in shown.experiences()] == ["a", "b"],
        "edit": [i.title for i in shown.items()] == ["Edited"],
        "use": shown.uses() == [use],
    }[kind]
    assert orphans(shown) == [] and len(shown.search(vector=unit(rng), terms="", text="", guard=Guard())) == len(shown.experiences())


def test_a_writer_goes_on_beside_one_that_is_days_ahead_and_tidies_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    writer, other = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    batch, write, tries = Batch((stored("a", unit(rng), number=1),)), writer.write, []

    def slow(*args: Any) -> None:
        write(*args)
        optimize(other, START + timedelta(days=3, seconds=len(tries)))

    monkeypatch.setattr(writer, "write", slow)
    for txn in ("t1", "t2"):
        tries.append(txn)
        try:
            writer.learn("learn", batch, txn=txn, session="s", at=START, generation=1)
        except Abandoned:
            continue
        break
    assert tries == ["t1", "t2"] and [e.key for e in other.experiences()] == ["a"] and orphans(other) == []


def test_an_abandonment_that_comes_after_the_commit_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    writer, other = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    batch = Batch((stored("a", unit(rng), number=1),))
    writer.write(batch, 1, "slow", START)
    claim = other.tables.claim

    def late(row: Mapping[str, Any]) -> None:  # the writer is between the other's look at the log and its claim
        if row["kind"] == "abandon" and "slow" not in writer.log.by_txn:
            writer.learn("learn", batch, txn="slow", session="s", at=START, generation=1)
        claim(row)

    monkeypatch.setattr(other.tables, "claim", late)
    report = optimize(other, START + timedelta(days=3))
    assert [c.kind for c in other.log.commits] == ["create", "learn", "abandon"]
    assert (report.orphans_removed, report.orphans_kept) == (0, 0)
    shown = opened(tmp_path / "bank")
    assert shown.log.abandoned == set() and [e.key for e in shown.experiences()] == ["a"]


def test_two_processes_that_give_up_the_same_need_one_commit_and_it_is_no_session_to_undo(tmp_path: Path) -> None:
    one, two = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    one.write(Batch((stored("a", unit(np.random.default_rng(0))),)), 1, "cut", START)
    seen = orphans(two)
    optimize(one, START + timedelta(days=3))
    optimize(two, START + timedelta(days=4))
    assert seen and [c.kind for c in two.log.commits] == ["create", "abandon"] and two.log.abandoned == {"cut"}
    assert "abandon" not in UNDOABLE


def test_vectors_given_up_while_they_are_made_never_become_the_present_ones(tmp_path: Path) -> None:
    store, other = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    learn(store, stored("a", unit(np.random.default_rng(0))), txn="t1")
    new = store.new_generation(SMALL, START)
    optimize(other, START + timedelta(days=3))
    payload = {"generation": new, "embedder": {"name": "x", "dimension": 4, "digest": ""}}
    with pytest.raises(BankError, match="abandoned while they were made"):
        store.commit("reembed", payload, txn="r", session="r", at=START, generation=new)
    assert store.generations() == [1] and [e.key for e in store.experiences()] == ["a"] and store.new_generation(SMALL, START) > new


def test_a_writer_whose_tables_were_replaced_and_dropped_meanwhile_is_told_to_embed_again(tmp_path: Path) -> None:
    store, other = opened(tmp_path / "bank"), opened(tmp_path / "bank")
    learn(store, stored("a", unit(np.random.default_rng(0))), txn="t1")
    new = other.new_generation(SMALL, START)
    payload = {"generation": new, "embedder": {"name": "x", "dimension": 4, "digest": ""}}
    other.commit("reembed", payload, txn="r", session="r", at=START, generation=new)
    optimize(other, START + timedelta(days=3))
    with pytest.raises(GenerationChanged):
        store.learn("learn", Batch((stored("b", unit(np.random.default_rng(1))),)), txn="t2", session="s", at=START, generation=1)
    optimize(other, START + timedelta(days=3))
    assert opened(tmp_path / "bank").generations() == [new]


def test_an_open_reader_goes_on_while_the_bank_is_optimized(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    writer = opened(tmp_path / "bank")
    for number in range(6):
        learn(writer, stored(f"k{number}", unit(rng), number=number), txn=f"t{number}")
    reader = opened(tmp_path / "bank", read_only=True)
    before = reader.search(vector=unit(np.random.default_rng(1)), terms="", text="", guard=Guard())
    optimize(writer, START)
    assert reader.search(vector=unit(np.random.default_rng(1)), terms="", text="", guard=Guard()) == before
    assert len(reader.items()) == 6


def test_replaced_vectors_are_dropped_a_day_after_the_switch(tmp_path: Path) -> None:
    store = opened(tmp_path / "bank")
    unfinished, new = store.new_generation(SMALL, START), store.new_generation(SMALL, START)
    assert (unfinished, new) == (2, 3)
    payload = {"generation": new, "embedder": {"name": "x", "dimension": 4, "digest": ""}}
    store.commit("reembed", payload, txn="r", session="r", at=START, generation=new)
    optimize(store, START + timedelta(hours=1))
    assert store.generations() == [1, 2, 3]
    optimize(store, START + timedelta(days=2))
    assert store.generations() == [3]
    assert store.new_generation(SMALL, START) == 4  # never a number that was used before


# -- several processes -----------------------------------------------------------------------------------------------------------------------


def _learn_some(path: str, who: int, numbers: list[int], tidy: bool) -> list[int]:
    store = opened(Path(path))
    seen = []
    for start in range(0, len(numbers), 3):
        rng = np.random.default_rng(0)
        made = [stored(f"k{n:02}", unit(rng), number=n, items=2) for n in numbers[start : start + 3]]
        seen.append(learn(store, *made, txn=f"p{who}-{start}", session=f"p{who}"))
        if tidy:
            optimize(store, START)
    return seen


def test_four_processes_with_overlapping_work_lose_and_double_nothing_while_one_optimizes(tmp_path: Path) -> None:
    path = str(tmp_path / "bank")  # made by all four at once
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        work = [(path, who, list(range(who * 5, who * 5 + 15)), who == 0) for who in range(4)]
        versions = pool.starmap(_learn_some, work)
    assert sorted(v for some in versions for v in some) == list(range(1, 21))
    store = opened(tmp_path / "bank")
    assert store.refresh() == 20
    assert [e.key for e in sorted(store.experiences(), key=lambda e: e.key)] == [f"k{n:02}" for n in range(30)]
    assert Counter(i.provenance.attempt for i in store.items()) == {f"k{n:02}": 2 for n in range(30)}
    assert orphans(store) == []


_CHILD = """
import sys
sys.path.insert(0, sys.argv[3])
import numpy as np
from pathlib import Path
from test_store import opened, learn, unit
from banks import stored
store = opened(Path(sys.argv[1]))
rng = np.random.default_rng(0)
print("ready", flush=True)
for n in range(int(sys.argv[2]), 1000):
    print("begin", n, flush=True)
    learn(store, stored(f"k{n:03}", unit(rng), number=n, items=3), txn=f"{sys.argv[4]}-{n}", session="s")
    print("done", n, flush=True)
"""


def test_a_process_killed_at_any_moment_loses_nothing_acknowledged_and_leaves_nothing_half_visible(tmp_path: Path) -> None:
    path, begun, done = tmp_path / "bank", 0, set()
    for life in range(6):
        command = [sys.executable, "-c", _CHILD, str(path), str(begun), str(Path(__file__).parent), f"life{life}"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ) as child:
            assert child.stdout is not None
            for number, line in enumerate(child.stdout):
                word, *rest = line.split()
                if word == "done":
                    done.add(int(rest[0]))
                elif word == "begin":
                    begun = int(rest[0])
                if number >= 1 + life % 4:
                    # Between two lines the child writes rows or commits; the busy wait spreads the kills over that time (0 to some 20 ms).
                    for _ in range(life * 80_000):
                        pass
                    child.send_signal(signal.SIGKILL)
                    break
        store = opened(path)
        items = Counter(i.provenance.attempt for i in store.items())
        assert {f"k{n:03}" for n in done} <= items.keys() == {e.key for e in store.experiences()}
        assert set(items.values()) <= {3}
        assert len(store.search(vector=unit(np.random.default_rng(1)), terms="", text="", guard=Guard(), limit=99)) == len(items)
        store.close()
    assert done


# -- paths and versions ----------------------------------------------------------------------------------------------------------------------


def test_a_file_a_strange_folder_and_a_strange_database_are_no_banks(tmp_path: Path) -> None:
    file = tmp_path / "bank.txt"
    file.write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        opened(file)
    with pytest.raises(UsageError, match=r"not a bank: it holds bank\.txt"):
        opened(tmp_path)
    lancedb.connect(tmp_path / "other").create_table("people", [{"name": "x"}])
    with pytest.raises(BankError, match="not a bank: it holds people"):
        opened(tmp_path / "other")
    with pytest.raises(BankError, match="no bank at"):
        opened(tmp_path / "none", create=False)
    assert not (tmp_path / "none").exists()


def test_a_bank_of_a_newer_layout_is_refused(tmp_path: Path) -> None:
    store = opened(tmp_path / "bank")
    store.tables.append(schema.META, [{"name": "schema", "value": schema.SCHEMA_VERSION + 1, "at": ""}])
    with pytest.raises(BankError, match=f"layout version {schema.SCHEMA_VERSION + 1}.*\n.*Upgrade"):
        opened(tmp_path / "bank")


def _make_older(path: Path) -> None:
    """Turn a bank into what version 0 looked like."""
    db = lancedb.connect(path)
    db.open_table("experiences").drop_columns(["base_commit", "agent"])
    db.drop_table("uses")
    db.open_table("meta").delete("true")
    db.open_table("meta").add([{"name": "schema", "value": 0, "at": ""}])


def test_an_older_bank_is_migrated_once_and_keeps_everything(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    learn(opened(tmp_path / "bank"), stored("a", unit(rng), number=1), txn="t1")
    _make_older(tmp_path / "bank")
    with pytest.raises(BankError, match="older layout version 0"):
        opened(tmp_path / "bank", read_only=True)
    for _ in range(2):
        store = opened(tmp_path / "bank")
        assert [e.issue.base_commit for e in store.experiences()] == [""]
        assert store.uses() == []
    learn(store, stored("b", unit(rng), number=2), txn="t2")
    assert [e.key for e in store.experiences()] == ["a", "b"]
    assert sorted(row["value"] for row in store.tables.rows("meta")) == [0, 1]


def test_a_bank_whose_making_was_cut_short_is_made_whole_by_the_next_open(tmp_path: Path) -> None:
    db = lancedb.connect(tmp_path / "bank")
    db.create_table("commits", schema=schema.commits_schema())
    with pytest.raises(BankError, match="interrupted"):
        opened(tmp_path / "bank", read_only=True)
    store = opened(tmp_path / "bank")
    learn(store, stored("a", unit(np.random.default_rng(0))), txn="t1")
    assert store.refresh() == 1


def test_reading_only_writes_nothing(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    learn(opened(tmp_path / "bank"), stored("a", unit(rng), number=1), txn="t1")

    def files() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in (tmp_path / "bank").rglob("*")}

    before = files()
    store = opened(tmp_path / "bank", read_only=True)
    assert len(store.search(vector=unit(rng), terms="", text="x", guard=Guard())) == len(store.items()) == 1
    store.search(vector=None, terms="", text="x", guard=Guard())
    assert files() == before


def test_a_clock_is_only_looked_at_where_it_is_passed_in(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    clock = Ticks()
    store = Store.open(tmp_path / "bank", identity=SMALL, at=clock(), txn="made")
    store.learn("learn", Batch((stored("a", unit(rng)),)), txn="t1", session="s", at=clock(), generation=1)
    assert [c.at for c in store.log.commits] == ["2026-01-01T00:00:01+00:00", "2026-01-01T00:00:02+00:00"]
