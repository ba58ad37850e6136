"""From a SELECT block to the conjunctive cores that maintain it (crown.md 8, 9).

Sums and counts live in the core itself, as annotations from a ring. What has no inverse or counts distinct values gets
a core of its own that lists the distinct (group, value) pairs, and a small operator on its changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.terms import Expression, Term, Var
from everview.query.view import Aggregate, Block


@dataclass(frozen=True)
class Core:
    """A conjunctive query to maintain, what it is for, and what happens to its changes on the way out.

    Its head holds the variables that the block outputs or groups by, and those that an operator after the core needs.
    """

    role: str
    query: ConjunctiveQuery
    operators: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    keeps_values: bool = False
    """True if an operator keeps every (group, value) pair: MIN and MAX."""
    grouped: bool = False
    """True if its rows are groups: several maintained rows of one group must be folded before they are shown."""


def cores_of(block: Block, name: str) -> tuple[Core, ...]:
    """The cores of a block; the first is the one that gives the result's rows."""
    return _grouped(block, name) if block.grouping else (_plain(block, name),)


def _plain(block: Block, name: str) -> Core:
    outputs = [o.expression for o in block.outputs]
    semantics = Semantics.SET if block.distinct else Semantics.BAG
    terms = [e.term for e in outputs]
    operators: list[str] = []
    if all(t is not None for t in terms):
        head: tuple[Term, ...] = tuple(t for t in terms if t is not None)
    else:
        head = _variables(outputs)
        computed = ", ".join(str(e) for e in outputs if e.term is None)
        operators.append(f"compute {computed}")
        if block.distinct:
            operators.append("count derivations of each computed row (DISTINCT)")
    return Core("result", _query(block, head, semantics, name), tuple(operators))


def _grouped(block: Block, name: str) -> tuple[Core, ...]:
    grouping = block.grouping
    assert grouping is not None
    keys = _variables(grouping.keys)
    summed = tuple(a for a in grouping.aggregates if not a.distinct and a.function.has_inverse)
    listed = tuple(a for a in grouping.aggregates if a not in summed)
    after = []
    if any(len(k.variables) > 1 or (k.term is None and k.variables) for k in grouping.keys):
        after.append("group by " + ", ".join(str(k) for k in grouping.keys))
    if grouping.having is not None:
        after.append("filter groups (HAVING)")
    if any(o.expression.term is None for o in block.outputs):
        after.append("compute output columns from groups")
    if block.distinct:
        after.append("count derivations of each row (DISTINCT)")
    if not grouping.keys:
        after.append("one row even over no input")
    cores = []
    if summed or not listed:
        spread = tuple(a for a in summed if a.argument and not _in_one_atom(block, a.argument))
        extra = _variables([a.argument for a in spread if a.argument], apart_from=keys)
        own = [f"sum up {a} over several tables' columns" for a in spread]
        query = _query(block, (*keys, *extra), Semantics.BAG, name)
        cores.append(Core("result", query, (*own, *after), summed, grouped=True))
    for aggregate in listed:
        assert aggregate.argument is not None
        extra = _variables([aggregate.argument], apart_from=keys)
        query = _query(block, (*keys, *extra), Semantics.SET, name)
        keeps = not aggregate.function.has_inverse
        kind = "ordered values of each group" if keeps else "fold in each group's distinct values"
        role = str(aggregate) if cores else "result"
        cores.append(Core(role, query, (f"{kind} for {aggregate}", *(after if not cores else ())), (aggregate,), keeps))
    return tuple(cores)


def _query(block: Block, head: Iterable[Term], semantics: Semantics, name: str) -> ConjunctiveQuery:
    return ConjunctiveQuery(tuple(head), block.atoms, block.predicates, semantics, block.not_null, name)


def _variables(expressions: Iterable[Expression], apart_from: Iterable[Var] = ()) -> tuple[Var, ...]:
    """The variables of expressions, in the order in which they are first named."""
    known = set(apart_from)
    named = (p for e in expressions for p in e.parts if isinstance(p, Var))
    return tuple(v for v in dict.fromkeys(named) if v not in known)


def _in_one_atom(block: Block, expression: Expression) -> bool:
    return any(expression.variables <= a.variables for a in block.atoms)
