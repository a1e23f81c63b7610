"""The command line of a user's program, with placeholders for what an attempt is about: ``my-agent --repo {workdir} --out {patch_file}``.

The text is a bash command. What replaces a placeholder is quoted for where it stands: bare, in double or in single quotes, and in ``$(...)`` anywhere. So a
path with spaces stays one word, and nothing in an id is run. Where that cannot be promised (backticks, ``$'...'``, here-documents), it is refused.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from swe_memory.errors import UsageError

PLACEHOLDERS = (
    "workdir",
    "issue_file",
    "memory_file",
    "patch_file",
    "log_file",
    "trajectory_file",
    "issue_id",
    "repo",
    "base_commit",
    "call_limit",
    "seconds",
)
"""What may stand in braces; :mod:`harness.agents.command` says what each is."""

_BRACES = "Write {{ and }} for braces that the shell shall see."
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\\|\$'|\$\(|<<<|<<|.", re.DOTALL)
_WORD = re.compile(r"""(?:'((?:[^'{}]|\{\{|\}\})*)'|"((?:[^"$`\\{}]|\{\{|\}\})*)"|([\w@%+:,./~-]+))(?=[\s;&|<>()]|$)""")
_ASSIGNMENT = re.compile(r"""[A-Za-z_]\w*\+?=(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\;&|<>()`])*(?=\s|$)""", re.DOTALL)
_INTERPRETER = re.compile(r"(python|pypy|bash|sh|dash|zsh|node|ruby|perl)[\d.]*")
_NOT_A_PROGRAM = "command"  # its name, where the command begins with something else than a program
_LONGEST_NAME = 60  # characters

Quotes = Literal["", '"', "'"]


@dataclass(frozen=True, slots=True)
class _Placeholder:
    name: str
    quotes: Quotes

    def put(self, value: str) -> str:
        """``value`` as one word, or as part of one, where this stands."""
        if self.quotes == '"':
            return re.sub(r'([\\"$`])', r"\\\1", value)
        return value.replace("'", "'\\''") if self.quotes == "'" else shlex.quote(value)


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A command that has been checked. ``name`` is the program's file name, ``program`` what is run (a name to look up, or an absolute path; "" where
    the command begins with something else than a program)."""

    name: str
    program: str
    parts: tuple[str | _Placeholder, ...]

    @classmethod
    def parse(cls, text: str) -> CommandTemplate:
        """Check ``text`` and tie it to the current folder, since it will be run elsewhere: a program named by a relative path becomes an absolute one, and
        so does a script that follows its interpreter (``python agent.py``) where there is such a file.

        Raises UsageError for an unknown placeholder, one that cannot be replaced safely, what bash cannot parse, an empty command, and a program that
        is not there.
        """
        parts = tuple(_parts(text))
        _check_syntax("".join(part if isinstance(part, str) else part.put("x") for part in parts))
        text, name, program = _found(text)
        name = re.sub(r"[^\w.+-]+", "-", name).strip("-.")[:_LONGEST_NAME]
        return cls(name or _NOT_A_PROGRAM, program, tuple(_parts(text)))

    @property
    def placeholders(self) -> frozenset[str]:
        """The names of those that the command has."""
        return frozenset(part.name for part in self.parts if isinstance(part, _Placeholder))

    @property
    def available(self) -> bool:
        """Whether its program is (still) there."""
        return not self.program or shutil.which(self.program) is not None or _shell_knows(self.program)

    def fill(self, values: Mapping[str, str]) -> str:
        """The command with ``values`` for the placeholders."""
        return "".join(part if isinstance(part, str) else part.put(values[part.name]) for part in self.parts)


def _parts(text: str) -> Iterator[str | _Placeholder]:
    """Text and placeholders in turn. A small part of bash's grammar: what quotes what."""
    inside: list[str] = []  # of quotes and brackets that are open, the innermost last
    escaped = here = False
    literal = ""
    for token in _TOKEN.finditer(text):
        found = token[0]
        top = inside[-1] if inside else ""
        if token[1] is not None:
            yield literal
            yield _Placeholder(_known(token[1]), _quotes(token[1], "a backslash" if escaped else "a here-document" if here else top))
            literal = ""
        elif found in ("{", "}"):
            raise UsageError(f"a single {found} in the agent's command", _BRACES)
        elif found in ("{{", "}}"):
            literal += found[0]
        else:
            literal += found
            seen = found[1:] if escaped else found
            here = here or (seen == "<<" and top in ("", "("))
            _step(inside, top, seen)
        escaped = found == "\\" and not escaped and top != "'"
    yield literal


