"""Several comparisons together: Holm over the secondary ones, which words the results have earned, and the sentence that stands first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.analysis.words import count, interval, p_text, percent, points
from harness.statistics.estimates import Estimate, Test
from harness.statistics.multiple import holm, memory_helps

ALPHA = 0.05
PATH = "along this path"
Found = Mapping[str, Any]


def adjusted(comparisons: Sequence[Found]) -> list[tuple[float | None, float | None]]:
    """For each comparison its p value by Holm: that of the resolve rate over the secondary comparisons (None for the primary one, which was written down
    before the run), and that of the calls over all comparisons."""
    secondary = [found for found in comparisons if found["role"] != "primary"]
    rates = iter(holm([found["p"] for found in secondary]))
    calls = iter(holm([found["steps"]["calls"]["test"]["p"] for found in comparisons]))
    return [(None if found["role"] == "primary" else next(rates), next(calls)) for found in comparisons]


def claims(comparisons: Sequence[Found], arms: Sequence[Found], left: int) -> list[dict[str, Any]]:
    """``claims`` of a RESULT, one for each arm with memory. ``left``: attempts that were not made yet; while there are any nothing is claimed, because
    looking again and again until p is small finds something in any data."""
    return [_claim(arm["arm"], comparisons, left) for arm in arms if arm["kind"] == "memory"]


def _claim(arm: str, comparisons: Sequence[Found], left: int) -> dict[str, Any]:
    over_none = _with(comparisons, arm, ("none",))
    over_others = _with(comparisons, arm, ("derangement", f"derangement/{arm}"))
    parts = [_values(found, _primary(comparisons) == arm) if found else None for found in (over_none, over_others)]
    path = over_none is not None and over_none["estimates"][0]["name"] == PATH
    earned = memory_helps(parts[0], parts[1], ALPHA).earned and not left and not path
    words = [_word(found, part) for found, part in zip((over_none, over_others), parts, strict=True)]
    names = ("no memory", f"the items of other issues (`{over_others['baseline'] if over_others else 'derangement'}`)")
    if earned:
        said = f"Memory helps: `{arm}` is above {names[0]}{_size(over_none, parts[0])} and above {names[1]}{_size(over_others, parts[1])}."
    else:
        said = " ".join(
            _part(arm, name, word, found, part)
            for name, word, found, part in zip(names, words, (over_none, over_others), parts, strict=True)
        )
        if words[0] == "above" and words[1] != "above":
            said += " So it is not shown that what memory says helps, and not only that something is said."
        if left:
            said = f"Nothing is claimed while {count(left, 'attempt is', 'attempts are')} still to be made. So far: {said}"
    return {"arm": arm, "earned": earned, "sentence": said, "over_none": words[0], "over_derangement": words[1]}


def _with(comparisons: Sequence[Found], arm: str, baselines: Sequence[str]) -> Found | None:
    return next((found for found in comparisons if found["arm"] == arm and found["baseline"] in baselines), None)


def _primary(comparisons: Sequence[Found]) -> str:
    return next((str(found["arm"]) for found in comparisons if found["role"] == "primary"), "")


def _values(found: Found, primary: bool) -> tuple[Estimate, Test]:
    """The estimate of a comparison with its test. The arm of the primary endpoint is tested at the level itself: both of its comparisons must hold. Of other
    arms p is Holm's."""
    estimate, test = Estimate(**found["estimates"][0]["estimate"]), Test(**found["estimates"][0]["test"])
    if primary or found["p_adjusted"] is None:
        return estimate, test
    return estimate, Test(found["p_adjusted"], test.null, f"{test.method}, by Holm", test.why)


def _word(found: Found | None, part: tuple[Estimate, Test] | None) -> str:
    if found is None or part is None:
        return "not compared"
    estimate, test = part
    if estimate.value is None or test.p is None:
        return "nothing to test"
    if test.p >= ALPHA or not estimate.value:
        return "not shown"
    word = "above" if estimate.value > 0 else "below"
    return f"{word} on this path" if found["estimates"][0]["name"] == PATH else word


