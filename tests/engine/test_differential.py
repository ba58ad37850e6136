"""Random cases against DuckDB: a few hundred here, 20,000 with ``make soak``; and the bugs that they have found."""

from __future__ import annotations

import pytest

from everview.engine import change_feed
from everview.engine.operators import join
from tests.engine import differential
from tests.engine.differential import run_case
from tests.engine.generator import make_case
from tests.engine.option_generator import DROPPED, OPTIONS
from tests.engine.shrinking import fail_with
from tests.scale import scaled

PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases(part: int) -> None:
    _run(range(part * 100_000, part * 100_000 + scaled(5)))


@pytest.mark.parametrize("slice_", [1, 4, 13])
def test_random_cases_whose_deltas_come_in_tiny_pieces(slice_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What large deltas go through: several pieces, joined or not."""
    for module in (join, change_feed):
        monkeypatch.setattr(module, "SLICE", slice_)
    monkeypatch.setattr(differential, "MOST_BATCHES", 1 << 30)
    _run(range(900_000 + slice_ * 1_000, 900_000 + slice_ * 1_000 + scaled(5)))


def _run(seeds: range) -> None:
    for seed in seeds:
        case = make_case(seed)
        try:
            run_case(case)
        except Exception:
            fail_with(case)
            raise


def test_cases_are_made_of_many_things() -> None:
    """The generator makes what it is meant to make."""
    cases = [make_case(seed) for seed in range(3_000)]
    texts = " ".join(s.text for c in cases for s in c.steps)
    for word in (
        "UNION",
        "UNION ALL",
        "EXCEPT",
        "EXCEPT ALL",
        "INTERSECT",
        "INTERSECT ALL",
        "DISTINCT",
        "HAVING",
        "EXISTS",
    ):
        assert f"{word} " in texts, word
    for word in (
        "COUNT(*)",
        "SUM(",
        "AVG(",
        "MIN(",
        "MAX(",
        "COUNT(DISTINCT",
        "STDDEV",
        "FILTER",
        "WITH cte",
        ":-",
        "v0 x",
    ):
        assert word in texts, word
    for word in (
        "10 div (",
        "7 % (",
        "12 / (",
        "AS TINYINT)",
        "10 / COUNT(*)",
        "10 / SUM(",
        "HAVING 10 / ",
        "p.n / q.n",
    ):
        assert word in texts, word
    for word in (
        *(
            "LEFT JOIN",
            "RIGHT JOIN",
            "FULL JOIN",
            "ANTI JOIN",
            "SEMI JOIN",
            "USING (",
            "NOT EXISTS (",
            "NOT IN (SELECT",
        ),
        *("ANY (SELECT", "ALL (SELECT", "(SELECT COUNT(*)", "LATERAL (", "LATERAL VIEW explode(", "LATERAL VIEW OUTER"),
        *("posexplode(", "PIVOT (", "UNPIVOT (", "ROLLUP (", "CUBE (", "GROUPING SETS (", "GROUPING(", "VALUES ("),
        *(
            "LIMIT ",
            "OFFSET ",
            "WITH TIES",
            "QUALIFY ",
            "ROW_NUMBER()",
            "DENSE_RANK()",
            "ROWS BETWEEN",
            "RANGE BETWEEN",
        ),
        *("NTH_VALUE(", "WINDOW w AS", "window.start", "session_window(", "range(3)", "sequence(", "named_struct("),
        *(
            "array(",
            "COLLECT_LIST(",
            "COLLECT_SET(",
            "LISTAGG(",
            "ANY_VALUE(",
            "BIT_XOR(",
            "MEDIAN(",
            "MAX_BY(",
            "REGR_",
        ),
        *("SOME (SELECT", "ORDER BY u0.", "LEFT JOIN LATERAL (", "NATURAL LEFT JOIN", "NATURAL FULL JOIN"),
        *("MODE(", "MODE() WITHIN", "FIRST(", "LAST_VALUE(", "COUNT_IF(", "EVERY(", "SOME(", "MIN_BY(", "STRING_AGG("),
        *("CORR(", "COVAR_SAMP(", "COVAR_POP(", "REGR_SLOPE(", "REGR_R2(", "SKEWNESS(", "KURTOSIS(", "PERCENTILE("),
        *("PERCENTILE_APPROX(", "json_tuple(", "get_json_object(", "stack(2", "inline(array(", "explode(map("),
        *(", UNNEST(", ", LATERAL explode(", "transform(", "exists(", "aggregate(", "LIKE ANY (", "NOT LIKE ALL ("),
        *(" NOT IN ((", "INTERVAL 1 MONTH", "TUMBLE(", "HOP(", "explode(entries)", "s.x", "entries['a']", "l = array("),
    ):
        assert word in texts, word
    options = {s.options for c in cases for s in c.steps if s.options}
    assert options == {*OPTIONS, *DROPPED}
    split = " ".join(s.text for c in cases for s in c.steps if s.name.startswith("d") and s.options)
    for word in ("SELECT COUNT(*) AS n FROM", "SELECT DISTINCT", "SUM(", "AS c5 FROM"):
        assert word in split, word
    assert max(len({name for _, name, _ in s.operations}) for c in cases for s in c.steps) >= 3
    kinds = {(s.kind, s.option) for c in cases for s in c.steps if s.kind != "rules"}
    for option in ("net", "per_update", "subscribe", "subscribe_per_update"):
        assert ("feed", option) in kinds
    for option in ("over_delete", "duplicate_key", "type", "null", "overflow", "arity"):
        assert ("bad", option) in kinds
    assert {"close", "batch", "alter", "load", "advance"} <= {kind for kind, _ in kinds}
