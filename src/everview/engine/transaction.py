"""The one place in which a batch is run: tables first, then the views slice by slice, and in the end the feeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from everview.engine.batch import Operation
from everview.engine.change_feed import (
    ChangeFeed,
    Delivery,
    FeedRows,
    as_feed_rows,
    failed,
    feed_batches,
    has_subscribers,
    untellable,
)
from everview.engine.direct.batch import DirectBatch
from everview.engine.expiry import clock_does_nothing, move_clock, unexpired
from everview.engine.loading import loaded
from everview.engine.memory_limit import bounded, too_much, within
from everview.engine.operators.netting import is_net, net_changes
from everview.engine.operators.steps import explained
from everview.engine.progress import Progress
from everview.engine.references import check_references
from everview.engine.refusals import tell_all
from everview.engine.storage.check_saved import blame_the_file
from everview.engine.update_kinds import Accepted
from everview.engine.values.rows import Changes, WordRows
from everview.engine.view_runtime import ViewRuntime
from everview.engine.watched import judge_products
from everview.errors import DataError, EverviewError, SubscriberError, told_together
from everview.kernel.machine import UpdateFault

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.view_runtime import ViewRuntime

MOST_AT_ONCE = 262_144
"""So many updates of a batch go through the views together: enough to be quick, and progress can be told."""

FEWEST_AT_ONCE = 1_024
BYTES_OF_AN_UPDATE = 4_096
"""Under a memory limit: so much of it there is for each update that goes through the views with others.

