"""A Spark worker's way to a shard's process: find it on this machine, start it if there is none, talk to it."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from hashlib import sha256
from multiprocessing.connection import Connection
from pathlib import Path
from time import sleep
from types import TracebackType

from everview import errors
from everview.errors import PipelineError
from everview.spark import worker
from everview.spark.shard.channel import GoneError, peer, reached
from everview.spark.shard.messages import Apply, Done, Dump, Dumped, Failed, Load, Need, Rebuild, Rebuilt
from everview.spark.shard.sockets import clear, locked, socket_of, spill_folder, sweep
from everview.spark.shard.wire import Message, WireError, receive, send

IDLE_SECONDS = 3600.0
"""A process that nobody has asked for so long ends; the shard is rebuilt when it is needed again."""

MOST_TRIES = 1_000
TRY_SECONDS = 0.01
"""How often, and after how long, a process is tried again that is dying and can still be reached."""
END_SECONDS = 1.0
"""How long a process that has closed its output may take to end."""
MOST_LOG = 2_000
"""Of a process's last words so many characters are shown."""

LOAD_BYTES = 32 << 20
"""Base rows are sent in parts of about this size, so that the worker needs no memory for all of them."""

Logged = tuple[int, str, bytes]
Rows = Callable[[], Iterable[Logged]]


_started: list[subprocess.Popen[bytes]] = []
"""The processes that this worker has started; once they have ended, they are to be waited for."""


class DiedError(Exception):
    """The process of a shard, by its number, ended before it had answered."""

    def __init__(self, process: int, last_words: str) -> None:
        super().__init__(last_words)
        self.process = process


class NoDumpError(Exception):
    """The shard is at another version, or is no more."""

    def __init__(self) -> None:
        super().__init__("a shard does not give its rows: its process has died, or is at another version")


class ShardClient:
    """A connection to one shard's process, for who has the job's key; ``spec`` is compressed, as an operator has it."""

    def __init__(self, query: str, shard: str, spec: bytes, key: bytes) -> None:
        self.path = socket_of(query, shard, key)
        self.key = key
        self.spec = spec
        self.digest = sha256(spec).hexdigest()
        self._connection: Connection | None = None

    def apply(self, request: Apply, rows: Rows) -> tuple[Done, str | None]:
        """Have a batch applied; also gives why the shard had to be rebuilt from ``rows``, if it had."""
        cause, dead = None, 0
        for _ in range(MOST_TRIES):
            try:
                reply, bad, why = self._apply(request, rows)
                break
            except DiedError as error:
                self.close()
                if cause is not None and error.process and error.process == dead:
                    sleep(TRY_SECONDS)  # One that is dying can still be reached for a moment.
                    continue
                if cause is not None:
                    raise PipelineError(
                        f"the process of a shard died twice while it worked on one batch: {error}",
                        hint="was it killed for lack of memory? use more shards, or a memory_limit for a clean error",
                    ) from error
                cause, dead = "its process died", error.process
        else:
            raise PipelineError(f"process {dead} of a shard neither ends nor answers", hint="end it: it is rebuilt")
        if not isinstance(reply, Done):
            raise PipelineError(f"a shard was rebuilt and is still at another version: {reply!r}")
        if bad:
            reply = Done(reply.changes, bad + reply.bad, reply.stats, reply.accepted)
        return reply, cause or why

    def _apply(self, request: Apply, rows: Rows) -> tuple[Message, list[str], str | None]:
        """One try: the reply, the rows that a rebuild has put aside, and why there was one."""
        reply = self._ask(request)
        if not isinstance(reply, Need):
            return reply, [], None
        bad = self._rebuild(request, rows())
        return self._ask(request), bad, "new" if request.before is None else "another version"

    def _rebuild(self, request: Apply, rows: Iterable[Logged]) -> list[str]:
        """Have the shard made anew from its base rows; gives those that were put aside, where there may be any."""
        self._ask(Rebuild(zlib.decompress(self.spec), self.digest, None if request.clock is None else request.clock[0]))
        for part in _parts(rows):
            self._ask(Load(part))
        rebuilt = self._ask(Rebuilt(request.before, whole=not request.everything))
        return rebuilt.bad if isinstance(rebuilt, Done) else []

    def dump(self, token: str) -> Iterator[tuple[str, bytes, int]]:
        """All base rows as of a version, with their tables and numbers of rows; NoDumpError if it cannot be."""
        more = False
        while True:
            try:
                found = self._ask(Dump(token, more))
            except DiedError as error:
                self.close()
                raise NoDumpError from error
            if not isinstance(found, Dumped):
                raise NoDumpError
            if not found.rows:
                return
            yield from found.rows
            more = True

    def _ask(self, request: Message) -> Message:
        if self._connection is None:
            self._connection = _connected(self.path, self.key)
        try:
            send(self._connection, request)
            reply = receive(self._connection)
        except (EOFError, OSError, WireError) as error:  # OSError also says that a reply ended in its middle.
            raise DiedError(peer(self._connection), _last_words(self.path) or repr(error)) from error
        if isinstance(reply, Failed):
            if reply.trace:
                reply.error.add_note(f"In the shard's process:\n{reply.trace}")
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


