"""Reads and plays ``cases/*.test``: SQL, batches, and the rows and feeds that they must give (see CONTRIBUTING.md).

DuckDB plays along: it has the tables as the batches leave them, and after every statement and batch each view must be
what it computes, and what each feed has told must add up to that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pytest
import sqlglot
from sqlglot import exp

import everview as ev
from everview import errors
from everview.errors import DroppedError, EverviewError, ExpressionError
from tests.engine.bags import Bag, bag, differences, expect
from tests.engine.judging import is_failure, prepare, strictly
from tests.sql.evaluate import SparkFour

FOLDER: Final = Path(__file__).parent / "cases"
_OPERATION: Final = re.compile(r"(insert|delete|upsert|delete keys) (\w+) (\(.*\))")
_ROW: Final = re.compile(r"(?:(?:(\d+): )?(insert|delete|update_preimage|update_postimage) )?(\(.*\))(?: x (\d+))?")
Row = tuple[Any, ...]


class Told(NamedTuple):
    """A row of a feed, but for its version; ``update`` is None in a net feed."""

    update: int | None
    kind: str
    row: Row
    count: int


# --- reading ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """Lines up to a blank one: the first says what they are."""

    line: int
    head: str
    body: tuple[str, ...]

    @property
    def text(self) -> str:
        return "\n".join(self.body)


@dataclass(frozen=True)
class Case:
    """A title and the records up to the next title."""

    title: str
    records: tuple[Record, ...]


def load(path: Path) -> list[Case]:
    """The cases of one file."""
    found: list[tuple[str, list[Record]]] = []
    for record in _records(path.read_text(encoding="utf-8")):
        if record.head.startswith("case "):
            found.append((record.head.removeprefix("case "), []))
        else:
            assert found, f"{path}:{record.line}: a case begins with a line 'case TITLE'"
            found[-1][1].append(record)
    return [Case(title, tuple(records)) for title, records in found]


def _records(text: str) -> Iterator[Record]:
    lines: list[tuple[int, str]] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.startswith("case ") and not lines:
            yield Record(number, line.strip(), ())
        elif line.strip():
            lines.append((number, line))
        elif lines:
            yield Record(lines[0][0], lines[0][1].strip(), tuple(line.strip() for _, line in lines[1:]))
            lines = []


def parameters() -> list[Any]:
    """All cases, as pytest parameters."""
    return [
        pytest.param(path.name, case, id=f"{path.stem}-{case.title}".replace(" ", "_"))
        for path in sorted(FOLDER.glob("*.test"))
        for case in load(path)
    ]


# --- DuckDB's side ---------------------------------------------------------------------------------------------------


class Oracle:
    """The same tables and views in DuckDB, whose tables are filled with what the batches leave."""

    def __init__(self) -> None:
        self.duck = duckdb.connect()
        self.duck.execute("SET threads = 1")
        self.duck.execute("SET TimeZone = 'UTC'")
        self.duck.execute("CREATE SCHEMA declared")
        prepare(self.duck)
        self.tables: dict[str, list[Row]] = {}

    def run(self, sql: str) -> None:
        """Statements that Everview has run."""
        for statement in sqlglot.parse(sql, read=SparkFour):
            if isinstance(statement, exp.Create) and statement.kind == "VIEW":
                body = strictly(statement.expression.sql(dialect=SparkFour))
                self.duck.execute(f"CREATE OR REPLACE VIEW {statement.this.name} AS {body}")
            elif isinstance(statement, exp.Create):
                name = next(statement.find_all(exp.Table)).name
                self.duck.execute("USE declared")
                self.duck.execute(statement.sql(dialect="duckdb"))
                self.duck.execute("USE main")
                self.duck.execute(f"CREATE TABLE {name} AS FROM declared.{name} LIMIT 0")
                self.tables[name] = []
            elif isinstance(statement, exp.Drop) and statement.args["kind"] == "TABLE":
                for table in [statement.this, *statement.expressions]:
                    self.duck.execute(f"DROP TABLE {table.name}")
                    self.duck.execute(f"DROP TABLE declared.{table.name}")
                    del self.tables[table.name]

    def rows(self, values: str, relation: str, columns: Sequence[int] | None = None) -> list[Row]:
        """SQL's rows as Python's, of the types of a relation (or some of its columns) where the values have them."""
        types = [row[1] for row in self.duck.execute(f"DESCRIBE {relation}").fetchall()]
        types = types if columns is None else [types[i] for i in columns]
        names = ", ".join(f"c{i}" for i in range(len(types)))
        cast = ", ".join(f"CAST(c{i} AS {t})" for i, t in enumerate(types))
        try:
            return self.duck.execute(f"SELECT {cast} FROM (VALUES {values}) given({names})").fetchall()
        except duckdb.Error:
            return self.duck.execute(f"FROM (VALUES {values})").fetchall()

    def key(self, table: str) -> list[int]:
        """The positions of a table's primary key."""
        found = self.duck.execute(
            "SELECT constraint_column_indexes FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY' "
            "AND schema_name = 'declared' AND table_name = ?",
            [table],
        ).fetchone()
        assert found is not None, f"{table} has no key"
        return list(found[0])

    def apply(self, kind: str, table: str, rows: Sequence[Row]) -> None:
        """Change a table as Everview has done."""
        there = self.tables[table]
        for row in rows:
            if kind in ("upsert", "delete keys"):
                key = self.key(table)
                wanted = row if kind == "delete keys" else tuple(row[i] for i in key)
                there[:] = [r for r in there if tuple(r[i] for i in key) != wanted]
            if kind in ("insert", "upsert"):
                there.append(row)
            elif kind == "delete":
                there.remove(row)

    def refresh(self) -> None:
        """Give DuckDB the rows as they are now."""
        for name, rows in self.tables.items():
            self.duck.execute(f"DELETE FROM {name}")
            if rows:
                self.duck.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)

    def result(self, view: str) -> Bag | None:
        """What a view must hold; None if an expression fails."""
        try:
            return bag(self.duck.execute(f"FROM {view}").fetchall())
        except duckdb.Error as error:
            if is_failure(error):
                return None
            raise


