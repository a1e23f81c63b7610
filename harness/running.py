"""``swe-memory run``: from options to a finished run folder."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.agents import make_agent
from harness.analysis.references import only_references
from harness.arms import Arm, parse_arms
from harness.checks import LARGEST
from harness.compare import comparison
from harness.compare_text import render
from harness.equipment import images_missing, look_before
from harness.events import RunState, read_state, write_file
from harness.folder import another_experiment, freeze, locked, read_experiment, resume_command
from harness.forecast import forecast, forecast_text
from harness.layout import check_protocol, lay_out
from harness.plan import MOST, PROTOCOLS, Experiment, endpoint, order_specs, ordered, split, wrong_setting
from harness.scheduler import Run, Settings
from harness.statistics.estimates import count
from harness.telling import Teller
from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.heap import keep_small

if TYPE_CHECKING:
    from harness.dataset import Dataset

MINIBENCH = "minibench"
_MOST_PROBLEMS = 5

DEFAULTS: Mapping[str, Any] = {
    "agent": "",
    "arms": ("none", "reasoningbank"),
    "protocol": "crossfit",
    "builds": 1,
    "wave": 1,
    "order": "date",
    "orders": 1,
    "reruns": 1,
    "baseline_reruns": 1,
    "verdict": "rules",
    "extractor": "rules",
    "model": "",
    "recall": "default",
    "before": False,
    "environment": "",
    "network": "none",
    "cpus": 2.0,
    "memory_gb": 8.0,
    "call_limit": 60,
    "command_seconds": 120.0,
    "attempt_seconds": None,
    "attempt_tokens": None,
    "attempt_cost": None,
    "test_seconds": 300.0,
    "seed": 0,
}

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # As near as this comes to arXiv 2509.25140, section 4 and appendix A: one stream, append only, the agent's model judges and distils.
    "paper": {
        "agent": "mini",
        "protocol": "online",
        "wave": 1,
        "order": "given",
        "arms": ("none", "reasoningbank"),
        "verdict": "llm",
        "extractor": "llm",
        "recall": "paper",
        "call_limit": 250,
    },
    # What it takes to claim something: a bank that nothing interferes with, no lessons from later issues, placebos, and the baseline's own noise.
    "claim": {
        "agent": "mini",
        "protocol": "crossfit",
        "arms": ("none", "reasoningbank", "derangement", "preamble", "neutral"),
        "verdict": "llm",
        "extractor": "llm",
        "before": True,
        "baseline_reruns": 2,
        "call_limit": 250,
    },
}


def run_command(
    *,
    out: Path,
    workers: int = 2,
    resume: bool = False,
    as_json: bool = False,
    dry_run: bool = False,
    dataset: str | None = None,
    revision: str | None = None,
    split: str | None = None,
    repositories: Path | None = None,
    slice: str | None = None,
    pattern: str | None = None,
    instances: Sequence[str] = (),
    repos: Sequence[str] = (),
    preset: str | None = None,
    bank: str | None = None,
    like: Path | None = None,
    retries: int | None = None,
    max_cost: float | None = None,
    max_hours: float | None = None,
    max_tokens: int | None = None,
    max_calls: int | None = None,
    requests_per_minute: int | None = None,
    tokens_per_minute: int | None = None,
    **given: Any,
) -> tuple[int, str]:
    """Run, resume or only plan an experiment; (exit code, what to print). ``given`` holds settings of :data:`DEFAULTS`; None, () and False mean not given.

    Raises UsageError for wrong settings, KeyboardInterrupt where the user stopped it.
    """
    from harness.scheduler import RETRIES
    from harness.selection import select

    settings = Settings(
        workers,
        retries=RETRIES if retries is None else (RETRIES * (1 + retries // len(RETRIES)))[:retries],
        max_cost=max_cost,
        max_seconds=None if max_hours is None else max_hours * 3600,
        max_tokens=max_tokens,
        max_calls=max_calls,
        requests=requests_per_minute,
        tokens=tokens_per_minute,
        given_bank=bank or "",
    )
    frozen = read_experiment(out) if resume else None
    # By identity: 0 was given, and is refused or kept as what it is.
    chosen = {name: value for name, value in given.items() if value is not None and value is not False and value != ()}
    known = _dataset(out, frozen, dataset, revision or "", split or "", repositories)
    if frozen:
        _refuse_other_protocol(out, frozen, {**_base(preset), **chosen})
    chosen_issues: Sequence[str] = ()
    if slice or pattern or instances or repos:
        chosen_issues = select(known, slice=slice or "", pattern=pattern or "", instances=instances, repos=repos)
    experiment = plan_experiment(known, {**_base(preset), **chosen}, chosen_issues, frozen=frozen, bank=bank)
    if frozen and (
        different := frozen.differences(experiment)
    ):  # before a key or an engine is asked for that only the changed settings need
        raise another_experiment(out, different)
    check_money(experiment, settings)
    chosen_instances = [known.instance(issue) for issue in experiment.instances]
    if dry_run:
        expected = forecast(experiment, workers, like, images_missing(experiment, chosen_instances))
        return 0, json.dumps(expected, indent=2, ensure_ascii=False) if as_json else forecast_text(expected)
    if missing := look_before(experiment, chosen_instances):
        click.echo(_missing_text(missing, dataset or experiment.dataset), err=True)
    with locked(out):
        freeze(out, experiment, resume=resume)
        again = resume_command(out, experiment, dataset=dataset or "", repositories=str(repositories or ""), bank=bank or "")
        run, state = carry_out(out, experiment, known, settings, again)
        result = comparison(experiment, state, out.resolve().name, folder=out, dataset=known)
        write_file(out / "results.json", json.dumps(result, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False) + "\n")
    shown = (
        json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
        if as_json
        else f"{render(result, folder=out)}\n\nAll of it: {out}"
    )
    failed = [f"{attempt['issue']} ({attempt['arm']} {attempt['stream']})" for attempt in result["infra"]]
    if failed:
        click.echo(
            f"{count(len(failed), 'attempt', 'attempts')} failed through the machine: {', '.join(failed)}. Try them again with: {again}",
            err=True,
        )
    if run.stopped_by:
        click.echo(f"Stopped: {run.stopped_by}. Go on with: {again}", err=True)
    # What else reference patches alone are run for: to hear that they do not resolve.
    broken = only_references(result) and any(found["failing"] for found in result["environment"])
    return (1 if failed or run.stopped_by or not result["complete"] or broken else 0), shown


def _missing_text(missing: Sequence[str], dataset: str) -> str:
    shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
    pulled = "is pulled when its turn comes" if len(missing) == 1 else "are pulled when their turn comes"
    return (
        f"{count(len(missing), 'image is', 'images are')} not on the engine and {pulled}: {shown}\n"
        f"To pull them first: swe-memory images pull --dataset {dataset} (with the flags that choose issues)"
    )


def _dataset(out: Path, frozen: Experiment | None, name: str | None, revision: str, split: str, repositories: Path | None) -> Dataset:
    """The dataset that is named, or that of a run to go on with."""
    from harness.dataset import load_dataset

    if name is None and frozen is not None:
        if frozen.dataset != MINIBENCH and not frozen.dataset_revision:
            what = f"the run in {out} is on the dataset file {frozen.dataset}, whose place it does not keep"
            raise UsageError(what, "Name it again with --dataset (and --repositories).")
        name, revision, split = frozen.dataset, revision or frozen.dataset_revision, split or frozen.dataset_split
    return load_dataset(name or MINIBENCH, revision=revision, split=split, repositories=repositories)


def _base(preset: str | None) -> dict[str, Any]:
    if preset is None:
        return {}
    if preset not in PRESETS:
        raise UsageError(f"there is no preset called {preset!r}", f"Known presets: {', '.join(PRESETS)}.")
    return dict(PRESETS[preset])


def plan_experiment(
    dataset: Dataset, given: Mapping[str, Any], instances: Sequence[str] = (), *, frozen: Experiment | None = None, bank: str | None = None
) -> Experiment:
    """The experiment of these settings, each checked; what is not given is taken from ``frozen``, or from :data:`DEFAULTS`.

    ``instances`` () means those of ``frozen``, or all. Raises UsageError.
    """
    values = {**DEFAULTS, **(_kept(frozen) if frozen else {}), **given}
    arms = parse_arms(values["arms"])
    if values["protocol"] not in PROTOCOLS:
        raise UsageError(f"there is no protocol called {values['protocol']!r}", f"Known protocols: {', '.join(PROTOCOLS)}.")
    clones = all(instance.repository for instance in dataset.instances)
    # Where there are only images the default agent works; the bundled one knows no more than it needs for the bundled bench.
    # Reference patches need no agent, and so no model.
    values["agent"] = values["agent"] or ("repair" if clones or all(arm.kind == "gold" for arm in arms) else "mini")
    values["environment"] = values["environment"] or ("local" if clones else "docker")
    _check_agent(values)
    _check_counts(values)
    _check_arms(arms, values)
    wanted = set(instances) or (set(frozen.instances) if frozen else {instance.issue.id for instance in dataset.instances})
    for issue in sorted(wanted):
        dataset.instance(issue)
    issues = [instance.issue for instance in dataset.instances if instance.issue.id in wanted]
    specs = order_specs(values.pop("order"), values.pop("orders"), values["seed"])
    if frozen and not {"order", "orders"} & set(given):
        specs = frozen.orders
    online, crossfit = values["protocol"] == "online", values["protocol"] == "crossfit"
    if not online and len(specs) > 1:
        raise UsageError(
            f"{values['protocol']} has one order; several make sense for growing banks", "Use --protocol online, or leave --orders out."
        )
    if not online and values["wave"] > 1:
        raise UsageError(f"{values['protocol']} has no waves; its banks are frozen", "Use --protocol online, or leave --wave out.")
    if not crossfit and values["builds"] > 1:
        raise UsageError(
            f"{values['protocol']} has no builds; they are splits of crossfit", "Use --protocol crossfit, or leave --builds out."
        )
    place = {issue.id: number for number, issue in enumerate(issues)}
    if values["before"] and any(issue.created_at is None for issue in issues):
        undated = next(issue.id for issue in issues if issue.created_at is None)
        raise UsageError(
            f"--before needs the date of every issue, and {undated} has none", "Give created_at in the dataset, or leave --before out."
        )
    values["extractor"] = _extractor_name(values["extractor"])
    _check_model(values)
    given_bank = frozen.bank if frozen and bank is None else _given_bank(bank, values["protocol"])
    experiment = Experiment(
        dataset=dataset.name,
        dataset_hash=dataset.hash,
        dataset_revision=dataset.revision,
        dataset_split=dataset.split,
        instances=tuple(issue.id for issue in issues),
        repositories=tuple(issue.repo for issue in issues),
        dates=tuple(issue.created_at.isoformat() if issue.created_at else "" for issue in issues),
        orders=specs,
        sequences=tuple(tuple(place[i] for i in ordered(issues, spec)) for spec in specs),
        folds=tuple(split(issues, build, values["seed"]) for build in range(1, values["builds"] + 1)) if crossfit else (),
        bank=given_bank,
        endpoint=endpoint(arms, values["protocol"], values["builds"], len(specs) * values["reruns"]),
        **{**values, "arms": tuple(arm.name for arm in arms)},
        **here(values),
    )
    experiment.limits()
    if wrong := wrong_setting(experiment.to_json()):  # what is frozen must be read back as it is
        raise UsageError(f"--{wrong[0].replace('_', '-')} is not {wrong[1]}", "Correct it.")
    check_protocol(experiment)
    lay_out(experiment)
    return experiment


def _kept(frozen: Experiment) -> dict[str, Any]:
    kept = {name: getattr(frozen, name) for name in DEFAULTS if name not in ("order", "orders")}
    return {**kept, "order": frozen.orders[0], "orders": len(frozen.orders)}


def _refuse_other_protocol(out: Path, frozen: Experiment, given: Mapping[str, Any]) -> None:
    """The other settings may not go with another protocol; what is to be said is that it was changed."""
    if (asked := given.get("protocol", frozen.protocol)) != frozen.protocol:
        raise another_experiment(out, [f"protocol: {frozen.protocol!r} there, {asked!r} asked for"])


def _check_agent(values: Mapping[str, Any]) -> None:
    agent = make_agent(values["agent"], model=values["model"])
    if agent.users_environment and values["environment"] == "docker":
        raise UsageError(
            "a program of yours works on this machine, and the issues come as images", "Add --environment local and --repositories FOLDER."
        )


def _check_counts(values: Mapping[str, Any]) -> None:
    for name in ("builds", "wave", "reruns", "baseline_reruns"):
        flag = f"--{name.replace('_', '-')}"
        if values[name] < 1:
            raise UsageError(f"{flag} {values[name]} leaves nothing to do", "Give 1 or more.")
        if values[name] > (most := LARGEST if name == "wave" else MOST):
            raise UsageError(f"{flag} {values[name]} is more than any run could do", f"Give {most} at most.")


def _check_arms(arms: Sequence[Arm], values: Mapping[str, Any]) -> None:
    """Two spellings of one condition, one of which names a default, would be compared with each other."""
    seen: dict[Any, str] = {}
    for arm in arms:
        if arm.kind == "memory":
            condition = (arm.family, arm.ranking(values["recall"], before=values["before"]))
            if (other := seen.setdefault(condition, arm.name)) != arm.name:
                raise UsageError(f"arms {other!r} and {arm.name!r} are the same condition", "Leave one of them out.")


def _given_bank(bank: str | None, protocol: str) -> Mapping[str, Any]:
    if not bank:
        return {}
    if protocol != "offline":
        raise UsageError(
            f"--bank goes with --protocol offline; {protocol} makes its own banks", "Add --protocol offline, or leave --bank out."
        )
    from harness.frozen import describe_bank

    return describe_bank(bank)


def _extractor_name(kind: str) -> str:
    """``rules`` or ``llm`` as name@version; such a name as it is."""
    if "@" in kind:
        return kind
    if kind == "rules":
        from swe_memory.extract.rules import RulesExtractor

        return RulesExtractor.name
    from swe_memory.extract.llm import LLMExtractor

    return LLMExtractor.name


def _check_model(values: Mapping[str, Any]) -> None:
    """An LLM that judges or distils must be named."""
    asks = values["verdict"] == "llm" or values["extractor"].startswith("llm")
    if asks and not values["model"]:
        raise UsageError(
            "a language model is to judge or distil, and none is named", "Name one with --model, for example --model claude-haiku-5-5."
        )


def check_money(experiment: Experiment, settings: Settings) -> None:
    """Refuse limits that make no sense, and a budget in dollars that could not be kept. Raises UsageError."""
    from harness.budget import RunBudget
    from swe_memory.rate import RateLimiter

    budget = RunBudget(settings.max_cost, settings.max_seconds, settings.max_tokens, settings.max_calls)
    budget.refuse_unpriced([experiment.model] if experiment.model else [])
    RateLimiter(settings.requests, settings.tokens)


def here(values: Mapping[str, Any]) -> dict[str, Any]:
    """What this machine adds to an experiment: its embedder, package versions, and the versions of the prompts that are used."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    import swe_memory
    from prompts import load
    from swe_memory.embed import default_embedder

    embedder = default_embedder()
    versions = {"swe-memory": swe_memory.__version__, "python": ".".join(platform.python_version_tuple()[:2])}
    packages = ["lancedb", "onnxruntime", "pytest", "swebench"]
    packages += ["anthropic"] if values["model"] else []
    packages += ["mini-swe-agent"] if values["agent"].startswith("mini") else []
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[package] = version(package)
    used = ["memory_block"] if any(arm.kind in ("memory", "control") for arm in parse_arms(values["arms"])) else []
    used += ["neutral"] if any(arm.method == "neutral" for arm in parse_arms(values["arms"])) else []
    used += ["judge"] if values["verdict"] == "llm" else []
    used += ["extract_success", "extract_failure"] if values["extractor"].startswith("llm") else []
    return {
        "embedder": f"{embedder.name} {embedder.digest[:12]}" if embedder else "none",
        "versions": versions,
        "prompts": {name: load(name).version for name in used},
    }


def carry_out(out: Path, experiment: Experiment, dataset: Dataset, settings: Settings, again: str) -> tuple[Run, RunState]:
    """Do the work of a locked, frozen run folder, with progress on standard error. ``again`` is the command that goes on with it."""
    keep_small()
    before = read_state(out / "events.jsonl")
    with Teller(lay_out(experiment), before) as teller:
        for problem in before.problems[:_MOST_PROBLEMS]:
            teller.line(f"warning: {problem}")
        if len(before.problems) > _MOST_PROBLEMS:
            more = count(len(before.problems) - _MOST_PROBLEMS, "more problem", "more problems")
            teller.line(f"warning: ... and {more} (swe-memory run status --json lists all)")
        run = Run(out, experiment, dataset, settings, teller.say)
        try:
            return run, run.execute(teller.interrupted)
        except KeyboardInterrupt:
            teller.line(f"stopped. Go on with: {again}")
            raise
        except SweMemoryError as error:
            # A model's name is part of what was frozen.
            renamed = "\n  With another model, start a new run in another folder." if getattr(error, "status", None) == 404 else ""
            teller.line(f"stopped by an error. When it is mended, go on with: {again}{renamed}")
            raise
