"""Row expressions on Arrow batches: simple ones are computed by Arrow, all others by DuckDB (never by us)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.by_arrow import Compiled, compiled
from everview.engine.input.date_range import YEARS, first_beyond
from everview.engine.memory_limit import bytes_left
from everview.engine.values.dictionary import NULL
from everview.engine.values.nested import in_numbers
from everview.engine.values.words import NARROW_DIGITS, arrow_type, data_type
from everview.errors import DataError, MemoryLimitError
from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN, DataType

FAILED = "an expression of the view failed on the data: "
"""What a failure of DuckDB on rows begins with."""


class Evaluator:
    """Some expressions over the same variables, compiled once and run on batch after batch."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._expressions = tuple(expressions)
        self.variables = tuple(sorted(frozenset().union(*(e.variables for e in expressions))))
        self._simple: list[Compiled | None] | None = None
        self._others: dict[tuple[int, ...], _Query] = {}
        self._tries: dict[tuple[int, ...], _Query] = {}

    def __call__(self, columns: Mapping[Var, pa.Array], length: int) -> list[pa.Array]:
        """The value of each expression for each row, in the type that the expression has; no row may fail."""
        raw = self._raw(columns, length)
        return [_in_type(array, e) for array, e in zip(raw, self._expressions, strict=True)]

    def tried(
        self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None = None
    ) -> tuple[list[pa.Array], pa.Array | None]:
        """The same, and which rows fail, which have NULL then (None: none); others than those ``among`` never do."""
        try:
            return self(columns, length), None
        except DataError:
            pass
        among = pa.repeat(True, length) if among is None else among
        failed = _spread(self._failing(_kept(columns, self.variables, among), _count(among)), among).fill_null(False)
        good = pc.and_not(among, failed)
        raw = self._raw(_kept(columns, self.variables, good), _count(good))
        for array, expression in zip(raw, self._expressions, strict=True):
            unfit = _unfit(array, expression)
            if unfit is not None:
                failed = pc.or_(failed, _spread(unfit, good).fill_null(False))
        rest = pc.and_not(among, failed)
        values = self(_kept(columns, self.variables, rest), _count(rest))
        return [_spread(array, rest) for array in values], failed if pc.any(failed).as_py() else None

    def why(self, columns: Mapping[Var, pa.Array]) -> tuple[int, DataError] | None:
        """Of one row, the first expression that fails on it, by its position, and what is wrong."""
        for i, expression in enumerate(self._expressions):
            try:
                Evaluator([expression])(columns, 1)
            except DataError as error:
                return i, error
        return None

    def reads(self, position: int) -> list[Var]:
        """The variables of one of the expressions."""
        return sorted(self._expressions[position].variables)

    def may_fail(self, types: Mapping[Var, DataType]) -> bool:
        """Whether there may be rows, of variables of these types, that an expression has no value for."""
        from everview.sql.fallible import may_fail

        return any(may_fail(e, types) for e in self._expressions)

    def try_out(self, columns: Mapping[Var, pa.Array]) -> None:
        """Raise whatever is wrong with the expressions themselves, given columns without rows."""
        types = {v: columns[v].type for v in self.variables}
        rest = [e for e in self._expressions if _column_expression(e, types) is None]
        if rest:
            _Query(rest, types)(columns, 0)

    def _raw(self, columns: Mapping[Var, pa.Array], length: int) -> list[Any]:
        """The values as whoever computes them gives them."""
        if not length:
            return [pa.array([], arrow_type(e.type)) for e in self._expressions]
        found = self._by_arrow(columns)
        rest = tuple(i for i in range(len(self._expressions)) if i not in found)
        if rest:
            if rest not in self._others:
                types = {v: columns[v].type for v in self.variables}
                self._others[rest] = _Query([self._expressions[i] for i in rest], types)
            found.update(zip(rest, self._others[rest](columns, length), strict=True))
        return [found[i] for i in range(len(self._expressions))]

    def _by_arrow(self, columns: Mapping[Var, pa.Array]) -> dict[int, Any]:
        """The values of those expressions, by their positions, that Arrow can compute and does not fail on."""
        if self._simple is None:
            types = {v: columns[v].type for v in self.variables}
            self._simple = [_column_expression(e, types) for e in self._expressions]
        found: dict[int, Any] = {}
        for i, simple in enumerate(self._simple):
            try:
                if simple is not None:
                    found[i] = simple(columns)
            except pa.ArrowInvalid:  # DuckDB shall say what is wrong with the data
                continue
        return found

    def _failing(self, columns: Mapping[Var, pa.Array], length: int) -> pa.Array:
        """The rows that some expression fails on while it is computed."""
        failed = pa.repeat(False, length)
        if not length:
            return failed
        found = self._by_arrow(columns)
        rest = tuple(i for i in range(len(self._expressions)) if i not in found)
        if not rest:
            return failed
        if rest not in self._tries:
            types = {v: columns[v].type for v in self.variables}
            self._tries[rest] = _Query([self._expressions[i] for i in rest], types, tried=True)
        for array in self._tries[rest](columns, length):
            failed = pc.or_(failed, _as_one(array))
        return failed


