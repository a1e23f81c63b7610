import pytest

from confetti.errors import BadValue
from confetti.values import to_bool, to_int, to_list, to_seconds


def test_to_bool():
    assert to_bool("Yes") is True
    assert to_bool(" off ") is False
    with pytest.raises(BadValue):
        to_bool("maybe")


def test_to_int():
    assert to_int(" 42 ") == 42
    assert to_int("0x10") == 16
    with pytest.raises(BadValue):
        to_int("4.5")


def test_to_list():
    assert to_list("a, b,,c") == ["a", "b", "c"]
    assert to_list("a, b\nc") == ["a, b", "c"]


def test_to_seconds():
    assert to_seconds("90") == 90
    assert to_seconds("1h 30m") == 5400
    with pytest.raises(BadValue):
        to_seconds("soon")
