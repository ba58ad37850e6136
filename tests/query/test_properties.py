"""What must hold of every query: checked on random ones against brute force, and on random databases with DuckDB."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from everview.query.chase import chased, simplified, surviving
from everview.query.conjunctive import Atom, Computed, ConjunctiveQuery, Semantics, UnionQuery
from everview.query.constraints import (
    MAX_INSTANCES,
    drop_implied_atoms,
    expand,
    expand_union,
    restricted_domains,
    unify_by_keys,
)
from everview.query.covers import edge_cover, edge_cover_number, fractional_cover_number
from everview.query.decomposition import decompose
from everview.query.hierarchy import is_hierarchical, is_q_hierarchical, is_t_hierarchical, q_violation, t_violation
from everview.query.homomorphism import (
    Budget,
    are_equivalent,
    find_homomorphism,
    is_contained,
    minimal_query,
    minimal_union,
)
from everview.query.hypergraph import cycle, free_path, is_acyclic, is_free_connex
from everview.query.orders import (
    VariableOrder,
    canonical_order,
    enumeration_order,
    free_top_order,
    q_tree,
    supports_order,
)
from everview.query.terms import Expression, Var
from everview.query.unions import (
    counting_terms,
    intersection,
    is_exhaustively_q_hierarchical,
    is_strongly_exhaustively_q_hierarchical,
)
from everview.query.widths import widths
from tests.query import brute
from tests.scale import thoroughness
from tests.support import (
    constraints,
    cq,
    databases,
    evaluate,
    hierarchical_queries,
    legal,
    queries,
    ucq,
    unions,
)

Edge = frozenset[Var]
often, sometimes, rarely = thoroughness(100), thoroughness(60), thoroughness(30)

plain = queries(constants=False, repeats=False, head_extras=False, max_atoms=5, max_vars=5, relations=5)


@st.composite
def hypergraphs(draw: st.DrawFn, max_edges: int = 5, max_vars: int = 5, max_size: int = 3) -> list[Edge]:
    names = st.sampled_from([Var(f"v{i}") for i in range(max_vars)])
    return draw(st.lists(st.frozensets(names, min_size=1, max_size=max_size), min_size=1, max_size=max_edges))


@st.composite
def subsets(draw: st.DrawFn, edges: list[Edge]) -> Edge:
    known = sorted(frozenset().union(*edges))
    return frozenset(v for v in known if draw(st.booleans()))


# --- homomorphisms and cores -----------------------------------------------------------------------------------------


@often
@given(queries(max_vars=3, not_null=True), st.data())
def test_a_core_has_the_same_result(query: ConjunctiveQuery, data: st.DataObject) -> None:
    database = data.draw(databases(query, nulls=True))
    assert evaluate(minimal_query(query), database) == evaluate(query, database)


@often
@given(queries(max_vars=3, relations=2, not_null=True))
def test_a_core_is_minimal(query: ConjunctiveQuery) -> None:
    minimal = minimal_query(query)
    assert set(minimal.atoms) <= set(query.atoms)
    assert brute.homomorphism_exists(query, minimal)
    assert brute.homomorphism_exists(minimal, query)
    assert not any(brute.homomorphism_exists(minimal, smaller) for smaller in brute.proper_subqueries(minimal))


@often
@given(queries(semantics=Semantics.BAG))
def test_a_bag_is_its_own_core(query: ConjunctiveQuery) -> None:
    assert minimal_query(query) == query


@often
@given(queries(max_vars=3, relations=2, max_atoms=3), queries(max_vars=3, relations=2, max_atoms=3))
def test_homomorphisms_are_found_if_there_are_any(p: ConjunctiveQuery, q: ConjunctiveQuery) -> None:
    found = find_homomorphism(p, q)
    assert (found is not None) == (len(p.head) == len(q.head) and brute.homomorphism_exists(p, q))


@sometimes
@given(unions(max_members=2, max_head=1, not_null=True), st.data())
def test_containment_holds_on_every_database(union: UnionQuery, data: st.DataObject) -> None:
    p, q = union.members[0], union.members[-1]
    assume(is_contained(p, q))
    database = data.draw(databases(union, nulls=True))
    assert set(evaluate(p, database)) <= set(evaluate(q, database))


@often
@given(queries(max_vars=4))
def test_a_core_stays_in_its_class(query: ConjunctiveQuery) -> None:
    minimal = minimal_query(query)
    assert is_q_hierarchical(minimal) or not is_q_hierarchical(query)
    assert is_t_hierarchical(minimal) or not is_t_hierarchical(query)


# --- unions ----------------------------------------------------------------------------------------------------------


@often
@given(unions(not_null=True), st.data())
def test_a_union_core_has_the_same_result(union: UnionQuery, data: st.DataObject) -> None:
    database = data.draw(databases(union, nulls=True))
    assert evaluate(minimal_union(union), database) == evaluate(union, database)


@sometimes
@given(unions(not_null=True))
def test_no_member_of_a_union_core_contains_another(union: UnionQuery) -> None:
    members = minimal_union(union).members
    assert not any(brute.homomorphism_exists(p, q) for p in members for q in members if p is not q)


@often
@given(unions(max_members=2, max_head=3, not_null=True), st.data())
def test_intersection(union: UnionQuery, data: st.DataObject) -> None:
    p, q = union.members[0], union.members[-1]
    database = data.draw(databases(union, nulls=True))
    both = intersection(p, q)
    found = set() if both is None else set(evaluate(both, database))
    wanted = evaluate(p, database).keys() & evaluate(q, database).keys()
    assert found <= wanted
    assert all(None in row for row in wanted - found)  # unifying heads joins them, and NULL never joins


@often
@given(unions(), st.data())
def test_inclusion_and_exclusion_count_the_results(union: UnionQuery, data: st.DataObject) -> None:
    database = data.draw(databases(union))
    terms = [(t.coefficient, t.query) for t in counting_terms(union) if t.coefficient]
    assert sum(c * len(evaluate(q, database)) for c, q in terms) == len(evaluate(union, database))


@sometimes
@given(unions(max_head=0))
def test_boolean_q_hierarchical_unions_are_exhaustively_so(union: UnionQuery) -> None:
    assume(all(map(is_q_hierarchical, union.members)))
    assert is_exhaustively_q_hierarchical(union)


@sometimes
@given(unions())
def test_strongly_exhaustive_implies_exhaustive_implies_q_hierarchical(union: UnionQuery) -> None:
    exhaustive = is_exhaustively_q_hierarchical(union)
    assert exhaustive or not is_strongly_exhaustively_q_hierarchical(union)
    assert not exhaustive or all(map(is_q_hierarchical, minimal_union(union).members))


# --- constraints -----------------------------------------------------------------------------------------------------

binary = [1, 2, 2]  # r0 is unary, r1 and r2 binary
SMALL_DOMAINS = [
    "r0[1] in {1, 2}",
    "r1[1] in {1, 2}, r2[2] in {2, 3}",
    "r1[2] in {1} or null",
    "r0[1] in {1}, r1[1] in {2, 3}, r1[2] in {1, 2} or null",
]
INCLUSIONS = [
    "r1[2] <= r0[1]",
    "r1[2] <= r1[1]",
    "r1[1] <= r0[1], r0[1] <= r2[1]",
    "r1[2] <= r2[1], r2[2] not null, r1[2] not null",
    "r1[1,2] <= r2[2,1], r2[1] <= r0[1]",
    "r1[2] <= r1[1], r1[2] not null",
]
UNIQUE_INCLUSIONS = [
    "r1[2] <= r0[1] unique",
    "r1[2] <= r2[1] unique, r2[2] <= r0[1] unique",
    "r1[2] <= r1[1] unique, r1[2] not null",
]
FUNCTIONAL = ["r1[1->2]", "r1[2->1], r2[1->2], r2[2] not null", "r1[1->2], r1[1] not null, r1[2] not null"]
KEYS = ["r1[1->2] key", "r1[1->2] key, r2[2->1] key", "r1[1->2] key, r2[1->2]", "r0[1->] key, r1[1,2->] key"]
either = st.sampled_from(list(Semantics))


def constrained(semantics: Semantics, max_atoms: int = 4) -> st.SearchStrategy[ConjunctiveQuery]:
    return queries(max_atoms=max_atoms, max_vars=4, arities=binary, not_null=True, semantics=semantics)


def same_on_legal_databases(
    data: st.DataObject, rules: str, query: ConjunctiveQuery, rewritten: ConjunctiveQuery | UnionQuery | None
) -> None:
    database = data.draw(databases(query, nulls=True, duplicates=query.semantics is Semantics.BAG))
    database = legal(database, constraints(rules))
    found = Counter() if rewritten is None else evaluate(rewritten, database)
    assert found == evaluate(query, database)


@often
@given(either, st.sampled_from(SMALL_DOMAINS), st.data())
def test_expansion_over_small_domains(semantics: Semantics, rules: str, data: st.DataObject) -> None:
    query = data.draw(constrained(semantics))
    expanded = expand(query, constraints(rules))
    assert expanded is not None
    same_on_legal_databases(data, rules, query, expanded)
    same_on_legal_databases(data, rules, query, expand_union(UnionQuery((query,)), constraints(rules)))


@sometimes
@given(st.sampled_from(SMALL_DOMAINS), constrained(Semantics.SET))
def test_expansion_stays_in_its_class(rules: str, query: ConjunctiveQuery) -> None:
    expanded = expand(query, constraints(rules))
    assert expanded is not None
    for test in (is_q_hierarchical, is_t_hierarchical):
        assert not test(query) or all(map(test, expanded.members))


def test_expansion_says_when_it_is_too_large() -> None:
    values = ", ".join(map(str, range(MAX_INSTANCES)))
    small = constraints(f"S[1] in {{{values}}}, T[1] in {{1, 2}}")
    assert expand(cq("q(x, y) :- S(x), T(y)."), small) is None
    assert expand_union(ucq("q(x) :- S(x). q(x) :- S(x), T(y)."), small) is None
    whole = expand(cq("q(x) :- S(x)."), small)
    assert whole is not None
    assert len(whole.members) == MAX_INSTANCES
    assert restricted_domains(cq("q() :- S(-1)."), small) is None


@often
@given(either, st.booleans(), st.data())
def test_dropping_implied_atoms(semantics: Semantics, unique: bool, data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from(UNIQUE_INCLUSIONS if unique else INCLUSIONS))
    query = data.draw(constrained(semantics))
    smallest = drop_implied_atoms(query, constraints(rules)).queries
    assert smallest
    for one in smallest:
        assert not is_q_hierarchical(query) or is_q_hierarchical(one)
        assert not is_t_hierarchical(query) or is_t_hierarchical(one)
        assert drop_implied_atoms(one, constraints(rules)).queries == (one,)
    assert list(smallest) == sorted(
        smallest, key=lambda q: (not is_q_hierarchical(q), not is_t_hierarchical(q), len(q.atoms))
    )
    for one in smallest:
        same_on_legal_databases(data, rules, query, one)


def test_a_bag_only_loses_atoms_that_match_once() -> None:
    query = cq("q(x) :- E(x, y), T(y, z).", Semantics.BAG)
    assert drop_implied_atoms(query, constraints("E[2] <= T[1]")).queries == (query,)
    (smaller,) = drop_implied_atoms(query, constraints("E[2] <= T[1] unique")).queries
    assert [a.relation for a in smaller.atoms] == ["E"]
    assert Var("y") in smaller.not_null


@often
@given(either, st.booleans(), st.data())
def test_unifying_by_functional_dependencies(semantics: Semantics, keys: bool, data: st.DataObject) -> None:
    rules = data.draw(st.sampled_from(KEYS if keys else FUNCTIONAL))
    query = data.draw(constrained(semantics))
    unified = unify_by_keys(query, constraints(rules))
    same_on_legal_databases(data, rules, query, unified)
    if unified is not None:
        assert unify_by_keys(unified, constraints(rules)) == unified


CHASED = [
    *INCLUSIONS,
    *UNIQUE_INCLUSIONS,
    "r1[2] <= r2[1], r2[2] <= r0[1], r1[2] not null, r2[2] not null",
    "r0[1] <= r1[1] unique, r1[2] <= r2[1] unique, r1[1->2] key, r2[1->2] key, r0[1] not null, r1[2] not null",
    "r1[1->2] key, r2[2->1] key, r1[2] <= r2[2] unique, r2[1] <= r0[1]",
    "r1[1->2] key, r1[2] <= r1[1] unique, r1[2] <= r0[1], r1[2] not null",
    "r0[1] <= r1[1], r1[1] <= r0[1], r0[1] not null, r1[1] not null, r1[2] <= r2[1]",
]


@often
@given(either, st.sampled_from(CHASED), st.data())
def test_what_constraints_make_superfluous(semantics: Semantics, rules: str, data: st.DataObject) -> None:
    query = data.draw(constrained(semantics))
    found = simplified(query, constraints(rules))
    same_on_legal_databases(data, rules, query, None if found is None else found.query)
    if found is None:
        return
    assert len(found.query.atoms) <= len(query.atoms)
    for holds in (is_q_hierarchical, is_t_hierarchical):
        assert not holds(minimal_query(query)) or holds(minimal_query(found.query))
    if semantics is Semantics.SET:
        known = chased(query, constraints(rules))
        same_on_legal_databases(data, rules, query, known)


@sometimes
@given(st.sampled_from(CHASED), st.integers(1, 2), st.data())
def test_members_that_others_contain_where_constraints_hold(rules: str, arity: int, data: st.DataObject) -> None:
    member = queries(max_atoms=3, max_vars=3, arities=binary, not_null=True, arity=arity)
    union = UnionQuery(tuple(data.draw(st.lists(member, min_size=2, max_size=3))))
    kept = surviving(union.members, constraints(rules), Budget())
    database = legal(data.draw(databases(union, nulls=True)), constraints(rules))
    smaller = UnionQuery(tuple(union.members[i] for i in kept))
    assert evaluate(smaller, database) == evaluate(union, database)


def test_unifying_keeps_computed_columns() -> None:
    def computed(term: str, of: str) -> Computed:
        return Computed(Var(term), Expression(("upper(", Var(of), ")")))

    x, y, z, u = map(Var, "xyzu")
    atoms = (Atom("E", (x, y)), Atom("E", (x, z), (computed("u", "z"),)))
    query = ConjunctiveQuery((y, z, u), atoms, semantics=Semantics.BAG)
    unified = unify_by_keys(query, constraints("E[1->2] key"))
    assert unified is not None
    kept = unified.free - {u}
    assert len(kept) == 1
    assert [str(a) for a in unified.atoms] == [f"E(x, {min(kept)}, u = upper({min(kept)}))"]
    assert unified.not_null == {x}  # E(x, NULL) is a row of the result


@sometimes
@given(st.sampled_from(SMALL_DOMAINS), unions(relations=3), st.data())
def test_expanded_unions(rules: str, union: UnionQuery, data: st.DataObject) -> None:
    used = {a.relation: len(a.terms) for m in union.members for a in m.atoms}
    known = constraints(rules)
    assume(all(d.position < used.get(d.relation, 9) for d in known.small_domains))
    expanded = expand_union(union, known)
    assert expanded is not None
    database = legal(data.draw(databases(union, nulls=True)), known)
    assert evaluate(expanded, database) == evaluate(union, database)


# --- classes ---------------------------------------------------------------------------------------------------------


@often
@given(plain)
def test_classes_are_nested(query: ConjunctiveQuery) -> None:
    acyclic = is_acyclic(query.edges)
    connex = is_free_connex(query.edges, query.free)
    assert not is_hierarchical(query) or acyclic
    assert not connex or acyclic
    assert not is_q_hierarchical(query) or (connex and is_hierarchical(query) and is_t_hierarchical(query))
    boolean, full = query.with_head(()), query.with_head(sorted(query.variables))
    assert is_q_hierarchical(boolean) == is_hierarchical(query) == is_t_hierarchical(boolean)
    assert is_q_hierarchical(full) == is_hierarchical(query)
    assert is_t_hierarchical(full)


@often
@given(queries(max_atoms=4, max_vars=5))
def test_violations_show_what_they_say(query: ConjunctiveQuery) -> None:
    for found in (q_violation(query), t_violation(query)):
        if found is None:
            continue
        holds = [(found.x in query.edges[i], found.y in query.edges[i]) for i in found.atoms]
        if found.condition == "i":
            assert holds == [(True, False), (True, True), (False, True)]
        else:
            assert holds == [(True, True), (False, True)]
            assert found.x in query.free
            assert found.y not in query.free


@often
@given(hierarchical_queries())
def test_root_paths_make_hierarchical_queries(query: ConjunctiveQuery) -> None:
    assert is_hierarchical(query)


@often
@given(hypergraphs())
def test_acyclic_iff_there_is_a_join_tree(edges: list[Edge]) -> None:
    assert is_acyclic(edges) == brute.has_join_tree(edges)


@often
@given(hypergraphs(max_edges=6))
def test_a_cycle_is_a_smallest_one(edges: list[Edge]) -> None:
    query = ConjunctiveQuery((), tuple(Atom(f"R{i}", tuple(sorted(e))) for i, e in enumerate(edges)))
    found = cycle(query)
    assert (found is None) == is_acyclic(edges)
    if found is not None:
        inside = [edges[i] & found.variables for i in found.atoms]
        assert not is_acyclic(inside)
        assert all(is_acyclic([e & (found.variables - {v}) for e in edges]) for v in found.variables)


@often
@given(plain)
def test_a_free_path_says_why_an_acyclic_query_is_not_free_connex(query: ConjunctiveQuery) -> None:
    assume(is_acyclic(query.edges))
    found = free_path(query)
    assert (found is None) == is_free_connex(query.edges, query.free)
    if found is not None:
        path = found.path
        assert len(path) >= 3
        assert len(set(path)) == len(path)
        assert path[0] in query.free
        assert path[-1] in query.free
        assert not query.free & set(path[1:-1])
        for (i, x), (j, y) in combinations(enumerate(path), 2):
            assert any({x, y} <= e for e in query.edges) == (j == i + 1)


# --- orders ----------------------------------------------------------------------------------------------------------


def assert_variable_order(order: VariableOrder, query: ConjunctiveQuery, exact: bool) -> None:
    """Every variable and atom once; an atom's variables on its path, the lowest right above it; all of it if exact."""
    nodes = list(order.walk())
    assert sorted(n.variable for n, _ in nodes) == sorted(query.variables)
    placed = [*order.atoms, *(i for n, _ in nodes for i in n.atoms)]
    assert sorted(placed) == list(range(len(query.atoms)))
    assert all(not query.edges[i] for i in order.atoms)
    for node, above in nodes:
        for i in node.atoms:
            path = {*above, node.variable}
            assert query.edges[i] == path if exact else query.edges[i] <= path
            assert node.variable in query.edges[i]