def _parts(rows: Iterable[Logged]) -> Iterator[list[Logged]]:
    """Rows in parts of some size."""
    waiting: list[Logged] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row[2])
        if size >= LOAD_BYTES:
            yield waiting
            waiting, size = [], 0
    if waiting:
        yield waiting


def _connected(path: Path, key: bytes) -> Connection:
    """A connection to the process at a socket, which is started if it is not there."""
    found = _reached(path, key)
    if found is not None:
        return found
    with locked(path):
        found = _reached(path, key)
        if found is not None:
            return found
        sweep(path.parent)
        clear(path)
        process = _start(path, key)
        found = _reached(path, key)
    if found is None:
        raise DiedError(process, _last_words(path) or "it ended as soon as it was ready")
    return found


def _reached(path: Path, key: bytes) -> Connection | None:
    try:
        return reached(path, key)
    except GoneError as error:
        raise DiedError(error.process, _last_words(path) or str(error)) from error


def _start(path: Path, key: bytes) -> int:
    """Start the process of a shard, and wait until it can be reached; gives its number.

    It works in the folder where it leaves large changes: what DuckDB might put beside its work would be there, too.
    """
    _started[:] = [p for p in _started if p.poll() is None]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_search_path())}
    spill = spill_folder(path)
    command = [os.path.abspath(sys.executable), "-P", "-m", "everview.spark.shard.server"]
    command += [str(path), str(worker.PARENT), str(IDLE_SECONDS), str(spill)]
    with path.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            cwd=spill,
            start_new_session=True,
        )
    _started.append(process)
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError), process.stdin:
        process.stdin.write(f"{key.hex()}\n".encode())
    with process.stdout:
        said = process.stdout.readline()
    if said != b"ready\n":
        try:
            code = process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = abs(process.wait())
        reason = _last_words(path)
        clear(path)
        if code < 0:
            raise DiedError(process.pid, reason or f"it was ended by signal {-code} as it started")
        raise PipelineError(
            f"the process of a shard did not start: {reason or 'it said nothing'}",
            hint="Everview must be installed for the Python of Spark's workers (PYSPARK_PYTHON)",
        )
    return process.pid


def _search_path() -> list[str]:
    """Where this worker finds its modules, so that the process finds the same ones.

    Not in the working folder, which Spark's daemon has in front: a file ``json.py`` that lies there would be run. Only
    if that is where Everview is, it has to be looked at.
    """
    working, ours = Path.cwd(), Path(errors.__file__).resolve().parent.parent
    return [os.path.abspath(p) for p in sys.path if p and (Path(p).resolve() != working or working == ours)]


def _last_words(path: Path) -> str:
    """The end of what a process has written to its log."""
    try:
        return path.with_suffix(".log").read_text(encoding="utf-8", errors="replace")[-MOST_LOG:].strip()
    except OSError:
        return ""
