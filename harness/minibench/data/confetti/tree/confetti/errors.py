"""What can go wrong."""


class ConfigError(Exception):
    """Any problem with a configuration."""


class SyntaxProblem(ConfigError):
    """A line that cannot be understood."""

    def __init__(self, number, line, reason):
        super().__init__(f"line {number}: {reason}: {line.strip()!r}")
        self.number = number
        self.reason = reason


class ReferenceCycle(ConfigError):
    """Values that refer to each other in a circle."""

    def __init__(self, chain):
        super().__init__("values refer to each other in a circle: " + " -> ".join(chain))
        self.chain = tuple(chain)


class UnknownReference(ConfigError):
    """A reference to a value that does not exist."""

    def __init__(self, name, place):
        super().__init__(f"{place} refers to {name}, which does not exist")
        self.name = name


class BadValue(ConfigError):
    """A value that is not of the type that was asked for."""

    def __init__(self, text, kind):
        super().__init__(f"{text!r} is not {kind}")
        self.text = text
