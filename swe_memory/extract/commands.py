"""What a shell command of an agent does: looks, searches, edits, runs a check, cleans up.

Reading is by form, not by execution: quoting is respected, here-documents are lifted out, and ``&&``, ``;``, ``|`` and new lines split a
command into parts. Agents that call named tools (``str_replace_editor``, ``edit``, ``open``, ``submit``) are read the same way.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

Kind = Literal["list", "search", "read", "edit", "revert", "test", "run", "git", "clean", "install", "submit", "other"]

_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(?P<rest>[^\n]*)\n(?P<body>.*?)(?:\n\s*\2[ \t]*(?=\n|$)|\Z)", re.DOTALL)
_REDIRECT = re.compile(r"(?<![<>&\d])(?:1?>>?)\s*([^\s&|;<>()]+)")
_PATH = re.compile(r"(?:\.{0,2}/)?(?:[\w.+-]+/)*[\w.+-]+\.[A-Za-z]\w{0,7}\b|(?:\.{0,2}/)?(?:[\w.+-]+/)+[\w.+-]*")
_ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=")
_WRITES = re.compile(r"\.write(?:lines|_text|_bytes)?\(|open\([^)\n]*['\"](?:w|a|r\+)b?['\"]|shutil\.|fileinput")

_LIST = {"ls", "tree", "pwd", "du"}
_SEARCH = {"grep", "rg", "ag", "ack", "egrep", "fgrep", "find", "fd", "locate", "which", "search_dir", "search_file", "find_file"}
_READ = {"cat", "nl", "head", "tail", "less", "more", "awk", "open", "goto", "scroll_down", "scroll_up", "bat", "wc", "diff", "view"}
_EDIT = {"patch", "edit", "insert", "create", "append", "ed", "ex", "apply_patch"}
_CLEAN = {"rm", "rmdir", "unlink"}
_PYTHON = re.compile(r"^(?:.*/)?(?:python|pypy)[\d.]*$")
_INTERPRETER = {"bash", "sh", "node", "ruby", "perl", "php", "Rscript", "java"}
_TESTERS = {
    "pytest",
    "py.test",
    "tox",
    "nox",
    "nosetests",
    "nose2",
    "trial",
    "ctest",
    "jest",
    "vitest",
    "mocha",
    "phpunit",
    "rspec",
    "stestr",
}
_TEST_MODULES = {"pytest", "unittest", "nose", "nose2", "tox", "trial", "twisted.trial"}
_TWO_WORD_TESTS = {
    ("cargo", "test"), ("go", "test"), ("npm", "test"), ("yarn", "test"), ("pnpm", "test"), ("make", "test"), ("make", "check"),
    ("mvn", "test"), ("gradle", "test"), ("./gradlew", "test"), ("bundle", "exec"), ("dotnet", "test"), ("mix", "test"), ("sbt", "test"),
}  # fmt: skip
_TEST_SCRIPT = re.compile(r"(?:^|/)(?:runtests?|run_tests?|manage|setup|test|tests)(?:\.py|\.sh)?$")


@dataclass(frozen=True, slots=True)
class Part:
    """One simple command: what kind it is, its words (variable assignments and ``cd`` stripped) and the paths it names.

    ``body`` is the here-document or inline program that it was given, "" without one; ``folder`` is where a ``cd`` before it went.
    """

    kind: Kind
    words: tuple[str, ...]
    paths: tuple[str, ...]
    text: str
    body: str = ""
    environment: tuple[str, ...] = ()
    folder: str = ""


def clean_path(path: str) -> str:
    """A path relative to the repository: without quotes, ``./`` and the usual checkout folders of containers."""
    path = path.strip("'\"`,;:()[]{}")
    for prefix in ("/testbed/", "/workspace/", "/repo/", "/app/", "./"):
        if path.startswith(prefix):
            path = path[len(prefix) :]
    return path.rstrip("/")


@lru_cache(maxsize=4096)
def parse(command: str) -> tuple[Part, ...]:
    """The simple commands of a command, in order. Never raises: what cannot be split by quoting is split at blanks."""
    bodies: list[str] = []

    def lift(match: re.Match[str]) -> str:
        bodies.append(match["body"])
        return f" \x00{len(bodies) - 1}\x00{match['rest']}\n"

    # Comment lines go first: an apostrophe in one would open a quote.
    rest = re.sub(r"(?m)^\s*#.*$", "", _HEREDOC.sub(lift, command))
    parts: list[Part] = []
    folder = ""
    for text, piped in _split(rest):
        moved = re.fullmatch(r"(?:cd|pushd)\s+(\S+)", text)
        if moved:
            folder = clean_path(moved[1])
            continue
        part = _part(text, bodies)
        if part is not None:
            if piped and part.kind in {"read", "search"} and not part.paths:
                part = replace(part, kind="other")  # a filter of what came before, not a look of its own
            parts.append(replace(part, folder=folder) if folder else part)
    return tuple(parts)


def _split(text: str) -> list[tuple[str, bool]]:
    """Split at ``&&``, ``||``, ``;``, ``|`` and new lines outside quotes; each piece with whether a single ``|`` came before it."""
    pieces: list[tuple[str, bool]] = []
    current: list[str] = []
    quote = ""
    piped = False
    i = 0
    while i < len(text):
        char = text[i]
        if char == "\\" and quote != "'" and i + 1 < len(text):
            current.append(text[i : i + 2] if text[i + 1] != "\n" else " ")
            i += 2
            continue
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in ";\n|" or text.startswith("&&", i):
            pieces.append(("".join(current).strip(), piped))
            current = []
            piped = char == "|" and not text.startswith("||", i)
            i += 2 if text[i : i + 2] in ("&&", "||") else 1
            continue
        current.append(char)
        i += 1
    pieces.append(("".join(current).strip(), piped))
    return [(piece, after_pipe) for piece, after_pipe in pieces if piece and not piece.startswith("#")]


def _part(text: str, bodies: list[str]) -> Part | None:
    body = ""
    for number in re.findall("\x00(\\d+)\x00", text):
        body = bodies[int(number)]
    plain = re.sub("\x00\\d+\x00", " ", text).strip()
    written = tuple(clean_path(path) for path in _REDIRECT.findall(_unquoted(plain)) if not path.startswith("/dev/"))
    try:
        words = shlex.split(plain, comments=False)
    except ValueError:
        words = plain.split()
    words = [word for i, word in enumerate(words) if not _is_redirect(words, i)]
    environment: list[str] = []
    while words and (_ASSIGNMENT.match(words[0]) or words[0] in {"export", "sudo", "time", "env", "command", "("}):
        word = words.pop(0)
        if _ASSIGNMENT.match(word):
            environment.append(word)
    if words and words[0] == "timeout":
        words = words[1:]
        while words and (words[0].startswith("-") or re.fullmatch(r"[\d.]+[smh]?", words[0])):
            words = words[1:]
    if not words or words[0] in {"cd", "pushd", "popd", "set", "source", ".", "true", "echo", "sleep", "done", "fi"}:
        if words and words[0] == "echo" and "COMPLETE_TASK" in plain:
            return Part("submit", tuple(words), (), plain)
        if not (words and words[0] == "echo" and written):
            return None
    if not words:
        return None
    kind = _kind(words, written, body, plain)
    inline = body or _inline(words)
    paths = written if kind == "edit" and written else _paths(words, kind)
    if kind == "edit" and not paths:
        paths = _paths_in(inline)
    return Part(kind, tuple(words), paths, plain, inline, tuple(environment))


def _is_redirect(words: list[str], i: int) -> bool:
    operator = re.compile(r"[12&]?>>?(?:&\d)?")
    return bool(operator.match(words[i])) or (i > 0 and operator.fullmatch(words[i - 1]) is not None and "&" not in words[i - 1])


def _unquoted(text: str) -> str:
    return re.sub(r"'[^']*'|\"(?:\\.|[^\"\\])*\"", lambda m: "_" * len(m[0]), text)


def _inline(words: list[str]) -> str:
    for option in ("-c", "-e"):
        if option in words[1:] and (_PYTHON.match(words[0]) or words[0] in _INTERPRETER):
            position = words.index(option)
            return words[position + 1] if position + 1 < len(words) else ""
    return ""


def _paths(words: list[str], kind: Kind) -> tuple[str, ...]:
    found = []
    for word in words[1:]:
        if word.startswith("-") or "\n" in word or any(mark in word for mark in "*$={}()|\\ "):
            continue
        if (
            _PATH.fullmatch(word)
            or (kind in {"read", "edit", "clean", "list"} and re.fullmatch(r"[\w./+-]+", word) and not word[0].isdigit())
            or "::" in word
        ):
            found.append(clean_path(word.split("::")[0]))
    return tuple(path for path in found if path)


def _paths_in(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(clean_path(path) for path in re.findall(r"['\"]([\w./+-]+/[\w./+-]+|[\w+-]+\.\w{1,5})['\"]", text)))


def is_tester(words: tuple[str, ...] | list[str]) -> bool:
    """Whether a command line starts a test runner (by the runner's name; not a script that the agent wrote)."""
    if not words:
        return False
    name = words[0].rsplit("/", 1)[-1]
    rest = list(words[1:])
    if name in _TESTERS or (len(words) > 1 and (words[0], words[1]) in _TWO_WORD_TESTS):
        return True
    if _PYTHON.match(words[0]):
        while rest and rest[0].startswith("-") and rest[0] not in {"-m", "-c"}:
            rest = rest[2:] if rest[0] in {"-W", "-X"} else rest[1:]
        if len(rest) > 1 and rest[0] == "-m":
            return rest[1] in _TEST_MODULES
        return bool(rest) and _is_test_script(rest)
    return _is_test_script(list(words))


def _is_test_script(words: list[str]) -> bool:
    match = _TEST_SCRIPT.search(words[0])
    if match is None or words[0] in {"test", "tests"}:
        return False
    if words[0].endswith(("manage.py", "setup.py")):
        return len(words) > 1 and words[1] == "test"
    return "/" in words[0] or words[0].startswith("run")


def _kind(words: list[str], written: tuple[str, ...], body: str, text: str) -> Kind:
    name = words[0].rsplit("/", 1)[-1]
    if name in {"submit", "finish"} or "COMPLETE_TASK" in text:
        return "submit"
    if name in {"str_replace_editor", "str_replace_based_edit_tool", "editor"}:
        return "read" if len(words) > 1 and words[1] == "view" else ("revert" if len(words) > 1 and words[1] == "undo_edit" else "edit")
    if name == "git":
        verb = next((word for word in words[1:] if not word.startswith("-")), "")
        if verb in {"checkout", "restore", "stash", "reset", "revert"}:
            return "revert"
        return "edit" if verb in {"apply", "am"} else ("search" if verb == "grep" else "git")
    if is_tester(words):
        return "test"
    if _PYTHON.match(words[0]) or name in _INTERPRETER or words[0].startswith("./") or words[0].endswith((".py", ".sh")):
        return "edit" if _WRITES.search(body or _inline(words)) and _paths_in(body or _inline(words)) else "run"
    if written and name in {"cat", "echo", "printf", "sed", "awk", "head", "tail", "sort", "touch", "nl"}:
        return "edit"
    if name == "sed":
        return "edit" if any(re.match(r"-[a-zA-Z]*i", word) or word == "--in-place" for word in words[1:]) else "read"
    if name == "perl":
        return "edit" if any(re.match(r"-\w*i", word) for word in words[1:]) else "run"
    if name == "tee" or name in _EDIT:
        return "edit"
    if name in {"mv", "cp", "touch", "mkdir", "ln"}:
        return "edit" if name in {"mv", "cp"} else "other"
    for kind, names in (("list", _LIST), ("search", _SEARCH), ("read", _READ), ("clean", _CLEAN)):
        if name in names:
            return kind  # type: ignore[return-value]
    if name in {"pip", "pip3", "apt", "apt-get", "conda", "npm", "yarn"}:
        return "install"
    return "other"
