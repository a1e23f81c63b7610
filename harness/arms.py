"""The conditions of an experiment, as they are written on the command line: ``none``, ``reasoningbank:k=2,success-only``, ``derangement``, ...

Pure. An arm's name is its canonical spec, so that two spellings of one condition are one arm.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from swe_memory.errors import UsageError

if TYPE_CHECKING:
    from swe_memory.ranking import RankingSettings

Kind = Literal["none", "memory", "control", "gold"]

KINDS: Mapping[str, Kind] = {
    "none": "none",
    "reasoningbank": "memory",
    "derangement": "control",
    "preamble": "control",
    "neutral": "control",
    "gold": "gold",
}
"""Method -> what kind of condition it is. A control is yoked to an arm with memory and gets text exactly where that one gets an item."""

RecallBase = Literal["default", "paper"]


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 100:
        raise ValueError
    return value


def _number(text: str) -> float:
    value = float(text)
    if not 0 <= value < 1000:
        raise ValueError
    return value + 0.0  # not -0.0, which would be another spelling of 0


def _grain(text: str) -> str:
    if text not in ("item", "experience"):
        raise ValueError
    return text


_VALUED: Mapping[str, tuple[Callable[[str], Any], str]] = {
    "k": (_count, "a whole number from 1 to 100"),
    "threshold": (_number, "a number from 0"),
    "path-weight": (_number, "a number from 0"),
    "grain": (_grain, "item or experience"),
}
_FLAGS = ("other-repos", "before", "success-only", "failure-only")
SETTINGS = (*_VALUED, *_FLAGS)
"""What may follow ``reasoningbank:``, in the order of the canonical spec."""

KNOWN = "none, reasoningbank (with settings such as reasoningbank:k=2,success-only), derangement, preamble, neutral, gold"


@dataclass(frozen=True, slots=True)
class Arm:
    """One condition. ``name`` is its canonical spec, ``settings`` (name, value) pairs; a flag's value is True. ``of`` is, for a control, the name of the arm
    with memory that it is yoked to."""

    name: str
    method: str
    kind: Kind
    settings: tuple[tuple[str, Any], ...] = ()
    of: str = ""

    @property
    def folder(self) -> str:
        """The name of its folder in a run."""
        return self.name.replace(":", "_").replace("/", "_of_")

    @property
    def family(self) -> str:
        """What its bank is made by: arms of one family recall from the same banks in different ways."""
        only = [name for name, _ in self.settings if name in ("success-only", "failure-only")]
        return "-".join([self.method, *only])

    @property
    def outcomes(self) -> frozenset[str]:
        """The verdicts of attempts that it learns from."""
        names = dict(self.settings)
        if "success-only" in names:
            return frozenset({"resolved"})
        return frozenset({"unresolved"}) if "failure-only" in names else frozenset({"resolved", "unresolved"})

    def ranking(self, base: RecallBase = "default", *, before: bool = False) -> RankingSettings:
        """How it recalls: the experiment's ``base`` with this arm's own settings; ``before`` adds the guard of that name."""
        from dataclasses import replace

        from swe_memory.ranking import RankingSettings

        names = dict(self.settings)
        given = {field: names[name] for name, field in _FIELDS.items() if name in names}
        if before:
            given["before"] = True
        return replace(RankingSettings.paper() if base == "paper" else RankingSettings(), **given)


_FIELDS = {
    "k": "k",
    "threshold": "threshold",
    "path-weight": "path_weight",
    "grain": "grain",
    "other-repos": "other_repos",
    "before": "before",
}


def parse_arms(specs: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of these specs, each known, written soundly and named once; controls know whom they are yoked to. Raises UsageError."""
    if not specs:
        raise UsageError("no arm was named", f"Name one or more with --arm: {KNOWN}.")
    parsed = [_parse(spec) for spec in specs]
    memory = [arm.name for arm in parsed if arm.kind == "memory"]
    arms: list[Arm] = []
    for arm in (_yoked(arm, memory) if arm.kind == "control" else arm for arm in parsed):
        if any(arm.name == other.name for other in arms):
            raise UsageError(f"arm {arm.name!r} was named twice", "Name each arm once.")
        arms.append(arm)
    return tuple(arms)


def _parse(spec: str) -> Arm:
    spec = "".join(spec.split())
    head, slash, of = spec.partition("/")
    method, colon, rest = head.partition(":")
    if method not in KINDS:
        raise UsageError(f"there is no arm called {spec!r}", f"Known arms: {KNOWN}.")
    kind = KINDS[method]
    if slash and kind != "control":
        raise UsageError(f"arm {spec!r}: only a control is yoked to another arm", "Write it without the slash.")
    if colon and kind != "memory":
        raise UsageError(f"arm {spec!r}: {method} takes no settings", f"Write it as {method}.")
    if slash and not of:
        raise UsageError(f"arm {spec!r}: no arm follows the slash", f"Write {method}, or for example {method}/reasoningbank.")
    if kind == "control":
        return Arm(f"{method}/{_parse(of).name}" if of else method, method, kind, of=_parse(of).name if of else "")
    if colon and not rest:
        raise UsageError(f"arm {spec!r}: no setting follows the colon", f"Known settings: {', '.join(SETTINGS)}.")
    settings = _settings(spec, rest.split(",") if rest else [])
    text = ",".join(name if value is True else f"{name}={_plain(value)}" for name, value in settings)
    return Arm(f"{method}:{text}" if text else method, method, kind, settings)


def _settings(spec: str, parts: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    found: dict[str, Any] = {}
    for part in parts:
        name, equals, text = part.partition("=")
        name = name.replace("_", "-")
        if name not in SETTINGS:
            raise UsageError(f"arm {spec!r}: there is no setting {name!r}", f"Known settings: {', '.join(SETTINGS)}.")
        if name in found:
            raise UsageError(f"arm {spec!r}: {name} comes twice", "Give it once.")
        if name in _FLAGS:
            if equals:
                raise UsageError(f"arm {spec!r}: {name} takes no value", f"Write {name} alone.")
            found[name] = True
            continue
        read, words = _VALUED[name]
        try:
            found[name] = read(text)
        except ValueError:
            raise UsageError(
                f"arm {spec!r}: {name} is {text!r}, which is not {words}", f"Write for example {name}={_EXAMPLES[name]}."
            ) from None
    if "success-only" in found and "failure-only" in found:
        raise UsageError(f"arm {spec!r}: success-only and failure-only together leave nothing to learn from", "Give one of them.")
    return tuple((name, found[name]) for name in SETTINGS if name in found)


_EXAMPLES = {"k": "2", "threshold": "0.35", "path-weight": "0.03", "grain": "item"}


def _plain(value: Any) -> str:
    """A value in the canonical spec: read again it is the same number, to the last digit."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _yoked(arm: Arm, memory: Sequence[str]) -> Arm:
    if not memory:
        raise UsageError(
            f"arm {arm.name!r} is a control of an arm with memory, and there is none", "Add one, for example --arm reasoningbank."
        )
    if arm.of and arm.of not in memory:
        raise UsageError(
            f"arm {arm.name!r} is yoked to {arm.of!r}, which is not an arm of this run", f"Arms with memory here: {', '.join(memory)}."
        )
    of = arm.of or memory[0]
    # Spelt out or not, a control of the first such arm is the same control.
    return Arm(arm.method if of == memory[0] else f"{arm.method}/{of}", arm.method, arm.kind, of=of)
