import pytest

from waypost import BuildError, MethodNotAllowed, NotFound, Router


def show(**params):
    return params


def api():
    router = Router()
    router.add("/users", show, name="users")
    router.add("/users", show, methods=["POST"], name="new_user")
    router.add("/users/{id:int}", show, name="user")
    return router


def test_match():
    match = api().match("GET", "/users/7")
    assert match.params == {"id": 7}
    assert match.route.name == "user"


def test_methods_choose_the_route():
    assert api().match("POST", "/users").route.name == "new_user"
    assert api().match("HEAD", "/users").route.name == "users"


def test_not_found():
    with pytest.raises(NotFound):
        api().match("GET", "/nobody")


def test_method_not_allowed():
    with pytest.raises(MethodNotAllowed) as caught:
        api().match("DELETE", "/users")
    assert caught.value.allowed == ("GET", "HEAD", "POST")


def test_mounted_routers():
    site = Router()
    site.mount("/api/v1", api())
    assert site.match("GET", "/api/v1/users/3").params == {"id": 3}
    assert site.path_for("user", id=3) == "/api/v1/users/3"
    with pytest.raises(NotFound):
        site.match("GET", "/users/3")


def test_routers_in_routers_in_routers():
    inner, outer = Router(), Router()
    inner.mount("/b", api())
    outer.mount("/a", inner)
    assert outer.path_for("users") == "/a/b/users"


def test_names():
    assert api().path_for("users") == "/users"
    with pytest.raises(BuildError):
        api().path_for("nobody")
    router = api()
    with pytest.raises(BuildError):
        router.add("/x", show, name="user")
