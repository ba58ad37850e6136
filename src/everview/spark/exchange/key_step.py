"""Which rows of a keyed table there are, decided before the shards get them, where no shard alone could decide it.

Under ``bad_rows="quarantine"`` a second row of a key is put aside. Where rows are spread by other columns than the
key, two rows of one key come to different shards, and a shard that has taken one in cannot know of the other. So
such tables pass a step of their own first, a stateful operator whose shards are spread by key. It keeps each table's
rows, puts aside what it refuses, and forwards the others:

    stream ─► normalise ─► by key: one row a key ─► route ─► pack ─► shards

The step is a level of shards as any other, with one view a table: the table itself. What changes in that view is what
was taken in, and goes on. Tables that do not change are checked by Catalyst alone, when they are loaded.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from everview.plan.shards import Dimension, Distribution, Grid, Route, ShardLevel
from everview.query.conjunctive import Atom
from everview.query.schema import Table
from everview.query.terms import Expression, Var
from everview.query.view import Block, Output, View
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.exchange.pack import REASON, quoted
from everview.spark.shard.shard import same_batch

_KEPT, _PART = "_everview_kept", "_everview_part"


def tables_with_spread_keys(distribution: Distribution) -> tuple[Table, ...]:
    """The keyed tables of which rows of one key may come to different shards."""
    levels = [level for level in (distribution.ahead, distribution.first) if level is not None]
    return tuple(t for t in distribution.tables if t.checked_key and not all(v.keeps_keys_together(t) for v in levels))


def key_shard_level(tables: Sequence[Table], shards: int) -> ShardLevel:
    """The step's shards: tables spread by their keys, and one view a table, which is the table."""
    views = tuple(accepted(tables).values())
    return ShardLevel(shards, tuple(tables), views, tuple(_by_key(t, shards) for t in tables))


def accepted(tables: Sequence[Table]) -> dict[str, View]:
    """The step's views, by the tables that they are."""
    return {t.name: _whole(t) for t in tables}


def _whole(table: Table) -> View:
    variables = [Var(c.name) for c in table.columns]
    outputs = [Output(c.name, Expression.of(v, c.type)) for c, v in zip(table.columns, variables, strict=True)]
    return View(_view_of(table), Block((Atom(table.name, tuple(variables), alias=table.name),), (), tuple(outputs)))


def _view_of(table: Table) -> str:
    return f"__accepted_{table.name}"


def _by_key(table: Table, shards: int) -> Grid:
    own = [table.columns[i] for i in table.positions(table.primary_key)]
    hashed = tuple(Expression.of(Var(c.name), c.type) for c in own)
    route = Route(_view_of(table), table.name, table.name, (hashed,))
    return Grid(_view_of(table), (Dimension("key", shards),), (route,))


# --- tables that do not change ---------------------------------------------------------------------------------------


def one_row_a_key(rows: DataFrame, table: Table) -> DataFrame:
    """A static table's normalised rows, net; of those with one key all but the least by value have a reason to go."""
    names = [c.name for c in table.columns]
    key = [table.columns[i].name for i in table.positions(table.primary_key)]
    whole = rows.where(F.col(REASON).isNull()).groupBy(*map(quoted, names)).agg(F.sum(WEIGHT).alias(WEIGHT))
    place = F.row_number().over(Window.partitionBy(*map(quoted, key)).orderBy(*map(quoted, names)))
    comes = whole.where(F.col(WEIGHT) > 0).withColumn(_KEPT, F.when(place == 1, 1).otherwise(0).cast("bigint"))
    parts = F.array(
        F.struct(F.col(_KEPT).alias(WEIGHT), F.lit(None).cast("string").alias(REASON)),
        F.struct((F.col(WEIGHT) - F.col(_KEPT)).alias(WEIGHT), F.lit(same_batch(table)).alias(REASON)),
    )
    own = [F.col(quoted(n)) for n in names]
    judged = comes.select(*own, F.explode(parts).alias(_PART)).select(*own, f"{_PART}.{WEIGHT}", f"{_PART}.{REASON}")
    goes = whole.where(F.col(WEIGHT) < 0).withColumn(REASON, F.lit(None).cast("string"))
    return judged.where(F.col(WEIGHT) > 0).union(goes).union(rows.where(F.col(REASON).isNotNull()))
