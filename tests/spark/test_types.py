"""The types that DataFrames and Delta tables bring: what a view cannot hold is refused where it is read, by name."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.types import StructField, StructType

from everview.errors import PipelineError, SchemaError, UnsupportedError
from everview.query.types import Kind
from everview.spark import maintain, statistics_of
from everview.spark.checkpoint.pins import plan_over
from everview.spark.pipeline.plan import plan
from everview.spark.pipeline.read import load
from everview.spark.types import data_type, spark_type, tables_of

COLLATED = spark_types.StringType("UTF8_LCASE")
CLOSED = {
    "UTF8_LCASE": COLLATED,
    "UNICODE": spark_types.StringType("UNICODE"),
    "UTF8_BINARY_RTRIM": spark_types.StringType("UTF8_BINARY_RTRIM"),
    "time": spark_types.TimeType(6),
    "months": spark_types.YearMonthIntervalType(),
    "variant": spark_types.VariantType(),
    "array": spark_types.ArrayType(COLLATED),
    "map": spark_types.MapType(spark_types.StringType(), spark_types.VariantType()),
    "struct": StructType([StructField("x", spark_types.YearMonthIntervalType())]),
    "void": spark_types.NullType(),
    "decimal of negative scale": spark_types.DecimalType(5, -2),
}
OPEN = [
    spark_types.StringType(),
    spark_types.StringType("UTF8_BINARY"),
    spark_types.DecimalType(38, 38),
    spark_types.TimestampType(),
    spark_types.TimestampNTZType(),
    spark_types.BinaryType(),
    spark_types.ByteType(),
    spark_types.DayTimeIntervalType(),
    spark_types.DayTimeIntervalType(1, 2),
    spark_types.ArrayType(spark_types.MapType(spark_types.StringType(), spark_types.LongType())),
    StructType([StructField("x y", spark_types.ArrayType(spark_types.DecimalType(20, 2)))]),
]
SIZED = {"__CHAR_VARCHAR_TYPE_STRING": "char(5)"}
READING = {
    "SELECT": "SELECT s FROM t",
    "qualified": "SELECT t.s FROM t",
    "star": "SELECT * FROM t",
    "star of a relation": "SELECT a.* FROM t a JOIN u ON a.k = u.k",
    "WHERE": "SELECT k FROM t WHERE s = 'a'",
    "ON": "SELECT t.k FROM t JOIN u ON t.s = u.s",
    "USING": "SELECT t.k FROM t JOIN u USING (s)",
    "NATURAL": "SELECT t.k FROM t NATURAL JOIN u",
    "GROUP BY": "SELECT COUNT(*) AS n FROM t GROUP BY s",
    "DISTINCT": "SELECT COUNT(DISTINCT s) AS n FROM t",
    "MIN": "SELECT MIN(s) AS m FROM t",
    "IN": "SELECT k FROM u WHERE k IN (SELECT s FROM t)",
    "IS NULL": "SELECT k FROM t WHERE s IS NULL",
    "a subquery": "SELECT n FROM (SELECT lower(s) AS n FROM t) q",
    "SEMI JOIN": "SELECT u.k FROM u LEFT SEMI JOIN t USING (s)",
}
UNREAD = {
    "others": "SELECT k FROM t",
    "COUNT(*)": "SELECT COUNT(*) AS n FROM t",
    "EXCEPT": "SELECT * EXCEPT (s) FROM t",
    "EXISTS": "SELECT k FROM u WHERE EXISTS (SELECT * FROM t WHERE t.k = u.k)",
    "renamed": "SELECT a FROM t AS r(a, b)",
}


def frames(type_: spark_types.DataType) -> dict[str, StructType]:
    fields = [StructField("k", spark_types.LongType()), StructField("s", type_)]
    return {"t": StructType(fields), "u": StructType(fields)}


@pytest.mark.parametrize("sql", READING.values(), ids=READING)
def test_a_column_with_a_collation_is_refused_wherever_it_is_read(sql: str) -> None:
    schema = tables_of(frames(COLLATED), None)
    with pytest.raises(UnsupportedError, match=r"column s of [tu] is STRING COLLATE UTF8_LCASE, and a view compares"):
        plan_over(sql, schema, 2)


@pytest.mark.parametrize("sql", UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("type_", CLOSED.values(), ids=CLOSED)
def test_columns_that_no_view_reads_refuse_nothing(type_: spark_types.DataType, sql: str) -> None:
    found = plan_over(sql, tables_of(frames(type_), None), 2)
    assert all(column.name != "s" for table in found.schema for column in table.columns)


@pytest.mark.parametrize("type_", CLOSED.values(), ids=CLOSED)
def test_a_type_without_an_equal_is_named(type_: spark_types.DataType) -> None:
    assert data_type(type_) is None
    with pytest.raises(UnsupportedError, match=r"column s of t is ") as caught:
        plan_over("SELECT s FROM t", tables_of(frames(type_), None), 2)
    assert type_.simpleString().lower() in str(caught.value).lower()
    assert "there is no column" not in str(caught.value)
    assert caught.value.hint is not None


@pytest.mark.parametrize("type_", OPEN, ids=str)
def test_types_there_and_back(type_: spark_types.DataType) -> None:
    found = data_type(type_)
    assert found is not None
    assert spark_type(found) == type_


def test_a_declared_column_stays_closed() -> None:
    declared = "CREATE TABLE t (k BIGINT, s STRING)"
    schema = tables_of(frames(COLLATED), declared)
    assert plan_over("SELECT k FROM t", schema, 2).schema.tables[0].arity == 1
    with pytest.raises(UnsupportedError, match="column s of t is STRING COLLATE UTF8_LCASE"):
        plan_over("SELECT s FROM t", schema, 2)
    with pytest.raises(SchemaError, match=r"primary key.*column s of t is STRING COLLATE UTF8_LCASE"):
        tables_of(frames(COLLATED), "CREATE TABLE t (k BIGINT, s STRING PRIMARY KEY)")
    with pytest.raises(SchemaError, match="has no column that a view can read: column s of t is"):
        tables_of({"t": StructType([StructField("s", COLLATED)])}, None)


def test_char_and_varchar_are_what_the_metadata_say() -> None:
    found = data_type(spark_types.StringType(), SIZED)
    assert (str(found), found is not None and found.padded) == ("CHAR(5)", True)
    assert str(data_type(spark_types.StringType(), {"__CHAR_VARCHAR_TYPE_STRING": "varchar(7)"})) == "VARCHAR(7)"
    assert str(data_type(spark_types.CharType(3))) == "CHAR(3)"
    assert str(data_type(spark_types.VarcharType(3))) == "VARCHAR(3)"
    assert data_type(spark_types.StringType("UTF8_LCASE"), SIZED) is None
    struct = {"t": StructType([StructField("s", spark_types.StringType(), True, SIZED)])}
    for declared, wanted in ((None, "CHAR(5)"), ("STRING", "CHAR(5)"), ("CHAR(5)", "CHAR(5)")):
        schema = tables_of(struct, declared and f"CREATE TABLE t (s {declared})")
        assert str(schema.tables[0].columns[0].type) == wanted
    for declared in ("CHAR(6)", "VARCHAR(5)"):
        with pytest.raises(SchemaError, match=r"declares t\.s as .*, and the DataFrame has CHAR\(5\)"):
            tables_of(struct, f"CREATE TABLE t (s {declared})")
    plain = tables_of({"t": StructType([StructField("s", spark_types.StringType())])}, "CREATE TABLE t (s VARCHAR(2))")
    assert str(plain.tables[0].columns[0].type) == "VARCHAR(2)"


CHARS = "k BIGINT, c CHAR(5), v VARCHAR(4)"
SHORTER = "k BIGINT, c CHAR(3)"
CHAR_VIEWS = {
    "literal": "SELECT k, c FROM a WHERE c = 'ab'",
    "lists": "SELECT k FROM a WHERE c IN ('ab', 'xyz  ', 'b')",
    "joined": "SELECT a.k, b.k AS other FROM a JOIN b ON a.c = b.c",
    "groups": "SELECT c, v, COUNT(*) AS n, MAX(length(v)) AS longest FROM a GROUP BY c, v",
}
A_ROWS = [
    (1, "ab", "ab"),
    (2, "ab ", "ab  "),
    (3, "abcde   ", "abcd      "),
    (4, None, None),
    (5, "xyz", ""),
    (6, "", "ab"),
]
B_ROWS = [(1, "ab"), (2, "abc"), (3, "xyz"), (4, None)]


def test_char_and_varchar_on_spark(spark: Any, stream: Any, tmp_path: Path) -> None:
    """Padded and cut at the door, before rows are routed, and padded in comparisons: as Spark does with its tables."""
    text = spark_types.StringType()
    long = spark_types.LongType()
    about = {"__CHAR_VARCHAR_TYPE_STRING": "char(3)"}
    a = StructType([StructField("k", long), StructField("c", text), StructField("v", text)])
    b = StructType([StructField("k", long), StructField("c", text, True, about)])
    s = stream({"a": a, "b": b})
    s.start(CHAR_VIEWS, shards=2, schema=f"CREATE TABLE a ({CHARS})", bad_rows="quarantine")
    gone = [(7, "ab", "x"), (8, "xyz", "y")]
    wrong = [(9, "abcdef", "x"), (10, "ab", "abcd e")]
    s.put({"a": [(row, "insert") for row in [*A_ROWS, *gone, *wrong]], "b": [(row, "insert") for row in B_ROWS]})
    s.put({"a": [((7, "ab   ", "x"), "delete"), ((8, "xyz ", "y"), "delete")]})
    for name, columns, rows in (("a", CHARS, A_ROWS), ("b", SHORTER, B_ROWS)):
        spark.sql(f"DROP TABLE IF EXISTS sized_{name}")
        spark.sql(f"CREATE TABLE sized_{name} ({columns}) USING parquet LOCATION '{tmp_path / f'sized_{name}'}'")
        spark.sql(f"INSERT INTO sized_{name} VALUES {', '.join(map(str, rows)).replace('None', 'NULL')}")
    try:
        for name, sql in CHAR_VIEWS.items():
            wanted = sql.replace("FROM a", "FROM sized_a a").replace("JOIN b", "JOIN sized_b b")
            assert s.result(name) == Counter(tuple(row) for row in spark.sql(wanted).collect()), name
    finally:
        spark.sql("DROP TABLE sized_a")
        spark.sql("DROP TABLE sized_b")
    reasons = {bad["row"]["k"]: bad["reason"] for bad in s.bad()}
    assert set(reasons) == {9, 10}
    assert "c has 6 characters and is CHAR(5)" in reasons[9]
    assert "v has 6 characters and is VARCHAR(4)" in reasons[10]


def test_collations_of_data_frames(spark: Any, tmp_path: Path) -> None:
    """What Spark itself says of its columns: streams, static tables, rows to begin with, statistics."""
    struct = StructType([StructField("k", spark_types.LongType()), StructField("s", COLLATED)])
    stream = spark.readStream.schema(struct).parquet(str(tmp_path))
    static = spark.sql("SELECT 1L AS k, 'A' COLLATE UTF8_LCASE AS s")
    plain = spark.readStream.schema("k BIGINT, s STRING").parquet(str(tmp_path))
    join = "SELECT a.k FROM a JOIN b ON a.s = b.s"
    for tables, name in (({"a": stream, "b": plain}, "a"), ({"a": plain, "b": static}, "b")):
        with pytest.raises(UnsupportedError, match=f"column s of {name} is STRING COLLATE UTF8_LCASE"):
            maintain(spark, join, tables, shards=1)
    with pytest.raises(SchemaError, match="column s of the rows that a begins with is STRING COLLATE UTF8_LCASE"):
        maintain(spark, "SELECT s FROM a", {"a": plain}, shards=1, initial={"a": static})
    with pytest.raises(
        SchemaError, match="column k of the rows that a begins with is DOUBLE, and the table's is BIGINT"
    ):
        maintain(spark, "SELECT k FROM a", {"a": plain}, shards=1, initial={"a": spark.sql("SELECT 1.5D AS k")})
    assert set(statistics_of({"b": static}).skew) == {("b", "k")}


DELTA_FIELDS = [
    {"name": "k", "type": "long", "nullable": True, "metadata": {}},
    {"name": "s", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"s": "spark.UTF8_LCASE"}}},
    {"name": "b", "type": "string", "nullable": True, "metadata": {"__COLLATIONS": {"b": "spark.UTF8_BINARY"}}},
    {
        "name": "c",
        "type": "string",
        "nullable": True,
        "metadata": SIZED,
    },
    {
        "name": "tags",
        "type": {
            "type": "array",
            "elementType": {
                "type": "struct",
                "fields": [{"name": "x y", "type": "decimal(20,2)", "nullable": True, "metadata": {}}],
            },
            "containsNull": True,
        },
        "nullable": True,
        "metadata": {},
    },
]


def delta_table(folder: Path) -> None:
    """A Delta table without rows, as its log says it."""
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    schema = json.dumps({"type": "struct", "fields": DELTA_FIELDS})
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}},
        {
            "metaData": {
                "id": "1",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {"delta.enableChangeDataFeed": "true"},
            }
        },
    ]
    (log / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))


def pipeline(folder: Path, sql: str, table: str = "source: d") -> Path:
    path = folder / "p.yaml"
    path.write_text(
        "sources:\n  d: {format: delta, path: d}\n"
        f"tables:\n  t: {{{table}}}\nviews:\n  v: {sql}\ntargets:\n  v: parquet:out\ncheckpoint: c\n"
    )
    return path


def test_columns_of_a_delta_source(tmp_path: Path) -> None:
    delta_table(tmp_path / "d")
    found = plan(load(pipeline(tmp_path, "SELECT k, b FROM t")))
    assert [c.type.kind for c in found.verdicts[0].plan.view.columns] == [Kind.BIGINT, Kind.STRING]
    assert "CHAR(5)" in str(load(pipeline(tmp_path, "SELECT k FROM t")).schema.tables[0])
    assert "tags: ARRAY<STRUCT<`x y`: DECIMAL(20, 2)>>" in str(
        load(pipeline(tmp_path, "SELECT k FROM t")).schema.tables[0]
    )
    with pytest.raises(PipelineError, match="column s of the Delta table is STRING COLLATE UTF8_LCASE"):
        plan(load(pipeline(tmp_path, "SELECT s FROM t")))
    with pytest.raises(PipelineError, match="column s of the Delta table is STRING COLLATE UTF8_LCASE"):
        load(pipeline(tmp_path, "SELECT k FROM t", "source: d, key: [s]"))
