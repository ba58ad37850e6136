"""A table in PostgreSQL: one transaction a batch, which also records the batch in ``everview_progress``.

The changes are copied into a temporary table and netted there. Rows that go are found by an index on a hash of the
whole row, which treats NULLs as equal, and deleted by where they lie (``ctid``), exactly as many copies as go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from typing import Any, Final
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from everview.errors import TargetError
from everview.redaction import learn_option, learn_url, scrubbed
from everview.spark.targets.base import Batch, Progress, Target, package, to_spark
from everview.spark.targets.buckets import over_delete
from everview.spark.targets.rows import changes

PROGRESS_TABLE: Final = "everview_progress"

_TYPES: Final = {
    pa.bool_(): "boolean",
    pa.int8(): "smallint",
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.string(): "text",
    pa.binary(): "bytea",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp without time zone",
    pa.timestamp("us", tz="UTC"): "timestamp with time zone",
}
_COPIES: Final = "w"
_LONGEST_NAME: Final = 63
_PATIENCE: Final = "60s"


class PostgresTarget(Target):
    """A view's rows as the table ``schema.table`` of the database at ``url``, made if it is not there.

    The table has an index that finds whole rows; add what indexes your readers need. PostgreSQL 14 or later.
    """

    def __init__(self, url: str, table: str, schema: str = "public") -> None:
        self.url = url
        self.table = table
        self.schema = schema
        self.name = f"the PostgreSQL target {schema}.{table}"
        self._psycopg = package("psycopg", "postgres")
        self._sql = package("psycopg.sql", "postgres")
        self._check_url()

    def _check_url(self) -> None:
        """Learn what is secret in the URL, and refuse one that PostgreSQL would take apart at the wrong places.

        Its own words for that name the pieces, and a piece of a password is one.
        """
        learn_url(self.url)
        error = self._psycopg.ProgrammingError
        try:
            parts = package("psycopg.conninfo", "postgres").conninfo_to_dict(self.url)
        except error:
            parts = None
        if parts is None or not _is_whole(parts, is_url="://" in self.url):
            raise TargetError(
                f"{self.name}: its URL cannot be read",
                hint="it is postgresql://user:password@host:port/database; in user and password write %2F for /, %40 "
                "for @, %3A for :, %3F for ?, %23 for #, %25 for %",
            )
        for name, value in parts.items():
            learn_option(name, str(value))

    # --- reading ---

    def read_arrow(self) -> pa.Table:
        """The rows as of the last batch."""
        with self._connected() as connection:
            there = self._existing(connection)
            if there is None:
                raise TargetError(f"{self.name} has not taken a batch yet", hint="wait for the query's first batch")
            rows = connection.execute(self._sql.SQL("SELECT * FROM {}").format(self._table)).fetchall()
        types = [_arrow_type(t) for _, t in there]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(there)
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        return pa.table(arrays, names=[name for name, _ in there])

    def read(self, spark: Any) -> Any:
        """The rows as of the last batch, as a Spark DataFrame; through this process, so not for a large table."""
        return to_spark(spark, self.read_arrow())

    def progress(self) -> Progress | None:
        """Who writes the target and how far it has come."""
        with self._connected() as connection:
            return self._progress(connection)

    def check(self, schema: pa.Schema) -> None:
        """Refuse a view that this target cannot take."""
        with self._connected() as connection:
            self._check(connection, self.canonical(schema))

    def _check(self, connection: Any, schema: pa.Schema) -> bool:
        """Whether the table is there; an error if it is another's, or has other columns."""
        wanted = [(f.name, _postgres_type(f.type)) for f in schema]
        long = next((n for n, _ in wanted if len(n.encode()) > _LONGEST_NAME), None)
        if long is not None:
            raise TargetError(
                f"{self.name} cannot have a column named {long}: PostgreSQL's names have {_LONGEST_NAME} bytes at most",
                column=long,
                hint="give the view's column a shorter alias",
            )
        there = self._existing(connection)
        if there is None:
            return False
        if self._progress(connection) is None:
            raise TargetError(
                f"{self.name} is there, and was not made by materialize", hint="name a table that is not there"
            )
        if there != wanted:
            raise TargetError(
                f"{self.name} has the columns ({_listed(there)}), but the view has ({_listed(wanted)})",
                hint="a view that was changed needs a new target and a new checkpoint, or drop() this one",
            )
        return True

    def _existing(self, connection: Any) -> list[tuple[str, str]] | None:
        """The table's columns and their types, as PostgreSQL writes them; None if there is no table."""
        found = connection.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_namespace n"
            " ON n.oid = c.relnamespace LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0"
            " AND NOT a.attisdropped WHERE n.nspname = %s AND c.relname = %s ORDER BY a.attnum",
            (self.schema, self.table),
        ).fetchall()
        return [(name, type_) for name, type_ in found if name is not None] if found else None

    def _progress(self, connection: Any) -> Progress | None:
        """What is recorded of the table; None if nothing is, or the table itself is gone."""
        exists = "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s"
        if connection.execute(exists, (self.schema, PROGRESS_TABLE)).fetchone() is None:
            return None
        query = self._sql.SQL("SELECT owner, batch FROM {} WHERE target = %s").format(self._progress_table)
        found = connection.execute(query, (self.table,)).fetchone()
        return Progress(*found) if found and self._existing(connection) is not None else None

    # --- writing ---

    def write(self, batch: Batch) -> bool:
        """Take a batch in one transaction."""
        schema = self.canonical(batch.schema)
        with self._connected() as connection:
            self._lock(connection)
            there = self._check(connection, schema)
            if not self.is_due(self._progress(connection), batch):
                return False
            if not there:
                self._create(connection, schema)
            names = [f"c{i}" for i in range(len(schema))]
            self._copy(connection, batch, schema, names)
            self._delete(connection, schema, names)
            self._insert(connection, schema, names)
            self._record(connection, batch)
        return True

    def _connected(self) -> Any:
        """A connection in a transaction, committed at the end and rolled back on any error."""
        return _Session(self._psycopg, self.url, self.name)

    def _lock(self, connection: Any) -> None:
        """One writer at a time, also before there is a table to lock; times of day are UTC in this transaction.

        A writer that does not let go is an error after a while, not a query that hangs.
        """
        key = crc32(f"everview {self.schema}.{self.table}".encode())
        connection.execute(f"SET LOCAL lock_timeout = '{_PATIENCE}'")
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (key,))
        connection.execute("SET LOCAL TimeZone = 'UTC'")
        connection.execute("SET LOCAL extra_float_digits = 1")

    @property
    def _table(self) -> Any:
        return self._sql.Identifier(self.schema, self.table)

    @property
    def _progress_table(self) -> Any:
        return self._sql.Identifier(self.schema, PROGRESS_TABLE)

    def _create(self, connection: Any, schema: pa.Schema) -> None:
        sql = self._sql
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(self.schema)))
        # Two targets of one schema may get here at the same time, and CREATE … IF NOT EXISTS is no lock.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (crc32(f"everview {self.schema}".encode()),))
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (target text PRIMARY KEY, owner text NOT NULL, batch bigint NOT NULL,"
                " written timestamptz NOT NULL)"
            ).format(self._progress_table)
        )
        columns = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(_postgres_type(f.type))) for f in schema]
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._table, sql.SQL(", ").join(columns)))
        row = self._hash([sql.Identifier(f.name) for f in schema])
        connection.execute(sql.SQL("CREATE INDEX ON {} ({})").format(self._table, row))

    def _hash(self, columns: list[Any]) -> Any:
        """The hash of a whole row: equal for rows that are not distinct."""
        return self._sql.SQL("hash_record_extended(ROW({}), 0)").format(self._sql.SQL(", ").join(columns))

    def _copy(self, connection: Any, batch: Batch, schema: pa.Schema, names: list[str]) -> None:
        """Have the batch's net changes in the temporary table ``everview_net``: rows, copies, hash."""
        sql = self._sql
        columns = [
            sql.SQL("{} {}").format(sql.Identifier(n), sql.SQL(_postgres_type(f.type)))
            for n, f in zip(names, schema, strict=True)
        ]
        listed = sql.SQL(", ").join(columns)
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE everview_changes ({}, w bigint) ON COMMIT DROP").format(listed)
        )
        with (
            connection.cursor() as cursor,
            cursor.copy("COPY pg_temp.everview_changes FROM STDIN (FORMAT csv, ENCODING 'UTF8')") as copy,
        ):
            for chunk in batch.chunks():
                for text in _csv(changes(chunk, schema, self.name).net(), self.name):
                    copy.write(text)
        keys = sql.SQL(", ").join([sql.Identifier(n) for n in names])
        connection.execute(
            sql.SQL(
                "CREATE TEMPORARY TABLE everview_net ON COMMIT DROP AS SELECT {keys}, sum(w)::bigint AS w,"
                " {hash} AS h FROM pg_temp.everview_changes GROUP BY {keys} HAVING sum(w) <> 0"
            ).format(keys=keys, hash=self._hash([sql.Identifier(n) for n in names]))
        )
        connection.execute("ANALYZE pg_temp.everview_net")

    def _delete(self, connection: Any, schema: pa.Schema, names: list[str]) -> None:
        """Delete as many copies of each row as go; an error if there are not so many."""
        sql = self._sql
        pairs = [(sql.Identifier("t", f.name), sql.Identifier("n", n)) for f, n in zip(schema, names, strict=True)]
        same = sql.SQL(" AND ").join([sql.SQL("{} IS NOT DISTINCT FROM {}").format(t, n) for t, n in pairs])
        found = sql.SQL(
            "SELECT t.ctid AS place, n.ctid AS which, -n.w AS w, row_number() OVER (PARTITION BY n.ctid) AS copy"
            " FROM pg_temp.everview_net n JOIN {} t ON {} = n.h AND {} WHERE n.w < 0"
        ).format(self._table, self._hash([t for t, _ in pairs]), same)
        deleted = connection.execute(
            sql.SQL("DELETE FROM {} t USING ({}) d WHERE t.ctid = d.place AND d.copy <= d.w").format(self._table, found)
        ).rowcount
        wanted = connection.execute("SELECT coalesce(-sum(w), 0)::bigint FROM pg_temp.everview_net WHERE w < 0")
        if deleted == wanted.fetchone()[0]:
            return
        left = connection.execute(
            sql.SQL(
                "SELECT {} FROM pg_temp.everview_net n WHERE n.w < 0 AND NOT EXISTS (SELECT FROM {} t WHERE {}) LIMIT 1"
            ).format(sql.SQL(", ").join([n for _, n in pairs]), self._table, same)
        ).fetchone()
        raise over_delete(self.name, dict(zip(schema.names, left or (), strict=False)))

    def _insert(self, connection: Any, schema: pa.Schema, names: list[str]) -> None:
        sql = self._sql
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM pg_temp.everview_net n, generate_series(1, n.w)").format(
                self._table,
                sql.SQL(", ").join([sql.Identifier(f.name) for f in schema]),
                sql.SQL(", ").join([sql.Identifier("n", n) for n in names]),
            )
        )

    def _record(self, connection: Any, batch: Batch) -> None:
        connection.execute(
            self._sql.SQL(
                "INSERT INTO {} VALUES (%s, %s, %s, now()) ON CONFLICT (target)"
                " DO UPDATE SET owner = EXCLUDED.owner, batch = EXCLUDED.batch, written = EXCLUDED.written"
            ).format(self._progress_table),
            (self.table, batch.owner, batch.id),
        )

    def drop(self) -> None:
        """Drop the table and forget what was recorded of it; a table of that name that others have made stays."""
        with self._connected() as connection:
            self._lock(connection)
            if self._progress(connection) is None:
                return
            if not self._is_made(connection):
                raise TargetError(
                    f"{self.name} is there, and was not made by materialize: it has no index on whole rows",
                    hint=f"drop it yourself, and its row in {self.schema}.{PROGRESS_TABLE}",
                )
            connection.execute(self._sql.SQL("DROP TABLE {}").format(self._table))
            forget = self._sql.SQL("DELETE FROM {} WHERE target = %s").format(self._progress_table)
            connection.execute(forget, (self.table,))

    def _is_made(self, connection: Any) -> bool:
        """Whether the table has the index that ``materialize`` gives to its own."""
        found = connection.execute(
            "SELECT pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s",
            (self.schema, self.table),
        ).fetchall()
        return any("hash_record_extended" in text for (text,) in found)


