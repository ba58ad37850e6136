"""Positions in a union: its members and what they have in common, kept in one order (q-hierarchical.md 14).

The rows that come before one in a member, and in the intersections with others, tell where the row is in the union. So
all of them must be ordered by the same columns. A tree leaves some choice: the orders are compared, and those of the
largest intersections, which leave the least, are asked for of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from everview.query.terms import Term, Var
from everview.strategies.strategy import Task

if TYPE_CHECKING:
    from everview.plan.part_plan import BlockPlan, PartPlan

MOST_ORDERS = 4
"""So many orders are asked for."""
MOST_SIDES = 16
"""For so many sides of UNION ALL an order is looked for."""
Blocks = tuple["BlockPlan", ...]


@dataclass(frozen=True)
class UnionOrder:
    """The order of a union's members and of their intersections: the columns, each once.

    ``terms`` has the sets of two members and more that may have rows in common, by the numbers of the members, with the
    number of the intersection that has these rows, among those that are kept.
    """

    columns: tuple[int, ...]
    terms: Mapping[tuple[int, ...], int]


def in_one_order(plan: Callable[[Sequence[int]], tuple[Blocks, Blocks]]) -> tuple[Blocks, Blocks, tuple[int, ...]]:
    """Members and intersections that are kept in one order, which ``plan`` gives where an order is asked of it.

    The last is that order; () if there is none among those that were tried, and they are as they come.
    """
    first = plan(())
    found, asked = first, [(), *_wanted(first)]
    for i, columns in enumerate(asked[:MOST_ORDERS]):
        found = found if i == 0 else plan(columns)
        known = [_shown(block) for block in (*found[0], *found[1])]
        merged = merged_order([k for k in known if k is not None])
        if merged is not None and None not in known:
            return (*found, merged)
    return (*first, ())


def sides_in_order(part: PartPlan, wanted: bool | None, plan: Callable[[Sequence[int]], Blocks]) -> PartPlan:
    """A UNION ALL with the order in which all its sides can be kept, if there is one; kept in it, if that is wanted.

    Its rows then stand in that order, the copies of all sides side by side. ``plan`` gives the sides as they are kept
    in order, by columns that are asked for as far as their trees leave a choice.
    """
    if wanted is False or len(part.blocks) > MOST_SIDES or not all(map(_has_places, part.blocks)):
        return part
    sides, _, columns = in_one_order(lambda order: (plan(order), ()))
    if not columns:
        return part
    return replace(part, blocks=sides if wanted else part.blocks, order=UnionOrder(columns, {}))


def _has_places(plan: BlockPlan) -> bool:
    """True if the rows of a block can be kept in order, and show each variable of the core once."""
    terms, core = [o.expression.term for o in plan.block.outputs], plan.cores[0]
    is_plain = all(isinstance(t, Var) for t in terms) and len(set(terms)) == len(terms) > 0
    shows_all = is_plain and set(terms) == core.maintenance.outputs and not core.residual
    return shows_all and plan.block.grouping is None and not core.folds_rows and Task.ACCESS in core.maintenance.tasks


def _shown(block: BlockPlan) -> tuple[Sequence[Term], Sequence[Var]] | None:
    """The terms of a block's columns, and the variables that its rows are in order by; None if they are in none."""
    (core,) = block.cores
    order, terms = core.maintenance.ordered_by, [o.expression.term for o in block.block.outputs]
    plain = [t for t in terms if t is not None]
    return None if order is None or core.folds_rows or not set(order) <= set(plain) else (plain, order)


def _wanted(found: tuple[Blocks, Blocks]) -> Iterator[tuple[int, ...]]:
    """The columns as single queries have them in order, the largest queries first."""
    blocks = sorted((*found[0], *found[1]), key=lambda b: -len(b.cores[0].query.atoms))
    seen = set()
    for block in blocks:
        shown = _shown(block)
        if shown is not None:
            terms, order = shown
            columns = tuple(dict.fromkeys(terms.index(v) for v in order))
            columns += tuple(i for i in range(len(terms)) if i not in columns)
            if columns not in seen:
                seen.add(columns)
                yield columns


def merged_order(known: Sequence[tuple[Sequence[Term], Sequence[Var]]]) -> tuple[int, ...] | None:
    """An order of all columns that rows of each query are in; None if there is none.

    A column that is next for every query, or says nothing new for it, can always come next: so none has to be tried in
    vain.
    """
    if not known:
        return None
    width, found = len(known[0][0]), list[int]()
    passed = [0] * len(known)
    while len(found) < width:
        for column in (c for c in range(width) if c not in found):
            steps = [_step(terms[column], order, at) for (terms, order), at in zip(known, passed, strict=True)]
            if None not in steps:
                found.append(column)
                passed = [at + (step or 0) for at, step in zip(passed, steps, strict=True)]
                break
        else:
            return None
    return tuple(found)


def _step(term: Term, order: Sequence[Var], at: int) -> int | None:
    """1 if a column has the next variable of an order, 0 if it is constant or had before; None if it must wait."""
    if not isinstance(term, Var) or term in order[:at]:
        return 0
    return 1 if at < len(order) and order[at] == term else None
