"""How the numbers of a report came about: a paragraph for a paper, the settings, the prompts, and the sources of every method that was used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.material import Material
from harness.report.words import count, shown

SOURCES: Sequence[tuple[str, str]] = (
    (
        "Tango",
        "Tango, Equivalence test and confidence interval for the difference in proportions for the paired-sample design. "
        "Statistics in Medicine 17:891 (1998).",
    ),
    (
        "McNemar mid-p",
        "Fagerland, Lydersen, Laake, The McNemar test for binary matched-pairs data: mid-p and asymptotic are better than exact "
        "conditional. BMC Medical Research Methodology 13:91 (2013).",
    ),
    (
        "Newcombe",
        "Newcombe, Improved confidence intervals for the difference between binomial proportions based on paired data. "
        "Statistics in Medicine 17:2635 (1998).",
    ),
    (
        "effective number",
        "Rao and Scott, A simple method for the analysis of clustered binary data. Biometrics 48:577 (1992).",
    ),
    ("Wilson", "Wilson, Probable inference, the law of succession, and statistical inference. JASA 22:209 (1927)."),
    ("Cochran", "Cochran and Cox, Experimental Designs, 2nd edition, section 4.14 (1957)."),
    (
        "exact conditional",
        "Mantel and Haenszel, Statistical aspects of the analysis of data from retrospective studies of disease. JNCI 22:719 (1959).",
    ),
    ("BCa", "Efron and Tibshirani, An Introduction to the Bootstrap, chapter 14 (1993)."),
    (
        "expanded percentile",
        "Hesterberg, What Teachers Should Know About the Bootstrap. The American Statistician 69:371 (2015).",
    ),
    ("Dirichlet", "Gelman et al., Bayesian Data Analysis, 3rd edition, section 3.4 (2013)."),
    (
        "Holm",
        "Holm, A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6:65 (1979).",
    ),
    ("Manski", "Manski, Nonparametric bounds on treatment effects. American Economic Review 80:319 (1990)."),
    (
        "restricted mean",
        "Royston and Parmar, Restricted mean survival time. BMC Medical Research Methodology 13:152 (2013).",
    ),
    ("pass@k", "Chen et al., Evaluating Large Language Models Trained on Code. arXiv 2107.03374 (2021)."),
    (
        "intersection-union",
        "Berger, Multiparameter hypothesis testing and acceptance sampling. Technometrics 24:295 (1982).",
    ),
    (
        "reasoningbank",
        "Ouyang et al., ReasoningBank: Scaling Agent Self-Evolving with Reasoning Memory. arXiv 2509.25140 (2025).",
    ),
)
"""A word that names a method, and where it is from."""

PROTOCOLS = {
    "crossfit": "The issues were split at random into two halves, within each repository; the baseline's attempts at one half filled a bank, which was frozen "
    "and recalled from at the other half, and the other way round",
    "online": "Each arm with memory worked along a stream of issues and learned from its own attempts as it went",
    "offline": "A given bank was copied, frozen and recalled from",
}


@dataclass(frozen=True, slots=True)
class PromptText:
    """A prompt of the run; ``text`` is "" where the installed version is another one than the run's."""

    name: str
    version: int
    text: str


def methods_used(result: Mapping[str, Any]) -> list[str]:
    """The words of :data:`SOURCES` that fit what this run's numbers were made with."""
    parts = {name: result[name] for name in ("arms", "comparisons", "items", "noise", "uptake")}
    named = " | ".join(sorted(set(_methods(parts))))
    found = [word for word, _ in SOURCES if word.lower() in named.lower()]
    if any(found_["p_adjusted"] is not None for found_ in result["comparisons"]):
        found.append("Holm")
    if any(sum(part["bounds"]["missing"].values()) for part in result["comparisons"]):
        found.append("Manski")
    if any(part["steps"] for part in result["comparisons"]) and result["call_limit"]:
        found.append("restricted mean")
    if any(arm["pass_at_k"] for arm in result["arms"]):
        found.append("pass@k")
    if result["claims"]:
        found.append("intersection-union")
    if any(arm["arm"].startswith("reasoningbank") for arm in result["arms"]):
        found.append("reasoningbank")
    return [word for word, _ in SOURCES if word in found]


def _methods(value: Any) -> Iterator[str]:
    """Every ``method``, ``interval`` and ``test`` that stands beside a number that could be computed."""
    if isinstance(value, Mapping):
        if isinstance(value.get("method"), str) and (value.get("value") is not None or value.get("p") is not None):
            yield value["method"]
        if isinstance(value.get("interval"), str):
            yield value["interval"]
        for part in value.values():
            yield from _methods(part)
    elif isinstance(value, list):
        for part in value:
            yield from _methods(part)


def references(result: Mapping[str, Any]) -> list[str]:
    """Where the methods are from that this run's numbers were made with."""
    used = methods_used(result)
    return [source for word, source in SOURCES if word in used]