@often
@given(hierarchical_queries())
def test_canonical_orders(query: ConjunctiveQuery) -> None:
    order = canonical_order(query)
    assert_variable_order(order, query, exact=True)
    assert order.is_free_top(query) == is_q_hierarchical(query)


@often
@given(hierarchical_queries())
def test_free_top_orders(query: ConjunctiveQuery) -> None:
    order = free_top_order(query)
    assert_variable_order(order, query, exact=False)
    assert order.is_free_top(query)
    bound = [above for n, above in order.walk() if n.variable in query.free and not query.free.issuperset(above)]
    assert not bound
    if is_q_hierarchical(query):
        assert order == canonical_order(query)


@often
@given(hierarchical_queries(max_vars=5), st.data())
def test_q_trees(query: ConjunctiveQuery, data: st.DataObject) -> None:
    assume(is_q_hierarchical(query))
    hint = data.draw(st.permutations(sorted(query.free)))
    for tree in (q_tree(query), q_tree(query, hint)):
        assert_variable_order(tree, query, exact=True)
        assert tree.is_free_top(query)
    assert sorted(enumeration_order(query, hint)) == sorted(query.free)


@sometimes
@given(hierarchical_queries(max_vars=4))
def test_an_order_is_supported_iff_some_q_tree_has_it(query: ConjunctiveQuery) -> None:
    assume(is_q_hierarchical(query))
    available = brute.enumeration_orders(query)
    for wanted in permutations(sorted(query.free)):
        assert supports_order(query, wanted) == (wanted in available)


