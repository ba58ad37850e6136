"""Out of an old checkpoint: the tables' rows as of its last batch, and how far its sources were read.

A checkpoint belongs to its views, tables and shards. When the tables' columns or the shards change, the rows that it
holds start a new one (``maintain(..., initial=saved_tables(spark, checkpoint))``), and the sources go on from where the
old query stopped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from everview.engine.values.words import data_type
from everview.errors import PipelineError
from everview.plan.shards import MASK
from everview.spark.checkpoint.folder import Folder
from everview.spark.checkpoint.identity import Identity
from everview.spark.exchange.arrow_blob import WEIGHT, read_blob
from everview.spark.session import need_rocksdb
from everview.spark.shard.state import AHEAD, META_KEY, PIN_KEY, SHARDS, VARIABLE, Meta
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
    homes = _pinned(spark, checkpoint, shards).parts["homes"]
    found = _of_level(spark, checkpoint, SHARDS, shards, homes)
    if len(found) < len(homes):  # There may be tables that only a step ahead of the shards gets.
        rest = {name: own for name, own in homes.items() if name not in found}
        found |= _of_level(spark, checkpoint, AHEAD, shards, rest)
    return found


def _of_level(
    spark: SparkSession, checkpoint: str, level: int, shards: dict[int, Meta], homes: dict[str, list[int]]
) -> dict[str, DataFrame]:
    """The rows of those tables for which homes are given, as the shards of one level have them."""
    state = _state(spark, checkpoint, level)
    found: dict[str, DataFrame] = {}
    if state is None:
        return found
    log = state.where("user_map_key.batch > 0").select("key.shard", "user_map_value.*")
    for row in log.groupBy("name").agg(F.first("blob").alias("blob")).collect():
        if row["name"] not in homes:
            continue
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
    folder = Folder.of(checkpoint)
    done = sorted(int(name) for name in folder.names("commits") if name.isdigit())
    if not done:
        raise PipelineError(f"no batch was finished in {checkpoint}", hint="is it the checkpoint of a query?")
    offsets = [_read(line) for line in folder.text(f"offsets/{done[-1]}").splitlines()[2:]]
    return {"batch": done[-1], "offsets": offsets, "files": [_files(folder, i, o) for i, o in enumerate(offsets)]}


def _files(folder: Folder, source: int, offset: Any) -> list[str]:
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
    """The views, tables and shards that a checkpoint belongs to; nothing if it has no state."""
    return stored_identity(spark, checkpoint).parts


def stored_identity(spark: SparkSession, checkpoint: str) -> Identity:
    """The same as the shards have it, which have the last word; an empty one if there is no state."""
    need_rocksdb(spark)
    shards = _shards(spark, checkpoint)
    return _pinned(spark, checkpoint, shards) if shards else Identity("")


def _shards(spark: SparkSession, checkpoint: str) -> dict[int, Meta]:
    """Where each shard stands, by its key."""
    return _stands(_shards_state(spark, checkpoint))


def _stands(state: DataFrame) -> dict[int, Meta]:
    own = _at(state, META_KEY)
    rows = own.select("key.shard", "user_map_value.blob").collect()
    return {row.shard: Meta.of(bytes(row.blob)) for row in rows}


def _pinned(spark: SparkSession, checkpoint: str, shards: dict[int, Meta]) -> Identity:
    """What the shards belong to: a text beside their meta data, which in older checkpoints has it itself."""
    for row in _at(_shards_state(spark, checkpoint), PIN_KEY).select("user_map_value.blob").limit(1).collect():
        return Identity(bytes(row.blob).decode())
    return Identity(next(iter(shards.values())).identity)


def _at(state: DataFrame, key: tuple[int, int]) -> DataFrame:
    """A value of each shard's state."""
    return state.where(f"user_map_key.batch = {key[0]} AND user_map_key.part = {key[1]}")


def _shards_state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """The state of the shards that get the tables' rows."""
    state = _state(spark, checkpoint, SHARDS)
    if state is None:
        raise PipelineError(f"there is no state in {checkpoint}", hint="has the query finished a batch?")
    return state


def _state(spark: SparkSession, checkpoint: str, level: int) -> DataFrame | None:
    """The state of a level of shards, if there is one: Spark numbers stateful operators from the sink.

    With a merge, the shards are operator 1; steps that come before them have greater numbers still.
    """
    operators = spark.read.format("state-metadata").load(checkpoint).select("operatorId").distinct().collect()
    for number in sorted((row.operatorId for row in operators), reverse=True):
        reader = spark.read.format("statestore").option("stateVarName", VARIABLE).option("operatorId", number)
        state = reader.load(checkpoint)
        is_only = len(operators) == 1 and level == SHARDS
        if is_only or any(meta.level == level for meta in _stands(state).values()):
            return state
    return None


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


def _read(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return line
