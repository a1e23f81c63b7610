"""The plain records that every room shares. Frozen, typed, and free of imports from the rest of the package.

Sequences are tuples so that a record can be hashed, compared and sent between processes. Times are timezone-aware UTC
datetimes. Money is US dollars. Vocabulary: DESIGN words (issue, attempt, step, trajectory, verdict, experience, item, recall).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Literal, Protocol

Outcome = Literal["resolved", "unresolved", "unknown"]
VerdictSource = Literal["tests", "llm", "rules", "caller"]
Polarity = Literal["success", "failure", "contrast"]
Reach = Literal["repository", "general"]
ItemStatus = Literal["active", "quarantined", "retired"]


def _text(owner: str, **fields: object) -> None:
    """Refuse a field that is not text, by name: found here, the mistake is the caller's; found later, it looks like ours."""
    for name, value in fields.items():
        if not isinstance(value, str):
            raise TypeError(f"{owner}.{name} must be text (str), not {type(value).__name__}")


def _each(owner: str, name: str, values: object, kind: type) -> None:
    if not isinstance(values, tuple) or not all(isinstance(value, kind) for value in values):
        raise TypeError(f"{owner}.{name} must be a tuple of {kind.__name__}")


@dataclass(frozen=True, slots=True)
class Issue:
    """What must be fixed. Never carries a gold patch, test patch, test names or hints: there is no field to put them in.

    ``id`` is unique within ``repo`` ("django__django-11099", "web-417"); ``repo`` is "owner/name"; ``text`` is what the reporter wrote,
    first line the title; ``created_at`` is needed only for the time guard. Like the other records that callers build, it raises TypeError for a field
    of the wrong type.
    """

    id: str
    repo: str
    text: str
    base_commit: str = ""
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        _text("Issue", id=self.id, repo=self.repo, text=self.text, base_commit=self.base_commit)
        if self.created_at is not None and not isinstance(self.created_at, datetime):
            raise TypeError(f"Issue.created_at must be a datetime or None, not {type(self.created_at).__name__}")

    @property
    def title(self) -> str:
        """The first line with any text in it, stripped; "" for an empty issue."""
        return next((line.strip() for line in self.text.splitlines() if line.strip()), "")


@dataclass(frozen=True, slots=True)
class Action:
    """One command and what came back. ``returncode`` is None where the format does not say."""

    command: str
    output: str = ""
    returncode: int | None = None

    def __post_init__(self) -> None:
        _text("Action", command=self.command, output=self.output)


