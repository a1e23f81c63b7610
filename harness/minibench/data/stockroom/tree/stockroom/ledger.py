"""The ledger: every movement, in order, never changed."""

from dataclasses import dataclass

KINDS = ("receive", "pick", "move in", "move out", "correct")


@dataclass(frozen=True)
class Movement:
    """``count`` pieces of an article came to a place (or left it, where the count is negative)."""

    kind: str
    number: str
    count: int
    place: str
    note: str = ""

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}")


class Ledger:
    """A list of movements that only grows."""

    def __init__(self):
        self._movements = []

    def __len__(self):
        return len(self._movements)

    def __iter__(self):
        return iter(tuple(self._movements))

    def write(self, kind, number, count, place, note=""):
        """Add a movement and return it."""
        movement = Movement(kind, number, count, place, note)
        self._movements.append(movement)
        return movement

    def of(self, number):
        """The movements of one article."""
        return [movement for movement in self._movements if movement.number == number]

    def balance(self, number, place=None):
        """What the movements of an article add up to, everywhere or at one place."""
        return sum(movement.count for movement in self.of(number) if place is None or movement.place == place)
