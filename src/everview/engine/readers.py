"""What reads what: a batch looks at the tables that it changes and at the views behind them, and at no others.

Tables, views and companions come and go with definitions only, so it is found out once after each.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from everview.engine.operators.build import reads_from
from everview.engine.operators.timed import TimedRows
from everview.engine.references import Reference, references_of
from everview.query.schema import Updates

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.direct.plan import DirectPlan
    from everview.engine.view_runtime import ViewRuntime


class Readers:
    """The views behind each table, and its foreign keys, as they are until a definition changes them."""

    def __init__(self, db: Database) -> None:
        self._views = dict(db._views)
        self._tables = dict(db._tables)
        self.swept: set[str] = set()
        """The tables that were looked through for rows whose time is over, since definitions have changed."""
        self._stamp = _stamp(db)
        self._reads = {
            name: frozenset[str]().union(*(member.reads for member in view.family)) for name, view in db._views.items()
        }
        self._read = frozenset[str]().union(*self._reads.values())
        self._behind: dict[frozenset[str], tuple[ViewRuntime, ...]] = {}
        self._sets: dict[str, bool] = {}
        self._formulas: dict[frozenset[str], tuple[ViewRuntime, ...]] = {}
        self._direct: dict[tuple[frozenset[str], frozenset[str]], DirectPlan] = {}
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

    def formulas_behind(self, relations: frozenset[str]) -> tuple[ViewRuntime, ...]:
        """Those of them that are formulas."""
        if relations not in self._formulas:
            self._formulas[relations] = tuple(v for v in self.behind(relations) if v.formulas)
        return self._formulas[relations]

    def direct_plan(self, db: Database, tables: frozenset[str], excluded: frozenset[str] = frozenset()) -> DirectPlan:
        """How batches of these tables go through the kernel, but for some views."""
        if (tables, excluded) not in self._direct:
            from everview.engine.direct.plan import DirectPlan

            self._direct[tables, excluded] = DirectPlan(db, tables, excluded)
        return self._direct[tables, excluded]

    def take_set(self, table: str) -> bool:
        """True if a view must be told when rows of a table appear and vanish."""
        if table not in self._sets:
            members = (member for view in self.behind((table,)) for member in view.family)
            self._sets[table] = any(core.takes_set(table) for member in members for core in member.cores)
        return self._sets[table]

    @cached_property
    def by_clock(self) -> tuple[ViewRuntime, ...]:
        """The views whose rows come and go by the clock, and those behind them, each after those that it reads."""
        timed = {name for name, view in self._views.items() if any(member.timed for member in view.family)}
        behind = {view.view.name for view in self.behind(timed)}
        return tuple(view for name, view in self._views.items() if name in timed | behind)

    @cached_property
    def expiring(self) -> dict[str, tuple[TimedRows, ...]]:
        """The tables of which nobody reads a row any more once its time is over, and who reads them until then.

        Foreign keys read rows, too, and a queue has an order of its own.
        """
        pointed_at = {key.target.lower() for base in self._tables.values() for key in base.schema.foreign_keys}
        found = {}
        members = [member for view in self._views.values() for member in view.family]
        for name, base in self._tables.items():
            sources = [s for m in members for _, s in m.stages if name in m.reads and reads_from(s, name)]
            timed = tuple(s for s in sources if isinstance(s, TimedRows) and s.ends and s.is_whole)
            is_free = name.lower() not in pointed_at and base.schema.updates is not Updates.FIFO
            if timed and len(timed) == len(sources) and is_free:
                found[name] = timed
        return found

    def references(self, tables: Iterable[str]) -> list[Reference]:
        """The foreign keys of these tables, and those that point at them."""
        found = dict(pair for table in tables for pair in self._references.get(table, ()))
        return [found[i] for i in sorted(found)]


def _stamp(db: Database) -> tuple[int, int, int]:
    """Whatever comes is a new unit of the machine."""
    return db._machine.unit_count, len(db._tables), len(db._views)
