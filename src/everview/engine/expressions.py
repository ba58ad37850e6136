"""Row expressions on Arrow batches, evaluated by DuckDB (never by us)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from everview.engine.words import arrow_type
from everview.errors import DataError
from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN


class Evaluator:
    """Some expressions over the same variables, compiled once and run on batch after batch."""

    _connection: Any = None

    def __init__(self, expressions: Sequence[Expression]) -> None:
        from everview.sql.duckdb import duckdb_expression

        self._expressions = tuple(expressions)
        self.variables = tuple(sorted(frozenset().union(*(e.variables for e in expressions))))
        self._computed = [e for e in self._expressions if not isinstance(e.term, Var)]
        self._inputs = tuple(sorted(frozenset().union(*(e.variables for e in self._computed))))
        names = {v: f"v{i}" for i, v in enumerate(self._inputs)}
        texts = [f"({duckdb_expression(e, names)}) AS e{i}" for i, e in enumerate(self._computed)]
        self._query = f"SELECT {', '.join(texts)} FROM batch"

    @classmethod
    def _database(cls) -> Any:
        if cls._connection is None:
            import duckdb

            cls._connection = duckdb.connect()
            cls._connection.execute("SET threads = 1")
            cls._connection.execute("SET TimeZone = 'UTC'")
        return cls._connection.cursor()

    def __call__(self, columns: Mapping[Var, pa.Array], length: int) -> list[pa.Array]:
        """The value of each expression for each row, in the type that the expression has; DuckDB only computes."""
        computed = iter(self._compute(columns, length) if self._computed else ())
        found = [columns[e.term] if isinstance(e.term, Var) else next(computed) for e in self._expressions]
        return [_in_type(array, e) for array, e in zip(found, self._expressions, strict=True)]

    def _compute(self, columns: Mapping[Var, pa.Array], length: int) -> list[Any]:
        if not length:
            return [pa.array([], arrow_type(e.type)) for e in self._computed]
        names = [f"v{i}" for i in range(len(self._inputs))] or ["nothing"]
        arrays = [columns[v] for v in self._inputs] or [pa.nulls(length, pa.int8())]
        batch = pa.table(arrays, names=names)
        import duckdb

        try:
            cursor = self._database()
            cursor.register("batch", batch)
            found = cursor.sql(self._query).to_arrow_table()
        except duckdb.Error as error:
            raise DataError(f"an expression of the view failed on the data: {error}") from error
        return [found.column(i).combine_chunks() for i in range(len(self._computed))]


def _in_type(array: Any, expression: Expression) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    wanted = arrow_type(expression.type)
    return array if array.type == wanted else array.cast(wanted)


class Condition:
    """A conjunction of expressions: NULL counts as false."""

    def __init__(self, expressions: Sequence[Expression]) -> None:
        self._evaluator = Evaluator([Expression(e.parts, BOOLEAN) for e in expressions])
        self.variables = self._evaluator.variables

    def __call__(self, columns: Mapping[Var, pa.Array], length: int) -> pa.Array:
        """True for the rows that all conditions hold for."""
        import pyarrow.compute as pc

        result = None
        for part in self._evaluator(columns, length):
            known = part.fill_null(False)
            result = known if result is None else pc.and_(result, known)
        assert result is not None
        return result
