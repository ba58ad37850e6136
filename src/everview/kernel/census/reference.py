"""The census in plain Python: it says what the compiled one must do.

A batch is taken over as a whole: its net changes come into the facts, all or none, and then everything that was near
one of them, before or after, is looked at anew: elements get their types, sentences their truths, results their rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from everview.kernel.census.evaluator import Evaluator
from everview.kernel.census.faults import DegreeFault, LimitFault, Steps
from everview.kernel.census.listing import rows_of
from everview.kernel.census.pairs import PairResult
from everview.kernel.census.program import CensusProgram
from everview.kernel.census.results import (
    BooleanResult,
    LocalResult,
    Result,
    Sentences,
    TypedResult,
    UncountedResult,
)
from everview.kernel.census.structure import Row, Storage

IDLE_TYPES = 1024
"""So many types that nobody has may be kept, or as many as there are others."""


class CensusReference:
    """A query's answer, kept up to date."""

    def __init__(self, program: CensusProgram) -> None:
        self.program = program
        self.steps = Steps()
        shapes = [program.shape(sentence.body) for sentence in program.sentences]
        reach = max([program.radius, *(shape.radius for shape in shapes), *program.typed_radii])
        self.storage = Storage(program.relations, program.degree, reach, self.steps)
        self.version = 0
        self._pending: Counter[Row] = Counter()
        self._since_begin: Counter[Row] = Counter()
        self._is_told = False
        self._fault: LimitFault | None = None
        self._last_steps = 0
        self._build()

    def _build(self) -> None:
        self.evaluator = Evaluator(self.program, self.storage, self.steps)
        self.sentences = Sentences(self.evaluator)
        self.result: Result = _result(self.evaluator)

    # --- changes ---

    def begin(self) -> None:
        """Begin a batch."""
        self._since_begin.clear()
        self._pending.clear()

    def commit(self) -> None:
        """Keep what the batch has changed."""
        self.begin()

    def roll_back(self) -> None:
        """Hold what was held when the batch began."""
        self._pending.clear()
        back = {key: -weight for key, weight in self._since_begin.items() if weight}
        self._since_begin.clear()
        if back:
            with suppress(LimitFault):  # It is suspended, then; the facts are what they were.
                self._take(back, judged=False)
        self._since_begin.clear()

    def apply(self, relation: int, columns: Sequence[Iterable[int]], weights: Iterable[int]) -> None:
        """Add to what is pending: rows of a relation, with the change of their copies."""
        for *row, weight in zip(*columns, weights, strict=True):
            self._pending[(relation, tuple(row))] += weight

    def settle(self) -> None:
        """Take over what is pending.

        Raises ``DegreeFault`` if an element would have too many neighbours: then nothing has changed, and what was
        pending still is, so that more can come that makes it good. Raises ``LimitFault`` if there are too many types,
        or it takes too many steps: then the facts are what they should be, and nothing can be read until ``resume``.
        """
        pending = self._pending.copy()
        self._pending.clear()
        try:
            self._take({key: weight for key, weight in pending.items() if weight}, judged=True)
        except DegreeFault:
            self._pending = pending
            raise

    def _take(self, weights: dict[Row, int], judged: bool) -> None:
        self.version += 1
        before = self.steps.count
        changed = self.storage.take(weights, judged)
        for key, weight in weights.items():
            self._since_begin[key] += weight
        if self._fault is None:
            self._look(self.program.most_steps * max(1, changed))
        self._last_steps = self.steps.count - before

    def _look(self, most_steps: int) -> None:
        """Look anew at all that has been near a change."""
        near, self.storage.near_change = self.storage.near_change, {}
        if not near:
            return
        self.steps.most = self.steps.count + most_steps
        try:
            self._forget_idle_types()
            self.result.before(near)
            self._type(near)
            self.sentences.after(near)
            self.result.after(near)
        except LimitFault as fault:
            limit = self.program.most_steps if fault.kind == "steps" else fault.limit
            self._fault = LimitFault(fault.kind, limit)
            self._build()
            raise self._fault from None
        finally:
            self.steps.most = None

    def _type(self, near: dict[int, int]) -> None:
        evaluator = self.evaluator
        evaluator.epoch += 1
        for radius, census in evaluator.censuses.items():
            registry = evaluator.registry(radius, 1)
            for a, distance in near.items():
                if distance <= radius:
                    census.take(a)
                    if a in self.storage.uses:
                        known = self.storage.neighbourhood([a], radius, self.steps)
                        census.put(a, registry.type_of(*known))
            limit = self.program.types_limit(radius)
            if len(census.members) > limit:
                raise LimitFault("types", limit)

    def _forget_idle_types(self) -> None:
        if self.result.has_changes:
            return
        known = sum(len(r.types) for r in self.evaluator.registries.values())
        used = sum(len(c.members) for c in self.evaluator.censuses.values()) + self.result.types_used
        if known > 2 * used + IDLE_TYPES:
            for (radius, centres), registry in self.evaluator.registries.items():
                kept: set[int] = set()
                if centres == 1 and radius in self.evaluator.censuses:
                    kept |= self.evaluator.censuses[radius].members.keys()
                registry.forget(kept | self.result.used_types(radius, centres))
            self.evaluator.forget()
            self.result.forget()

    def resume(self) -> None:
        """Look at all facts anew, after a limit has been met; differences begin anew, too."""
        self._fault = None
        self._build()
        self.result.told(self._is_told)
        elements = set(self.storage.uses)
        self.storage.near_change = dict.fromkeys(elements, 0)
        self._look(self.program.most_steps * max(1, len(elements)))
        self.result.take_changes()

    # --- differences ---

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""
        self._is_told = is_told
        self.result.told(is_told)

    def take_difference(self) -> tuple[list[list[int]], list[int]]:
        """The rows that have come (1) or gone (-1) since this was last asked: columns, and signs."""
        self._check()
        changes = self.result.take_changes()
        columns = [[row[i] for row, _ in changes] for i in range(self.program.arity)]
        return columns, [1 if came else -1 for _, came in changes]

    # --- answers ---

    def truth(self) -> bool:
        """Whether there is a row."""
        self._check()
        return next(iter(self.rows()), None) is not None

    def count(self) -> int:
        """How many rows there are."""
        self._check()
        return self.result.count()

    def test(self, row: Sequence[int]) -> bool:
        """Whether this is one of them."""
        self._check()
        return all(a in self.storage.uses for a in row) and self.result.test(tuple(row))

    def rows(self) -> Iterator[tuple[int, ...]]:
        """All rows, each once, in no order. What is asked of it after the next change raises ``RuntimeError``."""
        return self.rows_with_prefix(())

    def rows_with_prefix(self, prefix: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """All rows that begin so."""
        self._check()
        version = self.version
        for row in rows_of(self.evaluator, self.result, tuple(prefix)):
            if version != self.version:
                raise RuntimeError("the data have changed since this listing began")
            yield row
            if version != self.version:
                raise RuntimeError("the data have changed since this listing began")

    def _check(self) -> None:
        if self._fault is not None:
            raise self._fault

    def stats(self) -> dict[str, Any]:
        """What is kept, and what the last change has taken."""
        evaluator = self.evaluator
        return {
            "elements": len(self.storage.uses),
            "facts": len(self.storage.copies),
            "max_degree": max((len(n) for n in self.storage.adjacent.values()), default=0),
            "types": {radius: len(census.members) for radius, census in evaluator.censuses.items()},
            "types_met": {
                f"{radius}/{centres}": registry.met for (radius, centres), registry in evaluator.registries.items()
            },
            "types_known": {
                f"{radius}/{centres}": len(registry.types)
                for (radius, centres), registry in evaluator.registries.items()
            },
            "compared": sum(registry.compared for registry in evaluator.registries.values()),
            "accepted_types": 0 if self._fault else self.result.accepted,
            "sentences": list(self.evaluator.truths),
            "steps": self._last_steps,
            "total_steps": self.steps.count,
            "suspended": None if self._fault is None else str(self._fault),
        }


def _result(evaluator: Evaluator) -> Result:
    """What is kept of the answer of a program."""
    program = evaluator.program
    if program.arity == 0:
        return BooleanResult(evaluator)
    if program.arity == 1:
        return LocalResult(evaluator) if program.shape(program.formula).is_local else TypedResult(evaluator)
    return PairResult(evaluator) if program.arity == 2 else UncountedResult(evaluator)
