"""What a subquery compares with the rows around it, by ``<``, by ``<>``, by any condition: grouped before that.

``(SELECT SUM(b2.volume) FROM bids b2 WHERE b2.price > b1.price)`` has to see all bids, wherever b1 is. But it sees no
more of them than how much volume there is at each price: a partial group for each value of what it compares and joins
by, or the different ones, where only those count. These are made ahead of the shards, of which each gets a row for a
price instead of the bids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from everview.plan.held_values import held_types
from everview.plan.split import AHEAD, merged, piece_name, stages_of
from everview.query.aggregates import Gathered, Ordered, Reading
from everview.query.conjunctive import Atom
from everview.query.schema import Schema
from everview.query.terms import Expression, Var
from everview.query.view import Aggregate, Block, Grouping, Output, Stage, View, aggregate_result, group_key


def may_be_grouped(stage: Stage, view: View, schema: Schema) -> Iterator[int]:
    """The atoms of a stage, by their places, that the others may be grouped beside: those may read whole tables."""
    block = stage.body
    stages = {s.name for s in view.stages}
    if isinstance(block, Block) and (block.grouping is not None or block.distinct):
        for i, atom in enumerate(block.atoms):
            others = (*block.atoms[:i], *block.atoms[i + 1 :])
            held = frozenset[Var]().union(*(a.variables for a in others))
            crossing = any(p.variables - held and p.variables - atom.variables for p in block.predicates)
            own = not any(_may_fail(a) or e.variables - held for a in _aggregates(block) for e in a.expressions)
            tables = [a for a in others if a.relation not in stages]
            if atom.relation in stages and tables and crossing and own and not _has_key(others, block, atom, schema):
                yield i


def grouped_beside(
    block: Block, place: int, view: View, number: int, schema: Schema
) -> tuple[list[View], Block] | None:
    """The groups of a block's atoms but one, and the block that joins these with that one; None if there are none such.

    Both have the same variables, so that what is said over these holds for both.
    """
    name = piece_name(view, number, AHEAD)
    atom = block.atoms[place]
    others = (*block.atoms[:place], *block.atoms[place + 1 :])
    held = frozenset[Var]().union(*(a.variables for a in others))
    stages: Mapping[str, Stage] = {s.name: s for s in view.stages}
    own = tuple(p for p in block.predicates if p.variables and p.variables <= held)
    variables = sorted(_keys(block, atom, held))
    types = [next(t for a in others for t in held_types(a, v, schema, stages)) for v in variables]
    parts: list[Aggregate] = []

    def column(part: Aggregate | Expression) -> Expression:
        """What the block reads of a partial group."""
        assert isinstance(part, Aggregate)
        if part not in parts:
            parts.append(part)
        return Expression.of(Var(f"${name}.p{parts.index(part)}"), part.type.unbounded)

    whole = [a if _is_by_value(a) else merged(a, column) for a in _aggregates(block)]
    aggregates = tuple(a for a in whole if a is not None)
    if len(aggregates) < len(whole) or any(t.is_open for t in types):
        return None
    keys = tuple(Expression.of(v, t.unbounded) for v, t in zip(variables, types, strict=True))
    shown = [Expression.of(group_key(i), k.type) for i, k in enumerate(keys)] if parts else keys
    outputs = [*shown, *(Expression.of(aggregate_result(i), p.type) for i, p in enumerate(parts))]
    columns = tuple(Output(f"c{i}", e) for i, e in enumerate(outputs))
    not_null = (block.not_null | atom.variables) & held
    first = Block(others, own, columns, Grouping(keys, tuple(parts)) if parts else None, not parts, not_null)
    grouping = block.grouping and replace(block.grouping, aggregates=aggregates)
    rest = tuple(p for p in block.predicates if p not in own)
    read = Atom(name, (*variables, *(Var(f"${name}.p{i}") for i in range(len(parts)))), alias=name)
    atoms = (read, atom)
    piece = View(name, first, stages_of(first, view.stages), options=view.options)
    return [piece], replace(block, atoms=atoms, predicates=rest, grouping=grouping)


def _aggregates(block: Block) -> tuple[Aggregate, ...]:
    return block.grouping.aggregates if block.grouping is not None else ()


def _is_by_value(aggregate: Aggregate) -> bool:
    """True if only the different values count: those of columns will do, of which the argument is computed later."""
    made, argument = aggregate.function.made, aggregate.argument
    is_computed = argument is not None and argument.term is None
    return aggregate.distinct or made == Gathered(Reading.SET) or (is_computed and isinstance(made, Ordered))


def _may_fail(aggregate: Aggregate) -> bool:
    """True if a part of it may have no value, because of rows that are compared with none."""
    argument = aggregate.argument
    return argument is not None and argument.term is None and not aggregate.factors and not _is_by_value(aggregate)


def _keys(block: Block, atom: Atom, held: frozenset[Var]) -> frozenset[Var]:
    """The variables of the other atoms that are joined, compared or shown beside this one, or that values are of."""
    shown = block.grouping.keys if block.grouping is not None else [o.expression for o in block.outputs]
    compared = [p for p in block.predicates if not p.variables <= held]
    values = [e for a in _aggregates(block) if _is_by_value(a) for e in a.expressions]
    read = frozenset[Var]().union(atom.variables, *(e.variables for e in (*shown, *compared, *values)))
    return read & held


def _has_key(others: tuple[Atom, ...], block: Block, atom: Atom, schema: Schema) -> bool:
    """True if there is a group for every row, by the primary key of a table."""
    table = schema.table(others[0].relation) if len(others) == 1 else None
    if table is None or not table.primary_key:
        return False
    return {others[0].terms[i] for i in table.positions(table.primary_key)} <= _keys(block, atom, others[0].variables)