def _size(found: Found | None, part: tuple[Estimate, Test] | None) -> str:
    if found is None or part is None or part[0].value is None:
        return ""
    p = f", {p_text(part[1].p)}" if part[1].p is not None else ""
    holms = " by Holm" if part[1].method.endswith("by Holm") else ""
    return f" ({points(part[0].value)} points{p}{holms})"


def _part(arm: str, name: str, word: str, found: Found | None, part: tuple[Estimate, Test] | None) -> str:
    if word == "not compared":
        return f"`{arm}` was not compared with {name}."
    if word == "nothing to test":
        assert found is not None
        why = (
            "no issue was graded in both"
            if not found["issues"]
            else "no attempt ended in another way"
            if not found["difference"]
            else found["why"]
        )
        return f"Nothing to test against {name}: {why.rstrip('.')}."
    size = _size(found, part)
    if word == "not shown":
        return f"Not shown: that `{arm}` differs from {name}{size}."
    if word.endswith("on this path"):
        side = word.split(" ", maxsplit=1)[0]
        return f"Shown: along this one path memory changed what was resolved; `{arm}` ended {side} {name}{size}, which is not what it does on average."
    return f"Shown: `{arm}` is {word} {name}{size}."


def headline(comparisons: Sequence[Found], said: Sequence[Found], threats: Sequence[Found], left: int, kind: str) -> dict[str, Any]:
    """``headline`` of a RESULT. ``said``: its claims."""
    first = next((found for found in comparisons if found["role"] == "primary"), comparisons[0] if comparisons else None)
    caveats = [threat["sentence"] for threat in threats if threat["weight"] == "serious"]
    if first is None:
        nothing = (
            "The two folders have no arm that could be compared."
            if kind == "folders"
            else "This run has no pair of an arm with memory and `none`, so it says nothing about what memory changes."
        )
        return {"sentence": nothing, "caveats": caveats, "arm": None, "baseline": None, "earned": False}
    claim = next((one for one in said if one["arm"] == first["arm"] and first["role"] == "primary"), None)
    sentence = f"{_head(first, claim, left)}: {_tail(first)}"
    return {
        "sentence": sentence,
        "caveats": caveats,
        "arm": first["arm"],
        "baseline": first["baseline"],
        "earned": bool(claim and claim["earned"]),
    }


def _head(first: Found, claim: Found | None, left: int) -> str:
    if not first["issues"]:
        return "Nothing to compare"
    if left:
        return "Not complete, so nothing is claimed yet"
    if claim is None:
        return "Shown to differ" if first["p"] is not None and first["p"] < ALPHA else "Not shown to differ"
    if claim["earned"]:
        return "Memory helps"
    word, other = claim["over_none"], claim["over_derangement"]
    if word == "above":
        if other == "not compared":
            return "More is resolved with memory than without; whether for what it says was not tested (no derangement)"
        return "More is resolved with memory than without, but not shown to be for what it says"
    if word.endswith("on this path"):
        return "Memory changed what was resolved along this one path; what it does on average is not known"
    if word == "below":
        return "Less is resolved with memory than without"
    return "No difference to test" if word == "nothing to test" else "No effect of memory on the resolve rate is shown"


def _tail(first: Found) -> str:
    arm, baseline = first["arm"], first["baseline"]
    if not first["issues"] or first["difference"] is None:
        return str(first["why"])
    rates = first["rates"]
    within = interval(first["low"], first["high"])
    p = f"; {p_text(first['p'])}" if first["p"] is not None else ""
    return (
        f"`{arm}` resolved {percent(rates['arm'])} and `{baseline}` {percent(rates['baseline'])} of {count(first['issues'], 'issue', 'issues')}, "
        f"{points(first['difference'])} points{f' ({within})' if within else ''}{p}."
    )
