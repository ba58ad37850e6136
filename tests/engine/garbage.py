"""Data as nobody should send it: wrong shapes and types, odd Arrow layouts, objects that misbehave; and good rows."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa

COLUMNS = ("k", "n", "s", "d", "m", "b", "day", "ts")
TYPES: dict[str, pa.DataType] = {
    "k": pa.int64(),
    "n": pa.int64(),
    "s": pa.string(),
    "d": pa.float64(),
    "m": pa.decimal128(30, 4),
    "b": pa.binary(),
    "day": pa.date32(),
    "ts": pa.timestamp("us", tz="UTC"),
}
TABLE = """(k BIGINT {key}, n BIGINT, s STRING, d DOUBLE, m DECIMAL(30, 4), b BINARY, day DATE, ts TIMESTAMP)"""
KINDS = ["insert", "delete", "update_preimage", "update_postimage"]


class Nasty:
    """An object whose every method fails."""

    def _fail(self, *_: Any) -> Any:
        raise RuntimeError("no")

    __repr__ = __str__ = __eq__ = __len__ = __iter__ = __getitem__ = __int__ = __float__ = __index__ = _fail
    __hash__ = object.__hash__


class NastyMapping(dict[Any, Any]):
    """A dict that has keys and no values."""

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)


class NastyRow(tuple[Any, ...]):
    """A row that lies about its length."""

    __slots__ = ()

    def __len__(self) -> int:
        return len(COLUMNS)


class NastyStream:
    """Speaks Arrow, and then fails."""

    def __arrow_c_stream__(self, schema: object = None) -> object:
        raise OSError("the stream broke")


class NastyArray:
    """Speaks Arrow, and gives something else."""

    def __arrow_c_array__(self, schema: object = None) -> object:
        return 1, 2


Value = Callable[[random.Random], Any]
GOOD: dict[str, Value] = {
    "k": lambda r: r.randrange(30),
    "n": lambda r: r.choice([None, 0, 1, -5, 10**18, 4 * 10**18, -4 * 10**18]),
    "s": lambda r: r.choice([None, "", "a", "ü", "12", "x" * 200, f"s{r.randrange(50)}"]),
    "d": lambda r: r.choice([None, 0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308, 5e-324]),
    "m": lambda r: r.choice([None, Decimal("1.5"), Decimal(10) ** 25, Decimal("-0.0001"), 7]),
    "b": lambda r: r.choice([None, b"", b"\xff\x00", b"b" * 100]),
    "day": lambda r: r.choice([None, dt.date(2020, 2, 29), dt.date.min, dt.date.max]),
    "ts": lambda r: r.choice([None, dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1, tzinfo=dt.UTC)]),
}
BAD: list[Value] = [
    lambda r: 2 ** r.randrange(60, 70) - r.randrange(2),
    lambda r: -(2**63),
    lambda r: 10**5_000,
    lambda r: r.choice([True, 1.0, float("nan"), 1j, Fraction(1, 3), Decimal("NaN"), Decimal("1E+999")]),
    lambda r: r.choice(["\ud800", "a\udfffb", "\0", b"\xff", bytearray(b"x"), memoryview(b"x")]),
    lambda r: r.choice([[], {}, [1], {"a": 1}, (1, 2), {1}, frozenset(), range(3), ..., NotImplemented]),
    lambda r: r.choice([object(), int, len, Nasty(), NastyMapping(a=1), pa.scalar(1), pa.array([1])]),
    lambda r: r.choice(
        [dt.time(1), dt.timedelta(1), dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=14)))]
    ),
]


def good_row(r: random.Random) -> list[Any]:
    return [GOOD[c](r) for c in COLUMNS]


def row(r: random.Random, badness: float) -> Any:
    cells = good_row(r)
    if r.random() < badness:
        cells[r.randrange(len(cells))] = r.choice(BAD)(r)
    if r.random() < badness / 4:
        cells = cells[: r.randrange(len(cells))] if r.random() < 0.5 else [*cells, 1]
    if r.random() < badness / 8:
        return r.choice(BAD)(r)
    return NastyRow(cells[:3]) if r.random() < badness / 20 else tuple(cells)


def rows(r: random.Random) -> list[Any]:
    badness = r.choice([0.0, 0.02, 0.3])
    return [row(r, badness) for _ in range(r.choice([0, 1, 2, 10, 40]))]


def dicts(r: random.Random) -> list[Any]:
    found: list[Any] = []
    for cells in rows(r):
        if not isinstance(cells, tuple):
            found.append(cells)
            continue
        names: list[Any] = [r.choice([c, c.upper()]) for c in COLUMNS]
        if r.random() < 0.05:
            names[r.randrange(len(names))] = r.choice(["zz", 1, None, "K", "\ud800", "_count", Nasty()])
        made = dict(zip(names, cells, strict=False))
        found.append(NastyMapping(made) if r.random() < 0.02 else made)
    return found


def broken_generator(r: random.Random) -> Iterator[Any]:
    stop = r.randrange(5)
    for i in range(10):
        if i == stop:
            raise r.choice([ValueError("gone"), RuntimeError("gone"), OSError("gone"), StopAsyncIteration()])
        yield tuple(good_row(r))


# --- Arrow -----------------------------------------------------------------------------------------------------------


def odd(r: random.Random, array: pa.Array) -> Any:
    """The same values, laid out differently."""
    kind = r.randrange(9)
    if kind == 0:
        return pa.concat_arrays([array[:1], array, array[:1]]).slice(1, len(array)) if len(array) else array
    if kind == 1:
        cuts = sorted(r.randrange(len(array) + 1) for _ in range(3))
        return pa.chunked_array([array[a:b] for a, b in zip([0, *cuts], [*cuts, len(array)], strict=True)], array.type)
    if kind == 2:
        return array.dictionary_encode()
    if kind == 3 and pa.types.is_string(array.type):
        return array.cast(r.choice([pa.large_string(), pa.string_view()]))
    if kind == 4 and pa.types.is_binary(array.type):
        return array.cast(r.choice([pa.large_binary(), pa.binary_view()]))
    if kind == 5 and pa.types.is_integer(array.type):
        return array.cast(r.choice([pa.float64(), pa.float16(), pa.int8(), pa.uint64()]), safe=False)
    if kind == 6:
        return pa.nulls(len(array), r.choice([pa.null(), array.type, pa.list_(pa.int8())]))
    if kind == 7 and r.random() < 0.2:
        return pa.array([{"a": [i]} for i in range(len(array))], pa.struct([("a", pa.list_(pa.int64()))]))
    if kind == 8 and r.random() < 0.2 and len(array):
        return pa.RunEndEncodedArray.from_arrays(pa.array([len(array)], pa.int32()), array[:1])
    return array


def invalid(r: random.Random, size: int) -> Any:
    """Arrays that break Arrow's own rules."""
    if r.random() < 0.5:
        middle = [r.randrange(-3, 9) for _ in range(size - 1)]
        offsets = pa.array([0, *middle, 5][: size + 1], pa.int32()).buffers()[1]
        return pa.Array.from_buffers(pa.string(), size, [None, offsets, pa.py_buffer(b"a\xff\xfebc")])
    indices = pa.array([r.randrange(-2, 4) for _ in range(size)], pa.int32())
    return pa.DictionaryArray.from_arrays(indices, pa.array(["x", "y"]), safe=False)


