"""The instrument's commands. Only click is imported here; the work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def _stop(code: int) -> None:
    """End with an exit code, in whatever way the command was called."""
    if code:
        raise click.exceptions.Exit(code)


@click.command(epilog="Example: swe-memory run --dataset minibench --agent repair --arm none --arm reasoningbank --out runs/first")
@click.option("--dataset", help="minibench (default), or a .json or .jsonl file in SWE-bench's row format.")
@click.option(
    "--repositories",
    type=click.Path(path_type=Path),
    help="For a dataset file: a folder with a clone of each repository, as OWNER__NAME or OWNER/NAME.",
)
@click.option("--agent", help="repair (default): fixes by templates, without a language model.")
@click.option("--arm", "arms", multiple=True, help="none or reasoningbank; give it once for each arm. Default: both.")
@click.option("--call-limit", type=int, help="Calls an attempt may use. Default: 60.")
@click.option(
    "--verdict",
    type=click.Choice(["rules", "tests"]),
    help="What memory learns from: rules (default; sees what the agent saw) or tests (the hidden tests; results then say `oracle verdict`).",
)
@click.option("--order", type=click.Choice(["date", "given", "shuffled"]), help="Order of the issues. Default: date, oldest first.")
@click.option("--seed", type=int, help="For --order shuffled. Default: 0.")
@click.option("--instance", "instances", multiple=True, help="Only this issue; may be given several times. Default: all.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/first"), show_default=True, help="The run folder.")
@click.option("--workers", type=int, default=2, show_default=True, help="Attempts side by side, where they may be. Never changes a result.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the run in --out; settings that are not given are taken from it (not the place of a dataset file).",
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object: the shape of `swe-memory compare --json`.")
def run(**options: Any) -> None:
    """Run an agent on a dataset with and without memory, and write everything into a run folder.

    Protocol: online, one stream an arm. An arm with memory recalls before each attempt and learns after it, in the order of the stream; the arm `none`
    does neither. The folder holds experiment.json (frozen before the first attempt), events.jsonl, results.json, and for each arm preds.json, trajectories,
    official reports and the bank. A run that was stopped, however, goes on with --resume.

    The local environment is not a sandbox: run only agents and repositories that you trust.

    Exit codes: 0 done; 1 infra failures remain (they are listed; --resume tries them again); 2 wrong use; 130 interrupted.
    """
    from harness.running import run_command

    as_json = options.pop("as_json")
    code, shown = run_command(**options, as_json=as_json)
    if shown:
        click.echo(shown)
    _stop(code)


@click.command(epilog="Example: swe-memory compare runs/first")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--items", type=click.IntRange(0), default=5, show_default=True, help="How many of the most used items to list.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def compare(folder: Path, items: int, as_json: bool) -> None:
    """Compare the arms of a run folder: resolve rates, calls, paired differences, and each issue. Works on a run that is still going.

    \b
    --json: {run, dataset: {name, hash}, agent, protocol, call_limit, issues_planned, endpoint,
      verdict: {source, label}, complete,
      arms: [{arm, planned, graded, resolved, rate, low, high, mean_calls, mean_actions, limit_hits,
              infra: [issue], missing: [issue], recalled, exit_statuses, judge: {right, wrong, unknown}}],
      comparisons: [{arm, baseline, pairs, both, only_arm, only_baseline, neither, difference,
                     p_midp, p_exact, calls_difference, sentence}],
      issues: [{issue, arms: {ARM: {state, resolved, calls, exit_status, outcome, flags, verdict,
                                    recalled, item, score, learned_from}}}],
      items: [{id, title, learned_from, uses, resolved}], sentences: [text], problems: [text]}
    Rates are fractions; what cannot be computed is null. Exit code 0 whatever the effect.
    """
    import json

    from harness.compare import compare_run
    from harness.compare_text import render

    result = compare_run(folder)
    click.echo(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) if as_json else render(result, items=items))


@click.command(epilog="Example: swe-memory demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-run"),
    show_default=True,
    help="The run folder; a demo that was stopped goes on.",
)
@click.option("--workers", type=int, default=2, show_default=True, help="Attempts side by side.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object: the shape of `swe-memory compare --json`.")
def demo(out: Path, workers: int, as_json: bool) -> None:
    """See an agent fix real bugs in real git repositories, without and with memory. No key, no container, no network.

    Runs the bundled bench with the arms `none` and `reasoningbank`, shows the comparison and the most used items, and says what to type next. Whatever
    comes out is printed.
    """
    from harness.demo import demo_command

    code, shown = demo_command(out, workers=workers, as_json=as_json)
    click.echo(shown)
    _stop(code)
