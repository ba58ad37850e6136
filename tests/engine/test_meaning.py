"""Expressions mean in an embedded view what they mean in Spark SQL's ANSI mode, where DuckDB's own meaning differs."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import ROUND_HALF_UP, Decimal, localcontext
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.errors import DataError, TypeMismatchError, UnsupportedError

COLUMNS = (
    "i INT, x DOUBLE, s STRING, ts TIMESTAMP, d DATE, p DECIMAL(10, 2), w DECIMAL(38, 10), z INT, early TIMESTAMP, "
    "f FLOAT, m INT, t STRING, b BINARY, o DOUBLE, big DOUBLE, small DOUBLE, half DOUBLE, day STRING, l BIGINT"
)
ROW = (
    3,
    2.75,
    "Hello",
    datetime(2024, 1, 31, 12, 5, 7, 500_000),
    date(2024, 1, 31),
    Decimal("99999999.99"),
    Decimal("1234567890123456789012345678.0123456785"),
    0,
    datetime(1969, 12, 31, 23, 59, 59, 500_000),
    0.1,
    16777217,
    "a_b",
    b"abc",
    None,
    2.5e10,
    -2.5e-5,
    1.005,
    "2024",
    -9,
)


MEANINGS = [
    ("p / (i * 2)", Decimal("16666666.6650000000000")),
    ("p / 7", Decimal("14285714.284286")),
    ("-p / 7", Decimal("-14285714.284286")),
    ("round(p / i, 1)", Decimal("33333333.3")),
    ("CASE WHEN z <> 0 THEN p / z ELSE p / i END", Decimal("33333333.3300000000000")),
    ("w / 3", Decimal("411522630041152263004115226.0041152262")),
    ("p div 7", 14285714),
    ("CAST(p - 99999999.989999999 AS DECIMAL(20, 10)) * CAST(0.000000001 AS DECIMAL(20, 10)) = 0", True),
    ("w + w", Decimal("2469135780246913578024691356.024691357")),
    ("w - 0.5", Decimal("1234567890123456789012345677.512345679")),
    ("CAST(p AS INT)", 99999999),
    ("CAST(-x AS BIGINT)", -2),
    ("int(x)", 2),
    ("bigint(p)", 99999999),
    ("TRY_CAST(p * 1000 AS INT)", None),
    ("CAST(ts AS STRING)", "2024-01-31 12:05:07.5"),
    ("concat(s, ' ', ts)", "Hello 2024-01-31 12:05:07.5"),
    ("CAST(ts AS BIGINT)", 1706702707),
    ("CAST(early AS BIGINT)", -1),
    ("unix_seconds(early)", -1),
    ("unix_timestamp(ts)", 1706702707),
    ("CAST(i AS TIMESTAMP)", datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)),
    ("dayofweek(d)", 4),
    ("weekday(d)", 2),
    ("extract(DOW FROM d)", 4),
    ("extract(SECOND FROM ts)", Decimal("7.500000")),
    ("second(ts)", 7),
    ("dayname(d)", "Wed"),
    ("monthname(d)", "Jan"),
    ("trunc(d, 'MM')", date(2024, 1, 1)),
    ("from_utc_timestamp(ts, 'Europe/Oslo')", datetime(2024, 1, 31, 13, 5, 7, 500_000, tzinfo=UTC)),
    ("substring(s, 0, 3)", "Hel"),
    ("substring(s, z, 2)", "He"),
    ("replace(s, 'l')", "Heo"),
    ("isnull(s)", False),
    ("isnotnull(s)", True),
    ("pmod(-7, i)", 2),
    ("negative(i)", -3),
    ("zeroifnull(i)", 3),
    (r"t LIKE 'a\\_b'", True),
    (r"t LIKE 'a\_b'", True),
    (r"s LIKE 'H\\_llo'", False),
    (r"s ILIKE 'h\\_llo'", False),
    (r"t LIKE '%\\%'", False),
    (r"concat(t, '%') LIKE '%\\%'", True),
    (r"NOT s LIKE '%\\%'", True),
    ("t LIKE 'a!_b' ESCAPE '!'", True),
    (r"like(s, 'H\\_llo')", False),
    ("like(s, 'H_llo')", True),
    ("f = 0.1", False),
    ("f <> 0.1", True),
    ("f IN (0.1, 3)", False),
    ("f BETWEEN 0.1 AND 0.1", False),
    ("CASE f WHEN 0.1 THEN 1 ELSE 2 END", 2),
    ("f <=> 0.1", False),
    ("f = CAST(0.1 AS FLOAT)", True),
    ("m + CAST(0.5 AS FLOAT)", 16777217.5),
    ("m - CAST(0.5 AS FLOAT)", 16777216.5),
    ("m * CAST(0.5 AS FLOAT)", 8388608.5),
    ("m % CAST(2.5 AS FLOAT)", 2.0),
    ("m > CAST(16777216 AS FLOAT)", True),
    ("coalesce(CAST(NULL AS FLOAT), m)", 16777217.0),
    *((f"nullif({n}, {n}) {sign} z", None) for n in ("i", "p") for sign in ("/", "%", "div")),
    ("nullif(x, x) / z", None),
    ("nullif(i, i) / 0", None),
    ("pmod(nullif(i, i), z)", None),
    ("CASE WHEN i = 3 THEN m ELSE f END", 16777217.0),
    ("sha2(s, 256)", "185f8db32271fe25f561a6fc938b2e264306ec304eda518007d1764826381969"),
    ("encode('é', 'UTF-8')", "é".encode()),
    ("sha2(s, 0) = sha2(s, 256)", True),
    ("date_format(d, 'yyyy年MM')", "2024年01"),
    ("ln(z)", None),
    ("log2(-x)", None),
    ("log10(z)", None),
    ("log(-x)", None),
    ("log(2, 8)", 3.0),
    ("log(2, -8)", None),
    ("left(s, -1)", ""),
    ("right(s, -2)", ""),
    ("left(s, 2)", "He"),
    ("substring(s, 2, -1)", ""),
    ("substring(s, -7, 3)", "H"),
    ("substring(s, -3)", "llo"),
    ("substring(s FROM 2 FOR z - 1)", ""),
    ("regexp_replace(s, '(l+)', '<$1>')", "He<ll>o"),
    ("regexp_replace(s, 'l', 'L')", "HeLLo"),
    ("date_format(ts, 'yyyy-MM-dd HH:mm:ss')", "2024-01-31 12:05:07"),
    ("date_format(ts, 'EEE EEEE MMM MMMM M d h a yy')", "Wed Wednesday Jan January 1 31 12 PM 24"),
    ("extract(SECONDS FROM ts)", Decimal("7.500000")),
    ("date_part('SECONDS', ts)", Decimal("7.500000")),
    ("months_between(ts, DATE '2023-11-15')", 2.53237269),
    ("months_between(d, DATE '2023-11-30')", 2.0),
    ("round(half, 2)", 1.01),
    ("round(-half, 2)", -1.01),
    ("round(big, 3)", 2.5e10),
    ("round(x)", 3.0),
    ("shiftleft(i, 33)", 6),
    ("shiftleft(i, 31)", -(2**31)),
    ("shiftright(i, 33)", 1),
    ("shiftright(l, 65)", -5),
    ("shiftleft(l, 62)", -(2**62)),
    ("locate('l', s, 0)", 0),
    ("locate('l', s, 4)", 4),
    ("locate('l', s)", 3),
    ("isnan(o)", False),
    ("isnan(x)", False),
    ("char(321)", "A"),
    ("chr(i - 4)", ""),
    ("to_date('2024-02-29')", date(2024, 2, 29)),
    ("to_date('29.02.2024', 'dd.MM.yyyy')", date(2024, 2, 29)),
    ("to_timestamp('2024-02-29 01:02:03')", datetime(2024, 2, 29, 1, 2, 3, tzinfo=UTC)),
    ("unix_timestamp('1970-01-01 00:01:00')", 60),
    ("split_part('a,b', ',', -1)", "b"),
    ("x < 'NaN'", True),
    ("x > '-Infinity'", True),
    ("x < '1e400'", True),
    ("TRY_CAST(concat('2.', i) AS INT)", None),
    ("TRY_CAST(concat('1e', i) AS INT)", None),
    ("TRY_CAST('0x1F' AS INT)", None),
    ("TRY_CAST('1_000' AS INT)", None),
    ("TRY_CAST('1_000' AS DOUBLE)", None),
    ("TRY_CAST('1e3' AS DOUBLE)", 1000.0),
    ("TRY_CAST('1.25' AS DECIMAL(5, 1))", Decimal("1.3")),
    ("CAST(concat(' ', i, ' ') AS INT)", 3),
    ("TRY_CAST(concat(left(s, z), 'epoch') AS DATE)", None),
    ("TRY_CAST(concat(left(s, z), 'infinity') AS DATE)", None),
    ("TRY_CAST(concat(day, '/01/05') AS DATE)", None),
    ("TRY_CAST(concat(day, '/01/05') AS TIMESTAMP)", None),
    ("TRY_CAST('2024/01/05' AS DATE)", None),
    ("TRY_CAST('2024-01-05' AS DATE)", date(2024, 1, 5)),
    ("CAST(day AS DATE)", date(2024, 1, 1)),
    ("CAST(concat(day, '-3') AS DATE)", date(2024, 3, 1)),
    ("CAST(concat(day, '-3-5 12:00') AS DATE)", date(2024, 3, 5)),
    ("CAST(concat(day, '-03-05 12:00:01.5') AS TIMESTAMP)", datetime(2024, 3, 5, 12, 0, 1, 500_000, tzinfo=UTC)),
    ("CAST(lower('YES') AS BOOLEAN)", True),
    ("CAST(big AS STRING)", "2.5E10"),
    ("CAST(small AS STRING)", "-2.5E-5"),
    ("CAST(x AS STRING)", "2.75"),
    ("CAST(f AS STRING)", "0.1"),
    ("string(big)", "2.5E10"),
    ("concat(big, '!')", "2.5E10!"),
    ("s || small", "Hello-2.5E-5"),
    ("s || ts", "Hello2024-01-31 12:05:07.5"),
    ("CAST(CAST('nan' AS DOUBLE) AS STRING)", "NaN"),
    ("CAST(CAST('-inf' AS DOUBLE) AS STRING)", "-Infinity"),
    ("CAST(b AS STRING)", "abc"),
    ("CAST(s AS BINARY)", b"Hello"),
    ("d < '2024-02'", True),
]
"""Expressions and their values; tests/spark/test_meaning.py has Spark compute them as well."""


GUARDED = [
    ("z = 0 OR 4 / z > 1", True),
    ("z <> 0 AND 4 / z > 1", False),
    ("i = 3 AND (z = 0 OR 4 / z > 1)", True),
    ("z = 1 OR z = 0 OR 4 / z > 1 OR 5 % z = 1", True),
    ("NOT (z <> 0 AND (i = 3 AND 4 / z > 1))", True),
]
"""Spark computes these one at a time only: in one SELECT it takes the quotient out of them, and fails."""


UNREADABLE = [
    "CAST(concat('2.', i) AS INT)",
    "CAST('2.5' AS INT)",
    "CAST(concat(day, '/01/05') AS DATE)",
    "CAST(s AS BOOLEAN)",
    "to_date(s)",
    "to_date('2024-1-5', 'yyyy-MM-dd')",
    "split_part(s, 'l', z)",
]
"""Errors in Spark as well."""


def _value(expression: str) -> Any:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS y FROM r")
    db.insert("r", [ROW])
    return next(iter(db.view("v")))[0]


@pytest.mark.parametrize(("expression", "wanted"), [*MEANINGS, *GUARDED])
def test_an_expression_means_what_spark_means(expression: str, wanted: object) -> None:
    """Exact division, casts that cut, timestamps without their zone, and functions that count in another way."""
    assert _value(expression) == wanted


@pytest.mark.parametrize("expression", ["i / z", "x / z", "p / z", "i % z", "x % z", "p % z", "i div z", "p div z"])
def test_division_by_zero_is_an_error(expression: str) -> None:
    """As in ANSI mode: it is not NULL, and the error says it in few words."""
    with pytest.raises(DataError, match="division by zero"):
        _value(expression)


@pytest.mark.parametrize("expression", UNREADABLE)
def test_text_that_cannot_be_read_is_an_error(expression: str) -> None:
    with pytest.raises(DataError):
        _value(expression)


def test_text_after_a_date_is_no_date() -> None:
    with pytest.raises(TypeMismatchError, match="is not a date"):
        _value("d = '2024-01-01junk'")


def test_a_branch_of_or_guards_those_after_it() -> None:
    """Also in WHERE, and where the condition is NULL."""
    db = ev.Database()
    db.sql("CREATE TABLE r (k INT, n INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM r WHERE k = 0 OR n IS NULL OR 4 / k > 1")
    db.insert("r", [(0, 1), (2, 1), (8, 1), (None, 1), (0, None)])
    assert sorted(db.view("v")) == [(0,), (0,), (2,)]


def test_a_month_is_not_thirty_days() -> None:
    """DuckDB takes the two for one expression, unless it is told not to look for such."""
    db = ev.Database()
    db.sql("CREATE TABLE r (d DATE)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT d + INTERVAL 1 MONTH AS m, d + INTERVAL 30 DAY AS n FROM r")
    db.insert("r", [(date(2024, 3, 24),)])
    assert list(db.view("v")) == [(date(2024, 4, 24), date(2024, 4, 23))]


@pytest.mark.parametrize(("p", "s", "q", "t"), [(10, 2, 10, 0), (18, 6, 18, 6), (5, 5, 3, 1), (38, 10, 4, 2)])
def test_decimals_are_divided_exactly(p: int, s: int, q: int, t: int) -> None:
    """Rounded once, halves away from zero, whatever the digits."""
    random = Random(p * s)
    db = ev.Database()
    db.sql(f"CREATE TABLE r (k INT, a DECIMAL({p}, {s}), b DECIMAL({q}, {t}))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, a / b AS y FROM r")
    with localcontext(prec=100):
        rows: list[tuple[Any, ...]] = []
        for k in range(200):
            most = 10 ** random.randint(1, min(p, 28))
            a = Decimal(random.randrange(-most + 1, most)).scaleb(-s)
            rows.append((k, a, Decimal(random.choice([-1, 1]) * random.randrange(1, 10**q)).scaleb(-t)))
        rows.append((200, None, Decimal(1)))
        db.insert("r", rows)
        scale = db.view("v").to_arrow().schema.field("y").type.scale
        unit = Decimal(1).scaleb(-scale)
        wanted = {k: None if a is None else (a / b).quantize(unit, ROUND_HALF_UP) for k, a, b in rows}
        assert dict(db.view("v")) == wanted


@pytest.mark.parametrize(
    ("left", "operator", "right", "type_"),
    [
        ((10, 2), "+", (18, 6), (19, 6)),
        ((10, 2), "-", (18, 6), (19, 6)),
        ((10, 2), "*", (18, 6), (29, 8)),
        ((38, 10), "+", (38, 10), (38, 9)),
        ((38, 10), "-", (38, 10), (38, 9)),
        ((37, 37), "+", (38, 19), (38, 18)),
        ((37, 37), "-", (38, 19), (38, 18)),
        ((38, 37), "+", (1, 1), (38, 36)),
        ((38, 37), "-", (1, 1), (38, 36)),
        ((38, 37), "*", (1, 1), (38, 36)),
        ((38, 0), "+", (20, 5), (38, 5)),
        ((38, 0), "-", (20, 5), (38, 5)),
        ((38, 0), "*", (20, 5), (38, 5)),
    ],
)
def test_decimals_have_all_digits_that_their_type_holds(
    left: tuple[int, int], operator: str, right: tuple[int, int], type_: tuple[int, int]
) -> None:
    """Computed exactly, rounded once to the type that Spark gives the result, and an error only beyond that."""
    precision, scale = type_
    random = Random(precision + left[0] * scale)
    db = ev.Database()
    db.sql(f"CREATE TABLE r (a DECIMAL({left[0]}, {left[1]}), b DECIMAL({right[0]}, {right[1]}))")
    db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT a {operator} b AS y FROM r")
    found = db.view("v").to_arrow().schema.field("y").type
    assert (found.precision, found.scale) == type_

    def number(digits: int, places: int) -> Decimal:
        most = 10**digits - 1
        return Decimal(random.choice([most, -most, 0, 1, random.randint(-most, most)])).scaleb(-places)

    with localcontext(prec=120):
        for _ in range(40):
            a, b = number(*left), number(*right)
            exact = a + b if operator == "+" else a - b if operator == "-" else a * b
            wanted = exact.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP)
            if abs(wanted) < Decimal(10) ** (precision - scale):
                db.insert("r", [(a, b)])
                assert list(db.view("v")) == [(wanted,)], (a, b)
                db.delete("r", [(a, b)])
            else:
                with pytest.raises(DataError):
                    db.insert("r", [(a, b)])


def test_an_integer_literal_has_its_own_digits() -> None:
    """Of either sign, as in Spark: it is no INT beside a decimal."""
    db = ev.Database()
    db.sql("CREATE TABLE r (p DECIMAL(10, 2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT p * 3 AS x, p * -3 AS y, p + 007 AS z FROM r")
    types = [(f.type.precision, f.type.scale) for f in db.view("v").to_arrow().schema]
    assert types == [(12, 2), (12, 2), (11, 2)]


def test_a_condition_guards_those_after_it() -> None:
    """WHERE, HAVING and the outputs of groups are computed for the rows that they are needed for."""
    db = ev.Database()
    db.sql("""
        CREATE TABLE r (g STRING, n INT, x INT, p DECIMAL(10, 2));
        CREATE TABLE t (n INT, m INT);
        CREATE MATERIALIZED VIEW own AS SELECT g FROM r WHERE x <> 0 AND n / x > 1;
        CREATE MATERIALIZED VIEW texts AS SELECT g FROM r WHERE g RLIKE '^[0-9]+$' AND CAST(g AS INT) > 3;
        CREATE MATERIALIZED VIEW across AS
            SELECT g FROM r JOIN t ON r.n = t.n WHERE x <> m AND r.n / (x - m) > 1;
        CREATE MATERIALIZED VIEW sums AS
            SELECT g, SUM(p / x) AS s, SUM(p) / COUNT(*) AS a FROM r WHERE x <> 0
            GROUP BY g HAVING SUM(p) / COUNT(*) > 1;
        CREATE MATERIALIZED VIEW ratios AS SELECT g, SUM(n) / SUM(x) AS y FROM r GROUP BY g HAVING SUM(x) <> 0;
    """)
    feed = db.view("sums").changes()
    rows = [("a", 5, 0, Decimal(4)), ("7", 5, 2, Decimal(8)), ("a", 5, 1, Decimal(3)), (None, None, None, None)]
    db.insert("t", [(5, 2), (5, 0)])
    for row in rows:
        db.insert("r", [row])
    assert sorted(db.view("own")) == [("7",), ("a",)]
    assert list(db.view("texts")) == [("7",)]
    assert sorted(db.view("across")) == [("7",), ("a",)]
    assert sorted(db.view("sums")) == [("7", 4, 8), ("a", 3, 3)]
    assert sorted(db.view("ratios")) == [("7", 2.5), ("a", 10.0)]
    for row in rows:
        db.delete("r", [row])
    assert not any(len(db.view(name)) for name in db.views)
    assert sum(batch.num_rows for batch in feed.read()) == 4


@pytest.mark.parametrize(
    "expression",
    [
        "hash(s)",
        "d + INTERVAL '1-2' YEAR TO MONTH",
        "sha2(s, 512)",
        "sha2(s, i)",
        "encode(s, 'iso-8859-1')",
        "round(x, i)",
        "date_format(ts, 'Q')",
        "date_format(ts, 'u')",
        "date_format(ts, s)",
        "to_date(s, 'yy-MM-dd')",
        "regexp_replace(s, '(l)', t)",
        "regexp_replace(s, '(l)', '$12')",
        "months_between(ts, d, false)",
        "shiftleft(CAST(i AS TINYINT), 1)",
        r"s LIKE 'a\\b'",
    ],
)
def test_what_cannot_be_computed_is_refused_when_it_is_defined(expression: str) -> None:
    """Not when the first row comes, as if that were to blame."""
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({COLUMNS})")
    with pytest.raises(UnsupportedError, match="cannot be computed in a view"):
        db.sql(f"CREATE MATERIALIZED VIEW v AS SELECT {expression} AS y FROM r")
    assert db.views == ()
