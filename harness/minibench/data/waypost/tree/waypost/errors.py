"""What can go wrong."""


class WaypostError(Exception):
    """Any problem with routes."""


class PatternError(WaypostError):
    """A pattern that cannot be understood."""


class NotFound(WaypostError):
    """No route has this path."""

    def __init__(self, path):
        super().__init__(f"nothing at {path}")
        self.path = path


class MethodNotAllowed(WaypostError):
    """There is such a path, but not with this method. ``allowed`` are the methods that there are."""

    def __init__(self, path, method, allowed):
        super().__init__(f"{method} is not allowed for {path}")
        self.path = path
        self.method = method
        self.allowed = tuple(sorted(allowed))


class BuildError(WaypostError):
    """A path cannot be made from a name and parameters."""