def _step(inside: list[str], top: str, seen: str) -> None:
    """Open or close what ``seen`` opens or closes."""
    opening = {"'", "$'", '"', "`", "(", "$("} if top in ("", "(") else {"`", "$("} if top == '"' else set()
    closing = {"'": {"'", "$'"}, "$'": {"'", "$'"}, '"': {'"'}, "`": {"`"}, "(": {")"}}.get(top, set())
    if seen in closing:
        inside.pop()
    elif seen in opening:
        inside.append("(" if seen == "$(" else seen)


def _known(name: str) -> str:
    if name not in PLACEHOLDERS:
        known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
        raise UsageError(f"the agent's command has an unknown placeholder {{{name[:60]}}}", f"Known: {known}. {_BRACES}")
    return name


def _quotes(name: str, where: str) -> Quotes:
    match where:
        case "" | "(":
            return ""
        case '"':
            return '"'
        case "'":
            return "'"
    what = {"`": "backticks", "$'": "$'...'"}.get(where, where)
    raise UsageError(
        f"{{{name}}} in the agent's command cannot be quoted safely where it stands ({what})",
        "Write it bare or in ordinary quotes; $(...) does what backticks do.",
    )


def _check_syntax(command: str) -> None:
    try:
        done = subprocess.run(["bash", "-n", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"the agent's command cannot be checked with bash: {error}", "bash must be on the PATH.") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        reason = re.sub(r"^bash: (-c: )?(line \d+: )?", "", said[0])
        raise UsageError(f"the agent's command is not a bash command: {reason}", "Check its quotes and brackets.")


def _found(text: str) -> tuple[str, str, str]:
    """The text with absolute paths, the program's name, and the program."""
    position = _after_space(text, 0)
    while match := _ASSIGNMENT.match(text, position):
        position = _after_space(text, match.end())
    if position == len(text) or text[position] == "#":
        raise UsageError(
            "the agent's command is empty", "Write the program after the colon, e.g. --agent 'command: my-agent --repo {workdir}'."
        )
    match = _WORD.match(text, position)
    if match is None:  # a placeholder, a variable, a bracket: what it is shows only when it runs
        first = re.split(r"[\s;&|<>()]", text[position:])[0]
        return text, "" if "=" in first else first.rpartition("/")[2], ""
    word = _word(match)
    program = shutil.which(word)
    if program is None:
        if "/" not in word and _shell_knows(word):
            return text, _NOT_A_PROGRAM, ""
        raise UsageError(*_missing(word))
    head = text[: match.end()]
    if "/" in word or not Path(program).is_absolute():  # the latter from a PATH with relative folders
        word = _absolute(program)
        head = text[:position] + _literal(word)
    name, rest = Path(program).name, text[match.end() :]
    if _INTERPRETER.fullmatch(name):
        name, rest = _script(name, rest)
    return head + rest, name, word


def _missing(word: str) -> tuple[str, str]:
    if "/" not in word:
        return f"the agent's program {word!r} is not on the PATH", "Install it, or write its path."
    if _is_file(word):
        return f"the agent's program {word} is not executable", "Make it so with chmod +x, or write its interpreter in front of it."
    return f"the agent's program {word} is no file", "Check the path; it is taken from the folder that you call from."


def _script(interpreter: str, text: str) -> tuple[str, str]:
    """What the script after an interpreter is called (the interpreter's own name where there is none), and ``text`` with its path absolute."""
    position = 0
    while match := _WORD.match(text, at := _after_space(text, position)):
        word, position = _word(match), match.end()
        if word == "-m" and (module := _WORD.match(text, _after_space(text, position))):
            return _word(module), text
        if word in ("-c", "-e", "-m", "-"):
            break
        if word.startswith("-"):
            continue
        if _is_file(word):
            return Path(word).name, text[:at] + _literal(_absolute(word)) + text[position:]
        if Path(word).is_absolute():
            raise UsageError(f"the agent's script {word} is no file", "Check the path.")
        return Path(word).name, text  # one of the repository's own
    return interpreter, text


def _word(match: re.Match[str]) -> str:
    """The word, with what a ``~/`` in front stands for."""
    bare = match[3]
    if bare is not None:
        return os.path.expanduser(bare) if bare.startswith("~/") else bare  # noqa: PTH111
    return (match[1] if match[1] is not None else match[2]).replace("{{", "{").replace("}}", "}")


def _is_file(path: str) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 (Path.is_file raises for a name that is too long)


def _absolute(path: str) -> str:
    return os.path.abspath(path)  # noqa: PTH100 (links are kept: a program may look at the name that it is called by)


def _literal(path: str) -> str:
    """A path as it stands in a template."""
    return shlex.quote(path).replace("{", "{{").replace("}", "}}")


def _after_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _shell_knows(word: str) -> bool:
    """Whether bash itself has a command of that name: a builtin, a keyword, a function of the user's."""
    asked = ["bash", "-c", 'type -t -- "$1"', "bash", word]
    return subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False).returncode == 0
