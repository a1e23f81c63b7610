"""Finds the handler for a method and a path, and makes paths from names."""

from waypost.dispatch import Response, dispatch
from waypost.errors import BuildError, MethodNotAllowed, NotFound, PatternError, WaypostError
from waypost.pattern import Pattern
from waypost.router import Match, Router

__all__ = [
    "BuildError",
    "Match",
    "MethodNotAllowed",
    "NotFound",
    "Pattern",
    "PatternError",
    "Response",
    "Router",
    "WaypostError",
    "dispatch",
]
