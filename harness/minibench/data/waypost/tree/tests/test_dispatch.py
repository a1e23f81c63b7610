from waypost import Response, Router, dispatch


def site():
    router = Router()
    router.add("/hello/{name}", lambda name: f"hello {name}")
    router.add("/search", lambda query=None: str(query))
    router.add("/gone", lambda: Response(410), methods=["GET", "DELETE"])
    router.add("/nothing", lambda: None)
    return router


def test_text():
    response = dispatch(site(), "GET", "/hello/ada%20l")
    assert (response.status, response.body) == (200, "hello ada l")


def test_query():
    assert dispatch(site(), "GET", "/search?q=1").body == "{'q': ['1']}"
    assert dispatch(site(), "GET", "/search").body == "None"


def test_other_responses():
    assert dispatch(site(), "DELETE", "/gone").status == 410
    assert dispatch(site(), "GET", "/nothing").status == 204


def test_nothing_there():
    assert dispatch(site(), "GET", "/nowhere").status == 404


def test_head_has_no_body():
    assert dispatch(site(), "HEAD", "/hello/ada").body == ""


def test_method_not_allowed_lists_methods():
    response = dispatch(site(), "POST", "/gone")
    assert (response.status, response.headers) == (405, {"Allow": "DELETE, GET, HEAD"})
