"""A durable database: what a call has done is there when its folder is opened again, whatever ended the process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.engine.storage import durable, log_file
from everview.errors import ClosedError, DataError, SnapshotError, SubscriberError
from tests.engine.differential import Run
from tests.engine.generator import make_case
from tests.scale import scaled

SHOP = """
    CREATE TABLE customers (id BIGINT, city STRING, PRIMARY KEY (id));
    CREATE TABLE orders (id BIGINT, customer BIGINT, price DECIMAL(8, 2), tags ARRAY<STRING>);
    CREATE MATERIALIZED VIEW spent AS SELECT c.city, COUNT(*) AS n, SUM(o.price) AS price
        FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.city;
    CREATE MATERIALIZED VIEW tagged AS SELECT o.id, e.tag FROM orders o LATERAL VIEW EXPLODE(o.tags) e AS tag
"""


def content(db: ev.Database) -> dict[str, Any]:
    """Everything that a user can read."""
    tables = {name: Counter(map(repr, db.table(name))) for name in db.tables}
    return {"version": db.version, "now": db.now, **tables, **{n: Counter(map(repr, db.view(n))) for n in db.views}}


def steps(db: ev.Database) -> Iterator[None]:
    """Changes of all kinds, one after the other."""
    db.sql(SHOP)
    yield
    db.insert("customers", [(1, "Rome"), (2, "Oslo"), (3, None)])
    yield
    with db.batch() as batch:
        batch.insert("orders", [(7, 1, Decimal("2.50"), ["a", "b"]), (8, 2, None, None)])
        batch.upsert("customers", [(2, "Bergen")])
        batch.insert("orders", [(9, 2, Decimal("-1"), [None])])
    yield
    db.delete("customers", keys=[3])
    yield
    db.apply("orders", [(7, 1, Decimal("2.50"), ["a", "b"], "delete"), (7, 1, Decimal("9.99"), [], "insert")])
    yield
    db.create_view("cities", "SELECT DISTINCT city FROM customers", history=3)
    yield
    db.rules("pair(a, b) :- orders(x, a, p, t), orders(y, b, q, u).")
    yield
    db.sql("CREATE OR REPLACE MATERIALIZED VIEW cities AS SELECT id, city FROM customers; SELECT COUNT(*) FROM cities")
    yield
    db.delete("orders", [(8, 2, None, None)])
    yield
    db.advance(datetime(2100, 1, 1, tzinfo=UTC))
    yield
    db.formula("served(x) := customers(x, _) and exists i (orders(i, x, _, _))", degree=9, domain="query")
    yield
    db.drop("customers", cascade=True)
    yield
    db.insert("orders", [(i, i % 3, None, [str(i)]) for i in range(50)])
    yield


def reopened(path: Path, **options: Any) -> ev.Database:
    db = ev.Database(path=path, **options)
    db.close()
    return db


def test_whatever_was_done_is_there_again(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """After each change a copy of the folder opens as what a database in memory is then."""
    noon = datetime(2026, 1, 1, tzinfo=UTC)
    plain, path = ev.Database(clock=lambda: noon), tmp_path / "shop.db"
    db = ev.Database(path=path, clock=lambda: noon)
    assert db.path == str(path)
    number = 0
    for number, _ in enumerate(zip(steps(plain), steps(db), strict=True)):
        wanted = content(plain)
        assert content(db) == wanted
        copy = tmp_path / f"copy{number}"
        shutil.copytree(path, copy)
        assert content(reopened(copy)) == wanted, number
        if number % 4 == 3:
            db.checkpoint()
    assert number == 12
    assert capfd.readouterr().err == "", "such as Arrow's warning of data that does not begin at a multiple of 8 bytes"


def test_random_databases_are_there_again() -> None:
    """Cases of the random suite that close a durable database in the middle and go on with it."""
    loads = 0
    for seed in range(71_001, 71_200):
        case = make_case(seed)
        if any(step.kind == "load" for step in case.steps):
            run = Run(case, is_durable=True)
            assert run.db.path is not None
            run.go()
            loads += 1
            if loads == scaled(2, least=2):
                break
    assert loads > 1


def grown(path: Path, batches: int) -> list[dict[str, Any]]:
    """A folder with so many batches in its log; gives what was there after each record."""
    with ev.Database(path=path, clock=lambda: datetime(2026, 1, 1, tzinfo=UTC)) as db:
        seen = [content(db)]
        db.sql("CREATE TABLE t (a BIGINT, s STRING); CREATE VIEW v AS SELECT s, SUM(a) AS n FROM t GROUP BY s")
        seen.append(content(db))
        for i in range(batches):
            db.insert("t", [(i, f"s{i % 3}"), (-i, None)])
            seen.append(content(db))
    return seen


def test_a_log_that_is_cut_off_anywhere_holds_the_batches_before(tmp_path: Path) -> None:
    seen = grown(tmp_path / "whole", 4)
    log = (tmp_path / "whole" / "0.log").read_bytes()
    counts = set()
    for size in [*range(0, len(log), 83), len(log)]:
        for rest in (b"", bytes(7), bytes(4096)):  # what a file system may show of bytes that were not written
            path = tmp_path / "cut"
            shutil.rmtree(path, ignore_errors=True)
            path.mkdir()
            (path / "0.log").write_bytes(log[:size] + rest)
            try:
                held = content(reopened(path))
            except SnapshotError:
                assert rest, "a log that ends early is no damage"
                continue
            assert held in seen
            counts.add(seen.index(held))
            with ev.Database(path=path) as db:  # and it goes on
                db.sql("CREATE TABLE more (x INT)")
            assert "more" in reopened(path).tables
    assert counts == set(range(len(seen)))


def test_damage_is_told(tmp_path: Path) -> None:
    seen = grown(tmp_path / "whole", 2)
    last = (tmp_path / "whole" / "0.log").stat().st_size
    shutil.rmtree(tmp_path / "whole")
    assert seen == grown(tmp_path / "whole", 3)[:-1]
    log = (tmp_path / "whole" / "0.log").read_bytes()
    refused = 0
    for at in range(0, len(log), 11):
        path = tmp_path / "damaged"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        (path / "0.log").write_bytes(log[:at] + bytes([log[at] ^ 0x41]) + log[at + 1 :])
        if at < last:
            with pytest.raises(SnapshotError, match=r"is damaged|has format"):
                reopened(path)
            refused += 1
        else:  # It may be taken for one that was cut off.
            with suppress(SnapshotError):
                assert content(reopened(path)) == seen[-1]
    assert refused > len(log) // 11 // 2


WRITER = """
import sys
import everview as ev
with ev.Database(path=sys.argv[1]) as db:
    if not db.tables:
        db.sql("CREATE TABLE t (a BIGINT, s STRING)")
        db.sql("CREATE VIEW v AS SELECT s, COUNT(*) AS n, SUM(a) AS m FROM t GROUP BY s")
    for i in range(len(db.table("t")), 100_000):
        db.insert("t", [(i, f"s{i % 7}")])
        print(i, flush=True)
        if i % 50 == 49:
            db.checkpoint()
