"""How batches of some tables go through a database: which views the kernel runs, in which order, and who reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from everview.engine.direct.views import DirectStage, DirectView, direct_table, direct_view
from everview.engine.watched import has_products
from everview.query.schema import Updates

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.view_runtime import ViewRuntime


@dataclass
class Node:
    """A stage of a view in the order in which the kernel runs them."""

    runtime: ViewRuntime
    stage: DirectStage
    is_result: bool
    """True if its rows are those of the view."""
    identifies: bool
    """True if a row says which rows of tables it is made of."""
    is_read: bool = False
    """True if views that the kernel does not run read it."""
    readers: list[tuple[int, int]] = field(default_factory=list)
    """The later nodes that read it, and by which number each knows it."""


class DirectPlan:
    """How batches of some tables go, as definitions have left the database.

    Views that are ``excluded`` go the other way now, as do those that read them.
    """

    def __init__(self, db: Database, tables: frozenset[str], excluded: frozenset[str]) -> None:
        readers = db.readers
        self.tables = tables
        self.references = readers.references(tables)
        self.takes_sets = any(map(readers.take_set, tables))
        """True if others must be told when rows appear and vanish."""
        self.updates_are_free = all(db._tables[t].schema.updates is Updates.ANY for t in tables)
        self.views: list[tuple[ViewRuntime, DirectView]] = []
        """Those that the kernel runs,"""
        self.nodes: list[Node] = []
        """and their stages."""
        self.others: list[ViewRuntime] = []
        """Those that it does not."""
        self.has_companions = False
        self.routes: dict[str, list[tuple[int, int]]] = {table: [] for table in tables}
        """For each table the nodes that read it, and by which number each knows it."""
        self.kernel_tables = {table: direct_table(db._tables[table]) for table in tables}
        self.watched: list[ViewRuntime] = []
        """Those of the views whose products of factors are watched."""
        self._places: dict[str, int] = {}
        for runtime in readers.behind(tables):
            self.has_companions = self.has_companions or bool(runtime.companions)
            name = runtime.view.name
            how = None if name in excluded or not self._may_read(db, runtime) else direct_view(runtime)
            if how is None or (not how.result.finishes and readers.is_read(name)):
                self.others.append(runtime)
            else:
                self._add(db, runtime, how)
        self._have_read_by_others(db)

    def _may_read(self, db: Database, runtime: ViewRuntime) -> bool:
        """True if the views that it reads are run by the kernel, as far as the tables change them."""
        others = {other.view.name for other in self.others}
        return others.isdisjoint(runtime.reads)

    def _add(self, db: Database, runtime: ViewRuntime, how: DirectView) -> None:
        identifies = runtime.identifies_inputs(db._implied)
        own: dict[str, int] = {}
        numbers: dict[DirectStage, int] = {}
        for stage in how.stages:
            number, is_result = len(self.nodes), stage is how.result
            self.nodes.append(Node(runtime, stage, is_result, is_result and identifies))
            for relation, entries in stage.entries.items():
                place = own.get(relation, self._places.get(relation))
                if place is not None:
                    self.nodes[place].readers.append((number, entries))
                elif relation in self.routes:
                    self.routes[relation].append((number, entries))
            for side, part in enumerate(stage.sides):
                self.nodes[numbers[part]].readers.append((number, side))
            numbers[stage] = number
            own[stage.name] = number
        self._places[runtime.view.name] = len(self.nodes) - 1
        self.views.append((runtime, how))
        if has_products(runtime):
            self.watched.append(runtime)

    def _have_read_by_others(self, db: Database) -> None:
        """Note which views' changes are to be handed to views, and companions, that the kernel does not run."""
        outside = {other.view.name for other in self.others}
        for runtime in db._views.values():
            members = runtime.family if runtime.view.name in outside else tuple(runtime.companions.values())
            for name in self._places.keys() & frozenset[str]().union(*(member.reads for member in members)):
                self.nodes[self._places[name]].is_read = True