def paragraph(material: Material) -> str:
    """The methods section of a paper, from what the folder says. What is not known is left out or said to be unknown."""
    result, e = material.result, material.experiment
    settings = result["settings"]
    arms = " and ".join(
        [", ".join(f"`{arm['arm']}`" for arm in result["arms"][:-1])] * (len(result["arms"]) > 1) + [f"`{result['arms'][-1]['arm']}`"]
    )
    revision = f", revision {e.dataset_revision}" if e.dataset_revision else ""
    issues = f"{count(result['issues_planned'], 'issue', 'issues')} of {e.dataset} (content hash {e.dataset_hash[:12]}{revision})"
    runs = [
        count(e.builds, "build of the banks", "builds of the banks") if e.protocol == "crossfit" else "",
        f"{count(len(e.orders), 'order', 'orders')} of the issues" if e.protocol == "online" else "",
        count(e.reruns, "run", "runs") + " of each attempt",
        f"{e.baseline_reruns} runs of the baseline" if e.baseline_reruns > e.reruns else "",
    ]
    limits = [count(e.call_limit, "call (model turn)", "calls (model turns)")]
    limits += [f"{e.attempt_seconds:g} {'second' if e.attempt_seconds == 1 else 'seconds'}"] if e.attempt_seconds else []
    limits += [f"{e.attempt_tokens:,} {'token' if e.attempt_tokens == 1 else 'tokens'}"] if e.attempt_tokens else []
    limits += [f"${e.attempt_cost:g}"] if e.attempt_cost else []
    said = [
        f"We ran the agent {e.agent} on {issues} in the arms {arms}.",
        f"{PROTOCOLS[e.protocol]} ({', '.join(part for part in runs if part)}; seed {e.seed}).",
        f"An attempt could use {', '.join(limits)}.",
    ]
    if any(arm["kind"] == "memory" for arm in result["arms"]):
        said.append(f"Memory: {result['verdict']['label']}; items distilled by {e.extractor}; embedder {e.embedder}.")
        if settings.get("before"):
            said.append("Only what was learned from issues created before the one at hand was recalled.")
    if e.endpoint and not e.endpoint.startswith("none"):
        said.append(f"The primary endpoint, written down before the first attempt, was the {e.endpoint}.")
    said += _statistics(result)
    lost = len(result["infra"])
    if lost:
        verb = "is" if lost == 1 else "are"
        said.append(
            f"{count(lost, 'attempt', 'attempts')} failed through the machine and {verb} in no rate; bounds that assume nothing about them are given."
        )
    if not result["complete"]:
        said.append("The run was not complete when this was written.")
    said.append(f"Computed with swe-memory {material.version}.")
    return " ".join(said)


def _statistics(result: Mapping[str, Any]) -> list[str]:
    said = []
    for found in result["comparisons"][:1]:
        for named in found["estimates"]:
            estimate, test = named["estimate"], named["test"]
            if estimate["value"] is not None:
                level = f"{100 * estimate['level']:.0f} %"
                tested = f", tested by {test['method']}" if test["p"] is not None else ""
                said.append(
                    f"The {estimate['estimand']} (unit: {estimate['unit']}) has a {level} interval by {estimate['method']}{tested}."
                )
    if any(found["p_adjusted"] is not None for found in result["comparisons"]):
        said.append("p values of the secondary comparisons are adjusted by Holm's method.")
    if result["noise"]["known"]:
        said.append(result["noise"]["sentence"])
    if any(found["steps"] for found in result["comparisons"]):
        said.append(
            "Calls, tokens and costs are compared over all issues whatever their outcome, calls restricted to the limit, memory's own calls included."
        )
    return said


def settings_rows(material: Material) -> list[tuple[str, str]]:
    """What decided the run, as frozen before the first attempt."""
    e = material.experiment
    given = e.to_json()
    left_out = {"instances", "repositories", "dates", "sequences", "folds", "versions", "prompts", "arms", "format"}
    rows = [("arms", shown(e.arms))]
    rows += [(name.replace("_", " "), _setting(given[name])) for name in given if name not in left_out]
    known = sorted(date[:10] for date in e.dates if date)
    rows.append(("issues", str(len(e.instances))))
    rows.append(("repositories", ", ".join(f"{name} ({number})" for name, number in _sizes(e.repositories))))
    if known:
        rows.append(
            ("created", f"{known[0]} to {known[-1]}" + (f", {len(e.dates) - len(known)} not known" if len(known) < len(e.dates) else ""))
        )
    return rows


def _setting(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_setting(part)}" for name, part in value.items()) or shown(None)
    return shown(value)


def _sizes(repositories: Sequence[str]) -> list[tuple[str, int]]:
    sizes: dict[str, int] = {}
    for name in repositories:
        sizes[name] = sizes.get(name, 0) + 1
    return sorted(sizes.items(), key=lambda part: (-part[1], part[0]))


def prompts(material: Material) -> list[PromptText]:
    """The prompts that the run names, with their texts where the installed ones are of the same version."""
    from prompts import PromptError, load

    found = []
    for name, version in sorted(material.experiment.prompts.items()):
        try:
            prompt = load(name)
        except PromptError:
            found.append(PromptText(name, version, ""))
            continue
        text = "\n\n".join(part for part in (prompt.system, prompt.user) if part) if prompt.version == version else ""
        found.append(PromptText(name, version, text))
    return found
