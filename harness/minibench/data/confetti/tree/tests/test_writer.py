from confetti import Document, dumps, loads


def test_what_is_written_can_be_read():
    document = loads("top = 1\n[a]\nx = 1\n  2\ny =\n[b]\nz = 3\n")
    assert loads(dumps(document)) == document


def test_layout():
    assert dumps(loads("[a]\nx=1\nlong = 2\n")) == "[a]\nx = 1\nlong = 2\n"
    assert dumps(loads("[a]\nx=1\nlong = 2\n"), align=True) == "[a]\nx    = 1\nlong = 2\n"


def test_nothing():
    assert dumps(Document()) == ""
