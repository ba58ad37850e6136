"""Operations of random batches: those that can be done of some, and those for which a batch is refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tests.engine.case_data import Row, TableDef

HUGE = 2**62
"""Three of it are beyond a sum's type."""


def possible(
    tables: Mapping[str, TableDef],
    model: Mapping[str, Sequence[Row]],
    operations: Iterable[tuple[str, str, tuple[Row, ...]]],
) -> list[tuple[str, str, list[Row]]]:
    """What can be done of some operations, given what is there."""
    rows_of = {name: list(rows) for name, rows in model.items()}
    found = []
    for op, name, rows in operations:
        kept: list[Row] = []
        key = tables[name].key
        for row in rows:
            if op == "delete":
                if row not in rows_of[name]:
                    continue
                rows_of[name].remove(row)
            elif op == "upsert":
                rows_of[name] = [o for o in rows_of[name] if any(o[i] != row[i] for i in key)] + [row]
            else:
                if key and any(all(o[i] == row[i] for i in key) for o in rows_of[name]):
                    continue
                rows_of[name].append(row)
            kept.append(row)
        if kept:
            found.append((op, name, kept))
    return found


def poisoned(
    kind: str, table: TableDef, rows: tuple[Row, ...], there: Sequence[Row]
) -> tuple[str, str, list[Row]] | None:
    """An operation for which a batch is refused, if the table knows such; two of its rows, and those that are there."""
    name = table.name
    first = rows[0]
    if kind == "duplicate_key" and table.key:
        return "insert", name, [first, first]
    if kind == "type":
        wrong = (object(), *first[1:])
        return "insert", name, [wrong]
    if kind == "arity":
        return "insert", name, [(*first, 1)]
    if kind == "null":
        at = next((i for i, c in enumerate(table.columns) if not c.nullable), None)
        if at is not None:
            return "insert", name, [(*first[:at], None, *first[at + 1 :])]
    if kind == "overflow":
        at = next((i for i, c in enumerate(table.columns) if c.type == "BIGINT"), None)
        if at is None or table.key:
            return None
        huge = (*first[:at], HUGE, *first[at + 1 :])
        return "insert", name, [huge] * 3
    return "delete", name, [first] * (30 + there.count(first))
