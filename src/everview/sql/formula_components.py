"""What ``component`` promises is checked: that all rows in which an element stands have one value of that column.

So a formula may be kept component by component, wherever that is. Two stages stand beside it, which it does not read:
the components in which elements stand, and the elements with more than one, of which there must be none when a batch
ends.
"""

from __future__ import annotations

from typing import Final

from everview.errors import OptionError
from everview.query.aggregates import AggregateFunction
from everview.query.conjunctive import Atom
from everview.query.schema import Schema, Table
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import BOOLEAN, INT, DataType, common_type
from everview.query.view import (
    Aggregate,
    Block,
    Body,
    FormulaBody,
    Grouping,
    Output,
    SetOperation,
    SetOperator,
    Stage,
    aggregate_result,
    group_key,
    sources,
)
from everview.sql.datatypes import same_word, spark_name

_ELEMENT: Final = "element"
_LEAST, _MOST = AggregateFunction.MIN, AggregateFunction.MAX


def component_stages(body: FormulaBody, schema: Schema) -> tuple[Stage, ...]:
    """The stages that check what the formula's tables promise of their components; none if nothing is promised."""
    if body.component is None:
        return ()
    columns = _columns(body, schema, body.component)
    type_ = _type(columns, body)
    is_nullable = any(table.columns[at].nullable for table, at in columns)
    stands: Body | None = None
    for table, at in columns:
        for element in sorted({c for s in sources(body) if s.table == table.name for c in s.columns}):
            block = _stands(table, element, at, body.element, type_, body.component)
            stands = block if stands is None else SetOperation(SetOperator.UNION, True, stands, block, block.outputs)
    assert stands is not None
    name = f"{body.query.name}$components"
    first = Stage(name, stands, "the components in which elements stand")
    second = _in_several(name, body.element, type_, body.component, is_nullable=is_nullable)
    return first, Stage(f"{name}_2", second, "elements in more than one component, of which there must be none")


def _columns(body: FormulaBody, schema: Schema, component: str) -> list[tuple[Table, int]]:
    """The tables that have the column, and its place in each."""
    found = []
    for name in sorted(body.tables):
        table = schema.table(name)
        at = None if table is None else table.position(component)
        if table is not None and at is not None:
            found.append((table, at))
    if not found:
        raise OptionError(
            f"component is {component}, and no table that {body.query.name} reads has such a column",
            option="component",
            hint=f"it reads {', '.join(sorted(body.tables))}",
        )
    return found


def _type(columns: list[tuple[Table, int]], body: FormulaBody) -> DataType:
    table, at = columns[0]
    found, first = table.columns[at].type, f"{table.name}.{table.columns[at].name}"
    for other, place in columns:
        column = other.columns[place]
        common = None if column.closed or not column.type.has_order else common_type(found, column.type)
        if common is None or not same_word(found, column.type):
            raise OptionError(
                f"the component is {found} in {first} and {column.type} in {other.name}.{column.name}, which are not "
                "compared",
                option="component",
                hint=f"give the column one type in all tables of {body.query.name}: a number, a text or a date",
            )
        found = common
    return found.unbounded


def _stands(table: Table, element: int, component: int, of: DataType, in_: DataType, name: str) -> Block:
    """The elements of one of a table's columns, each with its row's component."""
    terms = tuple(Var(f"${c.name}") for c in table.columns)
    outputs = (
        Output(_ELEMENT, _as(terms[element], table.columns[element].type, of), False),
        Output(name, _as(terms[component], table.columns[component].type, in_), table.columns[component].nullable),
    )
    return Block((Atom(table.name, terms, alias=table.name),), (), outputs, not_null=frozenset({terms[element]}))


def _as(term: Term, type_: DataType, wanted: DataType) -> Expression:
    if type_.unbounded == wanted:
        return Expression.of(term, wanted)
    return Expression(("CAST(", term, f" AS {spark_name(wanted)})"), wanted)


def _in_several(stage: str, of: DataType, in_: DataType, name: str, *, is_nullable: bool) -> Block:
    """No row, as long as each element is in one component: otherwise HAVING fails on it."""
    element, component = Var(f"${_ELEMENT}"), Var("$component")
    values = [Expression.of(component, in_)]
    if is_nullable:
        values.append(Expression(("CASE WHEN ", component, " IS NULL THEN 1 ELSE 0 END"), INT))
    aggregates = tuple(Aggregate(f, value, value.type) for value in values for f in (_LEAST, _MOST))
    differ: list[Term | str] = []
    for i in range(len(values)):
        differ += [" OR " if i else "", aggregate_result(2 * i), " <> ", aggregate_result(2 * i + 1)]
    before, after = Const("ComponentError: element "), Const(f" stands in rows of two components, by their {name}")
    text = ("concat(", before, ", CAST(", group_key(0), " AS STRING), ", after, ")")
    having = Expression(("CASE WHEN ", *differ, " THEN raise_error(", *text, ") ELSE FALSE END"), BOOLEAN)
    keys = (Expression.of(element, of),)
    atom = Atom(stage, (element, component), alias=stage)
    shown = (Output(_ELEMENT, Expression.of(group_key(0), of), False),)
    return Block((atom,), (), shown, Grouping(keys, aggregates, having))
