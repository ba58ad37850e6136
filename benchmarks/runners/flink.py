"""Apache Flink: the query as streaming SQL in PyFlink's Table API, in a local cluster within one JVM.

Fed by a ``filesystem`` source a table, in ``debezium-json``: inserts and deletes, in the log's order. Flink keeps that
order within a table, since a local file is one split, read by one task. It promises none between tables: the final
result is exact, but what is delivered on the way is that of some interleaving. Changes go to a ``blackhole`` sink; in
check runs they are written out as they come, and counted.

As Flink's documentation advises for throughput:

- *Performance Tuning*: mini-batches for aggregations and joins (the page's 5 s and 5000 rows), local-global
  aggregation, split distinct aggregation. The primary keys are declared, so that joins keep their state by them.
- *Execution Configuration*: object reuse; *Controlling Latency*: buffers are flushed when they are full;
  *Parallel Execution*: a task slot a core.
- *State Backends*: ``hashmap``, objects on the heap, the fastest for state that fits; no checkpoints are taken.
- *Memory configuration*: most of what a run may use is heap, which holds the state; network memory is not scarce.

Its multi-way join (*Multiple Regular Joins*, experimental, off unless asked for) stays off: in 2.3.0 it gives wrong
results for self-joins (seen with 2-Comb, 4-Hop projected and Dumbbell).

Rows that are there before the log cannot be told from the log's in one job: the job's time is shared out by their
number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from benchmarks.data.log import Log
from benchmarks.environments import java_home
from benchmarks.runners.protocol import Fingerprint, Job, Meter, arrow_type, job_and_log, unsupported
from benchmarks.runners.schema import primary_keys, tables_of
from benchmarks.runners.spent import Spent, Watch

HEAP = "9g"
"""The harness ends a run that holds 12 GiB."""
OUT = "out"
"""Where a check run writes the changes."""
LINES = 50_000
"""Rows that are written at a time."""


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    if job.mode == "full":
        unsupported("Flink delivers changes to a sink; its result cannot be read at a moment of one's choice")
    meter = Meter()
    tables = {name: log.tables[name] for name in tables_of(job.sql)}
    for name, rows in tables.items():
        write_changes(rows, job.scratch / f"{name}.json")
    spent = run(table_environment(job), job, log, list(tables), meter)
    found = fingerprint(job) if job.check else None
    before = sum(len(rows) for name, rows in log.initial().items() if name in tables)
    told = spent.told(before, sum(map(len, tables.values())) - before)
    meter.finish({"flink": version("apache-flink")}, found, updates=log.updates, rows=None, **told)


def table_environment(job: Job) -> Any:
    """A streaming environment with a cluster of its own in this machine's memory."""
    os.environ["JAVA_HOME"] = java_home()
    os.environ["JVM_ARGS"] = f"-Xmx{HEAP}"
    os.environ["FLINK_LOG_DIR"] = str(job.scratch)
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment

    configuration = Configuration()
    for name, value in settings(job.threads).items():
        configuration.set_string(name, value)
    built = EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(configuration).build()
    return TableEnvironment.create(built)


def settings(threads: int) -> dict[str, str]:
    """What differs from Flink's defaults."""
    return {
        "parallelism.default": str(threads),
        "taskmanager.numberOfTaskSlots": str(threads),
        "taskmanager.memory.network.min": "256mb",
        "taskmanager.memory.network.max": "256mb",
        "pipeline.object-reuse": "true",
        "execution.buffer-timeout.enabled": "false",
        "state.backend.type": "hashmap",
        "table.exec.mini-batch.enabled": "true",
        "table.exec.mini-batch.allow-latency": "5 s",
        "table.exec.mini-batch.size": "5000",
        "table.optimizer.agg-phase-strategy": "TWO_PHASE",
        "table.optimizer.distinct-agg.split.enabled": "true",
        "table.local-time-zone": "UTC",
    }


