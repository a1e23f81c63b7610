"""From a file to plain JSON, with an error a user can act on for each way a file can be bad."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from swe_memory.errors import TrajectoryError

MAX_FILE_BYTES = 256 * 1024 * 1024
"""Larger files are refused: parsed JSON takes several times its size in memory, and the largest real attempt known to us has about 1 MB."""

MAX_TEXT_CHARS = 1_000_000
"""Longest single thought, command, output or task that is kept whole; the middle of a longer one is replaced by a mark."""

# What UTF-8 and SQL-like stores choke on. U+FFFD says that something was there.
_UNWRITABLE = re.compile("[\x00\ud800-\udfff]")


def number(value: object) -> float | None:
    """A finite number that a float holds exactly enough to add up; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53 else None


def plain_text(value: object, *, whole: bool = False) -> str:
    """Any JSON value as text that can be written anywhere: no NUL, no lone surrogate, at most ``MAX_TEXT_CHARS`` characters.

    A list of content parts gives its text parts, one a line; None gives "". ``whole``: of any length, for a patch, which with a piece cut out of it is no
    patch any more (the file's own size bounds it).
    """
    if value is None:
        return ""
    if isinstance(value, list):
        value = "\n".join(part_text(part) for part in value if part_text(part))
    elif not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, Mapping) else str(value)
    assert isinstance(value, str)
    if len(value) > MAX_TEXT_CHARS and not whole:
        half = MAX_TEXT_CHARS // 2
        value = f"{value[:half]}\n[{len(value) - 2 * half} characters left out on reading]\n{value[-half:]}"
    return _UNWRITABLE.sub("\ufffd", value) if _UNWRITABLE.search(value) else value


def part_text(part: object) -> str:
    """The text of one content part as OpenAI's and Anthropic's APIs write them; "" for images, tool calls and reasoning."""
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") in (None, "text", "input_text", "output_text"):
        text = part.get("text")
        return text if isinstance(text, str) else ""
    return ""


def read_bytes(path: Path) -> bytes:
    """The file's bytes. Raises TrajectoryError where there is no such file, it cannot be read, is empty or over the size limit."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise TrajectoryError(f"{path} is a folder, not a trajectory file", "Give one file, or point `swe-memory learn` at the folder.")
        if size > MAX_FILE_BYTES:
            raise TrajectoryError(
                f"{path} has {size / 2**20:.0f} MB, over the limit of {MAX_FILE_BYTES // 2**20} MB for one trajectory",
                "It would take several times that in memory. Cut the raw model responses (`extra`) or the outputs out of it.",
            )
        data = path.read_bytes()
    except FileNotFoundError:
        raise TrajectoryError(f"{path} does not exist", "Check the path.") from None
    except OSError as error:
        raise TrajectoryError(f"{path} cannot be read: {error.strerror or error}", "Check its permissions.") from None
    if not data.strip():
        raise TrajectoryError(
            f"{path} is empty", "The run probably ended before its first save: leave the file out or run the agent again."
        )
    return data


def parse_json(data: bytes, where: str) -> Any:
    """Parsed JSON. Raises TrajectoryError for text that is not UTF-8, not JSON, cut off, or nested too deeply."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TrajectoryError(
            f"{where} is not UTF-8 text (byte {error.start} of {len(data)})",
            "Trajectories are JSON in UTF-8: convert it with `iconv -f ENCODING -t UTF-8`, or check that it is the right file.",
        ) from None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        if cut_off(text, error):
            raise TrajectoryError(
                f"{where} is cut off: its JSON ends in the middle, after {len(text)} characters",
                "The agent was stopped while saving, or a copy is incomplete. Copy it again or leave it out.",
            ) from None
        raise TrajectoryError(
            f"{where} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}",
            "Expected a mini-SWE-agent or SWE-agent trajectory, or a list of messages.",
        ) from None
    except RecursionError:
        raise TrajectoryError(f"{where} is nested too deeply to be a trajectory", "Check that it is the right file.") from None
    except ValueError as error:  # a number of thousands of digits, for example
        raise TrajectoryError(f"{where} cannot be read as JSON: {error}", "Check that it is the right file.") from None


def cut_off(text: str, error: json.JSONDecodeError) -> bool:
    """Whether the parser failed because the text ended, as against because it is wrong."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    return error.msg.startswith("Unterminated string") or not text[error.pos :].strip() or _ends_in_a_fragment(text[error.pos :])


def _ends_in_a_fragment(rest: str) -> bool:
    """Whether what is left is the beginning of a literal, a number or an escape: "tru", "-", ".", '"\\u00'."""
    return (
        len(rest) < 8
        and re.fullmatch(r'\s*(t(r(u)?)?|f(a(l(s)?)?)?|n(u(l)?)?|-|\.|\.?\d*[eE][+-]?|\\?(u[0-9a-fA-F]{0,3})?"?)\s*', rest) is not None
    )
