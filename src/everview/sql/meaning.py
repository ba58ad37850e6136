"""What Spark SQL means and DuckDB would read otherwise, spelled out in functions that DuckDB is taught.

Division of decimals (DuckDB divides doubles) and by zero, casts of fractions to integers (Spark cuts, DuckDB rounds),
decimals that lose digits, and functions that count, name or round in another way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import sqlglot
from sqlglot import exp

from everview.errors import QueryError
from everview.query.terms import Expression, Var
from everview.query.types import MOST_DIGITS, DataType, Kind, as_decimal
from everview.sql.check import Checker
from everview.sql.datatypes import spark_name
from everview.sql.dialect import EverviewSpark
from everview.sql.names import Cell, Relation, Scope
from everview.sql.source import Source

_FLOORED = "(({x}) - ((({x}) % {unit}) + {unit}) % {unit}) // {unit}"
_WITHOUT_ZERO = "CASE WHEN b = 0 THEN error('division by zero') ELSE {} END"
MACROS: Final = {
    "spark_digits(x)": "CAST(replace(CAST(x AS VARCHAR), '.', '') AS HUGEINT)",
    "spark_decimal(a, b, shift, unit)": _WITHOUT_ZERO.format(
        "CAST(sign(a) * sign(b) * ((abs(spark_digits(a)) * shift + abs(spark_digits(b)) // 2) // abs(spark_digits(b)))"
        " AS DECIMAL(38, 0)) * unit"
    ),
    "spark_whole(a, b)": _WITHOUT_ZERO.format("spark_digits(a) // spark_digits(b)"),
    "spark_ratio(a, b)": _WITHOUT_ZERO.format("CAST(a AS DOUBLE) / CAST(b AS DOUBLE)"),
    "spark_div(a, b)": _WITHOUT_ZERO.format("a // b"),
    "spark_mod(a, b)": _WITHOUT_ZERO.format("a % b"),
    "spark_pmod(a, b)": _WITHOUT_ZERO.format("CASE WHEN a % b < 0 THEN (a % b + b) % b ELSE a % b END"),
    "spark_cut(x)": "trunc(x)",
    "spark_start(x)": "CASE WHEN x = 0 THEN 1 ELSE x END",
    "spark_isnull(x)": "x IS NULL",
    "spark_isnotnull(x)": "x IS NOT NULL",
    "spark_nanvl(a, b)": "CASE WHEN isnan(a) THEN b ELSE a END",
    "spark_nullifzero(x)": "nullif(x, 0)",
    "spark_zeroifnull(x)": "coalesce(x, 0)",
    "spark_negative(x)": "-x",
    "spark_positive(x)": "x",
    "spark_rint(x)": "round_even(x, 0)",
    "spark_e()": "exp(1.0)",
    "spark_dayofweek(x)": "dayofweek(x) + 1",
    "spark_weekday(x)": "isodow(x) - 1",
    "spark_dayname(x)": "left(dayname(x), 3)",
    "spark_monthname(x)": "left(monthname(x), 3)",
    "spark_seconds(x)": "CAST((epoch_us(x) % 60000000 + 60000000) % 60000000 AS DECIMAL(8, 0)) * 0.000001",
    "spark_unix_seconds(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000_000),
    "spark_unix_millis(x)": _FLOORED.format(x="epoch_us(x)", unit=1_000),
    "spark_timestamp_seconds(x)": "make_timestamptz(CAST(x * 1000000 AS BIGINT))",
    "spark_timestamp_millis(x)": "make_timestamptz(CAST(x * 1000 AS BIGINT))",
    "spark_timestamp_micros(x)": "make_timestamptz(CAST(x AS BIGINT))",
    "spark_from_utc_timestamp(x, zone)": "timezone('UTC', timezone(zone, x))",
}
"""In DuckDB's dialect, by signature, each after those it calls; one that has a function's name stands for it."""

_TAUGHT: Final = {signature.partition("(")[0].removeprefix("spark_") for signature in MACROS}
_OTHERWISE: Final = {"hash": "murmur3", "mod": "spark_mod", "to_unix_timestamp": "unix_timestamp"}
_CONVERSIONS: Final = frozenset("boolean tinyint smallint int bigint float double string binary date timestamp".split())
_PARTS: Final = {"DAYOFWEEK": "spark_dayofweek", "DOW": "spark_dayofweek", "SECOND": "spark_seconds"}
_UNITS: Final = {"MM": "MONTH", "MON": "MONTH", "YYYY": "YEAR", "YY": "YEAR", "DD": "DAY"}


def spelled_out(expression: Expression, names: Mapping[Var, str], types: Mapping[Var, DataType]) -> str:
    """The expression's text, its variables called by ``names``, in words that mean in DuckDB what it means in Spark."""
    text = "".join(names[p] if isinstance(p, Var) else str(p) for p in expression.parts)
    tree = exp.paren(sqlglot.parse_one(text, read=EverviewSpark), copy=False)
    source = Source(text)
    source.typed = []
    scope = Scope(source)
    cells = [(names[v], Cell(Expression.of(v, types[v]))) for v in sorted(expression.variables)]
    scope.add(Relation("", cells), tree)
    try:
        Checker(scope, "SELECT").check(tree)
    except QueryError:  # rules have columns of any type, and nothing to spell out
        return text
    spell_out(source.typed)
    return str(tree.this.sql(EverviewSpark, comments=False))


def spell_out(typed: Sequence[tuple[exp.Expr, DataType]]) -> None:
    """Replace nodes of a tree, of which the types are given, inner ones first, by what means the same in DuckDB."""
    known = {id(node): type_ for node, type_ in typed}
    for node, type_ in {id(node): (node, type_) for node, type_ in typed}.values():
        spelled = _spelled(node, type_, known)
        if spelled is not node:
            node.replace(spelled)
            known[id(spelled)] = type_


