"""Runs a case on Everview and on DuckDB side by side and compares all that can be read after every batch."""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import islice
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine.transaction import is_net_per_update
from everview.errors import DataError, EverviewError, ExpressionError
from everview.programs.limits import BEYOND, LARGEST
from everview.strategies.strategy import Gauge
from tests.engine.generator import HUGE, Case, Row, Step, TableDef
from tests.engine.judging import Judge, Verdict, independent, is_failure, prepare, strictly

Bag = Counter[Row]
Update = tuple[str, Row, int]

_ARROW = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "SMALLINT": pa.int16(),
    "TINYINT": pa.int8(),
    "FLOAT": pa.float32(),
    "BINARY": pa.binary(),
    "STRING": pa.string(),
    "DOUBLE": pa.float64(),
    "DECIMAL(6,2)": pa.decimal128(6, 2),
    "DECIMAL(22,3)": pa.decimal128(22, 3),
    "DATE": pa.date32(),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "BOOLEAN": pa.bool_(),
}


MOST_BATCHES = 1
"""Record batches that a feed has of one commit, as small as the cases are."""
LARGE = 20_000
"""Rows of a view beyond which a case ends: a product of its tables says no more, and takes minutes to list."""


class Difference(AssertionError):
    """Everview and DuckDB, or two ways to read one view, disagree."""


class Fails:
    """Instead of a result: an expression fails on the data."""


@dataclass(frozen=True)
class Needless:
    """Instead of a result: an expression fails on rows that the result does not need; the result is this, or none."""

    rows: Bag


class TooLarge(Exception):
    """A view has more rows than can be compared in time."""


def expect(holds: bool, message: Callable[[], str] | str) -> None:
    if not holds:
        raise Difference(message if isinstance(message, str) else message())


# --- bags ------------------------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """One Python value for all that SQL calls equal."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, date) and not isinstance(value, datetime):  # DuckDB's date_add gives a timestamp
        return datetime(value.year, value.month, value.day)
    if hasattr(value, "asDict"):  # a struct of Spark's
        value = value.asDict()
    if isinstance(value, dict):
        return frozenset((plain(k), plain(v)) for k, v in value.items())
    return tuple(map(plain, value)) if isinstance(value, list) else value


def bag(rows: Iterable[Sequence[Any]]) -> Bag:
    return Counter(tuple(plain(v) for v in row) for row in rows)


def close(a: Any, b: Any) -> bool:
    """Exact, but for floating point (1e-12) and for averages of decimals, which DuckDB gives as doubles."""
    if a == b:
        return True
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-9)
    if isinstance(a, Decimal) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-5)
    return False


def differences(found: Bag, wanted: Bag) -> tuple[Bag, Bag]:
    """What is superfluous and what is missing, after rows that differ by rounding only have been paired."""
    more, fewer = found - wanted, wanted - found
    if more and fewer:
        for row in list(more):
            for other in list(fewer):
                if more[row] and fewer[other] and all(map(close, row, other)):
                    both = min(more[row], fewer[other])
                    more[row] -= both
                    fewer[other] -= both
    return +more, +fewer


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET memory_limit = '1GB'")  # a join that needs more is not checked, rather than all memory used
    connection.execute("SET temp_directory = ''")
    connection.execute("SET TimeZone = 'UTC'")
    prepare(connection)
    return connection


# --- running ---------------------------------------------------------------------------------------------------------


