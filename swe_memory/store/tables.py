"""The LanceDB side of a bank: connect, create, migrate, append, read. Nothing here knows what a commit means."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from swe_memory.errors import BankError, UsageError
from swe_memory.store import schema

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

# "Retryable commit conflict", "Too many concurrent writers", a compaction that met an append: LanceDB says to try again.
_CONFLICTS = ("conflict", "concurrent", "retryable")
# What making a table says where another process makes the same one at this moment.
_HALF_MADE = ("not found", "already exists")
_ATTEMPTS = 60


def storage_options(environ: Mapping[str, str] = os.environ) -> dict[str, str] | None:
    """Options for object stores from the environment: SWE_MEMORY_STORAGE_ENDPOINT=... becomes {"endpoint": ...}.

    The stores' own variables (AWS_ACCESS_KEY_ID, GOOGLE_..., AZURE_...) are read by LanceDB itself.
    """
    prefix = "SWE_MEMORY_STORAGE_"
    found = {name[len(prefix) :].lower(): value for name, value in environ.items() if name.startswith(prefix)}
    return found or None


def retrying(what: str, action: Callable[[], T], also: tuple[str, ...] = ()) -> T:
    """Run ``action`` again while LanceDB reports a conflict with another writer; or one of ``also``; other failures become :class:`BankError`."""
    for attempt in range(_ATTEMPTS):
        try:
            return action()
        except (RuntimeError, OSError, ValueError) as error:
            message = str(error)
            if attempt + 1 < _ATTEMPTS and any(word in message.lower() for word in (*_CONFLICTS, *also)):
                # Only the waiting time is random, never a result.
                time.sleep(random.uniform(0.005, 0.03) * min(attempt + 1, 10))
                continue
            raise bank_error(what, error) from error
    raise AssertionError("unreachable")


_DAMAGED = (
    "`swe-memory bank check` says what is damaged; `swe-memory bank export` writes what can still be read, for import into a new bank."
)
# The log and the layout version say what the rows mean.
NO_WAY_IN = (
    "Check the path and try again. If the bank is damaged: without this nobody can tell what counts; use a backup, or import an export."
)


def bank_error(what: str, error: Exception) -> BankError:
    """A LanceDB failure in words a user can act on."""
    text = " ".join(str(error).split())[:300]
    low = text.lower()
    if any(word in low for word in ("permission denied", "read-only file system", "operation not permitted")):
        return BankError(
            f"{what}: no permission to write there ({text})", "Open it with read_only=True, or choose a folder you may write to."
        )
    if "no space left" in low:
        return BankError(f"{what}: the disk is full", "Free some space and run the command again; nothing acknowledged was lost.")
    unknown = what.startswith("cannot open") or any(f" {name} of the bank" in what for name in (schema.COMMITS, schema.META))
    return BankError(f"{what}: {text}", NO_WAY_IN if unknown else _DAMAGED)


@contextmanager
def guarding(what: str) -> Iterator[None]:
    """Turn LanceDB's exceptions into :class:`BankError`."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as error:
        raise bank_error(what, error) from error


