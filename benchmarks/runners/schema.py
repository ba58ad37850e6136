"""What a schema and a query say, for runners in environments that have sqlglot but not Everview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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


def used_columns(sql: str, tables: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Table by table, the columns that a query names."""
    parsed = sqlglot.parse_one(sql, read="spark")
    names = {column.name for column in parsed.find_all(exp.Column)}
    read = {table.name for table in parsed.find_all(exp.Table)}
    return {table: [c for c in tables[table] if c in names] for table in sorted(read)}


def declarations(schema: str, tables: Sequence[str]) -> str:
    """What a script says of some of its tables alone; foreign keys to others are left out."""
    found = []
    for statement in sqlglot.parse(schema, read="spark"):
        if statement is None or statement.find(exp.Table).name not in tables:
            continue
        for key in list(statement.find_all(exp.ForeignKey)):
            if key.args["reference"].find(exp.Table).name not in tables:
                key.pop()
        found.append(statement.sql("spark"))
    return ";\n".join(found)
