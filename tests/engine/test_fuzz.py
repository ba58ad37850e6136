"""Whatever is sent: it is taken, or refused with an error of ours, and then nothing has changed. Files likewise.

`make fuzz` runs it for longer, at random; a failure names the seed, and EVERVIEW_FUZZ_SEED runs that one alone.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.engine.storage import container, snapshot
from everview.errors import DataError, EverviewError, OverDeleteError, SnapshotError
from tests.engine import garbage
from tests.engine.samples import Changes, contents, database, run, uses
from tests.scale import SCALE, scaled

DEFINITIONS = f"""
    CREATE TABLE bag {garbage.TABLE.format(key="")};
    CREATE TABLE keyed {garbage.TABLE.format(key="PRIMARY KEY")};
    CREATE MATERIALIZED VIEW plain AS SELECT a.k, a.s, b.d, b.b FROM bag a JOIN keyed b ON a.k = b.k;
    CREATE MATERIALIZED VIEW some AS SELECT DISTINCT s, day FROM bag;
    CREATE MATERIALIZED VIEW sums AS SELECT s, COUNT(*) AS c, SUM(n) AS n, SUM(m) AS m FROM bag GROUP BY s;
    CREATE MATERIALIZED VIEW extremes AS
        SELECT k, MIN(s) AS low, MAX(ts) AS high, COUNT(DISTINCT b) AS bs, AVG(d) AS d FROM keyed GROUP BY k;
    CREATE MATERIALIZED VIEW total AS SELECT COUNT(*) AS c, SUM(n) AS n, MAX(m) AS m FROM keyed;
    CREATE MATERIALIZED VIEW computed AS SELECT CAST(s AS INT) + 1 AS i, n + k AS nk FROM keyed;
    CREATE MATERIALIZED VIEW less AS SELECT k, s FROM bag EXCEPT ALL SELECT k, s FROM keyed;
    CREATE MATERIALIZED VIEW over AS SELECT p.k, s.c FROM plain p JOIN sums s ON p.s = s.s;
