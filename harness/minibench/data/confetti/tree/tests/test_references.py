import pytest

from confetti import ReferenceCycle, loads, resolved
from confetti.errors import UnknownReference


def test_references_to_other_sections():
    document = resolved(loads("[a]\nx = ${b.y}!\n[b]\ny = 1\n"))
    assert document.get("a", "x") == "1!"


def test_references_inside_a_section():
    assert resolved(loads("[a]\nx = ${y}${y}\ny = 1\n")).get("a", "x") == "11"


def test_references_to_references():
    assert resolved(loads("a = ${b}\nb = ${c}\nc = 1\n")).get("", "a") == "1"


def test_circles_are_refused():
    with pytest.raises(ReferenceCycle, match=".a -> .b -> .a"):
        resolved(loads("a = ${b}\nb = ${a}\n"))


def test_unknown_references_are_refused():
    with pytest.raises(UnknownReference):
        resolved(loads("a = ${b}\n"))
