"""SQL in, rule text out; and the lowered view means what the text means, as DuckDB sees both."""

from __future__ import annotations

import pytest

from everview.sql import parse_view
from tests.sql.cases import Case, parameters, schema
from tests.sql.evaluate import Evaluator, agree

SCHEMA = schema()
# DuckDB has no LEFT SEMI JOIN … USING of this form, HAVING-only globals and the like: written for it by hand.
FOR_DUCKDB = {
    "SELECT follows.src, r.a FROM follows NATURAL JOIN r": "SELECT follows.src, r.a FROM follows CROSS JOIN r",
    "SELECT t.k FROM t LEFT SEMI JOIN u ON t.k = u.k AND u.y > 1": (
        "SELECT t.k FROM t SEMI JOIN u ON t.k = u.k AND u.y > 1"
    ),
    "SELECT k, x FROM t LEFT SEMI JOIN u USING (k, s)": "SELECT k, x FROM t WHERE (k, s) IN (SELECT k, s FROM u)",
    "SELECT DISTINCT t.x FROM t LEFT SEMI JOIN u ON t.k = u.k AND t.x < u.y": (
        "SELECT DISTINCT t.x FROM t SEMI JOIN u ON t.k = u.k AND t.x < u.y"
    ),
}


@pytest.fixture(scope="module", params=[1, 2, 3])
def evaluator(request: pytest.FixtureRequest) -> Evaluator:
    """A DuckDB with random rows."""
    made = Evaluator(SCHEMA, seed=request.param)
    made.connection.execute('CREATE SCHEMA db; CREATE VIEW db.q AS SELECT * FROM "db.q"')
    return made


@pytest.mark.parametrize("case", parameters("*.test"))
def test_rule_text(case: Case) -> None:
    view = parse_view(case.sql, SCHEMA)
    text = "\n".join([str(view), *(f"-- {r}" for r in view.remarks)])
    assert text == case.expected.strip()


@pytest.mark.parametrize("case", parameters("*.test"))
def test_same_meaning(case: Case, evaluator: Evaluator) -> None:
    agree(evaluator, FOR_DUCKDB.get(case.sql, case.sql), parse_view(case.sql, SCHEMA))
