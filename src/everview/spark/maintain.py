"""``maintain``: one call that turns streams of changes into the change feed of a view."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from everview.errors import PipelineError, SchemaError
from everview.plan.shards import Distribution, ShardLevel
from everview.query.schema import Schema, Table
from everview.query.types import common_type
from everview.query.view import Timed
from everview.spark.checkpoint.identity import Identity
from everview.spark.checkpoint.pins import Maintained, hold, plan_over, read_pins
from everview.spark.checkpoint.take_over import origin_of
from everview.spark.exchange.forward import forwarded, having
from everview.spark.exchange.key_step import accepted, key_shard_level, one_row_a_key, tables_with_spread_keys
from everview.spark.exchange.pack import normalised, packed
from everview.spark.exchange.shard_specs import merge_shards_of, specs_of
from everview.spark.exchange.unpack import feed_of
from everview.spark.metrics import observed
from everview.spark.session import configure, parallelism
from everview.spark.shard.operator import BEAT, ONWARD, PACKED, ROWS, ShardOperator
from everview.spark.shard.state import AHEAD, KEY_STEP, MERGE, SHARDS
from everview.spark.shard.stopping import end_shards_with_queries
from everview.spark.time_zone import check_zone
from everview.spark.types import column_of, spark_type, tables_of
from everview.sql.names import CLOSED_HINT

POLICIES = ("fail", "quarantine")


def maintain(
    spark: SparkSession,
    sql: str | Mapping[str, str],
    tables: Mapping[str, DataFrame],
    *,
    shards: int | None = None,
    schema: str | Schema | None = None,
    initial: Mapping[str, DataFrame] | None = None,
    rates: Mapping[str, float] | None = None,
    skew: Mapping[tuple[str, str], float] | None = None,
    bad_rows: str = "fail",
    skip_batch: int | None = None,
    memory_limit: int | None = None,
    migrate: bool = False,
    checkpoint: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> DataFrame:
    """Maintain views over streams of changes; returns their change feed as a streaming DataFrame for any sink.

    Args:
        spark: a classic session.
        sql: a SELECT; or views by name, or a script of CREATE MATERIALIZED VIEW statements. Several views share one
            state; the feed then has a column ``_view`` and a struct column a view.
        tables: DataFrames by the names that the views use. A streaming one holds changes, with a column
            ``_change_type`` (insert, delete, update_preimage, update_postimage), or only inserts, without. A static
            one is loaded once, when the query starts for the first time.
        shards: how many parts the work is cut into; one a core of the cluster if not given. It belongs to the
            checkpoint.
        schema: CREATE TABLE statements with what DataFrames cannot say (PRIMARY KEY, NOT NULL, CHECK … IN).
        initial: rows that some streaming tables hold already when the query starts for the first time.
        rates: how many updates to expect at each table, relative to the others.
        skew: for (table, column) the part of the rows that the most frequent value has; see ``statistics_of``.
        bad_rows: "fail" stops the query at a row that cannot be taken in, "quarantine" puts it aside: the feed gets a
            column ``_quarantined`` and rows of ``_change_type`` quarantine.
        skip_batch: the number of a batch that cannot be taken in whatever is done: no shard applies it, and each of its
            rows is put aside, once. It needs ``bad_rows="quarantine"``.
        memory_limit: bytes that a shard may use; a batch that needs more fails, and nothing has changed.
        migrate: take over a checkpoint whose views were others: they are rebuilt from the rows that are there, and
            the feed begins with the whole of the new ones.
        checkpoint: the folder that the query will be started with. What places rows is held fast there, and used when
            the query is started again, whatever ``rates`` say then; a query that does not fit it is refused here.
        options: what is asked of the views' maintenance beside OPTIONS (…) in the SQL: for a single view its options,
            such as ``{"epsilon": 0.5}``; for several a dict of them by the view's name. A query may be started again
            with others.
    """
    if bad_rows not in POLICIES:
        raise PipelineError(f"bad_rows is {bad_rows!r}", hint=f"it is one of {', '.join(POLICIES)}")
    if skip_batch is not None and bad_rows != "quarantine":
        raise PipelineError(
            f"batch {skip_batch} is to be skipped, and there is no place for its rows",
            hint="use bad_rows='quarantine', which puts them aside",
        )
    if not tables:
        raise PipelineError("there are no tables", hint="pass DataFrames by the names that the view uses")
    if not any(f.isStreaming for f in tables.values()):
        raise PipelineError(
            "none of the DataFrames is streaming, so nothing can change",
            hint="read at least one with spark.readStream; for static data run the SQL itself",
        )
    if shards is not None and shards < 1:
        raise PipelineError(f"shards is {shards}", hint="there is at least one")
    pins = read_pins(checkpoint, spark) if checkpoint is not None else ()
    count = shards if shards is not None or pins else parallelism(spark)
    whole = tables_of({name: frame.schema for name, frame in tables.items()}, schema)
    plan = plan_over(sql, whole, count, rates=rates, skew=skew, pins=pins, migrate=migrate, options=options)
    configure(spark, plan.distribution.shards)
    keys = list(plan.keys)
    end_shards_with_queries(spark)
    quarantine = bad_rows == "quarantine"
    first, ahead = plan.distribution.first, plan.distribution.ahead
    whole_tables = plan.distribution.tables
    check_zone(spark, plan.views, plan.schema)
    begin = _beginnings(initial or {}, tables, whole_tables)
    with_spread_keys = tables_with_spread_keys(plan.distribution) if quarantine else ()
    step = key_shard_level([t for t in with_spread_keys if _frame(tables, t.name).isStreaming], first.shards)
    plan = replace(plan, by_key=tuple(t.name for t in step.tables))
    settings = _Settings(replace(plan.identity, migrate=migrate), keys, quarantine, memory_limit)
    levels = {ROWS: first} if ahead is None else {ROWS: ahead, ONWARD: first}
    inputs, by_key, inputs_ahead = _Inputs(), _Inputs(), _Inputs()
    streaming = [t for t in whole_tables if _frame(tables, t.name).isStreaming]
    is_fed = step.tables or any(ROWS in having(levels, t) for t in streaming)
    passing = () if is_fed else streaming[:1]  # Else a step ahead would never have its turn.
    for table in whole_tables:
        frame = _frame(tables, table.name)
        rows = [normalised(f, table) for f in (frame, begin.get(table.name)) if f is not None]
        if table in step.tables:
            by_key.add(frame, rows, table, {ROWS: step}, settings, skip_batch)
            continue
        if table in with_spread_keys:
            rows = [one_row_a_key(reduce(DataFrame.union, rows), table)]
        own = having(levels, table)
        if ahead is None or (ROWS not in own and table not in passing):
            inputs.add(frame, rows, table, {ROWS: first}, settings, skip_batch)
            continue
        inputs_ahead.add(frame, rows, table, own, settings, skip_batch)
        if ONWARD in own:
            inputs.load(frame, rows, table, first, settings)
    if by_key.streams:
        known = Maintained(step.views, Schema(step.tables), Distribution(step.shards, step), False, plan.keys).identity
        taken = _level(by_key, step, KEY_STEP, replace(settings, identity=replace(known, migrate=migrate)), None)
        given = forwarded(taken, accepted(step.tables), levels, keys)
        (inputs if ahead is None else inputs_ahead).streams.append(given)
    if ahead is not None and inputs_ahead.streams:
        made = _level(inputs_ahead, ahead, AHEAD, settings, None, but={t.name for t in first.tables})
        inputs.streams.append(forwarded(made, {v.name: v for v in ahead.views}, {ROWS: first}, keys))
    if not inputs.streams:
        raise PipelineError(
            "the view reads static tables only, so nothing can change",
            hint="the streaming DataFrames are of tables that no view reads",
        )
    merge = plan.distribution.merge
    found = _level(inputs, first, SHARDS, settings, merge)
    if merge is not None:
        found = _level(_Inputs([found]), merge, MERGE, settings, None)
    feed = feed_of(observed(found), plan.views, single=plan.single, quarantine=quarantine)
    if checkpoint is not None:
        hold(checkpoint, settings.identity, spark)
    return origin_of(feed, settings.identity, checkpoint)


@dataclass
class _Inputs:
    """What a level's shards get: packed rows of streams, and of what is loaded once."""

    streams: list[DataFrame] = field(default_factory=list)
    loads: list[DataFrame] = field(default_factory=list)

    def add(
        self,
        frame: DataFrame,
        rows: Sequence[DataFrame],
        table: Table,
        levels: Mapping[str, ShardLevel],
        settings: _Settings,
        skip: int | None = None,
    ) -> None:
        """A table's rows, normalised: the first ones change if the table's DataFrame is streaming."""
        if frame.isStreaming:
            keys, quarantine = settings.keys, settings.quarantine
            self.streams.append(packed(rows[0], table, levels, keys, quarantine=quarantine, skip=skip))
        if ROWS in levels:
            self.load(frame, rows, table, levels[ROWS], settings)

    def load(
        self, frame: DataFrame, rows: Sequence[DataFrame], table: Table, level: ShardLevel, settings: _Settings
    ) -> None:
        """Those of them that do not change, for a level: nothing that is loaded is handed on."""
        for part in rows[1:] if frame.isStreaming else rows:
            made = packed(part, table, {ROWS: level}, settings.keys, quarantine=settings.quarantine)
            self.loads.append(made)


