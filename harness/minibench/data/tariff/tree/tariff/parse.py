"""Amounts and quantities from text."""

import re
from decimal import Decimal

from tariff.currencies import SIGNS, by_sign
from tariff.errors import NotReadable
from tariff.money import Money

NUMBER = r"-?\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+)?"
CODE_LAST = re.compile(rf"({NUMBER})\s*([A-Z]{{3}})")
CODE_FIRST = re.compile(rf"([A-Z]{{3}})\s*({NUMBER})")
SIGN_FIRST = re.compile(rf"([{re.escape(''.join(SIGNS))}])\s*({NUMBER})")
QUANTITY = re.compile(rf"({NUMBER})\s*(\D+)")


def parse_number(text):
    """A number whose thousands may be grouped by spaces or commas."""
    if re.fullmatch(NUMBER, text.strip()) is None:
        raise NotReadable(text, "a number")
    return Decimal(text.strip().replace(" ", "").replace(",", ""))


def parse_money(text):
    """An amount such as "12.50 EUR", "EUR 12.50" or "€12.50"."""
    text = text.strip()
    match = CODE_LAST.fullmatch(text)
    if match:
        return Money.of(parse_number(match[1]), match[2])
    match = CODE_FIRST.fullmatch(text)
    if match:
        return Money.of(parse_number(match[2]), match[1])
    match = SIGN_FIRST.fullmatch(text)
    if match:
        return Money.of(parse_number(match[2]), by_sign(match[1]))
    raise NotReadable(text, "an amount of money")


def parse_quantity(text):
    """A number and the name of a unit, as in "2.5 kg"."""
    match = QUANTITY.fullmatch(text.strip())
    if match is None:
        raise NotReadable(text, "a quantity with a unit")
    return parse_number(match[1]), match[2].strip()
