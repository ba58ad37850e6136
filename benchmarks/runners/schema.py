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
    """The tables that a query reads; what it names itself in WITH is none."""
    return _tables(sqlglot.parse_one(sql, read="spark"))


def used_columns(sql: str, tables: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Table by table, the columns that a query names."""
    parsed = sqlglot.parse_one(sql, read="spark")
    names = {column.name for column in parsed.find_all(exp.Column)}
    return {table: [c for c in tables[table] if c in names] for table in _tables(parsed)}


def _tables(query: exp.Expression) -> list[str]:
    own = {cte.alias for cte in query.find_all(exp.CTE)}
    return sorted({table.name for table in query.find_all(exp.Table)} - own)


def narrowed(schema: str, used: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, list[str]]]:
    """A script with only the tables that are used, and of these the used columns and keys; and which these are."""
    found, kept = [], {}
    for statement in sqlglot.parse(schema, read="spark"):
        table = "" if statement is None else statement.find(exp.Table).name
        if table not in used:
            continue
        primary = statement.find(exp.PrimaryKey)
        wanted = {*used[table], *(c.name for c in (primary.expressions if primary is not None else ()))}
        for column in list(statement.find_all(exp.ColumnDef)):
            if column.name not in wanted and column.find(exp.PrimaryKeyColumnConstraint) is None:
                column.pop()
        for key in list(statement.find_all(exp.ForeignKey)):
            points_at = key.args["reference"].find(exp.Table).name
            if points_at not in used or not {c.name for c in key.expressions} <= wanted:
                key.pop()
        kept[table] = [column.name for column in statement.find_all(exp.ColumnDef)]
        found.append(statement.sql("spark"))
    return ";\n".join(found), kept


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
