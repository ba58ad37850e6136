"""What is kept of a binary query's answer: near pairs one by one, and far ones by type (fo-mod.md 7.4, 7.6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from everview.kernel.census.evaluator import Evaluator
from everview.kernel.census.results import Changes
from everview.kernel.census.structure import Tuple


class PairResult:
    """Of a binary query: the pairs that are near each other by their class, all others by their elements' types.

    A pair's class is its truth, where that depends on the neighbourhood alone, and else its type.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        program = evaluator.program
        self.formula = program.formula
        self.census = evaluator.censuses[program.radius]
        self.reach = 2 * program.radius + 1
        self.is_local = program.shape(self.formula).is_local
        self.near: dict[int, dict[int, int]] = {}
        """The class of each pair of elements that are near each other, both ways round."""
        self.classes: dict[int, dict[Tuple, None]] = {}
        self.near_by_types: Counter[Tuple] = Counter()
        self.accepts: dict[int, bool] = {}
        self.far_accepts: dict[Tuple, bool] = {}
        self.is_told = False
        self._validity: object = None
        self._truths = list(evaluator.truths)
        self._old: dict[str, Any] = {}
        self.told(False)

    @property
    def accepted(self) -> int:
        """How many classes of near pairs are accepted."""
        return sum(self.accepts[number] for number in self.classes)

    @property
    def types_used(self) -> int:
        """Those of pairs."""
        return 0 if self.is_local else len(self.classes)

    def used_types(self, radius: int, centres: int) -> set[int]:
        """Those of pairs."""
        return set(self.classes) if centres == 2 and radius == self.evaluator.program.radius else set()

    def forget(self) -> None:
        """Keep what is known of types that somebody has."""
        self.accepts = {number: self.accepts[number] for number in self.classes}
        self.far_accepts = {types: self.far_accepts[types] for types, _ in self._far() if types in self.far_accepts}
        self.told(self.is_told)

    @property
    def has_changes(self) -> bool:
        """True if differences are kept that nobody has taken."""
        old = self._old
        return self.is_told and bool(old["types"] or old["pairs"] or old["accepts"] is not self.accepts)

    def before(self, near: Mapping[int, int]) -> None:
        """Forget the pairs of which one may be of another type."""
        for a, distance in near.items():
            if distance <= self.census.radius:
                if self.is_told:
                    self._old["types"].setdefault(a, self.census.type_of.get(a))
                for b in list(self.near.get(a, ())):
                    self._take((a, b))
                    if a != b:
                        self._take((b, a))

    def _take(self, pair: Tuple) -> None:
        a, b = pair
        number = self.near[a].pop(b)
        if not self.near[a]:
            del self.near[a]
        del self.classes[number][pair]
        if not self.classes[number]:
            del self.classes[number]
        types = (self.census.type_of[a], self.census.type_of[b])
        self.near_by_types[types] -= 1
        if not self.near_by_types[types]:
            del self.near_by_types[types]
        if self.is_told:
            self._old["pairs"].setdefault(pair, number)

    def _put(self, pair: Tuple) -> None:
        a, b = pair
        if b in self.near.get(a, ()):
            return
        evaluator = self.evaluator
        if self.is_local:
            env = [a, b, *[0] * (evaluator.program.slots - 2)]
            number = int(evaluator.holds(self.formula, evaluator.storage, env))
        else:
            registry = evaluator.registry(self.census.radius, 2)
            known = evaluator.storage.neighbourhood(pair, self.census.radius, evaluator.steps)
            number = registry.type_of(*known)
        self.near.setdefault(a, {})[b] = number
        self.classes.setdefault(number, {})[pair] = None
        self.near_by_types[self.census.type_of[a], self.census.type_of[b]] += 1
        if self.is_told:
            self._old["pairs"].setdefault(pair, None)

    def after(self, near: Mapping[int, int]) -> None:
        """Put the pairs back of which one may be of another type, and find out what is accepted."""
        storage = self.evaluator.storage
        for a, distance in near.items():
            if distance <= self.census.radius and a in storage.uses:
                for b in storage.ball([a], self.reach, self.evaluator.steps):
                    self._put((a, b))
                    self._put((b, a))
        validity = self.evaluator.validity(self.formula)
        if validity != self._validity:
            self._validity, self._truths = validity, list(self.evaluator.truths)
            self.accepts, self.far_accepts = {}, {}
        for number in self.classes:
            if number not in self.accepts:
                self.accepts[number] = (
                    bool(number)
                    if self.is_local
                    else self.evaluator.holds_on_types(self.formula, [(2, number)], [[0, 1]])
                )
        for types, count in self._far():
            self.evaluator.steps.take()
            if count and types not in self.far_accepts:
                self.far_accepts[types] = self._far_holds(types)

    def _far(self) -> Iterator[tuple[Tuple, int]]:
        """Pairs of types, and how many pairs of such elements are far from each other."""
        for one, members in self.census.members.items():
            for other, others in self.census.members.items():
                yield (one, other), len(members) * len(others) - self.near_by_types.get((one, other), 0)

    def _far_holds(self, types: Tuple) -> bool:
        return self.evaluator.holds_on_types(self.formula, [(1, types[0]), (1, types[1])], [[0], [1]])

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""
        self.is_told = is_told
        self._old = {
            "types": {},
            "pairs": {},
            "accepts": self.accepts,
            "far_accepts": self.far_accepts,
            "truths": self._truths,
        }

    def take_changes(self) -> Changes:
        """Pairs of which one may have another type, one by one or, if far, by the other's type; and what flipped."""
        if not self.is_told:
            return []
        old = self._old
        self.told(True)
        changes: Changes = []
        touched: dict[int, int | None] = old["types"]
        pairs: dict[Tuple, int | None] = old["pairs"]
        accepts: dict[int, bool] = old["accepts"]

        def tell(pair: Tuple, before: bool) -> None:
            after = self._holds(pair)
            if before != after:
                changes.append((pair, after))

        def was_far(one: int | None, other: int | None) -> bool:
            return one is not None and other is not None and self._was_far_accepted(old, (one, other))

        for pair, number in pairs.items():  # Near before, or near now, and touched.
            a, b = (touched[x] if x in touched else self.census.type_of[x] for x in pair)
            tell(pair, accepts[number] if number is not None else was_far(a, b))
        for a, type_a in touched.items():
            for b, type_b in touched.items():
                if (a, b) not in pairs:
                    tell((a, b), was_far(type_a, type_b))
            now = self.census.type_of.get(a)
            for other, members in self.census.members.items():
                for turned in (False, True):
                    self._far_of_one(changes, old, a, (type_a, now, other), members, turned)
        if accepts is not self.accepts:
            self._flips(changes, old)
        return changes

    def _far_of_one(
        self,
        changes: Changes,
        old: dict[str, Any],
        a: int,
        types: tuple[int | None, int | None, int],
        members: Mapping[int, None],
        turned: bool,
    ) -> None:
        """The pairs of a touched element and all untouched ones of a type that were far and are."""
        was, now, other = types
        pairs = old["pairs"]

        def pair_of(one: int, two: int) -> Tuple:
            return (two, one) if turned else (one, two)

        before = was is not None and self._was_far_accepted(old, pair_of(was, other))
        after = now is not None and self.far_accepts.get(pair_of(now, other), False)
        if before != after:
            # Where nobody is far, what was found of these types means nothing.
            changes += [(pair_of(a, b), after) for b in members if b not in old["types"] and pair_of(a, b) not in pairs]

    def _flips(self, changes: Changes, old: dict[str, Any]) -> None:
        """Untouched pairs whose class, or pair of types, is accepted only now, or was."""
        for number, listed in self.classes.items():
            if number in old["accepts"] and old["accepts"][number] != self.accepts[number]:
                changes += [(pair, self.accepts[number]) for pair in listed if pair not in old["pairs"]]
        touched = old["types"]
        for (one, other), count in self._far():
            if not count:
                continue
            after = self.far_accepts[one, other]
            if self._was_far_accepted(old, (one, other)) != after:
                changes += [
                    ((a, b), after)
                    for a in self.census.members[one]
                    if a not in touched
                    for b in self.census.members[other]
                    if b not in touched and b not in self.near[a]
                ]

    def _was_far_accepted(self, old: dict[str, Any], types: Tuple) -> bool:
        known: dict[Tuple, bool] = old["far_accepts"]
        if types not in known:
            # Nobody was far of these types before, or everybody who was is told one by one; where the census counts,
            # all that there were are known.
            if self.evaluator.program.shape(self.formula).counts_far:
                return False
            now, self.evaluator.truths = self.evaluator.truths, old["truths"]
            known[types] = self._far_holds(types)
            self.evaluator.truths = now
        return known[types]

    def _holds(self, pair: Tuple) -> bool:
        a, b = pair
        number = self.near.get(a, {}).get(b)
        if number is not None:
            return self.accepts[number]
        one, other = self.census.type_of.get(a), self.census.type_of.get(b)
        return one is not None and other is not None and self.far_accepts.get((one, other), False)

    def count(self) -> int:
        """Near pairs of accepted classes, and far pairs of accepted types."""
        near = sum(len(pairs) for number, pairs in self.classes.items() if self.accepts[number])
        return near + sum(count for types, count in self._far() if count and self.far_accepts[types])

    def test(self, row: Tuple) -> bool:
        """Whether it is a row."""
        return self._holds(row)
