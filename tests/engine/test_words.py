"""Words are the values: the way there and back is the identity, and equal words are equal values."""

from __future__ import annotations

import math
import struct
from collections import Counter
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from everview.engine.values.dictionary import NULL, UNKNOWN, Dictionary
from everview.engine.values.nested import nested_array, nested_bytes
from everview.engine.values.words import arrow_type, data_type, from_words, is_wide, to_words
from everview.errors import ValueTypeError
from everview.query.types import ANY, DAY_TIME, INTERVAL, STRING, DataType, Kind, array_of, decimal, map_of, struct_of

INTEGERS = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
NESTED = (Kind.ARRAY, Kind.STRUCT, Kind.MAP)
TYPES = [DataType(k) for k in Kind if k not in (Kind.DECIMAL, Kind.INTERVAL, Kind.DAY_TIME, Kind.ANY, *NESTED)]
TYPES += [decimal(p, s) for p, s in ((1, 0), (5, 2), (18, 0), (18, 18), (19, 3), (38, 0), (38, 38))]

TYPES += [
    DAY_TIME,
    array_of(DAY_TIME),
    *(array_of(DataType(k)) for k in (Kind.BOOLEAN, Kind.FLOAT, Kind.STRING, Kind.TIMESTAMP, Kind.NULL)),
    struct_of([("f", DataType(Kind.INT)), ("g h", DataType(Kind.STRING)), ("d", decimal(20, 2))]),
    map_of(DataType(Kind.STRING), DataType(Kind.DOUBLE)),
    map_of(DataType(Kind.DOUBLE), array_of(DataType(Kind.BOOLEAN))),
    array_of(struct_of([("a", array_of(DataType(Kind.DATE))), ("m", map_of(DataType(Kind.INT), STRING))])),
]


def values(type_: DataType) -> st.SearchStrategy[Any]:
    """Python values of a type, biased towards those that make trouble."""
    if type_.kind in INTEGERS:
        half = 2 ** (INTEGERS[type_.kind] - 1)
        low = -half + (type_.kind is Kind.BIGINT)
        return st.integers(low, half - 1) | st.sampled_from([low, -1, 0, 1, half - 1])
    if type_.kind is Kind.DECIMAL:
        top = 10**type_.precision - 1
        return st.integers(-top, top).map(lambda n: Decimal(f"{n}E-{type_.scale}"))
    if type_.kind is Kind.ARRAY:
        return st.lists(st.none() | values(type_.element), max_size=4)
    if type_.kind is Kind.STRUCT:
        parts = zip(type_.names, type_.parts, strict=True)
        return st.fixed_dictionaries({name: st.none() | values(part) for name, part in parts})
    if type_.kind is Kind.MAP:
        entries = st.tuples(values(type_.parts[0]), st.none() | values(type_.parts[1]))
        return st.lists(entries, max_size=4, unique_by=lambda e: canonical(e[0]))
    return {
        Kind.BOOLEAN: st.booleans(),
        Kind.FLOAT: st.floats(width=32) | st.sampled_from([0.0, -0.0, math.nan]),
        Kind.DOUBLE: st.floats() | st.sampled_from([0.0, -0.0, math.nan, -math.nan]),
        Kind.STRING: st.text(max_size=5),
        Kind.BINARY: st.binary(max_size=5),
        Kind.DATE: st.dates(),
        Kind.TIMESTAMP: st.datetimes(),
        Kind.TIMESTAMP_NTZ: st.datetimes(),
        Kind.DAY_TIME: st.timedeltas(timedelta(days=-100_000_000), timedelta(days=100_000_000)),
        Kind.NULL: st.none(),
    }[type_.kind]


def arrays(type_: DataType) -> st.SearchStrategy[pa.Array]:
    lists = st.lists(st.none() | values(type_), max_size=12)
    plain = lists.map(lambda v: pa.array(v, arrow_type(type_)))
    return st.tuples(plain, st.integers(0, 4)).map(lambda pair: pair[0][pair[1] :])


