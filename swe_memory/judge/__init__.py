"""Verdicts where there are no tests, and how far they agree with tests where there are. The LLM judge is in :mod:`swe_memory.judge.llm`."""

from .agreement import Agreement, Estimate, agreement
from .rules import RulesJudge

__all__ = ["Agreement", "Estimate", "RulesJudge", "agreement"]