The columns that a view makes of an update take some hundred bytes.
"""

LEAST_LOG_BYTES = 16 << 20
"""What the logs of a batch may take even if the database is small."""

Deltas = dict[str, list[WordRows | FeedRows]]
"""What a batch has changed in each view that has a feed."""


class Transaction:
    """One batch on its way through a database whose lock is held: all of it happens, or nothing."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._deltas: Deltas = defaultdict(list)
        self._accepted: Accepted | None = None
        self._unheard: list[ChangeFeed] = []
        """Those with a subscriber, who does not read and so would not know, that could not be told."""
        self._pushed: dict[ChangeFeed, None] = {}
        """The feeds that were told something."""
        self._direct: DirectBatch | None = None
        """What of it goes the direct way."""

    def run(
        self, operations: Sequence[Operation], *, disjoint: bool = False, to: datetime | date | None = None
    ) -> None:
        """Take the operations in, and then tell the feeds; ``disjoint``: no row is in two of them.

        The clock moves before, to a time or to the present.
        """
        self._db._places.clear()
        durable = self._db._durable
        if durable is not None and durable.is_due:
            durable.checkpoint()
        self._db.fill_what_is_lost()
        self._now = self._db._clock.next(to)
        tables, readers = frozenset([operation.table for operation in operations]), self._db.readers
        is_still = not readers.by_clock or clock_does_nothing(self._db, self._now, tables)
        direct = DirectBatch.of(self._db, readers, tables, operations) if is_still else None
        is_net_batch = None
        if direct is not None:
            direct.disjoint = disjoint
            is_net_batch = self._applied_directly(direct, operations)
        if is_net_batch is None:
            with within(self._left()):
                is_net_batch = self._applied(operations, disjoint)
        self._db._clock.now = self._now
        self._db.version += 1
        for runtime in readers.formulas_behind(tables):
            self._end_feeds_if_suspended(runtime)
        try:
            self._keep_changed_rows()
            self._deliver(is_net_batch=is_net_batch)
        finally:
            self._db._dictionary.collect()

    def _end_feeds_if_suspended(self, runtime: ViewRuntime) -> None:
        """Tell the feeds of a view without a result, a formula beyond a limit, that nobody knows what has changed."""
        why = runtime.suspension
        for feed in self._db._feeds[runtime.view.name] if why is not None else ():
            if feed.is_open and why is not None:
                feed.end(why)

    def _applied_directly(self, direct: DirectBatch, operations: Sequence[Operation]) -> bool | None:
        """Do as much as possible in one call of the kernel, and gives what ``_applied`` does; None if nothing was done.

        Whatever goes wrong is taken back and left to ``_applied`` to say.
        """
        db = self._db
        db._machine.begin(self._most_log_bytes())
        db._dictionary.begin()
        self._direct = direct
        why: Exception | None = None
        try:
            run = self._run if db.memory_limit is None else self._run_within_limit
            is_done = run(direct, operations) and self._is_written(operations)
        except (EverviewError, UpdateFault, MemoryError, ArithmeticError, pa.ArrowException) as error:
            is_done, why = False, error
        except BaseException:
            db._roll_back()
            raise
        if not is_done:
            self._direct = None
            self._deltas.clear()
            self._accepted = None
            db._roll_back()
            if why is not None and db._unfilled:  # There is no memory to find out whether more is wrong.
                complain(why)
                raise why
            db.fill_what_is_lost()
            return None
        for name, rows in direct.unfinished:
            self._deltas[name].append(rows)
        db._dictionary.commit()
        db._machine.commit()
        direct.conclude()
        if self._accepted is not None:
            db._update_kinds.accept(self._accepted)
        return direct.is_net

    def _is_written(self, operations: Sequence[Operation]) -> bool:
        """True, once a batch that has gone well is in the log of a durable database; an error if it cannot be."""
        if self._db._durable is not None:
            self._db._durable.write_batch(operations, self._now)
        return True

    def _run_within_limit(self, direct: DirectBatch, operations: Sequence[Operation]) -> bool:
        """The same, as long as there is room; false if there is not."""
        db, adds = self._db, any(operation.adds for operation in operations)
        before = db.state_nbytes() if adds else None
        with within(self._left()), bounded(db._machine, self._left() if adds else None):
            is_done = self._run(direct, operations)
        return is_done and (before is None or db.state_nbytes() <= max(before, db.memory_limit or 0))

    def _run(self, direct: DirectBatch, operations: Sequence[Operation]) -> bool:
        """Have the kernel run a batch, and do what is left: checks of tables, and views that it does not run."""
        if not direct.is_more_to_do:
            return direct.run()
        db, sets = self._db, self._sets(operations) if direct.has_others else None
        if not direct.run():
            return False
        batch = direct.changes()
        check_references(direct.plan.references, batch)
        self._accepted = db._update_kinds.check([(db._tables[c.relation], c) for c in batch], db.version + 1)
        if direct.has_others:
            batch, is_net_batch = self._netted(batch, direct.is_net, sets, operations)
            with loaded(direct.plan.others):
                for part in (p for changes in batch for p in self._sliced(changes)):
                    self.propagate(part, is_net_batch=is_net_batch)
                for changes in direct.handed:
                    self.propagate(changes)
            judge(db, direct.plan.tables)
            direct.is_net = is_net_batch
        return True

    def _netted(
        self, batch: list[Changes], is_net_batch: bool, sets: set[str] | None, operations: Sequence[Operation]
    ) -> tuple[list[Changes], bool]:
        """What the views are to take in, and whether no join of tables changes twice; ``sets``: before the batch."""
        per_update = bool(per_update_views(self._db))
        if not is_net_batch and sets and sets == self._sets(operations) and self._gains_by_netting():
            return net_changes(batch), True
        return [replace(changes, per_update=per_update) for changes in batch], is_net_batch

    def _applied(self, operations: Sequence[Operation], disjoint: bool) -> bool:
        """Bring tables and views up to date; gives whether no join of tables has changed twice."""
        db = self._db
        adds = any(operation.adds for operation in operations)  # deletions are always let in: they make room
        before = db.state_nbytes() if adds and db.memory_limit is not None else None
        progress = Progress("updating views", sum(operation.size for operation in operations), "changes")
        db._machine.begin(self._most_log_bytes())
        db._dictionary.begin()
        try:
            with bounded(db._machine, self._left() if adds else None):
                is_net_batch = self._changed(operations, disjoint, before, progress)
                judge(db, None if db.readers.by_clock else {operation.table for operation in operations})
            self._is_written(operations)
        except BaseException as error:
            db._roll_back()
            tell_all(self, operations, error, self._now)
            complain(error)
            blame_the_file(error, db._views.values())
            raise
        finally:
            progress.close()
        db._dictionary.commit()
        db._machine.commit()
        if self._accepted is not None:
            db._update_kinds.accept(self._accepted)
        return is_net_batch

    def _changed(self, operations: Sequence[Operation], disjoint: bool, before: int | None, progress: Progress) -> bool:
        """The same, in a batch that can be taken back: first the tables, then the views, slice by slice."""
        db = self._db
        is_moved = move_clock(self, self._now)
        flips: list[int] = []
        position = 0
        batch: list[Changes] = []
        sets = self._sets(operations)
        for number, operation in enumerate(operations):
            base = db._tables[operation.table]
            readers = db.readers.expiring.get(operation.table, ())
            base.forgets = bool(readers)
            for changes in operation.changes(base, position):
                batch.append(replace(unexpired(changes, readers), operation=number))
                position += len(changes)
                tell = db.readers.take_set(operation.table)
                flipped = base.apply(batch[-1], tell=tell)
                if tell:
                    batch[-1] = replace(batch[-1], flips=base.take_flips())
                flips += [flipped] if len(changes) else []
        touched = {changes.relation for changes in batch}
        check_references(db.readers.references(touched), batch)
        self._accepted = db._update_kinds.check([(db._tables[c.relation], c) for c in batch], db.version + 1)
        batch, is_net_batch = self._netted(batch, is_net(flips, disjoint) and not is_moved, sets, operations)
        is_net_batch = is_net_batch and not is_moved
        with loaded(db.readers.behind(touched)):
            for changes in batch:
                for part in self._sliced(changes):
                    self.propagate(part, is_net_batch=is_net_batch)
                    if before is not None:
                        self._check_memory(before)
                    progress.add(len(part))
        return is_net_batch

    def _sets(self, operations: Sequence[Operation]) -> set[str] | None:
        """The tables that operations change; None if one of them has a row twice."""
        names = {operation.table for operation in operations}
        return names if all(self._db._tables[name].is_set for name in names) else None

    def _gains_by_netting(self) -> bool:
        """True if updates need not be told apart, and there is a feed that must be told once of each row."""
        done = self._direct.names if self._direct is not None else set[str]()
        delivered = [name for name, feeds in self._db._feeds.items() if feeds and name not in done]
        return not per_update_views(self._db) and any(
            is_net_per_update(self._db, name) and self._db._views[name].identifies_inputs(self._db._implied)
            for name in delivered
        )

    def _left(self) -> int | None:
        """What is left of the memory limit."""
        limit = self._db.memory_limit
        return None if limit is None else max(0, limit - self._db.state_nbytes())

    def _most_log_bytes(self) -> int:
        """What the logs for taking the batch back may take; a view that needs more would be filled anew instead."""
        most = max(LEAST_LOG_BYTES, self._db._machine.nbytes() // 4)
        limit = self._db.memory_limit
        return most if limit is None else min(most, limit // 8)

    def _check_memory(self, before: int) -> None:
        """What is not in units counts, too."""
        if self._db.memory_limit is not None and self._db.state_nbytes() > max(before, self._db.memory_limit):
            raise too_much("the batch", self._db.memory_limit)

    def _sliced(self, changes: Changes) -> Iterator[Changes]:
        """In large pieces; one by one where a feed wants single updates' deltas and only that gives them."""
        db = self._db
        single = any(not db._views[name].keeps_update_numbers or reads_views(db, name) for name in per_update_views(db))
        step = 1 if single else self._most_at_once()
        if len(changes) <= step:
            yield changes
            return
        for first in range(0, len(changes), step):
            yield changes.slice(first, step)

    def _most_at_once(self) -> int:
        """How many updates go through the views together: what that takes must be small beside the memory limit."""
        limit = self._db.memory_limit
        return MOST_AT_ONCE if limit is None else min(MOST_AT_ONCE, max(FEWEST_AT_ONCE, limit // BYTES_OF_AN_UPDATE))

    def propagate(self, changes: Changes | None, *, is_net_batch: bool = False) -> None:
        """Have the views take in changes of a table, each view after those that it reads; None: what the clock does."""
        waiting = {} if changes is None else {changes.relation: changes}
        readers = self._db.readers
        done = self._direct.names if self._direct is not None else set[str]()
        for runtime in readers.by_clock if changes is None else readers.behind((changes.relation,)):
            name = runtime.view.name
            if name in done:
                _pass_to_companions(runtime, waiting, by_clock=changes is None)
                continue
            delta: list[WordRows] = []
            is_read, feeds = readers.is_read(name), self._db._feeds[name]
            are_net = all(self._is_net(feed, is_net_batch) for feed in feeds)
            as_computed = are_net and all(feed.delivery is Delivery.AS_COMPUTED for feed in feeds)
            for piece in _pieces(runtime, waiting, by_clock=changes is None):
                if feeds and as_computed:
                    for batch in self._batches(name, [piece], feeds[0], self._db.version + 1):
                        for feed in feeds:
                            feed.push(batch)
                            self._pushed[feed] = None
                elif feeds:
                    self._deltas[name].append(as_feed_rows(piece) if are_net else piece)
                if is_read:
                    delta.append(piece)
            if delta:
                # Told apart, a group's old and new rows come in any order within an update: a reader must not see that.
                told_apart = runtime.keeps_update_numbers and not runtime.is_net_per_update
                per_update = changes is not None and changes.per_update and told_apart
                rows = WordRows.concat(delta, len(runtime.types))
                if per_update:
                    rows = runtime.netted([rows], per_update=True).in_order()
                waiting[name] = self._db._changes(name, rows)
            _pass_to_companions(runtime, waiting, by_clock=changes is None)

    def _is_net(self, feed: ChangeFeed, is_net_batch: bool) -> bool:
        """True if nothing is to be added up for a feed; ``is_net_batch``: no join has changed twice in it."""
        may_repeat = not feed.per_update and not (
            is_net_batch and self._db._views[feed.view].identifies_inputs(self._db._implied)
        )
        return is_net_per_update(self._db, feed.view) and not may_repeat

    def _for_feeds(self, is_net_batch: bool) -> Iterator[tuple[ChangeFeed, pa.RecordBatch]]:
        """What each feed is to be told of a batch."""
        if self._direct is not None:
            yield from self._direct.feeds
            for feed in (f for f in self._direct.beyond if f.is_open):
                feed.give_up(self._db._room_of(feed))
        for name, parts in self._deltas.items():
            runtime, feeds = self._db._views[name], self._db._feeds[name]
            for per_update in {feed.per_update for feed in feeds if feed.is_open}:
                mine = [feed for feed in feeds if feed.per_update is per_update]
                delivered = parts
                if not self._is_net(mine[0], is_net_batch):
                    try:
                        delivered = [
                            runtime.netted([p for p in parts if isinstance(p, WordRows)], per_update=per_update)
                        ]
                    except DataError as error:  # The batch has been taken: a feed never refuses one.
                        for feed in mine:
                            feed.end(untellable(feed, self._db.version, error))
                        self._unheard += [feed for feed in mine if feed.is_pushed]
                        continue
                for batch in self._batches(name, delivered, mine[0], self._db.version):
                    yield from ((feed, batch) for feed in mine)
                    if not any(feed.is_open for feed in mine):  # all have given up
                        break

    def _batches(
        self, name: str, delivered: Sequence[WordRows | FeedRows], feed: ChangeFeed, version: int
    ) -> Iterator[pa.RecordBatch]:
        keys, outputs = self._db._views[name].group_columns, self._db._views[name].view.columns
        return feed_batches(delivered, outputs, keys, version, feed.schema, self._db._dictionary)

    def _keep_changed_rows(self) -> None:
        """Have those views remember which of their stored rows have changed whose histories are made of these."""
        for history in self._db.row_histories:
            try:
                history.take()
            except (MemoryError, pa.ArrowException):  # The batch has been taken: nothing refuses it now.
                history.begin()

    def _deliver(self, *, is_net_batch: bool) -> None:
        """Hand every feed its part, which can be read when all of it is there.

        A subscriber may change tables and open and close feeds: the news of its own batch come after those of this one.
        Without one nothing has to be kept ready until its turn comes: a feed that gives up ends what is made for it.
        """
        db = self._db
        is_pushed = has_subscribers(db._feeds.values())
        try:
            if db._delivering or is_pushed:
                db._undelivered += self._for_feeds(is_net_batch)
                self._deliver_in_turn()
            else:
                for feed, batch in self._for_feeds(is_net_batch):
                    feed.push(batch)
                    self._pushed[feed] = None
        finally:
            if not db._delivering:
                for feed in db.feeds if is_pushed else self._pushed:
                    feed.publish()
                db.keep_feeds_within_limit()
        if self._unheard and (why := self._unheard[0].ended) is not None:
            raise SubscriberError(why.message, version=db.version, view=self._unheard[0].view, cause=why, hint=why.hint)

    def _deliver_in_turn(self) -> None:
        """A subscriber that fails keeps nothing from the others, and is heard at the end."""
        db = self._db
        if db._delivering:
            return
        db._delivering = True
        failures: list[SubscriberError] = []
        try:
            while db._undelivered:
                feed, batch = db._undelivered.popleft()
                try:
                    feed.push(batch)
                except Exception as error:  # a subscriber's own, which must not keep the batch from the others
                    failures.append(failed(feed, batch, error))
        finally:
            db._delivering = False
        if failures:
            raise failures[0] from failures[0].cause


def _pieces(runtime: ViewRuntime, waiting: Mapping[str, Changes], *, by_clock: bool) -> Iterator[WordRows]:
    """What changes in a view by what the clock has done to it, and by changes of what it reads that wait for it."""
    if by_clock:
        yield from runtime.moved()
    for relation in sorted(runtime.reads & waiting.keys()):
        yield from runtime.process(waiting[relation])


def _pass_to_companions(runtime: ViewRuntime, waiting: Mapping[str, Changes], *, by_clock: bool) -> None:
    for companion in runtime.companions.values():
        for _ in _pieces(companion, waiting, by_clock=by_clock):
            pass


def judge(db: Database, tables: Iterable[str] | None = None) -> None:
    """A batch is at its end: raises if a view cannot be computed from what it leaves.

    Only the views behind the tables that it has changed can have come to that.
    """
    views = list(db._views.values()) if tables is None else db.readers.behind(tables)
    failures: list[DataError] = []
    for view in views:
        try:
            judge_products(db, view)
            view.judge(may_suspend=bool(view.formulas) and _may_suspend(db, view.view.name))
        except EverviewError as error:
            if not failures and not isinstance(error, DataError):
                raise
            if not isinstance(error, DataError):
                break
            failures.append(error)
    if failures:
        raise told_together(failures)
    for view in views:
        view.conclude()


def _may_suspend(db: Database, name: str) -> bool:
    """True if nobody needs what a batch changes in a view to go on: no other view, and no shard's output."""
    is_needed = any(feed.delivery is Delivery.AS_COMPUTED for feed in db._feeds[name])
    return not is_needed and not db.readers.is_read(name)


def per_update_views(db: Database) -> list[str]:
    """The views with a feed of single updates' deltas."""
    return [name for name, feeds in db._feeds.items() if feeds and any(feed.per_update for feed in feeds)]


def is_net_per_update(db: Database, name: str) -> bool:
    """True if each changed row knows the update that made it, with nothing left to net."""
    return db._views[name].is_net_per_update and not reads_views(db, name)


def reads_views(db: Database, name: str) -> bool:
    """True if the view reads another one, behind which updates are told apart no more."""
    return not db._views[name].reads <= db._tables.keys()


def complain(error: BaseException) -> None:
    """Raise what Arrow, Python and the kernel say of values or memory as an error about the data, in our words."""
    if isinstance(error, UpdateFault):
        raise explained(error) from error
    if isinstance(error, MemoryError):
        raise too_much("the batch", None) from error
    if isinstance(error, pa.ArrowException | ArithmeticError) and not isinstance(error, EverviewError):
        from everview.sql.duckdb_errors import failure

        raise DataError(
            f"a column of a view cannot be computed from the data: {failure(error)}; nothing has changed",
            hint="correct the data, or leave such rows out with WHERE or CASE",
        ) from error
