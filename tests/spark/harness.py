"""A streaming query over tables that a test changes: files in, the feed collected batch by batch."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from everview.spark import maintain
from everview.spark.restarting import restarting
from everview.spark.types import CHANGE_TYPE, COUNT, VERSION
from tests.engine.bags import plain

Changes = Mapping[str, Sequence[tuple[tuple[Any, ...], str]]]


class Stream:
    """Tables as folders of files, and one query over them that can be stopped and started again."""

    def __init__(self, spark: SparkSession, folder: Path, tables: Mapping[str, StructType]) -> None:
        self.spark = spark
        self.folder = folder
        self.tables = tables
        self.files = 0
        self.batches: dict[int, list[Row]] = {}
        self.query: Any = None
        for name in tables:
            (folder / name).mkdir(parents=True, exist_ok=True)

    def frames(self) -> dict[str, DataFrame]:
        found = {}
        for name, struct in self.tables.items():
            schema = StructType([*struct.fields, StructField(CHANGE_TYPE, StringType())])
            found[name] = self.spark.readStream.schema(schema).parquet(str(self.folder / name))
        return found

    def start(
        self, sql: str | Mapping[str, str], *, checkpoint: str = "checkpoint", place: str | None = None, **options: Any
    ) -> None:
        """Start the query; ``place`` is the checkpoint as ``maintain`` is to know it."""
        frames = self.frames() | options.pop("frames", {})
        feed = maintain(self.spark, sql, frames, checkpoint=place, **options)

        def keep(frame: DataFrame, batch: int) -> None:
            self.batches[batch] = frame.collect()

        writer = feed.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.folder / checkpoint))
        self.query = restarting(writer.start)

    def put(self, changes: Changes) -> None:
        """One batch: a file for each table that changes, and then waits until it has been taken in."""
        for name, rows in changes.items():
            if rows:
                self.write(name, rows)
        self.query.processAllAvailable()

    def write(self, name: str, rows: Sequence[tuple[tuple[Any, ...], str]]) -> None:
        fields = self.tables[name].fields
        schema = self.spark.createDataFrame([], self.tables[name]).toArrow().schema
        arrays = [pa.array([row[i] for row, _ in rows], schema.field(i).type) for i in range(len(fields))]
        arrays.append(pa.array([kind for _, kind in rows], pa.string()))
        table = pa.table(arrays, names=[*(f.name for f in fields), CHANGE_TYPE])
        self.files += 1
        hidden = self.folder / name / f".{self.files}.parquet"
        pq.write_table(table, hidden)
        hidden.rename(self.folder / name / f"{self.files:06}.parquet")

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()
            self.query = None

    def result(self, view: str | None = None) -> Counter[tuple[Any, ...]]:
        """What the feed adds up to."""
        total: Counter[tuple[Any, ...]] = Counter()
        for batch in sorted(self.batches):
            for row in self.batches[batch]:
                values = row.asDict()
                if values[CHANGE_TYPE] == "quarantine" or (view is not None and values["_view"] != view):
                    continue
                own = tuple(row[view]) if view is not None else tuple(row)[: len(row.__fields__) - self._extra(row)]
                assert values[VERSION] == batch
                sign = 1 if values[CHANGE_TYPE] in ("insert", "update_postimage") else -1
                total[tuple(map(plain, own))] += sign * values[COUNT]
        assert all(count >= 0 for count in total.values()), total
        return +total

    @staticmethod
    def _extra(row: Row) -> int:
        return sum(name in (CHANGE_TYPE, VERSION, COUNT, "_quarantined") for name in row.__fields__)

    def bad(self) -> list[dict[str, Any]]:
        """The rows that were put aside."""
        rows = [row for batch in self.batches.values() for row in batch]
        return [json.loads(row["_quarantined"]) for row in rows if row[CHANGE_TYPE] == "quarantine"]

    def expected(self, sql: str, rows: Mapping[str, Sequence[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
        """The query run afresh by Spark SQL over the final tables."""
        for name, found in rows.items():
            self.spark.createDataFrame(list(found), self.tables[name]).createOrReplaceTempView(name)
        return Counter(tuple(map(plain, row)) for row in self.spark.sql(sql).collect())
