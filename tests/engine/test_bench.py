"""``everview bench`` inside: break-even, batches, and the comparison with the query run afresh."""

from __future__ import annotations

import os
import random
import signal
import threading
from dataclasses import replace
from decimal import Decimal
from itertools import count

import pyarrow as pa
import pytest

from everview.errors import DataError, EverviewError, KeyViolationError, OverDeleteError
from everview.tools.bench import Measurement, _quantile, break_even, measure
from everview.tools.change_log import Log
from everview.tools.oracle import Recomputation
from everview.tools.replay import log_for, one_view

SCHEMA = "CREATE TABLE r (a BIGINT, b BIGINT, x DOUBLE, p DECIMAL(8,2)); CREATE TABLE s (b BIGINT, c STRING)"
JOIN = "SELECT r.a, s.c FROM r JOIN s ON r.b = s.b"
SUMS = "SELECT s.c, SUM(r.x) AS x, AVG(r.p) AS p, COUNT(*) AS n FROM r JOIN s ON r.b = s.b GROUP BY s.c"


def random_log(rows: int = 600) -> Log:
    chance = random.Random(3)
    r = {
        "a": [chance.randrange(20) for _ in range(rows)],
        "b": [chance.choice([None, *range(12)]) for _ in range(rows)],
        "x": [chance.random() for _ in range(rows)],
        "p": pa.array([Decimal(chance.randrange(100)) for _ in range(rows)], pa.decimal128(8, 2)),
    }
    s = {"b": [chance.randrange(12) for _ in range(rows)], "c": [chance.choice("xyz") for _ in range(rows)]}
    return log_for(one_view(JOIN, SCHEMA), {"r": pa.table(r), "s": pa.table(s)})


AS_SPARK = """
    WITH q AS (SELECT a, CAST(x * 100 AS INT) AS i, p / 7 AS p, b FROM r WHERE a % 3 <> 1)
    SELECT a, SUM(p) / COUNT(*) AS p, MAX(i) AS i FROM q
    WHERE EXISTS (SELECT 1 FROM s WHERE s.b = q.b AND s.b / 2 > 1.5)
    GROUP BY a HAVING SUM(p) / 2 > 1 UNION ALL SELECT b, b / 4, dayofweek(DATE '2024-01-31') FROM s"""
"""Divided, cut and counted otherwise by DuckDB, if it is not told."""


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", [JOIN, SUMS, f"CREATE MATERIALIZED VIEW v AS SELECT DISTINCT c FROM ({JOIN}) j", AS_SPARK]
)
def test_measured_and_right(query: str) -> None:
    db = one_view(query, SCHEMA)
    log = random_log()
    found = measure(db, query, log, sizes=(100, 1), seconds=0.5)
    assert found.difference is None
    assert found.compared
    assert [r.size for r in found.runs] == [100, 1]
    assert all(r.updates > 0 and r.p50_ms <= r.p99_ms and r.steps > 0 for r in found.runs)
    assert 238 <= found.memory.rows <= 240  # where it ends, a row may have gone whose successor is yet to come
    assert found.loaded + sum(r.updates for r in found.runs) <= len(log)
    assert found.break_even >= 1
    assert found.extrapolated == (found.break_even > 100)
    assert found.to_dict()["result"] == {"correct": True, "compared": True, "difference": None}


def test_a_wrong_result_is_seen() -> None:
    log = random_log()
    fresh = Recomputation(JOIN, log, len(log))
    right = fresh._connection.sql(fresh._query).to_arrow_table()
    assert fresh.difference(right) is None
    assert "rows differ" in str(fresh.difference(right.set_column(0, "a", pa.array([7] * right.num_rows))))
    assert fresh.difference(right.slice(1)) == f"the view has {right.num_rows - 1:,} rows, the query {right.num_rows:,}"
    sums = Recomputation(SUMS, log, len(log))
    table = sums._connection.sql(sums._query).to_arrow_table()
    near, far = (table.set_column(1, "x", pa.array([v * f for v in table["x"].to_pylist()])) for f in (1 + 1e-14, 1.01))
    assert sums.difference(near) is None
    assert "3 of 3 rows differ" in str(sums.difference(far))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["found", "updates", "f", "e", "q", "place"])
def test_tables_may_have_any_name(name: str) -> None:
    """What the comparison itself names must not hide a table."""
    schema = f"CREATE TABLE {name} (a BIGINT, b BIGINT); CREATE TABLE other (b BIGINT)"
    query = f"SELECT {name}.a, {name}.b FROM {name} JOIN other ON {name}.b = other.b"
    db = one_view(query, schema)
    rows = pa.table({"a": range(60), "b": [i % 5 for i in range(60)]})
    log = log_for(db, {name: rows, "other": rows.select(["b"])})
    assert measure(db, query, log, seconds=0.1).difference is None


