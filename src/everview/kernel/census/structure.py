"""Finite structures: neighbourhoods with their universe, and the live facts with all that an update needs.

The universe of a neighbourhood is explicit: an element may have lost all its facts in it and must still be there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from everview.kernel.census.faults import DegreeFault, Steps
from everview.kernel.census.program import CensusRelation

Tuple = tuple[int, ...]
Row = tuple[int, Tuple]
"""A fact: its relation's number, and its elements."""


class Structure:
    """Elements, and facts over them: of each element, the facts that it is in, and its neighbours."""

    def __init__(self, elements: Iterable[int] = ()) -> None:
        self.incident: dict[int, set[Row]] = {a: set() for a in elements}
        self.adjacent: dict[int, Counter[int]] = {a: Counter() for a in self.incident}
        self.cache: dict[Any, Any] | None = {}
        """What the evaluator knows about it; None if it changes."""

    def add(self, row: Row) -> None:
        """Add a fact that is not there."""
        elements = set(row[1])
        for a in elements:
            self.incident.setdefault(a, set()).add(row)
            self.adjacent.setdefault(a, Counter()).update(elements - {a})

    def has(self, row: Row) -> bool:
        """Whether it is a fact."""
        return row in self.incident.get(row[1][0], ())

    def ball(self, centres: Iterable[int], radius: int, steps: Steps) -> dict[int, int]:
        """All elements so near to one of the centres, with their distance, nearest first."""
        distances = dict.fromkeys(centres, 0)
        border = list(distances)
        for distance in range(1, radius + 1):
            further = []
            for a in border:
                for b in self.adjacent.get(a, ()):
                    steps.take()
                    if b not in distances:
                        distances[b] = distance
                        further.append(b)
            border = further
        steps.take(len(distances))
        return distances

    def neighbourhood(self, centres: Sequence[int], radius: int, steps: Steps) -> tuple[Structure, Tuple]:
        """A copy of what is so near to the centres, with elements numbered anew; and the centres in it."""
        return self.restricted(self.ball(centres, radius, steps), centres, steps)

    def restricted(self, elements: Iterable[int], centres: Sequence[int], steps: Steps) -> tuple[Structure, Tuple]:
        """A copy with these elements only, numbered from 0 in their order; and the centres in it."""
        numbers = {a: i for i, a in enumerate(elements)}
        copy = Structure(range(len(numbers)))
        for a in numbers:
            for relation, row in self.incident.get(a, ()):
                steps.take()
                if row[0] == a and all(b in numbers for b in row):
                    copy.add((relation, tuple(numbers[b] for b in row)))
        return copy, tuple(numbers[a] for a in centres)


def disjoint_union(parts: Sequence[Structure]) -> tuple[Structure, list[int]]:
    """All of them side by side, and by how much the elements of each are moved."""
    union = Structure()
    moved = []
    for part in parts:
        first = len(union.incident)
        moved.append(first)
        for a in part.incident:
            union.incident[first + a] = {(r, tuple(first + b for b in row)) for r, row in part.incident[a]}
            union.adjacent[first + a] = Counter({first + b: n for b, n in part.adjacent[a].items()})
    return union, moved


class Storage(Structure):
    """The live facts, counted by their rows, and the domain.

    ``take`` keeps, in ``near_change``, how near each element has been to a fact that came or went: in the data that
    have the fact. Only elements so near can be of another type than before.
    """

    def __init__(self, relations: Sequence[CensusRelation], degree: int, reach: int, steps: Steps) -> None:
        super().__init__()
        self.cache = None
        self.relations = relations
        self.degree = degree
        self.reach = reach
        self.steps = steps
        self.copies: Counter[Row] = Counter()
        self.uses: Counter[int] = Counter()
        """Of each element of the domain, the facts and rows by which it is in it."""
        self.near_change: dict[int, int] = {}

    def take(self, weights: Mapping[Row, int], judged: bool) -> int:
        """Apply the changes of copies, all or none, and give how many facts came or went.

        Raises ``DegreeFault`` if an element would have too many neighbours and it is judged.
        """
        going, coming = self._changed_facts(weights)
        near = self.ball({a for _, row in going for a in row}, self.reach, self.steps)
        self._change_domain(weights, going, coming, near)
        for fact in going:
            self._remove(fact)
        for done, fact in enumerate(coming):
            self.add(fact)
            over = self._over_degree(fact[1]) if judged else None
            if over is not None:
                for back in coming[: done + 1]:
                    self._remove(back)
                for fact in going:
                    self.add(fact)
                self._change_domain({key: -w for key, w in weights.items()}, coming, going, {})
                raise DegreeFault(*over, self.degree)
        for a, distance in self.ball({a for _, row in coming for a in row}, self.reach, self.steps).items():
            near[a] = min(near.get(a, distance), distance)
        for key, weight in weights.items():
            if self.relations[key[0]].has_edges and weight:
                self.copies[key] += weight
                if not self.copies[key]:
                    del self.copies[key]
        for a, distance in near.items():
            self.near_change[a] = min(self.near_change.get(a, distance), distance)
        return len(going) + len(coming)

    def _changed_facts(self, weights: Mapping[Row, int]) -> tuple[list[Row], list[Row]]:
        going, coming = [], []
        for key, weight in weights.items():
            if weight and self.relations[key[0]].has_edges:
                before = self.copies[key]
                if before + weight < 0:
                    raise ValueError(f"{self.relations[key[0]].name} has not so many copies of {key[1]}")
                if before == 0:
                    coming.append(key)
                elif before + weight == 0:
                    going.append(key)
        return going, coming

    def _over_degree(self, elements: Tuple) -> tuple[int, int] | None:
        return next(((a, n) for a in elements if (n := len(self.adjacent[a])) > self.degree), None)

    def _change_domain(
        self, weights: Mapping[Row, int], going: Sequence[Row], coming: Sequence[Row], near: dict[int, int]
    ) -> None:
        changes: dict[int, int] = defaultdict(int)
        for (relation, row), weight in weights.items():
            if not self.relations[relation].has_edges:
                for a in row:
                    changes[a] += weight
        for facts, sign in ((going, -1), (coming, 1)):
            for relation, row in facts:
                if self.relations[relation].is_domain:
                    for a in row:
                        changes[a] += sign
        for a, change in changes.items():
            was = a in self.uses
            self.uses[a] += change
            if self.uses[a] < 0:
                raise ValueError(f"element {a} is in fewer rows than are deleted")
            if not self.uses[a]:
                del self.uses[a]
            if was != (a in self.uses):
                near[a] = 0

    def _remove(self, fact: Row) -> None:
        elements = set(fact[1])
        for a in elements:
            self.incident[a].discard(fact)
            neighbours = self.adjacent[a]
            for b in elements - {a}:
                neighbours[b] -= 1
                if not neighbours[b]:
                    del neighbours[b]
            if not self.incident[a]:
                del self.incident[a], self.adjacent[a]
