"""Aggregate calls as they are written: COUNT(*), SUM(DISTINCT x), AVG(x) FILTER (WHERE …), MODE() WITHIN GROUP (…)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final

from sqlglot import exp

from everview.query.aggregates import BY_NAME, AggregateFunction, Counted, Gathered, Reading, Taken
from everview.query.terms import Const
from everview.query.types import ANY, BOOLEAN, DOUBLE, INT, STRING, DataType, array_of, struct_of
from everview.sql.functions.elsewhere import OTHER_AGGREGATES
from everview.sql.ordering import ordered
from everview.sql.sql_text import SqlText

WHOLE: Final = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)
"""What may stand around a call, and belongs to it."""
_IN_ORDER: Final = ("percentile_cont", "percentile_disc")
"""Those that get what they aggregate from WITHIN GROUP alone."""
_MEANT: Final = {"approx_count_distinct": 2, "any_value": 2, "first": 2, "first_value": 2, "last": 2, "last_value": 2}
"""How many arguments there may be, the last of which say what makes no difference here."""


@dataclass(frozen=True)
class AggregateCall:
    """One call in the tree. Without ``arguments`` it counts rows; ``condition`` is that of FILTER, or of count_if.

    ``takes`` says what the arguments are, of which ``is_many`` gives an array of results, one for each parameter.
    """

    name: str
    function: AggregateFunction
    arguments: tuple[exp.Expr, ...]
    condition: exp.Expr | None
    distinct: bool
    type: DataType = ANY
    parameters: tuple[Const, ...] = ()
    takes: Taken = Taken.VALUE
    is_many: bool = False

    def typed(self, type_: DataType) -> AggregateCall:
        """The same call with its result type."""
        return replace(self, type=type_)

    def type_of(self, argument: DataType | None) -> DataType | None:
        """The type of the result over what is aggregated; None if it cannot take that."""
        found = self.function.type_of(argument)
        return array_of(found) if self.is_many and found is not None else found

    @property
    def argument(self) -> exp.Expr | None:
        """The first argument."""
        return self.arguments[0] if self.arguments else None

    @property
    def value(self) -> exp.Expr | None:
        """What is aggregated, if it is one value, with the condition folded in as CASE; None for all rows."""
        if self.condition is None:
            return self.argument
        inner = exp.Literal.number(1) if self.argument is None else self.argument
        return exp.Case(ifs=[exp.If(this=self.condition, true=inner)])


def is_aggregate(node: exp.Expr) -> bool:
    """True for a call of an aggregate function, supported or not."""
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    return name in BY_NAME or name in OTHER_AGGREGATES


def whole_call(call: exp.Expr) -> exp.Expr:
    """A call of an aggregate with what belongs to it: FILTER, WITHIN GROUP, IGNORE NULLS."""
    while isinstance(call.parent, WHOLE) and call.arg_key == "this":
        call = call.parent
    return call


def aggregates_in(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregate calls of an expression, not those of subqueries in it, nor window functions themselves."""
    for inner in node.walk(prune=lambda n: isinstance(n, exp.Query)):
        if is_aggregate(inner) and not _is_window_function(inner):
            yield inner


def _is_window_function(call: exp.Expr) -> bool:
    whole = whole_call(call)
    return isinstance(whole.parent, exp.Window) and whole.arg_key == "this"


def read_aggregate(source: SqlText, node: exp.Expr) -> AggregateCall | None:
    """The aggregate call that a node is; None if it is another function. Unsupported aggregates are refused."""
    condition, order = None, None
    call = node
    while isinstance(call, WHOLE):
        if isinstance(call, exp.Filter):
            condition = call.expression.this
        if isinstance(call, exp.WithinGroup):
            order = call.expression
        call = call.this
    if not isinstance(call, exp.Anonymous):
        return None
    name = call.name.lower()
    if name in OTHER_AGGREGATES:
        raise source.unsupported(
            f"aggregate {name}",
            call,
            message=f"the aggregate {name} is not supported",
            hint=f"there are {', '.join(BY_NAME)}",
        )
    function = BY_NAME.get(name)
    if function is None:
        return None
    arguments, distinct = _arguments(source, call, takes_order=order is not None)
    if name == "count_if":
        condition = exp.and_(condition, arguments[0], copy=False) if condition is not None else arguments[0]
        return AggregateCall(name, function, (), condition, False)
    distinct = (distinct and not function.ignores_copies) or function.is_always_distinct
    if isinstance(function.made, Gathered):
        return _gathered(source, call, AggregateCall(name, function, (), condition, distinct), arguments, order)
    if order is not None:
        raise source.unsupported(f"{name} WITHIN GROUP", order, hint="leave WITHIN GROUP out")
    counts_rows = isinstance(arguments[0], exp.Star | exp.Literal | exp.Boolean) and not distinct
    if function is AggregateFunction.COUNT and len(arguments) == 1 and counts_rows:
        return AggregateCall(name, function, (), condition, False)
    takes = Taken.VALUE if len(arguments) == 1 and function.takes is Taken.ROW else function.takes
    return AggregateCall(name, function, tuple(arguments), condition, distinct, takes=takes)


