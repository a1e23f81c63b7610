"""Which words belong to one repository: what a general item must not contain, and what abstraction takes out.

A name is refused when it has the shape of code (snake_case, CamelCase, dotted, a path, a file name) and is not part of Python itself, or when
it is one of this attempt's own names: the repository's, its packages', the edited files' and functions'.
"""

from __future__ import annotations

import builtins
import keyword
import re
import sys
from collections.abc import Iterable
from functools import lru_cache

from ..patches import edited_paths, edited_symbols
from ..records import Attempt

# Words of the language and its tools: they mean the same in every repository. The tools are those that many repositories share.
_TOOLS = frozenset(
    {
        "pytest",
        "unittest",
        "tox",
        "git",
        "pip",
        "sed",
        "grep",
        "numpy",
        "pandas",
        "PYTHONIOENCODING",
        "PYTHONPATH",
        "utf-8",
        "stdout",
        "stderr",
    }
)
_METHODS = frozenset(
    name
    for kind in (str, bytes, list, dict, set, tuple, int, float, object, BaseException, type, property)
    for name in dir(kind)
    if not name.startswith("_")
)
_PROSE_COMPOUNDS = frozenset(
    {
        "GitHub",
        "JavaScript",
        "TypeScript",
        "LaTeX",
        "MySQL",
        "PostgreSQL",
        "SQLite",
        "OpenSSL",
        "macOS",
        "iOS",
        "NaN",
        "YAML",
        "NumPy",
        "IPython",
    }
)
# Ordinary English that is also a common file or folder name: seeing it in a sentence says nothing about a repository.
_ORDINARY = frozenset(
    re.findall(
        r"\w+",
        """
    api app apps args array arrays base build cache call calls check checks class classes code collection command commands common compat
    compiler config console constant constants context core data database date dates debug default defaults docs document element error
    errors event events example examples exception exceptions expression expressions field fields file files filter filters fixture
    fixtures form format formats forms frame function functions general graph group handler handlers helper helpers html http image
    images index init input integer interface internal item items json key language layout lib line lines link list loader local lock
    log logging lookups mapping math matrix memory message messages meta method methods middleware mixin mixins model models module
    modules name names network nodes number numbers object objects operation operations operator operators option options order output
    package page parameter parser parsers path paths pattern patterns permission pipeline plot plugin point printing process protocol
    python query range reader region registry related report request resource response result results router run runner schema scope
    script scripts search selection series server session sessions set settings shape signal signals simple source sources split static
    statement state statistics status storage store string strings structure style symbol system table tables tag task template
    templates test testing tests text thread time title token tokens tool tools transform tree type types unit units update url urls
    user users util utilities utils validation validators value values variable variables vector version view views weighted widget
    widgets window word worker writer src main
        """,
    )
)
_CODE = re.compile(
    # Begun only at the beginning of a word, and a file's name bounded: else a word of n letters would be tried from each of them to its end.
    r"(?P<path>(?<![\w.-])(?:[\w.-]+/)+[\w.-]+)|(?P<file>\b[\w-]{1,100}\.(?:py|js|ts|c|h|cpp|rst|md|txt|cfg|toml|ini|json|yml|yaml|html|css|go|rs|java|rb|sh)\b)|"
    r"(?P<dotted>\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)|(?P<snake>\b_*[A-Za-z]\w*_\w*|\b_[A-Za-z]\w*)|(?P<camel>\b[A-Za-z]*[a-z0-9][A-Z]\w*|\b[A-Z]{2,}[a-z]\w+)|"
    r"(?P<call>\b[A-Za-z_]\w*(?=\())"
)
_DUNDER = re.compile(r"__\w+__")


@lru_cache(maxsize=1)
def python_words() -> frozenset[str]:
    """Keywords, builtins, exceptions, methods of builtin types and the names of standard modules."""
    return frozenset({*keyword.kwlist, *dir(builtins), *sys.stdlib_module_names, *_METHODS, *_TOOLS, "self", "cls"})


@lru_cache(maxsize=1)
def _dotted_roots() -> frozenset[str]:
    return frozenset({*dir(builtins), *sys.stdlib_module_names})


def is_python(word: str) -> bool:
    """Whether a (possibly dotted) word is Python's own: ``isinstance``, ``KeyError``, ``json.dumps``, ``dict.get``, ``__eq__``."""
    parts = [part for part in re.split(r"\.", word.rstrip("()")) if part]
    if not parts or any(not part.isidentifier() for part in parts):
        return word in _TOOLS
    if len(parts) == 1:
        return parts[0] in python_words() or bool(_DUNDER.fullmatch(parts[0]))
    return parts[0] in _dotted_roots() and (
        parts[0] in sys.stdlib_module_names or all(p in python_words() or _DUNDER.fullmatch(p) for p in parts[1:])
    )


def repository_words(attempt: Attempt) -> frozenset[str]:
    """This attempt's own names, lower case: the repository's, its top packages', edited files' stems and folders, edited functions and classes."""
    words: set[str] = set()
    for part in attempt.issue.repo.lower().split("/"):
        words.update({part, part.replace("-", "_"), *re.split(r"[-_.]", part)})
    patch = attempt.trajectory.patch or ""
    for path in edited_paths(patch):
        pieces = path.lower().split("/")
        words.add(pieces[0].split(".")[0])
        for piece in pieces:
            stem = piece.rsplit(".", 1)[0]
            words.update({stem, stem.strip("_")})
    words.update(symbol.lower().rsplit(".", 1)[-1] for symbol in edited_symbols(patch))
    owner = {part for part in re.split(r"[-_./]", attempt.issue.repo.lower()) if len(part) > 2}
    common = _ORDINARY | {word.lower() for word in python_words()}
    return frozenset(
        {word for word in words if len(word) > 2 and word not in common and not _DUNDER.fullmatch(word)}
        | (owner - {"dev", "doc", "learn", "org"})
    )


def code_words(text: str) -> tuple[str, ...]:
    """Words of a text with the shape of code that are not Python's own, in order, each once."""
    found = []
    for match in _CODE.finditer(text):
        word = match[0].strip(".")
        if not is_python(word) and word not in _PROSE_COMPOUNDS and not _harmless(word, match.lastgroup or ""):
            found.append(word)
    return tuple(dict.fromkeys(found))


def _harmless(word: str, kind: str) -> bool:
    if kind == "path":
        # "and/or", "read/write", "1/2": prose, not a path.
        return (
            word.count("/") == 1
            and "." not in word
            and all(p.isalpha() and p.islower() and len(p) < 12 for p in word.split("/"))
            and not word.startswith("src")
        )
    if kind == "dotted":
        return word.lower() in {"e.g", "i.e", "a.k.a"}
    return False


def foreign_words(text: str, words: Iterable[str]) -> tuple[str, ...]:
    """Which of ``words`` occur in the text as whole words, whatever their case."""
    lowered = set(re.findall(r"[a-z0-9_]+", text.lower()))
    return tuple(sorted(word for word in words if word in lowered))