class Tables:
    """The open tables of one bank. ``uri`` is a folder or an object-store address that LanceDB understands."""

    def __init__(self, uri: str | Path, *, create: bool, read_only: bool) -> None:
        self.uri = str(uri)
        self.read_only = read_only
        self.remote = "://" in self.uri
        self._open: dict[str, Any] = {}
        self._salvaging = threading.local()  # another thread that recalls or learns meanwhile must not take a part for the whole
        existed = self.remote or self._check_folder(Path(self.uri), create and not read_only)
        with guarding(f"cannot open the bank {self.uri}"):
            import lancedb

            # Interval 0: every read looks for other processes' commits first.
            self.db = lancedb.connect(self.uri, read_consistency_interval=timedelta(0), storage_options=storage_options())
            names = set(self._names())
        # The folder of a table that another process is making is listed before the table can be opened.
        self.exists = schema.META in names and self._opens(schema.META)
        strangers = sorted(name for name in names if not schema.is_ours(name))
        if strangers and not self.exists:
            raise BankError(
                f"{self.uri} is a LanceDB database, but not a bank: it holds {', '.join(strangers[:3])}",
                "Give the bank a folder of its own.",
            )
        if not self.exists and (not create or read_only):
            why = "there is nothing" if not existed or not names else "its creation was interrupted"
            raise BankError(f"no bank at {self.uri}: {why}", "Run `swe-memory learn FOLDER --bank PATH` to make one, or check the path.")

    def _opens(self, name: str) -> bool:
        try:
            self._open[name] = self.db.open_table(name)
        except ValueError as error:
            if "not found" in str(error):
                return False
            raise bank_error(f"cannot open the bank {self.uri}", error) from error
        return True

    @staticmethod
    def _check_folder(path: Path, create: bool) -> bool:
        if path.is_file():
            raise UsageError(f"the bank path {path} is a file", "A bank is a folder: give the path of a folder, existing or new.")
        if path.is_dir():
            # A folder with other things in it, and nothing of LanceDB's, is more likely a mistyped path than a place for a bank.
            inside = [entry.name for entry in path.iterdir()]
            if inside and not any(name.endswith(".lance") for name in inside):
                raise UsageError(f"{path} is not a bank: it holds {', '.join(sorted(inside)[:3])}", "Give the bank a folder of its own.")
            return True
        if not create:
            raise BankError(f"no bank at {path}", "Run `swe-memory learn FOLDER --bank PATH` to make one, or check the path.")
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise bank_error(f"cannot create the bank {path}", error) from error
        return True

    def create(self, at: datetime) -> None:
        """Make the tables whose columns are always the same. Harmless when another process does the same; ``meta`` comes last."""

        def make() -> None:
            import pyarrow as pa

            self.db.create_table(schema.COMMITS, schema=schema.commits_schema(), exist_ok=True)
            self.db.create_table(schema.USES, schema=schema.uses_schema(), exist_ok=True)
            first = pa.Table.from_pylist(
                [{"name": "schema", "value": schema.SCHEMA_VERSION, "at": at.isoformat()}], schema=schema.meta_schema()
            )
            self.db.create_table(schema.META, data=first, exist_ok=True)

        retrying(f"cannot create the bank {self.uri}", make, _HALF_MADE)
        self.exists = True

    def create_generation(self, generation: int, dimension: int, *, at: datetime, exclusive: bool = False) -> bool:
        """Make the experiences and items tables of one generation. ``exclusive``: False is returned, and nothing done, where they exist."""
        experiences, items = schema.experiences_table(generation), schema.items_table(generation)
        if exclusive and {experiences, items} & set(self.names()):
            return False
        if exclusive:
            # Says how old the tables are, should the work on them be cut short.
            self.append(schema.META, [{"name": f"generation_{generation}", "value": generation, "at": at.isoformat()}])
        made = True

        def make() -> None:
            nonlocal made
            stable = self._stable_rows()
            try:
                self.db.create_table(
                    experiences, schema=schema.experiences_schema(dimension), exist_ok=not exclusive, storage_options=stable
                )
            except ValueError as error:
                if exclusive and "already exists" in str(error):
                    made = False
                    return
                raise
            self.db.create_table(items, schema=schema.items_schema(dimension), exist_ok=True, storage_options=stable)

        retrying(f"cannot create tables in the bank {self.uri}", make, () if exclusive else _HALF_MADE)
        return made

    def migrate(self, at: datetime) -> None:
        """Bring an older layout up to date, one version at a time.

        Raises:
            BankError: the bank is of a newer version, or older and opened read-only.
        """
        version = max((row["value"] for row in self.rows(schema.META, "name = 'schema'")), default=0)
        if version > schema.SCHEMA_VERSION:
            raise BankError(
                f"the bank {self.uri} has layout version {version}; this program knows versions up to {schema.SCHEMA_VERSION}",
                "Upgrade swe-memory (pip install -U swe-memory).",
            )
        if version < schema.SCHEMA_VERSION and self.read_only:
            raise BankError(
                f"the bank {self.uri} has the older layout version {version}", "Open it once for writing to bring it up to date."
            )
        while version < schema.SCHEMA_VERSION:
            with guarding(f"cannot bring the bank {self.uri} from layout version {version} to {version + 1}"):
                schema.MIGRATIONS[version](self.db)
            version += 1
            self._open.clear()
            self.append(schema.META, [{"name": "schema", "value": version, "at": at.isoformat()}])

    def names(self) -> list[str]:
        """All tables, sorted."""
        with guarding(f"cannot read the bank {self.uri}"):
            return sorted(self._names())

    @staticmethod
    def _stable_rows() -> dict[str, str]:
        # Row ids that outlive compaction: a row seen once is then read again in 2 ms instead of a scan of 12 (33,000 experiences).
        return {**(storage_options() or {}), "new_table_enable_stable_row_ids": "true"}

    def _names(self) -> list[str]:
        found: list[str] = []
        page = None
        while True:
            answer = self.db.list_tables(page_token=page)
            found += answer.tables
            page = answer.page_token
            if not page or not answer.tables:
                return found

    def table(self, name: str) -> Any:
        """An open handle; opened once."""
        if name not in self._open:
            with guarding(f"cannot read {name} of the bank {self.uri}"):
                self._open[name] = self.db.open_table(name)
        return self._open[name]

    def append(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows; they stay invisible until their transaction is committed."""
        if not rows:
            return
        what = f"cannot write to {name} of the bank {self.uri}"
        table, data = self._data(name, rows, what)
        retrying(what, lambda: table.add(data))

    def _data(self, name: str, rows: Sequence[Mapping[str, Any]], what: str) -> tuple[Any, pa.Table]:
        """The table and the rows as it wants them. BankError where it is not there any more, or a value is none that a column can hold."""
        import pyarrow as pa

        table = self.table(name)
        with guarding(what):
            columns = table.schema
            try:
                return table, pa.Table.from_pylist([dict(row) for row in rows], schema=columns)
            except (OverflowError, TypeError, ValueError) as error:  # a number of 2^63, half a character, a date for a text
                raise BankError(f"{what}: a value cannot be stored ({str(error)[:200]})", "Nothing of this was written.") from error

    def version(self, name: str) -> int:
        """LanceDB's number for what the table is now: any process's write changes it. Asking costs .2 ms, reading no row at all 3."""
        table = self.table(name)
        return retrying(f"cannot read {name} of the bank {self.uri}", lambda: int(table.version))

    def read(self, name: str, where: str = "", columns: Sequence[str] | None = None) -> pa.Table:
        """Rows that fulfil the SQL condition ``where``, in no particular order. Within :meth:`salvaging`, those of them that can be read."""
        unreadable: dict[str, int] | None = getattr(self._salvaging, "unreadable", None)
        if unreadable is not None and columns is not None and not where:
            return self._salvage(name, columns, unreadable)
        return self._read(name, where, columns)

    def _read(self, name: str, where: str, columns: Sequence[str] | None) -> pa.Table:
        table = self.table(name)

        def run() -> pa.Table:
            query = table.search()
            if where:
                query = query.where(where)
            if columns is not None:
                query = query.select(list(columns))
            return query.to_arrow()

        return retrying(f"cannot read {name} of the bank {self.uri}", run)

    def read_all(self, name: str) -> None:
        """Read every column of every row, keeping nothing, so that :meth:`salvaging` knows of damage in any of them."""
        columns = ["txn"]
        try:
            with guarding(f"cannot read {name} of the bank {self.uri}"):
                columns = self.table(name).schema.names
            for _ in self.batches(name, "", columns):
                pass
        except BankError:
            self.read(name, "", columns)

    @contextmanager
    def salvaging(self) -> Iterator[dict[str, int]]:
        """While it lasts, reading whole columns gives the rows that can be read. By table: how many cannot (0: nobody can tell);
        filled in as tables are read."""
        unreadable: dict[str, int] = {}
        self._salvaging.unreadable = unreadable
        try:
            yield unreadable
        finally:
            self._salvaging.unreadable = None

    def _salvage(self, name: str, columns: Sequence[str], unreadable: dict[str, int]) -> pa.Table:
        import pyarrow as pa

        try:
            return self._read(name, "", columns)
        except BankError:
            pass
        try:
            table = self.table(name)
            count = retrying(f"cannot read {name} of the bank {self.uri}", table.count_rows)
        except BankError:
            unreadable.setdefault(name, 0)
            return pa.table({column: [] for column in columns})
        found: list[pa.Table] = []
        bad = 0
        # One file holds many rows, and one bad file makes reading all fail: halves of what fails, until what is bad is alone.
        waiting = [range(start, min(start + 1024, count)) for start in range(0, count, 1024)]
        while waiting:
            part = waiting.pop()
            try:
                found.append(table.take_offsets(list(part)).select(list(columns)).to_arrow())
            except (RuntimeError, OSError, ValueError):
                if len(part) == 1:
                    bad += 1
                else:
                    waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
        unreadable[name] = max(bad, unreadable.get(name, 0))
        return pa.concat_tables(found) if found else pa.table({column: [] for column in columns})

    def drop(self, name: str) -> None:
        """Remove a whole table; nothing happens where another process already did."""
        self._open.pop(name, None)
        with guarding(f"cannot remove {name} from the bank {self.uri}"):
            self.db.drop_table(name, ignore_missing=True)

    def batches(self, name: str, where: str, columns: Sequence[str], size: int = 4096) -> Iterator[pa.RecordBatch]:
        """:meth:`read` in pieces, with the column ``_rowid``."""
        table = self.table(name)

        def run() -> Iterator[pa.RecordBatch]:
            query = table.search().with_row_id(True).select(list(columns))
            return iter((query.where(where) if where else query).to_batches(size))

        what = f"cannot read {name} of the bank {self.uri}"
        reader = retrying(what, run)
        while True:
            with guarding(what):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch

    def take(self, name: str, row_ids: Sequence[int], columns: Sequence[str]) -> list[dict[str, Any]]:
        """The rows with these ids, with ``_rowid``, in no particular order; ids that are not there (any more) are left out."""
        if not row_ids:
            return []
        table = self.table(name)
        found: list[dict[str, Any]] = retrying(
            f"cannot read {name} of the bank {self.uri}",
            lambda: table.take_row_ids(list(row_ids)).select(list(columns)).with_row_id().to_arrow().to_pylist(),
        )
        return found

    def rows(self, name: str, where: str = "", columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """:meth:`read` as dicts."""
        found: list[dict[str, Any]] = self.read(name, where, columns).to_pylist()
        return found

    def claim(self, row: Mapping[str, Any]) -> None:
        """Insert one row of ``commits`` unless its ``seq`` is taken. Who was first is seen by reading the log, also where an answer was lost.

        Two processes may try the same number at once: the table's primary key makes LanceDB detect that, and ``use_index(False)`` keeps the
        detection complete (measured: 0 duplicates of 100 by 4 processes).
        """
        what = f"cannot commit to the bank {self.uri}"
        table, data = self._data(schema.COMMITS, [row], what)
        retrying(
            what,
            lambda: table.merge_insert("seq").when_not_matched_insert_all().use_index(False).execute(data),
        )

    def close(self) -> None:
        """Let go of the tables; the object is not usable afterwards."""
        self._open.clear()


def quoted(values: Sequence[str]) -> str:
    """A SQL list of string literals."""
    return "(" + ", ".join("'" + value.replace("'", "''") + "'" for value in values) + ")"
