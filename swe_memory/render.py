"""Items as a block for a prompt: bounded, fenced, marked as information from past attempts that may not apply. The wording is in prompts/memory_block.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from swe_memory.errors import UsageError
from swe_memory.records import MemoryItem
from swe_memory.safety import clean

CHARS_PER_TOKEN = 4.5
"""Rough figure for English prose with some code in it; tokenizers differ by a fifth either way."""

_TAG = re.compile(r"<(?=\s*/?\s*past-attempts)", re.IGNORECASE)
_CUT = " […]"


def render(items: Sequence[MemoryItem], *, max_chars: int = 2000) -> str:
    """The block for these items, best first; "" for no items.

    Never longer than ``max_chars`` characters (2,000 are some 400 tokens, an estimate at ``CHARS_PER_TOKEN``), and always with its closing tag: items that
    do not fit are left out from the end, and a first item that does not fit alone has its content cut, then its description and title. What an item says
    cannot close the fence: the tag carries a hash of the text within. The block names no issue.

    Raises UsageError where ``max_chars`` is too small for the frame and a title.
    """
    return _render(tuple(items), max_chars) if items else ""


def frame() -> str:
    """The block without any note: the same heading and introduction, and a fence with nothing in it. What a placebo shows."""
    return _block([])


def estimate_block_tokens(block: str) -> int:
    """About how many tokens a block costs in every call: an estimate from its length."""
    return round(len(block) / CHARS_PER_TOKEN)


@lru_cache(maxsize=512)
def _render(items: tuple[MemoryItem, ...], max_chars: int) -> str:
    notes = [_note(item) for item in items]
    while len(notes) > 1 and len(_block(notes)) > max_chars:
        notes.pop()
    block = _block(notes)
    for part in ("content", "description", "title"):
        excess = len(block) - max_chars
        if excess <= 0:
            break
        keep = len(notes[0][part]) - excess - len(_CUT)
        notes[0][part] = notes[0][part][:keep].rstrip() + _CUT if keep > 0 else ("" if part != "title" else _CUT.strip())
        block = _block(notes)
    if len(block) > max_chars:
        raise UsageError(
            f"a memory block of at most {max_chars} characters has no room for a note: its frame alone takes about {len(block)}",
            "Allow 1000 characters or more; the default is 2000.",
        )
    return block


def _block(notes: list[dict[str, Any]]) -> str:
    from prompts import load  # jinja2 and yaml: only where a block is made

    return load("memory_block").render(items=notes, limit=10**9)


def _note(item: MemoryItem) -> dict[str, Any]:
    return {
        "title": _line(item.title),
        "description": _line(item.description),
        "content": _line(item.content),
        "polarity": item.polarity,
        "reach": item.reach,
        "repo": _line(item.repo)[:100],
        "source": item.provenance.verdict_source,
    }


def _line(text: str) -> str:
    """One line, nothing invisible, and nothing that looks like our tag even without its code."""
    return _TAG.sub("‹", " ".join(clean(text).split()))
