"""What the feed's columns promise. Without Spark: values that are read through it are compared in test_suite.py."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from everview.errors import PipelineError
from everview.query.view import View
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.arrow_blob import write_blob
from everview.spark.exchange.unpack import Unpacker, feed_schema
from everview.spark.shard.operator import CHANGES
from everview.sql import parse_schema

GRAPH = parse_schema("CREATE TABLE g (src BIGINT, dst BIGINT)")
PATHS = "SELECT a.src, a.dst AS mid, b.dst FROM g a JOIN g b ON a.dst = b.src"


def views(sql: str | dict[str, str]) -> tuple[View, ...]:
    return plan_over(sql, GRAPH, 2).views


def nullable(struct: StructType) -> dict[str, bool]:
    return {f.name: f.nullable for f in struct.fields}


FEED_COLUMNS = {"_change_type": False, "_commit_version": False, "_count": False}


def test_columns_that_are_never_null_are_said_to_be_so() -> None:
    """NULL never joins; the ends of a path may be NULL."""
    assert nullable(feed_schema(views(PATHS), True, False)) == {"src": True, "mid": False, "dst": True, **FEED_COLUMNS}
    groups = views("SELECT src, COUNT(*) AS n, MAX(dst) AS last FROM g WHERE src > 0 GROUP BY src")
    assert nullable(feed_schema(groups, True, False)) == {"src": False, "n": False, "last": True, **FEED_COLUMNS}


def test_a_row_that_is_put_aside_has_no_values() -> None:
    found = nullable(feed_schema(views(PATHS), True, True))
    assert found == {"src": True, "mid": True, "dst": True, **FEED_COLUMNS, "_quarantined": True}


@pytest.mark.parametrize("quarantine", [False, True])
def test_of_several_views_each_row_has_one(quarantine: bool) -> None:
    """Spark compares the fields of structs with Arrow's, which are all nullable."""
    found = feed_schema(views({"p": PATHS, "q": "SELECT src FROM g WHERE src > 0"}), False, quarantine)
    assert nullable(found) == {"_view": quarantine, "p": True, "q": True, **FEED_COLUMNS} | (
        {"_quarantined": True} if quarantine else {}
    )
    inside = found["q"].dataType
    assert isinstance(inside, StructType)
    assert nullable(inside) == {"src": True}


def test_a_null_where_there_can_be_none_is_never_taken_for_zero() -> None:
    (view,) = views(PATHS)
    rows = {"src": [1, None], "mid": [2, None], "dst": [None, 3], "_change_type": ["insert"] * 2, "_count": [1, 1]}
    good = pa.table(rows).slice(0, 1)
    unpack = Unpacker((view,), True, False)
    assert [b.num_rows for b in unpack(iter([packed(view, good)]))] == [1]
    with pytest.raises(PipelineError, match="column mid of a view has a NULL"):
        list(unpack(iter([packed(view, pa.table(rows))])))


def packed(view: View, rows: pa.Table) -> pa.RecordBatch:
    blob = write_blob(rows, stored=False)
    columns = {"kind": [CHANGES], "name": [view.name], "version": [7], "blob": [blob], "info": [None]}
    return pa.RecordBatch.from_pydict(columns)
