"""Rows and groups that an expression fails on: a batch may pass through such a state, but must not end in it.

A row that a condition, a computed column or an aggregate's argument has no value for, and a group that HAVING, an
output or the type of a sum has none for, is *parked*: absent downstream, as if it were filtered out, and counted. If
one is left when the batch ends, the batch is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import FAILED
from everview.engine.input.rejection import shown
from everview.engine.operators.counts import Columns, Fold
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, repeated
from everview.errors import ComponentError, DataError, ExpressionError
from everview.query.terms import Var
from everview.query.types import DataType, Kind
from everview.query.view import Aggregate

Group = tuple[int, ...]
Place = tuple[str | None, int | None]
"""A table and a row of the user's input, where that is known."""

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
        self._places: list[Callable[[Group], Place]] = []
        """For those of the running batch, where they came from."""

    def add(self, columns: Columns, weight: pa.Array, place: Callable[[Group], Place]) -> None:
        """Count rows that come (above 0) or go (below 0); ``place`` says later where one of them came from."""
        if self.counts is None:
            self.start_anew()
        assert self.counts is not None
        self._dictionary.machine.on_roll_back(self._places.clear)
        self._places.append(place)
        self.counts.add(columns, (weight,))
        self.counts.settle()

    @property
    def is_left(self) -> bool:
        """True if a row is parked now."""
        return self._first() is not None

    def conclude(self) -> None:
        """The batch is over, and cannot be taken back any more: forget what is needed no longer."""
        self._places.clear()
        if not self.is_left:
            self.counts = None

    def _first(self) -> Group | None:
        for columns, (count,) in self.counts.rows() if self.counts is not None else ():
            left = pc.not_equal(count, ZERO)
            at = pc.index(left, pa.scalar(True)).as_py()
            if at >= 0:
                return tuple(c[at].as_py() for c in columns)
        return None

    def left(self) -> Iterator[Columns]:
        """The words of the rows that are parked now, chunk by chunk."""
        for columns, (count,) in self.counts.rows() if self.counts is not None else ():
            still = pc.not_equal(count, ZERO)
            yield tuple(c.filter(still) for c in columns)

    def failure(self) -> tuple[Failure, Place]:
        """Why one of the rows that are left is parked, and where it came from."""
        group = self._first()
        assert group is not None
        found = self._explain(tuple(repeated(word, 1) for word in group))
        place: Place = next((p for at in reversed(self._places) if (p := at(group)) != (None, None)), (None, None))
        return found or Failure("an expression", "it has no value"), place

    def refusal(self, view: str) -> DataError:
        """What to say of a batch that ends with such a row."""
        failure, (table, row) = self.failure()
        at = "" if row is None else f" (row {row} of the changes to {table})"
        message = f"{view}: {failure.text(at)}; nothing has changed"
        return failure.kind(message, table=table, row=row, column=failure.column, hint=failure.hint)

    def start_anew(self) -> Fold:
        """Counts without rows, for what was saved of them to be put there."""
        self.counts = Fold(self._types, 1, self._dictionary)
        return self.counts

    def nbytes(self) -> int:
        """The memory that the counts take."""
        return 0 if self.counts is None else self.counts.part.whole.nbytes()


def came_from(changes: Changes, columns: Columns, update: pa.Array) -> Callable[[Group], Place]:
    """Where rows of a delta came from: the last update that made one of these words."""

    def place(group: Group) -> Place:
        mask = pa.repeat(True, len(update))
        for column, word in zip(columns, group, strict=True):
            mask = pc.and_(mask, pc.equal(column, pa.scalar(word, pa.int64())))
        last = pc.max(update.filter(mask)).as_py()
        return (None, None) if last is None else changes.place(last - changes.rows.update[0].as_py())

    return place


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
