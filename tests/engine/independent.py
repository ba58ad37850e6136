"""A second generator of random views and batches, written apart from the first: nothing of it is shared but DuckDB.

A *session* has tables of random types, views of several shapes over them and over each other, and goes through random
steps: inserts, deletes, upserts, changes with types, batches of several operations over several tables, batches that
must be refused, feeds that are opened and closed, saving and loading. A plain Python model says what the tables hold,
and DuckDB, asked afresh after every step, what the views are. Where DuckDB cannot compute a view in the state in which
a batch would end, the batch must be refused, and nothing has changed; what happens on the way must not matter.

``faults`` plants errors on purpose, to see that a session notices them.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import everview as ev
from everview.errors import DataError

Row = tuple[Any, ...]
Rows = Counter[Row]
Change = tuple[str, Row, int]
"""A table, a row of it, and how many copies come (above 0) or go."""


@dataclass(frozen=True)
class Kind:
    """A type: its name in both dialects, its Arrow type, and its values."""

    sql: str
    duckdb: str
    arrow: pa.DataType
    values: Callable[[random.Random], Any]
    adds: bool = False
    """Whether it can be added up."""


KINDS = {
    "int": Kind("INT", "INTEGER", pa.int32(), lambda r: r.randint(-2, 3), True),
    "big": Kind("BIGINT", "BIGINT", pa.int64(), lambda r: r.choice([0, 1, -7, 10**12, 3]), True),
    "dec": Kind(
        "DECIMAL(9,2)", "DECIMAL(9,2)", pa.decimal128(9, 2), lambda r: Decimal(r.randint(-300, 300)) / 100, True
    ),
    "dbl": Kind("DOUBLE", "DOUBLE", pa.float64(), lambda r: r.choice([0.0, 0.5, -1.25, 1e10, 3.0]), True),
    "str": Kind("STRING", "VARCHAR", pa.string(), lambda r: r.choice(["1", "2", "x", "", "Zürich", "it's; --"])),
    "day": Kind("DATE", "DATE", pa.date32(), lambda r: date(2024, 2, 27) + timedelta(r.randint(0, 4))),
    "at": Kind(
        "TIMESTAMP_NTZ",
        "TIMESTAMP",
        pa.timestamp("us"),
        lambda r: datetime(2024, 1, 1, 12) + timedelta(0, r.randint(0, 3)),
    ),
    "yes": Kind("BOOLEAN", "BOOLEAN", pa.bool_(), lambda r: r.random() < 0.5),
}


@dataclass(frozen=True)
class Relation:
    """A table or a view, with the kinds of its columns by name."""

    name: str
    columns: dict[str, str]
    key: str | None = None
    required: frozenset[str] = frozenset()

    def of(self, *kinds: str) -> list[str]:
        return [name for name, kind in self.columns.items() if kind in kinds]


FAULTS = ("feed row", "update", "view's update", "refused batch", "saved row")
"""A row lost of what a feed gives, of a batch, of what one view gets of it; half a refused batch; a row not saved."""


@dataclass
class Session:
    """One random history; ``run`` raises AssertionError when Everview and DuckDB differ."""

    seed: int
    folder: Path
    faults: str | None = None
    """None, or a fault to plant once: one of FAULTS."""
    steps: int = 14
    planted: bool = field(default=False, init=False)
    """Whether the fault has happened."""
    upserting: tuple[str, list[Row]] | None = field(default=None, init=False)
    """The table and rows that the batch at hand upserts, if it does."""
    seen: Counter[str] = field(default_factory=Counter, init=False)

    def run(self) -> None:
        self.random = random.Random(self.seed)
        self.when = random.Random(f"fault {self.seed}").randint(2, max(2, self.steps // 2))
        with ExitStack() as stack:
            self.oracle = stack.enter_context(duckdb.connect())
            self.db = ev.Database()
            self.feeds: dict[str, tuple[Any, Rows]] = {}
            self.tables = [self._table(i) for i in range(self.random.randint(1, 3))]
            self.held: dict[str, Rows] = {t.name: Counter() for t in self.tables}
            self.views: list[tuple[Relation, str]] = []
            for _ in range(self.random.randint(0, 4)):
                self._step(self._inserted)
            for i in range(self.random.randint(1, 4)):
                self._define(i)
            for number in range(self.steps):
                self.number = number
                self._step(self.random.choice(self._moves()))
                self._check()

    # --- definitions -------------------------------------------------------------------------------------------------

    def _table(self, i: int) -> Relation:
        r = self.random
        names = {"k": "int", "n": r.choice(["int", "big"])}
        names |= {f"c{j}": r.choice(list(KINDS)) for j in range(r.randint(0, 3))}
        if r.random() < 0.5:
            names["s"] = "str"
        keyed = r.random() < 0.4
        required = frozenset({"k"}) if keyed or r.random() < 0.3 else frozenset[str]()
        table = Relation(f"t{i}", names, "k" if keyed else None, required)
        inner = [f"{n} {KINDS[k].sql}{' NOT NULL' if n in required else ''}" for n, k in names.items()]
        inner += [f"PRIMARY KEY ({table.key})"] if table.key else []
        self.db.sql(f"CREATE TABLE {table.name} ({', '.join(inner)})")
        self.oracle.execute(
            f"CREATE TABLE {table.name} ({', '.join(f'{n} {KINDS[k].duckdb}' for n, k in names.items())})"
        )
        return table

    def _define(self, i: int) -> None:
        """A view, if its tables as they are now let it be computed; else its definition must be refused."""
        sql, columns = self._query()
        name = f"v{i}"
        self.oracle.execute(f"CREATE VIEW {name} AS {sql}")
        try:
            self.oracle.execute(f"SELECT * FROM {name}").fetchall()
        except duckdb.Error:
            self.seen["refused definitions"] += 1
            try:
                self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
            except DataError:
                self.oracle.execute(f"DROP VIEW {name}")
                return
            raise AssertionError(f"{name} was defined, though DuckDB cannot compute it: {sql}") from None
        self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {sql}")
        self.views.append((Relation(name, columns), sql))

    def _query(self) -> tuple[str, dict[str, str]]:
        r = self.random
        shape = r.choice(["rows", "rows", "grouped", "grouped", "distinct", "set", "global"])
        if shape == "set":
            first, columns = self._rows(["int"], distinct=False)
            second, _ = self._rows(["int"], distinct=False)
            word = r.choice(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
            return f"{first} {word} {second}", columns
        if shape in ("rows", "distinct"):
            return self._rows(None, distinct=shape == "distinct")
        source, scope = self._from()
        keys = [] if shape == "global" else r.sample(scope, min(len(scope), r.randint(1, 2)))
        made = {f"g{i}": (text, kind) for i, (text, kind) in enumerate(keys)}
        made["total"] = ("COUNT(*)", "big")
        for i, (text, kind) in enumerate(r.sample(scope, min(len(scope), 2))):
            if kind == "int" and r.random() < 0.7:
                made[f"a{i}"] = (f"SUM({text})", "big")
            elif kind != "yes":
                made[f"a{i}"] = (f"{r.choice(['MIN', 'MAX'])}({text})", kind)
            else:
                made[f"a{i}"] = (f"COUNT(DISTINCT {text})", "big")
        having = " HAVING COUNT(*) > 1" if keys and r.random() < 0.2 else ""
        grouped = f" GROUP BY {', '.join(text for text, _ in keys)}" if keys else ""
        outputs = ", ".join(f"{text} AS {name}" for name, (text, _) in made.items())
        return f"SELECT {outputs} FROM {source}{grouped}{having}", {name: kind for name, (_, kind) in made.items()}

    def _rows(self, kinds: Sequence[str] | None, *, distinct: bool) -> tuple[str, dict[str, str]]:
        r = self.random
        source, scope = self._from()
        wanted = [c for c in scope if kinds is None or c[1] in kinds]
        chosen = r.sample(wanted, min(len(wanted), 1 if kinds else r.randint(1, 4)))
        outputs = {f"o{i}": c for i, c in enumerate(chosen)}
        texts = [text for text, kind in scope if kind == "str"]
        if kinds is None and texts and r.random() < 0.7:
            outputs["read"] = (f"CAST({r.choice(texts)} AS INT)", "int")  # fails for some texts, in both engines
        elif kinds is None and r.random() < 0.3:
            numbers = [text for text, kind in scope if kind == "int"]
            outputs["more"] = (f"{r.choice(numbers)} + {r.choice(numbers)}", "int")
        shown = ", ".join(f"{text} AS {name}" for name, (text, _) in outputs.items())
        columns = {name: kind for name, (_, kind) in outputs.items()}
        return f"SELECT {'DISTINCT ' if distinct else ''}{shown} FROM {source}", columns

    def _from(self) -> tuple[str, list[tuple[str, str]]]:
        """A join of one to three relations, perhaps filtered, and its columns with their kinds; at least one INT."""
        r = self.random
        known = [*self.tables, *(v for v, _ in self.views if v.of("int"))]
        used = [r.choice(self.tables), *(r.choice(known) for _ in range(r.choice([0, 0, 1, 1, 2])))]
        source, scope = "", list[tuple[str, str]]()
        for i, relation in enumerate(used):
            own = [(f"a{i}.{name}", kind) for name, kind in relation.columns.items()]
            numbers = [text for text, kind in own if kind in ("int", "big")]
            if i:
                mine = r.choice(numbers or [f"a{i}.{relation.of('int')[0]}"])
                theirs = r.choice([text for text, kind in scope if kind in ("int", "big")])
                source += f" JOIN {relation.name} a{i} ON {mine} = {theirs}"
            else:
                source = f"{relation.name} a0"
            scope += own
        if r.random() < 0.35:
            text, kind = r.choice([c for c in scope if c[1] in ("int", "big", "day", "str")])
            value = {"int": "0", "big": "1", "day": "DATE '2024-02-28'", "str": "'1'"}[kind]
            source += f" WHERE {text} {r.choice(['<', '>=', '<>', '='])} {value}"
        return source, scope

    # --- steps -------------------------------------------------------------------------------------------------------

    def _moves(self) -> list[Callable[[], list[Change] | None]]:
        changes = [
            self._inserted,
            self._inserted,
            self._mixed,
            self._mixed,
            self._several,
            self._several,
            self._passing,
        ]
        return [*changes, self._deleted, self._upserted, self._wrong, self._reloaded, self._watched]

    def _step(self, move: Callable[[], list[Change] | None]) -> None:
        self.seen[move.__name__] += 1
        changes = move()
        if changes:
            self._attempt(changes)

    def _attempt(self, changes: list[Change]) -> None:
        """One batch, which must be taken if DuckDB can compute every view of its end, and else refused."""
        after = {name: Counter(rows) for name, rows in self.held.items()}
        for table, row, copies in changes:
            after[table][row] += copies
        try:
            self._fill(after)
            for view, _ in self.views:
                self.oracle.execute(f"SELECT * FROM {view.name}").fetchall()
            computable = True
        except duckdb.Error:
            computable = False
        sent = self._without_one(changes) if computable else changes
        filled = [found for view, _ in self.views if len(found := self.db.view(view.name))]
        if computable and filled and self._due("view's update"):
            self._deafen(self.random.choice(filled)._runtime)
        try:
            self._send(sent)
            taken = True
        except DataError:
            taken = False
            self.seen["refused"] += 1
        if self.faults == "refused batch" and not taken and not self.planted:
            self.planted = True
            self._force(changes)
        assert taken == computable, (
            f"a batch was {'taken' if taken else 'refused'}, and DuckDB says otherwise: {changes}"
        )
        if taken:
            self.held = {name: +rows for name, rows in after.items()}
        else:
            self._fill(self.held)

    def _send(self, changes: list[Change]) -> None:
        """In one of the ways there are: as one call where that can say it, as a batch of calls, or with types."""
        if self.upserting is not None:
            self.db.upsert(*self.upserting)
            return
        tables = {t for t, _, _ in changes}
        way = self.random.choice(["batch", "apply" if len(tables) == 1 else "batch"])
        if way == "apply":
            self.db.apply(next(iter(tables)), self._arrow(changes))
            return
        with self.db.batch() as batch:
            for table, row, copies in changes:
                for _ in range(abs(copies)):
                    (batch.insert if copies > 0 else batch.delete)(table, [row])

    def _arrow(self, changes: list[Change]) -> pa.Table:
        relation = self._relation(changes[0][0])
        rows = [(row, "insert" if copies > 0 else "delete") for _, row, copies in changes for _ in range(abs(copies))]
        arrays = {
            name: pa.array([row[i] for row, _ in rows], KINDS[kind].arrow)
            for i, (name, kind) in enumerate(relation.columns.items())
        }
        return pa.table(arrays | {"_change_type": pa.array([kind for _, kind in rows])})

    def _inserted(self) -> list[Change]:
        return self._some_new(self.random.choice(self.tables), self.random.randint(1, 5), Counter())

    def _deleted(self) -> list[Change]:
        table = self.random.choice(self.tables)
        there = list(self.held[table.name].elements())
        return [(table.name, row, -1) for row in self.random.sample(there, min(len(there), 3))]

    def _mixed(self) -> list[Change]:
        """Rows of one table that go and come."""
        table = self.random.choice(self.tables)
        there = list(self.held[table.name].elements())
        gone = self.random.sample(there, min(len(there), self.random.randint(0, 3)))
        going = [(table.name, row, -1) for row in gone]
        return going + self._some_new(table, self.random.randint(1, 4), Counter(gone))

    def _several(self) -> list[Change]:
        """The same for all tables, operations in turns."""
        found = []
        for table in self.random.sample(self.tables, len(self.tables)):
            there = list(self.held[table.name].elements())
            gone = self.random.sample(there, min(len(there), 2))
            found += [(table.name, row, -1) for row in gone]
            found += self._some_new(table, 2, Counter(gone))
        return found

    def _passing(self) -> list[Change]:
        """Rows that come and go again within the batch, among others: nothing of them may matter."""
        table = self.random.choice(self.tables)
        found = []
        for _, row, _ in self._some_new(table, self.random.randint(1, 3), Counter()):
            found += [(table.name, row, 1), (table.name, row, -1)]
        lasting = self._some_new(table, self.random.randint(0, 2), Counter())
        return [*found, *lasting] if self.random.random() < 0.5 else [*lasting, *self._clear_of(table, lasting, found)]

    def _clear_of(self, table: Relation, lasting: list[Change], passing: list[Change]) -> list[Change]:
        """Passing rows whose keys no lasting row has."""
        if table.key is None:
            return passing
        taken = {row[0] for _, row, _ in lasting}
        return [c for c in passing if c[1][0] not in taken]

    def _upserted(self) -> None:
        keyed = [t for t in self.tables if t.key]
        if not keyed:
            return
        table = self.random.choice(keyed)
        rows = list({row[0]: row for row in (self._row(table) for _ in range(3))}.values())
        keys = {row[0] for row in rows}
        gone = [row for row in self.held[table.name] if row[0] in keys]
        changes = [(table.name, row, -1) for row in gone] + [(table.name, row, 1) for row in rows]
        self.upserting = (table.name, rows)
        try:
            self._attempt(changes)
        finally:
            self.upserting = None

    def _wrong(self) -> None:
        """A batch with something wrong in it: it is refused, and nothing has changed."""
        table = self.random.choice(self.tables)
        new = self._some_new(table, 2, Counter())
        absent = next((row for row in (self._row(table) for _ in range(50)) if row not in self.held[table.name]), None)
        ways: list[Callable[[], None]] = []
        if absent is not None:
            ways.append(lambda: self._batch([*new, (table.name, absent, -1)]))
        if table.required:
            ways.append(lambda: self.db.insert(table.name, [tuple(None for _ in table.columns)]))
        if table.key and self.held[table.name]:
            row = next(iter(self.held[table.name]))
            ways.append(lambda: self.db.insert(table.name, [row]))
        ways.append(lambda: self.db.insert(table.name, [(object(),) * len(table.columns)]))
        try:
            self.random.choice(ways)()
        except DataError:
            return
        raise AssertionError(f"a wrong batch for {table.name} was taken")

    def _batch(self, changes: list[Change]) -> None:
        with self.db.batch() as batch:
            for table, row, copies in changes:
                (batch.insert if copies > 0 else batch.delete)(table, [row])

    def _reloaded(self) -> None:
        """Everything saved and loaded; feeds do not survive that, and are opened again."""
        path = self.folder / f"{self.seed}.db"
        if self._due("saved row"):
            table = next((t for t in self.tables if self.held[t.name]), None)
            if table is not None:
                self.planted = True
                self.db.delete(table.name, [next(iter(self.held[table.name]))])
        self.db.save(path)
        self.db = ev.Database.load(path)
        self.feeds = {name: self._opened(name) for name in self.feeds}

    def _watched(self) -> None:
        """Open a feed, or close one."""
        if self.feeds and self.random.random() < 0.3:
            self.feeds.pop(self.random.choice(list(self.feeds)))[0].close()
        for view, _ in self.views:
            if view.name not in self.feeds and self.random.random() < 0.7:
                self.feeds[view.name] = self._opened(view.name)

    def _opened(self, view: str) -> tuple[Any, Rows]:
        found = self.db.view(view)
        return found.changes(per_update=self.random.random() < 0.3), Counter(map(_plain, found))

    # --- rows --------------------------------------------------------------------------------------------------------

    def _row(self, table: Relation) -> Row:
        r = self.random
        return tuple(
            None if name not in table.required and r.random() < 0.12 else KINDS[kind].values(r)
            for name, kind in table.columns.items()
        )

    def _some_new(self, table: Relation, count: int, gone: Rows) -> list[Change]:
        """Rows that can be inserted: of a keyed table one a key, none of a row that stays."""
        found: list[Change] = []
        taken = {row[0] for row in (self.held[table.name] - gone)} if table.key else set()
        for row in (self._row(table) for _ in range(count)):
            if table.key is None or row[0] not in taken:
                taken.add(row[0])
                found.append((table.name, row, 1))
        return found

    def _relation(self, name: str) -> Relation:
        return next(t for t in self.tables if t.name == name)

    # --- comparing ---------------------------------------------------------------------------------------------------

    def _fill(self, held: dict[str, Rows]) -> None:
        for table in self.tables:
            self.oracle.execute(f"DELETE FROM {table.name}")
            rows = [list(row) for row in held[table.name].elements()]
            if rows:
                arrays = [
                    pa.array(c, KINDS[k].arrow)
                    for c, k in zip(zip(*rows, strict=True), table.columns.values(), strict=True)
                ]
                self.oracle.register("filling", pa.table(arrays, names=list(table.columns)))
                self.oracle.execute(f"INSERT INTO {table.name} SELECT * FROM filling")
                self.oracle.unregister("filling")

    def _check(self) -> None:
        self._fill(self.held)
        for table in self.tables:
            rows = self.db.table(table.name)
            assert Counter(map(_plain, rows)) == self.held[table.name], f"{table.name} after step {self.number}"
            assert len(rows) == self.held[table.name].total()
        for view, sql in self.views:
            wanted = Counter(map(_plain, self.oracle.execute(f"SELECT * FROM {view.name}").fetchall()))
            found = self.db.view(view.name)
            self.seen["compared"] += 1
            assert Counter(map(_plain, found)) == wanted, f"{view.name} after step {self.number}: {sql}"
            assert len(found) == wanted.total(), f"the length of {view.name}: {sql}"
            for row in list(wanted)[:2]:
                assert row in found, f"{row} is not found in {view.name}: {sql}"
            if view.name in self.feeds:
                self._add_up(view.name, wanted)

    def _add_up(self, name: str, wanted: Rows) -> None:
        feed, sum_ = self.feeds[name]
        for row, copies in self._told(feed):
            sum_[row] += copies
            assert sum_[row] >= 0 or feed.per_update, f"the feed of {name} takes {row} away, which was not there"
        self.feeds[name] = feed, +sum_
        self.seen["fed"] += 1
        assert +sum_ == wanted, f"the feed of {name} does not add up after step {self.number}"

    def _told(self, feed: Any) -> Iterator[tuple[Row, int]]:
        rows = []
        for batch in feed.read():
            width = batch.schema.get_field_index("_change_type")
            columns = [batch.column(i).to_pylist() for i in range(width)]
            kinds, counts = batch.column(width).to_pylist(), batch.column("_count").to_pylist()
            for row, kind, count in zip(zip(*columns, strict=True), kinds, counts, strict=True):
                rows.append((_plain(row), count if kind in ("insert", "update_postimage") else -count))
        if rows and self._due("feed row"):
            self.planted = True
            rows.pop(self.random.randrange(len(rows)))
        yield from rows

    # --- faults ------------------------------------------------------------------------------------------------------

    def _due(self, fault: str) -> bool:
        return self.faults == fault and not self.planted and getattr(self, "number", 0) >= self.when

    def _without_one(self, changes: list[Change]) -> list[Change]:
        """A batch that loses one of its updates, if that is the fault to plant."""
        coming = [c for c in changes if c[2] > 0 and (c[0], c[1], -1) not in changes]
        if not coming or self.upserting or not self._due("update"):
            return changes
        self.planted = True
        lost = self.random.choice(coming)
        return [c for c in changes if c is not lost]

    def _deafen(self, runtime: Any) -> None:
        """Keep the next update of a view from it."""
        process = runtime.process

        def losing(changes: Any, *others: Any) -> Any:
            if not self.planted and len(changes):
                self.planted = True
                changes = changes.slice(1, len(changes) - 1)
            return process(changes, *others)

        runtime.process = losing

    def _force(self, changes: list[Change]) -> None:
        """A part of a batch that was refused is there all the same."""
        for table, row, copies in changes:
            try:
                (self.db.insert if copies > 0 else self.db.delete)(table, [row])
            except DataError:
                continue
            return


def _plain(row: Sequence[Any]) -> Row:
    """One Python value for all that SQL calls equal."""
    return tuple(v + 0.0 if isinstance(v, float) else v for v in row)
