"""A block as its constraints allow to maintain it: with fewer joins, and the same rows on every legal database.

A key that is joined with itself is one row, and a join that foreign keys say always matches, once, is no join
(ucq-constraints.md 9.4, 9.5). Both keep copies right: a primary key has one row a value. Where copies do not count the
chase finds more (``query.chase``). A child that refuses NULL by the join goes on refusing it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from everview.query.chase import holds_for, needed_for, simplified
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints, Dependency, InclusionDependency, unify_by_keys
from everview.query.hierarchy import is_q_hierarchical
from everview.query.homomorphism import Budget
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
    if len(block.atoms) < 2 or not (constraints.inclusions or constraints.functional):
        return Rewritten(block)
    query = query_of(block)
    used = _used_variables(block)
    unified = unify_by_keys(query, constraints)
    found = None if unified is None else simplified(unified, constraints)
    if unified is None or found is None:
        return Rewritten(block, ("the declared keys make the result always empty",))
    remarks = _merged(query, unified, constraints)
    for dropped in found.dropped:
        if dropped.by:
            said, verb, warning = by_constraints(dropped.by)
            gone = f"{verb} the join with {dropped.atom.relation} superfluous: it is not maintained"
            remarks.append(f"{said} {gone}{warning}")
    if found.is_cut and not is_q_hierarchical(found.query):
        remarks.append("the search for joins that foreign keys make superfluous was cut: there may be more")
    if len(found.query.atoms) == len(block.atoms):
        return Rewritten(block, tuple(remarks))
    mapping = {v: t for v, t in zip(used, found.query.head, strict=True) if v != t}
    return Rewritten(over(block, found.query, mapping), tuple(remarks))


def by_constraints(by: Sequence[Dependency]) -> tuple[str, str, str]:
    """Constraints in words, the verb that goes with so many, and a warning if one is not checked."""
    said = [
        f"the foreign key {d.name} of {d.relation}"
        if isinstance(d, InclusionDependency)
        else f"the primary key of {d.relation}"
        for d in by
    ]
    relied = any(d.is_relied_on for d in by)
    warning = f"; {'one of them' if len(by) > 1 else 'it'} is one {RELIED}" if relied else ""
    return " and ".join(said), "makes" if len(by) == 1 else "make", warning


def gone_members(
    members: Sequence[ConjunctiveQuery], kept: Sequence[int], constraints: Constraints, budget: Budget
) -> list[str]:
    """Which members of a union are not kept, as others have their rows: a line for all that any database tells so."""
    found: dict[tuple[str, str], list[str]] = {}
    for i in (i for i in range(len(members)) if i not in kept):
        holding = (members[j] for j in kept if holds_for(members[j], members[i], constraints, budget))
        by = next((needed_for(outer, members[i], constraints, budget) for outer in holding), ())
        said, _, warning = by_constraints(by)
        found.setdefault((f", by {said}," if by else "", warning), []).append(str(i + 1))
    return [
        f"member {', '.join(numbers)} of the union adds nothing to the others{by} and is not maintained{warning}"
        for (by, warning), numbers in found.items()
    ]


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
