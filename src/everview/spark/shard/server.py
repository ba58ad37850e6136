"""Where shards live: a process for each, on the machine where Spark runs it, that outlives Spark's Python workers.

Spark hands a shard to any Python worker of a machine, and to another one in the next batch. So a shard's state is kept
in a process of its own, which every worker of the machine reaches through a socket in a private folder. It says which
*version* it is at: a token that Spark's state store holds as well. Equal tokens mean equal state. At the token of the
version before, which a retried task has, the last batch is taken back. At any other (a moved shard, a restart from a
checkpoint), the shard is rebuilt from the rows in the state store.

    python -P -m everview.spark.shard.server SOCKET PARENT IDLE SPILL

The job's key comes on standard input. Only who has it is answered; what is said is JSON and Arrow, and never run.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from time import monotonic, sleep

import pyarrow as pa
import pyarrow.compute as pc

from everview.errors import EverviewError, PipelineError
from everview.spark.exchange.arrow_blob import WEIGHT, read_blob, write_blob
from everview.spark.shard.channel import BACKLOG, PATIENCE_SECONDS, Door, is_next_to_speak
from everview.spark.shard.messages import Apply, Done, Dump, Dumped, Failed, Load, Need, Ready, Rebuild, Rebuilt
from everview.spark.shard.output.address import sent
from everview.spark.shard.output.change_buffer import ChangeBuffer
from everview.spark.shard.output.spill_file import Spills
from everview.spark.shard.shard import Outcome, Shard, ShardSpec
from everview.spark.shard.sockets import clear, hold, locked
from everview.spark.shard.wire import Message, WireError, receive, send

CHECK_SECONDS = 1.0
DUMP_BYTES = 32 << 20
"""Base rows are given in parts of about this size."""
MOST_UNDO = 16 << 20
"""Of a batch that is larger, in bytes as it is stored, nothing is kept to take it back by: the shard is rebuilt."""


@dataclass
class _Building:
    """A shard that is being made of its base rows, and those of them that were put aside."""

    shard: Shard
    digest: str
    bad: list[str] = field(default_factory=list)
    waiting: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Rows of the last batch: only as a whole can it be taken in."""

    def load(self, rows: list[tuple[int, str, bytes]]) -> None:
        """Take rows in as far as their batches have ended."""
        for row in rows:
            if self.waiting and self.waiting[0][0] != row[0]:
                self.flush()
            self.waiting.append(row)

    def flush(self) -> None:
        """There are no more rows of the last batch."""
        batch, self.waiting = self.waiting, []
        self.bad += self.shard.load(_tables((name, blob) for _, name, blob in batch))


