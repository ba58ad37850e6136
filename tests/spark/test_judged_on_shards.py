"""A shard judges a batch by its end, and is rebuilt from its log through states that an expression fails in."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import permutations
from math import isfinite
from typing import Any

import duckdb
import pytest

from everview.errors import BadRowError, DataError, ExpressionError
from everview.spark.exchange.arrow_blob import read_blob
from everview.spark.pipeline.progress import why_no_result
from everview.spark.shard.messages import Apply, Done, Dump, Dumped, Load, Rebuild, Rebuilt
from everview.spark.shard.server import ShardServer
from everview.spark.shard.shard import Shard, ShardSpec
from everview.sql import parse_schema
from tests.engine.bags import plain
from tests.spark.cluster import Cluster
from tests.spark.shards import Rows, blobs, changes, described, rebuild, spec, together

SCRIPT = """
CREATE TABLE a (k BIGINT, x BIGINT);
CREATE TABLE b (k BIGINT, y BIGINT);
CREATE MATERIALIZED VIEW quotients AS SELECT a.k, a.x, b.y, 10 / (a.x - b.y) AS q FROM a JOIN b ON a.k = b.k;
CREATE MATERIALIZED VIEW shares AS SELECT k, 10 / SUM(x) AS share FROM a GROUP BY k;
"""
QUERIES = {
    "quotients": "SELECT a.k, a.x, b.y, 10 / (a.x - b.y) FROM a JOIN b ON a.k = b.k",
    "shares": "SELECT k, 10 / SUM(x) FROM a GROUP BY k",
}
TABLES = {"a": "k BIGINT, x BIGINT", "b": "k BIGINT, y BIGINT"}
STATIC: Rows = {"a": [(1, 5, 1), (2, -3, 1)], "b": [(1, 2, 1)]}
BATCHES: list[Rows] = [
    # What is there and what comes would meet at a.x = b.y, and the sum of group 1 pass through 0.
    {"a": [(1, 5, -1), (1, 7, 1)], "b": [(1, 2, -1), (1, 5, 1)]},
    {"a": [(1, 7, -1), (1, 5, 1)], "b": [(1, 5, -1), (1, 7, 1)]},
    # A group whose sum is 0 without the row that goes, and again without the one that comes.
    {"a": [(2, 3, 1), (2, -3, -1), (2, 0, 1)]},
    {"a": [(2, 3, -1), (2, -4, 1)], "b": [(2, -9, 2)]},
    # Rows that fail come and go, in both orders.
    {"a": [(3, 0, 1), (3, 0, -1), (1, 7, -1), (1, 7, 1)]},
    {"b": [(1, 5, 1), (1, 5, -1), (2, 0, 1), (2, -4, -1), (2, -4, 1), (2, 0, -1)]},
]


def rows_of(batches: list[Rows]) -> dict[str, Counter[tuple[Any, ...]]]:
    """What the tables hold after some batches."""
    found: dict[str, Counter[tuple[Any, ...]]] = {name: Counter() for name in TABLES}
    for name, rows in together(*batches).items():
        for *row, weight in rows:
            found[name][tuple(row)] += weight
    return found


def expected(batches: list[Rows]) -> Counter[tuple[Any, ...]] | None:
    """The views after some batches, by DuckDB; None if an expression fails: a division by zero is infinite there."""
    found: Counter[tuple[Any, ...]] = Counter()
    with duckdb.connect() as db:
        for name, rows in rows_of(batches).items():
            db.execute(f"CREATE TABLE {name} ({TABLES[name]})")
            for row, copies in rows.items():
                for _ in range(copies):
                    db.execute(f"INSERT INTO {name} VALUES (?, ?)", list(row))
        for view, query in QUERIES.items():
            found.update((view, *row) for row in db.sql(query).fetchall())
    return found if all(isfinite(row[-1]) for row in found) else None


def held(shard: Shard) -> Counter[tuple[Any, ...]]:
    """What a shard's views hold."""
    return Counter((v.name, *row) for v in shard.spec.views for row in shard.db.view(v.name))


def logged(batches: list[Rows], of: ShardSpec) -> list[tuple[int, str, bytes]]:
    """The log of batches: the first has the static rows."""
    return [(number, name, blob) for number, rows in enumerate(batches, 1) for name, blob in blobs(rows, of)]


