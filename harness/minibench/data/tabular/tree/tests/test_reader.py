import pytest

from tabular import read_delimited
from tabular.reader import guess, split


def test_guess():
    assert guess("12") == 12
    assert guess(" 1.5 ") == 1.5
    assert guess("x1") == "x1"
    assert guess("  ") is None


def test_split_with_quotes():
    assert split('a,"b,c","d ""e"""', ",") == ["a", "b,c", 'd "e"']


def test_read_delimited():
    table = read_delimited("name,kilos\napple,12\n\npear,3\n")
    assert table.column("kilos") == [12, 3]
    assert [column.align for column in table.columns] == ["left", "right"]


def test_short_lines_are_filled():
    assert list(read_delimited("a;b\n1\n", delimiter=";")) == [(1, None)]


def test_long_lines_are_refused():
    with pytest.raises(ValueError):
        read_delimited("a,b\n1,2,3\n")


def test_no_header():
    with pytest.raises(ValueError):
        read_delimited("\n\n")
