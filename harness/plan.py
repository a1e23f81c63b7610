"""What decides an experiment, frozen into ``experiment.json`` before the first attempt. Pure.

What follows from it (which attempts there are, which banks, who waits for whom) is worked out in :mod:`harness.layout`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from harness.arms import Arm, parse_arms
from harness.checks import LARGEST, Check, is_count, is_number, is_text, is_texts, one_of, or_none
from harness.metering import Limits
from swe_memory.errors import UsageError
from swe_memory.records import Issue

PROTOCOLS = ("crossfit", "online", "offline")
ORDERS = ("date", "given", "shuffled")
VERDICTS = ("rules", "llm", "tests")
FORMAT = 2
MOST = 1000
"""Builds, orders or reruns at most: a number that was mistyped must not fill the memory with attempts."""

Protocol = Literal["crossfit", "online", "offline"]
VerdictChoice = Literal["rules", "llm", "tests"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that decides what a run computes, and nothing else: no worker count, no budget of the run, no times, no paths.

    ``instances``, ``repositories`` and ``dates`` go together, one entry an issue ("" for an unknown date). ``orders`` are specs (``date``, ``given``,
    ``shuffled:SEED``) and ``sequences`` what they came to: places in ``instances``. ``folds`` has one string of ``a`` and ``b`` for each build, a letter an
    issue. ``verdict`` is what memory learns from: ``rules`` or ``llm`` (a judge that sees what the agent saw) or ``tests`` (the hidden tests: an oracle,
    labelled so in the results). ``bank`` describes the given bank of the protocol *offline*. ``network``, ``cpus`` and ``memory_gb`` are a container's, for
    ``environment`` docker.
    """

    dataset: str
    dataset_hash: str
    instances: tuple[str, ...]
    repositories: tuple[str, ...]
    dates: tuple[str, ...]
    agent: str
    arms: tuple[str, ...]
    dataset_revision: str = ""
    dataset_split: str = ""
    protocol: Protocol = "crossfit"
    builds: int = 1
    wave: int = 1
    orders: tuple[str, ...] = ("date",)
    sequences: tuple[tuple[int, ...], ...] = ()
    folds: tuple[str, ...] = ()
    reruns: int = 1
    baseline_reruns: int = 1
    bank: Mapping[str, Any] = field(default_factory=dict)
    verdict: VerdictChoice = "rules"
    extractor: str = "rules@1"
    model: str = ""
    recall: Literal["default", "paper"] = "default"
    before: bool = False
    environment: Literal["local", "docker"] = "local"
    network: str = "none"
    cpus: float = 2.0
    memory_gb: float = 8.0
    call_limit: int = 60
    command_seconds: float = 120.0
    attempt_seconds: float | None = None
    attempt_tokens: int | None = None
    attempt_cost: float | None = None
    test_seconds: float = 300.0
    seed: int = 0
    endpoint: str = ""
    embedder: str = "none"
    versions: Mapping[str, str] = field(default_factory=dict)
    prompts: Mapping[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def conditions(self) -> tuple[Arm, ...]:
        """The arms, parsed."""
        return parse_arms(self.arms)

    def limits(self) -> Limits:
        """What one attempt may use."""
        return Limits(self.call_limit, self.command_seconds, self.attempt_seconds, self.attempt_tokens, self.attempt_cost)

    def sequence(self, number: int = 1) -> tuple[str, ...]:
        """Issue ids in the order of that number (from 1)."""
        return tuple(self.instances[place] for place in self.sequences[number - 1])

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the shape of ``experiment.json``."""
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_json(cls, value: Any, where: str) -> Experiment:
        """The experiment that :meth:`to_json` wrote. Raises UsageError for anything else; ``where`` names it in messages."""
        if not isinstance(value, dict) or not isinstance(value.get("format"), int):
            raise UsageError(f"{where} is not an experiment", "Choose another folder with --out.")
        if value["format"] != FORMAT:
            hint = "Use the version of swe-memory that wrote it, or choose another folder."
            raise UsageError(f"{where} has format {value['format']}; this version knows {FORMAT}", hint)
        hint = "Restore it from a copy, or start a new run in another folder."
        if field_and_words := wrong_setting(value):
            raise UsageError(f"{where} is damaged: `{field_and_words[0]}` is not {field_and_words[1]}", hint)
        try:
            found = cls(**{name: _tuples(part) for name, part in value.items() if name in _FIELDS})
        except TypeError as error:
            raise UsageError(f"{where} is damaged: {error}", hint) from error
        try:
            found.conditions()
            found.limits()
        except UsageError as error:
            raise UsageError(f"{where} is damaged: {error.what}", hint) from error
        if wrong := found._misfit():
            raise UsageError(f"{where} is damaged: {wrong}", hint)
        return found

    def _misfit(self) -> str:
        """What does not fit together, "" where all does."""
        issues = len(self.instances)
        if len(self.repositories) != issues or len(self.dates) != issues:
            return "`repositories` and `dates` do not go with `instances`"
        if not self.sequences or any(sorted(sequence) != list(range(issues)) for sequence in self.sequences):
            return "`sequences` are not orders of `instances`"
        if self.protocol == "crossfit" and (len(self.folds) != self.builds or any(len(fold) != issues for fold in self.folds)):
            return "`folds` do not go with `instances` and `builds`"
        return "" if len(self.orders) == len(self.sequences) else "`sequences` do not go with `orders`"

    def differences(self, other: Experiment) -> tuple[str, ...]:
        """One sentence for each setting that differs, this experiment's value first."""
        one, two = self.to_json(), other.to_json()
        found = []
        for name in one:
            if one[name] == two[name]:
                continue
            if name == "instances":
                found.append(_other_instances(one[name], two[name]))
            elif name in ("sequences", "folds", "repositories", "dates"):
                # They follow from settings that are told; alone they mean that the dataset's dates or repositories changed.
                if all(one[cause] == two[cause] for cause in ("instances", "orders", "seed", "protocol", "builds")):
                    found.append(f"{name}: not the same as in the frozen plan")
            else:
                found.append(f"{name}: {_short(one[name])} there, {_short(two[name])} asked for")
        return tuple(found)


def _other_instances(one: Sequence[str], two: Sequence[str]) -> str:
    gone, new = [i for i in one if i not in set(two)], [i for i in two if i not in set(one)]
    if not gone and not new:
        return "instances: the same, in another order"
    parts = [
        f"{len(ids)} {words} ({', '.join(ids[:3])}{', ...' if len(ids) > 3 else ''})"
        for ids, words in ((gone, "missing"), (new, "new"))
        if ids
    ]
    return f"instances: {len(one)} there, {len(two)} asked for: {' and '.join(parts)}"


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else text[:117] + "..."


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_positive_count(value: Any) -> bool:
    return is_count(value) and value > 0


def _different(value: Any) -> bool:
    return is_texts(value) and len(set(value)) == len(value)


def _counts_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(is_count(part) for part in value.values())


_TEXT: tuple[str, Check] = ("text", is_text)
_TEXTS: tuple[str, Check] = ("a list of texts", is_texts)
_SECONDS: tuple[str, Check] = (f"a number of seconds above 0 and of at most {LARGEST:,}", lambda value: is_number(value) and value > 0)
_COUNT: tuple[str, Check] = (f"a count from 1 to {LARGEST:,}", _is_positive_count)
_FEW: tuple[str, Check] = (f"a count from 1 to {MOST}", lambda value: _is_positive_count(value) and value <= MOST)
_FIELDS: Mapping[str, tuple[str, Check]] = {
    "dataset": _TEXT,
    "dataset_hash": _TEXT,
    "dataset_revision": _TEXT,
    "dataset_split": _TEXT,
    "instances": ("a list of different issue ids", _different),
    "repositories": _TEXTS,
    "dates": _TEXTS,
    "agent": _TEXT,
    "arms": ("a list of different arms", lambda value: _different(value) and len(value) > 0),
    "protocol": (f"one of {', '.join(PROTOCOLS)}", one_of(*PROTOCOLS)),
    "builds": _FEW,
    "wave": _COUNT,
    "orders": _TEXTS,
    "sequences": (
        "a list of orders",
        lambda value: isinstance(value, list | tuple) and all(isinstance(s, list | tuple) and all(map(is_count, s)) for s in value),
    ),
    "folds": ("a list of texts of a and b", lambda value: is_texts(value) and all(set(fold) <= {"a", "b"} for fold in value)),
    "reruns": _FEW,
    "baseline_reruns": _FEW,
    "bank": ("an object", lambda value: isinstance(value, dict)),
    "verdict": (f"one of {', '.join(VERDICTS)}", one_of(*VERDICTS)),
    "extractor": _TEXT,
    "model": _TEXT,
    "recall": ("one of default, paper", one_of("default", "paper")),
    "before": ("true or false", lambda value: isinstance(value, bool)),
    "environment": ("one of local, docker", one_of("local", "docker")),
    "network": _TEXT,
    "cpus": (f"a number above 0 and of at most {LARGEST:,}", lambda value: is_number(value) and value > 0),
    "memory_gb": (f"a number above 0 and of at most {LARGEST:,}", lambda value: is_number(value) and value > 0),
    "call_limit": _COUNT,
    "command_seconds": _SECONDS,
    "attempt_seconds": (f"null or a number of seconds above 0 and of at most {LARGEST:,}", or_none(_SECONDS[1])),
    "attempt_tokens": (f"null or a count from 1 to {LARGEST:,}", or_none(_is_positive_count)),
    "attempt_cost": (
        f"null or a number of dollars above 0 and of at most {LARGEST:,}",
        or_none(lambda value: is_number(value) and value > 0),
    ),
    "test_seconds": _SECONDS,
    "seed": ("a whole number", _is_whole),
    "endpoint": _TEXT,
    "embedder": _TEXT,
    "versions": ("an object of texts", lambda value: isinstance(value, dict) and is_texts(list(value.values()))),
    "prompts": ("an object of counts", _counts_by_name),
    "format": ("a count", is_count),
}
assert set(_FIELDS) == {entry.name for entry in fields(Experiment)}


def wrong_setting(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first of an experiment's fields that is there and is not what it must be: (its name, what it must be in words). None where all are right."""
    return next(((name, words) for name, (words, check) in _FIELDS.items() if name in values and not check(values[name])), None)


def read_order(text: str, seed: int) -> tuple[str, int]:
    """``date``, ``given``, ``shuffled`` or ``shuffled:SEED`` as (kind, seed). Raises UsageError."""
    kind, colon, number = text.partition(":")
    if kind not in ORDERS or (colon and (kind != "shuffled" or not re.fullmatch("-?[0-9]{1,18}", number))):
        raise UsageError(f"there is no order called {text!r}", "Known orders: given, date, shuffled:SEED (for example shuffled:1).")
    return kind, int(number) if colon else seed


def order_specs(order: str, count: int, seed: int) -> tuple[str, ...]:
    """``count`` orders: the one asked for, then shuffles of it with the seeds that follow. Raises UsageError."""
    kind, first = read_order(order, seed)
    if not 1 <= count <= MOST:
        raise UsageError(f"--orders is {count}", f"Give a number from 1 to {MOST}; each order is a stream of its own.")
    if kind == "shuffled":
        return tuple(f"shuffled:{first + number}" for number in range(count))
    return (kind, *(f"shuffled:{first + number}" for number in range(1, count)))


def ordered(issues: Sequence[Issue], order: str, seed: int = 0) -> tuple[str, ...]:
    """Issue ids in an order: ``date`` (oldest first; issues without a date last, then by id), ``given``, or ``shuffled[:SEED]``.

    Shuffling sorts by a hash of seed and id, so that it depends on neither Python's version nor the other issues.
    """
    kind, seed = read_order(order, seed)
    if kind == "given":
        return tuple(issue.id for issue in issues)
    if kind == "shuffled":
        return tuple(sorted((issue.id for issue in issues), key=lambda i: _draw(seed, i)))
    dated = sorted(issues, key=lambda i: (i.created_at is None, i.created_at.isoformat() if i.created_at else "", i.id))
    return tuple(issue.id for issue in dated)


def split(issues: Sequence[Issue], build: int, seed: int) -> str:
    """Two folds as a letter an issue, stratified by repository and drawn by ``seed`` and ``build`` (from 1).

    Within each repository half of the issues fall into either fold. Of repositories with an odd number the extra issue goes to whichever fold is smaller
    so far, so that the folds differ by one issue at most.
    """
    letters: dict[str, str] = {}
    sizes = {"a": 0, "b": 0}
    repositories: dict[str, list[str]] = {}
    for issue in issues:
        repositories.setdefault(issue.repo, []).append(issue.id)
    for repo in sorted(repositories):
        drawn = sorted(repositories[repo], key=lambda i: _draw(seed, f"{build}/{i}"))
        if sizes["a"] != sizes["b"]:
            first = min(sizes, key=lambda letter: sizes[letter])
        else:
            first = "ab"[int(_draw(seed, f"{build}/{repo}/first"), 16) % 2]
        second = "b" if first == "a" else "a"
        for number, issue_id in enumerate(drawn):
            letter = second if number % 2 else first
            letters[issue_id] = letter
            sizes[letter] += 1
    return "".join(letters[issue.id] for issue in issues)


def _draw(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed}/{text}".encode()).hexdigest()


def endpoint(arms: Sequence[Arm], protocol: str, builds: int, streams: int) -> str:
    """The primary endpoint in words, fixed before the first attempt."""
    memory = next((arm.name for arm in arms if arm.kind == "memory"), None)
    if memory is None or all(arm.kind != "none" for arm in arms):
        return "none: there is no pair of an arm with memory and `none`"
    unit = {
        "crossfit": f"issue; frozen banks of {builds} build{'s' if builds > 1 else ''}",
        "offline": "issue; the given bank, frozen",
        "online": "stream" if streams > 1 else "issue, along the path of the one stream",
    }[protocol]
    return f"resolve rate of `{memory}` minus that of `none`, over all issues, paired by issue (unit: {unit})"
