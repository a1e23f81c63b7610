"""One route: a pattern, methods, a handler, and perhaps a name."""

from waypost.pattern import Pattern


class Route:
    """What :meth:`waypost.router.Router.add` adds. HEAD is answered wherever GET is."""

    def __init__(self, pattern, handler, methods=("GET",), name=None):
        self.pattern = Pattern(pattern)
        self.handler = handler
        self.methods = {method.upper() for method in methods}
        if "GET" in self.methods:
            self.methods.add("HEAD")
        self.name = name

    def __repr__(self):
        return f"Route({self.pattern.text!r}, {sorted(self.methods)})"
