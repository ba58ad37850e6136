from __future__ import annotations

import json
import sys
from decimal import Decimal
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from benchmarks.data.graphs import fifo, power_law, write_log
from benchmarks.data.log import Log
from benchmarks.runners.protocol import Fingerprint, Job, Meter, latency, same
from benchmarks.runners.sampler import Sampler

OUTPUTS = [("i", "BIGINT"), ("s", "STRING"), ("d", "DATE"), ("m", "DECIMAL(20, 2)")]
ROWS = pa.table(
    {
        "i": pa.array([1, -2, None], pa.int32()),
        "s": ["a", None, "b"],
        "d": pa.array([0, 1, None], pa.date32()),
        "m": pa.array([Decimal("1.5"), Decimal("-12345678901234567.89"), None], pa.decimal128(30, 4)),
    }
)


def fingerprint(rows: pa.Table, weights: list[int] | None = None) -> dict[str, object]:
    found = Fingerprint(OUTPUTS)
    found.add(rows, None if weights is None else pa.array(weights))
    return found.to_dict()


def test_a_fingerprint_knows_no_order_and_adds_up() -> None:
    assert fingerprint(ROWS) == fingerprint(ROWS.take([2, 0, 1]))
    twice = Fingerprint(OUTPUTS)
    twice.add(ROWS.slice(0, 1), pa.array([3]))
    twice.add(ROWS)
    twice.add(ROWS.slice(0, 1), pa.array([-3]))
    assert twice.to_dict() == fingerprint(ROWS)
    assert fingerprint(ROWS)["rows"] == 3


def test_values_count_as_documented() -> None:
    sums = fingerprint(ROWS.slice(0, 2))["sums"]
    assert isinstance(sums, list)
    assert sums[0] == 2**64 - 1
    assert sums[2] == 1
    assert sums[3] == (150 - 1234567890123456789) % 2**64


def test_a_swapped_value_changes_the_hash_though_not_the_sums() -> None:
    one = pa.table({"a": [1, 2], "b": [3, 4]})
    other = pa.table({"a": [1, 2], "b": [4, 3]})
    prints = []
    for table in (one, other):
        found = Fingerprint([("a", "BIGINT"), ("b", "BIGINT")])
        found.add(table)
        prints.append(found.to_dict())
    assert prints[0]["sums"] == prints[1]["sums"]
    assert not same(*prints)
    assert same(prints[0], {**prints[1], "hash": None})


def test_a_log_gives_back_what_was_written(tmp_path: Path) -> None:
    updates = fifo("window", power_law(200))
    log = write_log(updates, tmp_path / "log")
    assert log.updates == len(updates) == 360
    assert log.columns["g"] == [("src", "BIGINT"), ("dst", "BIGINT")]
    assert set(log.initial()) == {"v1", "v2"}
    batches = list(Log.read(tmp_path / "log").batches(100))
    assert [n for n, _ in batches] == [100, 100, 100, 60]
    joined = pa.concat_tables([parts["g"] for _, parts in batches])
    assert joined.column("src").to_pylist() == updates.source.to_pylist()
    assert joined.column("_weight").to_pylist() == updates.weight.to_pylist()


def test_a_log_must_have_the_columns_of_its_schema(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has the columns"):
        Log.write(tmp_path / "log", "bad", "CREATE TABLE t (a BIGINT)", {"t": pa.table({"a": [1], "_at": [0]})})


def test_a_job_survives_its_file(tmp_path: Path) -> None:
    job = Job(tmp_path, "q", "SELECT 1", (("a", "INT"),), "delta", 10, True, tmp_path, threads=2)
    job.write(tmp_path / "job.json")
    assert Job.read(tmp_path / "job.json") == job
    assert job.tenths(25)[-1] == 25


def test_time_is_counted_where_it_is_spent() -> None:
    """A call that does not come back for long counts in full for whoever called it."""

    def part_of(file: str) -> str | None:
        return "tests" if file == __file__ else "arrow" if "/pyarrow/" in file else None

    words = pa.array(np.random.default_rng(1).integers(0, 2**62, 1_000_000))
    begun = perf_counter()
    with Sampler(part_of) as sampler:
        while sampler.seconds.get("arrow", 0.0) < 0.3 and perf_counter() < begun + 600:
            pc.sort_indices(words)
        counting = perf_counter()
        while sampler.seconds.get("tests", 0.0) < 0.3 and perf_counter() < counting + 600:
            sum(range(100))
        passed = perf_counter() - begun
    assert 0.5 * passed < sum(sampler.seconds.values())
    assert 0.3 <= sampler.seconds["arrow"] < passed
    assert 0.3 <= sampler.seconds["tests"] < passed


def test_a_look_during_a_look_counts_nothing_twice_and_loses_nothing() -> None:
    """The next signal may come while the last one is still being counted."""
    looks: list[str] = []

    def part_of(file: str) -> str | None:
        looks.append(file)
        if len(looks) == 1:
            sampler._look(0, None)
        return "tests"

    sampler = Sampler(part_of)
    sampler._last = begun = perf_counter() - 100.0
    sampler._look(0, sys._getframe())
    assert list(sampler.seconds) == ["tests"]
    assert 100.0 <= sampler.seconds["tests"] <= perf_counter() - begun


def test_percentiles_are_measured_values() -> None:
    found = latency([i / 1000 for i in range(1, 101)])
    assert found is not None
    assert (found["p50"], found["p99"], found["max"]) == (50, 99, 100)


def test_the_limit_counts_from_the_first_row_that_a_system_can_take(capfd: pytest.CaptureFixture[str]) -> None:
    """A runner's first line starts the clock: at once where the log cannot be told from what was there before it."""
    meter = Meter()
    meter.ready()
    assert capfd.readouterr().out == ""
    meter.loaded()
    assert json.loads(capfd.readouterr().out)["event"] == "progress"
    meter = Meter()
    meter.ready(at_once=True)
    assert json.loads(capfd.readouterr().out) == {"event": "progress", "updates": 0, "seconds": 0.0}
