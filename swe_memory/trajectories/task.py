"""The issue inside the task text: agents wrap their own instructions around it, and those are the same for every issue."""

from __future__ import annotations

import re

MAX_ISSUE_CHARS = 2_000_000
"""Longest issue text kept; real ones have a few thousand characters. The end of a longer one is cut off."""

# (opening mark, leading words to drop, closing mark, whether the *last* closing mark counts: an issue may quote a tag). "" closes at the end.
_WRAPPERS = (
    ("<pr_description>", "Consider the following PR description:", "</pr_description>", True),  # mini-SWE-agent, SWE-agent 1.x
    ("<issue_description>", "", "</issue_description>", True),  # OpenHands
    ("Here's the issue text:\nISSUE:\n", "", "\nINSTRUCTIONS:\n", False),  # SWE-agent 0.x
    ("Here's the issue text:\nISSUE:\n", "", "", False),
    ("Please solve this issue:", "", "\nYou can execute bash commands and edit files to implement", False),  # mini-SWE-agent's default
)
# What `recall` adds to a task is about other issues (prompts/memory_block.md): its heading, its introduction, its fence.
_MEMORY_HEADING = "## Notes from past attempts\n"
_MEMORY_TAG = re.compile(r"<past-attempts-([0-9a-f]{16})>")
_INTRODUCTION = 1000  # characters, at most, between heading and fence
_MOST_BLOCKS = 20


def issue_text(task: str) -> str:
    """The issue without the agent's instructions and without recalled memory; the whole task where no known wrapper is found.

    At most ``MAX_ISSUE_CHARS`` characters, stripped. Linear in the length of the task: plain searches, no backtracking.
    """
    task = _without_memory(task)
    for opening, lead, closing, last in _WRAPPERS:
        start = task.find(opening)
        if start < 0:
            continue
        start += len(opening)
        end = len(task) if not closing else task.rfind(closing, start) if last else task.find(closing, start)
        text = task[start:end].strip().removeprefix(lead).strip() if end >= 0 else ""
        if text:
            return text[:MAX_ISSUE_CHARS]
    return task.strip()[:MAX_ISSUE_CHARS]


def _without_memory(task: str) -> str:
    kept: list[str] = []
    position = 0
    for _ in range(_MOST_BLOCKS):
        tag = _MEMORY_TAG.search(task, position)
        closing = f"</past-attempts-{tag.group(1)}>" if tag else ""
        end = task.find(closing, tag.end()) if tag else -1
        if tag is None or end < 0:
            break
        heading = task.rfind(_MEMORY_HEADING, max(position, tag.start() - _INTRODUCTION), tag.start())
        kept.append(task[position : heading if heading >= 0 else tag.start()])
        position = end + len(closing)
    return "".join([*kept, task[position:]])
