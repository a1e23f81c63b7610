"""References: ``${section.key}`` in a value stands for another value, ``${key}`` for one of the same section."""

import re

from confetti.document import Document, folded
from confetti.errors import ReferenceCycle, UnknownReference

REFERENCE = re.compile(r"\$\{([^{}]*)\}")


def resolved(document):
    """A new document in which all references are replaced by what they stand for. Flags stay flags."""
    result = Document()
    for section in document.sections():
        for key in document.keys(section):
            result.set(section, key, _value(document, section, key, []))
    return result


def _target(name, section):
    first, dot, second = name.partition(".")
    if dot:
        return folded(first), folded(second)
    return section, folded(first)


def _value(document, section, key, chain):
    place = f"{section}.{key}"
    if place in chain:
        raise ReferenceCycle([*chain, place])
    text = document.get(section, key)
    if text is None:
        return None

    def replace(match):
        other_section, other_key = _target(match[1], section)
        if not document.has(other_section, other_key):
            raise UnknownReference(f"{other_section}.{other_key}", place)
        value = _value(document, other_section, other_key, [*chain, place])
        return "" if value is None else value

    return REFERENCE.sub(replace, text)
