"""``swe-memory learn``: a folder of attempts into a bank."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from swe_memory.cli import options

if TYPE_CHECKING:
    from swe_memory.records import Attempt, Judge
    from swe_memory.sources import AttemptFile


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@options.bank_option
@click.option(
    "--extractor",
    type=click.Choice(["rules", "llm"]),
    default="rules",
    show_default=True,
    help="How items are distilled; llm needs ANTHROPIC_API_KEY.",
)
@click.option(
    "--verdict",
    type=click.Choice(["auto", "tests", "rules", "llm"]),
    default="auto",
    show_default=True,
    help="Who says whether an attempt passed. auto and tests: the test reports in FOLDER (an oracle; attempts without one teach "
    "nothing); rules, llm: a judge that sees only the attempt.",
)
@click.option(
    "--issues",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Issue texts as SWE-bench rows (JSON or JSONL); otherwise the text is taken from each trajectory.",
)
@click.option("--session", default=None, metavar="NAME", help="A name for this learning session, for bank undo.")
@options.embedder_option
@options.model_options
@options.json_option
def learn(
    folder: Path,
    bank_uri: str,
    extractor: str,
    verdict: str,
    issues: Path | None,
    session: str | None,
    embedder: str,
    model: str,
    max_cost: float | None,
    as_json: bool,
) -> None:
    """Learn from every attempt found in FOLDER.

    FOLDER holds trajectories (mini-SWE-agent, SWE-agent), and beside them predictions and official test reports, in any depth; they are matched by
    instance id. Learning again adds nothing; a changed verdict replaces what was learned. The exit code is 1 where something in FOLDER could not be
    used; what could be was learned.

    \b
    Examples:
      swe-memory learn runs/mine --bank team.lance
      swe-memory learn runs/mine --bank team.lance --verdict llm --extractor llm --max-cost 5
    \b
    JSON: {bank, bank_version, session, found, read, learned, already, superseded, nothing, items: {added, quarantined, rejected,
      by_polarity, by_reach}, verdicts: {resolved, unresolved, unknown, source}, usage, stopped, problems: [{where, what}], missing: {what: count},
      attempts: [{issue_id, status, reason, items: [id], quarantined: [id], rejected: [reason]}]}
    An attempt's reason says why it gave nothing, "" where it gave something.
    """
    from swe_memory.progress import Progress
    from swe_memory.sources import scan

    judge = options.make_judge(verdict, model, max_cost) if verdict in ("rules", "llm") else None
    distil = options.make_extractor(extractor, model, max_cost)
    with Progress("reading") as progress:
        found = scan(folder, issues=issues)
    problems = options.scan_problems(found)
    verdicts: Counter[str] = Counter()
    with (
        options.open_bank(bank_uri, embedder=embedder, create=True) as bank,
        Progress("learning", len(found.attempts), quiet=as_json) as progress,
    ):
        for warning in (*bank.warnings, *found.notes):
            click.echo(f"note: {warning}", err=True)
        report = bank.learn_many(
            [partial(_attempt, file, judge, verdicts) for file in found.attempts],
            extractor=distil,
            session=session,
            progress=lambda learned: progress.advance(note=learned.issue_id),
        )
        problems += [{"where": failure.source or failure.issue_id, "what": failure.reason} for failure in report.failures]
        learned = report.learned
        status = Counter(entry.status for entry in learned)
        new = [item for entry in learned if entry.status in ("learned", "superseded") for item in entry.items]
        result = {
            "bank": bank_uri,
            "bank_version": bank.version,
            "session": report.session,
            "found": len(found.attempts),
            "read": sum(verdicts.values()),
            **{name: status[name] for name in ("learned", "already", "superseded", "nothing")},
            "items": {
                "added": len(new),
                "quarantined": sum(len(entry.quarantined) for entry in learned if entry.status in ("learned", "superseded")),
                "rejected": sum(len(entry.rejected) for entry in learned),
                "by_polarity": dict(sorted(Counter(item.polarity for item in new).items())),
                "by_reach": dict(sorted(Counter(item.reach for item in new).items())),
            },
            "verdicts": {
                **{name: verdicts[name] for name in ("resolved", "unresolved", "unknown")},
                "source": verdict if judge else "tests",
            },
            "usage": report.usage,
            "stopped": report.stopped,
            "problems": problems,
            "missing": dict(sorted(Counter(what for file in found.attempts for what in file.missing).items())),
            "attempts": [
                {
                    "issue_id": entry.issue_id,
                    "status": entry.status,
                    "reason": entry.reason,
                    "items": [item.id for item in entry.items],
                    "quarantined": [item.id for item in entry.quarantined],
                    "rejected": [rejection.reason for rejection in entry.rejected],
                }
                for entry in learned
            ],
        }
    if as_json:
        options.print_json(result)
    else:
        _print(result)
    if problems:
        raise click.exceptions.Exit(1)


def _attempt(file: AttemptFile, judge: Judge | None, verdicts: Counter[str]) -> Attempt:
    from swe_memory.sources import read_attempt

    attempt = read_attempt(file)
    if judge is not None:
        attempt = replace(attempt, verdict=judge.judge(attempt.issue, attempt.trajectory))
    verdicts[attempt.verdict.outcome] += 1
    return attempt


def _why_nothing(reasons: list[tuple[str, str]]) -> list[str]:
    """A line for each kind of reason, the most frequent first: how many attempts, which, and the whole reason where it is the same for all."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for issue_id, reason in reasons:
        kinds.setdefault(reason.partition(":")[0], []).append((issue_id, reason))
    lines = []
    for kind, members in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        names = ", ".join(issue_id for issue_id, _ in members[:3]) + (f" and {len(members) - 3} more" if len(members) > 3 else "")
        whole = members[0][1] if len({reason for _, reason in members}) == 1 else f"{kind} (--json says more of each)"
        lines.append(f"nothing from {len(members)} ({names}): {options.shorten(whole, 240)}")
    return lines


