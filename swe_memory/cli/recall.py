"""``swe-memory recall``: the one item that matters for an issue, or none, and why."""

from __future__ import annotations

import hashlib

import click

from swe_memory.cli import options
from swe_memory.errors import UsageError


@click.command()
@click.argument("file", metavar="FILE|-")
@options.bank_option
@click.option("--repo", required=True, metavar="OWNER/NAME", help="The repository the issue is about.")
@click.option(
    "--id",
    "issue_id",
    default=None,
    metavar="ID",
    help="The issue's id, so that its own memory is never recalled for it. Without it, only its text guards.",
)
@click.option("--at", type=click.IntRange(min=0), default=None, metavar="SEQ", help="Read the bank as it was at this version.")
@click.option(
    "-k", "k", type=click.IntRange(1, 20), default=1, show_default=True, help="How many items (or experiences, with --grain experience)."
)
@click.option(
    "--grain",
    type=click.Choice(["item", "experience"]),
    default="item",
    show_default=True,
    help="One item, or an experience with all its items (the paper's grain).",
)
@click.option("--threshold", type=float, default=None, metavar="SCORE", help="Recall nothing under this score; 0 is the paper's setting.")
@click.option("--other-repos", is_flag=True, help="Only what was learned in other repositories.")
@click.option("--before", default=None, metavar="DATE", help="Only what was learned from issues created before this date.")
@click.option("--explain", is_flag=True, help="Show the candidates, their scores, and what each guard removed.")
@click.option("--prompt", "prompt_only", is_flag=True, help="Print only the block for the system prompt.")
@options.embedder_option
@options.json_option
def recall(
    file: str,
    bank_uri: str,
    repo: str,
    issue_id: str | None,
    at: int | None,
    k: int,
    grain: str,
    threshold: float | None,
    other_repos: bool,
    before: str | None,
    explain: bool,
    prompt_only: bool,
    embedder: str,
    as_json: bool,
) -> None:
    """Recall the most relevant item for the issue whose text is in FILE (- reads standard input).

    Prints the item, the reasons and the prompt block; prints that nothing is known, with exit code 0, where nothing fits.

    \b
    Examples:
      swe-memory recall --bank team.lance --repo acme/web issue.md
      gh issue view 17 | swe-memory recall --bank team.lance --repo acme/web --explain -
    \b
    JSON: {issue_id, bank, bank_version, score, item: {id, title, description, content, kind, polarity, reach, repo, provenance, status, added} or null,
      items: [...], reasons: [text], prompt, settings, candidates: [{issue_id, repo, outcome, score, cosine, path_score, text_score, item_id,
      item_title, removed}] (with --explain)}
    """
    from dataclasses import replace

    from swe_memory.ranking import RankingSettings
    from swe_memory.records import Issue

    text = options.read_text(file, "issue")
    if not text.strip():
        raise UsageError(
            f"the issue text in {'standard input' if file == '-' else file} is empty",
            "there is nothing to compare with; give the title and the description",
        )
    if repo.count("/") != 1 or not all(part.strip() for part in repo.split("/")):
        raise UsageError(f"--repo {repo!r} is not OWNER/NAME", "for example: --repo django/django")
    if as_json and prompt_only:
        raise UsageError("--json and --prompt exclude each other", "the prompt is in the JSON too")
    issue = Issue(id=issue_id or "text-" + hashlib.sha256(text.encode()).hexdigest()[:12], repo=repo, text=text)
    settings = RankingSettings(k=k, grain=grain, other_repos=other_repos, before=options.parse_time(before, "--before") if before else None)  # type: ignore[arg-type]
    if threshold is not None:
        settings = replace(settings, threshold=threshold)
    with options.open_bank(bank_uri, embedder=embedder, read_only=True) as bank:
        for warning in bank.warnings:
            click.echo(f"note: {warning}", err=True)
        found = bank.recall(issue, at=at, settings=settings, explain=explain)
    if as_json:
        options.print_json({"bank": bank_uri, **options.plain(found)})
    elif prompt_only:
        click.echo(found.prompt, nl=bool(found.prompt))
    else:
        _print(found, explain)


def _print(found: object, explain: bool) -> None:
    from swe_memory.records import Recall

    assert isinstance(found, Recall)
    if found.item is None:
        click.echo(f"nothing relevant is known (bank version {found.bank_version})")
    for item in found.items or ((found.item,) if found.item else ()):
        click.echo(click.style(item.title, bold=True))
        click.echo(f"  {item.description}")
        click.echo(f"  {item.content}")
        click.echo(
            f"  {item.polarity}, {item.reach}; learned in {item.repo} from {item.provenance.issue_id} "
            f"({item.provenance.outcome} by {item.provenance.verdict_source}); id {item.id}"
        )
    if found.item is not None:
        click.echo(f"\nscore {found.score:.3f}, bank version {found.bank_version}")
    for reason in found.reasons:
        click.echo(f"  - {reason}")
    if explain and found.candidates:
        # What could have been recalled, best first, and the nearest of what a guard removed; --json has them all.
        open_, removed = ([c for c in found.candidates if bool(c.removed) is gone] for gone in (False, True))
        shown = [*removed[:5], *open_[:10]]
        rows = [
            (
                f"{candidate.score:.3f}",
                "-" if candidate.cosine is None else f"{candidate.cosine:.3f}",
                f"{candidate.path_score:.1f}",
                candidate.issue_id,
                candidate.outcome,
                options.shorten(candidate.item_title, 48) or "-",
                options.shorten(candidate.removed, 48),
            )
            for candidate in shown
        ]
        click.echo()
        click.echo(options.table(("score", "cosine", "paths", "experience", "outcome", "best item", "removed by"), rows, right=(0, 1, 2)))
        if len(found.candidates) > len(shown):
            click.echo(f"... and {len(found.candidates) - len(shown)} more (--json lists all)")
