"""Runs the program of a triangle on updates, and holds it against the definitions: brute force, and the invariants."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa

from everview.programs.parts import COLUMNS, threshold
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Var
from everview.strategies.triangle.compile import compile_triangle
from everview.strategies.triangle.rebalance import REBASE
from everview.strategies.triangle.shape import EDGES, Triangle, triangle_of
from everview.strategies.triangle.views import ALL, DESIGNS, View
from tests.strategies.machines import Both

A, B, C = (Var(name) for name in "abc")
Edge = tuple[int, int]
Update = tuple[str, int, int, int]
"""A relation, an edge, and the change of its copies."""
HALF = Fraction(1, 2)
EPSILONS = [Fraction(0), Fraction(1, 4), HALF, Fraction(3, 4), Fraction(1)]


def query(arity: int, semantics: Semantics = Semantics.BAG, relations: str = "rst") -> ConjunctiveQuery:
    """The triangle with so many corners in its head."""
    atoms = (Atom(relations[0], (A, B)), Atom(relations[1], (B, C)), Atom(relations[2], (C, A)))
    return ConjunctiveQuery((A, B, C)[:arity], atoms, semantics=semantics)


class Driver:
    """A triangle of three relations r, s and t, with its program and the relations as they should be."""

    def __init__(
        self,
        arity: int,
        epsilon: Fraction = HALF,
        machine_of: Any = Both,
        semantics: Semantics = Semantics.BAG,
        with_deltas: bool = False,
    ) -> None:
        self.query = query(arity, semantics)
        found = triangle_of(self.query)
        assert isinstance(found, Triangle)
        self.triangle = found
        assert self.triangle.atoms == (0, 1, 2)
        self.design = DESIGNS[arity]
        self.epsilon = epsilon
        self.maintained = compile_triangle(self.query, self.triangle, epsilon, (), {})
        self.machine = machine_of(self.maintained.program)
        self.relations: list[Counter[Edge]] = [Counter(), Counter(), Counter()]
        self.told: Counter[tuple[int, ...]] = Counter()
        self.is_set = semantics is Semantics.SET
        self.with_deltas = False
        if with_deltas:
            self.switch(True)

    # --- updates ---

    def switch(self, with_deltas: bool) -> None:
        """Open or close the feed."""
        self.with_deltas = with_deltas
        self.machine.apply(self.maintained.start_deltas if with_deltas else self.maintained.stop_deltas, [[0]])
        self.told = Counter(self.result())

    def update(self, relation: str, x: int, y: int, change: int) -> None:
        """One change of an edge."""
        k = "RST".index(relation)
        known = self.relations[k]
        assert known[x, y] + change >= 0
        known[x, y] += change
        if not known[x, y]:
            del known[x, y]
        entry = self.maintained.entry("rst"[k])
        assert entry is not None
        names = [v.name for v in entry.atom_inputs[0].variables]
        words = dict(zip(EDGES[k], (x, y), strict=True))
        procedure = entry.with_deltas if self.with_deltas else entry.state_only
        self.machine.apply(procedure, [*([words[n]] for n in names), [1], [change]])
        for row in zip(*self.machine.take("delta"), strict=True):
            key = row[: self.triangle.arity]
            assert row[-2] != 0
            self.told[key] += row[-2]
            if not self.told[key]:
                del self.told[key]

    def run(self, updates: Iterable[Update]) -> None:
        for update in updates:
            self.update(*update)

    def load(self, **relations: Sequence[Edge]) -> None:
        """Fill the relations and begin with N = 2|D| + 1, as for data that is there at the start."""
        for relation, edges in relations.items():
            for x, y in edges:
                self.update(relation, x, y, 1)
        self.machine.apply(REBASE, [[0]])

    # --- what there is ---

    def state(self) -> dict[str, int]:
        """N, |D|, thresholds and counters."""
        rows = self.machine.dump("parts")
        values = rows[0][1] if rows else (1, 0, 1, 1, 2, *(0,) * len(COLUMNS))
        return dict(zip(COLUMNS, values, strict=False))

    def result(self) -> dict[tuple[int, ...], int]:
        """The rows that the cursor lists, each once."""
        found: dict[tuple[int, ...], int] = {}
        for row in self.machine.rows("result"):
            assert row[:-1] not in found
            assert row[-1] > 0
            found[row[:-1]] = row[-1]
        return found

    def pieces(self) -> dict[tuple[int, ...], int]:
        """The rows in pieces, added up."""
        found: Counter[tuple[int, ...]] = Counter()
        for row in self.machine.rows("pieces"):
            found[row[:-1]] += row[-1]
        return dict.fromkeys(found, 1) if self.is_set else dict(found)

    def has(self, row: tuple[int, ...]) -> bool:
        """Whether a row is there, as the program answers it."""
        if self.maintained.test == "test":
            kernel = self.machine.kernel if isinstance(self.machine, Both) else self.machine
            return bool(pa.array(kernel.machine.ask("test", [array("q", [word]) for word in row])[0])[0].as_py())
        lookups = self.maintained.test
        assert isinstance(lookups, tuple)
        words = dict(zip(self.triangle.outputs, row, strict=True))
        dumps = {lookup.table: {key for key, _, _ in self.machine.dump(lookup.table)} for lookup in lookups}
        return all(tuple(words[v] for v in lookup.key) in dumps[lookup.table] for lookup in lookups)

    def expected(self) -> dict[tuple[int, ...], int]:
        """By brute force."""
        found: Counter[tuple[int, ...]] = Counter()
        r, s, t = self.relations
        for (a, b), m in r.items():
            for (b2, c), n in s.items():
                if b == b2 and (c, a) in t:
                    found[(a, b, c)[: self.triangle.arity]] += m * n * t[c, a]
        return dict.fromkeys(found, 1) if self.is_set else dict(found)

    def view(self, name: str) -> dict[tuple[int, ...], int]:
        """A stored view, by its corners in the order of its key."""
        return {key: values[0] for key, values, _ in self.machine.dump(name)}

    def part(self, relation: str, part: str) -> int:
        """How many edges a part has."""
        k = "RST".index(relation)
        return sum(1 for _, _, level in self.machine.dump(relation) if self.design.has(k, part, level))

    def parts(self) -> dict[str, int]:
        """The sizes of the parts that are not empty."""
        names = {k: ["LL", "LH", "HL", "HH"] if k in self.design.double else ["L", "H"] for k in range(3)}
        found = {f"{'RST'[k]}.{p}": self.part("RST"[k], p) for k, parts in names.items() for p in parts}
        return {name: size for name, size in found.items() if size}

    # --- what must hold ---

    def check(self) -> None:
        """The result, what was told, and the invariants I1 to I8 (triangle.md 5)."""
        wanted = self.expected()
        assert self.result() == wanted
        if self.maintained.pieces is not None:
            assert self.pieces() == wanted
        asked = [*wanted, *(row[::-1] for row in wanted), (77,) * self.triangle.arity]
        assert all(self.has(row) == (row in wanted) for row in asked[:12])
        if self.with_deltas:
            assert dict(self.told) == wanted
        self.check_invariants()

    def check_invariants(self) -> None:
        state = self.state()
        size = sum(map(len, self.relations))
        assert state["size"] == size
        assert state["N"] // 4 <= size < state["N"]
        low, high = (threshold(state["N"], self.epsilon, n, 2) for n in (1, 3))
        heavy_keys = 0
        for k, name in enumerate("RST"):
            rows = self.machine.dump(name)
            assert {self.edge(k, key): values[0] for key, values, _ in rows} == self.relations[k]
            highest = self.design.levels(k, ALL)[1]
            columns = ((0, 2), (1, 1)) if k in self.design.double else ((0, 1),)
            for column, bit in columns:
                degrees: Counter[int] = Counter(self.edge(k, key)[column] for key, _, _ in rows)
                statuses: dict[int, bool] = {}
                for key, _, level in rows:
                    value = self.edge(k, key)[column]
                    assert statuses.setdefault(value, bool(level & bit)) == bool(level & bit)
                for value, heavy in statuses.items():
                    assert degrees[value] >= low if heavy else degrees[value] < high, (name, column, value)
                    heavy_keys += heavy
                    assert self.epsilon != 0 or heavy
                    assert self.epsilon != 1 or not heavy
            assert all(level <= highest for _, _, level in rows)
        assert state["heavy"] == heavy_keys
        self.check_views()

    def edge(self, relation: int, key: Sequence[int]) -> Edge:
        """An edge's corners, in the order of its relation."""
        return key[0], key[1]

    def check_views(self) -> None:
        """Every view equals its definition over the parts that there are."""
        for view in self.design.views:
            assert self.view(view.name) == self.defined(view), view.name

    def defined(self, view: View) -> dict[tuple[int, ...], int]:
        """A view by its definition."""
        joined: list[tuple[dict[str, int], int]] = [({}, 1)]
        for k in view.relations:
            part = view.parts[k]
            assert part is not None
            edges = [
                (dict(zip(EDGES[k], key, strict=True)), 1 if self.counts_edges else values[0])
                for key, values, level in self.machine.dump("RST"[k])
                if self.design.has(k, part, level)
            ]
            joined = [
                (words | edge, m * n)
                for words, m in joined
                for edge, n in edges
                if all(words.get(corner, value) == value for corner, value in edge.items())
            ]
        found: Counter[tuple[int, ...]] = Counter()
        for words, m in joined:
            found[tuple(words[c] for c in view.key)] += m
        return dict(found)

    @property
    def counts_edges(self) -> bool:
        return self.is_set or self.triangle.arity == 3
