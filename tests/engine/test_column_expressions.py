"""Simple expressions computed by Arrow give exactly what DuckDB gives, errors included."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.engine.expressions.evaluate import Evaluator, _Query
from everview.engine.values.words import arrow_type
from everview.errors import DataError
from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, BOOLEAN, DATE, INT, STRING, TIMESTAMP, DataType, Kind, decimal
from everview.sql.column_expressions import column_expression

TINYINT, SMALLINT = DataType(Kind.TINYINT), DataType(Kind.SMALLINT)
NTZ = DataType(Kind.TIMESTAMP_NTZ)
BITS = {TINYINT: 7, SMALLINT: 15, INT: 31, BIGINT: 63}
TYPES = {
    Var("t"): TINYINT,
    Var("h"): SMALLINT,
    Var("i"): INT,
    Var("j"): INT,
    Var("b"): BIGINT,
    Var("c"): BIGINT,
    Var("m"): decimal(10, 2),
    Var("n"): decimal(18, 4),
    Var("w"): decimal(38, 10),
    Var("s"): STRING,
    Var("u"): STRING,
    Var("d"): DATE,
    Var("e"): DATE,
    Var("x"): TIMESTAMP,
    Var("y"): NTZ,
    Var("p"): BOOLEAN,
    Var("q"): BOOLEAN,
}
Parts = tuple[Any, ...]


class Maker:
    """Random simple expressions, and rows for them with NULLs and extremes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def var(self, *types: DataType) -> Parts:
        return (self.random.choice([v for v, t in TYPES.items() if t in types]),)

    def integer(self, depth: int) -> Parts:
        r = self.random
        shape = r.randrange(8) if depth else r.randrange(2)
        if shape == 0:
            return self.var(*BITS)
        if shape == 1:
            return (str(r.choice([0, 1, 2, 10, 127, 128, 2**31 - 1, 2**31, 2**63 - 1, -1, -7])),)
        if shape == 2:
            return ("(", *self.integer(depth - 1), f" % {r.choice([1, 2, 7, 10, 2**31, 300])})")
        if shape == 3:
            return ("CAST(", *self.integer(depth - 1), f" AS {r.choice(list(BITS))})")
        if shape == 4:
            return ("(-(", *self.integer(depth - 1), "))")
        if shape == 5:
            return ("(", *self.integer(depth - 1), f" & {r.choice([0, 1, 6, 127, 300, 2**31, 2**63 - 1])})")
        return ("(", *self.integer(depth - 1), r.choice([" + ", " - ", " * "]), *self.integer(depth - 1), ")")

    def exact(self, depth: int) -> Parts:
        """A decimal."""
        r = self.random
        if not depth:
            return self.var(decimal(10, 2), decimal(18, 4))
        other = r.choice([self.exact(depth - 1), self.var(*BITS), ("1",), ("0.05",), ("-2.25",)])
        sides = [self.exact(depth - 1), other]
        r.shuffle(sides)
        return ("(", *sides[0], r.choice([" + ", " - ", " * "]), *sides[1], ")")

    def pair(self, depth: int) -> tuple[Parts, Parts]:
        """Two values that can be compared."""
        r = self.random
        kind = r.randrange(6)
        if kind == 0:
            return self.var(STRING), r.choice([self.var(STRING), ("'b'",), ("''",), ("'ä'",)])
        if kind == 1:
            return self.var(DATE), r.choice([self.var(DATE), ("DATE '2000-02-29'",), ("CAST('1970-01-01' AS DATE)",)])
        if kind == 2:
            return self.var(TIMESTAMP), r.choice([self.var(TIMESTAMP), ("TIMESTAMP '1999-12-31 23:59:59.5'",)])
        if kind == 3:
            decimals = [t for t in TYPES.values() if t.kind is Kind.DECIMAL]
            other = r.choice([self.var(*decimals), self.var(*BITS), self.exact(1), ("1.5",), ("-2.25",), ("3",)])
            return self.var(*decimals), other
        return self.integer(depth), self.integer(depth)

    def condition(self, depth: int) -> Parts:
        r = self.random
        shape = r.randrange(8) if depth else r.randrange(3)
        if shape == 0:
            return self.var(BOOLEAN)
        if shape <= 3:
            left, right = self.pair(depth)
            return ("(", *left, r.choice([" = ", " <> ", " < ", " <= ", " > ", " >= "]), *right, ")")
        if shape == 4:
            tested, low = self.pair(0)
            return ("(", *tested, " BETWEEN ", *low, " AND ", *low, ")")
        if shape == 5:
            tested, listed = r.choice(
                [(self.var(STRING), "'a', 'b', ''"), (self.var(*BITS), "1, 0, -7, 3000000000"), (self.var(BIGINT), "2")]
            )
            return ("(", *tested, f" IN ({listed}))")
        if shape == 6:
            return ("(", *self.var(*TYPES.values()), r.choice([" IS NULL", " IS NOT NULL"]), ")")
        if r.random() < 0.3:
            return ("(NOT ", *self.condition(depth - 1), ")")
        return ("(", *self.condition(depth - 1), r.choice([" AND ", " OR "]), *self.condition(depth - 1), ")")

    def value(self, type_: DataType, small: bool) -> Any:
        r = self.random
        if r.random() < 0.2:
            return None
        if type_ in BITS:
            bits = BITS[type_]
            if small or r.random() < 0.7:
                return r.randint(-8, 8)
            return r.choice([2**bits - 1, -(2**bits) + (bits == 63), 2**bits // 2, r.randrange(2**bits)])
        match type_.kind:
            case Kind.DECIMAL:
                most = 10 ** (4 if small else r.choice([4, type_.precision])) - 1
                return Decimal(r.randint(-most, most)).scaleb(-type_.scale, Context(prec=50))
            case Kind.STRING:
                return r.choice(["", "a", "b", "ab", "B", "ä", "z\0", "𝄞"])
            case Kind.DATE:
                return r.choice([date(1970, 1, 1), date(2000, 2, 29), date(1, 1, 1), date(9999, 12, 31)])
            case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
                moment = datetime(1999, 12, 31, 23, 59, 59, 500_000) + timedelta(microseconds=r.randint(-1, 1))
                return moment.replace(tzinfo=UTC) if type_ == TIMESTAMP else moment
            case _:
                return r.random() < 0.5


def _outcome(evaluate: Any, columns: dict[Var, pa.Array], length: int) -> Any:
    try:
        return [a.to_pylist() for a in evaluate(columns, length)]
    except DataError as error:
        return type(error)


@pytest.mark.parametrize("seed", range(12))
def test_arrow_gives_what_duckdb_gives(seed: int) -> None:
    """Random expressions over random rows; each must be one that Arrow computes at all in most cases."""
    maker = Maker(seed)
    simple = 0
    cases = 60
    for case in range(cases):
        is_condition = maker.random.random() < 0.7
        make = maker.condition if is_condition else maker.random.choice([maker.integer, maker.exact])
        parts = make(2)
        if not any(isinstance(p, Var) for p in parts):
            continue
        shape = column_expression(Expression(parts), TYPES)
        if shape is None and make == maker.exact:
            continue  # of too many digits
        expression = Expression(parts, BOOLEAN if is_condition else shape.type if shape else BIGINT)
        simple += shape is not None
        length = maker.random.choice([1, 5, 40])
        columns = {
            v: pa.array([maker.value(t, case % 2 == 0) for _ in range(length)], arrow_type(t)) for v, t in TYPES.items()
        }
        query = _Query([expression], {v: a.type for v, a in columns.items()})
        wanted = _outcome(
            lambda c, n, q=query, e=expression: [a.combine_chunks().cast(arrow_type(e.type)) for a in q(c, n)],
            columns,
            length,
        )
        assert _outcome(Evaluator([expression]), columns, length) == wanted, str(expression)
    assert simple > cases // 2


@pytest.mark.parametrize(
    "text",
    [
        "upper({s}) = 'A'",
        "{i} / 2",
        "{b} % {i}",
        "{b} % 0",
        "{i} <=> 1",
        "{p} = {q}",
        "CAST({s} AS INT)",
        "{i} IN (1, NULL)",
        "{d} < DATE '9999-12-01' + INTERVAL '1' MONTH",
        "{d} < DATE '2000-01-01' + INTERVAL '1' HOUR",
        "{d} < DATE '2000-01-01' + INTERVAL '-1' DAY",
        "{x} < TIMESTAMP '2000-01-01 00:00:00' + INTERVAL '1' DAY",
        "{d} + INTERVAL '1' DAY < DATE '2000-01-01'",
    ],
)
def test_the_rest_is_left_to_duckdb(text: str) -> None:
    """Whatever has another meaning in Arrow, or is not known to have the same."""
    parts: list[Any] = []
    for i, piece in enumerate(text.replace("}", "{").split("{")):
        parts.append(Var(piece) if i % 2 else piece)
    assert column_expression(Expression(tuple(p for p in parts if p != "")), TYPES) is None


@pytest.mark.parametrize("unit", ["DAY", "WEEKS", "MONTH", "YEARS"])
@pytest.mark.parametrize("day", [date(2000, 2, 29), date(1999, 12, 31), date(2024, 1, 30), date(1900, 3, 31)])
def test_a_constant_date_is_shifted_once_as_duckdb_shifts_it(day: date, unit: str) -> None:
    """The months' ends included; both ways, and with the interval first."""
    days = pa.array([None, *(day + timedelta(n) for n in range(-5_000, 5_000))], pa.date32())
    for shifted in [f"{{}} {sign} INTERVAL '{n}' {unit}" for sign in "+-" for n in (0, 1, 2, 11, 13)] + [
        f"INTERVAL 3 {unit} + {{}}"
    ]:
        expression = Expression((Var("d"), " = " + shifted.format(f"DATE '{day}'")), BOOLEAN)
        assert column_expression(expression, TYPES) is not None
        found = _outcome(Evaluator([expression]), {Var("d"): days}, len(days))
        query = _Query([expression], {Var("d"): days.type})
        assert found == _outcome(query, {Var("d"): days}, len(days)), str(expression)
        assert found[0].count(True) == 1


def _database(columns: str, view: str) -> ev.Database:
    db = ev.Database()
    db.sql(f"CREATE TABLE r ({columns})")
    db.sql(f"CREATE MATERIALIZED VIEW v AS {view}")
    return db


def test_a_small_integer_and_a_literal_are_added_as_int() -> None:
    """TINYINT + 1 is INT in Spark; DuckDB alone would overflow."""
    db = _database("t TINYINT", "SELECT t + 1 AS x, upper(CAST(t * 2 AS STRING)) AS y FROM r")
    db.insert("r", [(127,)])
    assert list(db.view("v")) == [(128, "254")]


@pytest.mark.parametrize("column", ["CAST(b AS INT)", "CAST(CAST(s AS INT) AS BIGINT)"])
def test_a_cast_that_does_not_fit_is_an_error(column: str) -> None:
    """ANSI mode: no NULL, and the batch is refused, whether there is a feed or not."""
    db = _database("b BIGINT, s STRING", f"SELECT {column} AS x FROM r")
    with db.view("v").changes(), pytest.raises(DataError):
        db.insert("r", [(2**40, "no number")])
    with pytest.raises(DataError):
        db.insert("r", [(2**40, "no number")])
    assert list(db.view("v")) == []


def test_try_cast_gives_null() -> None:
    """What does not fit is NULL there."""
    db = _database("b BIGINT", "SELECT TRY_CAST(b AS INT) AS x FROM r")
    db.insert("r", [(2**40,)])
    assert list(db.view("v")) == [(None,)]
