"""What reads what: a batch looks at the tables that it changes and at the views behind them, and at no others.

Tables, views and companions come and go with definitions only, so it is found out once after each.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from everview.engine.references import Reference, references_of

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.view_runtime import ViewRuntime


class Readers:
    """The views behind each table, and its foreign keys, as they are until a definition changes them."""

    def __init__(self, db: Database) -> None:
        self._views = dict(db._views)
        self._stamp = _stamp(db)
        self._reads = {
            name: frozenset[str]().union(*(member.reads for member in view.family)) for name, view in db._views.items()
        }
        self._read = frozenset[str]().union(*self._reads.values())
        self._behind: dict[frozenset[str], tuple[ViewRuntime, ...]] = {}
        self._sets: dict[str, bool] = {}
        self._references: dict[str, list[tuple[int, Reference]]] = {}
        for i, reference in enumerate(references_of(db._tables)):
            for name in {reference.child.schema.name, reference.parent.schema.name}:
                self._references.setdefault(name, []).append((i, reference))

    def are_of(self, db: Database) -> bool:
        """True if no table, view or companion has come since, and no table or view has gone."""
        return self._stamp == _stamp(db)

    def is_read(self, name: str) -> bool:
        """True if a view or companion reads it."""
        return name in self._read

    def behind(self, relations: Iterable[str]) -> tuple[ViewRuntime, ...]:
        """The views that read one of these, directly or through views, each after those that it reads."""
        key = frozenset(relations)
        if key not in self._behind:
            reached, found = set(key), []
            for name, reads in self._reads.items():
                if reads & reached:
                    reached.add(name)
                    found.append(self._views[name])
            self._behind[key] = tuple(found)
        return self._behind[key]

    def take_set(self, table: str) -> bool:
        """True if a view must be told when rows of a table appear and vanish."""
        if table not in self._sets:
            members = (member for view in self.behind((table,)) for member in view.family)
            self._sets[table] = any(core.takes_set(table) for member in members for core in member.cores)
        return self._sets[table]

    def references(self, tables: Iterable[str]) -> list[Reference]:
        """The foreign keys of these tables, and those that point at them."""
        found = dict(pair for table in tables for pair in self._references.get(table, ()))
        return [found[i] for i in sorted(found)]


def _stamp(db: Database) -> tuple[int, int, int]:
    """Whatever comes is a new unit of the machine."""
    return db._machine.unit_count, len(db._tables), len(db._views)
