"""Money, exchange rates, units of measure and invoices."""

from tariff.invoice import Invoice
from tariff.money import Money
from tariff.parse import parse_money, parse_quantity
from tariff.rates import RateTable
from tariff.units import Registry, standard

__all__ = ["Invoice", "Money", "RateTable", "Registry", "parse_money", "parse_quantity", "standard"]
