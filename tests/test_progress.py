"""Progress: silent when quick, plain lines where there is no terminal, one redrawn line where there is."""

from __future__ import annotations

import io

from swe_memory.progress import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def work(stream: io.StringIO, seconds_each: float, count: int, quiet: bool = False) -> str:
    clock = Clock()
    with Progress("learning", count, stream=stream, clock=clock, quiet=quiet) as progress:
        for number in range(count):
            clock.now += seconds_each
            progress.advance(note=f"issue-{number}")
    return stream.getvalue()


def test_quick_work_says_nothing() -> None:
    assert work(io.StringIO(), 0.01, 50) == ""


def test_slow_work_writes_whole_lines_with_count_and_time_left_where_there_is_no_terminal() -> None:
    lines = work(io.StringIO(), 1.0, 30).splitlines()
    assert 4 <= len(lines) <= 8
    assert all("\r" not in line for line in lines)
    assert lines[1].startswith("learning: 6/30, about 24 s left")


def test_a_terminal_line_is_redrawn_and_gone_at_the_end() -> None:
    text = work(Terminal(), 1.0, 5)
    assert "learning: 3/5" in text
    assert "\n" not in text
    assert text.endswith("\r")


def test_a_line_that_stays_does_not_mix_with_the_redrawn_one() -> None:
    stream, clock = Terminal(), Clock()
    with Progress("learning", 3, stream=stream, clock=clock) as progress:
        clock.now += 2
        progress.advance()
        progress.line("note: something to keep")
    last_drawn = stream.getvalue().rsplit("\r", 1)[-1]
    assert last_drawn == "note: something to keep\n"


def test_quiet_is_silent() -> None:
    assert work(io.StringIO(), 10.0, 5, quiet=True) == ""
