"""Warehouses: how many of which article lie at which place."""

from stockroom.errors import NotEnough
from stockroom.ledger import Ledger


class Warehouse:
    """Places with articles on them. Every change is written to the ledger."""

    def __init__(self):
        self._places = {}
        self.ledger = Ledger()

    def _change(self, kind, number, count, place, note=""):
        shelf = self._places.setdefault(place, {})
        there = shelf.get(number, 0)
        if there + count < 0:
            raise NotEnough(number, -count, there)
        shelf[number] = there + count
        if not shelf[number]:
            del shelf[number]
        self.ledger.write(kind, number, count, place, note)

    def receive(self, number, count, place):
        """Put ``count`` new pieces on a place."""
        if count <= 0:
            raise ValueError("count must be above 0")
        self._change("receive", number, count, place)

    def pick(self, number, count, place=None):
        """Take pieces from one place, or from as many places as it takes, those with the fewest first."""
        if count <= 0:
            raise ValueError("count must be above 0")
        if place is not None:
            self._change("pick", number, -count, place)
            return
        if self.stock(number) < count:
            raise NotEnough(number, count, self.stock(number))
        for there, name in sorted((shelf[number], name) for name, shelf in self._places.items() if number in shelf):
            taken = min(there, count)
            if taken:
                self._change("pick", number, -taken, name)
            count -= taken

    def move(self, number, count, source, target):
        """Move pieces from one place to another."""
        self._change("move out", number, -count, source)
        self._change("move in", number, count, target)

    def correct(self, number, count, place, note):
        """After counting by hand: say how many there really are, and why."""
        there = self._places.get(place, {}).get(number, 0)
        if count != there:
            self._change("correct", number, count - there, place, note)

    def stock(self, number):
        """How many pieces there are at all places together."""
        return sum(shelf.get(number, 0) for shelf in self._places.values())

    def places(self, number):
        """Where an article lies, in alphabetical order."""
        return sorted(place for place, shelf in self._places.items() if number in shelf)

    def snapshot(self):
        """What lies where at this moment: place -> article number -> count."""
        return {place: dict(shelf) for place, shelf in self._places.items() if shelf}

    def compare(self, before):
        """What has changed since a snapshot: article number -> difference, without those that are the same."""
        numbers = {number for shelf in [*before.values(), *self._places.values()] for number in shelf}
        changes = {}
        for number in sorted(numbers):
            difference = self.stock(number) - sum(shelf.get(number, 0) for shelf in before.values())
            if difference:
                changes[number] = difference
        return changes
