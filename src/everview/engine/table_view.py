"""What a user holds of a table: its rows, and the one with a key."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from everview.engine.base_table import BaseTable
from everview.engine.operators.answers import Answers
from everview.engine.relation import Relation, Row, T, tuples
from everview.engine.values.rows import WordRows
from everview.errors import RowShapeError, SchemaError, ValueTypeError

if TYPE_CHECKING:
    from everview.engine.database import Database


class Table(Relation):
    """A table's rows, to be read; ``Database.insert`` and its like change them."""

    def __init__(self, database: Database, base: BaseTable) -> None:
        columns = [(c.name, c.type) for c in base.schema.columns]
        super().__init__(base.schema.name, columns, base.dictionary, database._lock)
        self._held = base

    @property
    def _base(self) -> BaseTable:
        self._held.check_there()
        return self._held

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The names of the primary key's columns; none if the table has no key."""
        return tuple(self._columns[i][0] for i in self._base.key)

    def get(self, key: Any) -> Row | None:
        """The row with a primary key, a value or, if the key has several columns, a tuple; None if there is none.

        As with a dict, there is none for a value of another type than its column.
        """
        base = self._base
        if not base.key:
            raise SchemaError(
                f"{self.name} has no primary key, by which rows can be looked up",
                hint="declare one in CREATE TABLE, or test a whole row with `in`",
            )
        values = key_values(key, len(base.key))
        if values is None:
            raise RowShapeError(
                f"{key!r} is no key of {self.name}, which has {len(base.key)} columns: {', '.join(self.primary_key)}",
                table=self.name,
                hint="pass a value for a key of one column, and a tuple of values for one of several",
            )
        with self._lock:
            try:
                words = self._words(values, base.key)
            except ValueTypeError:
                words = None
            if words is None:
                return None
            found = base.with_key(words)
            return tuples(self._decoded(found)[0])[0] if len(found) else None

    def _rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        return self._base.rows()

    def _ask(self, question: Callable[[Answers], T]) -> T:
        return question(self._base)

    def _changed(self) -> int:
        return self._base.updates

    def __repr__(self) -> str:
        size = len(self)
        key = f", PRIMARY KEY ({', '.join(self.primary_key)})" if self._base.key else ""
        return f"{super().__repr__()[:-2]}{key}): {size:,} row{'' if size == 1 else 's'}>"


def key_values(key: Any, width: int) -> tuple[Any, ...] | None:
    """A key as the values of its columns; None if it is not one of so many."""
    if isinstance(key, tuple | list):
        return tuple(key) if len(key) == width else None
    is_value = isinstance(key, str | bytes) or not isinstance(key, Sequence | Mapping | set | frozenset)
    return (key,) if width == 1 and is_value else None
