"""From text to entries, line by line."""

from confetti.errors import SyntaxProblem

COMMENT_MARKS = ("#", ";")


class Entry:
    """One key with its section, its value (``None`` for a flag) and the number of its line."""

    __slots__ = ("key", "number", "section", "value")

    def __init__(self, section, key, value, number):
        self.section = section
        self.key = key
        self.value = value
        self.number = number

    def __repr__(self):
        return f"Entry({self.section!r}, {self.key!r}, {self.value!r})"


def is_comment(line):
    """Whether the line holds nothing but a comment."""
    return line.lstrip().startswith(COMMENT_MARKS)


def section_name(line, number):
    """The name in a ``[section]`` line."""
    text = line.strip()
    if not text.endswith("]"):
        raise SyntaxProblem(number, line, "the section name does not end")
    name = text[1:-1].strip()
    if not name:
        raise SyntaxProblem(number, line, "the section has no name")
    return name


def scan(text):
    """All entries of ``text``, in order. Keys before the first section line belong to the section ""."""
    entries = []
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or is_comment(line):
            continue
        if line[0] in " \t":
            _continue(entries, line, number)
            continue
        if line.startswith("["):
            section = section_name(line, number)
            continue
        key, mark, value = line.partition("=")
        key = key.strip()
        if not key:
            raise SyntaxProblem(number, line, "there is no key")
        entries.append(Entry(section, key, value.strip() if mark else None, number))
    return entries


def _continue(entries, line, number):
    if not entries or entries[-1].value is None:
        raise SyntaxProblem(number, line, "there is no value to continue")
    last = entries[-1]
    last.value = f"{last.value}\n{line.strip()}".lstrip("\n")
