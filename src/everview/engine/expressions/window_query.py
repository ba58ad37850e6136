"""Window functions as a query that DuckDB runs on the rows of whole partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import FAILED, Batch, planned
from everview.engine.values.dictionary import NULL
from everview.engine.values.nested import in_numbers
from everview.engine.values.words import arrow_type
from everview.errors import DataError
from everview.query.types import DAY_TIME, DataType, Kind
from everview.query.view import SortKey, WindowCall, Windowed

_PLACE = "place"


class WindowQuery:
    """The window functions of a ``Windowed``, planned by DuckDB once.

    Rows are put in order in a subquery first, once for each order that there is, so that a row has a number which tells
    it apart from others with equal keys.
    """

    def __init__(self, windowed: Windowed) -> None:
        self._windowed = windowed
        self._types = [c.type for c in windowed.body.columns]
        self._orders: list[tuple[SortKey, ...]] = []
        for call in windowed.calls:
            if call.needs_order and call.keys not in self._orders:
                self._orders.append(call.keys)
        wanted = set(windowed.partition)
        wanted |= {a for c in windowed.calls for a in c.arguments} | {k.column for c in windowed.calls for k in c.keys}
        self.reads = sorted(wanted | (set(range(len(self._types))) if self._orders else set()))
        """The columns that it has to be given."""
        self._averages = [c.name == "avg" and not self._is_double(c) for c in windowed.calls]
        self._batch = Batch()
        self._relation: Any = None

    def _is_double(self, call: WindowCall) -> bool:
        return any(self._types[a].kind in (Kind.DOUBLE, Kind.FLOAT) for a in call.arguments)

    def __call__(self, columns: Mapping[int, pa.Array], length: int) -> tuple[pa.Array, list[pa.Array]]:
        """The values of each call, and the places of the rows that they are of."""
        import duckdb

        from everview.sql.duckdb_errors import failure

        arrays = {f"v{i}": _as_number(columns[i]) for i in self.reads} | {_PLACE: pa.array(range(length), pa.int64())}
        self._batch.table = pa.table(arrays)
        try:
            if self._relation is None:
                self._relation = planned(self._text(), self._batch)
            found = self._relation.to_arrow_table().combine_chunks()
        except duckdb.Error as error:
            self._relation = None
            raise DataError(f"{FAILED}{failure(error)}") from error
        finally:
            self._batch.table = None
        values = [self._value(i, found) for i in range(len(self._windowed.calls))]
        return _whole(found[_PLACE]), values

    def _value(self, number: int, found: pa.Table) -> pa.Array:
        call = self._windowed.calls[number]
        array = _whole(found[f"r{number}"])
        if self._averages[number]:
            counts = found[f"n{number}"].to_pylist()
            return pa.array(_means(array.to_pylist(), counts, call.type), arrow_type(call.type))
        try:
            if call.type.kind is Kind.DAY_TIME:
                array = array.cast(pa.int64())
            array = array.cast(arrow_type(call.type))
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{FAILED}window function {call.shown(self._names)} leaves {call.type}",
                hint="CAST its argument to a wider type, or leave such rows out",
            ) from error
        if array.type in (pa.int64(), arrow_type(DAY_TIME)) and pc.min(array.view(pa.int64())).as_py() == NULL:
            raise DataError(f"{FAILED}window function {call.shown(self._names)} gives {NULL}, which stands for NULL")
        return array

    @property
    def _names(self) -> list[str]:
        return [c.name for c in self._windowed.body.columns]

    def _text(self) -> str:
        by = ", ".join(f"v{p}" for p in self._windowed.partition)
        partition = f"PARTITION BY {by}" if by else ""
        numbers = [
            f"row_number() OVER ({partition} {self._order_by(keys, all_columns=True)}) AS o{i}"
            for i, keys in enumerate(self._orders)
        ]
        outputs = [_PLACE]
        for i, call in enumerate(self._windowed.calls):
            number = f"o{self._orders.index(call.keys)}" if call.needs_order else ""
            order = f"ORDER BY {number}" if call.by_place else self._order_by(call.keys)
            window = f"OVER ({partition} {order} {call.frame})"
            text = call.text.format(*(f"v{a}" for a in call.arguments), order=f"ORDER BY {number}")
            if self._averages[i]:
                outputs.append(f"count{text.removeprefix('avg')} {window} AS n{i}")
                text = f"sum{text.removeprefix('avg')}"
            outputs.append(f"{text} {window} AS r{i}")
        inner = f"(SELECT {', '.join(['*', *numbers])} FROM batch)"
        found = f"SELECT {', '.join(outputs)} FROM {inner}"
        read = [f"{c.reading.format(f'r{i}')} AS r{i}" for i, c in enumerate(self._windowed.calls) if c.reading]
        return f"SELECT * REPLACE ({', '.join(read)}) FROM ({found})" if read else found

    def _order_by(self, keys: Sequence[SortKey], *, all_columns: bool = False) -> str:
        listed = [
            f"v{k.column} {'DESC' if k.descending else 'ASC'} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
            for k in keys
        ]
        if all_columns:
            known = {k.column for k in keys}
            listed += [f"v{i} ASC NULLS FIRST" for i in range(len(self._types)) if i not in known]
        return f"ORDER BY {', '.join(listed)}" if listed else ""


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _as_number(array: pa.Array) -> pa.Array:
    """Lengths of time are microseconds to DuckDB."""
    plain = in_numbers(array.type)
    return array if plain == array.type else array.cast(plain)


def _means(sums: list[Any], counts: list[int], type_: DataType) -> list[Any]:
    """Sums by counts, rounded once; NULL of no values."""
    from everview.engine.operators.aggregates.accumulators import rounded, rounded_share

    found: list[Any] = []
    for total, count in zip(sums, counts, strict=True):
        if not count:
            found.append(None)
        elif type_.kind is Kind.DECIMAL:
            found.append(rounded(Fraction(total if isinstance(total, Decimal) else int(total)) / count, type_.scale))
        elif type_.kind is Kind.DAY_TIME:
            found.append(rounded_share(int(total), count))
        else:
            found.append(int(total) / count)
    return found
