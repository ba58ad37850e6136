from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import __main__ as main
from benchmarks import results
from benchmarks.bench import PATIENCE, Bench
from benchmarks.case import Case, Data, read_cases
from benchmarks.experiments.base import Experiment
from benchmarks.harness import Limits, supervised
from benchmarks.runners import processes
from benchmarks.runners.protocol import UNSUPPORTED
from benchmarks.systems import SYSTEMS, System

RESULT = """print('noise'); print('{"event": "progress", "updates": 7}'); print('{"event": "result", "run_s": 1.5}')"""


def run(program: str, folder: Path, seconds: float = 600, memory: int = 2**30) -> dict[str, object]:
    return supervised([sys.executable, "-c", program], folder, Limits(seconds, memory))


def test_a_result_is_taken_from_among_what_a_system_prints(tmp_path: Path) -> None:
    found = run(RESULT, tmp_path)
    assert (found["status"], found["run_s"], found["updates"]) == ("ok", 1.5, 7)


def test_a_run_that_fails_says_why(tmp_path: Path) -> None:
    found = run("raise SystemExit('no such thing')", tmp_path)
    assert (found["status"], found["reason"]) == ("error", "no such thing")
    assert run("pass", tmp_path)["status"] == "error"
    assert run(f"raise SystemExit({UNSUPPORTED})", tmp_path)["status"] == "unsupported"


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_ended_with_all_it_started(tmp_path: Path) -> None:
    child = "import time; time.sleep(3600)"
    program = f"""
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {child!r}], start_new_session=True)
print('{{"event": "progress", "updates": 3}}', flush=True)
open({str(tmp_path / "run")!r}, "w").write(os.environ[{processes.MARK!r}])
time.sleep(3600)
"""
    found = run(program, tmp_path, seconds=10)
    assert (found["status"], found["updates"]) == ("timeout", 3)
    assert not processes.of_run((tmp_path / "run").read_text(encoding="utf-8"))


def test_a_run_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    found = run("import time; a = bytearray(300_000_000); time.sleep(3600)", tmp_path, memory=200_000_000)
    assert found["status"] == "memory"
    assert int(str(found["peak_rss"])) > 200_000_000


def test_cases_are_well_formed() -> None:
    cases = list(read_cases())
    assert {c.name for c in cases} >= {"3-hop", "4-hop", "2-comb", "star", "dumbbell", "snb-q1", "tpch-q18"}
    for case in cases:
        assert case.sql.startswith(("SELECT", "WITH"))
        assert "LIMIT" not in case.sql
        assert set(case.systems) | set(case.quick) | set(case.limits) <= SYSTEMS.keys()
        assert case.data.at(0.1, None).title


def test_little_data_has_all_the_time_that_a_slow_machine_needs() -> None:
    (quick,), (first, *_) = (list(Bench(quick=q, only=("3-hop",)).cases()) for q in (True, False))
    assert quick.limit == PATIENCE * first.limit
    assert quick.limits == {name: PATIENCE * seconds for name, seconds in first.limits.items()}


def test_a_generated_graph_stands_in_for_a_file_that_is_not_there() -> None:
    case = Case("3-hop", "3-Hop", "crown/3-hop", Data("epinions", order="file"), deltas=5)
    assert case.scaled(1, Path()).deltas == 5
    other = case.scaled(0.1, None)
    assert (other.data.source, other.data.order, other.deltas) == ("power-law", "source", None)


def test_rivals_are_checked_on_the_first_data_of_a_query_and_we_on_each() -> None:
    harness = Bench().harness
    first, second = [c for c in read_cases() if c.name == "3-hop"][:2]
    assert (first.data.source, second.data.source) == ("bitcoin-alpha", "epinions")
    found = {
        name: harness.to_check(replace(second, every=7), SYSTEMS[name]) for name in ("everview", "native", "flink")
    }
    assert found["flink"].data == first.scaled(first.check_scale, None).data
    assert found["flink"].every == 7
    assert found["everview"].data == second.scaled(1.0, None).data
    assert found["native"].data == second.scaled(second.check_scale, None).data
    loaded = harness.to_check(replace(second, data=replace(second.data, after=0.5)), SYSTEMS["duckdb"])
    assert loaded.data == replace(first.scaled(first.check_scale, None).data, after=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["everview", "everview-spark-2", "duckdb"])
