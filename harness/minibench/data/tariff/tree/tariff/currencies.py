"""Currencies: how many decimals they have, and their signs."""

from tariff.errors import UnknownCurrency

DECIMALS = {"EUR": 2, "USD": 2, "CHF": 2, "GBP": 2, "SEK": 2, "JPY": 0, "KWD": 3}
SIGNS = {"€": "EUR", "$": "USD", "£": "GBP", "¥": "JPY"}


def decimals(code):
    """How many decimals an amount of this currency has."""
    try:
        return DECIMALS[code]
    except KeyError:
        raise UnknownCurrency(f"unknown currency {code!r}") from None


def scale(code):
    """How many of its smallest units make one of this currency: 100 cents make a euro."""
    return 10 ** decimals(code)


def by_sign(sign):
    """The code of the currency with this sign."""
    try:
        return SIGNS[sign]
    except KeyError:
        raise UnknownCurrency(f"unknown currency sign {sign!r}") from None