def _arguments(source: SqlText, call: exp.Anonymous, *, takes_order: bool) -> tuple[list[exp.Expr], bool]:
    name = call.name.lower()
    function = BY_NAME[name]
    arguments, distinct = list(call.expressions), False
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        arguments, distinct = list(arguments[0].expressions), True
    if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
        arguments = [arguments[0].this]
    if not arguments and not takes_order:
        raise source.mismatch(f"{name} needs an argument", call, hint="write COUNT(*) to count rows")
    if isinstance(function.made, Gathered):
        return arguments, distinct
    least = 2 if function.takes in (Taken.PAIR, Taken.VALUE_BY_KEY) else 1
    most = None if name == "count" else _MEANT.get(name, least)
    if len(arguments) < least or (most is not None and len(arguments) > most):
        plural = "argument" if least == 1 else "arguments"
        raise source.mismatch(f"{name} takes {least} {plural}, and here are {len(arguments)}", call)
    if any(isinstance(a, exp.Star) for a in arguments) and (name != "count" or distinct or len(arguments) > 1):
        raise source.syntax(f"* may only stand in COUNT(*), not in {name}", call)
    return arguments if most is None else arguments[:least], distinct


# --- types -----------------------------------------------------------------------------------------------------------

_NEEDS: Final = {
    (BOOLEAN,): "conditions",
    (INT,): "integers",
    (INT, DOUBLE): "numbers",
    (STRING,): "strings",
}


def misfit(call: AggregateCall, types: Sequence[DataType]) -> tuple[str, exp.Expr] | None:
    """What a call needs that its arguments are not, and which of them; None if it can take them."""
    for index, (node, type_) in enumerate(zip(call.arguments, types, strict=True)):
        if call.takes is Taken.PAIR and not (type_.is_numeric or type_.is_open):
            return f"numbers, and this is {type_}", node
        if (call.takes is Taken.ROW or (call.takes is Taken.VALUE_BY_KEY and index == 1)) and not type_.has_order:
            return f"values that have an order, and this is {type_}", node
    if call.type_of(packed_type(call, types)) is None:
        known = tuple(t for t in (BOOLEAN, INT, DOUBLE, STRING) if call.function.type_of(t) is not None)
        return f"{_NEEDS.get(known, 'values that have an order')}, and this is {types[0]}", call.arguments[0]
    return None


def packed_type(call: AggregateCall, types: Sequence[DataType]) -> DataType | None:
    """The type of what is aggregated, of arguments of these types; None of rows."""
    if not types or call.takes is Taken.VALUE:
        return types[0] if types else None
    if isinstance(call.function.made, Counted) and not call.distinct:
        return INT  # they are only counted
    match call.takes:
        case Taken.PAIR:
            return struct_of((name, DOUBLE) for name in ("y", "x"))
        case Taken.ROW:
            return struct_of((f"c{i}", t) for i, t in enumerate(types))
        case Taken.VALUE_BY_KEY:
            return struct_of((("key", types[1]), ("value", types[0])))


# --- what is read from values in their order -------------------------------------------------------------------------


