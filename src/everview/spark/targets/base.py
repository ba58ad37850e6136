"""What a target is: a table that takes a view's changes batch by batch, each once, all of it or nothing.

Every target records with its rows, in the same atomic step, which query writes it and the last batch it took. That
makes a replayed batch nothing to do, and another query's batch, or one that does not follow, an error.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import pyarrow as pa

from everview.errors import TargetError

CHANGE_TYPE, COMMIT_VERSION, COUNT = "_change_type", "_commit_version", "_count"
CHANGE_FIELDS: Final = (
    pa.field(CHANGE_TYPE, pa.string()),
    pa.field(COMMIT_VERSION, pa.int64()),
    pa.field(COUNT, pa.int64()),
)

_PLAIN: Final = frozenset(
    [
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.float32(), pa.float64()),
        *(pa.string(), pa.binary(), pa.date32(), pa.timestamp("us")),
    ]
)
_SAME: Final = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one view in one micro-batch.

    ``schema`` has the view's columns; ``chunks`` gives, each time it is called, record batches of them followed by
    ``_change_type``, ``_commit_version`` and ``_count``, about ``rows`` rows in all. ``owner`` names the query and the
    view whose changes they are, the same after a restart.
    """

    id: int
    owner: str
    schema: pa.Schema
    rows: int
    chunks: Callable[[], Iterator[pa.RecordBatch]]
    first: int = 0
    """The batch with which the view begins: all of it is among its changes, and nothing may be there before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a target records: who writes it, and the last batch it took (-1 before the first)."""

    owner: str
    batch: int


class Target(ABC):
    """A table that is kept equal to a view. ``name`` is what errors call it."""

    name: str

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Refuse a view with these columns if the target, as it is now, cannot take it."""

    @abstractmethod
    def write(self, batch: Batch) -> bool:
        """Take a batch, all of it or nothing; False if it was taken before and there was nothing to do."""

    @abstractmethod
    def progress(self) -> Progress | None:
        """Who writes the target and how far it has come; None if it is not there."""

    @abstractmethod
    def read_arrow(self) -> pa.Table:
        """The rows as of the last batch, each as often as the view has it."""

    @abstractmethod
    def drop(self) -> None:
        """Remove the target and what is recorded of it; nothing happens if it is not there."""

    def is_due(self, progress: Progress | None, batch: Batch) -> bool:
        """Whether a batch is the one to take next; False for a replay, an error for any other."""
        if progress is None:
            if batch.id != batch.first:
                raise TargetError(
                    f"{self.name} wants batch {batch.first} next, and this is batch {batch.id}",
                    hint="the target is new, and the checkpoint is not: begin with a new checkpoint",
                )
            return True
        if progress.owner != batch.owner:
            if batch.first and progress.owner.partition("@")[0] == batch.owner.partition("@")[0]:
                raise another_view(self, progress, batch.first)
            raise TargetError(
                f"{self.name} is written by another query ({progress.owner}); this one is {batch.owner}",
                hint="give materialize the checkpoint the target was begun with, or another target, or drop() this one",
            )
        if batch.id == progress.batch:
            return False
        if batch.id < progress.batch:
            raise TargetError(
                f"{self.name} has taken batch {progress.batch} already, and this is batch {batch.id}",
                hint="the checkpoint is older than the target: drop() the target, and begin with a new checkpoint",
            )
        if batch.first and progress.batch < batch.first:
            raise another_view(self, progress, batch.first)
        if batch.id > progress.batch + 1:
            raise TargetError(
                f"{self.name} wants batch {progress.batch + 1} next, and this is batch {batch.id}",
                hint="the target is new, or older than the checkpoint: drop() it, and begin with a new checkpoint",
            )
        return True

    def canonical(self, schema: pa.Schema) -> pa.Schema:
        """The columns with one type for each of Spark's, whatever Spark's Arrow settings are; else an error."""
        return pa.schema([pa.field(f.name, self._canonical(f)) for f in schema])

    def _canonical(self, field: pa.Field) -> pa.DataType:
        type_ = _SAME.get(field.type, field.type)
        if pa.types.is_timestamp(type_) and type_.tz is not None:
            return pa.timestamp("us", tz="UTC")
        if type_ in _PLAIN or pa.types.is_decimal128(type_):
            return type_
        raise TargetError(
            f"{self.name} cannot keep the column {field.name} of type {type_}",
            column=field.name,
            hint="CAST it in the view to a type that tables can have",
        )

    def same_schema(self, there: pa.Schema, schema: pa.Schema) -> None:
        """Refuse a target whose columns are not the view's."""
        if list(zip(there.names, there.types, strict=True)) != list(zip(schema.names, schema.types, strict=True)):
            raise TargetError(
                f"{self.name} has the columns ({_listed(there)}), but the view has ({_listed(schema)})",
                hint="a view that was changed needs a new target and a new checkpoint, or drop() this one",
            )


def another_view(target: Target, progress: Progress, first: int) -> TargetError:
    """The error of a target that holds what was before its view took over the checkpoint."""
    return TargetError(
        f"{target.name} holds the view of before, up to batch {progress.batch}; the new one begins with batch {first}",
        hint="a view that takes over a checkpoint (migrate) needs a new target, or drop() this one",
    )


def _listed(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def to_spark(spark: Any, table: pa.Table) -> Any:
    """A table as a DataFrame of the same types: without a schema, Spark would take local times for instants."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return spark.createDataFrame(table, schema=from_arrow_schema(table.schema, prefer_timestamp_ntz=True))


def package(name: str, extra: str) -> Any:
    """An optional package, or an error that says how to install it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise TargetError(
            f"the package {name.split('.', maxsplit=1)[0]} is needed for this target, and cannot be imported: {error}",
            hint=f"pip install 'everview[{extra}]'",
        ) from error
