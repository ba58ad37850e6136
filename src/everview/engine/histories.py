"""Which views keep what has changed in them, as their options ask for it, and in which of two ways.

Where the stored rows that have changed are enough to find a difference, they are kept (``row_history``); else the net
changes are, as a feed that nobody reads (``history``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from everview.engine.change_feed import feed_schema
from everview.engine.history import History
from everview.engine.row_history import RowHistory
from everview.engine.view_runtime import ViewRuntime

if TYPE_CHECKING:
    from everview.engine.database import Database


def keep_histories(db: Database) -> None:
    """Begin to keep the changes of views whose options ask for it now, and end it for those that do no more."""
    for name, runtime in db._views.items():
        most, kept, logged = runtime.view.options.history, db.history(name), runtime.logged
        if kept is not None and (most is None or isinstance(kept, RowHistory) is (logged is None)):
            _end(db, runtime, kept)
            kept = None
        if most is None:
            continue
        if kept is not None:
            kept.most = most
            if isinstance(kept, RowHistory) and logged is not None and kept.core is not logged:
                kept.attach(logged)
        elif logged is not None:
            runtime.history = RowHistory(name, logged, most, lambda: db.version, db._room_of)
        else:
            schema = feed_schema(runtime.view.columns, False)
            db._feeds[name].append(History(name, schema, db._lock, db._room_of, most, lambda: db.version))


def _end(db: Database, runtime: ViewRuntime, kept: History | RowHistory) -> None:
    """Keep a view's changes no more."""
    if isinstance(kept, RowHistory):
        kept.end()
        runtime.history = None
    else:
        db._feeds[runtime.view.name].remove(kept)
