"""A batch in the making: changes of several tables that are applied together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.errors import ClosedError

if TYPE_CHECKING:
    from everview.engine.database import Database

Operation = tuple[str, pa.Table, pa.Array]
"""Rows of one table and the change of copies of each."""


class Batch:
    """Changes that are collected to be applied together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operations: list[Operation] = []
        self.closed = False

    def insert(self, table: str, rows: Any) -> None:
        """Insert rows when the batch is applied."""
        self._add([self._database._inserted(table, rows)])

    def delete(self, table: str, rows: Any) -> None:
        """Delete rows when the batch is applied."""
        self._add([self._database._deleted(table, rows)])

    def apply(self, table: str, changes: Any) -> None:
        """Apply rows with a ``_change_type`` when the batch is applied."""
        self._add([self._database._applied(table, changes)])

    def _add(self, operations: list[Operation]) -> None:
        if self.closed:
            raise ClosedError("the batch has been applied", hint="begin a new one with db.batch()")
        self.operations += operations
