"""The issue inside the task text: agents wrap their own instructions around it, and those are the same for every issue."""

from __future__ import annotations

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
# What `recall` adds to a task is about other issues (see prompts/memory_block.md).
_MEMORY_OPEN, _MEMORY_CLOSE = "<past-attempts>", "</past-attempts>"


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
    while (start := task.find(_MEMORY_OPEN, position)) >= 0 and (end := task.find(_MEMORY_CLOSE, start)) >= 0:
        kept.append(task[position:start])
        position = end + len(_MEMORY_CLOSE)
    return "".join([*kept, task[position:]])
