"""MIN and MAX against DuckDB, for every type: extremes that go, ties, NULLs, NaN, failures, and their memory."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine.operators.aggregates.min_max import Extremes
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.words import arrow_type, ordered_words, to_words
from everview.errors import DataError
from everview.query.types import DOUBLE
from tests.engine.bags import bag
from tests.scale import scaled

INF, NAN = float("inf"), float("nan")
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "TINYINT": (pa.int8(), [-128, -1, 0, 1, 127]),
    "SMALLINT": (pa.int16(), [-(2**15), -7, 0, 2**15 - 1]),
    "INT": (pa.int32(), [-(2**31), -7, 0, 12, 2**31 - 1]),
    "BIGINT": (pa.int64(), [-(2**63) + 1, -7, 0, 12, 2**63 - 1]),
    "BOOLEAN": (pa.bool_(), [True, False]),
    "FLOAT": (pa.float32(), [-INF, -1.5, -0.0, 0.0, 2.0**-149, 0.25, INF, NAN]),
    "DOUBLE": (pa.float64(), [-INF, -1e308, -5e-324, -0.0, 0.0, 5e-324, 1.5, 1e308, INF, NAN]),
    "DECIMAL(6,2)": (pa.decimal128(6, 2), [Decimal(t) for t in ("-9999.99", "-0.01", "0.00", "12.50", "9999.99")]),
    "DECIMAL(18,0)": (pa.decimal128(18, 0), [Decimal(10**18 - 1), Decimal(-(10**18) + 1), Decimal(5)]),
    "DECIMAL(22,3)": (pa.decimal128(22, 3), [Decimal(t) for t in ("-5000000000000000000.125", "0.000", "7.125")]),
    "DATE": (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29)]),
    "TIMESTAMP": (pa.timestamp("us", tz="UTC"), [datetime(1969, 1, 1, tzinfo=UTC), datetime(2024, 2, 29, tzinfo=UTC)]),
    "TIMESTAMP_NTZ": (pa.timestamp("us"), [datetime(1969, 1, 1), datetime(2024, 1, 1) + timedelta(microseconds=1)]),
    "STRING": (pa.string(), ["", "a", "ab", "ü", "Z"]),
    "BINARY": (pa.binary(), [b"", b"\x00", b"a", b"\xff"]),
}


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def expected(rows: list[tuple[Any, ...]], type_: pa.DataType, query: str) -> Counter[Any]:
    """What DuckDB says of the same rows."""
    connection = _connection()
    columns = [pa.array([r[0] for r in rows], pa.int32()), pa.array([r[1] for r in rows], pa.string())]
    columns.append(pa.array([r[2] for r in rows], type_))
    connection.register("t", pa.table(columns, names=["g", "s", "x"]))
    return bag(tuple(row.values()) for row in connection.sql(query).to_arrow_table().to_pylist())


QUERIES = {
    "grouped": "SELECT g, MIN(x) AS low, MAX(x) AS high, COUNT(*) AS n FROM t GROUP BY g",
    "by_name": "SELECT s, MAX(x) AS high, MIN(x) AS low, MAX(g) AS last FROM t GROUP BY s",
    "all_rows": "SELECT MIN(x) AS low, MAX(x) AS high FROM t",
    "compared": "SELECT p.g, MIN(p.x) AS low, MAX(p.x) AS high, COUNT(*) AS n FROM t p JOIN t q ON p.g = q.g "
    "AND p.s <= q.s GROUP BY p.g",
    "filtered": "SELECT g, MIN(x) AS low FROM t GROUP BY g HAVING MIN(x) < MAX(x) AND MIN(g) >= 1",
}


@pytest.mark.parametrize("seed", range(scaled(2)))
@pytest.mark.parametrize("name", VALUES)
def test_like_duckdb(name: str, seed: int) -> None:
    """Inserts, and deletes of whatever is the extreme, with copies and NULLs; feeds add up to the views."""
    type_, values = VALUES[name]
    r = random.Random(f"{name} {seed}")
    db = ev.Database()
    db.sql(f"CREATE TABLE t (g INT, s STRING, x {name})")
    queries = {q: text for q, text in QUERIES.items() if q != "filtered" or name != "BOOLEAN"}
    for view, query in queries.items():
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS {query}")
    feeds = {v: (db.view(v).changes(), bag(db.view(v))) for v in queries}
    rows: list[tuple[Any, ...]] = []
    for turn in range(12):
        new = [
            (r.choice([1, 2, 3, None]), r.choice(["x", "y", None]), r.choice([*values, None]))
            for _ in range(r.randint(0, 12))
        ]
        gone = []
        for _ in range(r.randint(0, len(rows)) if turn < 10 else len(rows)):
            gone.append(rows.pop(r.randrange(len(rows))))
        with db.batch() as batch:
            if turn % 2:
                batch.insert("t", new)
            batch.delete("t", gone)
            if not turn % 2:
                batch.insert("t", new)
        rows += new
        for view, query in queries.items():
            wanted = expected(rows, type_, query)
            assert bag(db.view(view)) == wanted, (view, turn)
            feed, total = feeds[view]
            for change in (c for b in feed.read() for c in b.to_pylist()):
                count = change.pop("_count") * (
                    1 if change.pop("_change_type") in ("insert", "update_postimage") else -1
                )
                del change["_commit_version"]
                total.update({next(iter(bag([tuple(change.values())]))): count})
            assert +total == wanted, (view, turn)


def test_words_of_doubles_compare_as_they_do() -> None:
    values = [-INF, -1e308, -1.5, -5e-324, 0.0, 5e-324, 1.5, 1e308, INF, NAN]
    words = to_words(pa.array([*values, -0.0], arrow_type(DOUBLE)), DOUBLE, Dictionary())
    ordered = ordered_words(words, DOUBLE).to_pylist()
    assert ordered[:-1] == sorted(set(ordered))
    assert ordered[-1] == ordered[4], "there is one zero"
    assert ordered_words(pa.array(ordered, pa.int64()), DOUBLE).to_pylist() == words.to_pylist()


LISTED = QUERIES["compared"]
"""With a condition across tables the tree's rows are no groups: MIN and MAX list the values of each."""


