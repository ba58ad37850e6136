"""A Delta table, written with the ``deltalake`` package: no jars, one commit a batch.

Delta has no row ids, and MERGE cannot take away one of two equal rows. So the rows are in files by ranges of hashes, as
in a Parquet target (``buckets``), and a batch's commit removes the files it rewrote and adds the new ones. The
table has the view's columns and rows and nothing else, copies included, for every reader of Delta. The commit carries
the batch's number as Delta's own application transaction; a new table begins with number -1.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from everview.errors import TargetError
from everview.redaction import learn_option, learn_url, redact, scrubbed
from everview.spark.targets.base import CHANGE_FIELDS, Batch, Progress, Target, package, to_spark
from everview.spark.targets.buckets import BUCKET_ROWS, File, Outcome, apply, is_bucket
from everview.spark.targets.removal import entries, remove_files, remove_folder, tell_what_stays
from everview.spark.targets.rows import tidy

_APP = "everview/"
_ABOUT = "kept by everview, query "
_LOG = "_delta_log"
_LOG_FILE = re.compile(
    r"\.?(?:(\d{20})\.(?:json|crc|checkpoint(?:\.[\w.-]+)?\.(?:parquet|json))(?:\.crc)?"
    r"|_last_checkpoint|_commit_[\w-]+\.json\.tmp)"
)
"""What Delta's writers put into a table's log: commits and checkpoints by their version, and the name of the last."""
_APPENDED = re.compile(r"\d{20}-[0-9a-f]{16}\.parquet")


class DeltaTarget(Target):
    """A view's rows as a Delta table at ``path``, a folder or a URL that ``deltalake`` knows.

    With ``history`` the table is not the view but its feed: every change is appended as it is, with ``_change_type``,
    ``_commit_version`` and ``_count``. Old files stay for time travel until you ``vacuum``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        history: bool = False,
        bucket_rows: int = BUCKET_ROWS,
        storage_options: dict[str, str] | None = None,
    ) -> None:
        self.path = os.fspath(path)
        self.name = redact(f"the Delta target {self.path}")
        if bucket_rows < 1:
            raise TargetError(f"{self.name}: bucket_rows is at least 1, not {bucket_rows}")
        self._history = history
        self._bucket_rows = bucket_rows
        self._options = storage_options
        learn_url(self.path)
        for name, value in (storage_options or {}).items():
            learn_option(name, value)
        self._delta = package("deltalake", "delta")

    # --- reading ---

    def read_arrow(self) -> pa.Table:
        """The rows as of the last batch; with ``history``, all changes so far."""
        table = self._there()
        schema, store = _schema(table), self._store(table, _schema(table))
        return pa.concat_tables([schema.empty_table(), *(store.read(f.name) for f in _files(table))])

    def read(self, spark: Any) -> Any:
        """The rows as of the last batch, as a Spark DataFrame: the files of one version, read without Delta's jars."""
        table = self._there()
        files = table.file_uris()
        if files:
            return spark.read.parquet(*files)
        return to_spark(spark, _schema(table).empty_table())

    def progress(self) -> Progress | None:
        """Who writes the target and how far it has come."""
        table = self._table()
        return None if table is None else self._progress(table)

    def check(self, schema: pa.Schema) -> None:
        """Refuse a view that this target cannot take."""
        table, schema = self._table(), self._columns(schema)
        if table is not None:
            self._progress(table)
            self.same_schema(_schema(table), schema)

    def _columns(self, schema: pa.Schema) -> pa.Schema:
        schema = self.canonical(schema)
        return pa.schema([*schema, *CHANGE_FIELDS]) if self._history else schema

    def _table(self) -> Any:
        try:
            return self._delta.DeltaTable(self.path, storage_options=self._options)
        except self._delta.exceptions.TableNotFoundError:
            return None
        except (self._delta.exceptions.DeltaError, OSError) as error:
            raise self._refused(error) from scrubbed(error)

    def _there(self) -> Any:
        table = self._table()
        if table is None:
            raise TargetError(f"{self.name} has not taken a batch yet", hint="wait for the query's first batch")
        return table

    def _progress(self, table: Any) -> Progress:
        """The owner is in the table's description; the owner's transaction says how far it has come."""
        owner = (table.metadata().description or "").removeprefix(_ABOUT)
        batch = table.transaction_version(_APP + owner)
        if batch is None:
            raise TargetError(
                f"{self.name} is there, and was not made by materialize, or its description was changed",
                hint="name a path where nothing is",
            )
        return Progress(owner, batch)

    def _refused(self, error: Exception) -> TargetError:
        return TargetError(
            f"{self.name} cannot be read or written: {error}",
            hint="see to it, and start the query again: it goes on with this batch",
        )

    # --- writing ---

    def write(self, batch: Batch) -> bool:
        """Take a batch in one commit; the first one comes after a commit that makes the table."""
        try:
            return self._write(batch)
        except (self._delta.exceptions.DeltaError, OSError) as error:
            raise self._refused(error) from scrubbed(error)

    def _write(self, batch: Batch) -> bool:
        self.check(batch.schema)
        schema = self._columns(batch.schema)
        table = self._table()
        if not self.is_due(self._progress(table) if table is not None else None, batch):
            return False
        if table is None:
            table = self._create(schema, batch.owner)
        files = {f.name: f for f in _files(table)}
        store = self._store(table, schema)
        if self._history:
            outcome = _appended(batch, schema, store)
        else:
            clean = Batch(batch.id, batch.owner, schema, batch.rows, batch.chunks)
            outcome = apply(list(files.values()), clean, store, self.name, self._bucket_rows)
        self._commit(table, batch, schema, store, outcome)
        return True

    def _create(self, schema: pa.Schema, owner: str) -> Any:
        return self._delta.DeltaTable.create(
            self.path,
            schema=schema,
            description=_ABOUT + owner,
            storage_options=self._options,
            commit_properties=self._properties(owner, -1),
        )

    def _properties(self, owner: str, batch: int) -> Any:
        """Without retries: a commit that came in between may be another writer of the same batch."""
        transaction = self._delta.Transaction(_APP + owner, batch)
        return self._delta.CommitProperties(app_transactions=[transaction], max_commit_retries=0)

    def _commit(self, table: Any, batch: Batch, schema: pa.Schema, store: _Storage, outcome: Outcome) -> None:
        actions = package("deltalake.transaction", "delta")
        now = time.time_ns() // 1_000_000
        changes = [
            actions.AddAction(f.name, store.size(f.name), {}, now, True, json.dumps({"numRecords": f.rows}))
            for f in outcome.added
        ]
        changes += [actions.RemoveAction(f.name, True, now) for f in outcome.removed]
        table.create_write_transaction(
            changes, "append", schema, commit_properties=self._properties(batch.owner, batch.id)
        )

    def _store(self, table: Any, schema: pa.Schema) -> _Storage:
        handler = package("deltalake.fs", "delta").DeltaStorageHandler.from_table(table._table)
        return _Storage(pa.fs.PyFileSystem(handler), schema)

    def drop(self) -> None:
        """Remove the table's files and log, and its folder if nothing else is in it; what others have put there stays,
        said in the log. An object store's files are for its own tools."""
        table = self._table()
        if table is None:
            return
        if "://" in self.path and not self.path.startswith("file://"):
            raise TargetError(f"{self.name} is not on a file system", hint="remove it with the object store's tools")
        self._progress(table)
        is_url = self.path.startswith("file://")
        folder = Path(url2pathname(urlsplit(self.path).path) if is_url else self.path)
        try:
            gone = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=True)
            known = {f.name for f in _files(table)} | {name for name in gone if "/" not in name}
            own = (p for p in entries(folder) if p.name in known or is_bucket(p.name) or _APPENDED.fullmatch(p.name))
            remove_files(own)
            # The oldest commit goes last: until then it is a table that can be dropped.
            remove_files(sorted(filter(_is_log, entries(folder / _LOG)), key=lambda p: p.name, reverse=True))
            remove_folder(folder / _LOG)
            if not remove_folder(folder):
                tell_what_stays(self.name, folder)
        except (self._delta.exceptions.DeltaError, OSError) as error:
            raise self._refused(error) from scrubbed(error)