# --- covers and widths -----------------------------------------------------------------------------------------------


@often
@given(hypergraphs(max_edges=6), st.data())
def test_edge_covers(edges: list[Edge], data: st.DataObject) -> None:
    wanted = data.draw(subsets(edges))
    chosen = edge_cover(edges, wanted)
    assert edge_cover_number(edges, wanted) == len(chosen) == brute.cover(edges, wanted)
    assert frozenset().union(*chosen) == wanted
    assert all(any(part <= e for e in edges) for part in chosen)


@often
@given(hypergraphs(max_edges=4, max_vars=4), st.data())
def test_fractional_covers(edges: list[Edge], data: st.DataObject) -> None:
    wanted = data.draw(subsets(edges))
    found = fractional_cover_number(edges, wanted)
    assert found == brute.fractional_cover(edges, wanted)
    assert found <= edge_cover_number(edges, wanted)


@often
@given(hypergraphs(max_edges=6, max_vars=5, max_size=2))
def test_fractional_covers_of_graphs_are_half_integral(edges: list[Edge]) -> None:
    edges = sorted(set(edges), key=sorted)
    everything = frozenset().union(*edges)
    assert fractional_cover_number(edges, everything) == brute.half_integral_cover(edges, everything)


def test_a_variable_without_an_edge_has_no_cover() -> None:
    lonely = frozenset({Var("x")})
    with pytest.raises(ValueError, match="no edge holds x"):
        edge_cover_number([], lonely)
    with pytest.raises(ValueError, match="no edge"):
        fractional_cover_number([], lonely)


