"""The embedded database: tables that change, views that stay fresh."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from threading import RLock
from typing import Any, Literal, Unpack

import pyarrow as pa

from everview.engine.base_table import BaseTable
from everview.engine.batch import Batch, Operation, applied, deleted, inserted, upserted
from everview.engine.change_feed import MOST_BYTES, Callback, ChangeFeed, Delivery, feed_schema
from everview.engine.clock import Clock, Moments, moment_of
from everview.engine.definitions import catalogue_of, run
from everview.engine.expressions.check_supported import check_expressions
from everview.engine.history import History
from everview.engine.loading import loaded
from everview.engine.memory_limit import bounded, checked_limit, is_of_memory, too_much, unfilled, within
from everview.engine.places import Places
from everview.engine.progress import Progress
from everview.engine.readers import Readers
from everview.engine.row_history import RowHistory
from everview.engine.run_query import Result
from everview.engine.saved import Path, Saved
from everview.engine.table_view import Table as TableView
from everview.engine.transaction import Transaction
from everview.engine.update_kinds import UpdateKinds
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows
from everview.engine.view import View
from everview.engine.view_runtime import BuildPart, ViewRuntime
from everview.errors import EverviewError, MemoryLimitError, UnknownTableError, check_text, some_of
from everview.plan.view_plan import plan_view
from everview.query.catalogue import Command, Definition, Queries, relations_read
from everview.query.options import OptionValues, ReadOptions, ViewOptions
from everview.query.schema import Schema, Table
from everview.query.types import DataType
from everview.query.view import View as ViewDefinition
from everview.query.view import relations_in


class Database(Saved):
    """Tables and views in this process. Every call is one batch: it happens whole, or not at all.

    Threads may share it: they take turns, batch by batch and read by read. With a ``path``, a folder, it is durable:
    what a call has done is on the disk when the call returns, and is there when the folder is opened again.
    """

    def __init__(
        self, *, path: Path | None = None, memory_limit: int | None = None, clock: Moments | None = None
    ) -> None:
        self._lock = RLock()
        """Held for a batch, a definition, a read or a step of one; a subscriber is called with it, so re-entrant."""
        self.memory_limit = checked_limit(memory_limit)
        self._clock = Clock(clock)
        self.emptied()
        if path is not None:
            self._open(path)

    def emptied(self) -> Database:
        """The database itself, with nothing in it."""
        self._dictionary = Dictionary()
        self._places: dict[str, Places] = {}
        """By view the list of its rows that was made for positions, until anything changes."""
        self._machine = self._dictionary.machine
        """All tables and views are units of it."""
        self._tables: dict[str, BaseTable] = {}
        self._views: dict[str, ViewRuntime] = {}
        self._definitions: dict[str, Definition] = {}
        """By view."""
        self._texts: dict[str, str] = {}
        """The statements that created the tables."""
        self._feeds: dict[str, list[ChangeFeed]] = {}
        self._undelivered: deque[tuple[ChangeFeed, pa.RecordBatch]] = deque()
        self._delivering = False
        self._implied: dict[str, frozenset[int]] = {}
        """For some tables the columns that follow from the others of their row."""
        self._told = False
        """True if every view has a feed from the beginning to the end: the database is a shard's."""
        self.version = 0
        self._clock.now = None
        self._update_kinds = UpdateKinds()
        self._unfilled: list[str] = []
        self._readers: Readers | None = None
        """Views that have no rows, as there was no memory to fill them again; those that are read come first."""
        return self

    # --- definitions -----------------------------------------------------------------------------------------------

    def sql(self, text: str) -> Result | None:
        """Run statements: CREATE TABLE, CREATE [OR REPLACE] [MATERIALIZED] VIEW, DROP, and SELECT.

        A new view is filled from what is there. A SELECT is answered over the tables and views as they are then; the
        answer of the last one is returned, None if there is none. All statements happen, or, if one fails, none.
        """
        return self._script(text, Queries.ANSWERED)

    def create_table(self, name: str, columns: str, *, updates: str | None = None) -> TableView:
        """Create a table, as CREATE TABLE name (columns) OPTIONS (updates = …) does; gives the table.

        ``columns`` are what SQL writes between the parentheses, constraints included. ``updates`` says how its rows may
        change: "static" takes one batch, "append" loses no rows, and of all "fifo" tables together what came first goes
        first. Views use it, and what is not so is refused; without it anything is allowed.
        """
        from everview.sql.ddl import options_text, qualified

        check_text(name, "a table's name")
        check_text(columns, "a list of columns, as SQL writes it,")
        with self._lock:
            self.sql(f"CREATE TABLE {qualified(name)} ({columns}){options_text(updates)}")
            return self.table(name)

    def create_view(self, name: str, query: str, **options: Unpack[OptionValues]) -> View:
        """Define a view by a SELECT, as CREATE MATERIALIZED VIEW … OPTIONS (…) AS … does; gives the view.

        The options say what is asked of its maintenance, and never change its rows: ``epsilon`` (0 to 1) trades updates
        against reads, ``optimize`` is "updates", "reads" or "balanced", and ``mode`` is "static" if tables are filled
        once and then read. ``explain`` says which of them have an effect. With ``degree`` the query is kept as a
        formula over data in which no value has more neighbours, or refused.
        """
        return self._query(name, query, ViewOptions.of(options))

    def _query(self, name: str, query: str, options: ViewOptions) -> View:
        from everview.sql.script import read_query_into

        said = {"language": "query", "name": name, "query": query, "options": options.to_data()}
        with self._lock:
            run(self, [read_query_into(query, catalogue_of(self), name, options)], said)
            return self.view(name)

    def rules(self, text: str, **options: Unpack[OptionValues]) -> None:
        """Define views by rules, as ``hop(a, c) :- follows(a, b), follows(b, c).``; set semantics.

        All of them have the ``options``, which are those of ``create_view``.
        """
        self._rules(text, ViewOptions.of(options))

    def _rules(self, text: str, options: ViewOptions) -> None:
        from everview.sql.script import read_rules_into

        with self._lock:
            said = {"language": "rules", "text": text, "options": options.to_data()}
            run(self, read_rules_into(text, catalogue_of(self), options), said)

    def formula(
        self,
        text: str,
        *,
        degree: int,
        domain: Literal["schema", "query"] = "schema",
        component: str | None = None,
        **options: Unpack[ReadOptions],
    ) -> View:
        """Define a view by a formula, as ``lonely(x) := vertex(x) and not exists y (edge(x, y))``; gives the view.

        No element may have more than ``degree`` neighbours: others that stand in one row with it, in columns that meet
        variables. A batch beyond it is refused. ``domain`` says over which elements quantifiers range: those of all
        tables ("schema"), or of those that the formula names ("query"). ``component`` is a column of all these tables
        that is the same for all that hangs together, by which Spark may spread rows.
        """
        asked = ViewOptions.of({"degree": degree, "domain": domain, "component": component, **options})
        return self._formula(text, asked)

    def _formula(self, text: str, options: ViewOptions) -> View:
        from everview.sql.script import read_formula_into

        with self._lock:
            catalogue = catalogue_of(self)
            change = read_formula_into(text, catalogue, options)
            run(self, [change], {"language": "formula", "text": text, "options": options.to_data()})
            return self.view(list(catalogue.views.values())[-1].name)

    def drop(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
        """Drop a table or view with all that it holds; with ``cascade`` also the views that read it.

        Without it a DependantsError names them. Feeds hand out what they have, and then raise a DroppedError.
        """
        with self._lock:
            said = {"language": "drop", "name": name, "if_exists": if_exists, "cascade": cascade}
            run(self, [catalogue_of(self).drop([name], if_exists=if_exists, cascade=cascade)], said)

    def _script(self, text: str, queries: Queries) -> Result | None:
        from everview.sql.script import read_commands

        with self._lock:
            said = {"language": "sql", "text": text}
            return run(self, read_commands(text, catalogue_of(self), queries), said)

    def _define(self, tables: Sequence[Table], views: Sequence[ViewDefinition]) -> None:
        """Create tables and views of which there is no text."""
        with self._lock:
            catalogue = catalogue_of(self)
            commands: list[Command] = [catalogue.create_table(t, "") for t in tables]
            commands += [catalogue.create_view(Definition(v, "model", "", relations_read(v))) for v in views]
            run(self, commands)

    def _filled(
        self,
        view: ViewDefinition,
        limit: int | None = None,
        *,
        build: BuildPart | None = None,
        may_suspend: bool = False,
    ) -> ViewRuntime:
        """A new view, with everything that its tables and views hold already; all together within ``limit`` bytes.

        ``build`` makes the operator of its result, if that is not the one of its query. With ``may_suspend`` a formula
        whose data are beyond a limit has no result for now; without it that is refused.
        """
        schema = Schema(tuple(t.schema for t in self._tables.values()))
        plan = plan_view(view, schema, views=frozenset(self._views), told=self._told)
        check_expressions(view, self._relations())
        for name in {n for body in (*(s.body for s in view.stages), view.body) for n in relations_in(body)}:
            if name in self._views:
                self._views[name].check_listed(f"{view.name} cannot read {name}")
            for formula in self._views[name].formulas if name in self._views else ():
                formula.check_counted(f"{view.name} cannot read it, as what changes in it is not told")
        if plan.timed and not self.readers.by_clock:
            self._clock.now = self._clock.next()
        runtime = ViewRuntime(plan, self._relations(), self._dictionary, self._views, build, self._clock)
        left = None if limit is None else max(0, limit - self.state_nbytes())
        with Progress(f"filling {view.name}") as progress, within(left), bounded(self._machine, left):
            try:
                with loaded([runtime]):
                    for name in sorted(runtime.reads):
                        for rows in self._rows_of(name):
                            for _ in runtime.process(replace(self._changes(name, rows), is_given=False)):
                                pass
                            self._check_filling(view, runtime, limit)
                            progress.add(len(rows))
                runtime.judge(may_suspend=may_suspend)
                if progress.done:
                    self._check_filling(view, runtime, limit)
            except MemoryLimitError as error:
                raise too_much(f"filling {view.name}", limit) from error
        runtime.conclude()
        runtime.updates = runtime.deltas = runtime.updates_with_deltas = 0
        return runtime

    def _check_filling(self, view: ViewDefinition, runtime: ViewRuntime, limit: int | None) -> None:
        if limit is not None and self.state_nbytes() + runtime.beside_nbytes() > limit:
            raise too_much(f"filling {view.name}", limit)

    def _rows_of(self, name: str) -> Iterator[WordRows]:
        return self._tables[name].rows() if name in self._tables else self._views[name].rows()

    def _relations(self) -> dict[str, tuple[DataType, ...]]:
        return {n: t.types for n, t in self._tables.items()} | {n: v.types for n, v in self._views.items()}

    def _changes(self, name: str, rows: WordRows) -> Changes:
        is_base = name in self._tables
        types = self._tables[name].types if is_base else self._views[name].types
        return Changes(name, types, rows, self._dictionary, is_base)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        with self._lock:
            return tuple(self._tables)

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the views."""
        with self._lock:
            return tuple(self._views)

    def view(self, name: str) -> View:
        """A view by its name."""
        with self._lock:
            found = _find(self._views, name)
            if found is None:
                if _find(self._tables, name):
                    raise UnknownTableError(f"{name} is a table", table=name, hint=f"take it with db.table('{name}')")
                hint = f"the views are: {some_of(self._views)}"
                raise UnknownTableError(f"there is no view {name}", table=name, hint=hint)
            return View(self, self._views[found])

    def table(self, name: str) -> TableView:
        """A table by its name, to be read."""
        return TableView(self, self._table(name))

    # --- updates ---------------------------------------------------------------------------------------------------

    def insert(self, table: str, rows: Any) -> None:
        """Insert rows: tuples, dicts, or anything that speaks Arrow."""
        base = self._table(table)
        self._commit([inserted(base, rows)], [base])

    def delete(self, table: str, rows: Any = None, *, keys: Any = None) -> None:
        """Delete rows, each of which must be there; or, of a keyed table, those with the ``keys``."""
        base = self._table(table)
        self._commit([deleted(base, rows, keys)], [base])

    def apply(self, table: str, changes: Any) -> None:
        """Apply rows with a ``_change_type`` (insert, delete, update_preimage, update_postimage), in their order."""
        base = self._table(table)
        self._commit([applied(base, changes)], [base])

    def upsert(self, table: str, rows: Any) -> None:
        """Insert rows into a keyed table, replacing those with the same key."""
        base = self._table(table)
        self._commit([upserted(base, rows)], [base])

    def batch(self) -> Batch:
        """Collect changes and apply them as one batch when the block ends; nothing if it raises."""
        return Batch(self)

    def __repr__(self) -> str:
        return f"<Database of version {self.version}: tables {some_of(self._tables)}; views {some_of(self._views)}>"

    def advance(self, to: datetime | date | None = None) -> None:
        """Have the clock, which every batch moves to the present, go on: a batch by which only views on now() change.

        ``to`` is a later time than the clock's, in UTC if it has no zone.
        """
        with self._lock:
            Transaction(self).run((), to=to)

    @property
    def now(self) -> datetime | None:
        """What now() means: the time, in UTC, to which the clock was moved last; None before the first batch."""
        return None if (now := self._clock.now) is None else moment_of(now)

    def _table(self, name: str) -> BaseTable:
        with self._lock:
            found = _find(self._tables, name)
            if found is None:
                if _find(self._views, name):
                    raise UnknownTableError(f"{name} is a view", table=name, hint="change the tables that it reads")
                hint = f"create it with db.sql('CREATE TABLE …'); the tables are: {some_of(self._tables)}"
                raise UnknownTableError(f"there is no table {name}", table=name, hint=hint)
            return self._tables[found]

    def _commit(
        self, operations: Sequence[Operation], bases: Sequence[BaseTable] = (), *, disjoint: bool = False
    ) -> None:
        """Run a batch: all of it or nothing, and then tell the feeds; ``disjoint``: no row is in two operations.

        ``bases`` are the tables that the operations were read for, which must still be there.
        """
        with self._lock:
            for base in [base for base in bases if base.dropped]:
                base.check_there()
            Transaction(self).run(operations, disjoint=disjoint)

    def _roll_back(self) -> None:
        """Take back the batch that is running.

        Views for which the batch had no log any more are filled anew, from tables and views that are as they were
        before it.
        """
        try:
            lost = self._machine.roll_back()
        finally:
            self._dictionary.roll_back()
        for name, runtime in self._views.items() if lost else ():
            if runtime.is_lost(lost):
                runtime.unlink()
                self._unfilled.append(name)
        with suppress(Exception):  # It is told to whoever needs the view next, if it is so then.
            self.fill_what_is_lost()
        self._dictionary.collect()

    def fill_what_is_lost(self) -> None:
        """Fill the views that have lost their rows with a batch that was taken back, and could not be filled then.

        They hold what they held before, so that the wide values which they use are counted already.
        """
        with self._lock:
            while self._unfilled:
                self._dictionary.begin()
                first = self._machine.unit_count
                try:
                    self._fill_anew(self._unfilled[0])
                except BaseException as error:
                    self._machine.unlink_from(first)
                    if is_of_memory(error):
                        raise unfilled(self._unfilled[0]) from error
                    raise
                finally:
                    self._dictionary.roll_back()
                del self._unfilled[0]

    def _fill_anew(self, name: str) -> None:
        runtime = self._views[name]
        counted = {
            field: getattr(runtime, field)
            for field in ("updates", "deltas", "updates_with_deltas", "refills", "restored", "history")
        }
        companions = {key: self._filled(c.view, build=c.build) for key, c in runtime.companions.items()}
        filled = self._filled(runtime.view, may_suspend=runtime.suspension is not None)
        vars(runtime).update(vars(filled) | counted | {"companions": companions})
        if runtime.history is not None and runtime.logged is not None:
            runtime.history.attach(runtime.logged)
        if self._feeds[name] or self._is_read(name):
            runtime.emit_deltas(True)

    # --- feeds -----------------------------------------------------------------------------------------------------

    def open_feed(self, runtime: ViewRuntime, delivery: Delivery, callback: Callback | None) -> ChangeFeed:
        """Open a feed on a view (``View.changes`` and ``View.subscribe`` call this)."""
        schema = feed_schema(runtime.view.columns, delivery is Delivery.PER_UPDATE)
        with self._lock:
            for formula in runtime.formulas:
                formula.check_result()
            runtime.emit_deltas(True)
            feed = ChangeFeed(
                runtime.view.name, schema, self._close_feed, self._lock, self._room_of, delivery, callback
            )
            self._feeds[runtime.view.name].append(feed)
        return feed

    def history(self, name: str) -> History | RowHistory | None:
        """What is kept of a view's changes; None if nothing is."""
        rows = self._views[name].history
        return rows or next((feed for feed in self._feeds[name] if isinstance(feed, History)), None)

    @property
    def _holders(self) -> list[ChangeFeed | RowHistory]:
        """What holds changes that are to be read later."""
        return [*self.feeds, *self.row_histories]

    @property
    def row_histories(self) -> list[RowHistory]:
        """Of all views that keep which of their stored rows have changed."""
        return [view.history for view in self._views.values() if view.history is not None]

    def keep_moments(self) -> None:
        """Begin to keep the moments that options of views ask for; who cannot have them now is told when asking."""
        for name, runtime in self._views.items():
            if runtime.view.options.moments is not None:
                with suppress(EverviewError):
                    self.view(name).moments(2)

    @property
    def readers(self) -> Readers:
        """What reads what, as definitions have left it."""
        if self._readers is None or not self._readers.are_of(self):
            self._readers = Readers(self)
        return self._readers

    def _is_read(self, name: str) -> bool:
        """True if another view reads it."""
        return any(name in reader.reads for v in self._views.values() for reader in v.family)

    def _close_feed(self, feed: ChangeFeed) -> None:
        feeds = self._feeds.get(feed.view, [])
        if feed not in feeds:  # its view was dropped or replaced
            return
        feeds.remove(feed)
        if not feeds and not self._is_read(feed.view):
            self._views[feed.view].emit_deltas(False)

    @property
    def feeds(self) -> list[ChangeFeed]:
        """The open feeds."""
        return [feed for mine in self._feeds.values() for feed in mine]

    def _room_of(self, feed: ChangeFeed | RowHistory) -> int:
        """How many bytes of unread changes a feed, or a history, may hold."""
        if self.memory_limit is None:
            return MOST_BYTES
        return self.memory_limit - self.nbytes() + feed.nbytes

    def keep_feeds_within_limit(self) -> None:
        """Have the largest feeds give up while state and unread changes together are beyond the memory limit."""
        if self.memory_limit is None:
            return
        for feed in sorted(self._holders, key=lambda f: -f.nbytes):
            if feed.nbytes and feed.nbytes > (room := self._room_of(feed)):
                feed.give_up(room)

    def nbytes(self) -> int:
        """The memory that tables, views, the dictionary and what feeds hold unread take."""
        with self._lock:
            return self.state_nbytes() + sum(feed.nbytes for feed in self._holders)

    def state_nbytes(self) -> int:
        """The memory that tables, views and the dictionary take: what the memory limit refuses batches for."""
        with self._lock:
            beside = sum(v.beside_nbytes() for v in self._views.values())
            return self._machine.nbytes() + beside + self._dictionary.nbytes()


def _find(names: dict[str, Any], wanted: str) -> str | None:
    """A name in any case."""
    check_text(wanted, "the name of a table or view")
    return wanted if wanted in names else next((n for n in names if n.lower() == wanted.lower()), None)
