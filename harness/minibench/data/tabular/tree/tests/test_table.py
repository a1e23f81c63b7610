import pytest

from tabular import Column, Table


def fruit():
    return Table(["name", "kilos"], [("pear", 3), ("apple", 12), ("fig", 1)])


def test_rows_must_fit():
    with pytest.raises(ValueError):
        fruit().add_row("only one")


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(ValueError):
        Table(["a", "a"])


def test_index_of_an_unknown_column():
    with pytest.raises(KeyError):
        fruit().index("colour")


def test_column_gives_values_in_order():
    assert fruit().column("kilos") == [3, 12, 1]


def test_sorted_by():
    assert fruit().sorted_by("name").column("name") == ["apple", "fig", "pear"]
    assert fruit().sorted_by("kilos", reverse=True).column("kilos") == [12, 3, 1]


def test_sorting_leaves_the_original_alone():
    table = fruit()
    table.sorted_by("name")
    assert table.column("name") == ["pear", "apple", "fig"]


def test_where():
    assert fruit().where("kilos", lambda kilos: kilos > 2).column("name") == ["pear", "apple"]


def test_select():
    assert list(fruit().select("kilos", "name")) == [(3, "pear"), (12, "apple"), (1, "fig")]


def test_total_leaves_out_blank_cells():
    table = fruit()
    table.add_row("plum", None)
    assert table.total("kilos") == 16


def test_renamed_column_keeps_its_looks():
    column = Column("a", align="right", decimals=1).renamed("b")
    assert (column.name, column.align, column.decimals) == ("b", "right", 1)
