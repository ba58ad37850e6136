"""DuckDB: the tables follow the log batch by batch, and the query is run afresh, its result read as Arrow.

In delta mode that is after every batch. What differs from the result before is *not* worked out, though it would have
to be to deliver changes: that is in DuckDB's favour. Deletes look rows up by the table's key if it has one. All cores.
"""

from __future__ import annotations

from time import perf_counter

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.data.log import Log
from benchmarks.expected import create_table, in_duckdb
from benchmarks.runners.protocol import Fingerprint, Job, Meter, job_and_log


def main() -> None:
    """Run the job that the command line names."""
    job, log = job_and_log()
    meter = Meter()
    connection = duckdb.connect()
    connection.execute(f"SET threads = {job.threads}")
    connection.execute(f"SET temp_directory = '{job.scratch}'")
    tables = {name: Kept(connection, log, name) for name in log.columns}
    batches = job.batches(log)
    meter.ready()
    for name, rows in log.initial().items():
        tables[name].insert(rows)
    meter.loaded()
    fingerprint = recompute(job, connection, tables, batches, meter)
    meter.finish({"duckdb": duckdb.__version__}, fingerprint)


def recompute(
    job: Job,
    connection: duckdb.DuckDBPyConnection,
    tables: dict[str, Kept],
    batches: list[tuple[int, dict[str, pa.Table]]],
    meter: Meter,
) -> dict[str, object] | None:
    """Apply all batches; read the result after each, or every tenth of the log; gives the last one's fingerprint."""
    sql = in_duckdb(job.sql)
    total = sum(updates for updates, _ in batches)
    due = job.tenths(total)
    last = None
    for updates, parts in batches:
        begun = perf_counter()
        for name, rows in parts.items():
            tables[name].apply(rows)
        done, rows = meter.updates + updates, 0
        if job.mode == "delta" or done >= due[0]:
            last = Fingerprint(job.outputs) if job.check and done == total else None
            for batch in connection.sql(sql).to_arrow_reader(65_536):
                rows += batch.num_rows
                if last is not None:
                    last.add(batch)
        due = [d for d in due if d > done] or [total]
        meter.step(updates, rows, perf_counter() - begun)
    return None if last is None else last.to_dict()


class Kept:
    """A table of DuckDB that follows the log."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, log: Log, name: str) -> None:
        self._connection = connection
        self._name = name
        self._columns = log.names(name)
        keys = create_table(connection, log, name) or self._columns
        same = " AND ".join(f"t.{c} IS NOT DISTINCT FROM d.{c}" for c in keys)
        listed = ", ".join(f"d.{c}" for c in keys)
        self._delete = f"""
            DELETE FROM {name} WHERE rowid IN (
              SELECT r FROM (
                SELECT t.rowid AS r, d.n, row_number() OVER (PARTITION BY {listed} ORDER BY t.rowid) AS k
                FROM {name} t JOIN (SELECT {", ".join(keys)}, count(*) AS n FROM gone GROUP BY ALL) d ON {same})
              WHERE k <= n)"""

    def insert(self, rows: pa.Table) -> None:
        """Rows come."""
        self._connection.register("come", rows.select(self._columns))
        self._connection.execute(f"INSERT INTO {self._name} SELECT * FROM come")
        self._connection.unregister("come")

    def apply(self, rows: pa.Table) -> None:
        """Rows come and go; of equal ones, the oldest go first."""
        coming = pc.greater(rows.column("_weight"), 0)
        self.insert(rows.filter(coming))
        gone = rows.filter(pc.invert(coming))
        if len(gone):
            self._connection.register("gone", gone)
            self._connection.execute(self._delete)
            self._connection.unregister("gone")


if __name__ == "__main__":
    main()
