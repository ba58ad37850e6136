"""PRODUCT: what Fractions say, rounded once, however many values have come and gone."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest

import everview as ev
from everview.engine.operators.aggregates.product import Product


def exact(values: list[Any]) -> float:
    return float(math.prod(map(Fraction, values)))


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_exact_product_rounded_once(seed: int) -> None:
    random = Random(seed)
    product, there = Product(), []
    for _ in range(300):
        value: Any = random.choice(
            [random.randint(-9, 9), random.uniform(-2, 2), Decimal(random.randint(-999, 999)).scaleb(-2), 2.0**-70]
        )
        product.add(value, 1)
        there.append(value)
        if len(there) > 40:
            gone = there.pop(random.randrange(len(there)))
            product.add(gone, -1)
        assert product.result() == exact(there)
    for value in there:
        product.add(value, -1)
    assert (product.is_empty(), product.result()) == (True, None)


def test_what_is_too_large_or_no_number_goes_again() -> None:
    product = Product()
    product.add(3, 700)
    assert product.result() == math.inf
    product.add(-(2.0**-1074), 1)
    assert product.result() == -(3**700 / 2**1074)
    product.add(2.0**-1074, 2)
    assert product.result() == -0.0
    product.add(5e-324, -2)
    product.add(math.inf, 1)
    assert product.result() == -math.inf
    product.add(0, 2)
    assert math.isnan(product.result() or 0.0)
    product.add(math.inf, -1)
    assert product.result() == 0.0
    product.add(math.nan, 1)
    assert math.isnan(product.result() or 0.0)
    for value, copies in ((math.nan, 1), (0, 2), (-(2.0**-1074), 1), (3, 699)):
        product.add(value, -copies)
    assert product.result() == 3.0


def test_its_state_does_not_grow_with_the_values() -> None:
    product = Product()
    sizes = []
    for i in range(1, 20_001):
        product.add(i / 7, 1)
        if i in (100, 20_000):
            sizes.append(product.nbytes())
    assert sizes[1] <= sizes[0] + 64


def test_groups_windows_and_answers_agree() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (g INT, x DOUBLE, p DECIMAL(9, 2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT g, PRODUCT(x) AS x, PRODUCT(DISTINCT p) AS p FROM t GROUP BY g")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT DISTINCT g, PRODUCT(x) OVER (PARTITION BY g) AS x FROM t")
    one = Decimal("1.10")
    db.insert(
        "t", [(1, 0.5, one), (1, 3.0, one), (1, None, Decimal(2)), (2, 0.0, None), (2, 4.0, None), (3, None, one)]
    )
    wanted = [(1, 1.5, 2.2), (2, 0.0, None), (3, None, 1.1)]
    assert (
        sorted(db.view("v")) == sorted(db.sql("SELECT g, PRODUCT(x), PRODUCT(DISTINCT p) FROM t GROUP BY g")) == wanted
    )
    assert sorted(db.view("w")) == [row[:2] for row in wanted]
    db.delete("t", [(2, 0.0, None), (1, 0.5, one)])
    assert sorted(db.view("v")) == [(1, 3.0, 2.2), (2, 4.0, None), (3, None, 1.1)]
