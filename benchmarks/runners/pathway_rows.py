"""A log's rows as Pathway takes them, and Pathway's as the view's.

What is no string is an integer: dates are days, timestamps microseconds, decimals their digits.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from benchmarks.data.log import BEFORE
from benchmarks.runners.rows import rows_alike


def field(name: str) -> str:
    """A column's name in Pathway, which keeps ``id`` for the rows' keys."""
    return "id_" if name == "id" else name


def frame(rows: pa.Table, columns: list[str], ends: list[int]) -> pd.DataFrame:
    """A table's changes as Pathway takes them, a time for each batch, of which ``ends`` says where they end."""
    keys = rows_alike(rows)
    made = pd.DataFrame({field(name): plain(rows.column(name)) for name in columns}, index=keys)
    at = rows.column("_at").to_numpy()
    made["__time__"] = np.where(at == BEFORE, 0, 2 * (1 + np.searchsorted(ends, at, side="right")))
    made["__diff__"] = rows.column("_weight").to_numpy().astype(np.int64)
    return made


def plain(column: pa.ChunkedArray) -> Any:
    """Integers (dates in days, timestamps in microseconds, decimals by their digits) or strings; None where NULL."""
    type_ = column.type
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return column.to_pandas().astype(object).to_numpy()
    if pa.types.is_decimal(type_):
        column = [None if v is None else int(v.scaleb(type_.scale)) for v in column.to_pylist()]
        return np.array(column, dtype=object if None in column else np.int64)
    if pa.types.is_date(type_):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(type_):
        column = column.cast(pa.timestamp("us"))
    column = column.cast(pa.int64())
    return np.array(column.to_pylist(), dtype=object) if column.null_count else column.to_numpy()


def as_declared(values: tuple[Any, ...], type_: pa.DataType, scale: int | None) -> pa.Array:
    """Values of Pathway as a column of the view's type."""
    if pa.types.is_decimal(type_):
        return pa.array([None if v is None else Decimal(v).scaleb(-(scale or 0)) for v in values], type_)
    if pa.types.is_date(type_):
        return pa.array(values, pa.int32()).cast(type_)
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)