@dataclass(frozen=True, slots=True)
class Step:
    """One model turn: what it thought, and the 0 or more actions it took.

    ``feedback`` is what the environment answered to a turn whose actions were not executed (a format error, say); "" otherwise.
    """

    thought: str
    actions: tuple[Action, ...] = ()
    feedback: str = ""

    def __post_init__(self) -> None:
        _text("Step", thought=self.thought, feedback=self.feedback)
        _each("Step", "actions", self.actions, Action)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What one agent did on one issue, whatever file format it came from.

    ``calls`` (model turns) and ``actions`` (commands) are the two step counts. ``patch`` is None where the source does not say and "" where
    the agent submitted nothing. ``task`` is the first user message: the issue as the agent saw it, with the agent's own instructions around it.
    ``reported_calls`` is the source's own count of model calls, kept to be checked against ``calls``.
    """

    steps: tuple[Step, ...]
    exit_status: str = ""
    patch: str | None = None
    issue_id: str = ""
    task: str = ""
    format: str = ""
    model: str = ""
    agent: str = ""
    reported_calls: int | None = None
    cost: float | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        _each("Trajectory", "steps", self.steps, Step)
        if self.patch is not None:
            _text("Trajectory", patch=self.patch)

    @property
    def calls(self) -> int:
        """Model turns."""
        return len(self.steps)

    @property
    def actions(self) -> int:
        """Commands executed."""
        return sum(len(step.actions) for step in self.steps)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an attempt resolved its issue, who says so, and why.

    ``confidence`` is a probability in [0, 1] that the *outcome* is right, where the source gives one.
    """

    outcome: Outcome
    source: VerdictSource
    reason: str = ""
    confidence: float | None = None
    model: str = ""
    prompt: str = ""

    @classmethod
    def from_tests(cls, *, resolved: bool, reason: str = "") -> Verdict:
        """The verdict of the official tests. Items learned from it are marked as coming from an oracle."""
        return cls("resolved" if resolved else "unresolved", "tests", reason)

    @classmethod
    def from_caller(cls, *, resolved: bool, reason: str = "") -> Verdict:
        """The verdict of whoever ran the agent: a reviewer, a CI job, a user."""
        return cls("resolved" if resolved else "unresolved", "caller", reason)

    @classmethod
    def unknown(cls, source: VerdictSource = "caller", reason: str = "") -> Verdict:
        """Nobody can tell. An unknown outcome teaches nothing."""
        return cls("unknown", source, reason)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of one agent on one issue, with its verdict: what :meth:`MemoryBank.learn` takes. ``source`` says where it was read from."""

    issue: Issue
    trajectory: Trajectory
    verdict: Verdict
    source: str = ""

    def __post_init__(self) -> None:
        for name, value, kind in (
            ("issue", self.issue, Issue),
            ("trajectory", self.trajectory, Trajectory),
            ("verdict", self.verdict, Verdict),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"Attempt.{name} must be a {kind.__name__}, not {type(value).__name__}")

    @property
    def key(self) -> str:
        """32 hex digits that identify the attempt by its content: same issue, steps and patch, same key, wherever the file lies.

        The verdict is left out on purpose: a changed verdict supersedes what was learned before instead of adding a second experience.
        """
        return attempt_key(self.issue, self.trajectory)


def attempt_key(issue: Issue, trajectory: Trajectory) -> str:
    """See :attr:`Attempt.key`."""
    steps = [[s.thought, s.feedback, [[a.command, a.output, a.returncode] for a in s.actions]] for s in trajectory.steps]
    payload = json.dumps([issue.repo, issue.id, steps, trajectory.exit_status, trajectory.patch], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(payload.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where an item came from: enough to explain it years later.

    ``extractor`` is name@version ("rules@1", "llm@1"), ``prompt`` is id@version of the prompt file, "" for rules.
    """

    attempt: str
    issue_id: str
    source: str
    verdict_source: VerdictSource
    outcome: Outcome
    extractor: str
    model: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class ItemDraft:
    """An item as an extractor proposes it, before validation, redaction and the hostile-text check.

    ``title`` <= 80 characters, ``description`` one sentence, ``content`` 1-3 sentences. ``kind`` is a short lower-case word chosen by the extractor
    ("strategy", "co-change", "testing", "verification", "scope", "loop", ...).
    """

    title: str
    description: str
    content: str
    kind: str
    polarity: Polarity
    reach: Reach


@dataclass(frozen=True, slots=True)
class Rejection:
    """A draft (or a whole model answer) that was not accepted, and why."""

    reason: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What language-model calls consumed. ``cost`` is None where a model's price is not known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(self.calls + other.calls, self.input_tokens + other.input_tokens, self.output_tokens + other.output_tokens, cost)


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an extractor made of one attempt: at most three drafts, what it rejected, and what it cost.

    ``usable`` is False where a model answered, but not in a way that could be read: then nothing counts as learned, and the attempt can be asked about again.
    ``reason`` says, where there is no draft, why there is none: one line for people.
    """

    drafts: tuple[ItemDraft, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    usage: Usage = Usage()
    model: str = ""
    prompt: str = ""
    usable: bool = True
    reason: str = ""


class Extractor(Protocol):
    """Attempt in, drafts out. ``name`` is name@version and goes into each item's provenance."""

    name: str

    def extract(self, attempt: Attempt) -> Extraction:
        """Distil at most three drafts. An unknown outcome gives none. Raises ModelError where a model cannot be asked (retryable)."""
        ...