@often
@given(hierarchical_queries())
def test_widths_of_hierarchical_queries(query: ConjunctiveQuery) -> None:
    edges, every = query.edges, query.variables
    found = widths(query)
    assert fractional_cover_number(edges, every) == edge_cover_number(edges, every)
    assert found.w - 1 <= found.delta_tight <= found.w
    assert found.delta_tight <= found.delta
    assert (found.delta_tight == 0) == is_q_hierarchical(query) == (found.delta == 0)
    assert (found.w == 0) == (not every)
    if every:
        assert (found.w == 1) == is_free_connex(edges, query.free)
    if is_free_connex(edges, query.free):
        assert found.delta_tight <= 1


@often
@given(hierarchical_queries(max_vars=5, max_atoms=5))
def test_widths_by_definition(query: ConjunctiveQuery) -> None:
    found = widths(query)
    assert found.w == brute.static_width(query)
    assert found.delta == brute.printed_delta(query)
    assert found.delta_tight == brute.delta_index(query)


# --- decompositions --------------------------------------------------------------------------------------------------


@often
@given(hypergraphs(max_edges=6, max_vars=6), st.data())
def test_decompositions_are_sound(edges: list[Edge], data: st.DataObject) -> None:
    free = data.draw(st.none() | subsets(edges))
    found = decompose(edges, free)
    assert sorted(i for b in found.bags for i in b.edges) == list(range(len(edges)))
    for bag in found.bags:
        assert all(edges[i] <= bag.variables for i in bag.edges)
        assert bag.variables <= frozenset().union(*(edges[i] for i in (*bag.edges, *bag.guards)))
        assert not set(bag.edges) & set(bag.guards)
    sets = [b.variables for b in found.bags]
    assert brute.has_join_tree(sets)
    assert is_acyclic(sets)
    if free is not None:
        assert brute.has_join_tree([*sets, free])
    assert found.exact
    assert found.width == max(edge_cover_number(edges, b) for b in sets)
    assert found.fractional_width == max(fractional_cover_number(edges, b) for b in sets)


