"""Recorded updates: files, orders, windows, what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from everview.errors import DataError, EverviewError
from everview.sql import parse_schema
from everview.tools.change_log import Log, read_log

SCHEMA = parse_schema(
    "CREATE TABLE a (id BIGINT, name STRING, day DATE, price DECIMAL(8,2), seen TIMESTAMP); CREATE TABLE b (id BIGINT)"
)
B = parse_schema("CREATE TABLE b (id BIGINT)")


def steps(log: Log) -> list[tuple[int, str, int, int]]:
    """Place, table, first column and weight of every update, in order."""
    found = []
    for name, t in log.tables.items():
        columns = (t.at.to_pylist(), t.rows[0].to_pylist(), t.weights.to_pylist())
        found += [(at, name, row, w) for at, row, w in zip(*columns, strict=True)]
    return sorted(found)


def test_rows_without_changes_slide() -> None:
    log = read_log(B, {"b": pa.table({"id": range(5)})}, window=0.4)
    assert [(row, w) for _, _, row, w in steps(log)] == [
        (0, 1), (1, 1), (0, -1), (2, 1), (1, -1), (3, 1), (2, -1), (4, 1),
    ]  # fmt: skip
    assert (len(log), log.windowed) == (8, True)


def test_with_a_window_of_all_rows_nothing_goes() -> None:
    assert [w for *_, w in steps(read_log(B, {"b": pa.table({"id": range(5)})}, window=1))] == [1] * 5


def test_changes_keep_their_order() -> None:
    data = pa.table({"id": [1, 2, 1], "_change_type": ["insert", "insert", "delete"]})
    log = read_log(B, {"B": data})
    assert steps(log) == [(0, "b", 1, 1), (1, "b", 2, 1), (2, "b", 1, -1)]
    assert not log.windowed
    (name, changes), *rest = log.between(1, 3)
    assert (name, rest) == ("b", [])
    assert changes.to_pydict() == {"id": [2, 1], "_change_type": ["insert", "delete"]}


def test_tables_are_spread_over_each_other() -> None:
    schema = parse_schema("CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT)")
    log = read_log(schema, {"b": pa.table({"id": range(6)}), "c": pa.table({"id": range(3)})}, window=1)
    assert [at for at, *_ in steps(log)] == list(range(9))
    assert "".join(name for _, name, _, _ in steps(log)) == "bcbbcbbcb"


def test_places_and_rows_that_were_there_before() -> None:
    schema = parse_schema("CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT)")
    b = pa.table({"id": [1, 2, 1], "_weight": [1, 1, -1], "_at": [-1, 0, 2]})
    c = pa.table({"id": [7, 8], "_at": [1, 3]})
    log = read_log(schema, {"b": b, "c": c})
    assert steps(log) == [(-1, "b", 1, 1), (0, "b", 2, 1), (1, "c", 7, 1), (2, "b", 1, -1), (3, "c", 8, 1)]
    assert [(name, t["id"].to_pylist()) for name, t in log.initial()] == [("b", [1])]
    assert len(log) == 4
    sparse = read_log(schema, {"b": b})  # without c, whose places are missing then
    assert [at for at, *_ in steps(sparse)] == [-1, 0, 1]
    initial = read_log(schema, {"b": b.select(["id", "_weight"]), "c": c.select(["id"])}, initial=["c"])
    assert [name for name, _ in initial.initial()] == ["c"]
    assert len(initial) == 3


CSV = """id,extra,name,day,price,seen,_change_type
1,x,"a, b",2024-02-29,1.50,2024-01-01 10:00:00,insert
2,y,,2024-03-01,-2.25,2024-01-02 00:00:00,insert
1,x,"a, b",2024-02-29,1.50,2024-01-01 10:00:00,delete
"""


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "tsv", "parquet"])
def test_files(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"a.{kind}"
    if kind == "csv.gz":
        file.write_bytes(gzip.compress(CSV.encode()))
    elif kind == "parquet":
        plain = tmp_path / "plain.csv"
        plain.write_text(CSV)
        updates = read_log(SCHEMA, {"a": plain}).tables["a"]
        pq.write_table(updates.changes, file)
    else:
        text = CSV.replace('"a, b"', "'").replace(",", "\t").replace("'", '"a, b"') if kind == "tsv" else CSV
        file.write_text(text)
    for source in ({"a": file}, tmp_path):
        updates = read_log(SCHEMA, source).tables["a"]
        assert updates.rows.column("name").to_pylist() == ["a, b", None, "a, b"]
        assert [str(p) for p in updates.rows.column("price").to_pylist()] == ["1.50", "-2.25", "1.50"]
        assert updates.rows.column("seen")[0].as_py().isoformat() == "2024-01-01T10:00:00+00:00"
        assert updates.weights.to_pylist() == [1, 1, -1]


REFUSED = {
    "unknown table": ({"x": pa.table({"id": [1]})}, "there is no table x"),
    "twice": ({"b": pa.table({"id": [1]}), "B": pa.table({"id": [1]})}, "given twice"),
    "change type": ({"b": pa.table({"id": [1], "_change_type": ["inserted"]})}, "no change type"),
    "type": ({"b": pa.table({"id": ["x"]})}, "row 0, column id"),
    "places go down": ({"b": pa.table({"id": [1, 2], "_at": [2, 1]})}, "row 1, column _at: 1 comes after 2"),
    "places are text": ({"b": pa.table({"id": [1], "_at": ["x"]})}, "data of b, column _at: it holds string"),
    "no place": ({"b": pa.table({"id": [1, 2], "_at": [0, None]})}, "row 1, column _at: the value is NULL"),
    "places below -1": ({"b": pa.table({"id": [1, 2], "_at": [-5, 0]})}, "row 0, column _at: -5 is no place"),
    "too large a place": ({"b": pa.table({"id": [1], "_at": pa.array([2**63], pa.uint64())})}, "row 0, column _at: 92"),
    "weights are fractions": ({"b": pa.table({"id": [1], "_weight": [1.5]})}, "column _weight: it holds double"),
    "no weight": ({"b": pa.table({"id": [1, 2], "_weight": [1, None]})}, "row 1, column _weight: the value is NULL"),
    "nothing comes or goes": ({"b": pa.table({"id": [1], "_weight": [0]})}, "row 0, column _weight: 0 copies"),
    "no file": ({"b": "nothing.csv"}, "nothing.csv"),
    "unknown ending": ({"b": "b.xlsx"}, "no file of a known kind"),
}


@pytest.mark.parametrize(("sources", "message"), REFUSED.values(), ids=list(REFUSED))
def test_refused(sources: dict[str, object], message: str) -> None:
    with pytest.raises((EverviewError, OSError), match=message):
        read_log(SCHEMA, sources)


@pytest.mark.parametrize("places", [[0, 5], [-1, 0]])
def test_some_places_only_is_refused(places: list[int]) -> None:
    schema = parse_schema("CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT)")
    with pytest.raises(DataError, match="have none"):
        read_log(schema, {"b": pa.table({"id": [1, 2], "_at": places}), "c": pa.table({"id": [1]})})


def test_updates_with_one_place_are_as_many_as_they_are() -> None:
    schema = parse_schema("CREATE TABLE b (id BIGINT); CREATE TABLE c (id BIGINT)")
    b = pa.table({"id": [1, 2, 3, 4], "_at": [-1, 0, 0, 9]})
    c = pa.table({"id": [7, 8], "_at": [0, 2]})
    log = read_log(schema, {"b": b, "c": c})
    assert [(at, row) for at, _, row, _ in steps(log)] == [(-1, 1), (0, 2), (1, 3), (2, 7), (3, 8), (4, 4)]
    assert len(log) == 5
    same = read_log(B, {"b": pa.table({"id": [1, 2, 3], "_at": [0, 0, 2]})})  # as many as if they were 0, 1, 2
    assert [at for at, *_ in steps(same)] == [0, 1, 2]


def test_updates_know_their_rows() -> None:
    slid = read_log(B, {"b": pa.table({"id": range(5)})}, window=0.4).tables["b"]
    assert [slid.row_of(i) for i in range(8)] == [0, 1, 0, 2, 1, 3, 2, 4]
    told = read_log(B, {"b": pa.table({"id": [1, 1], "_weight": [1, -1]})}).tables["b"]
    assert told.row_of(1) == 1


def test_files_without_the_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("identity\n1\n")
    with pytest.raises(DataError, match=r"b\.csv has no column id for table b"):
        read_log(B, {"b": tmp_path / "b.csv"})
    (tmp_path / "b.csv").write_text("id\n1\nx\n")
    with pytest.raises(DataError, match=r"b\.csv cannot be read as rows of b"):
        read_log(B, {"b": tmp_path / "b.csv"})
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="no file for any table"):
        read_log(SCHEMA, tmp_path / "empty")
    (tmp_path / "b.csv").write_text("other,id\n1,1\n1,2\n1,x\n")
    with pytest.raises(DataError, match="line 4, column id: conversion error to int64: invalid value 'x'"):
        read_log(B, {"b": tmp_path / "b.csv"})
    (tmp_path / "b.csv").write_text("other,id\n1,1\n1\n")
    with pytest.raises(DataError, match="line 3: Expected 2 columns, got 1"):
        read_log(B, {"b": tmp_path / "b.csv"})


def test_files_with_two_columns_for_one_are_refused(tmp_path: Path) -> None:
    for header in ("id,ID", "id,id"):
        (tmp_path / "b.csv").write_text(f"{header}\n1,2\n")
        with pytest.raises(DataError, match=f"two columns for id of table b: {header.replace(',', ' and ')}"):
            read_log(B, {"b": tmp_path / "b.csv"})


def test_copies_are_passed_on() -> None:
    log = read_log(B, {"b": pa.table({"id": [1, 1], "_weight": [3, -2]})})
    ((_, changes),) = log.between(0, 2)
    assert changes.to_pydict() == {"id": [1, 1], "_change_type": ["insert", "delete"], "_count": [3, 2]}


def test_quoted_text_is_never_null(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,name,day,price,seen\n1,"",,,\n2,,,,\n')
    assert read_log(SCHEMA, tmp_path, window=1).tables["a"].rows["name"].to_pylist() == ["", None]


def test_columns_of_others_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("_id,id,_commit_version,_weight\nx,1,3,2\n")
    assert read_log(B, tmp_path).tables["b"].weights.to_pylist() == [2]


def test_damaged_files_are_named(tmp_path: Path) -> None:
    file = tmp_path / "b.csv.gz"
    whole = gzip.compress("\n".join(["id", *map(str, range(9_999))]).encode())
    for damaged in (whole[:5_000], b"id\n1\n"):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match=r"b\.csv\.gz cannot be read as rows of b: .*\nhint: make the file anew"):
            read_log(B, {"b": file})
    (tmp_path / "b.csv").write_bytes(b"id,name,day,price,seen\n1,\xe5,,,\n")
    with pytest.raises(DataError, match=r"UTF8 data\nhint: save it as UTF-8"):
        read_log(SCHEMA, {"a": tmp_path / "b.csv"})


def test_a_folder_has_one_file_for_a_table(tmp_path: Path) -> None:
    (tmp_path / "b.csv").write_text("id\n1\n")
    (tmp_path / "b.txt").write_text("what is in b.csv")
    assert len(read_log(B, tmp_path)) == 1
    (tmp_path / "B.tsv").write_text("id\n1\n2\n")
    with pytest.raises(DataError, match=r"several files for table b: B\.tsv, b\.csv"):
        read_log(B, tmp_path)


def test_long_lists_of_columns_are_cut(tmp_path: Path) -> None:
    wide = parse_schema(f"CREATE TABLE b ({', '.join(f'c{i} BIGINT' for i in range(500))})")
    (tmp_path / "b.csv").write_text("id\n1\n")
    with pytest.raises(DataError, match=r"no column c0, .*, c19 and 480 more for table b"):
        read_log(wide, tmp_path)
