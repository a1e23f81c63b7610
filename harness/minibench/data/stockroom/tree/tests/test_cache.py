import pytest

from stockroom import Cache


def test_values_are_kept():
    cache = Cache(2)
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b", 0) == 0
    assert len(cache) == 1


def test_what_was_not_used_for_longest_goes():
    cache = Cache(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert ("a" in cache, "b" in cache, "c" in cache) == (True, False, True)


def test_values_expire():
    now = [0]
    cache = Cache(2, lifetime=10, clock=lambda: now[0])
    cache.put("a", 1)
    now[0] = 9
    assert cache.get("a") == 1
    now[0] = 10
    assert "a" not in cache
    assert cache.get("a") is None


def test_fetch_loads_once():
    loaded = []
    cache = Cache(2)
    for _ in range(2):
        cache.fetch("a", lambda key: loaded.append(key) or len(loaded))
    assert loaded == ["a"]


def test_clear():
    cache = Cache(1)
    cache.put("a", 1)
    cache.clear()
    assert len(cache) == 0
    assert cache.hit_rate() == 0


def test_settings_are_checked():
    with pytest.raises(ValueError):
        Cache(0)
    with pytest.raises(ValueError):
        Cache(1, lifetime=5)
