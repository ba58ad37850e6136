"""Saving and loading: nothing is lost, everything goes on, and a crash or a damaged file never does harm."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.storage import check_saved, container, snapshot
from everview.errors import EverviewError, SnapshotError
from tests.engine.samples import VIEWS, Changes, contents, database, listings, run, uses
from tests.scale import thoroughness


def saved(db: ev.Database, folder: Path) -> Path:
    path = folder / "saved.everview"
    db.save(path)
    return path


def filled(seed: int = 1, batches: int = 8, names: tuple[str, ...] = ()) -> tuple[ev.Database, Changes]:
    db, changes = database(*names), Changes(seed)
    run(db, [changes.batch() for _ in range(batches)])
    return db, changes


def feeds(db: ev.Database, per_update: bool = False) -> dict[str, Any]:
    return {name: db.view(name).changes(per_update=per_update) for name in db.views}


def told(opened: dict[str, Any]) -> dict[str, list[str]]:
    """What the feeds say, row by row, without the order within a batch."""
    return {n: sorted(repr(row) for batch in f.read() for row in batch.to_pylist()) for n, f in opened.items()}


def go_on_alike(one: ev.Database, other: ev.Database, changes: Changes, batches: int = 3) -> None:
    """The same changes on both give the same rows and the same feeds; the last batch also update by update."""
    for per_update in (False, True):
        ones, others = feeds(one, per_update), feeds(other, per_update)
        for _ in range(1 if per_update else batches):
            batch = [changes.batch()]
            run(one, batch)
            run(other, batch)
            assert told(ones) == told(others)
            assert contents(one) == contents(other)
            assert one.version == other.version
        for feed in (*ones.values(), *others.values()):
            feed.close()
    assert uses(one) == uses(other)


@pytest.fixture(params=[check_saved.FROM_SNAPSHOT, snapshot.REBUILT])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to load: with the views' saved state, and as if another version of Everview had saved it."""
    if request.param == snapshot.REBUILT:
        monkeypatch.setattr(snapshot, "_fits", lambda *_: False)
    return str(request.param)


# --- round trips -----------------------------------------------------------------------------------------------------


def test_everything_is_there_again(tmp_path: Path, way: str) -> None:
    db, changes = filled()
    loaded = ev.Database.load(saved(db, tmp_path))
    assert contents(loaded) == contents(db)
    assert all(loaded.view(name).to_arrow().schema == db.view(name).to_arrow().schema for name in db.views)
    assert (loaded.tables, loaded.views, loaded.version) == (db.tables, db.views, db.version)
    assert uses(loaded) == uses(db)
    for name in db.views:
        ours, theirs = loaded.view(name).stats(), db.view(name).stats()
        assert (ours["restored"], theirs["restored"]) == (way, None)
        assert (ours["updates"], ours["deltas"]) == (theirs["updates"], theirs["deltas"])
    go_on_alike(db, loaded, changes)


def test_the_order_of_rows_stays(tmp_path: Path) -> None:
    db, changes = filled(seed=3)
    loaded = ev.Database.load(saved(db, tmp_path))
    assert listings(loaded) == listings(db)
    for _ in range(5):
        batch = [changes.batch()]
        run(db, batch)
        run(loaded, batch)
        assert listings(loaded) == listings(db)


def test_views_are_filled_anew_if_the_kernel_wrote_their_state_in_another_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db, changes = filled(seed=5)
    with monkeypatch.context() as before:
        before.setattr(snapshot, "SNAPSHOTS", snapshot.SNAPSHOTS - 1)
        path = saved(db, tmp_path)
    loaded = ev.Database.load(path)
    assert {loaded.view(name).stats()["restored"] for name in db.views} == {snapshot.REBUILT}
    go_on_alike(db, loaded, changes)


def test_a_file_that_was_saved_unit_by_unit(tmp_path: Path) -> None:
    """By the version before blocks, from the same history: its views are filled anew from its rows."""
    db, changes = filled(seed=7, batches=6)
    loaded = ev.Database.load(Path(__file__).parent / "data" / "unit_by_unit.everview")
    assert {loaded.view(name).stats()["restored"] for name in db.views} == {snapshot.REBUILT}
    assert contents(loaded) == contents(db)
    assert uses(loaded) == uses(db)
    go_on_alike(db, loaded, changes)


