"""Parquet files in a folder: every batch makes a new version, and readers see one version or another, never a mix.

A version is a folder of immutable files, with a manifest. Files that a batch does not touch are hard links to those of
the version before it, so an old version is removed by removing its folder. ``current`` is a symbolic link to the newest
version; replacing it is the moment a batch happens. Whatever a crash leaves behind before that moment is a folder
that no link leads to, and the next batch removes it.

Only what the target has made is ever removed: of a version the files of its manifest, and of one that a crash left
without a manifest the whole, if it has nothing but files named as ours are.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from everview.errors import TargetError
from everview.spark.targets.base import Batch, Progress, Target
from everview.spark.targets.buckets import BUCKET_ROWS, File, apply, is_bucket
from everview.spark.targets.removal import entries, is_file, is_folder, remove_files, remove_folder, tell_what_stays

_FORMAT: Final = 1
_CURRENT, _VERSIONS, _LOCK, _MANIFEST = "current", "versions", "_lock", "_manifest.json"
_EMPTY: Final = "empty.parquet"
_OURS: Final = frozenset([_CURRENT, _VERSIONS, _LOCK])
_NEXT: Final = "_next"
_DIGITS: Final = 20
_NAME: Final = re.compile(rf"\d{{{_DIGITS},}}-[0-9a-f]{{8}}")
_LINK: Final = re.compile(rf"{_VERSIONS}/{_NAME.pattern}")


@dataclass(frozen=True, slots=True)
class _Version:
    """A version: where it is, and what its manifest says."""

    folder: Path
    progress: Progress
    schema: pa.Schema
    files: list[File]


class ParquetTarget(Target):
    """A view's rows as Parquet files below ``path``, on a file system with hard links and an atomic rename.

    ``path/current`` can be read as a folder of Parquet files by anything. The ``keep`` last versions stay, for readers
    that are still at it. ``bucket_rows`` is how many distinct rows a file has at most.
    """

    def __init__(self, path: str | os.PathLike[str], *, keep: int = 3, bucket_rows: int = BUCKET_ROWS) -> None:
        self.path = Path(path).absolute()
        self.name = f"the Parquet target {os.fspath(path)}"
        if "://" in os.fspath(path):
            raise TargetError(f"{self.name} is not on a file system", hint="use a DeltaTarget for an object store")
        if keep < 1 or bucket_rows < 1:
            raise TargetError(f"{self.name}: keep and bucket_rows are at least 1, not {keep} and {bucket_rows}")
        self._keep = keep
        self._bucket_rows = bucket_rows

    # --- reading ---

    @property
    def snapshot(self) -> Path:
        """The folder of the current version, which stays as it is for ``keep`` - 1 more batches."""
        return self._there().folder

    def read_arrow(self) -> pa.Table:
        """The rows as of the last batch."""
        version = self._there()
        tables = [pq.read_table(version.folder / f.name, partitioning=None) for f in version.files]
        return pa.concat_tables([version.schema.empty_table(), *tables])

    def read(self, spark: Any) -> Any:
        """The rows as of the last batch, as a Spark DataFrame."""
        return spark.read.parquet(str(self.snapshot))

    def progress(self) -> Progress | None:
        """Who writes the target and how far it has come."""
        version = self._version()
        return version.progress if version else None

    def check(self, schema: pa.Schema) -> None:
        """Refuse a view that this target cannot take."""
        version, schema = self._version(), self.canonical(schema)
        if version is not None:
            self.same_schema(version.schema, schema)
        elif self.path.exists() and not self._is_begun():
            raise self._foreign()
        if (self.path / _VERSIONS).is_symlink():
            raise self._foreign(f"its folder {_VERSIONS} is a link")

    def _foreign(self, why: str = "") -> TargetError:
        return TargetError(
            f"{self.name} is there, and was not made by materialize{why and ': '}{why}",
            hint="name a path where nothing is",
        )

    def _is_begun(self) -> bool:
        """Whether the folder has nothing but what a crash in the first batch may have left."""
        if not self.path.is_dir() or not {p.name for p in self.path.iterdir()} <= _OURS:
            return False
        return all(_made(p) is not None or _is_next(p) for p in entries(self.path / _VERSIONS))

    def _there(self) -> _Version:
        version = self._version()
        if version is None:
            raise TargetError(f"{self.name} has not taken a batch yet", hint="wait for the query's first batch")
        return version

    def _version(self) -> _Version | None:
        try:
            folder = Path(os.path.realpath(self.path / _CURRENT, strict=True))
            found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if found["format"] > _FORMAT:
                raise TargetError(f"{self.name} was written by a newer version of Everview", hint="upgrade everview")
            schema = pa.ipc.read_schema(pa.py_buffer(b64decode(found["schema"])))
            files = [File(f["name"], f["rows"]) for f in found["files"]]
            return _Version(folder, Progress(found["owner"], found["batch"]), schema, files)
        except (FileNotFoundError, NotADirectoryError):
            if os.path.lexists(self.path / _CURRENT):
                raise self._damaged("its current version is gone") from None
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(f"its manifest cannot be read: {error!r}") from error

    def _damaged(self, why: str) -> TargetError:
        return TargetError(f"{self.name} is damaged: {why}", hint="drop() it, and begin again with a new checkpoint")

    # --- writing ---

    def write(self, batch: Batch) -> bool:
        """Take a batch: a new version, then the link to it."""
        try:
            return self._write(batch)
        except OSError as error:
            raise TargetError(
                f"{self.name} cannot be written: {error}",
                hint="make room, or set the rights, and start the query again: it goes on with this batch",
            ) from error

    def _write(self, batch: Batch) -> bool:
        self.check(batch.schema)
        schema = self.canonical(batch.schema)
        (self.path / _VERSIONS).mkdir(parents=True, exist_ok=True)
        with self._locked():
            old = self._version()
            if not self.is_due(old.progress if old else None, batch):
                return False
            self._remove_all_but(old.folder if old else None, self._keep)
            folder = self.path / _VERSIONS / f"{batch.id:0{_DIGITS}d}-{token_hex(4)}"
            folder.mkdir()
            store = _Folder(old.folder if old else folder, folder, schema)
            files = old.files if old else []
            clean = Batch(batch.id, batch.owner, schema, batch.rows, batch.chunks)
            outcome = apply(files, clean, store, self.name, self._bucket_rows)
            gone = {f.name for f in outcome.removed}
            kept = [f for f in files if f.name not in gone]
            for file in kept:
                self._link(store.old / file.name, folder / file.name)
            if not kept and not outcome.added:
                store.write(_EMPTY, iter(()))
            self._write_manifest(folder, batch, schema, [*kept, *outcome.added])
            self._point_at(folder)
            self._remove_all_but(folder, self._keep)
        return True

    def _link(self, old: Path, new: Path) -> None:
        try:
            os.link(old, new)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS):
                raise
            raise TargetError(
                f"{self.name} is on a file system without hard links",
                hint="use another one, or a DeltaTarget, which needs none",
            ) from error

    def _write_manifest(self, folder: Path, batch: Batch, schema: pa.Schema, files: list[File]) -> None:
        text = json.dumps(
            {
                "format": _FORMAT,
                "batch": batch.id,
                "owner": batch.owner,
                "schema": b64encode(schema.serialize()).decode(),
                "files": [{"name": f.name, "rows": f.rows} for f in files],
            }
        )
        with open(folder / _MANIFEST, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        _sync(folder)
        _sync(folder.parent)

    def _point_at(self, folder: Path) -> None:
        temporary = self.path / _VERSIONS / f"{_NEXT}-{token_hex(4)}"
        os.symlink(os.path.join(_VERSIONS, folder.name), temporary)
        os.replace(temporary, self.path / _CURRENT)
        _sync(self.path)

    def _remove_all_but(self, current: Path | None, keep: int) -> None:
        """Remove old versions but the last few, and whatever a crash left behind: versions after the current one."""
        there = list(entries(self.path / _VERSIONS))
        names = [p.name for p in there if _NAME.fullmatch(p.name) and is_folder(p)]
        last = current.name if current is not None else ""
        known = [n for n in names if n[:_DIGITS] < last[:_DIGITS]]
        for name in set(names) - {*known[max(0, len(known) - keep + 1) :], last}:
            _remove_version(self.path / _VERSIONS / name)
        for path in there:
            if _is_next(path):
                os.unlink(path)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Nobody else writes meanwhile. The system takes the lock from a process that dies."""
        handle = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        with open(handle, "ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TargetError(
                    f"another process is writing {self.name}", hint="stop the other query; a target has one writer"
                ) from None
            yield

    def drop(self) -> None:
        """Remove the versions, and the folder if nothing else is in it; what others have put there stays, said in the
        log."""
        versions, current = self.path / _VERSIONS, self.path / _CURRENT
        made = [p for p in entries(versions) if _made(p) is not None]
        is_link = current.is_symlink() and _LINK.fullmatch(os.readlink(current)) is not None
        if not (made or (is_link and is_folder(versions)) or (is_folder(self.path) and self._is_begun())):
            return
        try:
            with self._locked():
                if is_link:
                    os.unlink(current)
                self._remove_all_but(None, 1)
                remove_folder(versions)
                if is_file(self.path / _LOCK) and not os.path.getsize(self.path / _LOCK):
                    os.unlink(self.path / _LOCK)
            if not remove_folder(self.path):
                tell_what_stays(self.name, self.path)
        except OSError as error:
            raise TargetError(
                f"{self.name} cannot be removed: {error}", hint="set the rights, and try again"
            ) from error


