from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import bars, report, results, summary
from benchmarks.experiments import EXPERIMENTS
from benchmarks.experiments.base import Experiment, at_least, at_most
from benchmarks.experiments.breakeven import stages, wins
from benchmarks.experiments.profile import shares
from benchmarks.experiments.runtime import of_one_machine

CIRCUMSTANCES = {"date": "2026-11-16 04:00", "command": "python -m benchmarks", "machine": "some machine"}


def record(system: str, status: str = "ok", **told: object) -> results.Record:
    latency = {"mean": 2.0, "p50": 1.0, "p99": 9.0, "max": 10.0}
    measured = {"run_s": 1.0, "rows": 50, "updates": 100, "latency_ms": latency, "latency_tenths_ms": [latency] * 10}
    described = {
        "case": "3-hop",
        "title": "3-Hop",
        "data": "epinions, file order",
        "source": "epinions",
        "system": system,
        "mode": "delta",
        "batch": 1000,
        "every": 10,
        "per_update": True,
        "limit_s": 60,
        "limit_bytes": 2**34,
        "log_updates": 100,
        "status": status,
        "reason": "after 60 s",
        "check": {"status": "ok"},
        "peak_rss": 2**28,
        "state_bytes": 2**20,
        "batch_ms": {"1": 1.0, "10": 2.0, "100": 20.0},
        "enclosureness": 2.0,
        "steps": 500,
        "point": "bulk",
        "load_s": 0.5,
        "runs_s": [1.0],
        "imported": [],
        "parts_s": {"kernel": 0.75, "Python": 0.25},
    }
    return described | (measured if status == "ok" else {}) | CIRCUMSTANCES | told


def test_the_pages_are_what_the_results_files_make() -> None:
    """No number can be typed in."""
    assert report.PAGE.read_text(encoding="utf-8") == report.page()
    assert report.TABLES.read_text(encoding="utf-8") == report.tables_page()


def test_the_page_for_who_decides_is_short_and_quotes_figures_in_generated_places_only() -> None:
    page = report.PAGE.read_text(encoding="utf-8")
    assert {name for _, name, _ in report.FIGURES.findall(page)} == summary.BLOCKS.keys()
    assert page.count("<!-- figures: ") == len(summary.BLOCKS)
    written = report.FIGURES.sub("", page)
    assert not re.search(r"\d\.\d|\d,\d{3}|\d ?(s|ms|µs|MiB|GiB|MB|GB|×|%|times)\b", written)
    assert len(page.splitlines()) <= 140


def test_times_that_are_compared_are_of_one_machine() -> None:
    found = {
        "everview": record("everview"),
        "native": record("native", machine="some machine, pyspark 4"),
        "flink": record("flink", machine="another machine"),
        "pathway": record("pathway", "memory", machine="another machine"),
    }
    assert list(of_one_machine(found)) == ["everview", "native", "pathway"]
    assert list(of_one_machine({"flink": found["flink"]})) == ["flink"]


@pytest.mark.parametrize("block", summary.BLOCKS.values(), ids=list(summary.BLOCKS))
def test_figures_that_were_not_measured_are_not_told(block: Callable[[Path], str], tmp_path: Path) -> None:
    assert "ot measured" in block(tmp_path)


def test_the_summary_counts_who_wins(tmp_path: Path) -> None:
    def case(title: str, rival: str, status: str = "ok", **told: object) -> list[results.Record]:
        return [record("everview", title=title, run_s=10.0), record(rival, status, title=title, **told)]

    runs = [
        *case("won", "flink", run_s=11.0),
        *case("lost", "pathway", run_s=9.0),
        *case("won in time", "duckdb", "timeout", limit_s=30),
        *case("open", "duckdb", "timeout", limit_s=5),
        *case("no rival", "pathway", "memory"),
    ]
    results.write("runtime", [r | {"case": r["title"]} for r in runs], whole=True, folder=tmp_path)
    assert summary.outcome(tmp_path) == (
        "Over all 4 pairs of query and data where a rival was run, Everview is faster than the best of them in 2. "
        "It is beaten 1 time by Pathway; in 1 it is not known, as the rival was ended before our own time had passed."
    )


def test_the_summary_says_where_recomputing_begins_to_win(tmp_path: Path) -> None:
    slow = {"1": 100.0, "10": 100.0, "100": 100.0}
    crossing = record("everview", title="a", case="a", batch_ms={"1": 1.0, "10": 10.0, "100": 1000.0})
    always = record("everview", title="b", case="b", batch_ms={"1": 2.0, "10": 3.0, "100": 4.0})
    rivals = [record("duckdb", title=t, case=t, batch_ms=slow) for t in "ab"]
    results.write("breakeven", [crossing, always, *rivals], whole=True, folder=tmp_path)
    assert summary.break_even(tmp_path).splitlines()[-1] == "| DuckDB, recomputing | 2 | 50 to 100 | 1 | 31 |"


def test_every_plot_that_the_page_shows_is_there() -> None:
    for experiment in EXPERIMENTS.values():
        found = results.read(experiment.results)
        for name in experiment.plots(found) if found else {}:
            assert (report.PLOTS / f"{name}.svg").exists()
            assert (report.PLOTS / f"{name}.png").exists()


