"""The placebos: yoked to what memory recalled, never the issue's own, every guard kept, and the same bytes each time."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
from banks import START, WORDS, BagOfWords, Ticks, attempt, counter, issue
from hypothesis import given, settings
from hypothesis import strategies as st
from made_attempts import FAIL_STEPS, made
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from small_attempt import small_attempt

import prompts
from harness.controls import derangement, neutral, preamble
from swe_memory.bank import MemoryBank
from swe_memory.errors import UsageError
from swe_memory.extract.rules import RulesExtractor
from swe_memory.ranking import RankingSettings, normalise
from swe_memory.records import Attempt, Extraction, Issue, ItemDraft, MemoryItem, Provenance, Recall
from swe_memory.render import frame, render
from swe_memory.safety import hostile, redact

ANY = RankingSettings(threshold=0.0)
ALL = RankingSettings(threshold=0.0, k=100)
REPOS = ("acme/web", "acme/lib", "acme/shop")


THINGS = "candle ladder meadow pebble kettle lantern basket anchor feather walnut saddle velvet copper willow harbour thimble".split()  # noqa: SIM905


class Lessons:
    """Two lessons from each attempt, in words of their own: one for its repository, one for all."""

    name = "lessons@1"

    def extract(self, attempt: Attempt) -> Extraction:
        number = int(attempt.issue.id.rpartition("-")[2])
        one, two, thing = WORDS[number % len(WORDS)], WORDS[(number * 5 + 1) % len(WORDS)], THINGS[number % len(THINGS)]
        local = f"The {one} and the {two} change together", "A change to one of them.", f"Look at the {one} whenever the {two} is changed."
        general = f"Think of the {thing} first", "When it is unclear what is wrong.", f"Whatever else there is comes out of the {thing}."
        return Extraction((ItemDraft(*local, "scope", "success", "repository"), ItemDraft(*general, "scope", "failure", "general")))


def opened(path: Path) -> MemoryBank:
    return MemoryBank.open(path, embedder=BagOfWords(64), clock=Ticks(), new_id=counter())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryBank]:
    """Fifteen past issues of three repositories, thirty items."""
    with opened(tmp_path_factory.mktemp("controls") / "bank") as found:
        found.learn_many([attempt(n, repo=REPOS[n % 3]) for n in range(15)], extractor=Lessons())
        yield found


def asked(number: int, repo: str = "acme/web", text: str | None = None) -> Issue:
    """An issue that is not in the bank, and not like any there."""
    more = f"It began {number} days ago with the last release of the shop, and nobody who works with it every day can say what makes it come and go."
    return replace(
        issue(number, repo, text or f"{issue(number).text}\n\n{more}"), id=f"new-{number}", created_at=START + timedelta(days=number)
    )


def recall_of(target: Issue, *items: MemoryItem, version: int = 1) -> Recall:
    return Recall(target.id, items[0] if items else None, 0.5 if items else 0.0, version, ("near",), render(items), items, settings="k=1")


def words(recall: Recall) -> set[str]:
    return {normalise(item.text) for item in recall.items}


def exchanged(recall: Recall) -> bool:
    return any(" recalled for " in reason for reason in recall.reasons)


def tags(block: str) -> list[str]:
    return re.findall(r"<\s*/?\s*past-attempts[^>]*>", block, re.IGNORECASE)


# -- what an issue may be given ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"other_repos": True}, {"before": True}, {"before": START + timedelta(days=7)}], ids=str)
def test_what_an_issue_may_be_given_is_what_a_recall_of_everything_gives(bank: MemoryBank, more: dict[str, object]) -> None:
    chosen = replace(ALL, **more)  # type: ignore[arg-type]
    targets = [
        asked(40),
        replace(asked(41, "acme/lib"), created_at=START + timedelta(days=5)),
        asked(42, "other/one"),
        issue(3, "acme/web"),  # in the bank, by its id
        replace(issue(4), id="WEB-4"),
        asked(43, text=issue(6).text.upper()),  # by its text
        asked(44, text=issue(7).text + " now"),  # by nearly its text
        asked(45, text="?"),
    ]
    allowed = bank.allowed(targets, settings=chosen)
    assert list(allowed) == [target.id for target in targets]
    for target in targets:
        assert allowed[target.id] == {item.id for item in bank.recall(target, settings=chosen).items}
    if not more:
        assert [len(allowed[target.id]) for target in targets] == [20, 20, 15, 18, 19, 18, 19, 20]


def test_what_may_be_given_is_as_of_a_version_and_without_what_is_not_active(tmp_path: Path) -> None:
    with opened(tmp_path / "bank") as own:
        own.learn_many([attempt(1)], extractor=Lessons())
        own.learn_many([attempt(2)], extractor=Lessons())
        own.retire(own.items(at=1)[0].id)
        target = asked(40)
        assert [len(own.allowed([target], at=version)[target.id]) for version in (0, 1, 2, 3)] == [0, 2, 4, 3]
        assert own.allowed([]) == {}
        with pytest.raises(UsageError, match="no creation time"):
            own.allowed([replace(target, created_at=None)], settings=RankingSettings(before=True))


# -- derangement -----------------------------------------------------------------------------------------------------------------------------

TARGETS = {one.id: one for one in (asked(40 + n, (*REPOS, "solo/one")[n % 4 if n < 4 else n % 3]) for n in range(13))}


def possible(recalls: Mapping[str, Recall], allowed: Mapping[str, frozenset[str]], repo: str) -> int:
    """How many issues of a repository can take part in an exchange, found by another method."""
    names = [name for name in TARGETS if TARGETS[name].repo == repo and recalls[name].prompt]
    if not names:
        return 0
    edges = [
        [words(recalls[to]).isdisjoint(words(recalls[of])) and {item.id for item in recalls[of].items} <= allowed[to] for of in names]
        for to in names
    ]
    return int((maximum_bipartite_matching(csr_array(np.array(edges, dtype=np.int8)), perm_type="column") >= 0).sum())


@settings(max_examples=40, deadline=None)  # a real bank, and other work on the machine
@given(st.data(), st.integers(0, 9), st.sampled_from([1, 1, 2, 3]), st.sampled_from([30, 6, 2]))
def test_nobody_gets_its_own_the_guards_hold_and_as_many_as_possible_exchange(
    bank: MemoryBank, data: st.DataObject, seed: int, most: int, variety: int
) -> None:
    allowed = bank.allowed(list(TARGETS.values()), settings=ANY)
    items = sorted(bank.items(), key=lambda item: item.id)
    recalls = {}
    for name, target in TARGETS.items():
        mine = [item for item in items if item.id in allowed[name]][:variety]
        recalls[name] = recall_of(target, *data.draw(st.lists(st.sampled_from(mine), max_size=most, unique=True)))
    found = derangement(recalls, TARGETS, bank, settings=ANY, seed=seed)

    assert found.keys() == recalls.keys()
    for name, recall in found.items():
        assert bool(recall.prompt) == bool(recalls[name].prompt)
        assert (recall.issue_id, recall.bank_version, recall.settings) == (name, 1, "k=1")
        assert recall.reasons and recall.reasons[0].startswith("derangement: ")
        assert recall.item == (recall.items[0] if recall.items else None)
        assert recall.prompt == render(recall.items)
        assert {item.id for item in recall.items} <= allowed[name]
        assert words(recall).isdisjoint(words(recalls[name]))
    for repo in {target.repo for target in TARGETS.values()}:
        names = [name for name in TARGETS if TARGETS[name].repo == repo and recalls[name].prompt]
        took_part = [name for name in names if exchanged(found[name])]
        assert len(took_part) == possible(recalls, allowed, repo)
        given_out = Counter(recalls[name].items for name in names)
        assert Counter(found[name].items for name in took_part) <= given_out
        if len(took_part) == len(names):
            assert Counter(found[name].items for name in names) == given_out, "the same items, to others"
    backwards = {name: recalls[name] for name in reversed(recalls)}
    assert derangement(backwards, dict(reversed(TARGETS.items())), bank, settings=ANY, seed=seed) == found


def test_the_seed_decides_who_gets_what(bank: MemoryBank) -> None:
    targets = {one.id: one for one in (asked(n) for n in range(60, 68))}
    local = bank.items(repo="acme/web")[:8]
    recalls = {name: recall_of(target, item) for (name, target), item in zip(targets.items(), local, strict=True)}
    drawn = {tuple(r.items for r in derangement(recalls, targets, bank, settings=ANY, seed=seed).values()) for seed in range(8)}
    assert len(drawn) > 4


def test_an_item_of_the_same_past_issue_is_given_only_where_there_is_no_other_way(bank: MemoryBank) -> None:
    by_issue: dict[str, list[MemoryItem]] = {}
    for item in bank.items(repo="acme/web"):
        by_issue.setdefault(item.provenance.issue_id, []).append(item)
    (first, other), (third, fourth) = list(by_issue.values())[:2]
    targets = [asked(n) for n in range(60, 64)]
    issues = {one.id: one for one in targets}
    recalls = {t.id: recall_of(t, item) for t, item in zip(targets, (first, other, third, fourth), strict=True)}
    for seed in range(6):
        for name, recall in derangement(recalls, issues, bank, settings=ANY, seed=seed).items():
            assert recall.item and recalls[name].item
            assert recall.item.provenance.issue_id != recalls[name].item.provenance.issue_id
    two = {t.id: recalls[t.id] for t in targets[:2]}
    swapped = derangement(two, issues, bank, settings=ANY, seed=0)
    assert [recall.item for recall in swapped.values()] == [other, first]
    assert all("same past issue" in recall.reasons[1] for recall in swapped.values())


def test_a_lone_issue_of_its_repository_gets_another_item_of_the_bank_and_says_so(bank: MemoryBank) -> None:
    target = asked(60)
    own = next(item for item in bank.items(repo="acme/web"))
    (found,) = derangement({target.id: recall_of(target, own)}, {target.id: target}, bank, settings=ANY, seed=1).values()
    assert found.item and found.item.repo == "acme/web" and found.item.provenance.issue_id != own.provenance.issue_id
    assert "of the bank, learned in acme/web" in found.reasons[0] and "no issue of acme/web is left" in found.reasons[0]


def test_where_all_got_the_same_item_nobody_keeps_it_and_the_next_are_from_the_same_repository_first(bank: MemoryBank) -> None:
    targets = {one.id: one for one in (asked(n) for n in range(60, 64))}
    same = next(item for item in bank.items(repo="acme/web") if item.reach == "general")
    found = derangement({name: recall_of(t, same) for name, t in targets.items()}, targets, bank, settings=ANY, seed=1)
    assert all(recall.item and recall.item.id != same.id and recall.item.repo == "acme/web" for recall in found.values())
    elsewhere = {name: replace(target, repo="else/where") for name, target in targets.items()}
    found = derangement({name: recall_of(t, same) for name, t in elsewhere.items()}, elsewhere, bank, settings=ANY, seed=1)
    assert all(recall.item and recall.item.reach == "general" and recall.item.id != same.id for recall in found.values())


def test_an_item_in_the_words_of_its_own_is_its_own(tmp_path: Path) -> None:
    class Parrot:
        name = "parrot@1"

        def extract(self, attempt: Attempt) -> Extraction:
            return Extraction(
                (
                    ItemDraft(
                        "Look twice at what was changed",
                        "In every case.",
                        "A second look finds what the first one has passed over.",
                        "scope",
                        "success",
                        "general",
                    ),
                )
            )

    with opened(tmp_path / "bank") as own:
        own.learn_many([attempt(n) for n in range(3)], extractor=Parrot())
        targets = {one.id: one for one in (asked(n) for n in range(60, 63))}
        recalls = {name: recall_of(t, item) for (name, t), item in zip(targets.items(), own.items(), strict=True)}
        for recall in derangement(recalls, targets, own, settings=ANY, seed=1).values():
            assert recall.item is None and "Look twice at" not in recall.prompt and "neutral text of the same length" in recall.reasons[0]


def test_where_the_guards_allow_nothing_neutral_text_keeps_the_yoke(tmp_path: Path) -> None:
    with opened(tmp_path / "bank") as own:
        own.learn_many([attempt(1), attempt(2)], extractor=Lessons())
        first = next(item for item in own.items() if item.provenance.issue_id == "web-1")
        target = replace(asked(60, text=issue(2).text + " again"), created_at=START)
        recalls = {target.id: recall_of(target, first)}
        strict = replace(ANY, before=True)
        (found,) = derangement(recalls, {target.id: target}, own, settings=strict, seed=1).values()
        assert found.item is None and found.items == () and found.prompt
        assert abs(len(found.prompt) - len(recalls[target.id].prompt)) <= 12
        assert "nor is there another item in the bank" in found.reasons[0]


def test_an_issue_is_not_given_what_was_learned_from_itself_under_another_name(bank: MemoryBank) -> None:
    """Rule 1, by id and by text: two issues that could exchange, were the one not the past issue that the other's item is from."""
    learned = {item.provenance.issue_id: item for item in bank.items(repo="acme/web") if item.reach == "repository"}
    for copy in (
        asked(61, text=issue(3).text + " now"),
        asked(61, text=f"\n{issue(3).text}  "),
        replace(issue(3), text="Quite another thing"),
    ):
        targets = {one.id: one for one in (asked(60), copy)}
        recalls = {"new-60": recall_of(targets["new-60"], learned["web-3"]), copy.id: recall_of(copy, learned["web-6"])}
        for seed in range(4):
            found = derangement(recalls, targets, bank, settings=ANY, seed=seed)
            assert found["new-60"].item == learned["web-6"]
            given_to_copy = found[copy.id].item
            assert given_to_copy is not None and given_to_copy.provenance.issue_id not in ("web-3", "web-6")


