"""A Delta table's change feed as a Spark stream, read by the ``deltalake`` package: no jars are needed.

An offset is a version of the table. The first batch has the table's rows as of the version at which the query began,
as inserts, unless an option says from which version on changes are wanted; later ones have the change data feed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles
from pyspark.sql.types import StructType

from everview.errors import PipelineError
from everview.redaction import learn_option, learn_url, scrubbed

NAME: Final = "everview_delta"
STARTING: Final = "startingVersion"
MOST: Final = "maxVersionsPerTrigger"
OPTIONS: Final = ("path", STARTING, MOST)
"""The options of our own; all others go to deltalake, which opens the table with them (keys of object stores)."""
CHANGE_TYPE: Final = "_change_type"
_VERSION, _SNAPSHOT = "version", "snapshot"
_PARTITIONS: Final = 16


def opened(path: str, *, changes: bool, storage: dict[str, str] | None = None) -> Any:
    """The Delta table at a path; an error if there is none, or if it keeps no change feed and one is wanted."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError
    except ImportError as error:
        raise PipelineError(
            f"the package deltalake is needed for Delta tables: {error}", hint="pip install 'everview[delta]'"
        ) from error
    learn_url(path)
    for name, value in (storage or {}).items():
        learn_option(name, value)
    try:
        table = DeltaTable(path, storage_options=storage or None)
    except TableNotFoundError as error:
        raise PipelineError(
            f"there is no Delta table at {path}", hint="create it before the pipeline starts"
        ) from scrubbed(error)
    except DeltaError as error:
        raise PipelineError(f"the Delta table at {path} cannot be read: {error}") from scrubbed(error)
    enabled = table.metadata().configuration.get("delta.enableChangeDataFeed", "false")
    if changes and str(enabled).lower() != "true":
        raise PipelineError(
            f"the Delta table at {path} keeps no change feed",
            hint="set its property delta.enableChangeDataFeed=true, or read it once: streaming: false",
        )
    return table


class DeltaChanges(DataSource):
    """The Spark data source; its columns are given by whoever reads, ``_change_type`` among them for a stream."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.table = _Table(options["path"], storage_of(options))
        self.starting = options.get(STARTING)
        self.most = int(options.get(MOST) or 0)

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return NAME

    def reader(self, schema: StructType) -> DataSourceReader:
        """The rows as they are now."""
        return _Once(self.table, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The changes."""
        return _Stream(self.table, schema, self.starting, self.most)


def storage_of(options: Mapping[str, str]) -> dict[str, str]:
    """Those of a source's options that deltalake opens the table with."""
    return {k: v for k, v in options.items() if k.lower() not in _LOWER}


_LOWER: Final = frozenset(o.lower() for o in OPTIONS)


@dataclass(frozen=True)
class _Table:
    """Where a table is; what a worker needs to read it."""

    path: str
    storage: dict[str, str]

    def open(self, *, changes: bool) -> Any:
        return opened(self.path, changes=changes, storage=self.storage)

    def rows(self, version: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The rows as of a version, as inserts if the schema has a ``_change_type``."""
        table = self.open(changes=False)
        table.load_as_version(version)
        names = [n for n in schema.names if n != CHANGE_TYPE]
        for batch in table.to_pyarrow_table(columns=names).to_batches():
            columns = {n: batch.column(n) for n in names}
            columns[CHANGE_TYPE] = pa.repeat(pa.scalar("insert"), batch.num_rows)
            yield _shaped(columns, schema)

    def changes(self, first: int, last: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """The changes of some versions."""
        found = self.open(changes=True).load_cdf(starting_version=first, ending_version=last)
        for batch in pa.RecordBatchReader.from_stream(found):
            yield _shaped({n: batch.column(n) for n in schema.names}, schema)


class _Rows(InputPartition):
    """The table's rows as of a version."""

    def __init__(self, version: int) -> None:
        super().__init__(version)


class _Changes(InputPartition):
    """The changes of a range of versions."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__((first, last))


class _Once(DataSourceReader):
    def __init__(self, table: _Table, schema: StructType) -> None:
        self.table = table
        self.schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [_Rows(self.table.open(changes=False).version())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from self.table.rows(partition.value, _arrow(self.schema))


class _Stream(DataSourceStreamReader):
    def __init__(self, table: _Table, schema: StructType, starting: str | None, most: int) -> None:
        self.table = table
        self.schema = schema
        self.starting = starting
        self.most = most

    def initialOffset(self) -> dict[str, int]:
        if self.starting is None:
            return {_VERSION: -1, _SNAPSHOT: 1}
        if self.starting == "latest":
            return {_VERSION: self.table.open(changes=True).version(), _SNAPSHOT: 0}
        return {_VERSION: int(self.starting) - 1, _SNAPSHOT: 0}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxFiles(self.most) if self.most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        newest = int(self.table.open(changes=True).version())
        if newest <= start[_VERSION]:
            return start
        if self.most and not start[_SNAPSHOT] and not isinstance(limit, ReadAllAvailable):
            newest = min(newest, start[_VERSION] + self.most)
        return {_VERSION: newest, _SNAPSHOT: 0}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if end[_VERSION] <= start[_VERSION]:
            return []
        if start[_SNAPSHOT]:
            return [_Rows(end[_VERSION])]
        first, last = start[_VERSION] + 1, end[_VERSION]
        size = -(-(last - first + 1) // _PARTITIONS)
        return [_Changes(at, min(at + size - 1, last)) for at in range(first, last + 1, size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        schema = _arrow(self.schema)
        if isinstance(partition, _Rows):
            yield from self.table.rows(partition.value, schema)
        else:
            first, last = partition.value
            yield from self.table.changes(first, last, schema)


def _shaped(columns: dict[str, pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[f.name].cast(f.type) for f in schema], schema=schema)


def _arrow(schema: StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
