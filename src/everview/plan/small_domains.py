"""A block as a union over the values of small domains, CHECK … IN, where that gives a better class (Lemma 5.2).

Each row of a join has one value of a variable whose column is checked, so the instances, one for each value, have
between them the same rows: as bags, and under DISTINCT where the value is shown as well. Only if it is not shown the
instances overlap. As few values as possible are told apart: any of the variables may be left as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from itertools import combinations, product
from math import prod

from everview.plan.rewrite import RELIED, over, query_of
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.constraints import Constraints, restricted_domains
from everview.query.hierarchy import is_q_hierarchical
from everview.query.homomorphism import Budget, minimal_query
from everview.query.terms import Const, Term, Var, names
from everview.query.view import Block, Body, SetOperation, SetOperator

MOST_MEMBERS = 16
"""So many instances are maintained in the place of one block; each of them has a program of its own."""
MOST_VARIABLES = 3
ALWAYS_EMPTY = "the declared small domains make the result always empty"


@dataclass(frozen=True)
class Expanded:
    """The instances of a block, and what is to be said of it."""

    members: tuple[Block, ...]
    is_disjoint: bool
    """True if no row is a row of two instances."""
    remark: str


def expand_block(block: Block, constraints: Constraints) -> Expanded | None:
    """The instances of a block by its small domains, all of them q-hierarchical; None if it gains nothing."""
    query = query_of(block)
    about = constraints.about(query)
    if block.grouping is not None or not about.small_domains or is_easy(query):
        return None
    domains = {v: d for v, d in (restricted_domains(query, about) or {}).items() if all(map(_is_plain, d))}
    shown = {o.expression.term for o in block.outputs}

    def cost(chosen: tuple[Var, ...]) -> tuple[int, bool]:
        return prod(len(domains[v]) for v in chosen), not shown >= set(chosen)

    found = min(_ways(query, domains), key=cost, default=None)
    if found is None:
        return None
    members = tuple(over(block, query.substitute(m), m) for m in _assignments(domains, found))
    relied = any(d.is_relied_on for d in about.small_domains)
    warning = f"; one of them is {RELIED}" if relied else ""
    said = f"the small domain of {names(found)} (CHECK … IN) makes it a union of {len(members)} q-hierarchical queries"
    return Expanded(members, not block.distinct or shown >= set(found), f"{said}{warning}")


def united(block: Block, members: tuple[Block, ...], *, all: bool) -> Body:
    """The members' union in the place of a block."""
    found: Body = members[0]
    for member in members[1:]:
        found = SetOperation(SetOperator.UNION, all, found, member, block.outputs)
    return found


def is_always_empty(query: ConjunctiveQuery, constraints: Constraints) -> bool:
    """True if no database that keeps its small domains gives the query a row."""
    return restricted_domains(query, constraints.about(query)) is None


def is_easy(query: ConjunctiveQuery) -> bool:
    """True if the query's core is q-hierarchical."""
    return is_q_hierarchical(query) or is_q_hierarchical(minimal_query(query, Budget()))


def _ways(query: ConjunctiveQuery, domains: Mapping[Var, frozenset[Const]]) -> Iterator[tuple[Var, ...]]:
    """The variables of which the values are told apart, so that every instance is easy."""
    fixed = tuple(v for v in sorted(domains) if len(domains[v]) == 1)
    others = [v for v in sorted(domains) if v not in fixed]
    for size in range(0 if fixed else 1, min(MOST_VARIABLES, len(others)) + 1):
        for more in combinations(others, size):
            chosen = (*fixed, *more)
            few = prod(len(domains[v]) for v in chosen) <= MOST_MEMBERS
            if few and all(is_easy(query.substitute(m)) for m in _assignments(domains, chosen)):
                yield chosen


def _assignments(domains: Mapping[Var, frozenset[Const]], chosen: tuple[Var, ...]) -> Iterator[dict[Var, Term]]:
    for values in product(*(sorted(domains[v], key=str) for v in chosen)):
        yield dict(zip(chosen, values, strict=True))


def _is_plain(value: Const) -> bool:
    """True for values that are equal in one way only, whatever the columns' types that hold them."""
    return isinstance(value.value, int | str | date) and not isinstance(value.value, datetime)
