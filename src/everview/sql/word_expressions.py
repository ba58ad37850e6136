"""From row expressions to what the kernel computes over words: all that Arrow does, and more.

More are doubles, division, CASE and what is short for it, LIKE, and parts of times. Where a row has no value, as in a
division by zero, the kernel leaves the batch to others, who know what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from everview.query.column_expression import ColumnExpression, Leaf, Operation, walk
from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, DataType, Kind, common_type
from everview.sql.column_expressions import COMPARISONS, NotSimple, Reader, as_boolean, cast_of, compared, in_decimal
from everview.sql.datatypes import arithmetic
from everview.sql.dialect import EverviewSpark
from everview.sql.duckdb import read_expression
from everview.sql.literals import constant

_PARTS: Final[dict[str, str]] = {"YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "DAY": "day"}
_OF_INSTANTS: Final[dict[str, str]] = {"HOUR": "hour", "MINUTE": "minute"}
_NODES: Final[dict[type[exp.Expr], str]] = {
    exp.Year: "YEAR",
    exp.Quarter: "QUARTER",
    exp.Month: "MONTH",
    exp.Day: "DAY",
    exp.DayOfMonth: "DAY",
    exp.Hour: "HOUR",
    exp.Minute: "MINUTE",
}
_DAY_SPANS: Final[dict[str, str]] = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "from year"),
    "QUARTER": "from quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "from month"),
    "WEEK": "from week",
}
_SPANS: Final[dict[str, str]] = {"HOUR": "from hour", "MINUTE": "from minute", "SECOND": "from second"}
_TEXTS: Final[dict[type[exp.Expr], str]] = {exp.StartsWith: "{}%", exp.EndsWith: "%{}", exp.Contains: "%{}%"}
_DEEPEST: Final = 100
_MOST_EXACT_DIGITS: Final = 15
"""Whole numbers of so many digits are doubles."""


def word_expression(expression: Expression, types: Mapping[Var, DataType]) -> ColumnExpression | None:
    """An expression over variables of these types; None if the kernel cannot compute it, or it has no variable."""
    variables = sorted(expression.variables)
    places = {v: f"v{i}" for i, v in enumerate(variables)}
    if not variables:
        return None
    try:
        tree = read_expression(expression, places)
        if _is_deep(tree):
            return None
        return _WordReader({places[v]: Leaf(v, types[v]) for v in variables}).read(tree)
    except (NotSimple, SqlglotError):
        return None


def _is_deep(tree: exp.Expr) -> bool:
    """True of parts within more parts than a reader, which calls itself for each, goes into."""
    layer, depth = [tree], 0
    while layer and depth <= _DEEPEST:
        layer = [part for node in layer for part in node.iter_expressions()]
        depth += 1
    return bool(layer)


class _WordReader(Reader):
    def _read(self, node: exp.Expr) -> ColumnExpression:
        kind = type(node)
        if kind in COMPARISONS:
            return _compared(COMPARISONS[kind], self.read(node.this), self.read(node.expression))
        if kind is exp.Between and not node.args.get("symmetric"):
            tested, low, high = (self.read(side) for side in (node.this, node.args["low"], node.args["high"]))
            _twice(tested)
            return Operation("and", (_compared(">=", tested, low), _compared("<=", tested, high)), BOOLEAN)
        if kind is exp.Div:
            return _divided(self.read(node.this), self.read(node.expression))
        how = _READERS.get(kind)
        if how is not None:
            return how(self, node)
        return super()._read(node)

    def _arithmetic(self, sign: str, left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
        if Kind.DOUBLE not in (left.type.kind, right.type.kind):
            return super()._arithmetic(sign, left, right)
        if sign == "%":
            raise NotSimple
        return Operation(sign, (_as_double(left), _as_double(right)), DOUBLE)

    def cast(self, node: exp.Expr) -> ColumnExpression:
        """CAST to DOUBLE of numbers, to DATE of instants, and what Arrow knows."""
        target = node.args["to"].sql(EverviewSpark)
        if target == "DOUBLE":
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return Leaf(Const(float(node.this.name)), DOUBLE)
            return _as_double(self.read(node.this))
        if target == "DATE" and not isinstance(node.this, exp.Literal):
            return _as_day(self.read(node.this))
        return super()._read(node)

    def case(self, node: exp.Expr) -> ColumnExpression:
        """CASE, with a value to compare or without."""
        tested = None if node.this is None else _twice(self.read(node.this))
        branches = []
        for branch in node.args["ifs"]:
            test = self.read(branch.this)
            branches.append((test if tested is None else _compared("=", tested, test), branch.args["true"]))
        return self._chosen(branches, node.args.get("default"))

    def if_(self, node: exp.Expr) -> ColumnExpression:
        """IF(condition, a, b)."""
        return self._chosen([(self.read(node.this), node.args["true"])], node.args.get("false"))

    def coalesce(self, node: exp.Expr) -> ColumnExpression:
        """The first argument that is not NULL."""
        *first, last = (node.this, *node.expressions)
        tests = [Operation("not", (self._is_null(a),), BOOLEAN) for a in first]
        return self._chosen(list(zip(tests, first, strict=True)), last)

    def nullif(self, node: exp.Expr) -> ColumnExpression:
        """NULL if the arguments are equal, else the first."""
        value = _twice(self.read(node.this))
        test = _compared("=", value, self.read(node.expression))
        return Operation("if", (test, Operation("nothing", (), value.type), value), value.type)

    def _is_null(self, node: exp.Expr) -> ColumnExpression:
        return Operation("null", (self._not_constant(_twice(self.read(node))),), BOOLEAN)

    def _chosen(self, branches: list[tuple[ColumnExpression, exp.Expr]], default: exp.Expr | None) -> ColumnExpression:
        """What the first condition that holds chooses, in the type that is common to all."""
        nodes = [*(value for _, value in branches), *([] if default is None else [default])]
        values = [None if isinstance(node, exp.Null) else self.read(node) for node in nodes]
        type_: DataType | None = None
        for value in values:
            if value is not None:
                type_ = value.type if type_ is None else common_type(type_, value.type)
            if value is not None and type_ is None:
                raise NotSimple
        if type_ is None or type_.kind is Kind.FLOAT:
            raise NotSimple
        nothing: ColumnExpression = Operation("nothing", (), type_)
        found = [nothing if value is None else _in_type(value, type_) for value in values]
        result = nothing if default is None else found.pop()
        for (test, _), value in zip(reversed(branches), reversed(found), strict=True):
            result = Operation("if", (as_boolean(test), value, result), type_)
        return result

    def like(self, node: exp.Expr) -> ColumnExpression:
        """A column of text LIKE a constant pattern without escapes."""
        found = self._is_like(node.this, _text_in(node.expression))
        return Operation("not", (found,), BOOLEAN) if node.args.get("negate") else found

    def part_of_text(self, node: exp.Expr) -> ColumnExpression:
        """What a text begins or ends with, or contains."""
        text = _text_in(node.expression)
        if not {"%", "_"}.isdisjoint(text):
            raise NotSimple
        return self._is_like(node.this, _TEXTS[type(node)].format(text))

    def _is_like(self, node: exp.Expr, pattern: str) -> ColumnExpression:
        tested = self.read(node)
        if not isinstance(tested, Leaf) or not isinstance(tested.term, Var) or tested.type.kind is not Kind.STRING:
            raise NotSimple
        if "\\" in pattern:
            raise NotSimple
        return Operation("like", (tested, Leaf(Const(pattern), tested.type)), BOOLEAN)

    def extract(self, node: exp.Expr) -> ColumnExpression:
        """EXTRACT(part FROM time)."""
        return self._part(node.name.upper(), node.expression)

    def part(self, node: exp.Expr) -> ColumnExpression:
        """YEAR(time), and others of this kind."""
        return self._part(_NODES[type(node)], node.this)

    def _part(self, name: str, node: exp.Expr) -> ColumnExpression:
        time = self.read(node.this if isinstance(node, exp.TsOrDsToDate) else node)
        if name in _OF_INSTANTS and _is_instant(time.type):
            return Operation(_OF_INSTANTS[name], (time,), INT)
        if name not in _PARTS:
            raise NotSimple
        return Operation(_PARTS[name], (_as_day(time),), INT)

    def span(self, node: exp.Expr) -> ColumnExpression:
        """Where the span of time begins that an instant, or a day, is in."""
        unit, time = str(node.args["unit"].name).upper(), self.read(node.this)
        of_day = isinstance(node, exp.DateTrunc)
        if time.type.kind is not (Kind.DATE if of_day else Kind.TIMESTAMP):
            raise NotSimple
        if not of_day and unit in _SPANS:
            return Operation(_SPANS[unit], (time,), time.type)
        if not of_day and unit == "DAY":
            return Operation("from day", (_as_day(time),), time.type)
        if unit not in _DAY_SPANS:
            raise NotSimple
        day = Operation(_DAY_SPANS[unit], (_as_day(time),), DATE)
        return day if of_day else Operation("from day", (day,), time.type)

    def micros(self, node: exp.Expr) -> ColumnExpression:
        """An instant as a number."""
        time = self.read(node.this)
        if time.type.kind is not Kind.TIMESTAMP:
            raise NotSimple
        return Operation("number", (time,), BIGINT)

    def function(self, node: exp.Expr) -> ColumnExpression:
        """Functions that have no node of their own."""
        name, arguments = node.name.upper(), node.expressions
        if name == "TIMESTAMP_MICROS" and len(arguments) == 1:
            number = self.read(arguments[0])
            if number.type.is_integer:
                return Operation("instant", (number,), DataType(Kind.TIMESTAMP))
        if name == "PMOD" and len(arguments) == 2:
            found = self._arithmetic("%", self.read(arguments[0]), self.read(arguments[1]))
            if isinstance(found, Operation) and found.type.is_integer:
                return Operation("pmod", found.arguments, found.type)
        raise NotSimple


_READERS: Final[dict[type[exp.Expr], Callable[[_WordReader, exp.Expr], ColumnExpression]]] = {
    exp.Cast: _WordReader.cast,
    exp.Case: _WordReader.case,
    exp.If: _WordReader.if_,
    exp.Coalesce: _WordReader.coalesce,
    exp.Nullif: _WordReader.nullif,
    exp.Like: _WordReader.like,
    **dict.fromkeys(_TEXTS, _WordReader.part_of_text),
    exp.Extract: _WordReader.extract,
    **dict.fromkeys(_NODES, _WordReader.part),
    exp.TimestampTrunc: _WordReader.span,
    exp.DateTrunc: _WordReader.span,
    exp.UnixMicros: _WordReader.micros,
    exp.Anonymous: _WordReader.function,
}


def _twice(part: ColumnExpression) -> ColumnExpression:
    """A part that is looked at more than once: none that chooses, as parts of parts would come ever more often."""
    if any(isinstance(inner, Operation) and inner.operator in ("if", "and") for inner in walk(part)):
        raise NotSimple
    return part


def _compared(operator: str, left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
    """A comparison, of doubles, too."""
    if Kind.DOUBLE not in (left.type.kind, right.type.kind):
        return compared(operator, [left, right])
    return Operation(operator, (_as_double(left), _as_double(right)), BOOLEAN)


def _divided(left: ColumnExpression, right: ColumnExpression) -> ColumnExpression:
    """A quotient: of decimals rounded to its type, else of doubles."""
    if not (left.type.is_numeric and right.type.is_numeric):
        raise NotSimple
    type_ = arithmetic("/", left.type, right.type)
    if type_ is None or type_.kind is not Kind.DECIMAL:
        return Operation("/", (_as_double(left), _as_double(right)), DOUBLE)
    sides = in_decimal(left), in_decimal(right)
    found = arithmetic("/", *(side.type for side in sides))
    assert found is not None
    return Operation("/", sides, found)


def _as_double(side: ColumnExpression) -> ColumnExpression:
    """A number as a double, if it is sure to be the nearest one."""
    if side.type.kind is Kind.DOUBLE:
        return side
    exact = side.type.is_integer or (side.type.kind is Kind.DECIMAL and side.type.precision <= _MOST_EXACT_DIGITS)
    if isinstance(side, Leaf) and isinstance(side.term, Const) and isinstance(side.term.value, int | Decimal):
        return Leaf(Const(float(side.term.value)), DOUBLE)
    if not exact:
        raise NotSimple
    return Operation("cast", (side,), DOUBLE)


def _in_type(value: ColumnExpression, type_: DataType) -> ColumnExpression:
    if value.type == type_:
        return value
    return _as_double(value) if type_.kind is Kind.DOUBLE else cast_of(value, type_)


def _as_day(time: ColumnExpression) -> ColumnExpression:
    if time.type.kind is Kind.DATE:
        return time
    if not _is_instant(time.type):
        raise NotSimple
    return Operation("date", (time,), DATE)


def _is_instant(type_: DataType) -> bool:
    return type_.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)


def _text_in(node: exp.Expr) -> str:
    found = constant(node, DataType(Kind.STRING))
    if found is None or not isinstance(found.value, str):
        raise NotSimple
    return found.value
