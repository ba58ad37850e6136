"""What Spark SQL means and DuckDB would read otherwise, spelled out in functions that DuckDB is taught.

Division of decimals (DuckDB divides doubles) and by zero, casts of fractions to integers (Spark cuts, DuckDB rounds),
decimals that lose digits, floats beside other numbers, conditions that guard others, and functions that count, name or
round in another way (their entries in ``functions/``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

import sqlglot
from sqlglot import exp

from everview.errors import QueryError, SizeError
from everview.query.aggregates import SIMPLE, Summed
from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, DOUBLE, MOST_DIGITS, STRING, DataType, Kind, as_decimal, common_type
from everview.sql.aggregate_spelling import aggregated
from everview.sql.aggregates import WHOLE, is_aggregate, read_aggregate
from everview.sql.chains import balanced
from everview.sql.check import Checker
from everview.sql.dialect import EverviewSpark
from everview.sql.functions.conversions import converted, text_of
from everview.sql.functions.elements import as_type, of_bracket
from everview.sql.functions.intervals import between, later, micros, part_taken, scaled
from everview.sql.functions.numbers import shifted
from everview.sql.functions.registry import entry_of, spelled
from everview.sql.functions.text import like, substring
from everview.sql.functions.times import part_of
from everview.sql.grouping_sets import GROUPINGS
from everview.sql.limits import MOST_GUARDS, MOST_NESTED
from everview.sql.names import Cell, Relation, Scope
from everview.sql.nodes import call, cast
from everview.sql.padding import pad
from everview.sql.sql_text import SqlText

_FAILING: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Cast, exp.Func)
_COMPARED: Final = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_COMPARISONS: Final = (*_COMPARED, exp.In, exp.Between)
_COMPUTED: Final = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_PAIRED: Final = (*_COMPUTED, *_COMPARED)


def spelled_out(expression: Expression, names: Mapping[Var, str], types: Mapping[Var, DataType]) -> str:
    """The expression's text, its variables called by ``names``, in words that mean in DuckDB what it means in Spark."""
    text = "".join(names[p] if isinstance(p, Var) else str(p) for p in expression.parts)
    tree = exp.paren(balanced(sqlglot.parse_one(text, read=EverviewSpark)), copy=False)
    source = SqlText(text)
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
    nested: dict[int, int] = {}
    for node, type_ in {id(node): (node, type_) for node, type_ in typed}.values():
        depth = nested.get(id(node.this), 0) if isinstance(node, exp.Binary) else 0
        other = _spelled(node, type_, known)
        if other is not node:
            node.replace(other)
            known[id(other)] = type_
            depth += 1
        if depth > MOST_NESTED:
            raise SizeError(
                f"more than {MOST_NESTED} operators of a chain have to be written out as calls within calls",
                hint="make a part of the chain a column of a view of its own, and read that",
            )
        nested[id(other)] = depth


def _spelled(node: exp.Expr, type_: DataType, types: dict[int, DataType]) -> exp.Expr:
    """What a node is to be replaced by, or itself; its inner nodes have been replaced already."""
    _pad(node, types)
    _widen(node, types)
    length = _of_length(node, type_, types)
    if length is not None:
        return length
    if isinstance(node, exp.Div | exp.IntDiv | exp.Mod):
        return _divided(node, type_, types)
    if isinstance(node, exp.Add | exp.Sub | exp.Mul) and type_.kind is Kind.DECIMAL:
        return _cut(node, type_, types)
    if isinstance(node, exp.Cast):
        return converted(node.this, types.get(id(node.this)), type_, node)
    if isinstance(node, exp.And | exp.Or):
        return _guarded(node)
    if isinstance(node, exp.Window):
        return _windowed(node, type_)
    if isinstance(node, WHOLE) or is_aggregate(node):
        return _aggregated(node, type_, types)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "struct":
        values = (a.this if isinstance(a, exp.Alias) else a for a in node.expressions)
        named = zip(map(exp.Literal.string, type_.names), values, strict=True)
        return call("named_struct", *(part for pair in named for part in pair))
    if isinstance(node, exp.Anonymous) and node.name.lower() not in GROUPINGS:
        return spelled(node, type_, types)
    return _of_text(node, type_, types)


