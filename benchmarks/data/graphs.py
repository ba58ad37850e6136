"""The graphs that the benchmarks run over, the order in which their edges come and go, and logs of them."""

from __future__ import annotations

import csv
import gzip
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from benchmarks.data.log import BEFORE, Log

Edge = tuple[int, int]
SEED = 20_240_501
SCHEMA = """\
CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL);
CREATE TABLE v1 (id BIGINT NOT NULL);
CREATE TABLE v2 (id BIGINT NOT NULL);
"""


@dataclass(frozen=True)
class Updates:
    """Edges in the order in which they are inserted (weight 1) and deleted (−1)."""

    name: str
    source: pa.Array
    target: pa.Array
    weight: pa.Array
    window: int
    """The most edges that are there at a time."""

    def __len__(self) -> int:
        return len(self.weight)

    def packed(self) -> bytes:
        """As the hand-written programs read them."""
        words = array("q", bytes(24 * len(self)))
        for i, column in enumerate((self.source, self.target, self.weight)):
            words[i::3] = array("q", column.to_pylist())
        return words.tobytes()


def read_graph(path: Path) -> list[Edge]:
    """The edges of a file, in its order: the first two columns of a CSV with a header."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = csv.reader(file)
        next(rows)
        return [(int(row[0]), int(row[1])) for row in rows]


def power_law(edges: int, degree: int = 6, seed: int = SEED) -> list[Edge]:
    """Distinct edges between ``edges / degree`` vertices whose degrees follow a power law (exponent 3)."""
    random = Random(seed)
    vertices = max(2 * degree, edges // degree)
    names = list(range(vertices))
    random.shuffle(names)
    found: dict[Edge, None] = {}
    while len(found) < edges:
        found[names[int(vertices * random.random() ** 2)], names[int(vertices * random.random() ** 2)]] = None
    return list(found)


def sparse(edges: int, seed: int = SEED) -> list[Edge]:
    """Distinct edges between as many vertices, all alike: one edge follows another, as keys do."""
    random = Random(seed)
    found: dict[Edge, None] = {}
    while len(found) < edges:
        found[random.randrange(edges), random.randrange(edges)] = None
    return list(found)


def shuffled(edges: Sequence[Edge], seed: int = SEED) -> list[Edge]:
    """The same edges in a random order, always the same one."""
    mixed = list(edges)
    Random(seed).shuffle(mixed)
    return mixed


def inserts(name: str, edges: Sequence[Edge]) -> Updates:
    """Every edge comes, none goes."""
    return _updates(name, [(edge, 1) for edge in edges], len(edges))


def fifo(name: str, edges: Sequence[Edge], share: int = 5) -> Updates:
    """A sliding window: an edge goes just before the one comes that is ``len(edges) // share`` positions later."""
    window = len(edges) // share
    steps: list[tuple[Edge, int]] = []
    for i, edge in enumerate(edges):
        if i >= window:
            steps.append((edges[i - window], -1))
        steps.append((edge, 1))
    return _updates(name, steps, window)


def at_random(name: str, edges: Sequence[Edge], seed: int = SEED) -> Updates:
    """Every edge comes; after every second one, one of those that are there goes, whichever."""
    random = Random(seed)
    there: list[Edge] = []
    steps: list[tuple[Edge, int]] = []
    most = 0
    for i, edge in enumerate(edges):
        there.append(edge)
        steps.append((edge, 1))
        most = max(most, len(there))
        if i % 2:
            at = random.randrange(len(there))
            there[at], there[-1] = there[-1], there[at]
            steps.append((there.pop(), -1))
    return _updates(name, steps, most)


def _updates(name: str, steps: Sequence[tuple[Edge, int]], window: int) -> Updates:
    source = pa.array([edge[0] for edge, _ in steps], pa.int64())
    target = pa.array([edge[1] for edge, _ in steps], pa.int64())
    return Updates(name, source, target, pa.array([weight for _, weight in steps], pa.int64()), window)


def write_log(updates: Updates, folder: Path) -> Log:
    """The log of a graph; every tenth vertex is in ``v1`` and in ``v2`` from the beginning (2-Comb selects by them)."""
    positions = pa.array(np.arange(len(updates)))
    graph = {"src": updates.source, "dst": updates.target}
    tables = {"g": pa.table({**graph, "_weight": updates.weight.cast(pa.int8()), "_at": positions})}
    vertices = np.unique(np.concatenate([updates.source.to_numpy(), updates.target.to_numpy()]))
    chosen = vertices[vertices % 10 == 0]
    ones, before = np.ones(len(chosen), np.int8), np.full(len(chosen), BEFORE)
    for name in ("v1", "v2"):
        tables[name] = pa.table({"id": chosen, "_weight": ones, "_at": before})
    return Log.write(folder, updates.name, SCHEMA, tables)
