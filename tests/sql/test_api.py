"""What the four entry points promise beyond single cases: names, types, order, and clean refusal of monsters."""

from __future__ import annotations

import pytest

from everview.errors import SchemaError, SizeError, SqlSyntaxError
from everview.query.schema import ForeignKey, Schema, SmallDomain
from everview.query.terms import Const
from everview.query.types import BIGINT, DOUBLE, INT, STRING, Kind, decimal
from everview.sql import parse_schema, parse_script, parse_view
from tests.sql.cases import schema

SCHEMA = schema()


def types(sql: str) -> list[str]:
    return [str(c.type) for c in parse_view(sql, SCHEMA).columns]


def test_schema_has_all_types() -> None:
    (table,) = parse_schema(
        "CREATE TABLE z (a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(9, 3),"
        " i STRING, j VARCHAR(10), k CHAR(3), l BINARY, m DATE, n TIMESTAMP, o TIMESTAMP_NTZ, p INTEGER, q DECIMAL)"
    )
    kinds = "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL STRING STRING STRING BINARY DATE TIMESTAMP"
    assert [c.type.kind.value for c in table.columns] == [*kinds.split(), "TIMESTAMP_NTZ", "INT", "DECIMAL"]
    assert table.columns[7].type == decimal(9, 3)
    assert table.columns[16].type == decimal(10, 0)


def test_constraints() -> None:
    tables = parse_schema(
        """
        CREATE TABLE line (o INT, n INT, s STRING CHECK (s IN ('x', 'y')), d DATE, PRIMARY KEY (o, n),
                           CONSTRAINT fk FOREIGN KEY (o) REFERENCES ord (id), CHECK (d IN ('1995-01-01')));
        CREATE TABLE ord (id INT PRIMARY KEY, c INT NOT NULL REFERENCES cust) USING delta;
        CREATE TABLE IF NOT EXISTS cust (id INT NOT NULL PRIMARY KEY, name STRING COMMENT 'who');
        CREATE TABLE IF NOT EXISTS cust (other INT);
        """
    )
    line, order = tables.table("LINE"), tables.table("ord")
    assert line is not None
    assert order is not None
    assert [t.name for t in tables] == ["line", "ord", "cust"]
    assert line.primary_key == ("o", "n")
    assert [c.nullable for c in line.columns] == [False, False, True, True]
    assert line.foreign_keys == (ForeignKey(("o",), "ord", ("id",)),)
    assert order.foreign_keys == (ForeignKey(("c",), "cust", ("id",)),)
    assert line.small_domains[0] == SmallDomain("s", (Const("x"), Const("y")))
    assert str(line.small_domains[1]) == "d IN (DATE '1995-01-01')"


def test_schema_grows() -> None:
    first = parse_schema("CREATE TABLE a (x INT PRIMARY KEY)")
    second = parse_schema("CREATE TABLE b (x INT REFERENCES a)", first)
    assert [t.name for t in second] == ["a", "b"]
    with pytest.raises(SchemaError):
        parse_schema("CREATE TABLE A (x INT)", first)


def test_script_in_order() -> None:
    tables, views = parse_script(
        """
        CREATE TABLE f (s BIGINT, d BIGINT); -- edges
        CREATE MATERIALIZED VIEW hop AS SELECT a.s, b.d FROM f a JOIN f b ON a.d = b.s;
        SELECT s, COUNT(*) AS n FROM hop GROUP BY s;
        CREATE OR REPLACE VIEW big (who) AS SELECT s FROM query1 WHERE n > 3;
        SELECT who FROM big;
        """
    )
    assert [t.name for t in tables] == ["f"]
    assert [v.name for v in views] == ["hop", "query1", "big", "query2"]
    assert str(views[1]) == "query1(s, count(*)) :- hop(s, d)."
    assert str(views[2]) == "big(s) :- query1(s, n), n > 3."
    assert [c.name for c in views[2].columns] == ["who"]
    assert str(views[3]) == "query2(who) :- big(who)."


def test_a_view_may_be_replaced() -> None:
    _, views = parse_script(
        "CREATE TABLE z (a INT, b INT); CREATE VIEW v AS SELECT a FROM z; CREATE OR REPLACE VIEW v AS SELECT b FROM z"
    )
    assert [str(v) for v in views] == ["v(b) :- z(a, b)."]


def test_view_names() -> None:
    assert parse_view("SELECT a FROM r", SCHEMA).name == "view"
    assert parse_view("SELECT a FROM r", SCHEMA, "mine").name == "mine"
    assert parse_view("CREATE MATERIALIZED VIEW hops AS SELECT a FROM r;", SCHEMA).name == "hops"
    assert parse_view("CREATE VIEW v (p) AS SELECT a FROM r UNION SELECT b FROM r", SCHEMA).columns[0].name == "p"


