"""Runs a case on Everview and on DuckDB side by side and compares all that can be read after every batch."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa

import everview as ev
from everview.errors import DataError, EverviewError, ExpressionError
from tests.engine.bags import Bag, bag, differences, expect
from tests.engine.beside import as_arrow, connection
from tests.engine.case_data import Case, Row, Step, TableDef
from tests.engine.feed_checks import Follower, check_feed
from tests.engine.judging import Fails, Judge, Needless, Verdict, independent, is_failure, strictly
from tests.engine.operations import HUGE, poisoned, possible
from tests.engine.stored import check_as_fresh, check_unchanged, stored
from tests.engine.view_checks import check_no_result, check_reads

Update = tuple[str, Row, int]

MOST_BATCHES = 1
"""Record batches that a feed has of one commit, as small as the cases are."""
LARGE = 20_000
"""Rows of a view beyond which a case ends: a product of its tables says no more, and takes minutes to list."""


class TooLarge(Exception):
    """A view has more rows than can be compared in time."""


@dataclass
class Outcome:
    """What happened in a run, for statistics."""

    views: int = 0
    refused: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    commits: int = 0
    failures: int = 0
    judged: int = 0
    """Batches that were refused as they end in a state on which an expression fails."""
    without: int = 0
    """Views that had no result after a batch, as there was no input."""
    rows: int = 0
    strategies: Counter[str] = field(default_factory=Counter)
    """How many views were maintained by which strategy (each of a view's once), and how many of these rebalanced."""


class Run:
    """One case at work."""

    def __init__(self, case: Case, *, is_durable: bool = False) -> None:
        self.case = case
        self.r = random.Random(case.seed + 1)
        self.now = case.clock
        self.moments = None if case.clock is None else self._clock
        self.folder = TemporaryDirectory() if is_durable else None
        """Of a durable database; ``go`` deletes it at its end."""
        self.db = self._made()
        self.duck = connection()
        self.tables: dict[str, TableDef] = {t.name: t for t in case.tables}
        self.model: dict[str, list[Row]] = {t.name: [] for t in case.tables}
        self.made: list[Step] = []
        self.followers: list[Follower] = []
        self.outcome = Outcome()
        self.judge = Judge(self.duck)
        self.answers: dict[str, Bag | Fails | Needless | None] = {}
        self._tell_time()
        for table in case.tables:
            self.db.sql(table.ddl())
            self._show(table.name)

    def _made(self) -> ev.Database:
        """A new database, or what the folder of a durable one holds."""
        return ev.Database(path=self.folder and self.folder.name, clock=self.moments)

    def _clock(self) -> datetime:
        assert self.now is not None
        return self.now

    def _tell_time(self) -> None:
        """Have DuckDB know what time it is."""
        if self.now is not None:
            self.duck.execute(f"CREATE OR REPLACE MACRO the_clock() AS TIMESTAMP '{self.now}'")
            self.answers.clear()
            self.judge.known.clear()

    def _advance(self, hours: int) -> None:
        """The clock goes on, which is a batch."""
        assert self.now is not None
        self.now += timedelta(hours=hours)
        self._tell_time()
        self.db.advance()
        self._check_views([s.name for s in self.made])
        self._check_feeds({})

    def _show(self, name: str, rows: Sequence[Row] | None = None) -> None:
        """Give DuckDB the rows of a table."""
        self.duck.register(name, as_arrow(self.tables[name], self.model[name] if rows is None else rows))
        self.answers.clear()
        self.judge.known.clear()

    def go(self) -> Outcome:
        try:
            for step in self.case.steps:
                self._step(step)
            self._count_strategies()
            self._empty()
        except TooLarge as large:
            self.outcome.unchecked.append(str(large))
        finally:
            for step in reversed(self.case.steps):
                if step.kind in ("view", "rules"):
                    self.duck.execute(f"DROP VIEW IF EXISTS {step.name}")
            for name in self.tables:
                self.duck.unregister(name)
            if self.folder is not None:
                self.db.close()
                self.folder.cleanup()
        return self.outcome

    def _count_strategies(self) -> None:
        for step in self.made:
            parts = self.db.view(step.name).stats()["parts"]
            self.outcome.strategies.update({p["strategy"] for p in parts})
            for kind in ("minor", "major"):
                self.outcome.strategies.update({f"{p['strategy']} {kind}" for p in parts if p.get(kind)})

    def _step(self, step: Step) -> None:
        match step.kind:
            case "view" | "rules":
                self._define(step)
            case "batch":
                self._batch(step)
            case "bad":
                self._bad(step)
            case "feed":
                self._open(step)
            case "alter":
                self._alter(step)
            case "load":
                self._load()
            case "advance":
                self._advance(int(step.option))
            case "close":
                if int(step.option) < len(self.followers):
                    follower = self.followers[int(step.option)]
                    follower.feed.close()
                    follower.closed = True

    # --- views and feeds -------------------------------------------------------------------------------------------

    def _define(self, step: Step) -> None:
        sql = step.option if step.kind == "rules" else step.oracle or step.text
        try:
            self.duck.execute(f"CREATE VIEW {step.name} AS {strictly(sql)}")
        except duckdb.Error as error:
            self.outcome.unchecked.append(str(error))
            return
        before = self.fingerprint()
        verdict = self._verdicts([*self.made, step])[step.name]
        try:
            if step.kind == "rules":
                self.db.rules(step.text)
            else:
                self.db.sql(step.definition())
        except EverviewError as error:
            if isinstance(error, ExpressionError):
                expect(verdict in (Verdict.REFUSED, Verdict.UNKNOWN), f"{error!r}: {step.name} can be computed")
                self.outcome.judged += 1
            self.duck.execute(f"DROP VIEW {step.name}")
            self.outcome.refused.append(f"{type(error).__name__}: {error.message}: {step.text}")
            self._unchanged(before, step.name)
            return
        expect(verdict is not Verdict.REFUSED, f"{step.name} was filled, and cannot be computed")
        self.made.append(step)
        self.outcome.views += 1
        self._check_views([step.name])

    def _open(self, step: Step) -> None:
        if step.name not in self.db.views:
            return
        view = self.db.view(step.name)
        per_update = "per_update" in step.option
        pushed: list[pa.RecordBatch] | None = None
        if "subscribe" in step.option:
            pushed = []
            feed = view.subscribe(pushed.append, per_update=per_update)
        else:
            feed = view.changes(per_update=per_update)
        self.followers.append(Follower(step.name, per_update, feed, self._rows(step.name), pushed))

    def _alter(self, step: Step) -> None:
        """Other options: the rows are the same, and feeds go on and tell of nothing."""
        if step.name not in self.db.views:
            return
        before, version = self._rows(step.name), self.db.version
        self.db.sql(step.alteration())
        expect(self._rows(step.name) == before, f"{step.alteration()} changes the rows")
        expect(self.db.version == version, f"{step.alteration()} changes the version")
        at = next(i for i, s in enumerate(self.made) if s.name == step.name)
        now = str(self.db.view(step.name).explain().plan.view.options)
        self.made[at] = replace(self.made[at], options=now)
        for follower in self.followers:
            expect(
                follower.closed or not follower.take(), f"{step.alteration()}: the feed of {follower.view} tells of it"
            )
        self._check_views([s.name for s in self.made])

    def _load(self) -> None:
        """Go on with what is loaded of what is saved: it is the same, but for feeds."""
        before = self.fingerprint()
        if self.folder is not None:  # The log has no feeds, for which views keep more.
            version = self.db.version
            self.db.close()
            self.db = self._made()
            expect(self.db.version == version, f"version {self.db.version} was opened, and {version} closed")
        else:
            with TemporaryDirectory() as folder:
                self.db.save(f"{folder}/saved")
                self.db = ev.Database.load(f"{folder}/saved", clock=self.moments)
        for follower in self.followers:
            follower.closed = True
        if self.folder is None:
            self._unchanged(before, "loading")
        self._check_views([s.name for s in self.made])

    def _rows(self, name: str) -> Bag | None:
        """What a view holds; None if it has no result."""
        view = self.db.view(name)
        return bag(view) if view.stats()["failing"] is None else None

    # --- batches ---------------------------------------------------------------------------------------------------

    def _batch(self, step: Step) -> None:
        pending: list[tuple[str, str, list[Row]]] = []
        for op, name, rows in step.operations:
            if op == "upsert":
                self._commit(pending, step.option)
                pending = []
                self._upsert(name, list(rows))
            else:
                pending.append((op, name, list(rows)))
        self._commit(pending, step.option)

    def _upsert(self, name: str, rows: list[Row]) -> None:
        key = self.tables[name].key
        if not key:
            return
        updates: list[Update] = []
        last = {tuple(row[i] for i in key): row for row in rows}
        for row in last.values():
            updates += [(name, old, -1) for old in self.model[name] if all(old[i] == row[i] for i in key)]
        updates += [(name, row, 1) for row in last.values()]
        self._run(updates, lambda: self.db.upsert(name, rows), ordered=False)

    def _commit(self, operations: Sequence[tuple[str, str, Sequence[Row]]], style: str) -> None:
        valid = possible(self.tables, self.model, [(op, name, tuple(rows)) for op, name, rows in operations])
        if not valid:
            return
        updates = [(name, row, 1 if op == "insert" else -1) for op, name, rows in valid for row in rows]

        def act() -> None:
            if len(valid) == 1 and style == "plain":
                ((op, name, rows),) = valid
                (self.db.insert if op == "insert" else self.db.delete)(name, rows)
            elif style == "apply" and len({name for _, name, _ in valid}) == 1:
                self.db.apply(valid[0][1], [self._changed(u) for u in updates])
            else:
                with self.db.batch() as batch:
                    for op, name, rows in valid:
                        if style == "apply":
                            batch.apply(name, [self._changed((name, r, 1 if op == "insert" else -1)) for r in rows])
                        else:
                            (batch.insert if op == "insert" else batch.delete)(name, rows)

        self._run(updates, act)

    def _changed(self, update: Update) -> dict[str, Any]:
        name, row, sign = update
        named = {c.name: v for c, v in zip(self.tables[name].columns, row, strict=True)}
        return named | {"_change_type": "insert" if sign > 0 else "delete"}

    def _run(self, updates: list[Update], act: Callable[[], None], ordered: bool = True) -> None:
        single = self._singles(updates) if ordered and self.case.check_updates else {}
        kept = {name: list(rows) for name, rows in self.model.items()}
        for name, row, sign in updates:
            if sign > 0:
                self.model[name].append(row)
            else:
                self.model[name].remove(row)
        changed = sorted({name for name, _, _ in updates})
        for name in changed:
            self._show(name)
        fallible = any(s.fallible for s in self.made)
        verdicts = set(self._verdicts(self.made).values()) if fallible else {Verdict.RESULT}
        before = self.fingerprint() if verdicts & {Verdict.REFUSED, Verdict.UNKNOWN} else None
        try:
            act()
        except ExpressionError as error:
            expect(before is not None, f"{error!r}: all views can be computed from what the batch leaves")
            self.model = kept
            for name in changed:
                self._show(name)
            self.outcome.judged += 1
            self._refused(before or {}, "an expression")
            return
        expect(Verdict.REFUSED not in verdicts, "a batch was taken, and a view cannot be computed from what it leaves")
        self.outcome.commits += 1
        self._check_views([s.name for s in self.made])
        self._check_feeds(single)

    def _verdicts(self, views: Sequence[Step]) -> dict[str, Verdict]:
        def fails(name: str) -> bool | None:
            wanted = self._wanted(name)
            return None if wanted is None or isinstance(wanted, Needless) else isinstance(wanted, Fails)

        return self.judge.verdicts(views, fails)

    def _singles(self, updates: list[Update]) -> dict[str, list[Bag | None]]:
        """For each view with a per-update feed, its bag after each update alone; None where it cannot be computed.

        None too where a part of it cannot, as a column of a subquery that nobody reads: DuckDB leaves it out, and to
        Everview the subquery's row is absent while it is so.
        """
        wanted = {f.view for f in self.followers if f.per_update and not f.closed}
        model = {name: list(rows) for name, rows in self.model.items()}
        if not wanted or len(updates) > 12:
            return {}
        found: dict[str, list[Bag | None]] = {name: [self._known(name)] for name in wanted}
        fallible = any(s.fallible for s in self.made)
        for name, row, sign in updates:
            if sign > 0:
                model[name].append(row)
            else:
                model[name].remove(row)
            self._show(name, model[name])
            verdicts = self._verdicts(self.made) if fallible else {}
            for view in wanted:
                is_whole = verdicts.get(view, Verdict.RESULT) is Verdict.RESULT
                found[view].append(self._known(view) if is_whole else None)
        return found

    # --- checks ----------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> Bag | None:
        wanted = self._wanted(name)
        return None if isinstance(wanted, Fails | Needless) else wanted

    def _wanted(self, name: str) -> Bag | Fails | Needless | None:
        """What a view is to hold, if DuckDB can tell; and if an expression fails, that."""
        if name not in self.answers:
            self.answers[name] = self._answer(name)
        return self.answers[name]

    def _answer(self, name: str) -> Bag | Fails | Needless | None:
        try:
            rows = self.duck.execute(f"SELECT * FROM {name} LIMIT {LARGE + 1}").fetchall()
        except duckdb.OutOfMemoryException as error:
            raise TooLarge(f"DuckDB needs too much memory for {name}") from error
        except duckdb.Error as error:
            if is_failure(error):
                needless = independent(self.duck, name, LARGE + 1)
                return Fails() if needless is None else Needless(bag(needless))
            self.outcome.unchecked.append(str(error))
            return None
        if len(rows) > LARGE:
            raise TooLarge(f"{name} has over {LARGE} rows")
        return bag(rows)

    def _check_views(self, names: Sequence[str]) -> None:
        verdicts = self._verdicts(self.made) if any(s.fallible for s in self.made) else {}
        for name in names:
            view = self.db.view(name)
            verdict = verdicts.get(name, Verdict.RESULT)
            if view.stats()["failing"] is not None:
                self.outcome.without += 1
                check_no_result(view, verdict)
                continue
            expect(verdict in (Verdict.RESULT, Verdict.UNKNOWN), f"{name} has a result: {verdict}")
            wanted = self._wanted(name)
            if isinstance(wanted, Fails):
                expect(False, f"{name} has a result, and DuckDB has none")
            if isinstance(wanted, Needless):
                wanted = wanted.rows
            rows = list(islice(view, LARGE + 1))
            if len(rows) > LARGE and wanted is None:
                raise TooLarge(f"{name} has over {LARGE} rows")
            found = bag(rows)
            self.outcome.rows += len(rows)
            if isinstance(wanted, Counter):
                more, fewer = differences(found, wanted)
                expect(not more and not fewer, lambda: f"{name}: superfluous {dict(more)}, missing {dict(fewer)}")  # noqa: B023  # asked at once
            expect(len(view) == len(rows), f"{name}: len {len(view)}, rows {len(rows)}")
            expect(bool(view) == bool(rows), f"{name}: bool")
            self._check_reads(name, view, rows, found)

    def _check_reads(self, name: str, view: ev.View, rows: list[Row], found: Bag) -> None:
        check_reads(self.r, view, rows, found)

    def _check_feeds(self, singles: dict[str, list[Bag | None]]) -> None:
        for follower in self.followers:
            if not follower.closed:
                rows, single = self._rows(follower.view), singles.get(follower.view)
                check_feed(self.db, follower, rows, single, MOST_BATCHES)

    # --- failures --------------------------------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """All that is stored, whatever its order."""
        return stored(self.db)

    def _unchanged(self, before: dict[str, Any], what: str, *, filled_anew: bool = False) -> None:
        check_unchanged(self.db, before, what, filled_anew=filled_anew)

    def _bad(self, step: Step) -> None:
        before = self.fingerprint()
        kinds = {"over_delete", "duplicate_key", "type", "null", "overflow", "arity", "expression"}
        prepared: list[tuple[str, str, list[Row]]] = []
        poison = ""
        good: list[tuple[str, str, tuple[Row, ...]]] = []
        for op, name, rows in step.operations:
            if op not in kinds:
                good.append((op, name, rows))
        queue = possible(self.tables, self.model, good)
        for op, name, rows in step.operations:
            if op in kinds:
                poison = op
                made = poisoned(op, self.tables[name], rows, self.model[name])
                if made is None:
                    return
                prepared.append(made)
            elif queue:
                prepared.append(queue.pop(0))
        error = None
        try:
            with self.db.batch() as batch:
                for op, name, rows in prepared:
                    (batch.delete if op == "delete" else batch.insert)(name, rows)
        except DataError as caught:
            error = caught
        if error is None:
            expect(poison == "overflow", f"a batch with {poison} was accepted")
            updates = [(name, row, 1 if op == "insert" else -1) for op, name, rows in prepared for row in rows]
            self._follow(updates)
            huge = [(name, row, -1) for op, name, rows in prepared for row in rows if HUGE in row and op == "insert"]
            self._run(huge, lambda: self._delete_all(huge))
            return
        self.outcome.failures += 1
        if poison != "overflow":
            expect(error.table is not None and error.row is not None, f"{error!r} does not say where")
        self._refused(before, poison)

    def _refused(self, before: dict[str, Any], why: str) -> None:
        """A batch was refused: nothing has changed, and nobody was told of it."""
        self._unchanged(before, why)
        for follower in self.followers:
            if not follower.closed:
                expect(not follower.take(), f"the feed of {follower.view} tells of a failed batch")
        self._check_views([s.name for s in self.made])

    def _follow(self, updates: list[Update]) -> None:
        def nothing() -> None:
            pass

        self._run(updates, nothing)

    def _delete_all(self, updates: list[Update]) -> None:
        with self.db.batch() as batch:
            for name, row, _ in updates:
                batch.delete(name, [row])

    # --- the end ---------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        """Everything goes again; nothing may be left."""
        updates = [(name, row, -1) for name, rows in self.model.items() for row in rows]
        self.r.shuffle(updates)
        if updates:
            self._run(updates, lambda: self._delete_all(updates))
        for follower in self.followers:
            follower.feed.close()
        for step in self.made:
            self._rows(step.name)
        with self.db.batch():
            pass
        # A row over no input may hold strings and arrays, as that of a new database does.
        if self.now is None and (self.case.seed % 4 == 0 or len(self.db._dictionary)):
            check_as_fresh(self.db, self.case, self.made)


def run_case(case: Case) -> Outcome:
    """Run a case; raises where anything differs."""
    return Run(case, is_durable=case.seed % 4 == 1).go()