def compacted(host: ShardServer) -> list[tuple[int, str, bytes]]:
    """The log as one batch of the rows that are left."""
    assert host.token is not None
    dumped = host.answer(Dump(host.token, False))
    assert isinstance(dumped, Dumped)
    return [(9, name, blob) for name, blob, _ in dumped.rows]


def base(shard: Shard) -> set[tuple[Any, ...]]:
    """What a shard's tables hold."""
    return {(name, *row.values()) for name, blob, _ in shard.dump() for row in read_blob(blob).to_pylist()}


def shard_of(host: ShardServer) -> Shard:
    assert host.shard is not None
    return host.shard


@pytest.mark.parametrize("quarantine", [False, True])
def test_rebuilt_shards_equal_the_original(quarantine: bool) -> None:
    of = spec(SCRIPT, quarantine=quarantine)
    host = ShardServer()
    rebuild(host, of, "v1", logged([STATIC], of))
    told = Counter({("quotients", 1, 5, 2, 10 / 3): 1, ("shares", 1, 2.0): 1, ("shares", 2, 10 / -3): 1})
    assert held(shard_of(host)) == told == expected([STATIC])
    for number, rows in enumerate(BATCHES, 2):
        reply = host.answer(Apply("digest", f"v{number - 1}", f"v{number}", blobs(rows, of), False, None))
        assert isinstance(reply, Done)
        assert reply.bad == []
        told.update(changes(reply))
        history = [STATIC, *BATCHES[: number - 1]]
        wanted = expected(history)
        assert wanted is not None
        assert held(shard_of(host)) == Counter({row: n for row, n in told.items() if n}) == wanted
        for log in (logged(history, of), compacted(host)):
            fresh = ShardServer()
            rebuild(fresh, of, f"v{number}", log)
            assert held(shard_of(fresh)) == wanted
            assert base(shard_of(fresh)) == base(shard_of(host))


def test_a_batch_of_the_log_that_comes_in_parts_is_taken_in_as_a_whole() -> None:
    of = spec(SCRIPT)
    parts = [(n, row) for n, rows in BATCHES[0].items() for row in rows]
    assert expected([STATIC, {"b": [(1, 5, 1)]}]) is None
    for order in permutations(parts):
        host = ShardServer()
        host.answer(Rebuild(described(of), "digest"))
        host.answer(Load(logged([STATIC], of)))
        for name, row in order:
            host.answer(Load([(2, *blobs({name: [row]}, of)[0])]))
        host.answer(Rebuilt("v2"))
        assert held(shard_of(host)) == expected([STATIC, BATCHES[0]])


@pytest.mark.parametrize("quarantine", [False, True])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            {"b": [(1, 5, 1), (2, 8, 1)]},
            ["quotients", "column q", "x = 5, y = 5 (a row of b: {'k': 1, 'y': 5})", "by zero"],
        ),
        (
            {"a": [(2, 3, 1), (4, 1, 1)]},
            ["shares", "column share", "k = 2, sum(x) = 0 (a row of a: {'k': 2, 'x': 3})", "by zero"],
        ),
        ({"a": [(1, 5, -1), (1, 0, 1)]}, ["shares", "column share", "k = 1, sum(x) = 0: division by zero"]),
    ],
)
def test_a_batch_whose_end_fails_is_refused(rows: Rows, said: list[str], quarantine: bool) -> None:
    """No row alone is to blame, so none is put aside: the query stops."""
    of = spec(SCRIPT, quarantine=quarantine)
    host = ShardServer()
    rebuild(host, of, "v1", logged([STATIC], of))
    before, dumped = held(shard_of(host)), base(shard_of(host))
    assert expected([STATIC, rows]) is None
    with pytest.raises(ExpressionError) as raised:
        host.answer(Apply("digest", "v1", "v2", blobs(rows, of), False, None, batch=17))
    assert not isinstance(raised.value, BadRowError)
    for part in [*said, "(batch 17); nothing has changed", "skip_batch"]:
        assert part in str(raised.value)
    assert host.token == "v1"
    assert held(shard_of(host)) == before
    assert base(shard_of(host)) == dumped
    found = host.answer(Apply("digest", "v1", "v2", blobs(BATCHES[0], of), False, None))
    assert isinstance(found, Done)
    assert held(shard_of(host)) == expected([STATIC, BATCHES[0]])


