"""What can go wrong."""


class StockError(Exception):
    """Any problem with the stock."""


class UnknownArticle(StockError):
    """An article number that the catalogue does not have."""

    def __init__(self, number):
        super().__init__(f"unknown article {number!r}")
        self.number = number


class UnknownCategory(StockError):
    """A category that the catalogue does not have."""

    def __init__(self, name):
        super().__init__(f"unknown category {name!r}")
        self.name = name


class NotEnough(StockError):
    """More was asked for than there is."""

    def __init__(self, number, wanted, there):
        super().__init__(f"{wanted} of {number} were asked for, {there} are there")
        self.number = number
        self.wanted = wanted
        self.there = there
