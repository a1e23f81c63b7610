"""Texts as values of other types."""

import re

from confetti.errors import BadValue

YES = ("yes", "true", "on", "1")
NO = ("no", "false", "off", "0")
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def to_bool(text):
    """Yes or no, in any case."""
    word = text.strip().lower()
    if word in YES:
        return True
    if word in NO:
        return False
    raise BadValue(text, "yes or no")


def to_int(text):
    """A whole number; underscores and a base prefix are fine."""
    try:
        return int(text.strip(), 0)
    except ValueError:
        raise BadValue(text, "a whole number") from None


def to_list(text):
    """The parts of a text that is written with commas, or one part a line."""
    parts = text.split("\n") if "\n" in text else text.split(",")
    return [part.strip() for part in parts if part.strip()]


def to_seconds(text):
    """A length of time such as "90", "2m" or "1h 30m", in seconds."""
    words = text.lower().split()
    if not words:
        raise BadValue(text, "a length of time")
    total = 0
    for word in words:
        match = re.fullmatch(r"(\d+)([smhd]?)", word)
        if match is None:
            raise BadValue(text, "a length of time")
        total += int(match[1]) * UNITS[match[2] or "s"]
    return total
