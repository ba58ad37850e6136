"""A Spark worker's way to a shard's process: find it on this machine, start it if there is none, talk to it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from multiprocessing.connection import Client as connect
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType

from everview.errors import PipelineError
from everview.spark.messages import Apply, Done, Dump, Failed, Need, Rebuild

IDLE_SECONDS = 3600.0
"""A process that nobody has asked for so long ends; the shard is rebuilt when it is needed again."""

Rows = Callable[[], list[tuple[int, str, bytes]]]


class ShardClient:
    """A connection to one shard's process."""

    def __init__(self, query: str, shard: str, spec: bytes, first: bool) -> None:
        self.path = folder() / f"{_short(query)}-{_short(shard)}.sock"
        self.spec = spec
        self.first = first
        self.digest = self.digest_of(spec, first)
        self._connection: Connection | None = None

    @staticmethod
    def digest_of(spec: bytes, first: bool) -> str:
        """What tells a shard of one query from that of another."""
        return sha256(spec + bytes([first])).hexdigest()

    def apply(self, request: Apply, rows: Rows) -> tuple[Done, str | None]:
        """Have a batch applied; also gives why the shard had to be rebuilt from ``rows``, if it had."""
        cause = None
        bad: list[str] = []
        for attempt in range(2):
            try:
                reply = self._ask(request)
                if isinstance(reply, Need):
                    cause = cause or ("new" if request.before is None else "another version")
                    rebuilt = self._ask(Rebuild(self.spec, self.first, self.digest, request.before, rows()))
                    bad = rebuilt.bad if isinstance(rebuilt, Done) else []
                    reply = self._ask(request)
                break
            except (EOFError, ConnectionError) as error:
                self.close()
                cause = "its process died"
                if attempt:
                    raise PipelineError(
                        f"the process of a shard died twice while it worked on one batch: {error!r}",
                        hint="was it killed for lack of memory? use more shards, or a memory_limit for a clean error",
                    ) from error
        if not isinstance(reply, Done):
            raise PipelineError(f"a shard was rebuilt and is still at another version: {reply!r}")
        if bad and request.everything:
            reply = Done(reply.changes, bad + reply.bad, reply.stats, reply.accepted)
        return reply, cause

    def dump(self, token: str) -> list[tuple[str, bytes, int]] | None:
        """All base rows as of a version; None if the shard is at another."""
        reply = self._ask(Dump(token))
        return reply if isinstance(reply, list) else None

    def _ask(self, request: object) -> object:
        if self._connection is None:
            self._connection = _connected(self.path)
        self._connection.send(request)
        reply = self._connection.recv()
        if isinstance(reply, Failed):
            raise reply.error
        return reply

    def close(self) -> None:
        """Let the next worker in."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> ShardClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def folder() -> Path:
    """This user's private folder for sockets; short, as sockets' paths have to be."""
    path = Path(tempfile.gettempdir()) / f"everview-{os.getuid()}"
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PipelineError(
            f"{path} is open to other users, and shards' sockets would lie in it",
            hint=f"remove it, or make it private: chmod 700 {path}",
        )
    return path


def _connected(path: Path) -> Connection:
    """A connection to the process at a socket, which is started if it is not there."""
    try:
        return connect(str(path), "AF_UNIX")
    except (FileNotFoundError, ConnectionRefusedError):
        pass
    with _locked(path.with_suffix(".lock")):
        try:
            return connect(str(path), "AF_UNIX")
        except (FileNotFoundError, ConnectionRefusedError):
            path.unlink(missing_ok=True)
        _start(path)
        return connect(str(path), "AF_UNIX")


def _start(path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    command = [sys.executable, "-m", "everview.spark.host", str(path), str(os.getppid()), str(IDLE_SECONDS)]
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    assert process.stdout is not None
    with process.stdout:
        said = process.stdout.readline()
    if said != b"ready\n":
        reason = path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")[-2000:]
        raise PipelineError(
            f"the process of a shard did not start: {reason or 'it said nothing'}",
            hint="Everview must be installed for the Python of Spark's workers (PYSPARK_PYTHON)",
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
