"""The instrument's commands. Only click is imported here; the work is imported when a command runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


def _stop(code: int) -> None:
    """End with an exit code, in whatever way the command was called."""
    if code:
        raise click.exceptions.Exit(code)


class _Run(click.Group):
    """Runs by itself; a first word that is no option names one of its commands."""

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "[OPTIONS]")
        formatter.write_usage(ctx.command_path, "status|explain|relearn ...", prefix="       ")


@click.group(
    cls=_Run,
    invoke_without_command=True,
    epilog="Examples: swe-memory run --arm none --arm reasoningbank --arm derangement --out runs/first; "
    'swe-memory run --agent "command: ./my-agent --issue {issue_file} --hints {memory_file} --out {patch_file}" --dry-run',
)
@click.option("--preset", type=click.Choice(["paper", "claim"]), help="Settings that belong together; flags beside it win. See below.")
@click.option(
    "--dataset",
    help="minibench (default); verified, lite, full or OWNER/NAME of the Hugging Face hub; or a .json, .jsonl or .parquet file. See docs/dataset.md.",
)
@click.option("--revision", help="For a dataset of the hub: a commit, branch or tag. The commit is recorded.")
@click.option("--split", help="For a dataset with several splits. Default: test.")
@click.option(
    "--repositories",
    type=click.Path(path_type=Path),
    help="For a dataset file: a folder with a clone of each repository, as OWNER__NAME or OWNER/NAME.",
)
@click.option("--instance", "instances", multiple=True, help="Only this issue; may be given several times. Default: all.")
@click.option("--repo", "repos", multiple=True, metavar="OWNER/NAME", help="Only issues of this repository; may be given several times.")
@click.option("--filter", "pattern", metavar="REGEX", help="Only issues whose id begins with a match of this.")
@click.option("--slice", metavar="A:B", help="Of what the others leave, only these places, as Python counts them.")
@click.option(
    "--agent",
    help="mini (mini-SWE-agent on --model; the default where there are images), repair (the default where there are clones: fixes by templates, "
    'without a language model), or "command: PROGRAM ..." with placeholders (see below).',
)
@click.option("--arm", "arms", multiple=True, help="A condition; once for each. See below. Default: none and reasoningbank.")
@click.option(
    "--protocol", type=click.Choice(["crossfit", "online", "offline"]), help="Who learns from what. See below. Default: crossfit."
)
@click.option("--builds", type=int, help="crossfit: how many independent splits, each with banks of its own. Default: 1.")
@click.option("--wave", type=int, help="online: attempts that recall from the same bank version before it learns. Default: 1, the paper's.")
@click.option("--order", help="Order of the issues: date (default, oldest first), given, or shuffled:SEED.")
@click.option(
    "--orders", type=int, help="online: how many orders, each a stream of its own; the second and later ones are shuffles. Default: 1."
)
@click.option("--reruns", type=int, help="How often everything is repeated in the same order. Default: 1.")
@click.option("--baseline-reruns", type=int, help="How often the arm `none` is repeated, if more often than the others.")
@click.option("--bank", metavar="PATH", help="offline: the bank to recall from. It is copied, and the copy is frozen.")
@click.option(
    "--verdict",
    type=click.Choice(["rules", "llm", "tests"]),
    help="What memory learns from: rules (default) or llm (they see what the agent saw), or tests (the hidden tests; results then say `oracle verdict`).",
)
@click.option("--extractor", type=click.Choice(["rules", "llm"]), help="How items are distilled. Default: rules.")
@click.option(
    "--model",
    help="The model: mini works with it, and --verdict llm and --extractor llm ask it. claude-..., bedrock:..., vertex:..., or litellm:NAME.",
)
@click.option("--before", is_flag=True, help="Recall only what was learned from issues created before the one at hand.")
@click.option("--seed", type=int, help="For folds, shuffles and controls. Default: 0.")
@click.option(
    "--environment",
    type=click.Choice(["local", "docker"]),
    help="Where attempts work and are graded: docker (in the issue's image; the default where there are only images) or local (clones; no sandbox).",
)
@click.option("--network", help="docker: the engine's name of the network that an agent's container gets. Default: none.")
@click.option("--cpus", type=float, help="docker: processors a container may use. Default: 2.")
@click.option("--memory-gb", type=float, help="docker: memory a container may use, in GiB. Default: 8.")
@click.option("--call-limit", type=int, help="Calls (model turns) an attempt may use. Default: 60.")
@click.option("--attempt-seconds", type=float, help="Wall time an attempt's agent may use; then its whole process group is ended.")
@click.option("--attempt-tokens", type=int, help="Tokens, in and out together, an attempt may use.")
@click.option("--attempt-cost", type=float, metavar="USD", help="What an attempt may cost.")
@click.option("--command-seconds", type=float, help="What one command of an agent may take. Default: 120.")
@click.option("--test-seconds", type=float, help="What an attempt's hidden tests may take. Default: 300.")
@click.option(
    "--max-cost", type=float, metavar="USD", help="What the run may cost, memory's own calls included; then it stops and can be resumed."
)
@click.option("--max-hours", type=float, help="How long the run may work, all sessions together.")
@click.option("--max-tokens", type=int, help="Tokens the run may use.")
@click.option("--max-calls", type=int, help="Calls the run may make.")
@click.option("--requests-per-minute", type=int, help="Requests to the model's API that all workers together may make a minute.")
@click.option("--tokens-per-minute", type=int, help="Tokens that they may use a minute.")
@click.option(
    "--retries", type=click.IntRange(0, 20), help="How often an attempt that failed through the machine is tried again. Default: 3."
)
@click.option("--workers", type=int, default=2, show_default=True, help="Attempts side by side, where they may be. Never changes a result.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs/first"), show_default=True, help="The run folder.")
@click.option(
    "--resume",
    is_flag=True,
    help="Go on with the run in --out; settings that are not given are taken from it (not the place of a dataset file or bank).",
)
@click.option(
    "--dry-run", is_flag=True, help="Print what would run (attempts, banks, hours, cost, disk, images that are missing) and do nothing."
)
@click.option(
    "--like", type=click.Path(path_type=Path), help="For --dry-run: a run folder whose recorded times and costs are expected again."
)
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object: the shape of `swe-memory compare --json`.")
@click.pass_context
def run(context: click.Context, /, **options: Any) -> None:
    """Run an agent on a dataset with and without memory, and write everything into a run folder.

    \b
    Protocols
      crossfit  the baseline's attempts on one half of the issues build a bank, which is frozen and tested on the
                other half, and the other way round. Everything runs side by side and nothing interferes.
      online    each arm's bank grows along a stream of issues (the paper's way). Streams run side by side.
      offline   a bank that you give, copied and frozen.

    \b
    Arms
      none                 no memory: the baseline. crossfit learns from its attempts.
      reasoningbank        recalls one item. Settings follow a colon: k=2, threshold=0.5, path-weight=0, grain=experience,
                           other-repos, before, success-only, failure-only; as in reasoningbank:k=2,success-only
      derangement          placebo: an item that was recalled for another issue of the same repository
      preamble             placebo: the memory's introduction without an item
      neutral              placebo: general advice of the same length
      gold                 applies the reference patch: checks the environment, never counts as an agent
    Placebos get text exactly where the arm with memory got an item. With several such arms: derangement/reasoningbank:k=2.

    \b
    Presets
      paper  online, wave 1, given order, LLM verdicts and items by --model, an experience with all its items, 250 calls
      claim  crossfit, --before, LLM verdicts and items, all placebos, two baseline reruns, 250 calls

    \b
    Agent programs: "command: PROGRAM ..." runs in a fresh clone, with your environment variables. Placeholders:
      {workdir} {issue_file} {memory_file} {patch_file} {log_file} {trajectory_file} {issue_id} {repo} {base_commit}
      {call_limit} {seconds}. The patch is {patch_file}, or else what changed in the clone. Steps come from {log_file}
      (JSON lines of thought, action, observation) or {trajectory_file}. Exit code 75 means: the machine failed, try again.

    The folder holds experiment.json (frozen before the first attempt), events.jsonl (the journal), results.json, and for each arm predictions,
    trajectories, official reports and banks. A run that was stopped, however, goes on with --resume. Ctrl-C once finishes the attempts under way,
    twice stops now.

    The local environment is not a sandbox: run only agents and repositories that you trust.

    Exit codes: 0 done; 1 infra failures remain or a limit of the run was reached (--resume goes on), or, with `--arm gold` alone, a reference patch
    does not resolve its issue here; 2 wrong use; 130 interrupted.
    """
    if context.invoked_subcommand is not None:
        given = [name for name in options if (source := context.get_parameter_source(name)) is not None and source.name == "COMMANDLINE"]
        if given:
            raise click.UsageError(f"--{given[0].replace('_', '-')} does not go with `{context.invoked_subcommand}`", context)
        return
    from harness.running import run_command

    if options["protocol"] != "offline" and context.get_parameter_source("bank") is not click.core.ParameterSource.COMMANDLINE:
        options["bank"] = None  # the bank of a settings file is for `learn` and `recall`; only offline takes one, too
    as_json = options.pop("as_json")
    code, shown = run_command(**options, as_json=as_json)
    if shown:
        click.echo(shown)
    _stop(code)


@run.command(epilog="Example: swe-memory run status runs/first")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def status(folder: Path, as_json: bool) -> None:
    """Say how far a run is: going, stopped or done, what it used, and what to type next. Only looks; never disturbs a run that is going.

    \b
    --json: {run, state: going|stopped|done|"not begun"|"not done", working: true|false|null, protocol, dataset, agent, endpoint,
      attempts: {planned, done, resolved, infra, under_way, left},
      streams: [{arm, kind, stream, planned, done, resolved, infra, under_way, left}],
      infra: [{arm, stream, issue, tries, reason}],
      banks: [{bank, kind: frozen|growing|given, lessons, graded, teachable, learned, frozen, version, items,
               missing: [[arm, stream, issue]], waves_left, place}],
      usage: {ROLE: {calls, input_tokens, output_tokens, cost}}, wasted: {tries, calls, input_tokens, output_tokens, cost},
      seconds, sessions, last_event, budget_left, problems: [text], next: [command]}
    `planned` is the sum of done, infra, under_way (begun; cut off where no process is at work) and left. ROLE is agent, judge, extract
    or all. `wasted` is what tries used that a kill or the machine ended; it is in `usage` too. `working` is null where it cannot be told.
    Exit code 0 whatever the state.
    """
    from harness.status import run_status, status_text

    _show(found := run_status(folder), as_json, "" if as_json else status_text(found))


@run.command(epilog="Example: swe-memory run explain runs/first reasoningbank/1-1/web-417")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("attempt")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def explain(folder: Path, attempt: str, as_json: bool) -> None:
    """Explain one attempt: its issue, what it was given and where that was learned, what it did, its grade and verdict, what was learned from it.

    ATTEMPT is ARM/STREAM/ISSUE, or a part of it that fits no other attempt; the arm may be written as its folder is.

    \b
    --json: {run, attempt, arm, kind, stream, state, issue: {id, repository, created_at, title, text, source},
      given: {bank, bank_version, control, item, recalled, score, learned_from, verdict_source, reasons: [text], settings, characters,
              items: [{id, title, description, content, kind, polarity, reach, repository, learned_from, attempt, outcome,
                       verdict_source, extractor, model}], prompt} or null,
      work: {exit_status, calls, actions, cost, seconds, limit, notes: [text],
             usage: {ROLE: {calls, input_tokens, output_tokens, cost}}, wasted: {tries, calls, ...},
             tries: [{began, ended, reason, usage}], infra_failures: [text]},
      patch: {file, sha256, characters, changed: [{path, added, removed, created, deleted}]} or null,
      grade: {resolved, outcome, flags, reason} or null, verdict: {outcome, source, reason, confidence, model} or null,
      learned: [{bank, status, why, bank_version, quarantined, rejected,
                 items: [{id, title, reach, polarity, given_to: [{attempt, control, resolved}]}]}],
      files: [{what, path, there}], problems: [text]}
    `work.usage` is over all tries. Exit code 1 where a file of the attempt is gone or damaged; the rest is told all the same.
    """
    from harness.explain import explain_attempt
    from harness.explain_text import explain_text

    found, whole = explain_attempt(folder, attempt)
    _show(found, as_json, "" if as_json else explain_text(found))
    _stop(0 if whole else 1)


@run.command(
    epilog="Example: swe-memory run relearn runs/first --bank again.lance --verdict llm --extractor llm --model claude-haiku-5-5 --max-cost 5"
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--bank", required=True, metavar="PATH|URI", help="The new bank: outside the run folder; one that holds other things is refused."
)
@click.option("--arm", "arms", multiple=True, help="Learn from the attempts of this arm; once for each. Default: none, the baseline.")
@click.option(
    "--verdict",
    type=click.Choice(["rules", "llm", "tests"]),
    help="Who judges: rules, llm, or tests (the recorded outcomes of the hidden tests: an oracle). Default: as in the run.",
)
@click.option("--extractor", type=click.Choice(["rules", "llm"]), help="How items are distilled. Default: as in the run.")
@click.option("--model", help="The Claude model for llm. Default: the run's.")
@click.option(
    "--max-cost", type=click.FloatRange(min=0), metavar="USD", help="Stop asking the model at this cost; the same command goes on."
)
@click.option("--dataset", help="The dataset of the run, where it is a file; it must have the same content.")
@click.option("--repositories", type=click.Path(path_type=Path), help="As for run; not needed to learn.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def relearn(folder: Path, bank: str, as_json: bool, **options: Any) -> None:
    """Judge and distil the stored attempts of a run again, into a new bank. No agent runs, and the run folder stays as it is.

    Attempts are taken stream after stream, in the run's first order; those that are not graded or failed through the machine are left out. Learning
    is idempotent: the same command goes on where it was stopped. Controls are learned from only where they are named, gold never.

    \b
    --json: {run, bank, bank_version, session, arms: [ARM], verdict: {source, label}, extractor, model, attempts,
      learned, already, superseded, nothing, items: {added, quarantined, rejected, by_polarity, by_reach},
      verdicts: {resolved, unresolved, unknown}, against_tests: {right, wrong, unknown},
      left_out: {infra: [ATTEMPT], not_graded}, failures: [{attempt, reason}], stopped,
      usage: {calls, input_tokens, output_tokens, cost}, warnings: [text]}
    Exit code 1 where an attempt could not be read, judged or learned, or the budget was reached; the others were learned.
    """
    from harness.relearn import relearn as learn_again
    from harness.relearn import relearn_text

    code, found = learn_again(folder, bank, quiet=as_json, **options)
    _show(found, as_json, "" if as_json else relearn_text(found))
    _stop(code)


def _show(found: dict[str, Any], as_json: bool, text: str) -> None:
    """Print one JSON object, or text."""
    import json

    click.echo(json.dumps(found, indent=2, ensure_ascii=False, allow_nan=False) if as_json else text)


@click.command(
    epilog="Examples: swe-memory compare runs/first; swe-memory compare runs/first runs/second; swe-memory compare theirs ours --json"
)
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("other", type=click.Path(path_type=Path), required=False)
@click.option("--allow-differences", is_flag=True, help="Compare two runs with unequal limits, versions, prompts, ...; they are listed.")
@click.option("--dataset", help="The dataset, where it is not the bundled one: tells which issue texts name the file to be changed.")
@click.option("--all-trajectories", is_flag=True, help="Read all stored trajectories to see what agents took up, and not only a sample.")
@click.option("--items", type=click.IntRange(0), default=5, show_default=True, help="How many of the most used items to list.")
@click.option("--issues/--no-issues", default=None, help="A line for each issue. Default: for up to 30 issues.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def compare(
    folder: Path,
    other: Path | None,
    allow_differences: bool,
    dataset: str | None,
    all_trajectories: bool,
    items: int,
    issues: bool | None,
    as_json: bool,
) -> None:
    """Compare the arms of a run folder, or two folders: resolve rates, steps, costs, what memory did, and what speaks against believing it.

    One FOLDER is a run, which may still be going. With OTHER, either is a run, one of its arms (RUN/ARM) or streams (RUN/ARM/STREAM), or a folder of
    others: official reports (report.json of each instance, or results.json of all), predictions and trajectories as the leaderboard takes them. Differences
    are OTHER minus FOLDER, on the issues that both have. Two runs that were not made alike are refused.

    \b
    --json: {kind, run, sources, differences, dataset, agent, protocol, builds, orders, reruns, call_limit, issues_planned,
      endpoint, settings, verdict, complete, seconds, headline: {sentence, caveats, arm, baseline, earned},
      claims: [{arm, earned, sentence, over_none, over_derangement}], threats: [{id, weight, sentence, about}],
      noise: {floor, known, sentence}, uptake: {looked, with_item, taken_up, share, by_chance, rule, why, arms},
      arms: [{arm, kind, streams, planned, graded, resolved, rate, low, high, interval, estimate, mean_calls, mean_actions,
              calls_unknown, limit_hits, infra, missing, given, exit_statuses, flags, judge, noise, measures, per_resolved,
              curve, memory_usage, pass_at_k, best_of_n}],
      comparisons: [{id, arm, baseline, role, issues, unit, units, estimand, null, level, both, only_arm, only_baseline,
                     neither, rates, discordant, difference, low, high, interval, p, test, p_exact, p_adjusted, why, notes,
                     sentence, estimates, check, no_effect, streams, between, baseline_error, sensitivity, noise, bounds,
                     calls_difference, steps, by_outcome, per_resolved, curve, flips, recall_gain, learning}],
      environment: [{checked, resolved, failing: [{issue, outcome}]}], infra: [{arm, stream, issue, tries, reason}],
      issues: [{issue, repository, arms: {ARM: [{stream, state, resolved, calls, ...}]}}],
      items: [{id, title, learned_from, uses, resolved, flips_for, flips_against, effect, ..., attempts}],
      usage: {ROLE: {calls, input_tokens, output_tokens, cost}}, sentences: [text], problems: [text]}
    Rates are fractions; intervals are at 95 % and stand beside what they estimate; what cannot be computed is null. All parts are
    described by `python -m pydoc harness.analysis`. Exit code 0 whatever the effect.
    """
    from harness.analysis.reading import BYTES
    from harness.compare import compare_run, compare_two
    from harness.compare_text import render

    if other is None:
        result = compare_run(folder, dataset=dataset, most_bytes=None if all_trajectories else BYTES)
    else:
        result = compare_two(folder, other, allow_differences=allow_differences, dataset=dataset)
    _show(result, as_json, "" if as_json else render(result, items=items, issues=issues, folder=folder))


@click.command(epilog="Example: swe-memory plan --issues 500 --baseline 0.54 --effect 0.034 --discordance 0.14")
@click.option("--issues", type=click.IntRange(1, 50_000), help="How many issues.")
@click.option("--baseline", type=float, metavar="SHARE", help="The share of the issues that the baseline resolves.")
@click.option(
    "--effect", type=float, metavar="SHARE", help="What memory adds to it, as a share: 0.034 is 3.4 points. The smallest that would matter."
)
@click.option("--discordance", type=float, metavar="SHARE", help="The share of the issues on which one run of each arm differ.")
@click.option(
    "--floor", type=float, metavar="SHARE", help="The share on which two runs of the baseline differ. Default: as much as --discordance."
)
@click.option(
    "--shock",
    type=float,
    metavar="POINTS",
    help="By how many points builds of a bank differ, as a standard deviation. Default: 1, a guess.",
)
@click.option(
    "--power", "powers", type=click.FloatRange(0.1, 0.999), multiple=True, help="The power wanted; several times. Default: 0.8 and 0.9."
)
@click.option("--builds", type=click.IntRange(1, 50), default=1, show_default=True, help="Builds of the bank, as for run.")
@click.option("--reruns", type=click.IntRange(1, 50), default=1, show_default=True, help="Reruns, as for run.")
@click.option("--baseline-reruns", type=click.IntRange(1, 50), help="Reruns of the baseline, if more than of the others.")
@click.option(
    "--from",
    "from_run",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="A run folder that tells what is not given: issues, baseline, discordance, noise floor, spread between builds, cost and hours.",
)
@click.option("--workers", type=click.IntRange(1, 10_000), default=2, show_default=True, help="Attempts side by side, for the hours.")
@click.option("--seed", type=click.IntRange(0, 2**32 - 1), default=0, show_default=True, help="For what is simulated.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead; its shape is below.")
def plan(as_json: bool, **options: Any) -> None:
    """Say what an experiment could show before it is paid for: power, issues, builds and reruns needed, the smallest effect that it can see.

    Exact for one frozen bank with one run of each arm; designs with several runs are simulated, and their power has a standard error.

    \b
    --json: {asked: {issues, baseline, effect, discordance, floor, shock, builds, reruns, baseline_reruns, powers, alpha, seed},
      bounds: {effect: [low, high], discordance: [low, high]},
      power: {power, error, method} or null, power_over_builds: the same or null,
      net_wins, discordant_pairs, most_discordant, issues_needed: [{power, issues, why}],
      smallest_effect: [{power, effect, method, why}],
      designs: [{unit: issue|build, builds, reruns, baseline_reruns, power, error, method, attempts, lessons, cost, hours}],
      expected: {attempts, lessons, cost, hours}, workers, notes: [text], sentences: [text],
      from: {run, arm, issues, baseline, effect, discordance, floor: {value, low, high, issues} each, shock} or null}
    Shares are fractions, shock is in points, cost in US dollars; what is not known is null.
    """
    from harness.power_command import plan_command
    from harness.power_text import plan_text

    found = plan_command(**options)
    _show(found, as_json, "" if as_json else plan_text(found))


@click.command(epilog="Example: swe-memory report runs/first")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="The HTML file. Default: report.html in the run folder.")
@click.option("--markdown/--no-markdown", default=True, show_default=True, help="Write report.md beside it.")
@click.option("--csv/--no-csv", default=True, show_default=True, help="Write attempts.csv beside it.")
@click.option("--dataset", help="The dataset, where it is not the bundled one: tells which issue texts name the file to be changed.")
def report(folder: Path, out: Path | None, markdown: bool, csv: bool, dataset: str | None) -> None:
    """Write the report of a run: one HTML file that needs nothing else, no network either, with Markdown and CSV beside it.

    It has the answer with its interval and what speaks against believing it, tables that can be sorted and filtered, figures, what memory gave to each
    attempt with links to the trajectories, the methods, and a table in LaTeX. Works on a run that is still going. A file that is
    no report is never written over.
    """
    from harness.report.command import report_command

    click.echo(report_command(folder, out, with_markdown=markdown, with_csv=csv, dataset=dataset))


@click.command(epilog="Example: swe-memory demo")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-run"),
    show_default=True,
    help="The run folder; a demo that was stopped goes on.",
)
@click.option("--workers", type=int, default=2, show_default=True, help="Attempts side by side.")
@click.option("--slice", metavar="A:B", help="Of the 24 issues, only these places: 0:6 takes a quarter of the time.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON object: the shape of `swe-memory compare --json`.")
def demo(out: Path, workers: int, slice: str | None, as_json: bool) -> None:
    """See an agent fix real bugs in real git repositories, without and with memory. No key, no container, no network.

    Runs the bundled bench by crossfit with the arms `none`, `reasoningbank` and the placebo `derangement`, shows the comparison and the most used items, and
    says what to type next. Whatever comes out is printed.
    """
    from harness.demo import demo_command

    code, shown = demo_command(out, workers=workers, slice=slice, as_json=as_json)
    click.echo(shown)
    _stop(code)