class _Session:
    """A connection for one transaction; what PostgreSQL refuses is a TargetError."""

    def __init__(self, psycopg: Any, url: str, name: str) -> None:
        self._psycopg = psycopg
        self._url = url
        self._name = name
        self._connection: Any = None

    def __enter__(self) -> Any:
        try:
            self._connection = self._psycopg.connect(self._url)
        except self._psycopg.Error as error:
            raise self._refused(error) from scrubbed(error)
        return self._connection.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            self._connection.__exit__(kind, error, trace)
        except self._psycopg.Error as late:
            raise self._refused(late) from scrubbed(late)
        finally:
            self._connection.close()  # psycopg leaves it open, with its locks, where the commit itself is interrupted
        if isinstance(error, self._psycopg.Error):
            raise self._refused(error) from scrubbed(error)

    def _refused(self, error: Exception) -> TargetError:
        return TargetError(
            f"{self._name}: PostgreSQL refused: {str(error).strip()}",
            hint="see to it, and start the query again: it goes on with this batch",
        )


# --- types and values ------------------------------------------------------------------------------------------------


def _is_whole(parts: Mapping[str, Any], *, is_url: bool) -> bool:
    """Whether no part of a URL has a piece of another in it, as with an @ or a / in a password."""
    ports = str(parts.get("port") or "").split(",")
    split = is_url and "@" in f"{parts.get('host', '')}{parts.get('dbname', '')}"
    return not split and all(port.isdecimal() or not port for port in ports)