def canonical(value: Any) -> Any:
    """What SQL groups by: one NaN, one zero."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((k, canonical(v)) for k, v in value.items())
    if isinstance(value, list):
        whole = [canonical(v) for v in value]
        return frozenset(whole) if value and isinstance(value[0], tuple) else tuple(whole)  # a map's entries
    return tuple(map(canonical, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(data=st.data())
def test_there_and_back(type_: DataType, data: st.DataObject) -> None:
    array = data.draw(arrays(type_))
    dictionary = Dictionary()
    words = to_words(array, type_, dictionary)
    assert words.type == pa.int64()
    assert words.null_count == 0
    assert [w == NULL for w in words.to_pylist()] == [v is None for v in array.to_pylist()]
    back = from_words(words, type_, dictionary)
    back.validate(full=True)
    assert back.type == array.type
    assert list(map(canonical, back.to_pylist())) == list(map(canonical, array.to_pylist()))
    assert to_words(back, type_, dictionary).equals(words)
    assert (len(dictionary) > 0) == (is_wide(type_) and array.null_count < len(array))


@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(data=st.data())
def test_words_are_equal_when_values_are(type_: DataType, data: st.DataObject) -> None:
    array = data.draw(arrays(type_))
    words = to_words(array, type_, Dictionary()).to_pylist()
    for v, w in zip(map(canonical, array.to_pylist()), words, strict=True):
        for v2, w2 in zip(map(canonical, array.to_pylist()), words, strict=True):
            assert (v == v2) == (w == w2)


def in_order(value: Any) -> Any:
    """What values are compared by: NULL first, NaN last, a shorter array before a longer one that begins like it."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        value = list(value.values())
    return (1, tuple(map(in_order, value)) if isinstance(value, list) else value)


@pytest.mark.parametrize("type_", [t for t in TYPES if t.is_nested and t.has_order], ids=str)
@given(data=st.data())
def test_bytes_of_nested_values_have_their_order(type_: DataType, data: st.DataObject) -> None:
    found = pa.array(data.draw(st.lists(values(type_), max_size=8)), arrow_type(type_))
    stored = nested_bytes(found).to_pylist()
    shown = [in_order(v) for v in found.to_pylist()]
    for a, a_bytes in zip(shown, stored, strict=True):
        for b, b_bytes in zip(shown, stored, strict=True):
            assert (a < b) == (a_bytes < b_bytes)


@given(st.sampled_from([t for t in TYPES if t.is_nested]), st.binary(max_size=30))
def test_bytes_that_are_no_value_are_refused(type_: DataType, stored: bytes) -> None:
    try:
        found = nested_array(pa.array([stored]), arrow_type(type_))
    except ValueError:
        return
    found.validate()


def test_a_map_has_each_key_once() -> None:
    type_ = map_of(DataType(Kind.DOUBLE), STRING)
    dictionary = Dictionary()
    one, other = (pa.array([v], arrow_type(type_)) for v in ([(1.0, "a"), (0.0, "b")], [(-0.0, "b"), (1.0, "a")]))
    assert to_words(one, type_, dictionary).equals(to_words(other, type_, dictionary))
    with pytest.raises(ValueError, match="a key twice"):
        to_words(pa.array([[(0.0, "a"), (-0.0, "b")]], arrow_type(type_)), type_, dictionary)


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_any_bits_of_a_double(bits: list[int]) -> None:
    doubles = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in [*bits, 2**63, 2**64 - 1, 0x7FF0000000000001]]
    array = pa.array(pa.array([*bits, 2**63, 2**64 - 1, 0x7FF0000000000001], pa.uint64()).view(pa.float64()))
    words = to_words(array, DataType(Kind.DOUBLE), Dictionary()).to_pylist()
    assert NULL not in words
    assert len({w for w, d in zip(words, doubles, strict=True) if math.isnan(d)}) == 1
    back = from_words(pa.array(words), DataType(Kind.DOUBLE), Dictionary()).to_pylist()
    assert list(map(canonical, back)) == list(map(canonical, doubles))


