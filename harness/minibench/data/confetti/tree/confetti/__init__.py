"""Configuration in sections of ``key = value`` lines."""

from confetti.document import Document, loads
from confetti.errors import ConfigError, ReferenceCycle, SyntaxProblem
from confetti.layers import Layers
from confetti.references import resolved
from confetti.writer import dumps

__all__ = ["ConfigError", "Document", "Layers", "ReferenceCycle", "SyntaxProblem", "dumps", "loads", "resolved"]
