"""Several documents, one above the other."""

from confetti.document import MISSING, Document


class Layers:
    """Looks for a value in one document after the other, the first one first."""

    def __init__(self, *documents):
        self.documents = list(documents)

    def add(self, document):
        """Put another document below the others."""
        self.documents.append(document)
        return self

    def has(self, section, key):
        """Whether any layer has the key."""
        return any(document.has(section, key) for document in self.documents)

    def get(self, section, key, default=None):
        """The value in the topmost layer that has the key, or ``default``."""
        for document in self.documents:
            value = document.get(section, key, MISSING)
            if value is not MISSING:
                return value
        return default

    def origin(self, section, key):
        """The number of the layer that a value comes from, counted from the top and from 0, or ``None``."""
        for number, document in enumerate(self.documents):
            if document.has(section, key):
                return number
        return None

    def flattened(self):
        """One document with what all layers say together."""
        result = Document()
        for document in reversed(self.documents):
            result.update(document)
        return result