def test_what_is_no_number_is_close_to_nothing() -> None:
    query = "SELECT a, x FROM r"
    values = [float("inf"), float("-inf"), float("nan"), 1.0, None]
    r = pa.table({"a": range(5), "b": range(5), "x": values, "p": pa.nulls(5, pa.decimal128(8, 2))})
    fresh = Recomputation(query, log_for(one_view(query, SCHEMA), {"r": r}, window=1), 5)
    for i, right in enumerate(values):
        for wrong in values:
            found = [*values[:i], wrong, *values[i + 1 :]]
            said = fresh.difference(pa.table({"a": pa.array(range(5), pa.int64()), "x": pa.array(found)}))
            assert said == (None if repr(wrong) == repr(right) else "1 of 5 rows differ")


def test_rows_that_only_rounding_orders_are_equal() -> None:
    """0.1 + 0.2 is a little more than 0.3: in another order of additions the rows change places."""
    query = "SELECT x, y FROM r"
    r = pa.table({"x": [0.1 + 0.2, 0.3], "y": [1.0, 2.0]})
    schema = "CREATE TABLE r (x DOUBLE, y DOUBLE)"
    fresh = Recomputation(query, log_for(one_view(query, schema), {"r": r}, window=1), 2)
    assert fresh.difference(pa.table({"x": [0.3, 0.1 + 0.2], "y": [1.0, 2.0]})) is None
    assert fresh.difference(pa.table({"x": [0.3, 0.3], "y": [1.0, 1.0]})) == "1 of 2 rows differ"


def test_what_duckdb_refuses_is_told() -> None:
    fresh = Recomputation(JOIN, random_log(), 100)
    fresh._query = "SELECT 1 FROM range(3) WHERE CAST(concat('x', range) AS BIGINT) = 1"
    with pytest.raises(EverviewError, match="DuckDB cannot run the query"):
        fresh.seconds(1)
    with pytest.raises(EverviewError, match="nothing to compare with: 'x0' cannot be cast to BIGINT"):
        fresh.count_difference(1)


@pytest.mark.slow
def test_ctrl_c_in_duckdb_is_ctrl_c() -> None:
    fresh = Recomputation(JOIN, random_log(), 100)
    fresh._query = "SELECT range FROM range(3000000000) WHERE hash(range) = 1"

    def interrupted() -> None:
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        fresh.count_difference(1)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it would be ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_log_has_the_tables_of_the_view() -> None:
    db = one_view("SELECT a FROM r", SCHEMA)
    r, s = pa.table({"a": [1], "b": [2], "x": [0.5], "p": [Decimal(1)]}), pa.table({"b": [1], "c": ["x"]})
    assert set(log_for(db, {"R": r}).tables) == {"r"}
    assert set(log_for(db, {"r": r, "s": s}).tables) == {"r"}
    with pytest.raises(DataError, match="there is no table t"):
        log_for(db, {"r": r, "t": s})
    with pytest.raises(DataError, match="reads s, and there is no data"):
        log_for(one_view(JOIN, SCHEMA), {"r": r})


@pytest.mark.parametrize(
    ("measured", "recompute", "expected"),
    [
        ([(1, 0.001), (100, 0.1)], 0.05, 50),
        ([(1, 0.001), (100, 0.01)], 0.1, 1_000),
        ([(1, 0.5)], 0.1, 1),
        ([(10, 1.0), (100, 2.0)], 0.5, 5),
        ([(10, 1.0), (100, 1.0)], 1.0, 10),
        ([(1, 1.0), (100, 100.0)], 1.5, 2),
        ([(1, 1.0), (3, 2.0)], 1.9, 3),
        ([(1, 1.0), (100, 100.0)], 1.0, 1),
        ([(100, 1.0), (1, 5.0)], 3.0, 1),
        ([(1, 1.0), (10, 4.0), (100, 5.0)], 4.5, 55),
        ([(1, 1.0), (10, 5.0)], 6.0, 12),
    ],
)
def test_break_even(measured: list[tuple[int, float]], recompute: float, expected: int) -> None:
    assert break_even(measured, recompute) == expected