def test_a_case_is_run_and_checked(system: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.case.LOGS", tmp_path)
    monkeypatch.setattr("benchmarks.harness.BUILD", tmp_path)
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1")  # Spark runs for a batch: not worth compiling.
    bench = Bench(scale=0.02, quick=True, only=("3-hop",))
    (case,) = bench.cases()
    record = bench.measure(case, SYSTEMS[system])
    assert (record["status"], record["check"]["status"]) == ("ok", "ok")
    assert record["check"]["rows"] > 0
    assert record["rows"] > 0


def test_a_wrong_result_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.case.LOGS", tmp_path)
    monkeypatch.setattr("benchmarks.harness.BUILD", tmp_path)
    monkeypatch.setattr("benchmarks.harness.expected", lambda *_: {"rows": 1, "sums": [0, 0, 0, 0], "hash": 0})
    bench = Bench(scale=0.02, quick=True, only=("3-hop",))
    (case,) = bench.cases()
    record = bench.measure(case, SYSTEMS["everview"])
    assert record["status"] == "wrong"
    assert bench.failed == [(record, record["reason"])]


@pytest.mark.parametrize(
    ("system", "quick", "told", "fails"),
    [
        ("everview", False, {"status": "error", "reason": "it broke"}, True),
        ("flink", False, {"status": "error", "reason": "it broke"}, False),
        ("flink", True, {"status": "error", "reason": "it broke"}, True),
        ("flink", False, {"status": "wrong", "reason": "a row is missing"}, True),
        ("everview", False, {"status": "timeout", "reason": "after 40 s"}, False),
        ("everview", False, {"status": "ok", "check": {"status": "timeout", "reason": "after 120 s"}}, True),
        ("duckdb", False, {"status": "ok", "check": {"status": "timeout", "reason": "after 120 s"}}, False),
        ("duckdb", True, {"status": "ok", "check": {"status": "timeout", "reason": "after 120 s"}}, True),
    ],
)
def test_what_makes_the_benchmarks_fail(
    system: str, quick: bool, told: dict[str, object], fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong result, and one of ours that is missing or unchecked; that a rival does not finish is a result."""
    bench = Bench(scale=0.02, quick=quick, only=("3-hop",))
    found = {"check": {"status": "ok", "reason": ""}, "run_s": 1.0, "peak_rss": 1} | told
    monkeypatch.setattr(bench.harness, "measure", lambda *_: found)
    bench.measure(next(bench.cases()), SYSTEMS[system])
    assert bool(bench.failed) is fails


def test_a_time_is_the_median_of_its_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(scale=0.02, only=("3-hop",))
    times = iter([4.0, 3.0, 9.0])
    monkeypatch.setattr(bench.harness, "check", lambda *_: {"status": "ok", "reason": ""})
    run = {"status": "ok", "wall_s": 5.0, "peak_rss": 1, "rows": 1}
    monkeypatch.setattr(bench.harness, "run", lambda *_, **__: run | {"run_s": next(times)})
    case = replace(next(bench.cases()), deltas=None)
    record = bench.measure(case, SYSTEMS["everview"])
    assert (record["run_s"], record["runs_s"]) == (3.5, [3.0, 4.0])
    run["wall_s"], times = 15.0, iter([0.5, 0.4])
    assert bench.measure(case, SYSTEMS["everview"])["runs_s"] == [0.5]


def test_checks_come_ahead_of_what_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once; the rehearsal itself measures nothing."""
    bench = Bench(scale=0.02, only=("3-hop",))
    (case, *_) = bench.cases()
    wanted = [(system, mode) for system in ("everview", "duckdb") for mode in ("delta", "full")]
    seen: list[tuple[str, str, bool]] = []

    def run(_: Case, system: System, mode: str, *__: object, check: bool, **___: object) -> dict[str, object]:
        seen.append((system.name, mode, check))
        return {"status": "ok", "fingerprint": {}, "run_s": 7.0, "wall_s": 8.0, "peak_rss": 1, "rows": 1}

    def experiment(bench: Bench) -> Iterator[results.Record]:
        for name, mode in [*wanted, *wanted[:1]]:
            yield bench.measure(replace(case, deltas=None), SYSTEMS[name], mode)

    monkeypatch.setattr(bench.harness, "run", run)
    monkeypatch.setattr("benchmarks.harness.expected", lambda *_: {"rows": 5})
    monkeypatch.setattr("benchmarks.harness.same", lambda *_: True)
    bench.check_ahead(experiment)
    assert sorted(seen) == sorted((name, mode, True) for name, mode in wanted)
    seen.clear()
    assert [r["check"]["rows"] for r in experiment(bench)] == [5, 5, 5, 5, 5]
    assert seen == [(name, mode, False) for name, mode in [*wanted, *wanted[:1]]]


def test_what_a_stopped_run_has_measured_is_neither_checked_nor_timed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(results, "_is_same_code", lambda _: True)
    bench = Bench(scale=0.02, only=("3-hop",))
    (case, *_) = bench.cases()
    names = ("everview", "duckdb", "flink")
    told = {name: bench.told(bench.harness.describe(case, SYSTEMS[name], "delta")) for name in names}
    told["duckdb"] |= {"status": "ok", "run_s": 1.0}
    told["flink"] |= {"status": "error"}
    kept = [told["duckdb"], told["flink"], told["everview"] | {"status": "ok", "machine": "another"}]
    results.write("runtime", kept, whole=True, folder=tmp_path)
    bench.known = results.recent("runtime", tmp_path)
    assert list(bench.known.values()) == [told["duckdb"]]
    asked = []

    def experiment(bench: Bench) -> Iterator[results.Record]:
        for name in ("everview", "duckdb"):
            yield bench.measure(case, SYSTEMS[name])

    def check(_: Case, system: System, *__: object) -> results.Record:
        asked.append(system.name)
        return {"status": "wrong", "reason": "so that nothing is timed"}

    monkeypatch.setattr(bench.harness, "check", check)
    bench.check_ahead(experiment)
    assert asked == ["everview"]
    assert [r["status"] for r in experiment(bench)] == ["wrong", "ok"]
    bench.known = {results.key(r): r | {"status": "wrong", "reason": "so it was"} for r in bench.known.values()}
    bench.failed.clear()
    assert [r["status"] for r in experiment(bench)] == ["wrong", "wrong"]
    assert [r["reason"] for r, _ in bench.failed] == ["so that nothing is timed", "so it was"]


@pytest.mark.parametrize(
    ("told", "recent"),
    [
        ({}, True),
        ({"machine": results.machine() + ", pyspark 4.3.0"}, True),
        ({"machine": "another"}, False),
        ({"date": "2020-01-01 00:00"}, False),
        ({"revision": "abc with changes"}, True),
        ({"revision": "def"}, False),
    ],
)
def test_a_run_is_gone_on_with_on_the_same_machine_with_the_same_code_within_hours(
    told: results.Record,
    recent: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(results, "_is_same_code", lambda commit: commit == "abc")
    head = results.circumstances() | {"revision": "abc"} | told
    results.put("engine", head, [], tmp_path)
    assert results.stands("engine", tmp_path) is recent
    assert ("measured already" in capsys.readouterr().out) is recent
    assert not results.stands("spark", tmp_path)


def test_code_of_an_unknown_commit_is_another() -> None:
    assert not results._is_same_code("")
    assert not results._is_same_code("no-such-commit")


def test_what_is_stopped_half_way_keeps_the_rest_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.results.write", partial(results.write, folder=tmp_path))
    one, two, old = ({"case": name, "title": name} for name in ("one", "two", "old"))
    results.write("some", [old, one | {"run_s": 9}], whole=True, folder=tmp_path)

    def stopped(_: Bench) -> Iterator[results.Record]:
        yield one
        raise KeyboardInterrupt

    experiment = Experiment("some", "Some", "", "some", lambda _: "", lambda _: {}, stopped)
    with pytest.raises(KeyboardInterrupt):
        main.run(experiment, Bench(), write=True, whole=True)
    assert results.read("some", tmp_path) == [old, one]
    main.run(replace(experiment, run=lambda _: iter([one, two])), Bench(), write=True, whole=True)
    assert results.read("some", tmp_path) == [one, two]