class ShardServer:
    """One shard, its version, and the requests that change them."""

    def __init__(self, spills: Spills | None = None) -> None:
        self.spills = spills
        self.shard: Shard | None = None
        self.digest = ""
        self.token: str | None = None
        self.last: tuple[str | None, list[tuple[str, bytes]]] | None = None
        """The version before, and the batch that led from it to this one; None if that is not known."""
        self.rebuilds = self.undone = 0
        self._building: _Building | None = None
        self._dumping: Iterator[tuple[str, bytes, int]] | None = None

    def answer(self, request: Message) -> Message:
        """What a request gives; a failure leaves the shard as it was, or marks it as unknown."""
        if not isinstance(request, Load | Rebuilt):
            self._building = None
        if not isinstance(request, Dump):
            self._dumping = None
        match request:
            case Rebuild():
                self._give_up()
                spec = ShardSpec.from_data(json.loads(request.spec))
                self._building = _Building(Shard(spec, request.clock), request.digest)
                return Ready()
            case Load():
                self._load(request)
                return Ready()
            case Rebuilt():
                return self._rebuilt(request)
            case Apply():
                return self.apply(request)
            case Dump():
                return self._dump(request)
        raise TypeError(f"not a request: {request!r}")

    def _load(self, request: Load) -> None:
        """Take some of the base rows in of which the shard is being made."""
        made, self._building = self._building, None
        assert made is not None
        made.load(request.rows)
        self._building = made

    def _rebuilt(self, request: Rebuilt) -> Done:
        made, self._building = self._building, None
        assert made is not None
        made.flush()
        if request.whole and made.bad:
            raise PipelineError(
                f"a shard cannot be rebuilt: of its own log a row is refused that it had taken in: {made.bad[0]}",
                hint="this is a fault of Everview's; please report the query. Nothing is lost",
            )
        self.shard, self.digest, self.token = made.shard, made.digest, request.token
        self.rebuilds += 1
        return Done({}, made.bad, {})

    def _dump(self, request: Dump) -> Need | Dumped:
        """The next of the shard's base rows."""
        if not request.more:
            at = self.shard is not None and self.token == request.token
            self._dumping = self.shard.dump() if self.shard is not None and at else None
        if self._dumping is None:
            return Need()
        found: list[tuple[str, bytes, int]] = []
        while sum(len(blob) for _, blob, _ in found) < DUMP_BYTES:
            piece = next(self._dumping, None)
            if piece is None:
                break
            found.append(piece)
        return Dumped(found)

    def apply(self, request: Apply) -> Need | Done:
        """Take a batch in, if the shard is at the version that it follows."""
        if self.spills is not None and request.leave is not None:
            self.spills.clear(request.leave.batch)
        if self.shard is None or self.digest != request.digest or not self._is_at(request.before):
            return Need()
        shard = self.shard
        rows = _tables(request.rows)
        buffers = self._spools(request)
        shard.batch = request.batch
        moves = request.clock is not None and request.clock[0] != request.clock[1]
        outcome = self._taken_in(shard, rows, buffers, None if request.clock is None else request.clock[1])
        if rows or moves:
            self.token, self.last = request.after, None
        if request.everything:
            for buffer in buffers.values():
                buffer.clear()
            for name, batch in shard.contents():
                buffers[name].add(batch)
        stats = shard.stats() if request.stats else {}
        accepted = None
        if outcome.refused:
            accepted = [(name, write_blob(data, stored=True)) for name, data in outcome.accepted]
        taken = request.rows if accepted is None else accepted
        if rows and not moves and sum(len(blob) for _, blob in taken) <= MOST_UNDO:
            self.last = request.before, taken
        stats |= {"rebuilds": self.rebuilds, "undone": self.undone, "pid": os.getpid()}
        return Done(sent(buffers, request.merge_shards), outcome.bad, stats, accepted)

    def _spools(self, request: Apply) -> dict[str, ChangeBuffer]:
        """Where each view's changes go: those for a second step do not stay on this machine."""
        assert self.shard is not None
        onward = request.merge_shards.columns if request.merge_shards is not None else {}
        views = [v.name for v in self.shard.spec.views]
        return {name: ChangeBuffer(None if name in onward else self.spills, request.leave) for name in views}

    def _is_at(self, token: str | None) -> bool:
        """True if the shard is at a version, or could go back to it."""
        if self.token == token:
            return True
        if self.shard is None or self.last is None or self.last[0] != token:
            return False
        taken = self.last[1]
        outcome = self._taken_in(self.shard, {name: [_negated(t) for t in ts] for name, ts in _tables(taken).items()})
        if outcome.refused:
            self._give_up()
            return False
        self.token, self.last = token, None
        self.undone += 1
        return True

    def _taken_in(
        self,
        shard: Shard,
        rows: dict[str, list[pa.Table]],
        buffers: dict[str, ChangeBuffer] | None = None,
        clock: int | None = None,
    ) -> Outcome:
        """Apply a batch, at a time if anything goes by the clock.

        Where it cannot be said that a failure has left all as it was, the shard is given up.
        """
        before = shard.db.version
        try:
            return shard.apply(rows, buffers, clock)
        except BaseException as error:
            for buffer in (buffers or {}).values():
                buffer.clear()
            if not isinstance(error, EverviewError) or shard.db.version != before:
                self._give_up()
            raise

    def _give_up(self) -> None:
        """Forget the shard; its memory is free before it is rebuilt."""
        self.shard = self.token = self.last = None


