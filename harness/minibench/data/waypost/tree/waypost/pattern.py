"""Patterns of paths, such as ``/users/{id:int}/files/{file:path}``."""

import re

from waypost.converters import converter
from waypost.errors import BuildError, PatternError

PARAMETER = re.compile(r"\{(\w+)(?::([^{}]+))?\}")


def segments(path):
    """The parts of a path between its slashes; a slash at the end makes no difference."""
    return [part for part in path.split("/") if part]


class Pattern:
    """A pattern, ready to be compared with paths."""

    def __init__(self, text):
        if not text.startswith("/"):
            raise PatternError(f"a pattern starts with a slash: {text!r}")
        self.text = text
        self.parts = []
        for segment in segments(text):
            self.parts.append(self._part(segment))
        names = self.names()
        if len(set(names)) < len(names):
            raise PatternError(f"a parameter comes twice in {text!r}")
        if any(kind is not None and kind.greedy for _, kind in self.parts[:-1]):
            raise PatternError(f"a path parameter must be the last one: {text!r}")

    def _part(self, segment):
        """(text, None) for a fixed segment, (name, converter) for a parameter."""
        match = PARAMETER.fullmatch(segment)
        if match is not None:
            return match[1], converter(match[2] or "str")
        if "{" in segment or "}" in segment:
            raise PatternError(f"a parameter must be a whole segment: {segment!r}")
        return segment, None

    def names(self):
        """The names of the parameters, from left to right."""
        return [name for name, kind in self.parts if kind is not None]

    def match(self, path):
        """The parameters of ``path``, or ``None`` where it does not fit."""
        found = {}
        given = segments(path)
        for number, (name, kind) in enumerate(self.parts):
            if number >= len(given):
                return None
            if kind is None:
                if given[number] != name:
                    return None
                continue
            text = "/".join(given[number:]) if kind.greedy else given[number]
            try:
                found[name] = kind.parse(text)
            except ValueError:
                return None
            if kind.greedy:
                return found
        return found if len(given) == len(self.parts) else None

    def build(self, params):
        """The path with these parameters."""
        missing = [name for name in self.names() if name not in params]
        if missing:
            raise BuildError(f"{self.text} needs {', '.join(missing)}")
        written = []
        for name, kind in self.parts:
            if kind is None:
                written.append(name)
                continue
            try:
                written.append(kind.write(params[name]))
            except ValueError as error:
                raise BuildError(f"{name} of {self.text}: {error}") from None
        return "/" + "/".join(written)
