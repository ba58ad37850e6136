"""Small random data for any workload: keys that meet, and the values that a query compares its columns with.

Everything comes from the schema and the text of one query. A foreign key takes the keys of the table that it points at;
a column that is compared with constants anywhere in the query takes these, or values beside them; others have few
values, so that joins by other columns find partners, too.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from everview.query.schema import Column, Schema, Table
from everview.query.types import Kind

Row = tuple[Any, ...]
Pools = dict[str, list[Any]]
"""By column, in lower case, the constants that it is compared with."""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Like)


def tables_read(text: str, schema: Schema) -> list[Table]:
    """The tables that a query names, those that are pointed at first."""
    tree = sqlglot.parse_one(text, read="spark")
    names = {t.name.lower() for t in tree.find_all(exp.Table)}
    names |= {c.name.lower() for f in tree.find_all(exp.Anonymous) for c in f.find_all(exp.Column)}
    found: list[Table] = []
    waiting = [t for t in schema if t.name.lower() in names]
    while waiting:
        left = {t.name for t in waiting}
        ready = [t for t in waiting if not any(f.target in left - {t.name} for f in t.foreign_keys)] or waiting[:1]
        found += ready
        waiting = [t for t in waiting if t not in ready]
    return found


def pools(text: str) -> Pools:
    """The constants that a query compares columns with, by the columns' names and, where it names one, their tables."""
    found: Pools = {}
    tree = sqlglot.parse_one(text, read="spark")
    tables = {t.alias_or_name.lower(): t.name.lower() for t in tree.find_all(exp.Table)}
    for node in tree.find_all(*_COMPARISONS, exp.Between, exp.In, exp.Is):
        if isinstance(node, exp.In):
            sides = [(node.this, one) for one in node.expressions]
        elif isinstance(node, exp.Between):
            sides = [(node.this, node.args["low"]), (node.this, node.args["high"])]
        else:
            sides = [(node.this, node.expression), (node.expression, node.this)]
        for left, right in sides:
            columns = list(left.find_all(exp.Column))
            if len(columns) != 1:
                continue
            known = found.setdefault(_place(tables.get(columns[0].table.lower(), ""), columns[0].name), [])
            known += [v for v in _meeting(node, right) if v not in known]
            if isinstance(node, exp.Like) and not isinstance(node.parent, exp.Not):
                likes = [v for v in known if isinstance(v, str)]
                known += ["".join(dict.fromkeys(likes))]  # which is like all of them
    return {name: values for name, values in found.items() if values}


def _place(table: str, column: str) -> str:
    return f"{table}.{column}".lower().lstrip(".")


def _meeting(node: exp.Expr, right: exp.Expr) -> list[Any]:
    """Values that meet a comparison with a constant, and that constant."""
    if any(True for _ in right.find_all(exp.Column, exp.Query, exp.AggFunc)):
        return []
    if isinstance(node, exp.Is):
        return [None] if isinstance(right, exp.Null) and not isinstance(node.parent, exp.Not) else []
    try:
        ((value,),) = _constant(right.sql("duckdb"))
    except duckdb.Error:
        return []
    if value is None:
        return []
    if isinstance(node, exp.Like):
        return [str(value).replace("%", part).replace("_", "u") for part in ("", "x")]
    if isinstance(value, str):
        return [value, f"{value}1"] if isinstance(node, exp.GT) else [value]
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return [value, value + {exp.GT: 1, exp.LT: -1}.get(type(node), 0)]
    return [value]


@cache
def _constant(text: str) -> list[tuple[Any, ...]]:
    return duckdb.execute(f"SELECT {text}").fetchall()


class Filling:
    """The rows of some tables: as they come, they are consistent with those that came before."""

    def __init__(self, r: random.Random, schema: Schema, found: Pools, special: Mapping[str, Sequence[Any]]) -> None:
        self.r = r
        self.schema = schema
        self.pools = found
        self.special = {name.lower(): list(values) for name, values in special.items()}
        self.rows: dict[str, list[Row]] = {}

    def fill(self, table: Table, size: int) -> list[Row]:
        """Some rows, of which no two have one key."""
        keys: set[Row] = set()
        places = table.positions(table.primary_key)
        single = places[0] if len(places) == 1 and not self._target(table, table.columns[places[0]]) else None
        found: list[Row] = []
        for number in range(size):
            row = self._row(table, number, single)
            key = tuple(row[i] for i in places)
            if table.name == "date_dim":
                key = (row[2],)  # a day is there once
            if places and (key in keys or None in key):
                continue
            keys.add(key)
            found.append(row)
        self.rows[table.name] = found
        return found

    def _row(self, table: Table, number: int, single: int | None) -> Row:
        values: dict[str, Any] = calendar(self.r, self.pools) if table.name == "date_dim" else {}
        for foreign in table.foreign_keys:
            parents = self.rows.get(foreign.target)
            if not parents or foreign.target == table.name:
                continue
            target = self.schema.table(foreign.target)
            parent = self.r.choice(parents)
            for column, place in zip(foreign.columns, target.positions(foreign.target_columns), strict=True):
                values.setdefault(column, parent[place])
        found = []
        for i, column in enumerate(table.columns):
            if i == single:
                known = self.special.get(column.name.lower())
                found.append(known[number % len(known)] if known else number)
            elif column.nullable and table.name != "date_dim" and self.r.random() < 0.06:
                found.append(None)
            else:
                found.append(values[column.name] if column.name in values else self._value(table, column))
        return tuple(found)

    def _target(self, table: Table, column: Column) -> bool:
        return any(f.columns == (column.name,) and f.target != table.name for f in table.foreign_keys)

    def _value(self, table: Table, column: Column) -> Any:
        r, name = self.r, column.name.lower()
        if name in self.special:
            return r.choice(self.special[name])
        pool = self.pools.get(_place(table.name, name)) or self.pools.get(name)
        if pool and r.random() < 0.92:
            try:
                return _fitted(_near(r, pool), column)
            except (ValueError, TypeError, ArithmeticError, AttributeError):
                pass  # a part of the value is compared with it, such as HOUR(ts)
        return _any(r, column)