class Judge(Protocol):
    """Attempt in, verdict out. It sees the issue and the trajectory, never grading data."""

    name: str

    def judge(self, issue: Issue, trajectory: Trajectory) -> Verdict:
        """Say whether the attempt resolved the issue; ``unknown`` where it cannot tell."""
        ...


@dataclass(frozen=True, slots=True)
class Experience:
    """An issue, a digest of its attempt and the verdict: what memory is distilled from and found by.

    ``key`` is the attempt's content hash. ``paths`` and ``symbols`` are the source files (not tests) and the functions or classes that the attempt edited.
    ``added`` is the bank version that made it visible.
    """

    key: str
    issue: Issue
    digest: str
    verdict: Verdict
    paths: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    calls: int = 0
    actions: int = 0
    source: str = ""
    agent: str = ""
    model: str = ""
    patch_sha: str = ""
    extractor: str = ""
    added: int = 0


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """One memory. ``repo`` is where it was learned; a *repository* item is recalled only there, a *general* one anywhere.

    ``added`` and ``retired`` are bank versions; ``note`` says why an item is quarantined or retired.
    """

    id: str
    title: str
    description: str
    content: str
    kind: str
    polarity: Polarity
    reach: Reach
    repo: str
    provenance: Provenance
    status: ItemStatus = "active"
    note: str = ""
    added: int = 0
    retired: int | None = None

    @property
    def text(self) -> str:
        """Title, description and content, one a line: what is embedded and what the reader sees."""
        return "\n".join(part for part in (self.title, self.description, self.content) if part)


@dataclass(frozen=True, slots=True)
class Use:
    """One recall that an attempt ran with, and how that attempt ended."""

    item_id: str
    issue_id: str
    repo: str
    score: float
    bank_version: int
    attempt: str
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Candidate:
    """One experience that was considered in a recall, with the parts of its score, and what removed it ("" if nothing did).

    ``cosine`` in [-1, 1] is the mean of title and text cosine (None without an embedder); ``path_score`` >= 0 is BM25 over edited paths and symbols;
    ``score`` is what candidates are ordered by; ``item_id`` the best item of that experience, if any.
    """

    experience: str
    issue_id: str
    repo: str
    outcome: Outcome
    score: float
    cosine: float | None = None
    path_score: float = 0.0
    text_score: float = 0.0
    item_id: str = ""
    item_title: str = ""
    removed: str = ""


@dataclass(frozen=True, slots=True)
class Recall:
    """What the bank has to say about one issue: one item, or none, and why.

    ``prompt`` is ready to append to a system prompt, "" when nothing relevant is known. ``items`` holds more than one only where the settings
    ask for it (k, or the paper's grain). ``bank_version`` is the sequence number that was read. ``score`` is 0 when there is no item.
    """

    issue_id: str
    item: MemoryItem | None
    score: float
    bank_version: int
    reasons: tuple[str, ...] = ()
    prompt: str = ""
    items: tuple[MemoryItem, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    settings: str = ""


@dataclass(frozen=True, slots=True)
class Learned:
    """What one call of learn did.

    ``status``: ``learned``, ``already`` (same attempt, verdict and extractor: nothing done), ``superseded`` (a changed verdict replaced what was there),
    ``nothing`` (unknown outcome or no draft: the experience is kept where there is a verdict, no item). ``reason`` says why it was nothing, in one line for
    people; "" for every other status. What follows its first colon is about this attempt alone.
    """

    key: str
    issue_id: str
    status: Literal["learned", "already", "superseded", "nothing"]
    items: tuple[MemoryItem, ...] = ()
    quarantined: tuple[MemoryItem, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    usage: Usage = Usage()
    bank_version: int = 0
    reason: str = ""


def to_json(record: object) -> str:
    """One record as JSON: keys sorted, times ISO 8601."""

    def default(value: object) -> str:
        if isinstance(value, datetime):
            return value.isoformat()
        raise TypeError(f"cannot write {type(value).__name__} as JSON")

    return json.dumps(asdict(record), default=default, ensure_ascii=False, sort_keys=True)  # type: ignore[call-overload]