@rarely
@given(hypergraphs(max_edges=7, max_vars=6, max_size=2) | hypergraphs(max_edges=5, max_vars=5), st.data())
def test_decompositions_have_the_least_width(edges: list[Edge], data: st.DataObject) -> None:
    free = data.draw(st.none() | subsets(edges))
    found = decompose(edges, free)
    assert (found.width, found.fractional_width) == brute.least_width(edges, free or frozenset())


@often
@given(hypergraphs(max_edges=5, max_vars=5), st.data())
def test_acyclic_and_free_connex_queries_have_width_one(edges: list[Edge], data: st.DataObject) -> None:
    free = data.draw(subsets(edges))
    assert (decompose(edges).width == 1) == is_acyclic(edges)
    assert (decompose(edges, free).width == 1) == is_free_connex(edges, free)


def test_large_cycles_are_decomposed_greedily() -> None:
    names = [Var(f"v{i:02}") for i in range(20)]
    edges = [frozenset((names[i], names[(i + 1) % 20])) for i in range(20)]
    found = decompose(edges)
    assert not found.exact
    assert found.width == 2
    assert found.fractional_width == Fraction(2)
    assert is_acyclic([b.variables for b in found.bags])


# --- the model -------------------------------------------------------------------------------------------------------


@often
@given(queries(not_null=True))
def test_rule_text_says_all(query: ConjunctiveQuery) -> None:
    assert cq(str(query)) == query


@often
@given(queries(max_vars=3), st.data())
def test_components_multiply(query: ConjunctiveQuery, data: st.DataObject) -> None:
    database = data.draw(databases(query, nulls=True))
    parts = query.components()
    assert sorted(a.relation for p in parts for a in p.atoms) == sorted(a.relation for a in query.atoms)
    assert all(not p.variables & q.variables for p, q in combinations(parts, 2))
    size = 1
    for part in parts:
        size *= len(evaluate(part, database))
    assert size == len(evaluate(query, database))


@sometimes
@given(queries(max_vars=3, relations=2))
def test_equivalence_is_two_containments(query: ConjunctiveQuery) -> None:
    assert are_equivalent(query, minimal_query(query))