def _spelled(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    """What a node is to be replaced by, or itself; its inner nodes have been replaced already."""
    if isinstance(node, exp.Div | exp.IntDiv | exp.Mod):
        return _divided(node, type_, types)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul) and type_.kind is Kind.DECIMAL:
        return _cut(node, type_, types)
    if isinstance(node, exp.Cast):
        return _converted(node.this, types.get(id(node.this)), type_, node)
    if isinstance(node, exp.Extract) and node.this.name.upper() in _PARTS:
        return _call(_PARTS[node.this.name.upper()], node.expression)
    if isinstance(node, exp.Substring):
        node.set("start", _call("spark_start", node.args["start"]))
    return _called(node, type_, types) if isinstance(node, exp.Anonymous) else node


def _divided(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    left, right = node.this, node.expression
    kinds = [types[id(side)] for side in (left, right)]
    exact = all(k.is_integer or k.kind is Kind.DECIMAL for k in kinds)
    if not exact or Kind.DECIMAL not in (k.kind for k in kinds) or isinstance(node, exp.Mod):
        if not all(k.is_numeric for k in kinds):
            return node
        name = "spark_mod" if isinstance(node, exp.Mod) else "spark_div" if type(node) is exp.IntDiv else "spark_ratio"
        sides = (_typed(side, k) for side, k in zip((left, right), kinds, strict=True))
        return _call(name, *sides)
    scales = [as_decimal(k).scale for k in kinds]
    if isinstance(node, exp.IntDiv):
        return _call("spark_whole", _wide(left, max(scales)), _wide(right, max(scales)))
    shift = _number(10 ** (type_.scale + scales[1] - scales[0]))
    unit = _as(exp.Literal.string(f"{10**-type_.scale:.{type_.scale}f}"), _decimal(type_.scale))
    return _as(_call("spark_decimal", _wide(left, scales[0]), _wide(right, scales[1]), shift, unit), type_)


def _cut(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    """A sum or product that has fewer digits after the point than its sides would give it is rounded to those."""
    scales = [as_decimal(types[id(side)]).scale for side in (node.this, node.expression)]
    full = sum(scales) if isinstance(node, exp.Mul) else max(scales)
    return node if full == type_.scale else _as(exp.paren(node), type_)


def _converted(inner: exp.Expr, have: DataType | None, want: DataType, node: exp.Expr) -> exp.Expr:
    """A cast: Spark cuts fractions off, counts seconds, and writes timestamps without their zone."""
    if have is None:
        return node
    if want.is_integer and have.kind in (Kind.DECIMAL, Kind.FLOAT, Kind.DOUBLE):
        inner = _call("spark_cut", inner)
    elif want.is_integer and have.kind is Kind.TIMESTAMP:
        inner = _call("spark_unix_seconds", inner)
    elif want.kind is Kind.TIMESTAMP and have.is_integer:
        return _call("spark_timestamp_seconds", inner)
    elif want.kind is Kind.STRING and have.kind is Kind.TIMESTAMP:
        inner = _as(inner, DataType(Kind.TIMESTAMP_NTZ))
    else:
        return node
    return type(node)(this=inner.copy(), to=node.args["to"].copy(), safe=node.args.get("safe"))


def _called(node: exp.Anonymous, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    name, arguments = node.name.lower(), node.expressions
    first = types.get(id(arguments[0])) if arguments else None
    if name in _CONVERSIONS and len(arguments) == 1:
        cast = _as(arguments[0], type_)
        return _converted(arguments[0], first, type_, cast)
    if name in ("unix_timestamp", "to_unix_timestamp") and first is not None and first.is_temporal:
        return _call("spark_unix_seconds", _as(arguments[0], DataType(Kind.TIMESTAMP)))
    if name == "date_part" and arguments[0].name.upper() in _PARTS:
        return _call(_PARTS[arguments[0].name.upper()], arguments[1])
    if name in ("concat", "concat_ws"):
        return _call(name, *(_written(a, types.get(id(a))) for a in arguments))
    if name in ("trunc", "date_trunc"):
        return _call(name, *(_unit(a) for a in arguments))
    if name == "replace" and len(arguments) == 2:
        return _call(name, *arguments, exp.Literal.string(""))
    if name in ("substr", "substring") and len(arguments) > 1:
        return _call(name, arguments[0], _call("spark_start", arguments[1]), *arguments[2:])
    other = _OTHERWISE.get(name) or (f"spark_{name}" if name in _TAUGHT else None)
    return _call(other, *arguments) if other else node


def _written(node: exp.Expr, type_: DataType | None) -> exp.Expr:
    """An argument of a concatenation."""
    return _as(node, DataType(Kind.TIMESTAMP_NTZ)) if type_ is not None and type_.kind is Kind.TIMESTAMP else node


def _unit(node: exp.Expr) -> exp.Expr:
    """Spark's short names for units of time."""
    known = _UNITS.get(node.name.upper()) if isinstance(node, exp.Literal) else None
    return exp.Literal.string(known) if known else node


def _typed(node: exp.Expr, type_: DataType) -> exp.Expr:
    """An integer literal in its own type; in DuckDB it would take that of the other side."""
    return _as(node, type_) if isinstance(node, exp.Literal) and type_.is_integer else node


def _wide(node: exp.Expr, scale: int) -> exp.Expr:
    return _as(node, _decimal(scale))


def _decimal(scale: int) -> DataType:
    return DataType(Kind.DECIMAL, MOST_DIGITS, scale)


def _as(node: exp.Expr, type_: DataType) -> exp.Expr:
    return exp.Cast(this=node.copy(), to=exp.DataType.build(spark_name(type_), dialect=EverviewSpark))


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