def _of_length(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr | None:
    """What is made of lengths of time, or makes them; None for all else. They are microseconds to DuckDB.

    One that is written out beside the time that it is added to stays as it is: DuckDB and Arrow know what it means.
    """
    if isinstance(node, exp.Interval):
        around: exp.Expr = node
        while isinstance(around.parent, exp.Paren):
            around = around.parent
        parent = around.parent
        beside = parent.expression if isinstance(parent, exp.Add | exp.Sub) and around.arg_key == "this" else None
        beside = parent.this if isinstance(parent, exp.Add | exp.Sub) and beside is None else beside
        stays = beside is not None and types.get(id(beside), type_).is_temporal
        stays = stays and not isinstance(node.args.get("unit"), exp.IntervalSpan)
        return micros(node) if type_.kind is Kind.DAY_TIME and not stays else None
    if isinstance(node, exp.Extract):
        have = types.get(id(node.expression))
        is_length = have is not None and have.kind is Kind.DAY_TIME
        return part_taken(node.this.name, node.expression) if is_length else None
    if not isinstance(node, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return None
    left, right = node.this, node.expression
    have, other = (types.get(id(side), type_) for side in (left, right))
    if have.is_temporal and other.is_temporal:
        return between(left, right)
    if type_.is_temporal and Kind.DAY_TIME in (have.kind, other.kind):
        time, length, kind = (right, left, other) if have.kind is Kind.DAY_TIME else (left, right, have)
        if isinstance(length.unnest(), exp.Interval):
            return None if kind.kind is type_.kind else type(node)(this=cast(time, type_), expression=length.copy())
        return later(time, length, kind, type_, earlier=isinstance(node, exp.Sub))
    if type_.kind is Kind.DAY_TIME and isinstance(node, exp.Mul | exp.Div):
        length, number, kind = (right, left, have) if other.kind is Kind.DAY_TIME else (left, right, other)
        return scaled("*" if isinstance(node, exp.Mul) else "/", length, number, kind)
    return None


def _of_text(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    if isinstance(node, exp.Extract):
        part = part_of(node.this.name)
        return call(part, node.expression) if part else node
    if isinstance(node, exp.Substring):
        return substring(node.this, node.args["start"], node.args.get("length"))
    if isinstance(node, exp.Like | exp.ILike) and not isinstance(node.parent, exp.Escape):
        return like(node)
    if isinstance(node, exp.Bracket):
        (place,) = node.expressions
        return of_bracket(node.this, place, types.get(id(node.this), type_), types.get(id(place)))
    if isinstance(node, exp.Dot):
        return call("struct_extract", node.this, exp.Literal.string(node.expression.name))
    if isinstance(node, exp.DPipe) and type_.kind is Kind.ARRAY:
        return call("spark_joined", *(as_type(s, types.get(id(s)), type_) for s in (node.this, node.expression)))
    if isinstance(node, exp.DPipe):
        sides = (text_of(side, types.get(id(side))) for side in (node.this, node.expression))
        return exp.DPipe(**dict(zip(("this", "expression"), (s.copy() for s in sides), strict=True)), safe=False)
    if isinstance(node, exp.BitwiseLeftShift | exp.BitwiseRightShift):
        name = "shiftleft" if isinstance(node, exp.BitwiseLeftShift) else "shiftright"
        return shifted(name, (node.this, node.expression), types.get(id(node.this), type_))
    return node


def _pad(node: exp.Expr, types: Mapping[int, DataType]) -> None:
    """CHAR columns are compared as ``padding.py`` says; where a view was lowered, that has been done before."""
    entry = entry_of(node)
    if isinstance(node, _COMPARISONS) or (entry is not None and entry.is_padded):
        for sides in _united(node):
            known = [types.get(id(side), STRING) for side in sides]
            pad(sides, known, SqlText(""))


def _aggregated(node: exp.Expr, type_: DataType, types: dict[int, DataType]) -> exp.Expr:
    """An aggregate in its type: DuckDB takes averages of decimals as doubles."""
    found = read_aggregate(SqlText(""), node)
    assert found is not None
    have = None if found.argument is None else types.get(id(found.argument))
    made = found.function.made
    if isinstance(made, Summed) and made.mean and type_.kind in (Kind.DECIMAL, Kind.DAY_TIME) and have is not None:
        value = found.value
        assert value is not None
        argument = exp.Distinct(expressions=[value.copy()]) if found.distinct else value
        total, number = call("sum", argument), call("nullif", call("count", argument), _number(0))
        if type_.kind is Kind.DAY_TIME:
            return scaled("/", total, number, BIGINT)
        return _quotient(total, number, (as_decimal(have).scale, 0), type_)
    return aggregated(node, type_)


def _windowed(node: exp.Window, type_: DataType) -> exp.Expr:
    """A window function: of an aggregate that is computed of a list or the like, the list is what the window gives."""
    found = read_aggregate(SqlText(""), node.this)
    if found is None or (len(found.arguments) < 2 and isinstance(found.function.made, SIMPLE)):
        return node

    def over(aggregate: exp.Expr) -> exp.Expr:
        window = node.copy()
        window.set("this", aggregate)
        return window

    return aggregated(node.this, type_, over)


def _widen(node: exp.Expr, types: dict[int, DataType]) -> None:
    """A FLOAT beside another number is a DOUBLE; DuckDB would make the other one a FLOAT.

    Decimals of several scales are brought to the one that is common to all: what DuckDB has computed of decimals may
    have so many digits that it would round the others.
    """
    for united in _united(node):
        kinds = [types.get(id(side)) for side in united]
        found = None if isinstance(node, _COMPUTED) else _common_decimal(kinds)
        if found is not None:
            for side in united:
                types[id(side.replace(cast(side, found)))] = found
            continue
        known = {k.kind for k in kinds if k is not None and k.is_numeric}
        if Kind.FLOAT in known and len(known) > 1:
            for side, kind in zip(united, kinds, strict=True):
                if kind is not None and kind.is_numeric and kind.kind is not Kind.DOUBLE:
                    types[id(side.replace(cast(side, DOUBLE)))] = DOUBLE


def _common_decimal(types: Sequence[DataType | None]) -> DataType | None:
    """The type that is common to decimals of several scales, and integers; None if there is no need of one."""
    if len({t.scale for t in types if t is not None and t.kind is Kind.DECIMAL}) < 2:
        return None
    found = reduce(lambda a, b: None if a is None or b is None else common_type(a, b), types)
    return found if found is not None and found.kind is Kind.DECIMAL else None


def _united(node: exp.Expr) -> list[list[exp.Expr]]:
    """The parts of a node that are brought to one type."""
    if isinstance(node, _PAIRED):
        return [[node.this, node.expression]]
    if isinstance(node, exp.In):
        return [[node.this, *node.expressions]]
    if isinstance(node, exp.Between):
        return [[node.this, node.args["low"], node.args["high"]]]
    if isinstance(node, exp.Case):
        values = [branch.args["true"] for branch in node.args["ifs"]]
        found = [[*values, node.args["default"]] if node.args.get("default") else values]
        return [*found, [node.this, *(b.this for b in node.args["ifs"])]] if node.args.get("this") else found
    entry = entry_of(node)
    if entry is not None and entry.is_widened:
        return [list(node.expressions)]
    return []


def _guarded(node: exp.Expr) -> exp.Expr:
    """A condition that decides keeps DuckDB from computing those after it, if they may fail."""
    kind = type(node)
    around = node.parent
    while isinstance(around, exp.Paren):
        around = around.parent
    if type(around) is kind:
        return node  # the whole chain is guarded at once
    parts = _chain(node, kind)
    if not any(_may_fail(part) for part in parts[1:]) or node.find(exp.Query) is not None:
        return node  # a subquery is not written out again: what it reads is known by its place
    if any(isinstance(inner, exp.Case) for inner in node.walk()) and sum(1 for _ in node.walk()) > MOST_GUARDS:
        raise SizeError(
            "the condition nests AND and OR around what may fail, such as a division, too deeply",
            hint="make the inner conditions columns of a view of their own, and read that",
        )
    decided = exp.Boolean(this=kind is exp.Or)
    tests = [p.copy() if kind is exp.Or else exp.Not(this=exp.paren(p)) for p in parts]
    ifs = [exp.If(this=test, true=decided.copy()) for test in tests]
    return exp.Case(ifs=ifs, default=exp.paren(node))


def _chain(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    parts, rest = [], [node]
    while rest:
        part = rest.pop()
        bare = part.unnest()
        if type(bare) is kind:
            rest += [bare.expression, bare.this]
        else:
            parts.append(part)
    return parts


def _may_fail(node: exp.Expr) -> bool:
    return any(
        not (
            isinstance(n, exp.Connector | exp.Case | exp.If)
            or (isinstance(n, exp.Cast) and isinstance(n.this, exp.Literal))
        )
        for n in node.find_all(*_FAILING)
    )


def _divided(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    left, right = node.this, node.expression
    kinds = [types[id(side)] for side in (left, right)]
    exact = all(k.is_integer or k.kind is Kind.DECIMAL for k in kinds)
    if not exact or Kind.DECIMAL not in (k.kind for k in kinds) or isinstance(node, exp.Mod):
        if not all(k.is_numeric for k in kinds):
            return node
        name = "spark_mod" if isinstance(node, exp.Mod) else "spark_div" if type(node) is exp.IntDiv else "spark_ratio"
        sides = (_typed(side, k) for side, k in zip((left, right), kinds, strict=True))
        return call(name, *sides)
    scales = [as_decimal(k).scale for k in kinds]
    if isinstance(node, exp.IntDiv):
        return call("spark_whole", _wide(left, max(scales)), _wide(right, max(scales)))
    return _quotient(left, right, (scales[0], scales[1]), type_)


def _quotient(left: exp.Expr, right: exp.Expr, scales: tuple[int, int], type_: DataType) -> exp.Expr:
    """A decimal divided by another, rounded to the digits of the result's type."""
    shift = _number(10 ** (type_.scale + scales[1] - scales[0]))
    unit = cast(exp.Literal.string(f"{10**-type_.scale:.{type_.scale}f}"), _decimal(type_.scale))
    return cast(call("spark_decimal", _wide(left, scales[0]), _wide(right, scales[1]), shift, unit), type_)


def _cut(node: exp.Expr, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    """A sum or product that has fewer digits after the point than its sides would give it is rounded to those."""
    scales = [as_decimal(types[id(side)]).scale for side in (node.this, node.expression)]
    full = sum(scales) if isinstance(node, exp.Mul) else max(scales)
    return node if full == type_.scale else cast(exp.paren(node), type_)


def _typed(node: exp.Expr, type_: DataType) -> exp.Expr:
    """An integer literal in its own type; in DuckDB it would take that of the other side."""
    return cast(node, type_) if isinstance(node, exp.Literal) and type_.is_integer else node


def _wide(node: exp.Expr, scale: int) -> exp.Expr:
    return cast(node, _decimal(scale))


def _decimal(scale: int) -> DataType:
    return DataType(Kind.DECIMAL, MOST_DIGITS, scale)


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)
