"""From a request to a response, by way of a router."""

from waypost.errors import MethodNotAllowed, NotFound
from waypost.query import split_target


class Response:
    """A status, a body and headers."""

    def __init__(self, status, body="", headers=None):
        self.status = status
        self.body = body
        self.headers = dict(headers or {})

    def __repr__(self):
        return f"Response({self.status}, {self.body!r})"


def as_response(value):
    """What a handler returned, as a response: one already, a text, or nothing (204)."""
    if isinstance(value, Response):
        return value
    if value is None:
        return Response(204)
    return Response(200, str(value))


def dispatch(router, method, target):
    """Call the handler for ``target`` with the parameters of its path, and with ``query`` where there is a query."""
    path, query = split_target(target)
    try:
        match = router.match(method, path)
    except NotFound as error:
        return Response(404, f"{error}\n")
    except MethodNotAllowed as error:
        return Response(405, f"{error}\n", {"Allow": ", ".join(error.allowed)})
    arguments = dict(match.params)
    if query:
        arguments["query"] = query
    response = as_response(match.handler(**arguments))
    if method.upper() == "HEAD":
        return Response(response.status, "", response.headers)
    return response
