"""Rows and groups that an expression fails on: a batch may pass through such a state, but must not end in it.

A row that a condition, a computed column or an aggregate's argument has no value for, and a group that HAVING, an
output or the type of a sum has none for, is *parked*: absent downstream, as if it were filtered out, and counted. If
one is left when the batch ends, the batch is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import FAILED
from everview.engine.input.rejection import shown
from everview.engine.operators.counts import Columns, Fold
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, Place, repeated
from everview.errors import ComponentError, DataError, ExpressionError, RefusedRow
from everview.query.terms import Var
from everview.query.types import DataType, Kind
from everview.query.view import Aggregate

Group = tuple[int, ...]


class Origin(NamedTuple):
    """A row of the user's input that has made a row or group what it is."""

    place: Place
    changes: Changes | None = None
    update: int = 0

    @property
    def values(self) -> tuple[object, ...] | None:
        """The row itself, where it is known."""
        return None if self.changes is None else self.changes.row(self.update)


Origins = Callable[[Group], Sequence[Origin]]
"""Gives those of a row or group, of which the last one is to blame."""
MOST_TOLD, MOST_EXPLAINED = 10_000, 100
"""Of so many rows or groups it is told where they came from, and of so many what is wrong with each."""

_ONE_COMPONENT = "correct the rows, in one batch if there are several, or define the view without component"
_LEAVE_OUT = "correct the data, or leave such rows out with WHERE or CASE"


@dataclass(frozen=True)
class Failure:
    """Why a row or group is parked."""

    what: str
    """What cannot be computed, as "column q"; nothing if ``why`` is all there is to say."""
    why: str
    values: str = ""
    """What it is computed from, as "x = 0, y = 1"."""
    column: str | None = None
    hint: str = _LEAVE_OUT
    kind: type[DataError] = ExpressionError

    def text(self, at: str = "") -> str:
        """What has failed, on what, and why; ``at`` is where that came from."""
        if not self.what:
            return self.why
        values = f" for {self.values}" if self.values else ""
        return f"{self.what} failed on the data{values}{at}: {self.why}"


