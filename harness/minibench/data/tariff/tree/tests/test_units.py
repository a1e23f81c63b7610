import pytest

from tariff import Registry, standard
from tariff.errors import UnknownUnit


def test_neighbours():
    assert standard().convert(2, "km", "m") == 2000
    assert standard().convert(90, "min", "h") == 1.5


def test_over_several_steps():
    assert standard().convert(1, "km", "cm") == 100000


def test_inches():
    assert standard().convert(10, "inches", "cm") == 25.4


def test_what_cannot_be_converted():
    with pytest.raises(UnknownUnit):
        standard().convert(1, "kg", "m")


def test_unknown_units():
    with pytest.raises(UnknownUnit, match="furlong"):
        standard().convert(1, "furlong", "m")


def test_a_unit_is_defined_once():
    registry = Registry()
    registry.define("ell")
    with pytest.raises(UnknownUnit):
        registry.define("ell")
