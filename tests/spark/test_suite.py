"""The differential suite's queries on Spark itself: dozens of random views in one query, with 1, 2 and 5 shards.

Views over the same tables share a state and a streaming query, so that many cost little more than one. The feed adds up
to what Spark SQL says of the final tables, or where Spark has no such construct (WITH TIES) to what DuckDB says.
EVERVIEW_TEST_SCALE is how many such sets of views are tried; ``make soak-spark`` tries a few hundred views.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from everview.errors import PipelineError
from everview.plan.shards import MOST_OCCURRENCES
from everview.spark.checkpoint.pins import plan_over
from everview.sql import parse_schema
from tests.engine.bags import Bag, bag, differences
from tests.engine.case_data import Case, Step, TableDef
from tests.engine.nested_generator import NestedQueries
from tests.engine.query_generator import Relation
from tests.engine.script_generator import Script
from tests.scale import scaled
from tests.spark.harness import Stream
from tests.spark.test_cluster import batches, history

SEEDS = scaled(1)
VIEWS = 20
CONSTRUCTS = 8  # Of more, what Spark sends its workers may be too large for its stateful operators.
SHARDS = (1, 2, 5)
KINDS = {1: "insert", -1: "delete"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_many_views_on_spark_are_spark_sql(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    case = many_views(seed + 90_001)
    views, states, _ = history(case)
    ddl = ";".join(t.ddl() for t in case.tables)
    views = that_fit(views, ddl, max(SHARDS))
    wanted = by_spark(spark, case.tables, views, states[-1])
    assert len(wanted) >= VIEWS // 2
    r = random.Random(seed)
    for shards in SHARDS:
        stream = Stream(spark, tmp_path / str(shards), {t.name: struct(t) for t in case.tables})
        stream.start(views, shards=shards, schema=ddl)
        try:
            for batch in batches(states, r):
                stream.put(
                    {n: [(row, "insert" if w > 0 else "delete") for row, w in rows] for n, rows in batch.items()}
                )
        finally:
            stream.stop()
        for name, expected in wanted.items():
            more, fewer = differences(stream.result(name), expected)
            shown = f"{shards} shards, {name}: too much {more}, missing {fewer}\n{case.show()}"
            assert (more, fewer) == (Counter(), Counter()), shown


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEEDS))
def test_all_constructs_on_spark_are_spark_sql(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Outer and anti joins, subqueries, first rows, windows, elements and the rest, each within others."""
    case = many_constructs(97_000_002 + 3 * seed)  # whose expressions fail on no data
    accepted, states, by_duckdb = history(case)
    ddl = ";".join(t.ddl() for t in case.tables)
    shards = SHARDS[seed % len(SHARDS)]
    views = that_fit(accepted, ddl, shards)
    wanted = by_duckdb | by_spark(spark, case.tables, _that_spark_reads_right(views), states[-1])
    sent = batches(states, random.Random(seed))
    if not any(rows for batch in sent for rows in batch.values()):
        return  # Without rows Spark runs no batch, and nothing says what a view holds over no input.
    stream = Stream(spark, tmp_path, {t.name: struct(t) for t in case.tables})
    stream.start(views, shards=shards, schema=ddl)
    try:
        for batch in sent:
            stream.put({n: [(row, "insert" if w > 0 else "delete") for row, w in rows] for n, rows in batch.items()})
    finally:
        stream.stop()
    compared = [name for name in views if name in wanted]
    print(f"seed {seed}, {shards} shards: {len(compared)} views")
    assert len(compared) >= CONSTRUCTS // 4
    for name in compared:
        more, fewer = differences(stream.result(name), wanted[name])
        shown = f"{shards} shards, {name}: too much {more}, missing {fewer}\n{views[name]}\n{case.show()}"
        assert (more, fewer) == (Counter(), Counter()), shown


def _that_spark_reads_right(views: dict[str, str]) -> dict[str, str]:
    """Not those with ``(SELECT … WHERE inner = outer ORDER BY … LIMIT 1)``: where the two are of different types, Spark
    4.3 compares after the LIMIT, with the first of all rows."""
    return {name: sql for name, sql in views.items() if "LIMIT 1)" not in sql}


def many_constructs(seed: int) -> Case:
    """Views of all constructs over the same tables, and updates of these."""
    script = Script(seed)
    assert not script.fails
    script.most = 8
    r = random.Random(f"constructs {seed}")
    queries = NestedQueries(r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in script.tables])
    steps: list[Step] = []
    while len(steps) < CONSTRUCTS:
        text, kinds = queries.nested()
        if "v" not in kinds:  # else the two round in their own ways
            steps.append(Step("view", f"v{len(steps)}", text, oracle=queries.oracle(text)))
    steps.append(script.filled())
    steps += [Step("batch", operations=(script.operation("random"), script.operation("fifo"))) for _ in range(3)]
    return Case(seed, script.tables, tuple(steps))


def many_views(seed: int) -> Case:
    """Views over the same tables, and updates of these."""
    while len((script := Script(seed)).tables) < 3 or script.fails:
        seed += 1_000
    script.most, script.queries.most = 8, 3
    tables = list(script.queries.relations)
    steps: list[Step] = []
    for _ in range(VIEWS):
        steps.append(script.view())
        script.queries.relations = list(tables)  # Views over views would have each table dozens of times.
    steps.append(script.filled())
    steps += [Step("batch", operations=(script.operation("random"), script.operation("fifo"))) for _ in range(3)]
    return Case(seed, script.tables, tuple(steps))


def that_fit(views: dict[str, str], ddl: str, shards: int) -> dict[str, str]:
    """The first of the views, as many as one query can have."""
    schema = parse_schema(ddl)
    used: Counter[str] = Counter()
    kept = {}
    for name, sql in views.items():
        try:
            level = plan_over({name: sql}, schema, shards).distribution.first
        except PipelineError:  # it is too large alone
            continue
        own = Counter({t.name: len(level.routes(t.name)) for t in level.tables})
        if max((used + own).values(), default=0) <= MOST_OCCURRENCES - 2:  # for checks of keys
            used += own
            kept[name] = sql
    return kept


def struct(table: TableDef) -> StructType:
    return StructType.fromDDL(", ".join(f"{c.name} {c.type}" for c in table.columns))


def by_spark(
    spark: SparkSession, tables: tuple[TableDef, ...], views: dict[str, str], rows: dict[str, list[tuple[object, ...]]]
) -> dict[str, Bag]:
    """What Spark SQL says the views hold, if it takes them."""
    found = {}
    for table in tables:
        spark.createDataFrame(rows[table.name], struct(table)).coalesce(1).createOrReplaceTempView(table.name)
    for name, sql in views.items():
        try:
            frame = spark.sql(sql)
            frame.createOrReplaceTempView(name)
            found[name] = bag(frame.collect())
        except PySparkException:  # arithmetic that leaves its type's bounds
            continue
    for name in (*views, *(t.name for t in tables)):
        spark.catalog.dropTempView(name)
    return found
