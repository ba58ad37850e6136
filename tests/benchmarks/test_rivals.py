"""What the rivals' runners are made of, as far as it runs without the rivals."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import environments
from benchmarks.runners import flink
from benchmarks.runners.pathway_rows import as_declared, field, frame, plain
from benchmarks.runners.protocol import Fingerprint, Job
from benchmarks.runners.rows import FOREVER, lives, rows_alike
from benchmarks.runners.schema import declarations, primary_keys, tables_of, used_columns
from benchmarks.runners.spent import Spent

SCHEMA = """
CREATE TABLE a (k BIGINT NOT NULL, v STRING, PRIMARY KEY (k));
CREATE TABLE b (k BIGINT NOT NULL, w INT, FOREIGN KEY (k) REFERENCES a (k));
CREATE TABLE c (x BIGINT, y BIGINT, PRIMARY KEY (x, y));
"""


def changes(rows: list[tuple[int, int, int]]) -> pa.Table:
    """Rows of one value, with weight and position."""
    value, weight, at = zip(*rows, strict=True)
    return pa.table({"v": value, "_weight": pa.array(weight, pa.int8()), "_at": pa.array(at, pa.int64())})


TWICE = changes([(7, 1, -1), (7, 1, 0), (8, 1, 1), (7, -1, 2), (7, 1, 3), (7, -1, 4)])
"""A value that is there twice: the oldest copy goes first."""


# --- environments ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", environments.names())
def test_all_that_a_rival_installs_is_pinned_by_hash_and_no_registry_is_named(name: str) -> None:
    text = (environments.RIVALS / f"{name}.txt").read_text(encoding="utf-8")
    pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert pins
    assert all("==" in line and line.endswith("\\") for line in pins)
    assert text.count("--hash=sha256:") >= len(pins)
    assert "://" not in text


def test_every_rival_that_is_asked_for_is_locked() -> None:
    assert {p.stem for p in environments.RIVALS.glob("*.in")} == set(environments.names())


def test_an_environment_is_made_anew_when_its_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "RIVALS", tmp_path)
    monkeypatch.setattr(environments, "ENVIRONMENTS", tmp_path / "env")
    pins = tmp_path / "x.txt"
    pins.write_text("a==1", encoding="utf-8")
    done: list[list[str]] = []

    def run(command: list[str], counted: bool = False) -> None:
        done.append(command)
        (tmp_path / "env" / "x").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(environments, "_run", run)
    assert not environments.is_current("x")
    assert environments.make("x") == tmp_path / "env" / "x" / "bin" / "python"
    assert environments.is_current("x")
    environments.make("x")
    assert len(done) == 2, "once the environment, once what is in it"
    pins.write_text("a==2", encoding="utf-8")
    assert not environments.is_current("x")


def test_an_unknown_environment_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(environments.Failed, match="flink, pathway, spark"):
        environments.make("unheard-of")


def test_what_pip_says_is_told_when_it_fails() -> None:
    with pytest.raises(environments.Failed, match="no luck"):
        environments._run(["sh", "-c", "echo no luck; exit 1"])


# --- schema and query ------------------------------------------------------------------------------------------------


def test_keys_and_tables_are_read_off_the_sql() -> None:
    assert primary_keys(SCHEMA) == {"a": ("k",), "c": ("x", "y")}
    sql = "SELECT a1.v FROM a a1 JOIN a a2 ON a1.k = a2.k WHERE a1.k IN (SELECT k FROM b GROUP BY k)"
    assert tables_of(sql) == ["a", "b"]
    assert tables_of(f"WITH c AS ({sql}) SELECT * FROM c JOIN d ON c.v = d.v") == ["a", "b", "d"]
    assert used_columns(sql, {"a": ["k", "v"], "b": ["k", "w"], "c": ["x"]}) == {"a": ["k", "v"], "b": ["k"]}


def test_a_schema_of_some_tables_has_no_foreign_keys_to_others() -> None:
    assert "FOREIGN" not in declarations(SCHEMA, ["b"])
    both = declarations(SCHEMA, ["a", "b"])
    assert "FOREIGN KEY (k) REFERENCES a (k)" in both
    assert "TABLE c" not in both


# --- rows ------------------------------------------------------------------------------------------------------------


def test_a_row_that_goes_has_the_number_of_the_oldest_one_alike() -> None:
    first, second, other, gone, third, gone_next = rows_alike(TWICE)
    assert len({first, second, other, third}) == 4
    assert (gone, gone_next) == (first, second)


def test_null_is_alike_to_null() -> None:
    rows = pa.table({"v": pa.array([None, None], pa.int64()), "_weight": [1, -1], "_at": [0, 1]})
    assert len(set(rows_alike(rows))) == 1


def test_lives_are_from_where_a_row_comes_to_where_it_goes() -> None:
    found = lives(TWICE).to_pylist()
    assert [tuple(row.values()) for row in found] == [(7, -1, 2), (7, 0, 4), (8, 1, FOREVER), (7, 3, FOREVER)]


# --- Pathway ---------------------------------------------------------------------------------------------------------


def test_each_batch_has_a_time_of_its_own_after_the_rows_that_were_there() -> None:
    found = frame(TWICE, ["v"], [2, 5])
    assert found["__time__"].tolist() == [0, 2, 2, 4, 4, 4]
    assert found["__diff__"].tolist() == [1, 1, 1, -1, 1, -1]
    assert found.index.tolist() == rows_alike(TWICE).tolist()
    assert field("id") != "id"
    assert field("v") == "v"


@pytest.mark.parametrize(
    ("values", "type_", "scale"),
    [
        ([1, -2], pa.int64(), 0),
        (["a", None], pa.string(), None),
        ([date(1970, 1, 3), date(1969, 12, 31)], pa.date32(), None),
        ([datetime(2020, 1, 2, 3, 4, 5, 6), None], pa.timestamp("us"), None),
        ([Decimal("1.25"), Decimal("-0.50")], pa.decimal128(38, 2), 2),
    ],
)
def test_values_come_back_from_pathway_as_they_went_in(values: list[object], type_: pa.DataType, scale: int) -> None:
    sent = plain(pa.chunked_array([pa.array(values, type_)]))
    assert isinstance(sent, np.ndarray)
    assert all(v is None or isinstance(v, (str, int, np.int64)) for v in sent.tolist())
    assert as_declared(tuple(sent.tolist()), type_, scale).to_pylist() == values


# --- Flink -----------------------------------------------------------------------------------------------------------


def test_flink_is_sent_events_of_debezium() -> None:
    rows = pa.table(
        {
            "n": [1, 2],
            "s": ['say "x"', None],
            "d": pa.array([Decimal("1.50"), Decimal("-2.00")], pa.decimal128(15, 2)),
            "at": [date(2020, 1, 2), None],
            "t": [datetime(2020, 1, 2, 3, 4, 5, 60), None],
            "_weight": [1, -1],
            "_at": [0, 1],
        }
    )
    came, went = (json.loads(line) for line in flink.events(rows))
    assert came == {
        "op": "c",
        "before": None,
        "after": {"n": 1, "s": 'say "x"', "d": 1.5, "at": "2020-01-02", "t": "2020-01-02 03:04:05.000060"},
    }
    assert went["op"] == "d"
    assert went["after"] is None
    assert went["before"] == {"n": 2, "s": None, "d": -2.0, "at": None, "t": None}


def test_what_flink_writes_is_counted(tmp_path: Path) -> None:
    outputs = (("n", "BIGINT"), ("d", "DECIMAL(15, 2)"), ("day", "DATE"), ("t", "TIMESTAMP"), ("s", "STRING"))
    types = [pa.int64(), pa.decimal128(15, 2), pa.date32(), pa.timestamp("us"), pa.string()]
    values = [
        [1, Decimal("0.10"), date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 60_000), "x"],
        [2, Decimal("7.00"), None, None, None],
        [3, Decimal("12345678901.25"), date(1960, 1, 2), datetime(2020, 1, 2), ""],
    ]
    columns = [pa.array(column, type_) for column, type_ in zip(zip(*values, strict=True), types, strict=True)]
    rows = pa.table(columns, names=[name for name, _ in outputs])
    written = rows.append_column("_weight", pa.array([1, 1, -1]))
    out = tmp_path / flink.OUT
    out.mkdir(parents=True)
    (out / ".part-0.inprogress").write_text("".join(flink.events(written)), encoding="utf-8")
    job = Job(tmp_path, "q", "", outputs, "delta", 1, True, tmp_path)
    expected = Fingerprint(outputs)
    expected.add(rows, pa.array([1, 1, -1]))
    assert flink.fingerprint(job) == expected.to_dict()


def test_flinks_settings_follow_the_cores() -> None:
    assert flink.settings(7)["parallelism.default"] == flink.settings(7)["taskmanager.numberOfTaskSlots"] == "7"


def test_time_is_shared_out_by_the_number_of_rows() -> None:
    assert Spent(8.0, 4.0).told(initial=25, updates=75) == {"load_s": 2.0, "run_s": 6.0, "cpu_s": 3.0}
    assert Spent(8.0, 4.0).told(initial=0, updates=75) == {"load_s": 0.0, "run_s": 8.0, "cpu_s": 4.0}
