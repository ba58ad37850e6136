"""Every refusal of Everview: what is wrong, where, why, and what to do about it."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from everview.redaction import redact, redact_line


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a source text; line and column count from 1."""

    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class EverviewError(Exception):
    """Base of all errors that Everview raises on purpose.

    ``message`` says what is wrong, ``position`` where in ``source``, and ``hint`` what to do. ``str()`` shows all of
    them, with the offending line underlined, and none of them shows a secret.
    """

    def __init__(
        self, message: str, *, position: Position | None = None, source: str | None = None, hint: str | None = None
    ) -> None:
        message = redact(message)
        super().__init__(message)
        self.message = message
        self.position = position
        self.source = source
        self.hint = hint

    @property
    def line(self) -> int | None:
        """The line of the offending text, from 1; None when the error is about no text."""
        return self.position.line if self.position else None

    @property
    def column(self) -> int | None:
        """The column of the offending text, from 1; None when the error is about no text."""
        return self.position.column if self.position else None

    def located(self, position: Position | None, source: str | None) -> EverviewError:
        """Fill in place and text where they are not known yet; returns the error itself, ready to be raised."""
        self.position = self.position or position
        self.source = self.source if self.source is not None else source
        return self

    def __str__(self) -> str:
        lines = [self.message if self.position is None else f"{self.message} (at {self.position})"]
        if self.position is not None and self.source is not None:
            lines += _excerpt(self.source, self.position)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return redact("\n".join(lines))


def _excerpt(source: str, position: Position) -> list[str]:
    rows = source.splitlines() or [""]
    if not 1 <= position.line <= len(rows):
        return []
    row = redact_line(rows[position.line - 1])
    start = min(max(position.column - 1, 0), len(row))
    width = max(1, min(position.length, len(row) - start))
    offset = max(0, start - 80)
    shown = row[offset : offset + 160].replace("\t", " ")
    return [f"  | {shown}", "  | " + " " * (start - offset) + "^" * width]


class ArgumentError(EverviewError, TypeError):
    """A call was given something of a type that it does not take."""


def check_text(value: object, what: str) -> None:
    """Raise unless a text was given as ``what``."""
    if not isinstance(value, str):
        hint = "decode it first" if isinstance(value, bytes | bytearray) else f"pass {what} as a str"
        raise ArgumentError(f"{what} is a text, and {value!r:.60} is of type {type(value).__name__}", hint=hint)


MOST_NAMES: Final = 30
"""So many of the names that there are a hint lists."""


def some_of(names: Iterable[str]) -> str:
    """Names for a hint: all of them, or the first ones and how many more there are; "none" if there is none."""
    found = list(names)
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(found[:MOST_NAMES]) + more or "none"


def whole_number(value: object, what: str) -> int:
    """A whole number that was given as ``what``, of any type that stands for one, as NumPy's do."""
    if hasattr(value, "__index__"):
        return operator.index(value)
    raise ArgumentError(f"{what} is a whole number, and {value!r:.60} is none", hint="pass an int")


class SchemaError(EverviewError):
    """A table, constraint or catalogue statement that makes no sense."""


