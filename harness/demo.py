"""``swe-memory demo``: the bundled bench, an agent without a language model, without and with memory, on this machine."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from harness.running import run_command
from swe_memory.errors import UsageError

INTRODUCTION = """A program without a language model fixes the issues of the bundled bench. Its attempts without memory at one half of the issues fill a bank
that helps with the other half, and the other way round; a placebo gives the same items to the wrong issues. The program tries edit templates,
and a recalled item changes only the order in which it tries them. It is here to show the instrument at work with a cheap agent; what comes out
says nothing about language models."""


def demo_command(out: Path, *, workers: int = 2, slice: str | None = None, as_json: bool = False) -> tuple[int, str]:
    """Run the demo in ``out`` on all issues or those of ``slice`` (A:B), or go on with one that was stopped; (exit code, what to print)."""
    if not as_json:
        click.echo(INTRODUCTION + "\n", err=True)
    resume = (out / "experiment.json").is_file()
    try:
        code, shown = run_command(
            out=out,
            workers=workers,
            resume=resume,
            as_json=as_json,
            dataset="minibench",
            call_limit=40,
            arms=("none", "reasoningbank", "derangement"),
            slice=slice,
        )
    except UsageError as error:
        if resume:
            raise UsageError(error.what, f"Remove {out}, or give the demo another folder with --out.") from error
        raise
    return code, shown if as_json else f"{shown}\n\n{next_steps(out, first_issue(slice))}"


def first_issue(slice: str | None) -> str:
    """The first issue of the demo on these places of the bench."""
    from harness.dataset import load_dataset
    from harness.selection import select

    return select(load_dataset("minibench"), slice=slice or "")[0]


def next_steps(out: Path, issue: str) -> str:
    """What to type next; ``issue`` is one of the demo."""
    bank = out / "banks" / "reasoningbank" / "1-a" / "bank.lance"
    name = _command()
    commands = [
        (f"{name} items list --bank {bank}", "what was learned"),
        (f"{name} report {out}", "the same as one HTML page, with plots"),
        (f"{name} run explain {out} derangement/1-1/{issue}", "what one attempt was given, and why"),
        (f"{name} learn FOLDER --bank my.lance", "learn from your own agent's attempts"),
        (f"{name} recall --bank my.lance --repo OWNER/NAME issue.md", "the one item that matters for an issue"),
    ]
    width = max(len(command) for command, _ in commands)
    return "\n".join(["What to type next", *(f"  {command.ljust(width)}  {why}" for command, why in commands)])


def _command() -> str:
    """How this reader can type ``swe-memory``: ``make demo`` puts it into .venv/bin, which need not be on the path."""
    if shutil.which("swe-memory"):
        return "swe-memory"
    beside = Path(sys.executable).parent / "swe-memory"
    if not beside.is_file():
        return f"{sys.executable} -m swe_memory"
    return str(beside.relative_to(Path.cwd()) if beside.is_relative_to(Path.cwd()) else beside)
