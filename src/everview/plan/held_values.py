"""What the rows of a block hold as they are: variables that a view can be cut by."""

from __future__ import annotations

from collections.abc import Mapping

from everview.query.conjunctive import Atom
from everview.query.schema import Schema
from everview.query.terms import Var
from everview.query.types import DataType, Kind
from everview.query.view import Block, Body, Cut, SetOperation, SetOperator, Stage, Windowed, arranged, group_key


def is_by_partition(body: Body, block: Block, v: Var) -> bool:
    """True if rows go by their order only within partitions, of all of which a variable of the block is part."""
    columns = [i for i in range(len(block.outputs)) if output_variable(block, i) == v]
    by_order = (a for a in arranged(body) if isinstance(a, Cut | Windowed))  # Others go by each row alone.
    return all(any(i in a.partition for i in columns) for a in by_order)


def held_variables(block: Block) -> list[Var]:
    """The variables of a block that are columns of what it reads, as they are."""
    return list(dict.fromkeys(t for a in block.atoms for t in a.terms if isinstance(t, Var)))


def is_union_all(body: Body) -> bool:
    """True for a UNION ALL."""
    return isinstance(body, SetOperation) and body.operator is SetOperator.UNION and body.all


def is_null(block: Block, column: int) -> bool:
    """True if a column of a block's result is NULL in every row."""
    parts = block.outputs[column].expression.parts if column < len(block.outputs) else ()
    return len(parts) == 1 and isinstance(parts[0], str) and parts[0].startswith("CAST(NULL AS ")


def needs_rows(block: Block) -> bool:
    """True of one group over everything that has no row where it has no input: HAVING says so."""
    grouping = block.grouping
    if grouping is None or grouping.keys or grouping.having is None:
        return False
    counts = (a.function.is_count and not a.distinct and a.argument == a.counts for a in grouping.aggregates)
    conditions = (v for v, is_one in zip(grouping.aggregate_names, counts, strict=True) if is_one)
    return any(grouping.having.parts == (v, " > 0") for v in conditions)


def result_variables(block: Block) -> frozenset[Var]:
    """The variables of which each row of a block's result has one value, however it came about."""
    if block.grouping is not None and block.distinct:  # Groups of different keys can give one row.
        return shown_variables(block)
    if block.grouping is not None:
        terms = [k.term for k in block.grouping.keys]
    elif block.distinct:
        terms = [o.expression.term for o in block.outputs]
    else:
        return frozenset().union(*(a.variables for a in block.atoms))
    return frozenset(t for t in terms if isinstance(t, Var))


def shown_variables(block: Block) -> frozenset[Var]:
    """The variables that a block's result has as columns."""
    found = (output_variable(block, i) for i in range(len(block.outputs)))
    return frozenset(v for v in found if v is not None)


def output_variable(block: Block, column: int) -> Var | None:
    """The variable that a column of a block's result holds as it is."""
    if column >= len(block.outputs):  # Of a window function.
        return None
    term = block.outputs[column].expression.term
    if block.grouping is not None:
        keys = block.grouping.keys
        named = {group_key(i): k.term for i, k in enumerate(keys)}
        term = named.get(term) if isinstance(term, Var) else None
    return term if isinstance(term, Var) else None


def hash_type(type_: DataType | None) -> DataType | str | None:
    """Types whose equal values hash alike once integers are widened; None where that is not so."""
    if type_ is None or type_.is_open or type_.kind is Kind.INTERVAL or not type_.has_order:
        return None
    return "integer" if type_.is_integer else type_


def held_types(atom: Atom, v: Var, schema: Schema, stages: Mapping[str, Stage]) -> list[DataType]:
    """The types under which an atom holds a variable."""
    found = [c.expression.type for c in atom.computed if c.term == v]
    table = None if atom.relation in stages else schema.table(atom.relation)
    types = [c.type for c in (table.columns if table else stages[atom.relation].columns)]
    return [t for term, t in zip(atom.terms, types, strict=True) if term == v] + found