def test_a_float_and_the_same_double_are_one_word() -> None:
    single = to_words(pa.array([0.1, -0.0], pa.float32()), DataType(Kind.FLOAT), Dictionary())
    double = to_words(pa.array([0.1, -0.0], pa.float32()).cast(pa.float64()), DataType(Kind.DOUBLE), Dictionary())
    assert single.equals(double)


def test_words_of_fixed_width() -> None:
    dictionary = Dictionary()

    def words(value: object, type_: DataType) -> int:
        return int(to_words(pa.array([value], arrow_type(type_)), type_, dictionary)[0].as_py())

    assert words(True, DataType(Kind.BOOLEAN)) == 1
    assert words(date(1970, 1, 3), DataType(Kind.DATE)) == 2
    assert words(datetime(1970, 1, 1, 0, 0, 1), DataType(Kind.TIMESTAMP)) == 1_000_000
    assert words(Decimal("-1.5"), decimal(18, 2)) == -150
    assert len(dictionary) == 0


def test_memory_is_shared_where_words_are_the_values() -> None:
    array = pa.array([1, 2, 3])
    words = to_words(array, DataType(Kind.BIGINT), Dictionary())
    back = from_words(words, DataType(Kind.TIMESTAMP), Dictionary())
    assert back.buffers()[1].address == array.buffers()[1].address


def test_arrow_types_and_back() -> None:
    for type_ in TYPES:
        assert data_type(arrow_type(type_)) == type_
    for type_ in (ANY, INTERVAL):
        with pytest.raises(ValueTypeError, match="cannot be stored"):
            arrow_type(type_)
    with pytest.raises(ValueTypeError, match="no type for Arrow's large_list"):
        data_type(pa.large_list(pa.int64()))
    with pytest.raises(TypeError, match="not from int32"):
        to_words(pa.array([1], pa.int32()), DataType(Kind.BIGINT), Dictionary())


# --- the dictionary --------------------------------------------------------------------------------------------------

WIDE = {"string": pa.string(), "binary": pa.binary(), "decimal": pa.decimal128(38, 2)}
POOL = [("string", "1"), ("string", ""), ("string", "é"), ("binary", b"1"), ("binary", b""), ("binary", b"\xff")]
POOL += [("decimal", Decimal(n)) for n in ("1", "0", "-1.25", "1" * 36)]


def array_of(kind: str, chosen: list[Any]) -> pa.Array:
    return pa.array([v for k, v in chosen if k == kind], WIDE[kind])


