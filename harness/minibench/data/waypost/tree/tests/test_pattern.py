from datetime import date

import pytest

from waypost import BuildError, Pattern, PatternError


def test_fixed_paths():
    assert Pattern("/a/b").match("/a/b") == {}
    assert Pattern("/a/b").match("/a/b/") == {}
    assert Pattern("/a/b").match("/a") is None
    assert Pattern("/a").match("/a/b") is None
    assert Pattern("/").match("/") == {}


def test_parameters():
    assert Pattern("/users/{id:int}").match("/users/7") == {"id": 7}
    assert Pattern("/users/{id:int}").match("/users/x") is None
    assert Pattern("/{name}/{slug:word}").match("/a b/c-d") == {"name": "a b", "slug": "c-d"}
    assert Pattern("/on/{day:day}").match("/on/2023-01-31") == {"day": date(2023, 1, 31)}


def test_the_rest_of_a_path():
    assert Pattern("/files/{file:path}").match("/files/a/b/c.txt") == {"file": "a/b/c.txt"}
    assert Pattern("/files/{file:path}").match("/files") is None


def test_numbers_in_bounds():
    pattern = Pattern("/page/{n:int(1,10)}")
    assert pattern.match("/page/1") == {"n": 1}
    assert pattern.match("/page/0") is None
    assert pattern.match("/page/11") is None


def test_patterns_that_make_no_sense():
    for text in ("a", "/{x}/{x}", "/{x:path}/b", "/a{x}", "/{x:colour}", "/{x:word(1)}"):
        with pytest.raises(PatternError):
            Pattern(text)


def test_build():
    assert Pattern("/users/{id:int}/edit").build({"id": 7}) == "/users/7/edit"
    assert Pattern("/").build({}) == "/"


def test_build_refuses_what_would_not_match():
    with pytest.raises(BuildError):
        Pattern("/users/{id:int}").build({"id": "x"})
    with pytest.raises(BuildError):
        Pattern("/users/{id:int}").build({})
