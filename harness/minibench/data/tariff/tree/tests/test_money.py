import pytest

from tariff import Money
from tariff.errors import CurrencyMismatch, UnknownCurrency


def test_text():
    assert str(Money(1250, "EUR")) == "12.50 EUR"
    assert str(Money(1250, "JPY")) == "1250 JPY"
    assert str(Money(-5, "KWD")) == "-0.005 KWD"


def test_of():
    assert Money.of("12.5", "EUR") == Money(1250, "EUR")
    assert Money.of(3, "JPY") == Money(3, "JPY")


def test_unknown_currency():
    with pytest.raises(UnknownCurrency):
        Money(1, "XXX")


def test_adding():
    assert Money(100, "EUR") + Money(50, "EUR") - Money(1, "EUR") == Money(149, "EUR")
    with pytest.raises(CurrencyMismatch):
        Money(1, "EUR") + Money(1, "USD")


def test_times():
    assert Money(333, "EUR") * 3 == Money(999, "EUR")
    assert 0.5 * Money(3, "EUR") == Money(2, "EUR")


def test_order():
    assert Money(1, "EUR") < Money(2, "EUR")
    assert Money(2, "EUR") >= Money(2, "EUR")


def test_percent():
    assert Money(1000, "EUR").percent(19) == Money(190, "EUR")


def test_split_loses_nothing():
    parts = Money(100, "EUR").split([1, 1, 1])
    assert [part.minor for part in parts] == [34, 33, 33]


def test_money_does_not_change():
    with pytest.raises(AttributeError):
        Money(1, "EUR").minor = 2