def _beginnings(
    initial: Mapping[str, DataFrame], tables: Mapping[str, DataFrame], read: Sequence[Table]
) -> dict[str, DataFrame]:
    """The rows that tables begin with, as their columns are declared: they have to hash as the stream's rows do."""
    known = {name.lower(): name for name in tables}
    found: dict[str, DataFrame] = {}
    for name, frame in initial.items():
        if name.lower() not in known:
            raise PipelineError(
                f"initial has rows for {name}, and there is no such table", hint=f"the tables are {', '.join(tables)}"
            )
        table = next((t for t in read if t.name.lower() == name.lower()), None)
        if table is None:
            continue  # No view reads it.
        own = {c.lower(): c for c in frame.columns}
        missing = [c.name for c in table.columns if c.name.lower() not in own]
        if missing:
            raise SchemaError(
                f"the rows that {table.name} begins with have no column {missing[0]}, which the view reads",
                hint=f"they have {', '.join(frame.columns)}; join the others to them from where the table comes from",
            )
        for column in table.columns:
            quoted = own[column.name.lower()]
            have = column_of(frame.schema[quoted], f"the rows that {table.name} begins with")
            if have.closed:
                raise SchemaError(have.closed, hint=CLOSED_HINT)
            if common_type(have.type, column.type) != column.type:
                raise SchemaError(
                    f"column {quoted} of the rows that {table.name} begins with is {have.type}, and the table's is "
                    f"{column.type}",
                    hint=f"CAST it to {column.type}",
                )
            frame = frame.withColumn(quoted, F.col("`" + quoted.replace("`", "``") + "`").cast(spark_type(column.type)))
        found[table.name] = frame
    return found


