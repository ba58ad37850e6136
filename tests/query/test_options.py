"""Options of a view as values: what is taken, what is refused and how it is said, and that none is lost on the way."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everview.errors import DataFormatError, OptionError
from everview.query.data import canonical, view_from_data, view_to_data
from everview.query.options import MODES, MOST_DEGREE, MOST_PARTS, NAMES, OPTIMIZE, ViewOptions
from everview.sql import parse_schema, parse_view

SCHEMA = parse_schema("CREATE TABLE e (a BIGINT, b BIGINT)")
EPSILONS = st.integers(1, MOST_PARTS).flatmap(lambda d: st.integers(0, d).map(lambda n: Fraction(n, d)))
OPTIONS = st.builds(
    ViewOptions,
    st.none() | EPSILONS,
    st.none() | st.sampled_from(OPTIMIZE),
    st.none() | st.integers(1, MOST_DEGREE),
    st.none() | st.sampled_from(MODES),
)


@pytest.mark.parametrize("value", [0.1, Decimal("0.1"), Fraction(1, 10), Decimal("0.10000000000")])
def test_a_tenth_is_a_tenth_however_it_is_written(value: Any) -> None:
    assert ViewOptions.of({"epsilon": value}).epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    ("name", "value", "said", "hint"),
    [
        ("epsilon", 1.5, "epsilon is 1.5, which is not between 0 and 1", "0 to 1"),
        ("epsilon", -1, "epsilon is -1, which is not between 0 and 1", "0 to 1"),
        ("epsilon", float("nan"), "epsilon is nan, which is not between 0 and 1", "0 to 1"),
        ("epsilon", Decimal("sNaN"), "not between 0 and 1", "0 to 1"),
        ("epsilon", 10**30, "epsilon is a huge number", "0 to 1"),
        ("epsilon", "0.5", "epsilon is a number, and '0.5' is none", "0 to 1"),
        ("epsilon", True, "epsilon is a number, and True is none", "0 to 1"),
        ("epsilon", Fraction(1, 3_000_000), "finer than a millionth", "round it"),
        ("epsilon", Decimal("1e-999999999"), "finer than a millionth", "round it"),
        (
            "optimize",
            "read",
            "optimize is 'read', and can be 'updates', 'reads' or 'balanced'",
            "did you mean 'reads'?",
        ),
        ("optimize", 3, "optimize is 3, and can be", "write 'updates', 'reads' or 'balanced'"),
        ("mode", "statical", "mode is 'statical', and can be 'dynamic' or 'static'", "did you mean 'static'?"),
        ("mode", 1, "mode is 1, and can be 'dynamic' or 'static'", "write 'dynamic' or 'static'"),
        ("degree", 0, "degree is 0, which is not between 1 and", "neighbours"),
        ("degree", 2.5, "degree is a whole number, and 2.5 is none", "neighbours"),
        ("degree", True, "degree is a whole number, and True is none", "neighbours"),
        ("degree", 2**63, "degree is 9223372036854775808, which is not between", "neighbours"),
        ("epsilom", 0.5, "there is no option epsilom", "did you mean epsilon? the options of a view are epsilon, opt"),
    ],
)
def test_what_an_option_cannot_be_is_refused(name: str, value: Any, said: str, hint: str) -> None:
    with pytest.raises(OptionError) as refused:
        ViewOptions.of({name: value})
    if name in NAMES:
        with pytest.raises(OptionError):
            ViewOptions(**{name: value})
    assert said in refused.value.message
    assert hint in str(refused.value.hint)
    assert refused.value.option == name


@given(OPTIONS)
@example(ViewOptions(Fraction(1, 128)))
def test_options_come_back_from_sql_and_from_data(options: ViewOptions) -> None:
    clause = f"OPTIONS ({options})" if options else ""
    query = "SELECT DISTINCT a FROM e WHERE a IS NOT NULL"  # With a degree it is a formula.
    view = parse_view(f"CREATE MATERIALIZED VIEW v {clause} AS {query}", SCHEMA)
    assert view.options == options
    assert ViewOptions.of(options.given()) == options
    data = json.loads(json.dumps(view_to_data(view)))
    assert ("options" in data) == bool(options)  # What has none is written as before there were any.
    assert view_from_data(data) == view


def test_options_are_no_part_of_what_a_view_means_but_are_shown() -> None:
    bare = parse_view("SELECT a FROM e", SCHEMA, "v")
    asked = parse_view("CREATE VIEW v OPTIONS (epsilon = 1/3, optimize = 'reads') AS SELECT a FROM e", SCHEMA)
    assert canonical(asked) == canonical(bare)
    assert asked != bare
    assert str(asked) == f"{bare}\noptions (epsilon = 1/3, optimize = 'reads')"


@pytest.mark.parametrize(
    "options", [3, {"epsilon": "1/0"}, {"epsilon": "a"}, {"epsilon": None, "x": 1}, {"degree": "8"}]
)
def test_damaged_data_is_refused(options: Any) -> None:
    data = view_to_data(parse_view("SELECT a FROM e", SCHEMA, "v")) | {"options": options}
    with pytest.raises(DataFormatError, match="damaged"):
        view_from_data(data)


def test_options_of_two_places_are_joined_unless_they_differ() -> None:
    half = ViewOptions(epsilon=Fraction(1, 2))
    assert half.joined(ViewOptions(degree=3)) == ViewOptions(Fraction(1, 2), None, 3)
    assert half.joined(half) == half
    with pytest.raises(OptionError, match=r"epsilon is given twice: 0.5 in the SQL, and 0.25 beside it"):
        half.joined(ViewOptions(epsilon=Fraction(1, 4)))
