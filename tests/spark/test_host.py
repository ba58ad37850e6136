"""A shard's process: its versions, and that it may die at any time. Without Spark."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa
import pytest

from everview.engine import feed as feeds
from everview.errors import BadRowError, EverviewError, MemoryLimitError, PipelineError, UnsupportedError
from everview.spark import client as clients
from everview.spark import host as hosts
from everview.spark.blobs import WEIGHT, read_blob, write_blob
from everview.spark.client import ShardClient
from everview.spark.host import Host, started
from everview.spark.messages import Apply, Done, Failed, Need, Rebuild
from everview.spark.shard import ShardSpec
from everview.spark.sockets import folder, locked, sweep
from everview.sql import parse_script

SCRIPT = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (b BIGINT, c BIGINT);
CREATE TABLE k (id BIGINT PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW pairs AS SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b;
CREATE MATERIALIZED VIEW totals AS SELECT s.c, COUNT(*) AS n, SUM(r.a * 0.1D) AS total
  FROM r JOIN s ON r.b = s.b GROUP BY s.c;
CREATE MATERIALIZED VIEW names AS SELECT name FROM k;
"""
VIEWS = {
    "pairs": "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b",
    "names": "SELECT name FROM k",
}
Rows = dict[str, list[tuple[Any, ...]]]


def spec(script: str = SCRIPT, **settings: Any) -> ShardSpec:
    schema, views = parse_script(script)
    return ShardSpec(tuple(schema), views, **settings)


def blobs(rows: Rows, of: ShardSpec) -> list[tuple[str, bytes]]:
    """Rows whose last value is the weight, packed as Spark's workers do it."""
    from everview.engine.ingest import table_schema

    found = []
    for table in of.tables:
        if rows.get(table.name):
            schema = table_schema(table).append(pa.field(WEIGHT, pa.int64()))
            columns = list(zip(*rows[table.name], strict=True))
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            found.append((table.name, write_blob(pa.table(arrays, schema=schema), stored=True)))
    return found


class Driver:
    """What Spark and the state store do for one shard: versions and the log, and attempts that are not committed."""

    def __init__(self, of: ShardSpec | None = None, query: str | None = None) -> None:
        self.spec = of or spec()
        self.query = query or uuid4().hex
        self.token: str | None = None
        self.log: list[tuple[int, str, bytes]] = []
        self.told: Counter[tuple[Any, ...]] = Counter()
        self.cause: str | None = None
        self.stats: dict[str, Any] = {}

    def client(self) -> ShardClient:
        return ShardClient(self.query, "0/0", pickle.dumps(self.spec), True)

    def run(self, rows: Rows, *, commit: bool = True, client: ShardClient | None = None) -> Counter[tuple[Any, ...]]:
        """One attempt at a batch; gives what has changed."""
        packed = blobs(rows, self.spec)
        after = uuid4().hex
        with client or self.client() as used:
            request = Apply(used.digest, self.token, after, packed, False, None)
            reply, self.cause = used.apply(request, lambda: self.log)
        self.stats = reply.stats
        found = changes(reply)
        if commit:
            taken = packed if reply.accepted is None else reply.accepted
            self.log += [(len(self.log), name, blob) for name, blob in taken]
            self.token = after if packed else self.token
            self.told.update(found)
            for row, count in found.items():
                if count < 0:
                    self.told[row] += 0
        return found

    def check(self, tables: Rows) -> None:
        """What was told adds up to the views, by DuckDB."""
        with duckdb.connect() as db:
            for name, columns in (
                ("r", "a BIGINT, b BIGINT"),
                ("s", "b BIGINT, c BIGINT"),
                ("k", "id BIGINT, name VARCHAR"),
            ):
                db.execute(f"CREATE TABLE {name} ({columns})")
                net: Counter[tuple[Any, ...]] = Counter()
                for *row, weight in tables.get(name, ()):
                    net[tuple(row)] += weight
                for row, copies in net.items():
                    for _ in range(copies):
                        db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
            for view, sql in VIEWS.items():
                expected = Counter({(view, *row): n for row, n in Counter(db.sql(sql).fetchall()).items()})
                assert Counter({r: n for r, n in self.told.items() if n and r[0] == view}) == expected
            groups = db.sql("SELECT s.c, COUNT(*) FROM r JOIN s ON r.b = s.b GROUP BY s.c").fetchall()
            assert {r[1:3]: n for r, n in self.told.items() if n and r[0] == "totals"} == dict.fromkeys(groups, 1)


