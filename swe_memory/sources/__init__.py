"""A folder of attempts, predictions and reports, in any usual layout, into attempts that can be learned from."""

from __future__ import annotations

from swe_memory.sources.folder import AttemptFile, Scan, read_attempt, scan
from swe_memory.sources.issues import issue_from_row, read_issues, repo_of
from swe_memory.sources.outcomes import verdict_of_report
from swe_memory.sources.walk import Problem

__all__ = ["AttemptFile", "Problem", "Scan", "issue_from_row", "read_attempt", "read_issues", "repo_of", "scan", "verdict_of_report"]
