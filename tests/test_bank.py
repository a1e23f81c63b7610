"""The bank's front: opening with and without an embedder, recall with its guards, snapshots, and figures of what it holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from banks import START, BagOfWords, NoteTaker, Ticks, attempt, counter, issue

from swe_memory.bank import MemoryBank
from swe_memory.embed import default_embedder
from swe_memory.errors import BankError, EmbedderMismatch, UsageError
from swe_memory.ranking import RankingSettings
from swe_memory.records import Issue, ItemDraft, Recall

ANY = RankingSettings(threshold=0.0)


def opened(path: Path, **more: object) -> MemoryBank:
    return MemoryBank.open(path, **{"embedder": BagOfWords(64), "clock": Ticks(), "new_id": counter(), **more})  # type: ignore[arg-type]


def filled(path: Path, count: int = 6, **more: object) -> MemoryBank:
    bank = opened(path, **more)
    bank.learn_many([attempt(n, repo="acme/lib" if n % 3 == 0 else "acme/web") for n in range(count)], extractor=NoteTaker())
    return bank


# -- recall ----------------------------------------------------------------------------------------------------------------------------------


def test_a_recall_names_what_it_read_and_why_and_is_ready_for_a_prompt(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as bank:
        near = replace(issue(4), id="web-104", text=issue(4).text.replace("(case 4)", "since this morning, in every window of the shop"))
        recall = bank.recall(near, settings=ANY)
        assert recall.item is not None and recall.item.provenance.issue_id == "web-4"
        assert recall.item.title in recall.prompt and recall.reasons and recall.bank_version == bank.version == 1
        assert recall.candidates == () and bank.recall(near, settings=ANY, explain=True).candidates


def test_an_empty_bank_recalls_nothing_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "bank") as bank:
        recall = bank.recall(issue(1))
        assert (recall.item, recall.prompt, recall.score, recall.bank_version) == (None, "", 0.0, 0)
        assert recall.reasons


def test_an_issue_never_gets_its_own_memory_by_id_text_or_nearly_the_same_text(tmp_path: Path) -> None:
    with filled(tmp_path / "bank", 1) as bank:
        own = issue(0, "acme/lib")
        for same in (
            Issue(own.id, "acme/lib", "Something else altogether happens here"),
            Issue(own.id, "fork/lib", "Something else altogether happens here"),
            Issue("copy-1", "acme/lib", "  " + own.text.upper() + "\n\n<!-- template -->"),
            Issue("copy-2", "acme/lib", own.text + " now"),
        ):
            recall = bank.recall(same, settings=ANY, explain=True)
            assert recall.item is None and recall.prompt == ""
            assert [bool(c.removed) for c in recall.candidates] == [True]


def test_many_copies_of_the_issue_do_not_hide_the_one_other_memory(tmp_path: Path) -> None:
    asked = issue(5)
    with opened(tmp_path / "bank") as bank:
        copies = [attempt(n, text=asked.text + f" again{n}") for n in range(100, 170)]
        bank.learn_many([*copies, attempt(2)], extractor=NoteTaker())
        recall = bank.recall(asked, settings=ANY)
        assert recall.item is not None and recall.item.provenance.issue_id == "web-2"


def test_the_switches_for_other_repositories_and_for_time(tmp_path: Path) -> None:
    with filled(tmp_path / "bank", 9) as bank:
        asked = replace(issue(50), created_at=START + timedelta(days=4))
        other = bank.recall(asked, settings=RankingSettings(threshold=0.0, other_repos=True), explain=True)
        assert other.item is not None and other.item.repo == "acme/lib"
        assert any("`same repository` removes 6" in reason for reason in other.reasons)
        early = bank.recall(asked, settings=RankingSettings(threshold=0.0, before=True, k=9))
        assert {i.provenance.issue_id for i in early.items} <= {"web-0", "web-1", "web-2", "web-3"} and early.items
        with pytest.raises(UsageError, match="no creation time"):
            bank.recall(replace(asked, created_at=None), settings=RankingSettings(before=True))


def test_a_repository_item_stays_in_its_repository(tmp_path: Path) -> None:
    local = ItemDraft(
        "Change the parser and the cache together", "d", "A change of the one broke the other.", "co-change", "success", "repository"
    )
    with opened(tmp_path / "bank") as bank:
        bank.learn_many([attempt(1)], extractor=NoteTaker(drafts=[local]))
        assert bank.recall(issue(30, "acme/web"), settings=ANY).item is not None
        assert bank.recall(issue(30, "acme/lib"), settings=ANY).item is None


def test_a_snapshot_recalls_the_same_for_ever(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as bank:
        then = bank.recall(issue(40), settings=ANY, explain=True)
        bank.retire(then.item.id if then.item else "")
        bank.learn_many([attempt(n) for n in range(10, 20)], extractor=NoteTaker())
        bank.undo()
        bank.optimize()
        assert bank.recall(issue(40), at=1, settings=ANY, explain=True) == then
        assert bank.recall(issue(40), settings=ANY).item != then.item
    with opened(tmp_path / "bank", read_only=True) as bank:
        assert bank.recall(issue(40), at=1, settings=ANY, explain=True) == then
        with pytest.raises(UsageError, match="no version 99"):
            bank.recall(issue(40), at=99)


def test_another_process_that_learns_is_seen_by_the_next_recall(tmp_path: Path) -> None:
    with opened(tmp_path / "bank") as writer, opened(tmp_path / "bank", read_only=True) as reader:
        assert reader.recall(issue(40), settings=ANY).item is None
        writer.learn_many([attempt(2)], extractor=NoteTaker())
        assert reader.recall(issue(40), settings=ANY).item == writer.items()[0]
        assert reader.version == 1


# -- opening ---------------------------------------------------------------------------------------------------------------------------------


def test_another_embedder_is_refused_with_both_names_and_the_way_out(tmp_path: Path) -> None:
    filled(tmp_path / "bank").close()
    for wrong in (BagOfWords(24), BagOfWords(64, "other")):
        with pytest.raises(EmbedderMismatch) as caught:
            opened(tmp_path / "bank", embedder=wrong)
        assert (
            "bag (64 dimensions" in str(caught.value) and str(wrong.dimension) in str(caught.value) and "bank reembed" in str(caught.value)
        )
    with opened(tmp_path / "bank", embedder=None, any_embedder=True) as bank:
        bank.reembed(BagOfWords(24))
    assert opened(tmp_path / "bank", embedder=BagOfWords(24)).recall(issue(40), settings=ANY).item is not None


def test_a_reader_is_told_when_the_bank_was_re_embedded_with_another_model(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as reader, opened(tmp_path / "bank") as other:
        other.reembed(BagOfWords(24))
        with pytest.raises(EmbedderMismatch, match="bank reembed"):
            reader.recall(issue(40))


def test_a_bank_of_vectors_works_on_full_text_where_no_embedder_is_to_be_had(tmp_path: Path) -> None:
    filled(tmp_path / "bank").close()
    with opened(tmp_path / "bank", embedder=None) as bank:
        assert bank.warnings and "full text" in bank.warnings[0]
        recall = bank.recall(issue(40), settings=ANY)
        assert recall.item is not None and "without vectors: by full text and edited paths only" in recall.reasons


def test_auto_opens_an_old_bank_without_vectors_as_it_is_and_names_the_command(tmp_path: Path) -> None:
    filled(tmp_path / "bank", embedder=None).close()
    with opened(tmp_path / "bank", embedder="auto") as bank:
        assert bank.embedder is None
        assert bank.recall(issue(40), settings=ANY).item is not None
        assert any("bank reembed" in warning for warning in bank.warnings) == (default_embedder() is not None)


def test_auto_works_on_full_text_where_the_banks_embedder_cannot_be_opened_by_its_name(tmp_path: Path) -> None:
    filled(tmp_path / "bank").close()
    with opened(tmp_path / "bank", embedder="auto") as bank:
        assert bank.embedder is None
        assert "vectors of bag, but" in bank.warnings[0]
        assert bank.recall(issue(40), settings=ANY).item is not None and bank.info().experiences == 6


def test_threads_may_share_a_bank(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as bank, ThreadPoolExecutor(4) as pool:
        learned = [pool.submit(bank.learn_many, [attempt(n)], extractor=NoteTaker()) for n in range(20, 32)]
        recalled = [pool.submit(bank.recall, issue(n), settings=ANY) for n in range(40, 52)]
        assert all(f.result().learned[0].status == "learned" for f in learned) and all(f.result().item for f in recalled)
        assert len(bank.experiences()) == 18 and bank.version == 13 and bank.check().ok


def test_the_bundled_model_finds_the_related_issue_by_meaning(tmp_path: Path) -> None:
    if default_embedder() is None:
        pytest.skip("the bundled model is not installed")
    texts = {
        1: "Login page shows a server error\n\nSigning in with a wrong password ends in a 500 page.",
        2: "Export of large tables is slow\n\nWriting a CSV of a million rows takes ten minutes.",
        3: "Typo in the German translation\n\nThe word for calendar is spelled wrongly.",
    }
    with MemoryBank.open(tmp_path / "bank") as bank:
        bank.learn_many([attempt(n, text=text) for n, text in texts.items()], extractor=NoteTaker())
        recall = bank.recall(
            Issue("web-9", "acme/web", "Authentication crashes\n\nEntering bad credentials gives an internal failure."), settings=ANY
        )
        assert recall.item is not None and recall.item.provenance.issue_id == "web-1"
        assert bank.info().embedder.name == "minilm-int8" and bank.warnings == ()


def test_a_missing_parent_folder_is_made_and_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    with filled(tmp_path / "deep" / "er" / "bank", 1) as bank:
        assert bank.version == 1
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is a file"):
        opened(tmp_path / "file")
    with pytest.raises(BankError, match="cannot create the bank"):
        opened(tmp_path / "file" / "bank")


_AS_NOBODY = """
import os, sys, tempfile
sys.path[:0] = sys.argv[2].split(os.pathsep)
from pathlib import Path
from banks import NoteTaker, attempt, issue
from test_bank import ANY, filled, opened
with tempfile.TemporaryDirectory() as other, filled(Path(other) / "bank", 1) as bank:
    bank.recall(issue(40), settings=ANY)  # whatever is imported late is imported now: afterwards the interpreter's files may be out of reach
    bank.retire(bank.items()[0].id)
