"""Invoices: lines, a discount, tax, and the total."""

from tariff.errors import CurrencyMismatch
from tariff.money import Money


class Line:
    """So many of a thing at a price each."""

    def __init__(self, title, count, price, taxed=True):
        if count <= 0:
            raise ValueError("count must be above 0")
        self.title = title
        self.count = count
        self.price = price
        self.taxed = taxed

    def amount(self):
        """What the line costs."""
        return self.price * self.count


class Invoice:
    """Lines in one currency. The discount comes off the net amount; tax is due on what is left of the lines that are taxed."""

    def __init__(self, currency, tax_percent=0, discount_percent=0):
        self.currency = currency
        self.tax_percent = tax_percent
        self.discount_percent = discount_percent
        self.lines = []

    def add(self, title, count, price, taxed=True):
        """Add a line and return it."""
        if price.currency != self.currency:
            raise CurrencyMismatch(self.currency, price.currency)
        line = Line(title, count, price, taxed)
        self.lines.append(line)
        return line

    def _sum(self, lines):
        total = Money(0, self.currency)
        for line in lines:
            total += line.amount()
        return total

    def net(self):
        """What all lines cost together."""
        return self._sum(self.lines)

    def discount(self):
        """What comes off."""
        return self.net().percent(self.discount_percent)

    def tax(self):
        """The tax that is due."""
        taxed = self._sum(line for line in self.lines if line.taxed)
        reduced = taxed - taxed.percent(self.discount_percent)
        return reduced.percent(self.tax_percent)

    def total(self):
        """What is to be paid."""
        return self.net() - self.discount() + self.tax()

    def shares(self, weights):
        """The total in parts, for those who share the bill."""
        return self.total().split(weights)
