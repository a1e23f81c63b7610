"""Made-up outcomes for the tests of the statistics, and the rule that every result keeps."""

from __future__ import annotations

import math
import random

from hypothesis import strategies as st

from harness.statistics.estimates import Estimate, Outcomes, Test

run = st.one_of(st.none(), st.booleans())
arms = st.dictionaries(st.sampled_from([f"i{number}" for number in range(12)]), st.lists(run, max_size=4), max_size=12)


def made(runs: int, seed: int, issues: int = 120, gain: float = 0.0) -> Outcomes:
    source = random.Random(seed)
    return {str(issue): [source.random() < min(issue / issues + gain, 1) for _ in range(runs)] for issue in range(issues)}


def every_number_is_plain(value: object) -> bool:
    """No NaN and no infinity anywhere; what is None comes with a reason."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Estimate):
        told = value.value is not None and value.low is not None and value.high is not None
        return (told or bool(value.why)) and all(every_number_is_plain(part) for part in (value.value, value.low, value.high))
    if isinstance(value, Test):
        return (value.p is not None and 0 <= value.p <= 1) or bool(value.why)
    if isinstance(value, tuple | list):
        return all(every_number_is_plain(part) for part in value)
    if hasattr(value, "__dataclass_fields__"):
        return all(every_number_is_plain(getattr(value, name)) for name in value.__dataclass_fields__)
    return True
