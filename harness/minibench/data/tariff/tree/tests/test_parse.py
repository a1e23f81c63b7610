from decimal import Decimal

import pytest

from tariff import Money, parse_money, parse_quantity
from tariff.errors import NotReadable
from tariff.parse import parse_number


def test_numbers():
    assert parse_number("1,234.5") == Decimal("1234.5")
    assert parse_number(" 12 ") == 12
    with pytest.raises(NotReadable):
        parse_number("12,34")


def test_code_after_the_amount():
    assert parse_money("12.50 EUR") == Money(1250, "EUR")
    assert parse_money("1 234 JPY") == Money(1234, "JPY")


def test_code_before_the_amount():
    assert parse_money("USD 3") == Money(300, "USD")


def test_not_money():
    with pytest.raises(NotReadable):
        parse_money("a lot")


def test_quantity():
    assert parse_quantity("2.5 kg") == (Decimal("2.5"), "kg")
    with pytest.raises(NotReadable):
        parse_quantity("2.5")
