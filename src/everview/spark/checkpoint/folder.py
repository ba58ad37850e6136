"""A checkpoint's folder, read and written on the driver: on local disks without Java, elsewhere by Hadoop's means."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from everview.errors import PipelineError


def is_local(path: str) -> bool:
    """True if a path or address is on local disks, as far as it says itself."""
    return path.startswith("file:") or ":/" not in path


@dataclass(frozen=True)
class Folder:
    """A folder on local disks, or wherever Hadoop's file systems reach."""

    path: str
    system: Any = None
    """Hadoop's FileSystem; None for local disks."""
    session: Any = None

    @staticmethod
    def of(path: str, spark: SparkSession | None = None) -> Folder:
        """The folder at a path or address; anywhere but on local disks, a session must be running."""
        session = spark or SparkSession.getActiveSession()
        if path.startswith("file:") or (session is None and is_local(path)):
            return Folder(path.removeprefix("file://").removeprefix("file:"))
        if session is None:
            raise PipelineError(f"no Spark session is running to read {path} with", hint="start one first")
        jvm: Any = session.sparkContext._jvm
        place = jvm.org.apache.hadoop.fs.Path(path)
        system = place.getFileSystem(session.sparkContext._jsc.hadoopConfiguration())
        return Folder(path) if system.getScheme() == "file" else Folder(path, system, session)

    def names(self, below: str) -> list[str]:
        """What is in a folder of it; nothing if it is not there."""
        if self.system is None:
            place = Path(self.path) / below
            return [p.name for p in place.iterdir()] if place.is_dir() else []
        place = self._at(below)
        return [s.getPath().getName() for s in self.system.listStatus(place)] if self.system.exists(place) else []

    def text(self, file: str) -> str:
        """A file of it."""
        if self.system is None:
            return (Path(self.path) / file).read_text(encoding="utf-8")
        rows = self.session.read.text(f"{self.path}/{file}", wholetext=True).collect()
        return str(rows[0].value)

    def write(self, file: str, text: str) -> None:
        """Put a file there, or another in its place: whoever reads it has the one or the other, never a part."""
        if self.system is None:
            place = Path(self.path) / file
            place.parent.mkdir(parents=True, exist_ok=True)
            hidden = place.with_name(f".{place.name}.{uuid4().hex}")
            with hidden.open("w", encoding="utf-8") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())
            hidden.replace(place)
            return
        # Spark's own way to write into checkpoints: it knows what is atomic on which file system.
        jvm = self.session.sparkContext._jvm
        package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
        conf = self.session.sparkContext._jsc.hadoopConfiguration()
        place = self._at(file)
        manager = package.CheckpointFileManager.create(place.getParent(), conf)
        manager.mkdirs(place.getParent())
        out = manager.createAtomic(place, True)
        try:
            out.write(bytearray(text.encode()))
            out.close()
        except BaseException:
            out.cancel()
            raise

    def _at(self, below: str) -> Any:
        return self.session.sparkContext._jvm.org.apache.hadoop.fs.Path(f"{self.path}/{below}")
