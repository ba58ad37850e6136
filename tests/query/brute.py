"""The definitions themselves, by brute force: nothing here uses the algorithms of ``everview.query``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations, product
from math import inf

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Const, Term, Var

Edge = frozenset[Var]


def homomorphism_exists(source: ConjunctiveQuery, target: ConjunctiveQuery) -> bool:
    """Try every mapping of variables to terms of the target."""
    variables = sorted(source.variables)
    terms = dict.fromkeys(t for a in target.atoms for t in a.terms)
    atoms = {(a.relation, a.terms) for a in target.atoms}
    for images in product([*terms, *(t for t in target.head if t not in terms)], repeat=len(variables)):
        mapping = dict(zip(variables, images, strict=True))

        def moved(row: Iterable[Term], mapping: dict[Var, Term] = mapping) -> tuple[Term, ...]:
            return tuple(mapping[t] if isinstance(t, Var) else t for t in row)

        if (
            moved(source.head) == target.head
            and all((a.relation, moved(a.terms)) in atoms for a in source.atoms)
            and all(isinstance(t, Const) or t in target.not_null for t in (mapping[v] for v in source.not_null))
        ):
            return True
    return False


def proper_subqueries(query: ConjunctiveQuery) -> Iterator[ConjunctiveQuery]:
    """The query without one atom, where the head survives that."""
    for i in range(len(query.atoms)):
        rest = query.atoms[:i] + query.atoms[i + 1 :]
        if rest and query.free <= frozenset().union(*(a.variables for a in rest)):
            yield query.with_atoms(rest)


def has_join_tree(edges: Sequence[Edge]) -> bool:
    """Try every spanning tree (by its Prüfer sequence) for one in which each variable's edges hang together."""
    n = len(edges)
    if n <= 2:
        return True
    return any(_running_intersection(edges, _tree(code, n)) for code in product(range(n), repeat=n - 2))


def _tree(code: Sequence[int], n: int) -> list[tuple[int, int]]:
    degree = [1 + code.count(i) for i in range(n)]
    links = []
    for here in code:
        leaf = next(i for i in range(n) if degree[i] == 1)
        links.append((leaf, here))
        degree[leaf] -= 1
        degree[here] -= 1
    links.append(tuple(i for i in range(n) if degree[i] == 1))  # type: ignore[arg-type]
    return links


def _running_intersection(edges: Sequence[Edge], links: Sequence[tuple[int, int]]) -> bool:
    for v in frozenset().union(*edges):
        inside = sum(v in e for e in edges)
        if sum(v in edges[i] and v in edges[j] for i, j in links) != inside - 1:
            return False
    return True


def cover(edges: Iterable[Edge], variables: Edge) -> int:
    """ρ: try all sets of edges, small ones first."""
    parts = list({e & variables for e in edges})
    for size in range(len(parts) + 1):
        if any(frozenset().union(*chosen) == variables for chosen in combinations(parts, size)):
            return size
    raise ValueError("no cover")


def fractional_cover(edges: Sequence[Edge], variables: Edge) -> Fraction:
    """ρ*, as the best vertex of the packing polytope: every choice of tight constraints, solved exactly."""
    columns = sorted(variables)
    if not columns:
        return Fraction(0)
    rows = [([Fraction(v in e) for v in columns], Fraction(1)) for e in {e & variables for e in edges}]
    rows += [([Fraction(-(v == w)) for w in columns], Fraction(0)) for v in columns]
    best = Fraction(0)
    for tight in combinations(rows, len(columns)):
        point = _solve([r for r, _ in tight], [b for _, b in tight])
        if point and all(sum(a * x for a, x in zip(r, point, strict=True)) <= b for r, b in rows):
            best = max(best, sum(point, Fraction(0)))
    return best


def _solve(matrix: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction] | None:
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(len(rows)):
            if i != k and rows[i][k] != 0:
                rows[i] = [x - rows[i][k] * y for x, y in zip(rows[i], rows[k], strict=True)]
    return [row[-1] for row in rows]


def half_integral_cover(edges: Sequence[Edge], variables: Edge) -> Fraction:
    """The best cover of a graph with weights 0, ½ and 1, which is where the optimum of a graph lies."""
    half = Fraction(1, 2)
    weights = product((Fraction(0), half, Fraction(1)), repeat=len(edges))
    return min(
        sum(w, Fraction(0))
        for w in weights
        if all(sum((x for x, e in zip(w, edges, strict=True) if v in e), Fraction(0)) >= 1 for v in variables)
    )


