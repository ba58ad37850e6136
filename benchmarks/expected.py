"""What must come out: DuckDB's answer to a query on the final tables of a log."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from benchmarks.data.log import Log
from benchmarks.runners.protocol import Fingerprint
from everview.query.view import View
from everview.sql import parse_script
from everview.sql.duckdb import SparkWithFunctions


def parsed(sql: str, schema: str) -> View:
    """The view ``v`` of a query."""
    (view,) = parse_script(f"{schema}; CREATE MATERIALIZED VIEW v AS {sql}")[1]
    return view


def outputs(sql: str, schema: str) -> tuple[tuple[str, str], ...]:
    """A query's columns: name and SQL type."""
    return tuple((c.name, str(c.type)) for c in parsed(sql, schema).columns)


def in_duckdb(sql: str) -> str:
    """A query as DuckDB reads it."""
    return sqlglot.parse_one(sql, read=SparkWithFunctions).sql("duckdb")


def create_table(connection: duckdb.DuckDBPyConnection, log: Log, name: str) -> tuple[str, ...]:
    """Create a table of a log in DuckDB, empty; gives its key, if it has one.

    The key is not declared: DuckDB refuses a row whose key was deleted in the same transaction, and its index slows
    loading while joins do not use it.
    """
    columns = ", ".join(f"{c} {sqlglot.exp.DataType.build(t, 'spark').sql('duckdb')}" for c, t in log.columns[name])
    connection.execute(f"CREATE TABLE {name} ({columns})")
    table = next(t for t in parse_script(log.schema)[0] if t.name == name)
    return table.primary_key


def expected(log: Log, sql: str, cache: Path) -> dict[str, Any]:
    """The fingerprint of a query's result on a log's final tables; kept in ``cache``, since it takes a while."""
    key = sha256("\0".join([log.schema, sql, _stamp(log)]).encode()).hexdigest()[:16]
    file = cache / f"{log.folder.name}-{key}.json"
    if file.exists():
        return dict(json.loads(file.read_text(encoding="utf-8")))
    connection = duckdb.connect()
    for name in log.columns:
        create_table(connection, log, name)
        columns = ", ".join(log.names(name))
        file_ = str(log.folder / f"{name}.parquet").replace("'", "''")
        counted = f"SELECT {columns}, CAST(sum(_weight) AS BIGINT) AS n FROM read_parquet('{file_}') GROUP BY ALL"
        repeated = f"SELECT {columns}, unnest(range(n)) FROM ({counted}) WHERE n > 0"
        connection.execute(f"INSERT INTO {name} SELECT {columns} FROM ({repeated})")
    found = Fingerprint(outputs(sql, log.schema))
    for batch in connection.sql(in_duckdb(sql)).to_arrow_reader(262_144):
        found.add(batch)
    connection.close()
    cache.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found.to_dict()), encoding="utf-8")
    return found.to_dict()


def _stamp(log: Log) -> str:
    """Changes when a log is made anew."""
    return str((log.folder / "log.json").stat().st_mtime_ns)
