"""Enclosureness (crown.md 7): the definition by brute force, the paper's lemmas, and small logs worked by hand."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

import pytest

from everview.query.terms import Var
from everview.strategies.crown.enclosureness import (
    BEFORE,
    FOREVER,
    Lifespan,
    LifespanRecorder,
    effective,
    enclosureness,
    most_disjoint,
)
from everview.strategies.crown.tree import JoinTree, TreeNode

Spans = list[list[Lifespan]]


def path(height: int) -> JoinTree:
    """R0(x0, x1) over R1(x1, x2) over …: relation i lies at depth i."""
    edges = [frozenset({Var(f"x{i}"), Var(f"x{i + 1}")}) for i in range(height)]
    node = TreeNode(edges[-1], height - 1)
    for i in range(height - 2, -1, -1):
        node = TreeNode(edges[i], i, (node,))
    return JoinTree(node, tuple(edges), frozenset().union(*edges))


def star() -> JoinTree:
    """[x] over R0(x, a0), R1(x, a1), R2(x, a2): height 1."""
    edges = [frozenset({Var("x"), Var(f"a{i}")}) for i in range(3)]
    root = TreeNode(frozenset({Var("x")}), None, tuple(TreeNode(e, i) for i, e in enumerate(edges)))
    return JoinTree(root, tuple(edges), frozenset().union(*edges))


def comb() -> JoinTree:
    """R0 over R1 and R2, R2 over R3: two branches, one of them deep."""
    x = [Var(f"x{i}") for i in range(5)]
    edges = [frozenset(e) for e in ((x[0], x[1], x[2]), (x[1],), (x[2], x[3]), (x[3], x[4]))]
    deep = TreeNode(edges[2], 2, (TreeNode(edges[3], 3),))
    return JoinTree(TreeNode(edges[0], 0, (TreeNode(edges[1], 1), deep)), tuple(edges), frozenset(x))


# --- the definition, word by word ------------------------------------------------------------------------------------


def disjoint(spans: tuple[Lifespan, ...]) -> bool:
    return all(a[1] < b[0] for a, b in pairwise(sorted(spans)))


def brute_force(candidates: list[Lifespan], span: Lifespan) -> int:
    inside = [c for c in candidates if span[0] <= c[0] and c[1] <= span[1]]
    return max(k for k in range(len(inside) + 1) if any(disjoint(some) for some in combinations(inside, k)))


def longest_chain(candidates: list[Lifespan], span: Lifespan) -> int:
    """The same, by the longest path from lifespan to later lifespan."""
    inside = sorted(c for c in candidates if span[0] <= c[0] and c[1] <= span[1])
    longest: dict[Lifespan, int] = {}
    for one in reversed(inside):
        longest[one] = 1 + max((n for other, n in longest.items() if one[1] < other[0]), default=0)
    return max(longest.values(), default=0)


def below(node: TreeNode) -> list[int]:
    return [n.relation for c in node.children for n in c.walk() if n.relation is not None]


def defined(tree: JoinTree, spans: Spans) -> dict[int, list[int]]:
    """λ(t) of each relation's rows as it is defined, with no idea of how it could be computed quickly."""
    nodes = {n.relation: n for n in tree.root.walk() if n.relation is not None}
    found = {}
    for relation, node in nodes.items():
        candidates: list[Lifespan] = []
        for other in below(node):
            deeper = [s for r in below(nodes[other]) for s in spans[r]]
            for start, end in spans[other]:
                deleted = [e for _, e in deeper if start < e < end]
                inserted = [s for s, _ in deeper if start < s < end]
                candidates += [(start, min(deleted, default=end)), (max(inserted, default=start), end)]
        found[relation] = [longest_chain(candidates, span) for span in spans[relation]]
    return found


def random_spans(random: Random, relations: int, updates: int) -> Spans:
    """A log of a few rows that come and go at random, some of them there before it, some for ever."""
    recorders = [LifespanRecorder() for _ in range(relations)]
    there: list[list[int]] = [[] for _ in range(relations)]
    for time in range(-2, updates):
        relation = random.randrange(relations)
        if there[relation] and random.random() < 0.5:
            row = there[relation].pop(random.randrange(len(there[relation])))
            recorders[relation].update(row, -1, max(time, BEFORE))
        else:
            there[relation].append(time)
            recorders[relation].update(time, 1, max(time, BEFORE))
    return [r.lifespans() for r in recorders]