def _column_expression(expression: Expression, types: Mapping[Var, pa.DataType]) -> Compiled | None:
    """How Arrow computes an expression; None if it does not mean the same there."""
    term = expression.term
    if isinstance(term, Var):
        return lambda columns: columns[term]
    from everview.sql.column_expressions import column_expression

    found = column_expression(expression, {v: data_type(types[v]) for v in expression.variables})
    return None if found is None else compiled(found)


class _Query:
    """Expressions as a query that DuckDB has planned once: its table is whichever batch is there when it runs.

    A query is run by one thread at a time, which the lock of its database sees to.
    """

    def __init__(
        self, expressions: Sequence[Expression], types: Mapping[Var, pa.DataType], *, tried: bool = False
    ) -> None:
        from everview.sql.duckdb import duckdb_expression

        self._inputs = tuple(sorted(frozenset().union(*(e.variables for e in expressions))))
        names = {v: f"v{i}" for i, v in enumerate(self._inputs)}
        known = {v: data_type(types[v]) for v in self._inputs}
        texts = [f"({duckdb_expression(e, names, known)})" for e in expressions]
        if tried:  # Failures are NULL then, and all else is true or false.
            texts = [f"TRY({text} IS NULL) IS NULL" for text in texts]
        self._tried = tried
        self._text = f"SELECT {', '.join(f'{text} AS e{i}' for i, text in enumerate(texts))} FROM batch"
        self._batch = Batch()
        self._relation: Any = None
        self._model = tuple(expressions), names, known
        self._size: Any = None

    def __call__(self, columns: Mapping[Var, pa.Array], length: int) -> list[Any]:
        names = [f"v{i}" for i in range(len(self._inputs))] or ["nothing"]
        arrays = [with_room(columns[v]) for v in self._inputs] or [pa.nulls(length, pa.int8())]
        import duckdb

        from everview.sql.duckdb_errors import failure

        self._batch.table = pa.table(arrays, names=names)
        try:
            left = bytes_left()
            if left is not None:
                self._check_size(left)
            if self._relation is None:
                self._relation = planned(self._text, self._batch, tried=self._tried)
            found = self._relation.to_arrow_table()
        except duckdb.Error as error:
            self._relation = self._size = None
            raise DataError(f"{FAILED}{failure(error)}") from error
        finally:
            self._batch.table = None
        return list(found.columns)

    def _check_size(self, left: int) -> None:
        """Raise if the texts that are to be made of the batch take more bytes than are left."""
        if self._size is None:
            from everview.sql.sizes import made_bytes

            made = made_bytes(*self._model)
            text = f"SELECT sum({made}) AS made FROM batch"
            self._size = planned(text, self._batch, tried=True) if made else False
        size = self._size.to_arrow_table()["made"][0].as_py() if self._size else None
        if size is not None and size > left:
            raise MemoryLimitError(
                f"expressions of the view would make {int(size):,} bytes of text, and the memory limit leaves {left:,}",
                hint="raise memory_limit, send smaller batches, or make shorter texts",
            )


