"""The types of parameters: which texts they take, and what these mean."""

import re
from datetime import date

from waypost.errors import PatternError


class Converter:
    """One segment, as it is."""

    greedy = False

    def parse(self, text):
        """The value of a text, or raise ValueError where it is not one."""
        if not text:
            raise ValueError("empty")
        return text

    def write(self, value):
        """The text of a value, or raise ValueError where it cannot be one."""
        text = str(value)
        self.parse(text)
        return text


class Word(Converter):
    """Letters, digits, hyphens and underscores."""

    def parse(self, text):
        if re.fullmatch(r"[\w-]+", text) is None:
            raise ValueError(f"{text!r} is not a word")
        return text


class Int(Converter):
    """A whole number, from ``low`` to ``high`` where they are given."""

    def __init__(self, low=None, high=None):
        self.low = low
        self.high = high

    def parse(self, text):
        if re.fullmatch(r"-?[0-9]+", text) is None:
            raise ValueError(f"{text!r} is not a whole number")
        number = int(text)
        if self.low is not None and number < self.low:
            raise ValueError(f"{number} is below {self.low}")
        if self.high is not None and number > self.high:
            raise ValueError(f"{number} is above {self.high}")
        return number


class Day(Converter):
    """A day, as in 2023-01-31."""

    def parse(self, text):
        return date.fromisoformat(text)


class Rest(Converter):
    """Everything up to the end of the path, slashes included."""

    greedy = True


KINDS = {"str": Converter, "word": Word, "int": Int, "day": Day, "path": Rest}


def converter(text):
    """The converter for what stands behind the colon: a kind, and numbers in parentheses where it takes them."""
    match = re.fullmatch(r"(\w+)(?:\(([^()]*)\))?", text)
    if match is None or match[1] not in KINDS:
        raise PatternError(f"unknown kind of parameter {text!r}")
    arguments = [int(part) for part in match[2].split(",")] if match[2] else []
    try:
        return KINDS[match[1]](*arguments)
    except TypeError:
        raise PatternError(f"{match[1]} does not take {len(arguments)} numbers") from None