class AgainstACounter(RuleBasedStateMachine):
    """The dictionary beside a model: a Counter of uses, and the ids that live values must keep."""

    @initialize()
    def start(self) -> None:
        self.dictionary = Dictionary()
        self.uses: Counter[Any] = Counter()
        self.ids: dict[Any, int] = {}
        self.known: set[Any] = set()

    @rule(chosen=st.lists(st.sampled_from(POOL)), kind=st.sampled_from(list(WIDE)), counted=st.booleans())
    def retain(self, chosen: list[Any], kind: str, counted: bool) -> None:
        chosen = [c for c in chosen if c[0] == kind]
        ids = self.dictionary.encode(array_of(kind, chosen))
        for value, id_ in zip(chosen, ids.to_pylist(), strict=True):
            assert id_ >= 0
            assert self.ids.setdefault(value, id_) == id_
        assert len({*self.ids.values()}) == len(self.ids)
        self.known.update(chosen)
        padded = pa.concat_arrays([ids, pa.array([NULL], pa.int64())])
        self.dictionary.retain(padded, pa.array([2] * len(padded)) if counted else None)
        self.uses.update({c: (2 if counted else 1) * n for c, n in Counter(chosen).items()})

    @rule(value=st.sampled_from(POOL), count=st.integers(1, 3))
    def release(self, value: Any, count: int) -> None:
        id_ = self.dictionary.lookup(array_of(value[0], [value]))
        assert (id_[0].as_py() == UNKNOWN) == (value not in self.known)
        if value not in self.known:
            return
        if self.uses[value] < count:
            with pytest.raises(ValueError, match="are released"):
                self.dictionary.release(id_, pa.array([count]))
            return
        self.dictionary.release(id_, pa.array([count]))
        self.uses[value] -= count

    @rule()
    def collect(self) -> None:
        unused = {v for v in self.known if not self.uses[v]}
        assert self.dictionary.collect() == len(unused)
        self.known -= unused
        for value in unused:
            del self.ids[value]

    @rule()
    def save_and_load(self) -> None:
        self.dictionary = Dictionary.from_state(self.dictionary.to_state())

    @invariant()
    def same_as_the_model(self) -> None:
        assert len(self.dictionary) == len(self.known)
        for kind, arrow in WIDE.items():
            mine = [v for v in self.known if v[0] == kind]
            ids = pa.array([NULL, *(self.ids[v] for v in mine)], pa.int64())
            assert self.dictionary.decode(ids, arrow).to_pylist() == [None, *(v for _, v in mine)]
            assert self.dictionary.lookup(array_of(kind, mine)).to_pylist() == ids.to_pylist()[1:]


TestAgainstACounter = AgainstACounter.TestCase


@pytest.mark.parametrize("distinct", [3, 5_000])
def test_many_values(distinct: int) -> None:
    """The ways for large batches: distinct values first, one array of all values for reading."""
    dictionary = Dictionary()
    empty = dictionary.nbytes()
    array = pa.array([None if i % 7 == 0 else f"v{i % distinct}" for i in range(10_000)])
    counts = pa.array([i % 3 + 1 for i in range(10_000)])
    ids = dictionary.encode(array)
    assert ids.equals(dictionary.lookup(array))
    dictionary.retain(ids, counts)
    dictionary.retain(ids)
    assert dictionary.collect() == 0
    assert len(dictionary) == distinct
    for _ in range(2):
        assert dictionary.decode(ids, pa.string()).equals(array)
    other = dictionary.encode(pa.array([b"x"] * 2_000))
    assert dictionary.decode(other, pa.binary()).to_pylist() == [b"x"] * 2_000
    assert dictionary.nbytes() > empty
    dictionary.release(ids, counts)
    dictionary.release(ids)
    assert dictionary.collect() == distinct + 1
    assert len(dictionary) == 0
    assert dictionary.nbytes() <= 2 * empty


def test_memory_follows_the_live_values_even_when_the_last_id_lives() -> None:
    dictionary = Dictionary()
    ids = dictionary.encode(pa.array([f"v{i}" for i in range(10_000)]))
    dictionary.retain(ids)
    full = dictionary.nbytes()
    dictionary.release(ids[:-1])
    dictionary.collect()
    assert dictionary.decode(ids[-1:], pa.string()).to_pylist() == ["v9999"]
    assert dictionary.nbytes() < full / 3
    again = dictionary.encode(pa.array([f"w{i}" for i in range(9_999)]))
    assert sorted(again.to_pylist()) == list(range(9_999))


def test_decimals_are_one_value_whatever_their_scale() -> None:
    dictionary = Dictionary()
    short = dictionary.encode(pa.array([Decimal("1.5")], pa.decimal128(38, 1)))
    assert dictionary.encode(pa.array([Decimal("1.500")], pa.decimal128(20, 3))).equals(short)
    assert dictionary.decode(short, pa.decimal128(30, 5)).to_pylist() == [Decimal("1.50000")]


def test_only_wide_values() -> None:
    with pytest.raises(TypeError, match="not int64"):
        Dictionary().encode(pa.array([1]))
