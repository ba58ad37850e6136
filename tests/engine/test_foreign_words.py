"""What Arrow, Python and DuckDB say of values is told in our words."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from everview.engine.transaction import complain
from everview.errors import DataError


def foreign(compute: str) -> Exception:
    """What is really raised."""
    try:
        if compute == "add":
            pc.add_checked(pa.array([2**63 - 1]), 1)
        elif compute == "cast":
            pa.array([300]).cast(pa.int8())
        else:
            pa.array([2**70], pa.int64())
    except (pa.ArrowException, ArithmeticError) as error:
        return error
    raise AssertionError


@pytest.mark.parametrize(
    ("compute", "said"),
    [("add", "a value is out of range"), ("cast", "300 is out of range"), ("make", "a value is out of range")],
)
def test_a_failure_is_told_in_our_words(compute: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        complain(foreign(compute))
    assert raised.value.message == (f"a column of a view cannot be computed from the data: {said}; nothing has changed")
    assert raised.value.hint is not None


def test_what_has_no_words_of_ours_is_not_shown_either() -> None:
    with pytest.raises(DataError) as raised:
        complain(pa.ArrowInvalid("Buffer 0x7f of /arrow/cpp/src/x.cc"))
    assert "a value cannot be computed; nothing has changed" in raised.value.message
