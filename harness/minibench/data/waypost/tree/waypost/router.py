"""Routers: many routes, and routers mounted in routers."""

from waypost.errors import BuildError, MethodNotAllowed, NotFound
from waypost.pattern import segments
from waypost.route import Route


class Match:
    """A route that fits, with the values of its parameters."""

    def __init__(self, route, params):
        self.route = route
        self.params = params

    @property
    def handler(self):
        """The handler of the route."""
        return self.route.handler


class Router:
    """Asks its own routes in the order in which they were added, then the routers that are mounted in it."""

    def __init__(self):
        self._routes = []
        self._mounts = []

    def add(self, pattern, handler, methods=("GET",), name=None):
        """Add a route and return it."""
        if name is not None and any(route.name == name for route in self._routes):
            raise BuildError(f"there is a route called {name!r} already")
        route = Route(pattern, handler, methods, name)
        self._routes.append(route)
        return route

    def mount(self, prefix, router):
        """Put another router under ``prefix``, which has no parameters."""
        self._mounts.append((segments(prefix), router))

    def _candidates(self, path):
        """All routes that fit the path, whatever their methods, with their parameters."""
        for route in self._routes:
            params = route.pattern.match(path)
            if params is not None:
                yield route, params
        given = segments(path)
        for prefix, router in self._mounts:
            if given[: len(prefix)] == prefix:
                yield from router._candidates("/" + "/".join(given[len(prefix) :]))

    def match(self, method, path):
        """The first route for this method and path; raises NotFound or MethodNotAllowed."""
        method = method.upper()
        allowed = set()
        for route, params in self._candidates(path):
            if method in route.methods:
                return Match(route, params)
            allowed |= route.methods
        if allowed:
            raise MethodNotAllowed(path, method, allowed)
        raise NotFound(path)

    def _find(self, name):
        """The route called ``name`` and the prefix that it is mounted under, or ``None``."""
        for route in self._routes:
            if route.name == name:
                return [], route
        for prefix, router in self._mounts:
            found = router._find(name)
            if found is not None:
                inner, route = found
                return prefix + inner, route
        return None

    def path_for(self, name, **params):
        """The path of the route called ``name`` with these parameters."""
        found = self._find(name)
        if found is None:
            raise BuildError(f"there is no route called {name!r}")
        prefix, route = found
        path = route.pattern.build(params)
        return "/" + "/".join(prefix) + path if prefix else path