def view_of(type_: str, query: str = QUERIES["grouped"]) -> ev.Database:
    db = ev.Database()
    db.sql(f"CREATE TABLE t (g INT, s STRING, x {type_})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    return db


def listed(db: ev.Database) -> list[Extremes]:
    return list(db._views["v"].result.valued)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", VALUES)
def test_no_value_stays_in_python(name: str) -> None:
    db = view_of(name, LISTED)
    assert [type(a) for a in listed(db)] == [Extremes, Extremes]
    assert db._views["v"].beside_nbytes() == 0
    db = view_of(name)
    assert not listed(db)
    assert db._views["v"].beside_nbytes() == 0


@pytest.mark.parametrize("name", ["DOUBLE", "STRING", "DECIMAL(22,3)"])
def test_a_failed_batch_changes_nothing(name: str) -> None:
    values: list[Any] = {
        "DOUBLE": [-1.0, 2.0, 3.0, 5.0, NAN],
        "STRING": ["", "b", "c", "d", "z"],
        "DECIMAL(22,3)": [Decimal(n * 10**17) for n in (-4, -3, 0, 5, 6)],
    }[name]
    least, low, high, other, most = values
    db = view_of(name, LISTED)
    db.sql(f"CREATE MATERIALIZED VIEW w AS {QUERIES['grouped']}")
    db.insert("t", [(1, "a", low), (1, "a", high), (2, "a", most)])
    kept, uses = [sorted(a.part.dump("values")) for a in listed(db)], db._dictionary.to_state()
    core = db._views["w"].cores[0].part
    in_tree = {table: sorted(core.dump(table)) for table in core.table_stats()}
    with pytest.raises(DataError), db.batch() as batch:  # noqa: PT012
        batch.insert("t", [(1, "a", least), (3, "new", other)])
        batch.delete("t", [(1, "a", low)])
        batch.delete("t", [(9, "a", other)])
    assert len(kept) == 2
    assert [sorted(a.part.dump("values")) for a in listed(db)] == kept
    assert {table: sorted(core.dump(table)) for table in core.table_stats()} == in_tree
    assert db._dictionary.to_state() == uses
    assert bag(db.view("v")) == bag([(1, low, high, 4), (2, most, most, 1)])
    assert bag(db.view("w")) == bag([(1, low, high, 2), (2, most, most, 1)])


def test_strings_are_kept_as_long_as_they_are_in_a_group(tmp_path: Path) -> None:
    """Also those that only the aggregate has; a loaded database and one that drops the view agree on their uses."""
    db = view_of("BIGINT", "SELECT g, MIN(upper(s)) AS low, MAX(concat(s, '!')) AS high FROM t GROUP BY g")
    rows = [(i % 3, f"name {i % 40:02}", i) for i in range(100)]
    db.insert("t", rows)
    db.delete("t", rows[:20])
    assert ("NAME 00" in strings(db), "NAME 20" in strings(db), "name 39!" in strings(db)) == (True, True, True)
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved")
    assert loaded.view("v").stats()["restored"] == "snapshot"
    for each in (db, loaded):
        each.delete("t", rows[20:])
        assert strings(each) == set()
        each.insert("t", rows)
        each.sql("DROP VIEW v")
        assert strings(each) == {s for _, s, _ in rows}


def strings(db: ev.Database) -> set[str]:
    return set(db._dictionary.to_state()["string"]["value"].to_pylist())


def test_the_order_is_that_of_bytes() -> None:
    """As Spark's binary collation and DuckDB have it: not that of UTF-16, nor of any language."""
    texts = ["", "A", "Z", "a", "a\0", "ab", "b", "ß", "ä", "\uffff", "\U0001f600"]
    db = view_of("BIGINT", "SELECT MIN(s) AS low, MAX(s) AS high FROM t")
    shuffled = random.Random(1).sample(texts, len(texts))
    db.insert("t", [(1, s, 0) for s in shuffled] + [(1, None, 0)])
    left = sorted(texts, key=lambda s: s.encode())
    while left:
        assert list(db.view("v")) == [(left[0], left[-1])]
        db.delete("t", [(1, left.pop(0 if len(left) % 2 else -1), 0)])
    assert list(db.view("v")) == [(None, None)]


def core_bytes(db: ev.Database) -> int:
    stats = [core.part.table_stats() for core in db._views["v"].cores]
    return sum(size for tables in stats for _, size in tables.values())


@pytest.mark.parametrize("select", ["MIN(x)", "MAX(x)", "COUNT(DISTINCT x)", "SUM(CAST(x AS DOUBLE))", "MIN(s)"])
def test_memory_is_counted_and_goes(select: str) -> None:
    db = view_of("BIGINT", f"SELECT g, {select} AS m FROM t GROUP BY g")
    view = db.view("v")
    empty = view.stats()["bytes"]
    cores = core_bytes(db)
    rows = [(i % 500, f"name {i}", i) for i in range(10_000)]
    db.insert("t", rows)
    assert view.stats()["bytes"] > 10_000 * 8 + empty
    outside = view.stats()["bytes"] - core_bytes(db)
    assert select.startswith("M") or outside > 500 * 8 + empty - cores
    random.Random(3).shuffle(rows)
    for i in range(0, len(rows), 1_000):
        db.delete("t", rows[i : i + 1_000])
    assert view.stats()["bytes"] <= empty + 20_000
    assert all(a.nbytes() == 0 for a in db._views["v"].result.valued)  # type: ignore[attr-defined]
