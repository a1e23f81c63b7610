"""Amounts of money."""

from decimal import ROUND_HALF_EVEN, Decimal
from functools import total_ordering

from tariff.currencies import decimals, scale
from tariff.errors import CurrencyMismatch


def rounded(number):
    """The whole number nearest to ``number``; half goes to the even one."""
    return int(Decimal(number).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


@total_ordering
class Money:
    """``minor`` smallest units (cents) of ``currency``. Never changes."""

    __slots__ = ("currency", "minor")

    def __init__(self, minor, currency):
        scale(currency)
        object.__setattr__(self, "minor", int(minor))
        object.__setattr__(self, "currency", currency)

    @classmethod
    def of(cls, amount, currency):
        """From an amount in whole currency units: a text, an int or a Decimal."""
        return cls(rounded(Decimal(amount) * scale(currency)), currency)

    def __setattr__(self, name, value):
        raise AttributeError("money does not change")

    def __repr__(self):
        return f"Money({self.minor}, {self.currency!r})"

    def __str__(self):
        places = decimals(self.currency)
        return f"{Decimal(self.minor).scaleb(-places):.{places}f} {self.currency}"

    def _same(self, other):
        if self.currency != other.currency:
            raise CurrencyMismatch(self.currency, other.currency)

    def __eq__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        return (self.minor, self.currency) == (other.minor, other.currency)

    def __hash__(self):
        return hash((self.minor, self.currency))

    def __lt__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        self._same(other)
        return self.minor < other.minor

    def __add__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        self._same(other)
        return Money(self.minor + other.minor, self.currency)

    def __sub__(self, other):
        if not isinstance(other, Money):
            return NotImplemented
        self._same(other)
        return Money(self.minor - other.minor, self.currency)

    def __mul__(self, factor):
        return Money(rounded(self.minor * Decimal(str(factor))), self.currency)

    __rmul__ = __mul__

    def percent(self, number):
        """``number`` percent of the amount."""
        return self * (Decimal(str(number)) / 100)

    def split(self, weights):
        """The amount in parts of these weights; the parts add up to it exactly.

        What is left after rounding down goes, a unit each, to the first parts.
        """
        whole = sum(weights)
        parts = [self.minor * weight // whole for weight in weights]
        left = self.minor - sum(parts)
        return [Money(part + (1 if number < left else 0), self.currency) for number, part in enumerate(parts)]
