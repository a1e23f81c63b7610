"""From an attempt to items: the digest, the rules, the checks that every draft passes. The LLM extractor is in :mod:`swe_memory.extract.llm`."""

from .digest import DEFAULT_BUDGET, STORED_BUDGET, digest, estimate_tokens
from .rules import RulesExtractor
from .signals import Signals, signals
from .validate import clean_drafts, validate

__all__ = [
    "DEFAULT_BUDGET",
    "STORED_BUDGET",
    "RulesExtractor",
    "Signals",
    "clean_drafts",
    "digest",
    "estimate_tokens",
    "signals",
    "validate",
]
