"""Limbs against Python's integers: into limbs, added up, and back."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.engine.operators.aggregates.limbs import (
    COPIES,
    Wide,
    decimals,
    decimals_of,
    largest,
    limbs_for,
    split,
    whole,
    word,
)
from everview.query.types import BIGINT, INT, DataType, Kind, decimal

EDGES = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**64, 2**95, 10**18, 10**28, 10**38 - 1]


def numbers(top: int) -> st.SearchStrategy[int]:
    edges = [sign * (e + d) for e in EDGES for d in (-1, 0, 1) for sign in (1, -1) if abs(e + d) <= top]
    return st.integers(-top, top) | st.sampled_from(edges)


def scaled(n: int | None, scale: int) -> Decimal | None:
    return None if n is None else Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))


@pytest.mark.parametrize(
    ("type_", "limbs"),
    [
        (DataType(Kind.TINYINT), 1),
        (INT, 1),
        (BIGINT, 2),
        (decimal(9, 2), 1),
        (decimal(18, 2), 2),
        (decimal(28, 2), 3),
        (decimal(38, 4), 4),
    ],
)
def test_each_type_has_as_many_limbs_as_it_needs(type_: DataType, limbs: int) -> None:
    assert limbs_for(largest(type_)) == limbs


@given(st.lists(st.none() | numbers(2**63 - 1), max_size=8))
def test_integers(values: list[int | None]) -> None:
    limbs = Wide.of(pa.array(values, pa.int64())).limbs(2)
    assert whole(limbs) == [v or 0 for v in values]
    assert all(abs(x) <= 2**31 for limb in limbs for x in limb.to_pylist())
    assert word(limbs) == (pa.array([v or 0 for v in values], pa.int64()), None)


@given(st.integers(1, 38), st.data())
def test_decimals(precision: int, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | numbers(10**precision - 1), max_size=8))
    scale = data.draw(st.integers(0, precision))
    type_ = pa.decimal128(precision, scale)
    array = pa.array([scaled(v, scale) for v in [7 % 10**precision, *values]], type_).slice(1)
    limbs = Wide.of(array).limbs(limbs_for(10**precision - 1))
    assert whole(limbs) == [v or 0 for v in values]
    assert all(abs(x) <= 2**31 for limb in limbs for x in limb.to_pylist())
    back, beyond = decimals(limbs, type_)
    assert back.to_pylist() == [scaled(v or 0, scale) for v in values]
    assert beyond is None
    again, beyond = decimals_of(values, type_)
    assert (again.to_pylist(), beyond) == ([scaled(v, scale) for v in values], None)


@given(st.lists(numbers(2**63 - 1) | st.just(-(2**63)), max_size=8))
def test_squares(values: list[int]) -> None:
    limbs = Wide.of(pa.array(values, pa.int64())).squared().limbs(4)
    assert whole(limbs) == [v * v for v in values]


@given(st.lists(st.tuples(numbers(10**38 - 1), st.integers(1, COPIES - 1)), max_size=2), st.integers(1, 38))
def test_sums_fit_or_are_seen_not_to(terms: list[tuple[int, int]], precision: int) -> None:
    exact = sum(v * n for v, n in terms)
    sums = [0] * 4
    for value, copies in terms:
        limbs = Wide.of(pa.array([scaled(value, 0)], pa.decimal128(38, 0))).limbs(4)
        sums = [s + limb[0].as_py() * (copies // 2) for s, limb in zip(sums, limbs, strict=True)]
    exact = sum(v * (n // 2) for v, n in terms)
    words = [pa.array([s], pa.int64()) for s in sums]
    assert whole(words) == [exact]
    values, beyond = decimals(words, pa.decimal128(precision, 0))
    if abs(exact) < 10**precision:
        assert (values.to_pylist(), beyond) == ([scaled(exact, 0)], None)
    else:
        assert beyond is not None
        assert beyond.to_pylist() == [True]


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8))
def test_words_of_any_two_limbs(pairs: list[tuple[int, int]]) -> None:
    limbs = [pa.array(c, pa.int64()) for c in zip(*pairs, strict=True)]
    values, beyond = word(limbs)
    exact = [low + (high << 32) for low, high in pairs]
    fits = [-(2**63) <= e < 2**63 for e in exact]
    assert (beyond is None) == all(fits)
    assert [v for v, f in zip(values.to_pylist(), fits, strict=True) if f] == [
        e for e, f in zip(exact, fits, strict=True) if f
    ]
    if beyond is not None:
        assert beyond.to_pylist() == [not f for f in fits]


def test_too_many_digits() -> None:
    values, beyond = decimals_of([10**4, -(10**4), 9999, None], pa.decimal128(4, 2))
    assert values.to_pylist() == [None, None, Decimal("99.99"), None]
    assert beyond is not None
    assert beyond.to_pylist() == [True, True, False, False]


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("type_", [pa.int32(), pa.int64(), pa.decimal128(18, 2)])
def test_few_rows_have_the_limbs_that_many_have(type_: pa.DataType, squared: bool) -> None:
    """Python's integers for a few rows, Arrow for many: the same limbs, sums and overflows."""
    random = Random(3)
    most = 10**18 - 1 if pa.types.is_decimal(type_) else 2 ** (type_.bit_width - 1) - 1
    found = [None, 0, 1, -1, most, -most, *(random.randint(-most, most) for _ in range(34))]
    values = pa.array([scaled(n, 2) for n in found] if pa.types.is_decimal(type_) else found, type_)
    count = limbs_for((most + 1) ** 2 if squared else most)
    many = split(values, count, squared=squared)
    few = [split(values.slice(i, 8), count, squared=squared) for i in range(0, 40, 8)]
    assert [limb.to_pylist() for limb in many] == [
        pa.concat_arrays(parts).to_pylist() for parts in zip(*few, strict=True)
    ]
    makers = [lambda limbs: decimals(limbs, pa.decimal128(9, 2)), *([word] if count <= 2 else [])]
    for make in makers:
        whole_values, whole_beyond = make(many)
        for i in range(0, 40, 8):
            part, beyond = make([limb.slice(i, 8) for limb in many])
            wanted = [False] * 8 if whole_beyond is None else whole_beyond.slice(i, 8).to_pylist()
            assert wanted == ([False] * 8 if beyond is None else beyond.to_pylist())
            pairs = zip(part.to_pylist(), whole_values.slice(i, 8).to_pylist(), wanted, strict=True)
            assert all(much or a == b for a, b, much in pairs)