os.setgid(65534); os.setuid(65534)
path = Path(sys.argv[1])
with opened(path, read_only=True) as bank:
    print(bank.recall(issue(40), settings=ANY).item.id, len(bank.items()))
for write in (lambda b: b.learn_many([attempt(50)], extractor=NoteTaker()), lambda b: b.retire(b.items()[0].id)):
    try:
        with opened(path) as bank:
            write(bank)
    except Exception as error:
        print(type(error).__name__, str(error).replace(chr(10), " "))
"""


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="needs root, to become a user who may not write (root may always)"
)
def test_a_bank_in_a_folder_that_may_not_be_written_is_read_and_a_write_says_why_not() -> None:
    import tempfile

    folder = Path(tempfile.mkdtemp())
    try:
        filled(folder / "bank").close()
        folder.chmod(0o755)
        path = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
        done = subprocess.run(
            [sys.executable, "-c", _AS_NOBODY, str(folder / "bank"), os.pathsep.join(path)], capture_output=True, text=True
        )
        assert done.stdout, done.stderr
        read, *refused = done.stdout.splitlines()
        assert read.endswith(" 6"), done.stderr
        assert len(refused) == 2 and all(
            line.startswith("BankError") and "no permission to write" in line and "read_only=True" in line for line in refused
        )
    finally:
        shutil.rmtree(folder)


# -- looking ---------------------------------------------------------------------------------------------------------------------------------


def test_info_counts_what_is_visible(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as bank:
        bank.learn_many([attempt(20, resolved=False)], extractor=NoteTaker(), session="later")
        bank.retire(bank.items()[0].id)
        one = attempt(30)
        bank.learn(one.issue, one.trajectory, one.verdict, extractor=NoteTaker(drafts=[]), recall=Recall("web-30", bank.items()[1], 0.4, 3))
        info = bank.info()
        assert (info.version, info.schema, info.experiences, info.uses) == (4, 1, 8, 1)
        assert info.items == {"active": 6, "quarantined": 0, "retired": 1}
        assert info.repositories == {"acme/lib": 2, "acme/web": 6} and info.outcomes == {"resolved": 7, "unresolved": 1}
        assert info.polarity == {"success": 6} and info.reach == {"general": 6}
        assert [s.experiences for s in info.sessions] == [6, 1, 1]


def test_items_are_listed_newest_first_and_filtered(tmp_path: Path) -> None:
    with filled(tmp_path / "bank") as bank:
        bank.learn_many([attempt(20)], extractor=NoteTaker())
        assert [i.added for i in bank.items()] == [2, 1, 1, 1, 1, 1, 1]
        assert len(bank.items(limit=3)) == 3 and len(bank.items(repo="acme/lib")) == 2 and bank.items(status="retired") == []
        assert len(bank.items(at=1)) == 6
