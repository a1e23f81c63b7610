import pytest

from tabular import Column, Table, render


def small():
    return Table([Column("fruit"), Column("kilos", align="right")], [("apple", 12), ("pear", 3)])


def test_plain():
    assert render(small()) == "fruit  kilos\n-----  -----\napple     12\npear       3"


def test_plain_with_title():
    table = small()
    table.title = "Stock"
    assert render(table).splitlines()[0].strip() == "Stock"


def test_markdown():
    assert render(small(), "markdown").splitlines()[1] == "| :-- | --: |"


def test_markdown_escapes_pipes():
    assert "a\\|b" in render(Table(["x"], [("a|b",)]), "markdown")


def test_csv_quotes():
    assert render(Table(["x", "y"], [("a,b", 'say "hi"')]), "csv") == 'x,y\n"a,b","say ""hi"""'


def test_unknown_style():
    with pytest.raises(ValueError):
        render(small(), "html")


def test_wrapped_cells_fill_several_lines():
    table = Table([Column("id"), Column("note", max_width=8, overflow="wrap")], [(1, "a longer remark")])
    assert len(render(table).splitlines()) >= 4
