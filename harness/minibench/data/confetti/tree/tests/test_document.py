from confetti import Document, loads

TEXT = "top = 1\n[server]\nhost = localhost\nport = 8080\ntags = a, b\nverbose\n"


def test_get():
    document = loads(TEXT)
    assert document.get("server", "host") == "localhost"
    assert document.get("", "top") == "1"
    assert document.get("server", "nothing", "x") == "x"
    assert document.get("nowhere", "nothing") is None


def test_sections_and_keys_keep_their_order():
    document = loads(TEXT)
    assert document.sections() == ["", "server"]
    assert document.keys("server") == ["host", "port", "tags", "verbose"]


def test_typed_values():
    document = loads(TEXT)
    assert document.get_int("server", "port") == 8080
    assert document.get_int("server", "nothing", 5) == 5
    assert document.get_list("server", "tags") == ["a", "b"]
    assert document.get_bool("server", "verbose") is True
    assert document.get_bool("server", "quiet") is False


def test_later_values_count():
    assert loads("a = 1\na = 2\n").get("", "a") == "2"


def test_set_makes_text():
    document = Document()
    document.set("x", "n", 3)
    assert document.get("x", "n") == "3"


def test_remove():
    document = loads(TEXT)
    assert document.remove("", "top")
    assert not document.remove("", "top")
    assert document.sections() == ["server"]


def test_update():
    document = loads("[a]\nx = 1\ny = 1\n")
    document.update(loads("[a]\ny = 2\n[b]\nz = 3\n"))
    assert document.as_dict() == {"a": {"x": "1", "y": "2"}, "b": {"z": "3"}}


def test_as_dict_is_a_copy():
    document = loads("a = 1\n")
    document.as_dict()[""]["a"] = "2"
    assert document.get("", "a") == "1"
