"""Flags that several commands share, and how a result is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, TypeVar

import click

from swe_memory.errors import UsageError

if TYPE_CHECKING:
    from swe_memory.bank import MemoryBank
    from swe_memory.records import Extractor, Judge
    from swe_memory.sources import Scan

F = TypeVar("F", bound=Callable[..., Any])


def bank_option(function: F) -> F:
    """``--bank``: a folder or an object-store URI."""
    return click.option(
        "--bank",
        "bank_uri",
        envvar="SWE_MEMORY_BANK",
        required=True,
        show_envvar=True,
        metavar="PATH|URI",
        help="The bank: a local folder, or an object-store URI such as s3://bucket/team.",
    )(function)


def json_option(function: F) -> F:
    """``--json``: one JSON document on standard output, nothing else there."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document (shape below).")(function)


def embedder_option(function: F) -> F:
    """``--embedder``: which model turns text into vectors."""
    return click.option(
        "--embedder",
        default="auto",
        show_default=True,
        metavar="NAME",
        help="auto (the bundled model, or full text where it is not installed), none, or lancedb:PROVIDER:MODEL.",
    )(function)


def model_options(function: F) -> F:
    """``--model`` and the budget of language-model calls."""
    function = click.option(
        "--model",
        default="claude-haiku-5-5",
        show_default=True,
        metavar="NAME",
        help="The Claude model for --extractor llm and --judge llm.",
    )(function)
    return click.option(
        "--max-cost", type=click.FloatRange(min=0), default=None, metavar="USD", help="Stop asking the model at this cost."
    )(function)


def open_bank(uri: str, *, embedder: str = "auto", create: bool = False, read_only: bool = False, any_embedder: bool = False) -> MemoryBank:
    """The bank that ``--bank`` and ``--embedder`` name; the import of LanceDB happens here. ``any_embedder``: for work that needs no vectors."""
    from swe_memory.bank import MemoryBank

    if any_embedder:
        return MemoryBank.open(uri, embedder=None, create=create, read_only=read_only, any_embedder=True)
    if embedder == "auto":
        return MemoryBank.open(uri, create=create, read_only=read_only)
    from swe_memory.embed import open_embedder

    return MemoryBank.open(uri, embedder=open_embedder(embedder), create=create, read_only=read_only)


def make_extractor(name: str, model: str, max_cost: float | None) -> Extractor:
    """The extractor that ``--extractor`` names. Raises where ``llm`` has no key, before any work is done."""
    if name == "rules":
        from swe_memory.extract import RulesExtractor

        return RulesExtractor()
    from swe_memory.extract.llm import LLMExtractor

    return LLMExtractor(make_claude(model, max_cost))


def make_judge(name: str, model: str, max_cost: float | None) -> Judge:
    """The judge that ``--judge`` names."""
    if name == "rules":
        from swe_memory.judge import RulesJudge

        return RulesJudge()
    from swe_memory.judge.llm import LLMJudge

    return LLMJudge(make_claude(model, max_cost))


def make_claude(model: str, max_cost: float | None) -> Any:
    """The transport behind ``llm``, checked for a key and, with ``--max-cost``, for a known price."""
    from swe_memory.budget import Budget
    from swe_memory.claude import Claude

    return Claude(model, budget=Budget(cost=max_cost) if max_cost is not None else None)


def scan_problems(found: Scan) -> list[dict[str, str]]:
    """What a scan of a folder could not use, as {where, what}; ``where`` is a path below the folder or an issue id."""
    return [
        {"where": problem.path or problem.instance_id, "what": problem.what + (f" ({problem.hint})" if problem.hint else "")}
        for problem in found.problems
    ]


def plain(value: Any) -> Any:
    """A record as JSON-ready data: dataclasses to objects, tuples to lists, times to ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {key: plain(entry) for key, entry in asdict(value).items()}
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, PurePath):
        return str(value)
    return value


def print_json(value: Any) -> None:
    """One JSON document on standard output."""
    click.echo(json.dumps(plain(value), ensure_ascii=False, indent=2, allow_nan=False))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[int] = ()) -> str:
    """Columns aligned by width, two spaces between; ``right`` lists the columns that are numbers."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(headers[i]), *(len(row[i]) for row in cells)) if cells else len(headers[i]) for i in range(len(headers))]

    def line(row: Sequence[str]) -> str:
        return "  ".join(cell.rjust(widths[i]) if i in right else cell.ljust(widths[i]) for i, cell in enumerate(row)).rstrip()

    return "\n".join([line(headers), line(["-" * width for width in widths]), *(line(row) for row in cells)])


def shorten(text: str, width: int) -> str:
    """``text`` on one line, cut to ``width`` characters with an ellipsis."""
    flat = " ".join(text.split())
    return flat if len(flat) <= width else flat[: max(width - 1, 0)] + "…"


def read_text(path: str, what: str, limit: int = 8_000_000) -> str:
    """A file, or standard input for ``-``, as text. Raises UsageError where it is missing, too long or not UTF-8."""
    import sys
    from pathlib import Path

    try:
        data = sys.stdin.buffer.read(limit + 1) if path == "-" else _head(Path(path), limit + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read {what} {path}: {error.strerror or error}", "give the path of a text file, or - for standard input"
        ) from None
    if len(data) > limit:
        raise UsageError(f"{what} {path} is over {limit:,} bytes", "give the issue's own text, without logs and attachments")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{what} {path} is not UTF-8 text (byte {error.start})", "convert it, for example: iconv -t UTF-8") from None


def _head(path: Any, limit: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(limit)
    assert isinstance(data, bytes)
    return data


def parse_time(text: str, flag: str) -> datetime:
    """An ISO 8601 date or time as a timezone-aware datetime (UTC where no zone is given)."""
    from datetime import UTC

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is not a date", "write it as 2026-11-29 or 2026-11-29T12:00:00+00:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
