"""``python -m swe_memory``: the same as the ``swe-memory`` command."""

from swe_memory.cli import entry

entry()