def test_types_of_outputs() -> None:
    assert types("SELECT k + 1, k / 2, v * 2, m + k, m * m, m / 3, x % 2 FROM t") == [
        "INT", "DOUBLE", "DOUBLE", "DECIMAL(13, 2)", "DECIMAL(25, 4)", "DECIMAL(16, 6)", "INT"
    ]  # fmt: skip
    assert types("SELECT price * (1 - discount) FROM item") == ["DECIMAL(18, 4)"]
    assert types("SELECT SUM(x), SUM(m), SUM(v), AVG(x), AVG(m), COUNT(*), MIN(d), STDDEV(x) FROM t") == [
        "BIGINT", "DECIMAL(22, 2)", "DOUBLE", "DOUBLE", "DECIMAL(16, 6)", "BIGINT", "DATE", "DOUBLE"
    ]  # fmt: skip
    assert types("SELECT d + INTERVAL 1 DAY, d + INTERVAL 1 HOUR, YEAR(d), s || 'x', x > 1, NULL FROM t") == [
        "DATE", "TIMESTAMP", "INT", "STRING", "BOOLEAN", "NULL"
    ]  # fmt: skip
    assert types("SELECT k FROM t UNION ALL SELECT k FROM u") == [str(BIGINT)]
    assert types("SELECT k, 1 AS c, 'a' AS s FROM t UNION ALL SELECT v, 2.5, NULL FROM t") == [
        str(DOUBLE), "DECIMAL(11, 1)", str(STRING)
    ]  # fmt: skip
    assert types("SELECT ROUND(m, 1), CEIL(m), FLOOR(v), ABS(m), COALESCE(k, v), soundex(s), cot(v) FROM t") == [
        "DECIMAL(12, 1)", "DECIMAL(11, 0)", "BIGINT", "DECIMAL(12, 2)", "DOUBLE", "STRING", "DOUBLE"
    ]  # fmt: skip
    assert types("SELECT x FROM t") == [str(INT)]


def test_nullability() -> None:
    sql = "SELECT c.id, c.nation, o.total, o.id AS o, COUNT(*) AS n FROM customer c JOIN orders o ON c.id = o.customer"
    view = parse_view(f"{sql} GROUP BY c.id, c.nation, o.total, o.id", SCHEMA)
    assert [c.nullable for c in view.columns] == [False, True, True, False, False]
    view = parse_view("SELECT x, x + 1 AS y, COALESCE(x, 0) AS z, 1 AS one FROM t WHERE x IS NOT NULL", SCHEMA)
    assert [c.nullable for c in view.columns] == [False, False, True, False]


def test_joined_variables_refuse_null() -> None:
    view = parse_view("SELECT a FROM r WHERE a = a AND b IS NOT NULL", SCHEMA)
    assert {v.name for v in view.body.not_null} == {"a", "b"}  # type: ignore[union-attr]


def test_purposes_and_remarks() -> None:
    view = parse_view(
        "SELECT t.k FROM t JOIN (SELECT k, COUNT(*) AS n FROM u GROUP BY k) g ON g.n = t.x "
        "WHERE t.k IN (SELECT a FROM r) ORDER BY 1",
        SCHEMA,
    )
    assert [s.purpose for s in view.stages] == ["grouped subquery in FROM", "right side of IN"]
    assert view.remarks == ("ORDER BY has no meaning for a view: read it ordered instead",)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "(" * 2000 + "a" + ")" * 2000 + " FROM r",
        "SELECT a FROM r WHERE " + "NOT " * 5000 + "a = 1",
        "SELECT " + "- " * 5000 + "a AS z FROM r",
        "SELECT " + " + ".join(["a"] * 5000) + " AS z FROM r",
        "SELECT " + "CASE WHEN a = 1 THEN " * 400 + "1" + " END" * 400 + " AS z FROM r",
        " UNION ALL ".join(["SELECT a FROM r"] * 1000),
        "SELECT a FROM " + "(SELECT a FROM " * 300 + "r" + ") x" * 300,
    ],
)
def test_monsters(text: str) -> None:
    with pytest.raises((SqlSyntaxError, SizeError)):
        parse_view(text, SCHEMA)


def test_unused_with_entries_leave_no_stage() -> None:
    counts = "n AS (SELECT k, COUNT(*) AS c FROM t GROUP BY k)"
    view = parse_view(f"WITH {counts}, p AS (SELECT c FROM n), q AS (SELECT DISTINCT a FROM r) SELECT c FROM n", SCHEMA)
    assert [s.name for s in view.stages] == ["view$n"]
    assert parse_view(f"WITH {counts} SELECT a FROM r", SCHEMA).stages == ()


def test_many_conditions_are_fine() -> None:
    view = parse_view("SELECT a FROM r WHERE " + " AND ".join(f"a <> {i}" for i in range(500)), SCHEMA)
    assert str(view).count("<>") == 500


def test_strings_do_not_look_like_holes() -> None:
    view = parse_view("SELECT a || 'ev0_evv1_ev' AS ev0_ FROM (SELECT s AS a FROM t) x WHERE a LIKE '%ev0_%'", SCHEMA)
    assert str(view) == "view(s || 'ev0_evv1_ev') :- t(k, x, s, d, v, m), s LIKE '%ev0_%'."


def test_kinds_of_literals() -> None:
    assert types("SELECT 1, 3000000000, 1.5, 1e3, 'x', TRUE, DATE '1995-01-01', X'41', 1L, 2.5D FROM r") == [
        "INT", "BIGINT", "DECIMAL(2, 1)", "DOUBLE", "STRING", "BOOLEAN", "DATE", "BINARY", "BIGINT", "DOUBLE"
    ]  # fmt: skip
    assert parse_view("SELECT a FROM r", Schema(SCHEMA.tables)).columns[0].type.kind is Kind.INT
