"""``swe-memory items``: look at single memories and correct them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from swe_memory.cli import options

if TYPE_CHECKING:
    from swe_memory.records import ItemStatus


@click.group()
def items() -> None:
    """List, show, edit, remove and restore single items."""


@items.command("list")
@options.bank_option
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, metavar="N", help="At most N items, newest first.")
@click.option("--repo", default=None, metavar="OWNER/NAME", help="Only items learned there.")
@click.option("--status", type=click.Choice(["active", "quarantined", "retired", "all"]), default="active", show_default=True)
@click.option("--at", type=click.IntRange(min=0), default=None, metavar="SEQ", help="The bank as it was at this version.")
@options.json_option
def list_(bank_uri: str, limit: int, repo: str | None, status: str, at: int | None, as_json: bool) -> None:
    """List items, newest first.

    \b
    Example: swe-memory items list --bank team.lance --status quarantined
    JSON: {bank, bank_version, total, items: [{id, title, description, content, kind, polarity, reach, repo, provenance, status, note, added, retired}]}
    """
    with options.open_bank(bank_uri, read_only=True, any_embedder=True) as bank:
        every = bank.items(at=at, status=None if status == "all" else cast("ItemStatus", status), repo=repo)
        version = bank.version if at is None else at
    shown = every[:limit]
    if as_json:
        options.print_json({"bank": bank_uri, "bank_version": version, "total": len(every), "items": shown})
        return
    rows = [
        (
            item.id,
            item.polarity,
            item.reach,
            item.repo,
            item.kind,
            options.shorten(item.title, 80),
            *([item.status] if status == "all" else []),
        )
        for item in shown
    ]
    click.echo(options.table(("id", "polarity", "reach", "repo", "kind", "title", *(["status"] if status == "all" else [])), rows))
    click.echo(f"{len(shown)} of {len(every)} items, bank version {version}")


@items.command()
@click.argument("item_id")
@options.bank_option
@options.json_option
def show(item_id: str, bank_uri: str, as_json: bool) -> None:
    """Show one item whole: its text, where it came from, and how attempts that used it ended. A unique beginning of the id is enough.

    \b
    Example: swe-memory items show 3f2a --bank team.lance
    JSON: {item: {...}, uses: [{issue_id, repo, score, bank_version, attempt, outcome}]}
    """
    with options.open_bank(bank_uri, read_only=True, any_embedder=True) as bank:
        item = bank.item(item_id)
        uses = bank.uses(item_id=item.id)
    if as_json:
        options.print_json({"item": item, "uses": uses})
        return
    click.echo(click.style(item.title, bold=True))
    click.echo(f"{item.description}\n{item.content}\n")
    source = item.provenance
    rows = [
        ("id", item.id),
        ("kind", f"{item.kind}, {item.polarity}, {item.reach}"),
        ("status", item.status + (f": {item.note}" if item.note else "")),
        ("learned in", f"{item.repo} from {source.issue_id}"),
        ("verdict", f"{source.outcome} by {source.verdict_source}"),
        ("extractor", " ".join(part for part in (source.extractor, source.model, source.prompt) if part)),
        ("attempt", f"{source.attempt} {source.source}".strip()),
        ("bank version", f"added {item.added}" + (f", retired {item.retired}" if item.retired is not None else "")),
        (
            "uses",
            f"{len(uses)}: {sum(use.outcome == 'resolved' for use in uses)} resolved, {sum(use.outcome == 'unresolved' for use in uses)} unresolved",
        ),
    ]
    for name, value in rows:
        click.echo(f"{name:>13}  {value}")


@items.command()
@click.argument("item_id")
@options.bank_option
@click.option("--title", default=None)
@click.option("--description", default=None)
@click.option("--content", default=None)
@options.json_option
def edit(item_id: str, bank_uri: str, title: str | None, description: str | None, content: str | None, as_json: bool) -> None:
    """Change an item's words; without a flag your editor opens. The earlier text stays in earlier bank versions.

    \b
    Example: swe-memory items edit 3f2a --bank team.lance --title "Run the admin tests with the test settings"
    JSON: {item: {...}, bank_version}
    """
    from swe_memory.errors import UsageError

    with options.open_bank(bank_uri) as bank:
        item = bank.item(item_id)
        if title is None and description is None and content is None:
            text = click.edit(f"{item.title}\n\n{item.description}\n\n{item.content}\n", extension=".md")
            if text is None:
                if as_json:
                    options.print_json({"item": item, "bank_version": bank.version})
                else:
                    click.echo("nothing was changed")
                return
            parts = [part.strip() for part in text.strip().split("\n\n", 2)]
            if len(parts) != 3:
                raise UsageError("an item has three paragraphs: title, description, content", f"found {len(parts)}; nothing was changed")
            title, description, content = parts
        changed = bank.edit(item.id, title=title, description=description, content=content)
        version = bank.version
    if as_json:
        options.print_json({"item": changed, "bank_version": version})
    else:
        click.echo(
            f"{changed.id} is now {changed.title!r} (bank version {version})"
            + (f"; {changed.status}: {changed.note}" if changed.status != "active" else "")
        )


@items.command()
@click.argument("item_ids", nargs=-1, required=True)
@options.bank_option
@click.option("--note", default="", help="Why, for whoever looks later.")
@options.json_option
def rm(item_ids: tuple[str, ...], bank_uri: str, note: str, as_json: bool) -> None:
    """Retire items: they are never recalled again, and can be restored.

    \b
    Example: swe-memory items rm 3f2a 77b1 --bank team.lance --note "true only before 4.0"
    JSON: {items: [{...}], bank_version}
    """
    with options.open_bank(bank_uri) as bank:
        ids = dict.fromkeys(bank.item(item_id).id for item_id in item_ids)
        done = [bank.retire(item_id, note=note) for item_id in ids]
        version = bank.version
    if as_json:
        options.print_json({"items": done, "bank_version": version})
    else:
        for item in done:
            click.echo(
                f"retired {item.id} {options.shorten(item.title, 70)}; back with: swe-memory items restore {item.id} --bank {bank_uri}"
            )


@items.command()
@click.argument("item_ids", nargs=-1, required=True)
@options.bank_option
@options.json_option
def restore(item_ids: tuple[str, ...], bank_uri: str, as_json: bool) -> None:
    """Make retired or quarantined items active again. Restoring a quarantined item is your word that it is harmless.

    \b
    Example: swe-memory items restore 3f2a --bank team.lance
    JSON: {items: [{...}], bank_version}
    """
    with options.open_bank(bank_uri) as bank:
        ids = dict.fromkeys(bank.item(item_id).id for item_id in item_ids)
        done = [bank.restore(item_id) for item_id in ids]
        version = bank.version
    if as_json:
        options.print_json({"items": done, "bank_version": version})
    else:
        for item in done:
            click.echo(f"active again: {item.id} {options.shorten(item.title, 70)}")
