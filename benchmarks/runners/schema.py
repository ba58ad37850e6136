"""What a schema and a query say, for runners in environments that have sqlglot but not Everview."""

from __future__ import annotations

import sqlglot
from sqlglot import exp


def primary_keys(schema: str) -> dict[str, tuple[str, ...]]:
    """The keys of the tables that a script creates, if they have one."""
    found = {}
    for statement in sqlglot.parse(schema, read="spark"):
        if statement is not None and (key := statement.find(exp.PrimaryKey)) is not None:
            found[statement.find(exp.Table).name] = tuple(c.name for c in key.expressions)
    return found


def tables_of(sql: str) -> list[str]:
    """The tables that a query reads."""
    return sorted({table.name for table in sqlglot.parse_one(sql, read="spark").find_all(exp.Table)})
