"""Random change feeds, and the bags they lead to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from everview.spark.targets import Batch

Row = tuple[Any, ...]
Change = tuple[Row, str, int]

_TEXTS = ["", " ", "a", "NULL", "\\N", "\\.", '"', "''", "a\"b'c", "line\nline", "\r\n", "a,b", "\t", "ü€😀", "\\x00"]
_DOUBLES = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -1e300, 5e-324, 0.1]
_TIMES = [datetime(1, 1, 1), datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31)]

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "flag": (pa.bool_(), [True, False]),
    "tiny": (pa.int8(), [-128, 0, 127]),
    "small": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    "big": (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, math.nan, math.inf, 0.5, 3.4028234663852886e38]),
    "double": (pa.float64(), _DOUBLES),
    "price": (pa.decimal128(9, 2), [Decimal("0.00"), Decimal("-1234567.89"), Decimal("0.01")]),
    "wide": (pa.decimal128(38, 10), [Decimal("0E-10"), Decimal("1E-10"), Decimal("-9999999999999999999999999999.5")]),
    "the text": (pa.string(), _TEXTS),
    'by"tes': (pa.binary(), [b"", b"\x00", b"\xff\\x", b"text"]),
    "day": (pa.date32(), [date(1, 1, 1), date(1970, 1, 1), date(9999, 12, 31)]),
    "local": (pa.timestamp("us"), _TIMES),
    "instant": (pa.timestamp("us", tz="UTC"), [t.replace(tzinfo=UTC) for t in _TIMES]),
}
SCHEMA = pa.schema([(name, type_) for name, (type_, _) in COLUMNS.items()])
META = [("_change_type", pa.string()), ("_commit_version", pa.int64()), ("_count", pa.int64())]


def one(value: Any) -> Any:
    """A value such that equal values are equal: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def bag(table: pa.Table) -> Counter[Row]:
    """The rows of a table, and how many copies there are of each."""
    columns = [table[name].to_pylist() for name in table.column_names]
    return Counter(tuple(one(v) for v in row) for row in zip(*columns, strict=True))


def chunk(changes: Sequence[Change], version: int, schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    """A chunk of a feed."""
    arrays = [pa.array([row[i] for row, _, _ in changes], f.type) for i, f in enumerate(schema)]
    arrays += [
        pa.array([kind for _, kind, _ in changes], pa.string()),
        pa.array([version] * len(changes), pa.int64()),
        pa.array([count for _, _, count in changes], pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*schema, *META]))


def batch(
    number: int, changes: Sequence[Change], *, schema: pa.Schema = SCHEMA, owner: str = "me", pieces: int = 1
) -> Batch:
    """A batch, its changes in one chunk or several."""

    def chunks() -> Iterator[pa.RecordBatch]:
        for i in range(pieces):
            yield chunk(changes[i::pieces], number, schema)

    return Batch(number, owner, schema, len(changes), chunks)


def ints(number: int, *changes: tuple[int, int], owner: str = "me") -> Batch:
    """A batch of a view with one integer column: (value, copies that come or go)."""
    made = [((value,), "insert" if copies > 0 else "delete", abs(copies)) for value, copies in changes]
    return batch(number, made, schema=INTS, owner=owner)


INTS = pa.schema([("x", pa.int64())])


@st.composite
def histories(draw: st.DrawFn) -> list[list[Change]]:
    """The changes of some batches: each deletes only what is there after the batch's own inserts."""
    values = [st.none() | st.sampled_from(pool) for _, pool in COLUMNS.values()]
    rows = draw(st.lists(st.tuples(*values), min_size=1, max_size=6))
    there: Counter[Row] = Counter()
    made: list[list[Change]] = []
    for _ in range(draw(st.integers(1, 5))):
        changes: list[Change] = []
        for row in draw(st.lists(st.sampled_from(rows), max_size=8)):
            key = tuple(one(v) for v in row)
            if there[key] and draw(st.booleans()):
                count = draw(st.integers(1, there[key]))
                there[key] -= count
                changes.append((row, draw(st.sampled_from(["delete", "update_preimage"])), count))
            else:
                count = draw(st.integers(1, 3))
                there[key] += count
                changes.append((row, draw(st.sampled_from(["insert", "update_postimage"])), count))
        made.append(draw(st.permutations(changes)))
    return made


def result(history: Sequence[Sequence[Change]]) -> Counter[Row]:
    """The bag that a history leads to."""
    there: Counter[Row] = Counter()
    for changes in history:
        for row, kind, count in changes:
            there[tuple(one(v) for v in row)] += count if kind in ("insert", "update_postimage") else -count
    return +there
