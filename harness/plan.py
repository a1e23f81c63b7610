"""What will run, worked out before anything does: arms, streams, order; and the experiment as it is frozen into ``experiment.json``. Pure.

One protocol is here so far: *online* (the paper's stream: one bank that grows attempt by attempt), one stream an arm.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from harness.checks import Check, is_count, is_number, is_text, is_texts, one_of
from swe_memory.errors import UsageError
from swe_memory.records import Issue

ARMS = ("none", "reasoningbank")
ORDERS = ("date", "given", "shuffled")
VERDICTS = ("rules", "tests")
FORMAT = 1
STREAM = "1-1"
"""ORDER-RERUN of the only stream."""
ENDPOINT = "difference in resolve rate between each arm with memory and `none`, paired by issue (mid-p McNemar)"

VerdictChoice = Literal["rules", "tests"]


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that decides what a run computes, and nothing else: no worker count, no times, no paths.

    ``verdict`` is what memory learns from: ``rules`` (a judge that sees what the agent saw) or ``tests`` (the hidden tests: an oracle, labelled so in
    the results). ``instances`` are issue ids in the order of the stream.
    """

    dataset: str
    dataset_hash: str
    instances: tuple[str, ...]
    agent: str
    arms: tuple[str, ...]
    call_limit: int = 60
    command_seconds: float = 120.0
    test_seconds: float = 300.0
    verdict: VerdictChoice = "rules"
    order: str = "date"
    seed: int = 0
    protocol: str = "online"
    endpoint: str = ENDPOINT
    extractor: str = "rules@1"
    embedder: str = "none"
    versions: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

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
        for name, (words, check) in _FIELDS.items():
            if name in value and not check(value[name]):
                raise UsageError(f"{where} is damaged: `{name}` is not {words}", hint)
        try:
            fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in value.items() if name in _FIELDS}
            return cls(**fields)
        except TypeError as error:
            raise UsageError(f"{where} is damaged: {error}", hint) from error

    def differences(self, other: Experiment) -> tuple[str, ...]:
        """One sentence for each setting that differs, this experiment's value first."""
        one, two = self.to_json(), other.to_json()
        found = []
        for name in one:
            if one[name] != two[name]:
                if name == "instances":
                    found.append(f"instances: {len(one[name])} there, {len(two[name])} asked for, or in another order")
                else:
                    found.append(f"{name}: {_short(one[name])} there, {_short(two[name])} asked for")
        return tuple(found)

    def streams(self) -> tuple[Stream, ...]:
        """One stream for each arm, in the order of the arms."""
        return tuple(Stream(arm, STREAM, self.instances) for arm in self.arms)


_TEXT = ("text", is_text)
_SECONDS = ("a number of seconds above 0", lambda value: is_number(value) and value > 0)
_FIELDS: Mapping[str, tuple[str, Check]] = {
    "dataset": _TEXT,
    "dataset_hash": _TEXT,
    "instances": ("a list of different issue ids", lambda value: is_texts(value) and len(set(value)) == len(value)),
    "agent": _TEXT,
    "arms": (f"a list of different arms of {', '.join(ARMS)}", lambda v: is_texts(v) and len(set(v)) == len(v) > 0 and set(v) <= set(ARMS)),
    "call_limit": ("a count", is_count),
    "command_seconds": _SECONDS,
    "test_seconds": _SECONDS,
    "verdict": (f"one of {', '.join(VERDICTS)}", one_of(*VERDICTS)),
    "order": (f"one of {', '.join(ORDERS)}", one_of(*ORDERS)),
    "seed": ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    "protocol": _TEXT,
    "endpoint": _TEXT,
    "extractor": _TEXT,
    "embedder": _TEXT,
    "versions": ("an object of texts", lambda value: isinstance(value, dict) and is_texts(list(value.values()))),
    "format": ("a count", is_count),
}


@dataclass(frozen=True, slots=True)
class Stream:
    """One pass over the issues with one bank (or none)."""

    arm: str
    name: str
    instances: tuple[str, ...]

    @property
    def memory(self) -> bool:
        """Whether this arm recalls and learns. Its attempts then depend on one another and run one after the other."""
        return self.arm != "none"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else text[:117] + "..."


def check_arms(arms: Sequence[str]) -> tuple[str, ...]:
    """The arms, each known and named once. Raises UsageError."""
    if not arms:
        raise UsageError("no arm was named", f"Name one or more with --arm: {', '.join(ARMS)}.")
    for arm in arms:
        if arm not in ARMS:
            raise UsageError(f"there is no arm called {arm!r}", f"Known arms: {', '.join(ARMS)}.")
        if list(arms).count(arm) > 1:
            raise UsageError(f"arm {arm!r} was named twice", "Name each arm once.")
    return tuple(arms)


def ordered(issues: Sequence[Issue], order: str, seed: int) -> tuple[str, ...]:
    """Issue ids in the order of the stream: ``date`` (oldest first; issues without a date last, then by id), ``given``, or ``shuffled`` by ``seed``.

    Shuffling sorts by a hash of seed and id, so that it depends on neither Python's version nor the other issues.
    """
    if order not in ORDERS:
        raise UsageError(f"there is no order called {order!r}", f"Known orders: {', '.join(ORDERS)}.")
    if order == "given":
        return tuple(issue.id for issue in issues)
    if order == "shuffled":
        return tuple(sorted((issue.id for issue in issues), key=lambda i: hashlib.sha256(f"{seed}/{i}".encode()).hexdigest()))
    dated = sorted(issues, key=lambda i: (i.created_at is None, i.created_at.isoformat() if i.created_at else "", i.id))
    return tuple(issue.id for issue in dated)