def arrow(r: random.Random) -> Any:
    size = r.choice([0, 1, 3, 50])
    arrays: list[Any] = []
    names = list(COLUMNS)
    for name in names:
        values = [GOOD[name](r) for _ in range(size)]
        arrays.append(odd(r, pa.array(values, TYPES[name])))
    if r.random() < 0.1:
        arrays[r.randrange(len(arrays))] = invalid(r, size)
    if r.random() < 0.1:
        names[r.randrange(len(names))] = r.choice(["zz", "K", ""])
    if r.random() < 0.2:
        keep = r.sample(range(len(names)), r.randrange(1, len(names)))
        arrays, names = [arrays[i] for i in keep], [names[i] for i in keep]
    table = pa.table(arrays, names=names)
    shape = r.randrange(5)
    if shape == 0:
        return table.to_reader(max_chunksize=7)
    if shape == 1:
        return table.to_batches()
    if shape == 2 and len(table) > 2:
        return table.slice(1, len(table) - 2)
    return table


def with_kinds(r: random.Random, data: Any) -> Any:
    """The same data with a column of change types, now and then wrong ones."""
    if isinstance(data, pa.Table):
        bad = r.random() < 0.2
        kinds = [
            r.choice([*KINDS, "x", None] if bad else KINDS[:1] if r.random() < 0.8 else KINDS) for _ in range(len(data))
        ]
        data = data.append_column("_change_type", odd(r, pa.array(kinds, pa.string())))
        if r.random() < 0.3:
            counts = [
                r.choice([1, 2, 3]) if r.random() < 0.98 else r.choice([0, -1, 2**63 - 1]) for _ in range(len(data))
            ]
            data = data.append_column("_count", odd(r, pa.array(counts, pa.int64())))
        return data
    if isinstance(data, list):
        kind = r.choice([*KINDS, "insert", "insert", "oops", None])
        found = []
        for row in data:
            if type(row) is tuple:
                row = (*row, kind)
            elif type(row) is dict:
                row = {**row, "_change_type": kind}
            found.append(row)
        return found
    return data


def pandas_frame(r: random.Random) -> Any:
    try:
        import pandas
    except ImportError:
        return rows(r)
    made = [row(r, 0.1) for _ in range(r.choice([0, 2, 20]))]
    frame = pandas.DataFrame([m for m in made if type(m) is tuple and len(m) == len(COLUMNS)], columns=list(COLUMNS))
    return r.choice([frame, frame["k"], frame.set_index("k"), frame[::-1], frame.astype({"s": "category"})])


def nonsense(r: random.Random) -> Any:
    return r.choice(
        [
            None,
            5,
            "abc",
            b"abc",
            {},
            {"k": [1]},
            (1, 2),
            [[]],
            [()],
            [None],
            [[], {}],
            pa.array([1]),
            pa.scalar(1),
            pa.table({}),
            Nasty(),
            [Nasty()],
            [NastyMapping()],
            NastyStream(),
            NastyArray(),
            range(3),
            iter([5]),
            object,
            [[1] * 8, {"k": 1}],
        ]
    )


def data(r: random.Random) -> Any:
    """Something for insert, delete, apply or upsert."""
    return r.choice([rows, rows, dicts, dicts, arrow, arrow, arrow, broken_generator, pandas_frame, nonsense])(r)
