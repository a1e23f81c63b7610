import pytest

from tariff import Money, RateTable
from tariff.errors import UnknownRate

RATES = RateTable("EUR", {"USD": "1.25", "JPY": 160, "CHF": 1})


def test_from_the_base():
    assert RATES.convert(Money(1000, "EUR"), "USD") == Money(1250, "USD")


def test_to_the_base():
    assert RATES.convert(Money(1250, "USD"), "EUR") == Money(1000, "EUR")


def test_other_decimals():
    assert RATES.convert(Money(100, "EUR"), "JPY") == Money(160, "JPY")


def test_same_currency():
    assert RATES.convert(Money(5, "CHF"), "CHF") == Money(5, "CHF")


def test_unknown_rate():
    with pytest.raises(UnknownRate, match="CHF, EUR, JPY, USD"):
        RATES.convert(Money(1, "EUR"), "GBP")


def test_total():
    assert RATES.total([Money(100, "EUR"), Money(125, "USD")], "EUR") == Money(200, "EUR")


def test_rates_must_be_positive():
    with pytest.raises(ValueError):
        RateTable("EUR", {"USD": 0})
