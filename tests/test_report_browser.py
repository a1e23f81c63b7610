"""The report in a real browser: sorting, filtering, every link, both themes, a phone's width, and nothing to complain of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.compare import compare_run
from harness.report.command import report_command
from tests.browser import Browser, browser, find_browser
from tests.made_journal import simulated_experiment, write_run
from tests.pages import read_page

PROGRAM = find_browser()
pytestmark = [
    pytest.mark.skipif(PROGRAM is None, reason="no Chromium was found (Debian: apt-get install chromium-headless-shell)"),
]
LOOKS = [(1280, False), (1280, True), (390, False), (390, True)]


@pytest.fixture(scope="module")
def seen() -> Iterator[Browser]:
    assert PROGRAM
    with browser(PROGRAM) as opened:
        yield opened


def report(folder: Path, *sizes: int, title: str = "Simulated lesson {}: look at the callers", **settings: Any) -> Path:
    """The page of a simulated run."""
    run = write_run(folder / "run", simulated_experiment(*sizes, **settings), trajectories=True, title=lambda number: title.format(number))
    report_command(run, None, with_markdown=False, with_csv=False)
    return run / "report.html"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More issues and attempts than a page of a table holds."""
    return report(tmp_path_factory.mktemp("browser"), 40, 20, 5, arms=("none", "reasoningbank", "derangement"), baseline_reruns=2)


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a learning curve, many arms with long names, and an arm that settings tell apart."""
    arms = ("none", "reasoningbank", "reasoningbank:k=2", "reasoningbank:threshold=0.5,other-repos,success-only")
    return report(tmp_path_factory.mktemp("streams"), 14, 8, arms=arms, protocol="online", orders=2)


def column(seen: Browser, table: str, title: str) -> list[str]:
    """What a table shows in one of its columns, row by row."""
    code = f"""(() => {{ const box = document.getElementById({json.dumps(table)});
      const at = [...box.querySelectorAll("thead th")].findIndex((th) => th.textContent.trim() === {json.dumps(title)});
      return [...box.querySelector("tbody").rows].map((tr) => tr.cells[at].textContent.trim()) }})()"""
    found: list[str] = seen.run(code)
    return found


def press(seen: Browser, table: str, title: str) -> str:
    """Press a column's heading; how it says that it is sorted now."""
    head = f"[...document.querySelectorAll('#{table} thead th')].find((th) => th.textContent.trim() === {json.dumps(title)})"
    seen.run(f"{head}.querySelector('button').click()")
    found: str = seen.run(f"{head}.getAttribute('aria-sort')")
    return found


