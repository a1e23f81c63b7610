import pytest

from tabular.cells import pad, shorten, to_text, wrap


def test_to_text_of_common_values():
    assert to_text(None) == ""
    assert to_text(True) == "yes"
    assert to_text(3) == "3"
    assert to_text(2.5, decimals=2) == "2.50"


def test_line_breaks_become_spaces():
    assert to_text("a\nb") == "a b"


def test_shorten_cuts_long_text():
    assert shorten("a long sentence", 7) == "a long…"


def test_shorten_leaves_short_text():
    assert shorten("abc", 10) == "abc"


def test_shorten_refuses_no_width():
    with pytest.raises(ValueError):
        shorten("abc", 0)


def test_wrap_breaks_at_spaces():
    assert wrap("one two three four", 9) == ["one two", "three", "four"]


def test_wrap_breaks_long_words():
    assert wrap("abcdefgh", 3) == ["abc", "def", "gh"]


def test_wrap_of_nothing_is_one_empty_line():
    assert wrap("", 5) == [""]


def test_pad():
    assert pad("a", 3) == "a  "
    assert pad("a", 3, "right") == "  a"
    assert pad("a", 3, "center") == " a "