def _negated(rows: pa.Table) -> pa.Table:
    """What takes rows back."""
    return rows.set_column(rows.schema.get_field_index(WEIGHT), WEIGHT, pc.negate(rows.column(WEIGHT)))


def _tables(rows: Iterable[tuple[str, bytes]]) -> dict[str, list[pa.Table]]:
    found: dict[str, list[pa.Table]] = {}
    for name, blob in rows:
        found.setdefault(name, []).append(read_blob(blob))
    return found


def serve(path: Path, parent: int, idle: float, spill: Path) -> None:
    """Answer one worker after the other until nobody needs the shard any more."""
    born = started(parent)
    if born is None:
        return
    key = bytes.fromhex(sys.stdin.readline())
    if not key:
        sys.exit("the key of the job has to come on standard input")
    spills = Spills(spill, path.stem)
    spills.inherit()
    with suppress(OSError):  # Started by hand, it has no log of its own.
        hold(sys.stderr.fileno())
    with _private():
        listener = Listener(str(path), "AF_UNIX", backlog=BACKLOG)
    last = [monotonic()]
    watch = threading.Thread(target=_watch, args=(path, parent, born, idle, last, spills), daemon=True)
    watch.start()
    with suppress(BrokenPipeError):  # The worker that wanted the shard is gone; the next one will come.
        os.write(sys.stdout.fileno(), b"ready\n")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    answer_all(ShardServer(spills), Door(listener, key), last)


@contextmanager
def _private() -> Iterator[None]:
    """What is made meanwhile is for this user only, from its first moment on."""
    before = os.umask(0o177)
    try:
        yield
    finally:
        os.umask(before)


def answer_all(host: ShardServer, door: Door, last: list[float], patience: float = PATIENCE_SECONDS) -> None:
    """Serve all who come in, one after the other; who says nothing for long makes room for the next one."""
    while True:
        with door.next() as connection:
            _converse(host, connection, door, last, patience)


def _converse(host: ShardServer, connection: Connection, door: Door, last: list[float], patience: float) -> None:
    while is_next_to_speak(connection, door, patience):
        last[0] = float("inf")  # Busy is not idle.
        try:
            send(connection, _answer(host, receive(connection)))
        except (EOFError, OSError, WireError):  # It went, or hangs in the middle of a message, or is not one of us.
            return
        finally:
            last[0] = monotonic()


def _answer(host: ShardServer, request: Message) -> Message:
    try:
        return host.answer(request)
    except Exception as error:  # whatever it is, the worker shall hear of it
        return Failed(error, "" if isinstance(error, EverviewError) else traceback.format_exc())


def _watch(path: Path, parent: int, born: str, idle: float, last: list[float], spills: Spills) -> None:
    """End the process once its executor is gone, its socket is, or nobody has asked for long."""
    own = path.stat()
    while True:
        sleep(CHECK_SECONDS)
        try:
            mine = os.path.samestat(own, path.stat())
        except OSError:
            mine = False
        if not mine or started(parent) != born or monotonic() - last[0] > idle:
            spills.close()
            if mine:
                _tidy(path)
            os._exit(0)


def _tidy(path: Path) -> None:
    """Leave nothing behind; if another process is being started here just now, the rest is its own."""
    with suppress(OSError):
        with locked(path, wait=False):
            clear(path)
        path.parent.rmdir()


def started(process: int) -> str | None:
    """When a process began, which tells it from a later one with its number; None if there is none, or a dead one."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self").exists():
            return None
    else:
        return None if state in "ZX" else rest[18]
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    return "running"


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4]))
