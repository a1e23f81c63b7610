"""A long attempt in few words: deterministic, bounded, and honest about what it left out.

Kept in this order of importance: the issue, the end, the changed hunks, failing outputs and the last output, every thought and command. Each
is shortened as the budget needs, longest things first; whatever was cut is marked with how much it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..records import Attempt
from .signals import Signals, signals, thought_of

DEFAULT_BUDGET = 12_000
STORED_BUDGET = 500
_BYTES_PER_TOKEN = 3


def estimate_tokens(text: str) -> int:
    """Tokens that a text takes, as an estimate: one for each 3 bytes of UTF-8, rounded up.

    Language-model tokenizers make about one token of 4 characters of English and of 3 to 4 of code, so this errs on the high side for both.
    """
    return -(-len(text.encode("utf-8", "replace")) // _BYTES_PER_TOKEN)


def shorten(text: str, limit: int) -> str:
    """At most ``limit`` characters: two thirds from the start, one third from the end, and a mark that says how much is missing between."""
    if len(text) <= limit:
        return text
    room = limit - len(f" [... {len(text):,} characters left out] ")
    if room < 24:
        return text[: max(limit, 0)]
    head = room * 2 // 3
    tail = room - head
    return f"{text[:head].rstrip()} [... {len(text) - head - tail:,} characters left out] {text[-tail:].lstrip()}"


@dataclass(frozen=True, slots=True)
class _Caps:
    """Most characters of each part, at one rung of the ladder."""

    issue: int
    hunks: int
    thought: int
    command: int
    failing: int
    output: int
    final: int


def _ladder(budget: int) -> list[_Caps]:
    """From generous to bare; every rung is at most three quarters of the one before in the parts that there are many of."""
    size = budget * _BYTES_PER_TOKEN
    rungs = []
    scale = 1.0
    while scale > 0.03:
        rungs.append(
            _Caps(
                issue=int(size * 0.24),
                hunks=int(size * 0.24),
                thought=int(4000 * scale),
                command=int(3000 * scale),
                failing=int(3000 * scale),
                output=int(1200 * scale) if scale > 0.2 else 0,
                final=int(size * 0.12),
            )
        )
        scale *= 0.75
    return rungs


def digest(attempt: Attempt, budget_tokens: int = DEFAULT_BUDGET) -> str:
    """The attempt as text of at most ``budget_tokens`` by :func:`estimate_tokens`. The verdict is left out: who reads this may be asked for it.

    Same attempt and budget, same bytes. A budget of 0 or less gives "".
    """
    if budget_tokens <= 0:
        return ""
    found = signals(attempt.issue, attempt.trajectory)
    rungs = _ladder(budget_tokens)
    low, high = 0, len(rungs) - 1
    while low < high:
        middle = (low + high) // 2
        if estimate_tokens(_render(attempt, found, rungs[middle], None)) <= budget_tokens:
            high = middle
        else:
            low = middle + 1
    text = _render(attempt, found, rungs[low], None)
    if estimate_tokens(text) <= budget_tokens:
        return text
    for keep in (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1, 0):
        text = _render(attempt, found, rungs[-1], _important(found, keep))
        if estimate_tokens(text) <= budget_tokens:
            return text
    limit = budget_tokens * _BYTES_PER_TOKEN
    cut = shorten(text, limit)
    while estimate_tokens(cut) > budget_tokens:
        limit = limit * 3 // 4
        cut = shorten(text, limit)
    return cut


def _important(found: Signals, keep: int) -> frozenset[int]:
    """The steps to keep when not all fit: the last source edits, then the last checks, then from the end backwards."""
    total = len(found.trajectory.steps)
    order = [e.step for e in reversed(found.edits)][: keep // 2]
    order += [e.step for e in reversed(found.checks)][: keep // 2]
    order += list(range(total - 1, -1, -1))
    return frozenset(list(dict.fromkeys(order))[:keep])


def _render(attempt: Attempt, found: Signals, caps: _Caps, only: frozenset[int] | None) -> str:
    issue, trajectory = attempt.issue, attempt.trajectory
    blocks = [f"ISSUE {issue.id} ({issue.repo})".strip(), shorten(issue.text.strip(), caps.issue)]
    end = f"END {trajectory.exit_status or 'not said'} after {trajectory.calls:,} calls and {trajectory.actions:,} commands"
    blocks.append(end)
    # The summary is rarely the very last thought ("ready to submit"): the longest of the last four is.
    final = max((thought_of(step.thought) for step in trajectory.steps[-4:]), key=len, default="")
    if final:
        blocks.append("SUMMARY " + shorten(" ".join(final.split()), caps.final))
    if trajectory.patch:
        blocks.append("CHANGES\n" + shorten(_hunks(trajectory.patch), caps.hunks))
    elif trajectory.patch == "":
        blocks.append("CHANGES none")
    blocks.append("STEPS")
    blocks.extend(_steps(found, caps, only))
    return "\n".join(blocks)


def _hunks(patch: str) -> str:
    """The patch without what says nothing about the change: index and mode lines, and the second of the two file lines."""
    skip = ("index ", "--- ", "+++ ", "new file mode", "deleted file mode", "old mode", "new mode", "similarity index")
    lines = [line for line in patch.splitlines() if not line.startswith(skip)]
    return "\n".join("file " + line.split(" b/", 1)[-1] if line.startswith("diff --git a/") else line for line in lines)


def _steps(found: Signals, caps: _Caps, only: frozenset[int] | None) -> Sequence[str]:
    steps = found.trajectory.steps
    failing = {e.step for e in found.checks if e.result == "failed"}
    last_check = found.checks[-1].step if found.checks else -1
    lines: list[str] = []
    skipped = 0
    for number, step in enumerate(steps):
        if only is not None and number not in only:
            skipped += 1
            continue
        if skipped:
            lines.append(f"[... {skipped:,} steps left out]")
            skipped = 0
        thought = " ".join(thought_of(step.thought).split())
        lines.append(f"[{number + 1}] {shorten(thought, caps.thought)}".rstrip())
        for action in step.actions:
            lines.append("$ " + shorten(action.command.strip(), caps.command))
            shown = caps.failing if number in failing or number == last_check or action.returncode not in (0, None) else caps.output
            output = action.output.strip()
            code = "" if action.returncode in (0, None) else f"(return code {action.returncode}) "
            if output and shown:
                lines.append("> " + code + shorten(output, shown))
            elif output or code:
                lines.append(f"> {code}[... {len(output):,} characters left out]")
        if step.feedback and caps.failing:
            lines.append("! " + shorten(" ".join(step.feedback.split()), min(caps.failing, 200)))
    if skipped:
        lines.append(f"[... {skipped:,} steps left out]")
    return lines
