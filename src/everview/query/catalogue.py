"""What a database was told to hold: tables, and views with the texts that define them; what depends on what.

Tables and views share one set of names, in any case. Nothing here holds rows: a catalogue says what a statement would
change, and refuses what must not be, before anything is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from everview.errors import AmbiguousNameError, DependantsError, UnknownNameError, UnsupportedError, check_text, some_of
from everview.query.schema import Column, Schema, Table
from everview.query.types import DataType
from everview.query.view import View, relations_in


@dataclass(frozen=True)
class Definition:
    """A view, the text that defines it alone, and the names that the text reads.

    ``language`` is sql, rules or formula.
    """

    view: View
    language: str
    text: str
    reads: frozenset[str]

    @property
    def name(self) -> str:
        """The view's name."""
        return self.view.name


@dataclass(frozen=True)
class CreateTable:
    """A new table, and the text that creates it."""

    table: Table
    text: str


@dataclass(frozen=True)
class CreateView:
    """A new view."""

    definition: Definition


@dataclass(frozen=True)
class ReplaceView:
    """A view defined anew; ``refilled`` are those that read it, and ``order`` is that of all views afterwards."""

    definition: Definition
    refilled: tuple[Definition, ...]
    order: tuple[str, ...]


@dataclass(frozen=True)
class AlterView:
    """A view that is kept differently, by its options or with a new table: its rows and feeds stay the same."""

    definition: Definition


@dataclass(frozen=True)
class Drop:
    """Views and tables that go, readers before what they read; ``unbound`` are tables that lose foreign keys by it."""

    views: tuple[str, ...]
    tables: tuple[str, ...]
    unbound: tuple[Table, ...]


@dataclass(frozen=True)
class Read:
    """A table or view that a query reads: what DuckDB is to call it, its name, and the columns that may be wanted."""

    alias: str
    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class AnswerByView:
    """A query to be answered by what a view by it would hold, over the rows of what it reads."""

    definition: Definition
    tables: tuple[Table, ...]
    """What it reads, views as if they were tables."""


@dataclass(frozen=True)
class Answer:
    """A query to be answered, as DuckDB runs it, over what it reads; its columns' names, which need not differ."""

    text: str
    names: tuple[str, ...]
    types: tuple[DataType, ...]
    reads: tuple[Read, ...]
    query: str
    """As it was written, to be answered by a view where DuckDB does not take the text."""


Change = CreateTable | CreateView | ReplaceView | AlterView | Drop
Command = Change | Answer | AnswerByView
"""What a statement of a script asks for."""


class Queries(Enum):
    """What becomes of a SELECT that stands by itself in a script."""

    ANSWERED = "answered"
    VIEWS = "views"
    """It is a view, called query1, query2, …"""