def changes(reply: Done) -> Counter[tuple[Any, ...]]:
    """The changes of a reply as rows, with their view, and the copies that came or went."""
    found: Counter[tuple[Any, ...]] = Counter()
    for (view, _), parts in reply.changes.items():
        for blob, count in parts:
            rows = read_blob(blob).to_pylist()
            assert len(rows) == count
            for row in rows:
                sign = 1 if row["_change_type"] in {"insert", "update_postimage"} else -1
                values = [v for k, v in row.items() if not k.startswith("_")]
                found[view, *values] += sign * row["_count"]
    return Counter({row: n for row, n in found.items() if n})


FIRST: Rows = {"r": [(1, 2, 1), (2, 2, 1)], "s": [(2, 3, 1), (2, 4, 2)], "k": [(1, "one", 1)]}
SECOND: Rows = {"r": [(1, 2, -1), (3, 2, 1)], "s": [(2, 4, -1)], "k": [(1, "one", -1), (1, "uno", 1)]}
THIRD: Rows = {"r": [(5, 2, 1)], "k": [(2, "two", 1)]}


def together(*batches: Rows) -> Rows:
    found: Rows = {}
    for batch in batches:
        for name, rows in batch.items():
            found.setdefault(name, []).extend(rows)
    return found


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short folder of the test's own, in which nothing and from which nobody is left."""
    path = Path(tempfile.mkdtemp(prefix="ev"))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    for process in processes(path):
        end(process)
    for child in clients._started:
        child.wait(timeout=30)
    clients._started.clear()
    shutil.rmtree(path)


