"""A shard's process: how it starts and ends, and that it may die at any time. Without Spark."""

from __future__ import annotations

import os
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
from collections.abc import Iterator
from itertools import count
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from everview.errors import BadRowError, PipelineError
from everview.spark import worker as workers
from everview.spark.shard import client as clients
from everview.spark.shard.job_key import tag
from everview.spark.shard.messages import Apply
from everview.spark.shard.sockets import dismiss, folder, locked, sweep
from everview.spark.shard.wire import receive
from tests.spark.shards import (
    FIRST,
    KEY,
    SECOND,
    THIRD,
    Driver,
    Rows,
    blobs,
    end,
    files,
    processes,
    random_batch,
    spec,
    together,
    until,
)


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder of the test's own, in which nothing and from which nobody is left."""
    tmp_path_factory.getbasetemp()  # Made now, it is not in that folder.
    path = Path(tempfile.mkdtemp(prefix="ev"))
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    yield path
    for process in processes(path):
        end(process)
    for child in clients._started:
        child.wait(timeout=600)
    clients._started.clear()
    shutil.rmtree(path)


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
    listener = Listener(str(client.path), "AF_UNIX", authkey=KEY)

    def die() -> None:
        connection = listener.accept()
        receive(connection)
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


def test_a_shard_is_rebuilt_part_by_part(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "LOAD_BYTES", 1)
    driver = Driver()
    for batch in (FIRST, SECOND):
        driver.run(batch)
    loads: list[object] = []
    ask = clients.ShardClient._ask

    def counted(self: clients.ShardClient, request: Any) -> Any:
        loads.append(request)
        return ask(self, request)

    monkeypatch.setattr(clients.ShardClient, "_ask", counted)
    end(processes(place)[0])
    stored = len(driver.log)
    driver.run(THIRD)
    assert sum(isinstance(request, clients.Load) for request in loads) == stored > 2
    driver.check(together(FIRST, SECOND, THIRD))


def test_a_rebuild_that_leaves_out_a_row_that_was_taken_in_is_an_error(place: Path) -> None:
    driver = Driver(spec(quarantine=True))
    driver.run(FIRST)
    driver.log.append((9, *blobs({"r": [(77, 77, -1)]}, driver.spec)[0]))
    end(processes(place)[0])
    for _ in range(2):  # However often Spark tries.
        with pytest.raises(PipelineError, match="of its own log a row is refused that it had taken in"):
            driver.run(SECOND)


