"""A view's parts at work: each stage and the view itself, from plan to runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from everview.engine.operators.exploded import Elements
from everview.engine.operators.first_rows import FirstRows
from everview.engine.operators.formula import FormulaOperator
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.select import Select
from everview.engine.operators.set_operations import Asked, Concatenation, combine
from everview.engine.operators.sides import Operator
from everview.engine.operators.timed import TimedRows
from everview.engine.operators.united import United
from everview.engine.operators.windowed import WindowValues
from everview.engine.values.dictionary import Dictionary
from everview.plan.part_plan import BlockPlan, PartPlan
from everview.plan.unions import Combination
from everview.programs.link import Linker
from everview.query.types import DataType
from everview.query.view import Block, Body, Cut, Exploded, FormulaBody, SetOperation, Timed, Windowed
from everview.strategies.fo_mod.plan import FormulaPlan

Relations = Mapping[str, tuple[DataType, ...]]


def build_part(plan: PartPlan, relations: Relations, dictionary: Dictionary, linker: Linker) -> Operator:
    """The runtime of a part, to be used once all is linked: one source a block, under its set operations."""
    if isinstance(plan.body, FormulaBody):
        return FormulaOperator(FormulaPlan(plan.body), relations, dictionary)
    planned = iter(plan.blocks)
    if plan.combination is not None or (plan.union is not None and isinstance(plan.body, SetOperation)):
        members = tuple(_block(b, relations, dictionary, linker) for b in planned)
        if len(members) == 1:
            return members[0]
        assert isinstance(plan.body, SetOperation)
        match plan.combination:
            case Combination.TESTED:
                types = [c.type for c in plan.body.columns]
                counted = _selects([_block(b, relations, dictionary, linker) for _, b in plan.terms])
                terms = [(n, select) for (n, _), select in zip(plan.terms, counted, strict=True)]
                order, may_access = plan.order, plan.may_access
                return United(_selects(members), types, dictionary, linker, terms, order=order, may_access=may_access)
            case Combination.ASKED:
                return Asked(members)
            case Combination.DISJOINT:
                return Concatenation(members, disjoint=True)
        return combine(replace(plan.body, all=False), members, dictionary, linker)
    if isinstance(plan.body, SetOperation) and plan.only_concatenates:
        members = tuple(_block(b, relations, dictionary, linker) for b in planned)
        return Concatenation(
            members, disjoint=plan.is_disjoint, order=plan.order.columns if plan.order is not None else ()
        )
    return _body(plan.body, planned, relations, dictionary, linker)


def _selects(operators: Sequence[Operator]) -> tuple[Select, ...]:
    """Operators that are all blocks without grouping."""
    return tuple(o for o in operators if isinstance(o, Select))


def formulas_in(source: Operator) -> list[FormulaOperator]:
    """The formula that gives a part's rows, below an index that may be kept of them."""
    inner = getattr(source, "source", source)
    return [inner] if isinstance(inner, FormulaOperator) else []


def reads_from(source: Operator, relation: str) -> bool:
    """True if changes of a relation concern a part of a view."""
    return any(c.reads(relation) for c in source.cores) or any(f.reads(relation) for f in formulas_in(source))


def blocks_of(source: Operator) -> Iterator[Operator]:
    """The blocks of a source: itself, or those of the sides of a set operation, and what it counts besides."""
    sides = getattr(source, "sides", None)
    if sides is None:
        yield source
    for side in sides or ():
        yield from blocks_of(side)
    if isinstance(source, United):
        yield from (term for _, term in source.terms)


def united(source: Operator) -> Iterator[United]:
    """The unions among a source and its sides whose members test each other."""
    if isinstance(source, United):
        yield source
    for side in getattr(source, "sides", ()):
        yield from united(side)


def grouped_blocks(source: Operator) -> Iterator[GroupBy]:
    """The grouped blocks among a source's sides."""
    return (block for block in blocks_of(source) if isinstance(block, GroupBy))


def _body(
    body: Body, planned: Iterator[BlockPlan], relations: Relations, dictionary: Dictionary, linker: Linker
) -> Operator:
    if isinstance(body, Block):
        return _block(next(planned), relations, dictionary, linker)
    if isinstance(body, Cut):
        return FirstRows(_body(body.body, planned, relations, dictionary, linker), body, dictionary, linker)
    if isinstance(body, Windowed):
        return WindowValues(_body(body.body, planned, relations, dictionary, linker), body, dictionary, linker)
    if isinstance(body, Exploded):
        return Elements(_body(body.body, planned, relations, dictionary, linker), body, dictionary)
    if isinstance(body, Timed):
        rows = _block(next(planned), relations, dictionary, linker)
        assert isinstance(rows, Select)
        return TimedRows(rows, body, dictionary, linker)
    if not isinstance(body, SetOperation):
        raise TypeError("a formula is a whole view, and no side of a set operation")
    left = _body(body.left, planned, relations, dictionary, linker)
    right = _body(body.right, planned, relations, dictionary, linker)
    return combine(body, (left, right), dictionary, linker)


def _block(plan: BlockPlan, relations: Relations, dictionary: Dictionary, linker: Linker) -> Operator:
    if plan.block.grouping is None:
        return Select(plan.block, plan.cores[0], relations, dictionary, linker)
    return GroupBy(plan.block, plan.cores, relations, dictionary, linker)
