"""The judge of random cases: what it excuses, and that planted faults are still found where expressions fail."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow.compute as pc
import pytest

from everview.engine.expressions.parked import Parked
from tests.engine.bags import Difference
from tests.engine.differential import LARGE, run_case
from tests.engine.generator import make_case
from tests.engine.judging import independent, prepare, strictly

DIFFERED = {
    91000066: "a member of a union has a row that another one has, too",
    91000927: "a join whose other side is empty",
    91002052: "a join whose other side is empty, in a WITH entry",
    91003351: "a subquery's column that nobody reads fails amid a batch",
    94000160: "the largest sizes of factors stay when the tables are emptied",
    97010907: "<=> of fields of structs that are joined, which may be NULL in them",
    95011309: "a condition over two subqueries' columns that are literals",
    95010876: "the same of two factors",
    94001284: "positions were asked for, and are kept",
    94001728: "a row that fails beside a view without a result",
    91004530: "a join whose other side is empty, beside an aggregate over no input",
    92001154: "an argument over a subquery's column is one over a single table",
    93000847: "an argument over two tables is one over a single one, as a join equates a column with a computed one",
    93001351: "the same in a condition, by way of a third table",
}


@pytest.mark.parametrize("seed", DIFFERED, ids=DIFFERED.values())
def test_cases_that_once_differed(seed: int) -> None:
    run_case(make_case(seed))


@pytest.fixture
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    prepare(found)
    found.execute("CREATE TABLE t (x INT, y INT); CREATE TABLE u (z INT); CREATE TABLE empty (z INT)")
    found.execute("INSERT INTO t VALUES (1, 0), (4, 2); INSERT INTO u VALUES (3), (2)")
    return found


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("SELECT x div y AS q FROM t, empty", []),
        ("SELECT x FROM t WHERE x div y = 99 AND y > 5", []),
        ("SELECT x FROM t UNION SELECT x FROM t WHERE x div y > 0", [(1,), (4,)]),
        ("SELECT x FROM t WHERE x >= 0 OR 12 / (x div y) > 1", [(1,), (4,)]),
        ("SELECT x div y AS q FROM t", None),
        ("SELECT 12 / (x div y) AS q FROM t", None),
        ("SELECT CAST(CASE WHEN y = 0 THEN 'no' ELSE '1' END AS INT) AS q FROM t", None),
        ("SELECT SUM(x div y) AS q FROM t", None),
        ("SELECT COUNT(x % y) AS q FROM t", None),
        ("SELECT x FROM t WHERE x div y > 0", None),
        ("SELECT z FROM t, u WHERE z = x div y", None),
        ("SELECT x FROM t EXCEPT SELECT x div y FROM t", None),
    ],
)
def test_rows_are_known_where_no_result_needs_what_fails(
    connection: duckdb.DuckDBPyConnection, query: str, wanted: list[tuple[int, ...]] | None
) -> None:
    """What depends on the failing value, or on whether there is one, is no excuse."""
    connection.execute(f"CREATE VIEW v AS {strictly(query)}")
    found = independent(connection, "v", LARGE)
    assert (None if found is None else sorted(found)) == wanted
    if wanted is None:
        with pytest.raises(duckdb.Error):
            connection.execute("FROM v").fetchall()


def _differ(seeds: Sequence[int]) -> list[int]:
    found = []
    for seed in seeds:
        try:
            run_case(make_case(seed))
        except Difference:
            found.append(seed)
    return found


def test_faults_where_expressions_fail_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that are taken although a row has no value, and that are refused for a row that has gone again."""
    seeds = (1, 43, 52, 70)
    assert _differ(seeds) == []
    with monkeypatch.context() as patched:
        patched.setattr(Parked, "is_left", False)
        assert _differ(seeds) == [1, 43, 52]
    with monkeypatch.context() as patched:
        add = Parked.add
        patched.setattr(Parked, "add", lambda self, columns, weight, place: add(self, columns, pc.abs(weight), place))
        assert _differ(seeds) == [1, 43, 52]
