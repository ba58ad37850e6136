"""Stars and paths inside queries: the largest there are, by exhaustive search, and the reductions that make them hard.

The reductions of parameterized-hardness.md 2 and 3 are carried out on random queries: the query is empty exactly if the
product of tensor and vectors is 0, and if there is no cycle through the vertex.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, permutations, product
from random import Random

import pytest

import everview as ev
from everview.query.classify import classify
from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.hard_patterns import largest_star, longest_path
from everview.query.hierarchy import is_q_hierarchical
from everview.query.terms import Var
from everview.strategies.crown.choose import choose_tree
from tests.scale import scaled
from tests.strategies.hierarchical.driver import Bag, joined, query_of


def random_queries(seed: int, count: int) -> Iterator[ConjunctiveQuery]:
    choice = Random(seed)
    for _ in range(count):
        variables = [Var(c) for c in "abcdef"[: choice.randint(1, 6)]]
        atoms = tuple(
            Atom(relation, tuple(choice.sample(variables, min(len(variables), choice.choice((1, 1, 2, 2, 2, 3, 4))))))
            for relation in "RSTUVW"[: choice.randint(1, 6)]
        )
        used = sorted({v for a in atoms for v in a.variables})
        share = choice.choice((0.0, 0.5, 1.0))
        yield ConjunctiveQuery(tuple(v for v in used if choice.random() < share), atoms)


def is_star(query: ConjunctiveQuery, chosen: tuple[Var, ...]) -> bool:
    """By the definition, with the output as one more place for a variable that is output alone."""
    if not any(set(chosen) <= e for e in query.edges):
        return False
    places = {v: any(e & set(chosen) == {v} for e in query.edges) for v in chosen}
    if all(places.values()):
        return True
    missing = [v for v, there in places.items() if not there]
    return len(missing) == 1 and query.free & set(chosen) == set(missing)


def is_path(query: ConjunctiveQuery, chosen: tuple[Var, ...]) -> bool:
    """By the definition: an atom has none, one, or two neighbours of the path; neighbours meet; ends have an atom."""
    pairs = [{chosen[i], chosen[i + 1]} for i in range(len(chosen) - 1)]
    met = [e & set(chosen) for e in query.edges]
    ends = all({end} in met for end in (chosen[0], chosen[-1]))
    return ends and all(len(m) < 2 or m in pairs for m in met) and all(p in met for p in pairs)


@pytest.mark.parametrize("seed", range(3))
def test_they_are_the_largest(seed: int) -> None:
    for query in random_queries(seed, scaled(150)):
        star, path = largest_star(query), longest_path(query)
        variables = sorted(query.variables)
        stars = [len(x) for n in range(2, len(variables) + 1) for x in combinations(variables, n) if is_star(query, x)]
        assert (star.dimension if star else 1) == max(stars, default=1), query
        assert star is None or is_star(query, star.variables)
        paths = [len(x) for n in range(2, len(variables) + 1) for x in permutations(variables, n) if is_path(query, x)]
        assert (len(path.variables) if path else 0) == max(paths, default=0), query
        assert path is None or is_path(query, path.variables)


def test_dimension_one_is_q_hierarchical() -> None:
    for query in random_queries(7, scaled(1000)):
        assert (largest_star(query) is None) == is_q_hierarchical(query)


def test_no_tree_is_lower_than_the_path() -> None:
    """A path of height k excludes trees of a smaller height: with one, CROWN would be faster than what is excluded."""
    compared = 0
    for query in random_queries(8, scaled(600)):
        path = longest_path(query)
        if path and classify(query).free_connex:
            choice = choose_tree(query.edges, query.free, (1,) * len(query.atoms))
            assert choice is not None
            assert path.height <= choice.tree.height
            compared += 1
    assert compared >= scaled(30)


def test_the_star_reduction() -> None:
    """Tensor and vectors as tables: the query has rows exactly if the product is not 0; a listed variable is told."""
    choice = Random(3)
    compared = {False: 0, True: 0}
    for query in random_queries(9, scaled(300)):
        star = largest_star(query)
        if star is None:
            continue
        compared[star.is_listed] += 1
        tensor = {x for x in product(range(2), repeat=star.dimension) if choice.random() < 0.4}
        vectors = [{i for i in range(2) if choice.random() < 0.6} for _ in star.variables]
        if star.is_listed:
            vectors[-1] = {0, 1}
        own = {}
        for v in star.variables[: star.dimension - star.is_listed]:
            own[v] = next(i for i, e in enumerate(query.edges) if e & set(star.variables) == {v} and i != star.atom)
        database: dict[str, Bag] = {}
        for i, atom in enumerate(query.atoms):
            rows = tensor if i == star.atom else set(product(range(2), repeat=star.dimension))
            for v, at in own.items():
                place = star.variables.index(v)
                rows = {x for x in rows if at != i or x[place] in vectors[place]}
            words = [dict(zip(star.variables, x, strict=True)) for x in rows]
            database[atom.relation] = {tuple(w.get(t, 0) for t in atom.terms): 1 for w in words}  # type: ignore[call-overload]
        wanted = {x for x in tensor if all(x[i] in vector for i, vector in enumerate(vectors))}
        found = joined(query.atoms, query.head, database)  # type: ignore[arg-type]
        assert bool(found) == bool(wanted), (query, star)
        if star.is_listed:
            assert len(found) <= 2
            place = query.head.index(star.variables[-1])
            assert {row[place] for row in found} == {x[-1] for x in wanted}
    assert min(compared.values()) >= scaled(10)


def test_the_path_reduction() -> None:
    """A layered graph as tables, the neighbours of a vertex at the ends: rows exactly if a cycle goes through it."""
    choice = Random(4)
    compared = 0
    for query in random_queries(10, scaled(300)):
        path = longest_path(query)
        if path is None:
            continue
        compared += 1
        length = len(path.variables)
        layers = [{x for x in product(range(2), repeat=2) if choice.random() < 0.5} for _ in range(length - 1)]
        first, last = ({x for x in range(2) if choice.random() < 0.6} for _ in range(2))
        inside = set(path.variables)
        ends = [next(i for i, e in enumerate(query.edges) if e & inside == {path.variables[p]}) for p in (0, -1)]
        database: dict[str, Bag] = {}
        for i, atom in enumerate(query.atoms):
            met = [v for v in path.variables if v in query.edges[i]]
            rows: set[tuple[int, ...]] = set(product(range(2), repeat=len(met)))
            if len(met) == 2:
                rows = set(layers[path.variables.index(met[0])])
            elif i in ends:
                rows = {(x,) for x in (first if i == ends[0] else last)}
            words = [dict(zip(met, row, strict=True)) for row in rows]
            database[atom.relation] = {tuple(w.get(t, 0) for t in atom.terms): 1 for w in words}  # type: ignore[call-overload]
        reached = first
        for layer in layers:
            reached = {y for x, y in layer if x in reached}
        assert bool(joined(query.atoms, (), database)) == bool(reached & last), (query, path)
    assert compared >= scaled(30)


@pytest.mark.parametrize(
    ("hops", "height"), [("3", 2), ("4", 2), ("5", 3), ("6", 3), ("7", 4)], ids=lambda x: f"{x} hops"
)
def test_heights_of_paths_are_those_of_their_trees(hops: str, height: int) -> None:
    atoms = [f"{'RSTUVWX'[i]}{'abcdefgh'[i]}{'abcdefgh'[i + 1]}" for i in range(int(hops))]
    query = query_of("abcdefgh"[: int(hops) + 1], *atoms)
    path = longest_path(query)
    choice = choose_tree(query.edges, query.free, (1,) * len(query.atoms))
    assert path is not None
    assert choice is not None
    assert path.height == choice.tree.height == height


def test_a_wide_star_is_found_at_once() -> None:
    """Variables are added one by one; a search that takes too long is cut, with what it has found."""
    many = [Var(f"x{i:02}") for i in range(40)]
    query = ConjunctiveQuery(tuple(many), (Atom("R", tuple(many)), *(Atom(f"S{v.name}", (v,)) for v in many)))
    star = largest_star(query)
    assert star is not None
    assert star.dimension == 40
    ring = [Atom(f"S{i}", (many[i], many[(i + 1) % 40])) for i in range(40)]
    star = largest_star(ConjunctiveQuery(tuple(many), (Atom("R", tuple(many)), *ring)))
    assert star is not None
    assert (
        star.dimension == 26
    )  # Of three neighbours two can be in it: the middle one needs an atom without the others.
    dense = ConjunctiveQuery((), tuple(Atom(f"E{i}_{j}", (many[i], many[j])) for i, j in combinations(range(24), 2)))
    assert largest_star(dense) is not None
    assert longest_path(dense) is not None


def lower_bound(rule: str) -> str:
    said = ev.explain(rule).lower_bound
    assert said is not None
    return said


@pytest.mark.parametrize(
    ("rule", "exponent", "why"),
    [
        ("q(a, b, c) :- r(a, b, c), u(a), v(b), w(c).", "2/3", "a, b and c meet in r, and each is somewhere without"),
        ("q(a) :- r(a, b, c), s(b), t(c).", "2/3", "the others, a by its output (dimension 3)"),
        ("q(a, b, c, d) :- v(a), r(a, b), s(b, c), t(c, d), w(d).", "2/3", "a – b – c – d is a path"),
        ("q() :- r(a, b, c, d), s(a), t(b), u(c), v(d).", "3/4", "OuMv conjecture for 4 vectors"),
    ],
)
def test_explain_prints_what_is_known(rule: str, exponent: str, why: str) -> None:
    said = lower_bound(rule)
    assert "with constant delay an update" in said
    assert f"O(N^({exponent}−γ))" in said
    assert why in said


def test_explain_says_nothing_where_nothing_is_known() -> None:
    for rule in ("q(a, b) :- u(a), r(a, b), v(b).", "q(a, c) :- r(a, b), s(b, c)."):
        assert "constant delay an update" not in lower_bound(rule)
    self_join = "q(a, b, c) :- r(a, b, c), u(a), u(b), u(c)."
    assert lower_bound(self_join).startswith("none known for listing")