@pytest.mark.parametrize("quarantine", [False, True])
def test_a_sum_beyond_its_type_is_no_single_rows_fault(quarantine: bool) -> None:
    """That a row goes makes it too large: no row that comes may be put aside for it."""
    of = spec(
        "CREATE TABLE a (k BIGINT, x BIGINT); CREATE MATERIALIZED VIEW v AS SELECT k, SUM(x) AS s FROM a GROUP BY k;"
    )
    of = replace(of, quarantine=quarantine)
    host = ShardServer()
    most = 2**63 - 1
    rebuild(host, of, "v1", logged([{"a": [(1, most, 1), (1, -5, 1), (1, 5, 1)]}], of))
    with pytest.raises(
        DataError, match=r"v: sum\(x\) failed on the data for k = 1: it leaves the 64 bits of BIGINT"
    ) as raised:
        host.answer(Apply("digest", "v1", "v2", blobs({"a": [(1, -5, -1), (2, 6, 1)]}, of), False, None))
    assert not isinstance(raised.value, BadRowError)
    assert held(shard_of(host)) == Counter({("v", 1, most): 1})


# --- over shards -----------------------------------------------------------------------------------------------------

SCHEMA = "CREATE TABLE a (k BIGINT, x BIGINT); CREATE TABLE b (k BIGINT, y BIGINT)"
VIEWS = {
    "quotients": "SELECT a.k, a.x, b.y, 10 / (a.x - b.y) AS q FROM a JOIN b ON a.k = b.k",
    "shares": "SELECT k, 10 / SUM(x) AS share FROM a GROUP BY k",
}


def weighted(rows: Rows) -> dict[str, list[tuple[tuple[Any, ...], int]]]:
    return {name: [(tuple(row), weight) for *row, weight in found] for name, found in rows.items()}


@pytest.mark.parametrize("number", [1, 2, 3])
def test_views_over_shards_are_rebuilt_after_each_batch(number: int) -> None:
    cluster = Cluster(VIEWS, parse_schema(SCHEMA), number)
    history: list[Rows] = []
    for rows in [STATIC, *BATCHES]:
        cluster.apply(weighted(rows))
        history.append(rows)
        cluster.rebuild()
        wanted = expected(history)
        assert wanted is not None
        found = Counter({(v, *row): n for v, rows in cluster.results.items() for row, n in rows.items()})
        assert found == Counter({(row[0], *map(plain, row[1:])): n for row, n in wanted.items()})


@pytest.mark.parametrize("number", [1, 2])
def test_a_global_row_that_fails_goes_and_comes_again(number: int) -> None:
    """The target has no row while there is no input, and the figures of the batch say why."""
    views = {"mean": "SELECT 10 / COUNT(*) AS m FROM a", "ratio": "SELECT 10 / SUM(x) AS r FROM a"}
    cluster = Cluster(views, parse_schema("CREATE TABLE a (k BIGINT, x BIGINT)"), number)

    def failing() -> list[str]:
        return list(why_no_result(shard.stats() for level in cluster.shards for shard in level))

    def says(why: str) -> bool:
        begun = "mean has no result now: its row over no input cannot be computed: column m, 10 / count("
        return why.startswith(begun) and why.endswith(" = 0: division by zero")

    history: list[tuple[Rows, set[tuple[Any, ...]], set[tuple[Any, ...]]]] = [
        ({"a": []}, set(), {(None,)}),
        ({"a": [(1, 2, 1), (2, 3, 1)]}, {(5,)}, {(2,)}),
        ({"a": [(1, 2, -1), (2, 3, -1)]}, set(), {(None,)}),
        ({"a": [(5, 5, 2)]}, {(5,)}, {(1,)}),
        ({"a": [(5, 5, -1)]}, {(10,)}, {(2,)}),
    ]
    for rows, mean, ratio in history:
        cluster.apply(weighted(rows))
        assert set(cluster.results["mean"]) == mean
        assert set(cluster.results["ratio"]) == ratio
        for _ in range(2):
            assert len(failing()) == (not mean)
            assert all(map(says, failing()))
            cluster.rebuild()
