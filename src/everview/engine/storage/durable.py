"""A database that outlives its process: a folder with a snapshot and a log of all that was done after it.

What changes a database (a batch, a definition) is in the log, on the disk, before anybody is told that it has happened.
Opening the folder loads the snapshot and does again what the log says, at the times that it says. A *checkpoint* writes
a new snapshot and begins a new log; it is made when the log has become larger than the snapshot, so that what is
written twice is a constant part of all.

The files of generation n are ``n.snapshot`` (none for 0: nothing was there) and ``n.log``. A generation counts from the
moment in which its snapshot has its name; those before it are deleted then.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from everview.engine.batch import KeyDeletion, Operation, Upsert, WeightedRows
from everview.engine.clock import moment_of
from everview.engine.direct.batch import GivenRows
from everview.engine.input.read import table_schema
from everview.engine.storage.log_file import LogFile
from everview.engine.storage.snapshot import load
from everview.engine.transaction import Transaction
from everview.engine.values.rows import joined, words_array
from everview.engine.values.words import from_words
from everview.errors import EverviewError, SnapshotError
from everview.query.catalogue import Queries
from everview.query.options import ViewOptions

if TYPE_CHECKING:
    from everview.engine.base_table import BaseTable
    from everview.engine.database import Database

LEAST_LOG_BYTES: Final = 16 << 20
"""A log that is no larger is never worth a new snapshot."""
_LOCK: Final = "lock"
_NAME: Final = re.compile(r"(\d+)\.(snapshot|log)")
_SIZE: Final = Struct("<Q")
_WEIGHT: Final = "copies"


class Durable:
    """The folder of a database."""

    def __init__(self, db: Database, path: str | os.PathLike[str]) -> None:
        """Open it, or make it: the database, which is empty, then holds what the folder says."""
        self._db = db
        self.path = os.path.abspath(path)
        self._lock = _locked(self.path)
        try:
            self._generation = max((n for n, kind in self._files() if kind == "snapshot"), default=0)
            self._snapshot_bytes = 0
            if self._generation:
                load(db.emptied, self._file("snapshot"))
                self._snapshot_bytes = os.path.getsize(self._file("snapshot"))
            self._log = self._opened()
            self._do_again()
            self._forget_others()
        except BaseException:
            os.close(self._lock)
            raise

    def write_batch(self, operations: Sequence[Operation], now: int) -> None:
        """Have a batch, which has gone well, on the disk."""
        parts = [_described(o, self._db._tables[o.table]) for o in operations]
        told = {"batch": [how for how, _ in parts], "now": now, "version": self._db.version + 1}
        self._append(told, [table for _, table in parts])

    def write_definition(self, said: Mapping[str, Any]) -> None:
        """Have a definition, which has gone well, on the disk; one about now() may have moved the clock."""
        self._append({"definition": said, "now": self._db._clock.now}, ())

    @property
    def is_due(self) -> bool:
        """True if the log has become so long that a checkpoint is worth its time."""
        return self._log.size > max(LEAST_LOG_BYTES, self._snapshot_bytes)

    def checkpoint(self) -> None:
        """Write a snapshot, and begin a new log. Whatever happens meanwhile, one generation is whole."""
        following = self._generation + 1
        self._db.save(self._file("snapshot", following))
        self._log.close()
        self._generation = following
        self._snapshot_bytes = os.path.getsize(self._file("snapshot"))
        self._log = self._opened()
        self._forget_others()

    def close(self) -> None:
        """Change nothing more; another process may open the folder."""
        self._log.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    # --- writing ---------------------------------------------------------------------------------------------------

    def _append(self, told: Mapping[str, Any], tables: Sequence[pa.Table]) -> None:
        text = json.dumps(told, separators=(",", ":")).encode()
        parts = [_SIZE.pack(len(text)), text]
        for table in tables:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as stream:
                stream.write_table(table)
            data = sink.getvalue()
            parts += [_SIZE.pack(data.size), data]
        self._log.append(b"".join(parts))

    # --- opening ---------------------------------------------------------------------------------------------------

    def _do_again(self) -> None:
        """Do what the log says, at the times that it says; a memory limit is for what comes after it."""
        limit, self._db.memory_limit = self._db.memory_limit, None
        clock = self._db._clock
        source = clock.source
        try:
            for number, record in enumerate(self._log.records()):
                try:
                    self._do(record)
                except EverviewError as error:
                    raise SnapshotError(
                        f"record {number + 1} of {self._file('log')} is refused: {error.message}",
                        hint="open it with the version of Everview that wrote it",
                    ) from error
        finally:
            self._db.memory_limit = limit
            clock.source = source

    def _do(self, record: bytes) -> None:
        (size,) = _SIZE.unpack_from(record)
        at = _SIZE.size + size
        told = json.loads(record[_SIZE.size : at])
        if "definition" in told:
            if told["now"] is not None:
                self._db._clock.source = lambda: moment_of(told["now"])
            self._define(told["definition"])
            return
        operations = []
        for how in told["batch"]:
            (size,) = _SIZE.unpack_from(record, at)
            at += _SIZE.size
            table = pa.ipc.open_stream(record[at : at + size]).read_all()  # A copy, which is aligned as Arrow wants it.
            at += size
            operations.append(_operation(how, table))
        Transaction(self._db).run(operations, to=moment_of(told["now"]))
        if self._db.version != told["version"]:
            raise SnapshotError(f"it makes version {self._db.version}, and it made {told['version']}")

    def _define(self, said: dict[str, Any]) -> None:
        db, language = self._db, said.pop("language")
        options = ViewOptions.from_data(said.pop("options", {}))
        ways: dict[str, Callable[..., object]] = {
            "sql": partial(db._script, queries=Queries.ANSWERED),
            "query": partial(db._query, options=options),
            "rules": partial(db._rules, options=options),
            "formula": partial(db._formula, options=options),
            "drop": db.drop,
        }
        ways[language](**said)

    # --- files -----------------------------------------------------------------------------------------------------

    def _file(self, kind: str, generation: int | None = None) -> str:
        number = self._generation if generation is None else generation
        return os.path.join(self.path, f"{number}.{kind}")

    def _files(self) -> list[tuple[int, str]]:
        found = map(_NAME.fullmatch, os.listdir(self.path))
        return [(int(match[1]), match[2]) for match in found if match]

    def _opened(self) -> LogFile:
        try:
            return LogFile(self._file("log"))
        except OSError as error:
            raise SnapshotError(f"cannot open {self._file('log')}: {error.strerror or error}") from error

    def _forget_others(self) -> None:
        """Delete what belongs to other generations, and what saving has left where it was ended."""
        for name in os.listdir(self.path):
            match = _NAME.fullmatch(name)
            is_old = match is not None and int(match[1]) != self._generation
            if is_old or name.endswith(".tmp"):
                with suppress(OSError):  # It is tried again when the folder is opened next.
                    os.unlink(os.path.join(self.path, name))


def _locked(path: str) -> int:
    """Take a folder, made if it is not there, for this process alone."""
    if os.path.isfile(path):
        raise SnapshotError(
            f"{path} is a file, and a durable database is a folder",
            hint="choose another path; a file that db.save has written is loaded by ev.Database.load(path)",
        )
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        others = [n for n in os.listdir(path) if n != _LOCK and not n.endswith(".tmp") and not _NAME.fullmatch(n)]
        if others:
            raise SnapshotError(
                f"{path} is no database of Everview's: it holds {others[0]}", hint="choose a new or an empty folder"
            )
        lock = os.open(os.path.join(path, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SnapshotError(f"cannot open {path}: {error.strerror or error}", hint="choose another folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise SnapshotError(
            f"the database {path} is open already, in this process or another",
            hint="close it there first: db.close(), or with ev.Database(path=…) as db: …",
        ) from error
    return lock


def _described(operation: Operation, base: BaseTable) -> tuple[dict[str, str], pa.Table]:
    """A step of a batch in words, and its rows."""
    how = {"table": operation.table}
    match operation:
        case Upsert():
            return how | {"how": "upsert"}, operation.data
        case KeyDeletion():
            return how | {"how": "keys"}, operation.keys
        case WeightedRows():
            data = operation.data
        case GivenRows():
            columns = zip(operation.rows.words(), base.types, strict=True)
            values = [from_words(words_array(words), type_, base.dictionary) for words, type_ in columns]
            data = pa.Table.from_arrays(values, schema=table_schema(base.schema))
        case _:
            raise AssertionError(f"{operation!r} is no step of a batch that the log knows")
    return how | {"how": "rows"}, data.append_column(_WEIGHT, operation.weight)


def _operation(how: Mapping[str, str], table: pa.Table) -> Operation:
    """The step of a batch that was described."""
    if how["how"] == "upsert":
        return Upsert(how["table"], table)
    if how["how"] == "keys":
        return KeyDeletion(how["table"], table)
    weight = joined(table.column(table.num_columns - 1))
    return WeightedRows(how["table"], table.remove_column(table.num_columns - 1), weight)