"""


@pytest.mark.slow
def test_what_was_told_before_a_kill_is_there(tmp_path: Path) -> None:
    path, told = tmp_path / "killed.db", -1
    for patience in (60, 130, 25):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        for _ in range(patience):
            told = int(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        told = max([told, *map(int, writer.stdout.read().split())])
        writer.wait()
        writer.stdout.close()
        with ev.Database(path=path) as db:
            rows = sorted(db.table("t"))
            assert told + 1 <= len(rows) <= told + 2
            assert [a for a, _ in rows] == list(range(len(rows)))
            groups = {s: [a for a, t in rows if t == s] for s in {s for _, s in rows}}
            assert Counter(db.view("v")) == Counter((s, len(found), sum(found)) for s, found in groups.items())
        told = len(rows) - 1


def test_a_disk_that_is_full_refuses_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "full.db"
    db = ev.Database(path=path)
    db.sql(SHOP)
    db.insert("customers", [(1, "Rome")])
    held = content(db)
    write = os.pwrite

    def full(file: int, data: Any, offset: int) -> int:
        write(file, bytes(data[: len(data) // 2]), offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(log_file.os, "pwrite", full)
    changes = (
        lambda: db.insert("customers", [(2, "Oslo")]),
        lambda: db.upsert("customers", [(1, "Oslo")]),
        lambda: db.sql("CREATE TABLE u (x INT)"),
        lambda: db.drop("spent"),
    )
    for change in changes:
        with pytest.raises(SnapshotError, match=r"No space left on device; nothing has changed") as refused:
            change()
        assert refused.value.hint is not None
        assert {**content(db), "now": held["now"]} == held
    monkeypatch.undo()
    assert content(db) | {"now": None} == held | {"now": None}
    db.insert("customers", [(2, "Oslo")])
    held = content(db)
    db.close()
    assert content(reopened(path)) == held


def test_after_a_write_that_may_be_lost_nothing_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.Database(path=tmp_path / "a")
    db.sql("CREATE TABLE t (a INT)")

    def lost(file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(log_file.os, "fsync", lost)
    with pytest.raises(SnapshotError, match="may not be on the disk"):
        db.insert("t", [(1,)])
    monkeypatch.undo()
    with pytest.raises(SnapshotError, match="may not be on the disk"):
        db.insert("t", [(1,)])
    assert list(db.table("t")) == []


def test_refused_batches_and_failing_subscribers(tmp_path: Path) -> None:
    """What is refused is not in the log; what was applied is, though a subscriber has failed."""
    db = ev.Database(path=tmp_path / "a")
    db.sql("CREATE TABLE t (a INT NOT NULL); CREATE VIEW v AS SELECT COUNT(*) AS n FROM t")
    db.insert("t", [(1,)])
    for rows in ([(2,), (2,)], [(None,)]):
        with pytest.raises(DataError):
            db.delete("t", rows)
    with pytest.raises(ev.errors.EverviewError):
        db.sql("CREATE TABLE u (x INT); CREATE VIEW w AS SELECT y FROM u")

    def fails(_: object) -> None:
        raise ValueError("no")

    db.view("v").subscribe(fails)
    with pytest.raises(SubscriberError):
        db.insert("t", [(3,)])
    held = content(db)
    db.close()
    assert content(reopened(tmp_path / "a")) == held
    assert held["t"] == Counter(["(1,)", "(3,)"])


def test_a_closed_database_is_read_and_changes_no_more(tmp_path: Path) -> None:
    with ev.Database(path=tmp_path / "a") as db:
        db.sql("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a FROM t")
        db.insert("t", [(1,)])
        with pytest.raises(SnapshotError, match="open already"):
            ev.Database(path=tmp_path / "a")
    for change in (lambda: db.insert("t", [(2,)]), lambda: db.drop("v")):
        with pytest.raises(ClosedError, match="nothing has changed"):
            change()
    assert list(db.view("v")) == [(1,)]
    db.close()
    with ev.Database() as plain:
        plain.checkpoint()
        plain.sql("CREATE TABLE t (a INT)")
    plain.insert("t", [(1,)])
    assert plain.path is None


def test_other_places_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("")
    for place, said in (("file", "is a file"), ("folder", "holds thesis.tex")):
        with pytest.raises(SnapshotError, match=said):
            ev.Database(path=tmp_path / place)
    with pytest.raises(SnapshotError) as refused:
        ev.Database.load(tmp_path / "folder")
    assert "ev.Database(path=…)" in str(refused.value.hint)


def test_long_logs_become_snapshots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "LEAST_LOG_BYTES", 4_000)
    path = tmp_path / "a"
    files = []
    with ev.Database(path=path) as db:
        db.sql("CREATE TABLE t (a INT, s STRING); CREATE VIEW v AS SELECT s, COUNT(*) AS n FROM t GROUP BY s")
        for i in range(60):
            db.insert("t", [(i, f"s{i}")])
            files.append({name for name in os.listdir(path) if name != "lock"})
        held = content(db)
    assert {len(found) for found in files} == {1, 2}
    assert len({max(found) for found in files}) > 2
    assert content(reopened(path)) == held


@pytest.mark.parametrize("killed", ["after the snapshot", "before it has its name"])
def test_a_kill_within_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str) -> None:
    path = tmp_path / "a"
    db = ev.Database(path=path)
    db.sql("CREATE TABLE t (a INT); CREATE VIEW v AS SELECT a, COUNT(*) AS n FROM t GROUP BY a")
    db.insert("t", [(1,), (1,)])
    held = content(db)

    class Killed(BaseException):
        pass

    def kill(*_: object) -> None:
        raise Killed

    if killed == "after the snapshot":
        monkeypatch.setattr(durable.LogFile, "close", kill)
    else:
        monkeypatch.setattr("everview.engine.storage.container.os.replace", kill)
    with pytest.raises(Killed):
        db.checkpoint()
    copy = tmp_path / "copy"
    shutil.copytree(path, copy)
    (copy / "1.snapshot.0123456789ab.tmp").write_bytes(b"half of it")
    monkeypatch.undo()
    assert content(reopened(copy)) == held
    assert len(os.listdir(copy)) == (3 if killed == "after the snapshot" else 2)
    if killed != "after the snapshot":  # and this one goes on
        db.insert("t", [(2,)])
        db.close()
        assert Counter(reopened(path).table("t")) == Counter([(1,), (1,), (2,)])


def test_time_and_limits_are_as_they_were(tmp_path: Path) -> None:
    """Rows that had expired have, whatever the clock says now; a memory limit is for what comes."""
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    times = iter(begin + timedelta(hours=i) for i in range(1_000))
    path = tmp_path / "a"
    with ev.Database(path=path, clock=lambda: next(times)) as db:
        db.sql("CREATE TABLE e (ts TIMESTAMP, s STRING)")
        db.insert("e", [(begin - timedelta(hours=1), "before there was a view")])
        db.sql("CREATE VIEW recent AS SELECT ts, s FROM e WHERE ts > now() - INTERVAL 5 HOURS")
        for i in range(12):
            db.insert("e", [(begin + timedelta(hours=i), "x" * 1_000)])
        held, now = content(db), db.now
    assert now is not None
    assert 0 < len(held["recent"]) < 12
    with ev.Database(path=path, clock=lambda: begin + timedelta(days=9)) as later:
        assert (content(later), later.now) == (held, now)
    again = ev.Database(path=path, clock=lambda: begin, memory_limit=1_000)
    with pytest.raises(ev.errors.MemoryLimitError):
        again.insert("e", [(begin + timedelta(hours=20), "y" * 5_000)])
