"""Answers: a query computed once, by DuckDB, over tables and views as they are at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.engine.expressions.evaluate import with_room
from everview.engine.input.date_range import YEARS, first_beyond
from everview.engine.relation import tuples
from everview.engine.show import SHOWN_ROWS, as_html, as_text
from everview.engine.values.rows import joined
from everview.engine.values.words import arrow_type
from everview.errors import DataError, UnsupportedError
from everview.query.catalogue import Answer, AnswerByView, CreateTable, CreateView, Read
from everview.query.types import DataType

if TYPE_CHECKING:
    from everview.engine.database import Database


class Result:
    """The rows that a query gave, in their order if it has one; they stay, whatever happens to the tables."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._table.schema

    def to_arrow(self) -> pa.Table:
        """All rows."""
        return self._table

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self._table.to_pandas()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All rows for whoever takes Arrow streams: ``pa.table(…)``, ``pl.DataFrame(…)``, DuckDB."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        """How many rows there are."""
        return int(self._table.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples."""
        for batch in self._table.to_batches():
            yield from tuples(batch)

    def __repr__(self) -> str:
        """The first rows as a table."""
        return as_text(self._table.slice(0, SHOWN_ROWS), max(0, len(self) - SHOWN_ROWS))

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        return as_html(self._table.slice(0, SHOWN_ROWS), max(0, len(self) - SHOWN_ROWS))


def answered(db: Database, answer: Answer) -> Result:
    """Run a query over what the database holds now; its lock is held, so that this is of one version."""
    import duckdb

    from everview.sql.duckdb_errors import failure

    cursor = _Opened.cursor()
    try:
        for read in answer.reads:
            cursor.register(read.alias, _rows(db, read))
        found = cursor.sql(answer.text).to_arrow_table()
    except (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException) as error:
        raise UnsupportedError(
            "the query cannot be answered", construct="query", hint="write it in another way, or define a view by it"
        ) from error
    except duckdb.Error as error:
        raise DataError(f"the query failed on the data: {failure(error)}") from error
    finally:
        cursor.close()
    columns = [_typed(joined(column), type_) for column, type_ in zip(found.columns, answer.types, strict=True)]
    return Result(pa.table(columns, names=list(answer.names)))


def answered_by_view(db: Database, answer: AnswerByView) -> Result:
    """What a view by the query would hold: it is made in a database of its own, over the rows of what it reads."""
    from everview.engine.database import Database
    from everview.engine.definitions import run

    now = db.now
    aside = Database(memory_limit=db.memory_limit, clock=None if now is None else lambda: now)
    run(aside, [CreateTable(replace(table, foreign_keys=()), "") for table in answer.tables])
    for table in answer.tables:
        source = db.table(table.name) if table.name in db._tables else db.view(table.name)
        aside.insert(table.name, source.to_arrow())
    run(aside, [CreateView(answer.definition)])
    return Result(aside.view(answer.definition.name).to_arrow())


def _typed(column: pa.Array, type_: DataType) -> pa.Array:
    wanted = arrow_type(type_)
    if pa.types.is_null(wanted):
        return pa.nulls(len(column))
    values = column.cast(wanted)
    if first_beyond(values, type_) is not None:
        raise DataError(f"the query failed on the data: a value is no {type_}, which holds {YEARS}")
    return values


def _rows(db: Database, read: Read) -> pa.Table:
    """The rows of a table or view, copies repeated, with the columns that the query wants."""
    source = db.table(read.name) if read.name in db._tables else db.view(read.name)
    rows = source.to_arrow().select(read.columns)
    return pa.table([with_room(joined(c)) for c in rows.columns], names=list(rows.column_names))


class _Opened:
    """The DuckDB that answers the queries of all databases; opened once, as teaching it functions takes time."""

    _database: Any = None
    _opening = Lock()

    @classmethod
    def cursor(cls) -> Any:
        """A connection of its own: what is registered there nobody else sees."""
        from everview.sql.duckdb import open_duckdb

        with cls._opening:
            if cls._database is None:
                cls._database = open_duckdb()
            return cls._database.cursor()
