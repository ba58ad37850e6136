"""Row expressions on Arrow batches: simple ones are computed by Arrow, all others by DuckDB (never by us)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.calendar import YEARS, first_beyond
from everview.engine.dictionary import NULL
from everview.engine.formulas import Compiled, compiled
from everview.engine.words import NARROW_DIGITS, arrow_type, data_type
from everview.errors import DataError
from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN, MOST_DIGITS, DataType


class Evaluator:
    """Some expressions over the same variables, compiled once and run on batch after batch."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._expressions = tuple(expressions)
        self.variables = tuple(sorted(frozenset().union(*(e.variables for e in expressions))))
        self._simple: list[Compiled | None] | None = None
        self._others: dict[tuple[int, ...], _Query] = {}

    def __call__(self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None = None) -> list[pa.Array]:
        """The value of each expression for each row, in the type that the expression has.

        Only the rows ``among`` which it is asked must not fail; if others do, they have NULL.
        """
        try:
            return self._values(columns, length)
        except DataError:
            if among is None or pc.all(among).as_py():
                raise
        kept = {v: columns[v].filter(among) for v in self.variables}
        numbers = pc.subtract(pc.cumulative_sum(among.cast(pa.int64())), 1)
        places = pc.if_else(among, numbers, pa.scalar(None, pa.int64()))
        return [found.take(places) for found in self._values(kept, pc.sum(among).as_py())]

    def may_fail(self, types: Mapping[Var, DataType]) -> bool:
        """Whether there may be rows, of variables of these types, that an expression has no value for."""
        from everview.sql.fallible import may_fail

        return any(may_fail(e, types) for e in self._expressions)

    def try_out(self, columns: Mapping[Var, pa.Array]) -> None:
        """Raise whatever is wrong with the expressions themselves, given columns without rows."""
        types = {v: columns[v].type for v in self.variables}
        rest = [e for e in self._expressions if _formula(e, types) is None]
        if rest:
            _Query(rest, types)(columns, 0)

    def _values(self, columns: Mapping[Var, pa.Array], length: int) -> list[pa.Array]:
        if not length:
            return [pa.array([], arrow_type(e.type)) for e in self._expressions]
        if self._simple is None:
            types = {v: columns[v].type for v in self.variables}
            self._simple = [_formula(e, types) for e in self._expressions]
        found: dict[int, Any] = {}
        for i, simple in enumerate(self._simple):
            try:
                if simple is not None:
                    found[i] = simple(columns)
            except pa.ArrowInvalid:  # DuckDB shall say what is wrong with the data
                continue
        rest = tuple(i for i in range(len(self._expressions)) if i not in found)
        if rest:
            if rest not in self._others:
                types = {v: columns[v].type for v in self.variables}
                self._others[rest] = _Query([self._expressions[i] for i in rest], types)
            found.update(zip(rest, self._others[rest](columns, length), strict=True))
        return [_in_type(found[i], e) for i, e in enumerate(self._expressions)]


def _formula(expression: Expression, types: Mapping[Var, pa.DataType]) -> Compiled | None:
    """How Arrow computes an expression; None if it does not mean the same there."""
    term = expression.term
    if isinstance(term, Var):
        return lambda columns: columns[term]
    from everview.sql.formula import formula

    found = formula(expression, {v: data_type(types[v]) for v in expression.variables})
    return None if found is None else compiled(found)


class _Query:
    """Expressions as a query that DuckDB has planned once: its table is whichever batch is there when it runs.

    A query is run by one thread at a time, which the lock of its database sees to; all databases share one DuckDB.
    """

    _database: Any = None
    _opening = Lock()

    def __init__(self, expressions: Sequence[Expression], types: Mapping[Var, pa.DataType]) -> None:
        from everview.sql.duckdb import duckdb_expression

        self._inputs = tuple(sorted(frozenset().union(*(e.variables for e in expressions))))
        names = {v: f"v{i}" for i, v in enumerate(self._inputs)}
        known = {v: data_type(types[v]) for v in self._inputs}
        texts = [f"({duckdb_expression(e, names, known)}) AS e{i}" for i, e in enumerate(expressions)]
        self._text = f"SELECT {', '.join(texts)} FROM batch"
        self._batch = _Batch()
        self._relation: Any = None

    def __call__(self, columns: Mapping[Var, pa.Array], length: int) -> list[Any]:
        names = [f"v{i}" for i in range(len(self._inputs))] or ["nothing"]
        arrays = [with_room(columns[v]) for v in self._inputs] or [pa.nulls(length, pa.int8())]
        import duckdb

        from everview.sql.duckdb_errors import failure

        self._batch.table = pa.table(arrays, names=names)
        try:
            if self._relation is None:
                self._relation = self._planned()
            found = self._relation.to_arrow_table()
        except duckdb.Error as error:
            self._relation = None
            raise DataError(f"an expression of the view failed on the data: {failure(error)}") from error
        finally:
            self._batch.table = None
        return list(found.columns)

    def _planned(self) -> Any:
        with _Query._opening:
            if _Query._database is None:
                from everview.sql.duckdb import open_duckdb

                _Query._database = open_duckdb(threads=1)
            cursor = _Query._database.cursor()
        cursor.register("batch", self._batch)
        return cursor.sql(self._text)


class _Batch:
    """The rows that a query is run on; it speaks Arrow."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self.table is not None
        return self.table.__arrow_c_stream__(requested_schema)


def with_room(array: pa.Array) -> pa.Array:
    """Decimals with all the digits there are: DuckDB gives a product of short ones 18 digits, and fails beyond."""
    if pa.types.is_decimal(array.type) and array.type.precision <= NARROW_DIGITS:
        return array.cast(pa.decimal128(MOST_DIGITS, array.type.scale))
    return array


def _in_type(array: Any, expression: Expression) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks == 1 else array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    wanted = arrow_type(expression.type)
    if array.type != wanted:
        try:
            array = array.cast(wanted)
        except pa.ArrowInvalid as error:
            raise DataError(f"{expression} has a value that is no {expression.type}: {error}") from error
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
        self._conditions = [Expression(e.parts, BOOLEAN) for e in expressions]
        self._evaluator = Evaluator(self._conditions)
        self._each = [Evaluator([e]) for e in self._conditions]
        self.variables = self._evaluator.variables

    def __call__(self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None = None) -> pa.Array:
        """True for the rows that all conditions hold for; only those ``among`` which it is asked must not fail."""
        try:
            parts = self._evaluator(columns, length)
        except DataError:
            return self._one_by_one(columns, length, among)
        result = None
        for part in parts:
            known = _known(part)
            result = known if result is None else pc.and_(result, known)
        assert result is not None
        return result

    def may_fail(self, types: Mapping[Var, DataType]) -> bool:
        """Whether there may be rows that a condition is neither true nor false nor NULL for."""
        return self._evaluator.may_fail(types)

    def _one_by_one(self, columns: Mapping[Var, pa.Array], length: int, among: pa.Array | None) -> pa.Array:
        """Each condition on the rows that those before it hold for: ``x <> 0 AND 1 / x > 2`` is no error."""
        held = pa.repeat(True, length) if among is None else among
        for evaluator in self._each:
            (part,) = evaluator(columns, length, held)
            held = pc.and_(held, _known(part))
        return held


def _known(condition: pa.Array) -> pa.Array:
    return condition.fill_null(False) if condition.null_count else condition
