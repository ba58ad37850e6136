"""Random tables, and rows for them."""

from __future__ import annotations

import random
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from tests.engine.case_data import ColumnDef, TableDef

TYPES = {
    "n": ("INT", "BIGINT", "SMALLINT"),
    "s": ("STRING",),
    "f": ("DOUBLE",),
    "d": ("DECIMAL(6,2)",),
    "w": ("DECIMAL(22,3)",),
    "t": ("DATE",),
    "z": ("TIMESTAMP_NTZ",),
    "b": ("BOOLEAN",),
}
STRINGS = ["a", "b", "A", "ab", "it's", "", "ü", "b"]


def _columns(r: random.Random, size: int) -> tuple[ColumnDef, ...]:
    found = []
    for i in range(size):
        kind = r.choices("nsfdwtzb", (12, 4, 2, 2, 1, 1, 1, 1))[0]
        type_ = r.choices(TYPES[kind], (5, 4, 1))[0] if kind == "n" else r.choice(TYPES[kind])
        found.append(ColumnDef("abcdefg"[i], kind, type_, r.random() < 0.7))
    return tuple(found)


def tables(r: random.Random) -> tuple[TableDef, ...]:
    found = []
    for i in range(r.choices((1, 2, 3, 4), (2, 4, 3, 1))[0]):
        if r.random() < 0.35:  # edges, for cycles
            columns = tuple(ColumnDef(n, "n", r.choice(("INT", "BIGINT")), r.random() < 0.5) for n in "ab")
        else:
            columns = _columns(r, r.choices((1, 2, 3, 4), (1, 3, 3, 2))[0])
        key: tuple[int, ...] = ()
        if r.random() < 0.2:
            key = tuple(sorted(r.sample(range(len(columns)), r.choice((1, min(2, len(columns)))))))
            key = tuple(k for k in key if columns[k].kind in "nsdt")
        found.append(TableDef(f"t{i}", columns, key))
    return tuple(found)


def value(r: random.Random, column: ColumnDef, key: bool, domain: int) -> Any:
    if column.nullable and not key and r.random() < 0.12:
        return None
    number = min(r.randint(0, domain), r.randint(0, domain))  # skewed to the small ones
    if r.random() < 0.1:
        number = -number
    match column.kind:
        case "n":
            return number
        case "s":
            return r.choice(STRINGS)
        case "f":
            return number / 4 if r.random() < 0.95 else r.choice([-0.0, 0.0, 1e10])
        case "d":
            return Decimal(number * 25).scaleb(-2)
        case "w":
            return Decimal(number * 10**15 + 125).scaleb(-3)
        case "t":
            return date(1999, 1 + abs(number) % 12, 1)
        case "z":
            return datetime(1999, 1 + abs(number) % 12, 1, 3, 30)
        case "y":
            return r.choice([b"", b"a", b"\x00\xff"])
        case _:
            return number % 2 == 0