def elimination_orders(variables: Edge, free: Edge) -> Iterator[tuple[Var, ...]]:
    """Every order that eliminates the bound variables before the free ones."""
    for first in permutations(sorted(variables - free)):
        for last in permutations(sorted(variables & free)):
            yield first + last


def bags(edges: Sequence[Edge], order: Sequence[Var]) -> list[Edge]:
    """What eliminating the variables one by one joins: all edges with the variable become one without it."""
    left = set(edges)
    made = []
    for v in order:
        touched = {e for e in left if v in e}
        bag = frozenset().union(*touched)
        made.append(bag)
        left = (left - touched) | {bag - {v}}
    return made


def least_width(edges: Sequence[Edge], free: Edge) -> tuple[int, Fraction]:
    """The least ρ of the worst bag over all orders, and the least ρ* among the orders that reach it."""
    variables = frozenset().union(*edges)
    known: dict[Edge, tuple[int, Fraction]] = {}

    def cost(bag: Edge) -> tuple[int, Fraction]:
        if bag not in known:
            known[bag] = (cover(edges, bag), fractional_cover(edges, bag))
        return known[bag]

    best: tuple[int, Fraction] | None = None
    for order in elimination_orders(variables, free):
        costs = [cost(b) for b in bags(edges, order)]
        worst = (max((c for c, _ in costs), default=0), max((f for _, f in costs), default=Fraction(0)))
        best = worst if best is None else min(best, worst)
    assert best is not None
    return best


def static_width(query: ConjunctiveQuery) -> int:
    """w by its definition: the best free-top order's worst ρ of a variable with those it depends on."""
    best = inf
    for order in elimination_orders(query.variables, query.free):
        best = min(best, max((cover(query.edges, bag) for bag in bags(query.edges, order)), default=0))
    return int(best)


def printed_delta(query: ConjunctiveQuery) -> int:
    """δ by Definition 13: the least over all canonical orders (those differ within equal atom sets only)."""
    atoms = {v: frozenset(i for i, e in enumerate(query.edges) if v in e) for v in query.variables}
    best = inf
    for priority in permutations(sorted(query.variables)):
        rank = {v: k for k, v in enumerate(priority)}

        def above(x: Var, y: Var, rank: dict[Var, int] = rank) -> bool:
            return atoms[x] > atoms[y] or (atoms[x] == atoms[y] and rank[x] < rank[y])

        worst = 0
        for x in query.variables - query.free:
            below = frozenset(y for y in query.variables if above(x, y))
            if not below & query.free:
                continue
            edges = [query.edges[i] for i in atoms[x]]
            head = frozenset(y for y in query.variables if above(y, x)) | (query.free & below)
            inside = frozenset().union(*edges)
            private = frozenset(v for v in inside - head if sum(v in e for e in edges) == 1)
            worst = max([worst, *(cover(edges, inside - private - e) for e in edges)])
        best = min(best, worst)
    return int(best)


def delta_index(query: ConjunctiveQuery) -> int:
    """The i of δ_i-hierarchical: for each bound X and atom R of X, how many more atoms of X cover their free ones."""
    worst = 0
    for x in query.variables - query.free:
        edges = [e for e in query.edges if x in e]
        free = frozenset().union(*edges) & query.free
        worst = max([worst, *(cover(edges, free - e) for e in edges)])
    return worst


def enumeration_orders(query: ConjunctiveQuery) -> set[tuple[Var, ...]]:
    """The pre-orders of the free variables over every q-tree of a q-hierarchical query."""
    atoms = {v: frozenset(i for i, e in enumerate(query.edges) if v in e) for v in query.variables}

    def trees(left: Edge) -> Iterator[tuple[Var, ...]]:
        """All pre-orders of forests over these variables; a root holds the atoms of all that is below it."""
        if not left:
            yield ()
            return
        for root in left:
            below = frozenset(v for v in left if v != root and atoms[v] <= atoms[root])
            others = left - below - {root}
            if any(atoms[v] & atoms[root] for v in others):
                continue  # not a root: something else has to be above
            if root not in query.free and below & query.free:
                continue
            for inner in trees(below):
                for after in trees(others):
                    yield (root, *inner, *after)

    return {tuple(v for v in order if v in query.free) for order in trees(query.variables)}
