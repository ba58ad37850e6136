"""What is kept of a query's answer: of sentences, and of unary queries; nothing of those of three columns.

Where a formula depends on the neighbourhood alone, what is kept is the answer itself. Where it depends on sentences or
on the census, what is kept is by type, as the answer may change far from any change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from everview.kernel.census.evaluator import Evaluator
from everview.kernel.census.program import Node
from everview.kernel.census.structure import Tuple

Changes = list[tuple[Tuple, bool]]
"""Rows, and whether they came."""


class LocalMembers:
    """The elements of which a local formula with one free slot holds."""

    def __init__(self, evaluator: Evaluator, formula: Node, slot: int) -> None:
        self.evaluator = evaluator
        self.formula = formula
        self.slot = slot
        self.radius = evaluator.program.shape(formula).radius
        self.elements: dict[int, None] = {}

    def look(self, near: Mapping[int, int]) -> Iterator[tuple[int, bool]]:
        """Look anew at what has been near a change, and tell which elements have come and gone."""
        env = [0] * self.evaluator.program.slots
        for a, distance in near.items():
            if distance > self.radius:
                continue
            env[self.slot] = a
            holds = a in self.evaluator.storage.uses and self.evaluator.holds(self.formula, self.evaluator.storage, env)
            if holds != (a in self.elements):
                if holds:
                    self.elements[a] = None
                else:
                    del self.elements[a]
                yield a, holds


class Sentences:
    """The truths of closed quantifiers, each after those in it."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        program = evaluator.program
        self.members = [
            LocalMembers(evaluator, s.body, s.slot) if program.shape(s.body).is_local else None
            for s in program.sentences
        ]
        for number, sentence in enumerate(program.sentences):  # As of no data.
            evaluator.truths[number] = sentence.is_met(0)

    def after(self, near: Mapping[int, int]) -> None:
        """Find their truths anew."""
        for number, sentence in enumerate(self.evaluator.program.sentences):
            members = self.members[number]
            if members is not None:
                for _ in members.look(near):
                    pass
            total = len(members.elements) if members is not None else self.evaluator.total(sentence)
            self.evaluator.truths[number] = sentence.is_met(total)


class Result(Protocol):
    """What is kept of the answer. ``before`` and ``after`` are told what has been near a change, with its distance."""

    @property
    def accepted(self) -> int:
        """How many types of rows are accepted, where they are kept by type."""

    @property
    def types_used(self) -> int:
        """How many types it uses beside those of elements."""

    @property
    def has_changes(self) -> bool:
        """True if differences are kept that nobody has taken."""

    def before(self, near: Mapping[int, int]) -> None:
        """Before types and truths are found anew."""

    def after(self, near: Mapping[int, int]) -> None:
        """After that."""

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""

    def take_changes(self) -> Changes:
        """What has come and gone since this was asked, net."""

    def count(self) -> int:
        """How many rows there are."""

    def test(self, row: Tuple) -> bool:
        """Whether it is a row; its elements are in the domain."""

    def used_types(self, radius: int, centres: int) -> set[int]:
        """Types that it uses, of the registry of so many centres."""

    def forget(self) -> None:
        """Forget what is known of types, as they are going to be forgotten."""


class Unchanging:
    """What most results have in common: nothing that they keep is by type."""

    accepted = 0
    types_used = 0

    def before(self, near: Mapping[int, int]) -> None:
        """Nothing."""

    def used_types(self, radius: int, centres: int) -> set[int]:
        """None."""
        return set()

    def forget(self) -> None:
        """Nothing."""


class BooleanResult(Unchanging):
    """Of a query without columns: one row if it is true."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.holds = self._now()
        self._was = self.holds
        self.is_told = False

    def _now(self) -> bool:
        return self.evaluator.holds(self.evaluator.program.formula, self.evaluator.storage, [])

    @property
    def has_changes(self) -> bool:
        """True if differences are kept that nobody has taken."""
        return self.is_told and self._was != self.holds

    def after(self, near: Mapping[int, int]) -> None:
        """Evaluate it anew."""
        self.holds = self._now()

    def told(self, is_told: bool) -> None:
        """Keep differences from now on."""
        self.is_told = is_told
        self._was = self.holds

    def take_changes(self) -> Changes:
        """The empty row, if it came or went."""
        was, self._was = self._was, self.holds
        return [((), self.holds)] if self.is_told and was != self.holds else []

    def count(self) -> int:
        """One or none."""
        return int(self.holds)

    def test(self, row: Tuple) -> bool:
        """Whether it is true."""
        return self.holds


class LocalResult(Unchanging):
    """Of a unary query that depends on neighbourhoods alone: the elements themselves."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.members = LocalMembers(evaluator, evaluator.program.formula, 0)
        self.is_told = False
        self._changes: dict[int, bool] = {}

    @property
    def has_changes(self) -> bool:
        """True if differences are kept that nobody has taken."""
        return bool(self._changes)

    def after(self, near: Mapping[int, int]) -> None:
        """Look at what has been near a change."""
        for a, came in self.members.look(near):
            if self.is_told and self._changes.pop(a, None) is None:
                self._changes[a] = came

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""
        self.is_told = is_told
        self._changes.clear()

    def take_changes(self) -> Changes:
        """What has come and gone since this was asked."""
        changes, self._changes = self._changes, {}
        return [((a,), came) for a, came in changes.items()]

    def count(self) -> int:
        """How many elements there are."""
        return len(self.members.elements)

    def test(self, row: Tuple) -> bool:
        """Whether it is one."""
        return row[0] in self.members.elements


