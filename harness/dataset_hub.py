"""Datasets of the Hugging Face hub, through the ``datasets`` library, at a known revision.

A name of a branch is resolved to a commit before anything is loaded, and what was loaded is checked to be of that commit: where the hub fails in between,
``datasets`` falls back to whatever it loaded last, of any revision (https://github.com/huggingface/datasets/issues/7928). A revision that is in the cache of
``datasets`` already is read from there without a request.

Both libraries are slow to import (a second and more), so only the functions import them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_memory.errors import SweMemoryError, UsageError

OFFICIAL = {
    "verified": "SWE-bench/SWE-bench_Verified",
    "lite": "SWE-bench/SWE-bench_Lite",
    "full": "SWE-bench/SWE-bench",
}
DEFAULT_SPLIT = "test"

_NAMES = OFFICIAL | {repo.lower(): repo for repo in OFFICIAL.values()} | {repo.lower().split("/")[1]: repo for repo in OFFICIAL.values()}
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HubRows:
    """The rows of one split at one revision (a commit of 40 hex digits)."""

    repo: str
    revision: str
    split: str
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class _Cached:
    """One prepared revision in the cache of ``datasets``."""

    revision: str
    config: str
    version: str


def hub_name(name: str) -> str | None:
    """The ``owner/name`` that is meant by ``verified``, ``lite``, ``full``, an official name without its owner, or ``owner/name``; None for anything else."""
    repo: str | None = _NAMES.get(name.lower())
    if repo:
        return repo
    return name if re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name) else None


def fetch(repo: str, *, revision: str = "", split: str = "") -> HubRows:
    """The rows of ``repo`` at ``revision`` (a commit, tag or branch; "" for the main branch as it is now), in their order.

    ``split`` "" is ``test``, or the only split where there is no such one. Where HF_HUB_OFFLINE or HF_DATASETS_OFFLINE is set, the cache alone answers:
    ``revision`` is then a commit or its beginning, and "" is the only one in the cache.

    Raises UsageError where there is no such dataset, revision or split, and SweMemoryError where the hub cannot be reached.
    """
    try:
        import datasets
    except ImportError as error:
        raise UsageError(
            f"{repo} is a dataset of the hub, and the package `datasets` is not installed", "Install it: pip install datasets."
        ) from error

    cached = _cached(repo)
    if datasets.config.HF_HUB_OFFLINE:
        return _from_cache(repo, _choose(repo, revision, cached), split)
    if known := next((entry for entry in cached if entry.revision == revision), None):
        return _from_cache(repo, known, split)
    commit = _resolve(repo, revision, cached)
    if known := next((entry for entry in cached if entry.revision == commit), None):
        return _from_cache(repo, known, split)
    return _from_hub(repo, commit, split, cached)


def _resolve(repo: str, revision: str, cached: list[_Cached]) -> str:
    """The commit that the hub knows by ``revision``."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError, RevisionNotFoundError

    try:
        commit = HfApi(endpoint=_endpoint()).dataset_info(repo, revision=revision or None, timeout=_SECONDS).sha
    except GatedRepoError as error:
        raise UsageError(
            f"{repo} is gated: {_endpoint()} gives it only to accounts that asked for it",
            "Ask for access on its page, then log in with `hf auth login` or set HF_TOKEN.",
        ) from error
    except RepositoryNotFoundError as error:
        raise UsageError(
            f"there is no dataset {repo} at {_endpoint()}, and no file or folder of that name here",
            "Check the name. For a private one, log in with `hf auth login` or set HF_TOKEN.",
        ) from error
    except (RevisionNotFoundError, HFValidationError) as error:
        raise UsageError(
            f"{repo} has no revision {revision!r}", "Give a commit, tag or branch, or leave out --revision for main."
        ) from error
    except Exception as error:  # the library's HTTP client, and with it the family of its errors, changes between versions
        raise _unreachable(repo, error, cached) from error
    if not commit or not _COMMIT.fullmatch(commit):
        raise SweMemoryError(f"{_endpoint()} names no commit for {repo}", "Check HF_ENDPOINT.")
    return commit