class DependantsError(SchemaError):
    """A table or view that cannot be dropped or replaced as others depend on it; ``dependants`` are their names."""

    def __init__(self, message: str, *, dependants: Sequence[str], hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.dependants = tuple(dependants)


class QueryError(EverviewError):
    """Base of everything that can be wrong with a query."""


class SqlSyntaxError(QueryError):
    """The text is not a statement of the language."""


class RuleSyntaxError(QueryError):
    """The text is not a rule."""


class FormulaSyntaxError(QueryError):
    """The text is not a formula."""


class UnknownNameError(QueryError):
    """A table, column, alias or function that is not there."""


class AmbiguousNameError(QueryError):
    """A name that could mean two things, or is given twice."""


class TypeMismatchError(QueryError):
    """Operands or arguments whose types do not go together."""


class AggregationError(QueryError):
    """An aggregate where none may stand, or a column that is neither grouped nor aggregated."""


class UnsafeQueryError(QueryError):
    """A head or predicate variable that no atom binds."""


class SizeError(QueryError):
    """A statement that is, or becomes when it is folded together, larger than what is planned within seconds."""


class UnsupportedError(QueryError):
    """Understood, but not maintainable (yet); ``construct`` names what.

    ``others`` are further ones of the same statement, as far as they can be told apart from the first.
    """

    others: tuple[UnsupportedError, ...] = ()

    def __init__(
        self,
        message: str,
        *,
        construct: str,
        position: Position | None = None,
        source: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, position=position, source=source, hint=hint)
        self.construct = construct

    def __str__(self) -> str:
        lines = [super().__str__()]
        for other in self.others:
            hint = f": {other.hint}" if other.hint else ""
            lines.append(f"also: {other.message} (at {other.position}){hint}")
        return redact("\n".join(lines))


class NotCountedError(UnsupportedError, TypeError):
    """A view of which rows are tested and listed, but neither counted nor told.

    It is a TypeError, so that ``list(view)``, which asks for the length first, goes on without it.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, construct="count", hint=hint)


class NotListedError(UnsupportedError):
    """A view of which rows are only tested, as its options say: nothing is kept that they could be listed by."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message, construct="list", hint=hint)


class FormulaLimitError(QueryError):
    """A formula that costs more than is allowed: ``limit`` says which limit, ``subformula`` which part is to blame.

    ``bound`` is what was computed for it, and ``allowed`` what it may be. ``limit`` is one of ``ARITY_LIMIT``,
    ``RANK_LIMIT``, ``SENTENCE_LIMIT``, ``SIZE_LIMIT``, ``RADIUS_LIMIT`` and ``BALL_LIMIT``, which are judged without
    data, and ``TYPE_LIMIT`` and ``STEP_LIMIT``, which a view meets at run time: then it is suspended.
    """

    def __init__(
        self,
        message: str,
        *,
        limit: str,
        bound: int,
        allowed: int,
        subformula: str | None = None,
        position: Position | None = None,
        source: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(f"{limit}: {message}", position=position, source=source, hint=hint)
        self.limit = limit
        self.bound = bound
        self.allowed = allowed
        self.subformula = subformula


class OptionError(QueryError):
    """An option of a view that there is not, or a value that it cannot have; ``option`` is its name."""

    def __init__(self, message: str, *, option: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.option = option


class DataFormatError(EverviewError):
    """Plain data that no view, table or shard can be read from: of another format, or damaged."""


class StatisticsError(EverviewError):
    """Update statistics that do not fit the query or are not numbers."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row because of which a batch was refused: where it is, what it is, and why."""

    table: str | None
    row: int | None
    """Its position in what its operation was given, from 0; None if nobody knows which row made it so."""
    reason: str
    """Why, as a sentence about the row: "deletes (1, 'x'), which is not there"."""
    error: type[DataError]
    """What it would be, alone."""
    column: str | None = None
    values: tuple[object, ...] | None = None
    """Its values, in the order of the table's columns, where they are known."""
    operation: int = 0
    """Which operation of the batch, from 0."""
    hint: str | None = None

    @property
    def place(self) -> tuple[int, str | None, int | None]:
        """What tells it from the batch's other rows."""
        return self.operation, self.table, self.row

    def alone(self) -> DataError:
        """The error of a batch in which it is the only one."""
        place = f"row {self.row} of the changes to {self.table} "
        message = f"{place}{self.reason}; nothing has changed"
        error = self.error(message, table=self.table, row=self.row, column=self.column, hint=self.hint)
        error.refused = (self,)
        return error


class DataError(EverviewError):
    """Base of everything that can be wrong with data or with a running database.

    ``table`` names the table, ``row`` is the row's position in the input (from 0), and ``column`` the column's name;
    each is None where it does not apply. ``message`` says them too. Of a batch that was refused because of some of its
    rows, ``refused`` has all of them, and the message is about one: without them, the others are taken.
    """

    refused: tuple[RefusedRow, ...] = ()
    is_cut: bool = False
    """True if so many rows are refused that not all of them were looked for."""

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.table = table
        self.row = row
        self._column = column

    def __str__(self) -> str:
        more = len(self.refused) - 1
        if more < 1:
            return super().__str__()
        least = "at least " if self.is_cut else ""
        return f"{super().__str__()}\nand {least}{more:,} more row{'s' if more > 1 else ''}: .refused lists them"

    def reworded(self, message: str, hint: str | None) -> Self:
        """The same error in other words: what it knows besides, as the element of ``DegreeExceeded``, stays."""
        error = type(self).__new__(type(self))  # Each has an __init__ of its own.
        error.__dict__.update(self.__dict__)
        error.message, error.hint = redact(message), hint
        error.args = (error.message,)
        return error

    def name_view(self, name: str) -> None:
        """Say which view it happened in, where the message does not yet."""
        if not self.message.startswith(f"{name}: "):
            self.message = f"{name}: {self.message}"
            self.args = (self.message,)

    @property
    def column(self) -> str | None:  # type: ignore[override]  # data has columns with names, text has them by number
        """The name of the offending column; None when the error is about a whole row, or about no row."""
        return self._column


def each_once(refused: Iterable[RefusedRow]) -> tuple[RefusedRow, ...]:
    """Rows by their places; of one that several things are wrong with, the first."""
    found: dict[object, RefusedRow] = {}
    for row in refused:
        found.setdefault(row.place, row)
    return tuple(sorted(found.values(), key=lambda r: (r.operation, r.row is None, r.row or 0)))


def told_together(errors: Sequence[DataError]) -> DataError:
    """One error for all that is wrong with a batch: the first of them, with the rows of all."""
    first = errors[0]
    if len(errors) > 1:
        first.refused = each_once(row for error in errors for row in error.refused)
        first.is_cut = any(error.is_cut for error in errors)
    return first


class TooManyRowsError(DataError, OverflowError):
    """A number of rows that is too large for where it is asked."""


class ScanWarning(UserWarning):
    """All rows of a view are listed for what an index would find at once."""


class UnknownTableError(DataError):
    """Rows for a table, or a read from a view, that is not there."""


class RowShapeError(DataError):
    """Data that is no list of rows, or rows with too few, too many or unknown columns."""


class ValueTypeError(DataError):
    """A value that its column's type cannot hold exactly."""


class NullViolationError(DataError):
    """NULL, or no value at all, in a column that is NOT NULL or part of the primary key."""


class DomainViolationError(DataError):
    """A value that the column's CHECK (… IN …) does not list."""


class KeyViolationError(DataError):
    """A second row with the same primary key."""


class ReferenceViolationError(DataError):
    """A row whose foreign key points at no row: as the batch would leave it, or as it would become by a deletion."""


class UpdateKindError(DataError):
    """A change of a table that may not be changed so, as its OPTIONS (updates = …) say."""


class OverDeleteError(DataError):
    """The deletion of a row, or of a copy of it, that is not there."""


class ChangeTypeError(DataError):
    """A ``_change_type`` or ``_count`` that does not say what happened to the row."""


class ExpressionError(DataError):
    """A row or group of a view that one of its expressions has no value for, such as a division by zero."""


class MemoryLimitError(DataError):
    """More data than the database may hold, or than one column of a batch can."""


class DegreeExceeded(DataError):
    """An ``element`` would have more neighbours than a view by formula allows: ``degree`` instead of ``bound``."""

    def __init__(
        self,
        message: str,
        *,
        element: object,
        degree: int,
        bound: int,
        table: str | None = None,
        row: int | None = None,
        column: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, table=table, row=row, column=column, hint=hint)
        self.element = element
        self.degree = degree
        self.bound = bound


class ComponentError(DataError):
    """An element stands in rows of two components, where a formula is promised that none does."""


class ClockError(DataError):
    """A time to which the clock of a database cannot be moved: it never goes back."""


class FeedError(DataError):
    """A change feed that was closed, or was not read for too long."""


class SubscriberError(EverviewError):
    """A subscriber's callback that raised, which is the cause; the batch that it was told of has been applied.

    It is no DataError: whoever catches those, to mend a batch that was refused, does not catch it.
    ``version`` is the batch's, ``view`` the view that was subscribed to, ``cause`` what was raised.
    """

    def __init__(self, message: str, *, version: int, view: str, cause: Exception, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.version = version
        self.view = view
        self.cause = cause


class SingularMatrix(DataError):
    """A regression whose coefficients the rows do not determine: a feature follows from others, or rows are too few."""


class HistoryExceeded(DataError):
    """What has changed since a version is not kept, or not so far back."""


class DroppedError(DataError):
    """A view, table or feed that is used after its view or table was dropped, or replaced by another of its name."""


class StaleReadError(DataError):
    """Rows that are taken one by one from a view whose tables have changed since the first of them."""


class SnapshotError(DataError):
    """A saved database that cannot be written, or is damaged, or of another version."""


class TargetError(DataError):
    """A target of ``materialize`` that cannot be written, or that is not this view's to write."""


class ClosedError(DataError):
    """A database, view, batch or feed that was used after it was closed."""


class PipelineError(EverviewError):
    """A Spark pipeline that cannot run as it is set up."""


class StateMismatchError(PipelineError):
    """A checkpoint that was made by other views, tables or shards than those that run now."""


class BadRowError(DataError):
    """A row of a stream that cannot be taken in, under the policy that such rows stop the query."""
