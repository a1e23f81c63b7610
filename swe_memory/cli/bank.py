"""``swe-memory bank``: look after a whole bank."""

from __future__ import annotations

from pathlib import Path

import click

from swe_memory.cli import options


@click.group()
def bank() -> None:
    """Info, checks, snapshots, undo, export and import of a bank."""


@bank.command()
@options.bank_option
@options.json_option
def info(bank_uri: str, as_json: bool) -> None:
    """What the bank holds, which embedder it was built with, and how it got there.

    \b
    Example: swe-memory bank info --bank team.lance
    JSON: {bank, version, schema, embedder, experiences, items: {active, quarantined, retired},
      repositories: {repo: experiences}, outcomes, polarity, reach, uses, sessions: [...]}
    """
    with options.open_bank(bank_uri, read_only=True, any_embedder=True) as opened:
        facts = options.plain(opened.info())
        warnings = opened.warnings
    if as_json:
        options.print_json({"bank": bank_uri, **facts})
        return
    for warning in warnings:
        click.echo(f"note: {warning}", err=True)
    _facts({"bank": bank_uri, **facts})


@bank.command()
@options.bank_option
@options.json_option
def check(bank_uri: str, as_json: bool) -> None:
    """Look for anything wrong: unfinished writes, rows that do not fit together, vectors of the wrong size. Changes nothing.

    \b
    Example: swe-memory bank check --bank team.lance
    JSON: {bank, ok, version, experiences, items, problems: [text], notes: [text], orphans: [{...}]}
    """
    with options.open_bank(bank_uri, read_only=True, any_embedder=True) as opened:
        report = opened.check()
    facts = options.plain(report)
    if as_json:
        options.print_json({"bank": bank_uri, "ok": report.ok, **facts})
    else:
        for problem in report.problems:
            click.echo(f"problem: {problem}", err=True)
        for note in report.notes:
            click.echo(f"note: {note}")
        click.echo("the bank is sound" if report.ok else "the bank has problems (above)")
    if not report.ok:
        raise click.exceptions.Exit(1)


@bank.command()
@options.bank_option
@options.json_option
def optimize(bank_uri: str, as_json: bool) -> None:
    """Compact files and indexes. Happens by itself about every fifty writes; never changes what the bank says.

    \b
    Example: swe-memory bank optimize --bank team.lance
    JSON: {bank, version, tables, orphans_removed, orphans_kept}
    """
    with options.open_bank(bank_uri) as opened:
        result = opened.optimize()
    if as_json:
        options.print_json({"bank": bank_uri, **(options.plain(result) or {})})
    else:
        _facts({"bank": bank_uri, **(options.plain(result) or {})})


@bank.command()
@options.bank_option
@click.option(
    "--embedder", default="minilm-int8", show_default=True, metavar="NAME", help="minilm-int8 (bundled), none, or lancedb:PROVIDER:MODEL."
)
@options.json_option
def reembed(bank_uri: str, embedder: str, as_json: bool) -> None:
    """Compute every vector again, with this embedder. The way out of "this bank was built with another embedder".

    \b
    Example: swe-memory bank reembed --bank team.lance
    JSON: {bank, embedder, bank_version}
    """
    from swe_memory.embed import open_embedder
    from swe_memory.progress import Progress

    model = open_embedder(embedder)
    with options.open_bank(bank_uri, any_embedder=True) as opened, Progress("embedding", quiet=as_json) as progress:

        def show(done: int, total: int) -> None:
            progress.total = total
            progress.advance(done - progress.done)

        opened.reembed(model, show)
        version = opened.version
    result = {"bank": bank_uri, "embedder": model.name if model else "none", "bank_version": version}
    if as_json:
        options.print_json(result)
    else:
        click.echo(f"{bank_uri} now has vectors by {result['embedder']} (bank version {version})")


