"""From row expressions to formulas, where their meaning in Spark SQL is exactly what Arrow computes.

Left out, and so left to DuckDB: floating point (NaN equals itself in Spark), division, products of very long decimals,
functions, CASE, comparisons of booleans, whatever may be NULL only by its own making.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from everview.query.column_expression import ColumnExpression, Leaf, Operation
from everview.query.terms import Const, Expression, Var
from everview.query.types import BOOLEAN, MOST_DIGITS, DataType, Kind, as_decimal, common_type, decimal
from everview.sql.chains import left_spine
from everview.sql.datatypes import arithmetic
from everview.sql.dialect import EverviewSpark
from everview.sql.duckdb import read_expression
from everview.sql.literals import constant, fit, literal_type

_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Mod: "%"}
COMPARISONS: Final[dict[type[exp.Expr], str]] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_COMPARED: Final = (Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
_TIMES: Final = {str(kind.value): DataType(kind) for kind in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)}


class NotSimple(Exception):
    """An expression, or a part of one, is not that simple."""


def column_expression(expression: Expression, types: Mapping[Var, DataType]) -> ColumnExpression | None:
    """An expression over variables of these types as a formula; None if it is not that simple, or has no variable."""
    variables = sorted(expression.variables)
    places = {v: f"v{i}" for i, v in enumerate(variables)}
    if not variables:
        return None
    try:
        tree = read_expression(expression, places)
        return Reader({places[v]: Leaf(v, types[v]) for v in variables}).read(tree)
    except (NotSimple, SqlglotError):
        return None


class Reader:
    """Reads a tree whose columns have these names."""

    def __init__(self, columns: Mapping[str, Leaf]) -> None:
        self.columns = columns
        self._chained: dict[int, ColumnExpression] = {}

    def read(self, node: exp.Expr) -> ColumnExpression:
        """A node as a formula."""
        known = self._chained.pop(id(node), None)
        if known is not None:
            return known
        for inner in left_spine(node):
            self._chained[id(inner)] = self._read(inner)
        return self._read(node)

    def _read(self, node: exp.Expr) -> ColumnExpression:
        value = _constant(node)
        if value is not None:
            return value
        kind = type(node)
        if kind is exp.Column and not node.args.get("table"):  # else it is a field of a struct
            return self.columns[node.name]
        if kind is exp.Paren:
            return self.read(node.this)
        if kind in (exp.Add, exp.Sub) and any(isinstance(s, exp.Interval) for s in (node.this, node.expression)):
            return _shifted(node)
        if kind in _ARITHMETIC:
            return self._arithmetic(_ARITHMETIC[kind], self.read(node.this), self.read(node.expression))
        if kind is exp.BitwiseAnd:
            return self._common_bits(self.read(node.this), self.read(node.expression))
        if kind is exp.Neg:
            return self._negated(self.read(node.this))
        if kind in COMPARISONS:
            return compared(COMPARISONS[kind], [self.read(node.this), self.read(node.expression)])
        if kind is exp.Between and not node.args.get("symmetric"):
            tested = self.read(node.this)
            low = compared(">=", [tested, self.read(node.args["low"])])
            high = compared("<=", [tested, self.read(node.args["high"])])
            return Operation("and", (low, high), BOOLEAN)
        if kind is exp.In:
            return self._in(node)
        if kind is exp.Is and isinstance(node.expression, exp.Null):
            return Operation("null", (self._not_constant(self.read(node.this)),), BOOLEAN)
        return self._logic_orcast_of(node)

    def _logic_orcast_of(self, node: exp.Expr) -> ColumnExpression:
        if type(node) in (exp.And, exp.Or):
            sides = (as_boolean(self.read(node.this)), as_boolean(self.read(node.expression)))
            return Operation("and" if isinstance(node, exp.And) else "or", sides, BOOLEAN)
        if type(node) is exp.Not:
            return Operation("not", (as_boolean(self.read(node.this)),), BOOLEAN)
        if type(node) is exp.Cast:
            inner = self.read(node.this)
            target = next((DataType(k) for k in _INTEGERS if k.value == node.to.sql(EverviewSpark)), None)
            if target is None or not inner.type.is_integer:
                raise NotSimple
            return cast_of(inner, target)
        raise NotSimple

    @staticmethod
    def _not_constant(argument: ColumnExpression) -> ColumnExpression:
        if isinstance(argument, Leaf) and isinstance(argument.term, Const):
            raise NotSimple
        return argument

    def _arithmetic(self, sign: str, left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
        if Kind.DECIMAL in (left.type.kind, right.type.kind):
            return _exact(sign, left, right)
        if not (left.type.is_integer and right.type.is_integer):
            raise NotSimple
        if sign == "%":
            self._not_constant(left)
            divisor = right.term.value if isinstance(right, Leaf) and isinstance(right.term, Const) else 0
            if not isinstance(divisor, int) or divisor <= 0:
                raise NotSimple
        type_ = arithmetic(sign, left.type, right.type)
        assert type_ is not None
        return Operation(sign, (cast_of(left, type_), cast_of(right, type_)), type_)

    def _common_bits(self, left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
        if not (left.type.is_integer and right.type.is_integer):
            raise NotSimple
        type_ = common_type(left.type, right.type)
        assert type_ is not None
        return Operation("&", (cast_of(self._not_constant(left), type_), cast_of(right, type_)), type_)

    def _negated(self, inner: ColumnExpression) -> ColumnExpression:
        if not inner.type.is_integer:
            raise NotSimple
        return Operation("neg", (inner,), inner.type)

    def _in(self, node: exp.Expr) -> ColumnExpression:
        members = [_constant(m) for m in node.expressions]
        if not members or node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            raise NotSimple
        known = [m for m in members if m is not None]
        if len(known) < len(members):
            raise NotSimple
        return compared("in", [self._not_constant(self.read(node.this)), *known])


_INTEGERS: Final = (Kind.TINYINT, Kind.SMALLINT, Kind.INT, Kind.BIGINT)


def _constant(node: exp.Expr) -> Leaf | None:
    """A literal with its type; None if it is none, or one of a type that is left to DuckDB."""
    inner = node
    while isinstance(inner, exp.Paren | exp.Neg):
        inner = inner.this
    if type(inner) is exp.Cast and isinstance(inner.this, exp.Literal):
        type_ = _TIMES.get(inner.to.sql(EverviewSpark)) if inner.this.is_string and inner is node else None
    else:
        type_ = literal_type(inner)
    if type_ is None or not (type_.is_integer or type_.kind in (Kind.DECIMAL, Kind.BOOLEAN, *_COMPARED)):
        return None
    value = constant(node, type_)
    return None if value is None else Leaf(value, type_)


_MONTHS: Final = {"YEAR": 12, "YEARS": 12, "MONTH": 1, "MONTHS": 1}
_DAYS: Final = {"WEEK": 7, "WEEKS": 7, "DAY": 1, "DAYS": 1}


def _shifted(node: exp.Expr) -> Leaf:
    """A constant date plus or minus a constant interval of whole days or months, which needs no computing per row."""
    first, second = node.this, node.expression
    if isinstance(node, exp.Add) and isinstance(first, exp.Interval):
        first, second = second, first
    leaf = _constant(first)
    if leaf is None or leaf.type.kind is not Kind.DATE or type(second) is not exp.Interval:
        raise NotSimple
    number, unit = second.name, str(second.args.get("unit")).upper()
    assert isinstance(leaf.term, Const)
    day = leaf.term.value
    if not (number.isascii() and number.isdigit()) or not isinstance(day, date):
        raise NotSimple
    count = int(number) if isinstance(node, exp.Add) else -int(number)
    try:
        if unit in _MONTHS:
            return Leaf(Const(_months_later(day, _MONTHS[unit] * count)), leaf.type)
        if unit in _DAYS:
            return Leaf(Const(day + timedelta(_DAYS[unit] * count)), leaf.type)
    except (ValueError, OverflowError):  # beyond the years that there are
        pass
    raise NotSimple


def _months_later(day: date, months: int) -> date:
    """The same day of another month, or that month's last."""
    year, month = divmod(12 * day.year + day.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def _exact(sign: str, left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
    """Decimals added or multiplied: exactly, and then rounded to the type that Spark gives the result."""
    if sign == "%" or not all(s.type.is_integer or s.type.kind is Kind.DECIMAL for s in (left, right)):
        raise NotSimple
    sides = tuple(in_decimal(side) for side in (left, right))
    type_ = arithmetic(sign, *(s.type for s in sides))
    assert type_ is not None
    whole, scale = max(s.type.precision - s.type.scale for s in sides), max(s.type.scale for s in sides)
    most = sum(s.type.precision for s in sides) if sign == "*" else whole + scale
    if most + 2 > 2 * MOST_DIGITS:
        raise NotSimple  # the exact result has more digits than Arrow's widest decimal
    return Operation(sign, sides, type_)


def in_decimal(side: ColumnExpression) -> ColumnExpression:
    """A number as a decimal; an integer literal has its own digits only."""
    value = side.term.value if isinstance(side, Leaf) and isinstance(side.term, Const) else None
    if side.type.is_integer and isinstance(value, int):
        return Leaf(Const(Decimal(value)), decimal(len(str(abs(value))), 0))
    return cast_of(side, as_decimal(side.type))


def as_boolean(side: ColumnExpression) -> ColumnExpression:
    """A condition."""
    if side.type.kind is not Kind.BOOLEAN:
        raise NotSimple
    return side


def compared(operator: str, sides: Sequence[ColumnExpression]) -> ColumnExpression:
    """A comparison in the type that is common to all sides."""
    type_ = sides[0].type
    for side in sides[1:]:
        found = common_type(type_, side.type)
        if found is None:
            raise NotSimple
        type_ = found
    kinds = {s.type.kind for s in sides}
    exact = all(s.type.is_integer or s.type.kind is Kind.DECIMAL for s in sides)
    if not exact and (len(kinds) > 1 or type_.kind not in _COMPARED):
        raise NotSimple
    return Operation(operator, tuple(cast_of(s, type_) for s in sides), BOOLEAN)


def cast_of(inner: ColumnExpression, target: DataType) -> ColumnExpression:
    """The same value in another type, if that holds every value or else fails."""
    if inner.type == target:
        return inner
    if target.kind is Kind.DECIMAL:
        have = as_decimal(inner.type)
        if have.precision - have.scale > target.precision - target.scale or have.scale > target.scale:
            raise NotSimple  # its digits were cut at the most there can be
    elif not (inner.type.is_integer and target.is_integer):
        raise NotSimple
    if isinstance(inner, Leaf) and isinstance(inner.term, Const):
        fitted = fit(inner.term.value, target)
        if fitted is None:
            raise NotSimple
        return Leaf(fitted, target)
    return Operation("cast", (inner,), target)
