"""A memory limit bounds what a batch needs on its way, too: measured by the memory of a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys

LIMIT = 30_000_000
RUN = f"""
import json, threading, time
import pyarrow as pa
import everview as ev
from everview.errors import MemoryLimitError

def memory():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

db = ev.Database(memory_limit={LIMIT})
db.sql("CREATE TABLE t (k INT, g INT, x DECIMAL(12, 2))")
for i in range(200):
    key = f"(k + {{i}}) % 1000"
    query = f"SELECT {{key}} AS q, SUM(x) AS a, COUNT(*) AS n FROM t WHERE g <> {{i}} GROUP BY {{key}}"
    db.create_view(f"v{{i}}", query)
numbers = pa.array(range(100_000), pa.int32())
rows = pa.table({{"k": numbers, "g": numbers, "x": numbers.cast(pa.decimal128(12, 2))}})
before = peak = memory()
done = threading.Event()

def watch():
    global peak
    while not done.wait(0.002):
        peak = max(peak, memory())

watcher = threading.Thread(target=watch)
watcher.start()
refused = ""
try:
    db.insert("t", rows)
except MemoryLimitError as error:
    refused = str(error)
done.set()
watcher.join()
print(json.dumps({{"above": peak - before, "refused": refused, "rows": len(db.table("t"))}}))
"""


def test_many_views_of_a_large_batch_stay_within_the_limit() -> None:
    """Refused, or taken with at most 1.2 times the limit above what the process had just before."""
    ended = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout)
    assert found["refused"] or found["above"] <= 1.2 * LIMIT, found
    assert found["rows"] == (0 if found["refused"] else 100_000)
