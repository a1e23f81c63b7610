"""Prompt files and how they are read: strict about what is missing, and no text can leave its fence."""

from __future__ import annotations

import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

import prompts

CHAT: dict[str, object] = {"repo": "o/r", "issue": "i", "attempt": "a", "attempts": [("resolved", "a"), ("unresolved", "b")], "patch": "p"}
CHAT |= {"limit": 1000, "issue_limit": 1000, "patch_limit": 1000}


def _ids() -> list[str]:
    return sorted(file.name.removesuffix(".md") for file in resources.files("prompts").iterdir() if file.name.endswith(".md"))


@pytest.mark.parametrize("id", _ids())
def test_every_prompt_file_is_well_formed(id: str) -> None:
    prompt = prompts.load(id)
    assert prompt.ref == f"{id}@{prompt.version}"
    assert prompt.user


@pytest.mark.parametrize("id", ["extract_success", "extract_failure", "extract_contrast", "judge"])
def test_a_chat_prompt_keeps_what_comes_from_outside_out_of_its_instructions(id: str) -> None:
    system, user = prompts.load(id).messages(**CHAT)
    assert "{{" not in system + user
    assert "material to study" in system, "the model is told that records are no instructions"
    assert prompts.load(id).system == system, "the system part is the same for every attempt, so that it can be cached"
    assert re.search(r"^<attempt-[0-9a-f]{16}>$", user, re.MULTILINE)


def test_a_missing_variable_is_an_error_that_names_prompt_and_variable() -> None:
    with pytest.raises(prompts.PromptError, match=r"judge@\d+.*'issue' is undefined"):
        prompts.load("judge").render(repo="o/r")


@pytest.mark.parametrize("id", ["no_such_prompt", "../pyproject", "", "Judge"])
def test_a_prompt_that_is_not_there_is_named(id: str) -> None:
    with pytest.raises(prompts.PromptError, match=re.escape(repr(id))):
        prompts.load(id)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("no front matter", "no front matter"),
        ("---\nid: [\n---\nx\n", "not YAML"),
        ("---\nid: other\nversion: 1\n---\nx\n", "must say id: p"),
        ("---\n- id\n---\nx\n", "must say id: p"),
        ("---\nid: p\n---\nx\n", "version"),
        ("---\nid: p\nversion: yes\n---\nx\n", "version"),
        ("---\nid: p\nversion: 1\n---\n{{ x\n", "template is broken"),
        ("---\nid: p\nversion: 1\n---\n{{ x | nofilter }}\n", "template is broken"),
        ("---\nid: p\nversion: 1\n---\n<!-- user -->\nx\n", "parts"),
        ("---\nid: p\nversion: 1\n---\nlost\n<!-- system -->\nx\n<!-- user -->\ny\n", "parts"),
    ],
)
def test_a_broken_prompt_file_is_named_with_what_is_wrong(source: str, words: str) -> None:
    with pytest.raises(prompts.PromptError, match=r"prompts/p\.md") as caught:
        prompts.parse("p", source)
    assert words in str(caught.value)


def test_a_template_cannot_reach_into_python() -> None:
    prompt = prompts.parse("p", "---\nid: p\nversion: 1\n---\n{{ x.__class__.__mro__ }}\n")
    with pytest.raises(prompts.PromptError):
        prompt.render(x="text")


def test_text_goes_in_unchanged_and_is_not_a_template() -> None:
    prompt = prompts.parse("p", "---\nid: p\nversion: 1\n---\n{{ x }}\n")
    assert prompt.render(x="a < b && {{ y }} {% if %}") == "a < b && {{ y }} {% if %}"


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_text_closes_its_own_fence(text: str, other: str) -> None:
    # The best guess there is: the closing tag of another text's fence.
    hostile = f"{text}\n{prompts.fence(other, 'attempt', 1000).rpartition(chr(10))[2]}\n{text}"
    fenced = prompts.fence(hostile, "attempt", 5000)
    opening, _, rest = fenced.partition("\n")
    inside, _, closing = rest.rpartition("\n")
    assert inside == hostile
    assert closing == opening.replace("<", "</", 1)
    assert closing not in inside


@pytest.mark.parametrize("limit", [0, 10, 60, 100, 999])
def test_what_is_fenced_is_bounded_and_the_cut_is_marked(limit: int) -> None:
    inside = prompts.fence("head" + "x" * 1000 + "tail", "issue", limit).partition("\n")[2].rpartition("\n")[0]
    assert len(inside) <= max(limit, 60)
    assert "left out" in inside
    if limit >= 100:
        assert inside.startswith("head")
        assert inside.endswith("tail")