class Batch:
    """The rows that a query is run on; it speaks Arrow."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None
        return self.table.__arrow_c_stream__(requested_schema)


_databases: dict[bool, Any] = {}
_opening = Lock()


def planned(text: str, batch: Batch, *, tried: bool = False) -> Any:
    """A query over ``batch`` that DuckDB has planned once; all databases share one DuckDB."""
    with _opening:
        if tried not in _databases:
            from everview.sql.duckdb import open_duckdb

            _databases[tried] = open_duckdb(threads=1, tried=tried)
        cursor = _databases[tried].cursor()
    cursor.register("batch", batch)
    return cursor.sql(text)


def with_room(array: pa.Array) -> pa.Array:
    """Decimals with more than 18 digits: DuckDB gives a product of shorter ones 18, and fails beyond.

    They are as few as that: two columns with all the digits there are would lose those behind the point when united.
    Lengths of time are microseconds to DuckDB.
    """
    plain = in_numbers(array.type)
    if plain != array.type:
        return array.cast(plain)
    if pa.types.is_decimal(array.type) and array.type.precision <= NARROW_DIGITS:
        return array.cast(pa.decimal128(NARROW_DIGITS + 1, array.type.scale))
    return array


def _as_one(array: Any) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


def _kept(columns: Mapping[Var, pa.Array], variables: Sequence[Var], mask: pa.Array) -> dict[Var, pa.Array]:
    return {v: columns[v].filter(mask) for v in variables}


def _count(mask: pa.Array) -> int:
    return int(pc.sum(mask).as_py() or 0)


def _spread(array: pa.Array, mask: pa.Array) -> pa.Array:
    """What was computed for the rows that ``mask`` is true for, back at their places; NULL for the others."""
    numbers = pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1)
    return array.take(pc.if_else(mask, numbers, pa.scalar(None, pa.int64())))


def _unfit(array: Any, expression: Expression) -> pa.Array | None:
    """The values that the expression's type does not hold; None if there are none. Halves until it has them."""
    array = _as_one(array)
    found = [False] * len(array)
    waiting = [(0, len(array))]
    while waiting:
        first, stop = waiting.pop()
        try:
            _in_type(array.slice(first, stop - first), expression)
        except DataError:
            middle = (first + stop) // 2
            if stop - first == 1:
                found[first] = True
            else:
                waiting += [(first, middle), (middle, stop)]
    return pa.array(found, pa.bool_()) if any(found) else None


def _in_type(array: Any, expression: Expression) -> pa.Array:
    array = _as_one(array)
    wanted = arrow_type(expression.type)
    if array.type != wanted:
        try:
            array = array.cast(wanted)
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{expression} has a value that is no {expression.type}",
                hint="correct the data, or leave such rows out with WHERE or CASE",
            ) from error
    if expression.term is None and first_beyond(array, expression.type) is not None:
        raise DataError(
            f"{expression} has a value that is no {expression.type}: it holds {YEARS}",
            hint="correct the data, or leave such rows out with WHERE or CASE",
        )
    if expression.term is None and wanted == pa.int64() and pc.min(array).as_py() == NULL:
        raise DataError(
            f"{expression} is {NULL} (-2**63) for a row, which cannot be kept: it stands for NULL",
            hint="compute it as DECIMAL(19, 0), or leave such rows out with WHERE or CASE",
        )
    return array


class Condition:
    """A conjunction of expressions: NULL counts as false."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self.conditions = [Expression(e.parts, BOOLEAN) for e in expressions]
        self._evaluator = Evaluator(self.conditions)
        self._each = [Evaluator([e]) for e in self.conditions]
        self.variables = self._evaluator.variables

    def tried(
        self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None = None
    ) -> tuple[pa.Array, pa.Array | None]:
        """True for the rows that all conditions hold for; and which of those ``among`` it is asked fail, if any."""
        try:
            parts = self._evaluator(columns, length)
        except DataError:
            return self._one_by_one(columns, length, among)
        result = None
        for part in parts:
            known = _known(part)
            result = known if result is None else pc.and_(result, known)
        assert result is not None
        return result, None

    def why(self, columns: Mapping[Var, pa.Array]) -> tuple[Expression, DataError] | None:
        """Of one row, the first condition that fails on it, those before it holding, and what is wrong."""
        for condition, evaluator in zip(self.conditions, self._each, strict=True):
            try:
                (value,) = evaluator(columns, 1)
            except DataError as error:
                return condition, error
            if not value[0].as_py():
                return None
        return None

    def may_fail(self, types: Mapping[Var, DataType]) -> bool:
        """Whether there may be rows that a condition is neither true nor false nor NULL for."""
        return self._evaluator.may_fail(types)

    def _one_by_one(
        self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None
    ) -> tuple[pa.Array, pa.Array | None]:
        """Each condition on the rows that those before it hold for: ``x <> 0 AND 1 / x > 2`` is no error."""
        held = pa.repeat(True, length) if among is None else among
        failed = None
        for evaluator in self._each:
            (part,), more = evaluator.tried(columns, length, held)
            held = pc.and_(held, _known(part))
            failed = either(failed, more)
        return held, failed


def either(one: pa.Array | None, other: pa.Array | None) -> pa.Array | None:
    """Where one or the other is true; None stands for nowhere."""
    if one is None or other is None:
        return other if one is None else one
    return pc.or_(one, other)


def _known(condition: pa.Array) -> pa.Array:
    return condition.fill_null(False) if condition.null_count else condition
