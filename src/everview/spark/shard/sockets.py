"""Where shards' sockets lie on a machine: a private folder, a lock while one is made, and no leftovers.

A shard has up to three files there: ``.sock``, ``.log`` (its process's errors; locked by the process while it lives),
and ``.lock`` (while somebody starts the process or cleans up after it). Its spill files lie in Spark's local folders.
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from everview.errors import PipelineError
from everview.spark.shard.job_key import tag

MOST_BYTES: Final = 104
"""A socket's path may not be longer on all systems."""
_NAME: Final = len("/0123456789abcdef-0123456789abcdef.sock")
LOCAL_DIRS: Final = "SPARK_LOCAL_DIRS"
"""Where Spark tells its workers their executor's local folders."""


def folder(key: bytes) -> Path:
    """This user's private folder for sockets, which is made if it is not there.

    Its name can be guessed, so somebody else may have taken it. Then it is another one, which the job's key names: so
    nobody else can take that, and all workers of the job on this machine find it.
    """
    found = []
    for path in _places(key):
        why = _unfit(path)
        if why is None:
            return path
        found.append(f"{path} {why}")
    raise PipelineError(
        f"there is no folder for shards' sockets: {'; '.join(found)}",
        hint="set TMPDIR to a folder that Spark's workers may write to",
    )


def _places(key: bytes) -> list[Path]:
    """The folders that are tried, the better one first."""
    names = (f"everview-{os.getuid()}", f"everview-{tag(key, 'folder')}")
    base = tempfile.gettempdir()
    room = MOST_BYTES - _NAME - 2
    return [Path(base if len(os.fsencode(base)) + len(name) < room else "/tmp") / name for name in names]


def _unfit(path: Path) -> str | None:
    """Make a folder if it is not there; says why it cannot be used, if it cannot."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        return "is no folder"
    except OSError as error:
        return f"cannot be made ({error.strerror})"
    return _foreign(path)


def _foreign(path: Path) -> str | None:
    """Why a folder is not this user's alone, if it is not."""
    try:
        status = path.lstat()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    if not stat.S_ISDIR(status.st_mode):
        return "is no folder"
    if status.st_uid != os.getuid():
        return "belongs to another user"
    return "is open to other users" if status.st_mode & 0o077 else None


def socket_of(query: str, shard: str, key: bytes) -> Path:
    """Where a shard of a query is reached."""
    return folder(key) / f"{tag(key, query)}-{tag(key, shard)}.sock"


def spill_folder(socket: Path) -> Path:
    """Where a shard's process leaves what is too large to be sent: in a local folder of Spark's executor.

    Spark removes those with the executor. Outside of a worker of Spark's it is the folder of the socket.
    """
    local = [Path(p) for p in os.environ.get(LOCAL_DIRS, "").split(",") if p]
    first = sum(socket.stem.encode()) % len(local) if local else 0
    for place in (*local[first:], *local[:first]):
        path = place / "everview"
        if place.is_absolute() and place.is_dir() and _unfit(path) is None:
            return path
    return socket.parent


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
            why = _unfit(lock.parent)
            if why is not None:
                raise PipelineError(f"{lock.parent} {why}, and shards' sockets lay in it") from None
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
    for path in (socket, *socket.parent.glob(f"{socket.stem}.*")):
        if path.suffix != ".lock":
            path.unlink(missing_ok=True)


def dismiss(query: str, key: bytes) -> None:
    """Take the sockets of a query away that has stopped: the processes behind them see that, and end."""
    for place in _places(key):
        if _foreign(place) is not None:
            continue
        for socket in place.glob(f"{tag(key, query)}-*.sock"):
            with suppress(OSError), locked(socket, wait=False):
                clear(socket)
        with suppress(OSError):
            place.rmdir()


def sweep(place: Path) -> None:
    """Remove what processes that were killed have left behind in a folder."""
    for socket in {path.with_name(path.name.partition(".")[0] + ".sock") for path in place.iterdir()}:
        with suppress(BlockingIOError), locked(socket, wait=False):
            try:
                with socket.with_suffix(".log").open("rb") as log:
                    fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    clear(socket)
            except FileNotFoundError:
                clear(socket)


def _is_at(file: int, path: Path) -> bool:
    """True if an open file is still the one that has the name."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