def calendar(r: random.Random, found: Pools) -> dict[str, Any]:
    """A day of TPC-DS as its table of days has it, near the times that a query asks for."""

    def wanted(name: str) -> list[int]:
        return [int(v) for v in found.get(name, ()) if str(v).isdigit()]

    days = [v for v in found.get("d_date", ()) if isinstance(v, date)]
    days += [date.fromisoformat(v) for v in found.get("d_date", ()) if isinstance(v, str)]
    months = [m for m in wanted("d_month_seq") if m > 99]
    if days and r.random() < 0.8:
        day = _near(r, days)
    elif months and r.random() < 0.8:
        month = _near(r, [min(months), max(months)])
        day = date(1900 + int(month) // 12, int(month) % 12 + 1, r.randint(1, 28))
    else:
        quarters = [3 * q - r.randint(0, 2) for q in wanted("d_qoy")]
        year, month = (
            r.choice(wanted("d_year") or [1999, 2000, 2001]),
            r.choice(wanted("d_moy") or quarters or [1, 2, 12]),
        )
        day = date(
            year + r.choice((0, 0, 0, 1)), month, r.choice([d for d in wanted("d_dom") if 0 < d < 29] or [1, 2, 9])
        )
    month_seq = (day.year - 1900) * 12 + day.month - 1
    week = (day - date(1899, 12, 31)).days // 7
    quarter = (day.month + 2) // 3
    return {
        "d_date": day,
        "d_month_seq": month_seq,
        "d_week_seq": week,
        "d_quarter_seq": month_seq // 3,
        "d_year": day.year,
        "d_dow": day.isoweekday() % 7,
        "d_moy": day.month,
        "d_dom": day.day,
        "d_qoy": quarter,
        "d_day_name": f"{day:%A}",
        "d_quarter_name": f"{day.year}Q{quarter}",
    }


def _near(r: random.Random, pool: list[Any]) -> Any:
    """A constant of a query, something between two of them, or beside one."""
    value = r.choice(pool)
    if value is None or isinstance(value, str) or r.random() < 0.6:
        return value
    if isinstance(value, bool):
        return value
    other = r.choice([v for v in pool if type(v) is type(value)])
    if isinstance(value, date):
        days = (other - value).days
        return value + timedelta(r.randint(min(0, days), max(0, days)) if days else r.randint(-3, 40))
    between = other - value
    return value + r.choice((-1, 1)) if not between else value + between * r.randint(0, 4) / 4


def _fitted(value: Any, column: Column) -> Any:
    """A value as one of the column's type."""
    type_ = column.type
    if value is None:
        return None if column.nullable else _fitted("0", column)
    if type_.is_integer:
        return int(Decimal(str(value)))
    match type_.kind:
        case Kind.STRING:
            return str(value)
        case Kind.DECIMAL:
            found = Decimal(str(value)).quantize(Decimal(1).scaleb(-type_.scale))
            return min(found, Decimal(10 ** (type_.precision - type_.scale) - 1))
        case Kind.DOUBLE | Kind.FLOAT:
            return float(value)
        case Kind.DATE:
            value = date.fromisoformat(value[:10]) if isinstance(value, str) else value
            return value.date() if isinstance(value, datetime) else value
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            value = datetime.fromisoformat(value) if isinstance(value, str) else value
            return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        case _:
            return value


def _any(r: random.Random, column: Column) -> Any:
    type_ = column.type
    small = r.randint(0, 9)
    if type_.is_integer:
        return small
    match type_.kind:
        case Kind.STRING:
            return "abcd"[small % 4]
        case Kind.DECIMAL:
            most = min(10**6, 10**type_.precision - 1)
            return Decimal(r.randint(0, most)).scaleb(-type_.scale)
        case Kind.DOUBLE | Kind.FLOAT:
            return float(r.randint(0, 4000))
        case Kind.DATE:
            return date(1998 + small % 5, 1 + small, 1 + r.randint(0, 27))
        case Kind.TIMESTAMP | Kind.TIMESTAMP_NTZ:
            return datetime(2010, 1, 1, 8 + small) + timedelta(seconds=r.randint(0, 60))
        case _:
            return bool(small % 2)
