"""A view's query run afresh by DuckDB over the tables as they are at a place of a log: what maintaining is held to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from typing import Any, Final

import pyarrow as pa

from everview.errors import EverviewError
from everview.query.schema import Schema
from everview.tools.change_log import Log

MOST_FETCHED: Final = 5_000_000
"""Results of more rows are counted, not fetched and compared."""
CLOSE: Final = 1e-9
"""How far apart, relative to their size, floating-point results may be: DuckDB adds in another order."""
_RUNS, _SECONDS = 5, 5.0  # at most, for the median
_UPDATES, _FOUND = "everview$updates", "everview$found"  # no names of tables


class Recomputation:
    """DuckDB with the tables' rows, and the query in its dialect; uses as many threads as DuckDB does by itself."""

    def __init__(self, query: str, log: Log, place: int) -> None:
        import duckdb

        from everview.sql.duckdb import duckdb_query, open_duckdb

        self.version = f"DuckDB {duckdb.__version__}"
        self.rows = 0
        with _refusals():
            self._connection = open_duckdb(locked=False)  # Its optimizers are switched while it is timed.
            for updates, stop in log.until(place):
                self._fill(updates.table.name, updates.rows.slice(0, stop), updates.weights.slice(0, stop))
            self._query = duckdb_query(query, Schema(tuple(u.table for u in log.tables.values())))
            self.types = [str(t) for t in self._connection.sql(self._query).types]

    @property
    def threads(self) -> int:
        """How many threads DuckDB uses."""
        return int(self._value("SELECT current_setting('threads')"))

    def _fill(self, name: str, rows: pa.Table, weights: pa.Array) -> None:
        """The rows that are there after some updates, each as often as it has copies."""
        columns = [f"c{i}" for i in range(rows.num_columns)]
        updates = pa.table([*rows.columns, weights], names=[*columns, "weight"])
        self._connection.register(_UPDATES, updates)
        outer = ", ".join(f"{c} AS {_quoted(n)}" for c, n in zip(columns, rows.column_names, strict=True))
        inner = ", ".join(columns)
        self._connection.execute(
            f"CREATE TABLE {_quoted(name)} AS SELECT {outer} FROM (SELECT {inner}, unnest(range(copies)) FROM ("
            f"SELECT {inner}, CAST(sum(weight) AS BIGINT) AS copies FROM {_quoted(_UPDATES)} GROUP BY ALL) "
            f"WHERE copies > 0)"
        )
        self._connection.unregister(_UPDATES)
        self.rows += int(self._value(f"SELECT count(*) FROM {_quoted(name)}"))

    def seconds(self, rows: int) -> float:
        """How long the query takes, its result as Arrow where it has no more than MOST_FETCHED rows: a median."""
        from everview.sql.duckdb import MISTAKEN

        found: list[float] = []
        query = self._query if rows <= MOST_FETCHED else f"SELECT count(*) FROM ({self._query})"
        self._connection.execute("SET disabled_optimizers = ''")  # Its time is to be its best, if not its result.
        began = perf_counter()
        while len(found) < _RUNS and perf_counter() - began < _SECONDS:
            start = perf_counter()
            with _refusals():
                self._connection.sql(query).to_arrow_table()
            found.append(perf_counter() - start)
        self._connection.execute(f"SET disabled_optimizers = '{MISTAKEN}'")
        return median(found)

    def difference(self, found: pa.Table) -> str | None:
        """How a view's rows differ from the query's as a bag; None if they do not."""
        expected = self._count()
        if expected != found.num_rows:
            return f"the view has {found.num_rows:,} rows, the query {expected:,}"
        if not found.num_columns:
            return None
        names = [f"c{i}" for i in range(found.num_columns)]
        self._connection.register(_FOUND, found.rename_columns(names))
        actual = [str(t) for t in self._connection.sql(f"SELECT * FROM {_quoted(_FOUND)}").types]
        rounded = [n for n, *t in zip(names, self.types, actual, strict=True) if {"DOUBLE", "FLOAT"} & set(t)]
        exact = [n for n in names if n not in rounded]
        order = ", ".join([*exact, *(f"TRY_CAST({n} AS FLOAT)" for n in rounded), *rounded])
        cast = ", ".join(n if n in rounded else f"CAST({n} AS {t}) AS {n}" for n, t in zip(names, actual, strict=True))
        listed = ", ".join(names)
        different = " OR ".join(
            _differ(n, t) if n in rounded else f"f.{n} IS DISTINCT FROM e.{n}"
            for n, t in zip(names, actual, strict=True)
        )
        place = f"row_number() OVER (ORDER BY {order}) AS place"
        wrong = self._value(
            f"SELECT count(*) FROM (SELECT *, {place} FROM {_quoted(_FOUND)}) AS f JOIN "
            f"(SELECT *, {place} FROM (SELECT {cast} FROM ({self._query}) AS q({listed}))) AS e USING (place) "
            f"WHERE {different}"
        )
        self._connection.unregister(_FOUND)
        return f"{wrong:,} of {expected:,} rows differ" if wrong else None

    def count_difference(self, rows: int) -> str | None:
        """The same for results that are too large to be compared row by row."""
        expected = self._count()
        return None if expected == rows else f"the view has {rows:,} rows, the query {expected:,}"

    def _count(self) -> int:
        return int(self._value(f"SELECT count(*) FROM ({self._query})"))

    def _value(self, query: str) -> Any:
        with _refusals():
            return self._connection.execute(query).fetchall()[0][0]


@contextmanager
def _refusals() -> Iterator[None]:
    """What DuckDB raises, as this project's errors; Ctrl-C stays Ctrl-C."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        from everview.sql.duckdb_errors import failure, is_about_the_expression, reason

        why = reason(error) if is_about_the_expression(error) else failure(error)
        raise EverviewError(
            f"DuckDB cannot run the query, so there is nothing to compare with: {why}",
            hint="everview explain and everview enclosureness do without DuckDB",
        ) from error
    except RuntimeError as error:
        if "interrupted" in str(error):
            raise KeyboardInterrupt from error
        raise


def _differ(name: str, type_: str) -> str:
    """Whether two numbers are not the same but for rounding; NULL is only NULL.

    The average of decimals is a decimal in Spark, rounded to its last digit, and a double in DuckDB. Infinities and NaN
    are close to nothing.
    """
    f, e = f"CAST(f.{name} AS DOUBLE)", f"CAST(e.{name} AS DOUBLE)"
    last = 10.0 ** -int(type_.rstrip(")").split(",")[1]) if type_.startswith("DECIMAL(") else 0.0
    close = f"abs({f} - {e}) <= {last} + {CLOSE} * greatest(1, abs({f}), abs({e}))"
    far = f"NOT (isfinite({f}) AND isfinite({e}) AND {close})"
    return f"((f.{name} IS NULL) <> (e.{name} IS NULL) OR ({f} IS DISTINCT FROM {e} AND coalesce({far}, false)))"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
