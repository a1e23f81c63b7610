import pytest

from tariff import Invoice, Money
from tariff.errors import CurrencyMismatch


def test_net():
    invoice = Invoice("EUR")
    invoice.add("chair", 4, Money(4990, "EUR"))
    invoice.add("table", 1, Money(19900, "EUR"))
    assert invoice.net() == Money(39860, "EUR")
    assert invoice.total() == invoice.net()


def test_discount():
    invoice = Invoice("EUR", discount_percent=10)
    invoice.add("chair", 1, Money(5000, "EUR"))
    assert invoice.total() == Money(4500, "EUR")


def test_tax():
    invoice = Invoice("EUR", tax_percent=20)
    invoice.add("chair", 1, Money(5000, "EUR"))
    invoice.add("stamps", 1, Money(1000, "EUR"), taxed=False)
    assert invoice.tax() == Money(1000, "EUR")
    assert invoice.total() == Money(7000, "EUR")


def test_other_currencies_are_refused():
    with pytest.raises(CurrencyMismatch):
        Invoice("EUR").add("chair", 1, Money(1, "USD"))


def test_count_must_be_positive():
    with pytest.raises(ValueError):
        Invoice("EUR").add("chair", 0, Money(1, "EUR"))


def test_shares_add_up():
    invoice = Invoice("EUR")
    invoice.add("dinner", 1, Money(10000, "EUR"))
    assert sum(share.minor for share in invoice.shares([1, 1, 1])) == 10000