@dataclass
class Follower:
    """A feed and what it adds up to."""

    view: str
    per_update: bool
    feed: Any
    total: Bag | None
    """None until the view has a result for the first time."""
    pushed: list[pa.RecordBatch] | None
    closed: bool = False

    def take(self) -> list[pa.RecordBatch]:
        if self.pushed is None:
            return self.feed.read()
        found, self.pushed[:] = list(self.pushed), []
        return found


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

    def __init__(self, case: Case) -> None:
        self.case = case
        self.r = random.Random(case.seed + 1)
        self.now = case.clock
        self.moments = None if case.clock is None else self._clock
        self.db = ev.Database(clock=self.moments)
        self.duck = _connection()
        self.tables: dict[str, TableDef] = {t.name: t for t in case.tables}
        self.model: dict[str, list[Row]] = {t.name: [] for t in case.tables}
        self.made: list[Step] = []
        self.followers: list[Follower] = []
        self.outcome = Outcome()
        self.broken: set[str] = set()
        self.grouped: set[str] = set()
        self.judge = Judge(self.duck)
        self.answers: dict[str, Bag | Fails | Needless | None] = {}
        self._tell_time()
        for table in case.tables:
            self.db.sql(table.ddl())
            self._show(table.name)

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
        columns = self.tables[name].columns
        rows = self.model[name] if rows is None else rows
        arrays = [pa.array([row[i] for row in rows], _ARROW[c.type]) for i, c in enumerate(columns)]
        self.duck.register(name, pa.table(arrays, names=[c.name for c in columns]))
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
        with TemporaryDirectory() as folder:
            self.db.save(f"{folder}/saved")
            self.db = ev.Database.load(f"{folder}/saved", clock=self.moments)
        for follower in self.followers:
            follower.closed = True
        self._unchanged(before, "loading")
        self._check_views([s.name for s in self.made])

    def _rows(self, name: str) -> Bag | None:
        """What a view holds; None if it has no result."""
        view = self.db.view(name)
        return bag(view) if view.stats()["failing"] is None else None

    # --- batches ---------------------------------------------------------------------------------------------------

    def _valid(self, operations: Iterable[tuple[str, str, tuple[Row, ...]]]) -> list[tuple[str, str, list[Row]]]:
        """What can be done of some operations, given what is there."""
        model = {name: list(rows) for name, rows in self.model.items()}
        found = []
        for op, name, rows in operations:
            kept: list[Row] = []
            key = self.tables[name].key
            for row in rows:
                if op == "delete":
                    if row not in model[name]:
                        continue
                    model[name].remove(row)
                elif op == "upsert":
                    model[name] = [o for o in model[name] if any(o[i] != row[i] for i in key)] + [row]
                else:
                    if key and any(all(o[i] == row[i] for i in key) for o in model[name]):
                        continue
                    model[name].append(row)
                kept.append(row)
            if kept:
                found.append((op, name, kept))
        return found

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
        valid = self._valid([(op, name, tuple(rows)) for op, name, rows in operations])
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

    def _check_no_result(self, name: str, verdict: Verdict) -> None:
        """A view whose row over no input fails is there, and has no rows."""
        expect(verdict in (Verdict.NO_RESULT, Verdict.UNKNOWN), f"{name} has no result: {verdict}")
        self.outcome.without += 1
        view = self.db.view(name)
        expect("no input" in view.stats()["failing"], f"{name}: {view.stats()['failing']}")
        row = (None,) * len(view.schema)
        for ask in (len, list, bool, lambda v: v.to_arrow(), lambda v: row in v, lambda v: v.page(limit=1)):
            try:
                ask(view)
            except ExpressionError as error:
                expect("has no result now" in error.message, f"{name}: {error!r}")
            else:
                expect(False, f"{name} has no result, and answers all the same")
        expect(bool(view.explain()), f"{name}: explain")

    def _check_views(self, names: Sequence[str]) -> None:
        verdicts = self._verdicts(self.made) if any(s.fallible for s in self.made) else {}
        for name in names:
            view = self.db.view(name)
            verdict = verdicts.get(name, Verdict.RESULT)
            if view.stats()["failing"] is not None:
                self._check_no_result(name, verdict)
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
                expect(not more and not fewer, lambda: f"{name}: superfluous {dict(more)}, missing {dict(fewer)}")  # noqa: B023
            expect(len(view) == len(rows), f"{name}: len {len(view)}, rows {len(rows)}")
            expect(bool(view) == bool(rows), f"{name}: bool")
            self._check_reads(name, view, rows, found)

    def _check_reads(self, name: str, view: Any, rows: list[Row], found: Bag) -> None:
        r = self.r
        if r.random() < 0.3:
            table = view.to_arrow()
            expect(table.num_rows == len(rows), f"{name}: to_arrow has {table.num_rows} rows, not {len(rows)}")
            listed = bag(zip(*(c.to_pylist() for c in table.columns), strict=True))
            expect(listed == found, f"{name}: to_arrow differs")
            offset, limit = r.randint(0, len(rows)), r.randint(0, 5)
            paged = view.page(offset=0, limit=len(rows))
            expect(bag(paged) == found, f"{name}: page(0, {len(rows)})")
            page = view.page(offset=offset, limit=limit)
            expect(bag(page) == bag(paged[offset : offset + limit]), f"{name}: page({offset}, {limit})")
            if rows:
                at = r.randrange(-len(rows), len(rows))
                expect(bag([view[at]]) == bag([paged[at]]), f"{name}: [{at}]")
        for row in r.sample(rows, min(2, len(rows))):
            expect(row in view, f"{name}: {row} is not in it")
        if rows:
            mixed = tuple(r.choice(rows)[i] for i in range(len(rows[0])))
            there = tuple(map(plain, mixed)) in found
            expect((mixed in view) == there, f"{name}: {mixed} in it is {not there}")

    def _check_feeds(self, singles: dict[str, list[Bag | None]]) -> None:
        for follower in self.followers:
            if not follower.closed:
                self._check_feed(follower, singles.get(follower.view))

    def _check_feed(self, follower: Follower, single: list[Bag | None] | None) -> None:
        name = follower.view
        runtime = self.db._views[name]
        once = bool(getattr(runtime.view.body, "distinct", False) or runtime.group_columns is not None)
        netted = not follower.per_update or not is_net_per_update(self.db, name)
        by_update: dict[int, Bag] = {}
        batches = follower.take()
        expect(len(batches) <= MOST_BATCHES, f"{name}: {len(batches)} batches in the feed after one commit")
        for batch in batches:
            expect(batch.num_rows > 0, f"{name}: an empty batch in the feed")
            self._check_pairs(name, batch)
            for row in batch.to_pylist():
                kind, version, count = row.pop("_change_type"), row.pop("_commit_version"), row.pop("_count")
                update = row.pop("_update") if follower.per_update else 0
                expect(version == self.db.version, f"{name}: version {version}, not {self.db.version}")
                expect(count >= 1 and (not once or count == 1), f"{name}: count {count} of {row}")
                values = tuple(map(plain, row.values()))
                delta = by_update.setdefault(update, Counter())
                sign = 1 if kind in ("insert", "update_postimage") else -1
                expect(not netted or values not in delta, f"{name}: {values} twice in update {update}")
                delta[values] += sign * count
        rows = self._rows(name)
        total: Bag = Counter(follower.total or {})
        for delta in by_update.values():
            for values, count in delta.items():
                expect(count != 0, f"{name}: {values} comes and goes in one delta")
                total[values] += count
        if follower.total is None:  # It begins with the first result that there is.
            follower.total = rows
            return
        expect(
            (rows is None or +total == rows) and all(c >= 0 for c in total.values()),
            lambda: f"{name}: feed ({follower.per_update=}) gives {+total}, view {rows}",
        )
        follower.total = +total
        if single is not None and follower.per_update and single[0] is not None:
            self._check_singles(name, by_update, single)

    def _check_singles(self, name: str, by_update: dict[int, Bag], single: list[Bag | None]) -> None:
        """Each update's delta; those between two states that can be computed together."""
        before, mine = single[0] or Counter(), Counter[Row]()
        for i, after in enumerate(single[1:]):
            mine.update(by_update.pop(i, Counter()))
            if after is None:
                continue
            change = Counter(after)
            change.subtract(before)
            for sign in (1, -1):
                found: Bag = Counter({v: sign * c for v, c in mine.items() if sign * c > 0})
                wanted: Bag = Counter({v: sign * c for v, c in change.items() if sign * c > 0})
                more, fewer = differences(found, wanted)
                if any(isinstance(v, float) for row in (*more, *fewer) for v in row):
                    continue  # changes by rounding only are no changes to Everview
                expect(
                    not more and not fewer,
                    f"{name}: update {i} gives {dict(found)} instead of {dict(wanted)} ({sign})",
                )
            before, mine = after, Counter()
        expect(not by_update, f"{name}: deltas of updates {list(by_update)}, which there were not")

    def _check_pairs(self, name: str, batch: pa.RecordBatch) -> None:
        kinds = batch.column(batch.schema.get_field_index("_change_type")).to_pylist()
        for i, kind in enumerate(kinds):
            if kind == "update_preimage":
                expect(kinds[i + 1 : i + 2] == ["update_postimage"], f"{name}: a preimage without postimage")
            if kind == "update_postimage":
                expect(i > 0 and kinds[i - 1] == "update_preimage", f"{name}: a postimage without preimage")

    # --- failures --------------------------------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """All that is stored, whatever its order."""
        found: dict[str, Any] = {"version": self.db.version}
        machines: dict[str, Any] = {n: t.unit for n, t in self.db._tables.items()}
        for name, runtime in self.db._views.items():
            machines |= {f"{name} core {i}": c.part for i, c in enumerate(runtime.cores)}
            machines |= {f"{name} fold {i}": f.part for i, f in enumerate(runtime.folds)}
            machines[f"{name} net"] = runtime.net.part
            machines |= {
                f"{name} fold parked {i}": p.counts.part
                for i, p in enumerate(runtime.parked)
                if p.counts is not None and p.is_left
            }
            for i, source in enumerate(s for _, s in runtime.stages):
                for j, listed in enumerate(_listed(source)):
                    states = getattr(listed, "states", {})  # the others keep theirs in folds
                    found[f"{name} listed {i} {j}"] = {g: plain(s.result()) for g, s in states.items()}
        for name, machine in machines.items():
            fold = " fold" in name or " net" in name
            for table in machine.program.tables:
                rows = machine.dump(table.name)
                if fold:  # old measures mean nothing once settled
                    now = sum(not v.startswith("old") for v in table.values)
                    rows = [(k, v[:now], lv) for k, v, lv in rows if any(v[:now])]
                found[f"{name} {table.name}"] = sorted(rows)
            for channel, _ in machine.program.channels:
                found[f"{name} {channel}"] = machine.pending(channel)
        state = self.db._dictionary.to_state()
        found["dictionary"] = {
            kind: dict(zip(t["value"].to_pylist(), t["count"].to_pylist(), strict=True)) for kind, t in state.items()
        }
        return found

    def _unchanged(self, before: dict[str, Any], what: str, *, filled_anew: bool = False) -> None:
        """All stored is as it was; which keys are heavy depends on the past, and may differ where filled anew."""
        after = self.fingerprint()
        if filled_anew:
            parted = tuple(
                f"{name} core {i} "
                for name, runtime in self.db._views.items()
                for i, core in enumerate(runtime.cores)
                if core.maintained.parts is not None
            )
            before, after = ({k: v for k, v in s.items() if not k.startswith(parted)} for s in (before, after))
        for kind in ("string", "binary", "decimal", "nested"):  # values without uses go with the next batch
            for state in (before, after):
                state["dictionary"][kind] = {v: c for v, c in state["dictionary"][kind].items() if c}
        changed = {k: (before.get(k), after.get(k)) for k in {*before, *after} if before.get(k) != after.get(k)}
        expect(not changed, f"{what} failed, and changed {changed}")

    def _bad(self, step: Step) -> None:
        before = self.fingerprint()
        kinds = {"over_delete", "duplicate_key", "type", "null", "overflow", "arity", "expression"}
        prepared: list[tuple[str, str, list[Row]]] = []
        poison = ""
        good: list[tuple[str, str, tuple[Row, ...]]] = []
        for op, name, rows in step.operations:
            if op not in kinds:
                good.append((op, name, rows))
        valid = {id(o): o for o in self._valid(good)}
        queue = list(valid.values())
        for op, name, rows in step.operations:
            if op in kinds:
                poison = op
                made = self._poison(op, name, rows)
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

    def _poison(self, kind: str, name: str, rows: tuple[Row, ...]) -> tuple[str, str, list[Row]] | None:
        table = self.tables[name]
        first = rows[0]
        if kind == "duplicate_key" and table.key:
            return "insert", name, [first, first]
        if kind == "type":
            wrong = (object(), *first[1:])
            return "insert", name, [wrong]
        if kind == "arity":
            return "insert", name, [(*first, 1)]
        if kind == "null":
            at = next((i for i, c in enumerate(table.columns) if not c.nullable), None)
            if at is not None:
                return "insert", name, [(*first[:at], None, *first[at + 1 :])]
        if kind == "overflow":
            at = next((i for i, c in enumerate(table.columns) if c.type == "BIGINT"), None)
            if at is None or table.key:
                return None
            huge = (*first[:at], HUGE, *first[at + 1 :])
            return "insert", name, [huge] * 3
        return "delete", name, [first] * (30 + self.model[name].count(first))

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
        left = self.db._dictionary
        if not any(
            re.search(r"'|array\(|struct\(|COLLECT_", s.text) for s in self.made
        ):  # A row over no input may have such.
            expect(len(left) == 0, lambda: f"left in the dictionary: {left.to_state()}")
        if self.case.seed % 4 == 0 and self.now is None:
            self._as_fresh()

    def _as_fresh(self) -> None:
        """What is left is what a new database with the same views holds."""
        fresh = Run.__new__(Run)
        fresh.db = ev.Database()
        for table in self.case.tables:
            fresh.db.sql(table.ddl())
        for step in self.made:
            if step.kind == "rules":
                fresh.db.rules(step.text)
            else:
                fresh.db.sql(step.definition())
        for name, runtime in self.db._views.items():  # what a first use of positions or of a look-up has built
            if fresh.db._views[name].view.options != runtime.view.options:
                fresh.db.view(name)._set_options(runtime.view.options)
        with fresh.db.batch():
            pass
        fresh.db.version = self.db.version
        mine, new = self.fingerprint(), fresh.fingerprint()
        if mine["dictionary"] != new["dictionary"]:
            expect(False, f"left in the dictionary: {mine['dictionary']}, {new['dictionary']}")
        if not any(new["dictionary"].values()):  # else words of the two databases differ
            counted = self._counted()
            expect(mine.keys() == new.keys(), f"other tables: {mine.keys() ^ new.keys()}")
            left = {
                k: (mine[k], new[k]) for k in new if mine.get(k) != new[k] and (k not in counted or len(mine[k]) > 1)
            }
            expect(not left, f"left behind: {left}")
        have, empty = self.db.nbytes(), fresh.db.nbytes()
        allowed = 1.05 * empty + 640 * sum(1 for k in mine if isinstance(mine[k], list))  # first blocks of arrays
        expect(have <= allowed, f"{have} bytes are left of an empty database of {empty}, {allowed} allowed")

    def _counted(self) -> set[str]:
        """Tables whose one row depends on the past: how often a strategy has rebalanced, how large numbers were."""
        found = set()
        for name, runtime in self.db._views.items():
            for i, core in enumerate(runtime.cores):
                found |= {f"{name} core {i} {LARGEST}", f"{name} core {i} {BEYOND}"}
                if (parts := core.maintained.parts) is not None:
                    gauges = (parts.base, *parts.heavy_keys, parts.minor, parts.major, parts.moved)
                    found |= {f"{name} core {i} {g.table}" for g in gauges if isinstance(g, Gauge)}
        return found


