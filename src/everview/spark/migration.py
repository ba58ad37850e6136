"""Out of an old checkpoint: the tables' rows as of its last batch, and how far its sources were read.

A checkpoint belongs to its views, tables and shards. When the tables' columns or the shards change, the rows that it
holds start a new one (``maintain(..., initial=saved_tables(spark, checkpoint))``), and the sources go on from where the
old query stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from everview.engine.words import data_type
from everview.errors import PipelineError
from everview.plan.shards import MASK
from everview.spark.blobs import WEIGHT, read_blob
from everview.spark.identity import Identity
from everview.spark.session import need_rocksdb
from everview.spark.state import META_KEY, SHARDS, VARIABLE, Meta
from everview.spark.types import COUNT, spark_type

_COMPACT: Final = ".compact"
"""How Spark ends the names of a log's entries that hold those before them."""


def saved_tables(spark: SparkSession, checkpoint: str) -> dict[str, DataFrame]:
    """The rows of every table that a checkpoint's query reads, with ``_count`` copies, as of its last batch.

    A table has the columns that the old views read; those that a new view needs beside them are not there.
    """
    need_rocksdb(spark)
    shards = _shards(spark, checkpoint)
    if not shards:
        raise PipelineError(f"there is no state in {checkpoint}", hint="has the query finished a batch?")
    homes = Identity(next(iter(shards.values())).identity).parts["homes"]
    log = _state(spark, checkpoint).where("user_map_key.batch > 0").select("key.shard", "user_map_value.*")
    found: dict[str, DataFrame] = {}
    for row in log.groupBy("name").agg(F.first("blob").alias("blob")).collect():
        sample = read_blob(row.blob).schema
        hashed = [f for f in sample if f.name not in (WEIGHT, MASK)]
        fields = [StructField(f.name, spark_type(data_type(f.type))) for f in hashed]
        schema = StructType([*fields, StructField(COUNT, LongType())])
        names = [f.name for f in hashed]
        keys = [key for key, meta in shards.items() if meta.shard in homes[row["name"]]]
        own = log.where((F.col("name") == row["name"]) & F.col("shard").isin(keys))
        unpacked = own.mapInArrow(_Rows(MASK in sample.names), schema)
        summed = unpacked.groupBy(*names).agg(F.sum(COUNT).alias(COUNT)).where(F.col(COUNT) > 0)
        found[row["name"]] = summed
    return found


def saved_offsets(checkpoint: str) -> dict[str, Any]:
    """The last batch that a checkpoint's query finished, and where its sources stood then, as Spark wrote it.

    ``files`` has for each source of files those that were read, oldest first; for others, nothing. Anywhere but on
    local disks, a session must be running.
    """
    folder = _Folder.of(checkpoint)
    done = sorted(int(name) for name in folder.names("commits") if name.isdigit())
    if not done:
        raise PipelineError(f"no batch was finished in {checkpoint}", hint="is it the checkpoint of a query?")
    offsets = [_read(line) for line in folder.text(f"offsets/{done[-1]}").splitlines()[2:]]
    return {"batch": done[-1], "offsets": offsets, "files": [_files(folder, i, o) for i, o in enumerate(offsets)]}


def _files(folder: _Folder, source: int, offset: Any) -> list[str]:
    """The files that a source has read up to an offset, which counts entries of its log, each of many files."""
    if not isinstance(offset, dict) or "logOffset" not in offset:
        return []
    names = [n for n in folder.names(f"sources/{source}") if n.removesuffix(_COMPACT).isdigit()]
    last = max((int(n.removesuffix(_COMPACT)) for n in names if n.endswith(_COMPACT)), default=-1)
    found: dict[tuple[int, str], None] = {}
    for name in names:
        if name.endswith(_COMPACT) or int(name) > last:  # What is compacted holds all entries before.
            lines = folder.text(f"sources/{source}/{name}").splitlines()[1:]
            read = [json.loads(line) for line in lines if line.strip()]
            found |= {(e["batchId"], e["path"]): None for e in read if e["batchId"] <= int(offset["logOffset"])}
    return [path for _, path in sorted(found)]


