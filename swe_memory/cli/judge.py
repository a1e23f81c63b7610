"""``swe-memory judge``: how good is a judge, measured against the official tests."""

from __future__ import annotations

from pathlib import Path

import click

from swe_memory.cli import options


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--judge",
    "judge_name",
    type=click.Choice(["rules", "llm"]),
    default="rules",
    show_default=True,
    help="Who judges; llm needs ANTHROPIC_API_KEY.",
)
@click.option("--against", type=click.Choice(["tests"]), default=None, help="Compare with the official test reports in FOLDER.")
@click.option(
    "--issues", type=click.Path(path_type=Path), default=None, metavar="FILE", help="Issue texts as SWE-bench rows (JSON or JSONL)."
)
@options.model_options
@options.json_option
def judge(
    folder: Path, judge_name: str, against: str | None, issues: Path | None, model: str, max_cost: float | None, as_json: bool
) -> None:
    """Judge every attempt in FOLDER and, with --against tests, say how far the judge can be trusted.

    Balanced accuracy is the mean of the shares of passes and of failures that were recognised (always answering "resolved" scores 0.5); AUROC is the
    chance that a pass gets a higher confidence than a failure.

    \b
    Example: swe-memory judge runs/mine --judge rules --against tests
    JSON: {judge, attempts: [{issue_id, outcome, confidence, reason, truth}], problems: [{where, what}], agreement: {...} or null}
    """
    from swe_memory.errors import SweMemoryError, UsageError
    from swe_memory.judge.agreement import agreement
    from swe_memory.progress import Progress
    from swe_memory.sources import read_attempt, scan

    judge = options.make_judge(judge_name, model, max_cost)
    found = scan(folder, issues=issues)
    problems = options.scan_problems(found)
    rows: list[dict[str, object]] = []
    pairs = []
    with Progress("judging", len(found.attempts), quiet=as_json) as progress:
        for file in found.attempts:
            try:
                attempt = read_attempt(file)
                verdict = judge.judge(attempt.issue, attempt.trajectory)
            except SweMemoryError as error:
                problems.append({"where": str(file.trajectory), "what": str(error)})
                progress.advance()
                continue
            truth = attempt.verdict.outcome if attempt.verdict.source == "tests" else "unknown"
            rows.append(
                {
                    "issue_id": attempt.issue.id,
                    "outcome": verdict.outcome,
                    "confidence": verdict.confidence,
                    "reason": verdict.reason,
                    "truth": truth,
                }
            )
            if truth != "unknown":
                pairs.append((truth == "resolved", verdict))
            progress.advance(note=attempt.issue.id)
    if against and not pairs:
        raise UsageError(
            f"{folder} has no test report for any attempt, so there is nothing to compare with",
            "put the official report.json files in it, or leave --against out",
        )
    result = agreement(pairs) if against else None
    if as_json:
        options.print_json({"judge": judge.name, "attempts": rows, "problems": problems, "agreement": result})
    else:
        if result is None:
            click.echo(
                options.table(
                    ("issue", "outcome", "confidence", "reason"),
                    [(row["issue_id"], row["outcome"], _share(row["confidence"]), options.shorten(str(row["reason"]), 90)) for row in rows],
                )
            )
        else:
            click.echo(result.summary())
            if judge_name == "rules":
                click.echo(
                    "The shipped rules judge was fitted on 90 public attempts (mini-SWE-agent 1.15 on SWE-bench Verified): on those it looks better than it is."
                )
        for problem in problems:
            click.echo(f"problem: {problem['where']}: {problem['what']}", err=True)
    if problems:
        raise click.exceptions.Exit(1)


def _share(value: object) -> str:
    return f"{value:.2f}" if isinstance(value, float) else "-"