def test_a_process_that_dies_while_it_dumps_only_puts_compaction_off(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    with driver.client() as client:
        with pytest.raises(clients.NoDumpError):
            list(client.dump("another"))
        assert sum(count for _, _, count in client.dump(driver.token or "")) == 5
        end(processes(place)[0])
        with pytest.raises(clients.NoDumpError):
            list(client.dump(driver.token or ""))
    driver.run(SECOND)
    driver.check(together(FIRST, SECOND))


def test_a_process_that_dies_again_and_again_is_reported(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    numbers = count(1)

    def start(path: Path, key: bytes) -> int:
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
    late = False
    for _ in range(16):
        done.append(random_batch(rng, held))
        if rng.random() < 0.3:
            driver.run(done[-1], commit=False)
        kill = threading.Timer(
            rng.uniform(0, 2 * usual), lambda: [os.kill(p, signal.SIGKILL) for p in processes(place)]
        )
        if rng.random() < 0.3 and not late:
            kill.start()
        begun = time.monotonic()
        driver.run(done[-1])
        usual = usual if driver.cause else time.monotonic() - begun
        if kill.ident is not None:
            kill.join()
        late = kill.ident is not None and not driver.cause  # The next batch is the one that finds the process dead.
    assert driver.stats["rebuilds"] >= 1
    driver.check(together(*done))


@pytest.mark.parametrize("kills", [1, 2])
def test_a_process_that_is_killed_as_it_starts(place: Path, monkeypatch: pytest.MonkeyPatch, kills: int) -> None:
    start, started = subprocess.Popen, []

    def killing(*given: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(start(*given, **more))
        if len(started) <= kills:
            started[-1].kill()
        return started[-1]

    monkeypatch.setattr("everview.spark.shard.client.subprocess.Popen", killing)
    driver = Driver()
    if kills == 1:
        driver.run({"r": [(1, 1, 1)], "s": [(1, 1, 1)]})
        assert driver.cause == "its process died"
    else:
        with pytest.raises(PipelineError, match="died twice"):
            driver.run({"r": [(1, 1, 1)], "s": [(1, 1, 1)]})
    assert len(started) == 2


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
        from everview.spark.shard.client import ShardClient
        from everview.spark.shard.messages import Apply
        from tests.spark.shards import Driver
        Driver(query="q").run({})
        print("done", flush=True)
        time.sleep(3600)
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
        until(lambda: not processes(place))
        until(lambda: not list(place.iterdir()))
        os.killpg(running.pid, signal.SIGKILL)  # The worker, which Spark's daemon would have ended.


def test_a_process_whose_executor_is_gone_already_does_not_stay(place: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    command = [
        sys.executable,
        "-m",
        "everview.spark.shard.server",
        str(place / "x.sock"),
        str(gone.pid),
        "3600",
        str(place),
    ]
    subprocess.run(command, check=True, timeout=600)


def test_an_orphaned_worker_starts_no_process_that_would_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    monkeypatch.setattr(workers, "PARENT", gone.pid)
    with pytest.raises(PipelineError, match="did not start"):
        Driver().run(FIRST)
    assert not processes(place)
    assert not files(place)


def test_a_worker_whose_daemon_died_before_it_looked_does_not_take_the_orphans_parent_for_it() -> None:
    """The daemon heads a group, forks a worker and is gone; only then the worker asks who began it."""
    script = textwrap.dedent("""
        import os
        os.setpgid(0, 0)
        daemon = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == daemon:
            pass
        from everview.spark import worker as workers
        print(daemon, workers.PARENT, flush=True)
    """)
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=600)
    daemon, parent = map(int, done.stdout.split())
    assert parent == daemon


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
    (folder(KEY) / "worker-died.lock").touch()
    (folder(KEY) / "host-died.7.parcel").touch()
    assert files(place) == [".lock", ".log", ".parcel", ".sock"]
    other.run(FIRST)
    assert files(place) == [".log", ".sock"]
    assert other.client().path.exists()
    other.client().path.with_suffix(".9.parcel").touch()
    sweep(folder(KEY))
    assert files(place) == [".log", ".parcel", ".sock"]
    other.run(SECOND)
    assert other.cause is None


def test_locks_exclude_each_other_and_leave_nothing(place: Path) -> None:
    path = folder(KEY) / "x.sock"
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


def taken(place: Path, by: str) -> Path:
    """The folder that a job would make is there already, and is not this user's alone."""
    path = place / f"everview-{os.getuid()}"
    match by:
        case "another user":
            path.mkdir(0o700)
            if os.geteuid() == 0:
                os.chown(path, 65_534, 65_534)
            else:
                path.chmod(0o777)
        case "mode":
            path.mkdir()
            path.chmod(0o755)
        case "file":
            path.write_text("in the way")
        case "link":
            (place / "elsewhere").mkdir(0o700)
            path.symlink_to(place / "elsewhere")
    return path


@pytest.mark.parametrize("by", ["another user", "mode", "file", "link"])
def test_a_folder_that_is_not_ours_alone_is_left_and_blocks_nobody(place: Path, by: str) -> None:
    path = taken(place, by)
    before = path.lstat()
    driver = Driver()
    driver.run(FIRST)
    chosen = driver.client().path.parent
    assert chosen != path
    assert (chosen.stat().st_uid, chosen.stat().st_mode & 0o777) == (os.getuid(), 0o700)
    assert folder(b"the key of another job") not in {chosen, path}
    assert folder(KEY) == chosen
    driver.run(SECOND)
    assert driver.cause is None
    driver.check(together(FIRST, SECOND))
    dismiss(driver.query, KEY)
    until(lambda: not processes(place))
    assert os.path.samestat(before, path.lstat())
    assert by == "file" or not list(path.iterdir())


def test_without_any_folder_it_is_refused(place: Path) -> None:
    taken(place, "file")
    (place / folder(KEY).name).rmdir()
    (place / f"everview-{tag(KEY, 'folder')}").write_text("in the way, too")
    with pytest.raises(PipelineError, match=r"no folder for shards' sockets: .* is no folder; .* is no folder"):
        Driver().run(FIRST)


def test_a_long_temporary_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    long = tmp_path / ("x" * 100)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    assert folder(KEY) == Path(f"/tmp/everview-{os.getuid()}")


def test_a_process_that_cannot_start_says_why(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "bin").write_text("#!/bin/sh\necho 'no module named everview' >&2\nexit 3\n")
    (place / "bin").chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(place / "bin"))
    with pytest.raises(PipelineError, match="did not start: no module named everview"):
        Driver().run(FIRST)
    assert files(place) == [""]


def test_what_lies_in_the_working_folder_is_not_run(place: Path, tmp_path: Path) -> None:
    """Spark's daemon has its working folder in front of its path, as every Python that is started with -m has."""
    for name in ("json", "sitecustomize", "pyarrow", "everview"):
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'was run')!r}, 'a').write({name!r})")
    worker = textwrap.dedent("""
        import sys, tempfile
        tempfile.tempdir = sys.argv[1]
        from tests.spark.shards import FIRST, Driver
        sys.path.insert(0, sys.argv[2])
        driver = Driver()
        driver.run(FIRST)
        print(driver.cause)
    """)
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-P", "-c", worker, str(place), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.stdout == "new\n", done.stderr
    assert not (tmp_path / "was run").exists()


def test_a_refusal_reaches_the_worker_as_it_is(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    with pytest.raises(BadRowError, match="cannot be taken in") as caught:
        driver.run({"r": [(77, 7, -1)]})
    assert caught.value.table == "r"
    driver.run(SECOND)
    assert driver.cause is None
    driver.check(together(FIRST, SECOND))
