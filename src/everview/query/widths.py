"""Static and dynamic width of hierarchical queries (hierarchical-tradeoff.md 4): the exponents of the ε dial."""

from __future__ import annotations

from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.covers import edge_cover_number
from everview.query.orders import VariableNode, VariableOrder, canonical_order
from everview.query.terms import Var


@dataclass(frozen=True, slots=True)
class Widths:
    """w: preprocessing N^(1+(w−1)ε). δ: update N^(δε), ``delta`` as printed and ``delta_tight`` as achieved."""

    w: int
    delta: int
    delta_tight: int


def widths(query: ConjunctiveQuery) -> Widths:
    """All widths of a hierarchical query; raises NotHierarchicalError for any other."""
    query = query.condensed()
    order = canonical_order(query)
    return Widths(_static_width(query, order), _delta(query, order), _delta_tight(query, order))


def _bound_nodes(query: ConjunctiveQuery, order: VariableOrder) -> list[tuple[VariableNode, tuple[Var, ...]]]:
    return [(n, above) for n, above in order.walk() if n.variable not in query.free]


def _static_width(query: ConjunctiveQuery, order: VariableOrder) -> int:
    """The closed form of section 4.2: free variables below a bound one, covered by atoms; 1 iff free-connex."""
    if not query.variables:
        return 0
    below = [n.variables & query.free for n, _ in _bound_nodes(query, order)]
    return max([1, *(edge_cover_number(query.edges, b) for b in below)])


def _delta(query: ConjunctiveQuery, order: VariableOrder) -> int:
    """Definition 13 on the free-first canonical order, which attains the minimum."""
    worst = 0
    for node, above in _bound_nodes(query, order):
        if not node.variables & query.free:
            continue
        edges = [query.edges[i] for i in node.all_atoms]
        head = frozenset(above) | (query.free & node.variables)
        private = frozenset(v for v in node.variables - head if sum(v in e for e in edges) == 1)
        joined = frozenset().union(*edges) - private
        worst = max([worst, *(edge_cover_number(edges, joined - e) for e in edges)])
    return worst


def _delta_tight(query: ConjunctiveQuery, order: VariableOrder) -> int:
    """Section 4.4: bound join variables without free ones below are summed out first and cost nothing."""
    worst = 0
    for node, _ in _bound_nodes(query, order):
        edges = [query.edges[i] for i in node.all_atoms]
        free = query.free & node.variables
        worst = max([worst, *(edge_cover_number(edges, free - e) for e in edges)])
    return worst
