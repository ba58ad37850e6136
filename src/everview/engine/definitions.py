"""Definitions at work: tables and views that come, go and are replaced, all of a script or nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from everview.engine.base_table import BaseTable
from everview.engine.change_feed import ChangeFeed
from everview.engine.histories import keep_histories
from everview.engine.run_query import Result, answered, answered_by_view
from everview.engine.transaction import complain
from everview.engine.view_runtime import ViewRuntime
from everview.engine.watched import judge_products
from everview.errors import DroppedError, EverviewError, UnsupportedError
from everview.query.catalogue import (
    AlterView,
    Answer,
    AnswerByView,
    Catalogue,
    Change,
    Command,
    CreateTable,
    CreateView,
    Definition,
    Drop,
    ReplaceView,
)
from everview.query.schema import Table

if TYPE_CHECKING:
    from everview.engine.database import Database


_HELD: Final = ("_tables", "_views", "_feeds", "_definitions", "_texts", "_implied")
"""What of a database definitions change."""


def catalogue_of(db: Database) -> Catalogue:
    """What the database holds, to be read by definitions."""
    return Catalogue((t.schema for t in db._tables.values()), (db._definitions[name] for name in db._views))


def run(db: Database, commands: Sequence[Command], said: Mapping[str, Any] | None = None) -> Result | None:
    """Do what a script asks for, all of it or nothing; gives the answer of its last query.

    ``said`` is how the user has asked for it, which a durable database writes into its log.
    """
    db.fill_what_is_lost()
    changes = any(not isinstance(c, Answer | AnswerByView) for c in commands)
    definitions = _Definitions(db) if changes else None
    found: Result | None = None
    try:
        for command in commands:
            if isinstance(command, Answer | AnswerByView):
                found = _answer(db, command)
            elif definitions is not None:
                definitions.do(command)
        if definitions is not None and db._durable is not None and said is not None:
            db._durable.write_definition(said)
    except BaseException as error:
        if definitions is not None:
            definitions.undo()
        complain(error)
        raise
    if definitions is not None:
        definitions.keep()
    return found


def _answer(db: Database, command: Answer | AnswerByView) -> Result:
    """By DuckDB, or as a view would, where that takes what DuckDB does not."""
    from everview.sql.script import read_by_view

    if isinstance(command, AnswerByView):
        return answered_by_view(db, command)
    try:
        return answered(db, command)
    except UnsupportedError as refused:
        try:
            instead = read_by_view(command.query, catalogue_of(db))
        except EverviewError:
            raise refused from refused.__cause__
        return answered_by_view(db, instead)


@dataclass(frozen=True)
class _Gone:
    """A view that is no more, and what it read, as all of them were then."""

    runtime: ViewRuntime
    read: Mapping[str, BaseTable | ViewRuntime]


@dataclass
class _Definitions:
    """The changes of one script, which can be taken back until they are kept."""

    db: Database
    gone: list[_Gone | BaseTable] = field(default_factory=list)
    """Readers before what they read."""
    ended: list[tuple[ChangeFeed, DroppedError]] = field(default_factory=list)

    def __post_init__(self) -> None:
        db = self.db
        self._kept = {name: dict(getattr(db, name)) for name in _HELD}
        objects = [*db._tables.values(), *db._views.values()]
        self._states: list[tuple[object, dict[str, Any]]] = [(o, dict(vars(o))) for o in objects]
        self._first_unit = db._machine.unit_count
        db._dictionary.begin()

    def undo(self) -> None:
        """Have everything as it was."""
        db = self.db
        for name, value in self._kept.items():
            setattr(db, name, value)
        for thing, state in self._states:
            vars(thing).clear()
            vars(thing).update(state)
        db._machine.unlink_from(self._first_unit)
        db._dictionary.roll_back()
        db._dictionary.collect()

    def keep(self) -> None:
        """Tell the feeds of what is gone, and free it."""
        db = self.db
        db._places.clear()
        for feed, error in self.ended:
            feed.end(error)
        kept = db.row_histories
        for thing in self.gone:
            if isinstance(thing, _Gone) and thing.runtime.history is not None and thing.runtime.history not in kept:
                thing.runtime.history.end()
        keep_histories(db)
        for name, view in db._views.items():
            view.emit_deltas(bool(db._feeds[name]) or db._is_read(name))
        for thing in self.gone:
            if isinstance(thing, BaseTable):
                thing.release_values()
            else:
                thing.runtime.release_values(thing.read)
        for thing in self.gone:
            if isinstance(thing, BaseTable):
                thing.unit.unlink()
            else:
                thing.runtime.unlink()
        db._dictionary.commit()
        db._dictionary.collect()
        db.keep_moments()

    # --- one command -----------------------------------------------------------------------------------------------

    def do(self, command: Change) -> None:
        """Change the database; what goes is still there, to be taken back."""
        from everview.sql.ddl import table_text

        match command:
            case CreateTable(table, text):
                self._create(table, text)
            case CreateView(definition):
                self._define(definition, self.db._filled(definition.view, self.db.memory_limit))
            case ReplaceView(definition, refilled, order):
                self._replace(definition, refilled, order)
            case AlterView(definition):
                self._alter(definition)
            case Drop(views, tables, unbound):
                for name in views:
                    self._take_view(name, f"the view {name} was dropped").dropped = True
                for name in tables:
                    self._take_table(name)
                for table in unbound:
                    self.db._tables[table.name].schema = table
                    self.db._texts[table.name] = table_text(table)

    def _create(self, table: Table, text: str) -> None:
        implied = self.db._implied.get(table.name, frozenset())
        self.db._tables[table.name] = BaseTable(table, self.db._dictionary, implied)
        self.db._texts[table.name] = text

    def _define(self, definition: Definition, runtime: ViewRuntime) -> None:
        judge_products(self.db, runtime)
        self.db._views[definition.name] = runtime
        self.db._feeds[definition.name] = []
        self.db._definitions[definition.name] = definition

    def _replace(self, definition: Definition, refilled: Sequence[Definition], order: Sequence[str]) -> None:
        """Fill a view anew, and those that read it; who holds one of these sees its new rows."""
        db = self.db
        name = next(n for n in db._views if n.lower() == definition.name.lower())
        readers = {d.name: db._views[d.name] for d in refilled}
        for reader in reversed(refilled):
            self._take_view(reader.name, f"the view {name}, which {reader.name} reads, was replaced")
        self._take_view(name, f"the view {name} was replaced").dropped = True
        self._define(definition, db._filled(definition.view, db.memory_limit))
        for reader in refilled:
            self._refill(readers[reader.name], reader)
            self._define(reader, readers[reader.name])
        db._views = {n: db._views[n] for n in order}

    def _alter(self, definition: Definition) -> None:
        """Fill a view anew, to be kept differently: with the same rows, so nobody who reads or follows it need know."""
        held = self.db._views[definition.name]
        self._forget(held)
        self._refill(held, definition)
        if self.db._feeds[definition.name]:
            held.check_listed(f"{definition.name} is followed by a feed")
        if self.db._is_read(definition.name):
            held.check_listed(f"{definition.name} is read by another view")
        self.db._definitions[definition.name] = definition

    def _refill(self, held: ViewRuntime, definition: Definition) -> None:
        """Have a view, which others hold, run with a state that is filled now; what it has counted stays."""
        may_suspend = held.suspension is not None
        filled = self.db._filled(definition.view, self.db.memory_limit, may_suspend=may_suspend)
        judge_products(self.db, filled)
        filled.updates, filled.deltas, filled.updates_with_deltas = (
            held.updates,
            held.deltas,
            held.updates_with_deltas,
        )
        filled.refills, filled.history = held.refills + 1, held.history
        vars(held).update(vars(filled))

    def _forget(self, runtime: ViewRuntime) -> None:
        """Have a view's state freed once the changes are kept."""
        db = self.db
        names = frozenset(n for member in runtime.family for n in member.reads) - {runtime.view.name}
        read = {n: copy(db._tables[n] if n in db._tables else db._views[n]) for n in names}
        self.gone.append(_Gone(copy(runtime), read))

    def _take_view(self, name: str, why: str) -> ViewRuntime:
        db = self.db
        runtime = db._views[name]
        self._forget(runtime)
        del db._views[name], db._definitions[name]
        for feed in db._feeds.pop(name):
            hint = "open a new feed with db.view(…).changes(), and take the view's whole result as the start"
            self.ended.append((feed, DroppedError(why, table=name, hint=hint)))
        return runtime

    def _take_table(self, name: str) -> None:
        db = self.db
        table = db._tables.pop(name)
        self.gone.append(copy(table))
        table.dropped = True
        del db._texts[name]
        db._implied.pop(name, None)
