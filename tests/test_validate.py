"""What every draft must pass: limits, no copies, no names where none may be. Each reason is a sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest
from made_attempts import PATCH, made

from swe_memory.extract import clean_drafts, validate
from swe_memory.extract.names import code_words
from swe_memory.extract.validate import sentences
from swe_memory.records import ItemDraft

GOOD = ItemDraft(
    "A missing value reaches a length check",
    "An optional value has to be guarded where it is used.",
    "The length was taken of a value that may be absent. Guard it with `is None` and try it absent, empty and present.",
    "strategy",
    "success",
    "general",
)
NAMED = replace(
    GOOD,
    title="`count_boxes` fails for an empty shelf",
    content="In `boxes/shelf_count.py` the content may be absent. Run `bin/test` after a change.",
    reach="repository",
)


def test_a_fine_draft_has_no_reasons() -> None:
    assert validate(GOOD, made()) == ()
    assert validate(NAMED, made()) == ()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"title": ""}, "title is empty"),
        ({"title": "x" * 81}, "80 are allowed"),
        ({"title": "two\nlines here"}, "more than one line"),
        ({"description": " "}, "description is empty"),
        ({"description": "One sentence. And another one."}, "more than one sentence"),
        ({"content": ""}, "content is empty"),
        ({"content": "One is here. Two is here. Three is here. Four is here."}, "4 sentences"),
        ({"content": "Be careful."}, "too short"),
        ({"content": "word " * 300}, "900 are allowed"),
        ({"kind": "Not A Kind"}, "kind must be"),
        ({"content": "It is told at https://example.org/page how to guard a value that is absent."}, "web address"),
        ({"content": "This was done before in acme__boxes-17 and it should be done again."}, "instance or issue id"),
        ({"content": "This was done before in some__thing-4711 and it should be done again."}, "instance or issue id"),
        ({"content": "The change came with ticket #4711 and it should be done again so."}, "by its number"),
        ({"content": "Calling the counter for a shelf on which nothing stands needs a guard."}, "words in a row from the issue"),
        ({"content": "The value behind count_boxes may be absent and has to be guarded."}, "names from the repository: count_boxes"),
        ({"content": "The value in boxes/shelf_count.py may be absent and has to be guarded."}, "names from the repository"),
        ({"content": "The value of a BoxShelf may be absent and has to be guarded with care."}, "names from the repository: BoxShelf"),
        ({"content": "Everyone at Acme guards a value that may be absent before taking its length."}, "names from the repository: acme"),
        ({"content": "Always use `return len(content) + shelf.hidden_boxes_behind` for a length."}, "line of the attempt's patch"),
        ({"content": "The guard is `if content is None:` and nothing else in this case."}, "line of the attempt's patch"),
    ],
)
def test_what_breaks_a_limit_is_refused_with_a_sentence(change: dict[str, str], words: str) -> None:
    reasons = validate(replace(GOOD, **change), made())  # type: ignore[arg-type]
    assert any(words in reason for reason in reasons), reasons
    assert all(reason.endswith(".") and reason[0].isupper() for reason in reasons)


def test_a_patch_line_is_found_whatever_its_white_space() -> None:
    draft = replace(NAMED, content="The change was return   shelf.hidden_boxes_behind_the_curtain and that was all.")
    assert len("return shelf.hidden_boxes_behind_the_curtain") >= 40
    assert any("line of the attempt's patch" in reason for reason in validate(draft, made()))


@pytest.mark.parametrize(
    "text",
    ["`isinstance` and `dict.get` and `__eq__` raise `KeyError` at times.", "Use `json.dumps` or and/or logic, e.g. for a list of values."],
)
def test_the_languages_own_words_are_no_repository_names(text: str) -> None:
    assert validate(replace(GOOD, content=text), made()) == ()


def test_a_repository_item_may_name_what_a_general_one_may_not() -> None:
    assert validate(replace(NAMED, reach="general"), made()) != ()


def test_at_most_three_are_kept_in_order_and_twins_are_refused() -> None:
    drafts = [
        replace(GOOD, content=f"{GOOD.content} Number {word}.".replace(". Number", ", number")) for word in ("one", "two", "three", "four")
    ]
    accepted, rejected = clean_drafts([drafts[0], drafts[0], *drafts[1:]], made())
    assert [d.content for d in accepted] == [d.content for d in drafts[:3]]
    assert "same as another draft" in rejected[0].reason
    assert "already 3 items" in rejected[1].reason


def test_blanks_are_trimmed_before_checking() -> None:
    accepted, rejected = clean_drafts([replace(GOOD, title="  A  missing value\n reaches a length check ", kind=" Strategy ")], made())
    assert accepted[0].title == GOOD.title and accepted[0].kind == "strategy" and not rejected


def test_no_patch_and_no_issue_text_are_no_obstacle() -> None:
    attempt = made(patch=None)
    assert validate(GOOD, attempt) == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("One. Two. Three.", 3),
        ("Use `a.b. C` here.", 1),
        ("It took 0.5 s, e.g. on a laptop.", 1),
        ("See boxes/shelf.py for it", 1),
        ("Why? Because!", 2),
        ("", 0),
    ],
)
def test_sentences_are_counted_as_a_reader_would(text: str, count: int) -> None:
    assert len(sentences(text)) == count


def test_every_long_line_of_the_patch_is_refused_alone() -> None:
    for line in PATCH.splitlines():
        if line[:1] in "+-" and not line.startswith(("+++", "---")) and len(" ".join(line[1:].split())) >= 40:
            assert validate(replace(NAMED, content=f"This is what it looks like now: {line[1:].strip()}"), made())


@pytest.mark.parametrize("part", ["title", "description", "content"])
def test_a_draft_that_is_too_long_is_refused_for_that_alone_and_kept_short(part: str) -> None:
    """It is not read: no other reason is found in five million characters, whatever they are."""
    draft = replace(GOOD, **{part: "!a__b-1 #4711 " * 400_000})  # type: ignore[arg-type]
    (reason,) = validate(draft, made())
    assert reason.startswith(f"The {part} has 5600000 characters")
    accepted, (refused,) = clean_drafts([draft, GOOD], made())
    assert accepted == (GOOD,) and len(refused.text) <= 2_000 and "characters" in refused.reason


def test_of_thousands_of_drafts_the_first_are_looked_at_and_the_others_refused_together() -> None:
    accepted, rejected = clean_drafts([replace(GOOD, title="")] * 19 + [GOOD] + [NAMED] * 20_000, made())
    assert accepted == (GOOD,)
    assert len(rejected) == 20 and "20020 drafts" in rejected[-1].reason


@pytest.mark.parametrize("unit", ["y", "a-", "a.", "a/", "_", "A", "aA", "a_", "a.b ", "0", "a(", "é", "x.py", "a-."])
def test_a_long_word_is_read_in_one_pass(unit: str) -> None:
    """A pattern that starts anew at every letter would hang here; the time limit of the test run is the judge."""
    assert "CamelCase" in code_words(unit * 300_000 + " CamelCase")


def test_words_with_the_shape_of_code_are_found_and_python_and_prose_are_not() -> None:
    text = "In `-boxes/shelf.py` and /etc/boxes.cfg, my-mod.py and Shelf.count(x), len(x), read/write, json.dumps, a_b, GitHub, boxes/"
    assert code_words(text) == ("-boxes/shelf.py", "etc/boxes.cfg", "my-mod.py", "Shelf.count", "a_b")


@pytest.mark.parametrize("unit", ["a-__", "a.__", "-__a", "a__1-", "__-", "!", "`", ".)"])
def test_odd_drafts_within_the_limits_are_answered(unit: str) -> None:
    """As above: a draft may be as long as the limits allow and hold anything."""
    odd = [replace(GOOD, content=(unit * 900)[: 900 - cut], description=(unit * 300)[: 300 - cut]) for cut in range(10)]
    assert all(len(validate(draft, made())) < 5 for draft in odd)
