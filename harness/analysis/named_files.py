"""Issues whose text names a file that the reference patch edits. The only place of the analysis that looks at grading data; nothing but ids leaves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.dataset import Dataset

Named = tuple[tuple[str, ...], int]
"""(the issues, how many were looked at)"""


def named_files(dataset: Dataset, issues: Sequence[str]) -> Named:
    """Of ``issues``, those of the dataset are looked at: whether the text has the name of a file (without its folders) that is to be changed."""
    from swe_memory.patches import edited_paths

    known = {instance.issue.id: instance for instance in dataset.instances}
    looked = [known[issue] for issue in issues if issue in known]
    found = [
        instance.issue.id
        for instance in looked
        if any(path.rsplit("/", 1)[-1] in instance.issue.text for path in edited_paths(instance.grading.patch))
    ]
    return tuple(found), len(looked)