def _listed(source: Any) -> list[Any]:
    found = list(getattr(source, "listed", ()))
    for side in getattr(source, "sides", ()):
        found += _listed(side)
    return found


def run_case(case: Case) -> Outcome:
    """Run a case; raises where anything differs."""
    return Run(case).go()


def smaller(case: Case, patience: int = 400) -> Case:
    """A smaller case that fails in the same way, found by leaving out steps, operations and rows."""

    def fails(candidate: Case) -> str | None:
        try:
            run_case(candidate)
        except Exception as error:
            return type(error).__name__
        return None

    kind = fails(case)
    tries = 0
    progress = True
    while progress and tries < patience:
        progress = False
        for candidate in _candidates(case):
            tries += 1
            if tries > patience:
                break
            if fails(candidate) == kind:
                case, progress = candidate, True
                break
    return case


def _candidates(case: Case) -> Iterable[Case]:
    size = len(case.steps)
    for length in (4, 2, 1):
        for start in range(size - length, -1, -1):
            yield case.without(start, start + length)
    for i, step in enumerate(case.steps):
        for j, (op, name, rows) in enumerate(step.operations):
            others = step.operations[:j], step.operations[j + 1 :]
            if len(step.operations) > 1:
                yield _with(case, i, (*others[0], *others[1]))
            for k in range(len(rows) if len(rows) > 1 else 0):
                yield _with(case, i, (*others[0], (op, name, rows[:k] + rows[k + 1 :]), *others[1]))


def _with(case: Case, i: int, operations: tuple[tuple[str, str, tuple[Row, ...]], ...]) -> Case:
    steps = list(case.steps)
    steps[i] = replace(steps[i], operations=operations)
    return replace(case, steps=tuple(steps))


def fail_with(case: Case) -> None:
    """Report a failing case, made smaller."""
    small = smaller(case)
    try:
        run_case(small)
    except Exception as error:
        pytest.fail(f"{small.show()}\n\n{type(error).__name__}: {error}")