def _gathered(
    source: SqlText, call: exp.Anonymous, found: AggregateCall, arguments: list[exp.Expr], order: exp.Expr | None
) -> AggregateCall:
    made = found.function.made
    assert isinstance(made, Gathered)
    is_put_in_order = found.name in _IN_ORDER or not arguments
    value, turned = _ordered_by(source, call, order, None if is_put_in_order else arguments[0])
    if not made.turned and order is not None:
        raise source.unsupported(f"{found.name} WITHIN GROUP", order, hint="the result is in the order of its values")
    parameters: list[Const] = []
    many = False
    takes = Taken.VALUE
    if made.reading is Reading.TEXT:
        _check_count(source, call, arguments, 1, 2)
        parameters = [_separator(source, arguments[1]) if len(arguments) == 2 else Const("")]
        if value is not None and value != arguments[0]:
            if found.distinct:
                raise source.query(f"{found.name}(DISTINCT …) is put in order by its own values", value)
            takes = Taken.VALUE_BY_KEY
        values = [arguments[0], value] if value is not None and takes is Taken.VALUE_BY_KEY else [arguments[0]]
    elif found.name in _IN_ORDER or (found.name == "mode" and not arguments):
        _check_count(source, call, arguments, *((1, 1) if found.name in _IN_ORDER else (0, 0)))
        if value is None:
            hint = f"write {found.name}(…) WITHIN GROUP (ORDER BY x)"
            raise source.syntax(f"{found.name} needs WITHIN GROUP (ORDER BY …)", call, hint=hint)
        values = [value]
        percentages = arguments[0] if arguments else None
    elif value is not None:
        raise source.syntax(f"{found.name} takes what it aggregates as an argument, or from WITHIN GROUP", call)
    else:
        _check_count(source, call, arguments, *_COUNTS.get(found.name, (1, 1)))
        values = [arguments[0]]
        percentages = arguments[1] if len(arguments) > 1 else exp.Literal.number("0.5")
    if made.reading in (Reading.BETWEEN, Reading.ELEMENT) and percentages is not None:
        parameters, many = _percentages(source, percentages)
    if made.turned:
        parameters.insert(0, Const(turned))
    return replace(found, arguments=tuple(values), parameters=tuple(parameters), takes=takes, is_many=many)


_COUNTS: Final = {"percentile": (2, 2), "percentile_approx": (2, 3), "approx_percentile": (2, 3), "mode": (1, 2)}
"""How many arguments there are, the values and the percentages among them."""


def _check_count(source: SqlText, call: exp.Anonymous, arguments: Sequence[exp.Expr], least: int, most: int) -> None:
    if least <= len(arguments) <= most:
        return
    if call.name.lower() == "percentile" and len(arguments) == 3:
        raise source.unsupported("percentile with frequencies", arguments[2], hint="have a row for each of the values")
    wanted = str(least) if least == most else f"{least} to {most}"
    raise source.mismatch(f"{call.name.lower()} takes {wanted} arguments, and here are {len(arguments)}", call)


def _ordered_by(
    source: SqlText, call: exp.Anonymous, order: exp.Expr | None, value: exp.Expr | None
) -> tuple[exp.Expr | None, bool]:
    """What WITHIN GROUP puts in order, and whether the last comes first.

    ``value`` is what is aggregated; None if it is what is put in order. A value that is NULL is none, wherever it would
    stand. Other keys that are NULL stand where the least does: where they are to stand at the other end, whether one is
    NULL comes before it.
    """
    if order is None:
        return None, False
    keys: list[exp.Expr] = []
    directions = []
    for item in order.expressions:
        node, turned, nulls_first = ordered(item)
        directions.append(turned)
        if value is not None and node != value and nulls_first is turned:
            keys.append(exp.Is(this=node.copy(), expression=exp.Null()))
        keys.append(node)
    if len(set(directions)) > 1:
        other = order.expressions[directions.index(not directions[0])]
        raise source.unsupported(
            "WITHIN GROUP by keys in different directions", other, hint="order by all of them ASC, or all DESC"
        )
    if len(keys) == 1:
        return keys[0], directions[0]
    fields = [part for i, key in enumerate(keys) for part in (exp.Literal.string(f"k{i}"), key)]
    return exp.Anonymous(this="named_struct", expressions=fields), directions[0]


def _separator(source: SqlText, node: exp.Expr) -> Const:
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise source.unsupported("separator that is no literal", node, hint="write the text itself, as in ', '")
    return Const(str(node.name))


def _percentages(source: SqlText, node: exp.Expr) -> tuple[list[Const], bool]:
    """Percentages as they are written, and whether they are an array."""
    is_call = isinstance(node, exp.Anonymous) and node.name.lower() == "array"
    many = is_call or isinstance(node, exp.Array)
    found = []
    for inner in node.expressions if many else [node]:
        number = inner.this if isinstance(inner, exp.Cast | exp.Paren) else inner
        if not isinstance(number, exp.Literal) or number.is_string:
            raise source.unsupported("percentage that is no literal", inner, hint="write a number, such as 0.5")
        value = Decimal(str(number.name).rstrip("dDfF"))
        if value > 1:
            raise source.query(f"a percentage is between 0 and 1, and this is {number.name}", inner)
        found.append(Const(value))
    return found, many
