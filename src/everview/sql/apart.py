"""What a SELECT has joined so far, set apart as a stage: then it goes on over the rows of that.

Anti joins, outer joins and subqueries within expressions are made of several blocks over the same rows: copies of one
body, each with conditions of its own, put together by EXCEPT ALL and UNION ALL. The rows that come out are a stage, and
what names stand for in the SELECT are from then on columns of that stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from everview.query.terms import Const, Expression, Var
from everview.query.types import BOOLEAN, INT, DataType, Kind, array_of, common_type
from everview.query.view import Block, Output, SetOperation, SetOperator, Stage
from everview.query.view import Body as AnyBody
from everview.sql.body import Body, cast, equality
from everview.sql.datatypes import same_word, spark_name
from everview.sql.names import Cell, Named
from everview.sql.session import Rows, stage_columns

Pair = tuple[Expression, Expression]


@dataclass(frozen=True)
class Kept:
    """A column of rows that are set apart: what it is called, and what it holds."""

    name: str
    expression: Expression
    strict: bool = True


def names_read(select: exp.Expr) -> frozenset[str] | None:
    """The columns that a SELECT names anywhere, in lower case; None where it may read others."""
    for star in select.find_all(exp.Star):
        around = star.parent.parent if isinstance(star.parent, exp.Column) else star.parent
        is_listed = isinstance(around, exp.Select) and not (
            around is not select and isinstance(around.parent, exp.Exists)
        )
        if is_listed or isinstance(around, exp.Distinct):
            return None
    if any(join.method == "NATURAL" for join in select.find_all(exp.Join)):
        return None
    merged = (u.name for join in select.find_all(exp.Join) for u in join.args.get("using") or ())
    named = (part.name for column in select.find_all(exp.Column) for part in column.parts)  # s of s.x is a column, too
    return frozenset(name.lower() for name in (*named, *merged))


def kept(rows: Rows, *, constants: bool = False) -> list[Kept]:
    """What the rest of a SELECT may read of what was joined so far, each once; at least one column."""
    found: dict[Expression, Kept] = {}

    def keep(expression: Expression, name: str, strict: bool = True) -> None:
        if (constants or expression.variables) and rows.body.owns(expression):
            found.setdefault(expression, Kept(name, expression, strict))

    named = [(name, cell) for relation in rows.scope.relations for name, cell in relation.columns]
    named += [(c.name, c.cell) for c in rows.scope.columns]
    for name, cell in named:
        if not cell.closed and (rows.names is None or name.lower() in rows.names):
            keep(cell.expression, name, cell.strict)
    for _, cell in rows.scope.subqueries.values():
        keep(cell.expression, rows.body.name_of(cell.expression), cell.strict)
    for term in rows.carried.terms.values() if rows.carried is not None else ():
        keep(term, rows.body.name_of(term))
    for inner, _, _ in rows.correlations:
        keep(inner, rows.body.name_of(inner))
    for predicate, _ in rows.mixed:
        for variable in sorted(predicate.variables):
            one = Expression.of(variable)
            if rows.body.owns(one):
                keep(Expression.of(variable, rows.body.type_of(variable)), rows.body.name_of(one))
    return list(found.values()) or [Kept("one", Expression.of(Const(1), INT))]


def block(rows: Rows, body: Body, columns: Sequence[Kept], *, distinct: bool = False) -> Block:
    """A body with the columns that are kept of its rows."""
    atoms, predicates, not_null, terms = body.finish()
    for text in body.remarks:
        rows.lowering.remark(text)
    taken: set[str] = set()
    outputs = []
    for column in columns:
        name, number = column.name, 1
        while name.lower() in taken:
            number += 1
            name = f"{column.name}_{number}"
        taken.add(name.lower())
        nullable = not column.strict or body.nullable(column.expression)
        outputs.append(Output(name, column.expression.substitute(terms), nullable))
    return Block(atoms, predicates, tuple(outputs), None, distinct, not_null)


def over(stage: Stage, rows: Rows, more: Sequence[Kept]) -> Block:
    """A block of all columns of a stage, and of further ones that read none."""
    body, terms = whole(stage, rows)
    columns = [Kept(c.name, term) for c, term in zip(stage.columns, terms, strict=True)]
    return block(rows, body, [*columns, *more])


def whole(stage: Stage, rows: Rows) -> tuple[Body, list[Expression]]:
    """A body of nothing but a stage, and its columns."""
    body = Body(rows.lowering.fresh)
    return body, body.add_atom(stage.name, stage.name.rpartition("$")[2], stage_columns(stage))


def without(left: AnyBody, matched: AnyBody) -> SetOperation:
    """The rows of the left that are not among the matched ones, which are some of them with all their copies."""
    return SetOperation(SetOperator.EXCEPT, True, left, matched, left.columns)


def together(bodies: Sequence[AnyBody]) -> AnyBody:
    """The rows of several bodies: a column may be NULL where it may be in one of them."""
    found = bodies[0]
    for other in bodies[1:]:
        columns = tuple(
            replace(a, nullable=a.nullable or b.nullable) for a, b in zip(found.columns, other.columns, strict=True)
        )
        found = SetOperation(SetOperator.UNION, True, found, other, columns)
    return found


def go_on(rows: Rows, body: AnyBody, columns: Sequence[Kept], base: str, purpose: str, where: exp.Expr) -> list[Cell]:
    """Make a stage of a body, and have the SELECT go on over it; gives its columns.

    ``columns`` says what each of its columns stands for: names that meant this mean the stage's column from now on.
    """
    stage = rows.lowering.stage(body, base, purpose)
    rows.body = Body(rows.lowering.fresh, rows.body.is_set)
    terms = rows.atom(stage.name, base, stage_columns(stage), where)
    moved = {c.expression: t for c, t in zip(columns, terms, strict=False)}
    variables = {c.term: t.term for c, t in moved.items() if isinstance(c.term, Var) and isinstance(t.term, Var)}

    def new(cell: Cell) -> Cell:
        found = moved.get(cell.expression)
        return cell if found is None else Cell(found, closed=cell.closed)

    scope, scopes = rows.scope, [rows.scope]
    if rows.carried is not None:
        rows.carried.terms = {outer: moved.get(term, term) for outer, term in rows.carried.terms.items()}
        scopes += [scope.parent] if scope.parent is not None else []
    for one in scopes:
        for relation in one.relations:
            relation.columns = [(name, new(cell)) for name, cell in relation.columns]
        one.columns = [Named(c.name, new(c.cell), c.alias) for c in one.columns]
    scope.subqueries = {key: (node, new(cell)) for key, (node, cell) in scope.subqueries.items()}
    rows.correlations = [(moved.get(inner, inner), outer, node) for inner, outer, node in rows.correlations]
    rows.mixed = [(predicate.substitute(variables), node) for predicate, node in rows.mixed]
    return [Cell(term) for term in terms]


def hold_constants(rows: Rows, where: exp.Expr) -> None:
    """Make columns of constants that names stand for, so that they can be NULL in rows without a match."""
    named = [cell for relation in rows.scope.relations for _, cell in relation.columns]
    if all(cell.expression.variables for cell in named):
        return
    columns = kept(rows, constants=True)
    go_on(rows, block(rows, rows.body, columns), columns, "side", "one side of an outer join", where)


# --- columns that are equal -------------------------------------------------------------------------------------------

_NOTHING: Final = {
    Kind.STRING: "''",
    Kind.BOOLEAN: "false",
    Kind.DATE: "DATE '1970-01-01'",
    Kind.TIMESTAMP: "TIMESTAMP '1970-01-01 00:00:00'",
    Kind.TIMESTAMP_NTZ: "TIMESTAMP_NTZ '1970-01-01 00:00:00'",
    Kind.BINARY: "X''",
}


def null_of(expression: Expression) -> Expression:
    """NULL, of the type of an expression."""
    return Expression((f"CAST(NULL AS {spark_name(expression.type)})",), expression.type)


def as_compared(inner: Expression, outer: Expression) -> Expression:
    """The inner side in the type of the comparison: values that only the cast makes equal must count once."""
    type_ = common_type(inner.type, outer.type)
    return inner if type_ is None or same_word(inner.type, type_) else cast(inner, type_)


def null_safe(left: Expression, right: Expression) -> list[Pair]:
    """``left <=> right`` as equalities: of the values, with another one in the place of NULL, and of being NULL."""
    return list(zip(_filled(left), _filled(right), strict=True))


def _filled(side: Expression) -> tuple[Expression, Expression]:
    type_ = side.type.unbounded
    nothing = _nothing(type_)
    inner = side.parts if side.term is not None else ("(", *side.parts, ")")
    return (
        Expression(("coalesce(", *inner, f", {nothing})"), type_),
        Expression((*inner, " IS NULL"), BOOLEAN),
    )


def _nothing(type_: DataType) -> str:
    """Some value of a type."""
    if type_.kind is Kind.ARRAY:
        return f"CAST(array() AS {spark_name(type_)})"
    if type_.kind is Kind.STRUCT:
        names = ("'" + name.replace("'", "''") + "'" for name in type_.names)
        fields = (f"{n}, {_nothing(t)}" for n, t in zip(names, type_.parts, strict=True))
        return f"named_struct({', '.join(fields)})"
    if type_.kind is Kind.MAP:
        return f"map_from_arrays({', '.join(_nothing(array_of(part)) for part in type_.parts)})"
    return _NOTHING.get(type_.kind, f"CAST(0 AS {spark_name(type_)})")


def _may_be_null(body: Body, side: Expression) -> bool:
    """True if a side may be NULL, as what is computed may be where its columns are not: a field, ``nullif``."""
    return body.nullable(side) or (side.term is None and bool(side.variables))


def equate_null_safe(body: Body, left: Expression, right: Expression, whole: Expression) -> None:
    """Demand that two sides are equal, or both NULL; ``whole`` says so where they cannot be told apart by columns."""
    if not (_may_be_null(body, left) and _may_be_null(body, right)):
        body.equate(left, right, whole)
        return
    pairs = null_safe(as_compared(left, right), as_compared(right, left))
    if any(body.atom_of(side) is None for pair in pairs for side in pair) or body.atom_of(left) == body.atom_of(right):
        body.require(whole)
        return
    for a, b in pairs:
        body.equate(a, b, equality(a, b))