@pytest.mark.parametrize("tree", [path(2), path(3), path(4), star(), comb()], ids=["2", "3", "4", "star", "comb"])
def test_the_definition(tree: JoinTree) -> None:
    random = Random(7)
    most = 0
    for _ in range(40):
        spans = random_spans(random, len(tree.edges), 40)
        found, expected = enclosureness(tree, spans), defined(tree, spans)
        assert {r.relation: (r.rows, r.total, r.most) for r in found.relations} == {
            r: (len(counts), sum(counts), max(counts, default=0)) for r, counts in expected.items()
        }
        counts = [c for listed in expected.values() for c in listed]
        assert found.value == max(sum(counts) / len(counts), 1)
        most = max(most, *counts)
    assert most == 0 if tree.height == 1 else most > 2


def test_most_disjoint_by_brute_force() -> None:
    random = Random(11)
    for _ in range(200):
        spans = [_span(random) for _ in range(random.randrange(8))]
        within = [_span(random) for _ in range(5)]
        expected = [brute_force(spans, w) for w in within]
        assert most_disjoint(spans, within) == expected == [longest_chain(spans, w) for w in within]


def _span(random: Random) -> Lifespan:
    start, end = sorted(random.choices(range(20), k=2))
    return start, end


def test_most_disjoint_over_long_chains() -> None:
    chain = [(2 * i, 2 * i + 1) for i in range(10_000)]
    assert most_disjoint(chain, [(0, 20_000), (1, 20_000), (7, 12), (3, 3)]) == [10_000, 9_999, 2, 0]


# --- worked by hand --------------------------------------------------------------------------------------------------


def test_rows_below_that_come_and_go() -> None:
    parent = [(0, 100)]
    children = [(i, i + 5) for i in range(10, 90, 10)]
    found = enclosureness(path(2), [parent, children])
    assert [(r.relation, r.depth, r.rows, r.mean, r.most) for r in found.relations] == [
        (0, 0, 1, 8, 8),
        (1, 1, 8, 0, 0),
    ]
    assert found.value == max(8 / 9, 1)
    assert found.sequence == (8 + 8 * 1) / 9


def test_only_rows_below_count() -> None:
    """The tree turned round: what comes and goes is on top, and costs nothing."""
    parent = [(0, 100)]
    children = [(i, i + 5) for i in range(10, 90, 10)]
    assert enclosureness(path(2), [children, parent]).value == 1


def test_effective_lifespans() -> None:
    assert effective([(0, 10)], []) == [(0, 10)]
    assert effective([(0, 10)], [(3, 5), (4, 8)]) == [(0, 5), (4, 10)]
    assert effective([(6, 7)], [(3, 5), (4, 8)]) == [(6, 7)]
    assert effective([(2, FOREVER)], [(1, FOREVER), (4, FOREVER)]) == [(2, FOREVER), (4, FOREVER)]


# --- the paper's lemmas ----------------------------------------------------------------------------------------------


def fifo(relations: int, rows: int, window: int) -> Spans:
    """Each relation a window of its own over a shared clock."""
    spans: Spans = [[] for _ in range(relations)]
    for i in range(rows):
        spans[i % relations].append((3 * i, 3 * (i + window) + 1))
    return spans


def test_height_one_is_free_for_any_updates() -> None:
    assert enclosureness(star(), random_spans(Random(1), 3, 3_000)).value == 1


@pytest.mark.parametrize("window", [3, 30, 300])
def test_windows_on_trees_of_height_two(window: int) -> None:
    assert enclosureness(path(2), fifo(2, 3_000, window)).value == 1


def test_windows_on_deeper_trees_grow_with_the_window() -> None:
    small, large = (enclosureness(path(3), fifo(3, 3_000, w)).value for w in (30, 300))
    assert large > 5 * small > 5


@pytest.mark.parametrize("height", [2, 3, 4])
def test_insertions_only_deletions_only_first_in_last_out(height: int) -> None:
    n = 50
    relations = [list(range(r, n, height)) for r in range(height)]
    inserts: Spans = [[(t, FOREVER) for t in times] for times in relations]
    deletes: Spans = [[(BEFORE, t) for t in times] for times in relations]
    nested: Spans = [[(t, 2 * n - t) for t in times] for times in relations]
    for spans in (inserts, deletes, nested):
        assert enclosureness(path(height), spans).value == 1


# --- recording -------------------------------------------------------------------------------------------------------


def test_copies_of_a_row_live_together() -> None:
    recorder = LifespanRecorder()
    for weight, time in ((1, 0), (1, 2), (-1, 3), (-1, 5), (2, 7)):
        recorder.update("row", weight, time)
    assert recorder.lifespans() == [(0, 5), (7, FOREVER)]


def test_a_row_that_is_not_there_cannot_go() -> None:
    recorder = LifespanRecorder()
    assert recorder.update("row", 1, 2)
    assert not recorder.update("row", -2, 4)
    assert recorder.lifespans() == [(2, FOREVER)]


def test_no_updates_at_all() -> None:
    assert enclosureness(path(2), [[], []]).value == 1
