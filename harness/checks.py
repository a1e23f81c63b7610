"""What the parts of an event and of a frozen experiment must look like. A file on disk may be cut, edited by hand or written by somebody else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Check = Callable[[Any], bool]
LARGEST = 10**9
"""No count and no score of a run is larger; larger ones could not be added up as floats."""


def is_text(value: Any) -> bool:
    """A string."""
    return isinstance(value, str)


def is_count(value: Any) -> bool:
    """A whole number from 0 to :data:`LARGEST`; True is none."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST


def is_number(value: Any) -> bool:
    """A finite number within :data:`LARGEST`."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST  # NaN is not


def is_texts(value: Any) -> bool:
    """A list or tuple of strings."""
    return isinstance(value, list | tuple) and all(isinstance(part, str) for part in value)


def or_none(check: Check) -> Check:
    """As ``check``, or None."""
    return lambda value: value is None or check(value)


def one_of(*allowed: str) -> Check:
    """One of these strings."""
    return lambda value: isinstance(value, str) and value in allowed


def one(*allowed: str) -> tuple[str, Check]:
    """The words and the check of :func:`one_of`."""
    return f"one of {', '.join(allowed)}", one_of(*allowed)


def _is_recall(value: Any) -> bool:
    if not isinstance(value, dict) or not is_count(value.get("bank_version")) or not or_none(is_number)(value.get("score")):
        return False
    if value.get("item") is None:
        return value.get("title") is None
    return all(is_text(value.get(name)) for name in ("item", "title", "learned_from"))


def _is_verdict(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and one_of("resolved", "unresolved", "unknown")(value.get("outcome"))
        and is_text(value.get("source"))
        and is_text(value.get("reason"))
        and or_none(is_number)(value.get("confidence"))
    )


def _is_lesson(value: Any) -> bool:
    return isinstance(value, dict) and all(is_text(value.get(name)) for name in ("id", "title"))


def _is_key(value: Any) -> bool:
    return is_texts(value) and len(value) == 3


_COUNT = ("a count", is_count)
_TEXT = ("text", is_text)
_COUNT_OR_NULL = ("a count or null", or_none(is_count))

EVENT_FIELDS: Mapping[str, Mapping[str, tuple[str, Check]]] = {
    "started": {"recall": ("a recall or null", or_none(_is_recall))},
    "finished": {
        "exit_status": _TEXT,
        "calls": _COUNT_OR_NULL,
        "actions": _COUNT_OR_NULL,
        "patch_sha256": _TEXT,
    },
    "graded": {
        "resolved": ("true or false", lambda value: isinstance(value, bool)),
        "outcome": _TEXT,
        "flags": ("a list of texts", is_texts),
        "verdict": ("a verdict or null", or_none(_is_verdict)),
    },
    "learned": {
        "bank": _TEXT,
        "bank_version": _COUNT,
        "items": ("a list of items", lambda value: isinstance(value, list) and all(map(_is_lesson, value))),
    },
    "frozen": {
        "bank": _TEXT,
        "version": _COUNT,
        "experiences": _COUNT,
        "items": _COUNT,
        "missing": ("a list of attempts", lambda value: isinstance(value, list) and all(map(_is_key, value))),
    },
    "usage": {
        "role": one("agent", "judge", "extract"),
        "calls": _COUNT,
        "input": _COUNT,
        "output": _COUNT,
        "cost": ("an amount or null", or_none(lambda value: is_number(value) and value >= 0)),
    },
    "session": {},
    "failed": {"reason": _TEXT},
}
"""What a reader of the journal relies on: kind -> field -> (what it must be, in words; the check). Other fields are free."""


def wrong_field(kind: str, event: Mapping[str, Any]) -> str:
    """Which field of an event is missing or of the wrong type, in words; "" for none."""
    for name, (words, check) in EVENT_FIELDS[kind].items():
        if name not in event:
            return f"it has no `{name}`"
        if not check(event[name]):
            return f"its `{name}` is not {words}"
    return ""
