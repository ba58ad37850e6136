"""Every function's entry has an example, which can be computed, or is refused by all; tests/spark asks Spark."""

from __future__ import annotations

import pytest

import everview as ev
from everview.errors import DataError, UnsupportedError
from everview.sql.functions.registry import FUNCTION_BY_NAME, FUNCTIONS
from tests.engine.functions import COLUMNS, EXAMPLES, ROWS, UNKNOWN


def test_every_function_has_an_example_by_each_of_its_names() -> None:
    """So a new entry is compared with Spark as soon as it is there."""
    assert [name for name, examples in EXAMPLES.items() if not examples] == []
    assert all(any(f"{name}(" in e for name in entry.names) for entry in FUNCTIONS for e in entry.examples)
    assert sum(len(entry.names) for entry in FUNCTIONS) == len(FUNCTION_BY_NAME), "a name has one entry"


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n not in UNKNOWN])
def test_it_can_be_computed(name: str) -> None:
    db = ev.Database()
    columns = ", ".join(f"{e} AS y{i}" for i, e in enumerate(EXAMPLES[name]))
    db.sql(f"CREATE TABLE r ({COLUMNS}); CREATE MATERIALIZED VIEW v AS SELECT k, {columns} FROM r")
    db.insert("r", ROWS)
    assert len(db.view("v")) == len(ROWS)


@pytest.mark.parametrize("name", sorted(UNKNOWN))
def test_what_cannot_be_computed_is_refused_by_the_verdict_with_a_reason(name: str) -> None:
    for example in EXAMPLES[name]:
        with pytest.raises(UnsupportedError, match=f"{name} cannot be computed in a view: Spark's hash functions"):
            ev.explain(f"SELECT {example} AS z FROM r", schema=f"CREATE TABLE r ({COLUMNS})")


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("substring_index(s, u, 1)", "the mark must be a literal"),
        ("substring_index(s, 'aba', 1)", "does not end as it begins"),
        ("bround(x, n)", "the number of digits must be a literal"),
        ("format_number(x, n)", "the number of digits must be a literal"),
        ("format_number(p, 1)", "use bround before"),
        ("bit_count(s)", "it takes integers and booleans"),
    ],
)
def test_arguments_that_spark_would_take_and_we_do_not(expression: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        ev.explain(f"SELECT {expression} AS z FROM r", schema=f"CREATE TABLE r ({COLUMNS})")


def test_elt_beyond_its_texts_is_an_error() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (n INT, s STRING); CREATE MATERIALIZED VIEW v AS SELECT elt(n, s, 'b') AS y FROM r")
    with pytest.raises(DataError, match="elt has no text number 3"):
        db.insert("r", [(3, "a")])


@pytest.mark.parametrize(
    "call", ["stdev(x)", "booland_agg(b)", "bitwise_and_agg(i)", "regexp_full_match(s, u)", "ts_or_ds_to_date(s)"]
)
def test_other_systems_functions_are_not_computed(call: str) -> None:
    """The parser knows them, and some are aggregates elsewhere: they would be computed over a batch."""
    with pytest.raises(UnsupportedError, match="is not known here"):
        ev.explain(f"SELECT {call} AS z FROM r", schema=f"CREATE TABLE r ({COLUMNS})")
