"""Numbers of several words against Python's integers: products, and back to BIGINT and decimals."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.engine.values.wide import (
    columns_of,
    decimals_of,
    in_decimals,
    in_word,
    is_positive,
    largest,
    multiplied,
    numbers_of,
    words_for,
)
from everview.kernel.wide_numbers import words_needed, words_of
from everview.query.types import BIGINT, INT, DataType, Kind, decimal

EDGES = [0, 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, 2**95, 2**127, 2**128, 10**18, 10**28, 10**38 - 1, 10**38, 2**319]


def numbers(top: int, bottom: int | None = None) -> st.SearchStrategy[int]:
    least = -top if bottom is None else bottom
    edges = [sign * (e + d) for e in EDGES for d in (-1, 0, 1) for sign in (1, -1) if least <= sign * (e + d) <= top]
    return st.integers(least, top) | st.sampled_from(edges)


def word_columns(values: list[int], words: int) -> list[pa.Array]:
    rows = [words_of(v, words) for v in values]
    return [pa.array([row[i] for row in rows], pa.int64()) for i in range(words)]


def scaled(n: int | None, scale: int) -> Decimal | None:
    return None if n is None else Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))


@pytest.mark.parametrize(
    ("type_", "words", "squared"),
    [
        (DataType(Kind.TINYINT), 2, 2),
        (INT, 2, 2),
        (BIGINT, 2, 3),
        (decimal(9, 2), 2, 2),
        (decimal(18, 2), 2, 3),
        (decimal(19, 2), 3, 3),
        (decimal(38, 4), 3, 5),
    ],
)
def test_each_type_has_the_words_that_it_and_64_bits_of_copies_need(type_: DataType, words: int, squared: int) -> None:
    size = largest(type_)
    assert words_for(size) == words
    assert words_for((size + 1) ** 2) == squared
    for most, wide in ((size, words), ((size + 1) ** 2, squared)):
        for sum_ in (most * 2**63, -most * 2**63):
            assert words_needed(sum_) <= wide


@given(st.integers(1, 6), st.data())
def test_numbers_are_what_their_words_say(words: int, data: st.DataObject) -> None:
    top = 2 ** (64 * words - 1) - 1
    values = data.draw(st.lists(numbers(top, -top - 1), max_size=6))
    columns = word_columns(values, words)
    assert numbers_of(columns) == values
    assert is_positive(columns).to_pylist() == [v > 0 for v in values]
    for value in values:
        assert numbers_of(columns_of(value, words)) == [value]
        assert words_needed(value) <= words
        assert (words_needed(value) == 1) == (-(2**63) <= value < 2**63)


@given(st.lists(st.tuples(st.none() | numbers(2**63 - 1, -(2**63)), numbers(2**127 - 1)), max_size=8), st.booleans())
def test_products_of_integers(rows: list[tuple[int | None, int]], squared: bool) -> None:
    values = pa.array([7, *(v for v, _ in rows)], pa.int64()).slice(1)
    factors = word_columns([f for _, f in rows], 2)
    found = multiplied(values, factors, 4, squared=squared)
    assert numbers_of(found) == [(v or 0) ** (2 if squared else 1) * f for v, f in rows]


@given(st.integers(1, 38), st.booleans(), st.data())
def test_products_of_decimals(precision: int, squared: bool, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, precision))
    rows = data.draw(st.lists(st.tuples(st.none() | numbers(10**precision - 1), numbers(2**63 - 1)), max_size=8))
    type_ = pa.decimal128(precision, scale)
    values = pa.array([scaled(v, scale) for v in [7 % 10**precision, *(v for v, _ in rows)]], type_).slice(1)
    size = 10**precision - 1
    words = words_for((size + 1) ** 2 if squared else size)
    found = multiplied(values, word_columns([f for _, f in rows], 1), words, squared=squared)
    assert numbers_of(found) == [(v or 0) ** (2 if squared else 1) * f for v, f in rows]


@given(st.lists(st.tuples(numbers(2**63 - 1), numbers(2**383 - 1)), min_size=1, max_size=5), st.integers(1, 6))
def test_a_product_of_more_words_is_told_by_its_row(rows: list[tuple[int, int]], words: int) -> None:
    values, factors = pa.array([v for v, _ in rows], pa.int64()), word_columns([f for _, f in rows], 6)
    beyond = [i for i, (v, f) in enumerate(rows) if words_needed(v * f) > words]
    if not beyond:
        assert numbers_of(multiplied(values, factors, words)) == [v * f for v, f in rows]
        return
    with pytest.raises(OverflowError) as caught:
        multiplied(values, factors, words)
    assert caught.value.args == (beyond[0],)


@given(st.lists(numbers(2**383 - 1), max_size=8))
def test_words_fit_or_are_seen_not_to(values: list[int]) -> None:
    found, beyond = in_word(word_columns(values, 6))
    fits = [abs(v) < 2**63 for v in values]
    assert found.to_pylist() == [v if fit else 0 for v, fit in zip(values, fits, strict=True)]
    assert (None if beyond is None else beyond.to_pylist()) == (None if all(fits) else [not fit for fit in fits])


@given(st.lists(numbers(2**191 - 1), max_size=8), st.integers(1, 38))
def test_decimals_fit_or_are_seen_not_to(values: list[int], precision: int) -> None:
    type_ = pa.decimal128(precision, min(precision, 3))
    found, beyond = in_decimals(word_columns(values, 3), type_)
    fits = [abs(v) < 10**precision for v in values]
    assert found.to_pylist() == [scaled(v if fit else 0, type_.scale) for v, fit in zip(values, fits, strict=True)]
    assert (None if beyond is None else beyond.to_pylist()) == (None if all(fits) else [not fit for fit in fits])
    again, beyond = decimals_of([v if fit else None for v, fit in zip(values, fits, strict=True)], type_)
    wanted = [scaled(v, type_.scale) if fit else None for v, fit in zip(values, fits, strict=True)]
    assert (again.to_pylist(), beyond) == (wanted, None)


def test_too_many_digits() -> None:
    values, beyond = decimals_of([10**4, -(10**4), 9999, None], pa.decimal128(4, 2))
    assert values.to_pylist() == [None, None, Decimal("99.99"), None]
    assert beyond is not None
    assert beyond.to_pylist() == [True, True, False, False]
