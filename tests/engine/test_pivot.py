"""PIVOT, UNPIVOT and outputs that name earlier ones, against DuckDB's plainer words for them."""

from __future__ import annotations

import random
import re

import duckdb
import pytest

import everview as ev
from everview.errors import EverviewError
from tests.engine.bags import bag
from tests.engine.pivots import QUERIES, ROW, row

_OF_A = "SUM(b) FILTER (WHERE a = {})"
_OF_S = "SUM(b) FILTER (WHERE s = '{0}'), NULLIF(COUNT(*) FILTER (WHERE s = '{0}'), 0)"
DUCKDB = {
    "one": f"SELECT k, s, {_OF_A.format(1)}, {_OF_A.format(2)} FROM r GROUP BY k, s",
    "several": f"SELECT a, {_OF_S.format('p')}, {_OF_S.format('q')} FROM r GROUP BY a",
    "pairs": "SELECT MAX(b) FILTER (WHERE a = 1 AND s = 'p'), MAX(b) FILTER (WHERE a = 2 AND s = 'q') FROM r",
    "computed": "SELECT a, CASE WHEN COUNT(*) FILTER (WHERE s = 'p') > 0 THEN "
    "COALESCE(SUM(b) FILTER (WHERE s = 'p'), 0) + 1 END FROM r GROUP BY a",
    "unpivot": "SELECT * FROM (SELECT k, s, 'a', a AS v FROM r UNION ALL SELECT k, s, 'bb', b FROM r) "
    "WHERE v IS NOT NULL",
    "with_null": "SELECT * FROM (SELECT k, 'a', a AS v FROM r UNION ALL SELECT k, 'b', b FROM r) "
    "WHERE v IS NULL OR v > 1",
    "named": "SELECT a + 1, (a + 1) * 2, (a + 1) * 3 FROM r",
    "of_groups": "SELECT a, SUM(b), SUM(b) + 1 FROM r GROUP BY a",
    "column_first": "SELECT a + 1, b + 1 FROM r",
}


def test_like_duckdb() -> None:
    r = random.Random(11)
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({ROW})")
    for name, query in QUERIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    there: list[tuple[object, ...]] = []
    duck = duckdb.connect()
    duck.execute("CREATE TABLE r (k INT, a INT, b INT, s VARCHAR)")
    for _ in range(6):
        new = [row(r) for _ in range(r.randint(1, 6))]
        gone = r.sample(there, len(there) // 2)
        with db.batch():
            db.delete("r", gone)
            db.insert("r", new)
        for old in gone:
            there.remove(old)
        there += new
        duck.execute("DELETE FROM r")
        duck.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", there)
        for name in QUERIES:
            assert bag(db.view(name)) == bag(duck.execute(DUCKDB[name]).fetchall()), name


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM r PIVOT (SUM(b) FOR z IN (1))", "there is no column z"),
        ("SELECT * FROM r PIVOT (upper(s) FOR a IN (1))", "PIVOT takes aggregates"),
        ("SELECT * FROM r UNPIVOT (v FOR n IN (a, z))", "there is no column z"),
        ("SELECT * FROM r UNPIVOT (v FOR n IN (a, s))", "do not go together"),
        ("SELECT a AS c, b AS c, c + 1 AS d FROM r", "c is ambiguous: 2 columns before it have the name"),
        ("SELECT c + 1 AS d, a AS c FROM r", "there is no column c"),
    ],
)
def test_refused(query: str, message: str) -> None:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({ROW})")
    with pytest.raises(EverviewError, match=re.escape(message)):
        db.sql(f"CREATE VIEW v AS {query}")