@bank.command()
@click.argument("session", required=False)
@options.bank_option
@click.option("--list", "list_only", is_flag=True, help="List the learning sessions instead.")
@options.json_option
def undo(session: str | None, bank_uri: str, list_only: bool, as_json: bool) -> None:
    """Take back one learning session: the last one, or SESSION. Earlier bank versions still show it.

    An undo is a session too, named `redo` in what it prints: undo that one, and what was taken back is there again.

    \b
    Examples:
      swe-memory bank undo --list --bank team.lance
      swe-memory bank undo --bank team.lance
    JSON: {bank, session, experiences, items, redo, bank_version}, counts taken back (negative: brought back);
      with --list {bank, sessions: [{session, experiences, items, first, last, at, undone}]}
    """
    if list_only:
        with options.open_bank(bank_uri, read_only=True, any_embedder=True) as opened:
            sessions = options.plain(opened.sessions())
        if as_json:
            options.print_json({"bank": bank_uri, "sessions": sessions})
        else:
            _rows(sessions, "no learning session yet")
        return
    with options.open_bank(bank_uri) as opened:
        result = options.plain(opened.undo(session))
        version = opened.version
    if as_json:
        options.print_json({"bank": bank_uri, **result, "bank_version": version})
    else:
        verb = "brought back" if result["experiences"] < 0 else "taken back"
        click.echo(f"{verb}: {abs(result['experiences'])} experiences and {abs(result['items'])} items of session {result['session']}")
        click.echo(f"bank {bank_uri} is at version {version}; to reverse this: swe-memory bank undo {result['redo']} --bank {bank_uri}")


@bank.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@options.bank_option
@options.json_option
def export_(file: Path, bank_uri: str, as_json: bool) -> None:
    """Write the bank to FILE as JSON lines: a header, then experiences, items and uses. Vectors are left out; import computes them again.

    \b
    Example: swe-memory bank export team.jsonl --bank team.lance
    JSON: {bank, file, experiences, items, uses, bank_version, unreadable: [text]}; exit code 1 where a damaged bank could not give everything
    """
    with options.open_bank(bank_uri, read_only=True, any_embedder=True) as opened:
        result = options.plain(opened.export(file))
    if as_json:
        options.print_json({"bank": bank_uri, "file": str(file), **result})
    else:
        _facts({"bank": bank_uri, "file": str(file), **result})
    if result["unreadable"]:
        raise click.exceptions.Exit(1)


@bank.command("import")
@click.argument("file", type=click.Path(path_type=Path))
@options.bank_option
@options.embedder_option
@options.json_option
def import_(file: Path, bank_uri: str, embedder: str, as_json: bool) -> None:
    """Read an export into a bank, new or old. What is there already is left alone; every text passes the same checks as when it was learned.

    \b
    Example: swe-memory bank import team.jsonl --bank mine.lance
    JSON: {bank, file, experiences, items, quarantined, already, uses, session, skipped: [reason], bank_version}
    """
    with options.open_bank(bank_uri, embedder=embedder, create=True) as opened:
        result = options.plain(opened.import_(file))
        version = opened.version
    if as_json:
        options.print_json({"bank": bank_uri, "file": str(file), **result, "bank_version": version})
    else:
        _facts({"bank": bank_uri, "file": str(file), **result, "bank_version": version})


@bank.command()
@click.argument("other")
@options.bank_option
@options.json_option
def diff(other: str, bank_uri: str, as_json: bool) -> None:
    """What --bank and OTHER hold differently: experiences and items only in one, and items whose text or status differs.

    \b
    Example: swe-memory bank diff yesterday.lance --bank team.lance
    JSON: {bank, other, same, only_here: [...], only_there: [...], changed: [...]}
    """
    with (
        options.open_bank(bank_uri, read_only=True, any_embedder=True) as mine,
        options.open_bank(other, read_only=True, any_embedder=True) as theirs,
    ):
        result = options.plain(mine.diff(theirs))
    if as_json:
        options.print_json({"bank": bank_uri, "other": other, **result})
    else:
        _facts({"bank": bank_uri, "other": other, **result})


def _facts(facts: dict[str, object]) -> None:
    width = max(len(name) for name in facts)
    for name, value in facts.items():
        if isinstance(value, list):
            click.echo(f"{name.replace('_', ' '):>{width}}  {len(value)}")
            for entry in value[:50]:
                click.echo(f"{'':>{width}}    {_short(entry)}")
        elif isinstance(value, dict):
            click.echo(f"{name.replace('_', ' '):>{width}}  {', '.join(f'{key} {count}' for key, count in value.items()) or '-'}")
        else:
            click.echo(f"{name.replace('_', ' '):>{width}}  {value}")


def _rows(rows: list[dict[str, object]], empty: str) -> None:
    if not rows:
        click.echo(empty)
        return
    click.echo(options.table(list(rows[0]), [[("" if value is None else value) for value in row.values()] for row in rows]))


def _short(entry: object) -> str:
    if isinstance(entry, dict):
        return options.shorten(", ".join(f"{key} {value}" for key, value in entry.items() if value not in ("", None)), 140)
    return options.shorten(str(entry), 140)