@pytest.mark.slow
def test_with_feeds_open(tmp_path: Path, way: str) -> None:
    db, changes = filled(seed=4)
    opened = feeds(db)
    run(db, [changes.batch()])
    before = listings(db)
    loaded = ev.Database.load(saved(db, tmp_path))
    assert contents(loaded) == contents(db)
    if way == check_saved.FROM_SNAPSHOT:
        assert listings(loaded) == before
    told(opened)
    run(db, batch := [changes.batch()])
    run(loaded, batch)
    assert contents(loaded) == contents(db)
    for feed in opened.values():
        feed.close()
    go_on_alike(db, loaded, changes)


@pytest.mark.slow
def test_the_empty_and_the_emptied(tmp_path: Path, way: str) -> None:
    nothing = ev.Database.load(saved(ev.Database(), tmp_path))
    assert (nothing.tables, nothing.views, nothing.version) == ((), (), 0)
    assert contents(ev.Database.load(saved(database(), tmp_path))) == contents(database())
    db, changes = filled(seed=5)
    db.delete("follows", sorted(changes.follows.elements()))
    db.delete("people", list(changes.people.values()))
    loaded = ev.Database.load(saved(db, tmp_path))
    assert contents(loaded) == contents(db)
    assert uses(loaded) == uses(db)
    go_on_alike(db, loaded, Changes(6))


@pytest.mark.slow
def test_again_and_again(tmp_path: Path, way: str) -> None:
    """Loaded databases can be saved, and defined further: new views, from either language, over what is there."""
    db, changes = filled(seed=7, names=("hops", "cities"))
    loaded = db
    for number in range(3):
        loaded = ev.Database.load(saved(loaded, tmp_path))
        text = f"""CREATE TABLE t{number} (s STRING); CREATE MATERIALIZED VIEW u{number} AS SELECT s FROM t{number};
                   CREATE MATERIALIZED VIEW v{number} AS SELECT src, COUNT(*) AS n FROM hops GROUP BY src"""
        for each in {id(db): db, id(loaded): loaded}.values():
            each.sql(text)
            each.rules(f"r{number}(a) :- hops(a, b, c).")
            assert each.view(f"v{number}").stats()["restored"] is None
    assert contents(loaded) == contents(db)
    go_on_alike(db, loaded, changes, batches=1)


def test_memory_limit_is_the_loaders(tmp_path: Path) -> None:
    db, _ = filled()
    assert ev.Database.load(saved(db, tmp_path)).memory_limit is None
    assert ev.Database.load(tmp_path / "saved.everview", memory_limit=10**9).memory_limit == 10**9


