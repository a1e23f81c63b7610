"""What can go wrong."""


class TariffError(ValueError):
    """Any problem with an amount, a rate or a unit."""


class CurrencyMismatch(TariffError):
    """Two amounts of different currencies were put together."""

    def __init__(self, first, second):
        super().__init__(f"cannot put {first} and {second} together without a rate")


class UnknownCurrency(TariffError):
    """A currency that nobody has told us about."""


class UnknownRate(TariffError):
    """There is no way from one currency to the other."""


class UnknownUnit(TariffError):
    """A unit that has not been defined, or a conversion that is not possible."""


class NotReadable(TariffError):
    """A text that is not an amount or a quantity."""

    def __init__(self, text, expected):
        super().__init__(f"{text!r} is not {expected}")
        self.text = text