# --- playing ---------------------------------------------------------------------------------------------------------


@dataclass
class Follower:
    """An open feed, what it adds up to, and what it has told since it was last looked at."""

    view: str
    per_update: bool
    feed: Any
    total: Bag
    pending: list[Told] = field(default_factory=list)
    ended: EverviewError | None = None

    def read(self, version: int) -> None:
        """Take what there is; an update's two images stand next to each other."""
        try:
            batches = self.feed.read()
        except DroppedError as error:
            self.ended = error
            return
        for batch in batches:
            told = []
            for row in batch.to_pylist(maps_as_pydicts="strict"):
                kind, count, update = row.pop("_change_type"), row.pop("_count"), row.pop("_update", None)
                expect(row.pop("_commit_version") == version, "a feed tells the batch's version")
                told.append(Told(update, kind, *bag([tuple(row.values())]), count))
                self.total[told[-1].row] += count if kind in ("insert", "update_postimage") else -count
            for one, other in zip(told, [*told[1:], None], strict=True):
                if one.kind == "update_preimage":
                    expect(other is not None and other.kind == "update_postimage", f"{one} is followed by {other}")
            self.pending += told
        expect(all(n >= 0 for n in self.total.values()), f"more goes of {self.view} than has come: {self.total}")


class Player:
    """One case at work."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = ev.Database()
        self.oracle = Oracle()
        self.followers: dict[str, Follower] = {}

    def play(self, case: Case) -> None:
        """Run the records in their order; an ``expect error`` is about the one before it."""
        wanted: list[Record | None] = [*case.records[1:], None]
        for record, after in zip(case.records, wanted, strict=True):
            try:
                if record.head.startswith("expect error"):
                    continue
                elif after is not None and after.head.startswith("expect error"):
                    self._fails(record, after)
                else:
                    self._do(record)
                self._check()
            except Exception as error:
                error.add_note(f"line {record.line}: {record.head}")
                raise

    def _fails(self, record: Record, wanted: Record) -> None:
        kind = getattr(errors, wanted.head.removeprefix("expect error").strip())
        version = self.db.version
        with pytest.raises(kind) as caught:
            self._do(record)
        for words in wanted.body:
            expect(words in str(caught.value), f"'{words}' is not in: {caught.value}")
        expect(self.db.version == version, "a refused batch is none")

    def _do(self, record: Record) -> None:
        match record.head.split():
            case ["statement"]:
                self.db.sql(record.text)
                self.oracle.run(record.text)
            case ["batch"]:
                self._batch(record.body)
            case ["feed", view, *per_update]:
                assert per_update in ([], ["per", "update"]), record.head
                self._open(view, bool(per_update))
            case ["save", "and", "load"]:
                self.db.save(self.folder / "saved")
                self.db = ev.Database.load(self.folder / "saved")
                for follower in list(self.followers.values()):
                    assert not follower.pending, "look at the feeds first: a snapshot does not hold them"
                    self._open(follower.view, follower.per_update)
            case ["read", view]:
                list(self.db.view(view))
            case ["read", "feed", view]:
                if (ended := self.followers[view].ended) is not None:
                    raise ended
            case ["expect", "rows", view]:
                wanted = bag(row for told in self._told(record.body, view) for row in [told.row] * told.count)
                self._same(view, bag(self.db.view(view)), wanted)
            case ["expect", "feed", view]:
                follower = self.followers[view]
                self._same_feed(follower.pending, self._told(record.body, view))
                follower.pending.clear()
            case _:
                raise AssertionError(f"no such record: {record.head}")

    def _open(self, view: str, per_update: bool) -> None:
        feed = self.db.view(view).changes(per_update=per_update)
        total = self.oracle.result(view)
        assert total is not None, "a case opens its feeds while there is a result"
        self.followers[view] = Follower(view, per_update, feed, total)

    def _batch(self, lines: Sequence[str]) -> None:
        operations = []
        for line in lines:
            found = _OPERATION.fullmatch(line)
            assert found is not None, f"no operation: {line}"
            kind, table, values = found.groups()
            key = self.oracle.key(table) if kind == "delete keys" else None
            operations.append((kind, table, self.oracle.rows(values, table, key)))
        with self.db.batch() as batch:
            calls: dict[str, Callable[..., None]] = {
                "insert": batch.insert,
                "delete": batch.delete,
                "upsert": batch.upsert,
                "delete keys": lambda table, rows: batch.delete(
                    table, keys=[row[0] if len(row) == 1 else row for row in rows]
                ),
            }
            for kind, table, rows in operations:
                calls[kind](table, rows)
        for operation in operations:
            self.oracle.apply(*operation)
        for follower in self.followers.values():
            follower.read(self.db.version)

    def _told(self, lines: Sequence[str], view: str) -> list[Told]:
        told = []
        for line in lines:
            found = _ROW.fullmatch(line)
            assert found is not None, f"no row: {line}"
            update, kind, row, count = found.groups()
            values = bag(self.oracle.rows(row, view))
            told.append(Told(None if update is None else int(update), kind or "", *values, int(count or 1)))
        return told

    def _check(self) -> None:
        """Every view is what DuckDB computes, and so is the sum of all that its feed has told."""
        self.oracle.refresh()
        for view in self.db.views:
            wanted = self.oracle.result(view)
            if wanted is None:
                with pytest.raises(ExpressionError):
                    list(self.db.view(view))
                continue
            self._same(view, bag(self.db.view(view)), wanted)
            follower = self.followers.get(view)
            if follower is not None and follower.ended is None:
                self._same(f"the feed of {view}", +follower.total, wanted)

    def _same(self, what: str, found: Bag, wanted: Bag) -> None:
        more, fewer = differences(found, wanted)
        expect(not more and not fewer, lambda: f"{what}: superfluous {dict(more)}, missing {dict(fewer)}")

    def _same_feed(self, found: Sequence[Told], wanted: Sequence[Told]) -> None:
        def counted(told: Sequence[Told]) -> Counter[tuple[Any, ...]]:
            total = Counter[tuple[Any, ...]]()
            for one in told:
                total[(one.update, one.kind, *one.row)] += one.count
            return total

        self._same("the feed", counted(found), counted(wanted))


def play(case: Case, folder: Path) -> None:
    """Play a case; raises where it does not go as it says."""
    Player(folder).play(case)
