"""The catalogue: articles in a tree of categories."""

from stockroom.errors import StockError, UnknownArticle, UnknownCategory


class Catalogue:
    """Knows all articles, and which category lies in which."""

    def __init__(self):
        self._articles = {}
        self._parents = {}

    def __len__(self):
        return len(self._articles)

    def __iter__(self):
        return iter(sorted(self._articles.values(), key=lambda article: article.number))

    def add_category(self, name, parent=None):
        """Add a category, inside another one or at the top."""
        if name in self._parents:
            raise StockError(f"there is a category {name!r} already")
        if parent is not None and parent not in self._parents:
            raise UnknownCategory(parent)
        self._parents[name] = parent

    def add(self, article):
        """Add an article to its category."""
        if article.category not in self._parents:
            raise UnknownCategory(article.category)
        if article.number in self._articles:
            raise StockError(f"there is an article {article.number!r} already")
        self._articles[article.number] = article

    def get(self, number):
        """The article with this number."""
        try:
            return self._articles[number]
        except KeyError:
            raise UnknownArticle(number) from None

    def children(self, name):
        """The categories that lie directly in ``name``, in alphabetical order."""
        return sorted(child for child, parent in self._parents.items() if parent == name)

    def tree(self, name, found=None):
        """``name`` and all categories inside it, each before its own children."""
        if name not in self._parents:
            raise UnknownCategory(name)
        found = [] if found is None else found
        found.append(name)
        for child in self.children(name):
            self.tree(child, found)
        return found

    def path(self, name):
        """The way from the top to a category, as in "tools / hammers"."""
        if name not in self._parents:
            raise UnknownCategory(name)
        steps = []
        while name is not None:
            steps.append(name)
            name = self._parents[name]
        return " / ".join(reversed(steps))

    def in_category(self, name):
        """The articles of a category and of all categories inside it."""
        names = self.tree(name)
        return [article for article in self if article.category in names]

    def search(self, text):
        """The articles whose number or name holds ``text``, in any case."""
        wanted = text.lower()
        return [article for article in self if wanted in article.number.lower() or wanted in article.name.lower()]
