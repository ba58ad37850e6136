"""All rows of a query, or those with a prefix, without repetition.

The positions of a row fall into clusters of elements near each other, and clusters are far from each other. Whether it
is a row depends on the clusters' types alone. So for each way to split the positions, and each choice of types with
which the formula holds, rows are the tuples of clusters of these types of which no two are near (fo-mod.md 7.5).
The shortest lists are chosen from first: a list that is longer than all that can be near what has been chosen always
has one more, so nothing is looked for in vain but among short lists.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import product

from everview.kernel.census.evaluator import Evaluator
from everview.kernel.census.pairs import PairResult
from everview.kernel.census.results import LocalResult, Result
from everview.kernel.census.structure import Tuple

Block = tuple[int, ...]


def rows_of(evaluator: Evaluator, result: Result, prefix: Tuple) -> Iterator[Tuple]:
    """The rows that begin with these elements."""
    arity = evaluator.program.arity
    if any(a not in evaluator.storage.uses for a in prefix):
        return
    if len(prefix) == arity:
        if result.test(prefix):
            yield prefix
    elif isinstance(result, LocalResult):
        yield from ((a,) for a in result.members.elements)
    else:
        for blocks in _partitions(tuple(range(arity))):
            if len(blocks) == 1 and arity > 1:
                yield from _cluster_rows(evaluator, result, prefix)
            else:
                yield from _far_rows(evaluator, blocks, prefix)


def _partitions(positions: Block) -> Iterator[tuple[Block, ...]]:
    if not positions:
        yield ()
        return
    first, *rest = positions
    for chosen in product((False, True), repeat=len(rest)):
        block = (first, *(p for p, is_in in zip(rest, chosen, strict=True) if is_in))
        others = tuple(p for p, is_in in zip(rest, chosen, strict=True) if not is_in)
        for blocks in _partitions(others):
            yield (block, *blocks)


def _cluster_rows(evaluator: Evaluator, result: Result, prefix: Tuple) -> Iterator[Tuple]:
    """The rows that are one cluster."""
    if isinstance(result, PairResult) and not prefix:
        for number, pairs in result.classes.items():
            if result.accepts[number]:
                yield from pairs
        return
    block = tuple(range(evaluator.program.arity))
    yield from (row for row in _clusters(evaluator, block, prefix) if result.test(row))


def _clusters(evaluator: Evaluator, block: Block, prefix: Tuple) -> Iterator[Tuple]:
    """All tuples for these positions that are one cluster and agree with the prefix."""
    storage, steps = evaluator.storage, evaluator.steps
    reach = 2 * evaluator.program.radius + 1
    firsts: Collection[int] = (prefix[block[0]],) if block[0] < len(prefix) else list(storage.uses)
    for first in firsts:
        near = storage.ball([first], reach * (len(block) - 1), steps)
        choices = [(prefix[p],) if p < len(prefix) else tuple(near) for p in block[1:]]
        for rest in product(*choices):
            row = (first, *rest)
            if _is_cluster(evaluator, row, reach):
                yield row


def _is_cluster(evaluator: Evaluator, row: Tuple, reach: int) -> bool:
    joined = {0}
    while True:
        near = evaluator.storage.ball([row[i] for i in joined], reach, evaluator.steps)
        further = {i for i, a in enumerate(row) if a in near}
        if further == joined:
            return len(joined) == len(row)
        joined = further


def _lists(evaluator: Evaluator, block: Block, prefix: Tuple) -> Mapping[int, Collection[Tuple]]:
    """The clusters for these positions, by type."""
    radius = evaluator.program.radius
    census = evaluator.censuses[radius]
    if len(block) == 1:
        if block[0] < len(prefix):
            a = prefix[block[0]]
            return {census.type_of[a]: [(a,)]}
        return {number: _Singles(members) for number, members in census.members.items()}
    lists: dict[int, list[Tuple]] = {}
    registry = evaluator.registry(radius, len(block))
    for row in _clusters(evaluator, block, prefix):
        number = registry.type_of(*evaluator.storage.neighbourhood(row, radius, evaluator.steps))
        lists.setdefault(number, []).append(row)
    return lists


class _Singles(Collection[Tuple]):
    """Elements as tuples of one."""

    def __init__(self, elements: Collection[int]) -> None:
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[Tuple]:
        return ((a,) for a in self._elements)

    def __contains__(self, row: object) -> bool:
        return isinstance(row, tuple) and row[0] in self._elements


def _far_rows(evaluator: Evaluator, blocks: Sequence[Block], prefix: Tuple) -> Iterator[Tuple]:
    """The rows that are clusters of these positions, far from each other."""
    formula, arity = evaluator.program.formula, evaluator.program.arity
    for choice in product(*(_lists(evaluator, block, prefix).items() for block in blocks)):
        types = [(len(block), number) for block, (number, _) in zip(blocks, choice, strict=True)]
        rows = _conflict_free(evaluator, [listed for _, listed in choice])
        first = next(rows, None)
        # Only now it is known that there are such tuples: else the census may have fewer elements than are near.
        if first is None or not evaluator.holds_on_types(formula, types, blocks):
            continue
        for clusters in _after(first, rows):
            row = [0] * arity
            for block, cluster in zip(blocks, clusters, strict=True):
                for position, a in zip(block, cluster, strict=True):
                    row[position] = a
            yield tuple(row)


def _after(first: tuple[Tuple, ...], rest: Iterator[tuple[Tuple, ...]]) -> Iterator[tuple[Tuple, ...]]:
    yield first
    yield from rest


def _conflict_free(evaluator: Evaluator, lists: Sequence[Collection[Tuple]]) -> Iterator[tuple[Tuple, ...]]:
    """One of each list, no two near each other."""
    order = sorted(range(len(lists)), key=lambda i: len(lists[i]))
    reach = 2 * evaluator.program.radius + 1
    chosen: list[Tuple] = [()] * len(lists)

    def extend(i: int, taken: Collection[int]) -> Iterator[tuple[Tuple, ...]]:
        if i == len(order):
            yield tuple(chosen)
            return
        for cluster in lists[order[i]]:
            evaluator.steps.take()
            if any(a in taken for a in cluster):
                continue
            chosen[order[i]] = cluster
            further = evaluator.storage.ball(cluster, reach, evaluator.steps) if i + 1 < len(order) else {}
            yield from extend(i + 1, {*taken, *further})

    return extend(0, ())
