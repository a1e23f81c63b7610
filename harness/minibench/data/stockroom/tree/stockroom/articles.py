"""Articles: what can lie in a warehouse."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Article:
    """One article.

    ``cost`` is in cents. ``minimum`` is the stock below which it is ordered, ``None`` for never; ``supplier`` may be unknown.
    """

    number: str
    name: str
    category: str
    cost: int = 0
    minimum: "int | None" = None
    supplier: "str | None" = None

    def __post_init__(self):
        if not self.number:
            raise ValueError("an article needs a number")
        if self.cost < 0:
            raise ValueError("cost cannot be negative")

    def label(self):
        """Number and name, for shelves."""
        return f"{self.number} {self.name}"