def test_all_types(tmp_path: Path, way: str) -> None:
    types = "BOOLEAN TINYINT SMALLINT INT BIGINT FLOAT DOUBLE DECIMAL(5,2) DECIMAL(38,10) STRING BINARY DATE TIMESTAMP"
    names = [f"c{i}" for i in range(len(types.split()))]
    db = ev.Database()
    columns = ", ".join(f"{n} {t}" for n, t in zip(names, types.split(), strict=True))
    db.sql(f"CREATE TABLE t ({columns}); CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
    row = db.view("v").schema.empty_table().schema
    values = [True, 1, 2, 3, 4, 0.5, float("nan"), 1, 2, "ü", b"\x00", 0, 0]
    arrays = [pa.array([v, None, v], f.type) for v, f in zip(values, row, strict=True)]
    db.insert("t", pa.table(arrays, schema=row))
    loaded = ev.Database.load(saved(db, tmp_path))
    assert contents(loaded) == contents(db)
    loaded.delete("t", pa.table(arrays, schema=row))
    assert len(loaded.view("v")) == 0


def test_large_tables(tmp_path: Path, way: str) -> None:
    """More rows than go through at once, and more values than the dictionary handles one by one."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT, s STRING); CREATE MATERIALIZED VIEW v AS SELECT s, COUNT(*) n FROM t GROUP BY s")
    db.insert("t", pa.table({"k": range(150_000), "s": [f"s{i % 5_000}" for i in range(150_000)]}))
    loaded = ev.Database.load(saved(db, tmp_path))
    assert contents(loaded) == contents(db)
    assert uses(loaded) == uses(db)
    loaded.delete("t", pa.table({"k": range(150_000), "s": [f"s{i % 5_000}" for i in range(150_000)]}))
    assert len(loaded.view("v")) == 0


NAMES = st.lists(st.sampled_from(sorted(VIEWS)), min_size=1, max_size=3, unique=True)


@thoroughness(12)
@given(NAMES, st.integers(0, 2**32), st.integers(0, 6), st.booleans())
def test_any_history(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], seed: int, batches: int, rebuild: bool
) -> None:
    db, changes = filled(seed, batches, tuple(names))
    path = saved(db, tmp_path_factory.mktemp("any"))
    with pytest.MonkeyPatch.context() as patch:
        if rebuild:
            patch.setattr(snapshot, "_fits", lambda *_: False)
        loaded = ev.Database.load(path)
    assert contents(loaded) == contents(db)
    if not rebuild:
        assert listings(loaded) == listings(db)
    go_on_alike(db, loaded, changes, batches=1)


@pytest.mark.slow
def test_programs_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever order Python's sets have: else the saved state of views would hardly ever be of use."""
    path = saved(filled()[0], tmp_path)
    code = f"import everview as e; d = e.Database.load({str(path)!r}); "
    code += "print({d.view(v).stats()['restored'] for v in d.views})"
    for seed in ("0", "1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "{'snapshot'}"


@pytest.mark.slow
def test_another_version_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, _ = filled()
    path = saved(db, tmp_path)
    monkeypatch.setattr(snapshot, "_makers", lambda: {"everview": "99", "duckdb": "99"})
    loaded = ev.Database.load(path)
    assert {loaded.view(v).stats()["restored"] for v in loaded.views} == {"rebuilt"}
    assert contents(loaded) == contents(db)


def test_another_program_rebuilds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, _ = filled()
    path = saved(db, tmp_path)
    monkeypatch.setattr(snapshot, "_fingerprint", lambda view: view.view.name)
    loaded = ev.Database.load(path)
    assert {loaded.view(v).stats()["restored"] for v in loaded.views} == {"rebuilt"}
    assert contents(loaded) == contents(db)


# --- what cannot be loaded -------------------------------------------------------------------------------------------


def refused(path: Path, *words: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        ev.Database.load(path)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint


def test_no_file(tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere", "No such file")
    refused(tmp_path, "cannot load", "directory")
    refused(Path("/dev/null"), "is no regular file")


@pytest.mark.slow
def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own: one that waits for a writer of the FIFO could not be stopped here."""
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name, words in (("fifo", "is no regular file"), ("socket", "cannot load")):
        code = f"import everview as e; e.Database.load({str(tmp_path / name)!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=1800, check=False)
        assert "SnapshotError" in done.stderr
        assert words in done.stderr


def test_only_the_owner_may_read_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the process's mask, also while it is being written."""
    seen: list[int] = []
    sync = os.fsync

    def noting(descriptor: int) -> None:
        seen.append(os.fstat(descriptor).st_mode & 0o777)
        sync(descriptor)

    monkeypatch.setattr(container.os, "fsync", noting)
    before = os.umask(0)
    try:
        path = saved(database("hops"), tmp_path)
    finally:
        os.umask(before)
    assert seen[0] == path.stat().st_mode & 0o777 == 0o600


def test_foreign_files(tmp_path: Path) -> None:
    for content in (b"x", b"PK\x03\x04" + bytes(100), b"SQLite format 3\x00", bytes(1_000)):
        (tmp_path / "f").write_bytes(content)
        refused(tmp_path / "f", "is no database that Everview has saved")
    (tmp_path / "f").write_bytes(b"")
    refused(tmp_path / "f", "it is empty")


def test_cut_and_lengthened(tmp_path: Path) -> None:
    path = saved(filled()[0], tmp_path)
    whole = path.read_bytes()
    for size in (5, 20, container.HEADER_SIZE, 1_000, len(whole) - 1):
        path.write_bytes(whole[:size])
        refused(path, "damaged", "ends within its header" if size < container.HEADER_SIZE else "cut off")
    path.write_bytes(whole + b"\0")
    refused(path, "longer than it was")


def test_a_newer_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    db, _ = filled(names=("hops",))
    monkeypatch.setattr(container, "FORMAT", 7)
    path = saved(db, tmp_path)
    monkeypatch.undo()
    refused(path, "has format 7", "formats up to 2", "newer Everview")


@pytest.mark.slow
def test_flips_everywhere(tmp_path: Path) -> None:
    """One byte in each section, in the manifest and in the header."""
    path = saved(filled(names=("hops", "cities"))[0], tmp_path)
    whole = path.read_bytes()
    for place in (1, 13, 20, 40, *range(container.HEADER_SIZE, len(whole), len(whole) // 50), len(whole) - 1):
        broken = bytearray(whole)
        broken[place] ^= 0x10
        path.write_bytes(broken)
        refused(path)


def resign(path: Path, change: Callable[[dict[str, Any], dict[str, bytes]], None]) -> None:
    """Change manifest and sections, and make all checksums right again."""
    with container.reading(path) as file:
        manifest = file.manifest
        sections = {entry["name"]: file.section(entry["name"]).read() for entry in manifest.pop("sections")}
    change(manifest, sections)
    with container.replacing(path) as out:
        writer = container.Writer(out)
        for name, data in sections.items():
            writer.section(name).write(data)
        writer.finish(manifest)


def swap(sections: dict[str, bytes], one: str, other: str) -> None:
    sections[one], sections[other] = sections[other], sections[one]


LIES: dict[str, tuple[Callable[[dict[str, Any], dict[str, bytes]], Any], str]] = {
    "a definition that is no SQL": (lambda m, _: m["definitions"][0].update(text="SELEC"), "definition 1"),
    "a definition less": (lambda m, _: m["definitions"].pop(), "do not give the views"),
    "a definition twice": (lambda m, _: m["definitions"].append(m["definitions"][0]), "is refused"),
    "a language that is none": (lambda m, _: m["definitions"][0].update(language="cobol"), "cobol"),
    "no version": (lambda m, _: m.pop("version"), "version"),
    "a version that is none": (lambda m, _: m.update(version="new"), "new"),
    "no definitions": (lambda m, _: m.update(definitions=5), "cannot be restored"),
    "a section less": (lambda _, s: s.pop("view/0"), "no section view/0"),
    "no dictionary": (lambda _, s: s.pop("dictionary/string"), "no section dictionary/string"),
    "tables swapped": (lambda _, s: swap(s, "table/0", "table/1"), "does not hold what it should"),
    "dictionaries swapped": (lambda _, s: swap(s, "dictionary/string", "dictionary/binary"), "well formed"),
    "states swapped": (lambda _, s: swap(s, "view/0", "view/1"), "bad snapshot"),
    "rows as state": (lambda _, s: swap(s, "view/0", "table/0"), "cannot be restored"),
    "an empty state": (lambda _, s: s.update({"view/0": b""}), "bad snapshot"),
    "an empty table": (lambda _, s: s.update({"table/0": b""}), "cannot be restored"),
    "an empty dictionary": (
        lambda _, s: s.update({"dictionary/string": s["dictionary/binary"].replace(b"binary", b"string")}),
        "",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("lie", "words"), LIES.values(), ids=LIES)
def test_lies_with_right_checksums(tmp_path: Path, lie: Any, words: str) -> None:
    path = saved(filled(names=("hops", "cities"))[0], tmp_path)
    resign(path, lie)
    refused(path, words)


def table_of(sections: dict[str, bytes], name: str) -> pa.Table:
    return pa.ipc.open_stream(sections[name]).read_all()


def put_table(sections: dict[str, bytes], name: str, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    sections[name] = sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("section", "column", "value", "words"),
    [
        ("table/1", "w1", 10**6, "the dictionary does not have"),
        ("table/1", "w1", -5, "the dictionary does not have"),
        ("table/0", "copies", 0, "without copies"),
        ("table/0", "copies", -1, "without copies"),
        ("table/0", "w0", None, "does not hold what it should"),
        ("table/1", "w0", 3, "key"),
        ("dictionary/string", "id", 0, "ids"),
        ("dictionary/string", "id", -1, "ids"),
        ("dictionary/string", "id", 2**62, "ids"),
        ("dictionary/string", "count", -1, "fewer than no uses"),
        ("dictionary/string", "value", "same", "well formed"),
    ],
)
def test_wrong_cells(tmp_path: Path, section: str, column: str, value: Any, words: str) -> None:
    db = database("hops", "cities")
    db.insert("follows", [(1, 2), (2, 3)])
    db.insert("people", [(1, "a", "b", 0.5, None), (2, "c", "d", 0.5, None)])
    path = saved(db, tmp_path)

    def change(_: dict[str, Any], sections: dict[str, bytes]) -> None:
        table = table_of(sections, section)
        place = table.column_names.index(column)
        wrong = pa.array([value] * len(table), table.schema.field(place).type)
        put_table(sections, section, table.set_column(place, table.schema.field(place), wrong))

    resign(path, change)
    refused(path, words)


# --- crashes while saving --------------------------------------------------------------------------------------------


def only_the_old(path: Path, before: bytes) -> None:
    """The old file as it was, and nothing beside it."""
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def failing(error: BaseException) -> Callable[..., Any]:
    def fail(*_: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("call", ["fsync", "replace", "chmod", "open"])
def test_the_system_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    db, changes = filled(names=("hops",))
    path = saved(db, tmp_path)
    before = path.read_bytes()
    run(db, [changes.batch()])
    monkeypatch.setattr(container.os, call, failing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(SnapshotError, match="No space left on device; what was there before is untouched"):
        db.save(path)
    monkeypatch.undo()
    only_the_old(path, before)
    db.save(path)
    assert contents(ev.Database.load(path)) == contents(db)


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    db, changes = filled(names=("hops",))
    path = saved(db, tmp_path)
    before = path.read_bytes()
    run(db, [changes.batch()])
    monkeypatch.setattr(container.os, call, failing(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        db.save(path)
    monkeypatch.undo()
    only_the_old(path, before)


@pytest.mark.parametrize("room", [0, 10, 1_000, 4_096])
def test_a_file_that_may_not_grow(tmp_path: Path, room: int) -> None:
    """A real refusal in the middle of writing: the system's limit on the size of files."""
    db, changes = filled(names=("hops", "cities"))
    path = saved(db, tmp_path)
    before = path.read_bytes()
    assert len(before) > 5_000
    run(db, [changes.batch()])
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(SnapshotError, match="untouched"):
            db.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    only_the_old(path, before)


def test_a_full_disk(tmp_path: Path) -> None:
    """A disk of 64 KB, where the system lets us have one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no disk may be mounted here")
    try:
        db = database("hops")
        db.insert("follows", [(1, 2)])
        path = saved(db, disk)
        before = path.read_bytes()
        db.insert("follows", [(i, i) for i in range(10_000)])
        with pytest.raises(SnapshotError, match="No space left"):
            db.save(path)
        only_the_old(path, before)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_places_where_nothing_can_be_saved(tmp_path: Path) -> None:
    db = database("hops")
    for place in (tmp_path / "no" / "folder", Path("/proc/everview"), tmp_path, Path("/dev/full")):
        with pytest.raises(SnapshotError, match="cannot save"):
            db.save(place)
    assert list(tmp_path.iterdir()) == []
    assert Path("/dev/full").is_char_device()


def test_permissions_and_links_stay(tmp_path: Path) -> None:
    db = database("hops")
    path = saved(db, tmp_path)
    path.chmod(0o640)
    link = tmp_path / "link"
    link.symlink_to(path)
    db.save(link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640


SAVE_FOREVER = """
import sys
from tests.engine.samples import Changes, database, run
db, changes = database("hops", "total"), Changes(1)
while True:
    run(db, [changes.batch()])
    db.save(sys.argv[1])
    print(db.version, flush=True)
"""


@pytest.mark.slow
def test_killed_while_saving(tmp_path: Path) -> None:
    """Whenever it is, there is a whole file, and none older than the last save that was done."""
    path = tmp_path / "saved.everview"
    command = [sys.executable, "-c", SAVE_FOREVER, str(path)]
    for pause in (0.0, 0.013, 0.05):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(3)]
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
            lines += process.stdout.readlines()
        done = [int(line) for line in lines if line.endswith("\n")]
        loaded = ev.Database.load(path)
        assert loaded.version in (done[-1], done[-1] + 1)
        again, changes = database("hops", "total"), Changes(1)
        run(again, [changes.batch() for _ in range(loaded.version)])
        assert contents(loaded) == contents(again)


# --- the file --------------------------------------------------------------------------------------------------------


def test_the_manifest_says_what_is_in_it(tmp_path: Path) -> None:
    db, _ = filled()
    with container.reading(saved(db, tmp_path)) as file:
        manifest = json.loads(json.dumps(file.manifest))
    assert manifest["made_by"]["everview"] == ev.__version__
    assert [d["language"] for d in manifest["definitions"]] == ["sql"] * len(VIEWS) + ["rules"] * 2  # one a view
    assert manifest["version"] == db.version
    names = [s["name"] for s in manifest["sections"]]
    assert len(names) == len(set(names))
    assert [n.split("/")[0] for n in names] == sorted(n.split("/")[0] for n in names)


def test_saving_changes_nothing(tmp_path: Path) -> None:
    db, _ = filled()
    before = listings(db), uses(db), db.version
    sizes = []
    for _ in range(3):
        sizes.append(saved(db, tmp_path).stat().st_size)
        assert (listings(db), uses(db), db.version) == before
    assert all(abs(a - b) < 4_096 for a, b in pairwise(sizes))


def test_a_refused_batch_then_save(tmp_path: Path) -> None:
    db, _ = filled()
    before = contents(db)
    with pytest.raises(EverviewError):
        db.insert("people", [(77, "new", "new", 1.0, None)] * 2)
    assert contents(ev.Database.load(saved(db, tmp_path))) == before