@pytest.mark.slow
@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_every_experiment_shows_runs_that_ended_well_and_that_did_not(experiment: Experiment, tmp_path: Path) -> None:
    stopped = ("timeout", "memory", "unsupported", "error", "wrong")
    others = zip(("native", "flink", "pathway", "duckdb", "spark"), stopped, strict=True)
    records = [record("everview"), *(record(system, status) for system, status in others)]
    if experiment.name == "start":
        records = records[:1]
    shown = experiment.table(records)
    assert "3-Hop" in shown or "epinions" in shown
    for name, drawn in experiment.plots(records).items():
        drawn.savefig(tmp_path / f"{name}.svg")


def test_figures_are_rounded_against_us() -> None:
    assert at_most(4.001) == "4.01"
    assert at_most(4.01) == "4.01"
    assert at_least(19.999) == "19.99"
    assert at_least(20) == "20.00"


def test_break_even_is_where_the_curves_cross() -> None:
    flat = {1: 10.0, 10: 10.0, 100: 10.0}
    ((begin, end),) = wins({1: 1.0, 10: 9.0, 100: 100.0}, flat)
    assert begin is None
    assert 10 < (end or 0) < 12
    assert wins({1: 20.0, 10: 30.0, 100: 40.0}, flat) == []
    assert wins({1: 1.0, 10: 2.0, 100: 3.0}, flat) == [(None, None)]
    ((begin, end),) = wins({1: 20.0, 10: 5.0, 100: 40.0}, flat)
    assert 1 < (begin or 0) < 10 < (end or 0) < 100


def test_parts_of_the_time_are_parts_of_a_whole() -> None:
    told = {"kernel": 1.5, "Arrow": 0.25, "DuckDB": 0.0, "Python": 0.25}
    assert shares(record("everview", parts_s=told)) == {"kernel": 0.75, "Arrow": 0.125, "Python": 0.125}
    assert shares(record("everview", parts_s=None)) == {}


def test_batches_grow_as_far_as_the_log_goes() -> None:
    sizes = stages(5_000)
    assert sum(sizes) <= 5_000
    assert sizes[0] == 1
    assert sizes[-1] == 1_000


def test_a_bar_is_reached_when_a_rival_does_not_finish(tmp_path: Path) -> None:
    runs = [record("everview"), record("native", run_s=0.1), record("flink", "timeout"), record("pathway", run_s=19.0)]
    results.write("runtime", runs, whole=True, folder=tmp_path)
    found = {bar.what: bar for bar in bars.bars(tmp_path)}
    assert found["3-Hop, epinions, file order: time ÷ by hand"].is_reached is False
    assert found["3-Hop, epinions, file order: Flink's time ÷ ours"].is_reached is True
    assert "60.00" in found["3-Hop, epinions, file order: Flink's time ÷ ours"].row()[2]
    assert found["3-Hop, epinions, file order: Pathway's time ÷ ours"].is_reached is False
    assert found["`import everview`, no pyspark imported, seconds"].is_reached is None


def test_the_best_rival_is_named_and_may_be_one_that_was_stopped() -> None:
    runs = [record("everview"), record("flink", run_s=83.0), record("duckdb", "timeout"), record("pathway", "memory")]
    shown = EXPERIMENTS["runtime"].table(runs)
    assert "> 60.00 (DuckDB)" in shown
    assert "| 0.50 (Pathway) |" in EXPERIMENTS["runtime"].table([*runs[:3], record("pathway", run_s=0.5)])
    other = record("spark", data="another", run_s=2.0)
    assert "not run" in EXPERIMENTS["runtime"].table([*runs, other])


def test_times_that_were_checked_on_a_part_say_so() -> None:
    part = record("everview", scale=1.0, check={"status": "ok", "scale": 0.1})
    assert "1 s †" in EXPERIMENTS["runtime"].table([part])
    assert "†" not in EXPERIMENTS["runtime"].table(
        [record("everview", scale=1.0, check={"status": "ok", "scale": 1.0})]
    )


def test_a_bar_is_missed_if_we_do_not_finish(tmp_path: Path) -> None:
    runs = [record("everview", "timeout"), record("native"), record("flink"), record("pathway", "memory")]
    results.write("runtime", runs, whole=True, folder=tmp_path)
    results.write("start", [record("everview", imported=["pyspark"])], whole=True, folder=tmp_path)
    found = {bar.what: bar.is_reached for bar in bars.bars(tmp_path)}
    for what in ("time ÷ by hand", "Flink's time ÷ ours", "Pathway's time ÷ ours"):
        assert found[f"3-Hop, epinions, file order: {what}"] is False
    assert found["`import everview`, no pyspark imported, seconds"] is False


def test_of_two_runs_the_median_is_shown(tmp_path: Path) -> None:
    results.write("runtime", [record("everview", run_s=1.0, runs_s=[1.0, 2.0])], whole=True, folder=tmp_path)
    assert [r["run_s"] for r in results.read("runtime", tmp_path)] == [1.5]


def test_a_measurement_says_what_it_was_made_of() -> None:
    told = results.circumstances("benchmarks.engine")
    assert told["command"].startswith("python -m benchmarks.engine")
    assert told["revision"] in results.provenance([told], "engine")


def test_newer_results_replace_those_of_the_same_run(tmp_path: Path) -> None:
    results.write("runtime", [record("everview"), record("duckdb")], whole=True, folder=tmp_path)
    results.write("runtime", [record("everview", run_s=2.0)], whole=False, folder=tmp_path)
    kept = {r["system"]: r["run_s"] for r in results.read("runtime", tmp_path)}
    assert kept == {"everview": 2.0, "duckdb": 1.0}
    assert all(json.dumps(r) for r in results.read("runtime", tmp_path))