def saved_identity(spark: SparkSession, checkpoint: str) -> dict[str, Any]:
    """The views, tables and shards that a checkpoint belongs to."""
    need_rocksdb(spark)
    shards = _shards(spark, checkpoint)
    return Identity(next(iter(shards.values())).identity).parts if shards else {}


def _shards(spark: SparkSession, checkpoint: str) -> dict[int, Meta]:
    """Where each shard stands, by its key."""
    return _stands(_state(spark, checkpoint))


def _stands(state: DataFrame) -> dict[int, Meta]:
    own = state.where(f"user_map_key.batch = {META_KEY[0]}")
    rows = own.select("key.shard", "user_map_value.blob").collect()
    return {row.shard: Meta.of(bytes(row.blob)) for row in rows}


def _state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """The state of the shards that get the tables' rows: Spark numbers stateful operators from the sink.

    With a merge, they are operator 1; a step by key, which comes before them, has a greater number still.
    """
    operators = spark.read.format("state-metadata").load(checkpoint).select("operatorId").distinct().collect()
    for number in sorted((row.operatorId for row in operators), reverse=True):
        reader = spark.read.format("statestore").option("stateVarName", VARIABLE).option("operatorId", number)
        state = reader.load(checkpoint)
        if len(operators) == 1 or any(meta.level == SHARDS for meta in _stands(state).values()):
            return state
    raise PipelineError(f"there is no state in {checkpoint}", hint="has the query finished a batch?")


@dataclass(frozen=True)
class _Rows:
    """Unpacks a table's blobs. A row may lie in several shards; those count that have it as the first occurrence."""

    masked: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for blob in batch.column("blob").to_pylist():
                data = read_blob(blob)
                if self.masked:
                    data = data.filter(pc.equal(pc.bit_wise_and(data.column(MASK), 1), 1)).drop_columns([MASK])
                weight = data.column(WEIGHT)
                data = data.drop_columns([WEIGHT]).append_column(COUNT, weight)
                yield from data.to_batches()


def has_state(spark: SparkSession, checkpoint: str) -> bool:
    """Whether a query has written state into a checkpoint."""
    return bool(_Folder.of(checkpoint, spark).names("state"))


@dataclass(frozen=True)
class _Folder:
    """A checkpoint's folder, on local disks or wherever Hadoop's file systems reach."""

    path: str
    system: Any = None
    """Hadoop's FileSystem; None for local disks."""
    session: Any = None

    @staticmethod
    def of(checkpoint: str, spark: SparkSession | None = None) -> _Folder:
        session = spark or SparkSession.getActiveSession()
        if checkpoint.startswith("file:") or (session is None and ":/" not in checkpoint):
            return _Folder(checkpoint.removeprefix("file://").removeprefix("file:"))
        if session is None:
            raise PipelineError(f"no Spark session is running to read {checkpoint} with", hint="start one first")
        jvm: Any = session.sparkContext._jvm
        path = jvm.org.apache.hadoop.fs.Path(checkpoint)
        system = path.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
        return _Folder(checkpoint) if system.getScheme() == "file" else _Folder(checkpoint, system, session)

    def names(self, below: str) -> list[str]:
        """What is in a folder of it; nothing if it is not there."""
        if self.system is None:
            place = Path(self.path) / below
            return [p.name for p in place.iterdir()] if place.is_dir() else []
        place = self._at(below)
        return [s.getPath().getName() for s in self.system.listStatus(place)] if self.system.exists(place) else []

    def text(self, file: str) -> str:
        """A file of it."""
        if self.system is None:
            return (Path(self.path) / file).read_text(encoding="utf-8")
        rows = self.session.read.text(f"{self.path}/{file}", wholetext=True).collect()
        return str(rows[0].value)

    def _at(self, below: str) -> Any:
        return self.session.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{below}")


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line
