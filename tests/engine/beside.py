"""The database of another engine that random cases are run on beside Everview."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import duckdb
import pyarrow as pa

from tests.engine.case_data import Row, TableDef
from tests.engine.judging import prepare

_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "SMALLINT": pa.int16(),
    "TINYINT": pa.int8(),
    "FLOAT": pa.float32(),
    "BINARY": pa.binary(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "DECIMAL(6,2)": pa.decimal128(6, 2),
    "DECIMAL(22,3)": pa.decimal128(22, 3),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BOOLEAN": pa.bool_(),
    "ARRAY<INT>": pa.list_(pa.int32()),
    "STRUCT<x: INT, y: STRING>": pa.struct([("x", pa.int32()), ("y", pa.string())]),
    "MAP<STRING, INT>": pa.map_(pa.string(), pa.int32()),
}


@cache
def connection() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("SET threads = 1")
    found.execute("SET memory_limit = '1GB'")  # a join that needs more is not checked, rather than all memory used
    found.execute("SET temp_directory = ''")
    found.execute("SET TimeZone = 'UTC'")
    prepare(found)
    return found


def as_arrow(table: TableDef, rows: Sequence[Row]) -> pa.Table:
    """Rows of a table, as DuckDB reads them."""
    arrays = [pa.array([row[i] for row in rows], _ARROW[c.type]) for i, c in enumerate(table.columns)]
    return pa.table(arrays, names=[c.name for c in table.columns])