def processes(path: Path) -> list[int]:
    """The living processes of shards whose sockets are below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and started(int(entry.name)) is not None:
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"everview.spark.host" in words and any(w.startswith(bytes(path) + b"/") for w in words):
                found.append(int(entry.name))
    return found


def end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    until(lambda: started(process) is None)


def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.05)


def files(path: Path) -> list[str]:
    return sorted(p.suffix for p in path.rglob("*") if not p.is_dir())


# --- versions, in this process ---------------------------------------------------------------------------------------


def at_first(settings: dict[str, Any] | None = None) -> tuple[Host, ShardSpec]:
    of = spec(**(settings or {}))
    host = Host()
    host.rebuild(Rebuild(pickle.dumps(of), True, "digest", "v1", [(1, n, b) for n, b in blobs(FIRST, of)]))
    return host, of


def ask(host: Host, of: ShardSpec, rows: Rows, before: str | None = "v1", after: str = "v2", **more: Any) -> object:
    return host.answer(Apply(more.get("digest", "digest"), before, after, blobs(rows, of), False, None))


def test_a_batch_for_another_version_or_query_is_not_taken_in() -> None:
    host, of = at_first()
    assert isinstance(ask(host, of, SECOND, before="v0"), Need)
    assert isinstance(ask(host, of, SECOND, before=None), Need)
    assert isinstance(ask(host, of, SECOND, digest="another"), Need)
    assert isinstance(Host().answer(Apply("digest", None, "v1", [], False, None)), Need)
    assert isinstance(ask(host, of, SECOND), Done)


def test_a_retried_batch_is_taken_back_and_gives_the_same_changes() -> None:
    host, of = at_first()
    once = ask(host, of, SECOND, after="first attempt")
    again = ask(host, of, SECOND, after="second attempt")
    assert isinstance(once, Done)
    assert isinstance(again, Done)
    assert changes(once) == changes(again) != Counter()
    assert (host.undone, host.rebuilds) == (1, 1)
    third = ask(host, of, THIRD, before="second attempt")
    anew, _ = at_first()
    ask(anew, of, SECOND)
    expected = ask(anew, of, THIRD, before="v2", after="v3")
    assert isinstance(third, Done)
    assert isinstance(expected, Done)
    assert changes(third) == changes(expected)


def test_only_the_last_batch_is_taken_back() -> None:
    host, of = at_first()
    ask(host, of, SECOND)
    ask(host, of, THIRD, before="v2", after="v3")
    assert isinstance(ask(host, of, SECOND), Need)
    assert isinstance(ask(host, of, THIRD, before="v2", after="v3b"), Done)
    assert isinstance(ask(host, of, THIRD, before="v2", after="v3c"), Done)


def test_a_large_batch_is_not_kept_to_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_UNDO", 10)
    host, of = at_first()
    ask(host, of, SECOND)
    assert isinstance(ask(host, of, SECOND), Need)


def test_rows_that_were_put_aside_are_not_taken_back() -> None:
    host, of = at_first({"quarantine": True})
    wrong: Rows = {"r": [(7, 2, 1), (9, 9, -1)], "k": [(1, "second", 1), (8, "eight", 1)]}
    once, again = ask(host, of, wrong, after="x"), ask(host, of, wrong, after="y")
    assert isinstance(once, Done)
    assert isinstance(again, Done)
    assert once.bad == again.bad
    assert len(once.bad) == 2
    assert changes(once) == changes(again)
    assert host.undone == 1


@pytest.mark.parametrize("seed", range(20))
def test_any_history_with_retries_equals_one_without(seed: int) -> None:
    rng = random.Random(seed)
    of = spec()
    plain, retried = Host(), Host()
    for host in (plain, retried):
        host.rebuild(Rebuild(pickle.dumps(of), True, "digest", None, []))
    held: dict[str, Counter[tuple[Any, ...]]] = {"r": Counter(), "s": Counter()}
    before: str | None = None
    for number in range(12):
        batch = random_batch(rng, held)
        expected = plain.answer(Apply("digest", before, f"v{number}", blobs(batch, of), False, None))
        for attempt in range(rng.choice([1, 1, 2, 3])):
            after = f"v{number}" if attempt == 0 else f"v{number}.{attempt}"
            found = retried.answer(Apply("digest", before, after, blobs(batch, of), False, None))
            assert isinstance(expected, Done)
            assert isinstance(found, Done)
            assert changes(found) == changes(expected)
        retried.token = before = f"v{number}"
    assert retried.rebuilds == 1


def random_batch(rng: random.Random, held: dict[str, Counter[tuple[Any, ...]]]) -> Rows:
    """Rows that come and go, and what the tables hold then."""
    batch: Rows = {}
    for name in ("r", "s"):
        for _ in range(rng.randint(1, 6)):
            there = [row for row, n in held[name].items() if n]
            if there and rng.random() < 0.4:
                row, weight = rng.choice(there), -1
            else:
                row, weight = (rng.randint(1, 4), rng.randint(1, 4)), rng.randint(1, 2)
            held[name][row] += weight
            batch.setdefault(name, []).append((*row, weight))
    return batch


@pytest.mark.parametrize(
    ("settings", "rows", "error"),
    [
        ({}, {"r": [(7, 7, 1), (9, 9, -1)]}, BadRowError),
        ({}, {"k": [(1, "second", 1)], "r": [(7, 2, 1)]}, BadRowError),
        ({"memory_limit": 300_000}, {"r": [(i, i, 1) for i in range(100_000)]}, MemoryLimitError),
    ],
    ids=["over-delete", "key", "memory"],
)
def test_a_refused_batch_leaves_the_version(settings: dict[str, Any], rows: Rows, error: type[Exception]) -> None:
    host, of = at_first(settings)
    with pytest.raises(error):
        ask(host, of, rows)
    assert host.token == "v1"
    found = ask(host, of, SECOND)
    expected = ask(at_first()[0], of, SECOND)
    assert isinstance(found, Done)
    assert isinstance(expected, Done)
    assert changes(found) == changes(expected)


def test_a_failure_after_the_batch_was_taken_in_gives_the_shard_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that overflows does so after the commit: at the old version, the batch would be taken in twice."""
    host, of = at_first()
    many: Rows = {"r": [(i, 2, 1) for i in range(10, 20)]}
    with monkeypatch.context() as patch:
        patch.setattr(feeds, "MOST_ROWS", 5)
        with pytest.raises(EverviewError):
            ask(host, of, many)
    assert isinstance(ask(host, of, many), Need)