class Parked:
    """The rows, or the groups, of one place of a view that an expression fails on now, counted by their words."""

    def __init__(
        self, types: Sequence[DataType], dictionary: Dictionary, explain: Callable[[Columns], Failure | None]
    ) -> None:
        self._types = tuple(types)
        self._dictionary = dictionary
        self._explain = explain
        self.counts: Fold | None = None
        """Their copies; None if there is none, which is nearly always."""
        self._origins: list[Origins] = []
        """For those of the running batch, where they came from."""

    def add(self, columns: Columns, weight: pa.Array, origins: Origins) -> None:
        """Count rows that come (above 0) or go (below 0); ``origins`` says later where one of them came from."""
        if self.counts is None:
            self.start_anew()
        assert self.counts is not None
        self._dictionary.machine.on_roll_back(self._origins.clear)
        self._origins.append(origins)
        self.counts.add(columns, (weight,))
        self.counts.settle()

    @property
    def is_left(self) -> bool:
        """True if a row is parked now."""
        return self._first() is not None

    def conclude(self) -> None:
        """The batch is over, and cannot be taken back any more: forget what is needed no longer."""
        self._origins.clear()
        if not self.is_left:
            self.counts = None

    def _first(self) -> Group | None:
        return next(self._groups(), None)

    def _groups(self) -> Iterator[Group]:
        """The words of the rows that are parked now, one by one."""
        for columns, (count,) in self.counts.rows() if self.counts is not None else ():
            for at in pc.indices_nonzero(pc.not_equal(count, ZERO)):
                yield tuple(c[at.as_py()].as_py() for c in columns)

    def left(self) -> Iterator[Columns]:
        """The words of the rows that are parked now, chunk by chunk."""
        for columns, (count,) in self.counts.rows() if self.counts is not None else ():
            still = pc.not_equal(count, ZERO)
            yield tuple(c.filter(still) for c in columns)

    def failure(self) -> tuple[Failure, Place]:
        """Why one of the rows that are left is parked, and where it came from."""
        group = self._first()
        assert group is not None
        origins = self._origins_of(group)
        return self._why(group), origins[-1].place if origins else Place()

    def refusal(self, view: str) -> DataError:
        """What to say of a batch that ends with such rows."""
        failure, place = self.failure()
        at = "" if place.row is None else f" (row {place.row} of the changes to {place.table})"
        message = f"{view}: {failure.text(at)}; nothing has changed"
        error = failure.kind(message, table=place.table, row=place.row, column=failure.column, hint=failure.hint)
        found = list(islice(self._refused(view), MOST_TOLD + 1))
        error.refused, error.is_cut = tuple(found[:MOST_TOLD]), len(found) > MOST_TOLD
        return error

    def _refused(self, view: str) -> Iterator[RefusedRow]:
        """The rows of the user's input that are in what is left, as far as they are known."""
        told: set[Place] = set()
        for number, group in enumerate(self._groups()):
            origins = self._origins_of(group)
            if not origins or (number > 0 and all(o.place in told for o in origins)):
                continue
            if number < MOST_EXPLAINED:
                failure = self._why(group)
                reason, kind, column, hint = failure.text(), failure.kind, failure.column, failure.hint
            else:
                reason = "what is made of it has no value, as with the others"
            for origin in origins:
                if origin.place not in told:
                    told.add(origin.place)
                    table, row, operation = origin.place
                    yield RefusedRow(table, row, f"{view}: {reason}", kind, column, origin.values, operation, hint)

    def _why(self, group: Group) -> Failure:
        found = self._explain(tuple(repeated(word, 1) for word in group))
        return found or Failure("an expression", "it has no value")

    def _origins_of(self, group: Group) -> list[Origin]:
        """In the order of the batch."""
        return [origin for origins in self._origins for origin in origins(group)]

    def start_anew(self) -> Fold:
        """Counts without rows, for what was saved of them to be put there."""
        self.counts = Fold(self._types, 1, self._dictionary)
        return self.counts

    def nbytes(self) -> int:
        """The memory that the counts take."""
        return 0 if self.counts is None else self.counts.part.whole.nbytes()


def came_from(changes: Changes, columns: Columns, update: pa.Array) -> Origins:
    """Where rows of a delta came from: the updates that made these words."""

    def origins(group: Group) -> list[Origin]:
        if not changes.is_base or not changes.is_given:
            return []
        mask = pa.repeat(True, len(update))
        for column, word in zip(columns, group, strict=True):
            mask = pc.and_(mask, pc.equal(column, pa.scalar(word, pa.int64())))
        first = changes.rows.update[0].as_py()
        made = sorted(set(update.filter(mask).to_pylist()))[-MOST_TOLD - 1 :]
        return [Origin(changes.place(at - first), changes, at - first) for at in made]

    return origins


def values_text(columns: Mapping[Var, pa.Array], variables: Sequence[Var] | None = None) -> str:
    """One row's values, of all or some variables, for a message."""
    return ", ".join(f"{v.name} = {shown(columns[v][0])}" for v in (columns if variables is None else variables))


def reason(error: DataError) -> str:
    """What is wrong with a row, as the error of who computed it says."""
    return error.message.removeprefix(FAILED)


def of_a_check(why: str) -> Failure | None:
    """What a check of ours has found, which says so by the name of its error; None if it was none."""
    name, _, text = why.partition(": ")
    return Failure("", text, hint=_ONE_COMPONENT, kind=ComponentError) if name == ComponentError.__name__ else None


def beyond_its_type(aggregate: Aggregate, group: str) -> Failure:
    """Why a group is parked whose sum is too large."""
    what = str(aggregate.type) if aggregate.type.kind is Kind.DECIMAL else f"the 64 bits of {aggregate.type}"
    hint = "cast what is summed up to a wider type, or make the values or the groups smaller"
    return Failure(str(aggregate), f"it leaves {what}", group, hint=hint, kind=DataError)
