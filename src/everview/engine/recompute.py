"""A view's query run afresh by DuckDB over the tables as they are at a place of a log: what maintaining is held to."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from everview.engine.log import Log
from everview.errors import EverviewError

MOST_FETCHED: Final = 5_000_000
"""Results of more rows are counted, not fetched and compared."""
CLOSE: Final = 1e-9
"""How far apart, relative to their size, floating-point results may be: DuckDB adds in another order."""
_RUNS, _SECONDS = 5, 5.0  # at most, for the median


class Recomputation:
    """DuckDB with the tables' rows, and the query in its dialect; uses as many threads as DuckDB does by itself."""

    def __init__(self, query: str, log: Log, place: int) -> None:
        import duckdb

        from everview.sql.duckdb import duckdb_query

        self._connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        self._error: type[Exception] = duckdb.Error
        self.version = f"DuckDB {duckdb.__version__}"
        self.rows = 0
        for updates, stop in log.until(place):
            self._fill(updates.table.name, updates.rows.slice(0, stop), updates.weights.slice(0, stop))
        try:
            self._query = duckdb_query(query)
            self.types = [str(t) for t in self._connection.sql(self._query).types]
        except duckdb.Error as error:
            raise EverviewError(f"DuckDB does not take the query: {error}") from error

    @property
    def threads(self) -> int:
        """How many threads DuckDB uses."""
        return int(self._value("SELECT current_setting('threads')"))

    def _fill(self, name: str, rows: pa.Table, weights: pa.Array) -> None:
        """The rows that are there after some updates, each as often as it has copies."""
        columns = [f"c{i}" for i in range(rows.num_columns)]
        updates = pa.table([*rows.columns, weights], names=[*columns, "weight"])
        self._connection.register("updates", updates)
        outer = ", ".join(f"{c} AS {_quoted(n)}" for c, n in zip(columns, rows.column_names, strict=True))
        inner = ", ".join(columns)
        self._connection.execute(
            f"CREATE TABLE {_quoted(name)} AS SELECT {outer} FROM (SELECT {inner}, unnest(range(copies)) FROM "
            f"(SELECT {inner}, CAST(sum(weight) AS BIGINT) AS copies FROM updates GROUP BY ALL) WHERE copies > 0)"
        )
        self._connection.unregister("updates")
        self.rows += int(self._value(f"SELECT count(*) FROM {_quoted(name)}"))

    def seconds(self, rows: int) -> float:
        """How long the query takes, its result as Arrow where it has no more than MOST_FETCHED rows: a median."""
        found: list[float] = []
        query = self._query if rows <= MOST_FETCHED else f"SELECT count(*) FROM ({self._query})"
        began = perf_counter()
        while len(found) < _RUNS and perf_counter() - began < _SECONDS:
            start = perf_counter()
            self._connection.sql(query).to_arrow_table()
            found.append(perf_counter() - start)
        return median(found)

    def difference(self, found: pa.Table) -> str | None:
        """How a view's rows differ from the query's as a bag; None if they do not."""
        expected = self._count()
        if expected != found.num_rows:
            return f"the view has {found.num_rows:,} rows, the query {expected:,}"
        if not found.num_columns:
            return None
        names = [f"c{i}" for i in range(found.num_columns)]
        self._connection.register("found", found.rename_columns(names))
        actual = [str(t) for t in self._connection.sql("SELECT * FROM found").types]
        rounded = {n for n, *t in zip(names, self.types, actual, strict=True) if {"DOUBLE", "FLOAT"} & set(t)}
        order = ", ".join([*(n for n in names if n not in rounded), *(n for n in names if n in rounded)])
        cast = ", ".join(n if n in rounded else f"CAST({n} AS {t}) AS {n}" for n, t in zip(names, actual, strict=True))
        listed = ", ".join(names)
        different = " OR ".join(
            _apart(n, t) if n in rounded else f"f.{n} IS DISTINCT FROM e.{n}"
            for n, t in zip(names, actual, strict=True)
        )
        wrong = self._value(
            f"WITH f AS (SELECT *, row_number() OVER (ORDER BY {order}) AS place FROM found), "
            f"q AS (SELECT {cast} FROM ({self._query}) AS q({listed})), "
            f"e AS (SELECT *, row_number() OVER (ORDER BY {order}) AS place FROM q) "
            f"SELECT count(*) FROM f JOIN e USING (place) WHERE {different}"
        )
        self._connection.unregister("found")
        return f"{wrong:,} of {expected:,} rows differ" if wrong else None

    def count_difference(self, rows: int) -> str | None:
        """The same for results that are too large to be compared row by row."""
        expected = self._count()
        return None if expected == rows else f"the view has {rows:,} rows, the query {expected:,}"

    def _count(self) -> int:
        return int(self._value(f"SELECT count(*) FROM ({self._query})"))

    def _value(self, query: str) -> Any:
        return self._connection.execute(query).fetchall()[0][0]


def _apart(name: str, type_: str) -> str:
    """Whether two numbers are not the same but for rounding; NULL is only NULL.

    The average of decimals is a decimal in Spark, rounded to its last digit, and a double in DuckDB.
    """
    f, e = f"CAST(f.{name} AS DOUBLE)", f"CAST(e.{name} AS DOUBLE)"
    last = 10.0 ** -int(type_.rstrip(")").split(",")[1]) if type_.startswith("DECIMAL(") else 0.0
    far = f"abs({f} - {e}) > {last} + {CLOSE} * greatest(1, abs({f}), abs({e}))"
    return f"((f.{name} IS NULL) <> (e.{name} IS NULL) OR ({f} IS DISTINCT FROM {e} AND coalesce({far}, false)))"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