def _is_log(path: Path) -> bool:
    return _LOG_FILE.fullmatch(path.name) is not None


def _schema(table: Any) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _files(table: Any) -> list[File]:
    """The files of a table's version, with their rows (0 where another writer has left that out)."""
    found = pa.table(table.get_add_actions())
    rows = found["num_records"].to_pylist() if "num_records" in found.column_names else [0] * found.num_rows
    return [File(name, count or 0) for name, count in zip(found["path"].to_pylist(), rows, strict=True)]


def _appended(batch: Batch, schema: pa.Schema, store: _Storage) -> Outcome:
    """The feed as it is, in one file."""
    rows = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal rows
        for chunk in batch.chunks():
            rows += chunk.num_rows
            yield pa.table([tidy(chunk.column(f.name), f.type) for f in schema], schema=schema)

    name = f"{batch.id:020d}-{token_hex(8)}.parquet"
    store.write(name, tables())
    return Outcome([File(name, rows)] if rows else [], [])


class _Storage:
    """The table's folder, wherever it is."""

    def __init__(self, system: Any, schema: pa.Schema) -> None:
        self._system = system
        self._schema = schema

    def read(self, name: str) -> pa.Table:
        with self._system.open_input_file(name) as file:
            return pq.read_table(file).select(self._schema.names).cast(self._schema)

    def write(self, name: str, tables: Iterator[pa.Table]) -> None:
        with (
            self._system.open_output_stream(name) as file,
            pq.ParquetWriter(file, self._schema, compression="zstd") as writer,
        ):
            for table in tables:
                writer.write_table(table)

    def size(self, name: str) -> int:
        return int(self._system.get_file_info(name).size)
