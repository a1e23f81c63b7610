"""The tables of a bank, their columns, and how an older layout becomes the present one.

Every table is append-only: a row carries the transaction (``txn``) that wrote it and counts only once that transaction is in ``commits``.
``experiences`` and ``items`` exist once per *generation*: re-embedding writes a new generation beside the old one and switches with one commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1

COMMITS, USES, META = "commits", "uses", "meta"
FIXED_TABLES = (COMMITS, USES, META)

# Experiences are found by title and text together: both unit vectors side by side, so one cosine is the mean of two.
VIEWS = 2

# How pyarrow marks the column that Lance takes as the primary key (what Table.set_unenforced_primary_key writes): set when the table is made,
# so that no process can ever see `commits` without it.
_PRIMARY_KEY = {"lance-schema:unenforced-primary-key": "true"}


def experiences_table(generation: int) -> str:
    """Name of the experiences table of one generation (1 is the first)."""
    return "experiences" if generation == 1 else f"experiences_{generation}"


def items_table(generation: int) -> str:
    """Name of the items table of one generation (1 is the first)."""
    return "items" if generation == 1 else f"items_{generation}"


def generation_of(name: str) -> int:
    """The generation of a table (or of a ``generation_N`` row of ``meta``), 0 for anything else."""
    kind, _, number = name.partition("_")
    if kind not in ("experiences", "items", "generation"):
        return 0
    return int(number) if number.isdigit() else 1


def is_ours(name: str) -> bool:
    """Whether a table of this name can belong to a bank."""
    return name in FIXED_TABLES or name.split("_")[0] in ("experiences", "items")


def _text(*names: str) -> list[pa.Field]:
    import pyarrow as pa

    return [pa.field(name, pa.string()) for name in names]


def commits_schema() -> pa.Schema:
    """One row per commit; ``seq`` is the bank version, ``payload`` the JSON of what it touches, ``at`` ISO 8601."""
    import pyarrow as pa

    seq = pa.field("seq", pa.int64(), nullable=False, metadata=_PRIMARY_KEY)
    return pa.schema([seq, *_text("txn", "session", "kind", "payload", "at")])


def experiences_schema(dimension: int) -> pa.Schema:
    """``dimension`` is the embedder's; the stored vector has twice as many numbers. 0: no vector column (a bank without an embedder)."""
    import pyarrow as pa

    fields = [
        *_text("txn", "at", "key", "issue_id", "repo", "text", "base_commit", "created_at", "text_hash", "digest"),
        *_text("outcome", "verdict_source", "verdict_reason", "verdict_model", "verdict_prompt"),
        pa.field("confidence", pa.float64()),
        pa.field("paths", pa.list_(pa.string())),
        pa.field("symbols", pa.list_(pa.string())),
        *_text("where_terms"),
        pa.field("calls", pa.int64()),
        pa.field("actions", pa.int64()),
        *_text("source", "agent", "model", "patch_sha", "extractor"),
    ]
    if dimension:
        fields.append(pa.field("vector", pa.list_(pa.float32(), VIEWS * dimension)))
    return pa.schema(fields)


def items_schema(dimension: int) -> pa.Schema:
    """``attempt`` is the key of the experience that the item was distilled from."""
    import pyarrow as pa

    fields = [
        *_text("txn", "at", "id", "attempt", "title", "description", "content", "kind", "polarity", "reach", "repo", "status", "note"),
        *_text("issue_id", "source", "verdict_source", "outcome", "extractor", "model", "prompt"),
    ]
    if dimension:
        fields.append(pa.field("vector", pa.list_(pa.float32(), dimension)))
    return pa.schema(fields)


def uses_schema() -> pa.Schema:
    """One row per recalled item of an attempt whose outcome is known to the caller."""
    import pyarrow as pa

    fields = [*_text("txn", "at", "item_id", "issue_id", "repo", "attempt", "outcome")]
    return pa.schema([*fields, pa.field("score", pa.float64()), pa.field("bank_version", pa.int64())])


def meta_schema() -> pa.Schema:
    """Append-only pairs; of several rows with one name the one with the highest ``value`` (a number) counts."""
    import pyarrow as pa

    return pa.schema([*_text("name"), pa.field("value", pa.int64()), *_text("at")])


def _zero_to_one(db: Any) -> None:
    """Version 0 (before the first release) had no ``uses`` table and did not keep the base commit or the agent's name."""
    db.create_table(USES, schema=uses_schema(), exist_ok=True)
    for name in db.list_tables().tables:
        if name.split("_")[0] == "experiences":
            table = db.open_table(name)
            missing = {column: "''" for column in ("base_commit", "agent") if column not in table.schema.names}
            if missing:
                table.add_columns(missing)


# From version N to N + 1. Each must be harmless when run again: a kill between two steps reruns it.
MIGRATIONS: Mapping[int, Callable[[Any], None]] = {0: _zero_to_one}
