"""Where shards' sockets lie on a machine: a private folder, a lock while one is made, and no leftovers.

A shard has up to three files there: ``.sock``, ``.log`` (its process's errors; locked by the process while it lives),
and ``.lock`` (while somebody starts the process or cleans up after it); and, while a batch runs, its parcels.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from everview.errors import PipelineError
from everview.spark.parcels import SUFFIX

MOST_BYTES: Final = 104
"""A socket's path may not be longer on all systems."""
_NAME: Final = 48
"""Bytes of a folder's and a socket's name together."""


def folder() -> Path:
    """This user's private folder for sockets, which is made if it is not there."""
    path = _place()
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise PipelineError(
            f"there is no folder for shards' sockets: {error}",
            hint="set TMPDIR to a folder that Spark's workers may write to",
        ) from error
    if status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise PipelineError(
            f"{path} is open to other users, and shards' sockets would lie in it",
            hint=f"remove it, or make it private: chmod 700 {path}",
        )
    return path


def _place() -> Path:
    base = tempfile.gettempdir()
    return Path(base if len(os.fsencode(base)) + _NAME < MOST_BYTES else "/tmp") / f"everview-{os.getuid()}"


def socket_of(query: str, shard: str) -> Path:
    """Where a shard of a query is reached."""
    return folder() / f"{_short(query)}-{_short(shard)}.sock"


@contextmanager
def locked(socket: Path, *, wait: bool = True) -> Iterator[None]:
    """Keep all others from starting a process for a socket, and from cleaning up after one.

    Without waiting: BlockingIOError if somebody else does so now.
    """
    lock = socket.with_suffix(".lock")
    while True:
        try:
            file = lock.open("w")
        except FileNotFoundError:  # The last process of the machine has ended, and the folder went with it.
            folder()
            continue
        with file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            if not _is_at(file.fileno(), lock):
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def hold(log: int) -> None:
    """Mark a log as that of a living process: this one, until it ends in whatever way."""
    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)


def clear(socket: Path) -> None:
    """Remove the files of a process that has ended, or is about to; the caller has the lock."""
    socket.unlink(missing_ok=True)
    socket.with_suffix(".log").unlink(missing_ok=True)
    for parcel in socket.parent.glob(f"{socket.stem}.*{SUFFIX}"):
        parcel.unlink(missing_ok=True)


def dismiss(query: str) -> None:
    """Take the sockets of a query away that has stopped: the processes behind them see that, and end."""
    place = _place()
    for socket in place.glob(f"{_short(query)}-*.sock"):
        with suppress(BlockingIOError), locked(socket, wait=False):
            clear(socket)
    with suppress(OSError):
        place.rmdir()


def sweep() -> None:
    """Remove what processes that were killed have left behind."""
    place = folder()
    for socket in {path.with_name(path.name.partition(".")[0] + ".sock") for path in place.iterdir()}:
        with suppress(BlockingIOError), locked(socket, wait=False):
            try:
                with socket.with_suffix(".log").open("rb") as log:
                    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    clear(socket)
            except FileNotFoundError:
                clear(socket)


def _short(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _is_at(file: int, path: Path) -> bool:
    """True if an open file is still the one that has the name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
