"""Exchange rates against one base currency."""

from decimal import Decimal

from tariff.currencies import scale
from tariff.errors import UnknownRate
from tariff.money import Money, rounded


class RateTable:
    """``rates`` says how much of each currency one unit of ``base`` buys."""

    def __init__(self, base, rates):
        self.base = base
        self.rates = {code: Decimal(str(rate)) for code, rate in rates.items()}
        for code, rate in self.rates.items():
            if rate <= 0:
                raise ValueError(f"the rate of {code} must be above 0")
        self.rates[base] = Decimal(1)

    def currencies(self):
        """The codes that can be converted, in alphabetical order."""
        return sorted(self.rates)

    def _known(self, code):
        if code not in self.rates:
            raise UnknownRate(f"there is no rate for {code}; there are {', '.join(self.currencies())}")
        return self.rates[code]

    def rate(self, source, target):
        """How much of ``target`` one unit of ``source`` buys."""
        if source == self.base:
            return self._known(target)
        if target == self.base:
            return 1 / self._known(source)
        return self._cross(source, target)

    def _cross(self, source, target):
        """The rate between two currencies by way of the base."""
        return self._known(target) / self._known(source)

    def convert(self, money, target):
        """The amount in another currency, rounded to its smallest unit."""
        if money.currency == target:
            return money
        units = Decimal(money.minor) / scale(money.currency)
        return Money(rounded(units * self.rate(money.currency, target) * scale(target)), target)

    def total(self, amounts, target):
        """The sum of amounts in any currencies, each converted."""
        result = Money(0, target)
        for money in amounts:
            result += self.convert(money, target)
        return result