def test_batches_are_as_large_as_they_are_said_to_be() -> None:
    """A batch of 10,000 updates that has 300 would give a break-even 33 times too large."""
    log = random_log()
    found = measure(one_view(JOIN, SCHEMA), JOIN, log, sizes=(10_000, 70))
    assert [(r.asked, r.batches) for r in found.runs] == [(10_000, 1), (70, len(log) // 4 // 70)]
    assert [r.size for r in found.runs] == [len(log) // 4, 70]
    assert all(r.updates == r.size * r.batches for r in found.runs)


def with_runs(found: Measurement, recompute: float, *measured: tuple[int, float]) -> Measurement:
    """As if batches of these sizes had taken so many seconds, and recomputing so long."""
    runs = tuple(replace(found.runs[0], size=n, asked=n, batches=1, updates=n, seconds=s) for n, s in measured)
    return replace(found, runs=runs, recompute_seconds=recompute)


def test_a_break_even_that_was_not_measured_is_said_to_be_extrapolated() -> None:
    found = measure(one_view(JOIN, SCHEMA), JOIN, random_log(), sizes=(10,), seconds=0.1)
    for recompute, break_even_, extrapolated in ((0.5, 5, True), (1.0, 10, False), (1.5, 55, False), (4.0, 200, True)):
        case = with_runs(found, recompute, (10, 1.0), (100, 2.0))
        assert (case.break_even, case.extrapolated) == (break_even_, extrapolated)


@pytest.mark.parametrize("bad", [0, 3, 7])
def test_refused_updates_are_named_as_in_the_data(bad: int) -> None:
    """In the rows that were there before, while loading, and while measuring."""
    weights = [1] * 8
    weights[bad] = -1
    data = pa.table({"id": range(8), "_weight": weights, "_at": [-1, *range(7)]})
    db = one_view("SELECT id FROM t", "CREATE TABLE t (id BIGINT)")
    with pytest.raises(OverDeleteError, match=rf"^data of t, row {bad}: deletes \({bad}\), which is not there\n"):
        measure(db, "SELECT id FROM t", log_for(db, {"t": data}))


def test_keys_that_come_twice_are_named_as_in_the_data() -> None:
    db = one_view("SELECT id FROM t", "CREATE TABLE t (id BIGINT PRIMARY KEY)")
    log = log_for(db, {"t": pa.table({"id": [*range(18), 17, 19]})})
    with pytest.raises(KeyViolationError, match="data of t, row 18: inserts") as caught:
        measure(db, "SELECT id FROM t", log)
    assert caught.value.hint == "let the old row go first: _change_type"


def test_figures_of_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a clock that goes on by a second whenever it is read, a batch takes one."""
    monkeypatch.setattr("everview.tools.bench.perf_counter", count().__next__)
    db = one_view("SELECT id FROM t", "CREATE TABLE t (id BIGINT)")
    log = log_for(db, {"t": pa.table({"id": range(80)})}, window=1)
    found = measure(db, "SELECT id FROM t", log, sizes=(10, 1), seconds=1e9)
    assert [(r.size, r.batches, r.updates, r.changes, r.seconds) for r in found.runs] == [
        (10, 2, 20, 20, 2),
        (1, 20, 20, 20, 20),
    ]
    assert all((r.mean_ms, r.p50_ms, r.p99_ms) == (1e3, 1e3, 1e3) for r in found.runs)
    assert 0 < sum(r.steps for r in found.runs) < db.view("query1").stats()["steps"]  # loading takes steps, too


def test_quantiles() -> None:
    assert [_quantile([1, 2, 3, 4], share) for share in (0.25, 0.5, 0.51, 0.99)] == [1, 2, 3, 4]
    assert [_quantile(range(1, 101), share) for share in (0.5, 0.99)] == [50, 99]
    assert _quantile([7], 0.5) == 7


def test_recomputing_takes_what_one_run_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = Recomputation(JOIN, random_log(), 100)
    monkeypatch.setattr("everview.tools.oracle.perf_counter", count(0, 0.125).__next__)
    assert fresh.seconds(1) == 0.125


def test_results_that_are_only_counted() -> None:
    fresh = Recomputation("SELECT a FROM r", random_log(), 100)
    rows = fresh._count()
    assert fresh.count_difference(rows) is None
    for wrong in (rows - 1, rows + 1):
        assert fresh.count_difference(wrong) == f"the view has {wrong} rows, the query {rows}"


def test_too_few_updates() -> None:
    db = one_view("SELECT id FROM t", "CREATE TABLE t (id BIGINT)")
    with pytest.raises(DataError, match="1 updates: too few"):
        measure(db, "SELECT id FROM t", log_for(db, {"t": pa.table({"id": [1]})}))
