"""The log of a durable database: records that are appended one after the other, each on the disk before it counts.

Layout: a header (magic, format, checksum), and then for each record its length, the checksum of its content, the
checksum of these two, and the content. A process that dies while it appends leaves a last record that is cut off, or
whose bytes never reached the disk: it was told to nobody, and is dropped when the log is opened. Anything else that is
wrong is damage, which is told: records after it would be lost without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import Final
from zlib import crc32

from everview.errors import ClosedError, SnapshotError

FORMAT: Final = 1
_MAGIC: Final = b"EVERVIEW-LOG\r\n\x1a\n"
_HEADER: Final = Struct("<16sII")
_RECORD: Final = Struct("<QII")
_REOPEN: Final = "close it and open it again: it then holds what was on the disk"
_DAMAGED: Final = "restore the folder from a backup; if there is none, fill a new database from the sources"


class LogFile:
    """A log, opened to be read once and then to be appended to."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._why_refused: SnapshotError | ClosedError | None = None
        self.size = os.fstat(self._file).st_size
        """How many bytes of it count."""
        if self.size < _HEADER.size:  # Its first record cannot have been told to anybody.
            self._begin()

    def _begin(self) -> None:
        head = _HEADER.pack(_MAGIC, FORMAT, crc32(_MAGIC + FORMAT.to_bytes(4, "little")))
        try:
            os.ftruncate(self._file, 0)
            _write(self._file, head, 0)
            os.fsync(self._file)
        except OSError as error:
            raise _refused(self._path, error) from error
        self.size = len(head)

    def records(self) -> Iterator[bytes]:
        """The content of each record, in order; the last one is dropped if it never got to the disk whole."""
        end = self.size
        magic, version, check = _HEADER.unpack(self._read(0, _HEADER.size))
        if magic != _MAGIC or check != crc32(magic + version.to_bytes(4, "little")):
            raise self._damaged("its header is wrong")
        if version > FORMAT:
            raise SnapshotError(
                f"{self._path} has format {version}, and this Everview reads formats up to {FORMAT}",
                hint="open it with the newer Everview that wrote it",
            )
        at = _HEADER.size
        while at < end:
            if end - at < _RECORD.size or not any(head := self._read(at, _RECORD.size)):
                break
            length, content_check, check = _RECORD.unpack(head)
            if check != crc32(head[:-4]):
                raise self._damaged(f"the head of a record at byte {at} is wrong")
            following = at + _RECORD.size + length
            if following > end:
                break
            content = self._read(at + _RECORD.size, length)
            if crc32(content) != content_check:
                if following == end:
                    break
                raise self._damaged(f"the record at byte {at} is wrong")
            yield content
            at = following
        self._cut(at)

    def append(self, content: bytes) -> None:
        """Add a record; it is on the disk afterwards, or the log is as it was and a SnapshotError says why."""
        if self._why_refused is not None:
            raise self._why_refused
        head = _RECORD.pack(len(content), crc32(content), 0)[:-4]
        try:
            _write(self._file, head + crc32(head).to_bytes(4, "little") + content, self.size)
        except OSError as error:
            self._cut(self.size)
            raise _refused(self._path, error) from error
        try:
            os.fsync(self._file)
        except OSError as error:  # Nobody knows what of it is on the disk, now or later.
            self._why_refused = SnapshotError(
                f"nothing more can be written to {self._path}, as what was written before may not be on the disk: "
                f"{error.strerror or error}",
                hint=_REOPEN,
            )
            raise self._why_refused from error
        self.size += _RECORD.size + len(content)

    def close(self) -> None:
        """Write no more."""
        if not isinstance(self._why_refused, ClosedError):
            self._why_refused = ClosedError(
                "the database is closed; nothing has changed", hint="open it again: ev.Database(path=…)"
            )
            os.close(self._file)

    def _cut(self, size: int) -> None:
        """Drop what is behind the last record that counts."""
        try:
            os.ftruncate(self._file, size)
        except OSError as error:
            self._why_refused = _refused(self._path, error)
        self.size = size

    def _read(self, offset: int, length: int) -> bytes:
        parts, end = [], offset + length
        while offset < end and (part := os.pread(self._file, end - offset, offset)):
            parts.append(part)
            offset += len(part)
        return b"".join(parts)

    def _damaged(self, why: str) -> SnapshotError:
        return SnapshotError(f"{self._path} is damaged: {why}", hint=_DAMAGED)


def _write(file: int, data: bytes, offset: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, offset)
        offset += written
        rest = rest[written:]


def _refused(path: str, error: OSError) -> SnapshotError:
    return SnapshotError(
        f"cannot write to {path}: {error.strerror or error}; nothing has changed",
        hint="free some space, and try again",
    )
