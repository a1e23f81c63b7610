"""HTML pages read strictly: every element closed, what they link to, what can be seen."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

VOID = {"meta", "input", "br", "img", "link", "hr"}
CLOSED = {"circle", "rect", "path", "line"}  # in SVG written <circle/>


@dataclass
class Page(HTMLParser):
    """``text`` is what can be seen, ``wrong`` what a strict reader would refuse; ``data`` the JSON in the page."""

    ids: Counter[str] = field(default_factory=Counter)
    links: list[str] = field(default_factory=list)
    tags: Counter[str] = field(default_factory=Counter)
    attributes: set[tuple[str, str]] = field(default_factory=set)
    text: str = ""
    wrong: list[str] = field(default_factory=list)
    scripts: list[tuple[str, str]] = field(default_factory=list)
    data: Any = None

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._element(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type") or "", ""))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in CLOSED | VOID:
            self.wrong.append(f"<{tag}/>")
        self._element(tag, attrs)

    def _element(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attrs:
            self.attributes.add((tag, name))
            if name == "id":
                self.ids[value or ""] += 1
            if name in ("href", "src", "action", "formaction", "data", "poster", "srcset"):
                self.links.append(value or "")
        if len({name for name, _ in attrs}) < len(attrs):
            self.wrong.append(f"an attribute of <{tag}> comes twice")

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            kind, before = self.scripts[-1]
            self.scripts[-1] = (kind, before + data)
        elif not self._open or self._open[-1] != "style":
            self.text += data

    def finish(self) -> Page:
        self.close()
        self.wrong += [f"<{tag}> is never closed" for tag in self._open]
        self.wrong += [f"id {name} comes {times} times" for name, times in self.ids.items() if times > 1]
        for kind, text in self.scripts:
            if kind == "application/json":
                self.data = json.loads(text)
        return self


def read_page(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page.finish()


def attempt_links(page: Page) -> list[str]:
    """The links that the page makes of its data when it is shown: to items, issues and trajectories."""
    strings, found = page.data["strings"], []
    for row in page.data["rows"]:
        item, issue, trajectory = (None if place is None else strings[place] for place in row[-3:])
        found += [f"#{item}"] * bool(item) + [f"#{issue}"] * bool(issue) + [trajectory] * bool(trajectory)
    return found


def broken_links(page: Page, folder: Path) -> list[str]:
    """Links that lead nowhere: no such id in the page, no such file from ``folder``, or out into the world."""
    broken = []
    for link in {*page.links, *attempt_links(page)}:
        if link.startswith("#"):
            if unquote(link[1:]) not in page.ids:
                broken.append(link)
        elif not link.startswith(".") or not (folder / unquote(link)).is_file():
            broken.append(link)
    return broken
