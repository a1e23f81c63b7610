"""A cache that forgets what was not used for longest."""

from collections import OrderedDict

MISSING = object()


class Cache:
    """Keeps up to ``size`` values for up to ``lifetime`` units of ``clock`` (``None``: for ever)."""

    def __init__(self, size, lifetime=None, clock=None):
        if size < 1:
            raise ValueError("size must be at least 1")
        if lifetime is not None and clock is None:
            raise ValueError("a lifetime needs a clock")
        self.size = size
        self.lifetime = lifetime
        self._clock = clock or (lambda: 0)
        self._entries = OrderedDict()
        self.hits = 0
        self.misses = 0

    def __len__(self):
        return len(self._entries)

    def __contains__(self, key):
        return key in self._entries and not self._expired(key)

    def _expired(self, key):
        if self.lifetime is None:
            return False
        _, stored = self._entries[key]
        return self._clock() - stored >= self.lifetime

    def get(self, key, default=None):
        """The value of a key that is there and still fresh, or ``default``."""
        if key in self._entries and self._expired(key):
            del self._entries[key]
        if key not in self._entries:
            self.misses += 1
            return default
        self.hits += 1
        self._entries.move_to_end(key)
        return self._entries[key][0]

    def put(self, key, value):
        """Keep a value; makes room where there is none."""
        self._entries[key] = (value, self._clock())
        self._entries.move_to_end(key)
        while len(self._entries) > self.size:
            self._entries.popitem(last=False)

    def fetch(self, key, load):
        """The value of a key, from the cache or from ``load(key)``."""
        value = self.get(key, MISSING)
        if value is MISSING:
            value = load(key)
            self.put(key, value)
        return value

    def hit_rate(self):
        """The share of look-ups that were answered from the cache, from 0 to 1; 0 before the first."""
        if not self.hits:
            return 0.0
        return self.hits / (self.hits + self.misses)

    def clear(self):
        """Forget everything, the counts included."""
        self._entries.clear()
        self.hits = self.misses = 0
