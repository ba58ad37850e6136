"""One view of each kind under random updates, compared with DuckDB after every batch and every single update."""

from __future__ import annotations

import pytest

from tests.engine.case_data import ColumnDef, TableDef
from tests.engine.differential import Run
from tests.engine.generator import case_for
from tests.engine.shrinking import fail_with


def _table(name: str, columns: str, key: tuple[int, ...] = ()) -> TableDef:
    kinds = {"INT": "n", "BIGINT": "n", "SMALLINT": "n", "TINYINT": "n", "DOUBLE": "f", "FLOAT": "f", "STRING": "s"}
    kinds |= {
        "DECIMAL(6,2)": "d",
        "DECIMAL(22,3)": "w",
        "DATE": "t",
        "TIMESTAMP_NTZ": "z",
        "BOOLEAN": "b",
        "BINARY": "y",
    }
    listed = [c.split() for c in columns.split("; ")]
    return TableDef(name, tuple(ColumnDef(c, kinds[t], t, i not in key) for i, (c, t) in enumerate(listed)), key)


SCHEMA = (
    _table("t", "a INT; b BIGINT; f DOUBLE; d DECIMAL(6,2); s STRING; day DATE"),
    _table("u", "a INT; c SMALLINT; g FLOAT; w DECIMAL(22,3); s STRING; z TIMESTAMP_NTZ; ok BOOLEAN"),
    _table("k", "id INT; y TINYINT; bin BINARY", (0,)),
    _table("e", "src INT; dst INT"),
)

