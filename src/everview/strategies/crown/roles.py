"""The parts of bags, the tables that hold them, and which of a table's parts meet the same rows in another role.

Atoms that share a table may meet the same rows, each in another role, as the three sides of a triangle in one table of
edges do: turning a triangle turns its sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from everview.query.terms import Var
from everview.strategies.crown.layout import Node, Words

MOST_TRIED = 500
"""So many ways to lay one atom's join over another's are tried before the two are taken for different."""


@dataclass(frozen=True)
class Part:
    """An atom of a bag, or a guard: an atom that only bounds variables there, as a set."""

    node: Node
    atom: int
    is_guard: bool
    words: Words
    """The variables that are stored, in the order of the relation's columns."""
    sums: tuple[int, ...]


@dataclass(frozen=True)
class Shared:
    """A table, and the parts that it serves: all see the same rows."""

    table: str
    parts: tuple[Part, ...]
    as_set: bool

    @property
    def first(self) -> Part:
        """The part by whose variables the table is named."""
        return self.parts[0]

    def is_split(self, part: Part) -> bool:
        """True if another atom of the part's bag is in this table, too, and sees another state of it."""
        return part in self.parts and sum(p.node is part.node for p in self.parts) > 1


@dataclass(frozen=True)
class Role:
    """A part whose join meets the same rows as another part's: its variables, and what it meets, as that one's."""

    part: Part
    variables: Mapping[Var, Var]
    others: Mapping[Part, Part]


class Roles:
    """Finds the parts whose joins are one join, over all parts by their bags, and the tables that hold them."""

    def __init__(self, parts: Mapping[Node, list[Part]], table_of: Mapping[Part, Shared]) -> None:
        self._parts = parts
        self._table_of = table_of

    def others(self, part: Part) -> list[Part]:
        """The other parts of a part's bag."""
        return [p for p in self._parts[part.node] if p is not part]

    def by_what_they_meet(self, shared: Shared) -> list[list[Role]]:
        """The parts of a table by what they meet; the first of each list is the one as whose join it is written."""
        found: list[list[Role]] = []
        for part in shared.parts:
            for roles in found:
                role = self._as_role_of(roles[0].part, part)
                if role is not None:
                    roles.append(role)
                    break
            else:
                others = self.others(part)
                itself = {v: v for p in (part, *others) for v in p.words}
                found.append([Role(part, itself, {p: p for p in others})])
        return found

    def _as_role_of(self, first: Part, part: Part) -> Role | None:
        """A part's join laid over another's of its bag: the same row changes, and it meets rows of the same tables."""
        if part.node is not first.node:
            return None
        theirs = self.others(first)
        tried = 0

        def laid(
            rest: list[Part], variables: dict[Var, Var], others: dict[Part, Part]
        ) -> tuple[dict[Var, Var], dict[Part, Part]] | None:
            nonlocal tried
            if not rest:
                return variables, others
            nearest = max(rest, key=lambda p: len(variables.keys() & set(p.words)))
            left = [p for p in rest if p is not nearest]
            for its in theirs:
                tried += 1
                if tried > MOST_TRIED:
                    return None
                if its in others.values() or self._table_of[its] is not self._table_of[nearest]:
                    continue
                more = _laid_over(its.words, nearest.words, variables)
                found = None if more is None else laid(left, more, {**others, nearest: its})
                if found is not None:
                    return found
            return None

        start = _laid_over(first.words, part.words, {})
        found = None if start is None else laid(self.others(part), start, {})
        return None if found is None else Role(part, *found)


def _laid_over(target: Words, words: Words, variables: Mapping[Var, Var]) -> dict[Var, Var] | None:
    """The variables of one atom as those of another, column by column, beside those known; None if they do not fit."""
    found = dict(variables)
    for its, own in zip(target, words, strict=True):
        if found.setdefault(own, its) != its:
            return None
    return found if len(set(found.values())) == len(found) else None