def test_an_unforeseen_failure_gives_the_shard_up(monkeypatch: pytest.MonkeyPatch) -> None:
    host, of = at_first()
    with monkeypatch.context() as patch:
        patch.setattr("everview.spark.shard.apply_weighted", failing)
        with pytest.raises(MemoryError):
            ask(host, of, SECOND)
    assert isinstance(ask(host, of, SECOND), Need)


def failing(*_: Any) -> None:
    raise MemoryError("no more")


def test_a_failed_rebuild_leaves_no_version() -> None:
    host, of = at_first()
    wrong = [(1, n, b) for n, b in blobs({"r": [(1, 1, -1)]}, of)]
    with pytest.raises(BadRowError):
        host.answer(Rebuild(pickle.dumps(of), True, "digest", None, wrong))
    assert isinstance(ask(host, of, SECOND), Need)
    assert isinstance(ask(host, of, SECOND, before=None), Need)


def test_errors_that_cannot_be_sent_are_sent_as_text() -> None:
    failed = hosts._failed(UnsupportedError("no such thing", construct="thing"))
    assert isinstance(failed, Failed)
    assert str(pickle.loads(pickle.dumps(failed)).error) == "UnsupportedError: no such thing"
    sent = pickle.loads(pickle.dumps(hosts._failed(BadRowError("bad", table="r", row=3, hint="look"))))
    assert (sent.error.table, sent.error.row, sent.error.hint) == ("r", 3, "look")


# --- processes that die ----------------------------------------------------------------------------------------------


