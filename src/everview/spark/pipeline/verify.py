"""Are the targets what the views should be? Spark SQL, run afresh over all changes so far, has the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from everview.spark.exchange.pack import stored
from everview.spark.pipeline.frames import read, table
from everview.spark.pipeline.model import Pipeline, TableSpec
from everview.spark.targets import Target
from everview.spark.types import CHANGE_TYPE, COUNT, DECLARED

_COPIES = "_everview_copies"


@dataclass(frozen=True)
class Compared:
    """A view's rows in its target, and how many of them, or of the right ones, have no counterpart."""

    view: str
    rows: int
    missing: int
    extra: int

    @property
    def equal(self) -> bool:
        """True if the target has exactly the view's rows."""
        return not self.missing and not self.extra


def verify(spark: SparkSession, pipeline: Pipeline, targets: Mapping[str, Target]) -> list[Compared]:
    """Compare each target with its view; the sources must be such that they can be read again from their beginning."""
    found = []
    own = spark.newSession()
    own.conf.set("spark.sql.shuffle.partitions", str(max(1, spark.sparkContext.defaultParallelism)))
    for name, spec in pipeline.tables.items():
        final_table(own, pipeline, spec).cache().createOrReplaceTempView(name)
    for name, view in pipeline.views.items():
        wanted = own.sql(view.sql)
        wanted.createOrReplaceTempView(name)
        if name in targets:
            there = own.createDataFrame(targets[name].read_arrow(), wanted.schema).cache()
            wanted = wanted.cache()
            missing, extra = wanted.exceptAll(there).count(), there.exceptAll(wanted).count()
            found.append(Compared(name, there.count(), missing, extra))
    own.catalog.clearCache()
    return found


def final_table(spark: SparkSession, pipeline: Pipeline, spec: TableSpec) -> DataFrame:
    """A table as all its changes leave it, by adding them up."""
    source = pipeline.sources[spec.source]
    rows = _declared(table(read(spark, replace(source, streaming=False)), spec, changes=source.streaming), spec)
    names = [c.name for c in spec.table.columns if not c.closed]
    copies = F.col(COUNT) if COUNT in rows.columns else F.lit(1)
    sign = F.when(F.col(CHANGE_TYPE).isin("delete", "update_preimage"), -1) if CHANGE_TYPE in rows.columns else None
    weight = copies if sign is None else copies * F.coalesce(sign, F.lit(1))
    frames = [rows.select(*names, weight.cast("int").alias(_COPIES))]
    if spec.initial is not None:
        first = _declared(table(read(spark, pipeline.sources[spec.initial]), spec, changes=False), spec)
        frames.append(first.select(*names, F.lit(1).alias(_COPIES)))
    whole = frames[0] if len(frames) == 1 else frames[0].union(frames[1])
    net = whole.groupBy(*names).agg(F.sum(_COPIES).cast("int").alias(_COPIES)).where(F.col(_COPIES) > 0)
    return net.select(*names, F.explode(F.sequence(F.lit(1), F.col(_COPIES))).alias(_COPIES)).drop(_COPIES)


def _declared(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """The rows with texts as their columns hold them, which Spark then compares as CHAR and VARCHAR."""
    for column in spec.table.columns:
        if column.type.length is not None and not column.closed:
            about = {DECLARED: str(column.type).lower()}
            value = stored(F.col(f"`{column.name}`"), column.type)
            rows = rows.withColumn(column.name, value.alias(column.name, metadata=about))
    return rows