def _postgres_type(type_: pa.DataType) -> str:
    return f"numeric({type_.precision},{type_.scale})" if pa.types.is_decimal128(type_) else _TYPES[type_]


def _arrow_type(type_: str) -> pa.DataType:
    """The other way round; a TINYINT comes back as a SMALLINT."""
    if type_.startswith("numeric("):
        precision, scale = type_.removeprefix("numeric(").rstrip(")").split(",")
        return pa.decimal128(int(precision), int(scale))
    return next(arrow for arrow, text in reversed(_TYPES.items()) if text == type_)


def _listed(columns: list[tuple[str, str]]) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in columns)


def _csv(rows: Any, target: str) -> Iterator[bytes]:
    """The rows and their weights as CSV in which only NULL is unquoted."""
    arrays = [_texts(column.combine_chunks(), name, target) for name, column in _columns(rows.columns)]
    names = [str(i) for i in range(len(arrays))]
    table = pa.table([*arrays, rows.weights], names=[*names, _COPIES])
    options = pa.csv.WriteOptions(include_header=False, quoting_style="all_valid")
    for begin in range(0, table.num_rows, 10_000):
        out = BytesIO()
        pa.csv.write_csv(table.slice(begin, 10_000), out, options)
        yield out.getvalue()


def _columns(table: pa.Table) -> Iterator[tuple[str, Any]]:
    return zip(table.column_names, table.columns, strict=True)


def _texts(array: Any, name: str, target: str) -> Any:
    """A column as PostgreSQL reads it: bytes in hexadecimal, times without a zone (the session's is UTC)."""
    if pa.types.is_binary(array.type):
        return pa.array([None if v is None else "\\x" + v.hex() for v in array.to_pylist()], pa.string())
    if pa.types.is_timestamp(array.type):
        return array.view(pa.timestamp("us"))
    if pa.types.is_string(array.type) and pc.any(pc.match_substring(array, "\0")).as_py():
        raise TargetError(
            f"{target} cannot keep a text with the character U+0000 in the column {name}: PostgreSQL has no such texts",
            column=name,
            hint="remove it in the view, as with replace(), or use another target",
        )
    return array
