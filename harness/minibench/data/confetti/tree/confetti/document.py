"""A configuration in memory."""

from confetti.scanner import scan
from confetti.values import to_bool, to_int, to_list

MISSING = object()


def folded(name):
    """The form under which a section or a key is kept: case and outer spaces do not matter."""
    return name.strip().lower()


class Document:
    """Sections of keys with text values. A value of ``None`` is a flag: a key that stands alone."""

    def __init__(self):
        self._sections = {}

    def __contains__(self, section):
        return folded(section) in self._sections

    def __eq__(self, other):
        if not isinstance(other, Document):
            return NotImplemented
        return self._sections == other._sections

    __hash__ = None

    def sections(self):
        """The names of the sections, in the order of their first key."""
        return list(self._sections)

    def keys(self, section):
        """The keys of one section; none where there is no such section."""
        return list(self._sections.get(folded(section), {}))

    def has(self, section, key):
        """Whether the key is there, with or without a value."""
        return folded(key) in self._sections.get(folded(section), {})

    def get(self, section, key, default=None):
        """The text of a value, or ``default`` where the key is missing."""
        return self._sections.get(folded(section), {}).get(folded(key), default)

    def set(self, section, key, value):
        """Give a key a value, or ``None`` to make it a flag."""
        if value is not None and not isinstance(value, str):
            value = str(value)
        self._sections.setdefault(folded(section), {})[folded(key)] = value

    def remove(self, section, key):
        """Take a key out; says whether it was there. A section without keys goes as well."""
        pairs = self._sections.get(folded(section), {})
        if folded(key) not in pairs:
            return False
        del pairs[folded(key)]
        if not pairs:
            del self._sections[folded(section)]
        return True

    def update(self, other):
        """Take over all values of another document; where both have a key, the other's counts."""
        for section, pairs in other._sections.items():
            if section in self._sections:
                self._sections[section].update(pairs)
            else:
                self._sections[section] = dict(pairs)

    def as_dict(self):
        """Sections, keys and values as plain dictionaries that may be changed."""
        return {section: dict(pairs) for section, pairs in self._sections.items()}

    def get_int(self, section, key, default=0):
        """A value as a whole number."""
        text = self.get(section, key)
        return default if text is None else to_int(text)

    def get_bool(self, section, key, default=False):
        """A value as yes or no; a flag that is there means yes."""
        text = self.get(section, key, MISSING)
        if text is MISSING:
            return default
        return True if text is None else to_bool(text)

    def get_list(self, section, key):
        """A value as a list; an empty one where the key is missing."""
        text = self.get(section, key)
        return [] if text is None else to_list(text)


def loads(text):
    """The document that ``text`` describes. A key that comes twice has the later value."""
    document = Document()
    for entry in scan(text):
        document.set(entry.section, entry.key, entry.value)
    return document
