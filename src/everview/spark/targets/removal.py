"""Removing what a target has made, and nothing else: files by their names, folders once they are empty.

Links are never followed: one that stands where a file or folder of ours should be is somebody else's.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

log = logging.getLogger("everview.spark")


def is_folder(path: Path) -> bool:
    """True for a folder itself, not for a link to one."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def is_file(path: Path) -> bool:
    """True for a file itself, not for a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except FileNotFoundError:
        return False


def entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, in order; nothing if it is a link or not there."""
    yield from (folder / name for name in sorted(os.listdir(folder))) if is_folder(folder) else ()


def remove_files(files: Iterable[Path]) -> None:
    """Remove those of some files that are there, and are files."""
    for path in files:
        if is_file(path):
            os.unlink(path)


def remove_folder(folder: Path) -> bool:
    """Remove a folder if it is empty; whether it is gone."""
    if is_folder(folder):
        with suppress(OSError):
            os.rmdir(folder)
    return not os.path.lexists(folder)


def tell_what_stays(target: str, folder: Path) -> None:
    """Say that a target's folder was kept, and for which files."""
    there = list(islice(_below(folder), 6))
    listed = ", ".join(str(p.relative_to(folder)) for p in there[:5]) + ", …" * (len(there) > 5)
    what = f"in it is what materialize has not made: {listed}" if there else "it is a link, or cannot be removed"
    log.warning("%s is dropped, and the folder %s stays: %s", target, folder, what)


def _below(folder: Path) -> Iterator[Path]:
    """What is in a folder and the folders in it, but for the folders that have something themselves."""
    for path in entries(folder):
        inside = list(islice(_below(path), 6))
        yield from inside or [path]
