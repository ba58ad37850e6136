"""Saving and loading take little memory beside the state: measured by the memory of a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

RUN = """
import ctypes, json, sys, threading
import pyarrow as pa
import everview as ev

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

def above(work):
    trim = ctypes.CDLL("libc.so.6").malloc_trim
    trim(0)
    peak = memory()
    done = threading.Event()

    def watch():
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    made = work()
    done.set()
    watcher.join()
    trim(0)
    return peak - memory(), made  # What it took beside what it has made.

DEFINITIONS = (
    'CREATE TABLE t (k INT, g INT, s STRING);'
    'CREATE MATERIALIZED VIEW v AS SELECT a.k AS x, b.k AS y FROM t a JOIN t b ON a.g = b.g;'
    'CREATE MATERIALIZED VIEW w AS SELECT DISTINCT k, s FROM t;'
)

def filled(rows):
    db = ev.Database()
    db.sql(DEFINITIONS)
    numbers = pa.array(range(rows), pa.int32())
    texts = pa.array(f"the text of row {i}" for i in range(rows))
    db.insert("t", pa.table({"k": numbers, "g": numbers, "s": texts}))
    return db

path = sys.argv[1]
filled(1_000).save(path)  # What is imported at the first use is there.
ev.Database.load(path)
db = filled(int(sys.argv[2]))
state = db.nbytes()
saving, _ = above(lambda: db.save(path))
shown = len(db.view("v")), len(db.view("w"))
db = None
first, loaded = above(lambda: ev.Database.load(path))
loaded = None
again, loaded = above(lambda: ev.Database.load(path))  # What is freed late, on a busy machine, is not late twice.
loading = min(first, again)
same = (len(loaded.view("v")), len(loaded.view("w"))) == shown
restored = loaded.view("w").stats()["restored"]
print(json.dumps({"state": state, "saving": saving, "loading": loading, "same": same, "restored": restored}))
"""

MEGABYTE = 1 << 20
ROWS = 300_000


def test_saving_and_loading_take_blocks_of_memory(tmp_path: Path) -> None:
    """Some blocks at a time beside the state: with copies of the units' bytes it would be nearly the state again."""
    arguments = [sys.executable, "-c", RUN, str(tmp_path / "saved"), str(ROWS)]
    found = json.loads(subprocess.run(arguments, capture_output=True, text=True, check=True).stdout)
    assert found["same"], found
    assert found["restored"] == "snapshot", found
    assert found["state"] > 60 * MEGABYTE, found
    assert found["saving"] < found["state"] / 2, found
    assert found["loading"] < found["state"] / 2, found
