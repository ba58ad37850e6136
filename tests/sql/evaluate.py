"""A naive evaluator of lowered views: turns them back into SQL, from their atoms, and lets DuckDB run it.

It shares nothing with the front end but the model, so that a view and the text it came from can be compared as bags.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

import duckdb
import sqlglot
from sqlglot.dialects.spark import Spark

from everview.query.schema import Schema
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import Kind
from everview.query.view import Aggregate, Block, Body, SetOperation, View


class SparkFour(Spark):
    """Spark SQL with doubled quotes, but sqlglot's own functions, so that they transpile."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


Rows = Counter[tuple[Any, ...]]
_DUMMY = "no_columns"


class Evaluator:
    """A DuckDB with the tables of a schema and random rows in them."""

    def __init__(self, schema: Schema, seed: int = 0, rows: int = 12) -> None:
        self.connection = duckdb.connect()
        self.columns: dict[str, list[str]] = {}
        self.made: list[str] = []
        chance = random.Random(seed)
        for table in schema:
            self.columns[table.name.lower()] = [c.name for c in table.columns]
            inner = ", ".join(f'"{c.name}" {_duck_type(c.type)}' for c in table.columns)
            self.connection.execute(f'CREATE TABLE "{table.name}" ({inner})')
            for number in range(chance.randint(rows // 2, rows)):
                keyed = {c.lower() for c in table.primary_key}
                values = [
                    number if c.name.lower() in keyed else _value(chance, c.type.kind, c.nullable, c.type.scale)
                    for c in table.columns
                ]
                marks = ", ".join("?" * len(values))
                self.connection.execute(f'INSERT INTO "{table.name}" VALUES ({marks})', values)

    def run_text(self, sql: str) -> tuple[list[str], Rows]:
        """The query as written: column names and a bag of rows."""
        found = self.connection.execute(to_duckdb(sql))
        return [d[0] for d in found.description or ()], _bag(found.fetchall())

    def run_view(self, view: View) -> Rows:
        """The lowered view: its stages as temporary tables, then its body."""
        made = []
        try:
            for stage in view.stages:
                text = to_duckdb(self.body(stage.body))
                self.connection.execute(f'CREATE TEMP TABLE "{stage.name}" AS {text}')
                made.append(stage.name)
                self.columns[stage.name.lower()] = [c.name for c in stage.columns]
            rows = self.connection.execute(to_duckdb(self.body(view.body))).fetchall()
            return _bag(r[: len(view.columns)] for r in rows)
        finally:
            for name in made:
                self.connection.execute(f'DROP TABLE "{name}"')

    def keep(self, view: View) -> None:
        """Store a view's result under its name, for views over it."""
        self.connection.execute(f'CREATE TEMP TABLE "{view.name}" AS {to_duckdb(self.body(view.body))}')
        self.columns[view.name.lower()] = [c.name for c in view.columns]

    def body(self, body: Body) -> str:
        """A body as Spark SQL."""
        if isinstance(body, SetOperation):
            word = f"{body.operator.value.upper()}{' ALL' if body.all else ''}"
            return f"({self.body(body.left)}) {word} ({self.body(body.right)})"
        return self.block(body)

    def block(self, block: Block) -> str:
        """A block as Spark SQL: one FROM entry an atom, and conditions for repeated variables and constants."""
        places: dict[Var, str] = {}
        conditions: list[str] = []

        def meet(term: Term, place: str) -> None:
            if isinstance(term, Const):
                conditions.append(f"{place} = {term}")
            elif term in places:
                conditions.append(f"{places[term]} = {place}")
            else:
                places[term] = place

        froms = []
        for index, atom in enumerate(block.atoms):
            froms.append(f"`{atom.relation}` AS a{index}")
            columns = self.columns[atom.relation.lower()]
            assert len(columns) == len(atom.terms), atom
            for term, column in zip(atom.terms, columns, strict=True):
                meet(term, f"a{index}.`{column}`")
        for atom in block.atoms:
            for computed in atom.computed:
                assert computed.expression.variables <= {t for t in atom.terms if isinstance(t, Var)}
                meet(computed.term, f"({_text(computed.expression, places)})")
        conditions += [f"{places[v]} IS NOT NULL" for v in sorted(block.not_null)]
        conditions += [f"({_text(p, places)})" for p in block.predicates]
        body = f"FROM {', '.join(froms)}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
        distinct = "DISTINCT " if block.distinct else ""
        if block.grouping is None:
            return f"SELECT {distinct}{_list([_text(o.expression, places) for o in block.outputs], block)} {body}"
        grouping = block.grouping
        inner = [f"{_text(k, places)} AS k{i}" for i, k in enumerate(grouping.keys)]
        inner += [f"{_text(a.argument, places)} AS g{i}" for i, a in enumerate(grouping.aggregates) if a.argument]
        names = {v: f"k{i}" for i, v in enumerate(grouping.key_names)}
        names |= {
            v: _call(a, i) for i, (v, a) in enumerate(zip(grouping.aggregate_names, grouping.aggregates, strict=True))
        }
        outputs = _list([_text(o.expression, names) for o in block.outputs], block)
        keys = ", ".join(f"k{i}" for i in range(len(grouping.keys)))
        having = f" HAVING {_text(grouping.having, names)}" if grouping.having else ""
        if not keys and not block.outputs:
            outputs = f"{outputs}, COUNT(*) AS one"
        tail = (f" GROUP BY {keys}" if keys else "") + having
        return f"SELECT {distinct}{outputs} FROM (SELECT {', '.join([*inner, '1 AS one'])} {body}) AS rows{tail}"


def _list(texts: Sequence[str], block: Block) -> str:
    named = [f"{t} AS `{o.name}`" for t, o in zip(texts, block.outputs, strict=True)]
    return ", ".join(named) or f"1 AS {_DUMMY}"


def _call(aggregate: Aggregate, index: int) -> str:
    inner = f"g{index}" if aggregate.argument else "*"
    return f"{aggregate.function.value}({'DISTINCT ' if aggregate.distinct else ''}{inner})"


def _text(expression: Expression, places: Mapping[Var, str]) -> str:
    return "".join(places[p] if isinstance(p, Var) else str(p) for p in expression.parts)


def to_duckdb(sql: str) -> str:
    """Spark SQL in DuckDB's dialect."""
    return sqlglot.transpile(sql, read=SparkFour, write="duckdb")[0]


def _duck_type(type_: Any) -> str:
    return {Kind.STRING: "VARCHAR", Kind.BINARY: "BLOB", Kind.TIMESTAMP_NTZ: "TIMESTAMP"}.get(type_.kind, str(type_))


def _value(chance: random.Random, kind: Kind, nullable: bool, scale: int) -> Any:
    if nullable and chance.random() < 0.15:
        return None
    number = chance.randint(0, 4)
    if kind is Kind.STRING:
        return chance.choice(["a", "b", "A", "ab", "it's"])
    if kind is Kind.BOOLEAN:
        return number > 2
    if kind is Kind.DATE:
        return date(1995, 1 + number, 1)
    if kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        return datetime(1995, 1 + number, 1, number)
    if kind is Kind.DECIMAL:
        return Decimal(number * 5).scaleb(-1 if scale else 0)
    if kind in (Kind.FLOAT, Kind.DOUBLE):
        return number / 2
    return number


def _bag(rows: Iterable[Sequence[Any]]) -> Rows:
    return Counter(tuple(_plain(v) for v in row) for row in rows)


def _plain(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float | Decimal):
        return round(float(value), 6)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day)
    return value


def agree(evaluator: Evaluator, sql: str, view: View) -> None:
    """Assert that the text and the lowered view give the same bag."""
    names, wanted = evaluator.run_text(sql)
    found = evaluator.run_view(view)
    mine = [c.name.lower() for c in view.columns]
    theirs = [n.lower() for n in names]
    if mine != theirs and sorted(mine) == sorted(theirs):
        order = [theirs.index(n) for n in mine]
        wanted = Counter({tuple(row[i] for i in order): n for row, n in wanted.items()})
    assert found == wanted, f"{sql}\n{view}\nmissing {wanted - found}\nsuperfluous {found - wanted}"