def test_the_switches_of_the_settings_hold_for_what_is_exchanged(bank: MemoryBank) -> None:
    targets = {one.id: replace(one, created_at=START + timedelta(days=6)) for one in (asked(n) for n in range(60, 66))}
    for chosen in (replace(ANY, before=True), replace(ANY, other_repos=True)):
        recalls = {name: bank.recall(target, settings=chosen) for name, target in targets.items()}
        assert all(recall.prompt for recall in recalls.values())
        for recall in derangement(recalls, targets, bank, settings=chosen, seed=3).values():
            assert recall.item is not None
            if chosen.other_repos:
                assert recall.item.repo != "acme/web"
            else:
                assert int(recall.item.provenance.issue_id.rpartition("-")[2]) < 6


# -- preamble and neutral --------------------------------------------------------------------------------------------------------------------

ITEM = MemoryItem(
    "i", "t", "d", "c", "scope", "failure", "repository", "acme/web", Provenance("k", "web-1", "", "tests", "unresolved", "rules@1")
)


def sentence(size: int) -> str:
    """Plain words of so many characters together."""
    return ("word and another " * (size // 17 + 1))[:size].strip().ljust(size, "x")


def test_the_preamble_is_the_frame_of_memory_and_holds_no_note() -> None:
    targets = [asked(60), asked(61)]
    recalls = {targets[0].id: recall_of(targets[0], ITEM), targets[1].id: recall_of(targets[1])}
    found = preamble(recalls)
    block, memory = found["new-60"].prompt, recalls["new-60"].prompt
    opening, closing = tags(block)
    assert closing == opening.replace("<", "</") and block.endswith(f"{opening}\n\n{closing}")
    assert block == frame() and memory.startswith(block[: block.index(opening)])
    assert found["new-60"].item is None and found["new-60"].items == () and found["new-60"].bank_version == 1
    assert found["new-60"].reasons == ("preamble: the frame of a memory block with nothing in it",)
    assert found["new-61"].prompt == "" and "recalled nothing" in found["new-61"].reasons[0]


sizes = st.tuples(st.integers(12, 120), st.integers(20, 600), st.integers(20, 2000))


@settings(max_examples=300, deadline=None)
@given(st.lists(sizes, min_size=1, max_size=4), st.integers(0, 10**6), st.sampled_from(["success", "failure", "contrast"]), st.booleans())
def test_neutral_text_is_as_long_as_the_memory_it_stands_for_and_says_nothing_of_it(
    parts: list[tuple[int, int, int]], seed: int, polarity: str, local: bool
) -> None:
    items = [
        replace(
            ITEM,
            id=str(number),
            title=sentence(title),
            description=sentence(description),
            content=sentence(content),
            polarity=polarity,  # type: ignore[arg-type]
            reach="repository" if local else "general",
        )
        for number, (title, description, content) in enumerate(parts)
    ]
    recall = recall_of(asked(60), *items)
    (found,) = neutral({"new-60": recall}, seed=seed).values()
    assert 0 <= len(recall.prompt) - len(found.prompt) <= 8, "2 % of the shortest block there is"
    assert (found.item, found.items, found.bank_version, found.score) == (None, (), 1, 0.0)
    assert (
        "word and another" not in found.prompt
        and hostile(found.prompt.split("<past-attempts")[1].partition(">")[2].rpartition("<")[0]) == ""
    )
    assert redact(found.prompt)[1] == 0
    opening, closing = tags(found.prompt)
    assert closing == opening.replace("<", "</") and found.prompt.endswith(closing)
    head = recall.prompt.index("<past-attempts")
    assert found.prompt[:head] == recall.prompt[:head]
    marks = r"^\d\. |^   \(learned from .*\)$"
    assert re.findall(marks, found.prompt, re.MULTILINE) == re.findall(marks, recall.prompt, re.MULTILINE), (
        "as many notes, of the same origin"
    )


@given(st.integers(1, 60), st.integers(0, 60), st.integers(0, 3))
def test_neutral_text_of_odd_little_items_stays_near_their_length(title: int, description: int, seed: int) -> None:
    recall = recall_of(asked(60), replace(ITEM, title=sentence(title), description=sentence(description), content=""))
    (found,) = neutral({"new-60": recall}, seed=seed).values()
    assert 0 <= len(recall.prompt) - len(found.prompt) <= 24 and len(tags(found.prompt)) == 2


def test_neutral_text_over_what_the_rules_really_learn_keeps_within_two_per_cent(tmp_path: Path) -> None:
    tried = [made(), made(FAIL_STEPS, "unresolved"), small_attempt(), small_attempt("unresolved"), *(attempt(n) for n in range(12))]
    with opened(tmp_path / "bank") as own:
        own.learn_many(tried, extractor=RulesExtractor())
        for chosen in (ANY, replace(ANY, k=3), replace(ANY, grain="experience")):
            targets = [asked(n, repo) for n in range(70, 80) for repo in ("acme/web", "acme/boxes", "other/one")]
            recalls = {f"{target.repo} {target.id}": own.recall(target, settings=chosen) for target in targets}
            assert sum(bool(recall.prompt) for recall in recalls.values()) > 20
            for name, recall in neutral(recalls, seed=5).items():
                assert bool(recall.prompt) == bool(recalls[name].prompt)
                assert abs(len(recall.prompt) - len(recalls[name].prompt)) <= 0.02 * len(recalls[name].prompt)


def test_neutral_text_follows_from_seed_and_issue_alone() -> None:
    targets = [asked(n) for n in range(60, 66)]
    recalls = {target.id: recall_of(target, replace(ITEM, content=sentence(300))) for target in targets}
    found = neutral(recalls, seed=1)
    assert neutral(dict(reversed(recalls.items())), seed=1) == found
    assert neutral({"new-63": recalls["new-63"]}, seed=1)["new-63"] == found["new-63"]
    assert len({recall.prompt for recall in found.values()}) == 6
    assert neutral(recalls, seed=2)["new-63"] != found["new-63"]


def test_neutral_text_where_nothing_was_recalled_is_nothing_and_text_that_is_no_block_still_gets_some() -> None:
    target = asked(60)
    assert neutral({"a": recall_of(target)}, seed=1)["a"].prompt == ""
    odd = replace(recall_of(target), prompt="short")
    assert neutral({"a": odd}, seed=1)["a"].prompt == frame()
    long = replace(recall_of(target), prompt="x" * 900)
    assert 880 <= len(neutral({"a": long}, seed=1)["a"].prompt) <= 900


def test_more_text_than_there_is_advice_uses_it_again() -> None:
    (found,) = neutral({"a": replace(recall_of(asked(60), ITEM), prompt="x" * 9000)}, seed=1).values()
    assert 8990 <= len(found.prompt) <= 9000


def test_the_advice_is_plain_prose_that_names_nothing() -> None:
    lines = prompts.load("neutral").render().split("\n")
    assert len(lines) >= 40 and len(set(lines)) == len(lines)
    for line in lines:
        assert re.fullmatch(r"[A-Z][a-z]*(?:,? [a-z]+)+\.", line), "words only: no names, numbers, code or quotes"
        assert 20 <= len(line) <= 80
    told = {word for line in lines for word in re.findall(r"[a-z]+", line.lower())}
    faults = re.compile(
        r"\b(?:tests?|bugs?|errors?|fault|fail\w*|files?|functions?|modules?|class|import|cache|parser|values?|run|edit|patch)\b"
    )
    assert not [line for line in lines if faults.search(line)]
    assert max(map(len, told)) <= 12
