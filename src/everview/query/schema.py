"""Tables and their integrity constraints (ucq-constraints.md section 9): the schema that queries are read against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from everview.errors import SchemaError
from everview.query.terms import Const
from everview.query.types import DataType


@dataclass(frozen=True, slots=True)
class Column:
    """A table's column. ``closed`` says why no view can read it, as with a type that views cannot hold."""

    name: str
    type: DataType
    nullable: bool = True
    closed: str = ""


class Enforcement(Enum):
    """Whether a constraint is checked, and whether plans may use it. Each value is what SQL says for it."""

    ENFORCED = ""
    """A batch that violates it is refused, so plans use it."""
    RELIED_ON = "NOT ENFORCED RELY"
    """It is not checked, and plans use it all the same: data that violates it gives wrong results."""
    IGNORED = "NOT ENFORCED"
    """It is neither checked nor used."""

    @property
    def is_used(self) -> bool:
        """True if plans may use the constraint."""
        return self is not Enforcement.IGNORED


class Updates(Enum):
    """How a table may change; what is not so is refused. Each value is what OPTIONS (updates = …) says for it."""

    ANY = "any"
    STATIC = "static"
    """In one batch, and then no more."""
    APPEND = "append"
    """Rows come, and none goes."""
    FIFO = "fifo"
    """What has come first goes first, in all such tables together."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``columns`` of the table point at ``target_columns`` of ``target``: an inclusion dependency.

    A row with a NULL in one of the columns points at nothing, which is allowed.
    """

    columns: tuple[str, ...]
    target: str
    target_columns: tuple[str, ...]
    enforcement: Enforcement = Enforcement.ENFORCED

    def __str__(self) -> str:
        return f"({', '.join(self.columns)}) → {self.target}({', '.join(self.target_columns)})"


@dataclass(frozen=True, slots=True)
class SmallDomain:
    """``column`` only ever holds one of ``values``, as CHECK (column IN (…)) says."""

    column: str
    values: tuple[Const, ...]
    enforcement: Enforcement = Enforcement.ENFORCED

    def __str__(self) -> str:
        return f"{self.column} IN ({', '.join(map(str, self.values))})"


@dataclass(frozen=True, slots=True)
class Table:
    """A base table: a bag of rows, keyed when ``primary_key`` is given."""

    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    small_domains: tuple[SmallDomain, ...] = ()
    key_enforcement: Enforcement = Enforcement.ENFORCED
    """That of the primary key, if there is one; its columns are NOT NULL in any case."""
    updates: Updates = Updates.ANY

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for column in self.columns:
            if column.name.lower() in seen:
                raise SchemaError(f"table {self.name} has two columns named {column.name}", hint="rename one of them")
            seen.add(column.name.lower())
        used = [*self.primary_key, *(d.column for d in self.small_domains)]
        used += [c for key in self.foreign_keys for c in key.columns]
        for name in used:
            if self.position(name) is None:
                raise SchemaError(
                    f"a constraint of table {self.name} names column {name}, which the table does not have",
                    hint=f"its columns are {', '.join(c.name for c in self.columns)}",
                )

    @property
    def checked_key(self) -> tuple[str, ...]:
        """The columns of which no two rows have the same values, as somebody checks; none if nobody does."""
        return self.primary_key if self.key_enforcement is Enforcement.ENFORCED else ()

    @property
    def arity(self) -> int:
        """How many columns there are."""
        return len(self.columns)

    def position(self, column: str) -> int | None:
        """The index of a column by its name, in any case; None if there is none."""
        wanted = column.lower()
        return next((i for i, c in enumerate(self.columns) if c.name.lower() == wanted), None)

    def positions(self, columns: Iterable[str]) -> tuple[int, ...]:
        """The indexes of several columns that are known to exist."""
        found = tuple(self.position(c) for c in columns)
        return tuple(i for i in found if i is not None)

    def __str__(self) -> str:
        key = {c.lower() for c in self.primary_key}
        inner = [f"{c.name}{'*' if c.name.lower() in key else ''}: {c.type}" for c in self.columns]
        return f"{self.name}({', '.join(inner)})"


@dataclass(frozen=True)
class Schema:
    """The tables that a query may use, by name in any case. Immutable: ``with_table`` gives a larger one."""

    tables: tuple[Table, ...] = ()
    _by_name: dict[str, Table] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name: dict[str, Table] = {}
        for table in self.tables:
            if table.name.lower() in by_name:
                raise SchemaError(f"table {table.name} is created twice", hint="drop one of the two, or rename it")
            by_name[table.name.lower()] = table
        object.__setattr__(self, "_by_name", by_name)

    def with_table(self, table: Table) -> Schema:
        """This schema and one table more."""
        return Schema((*self.tables, table))

    def table(self, name: str) -> Table | None:
        """A table by its name, in any case."""
        return self._by_name.get(name.lower())

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._by_name

    def check_references(self) -> None:
        """Foreign keys must point at the whole primary key of a table that exists, column by column, types agreeing."""
        for table in self.tables:
            for key in table.foreign_keys:
                self._check_reference(table, key)

    def _check_reference(self, table: Table, key: ForeignKey) -> None:
        target = self.table(key.target)
        if target is None:
            raise SchemaError(
                f"a foreign key of table {table.name} points at table {key.target}, which is not there",
                hint=f"create table {key.target} in the same schema, or drop the foreign key",
            )
        missing = [c for c in key.target_columns if target.position(c) is None]
        if missing:
            raise SchemaError(
                f"a foreign key of table {table.name} points at {key.target}.{missing[0]}, which is not there",
                hint=f"{target.name} has columns {', '.join(c.name for c in target.columns)}",
            )
        if {c.lower() for c in key.target_columns} != {c.lower() for c in target.primary_key}:
            raise SchemaError(
                f"the foreign key {key} of table {table.name} does not point at the primary key of {target.name}",
                hint=f"declare PRIMARY KEY ({', '.join(key.target_columns)}) on {target.name}",
            )
