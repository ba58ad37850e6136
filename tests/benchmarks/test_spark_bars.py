"""What the bars of the Spark pipeline are measured with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.runners import processes
from benchmarks.spark import Run, table
from tests.spark.shards import until


def test_processor_time_is_counted_of_those_that_have_ended_too() -> None:
    before, begun = processes.cpu(processes.of_tree(os.getpid())), perf_counter()
    busy = "from time import process_time\nwhile process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", busy], check=True)
    spent, passed = processes.cpu(processes.of_tree(os.getpid())) - before, perf_counter() - begun
    assert 0.45 <= spent <= (os.cpu_count() or 1) * passed + 1.0


def test_a_tree_of_processes_has_those_that_began_sessions_of_their_own() -> None:
    nested = "import subprocess, sys; subprocess.run(['sleep', '3600'], start_new_session=True)"
    with subprocess.Popen([sys.executable, "-c", nested], start_new_session=True) as child:
        try:
            until(lambda: len(processes.of_tree(child.pid)) == 2)
            assert set(processes.of_tree(child.pid)) < set(processes.of_tree(os.getpid()))
        finally:
            for pid in processes.of_tree(child.pid):
                os.kill(pid, signal.SIGKILL)


def test_rows_that_were_written_are_counted_in_the_files(tmp_path: Path) -> None:
    run = Run(None, tmp_path)
    (run.folder / "sink" / "_spark_metadata").mkdir(parents=True)
    (run.folder / "sink" / "_spark_metadata" / "0").write_text("v1", encoding="utf-8")
    for i in range(3):
        pq.write_table(pa.table({"n": range(10 + i)}), run.folder / "sink" / f"part-{i}.parquet")
    assert run.written() == 33


def test_the_table_says_where_the_feed_went_and_how_many_cores_were_busy() -> None:
    record = {
        "bench": "2 shards against 1",
        "query": "3-hop",
        "graph": "power law",
        "sink": "feed to files",
        "seconds": [3.0, 2.0],
        "cores": [1.25, 1.875],
        "value": 1.5,
        "bar": 1.6,
        "most": False,
    }
    shown = table([record]).splitlines()[-1]
    assert "3-hop, power law, feed to files" in shown
    assert "3.00 s and 2.00 s; 1.25 and 1.88 cores busy | 1.50 | ≥ 1.60 | **missed**" in shown
