"""A block as its constraints allow to maintain it: with fewer joins, and the same rows on every legal database.

A key that is joined with itself is one row, and a join that a foreign key says always matches, once, is no join
(ucq-constraints.md 9.4, 9.5). Both keep copies right: a primary key has one row a value. A child that refuses NULL
by the join goes on refusing it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints, drop_implied_atoms, unify_by_keys
from everview.query.hierarchy import is_q_hierarchical
from everview.query.terms import Term, Var
from everview.query.view import Block, Grouping

RELIED = "which is relied on and not checked: where it does not hold, the view is wrong"
"""What is said of a constraint that is NOT ENFORCED RELY."""


@dataclass(frozen=True)
class Rewritten:
    """A block that has the same rows, and which constraints gave what."""

    block: Block
    remarks: tuple[str, ...] = ()


def rewrite_block(block: Block, constraints: Constraints) -> Rewritten:
    """Drop the joins that keys and foreign keys make superfluous."""
    query = query_of(block)
    used = _used_variables(block)
    about = constraints.about(query)
    if not about.inclusions and not about.functional:
        return Rewritten(block)
    unified = unify_by_keys(query, about)
    if unified is None:
        return Rewritten(block, ("the declared keys make the result always empty",))
    reduced = drop_implied_atoms(unified, about)
    found = reduced.queries[0]
    remarks = _merged(query, unified, about)
    for dropped in reduced.dropped[0]:
        foreign = dropped.dependency
        key = f"the foreign key {foreign.name} of {foreign.relation}"
        warning = f"; it is one {RELIED}" if foreign.is_relied_on else ""
        remarks.append(f"{key} makes the join with {dropped.atom.relation} superfluous: it is not maintained{warning}")
    if reduced.cut and not is_q_hierarchical(found):
        remarks.append("the search for joins that foreign keys make superfluous was cut: there may be more")
    if len(found.atoms) == len(block.atoms):
        return Rewritten(block, tuple(remarks))
    mapping = {v: t for v, t in zip(used, found.head, strict=True) if v != t}
    return Rewritten(over(block, found, mapping), tuple(remarks))


def query_of(block: Block) -> ConjunctiveQuery:
    """The block's join as a query for the variables of which anything is made."""
    semantics = Semantics.SET if block.distinct and not block.grouping else Semantics.BAG
    return ConjunctiveQuery(_used_variables(block), block.atoms, block.predicates, semantics, block.not_null)


def _used_variables(block: Block) -> tuple[Var, ...]:
    """What the block makes something of, beside its conditions."""
    if block.grouping is None:
        expressions = [o.expression for o in block.outputs]
    else:
        arguments = [e for a in block.grouping.aggregates for e in a.expressions]
        expressions = [*block.grouping.keys, *arguments]
    return tuple(sorted({v for e in expressions for v in e.variables}))


def over(block: Block, query: ConjunctiveQuery, mapping: dict[Var, Term]) -> Block:
    """The block over the atoms of a query, its variables replaced."""
    outputs, grouping = block.outputs, block.grouping
    if grouping is None:
        outputs = tuple(replace(o, expression=o.expression.substitute(mapping)) for o in outputs)
    else:
        aggregates = tuple(a.substitute(mapping) for a in grouping.aggregates)
        grouping = Grouping(tuple(k.substitute(mapping) for k in grouping.keys), aggregates, grouping.having)
    return replace(
        block,
        atoms=query.atoms,
        predicates=query.predicates,
        outputs=outputs,
        grouping=grouping,
        not_null=query.not_null,
    )


def _merged(query: ConjunctiveQuery, unified: ConjunctiveQuery, constraints: Constraints) -> list[str]:
    """What keys have made one, a line for each relation."""
    before = Counter(a.relation for a in query.atoms)
    after = Counter(a.relation for a in unified.atoms)
    found = []
    for relation, gone in (before - after).items():
        relied = any(d.is_relied_on for d in constraints.keys_of(relation))
        warning = f"; it is one {RELIED}" if relied else ""
        joins = "a join" if gone == 1 else f"{gone} joins"
        found.append(f"the primary key of {relation} makes {joins} of it with itself superfluous{warning}")
    return found