"""


def seeds(count: int) -> Iterator[int]:
    """The same ones each time, or many at random, or the one that failed."""
    if "EVERVIEW_FUZZ_SEED" in os.environ:
        yield int(os.environ["EVERVIEW_FUZZ_SEED"])
        return
    first = 0 if SCALE <= 1 else random.SystemRandom().randrange(10**12)
    yield from range(first, first + scaled(count))


def everything(db: ev.Database) -> dict[str, Any]:
    """All that is visible of a database, and how much memory it takes."""
    found: dict[str, Any] = {name: db.view(name).to_arrow() for name in db.views}
    found |= {name: table.count() for name, table in db._tables.items()}
    return {**found, "version": db.version, "uses": uses(db)}


def attempt(db: ev.Database, r: random.Random) -> EverviewError | None:
    """One call with some data; the refusal, None if it was taken. Any other error than ours fails the test."""
    call = r.choice([db.insert, db.insert, db.delete, db.apply, db.upsert])
    table = r.choice(["bag", "keyed"]) if r.random() < 0.98 else r.choice(["plain", "nowhere", "Bag"])
    sent = garbage.data(r)
    if call == db.apply:
        sent = garbage.with_kinds(r, sent)
    try:
        call(table, sent)
    except EverviewError as error:
        return error
    return None


def test_whatever_is_sent() -> None:
    taken = refused = 0
    for seed in seeds(4):
        db = ev.Database()
        db.sql(DEFINITIONS)
        feeds = [db.view(v).changes() for v in db.views]
        for step in range(60):
            r = random.Random(f"{seed} {step}")
            before, memory = everything(db), db.nbytes()
            try:
                refusal = attempt(db, r)
            except BaseException as error:
                error.add_note(f"seed {seed}, step {step}")
                raise
            if refusal is None:
                taken += 1
                continue
            refused += 1
            assert len(str(refusal)) > 10
            after = everything(db)
            assert list(after) == list(before)
            for name, value in after.items():
                assert _same(value, before[name]), f"seed {seed}, step {step}: {name} has changed"
            assert db.nbytes() <= 1.1 * memory + 100_000, f"seed {seed}, step {step}: memory"
        _is_consistent(db)
        for feed in feeds:
            feed.read()
    if "EVERVIEW_FUZZ_SEED" not in os.environ:
        assert min(taken, refused) > 10 * scaled(4)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, pa.Table):
        return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))
    return bool(one == other)


def _is_consistent(db: ev.Database) -> None:
    """Every view is what its tables say: the same as when it is built anew."""
    again = ev.Database()
    again.sql(DEFINITIONS)
    for name, table in db._tables.items():
        for rows in table.rows():
            changes = db._changes(name, rows)
            arrays = [changes.values(i) for i in range(len(table.types))]
            positions = [i for i, c in enumerate(rows.weight.to_pylist()) for _ in range(c)]
            try:
                again.insert(name, pa.table(arrays, names=list(garbage.COLUMNS)).take(pa.array(positions, pa.int64())))
            except DataError as error:
                if "64 bits" in error.message:  # in another order a sum may grow too large on the way
                    return
                raise
    assert contents(again) == contents(db)
    assert uses(again) == uses(db)


def test_a_batch_that_breaks_in_the_middle() -> None:
    for seed in seeds(4):
        r = random.Random(seed)
        db = ev.Database()
        db.sql(DEFINITIONS)
        db.insert("bag", [[garbage.good_row(r)[0], 1, "12", 0.5, 1, b"", None, None] for _ in range(5)])
        before = everything(db)
        with suppress(OverDeleteError, ZeroDivisionError), db.batch() as batch:
            for _ in range(r.randrange(4)):
                batch.insert("bag", [[i, 1, "7", 0.5, 1, b"", None, None] for i in range(r.randrange(5))])
            if r.random() < 0.5:
                raise ZeroDivisionError
            batch.delete("bag", [(99, None, None, None, None, None, None, None)])
        after = everything(db)
        assert all(_same(after[name], before[name]) for name in before)


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    db, changes = database("hops", "cities", "total", "less", "hop"), Changes(11)
    run(db, [changes.batch() for _ in range(6)])
    path = tmp_path_factory.mktemp("fuzz") / "original"
    db.save(path)
    return path.read_bytes()


def flip(r: random.Random, data: bytes) -> bytes:
    broken = bytearray(data)
    for _ in range(r.choice([1, 1, 2, 10])):
        broken[r.randrange(len(broken))] ^= 1 << r.randrange(8)
    return bytes(broken)


def cut(r: random.Random, data: bytes) -> bytes:
    return data[: r.randrange(len(data))]


def insert(r: random.Random, data: bytes) -> bytes:
    place = r.randrange(len(data) + 1)
    return data[:place] + r.randbytes(r.choice([1, 8, 100])) + data[place:]


def remove(r: random.Random, data: bytes) -> bytes:
    place = r.randrange(len(data))
    return data[:place] + data[place + r.choice([1, 8, 100]) :]


def swap(r: random.Random, data: bytes) -> bytes:
    size = r.choice([8, 64, 1_000]) if len(data) > 3_000 else 1
    one, other = sorted(r.randrange(len(data) - size) for _ in range(2)) if len(data) > size else (0, 0)
    if other < one + size:
        return flip(r, data)
    middle = data[one + size : other]
    return data[:one] + data[other : other + size] + middle + data[one : one + size] + data[other + size :]


HARMS: list[Callable[[random.Random, bytes], bytes]] = [flip, flip, cut, insert, remove, swap]


def test_damaged_files(original: bytes, tmp_path: Path) -> None:
    """Nothing that is damaged can be loaded, nor raises anything but a SnapshotError."""
    path = tmp_path / "damaged"
    for seed in seeds(80):
        r = random.Random(seed)
        harmed = r.choice(HARMS)(r, original)
        if harmed == original:
            continue
        path.write_bytes(harmed)
        try:
            ev.Database.load(path)
        except SnapshotError:
            continue
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        pytest.fail(f"seed {seed}: a damaged file was loaded")


def json_harm(r: random.Random, value: Any) -> Any:
    """Another value somewhere in a manifest."""
    if isinstance(value, dict) and value and r.random() < 0.9:
        key = r.choice(sorted(value))
        if r.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: json_harm(r, value[key])}
    if isinstance(value, list) and value and r.random() < 0.9:
        place = r.randrange(len(value))
        kind = r.random()
        if kind < 0.1:
            return value[:place] + value[place + 1 :]
        if kind < 0.2:
            return [*value, value[place]]
        return [*value[:place], json_harm(r, value[place]), *value[place + 1 :]]
    if isinstance(value, str) and r.random() < 0.5:
        place = r.randrange(len(value) + 1)
        return value[:place] + r.choice(["", "x", "'", "(", "\0", "é"]) + value[place + 1 :]
    return r.choice([None, -1, 0, 2**63, 2**70, 1e300, "", "x", [], {}, True, [[[]]]])


def test_files_that_lie(original: bytes, tmp_path: Path) -> None:
    """Damage that the checksums were made to fit: refused or loaded, but no crash, and no other error."""
    path = tmp_path / "lying"
    for seed in seeds(15):
        r = random.Random(seed)
        path.write_bytes(original)
        with container.reading(path) as file:
            manifest = dict(file.manifest)
            sections = [(e["name"], file.section(e["name"]).read()) for e in manifest.pop("sections")]
        kind = r.randrange(4)
        if kind == 0:
            manifest = json_harm(r, manifest)
        elif kind == 1:
            one, other = r.randrange(len(sections)), r.randrange(len(sections))
            (a, x), (b, y) = sections[one], sections[other]
            sections[one], sections[other] = (a, y), (b, x)
        else:
            place = r.randrange(len(sections))
            name, data = sections[place]
            sections[place] = name, r.choice(HARMS)(r, data) if data else b"x"
        with path.open("wb") as out, suppress(TypeError):  # a manifest that is no dict
            writer = container.Writer(out)
            for name, data in sections:
                writer.section(name).write(data)
            writer.finish(manifest)
        for rebuild in (False, True):
            with pytest.MonkeyPatch.context() as patch:
                if rebuild:
                    patch.setattr(snapshot, "_makers", dict)
                try:
                    loaded = ev.Database.load(path)
                except SnapshotError:
                    continue
                except BaseException as error:
                    error.add_note(f"seed {seed}, rebuild {rebuild}")
                    raise
            with suppress(Exception):  # its words may be wrong now; that must not crash either
                contents(loaded)
