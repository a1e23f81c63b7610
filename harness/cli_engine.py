"""The commands that look after a container engine: its images, and what a kill left behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.statistics.estimates import count

if TYPE_CHECKING:
    from harness.dataset import Dataset

GIB = 1 << 30


def _issues(function: Any) -> Any:
    """The flags that choose issues, as `run` has them."""
    for option in (
        click.option("--slice", metavar="A:B", help="Of what the others leave, only these places."),
        click.option("--filter", "pattern", metavar="REGEX", help="Only issues whose id begins with a match of this."),
        click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="Only issues of this repository."),
        click.option("--instance", "instances", multiple=True, help="Only this issue; may be given several times."),
        click.option("--split", help="For a dataset with several splits."),
        click.option("--revision", help="For a dataset of the hub: a commit, branch or tag."),
        click.option(
            "--dataset", required=True, help="verified, lite, full or OWNER/NAME of the hub; or a .json, .jsonl or .parquet file."
        ),
    ):
        function = option(function)
    return function


def _names(chosen: dict[str, Any]) -> list[str]:
    """The images of the chosen issues, each once."""
    from harness.dataset import load_dataset
    from harness.selection import select

    dataset: Dataset = load_dataset(chosen["dataset"], revision=chosen["revision"] or "", split=chosen["split"] or "")
    wanted = set(
        select(
            dataset,
            slice=chosen["slice"] or "",
            pattern=chosen["pattern"] or "",
            instances=chosen["instances"],
            repos=chosen["repos"],
        )
    )
    return list(dict.fromkeys(i.grading.image for i in dataset.instances if i.issue.id in wanted))


@click.group()
def images() -> None:
    """The images that issues need: which are here, pull them, remove those that were not used for longest."""


@images.command("list", epilog="Example: swe-memory images list --dataset verified --repo django/django")
@_issues
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print one JSON object: {present: [{id, names, bytes}], missing: [name], taken, free, needed: [at least, at most]}.",
)
def list_(as_json: bool, **chosen: Any) -> None:
    """Say which images of these issues are on the engine, which are missing, and the disk that they take and need (an estimate from those that are here).

    --json: {present: [{id, names: [name], bytes}], missing: [name], taken, free, needed: [at least, at most]}. Bytes; null where it is not known.
    """
    from contextlib import closing

    from harness.environments.engine import connect
    from harness.environments.images import list_images

    names = _names(chosen)
    with closing(connect()) as client:
        found = list_images(client, names)
    if as_json:
        present = [{"id": image.id, "names": list(image.names), "bytes": image.size} for image in found.present]
        needed = list(found.needed) if found.needed else None
        shown = {"present": present, "missing": list(found.missing), "taken": found.taken, "free": found.free, "needed": needed}
        click.echo(json.dumps(shown, indent=2))
        return
    here = len(names) - len(found.missing)
    of_all = f"{here} of {count(len(names), 'image', 'images')} {'is' if 1 in (here, len(names)) else 'are'} here"
    click.echo(f"{of_all}; all images of the engine take {_size(found.taken)}")
    free = "" if found.free is None else f"; {_size(found.free)} are free"
    needs = (
        "not known, for none is here"
        if found.needed is None
        else f"from {_size(found.needed[0])} to {_size(found.needed[1])}, as they share layers"
    )
    if found.missing:
        click.echo(
            f"{count(len(found.missing), 'is', 'are')} missing; the disk that {'it needs' if len(found.missing) == 1 else 'they need'}: {needs}{free}"
        )
    for name in found.missing[:10]:
        click.echo(f"  missing: {name}")
    if len(found.missing) > 10:
        click.echo(f"  ... and {len(found.missing) - 10} more")


@images.command(epilog="Example: swe-memory images pull --dataset verified --slice 0:20")
@_issues
def pull(**chosen: Any) -> None:
    """Pull the images of these issues that are not on the engine, one after the other. Exit code 1 where one could not be had."""
    from contextlib import closing

    from harness.environments.engine import connect
    from harness.environments.images import PullProgress, ensure_image, list_images
    from swe_memory.errors import InfraError
    from swe_memory.progress import Progress

    names = _names(chosen)
    failed: list[str] = []
    with closing(connect()) as client:
        missing = list_images(client, names).missing
        if not missing:
            click.echo("the image is here" if len(names) == 1 else f"all {len(names)} images are here")
            return
        with Progress("images", len(missing)) as progress:
            for name in missing:

                def told(pull: PullProgress) -> None:
                    progress.advance(0, note=f"{pull.image}: {_size(pull.done)} of {_size(pull.total)}")

                try:
                    ensure_image(client, name, told)
                except InfraError as error:
                    failed.append(name)
                    progress.line(f"{error.what}\n  {error.hint}" if error.hint else error.what)
                progress.advance(note=name)
    pulled, here = count(len(missing) - len(failed), "image", "images"), count(len(names) - len(missing), "was", "were")
    click.echo(f"{pulled} pulled, {here} here, {len(failed)} could not be had")
    if failed:
        raise click.exceptions.Exit(1)


@images.command(epilog="Example: swe-memory images evict --keep-gb 200")
@click.option("--keep-gb", type=click.FloatRange(min=0), required=True, help="What all images of the engine may take, in GiB.")
def evict(keep_gb: float) -> None:
    """Remove images that swe-memory used, those first that were not used for longest, until the engine's images fit. Others are never touched.

    Exit code 1 where they still do not fit.
    """
    from contextlib import closing

    from harness.environments.engine import connect
    from harness.environments.images import evict_images

    with closing(connect()) as client:
        done = evict_images(client, round(keep_gb * GIB))
    for image in done.removed:
        click.echo(f"removed {', '.join(image.names) or image.id[:19]}")
    click.echo(f"{count(len(done.removed), 'image', 'images')} removed; all images of the engine take {_size(done.taken)}")
    if not done.enough:
        left = "what is left has names that swe-memory did not use, is used by a container, or was asked for in the last ten minutes"
        click.echo(f"That is more than asked for; {left}.", err=True)
        raise click.exceptions.Exit(1)


@click.command(epilog="Example: swe-memory clean runs/first")
@click.argument("folder", type=click.Path(path_type=Path), required=False)
@click.option(
    "--all",
    "everything",
    is_flag=True,
    help="Also containers whose process cannot be seen from here (another machine's, another container's).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is above.")
def clean(folder: Path | None, everything: bool, as_json: bool) -> None:
    """Remove the containers that killed runs left behind: all of them, or those of the run in FOLDER. What a living process uses stays.

    A run that is started or resumed does this for its own folder.

    --json: {removed: [name], left: [{name, run, owner: alive|gone|unknown}]}
    """
    from contextlib import closing

    from harness.clean import remove_leftovers
    from harness.environments.engine import connect

    with closing(connect()) as client:
        done = remove_leftovers(client, folder.resolve().name if folder else None, everything=everything)
    if as_json:
        left = [{"name": other.name, "run": other.run, "owner": other.owner} for other in done.left]
        click.echo(json.dumps({"removed": [container.name for container in done.removed], "left": left}, indent=2))
        return
    for container in done.removed:
        click.echo(f"removed {container.name}: {container.run} {container.arm} {container.issue}")
    others = count(len(done.left), "left to its process", "left to their processes")
    click.echo(f"{count(len(done.removed), 'container', 'containers')} removed, {others}")


def _size(number: int) -> str:
    return f"{number / GIB:.1f} GiB" if number >= GIB else f"{number / (1 << 20):.0f} MiB"
