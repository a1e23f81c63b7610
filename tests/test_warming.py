"""What is loaded while the first agents are at work."""

from __future__ import annotations

import threading

import pytest

from harness.warming import load_memory, warming


def test_loads_are_made_in_their_order_and_one_that_fails_is_no_matter() -> None:
    made: list[str] = []
    last = threading.Event()

    def broken() -> None:
        made.append("broken")
        raise ImportError("not installed")

    with warming([lambda: made.append("first"), broken, last.set], after=0.0):
        assert last.wait(30)
    assert made == ["first", "broken"]


def test_what_ends_before_it_was_to_be_loaded_loads_nothing() -> None:
    with warming([lambda: pytest.fail("too early")], after=3600.0):
        pass


def test_the_end_waits_for_the_load_under_way_and_begins_no_other() -> None:
    begun, go_on = threading.Event(), threading.Event()
    made: list[str] = []

    def slow() -> None:
        begun.set()
        go_on.wait(30)
        made.append("slow")

    with warming([slow, lambda: made.append("never")], after=0.0):
        assert begun.wait(30)
        threading.Timer(0.05, go_on.set).start()
    assert made == ["slow"]


def test_the_memory_can_be_loaded() -> None:
    load_memory()
