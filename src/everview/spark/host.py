"""Where shards live: a process for each, on the machine where Spark runs it, that outlives Spark's Python workers.

Spark hands a shard to any Python worker of a machine, and to another one in the next batch. So a shard's state is kept
in a process of its own, which every worker of the machine reaches through a socket in a private folder. It says which
*version* it is at: a token that Spark's state store holds as well. Equal tokens mean equal state; any other token (a
retried task, a moved shard, a restart from a checkpoint) and the shard is rebuilt from the rows in the state store.

    python -m everview.spark.host SOCKET PARENT IDLE
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Iterable
from itertools import groupby
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pyarrow as pa

from everview.spark.blobs import read_blob, write_blob
from everview.spark.messages import Apply, Done, Dump, Failed, Need, Rebuild
from everview.spark.sending import sent
from everview.spark.shard import Shard, ShardSpec

CHECK_SECONDS = 1.0


class Host:
    """One shard, its version, and the requests that change them."""

    def __init__(self) -> None:
        self.shard: Shard | None = None
        self.digest = ""
        self.token: str | None = None
        self.rebuilds = 0

    def answer(self, request: object) -> object:
        """What a request gives; a failure leaves the shard as it was, or marks it as unknown."""
        match request:
            case Rebuild():
                return self.rebuild(request)
            case Apply():
                return self.apply(request)
            case Dump():
                return list(self.shard.dump()) if self.shard is not None and self.token == request.token else Need()
        raise TypeError(f"not a request: {request!r}")

    def rebuild(self, request: Rebuild) -> object:
        """Make the shard anew from its base rows."""
        self.token = None
        spec = pickle.loads(request.spec)
        assert isinstance(spec, ShardSpec)
        self.shard = None  # The old one's memory goes before the new one's comes.
        shard = Shard(spec, request.first)
        bad: list[str] = []
        for _, batch in groupby(request.rows, key=lambda row: row[0]):
            bad += shard.load(_tables((name, blob) for _, name, blob in batch))
        self.shard, self.digest, self.token = shard, request.digest, request.token
        self.rebuilds += 1
        return Done({}, bad, {})

    def apply(self, request: Apply) -> object:
        """Take a batch in, if the shard is at the version that it follows."""
        if self.shard is None or self.digest != request.digest or self.token != request.before:
            return Need()
        shard = self.shard
        rows = _tables(request.rows)
        outcome = shard.apply(rows)
        if rows:
            self.token = request.after
        if request.everything:
            changes: dict[str, list[pa.RecordBatch]] = {}
            for name, batch in shard.contents():
                changes.setdefault(name, []).append(batch)
        else:
            changes = outcome.changes
        stats = shard.stats() if request.stats else {}
        accepted = None
        if outcome.refused:
            accepted = [(name, write_blob(data, stored=True)) for name, data in outcome.accepted]
        stats |= {"rebuilds": self.rebuilds, "pid": os.getpid()}
        return Done(sent(changes, request.targets), outcome.bad, stats, accepted)


def _tables(rows: Iterable[tuple[str, bytes]]) -> dict[str, list[pa.Table]]:
    found: dict[str, list[pa.Table]] = {}
    for name, blob in rows:
        found.setdefault(name, []).append(read_blob(blob))
    return found


def serve(path: Path, parent: int, idle: float) -> None:
    """Answer one worker after the other until nobody needs the shard any more."""
    host = Host()
    listener = Listener(str(path), "AF_UNIX")
    path.chmod(0o600)
    last = [monotonic()]
    watch = threading.Thread(target=_watch, args=(path, parent, idle, last), daemon=True)
    watch.start()
    print("ready", flush=True)
    sys.stdout.close()
    while True:
        connection = listener.accept()
        with connection:
            _converse(host, connection, last)


def _converse(host: Host, connection: Connection, last: list[float]) -> None:
    while True:
        try:
            request = connection.recv()
        except (EOFError, OSError):
            return
        last[0] = float("inf")  # Busy is not idle.
        reply: Any
        try:
            reply = host.answer(request)
        except Exception as error:
            reply = Failed(error, traceback.format_exc())
        last[0] = monotonic()
        try:
            connection.send(reply)
        except (pickle.PicklingError, TypeError, AttributeError):
            connection.send(Failed(RuntimeError(str(reply)), ""))
        except OSError:
            return


def _watch(path: Path, parent: int, idle: float, last: list[float]) -> None:
    """End the process once its executor is gone, its socket is, or nobody has asked for long."""
    born = started(parent)
    while True:
        sleep(CHECK_SECONDS)
        if started(parent) != born or not path.exists() or monotonic() - last[0] > idle:
            path.unlink(missing_ok=True)
            os._exit(0)


def started(process: int) -> str | None:
    """When a process began, which tells it from a later one with its number; None if there is none."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        if Path("/proc/self").exists():
            return None
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    return "running"


if __name__ == "__main__":
    serve(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