def fill(seen: Browser, table: str, label: str, value: str) -> str:
    """Fill in a field above a table; what it then says of the rows that are left."""
    code = f"""(() => {{ const box = document.querySelector("#{table} .toolbar");
      const field = [...box.querySelectorAll("label")].find((one) => one.firstChild.textContent === {json.dumps(label)}).lastChild;
      field.value = {json.dumps(value)};
      field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input"));
      return box.querySelector(".shown").textContent }})()"""
    found: str = seen.run(code)
    return found


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_nothing_is_complained_of_and_no_part_is_wider_than_the_window(seen: Browser, page: Path, width: int, dark: bool) -> None:
    seen.open(page.as_uri(), width=width, dark=dark)
    assert seen.run("document.documentElement.scrollWidth") == width
    paper = seen.run("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper.removeprefix("rgb(").rstrip(")").split(","))) < 200) == dark
    shown = "[...document.querySelectorAll('figure svg')].filter((svg) => getComputedStyle(svg).display !== 'none').map((svg) => svg.getAttribute('class'))"
    assert set(seen.run(shown)) == {"narrow" if width < 600 else "wide"}
    assert seen.complaints() == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("which", ["page", "streams"])
def test_no_text_of_a_figure_is_cut_off_or_lies_on_another(seen: Browser, which: str, width: int, request: pytest.FixtureRequest) -> None:
    seen.open(request.getfixturevalue(which).as_uri(), width=width)
    code = """[...document.querySelectorAll("figure svg")].filter((svg) => getComputedStyle(svg).display !== "none").flatMap((svg) => {
      const room = svg.getBoundingClientRect();
      const texts = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
      const cut = texts.filter(([, box]) => box.left < room.left - 1 || box.right > room.right + 1 || box.bottom > room.bottom + 1 || box.top < room.top - 1);
      const over = texts.flatMap(([one, a], at) => texts.slice(at + 1).filter(([, b]) =>
        a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 3 && b.top < a.bottom - 3).map(([other]) => `${one} / ${other}`));
      return [...cut.map(([text]) => `cut: ${text}`), ...over];
    })"""
    assert seen.run(code) == []


def test_a_column_of_numbers_is_sorted_as_numbers_with_what_is_not_known_last(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    expected = sorted(
        (run["calls"] for issue in compare_run(page.parent)["issues"] for runs in issue["arms"].values() for run in runs), reverse=True
    )
    assert press(seen, "attempts", "calls") == "descending"
    assert column(seen, "attempts", "calls") == [str(calls) for calls in expected[:50]]
    assert press(seen, "attempts", "calls") == "ascending"
    assert column(seen, "attempts", "calls") == [str(calls) for calls in expected[::-1][:50]]
    for _ in range(2):
        press(seen, "attempts", "score")
        shown = list(column(seen, "attempts", "score"))
        known = [float(value) for value in shown if value != "–"]
        assert len(known) > 20 and shown[: len(known)] == [value for value in shown if value != "–"]


def test_a_column_of_text_and_the_column_of_runs_are_sorted(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    assert press(seen, "issues", "issue") == "ascending"
    issues = sorted(issue["issue"] for issue in compare_run(page.parent)["issues"])
    assert column(seen, "issues", "issue") == issues[:50]
    press(seen, "issues", "none")
    shares = [(text.count("✓") / len(text)) for text in column(seen, "issues", "none")]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) == 3


def test_rows_are_found_by_text_and_by_choice(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    runs = [(arm, run) for issue in compare_run(page.parent)["issues"] for arm, part in issue["arms"].items() for run in part]
    assert fill(seen, "attempts", "arm", "=none") == f"130 of {len(runs)} rows"
    resolved = sum(run["resolved"] for arm, run in runs if arm == "none")
    assert fill(seen, "attempts", "outcome", "=resolved") == f"{resolved} of {len(runs)} rows"
    assert set(column(seen, "attempts", "arm")) == {"none"} and set(column(seen, "attempts", "outcome")) == {"resolved"}
    fill(seen, "attempts", "arm", "")
    fill(seen, "attempts", "outcome", "")
    assert fill(seen, "attempts", "Find", "BIRCH derangement") == f"20 of {len(runs)} rows"
    assert fill(seen, "attempts", "Find", "no such thing") == f"0 of {len(runs)} rows"
    assert seen.run("document.querySelector('#attempts tbody').textContent") == "No row fits."


def test_every_row_can_be_turned_to_and_every_link_leads_somewhere(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    code = """(() => { const found = new Set(); let rows = 0;
      const look = () => document.querySelectorAll("a[href]").forEach((a) => found.add(a.getAttribute("href")));
      for (const pager of document.querySelectorAll(".pager")) {
        const next = pager.lastChild, box = pager.parentElement;
        for (;;) { look(); if (box.id === "attempts") rows += box.querySelector("tbody").rows.length; if (next.disabled) break; next.click(); }
      }
      return [[...found], rows] })()"""
    links, rows = seen.run(code)
    ids = read_page(page).ids
    assert rows == 65 * 4 and sum("traj.json" in link for link in links) == 65 * 4
    assert [link for link in links if not (link[1:] in ids if link.startswith("#") else (page.parent / link).is_file())] == []


def test_a_link_opens_the_item_and_shows_the_issue_that_it_leads_to(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    fill(seen, "issues", "Find", "azure")
    last = "issue-" + compare_run(page.parent)["issues"][-1]["issue"]
    shown = f"document.getElementById({json.dumps(last)})"
    assert seen.run(f"{shown} === null")
    seen.run(f"new Promise((done) => {{ addEventListener('hashchange', () => setTimeout(done, 0)); location.hash = {json.dumps(last)} }})")
    assert seen.run(
        f"{shown} !== null && getComputedStyle({shown}.cells[0]).backgroundColor !== getComputedStyle(document.body).backgroundColor"
    )
    item = seen.run("document.querySelector('#items tbody a').getAttribute('href').slice(1)")
    seen.run(
        "new Promise((done) => { addEventListener('hashchange', () => setTimeout(done, 0)); document.querySelector('#items tbody a').click() })"
    )
    assert seen.run(f"document.getElementById({json.dumps(item)}).open")
    assert seen.complaints() == []


def test_strangers_text_runs_nothing_and_what_got_in_all_the_same_would_be_stopped(seen: Browser, tmp_path: Path) -> None:
    nasty = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 2'> {}"
    path = report(tmp_path, 6, 4, arms=("none", "reasoningbank", "derangement"), title=nasty)
    seen.open(path.as_uri())
    assert seen.run("window.hit") is None and "window.hit = 1" in seen.run("document.getElementById('attempts').textContent")
    assert seen.complaints() == []
    stopped = seen.run(
        "new Promise((done) => { addEventListener('securitypolicyviolation', (event) => done(event.effectiveDirective)); "
        "document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.hit = 3\">') })"
    )
    assert stopped in ("img-src", "script-src-attr") and seen.run("window.hit") is None


def test_what_is_copied_is_what_is_shown(seen: Browser, page: Path) -> None:
    seen.open(page.as_uri())
    seen.run("document.querySelector('[data-copy]').click()")
    assert seen.run("getSelection().toString().trim()").startswith("\\begin{table}")