class TypedResult:
    """Of a unary query that depends on sentences or the census: which types are accepted."""

    types_used = 0

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.formula = evaluator.program.formula
        self.census = evaluator.censuses[evaluator.program.radius]
        self.accepts: dict[int, bool] = {}
        self.is_told = False
        self._validity: object = None
        self._were: dict[int, int | None] = {}
        self._accepted_before = self.accepts

    @property
    def accepted(self) -> int:
        """How many types are accepted."""
        return sum(self.accepts[number] for number in self.census.members)

    @property
    def has_changes(self) -> bool:
        """True if differences are kept that nobody has taken."""
        return self.is_told and (bool(self._were) or self._accepted_before is not self.accepts)

    def before(self, near: Mapping[int, int]) -> None:
        """Note the types that may change."""
        if self.is_told:
            for a, distance in near.items():
                if distance <= self.census.radius:
                    self._were.setdefault(a, self.census.type_of.get(a))

    def after(self, near: Mapping[int, int]) -> None:
        """Find out which types are accepted: of new ones, or of all, if that may have changed."""
        validity = self.evaluator.validity(self.formula)
        if validity != self._validity:
            self._validity, self.accepts = validity, {}
        for number in self.census.members:
            if number not in self.accepts:
                self.accepts[number] = self.evaluator.holds_on_types(self.formula, [(1, number)], [[0]])

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""
        self.is_told = is_told
        self._were, self._accepted_before = {}, self.accepts

    def take_changes(self) -> Changes:
        """Elements whose type may have changed, one by one; all others of types that are accepted only now, or were."""
        if not self.is_told:
            return []
        were, accepted = self._were, self._accepted_before
        self.told(True)
        changes: Changes = []
        for a, old in were.items():
            before = old is not None and accepted[old]
            if before != self._accepts_element(a):
                changes.append(((a,), not before))
        if accepted is not self.accepts:
            for number, members in self.census.members.items():
                if number in accepted and accepted[number] != self.accepts[number]:
                    changes += [((a,), self.accepts[number]) for a in members if a not in were]
        return changes

    def _accepts_element(self, a: int) -> bool:
        number = self.census.type_of.get(a)
        return number is not None and self.accepts[number]

    def count(self) -> int:
        """How many elements are of accepted types."""
        return sum(len(members) for number, members in self.census.members.items() if self.accepts[number])

    def test(self, row: Tuple) -> bool:
        """Whether its type is accepted."""
        return self._accepts_element(row[0])

    def used_types(self, radius: int, centres: int) -> set[int]:
        """Those of elements, which the census has."""
        return set()

    def forget(self) -> None:
        """Keep what is known of types that somebody has."""
        self.accepts = {number: self.accepts[number] for number in self.census.members}
        self._accepted_before = self.accepts


class UncountedResult(Unchanging):
    """Of a query with three columns or more: it can be listed and tested, and nothing is kept of it but the census."""

    has_changes = False

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator

    def after(self, near: Mapping[int, int]) -> None:
        """Nothing."""

    def told(self, is_told: bool) -> None:
        """Refuses it."""
        if is_told:
            raise ValueError("differences of a formula with more than two columns are not kept")

    def take_changes(self) -> Changes:
        """None are kept."""
        return []

    def count(self) -> int:
        """Refuses it."""
        raise ValueError("the rows of a formula with more than two columns are not counted")

    def test(self, row: Tuple) -> bool:
        """Evaluate it."""
        program = self.evaluator.program
        env = [*row, *[0] * (program.slots - len(row))]
        return self.evaluator.holds(program.formula, self.evaluator.storage, env)