def _from_hub(repo: str, commit: str, split: str, cached: list[_Cached]) -> HubRows:
    import datasets

    try:
        builder = datasets.load_dataset_builder(repo, revision=commit)
        if Path(builder.cache_dir).name != commit:
            raise SweMemoryError(
                f"the hub failed while {repo} was being loaded, and only another revision is in the cache", "Try again in a while."
            )
        builder.download_and_prepare()
        return _rows(repo, commit, builder, split)
    except SweMemoryError:
        raise
    except (datasets.data_files.EmptyDatasetError, datasets.exceptions.DataFilesNotFoundError) as error:
        raise UsageError(f"{repo} holds no file of rows at revision {commit}", "Check the name and the revision.") from error
    except Exception as error:  # as above; a full disk is among them, and its message says so
        if "Config name is missing" in str(error):
            raise UsageError(
                f"{repo} has several configurations, and which one is meant cannot be said here",
                "Download the files of the one that you want, and give the file as --dataset.",
            ) from error
        raise _unreachable(repo, error, cached) from error


def _from_cache(repo: str, entry: _Cached, split: str) -> HubRows:
    from datasets.packaged_modules.cache.cache import Cache

    try:
        builder = Cache(dataset_name=repo.split("/")[1], repo_id=repo, config_name=entry.config, version=entry.version, hash=entry.revision)
        return _rows(repo, entry.revision, builder, split)
    except SweMemoryError:
        raise
    except Exception as error:  # whatever a damaged cache makes of the readers
        raise SweMemoryError(
            f"the cached revision {entry.revision} of {repo} cannot be read: {_reason(error)}",
            f"Remove its folder below {_cache_folder(repo)} and load it again.",
        ) from error


def _rows(repo: str, commit: str, builder: Any, split: str) -> HubRows:
    there = list(builder.info.splits or {})
    wanted = split or (DEFAULT_SPLIT if DEFAULT_SPLIT in there or len(there) != 1 else there[0])
    if wanted not in there:
        raise UsageError(f"{repo} has no split {wanted!r}", f"It has {', '.join(there) or 'none'}: choose one with --split.")
    return HubRows(repo, commit, wanted, tuple(builder.as_dataset(split=wanted).to_list()))


def _cached(repo: str) -> list[_Cached]:
    """What ``datasets`` has prepared of this dataset: its folders are named CONFIG/VERSION/COMMIT and appear only when they are complete."""
    found = []
    for path in sorted(_cache_folder(repo).glob("*/*/*/dataset_info.json")):
        config, version, commit = path.parts[-4:-1]
        try:
            whole = (
                json.loads(path.read_bytes())["config_name"] == config
            )  # else it was prepared with files or settings of somebody's choice
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if whole and _COMMIT.fullmatch(commit):
            found.append(_Cached(commit, config, version))
    configs = {entry.config for entry in found}
    return found if len(configs) <= 1 else [entry for entry in found if entry.config == "default"]


def _cache_folder(repo: str) -> Path:
    import datasets
    from datasets.naming import camelcase_to_snakecase

    owner, name = repo.split("/")
    return Path(datasets.config.HF_DATASETS_CACHE).expanduser() / f"{owner}___{camelcase_to_snakecase(name)}"


def _choose(repo: str, revision: str, cached: list[_Cached]) -> _Cached:
    """The one cached revision that is meant, where no hub can be asked."""
    hint = f"It has {_listed(cached)}: choose one with --revision." if cached else ""
    if not cached:
        raise UsageError(
            f"{repo} is not in the cache ({_cache_folder(repo)}), and HF_HUB_OFFLINE forbids to ask the hub",
            "Load it once with a network, copy the cache of a machine that has, or give the split's Parquet file as --dataset.",
        )
    meant = [entry for entry in cached if entry.revision.startswith(revision.lower())] if len(revision) >= 7 or not revision else []
    if not meant:
        raise UsageError(
            f"revision {revision!r} of {repo} is not in the cache, and HF_HUB_OFFLINE forbids to ask the hub (offline, only commits are known)",
            hint,
        )
    if len(meant) > 1:
        raise UsageError(f"the cache has several revisions of {repo}, and HF_HUB_OFFLINE forbids to ask the hub which is current", hint)
    return meant[0]


def _unreachable(repo: str, error: Exception, cached: list[_Cached]) -> SweMemoryError:
    offline = f" The cache has {_listed(cached)}: HF_HUB_OFFLINE=1 reads it without the hub." if cached else ""
    return SweMemoryError(
        f"cannot load {repo} from {_endpoint()}: {_reason(error)}",
        f"Check the network and HF_ENDPOINT.{offline} Or download the split's Parquet file on another machine and give it as --dataset.",
    )


def _listed(cached: list[_Cached]) -> str:
    return ", ".join(entry.revision for entry in cached)


def _reason(error: BaseException) -> str:
    """What was at the bottom of it, on one line: what lies above often says only that something went wrong."""
    while error.__cause__:
        error = error.__cause__
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 300 else text[:297] + '...'}"


def _endpoint() -> str:
    import datasets

    return str(datasets.config.HF_ENDPOINT)
