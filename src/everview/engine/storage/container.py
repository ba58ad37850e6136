"""The file of a saved database: named sections of bytes, each with a checksum, and a manifest that lists them.

Layout: a header of fixed size (magic, format version, where the manifest is, its checksum, and the header's own), the
sections one after the other, the manifest (JSON). It is written beside the target and put in its place only when it is
whole and on the disk, so that whatever happens while saving, the target is the old file or the new one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from io import BufferedReader, RawIOBase
from secrets import token_hex
from struct import Struct
from typing import Any, BinaryIO, Final
from zlib import crc32

from everview.errors import SnapshotError

Path = str | os.PathLike[str]

FORMAT: Final = 2
"""The version of this layout and of what the sections hold; a file with a higher one is refused."""

# As in PNG's: a text file cannot begin so, and a copy that translated line ends is noticed.
MAGIC: Final = b"EVERVIEW\r\n\x1a\n"
_HEADER: Final = Struct("<12sIQQ16s")
_SUM: Final = Struct("<I")
HEADER_SIZE: Final = _HEADER.size + _SUM.size
_DIGEST: Final = 16
_PIECE: Final = 1 << 20
"""So many bytes of a section are read at once."""
_DAMAGED: Final = "load another copy of it; if there is none, fill a new database from the sources"


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST).digest()


# --- writing ---------------------------------------------------------------------------------------------------------


class SectionWriter:
    """A section in the making: a file for writing, which Arrow takes too."""

    closed = False

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._hash = blake2b(digest_size=_DIGEST)
        self._name = name
        self._length = 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        view = memoryview(data).cast("B")
        self._file.write(view)
        self._hash.update(view)
        self._length += len(view)
        return len(view)

    def flush(self) -> None:
        """Nothing: the whole file is flushed at the end."""

    def close(self) -> None:
        """Nothing: the file goes on with the next section."""

    def entry(self) -> dict[str, Any]:
        """What the manifest says of it."""
        return {"name": self._name, "length": self._length, "checksum": self._hash.hexdigest()}


class Writer:
    """Writes sections into a file; ``finish`` adds the manifest and the header."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sections: list[SectionWriter] = []
        file.write(bytes(HEADER_SIZE))

    def section(self, name: str) -> SectionWriter:
        """Begin a section; the one before it ends here."""
        self._sections.append(SectionWriter(self._file, name))
        return self._sections[-1]

    def finish(self, manifest: dict[str, Any]) -> None:
        """Write the manifest, with the list of sections, and the header."""
        listed = {**manifest, "sections": [s.entry() for s in self._sections]}
        text = json.dumps(listed, ensure_ascii=True, separators=(",", ":")).encode()
        offset = self._file.tell()
        self._file.write(text)
        header = _HEADER.pack(MAGIC, FORMAT, offset, len(text), _digest(text))
        self._file.seek(0)
        self._file.write(header + _SUM.pack(crc32(header)))


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file that takes the place of ``path`` when the block ends, whole and on the disk; else nothing happens.

    Only its owner may read it, from its first byte on; in the place of a file it gets that file's permissions. What the
    operating system refuses is a SnapshotError.
    """
    shown, target = os.fspath(path), os.path.realpath(path)
    temporary = f"{target}.{token_hex(6)}.tmp"
    try:
        mode = _mode(target, shown)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
        try:
            with open(descriptor, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if mode is not None:
                os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise SnapshotError(
            f"cannot save to {shown}: {error.strerror or error}; what was there before is untouched",
            hint="free some space or choose another place, and save again",
        ) from error
    with suppress(OSError):  # the file is there; the folder's entry reaches the disk a little later on some systems
        _sync_folder(os.path.dirname(target))


def _mode(target: str, shown: str) -> int | None:
    """The permissions of the file that is there; None if there is none."""
    try:
        found = os.stat(target)
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        raise SnapshotError(f"cannot save to {shown}: there is something that is no file", hint="choose another name")
    return stat.S_IMODE(found.st_mode)


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading ---------------------------------------------------------------------------------------------------------


class SectionReader(RawIOBase):
    """A section of a file, from its begin to its end; sections can be read side by side."""

    def __init__(self, file: BinaryIO, offset: int, length: int) -> None:
        self._descriptor = file.fileno()
        self._at = offset
        self._end = offset + length

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes, 0 at the end."""
        wanted = min(len(buffer), self._end - self._at)
        data = os.pread(self._descriptor, wanted, self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class Reader:
    """A saved file: its manifest, checked, and its sections, each checked when it is opened."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = os.fspath(path)
        file_size = os.fstat(file.fileno()).st_size
        offset, length, digest = self._header(file_size)
        text = self._read(offset, length)
        if _digest(text) != digest:
            raise self.damaged("the checksum of its manifest is wrong")
        self.manifest: dict[str, Any] = json.loads(text)
        self._places: dict[str, tuple[int, int, str]] = {}
        at = HEADER_SIZE
        for entry in self.manifest["sections"]:
            self._places[entry["name"]] = (at, entry["length"], entry["checksum"])
            at += entry["length"]
        if at != offset:
            raise self.damaged("its sections do not fill it")

    def _header(self, file_size: int) -> tuple[int, int, bytes]:
        head = self._read(0, min(HEADER_SIZE, file_size))
        if not head:
            raise self.damaged("it is empty")
        if head[: len(MAGIC)] != MAGIC[: len(head)]:
            raise SnapshotError(
                f"{self._path} is no database that Everview has saved", hint="give the path that db.save was given"
            )
        if len(head) < HEADER_SIZE:
            raise self.damaged("it ends within its header")
        (checksum,) = _SUM.unpack(head[_HEADER.size :])
        if crc32(head[: _HEADER.size]) != checksum:
            raise self.damaged("the checksum of its header is wrong")
        _, version, offset, length, digest = _HEADER.unpack(head[: _HEADER.size])
        if version > FORMAT:
            raise SnapshotError(
                f"{self._path} has format {version}, and this Everview reads formats up to {FORMAT}",
                hint="load it with the newer Everview that saved it",
            )
        if version < 1 or offset < HEADER_SIZE:
            raise self.damaged("its header makes no sense")
        if offset + length != file_size:
            how = "cut off" if offset + length > file_size else "longer than it was"
            raise self.damaged(f"it is {how}: {file_size:,} bytes, where {offset + length:,} were saved")
        return offset, length, digest

    @property
    def size(self) -> int:
        """The bytes of all sections."""
        return sum(length for _, length, _ in self._places.values())

    def section(self, name: str) -> BinaryIO:
        """A section, to be read piece by piece; nothing of it is given before its checksum is found right."""
        if name not in self._places:
            raise self.damaged(f"it has no section {name}")
        offset, length, checksum = self._places[name]
        found = blake2b(digest_size=_DIGEST)
        for at in range(offset, offset + length, _PIECE):
            found.update(self._read(at, min(_PIECE, offset + length - at)))
        if found.hexdigest() != checksum:
            raise self.damaged(f"the checksum of section {name} is wrong")
        return BufferedReader(SectionReader(self._file, offset, length), _PIECE)

    def has(self, name: str) -> bool:
        """Whether there is such a section: files of earlier versions lack some."""
        return name in self._places

    def length(self, name: str) -> int:
        """How many bytes a section has."""
        return self._places[name][1]

    def _read(self, offset: int, length: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(length)
        if len(data) != length:
            raise self.damaged("it ends early")
        return data

    def damaged(self, why: str) -> SnapshotError:
        """The error to raise for a file that is not as it was saved."""
        return SnapshotError(f"{self._path} is damaged: {why}", hint=_DAMAGED)


@contextmanager
def reading(path: Path) -> Iterator[Reader]:
    """A saved file, open; whatever goes wrong with it is a SnapshotError."""
    shown = os.fspath(path)
    try:
        with open(path, "rb", opener=_without_waiting) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise SnapshotError(f"{shown} is no regular file", hint="give the path that db.save was given")
            yield Reader(file, path)
    except SnapshotError:
        raise
    except OSError as error:
        hint = "give the path that db.save was given"
        if os.path.isdir(path):
            hint += "; a durable database, which is a folder, is opened by ev.Database(path=…)"
        raise SnapshotError(f"cannot load {shown}: {error.strerror or error}", hint=hint) from error
    except Exception as error:  # the file passed its checksums, but what it says cannot be: nothing of it is used
        raise SnapshotError(f"{shown} cannot be restored: {_in_words(error)}", hint=_DAMAGED) from error


def _without_waiting(path: str, flags: int) -> int:
    """Open a file; a FIFO without a writer would be waited for."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