def test_a_process_killed_between_batches_is_rebuilt(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    assert driver.cause == "new"
    (process,) = processes(place)
    end(process)
    driver.run(SECOND)
    assert driver.cause == "its process died" or driver.stats["pid"] != process
    assert driver.stats["pid"] in processes(place)
    driver.run(THIRD)
    assert driver.cause is None
    driver.check(together(FIRST, SECOND, THIRD))


def test_an_attempt_that_was_not_committed_is_taken_back(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    once = driver.run(SECOND, commit=False)
    again = driver.run(SECOND)
    assert once == again
    assert driver.cause is None
    driver.run(THIRD)
    driver.check(together(FIRST, SECOND, THIRD))


def test_a_version_that_is_older_still_is_rebuilt(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    older = driver.token, list(driver.log), driver.told.copy()
    driver.run(SECOND)
    driver.run(THIRD)
    driver.token, driver.log, driver.told = older
    driver.run(THIRD)
    assert driver.cause == "another version"
    driver.check(together(FIRST, THIRD))


def test_another_spec_at_the_same_socket_is_rebuilt(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    other = Driver(
        spec("CREATE TABLE r (a BIGINT, b BIGINT); CREATE MATERIALIZED VIEW pairs AS SELECT a FROM r"), driver.query
    )
    other.token = driver.token
    other.log = [(1, n, b) for n, b in blobs({"r": FIRST["r"]}, other.spec)]
    assert other.run({"r": [(8, 8, 1)]}) == Counter({("pairs", 8): 1})
    assert other.cause == "another version"
    assert len(processes(place)) == 1


@pytest.mark.parametrize("half", [b"", b"\0\0", b"\0\0\1\0", b"\0\0\1\0some of it"])
def test_a_process_that_dies_while_it_answers_is_replaced(half: bytes, place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    end(processes(place)[0])
    client = driver.client()
    client.path.unlink()
    listener = Listener(str(client.path), "AF_UNIX")

    def die() -> None:
        connection = listener.accept()
        connection.recv()
        os.write(connection.fileno(), half)
        listener.close()
        connection.close()

    dying = threading.Thread(target=die)
    dying.start()
    driver.run(SECOND, client=client)
    dying.join()
    assert driver.cause == "its process died"
    driver.check(together(FIRST, SECOND))


def test_a_dying_process_that_is_reached_again_has_died_once(place: Path) -> None:
    """Its connection goes before its socket does: who comes in between is not answered."""
    driver = Driver()
    client = driver.client()
    listener = Listener(str(client.path), "AF_UNIX")

    def die() -> None:
        for _ in range(3):
            listener.accept().close()
        listener.close()

    dying = threading.Thread(target=die)
    dying.start()
    driver.run(FIRST, client=client)
    dying.join()
    assert driver.cause == "its process died"
    driver.check(FIRST)


def test_a_process_that_dies_while_it_dumps_only_puts_compaction_off(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    with driver.client() as client:
        assert client.dump("another") is None
        rows = client.dump(driver.token or "")
        assert rows is not None
        assert sum(count for _, _, count in rows) == 5
        end(processes(place)[0])
        assert client.dump(driver.token or "") is None
    driver.run(SECOND)
    driver.check(together(FIRST, SECOND))


def test_a_process_that_dies_again_and_again_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    numbers = count(1)

    def start(path: Path) -> int:
        path.with_suffix(".log").write_text("Killed for good reason")
        return next(numbers)

    monkeypatch.setattr(clients, "_start", start)
    with pytest.raises(PipelineError, match=r"died twice.*\n*.*Killed for good reason"):
        driver.run(FIRST)


def test_random_kills(place: Path) -> None:
    """At most one kill a batch, at a random point of it; sometimes an attempt is not committed."""
    rng = random.Random(4)
    driver = Driver()
    held: dict[str, Counter[tuple[Any, ...]]] = {"r": Counter(), "s": Counter()}
    done: list[Rows] = []
    usual = 0.01
    for _ in range(25):
        done.append(random_batch(rng, held))
        if rng.random() < 0.3:
            driver.run(done[-1], commit=False)
        kill = threading.Timer(
            rng.uniform(0, 2 * usual), lambda: [os.kill(p, signal.SIGKILL) for p in processes(place)]
        )
        if rng.random() < 0.3:
            kill.start()
        begun = time.monotonic()
        driver.run(done[-1])
        usual = usual if driver.cause else time.monotonic() - begun
        if kill.ident is not None:
            kill.join()
    assert driver.stats["rebuilds"] >= 1
    driver.check(together(*done))


def test_huge_replies(place: Path) -> None:
    driver = Driver(
        spec(
            "CREATE TABLE r (a BIGINT, b BIGINT); CREATE MATERIALIZED VIEW v AS SELECT x.a, y.a AS c "
            "FROM r x JOIN r y ON x.b = y.b"
        )
    )
    found = driver.run({"r": [(i, 1, 1) for i in range(1_500)]})
    assert len(found) == 1_500**2


# --- how processes start and end -------------------------------------------------------------------------------------


def test_workers_that_come_at_once_start_one_process(place: Path) -> None:
    driver = Driver()
    pids: list[int] = []

    def come() -> None:
        with driver.client() as client:
            request = Apply(client.digest, None, uuid4().hex, [], False, None)
            pids.append(client.apply(request, list)[0].stats["pid"])

    workers = [threading.Thread(target=come) for _ in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(pids) == 5
    assert len(set(pids)) == 1
    assert processes(place) == [pids[0]]


def test_a_process_ends_with_its_executor_and_leaves_nothing(place: Path) -> None:
    """An executor with one worker, which starts a process for a shard: all of them real processes."""
    worker = textwrap.dedent("""
        import sys, tempfile, time
        tempfile.tempdir = sys.argv[1]
        from everview.spark.client import ShardClient
        from everview.spark.messages import Apply
        from tests.spark.test_host import Driver
        Driver(query="q").run({})
        print("done", flush=True)
        time.sleep(600)
    """)
    executor = "import subprocess, sys; subprocess.run([sys.executable, '-c', *sys.argv[1:]])"
    root = Path(__file__).parent.parent.parent
    running = subprocess.Popen(
        [sys.executable, "-c", executor, worker, str(place)],
        stdout=subprocess.PIPE,
        cwd=root,
        start_new_session=True,
    )
    assert running.stdout is not None
    with running.stdout:
        assert running.stdout.readline() == b"done\n"
        assert len(processes(place)) == 1
        assert files(place) == [".log", ".sock"]
        running.kill()
        running.wait()
        until(lambda: not processes(place), 10)
        until(lambda: not list(place.iterdir()), 10)
        os.killpg(running.pid, signal.SIGKILL)  # The worker, which Spark's daemon would have ended.


def test_a_process_whose_executor_is_gone_already_does_not_stay(place: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [sys.executable, "-m", "everview.spark.host", str(place / "x.sock"), str(gone.pid), "3600"]
    subprocess.run(command, check=True, timeout=60)


def test_an_idle_process_ends_and_the_shard_comes_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "IDLE_SECONDS", 0.2)
    driver = Driver()
    driver.run(FIRST)
    until(lambda: not processes(place) and not list(place.iterdir()))
    driver.run(SECOND)
    driver.check(together(FIRST, SECOND))


def test_a_process_whose_socket_was_taken_ends(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    (old,) = processes(place)
    driver.client().path.unlink()
    driver.run(SECOND)
    new = driver.stats["pid"]
    assert new != old
    until(lambda: processes(place) == [new])
    driver.run(THIRD)
    assert driver.cause is None
    assert driver.stats["pid"] == new
    driver.check(together(FIRST, SECOND, THIRD))


def test_what_killed_processes_left_is_swept_away(place: Path) -> None:
    one, other = Driver(), Driver()
    one.run(FIRST)
    (dead,) = processes(place)
    end(dead)
    (folder() / "worker-died.lock").touch()
    assert files(place) == [".lock", ".log", ".sock"]
    other.run(FIRST)
    assert files(place) == [".log", ".sock"]
    assert other.client().path.exists()
    sweep()
    assert files(place) == [".log", ".sock"]
    other.run(SECOND)
    assert other.cause is None


def test_locks_exclude_each_other_and_leave_nothing(place: Path) -> None:
    path = folder() / "x.sock"
    inside: list[int] = []
    most: list[int] = []

    def work() -> None:
        for _ in range(50):
            with locked(path):
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    with locked(path), pytest.raises(BlockingIOError), locked(path, wait=False):
        pass
    for worker in workers:
        worker.join()
    assert max(most) == 1
    assert not files(place)


def test_a_folder_that_others_may_enter_is_refused(place: Path) -> None:
    folder().chmod(0o755)
    with pytest.raises(PipelineError, match="open to other users.*\n.*chmod 700"):
        Driver().run(FIRST)


def test_a_folder_that_is_none_is_refused(place: Path) -> None:
    (place / f"everview-{os.getuid()}").write_text("in the way")
    with pytest.raises(PipelineError, match="no folder for shards' sockets"):
        Driver().run(FIRST)


def test_a_long_temporary_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert folder() == Path(f"/tmp/everview-{os.getuid()}")


def test_a_process_that_cannot_start_says_why(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "bin").write_text("#!/bin/sh\necho 'no module named everview' >&2\nexit 3\n")
    (place / "bin").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(place / "bin"))
    with pytest.raises(PipelineError, match="did not start: no module named everview"):
        Driver().run(FIRST)
    assert files(place) == [""]


def test_a_refusal_reaches_the_worker_as_it_is(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    with pytest.raises(BadRowError, match="cannot be taken in") as caught:
        driver.run({"r": [(77, 7, -1)]})
    assert caught.value.table == "r"
    driver.run(SECOND)
    assert driver.cause is None
    driver.check(together(FIRST, SECOND))
