"""What a database has to do with files: snapshots that are saved and loaded, and a folder in which it is durable."""

from __future__ import annotations

from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self, cast

from everview.engine.clock import Moments
from everview.engine.companions import forget_companions

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.storage.durable import Durable

Path = str | PathLike[str]


class Saved:
    """A database as far as files go."""

    _durable: Durable | None = None
    """The folder in which it is kept, if it is, once what the folder says was done."""

    @property
    def _database(self) -> Database:
        return cast("Database", self)

    @property
    def path(self) -> str | None:
        """The folder in which the database is durable; None if it is in memory only."""
        return None if self._durable is None else self._durable.path

    def save(self, path: Path) -> None:
        """Write everything but the feeds to a file. One that is there is replaced at the end, or not at all."""
        from everview.engine.storage.snapshot import save

        db = self._database
        with db._lock:
            db.fill_what_is_lost()
            for runtime in db._views.values():
                forget_companions(db, runtime)
            save(db, path)
            db.keep_moments()

    @classmethod
    def load(
        cls, path: Path, *, memory_limit: int | None = None, verify: bool = False, clock: Moments | None = None
    ) -> Self:
        """The database that was saved to a file, as it was, at the same version; SnapshotError if it is damaged.

        It is in memory: what changes in it later is in no file until it is saved. Checksums tell damage, not forgery.
        With ``verify=True`` nothing of the views' saved state is used: they are filled from the tables' rows, and a
        file whose views would have shown other rows is refused.
        """
        from everview.engine.storage.snapshot import load

        made = cast("type[Database]", cls)
        return cast("Self", load(lambda: made(memory_limit=memory_limit, clock=clock), path, verify=verify))

    def _open(self, path: Path) -> None:
        """Become what the folder says, and be kept there from now on."""
        from everview.engine.storage.durable import Durable

        self._durable = Durable(self._database, path)

    def checkpoint(self) -> None:
        """Write a snapshot of a durable database, from which it is opened next, and begin a new log.

        It is done without being asked for, too, once the log has become longer than the snapshot.
        """
        if self._durable is not None:
            with self._database._lock:
                self._durable.checkpoint()

    def close(self) -> None:
        """Let another process open the folder of a durable database; this one can be read, and changes no more."""
        if self._durable is not None:
            with self._database._lock:
                self._durable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
