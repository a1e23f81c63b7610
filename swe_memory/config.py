"""Settings: a flag wins over an environment variable, which wins over ``swe-memory.toml``, which wins over the default.

The file is looked for in the current directory only, or where ``SWE_MEMORY_CONFIG`` points, so that what is in force never has to be guessed
(``swe-memory doctor`` prints it). Keys at the top apply to every command that has such a flag; a table applies to one command::

    bank = "team.lance"

    [learn]
    extractor = "rules"

    ["items list"]
    limit = 50
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from swe_memory.errors import UsageError

if TYPE_CHECKING:
    import click

FILE_NAME = "swe-memory.toml"
FILE_VARIABLE = "SWE_MEMORY_CONFIG"
# Read elsewhere than by a flag: this module, and the tests.
_OTHER_VARIABLES = {FILE_VARIABLE, "SWE_MEMORY_SHARED"}


def find_config(environ: Mapping[str, str] | None = None, directory: Path | None = None) -> Path | None:
    """The settings file in force, or None. A path given by environment must exist (UsageError otherwise)."""
    environ = os.environ if environ is None else environ
    if named := environ.get(FILE_VARIABLE):
        path = Path(named)
        if not path.is_file():
            raise UsageError(f"{FILE_VARIABLE} points at {named}, which is not a file", "correct the variable or unset it")
        return path
    path = (directory or Path.cwd()) / FILE_NAME
    return path if path.is_file() else None


def load_config(path: Path) -> dict[str, Any]:
    """The file as a dictionary. Raises UsageError with file, line and reason where it is not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not valid TOML: {error}", "see https://toml.io; strings need quotes") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def default_map(config: Mapping[str, Any], group: click.Group, ctx: click.Context, path: Path) -> dict[str, Any]:
    """What click takes as ``default_map`` for ``group``: top keys spread to every command that knows them, tables to their command.

    Raises UsageError for a key or table that no command knows: a setting that is silently ignored is worse than none.
    """
    import click

    shared = {key: value for key, value in config.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in config.items() if isinstance(value, Mapping)}
    used: set[str] = set()

    def fill(group: click.Group, ctx: click.Context, prefix: str) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name in group.list_commands(ctx):
            command = group.get_command(ctx, name)
            if command is None:
                continue
            words = f"{prefix}{name}"
            inner = fill(command, ctx, f"{words} ") if isinstance(command, click.Group) else {}
            # A setting goes by the flag's long name, with dashes or underscores: what --help shows is what the file takes.
            flags = {flag.lstrip("-").replace("-", "_"): param for param in command.params for flag in param.opts if param.name}
            values = {}
            for key, value in shared.items():
                if (known := flags.get(key.replace("-", "_"))) is not None and known.name:
                    values[known.name] = _given(known, value, f"{path}: {key}")
                    used.add(key)
            for key, value in tables.pop(words, {}).items():
                if (known := flags.get(key.replace("-", "_"))) is None or not known.name:
                    raise UsageError(f"{path}: [{words}] has no setting {key!r}", f"see swe-memory {words} --help")
                values[known.name] = _given(known, value, f"{path}: [{words}] {key}")
            result[name] = {**values, **inner}
        return result

    result = fill(group, ctx, "")
    if tables:
        raise UsageError(
            f"{path}: there is no command [{next(iter(tables))}]",
            'a table is named as the command is typed: [learn], ["bank info"]; see swe-memory --help',
        )
    if unknown := sorted(set(shared) - used):
        raise UsageError(
            f"{path}: no command has a setting {unknown[0]!r}", "see swe-memory COMMAND --help for the settings of each command"
        )
    return result


def _given(param: click.Parameter, value: Any, where: str) -> Any:
    """A value of the file as it would be typed, so that click reads and refuses it as it does a typed one. Raises UsageError where nobody could type it."""
    if param.multiple and isinstance(value, list):
        return [_typed(part, where) for part in value]
    if param.multiple:
        raise UsageError(f"{where} is {value!r}, and may be given several times", "write a list, in square brackets")
    return value if isinstance(value, bool) and getattr(param, "is_flag", False) else _typed(value, where)


def _typed(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float | date | time):
        raise UsageError(f"{where} cannot be {value!r}", "write text in quotes, or a number")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def unknown_variables(group: click.Group, ctx: click.Context, environ: Mapping[str, str] | None = None) -> list[str]:
    """The ``SWE_MEMORY_...`` variables that no command reads: most likely misspelt. Commands are loaded only where there are such variables at all."""
    import click

    environ = os.environ if environ is None else environ
    given = sorted(name for name in environ if name.startswith("SWE_MEMORY_") and name not in _OTHER_VARIABLES)
    if not given:
        return []
    known: set[str] = set()

    def collect(command: click.Command, words: str) -> None:
        if isinstance(command, click.Group):
            for name in command.list_commands(ctx):
                if (inner := command.get_command(ctx, name)) is not None:
                    collect(inner, f"{words}_{name}")
        for param in command.params:
            known.add(f"{words}_{param.name}".upper().replace("-", "_"))
            own = param.envvar
            known.update([own] if isinstance(own, str) else own or [])

    collect(group, "SWE_MEMORY")
    return [name for name in given if name not in known]
