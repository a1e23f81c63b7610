"""Units of measure and the ways between them."""

from fractions import Fraction

from tariff.errors import UnknownUnit


class Registry:
    """Knows units, their other names, and how many of one make one of another."""

    def __init__(self):
        self._names = {}
        self._links = {}

    def define(self, name, factor=None, of=None, aliases=None):
        """Make a unit known. "kilometre is 1000 metre": ``define("kilometre", 1000, "metre", aliases=["km"])``.

        The plural with an s is understood without being told.
        """
        if name in self._names:
            raise UnknownUnit(f"{name} is defined already")
        aliases = list(aliases or [])
        aliases.append(f"{name}s")
        self._links[name] = []
        self._names[name] = name
        for alias in aliases:
            self._names[alias] = name
        if of is not None:
            self.link(name, factor, of)

    def link(self, name, factor, of):
        """Say that one ``name`` is ``factor`` times ``of``."""
        source, target = self.canonical(name), self.canonical(of)
        exact = Fraction(str(factor))
        self._links[source].append((target, exact))
        self._links[target].append((source, 1 / exact))

    def canonical(self, name):
        """The name under which a unit is kept, from that or any other of its names."""
        try:
            return self._names[name.strip()]
        except KeyError:
            raise UnknownUnit(f"unknown unit {name!r}") from None

    def factor(self, source, target):
        """How many ``target`` make one ``source``, exactly."""
        first, last = self.canonical(source), self.canonical(target)
        found = self._search(first, last, {first})
        if found is None:
            raise UnknownUnit(f"{source} cannot be converted to {target}")
        return found

    def _search(self, unit, target, seen):
        if unit == target:
            return Fraction(1)
        for neighbour, factor in self._links[unit]:
            if neighbour in seen:
                continue
            rest = self._search(neighbour, target, seen | {neighbour})
            if rest is not None:
                return factor * rest
        return None

    def convert(self, amount, source, target):
        """An amount of one unit in another, as a float."""
        return float(Fraction(str(amount)) * self.factor(source, target))


def standard():
    """A registry with the common units of length, mass and time."""
    registry = Registry()
    registry.define("metre", aliases=["m"])
    registry.define("kilometre", 1000, "metre", aliases=["km"])
    registry.define("centimetre", "0.01", "metre", aliases=["cm"])
    registry.define("inch", "2.54", "centimetre", aliases=["in", "inches"])
    registry.define("gram", aliases=["g"])
    registry.define("kilogram", 1000, "gram", aliases=["kg"])
    registry.define("second", aliases=["s"])
    registry.define("minute", 60, "second", aliases=["min"])
    registry.define("hour", 60, "minute", aliases=["h"])
    return registry
