"""Views with PIVOT and UNPIVOT, and with outputs that name earlier ones."""

from __future__ import annotations

from random import Random
from typing import Any, Final

ROW: Final = "k INT, a INT, b INT, s STRING"
QUERIES: Final = {
    "one": "SELECT * FROM r PIVOT (SUM(b) FOR a IN (1 AS x, 2))",
    "several": "SELECT * FROM (SELECT a, b, s FROM r) PIVOT (SUM(b) AS t, COUNT(*) AS n FOR s IN ('p', 'q' AS qq))",
    "pairs": "SELECT * FROM (SELECT a, b, s FROM r) PIVOT (MAX(b) FOR (a, s) IN ((1, 'p') AS f, (2, 'q')))",
    "computed": "SELECT a, p + 1 AS more FROM (SELECT a, b, s FROM r) PIVOT (COALESCE(SUM(b), 0) FOR s IN ('p'))",
    "unpivot": "SELECT * FROM r UNPIVOT (v FOR n IN (a, b AS bb))",
    "with_null": "SELECT k, n, v FROM r UNPIVOT INCLUDE NULLS (v FOR n IN (a, b)) AS u WHERE v IS NULL OR v > 1",
    "named": "SELECT a + 1 AS c, c * 2 AS d, c + d AS e FROM r",
    "of_groups": "SELECT a, SUM(b) AS t, t + 1 AS u FROM r GROUP BY a",
    "column_first": "SELECT a + 1 AS b, b + 1 AS c FROM r",
}


def row(r: Random) -> tuple[Any, ...]:
    """One of few values, some of which are NULL."""
    return r.randint(0, 1), r.choice([None, 1, 2, 3]), r.choice([None, 0, 1, 2]), r.choice(["p", "q", None])
