from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import engine, planning, report, results, spark, state, summary, triangle
from benchmarks.data.graphs import at_random, fifo, power_law, shuffled
from benchmarks.drive import DatabaseRun, KernelRun, Sums
from benchmarks.native import Native

EDGES = power_law(400)


def test_generated_graphs_are_always_the_same() -> None:
    assert power_law(400) == EDGES
    assert len(set(EDGES)) == 400
    assert sorted(shuffled(EDGES)) == sorted(EDGES)


def test_a_window_deletes_an_edge_just_before_its_successor_comes() -> None:
    updates = fifo("window", [(i, i) for i in range(10)])
    found = list(zip(updates.source.to_pylist(), updates.weight.to_pylist(), strict=True))
    assert updates.window == 2
    assert found[:6] == [(0, 1), (1, 1), (0, -1), (2, 1), (1, -1), (3, 1)]


def test_random_updates_delete_only_what_is_there() -> None:
    there: set[tuple[int, int]] = set()
    updates = at_random("random", EDGES)
    for a, b, weight in zip(*(c.to_pylist() for c in (updates.source, updates.target, updates.weight)), strict=True):
        assert ((a, b) in there) == (weight < 0)
        (there.add if weight > 0 else there.discard)((a, b))


def test_the_state_of_a_window_is_measured_and_quoted(tmp_path: Path) -> None:
    names = [window[:3] for window in state.windows(None, 500)]
    assert names[1:] == [("3-hop", "power law", "random"), ("4-hop", "power law, 100 edges", "random")]
    record = state.measured("3-hop", "power law", "random", EDGES)
    assert record["value"] == record["bytes"] / (record["window"] * 16 * 3) > 1
    found = [{**record, "value": 2.971, "bytes": 11_440, "bar": 3.0}, {**record, "query": "4-hop", "value": 3.5}]
    feed = {"bench": "feed", "value": 1.011, "largest": 3 << 20, "bytes": 5 << 20, "state": 2 << 20, "bar": 1.3}
    found.append({**record, **feed})
    results.put("state", results.circumstances("benchmarks.state"), found, tmp_path)
    told = summary.cost(tmp_path)
    assert "a process grows by at most 1.02 times the largest batch's rows more than without it (3.0 MiB as" in told
    assert "in all by 5 MiB, of which the state has 2)" in told
    assert "State of all queries measured (3-hop, 4-hop; `make bench-state`, 20" in told
    assert "): 2.97 to 3.50 times the rows" in told
    assert "State of 3-hop on power law, random: 2.98 times that, 143 bytes a row (bar: 3 times)" in told


def test_growth_by_a_feed_is_beside_its_largest_batch() -> None:
    updates = fifo("random", EDGES)
    grown, largest = state.grown("3-hop", updates, True)
    rows = DatabaseRun("3-hop", updates, batch=state.FEED_BATCH).deltas()[0].rows  # of one batch
    assert grown >= 0
    assert state.grown("3-hop", updates, False)[1] == 0
    assert largest >= rows * 8 * 7


@pytest.mark.slow
@pytest.mark.parametrize("query", ["3-hop", "4-hop"])
def test_deltas_are_those_of_the_hand_written_program(query: str) -> None:
    updates = fifo("window", EDGES)
    records = list(engine.deltas(query, "power law", "random", updates, 1, None))
    assert [(r["bench"], r["level"]) for r in records] == [
        ("deltas", "kernel"),
        ("deltas", "database"),
        ("memory", "kernel"),
        ("memory", "database"),
    ]
    assert records[0]["rows"] > 100


def test_a_wrong_row_is_noticed() -> None:
    updates = fifo("window", EDGES)
    native = Native("three_hop", updates)
    checked = native.run("check")
    native.close()
    other = KernelRun("3-hop", fifo("window", EDGES[::-1]))
    sums = Sums()
    measured, _ = other.deltas(sums.add)
    with pytest.raises(engine.Wrong):
        engine.compare("reversed", checked, measured, sums)


@pytest.mark.slow
def test_the_other_bars_give_records_and_a_table() -> None:
    records = [
        *engine.selectivity("power law", "random", fifo("window", EDGES), 100, 1),
        *engine.growth("star", "random", (300, 600), 1),
        *engine.growth("4-hop", "inserts", (300, 600), 1),
        *engine.enumeration((100, 300), 1),
    ]
    for record in records:
        json.dumps(record)
    table = engine.table(records)
    assert len(table.splitlines()) == len(records) + 2
    assert {r["bench"] for r in records} >= {"steps", "growth", "enumeration", "first result"}


def test_triangles_are_those_of_the_hand_written_program() -> None:
    """Loops and dense parts are among them; a wrong number is an error."""
    edges = [(a, b) for a in range(12) for b in range(12) if (a * b + a) % 3 != 1]
    updates = fifo("window", shuffled(edges), share=2)
    records = [
        *triangle.counts("dense", "shuffled", updates, 1, 6.0),
        *triangle.listing("dense", "shuffled", updates, 1, 8.0),
        *triangle.hubs((100, 1_000)),
    ]
    assert [(r["bench"], r.get("level")) for r in records] == [
        ("count", "kernel"),
        ("count", "database"),
        ("listing", "kernel"),
        ("listing", "database"),
        ("hubs", None),
    ]
    assert records[0]["triangles"] > 50
    assert records[2]["rows"] > 500
    assert records[-1]["value"] == 1
    assert len(triangle.table(records).splitlines()) == len(records) + 2


def test_the_cube_of_a_matrix() -> None:
    assert triangle.trace_of_cube(Counter({(0, 0): 2, (0, 1): 1, (1, 2): 3, (2, 0): 1})) == 8 + 3 * 3


@pytest.mark.parametrize(
    "benchmark", [engine, planning, spark, triangle], ids=["engine", "planning", "spark", "triangle"]
)
def test_kept_results_are_what_the_page_shows(benchmark: ModuleType) -> None:
    head, *kept = results.read(benchmark.__name__.rpartition(".")[2])
    shown = report.TABLES.read_text(encoding="utf-8").partition(benchmark.MARK)[2].partition(benchmark.END)[0]
    assert shown.strip() == benchmark.section(head, kept)
