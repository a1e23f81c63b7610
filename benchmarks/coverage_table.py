"""What a benchmark of coverage counts, what was promised of each figure, and the tables that say whether it was kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from made_worlds import World, population

COVER, LEAST, LEVEL, NONE = "93-97 %", ">= 93 %", "<= 5.5 %", "-"


@dataclass(frozen=True)
class Row:
    """One line of the table. ``figure`` is a coverage or a level, in percent."""

    section: str
    scenario: str
    what: str
    issues: int
    discordant: float
    figure: float
    error: float
    promise: str
    replications: int

    @property
    def kept(self) -> str:
        """ "yes", "no", or "in doubt" for a figure that misses the promise by less than two of its standard errors; "" where nothing is promised."""
        if self.promise == NONE:
            return ""
        if self.promise == LEVEL:
            missed = self.figure - 5.5
        else:
            missed = max(93 - self.figure, self.figure - 97 if self.promise == COVER else -1.0)
        return "yes" if missed <= 0 else "in doubt" if missed < 2 * self.error else "no"


class Tally:
    """Counts hits by name and makes rows of them. ``discordant``: expected discordant pairs of two single runs."""

    def __init__(self, section: str, scenario: str, world: World, discordant: float | None = None) -> None:
        self.section, self.scenario, self.issues = section, scenario, world.issues
        self.discordant = population(world)[2] * world.issues if discordant is None else discordant
        self.hits: dict[tuple[str, str], list[bool]] = {}

    def add(self, what: str, hit: bool, promise: str = "") -> None:
        """``promise``: by default the one on coverage that holds for this size."""
        usual = COVER if self.issues >= 100 and self.discordant >= 20 else LEAST
        self.hits.setdefault((what, promise or usual), []).append(bool(hit))

    def rows(self) -> Iterator[Row]:
        for (what, promise), hits in self.hits.items():
            share = sum(hits) / len(hits)
            error = 100 * (share * (1 - share) / len(hits)) ** 0.5
            yield Row(self.section, self.scenario, what, self.issues, round(self.discordant, 1), 100 * share, error, promise, len(hits))


def table(rows: list[Row]) -> str:
    """Markdown, one part for each section."""
    lines: list[str] = []
    for section in dict.fromkeys(row.section for row in rows):
        lines += ["", f"### {section}", "", "| scenario | issues | discordant | what | measured | error | promised | kept |"]
        lines.append("| --- | ---: | ---: | --- | ---: | ---: | --- | --- |")
        for row in (row for row in rows if row.section == section):
            kept = "**no**" if row.kept == "no" else row.kept
            where = f"| {row.scenario} | {row.issues} | {row.discordant:.0f} | {row.what} "
            lines.append(f"{where}| {row.figure:.1f} % | {row.error:.1f} | {row.promise} | {kept} |")
    return "\n".join(lines[1:])


def summary(rows: list[Row]) -> str:
    """Markdown: each interval and test over all its scenarios."""
    lines = [
        "| section | what | scenarios | lowest | highest | promises kept | in doubt | missed |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for section, what in dict.fromkeys(
        (row.section, row.what) for row in rows if "simulated" not in row.what and "(power)" not in row.what
    ):
        found = [row for row in rows if (row.section, row.what) == (section, what)]
        figures = [row.figure for row in found]
        kept = [sum(row.kept == answer for row in found) for answer in ("yes", "in doubt", "no")]
        told = " | ".join(map(str, kept)) if sum(kept) else "- | - | -"
        lines.append(f"| {section} | {what} | {len(found)} | {min(figures):.1f} % | {max(figures):.1f} % | {told} |")
    return "\n".join(lines)