def run(environment: Any, job: Job, log: Log, tables: list[str], meter: Meter) -> Spent:
    """Run the query over some tables until its last change is out."""
    keys = primary_keys(log.schema)
    for name in tables:
        file = job.scratch / f"{name}.json"
        source = {"connector": "filesystem", "path": file.as_uri(), "format": "debezium-json"}
        create(environment, name, log.columns[name], keys.get(name, ()), source)
    sink = {"connector": "blackhole"}
    if job.check:
        sink = {"connector": "filesystem", "path": (job.scratch / OUT).as_uri(), "format": "debezium-json"}
    create(environment, "view_changes", job.outputs, (), sink)
    running = environment.execute_sql(f"INSERT INTO view_changes {job.sql}")
    meter.ready(at_once=True)
    watch = Watch()
    running.wait()
    return watch.spent()


def create(environment: Any, name: str, columns: Any, key: tuple[str, ...], options: dict[str, str]) -> None:
    """Create a table; columns are quoted, since some are words of Flink's SQL."""
    listed = [f"`{column}` {type_}" for column, type_ in columns]
    if key:
        listed.append(f"PRIMARY KEY ({', '.join(f'`{c}`' for c in key)}) NOT ENFORCED")
    told = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    environment.execute_sql(f"CREATE TABLE `{name}` ({', '.join(listed)}) WITH ({told})")


# --- files -----------------------------------------------------------------------------------------------------------


def write_changes(rows: pa.Table, path: Path) -> None:
    """Write a table's rows as Debezium's events."""
    with path.open("w", encoding="utf-8") as file:
        for at in range(0, len(rows), LINES):
            file.writelines(events(rows.slice(at, LINES)))


def events(rows: pa.Table) -> Iterator[str]:
    """Lines of JSON, one a row."""
    names = [c for c in rows.column_names if c not in ("_weight", "_at")]
    values = [[in_json(v) for v in rows.column(c).to_pylist()] for c in names]
    pattern = "{" + ", ".join(f"{json.dumps(name)}: %s" for name in names) + "}"
    for weight, row in zip(rows.column("_weight").to_pylist(), zip(*values, strict=True), strict=True):
        if weight > 0:
            yield f'{{"before": null, "after": {pattern % row}, "op": "c"}}\n'
        else:
            yield f'{{"before": {pattern % row}, "after": null, "op": "d"}}\n'


def in_json(value: object) -> str:
    """A value as Flink's JSON formats read it."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime):
        return f'"{value:%Y-%m-%d %H:%M:%S.%f}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    return json.dumps(value)


def fingerprint(job: Job) -> dict[str, Any]:
    """Of the changes that a check run has written."""
    found = Fingerprint(job.outputs)
    schema = pa.struct([(name, in_file(arrow_type(type_))) for name, type_ in job.outputs])
    told = pa.schema([("before", schema), ("after", schema), ("op", pa.string())])
    options = pyarrow.json.ParseOptions(explicit_schema=told)
    for file in sorted((job.scratch / OUT).rglob("*")):
        if file.is_file() and file.stat().st_size:
            for batch in pyarrow.json.read_json(file, parse_options=options).to_batches():
                coming = pc.equal(batch.column("op"), "c")
                rows = pc.if_else(coming, batch.column("after"), batch.column("before"))
                columns = [c.cast(arrow_type(t)) for c, (_, t) in zip(rows.flatten(), job.outputs, strict=True)]
                named = pa.RecordBatch.from_arrays(columns, [name for name, _ in job.outputs])
                found.add(named, pc.if_else(coming, 1, -1))
    return found.to_dict()


def in_file(type_: pa.DataType) -> pa.DataType:
    """How a type is read back: Arrow's JSON reader knows no dates, and decimals only as text."""
    known = pa.types.is_date(type_) or pa.types.is_timestamp(type_)
    return pa.string() if known else type_


if __name__ == "__main__":
    main()