class Catalogue:
    """Tables and views by name; the views in an order in which each only reads those before it."""

    def __init__(self, tables: Iterable[Table] = (), views: Iterable[Definition] = ()) -> None:
        self.tables: dict[str, Table] = {t.name.lower(): t for t in tables}
        self.views: dict[str, Definition] = {d.name.lower(): d for d in views}

    def schema(self) -> Schema:
        """The tables, and the views as if they were tables: what a query may read."""
        return Schema((*self.tables.values(), *(as_table(d.view) for d in self.views.values())))

    def kind(self, name: str) -> str | None:
        """What a name stands for, "table" or "view"; None if for nothing."""
        check_text(name, "a name")
        return "table" if name.lower() in self.tables else "view" if name.lower() in self.views else None

    def is_there(self, kind: str, name: str) -> bool:
        """True if there is such a table or view, as IF NOT EXISTS asks; refuses a name that stands for the other."""
        found = self.kind(name)
        if found not in (None, kind):
            raise AmbiguousNameError(f"{name} is a {found}", hint=f"give the {kind} another name")
        return found is not None

    def check_free(self, kind: str, name: str) -> None:
        """Refuse a name that is taken."""
        found = self.kind(name)
        if found is not None:
            hint = "write CREATE OR REPLACE VIEW, or choose another name" if found == kind == "view" else None
            raise AmbiguousNameError(f"a {found} named {name} exists already", hint=hint or "choose another name")

    # --- changes ---------------------------------------------------------------------------------------------------

    def create_table(self, table: Table, text: str) -> CreateTable:
        """Add a table."""
        self.check_free("table", table.name)
        self.tables[table.name.lower()] = table
        return CreateTable(table, text)

    def create_view(self, definition: Definition) -> CreateView:
        """Add a view."""
        self.check_free("view", definition.name)
        self.views[definition.name.lower()] = definition
        return CreateView(definition)

    def replace_view(
        self, definition: Definition, again: Callable[[Definition, Schema], Definition]
    ) -> CreateView | ReplaceView:
        """Put a view in the place of one of its name, or add it. Those that read it are read ``again``.

        It must have the same columns if others read it, and must not read itself.
        """
        name = definition.name
        if not self.is_there("view", name):
            return self.create_view(definition)
        old, readers = self.views[name.lower()], self._readers([name])
        circle = [d.name for d in (old, *readers) if d.name.lower() in definition.reads]
        if circle:
            through = "" if circle[0] == old.name else f" through {circle[0]}"
            raise UnsupportedError(
                f"{name} would read itself{through}", construct="recursion", hint="recursion is not supported"
            )
        if readers and _columns(old.view) != _columns(definition.view):
            raise DependantsError(
                f"{name} cannot be replaced by a view with other columns: {_listed(readers, ())}",
                dependants=[d.name for d in readers],
                hint=f"keep its columns, which are {_shown(old.view)}; or drop what depends on it first",
            )
        gone = {name.lower(), *(d.name.lower() for d in readers)}
        self.views = {n: d for n, d in self.views.items() if n not in gone} | {name.lower(): definition}
        refilled = []
        for reader in readers:
            refilled.append(again(reader, self.schema()))
            self.views[reader.name.lower()] = refilled[-1]
        return ReplaceView(definition, tuple(refilled), tuple(d.name for d in self.views.values()))

    def viewed(self, name: str) -> Definition:
        """The view of a name; refuses one that stands for a table, or for nothing."""
        found = self.kind(name)
        if found == "table":
            raise AmbiguousNameError(f"{name} is a table", hint="only views have options")
        if found is None:
            known = some_of(d.name for d in self.views.values())
            raise UnknownNameError(f"there is no view {name}", hint=f"the views are: {known}")
        return self.views[name.lower()]

    def alter_view(self, definition: Definition) -> AlterView:
        """Put a view in the place of one that has the same rows."""
        self.views[definition.name.lower()] = definition
        return AlterView(definition)

    def drop(
        self, names: Sequence[str], *, kind: str | None = None, if_exists: bool = False, cascade: bool = False
    ) -> Drop:
        """Take tables or views away, with ``cascade`` also what depends on them; ``kind`` is what they must be."""
        found: list[str] = []
        for name in names:
            here = self.kind(name)
            if here is None:
                if not if_exists:
                    known = some_of(t.name for t in self.schema())
                    raise UnknownNameError(f"there is no {kind or 'table or view'} {name}", hint=f"there are: {known}")
                continue
            if kind is not None and here != kind:
                raise AmbiguousNameError(f"{name} is a {here}", hint=f"write DROP {here.upper()} {name}")
            found.append(name.lower())
        readers = [d for d in self._readers(found) if d.name.lower() not in found]
        unbound = self._unbound(found)
        if (readers or unbound) and not cascade:
            raise DependantsError(
                f"{' and '.join(names)} cannot be dropped: {_listed(readers, unbound)}",
                dependants=[*(d.name for d in readers), *(t.name for t in unbound)],
                hint="drop what depends on it first, or write CASCADE (cascade=True), which drops that, too",
            )
        gone = {*found, *(d.name.lower() for d in readers)}
        views = tuple(d.name for n, d in reversed(self.views.items()) if n in gone)
        tables = tuple(t.name for n, t in self.tables.items() if n in gone)
        self.views = {n: d for n, d in self.views.items() if n not in gone}
        self.tables = {n: t for n, t in self.tables.items() if n not in gone}
        self.tables |= {t.name.lower(): t for t in unbound}
        return Drop(views, tables, tuple(unbound))

    def _readers(self, names: Sequence[str]) -> list[Definition]:
        """The views that read one of the names, directly or through others, in their order; not those named."""
        read = {n.lower() for n in names}
        found = []
        for name, definition in self.views.items():
            if definition.reads & read and name not in read:
                read.add(name)
                found.append(definition)
        return found

    def _unbound(self, names: Sequence[str]) -> list[Table]:
        """The other tables whose foreign keys point at one of the names, as they are without those."""
        found = []
        for name, table in self.tables.items():
            kept = tuple(k for k in table.foreign_keys if k.target.lower() not in names)
            if name not in names and len(kept) < len(table.foreign_keys):
                found.append(replace(table, foreign_keys=kept))
        return found


def as_table(view: View) -> Table:
    """A view as later queries see it: a table of its output columns."""
    return Table(view.name, tuple(Column(o.name, o.type, o.nullable) for o in view.columns))


def relations_read(view: View) -> frozenset[str]:
    """The tables and views that a view reads, in lower case."""
    stages = {s.name for s in view.stages}
    bodies = [*(s.body for s in view.stages), view.body]
    read = (name for body in bodies for name in relations_in(body))
    return frozenset(name.lower() for name in read if name not in stages)


def _columns(view: View) -> list[tuple[str, str]]:
    return [(c.name, str(c.type)) for c in view.columns]


def _shown(view: View) -> str:
    return ", ".join(f"{name} {type_}" for name, type_ in _columns(view))


def _listed(readers: Sequence[Definition], unbound: Sequence[Table]) -> str:
    """Who depends on a name, as a sentence."""
    parts = []
    if readers:
        names = ", ".join(d.name for d in readers)
        parts.append(f"view {names} reads it" if len(readers) == 1 else f"views {names} read it")
    parts += [f"a foreign key of table {t.name} points at it" for t in unbound]
    return ", and ".join(parts)
