"""How a recall is made: the weights of the score with the reason for each, and what a caller may set."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from swe_memory.errors import UsageError
from swe_memory.records import Issue

Grain = Literal["item", "experience"]

# Measured on 303 SWE-bench Verified issues: did the first answer's attempt edit a file of this issue's fix (hit@1)? Weights were chosen on the tune half
# (45 streaming, 80 leave-one-out queries; one query is .02 or .01, and weights twice or half as large do about as well), then asked once on the
# held-out half (65 and 85).                       tune: streaming  leave-one-out     held out: streaming  leave-one-out
#   text cosine                                           .29          .29                        .35          .32
#   mean of title and text cosine                         .33          .26                        .43          .32
#   + BM25 over edited paths and symbols                  .58          .60                        .46          .49
#   + places that the issue names                         .60          .61                        .52          .54
# Tried on the tune half and left out, because nothing was gained beyond one or two queries: shared rare identifiers, shared exception names, symbols
# named, how often a file was edited before, votes of neighbours that edited the same file, paths and symbols embedded as a third view, other chunks of
# the text, stop words, inverse document frequency over issue texts; and with the items of 150 real attempts (52 queries) the best item's own cosine added to
# its experience's score (.52 to .54) and less weight for the paths of failed attempts (.52 to .48).
PATH_WEIGHT = 0.03
# An issue that writes out a path or a dotted name ("models/query", "models.query") of an edited file is nearly always about it.
NAMED_PATH = 0.5
# A file name alone ("query.py") is weaker: every package has its utils.py.
NAMED_FILE = 0.35
# Without an embedder BM25 over the issue texts takes the place of the cosine, brought to its scale: s / (s + 50). Pairs that share a file then have a
# median of .42 (cosine: .45), pairs of different repositories .28 (cosine: .18).
TEXT_HALF = 50.0
# Below it, nothing is recalled. 95 % of the pairs of issues of different repositories have a cosine under .34: what scores less is no more alike than
# two issues picked blindly. Over all 303 issues it cost none of the 61 (streaming) and 92 (leave-one-out) right first answers and left 11 % and 1 %
# of the queries without an answer; of recalls from other repositories only, 51 % (tune half). 0 is the paper's way: always answer. The precision
# at higher thresholds is printed by benchmarks/retrieval.py.
THRESHOLD = 0.35


@dataclass(frozen=True, slots=True)
class RankingSettings:
    """What a caller may set. Rule 1 (an issue's own memory, by id or by text) has no switch.

    ``k``: how many items (grain "item") or experiences with all their items ("experience", the paper's) at most. ``threshold``: the least score of an
    experience, 0 for the paper's. ``path_weight`` times BM25 over edited paths and symbols is added to the cosine; 0 also turns named places off.
    ``other_repos``: only experiences of other repositories than the issue's. ``before``: only what was learned from issues created before that time,
    or before this issue was (True). Raises UsageError for values out of range.
    """

    k: int = 1
    grain: Grain = "item"
    threshold: float = THRESHOLD
    path_weight: float = PATH_WEIGHT
    other_repos: bool = False
    before: datetime | bool | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.k <= 100:
            raise UsageError(f"k is {self.k}; it says how many items to recall.", "Use a number from 1 to 100.")
        if self.grain not in ("item", "experience"):
            raise UsageError(f"There is no grain {self.grain!r}.", 'Use "item" or "experience".')
        for name, value in (("threshold", self.threshold), ("path_weight", self.path_weight)):
            if not math.isfinite(value) or value < 0:
                raise UsageError(f"{name} is {value}.", "Use a number of 0 or more.")
        if isinstance(self.before, datetime) and self.before.tzinfo is None:
            raise UsageError("The time of `before` has no time zone.", "Write it like 2024-05-01T00:00:00+00:00.")

    @classmethod
    def paper(cls) -> RankingSettings:
        """As near to the paper's recall as this bank comes: all items of the one nearest experience by text alone, whatever its score.

        The paper's code embeds the whole problem statement with a provider's model; here title and text are embedded apart (arXiv 2509.25140, app. A).
        """
        return cls(k=1, grain="experience", threshold=0.0, path_weight=0.0)

    def before_time(self, issue: Issue) -> datetime | None:
        """The time that ``before`` stands for, None if it is off. Raises UsageError where the issue's own time is wanted and not known."""
        if self.before is True:
            if issue.created_at is None:
                raise UsageError(f"The issue {issue.id} has no creation time to compare with.", "Give created_at, or a time for `before`.")
            return issue.created_at
        return self.before or None

    def describe(self) -> str:
        """The settings in one line, kept with each recall."""
        before = self.before.isoformat() if isinstance(self.before, datetime) else "issue" if self.before else "off"
        return (
            f"k={self.k} grain={self.grain} threshold={self.threshold:g} path_weight={self.path_weight:g} "
            f"other_repos={'on' if self.other_repos else 'off'} before={before}"
        )
