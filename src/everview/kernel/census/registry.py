"""Types: classes of isomorphic neighbourhoods with centres, numbered as they are met.

Colours of a few rounds of refinement tell most of them apart; that does not decide isomorphism, so each neighbourhood
is compared with those that have the same colours by a search.
"""

from __future__ import annotations

from everview.kernel.census.faults import Steps
from everview.kernel.census.structure import Structure, Tuple

ROUNDS = 4
"""How often colours are refined."""


class Type:
    """A class of isomorphic structures with centres: one of them, copied, which never changes."""

    def __init__(self, number: int, structure: Structure, centres: Tuple, colours: dict[int, int]) -> None:
        self.number = number
        self.structure = structure
        self.centres = centres
        self.colours = colours
        self.order = _search_order(structure, centres)


class Registry:
    """The types of one radius and number of centres. Numbers stay and are never used again."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.types: dict[int, Type] = {}
        self.met = 0
        self.compared = 0
        self._by_colours: dict[int, list[int]] = {}

    def type_of(self, structure: Structure, centres: Tuple) -> int:
        """The number of its type; the structure, if its type is new, belongs to the registry from then on."""
        colours = _colours(structure, centres, self.steps)
        alike = self._by_colours.setdefault(hash((len(colours), *sorted(colours.values()))), [])
        for number in alike:
            self.compared += 1
            if _isomorphic(self.types[number], structure, centres, colours, self.steps):
                return number
        self.types[self.met] = Type(self.met, structure, centres, colours)
        alike.append(self.met)
        self.met += 1
        return self.met - 1

    def forget(self, kept: set[int]) -> None:
        """Forget all types but those."""
        self.types = {number: t for number, t in self.types.items() if number in kept}
        alike = {key: [n for n in numbers if n in kept] for key, numbers in self._by_colours.items()}
        self._by_colours = {key: numbers for key, numbers in alike.items() if numbers}


def _colours(structure: Structure, centres: Tuple, steps: Steps) -> dict[int, int]:
    positions: dict[int, tuple[int, ...]] = dict.fromkeys(structure.incident, ())
    for i, a in enumerate(centres):
        positions[a] = (*positions[a], i)
    colours = {a: hash(where) for a, where in positions.items()}
    for _ in range(ROUNDS):
        refined = {}
        for a, rows in structure.incident.items():
            steps.take(1 + len(rows))
            around = sorted((r, *(colours[b] for b in row), *(b == a for b in row)) for r, row in rows)
            refined[a] = hash((colours[a], *around))
        colours = refined
    return colours


def _search_order(structure: Structure, centres: Tuple) -> list[tuple[int, int | None]]:
    """All elements, the centres first, each with a neighbour that comes before it; centres have none."""
    order: list[tuple[int, int | None]] = [(a, None) for a in dict.fromkeys(centres)]
    seen = {a for a, _ in order}
    for a, _ in order:  # It grows as it is read.
        for b in structure.adjacent[a]:
            if b not in seen:
                seen.add(b)
                order.append((b, a))
    assert len(seen) == len(structure.incident), "every element of a ball has a way to a centre"
    return order


def _isomorphic(known: Type, other: Structure, centres: Tuple, colours: dict[int, int], steps: Steps) -> bool:
    if len(known.structure.incident) != len(other.incident):
        return False
    image: dict[int, int] = {}
    used: set[int] = set()

    def fits(a: int, b: int) -> bool:
        """Whether all facts of a whose elements have images are facts of b, and as many."""
        steps.take(1 + len(known.structure.incident[a]))
        mapped = 0
        for relation, row in known.structure.incident[a]:
            if all(c in image for c in row):
                mapped += 1
                if (relation, tuple(image[c] for c in row)) not in other.incident[b]:
                    return False
        return mapped == sum(all(c in used for c in row) for _, row in other.incident[b])

    def extend(i: int) -> bool:
        if i == len(known.order):
            return True
        a, before = known.order[i]
        candidates = [centres[known.centres.index(a)]] if before is None else other.adjacent[image[before]]
        for b in candidates:
            if b in used or colours[b] != known.colours[a]:
                continue
            image[a] = b
            used.add(b)
            if fits(a, b) and extend(i + 1):
                return True
            del image[a]
            used.discard(b)
        return False

    return extend(0)