VIEWS = """
SELECT t.a, u.c FROM t JOIN u ON t.a = u.a
SELECT t.a, u.c FROM t JOIN u ON t.b = u.c
SELECT t.a, u.c FROM t JOIN u ON t.f = u.g
SELECT t.a, u.c FROM t JOIN u ON t.a = t.f AND t.a = u.a
SELECT t.f, u.c FROM t JOIN u ON t.f = u.a
SELECT t.d, u.c FROM t JOIN u ON t.d = u.a
SELECT t.d, u.w FROM t JOIN u ON t.d = u.w
SELECT t.day, u.z FROM t JOIN u ON t.day = CAST(u.z AS DATE)
SELECT s, a, COUNT(*) AS n FROM t NATURAL JOIN u GROUP BY s, a
SELECT t.a, u.c FROM t JOIN u USING (a, s)
SELECT a, s FROM t LEFT SEMI JOIN u ON t.a = u.a
SELECT a, s FROM t LEFT SEMI JOIN u ON t.a = u.a AND t.s = u.s
SELECT t.a, k.bin FROM t CROSS JOIN k
SELECT bin, COUNT(*) AS n, MIN(y) AS m FROM k GROUP BY bin
SELECT DISTINCT bin FROM k
SELECT NULL AS x, a FROM t
SELECT DISTINCT CAST(NULL AS INT) AS x, 'it''s' AS y, 1.50 AS z, DATE '1999-01-01' AS d, TRUE AS b FROM t
SELECT a FROM t WHERE 1 = 1 AND a = a
SELECT a FROM t WHERE 1 = 2
SELECT COUNT(*) AS n FROM t WHERE FALSE
SELECT a FROM t WHERE a = 1.5 OR a = 2.0
SELECT a, b FROM t WHERE day = '1999-01-01' AND s <> 'it''s'
SELECT y FROM k WHERE y = 300
SELECT a FROM u WHERE c = 100000 OR ok
SELECT a, b FROM t WHERE a = 1 AND b = 1
SELECT a FROM t WHERE f = 1 AND d = 0.25
SELECT COUNT(*) AS n, SUM(a) AS s, MIN(s) AS m, AVG(f) AS f FROM t
SELECT DISTINCT COUNT(*) AS n, MAX(s) AS m FROM t
SELECT COUNT(*) AS n FROM t HAVING COUNT(*) > 2
(SELECT COUNT(*) AS n FROM t) UNION (SELECT COUNT(*) AS n FROM u)
(SELECT COUNT(*) AS n FROM t) UNION ALL (SELECT COUNT(*) AS n FROM u)
(SELECT COUNT(*) AS n, 'x' AS s FROM t) EXCEPT (SELECT COUNT(*) AS n, 'x' AS s FROM u)
(SELECT a FROM t) UNION (SELECT d FROM t)
(SELECT a, s FROM t) UNION ALL (SELECT f, s FROM t)
(SELECT a FROM t) INTERSECT (SELECT g FROM u)
(SELECT a FROM t) EXCEPT ALL (SELECT c FROM u)
(SELECT a, NULL AS x FROM t) UNION (SELECT c, w FROM u)
((SELECT a FROM t) EXCEPT (SELECT a FROM u)) UNION ALL ((SELECT id FROM k) INTERSECT ALL (SELECT src FROM e))
(SELECT a, COUNT(*) AS n FROM t GROUP BY a) UNION (SELECT a, COUNT(*) AS n FROM u GROUP BY a)
SELECT 1 AS one, COUNT(*) AS n FROM t GROUP BY 1
SELECT a + 1 AS k, SUM(b) AS n FROM t GROUP BY a + 1
SELECT upper(s) AS k, COUNT(DISTINCT a) AS n, MAX(day) AS d FROM t GROUP BY upper(s)
SELECT a % 2 AS k, b, COUNT(*) AS n FROM t GROUP BY a % 2, b HAVING SUM(a) >= 0
SELECT s, AVG(DISTINCT a) AS v, SUM(d) AS d, SUM(f) AS f FROM t GROUP BY s
SELECT s, AVG(d) AS v, VARIANCE(a) AS x, STDDEV_POP(f) AS y, VAR_POP(b) AS z FROM t GROUP BY s
SELECT s, SUM(w) AS x, SUM(DISTINCT w) AS y, MIN(w) AS m, MAX(z) AS z FROM u GROUP BY s
SELECT ok, MIN(g) AS a, MAX(c) AS b, SUM(g) AS c, SUM(c) AS d FROM u GROUP BY ok
SELECT a, SUM(CASE WHEN s = 'a' THEN b ELSE 0 END) AS x, COUNT(CASE WHEN f > 0.5 THEN 1 END) AS y FROM t GROUP BY a
SELECT t.s, SUM(t.a * u.c) AS x, COUNT(t.a + u.c) AS y FROM t JOIN u ON t.a = u.a GROUP BY t.s
SELECT t.s, SUM(t.b) AS x, SUM(u.c) AS y, MIN(u.g) AS z FROM t JOIN u ON t.a = u.a GROUP BY t.s
SELECT SUM(t.b) AS x, SUM(u.c) AS y FROM t, u
SELECT t.s, SUM(t.b) AS x FROM t JOIN u ON t.a = u.a WHERE t.b < u.c GROUP BY t.s
SELECT x.src, y.dst FROM e x JOIN e y ON x.dst = y.src
SELECT DISTINCT x.src, y.dst FROM e x JOIN e y ON x.dst = y.src
SELECT x.src, z.dst FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src
SELECT DISTINCT x.src FROM e x JOIN e y ON x.dst = y.src JOIN e z ON y.dst = z.src
SELECT x.src AS a, y.src AS b, z.src AS c FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src
SELECT COUNT(*) AS n, SUM(x.src) AS s FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src
SELECT DISTINCT x.src FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src
SELECT w.src AS a, y.src AS b FROM e w, e x, e y, e z WHERE w.dst = x.src AND x.dst = y.src AND y.dst = z.src AND z.dst = w.src
SELECT x.src, MIN(z.dst) AS m FROM e x, e y, e z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src GROUP BY x.src
SELECT x.src, y.dst FROM e x JOIN e y ON x.dst = y.src WHERE x.src <> y.dst AND x.src + y.dst > 1
SELECT a.src FROM e a, e b WHERE a.src = a.dst AND b.src = b.dst
SELECT x.src FROM e x WHERE x.src = 1 AND EXISTS (SELECT 1 FROM e y WHERE y.src = x.dst)
SELECT a FROM t WHERE a IN (SELECT c FROM u) AND s IN (SELECT s FROM u WHERE ok)
SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u)
SELECT t.a, g.n FROM t JOIN (SELECT a, COUNT(*) AS n FROM u GROUP BY a) g ON t.a = g.a
SELECT t.a, g.m FROM t, (SELECT MAX(c) AS m FROM u) g WHERE t.a < g.m
SELECT n, COUNT(*) AS groups FROM (SELECT a, COUNT(*) AS n FROM t GROUP BY a) g GROUP BY n
SELECT g.s, h.n FROM (SELECT DISTINCT s FROM t) g JOIN (SELECT s, COUNT(*) AS n FROM u GROUP BY s) h ON g.s = h.s
SELECT t.a FROM t JOIN u ON t.a = u.a + 1
SELECT t.a FROM t JOIN u ON upper(t.s) = upper(u.s)
SELECT t.a FROM t JOIN u ON t.a <=> u.a
SELECT t.a, u.a AS c FROM t JOIN u ON COALESCE(t.a, 0) = COALESCE(u.a, 0)
SELECT concat(t.s, u.s) AS x, COUNT(*) AS n FROM t JOIN u ON t.a = u.a GROUP BY concat(t.s, u.s)
SELECT DISTINCT t.a + u.c AS x FROM t JOIN u ON t.a = u.a
SELECT a, f / 2 AS h, CAST(f AS DECIMAL(8, 3)) AS x, CAST(a AS STRING) AS y FROM t
SELECT id, y, COUNT(*) AS n FROM k JOIN e ON id = src GROUP BY id, y
SELECT T.A, `u`.`c` FROM T JOIN U ON T.A = U.a
SELECT a FROM t ORDER BY a
""".strip().splitlines()  # noqa: E501


@pytest.mark.parametrize(
    ("seed", "view"),
    # Each takes little, and all of them much: unit tests have every other one.
    [pytest.param(i, view, id=str(i), marks=[pytest.mark.slow] * (i % 2)) for i, view in enumerate(VIEWS)],
)
def test_view(view: str, seed: int) -> None:
    case = case_for(seed, SCHEMA, (view,))
    run = Run(case)
    try:
        outcome = run.go()
    except Exception:
        fail_with(case)
        raise
    assert outcome.views == 1, (outcome.refused, outcome.unchecked)