def _print(result: dict[str, object]) -> None:
    items, verdicts, missing = result["items"], result["verdicts"], result["missing"]
    assert isinstance(items, dict) and isinstance(verdicts, dict) and isinstance(missing, dict)
    label = "tests (oracle verdicts)" if verdicts["source"] == "tests" else f"the {verdicts['source']} judge"
    click.echo(
        f"{result['found']} attempts found, {result['read']} read; verdicts from {label}: "
        f"{verdicts['resolved']} resolved, {verdicts['unresolved']} unresolved, {verdicts['unknown']} unknown"
    )
    click.echo(
        f"learned {result['learned']}, already known {result['already']}, verdict changed {result['superseded']}, nothing to learn {result['nothing']}"
    )
    kinds = ", ".join(f"{count} {name}" for part in ("by_polarity", "by_reach") for name, count in items[part].items())
    click.echo(
        f"items: {items['added']} added{f' ({kinds})' if kinds else ''}, {items['quarantined']} quarantined, {items['rejected']} drafts refused"
    )
    for what, count in missing.items():
        click.echo(f"  {count} without {what}")
    problems, attempts = result["problems"], result["attempts"]
    assert isinstance(problems, list) and isinstance(attempts, list)
    for line in _why_nothing([(attempt["issue_id"], attempt["reason"]) for attempt in attempts if attempt["reason"]]):
        click.echo(f"  {line}")
    refused = [(attempt["issue_id"], reason) for attempt in attempts for reason in attempt["rejected"]]
    for issue_id, reason in refused[:5]:
        click.echo(f"  refused, {issue_id}: {options.shorten(reason, 120)}")
    if len(refused) > 5:
        click.echo(f"  ... and {len(refused) - 5} more (--json lists all)")
    for problem in problems[:20]:
        click.echo(f"problem: {problem['where']}: {problem['what']}", err=True)
    if len(problems) > 20:
        click.echo(f"... and {len(problems) - 20} more problems (--json lists all)", err=True)
    if result["stopped"]:
        click.echo(f"stopped before the end: {result['stopped']}; the same command goes on from there", err=True)
    click.echo(f"bank {result['bank']} is at version {result['bank_version']}")
