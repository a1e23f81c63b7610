from waypost.query import parse_query, split_target, with_query, write_query


def test_parse_query():
    assert parse_query("a=1&b=x+y&a=2&c") == {"a": ["1", "2"], "b": ["x y"], "c": [""]}
    assert parse_query("") == {}


def test_write_query():
    assert write_query({"a": 1, "b": ["x y", "z"], "c": None}) == "a=1&b=x+y&b=z"


def test_split_target():
    assert split_target("/a%20b?x=1") == ("/a b", {"x": ["1"]})
    assert split_target("/a+b") == ("/a+b", {})


def test_with_query():
    assert with_query("/a", {"x": 1}) == "/a?x=1"
    assert with_query("/a", {}) == "/a"