def _frame(tables: Mapping[str, DataFrame], name: str) -> DataFrame:
    return next(f for n, f in tables.items() if n.lower() == name.lower())


@dataclass(frozen=True)
class _Settings:
    """What the operators of all levels have in common."""

    identity: Identity
    keys: list[int]
    quarantine: bool
    memory_limit: int | None


def _level(
    inputs: _Inputs,
    level: ShardLevel,
    number: int,
    settings: _Settings,
    merge: ShardLevel | None,
    but: Collection[str] = (),
) -> DataFrame:
    """One stateful operator over the shards of a level; if rows go by the clock, it runs without input, too.

    Of ``but`` some tables' rows it says nothing, if it puts them aside: a level after it does.
    """
    is_timed = any(isinstance(stage.body, Timed) for view in level.views for stage in view.stages)
    processor = ShardOperator(
        specs_of(level, quarantine=settings.quarantine, memory_limit=settings.memory_limit, but=but),
        replace(settings.identity, derived=number == MERGE),
        settings.keys,
        level=number,
        merge_shards=None if merge is None else merge_shards_of(merge),
        onward=None if merge is None else settings.keys,
        quarantine=settings.quarantine,
        is_timed=is_timed,
    )
    loads = inputs.loads
    if number in (AHEAD, KEY_STEP):  # The first batch may have rows for shards behind it only; here, all begin with it.
        begun = [(key, BEAT, "", 0, 0, None, None) for key in settings.keys]
        loads = [*loads, inputs.streams[0].sparkSession.createDataFrame(begun, PACKED)]
    start = reduce(DataFrame.union, loads).groupBy("shard") if loads else None
    grouped = reduce(DataFrame.union, inputs.streams).groupBy(F.col("shard"))
    time_mode = "ProcessingTime" if is_timed else "none"
    return grouped.transformWithStateInPandas(processor, PACKED, "append", time_mode, initialState=start)
