"""The way between a worker and a shard's process: a Unix socket, on which both first show that they have the job's key.

``multiprocessing`` does that by a challenge each way (an HMAC of random bytes), so neither the key nor anything that
could be used a second time is ever on the socket. A connection has time limits: who is silent in the middle of a
message is cut off, and so is who is silent between two messages while somebody else waits.
"""

from __future__ import annotations

import os
import socket
import struct
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic, sleep
from typing import Final

from everview.errors import PipelineError

HANDSHAKE_SECONDS: Final = 300.0
"""How long the other end may take for each step of showing its key."""
STALL_SECONDS: Final = 300.0
"""How long the other end may say nothing in the middle of a message, or not take a part of one."""
PATIENCE_SECONDS: Final = 60.0
"""How long who is connected may say nothing at all while others wait."""
BACKLOG: Final = 64
_LOOK_SECONDS: Final = 1.0


class GoneError(Exception):
    """The other end went away while it was asked for its key; ``process`` is its number."""

    def __init__(self, process: int, why: str) -> None:
        super().__init__(why)
        self.process = process


def reached(path: Path, key: bytes, *, seconds: float = HANDSHAKE_SECONDS) -> Connection | None:
    """A connection to whoever listens at a socket and has the key; None if nobody listens."""
    try:
        connection = Client(str(path), "AF_UNIX")
    except (FileNotFoundError, ConnectionError):
        return None
    process = peer(connection)
    try:
        _limit(connection, seconds)
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        _limit(connection, 0.0)  # A batch takes as long as it takes.
    except BlockingIOError as error:
        connection.close()
        raise PipelineError(
            f"process {process}, which listens at {path}, has not answered for {seconds:g} seconds",
            hint="end it: its shard is rebuilt by another one",
        ) from error
    except (AuthenticationError, AssertionError) as error:
        connection.close()
        raise PipelineError(
            f"process {process}, which listens at {path}, is no process of this job: it does not have its key",
            hint="find out what it is, and end it",
        ) from error
    except (EOFError, OSError) as error:
        connection.close()
        raise GoneError(process, repr(error)) from error
    return connection


class Door:
    """Where workers come in: those that have shown the key wait until it is their turn."""

    def __init__(self, listener: Listener, key: bytes, *, seconds: float = HANDSHAKE_SECONDS) -> None:
        self._listener = listener
        self._key = key
        self._seconds = seconds
        self._waiting: SimpleQueue[Connection] = SimpleQueue()
        Thread(target=self._accept, name="everview-door", daemon=True).start()

    def next(self) -> Connection:
        """The next worker, whenever it comes."""
        return self._waiting.get()

    def is_waited_at(self) -> bool:
        """True if there is a next worker already."""
        return not self._waiting.empty()

    def _accept(self) -> None:
        """Each is asked for the key on its own, so that nobody can keep the others out by saying nothing."""
        while True:
            try:
                connection = self._listener.accept()
            except OSError:  # It may have no more files to open, until others have been closed.
                if _is_closed(self._listener):
                    return
                sleep(_LOOK_SECONDS)
                continue
            Thread(target=self._admit, args=(connection,), name="everview-admission", daemon=True).start()

    def _admit(self, connection: Connection) -> None:
        try:
            _limit(connection, self._seconds)
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            _limit(connection, STALL_SECONDS)
        except (AuthenticationError, AssertionError, EOFError, OSError):
            connection.close()
            return
        self._waiting.put(connection)


def is_next_to_speak(connection: Connection, door: Door, patience: float = PATIENCE_SECONDS) -> bool:
    """Wait until the other end says something, or has gone; False if it is not to be waited for any longer."""
    begun = monotonic()
    try:
        while not connection.poll(_LOOK_SECONDS):
            if door.is_waited_at() and monotonic() - begun > patience:
                return False
    except OSError:
        return False
    return True


def peer(connection: Connection) -> int:
    """The number of the process at the other end; 0 where that cannot be known."""
    if not hasattr(socket, "SO_PEERCRED"):
        return 0
    with suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as other:
        pid: int = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        return pid
    return 0


def _limit(connection: Connection, seconds: float) -> None:
    """From now on, who waits for so long for the other end in vain gets a BlockingIOError; 0: nobody ever does."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1_000_000))
    with socket.socket(fileno=os.dup(connection.fileno())) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


def _is_closed(listener: Listener) -> bool:
    try:
        return not Path(str(listener.address)).exists()
    except (OSError, AttributeError):  # A listener that was closed has forgotten where it was.
        return True