def _is_next(path: Path) -> bool:
    """Whether it is a link to a version that did not become the current one."""
    return path.name.startswith(_NEXT) and path.is_symlink() and _LINK.fullmatch(os.readlink(path)) is not None


def _made(folder: Path) -> list[str] | None:
    """The files of a version that the target has made; None if it was not made by it."""
    if not _NAME.fullmatch(folder.name) or not is_folder(folder):
        return None
    there = [p.name for p in entries(folder)]
    if is_file(folder / _MANIFEST):
        with suppress(ValueError, KeyError, TypeError):
            found = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            named = [str(f["name"]) for f in found["files"]] or [_EMPTY]
            return [*(n for n in named if "/" not in n and n in there), _MANIFEST]
    if all(is_file(folder / n) and (is_bucket(n) or n in (_EMPTY, _MANIFEST)) for n in there):
        return there
    return None


def _remove_version(folder: Path) -> None:
    """Remove a version, its manifest last: until then it says what is to be removed."""
    made = _made(folder)
    if made is not None:
        remove_files(folder / name for name in made)
        remove_folder(folder)


class _Folder:
    """The files of the old version to read, and the new version's folder to write to."""

    def __init__(self, old: Path, new: Path, schema: pa.Schema) -> None:
        self.old = old
        self._new = new
        self._schema = schema

    def read(self, name: str) -> pa.Table:
        return pq.read_table(self.old / name, partitioning=None).cast(self._schema)

    def write(self, name: str, tables: Iterator[pa.Table]) -> None:
        with open(self._new / name, "xb") as file:
            with pq.ParquetWriter(file, self._schema, compression="zstd") as writer:
                for table in tables:
                    writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    """Have the names in a folder on the disk, too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
