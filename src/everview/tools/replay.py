"""A view by itself, and the log that it is run over: what ``bench`` and ``enclosureness`` begin with."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike
from typing import Any

from everview.engine.database import Database
from everview.engine.explain import is_rules
from everview.errors import DataError, QueryError
from everview.query.catalogue import Queries
from everview.query.schema import Schema
from everview.tools.change_log import WINDOW, Log, read_log


def one_view(query: str, schema: str | None) -> Database:
    """A new database with the tables and the one view of the texts."""
    db = Database()
    if schema is not None:
        db.sql(schema)
    if is_rules(query):
        db.rules(query)
    else:
        db._script(query, Queries.VIEWS)
    if len(db.views) != 1:
        named = f" ({', '.join(db.views)})" if db.views else ""
        raise QueryError(f"the text holds {len(db.views)} views{named}, one is expected", hint="give a single SELECT")
    return db


def log_for(
    db: Database,
    sources: Mapping[str, Any] | str | PathLike[str],
    *,
    initial: Collection[str] = (),
    window: float = WINDOW,
) -> Log:
    """The log of the tables that a database's only view reads (``read_log``).

    All of them must be given. Those of other tables are left out, and their updates have no places in the log.
    """
    (runtime,) = db._views.values()
    read = {name.lower() for name in runtime.reads}
    tables = Schema(tuple(t.schema for t in db._tables.values() if t.schema.name.lower() in read))
    if isinstance(sources, Mapping):
        others = {name.lower() for name in db.tables} - read
        sources = {name: source for name, source in sources.items() if name.lower() not in others}
    log = read_log(tables, sources, initial=initial, window=window)
    for table in tables:
        if table.name not in log.tables:
            raise DataError(
                f"the view reads {table.name}, and there is no data for it",
                table=table.name,
                hint=f"give {table.name} a file, too",
            )
    return log
