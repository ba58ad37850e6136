"""Looking up by some variables under updates: the fracture of a query decides what that costs (q-hierarchical.md 22).

Some output variables are *input*: their values are given. What is joined by them alone falls apart, as it is found by
the given values wherever it is; the parts are judged by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery
from everview.query.terms import Var

Place = tuple[Var, int]
"""A variable of the fracture: one of the query, and the part that it is in."""


@dataclass(frozen=True)
class Fracture:
    """A query whose input variables are others in each part that is connected without them."""

    query: ConjunctiveQuery
    inputs: frozenset[Var]
    parts: tuple[frozenset[int], ...]
    """The atoms of each part."""

    def atoms_of(self) -> dict[Place, frozenset[int]]:
        """The atoms that each variable of the fracture is in."""
        found: dict[Place, set[int]] = {}
        for number, part in enumerate(self.parts):
            for atom in part:
                for v in self.query.edges[atom]:
                    found.setdefault((v, number), set()).add(atom)
        return {place: frozenset(atoms) for place, atoms in found.items()}

    def violation(self) -> str | None:
        """What shows that rows cannot be found with constant updates and delay; None if they can."""
        free = self.query.free | self.inputs
        first: dict[tuple[int, frozenset[int], bool, bool], Place] = {}  # Others like it show the same.
        for (v, part), atoms in sorted(self.atoms_of().items()):
            first.setdefault((part, atoms, v in free, v in self.inputs), (v, part))
        telling = [(*place, atoms) for (_, atoms, _, _), place in first.items()]
        for v, part, mine in telling:
            for w, other, theirs in telling:
                if part != other or not mine & theirs:
                    continue
                if not (mine <= theirs or theirs <= mine):
                    return f"{v} and {w} meet, and each is somewhere without the other"
                if mine < theirs and v in free and w not in free:
                    return f"{w} is wherever {v} is, and more; {v} is output and {w} is not"
                if mine < theirs and v in self.inputs and w not in self.inputs:
                    return f"{w} is wherever {v} is, and more; {v} is given and {w} is not"
        return None


def fracture(query: ConjunctiveQuery, inputs: frozenset[Var]) -> Fracture:
    """The parts that the atoms of a query are in when its input variables join nothing."""
    parts: list[tuple[set[int], set[Var]]] = []
    for i, edge in enumerate(query.edges):
        atoms, variables = {i}, set(edge - inputs)
        apart = []
        for part in parts:
            if part[1].isdisjoint(variables):
                apart.append(part)
            else:
                atoms |= part[0]
                variables |= part[1]
        parts = [*apart, (atoms, variables)]
    return Fracture(query, inputs, tuple(frozenset(atoms) for atoms, _ in parts))
