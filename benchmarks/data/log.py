"""A log: tables that change, as a folder that every system can read (docs/benchmarks.md).

Reading needs no more than pyarrow and numpy, which every rival's environment has.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

BEFORE = -1
"""The position of rows that are there before the log begins."""


@dataclass(frozen=True)
class Log:
    """The updates of some tables, in one order over all of them."""

    folder: Path
    name: str
    updates: int
    columns: dict[str, list[tuple[str, str]]]
    """Table by table, the columns with their SQL types."""

    @classmethod
    def read(cls, folder: Path) -> Log:
        """The log that was written to a folder; its tables are read when they are asked for."""
        head = json.loads((folder / "log.json").read_text(encoding="utf-8"))
        columns = {name: [(c, t) for c, t in table["columns"]] for name, table in head["tables"].items()}
        return cls(folder, head["name"], head["updates"], columns)

    @classmethod
    def write(cls, folder: Path, name: str, schema: str, tables: Mapping[str, pa.Table]) -> Log:
        """Write a log of tables with ``_weight`` and ``_at``; ``schema`` creates at least these tables.

        The folder appears whole or not at all.
        """
        columns = _declared(schema, tables)
        made = folder.with_name(f".{folder.name}.new")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
        updates = 0
        for table, rows in tables.items():
            rows = rows.sort_by("_at")
            updates += int((_positions(rows) != BEFORE).sum())
            pq.write_table(rows.combine_chunks(), made / f"{table}.parquet")
        head = {
            "name": name,
            "updates": updates,
            "tables": {t: {"rows": len(rows), "columns": columns[t]} for t, rows in tables.items()},
        }
        (made / "schema.sql").write_text(schema, encoding="utf-8")
        (made / "log.json").write_text(json.dumps(head, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)
        return cls.read(folder)

    @property
    def schema(self) -> str:
        """The statements that create the tables, in our SQL."""
        return (self.folder / "schema.sql").read_text(encoding="utf-8")

    @cached_property
    def tables(self) -> dict[str, pa.Table]:
        """All rows of each table in the order of the log, with ``_weight`` and ``_at``."""
        return {t: pq.read_table(self.folder / f"{t}.parquet").combine_chunks() for t in self.columns}

    def initial(self) -> dict[str, pa.Table]:
        """The rows that are there before the log begins, table by table, if there are any."""
        found = {t: rows.slice(0, self._first(t)) for t, rows in self.tables.items()}
        return {t: rows.select(self.names(t)) for t, rows in found.items() if len(rows)}

    def names(self, table: str) -> list[str]:
        """A table's columns."""
        return [name for name, _ in self.columns[table]]

    def batches(self, size: int) -> Iterator[tuple[int, dict[str, pa.Table]]]:
        """The updates in batches: how many, and by table, if there are any, the rows with ``_weight`` and ``_at``."""
        return cut(self.tables, range(size, self.updates + size, size), self.updates)

    def later(self, folder: Path, first: int, updates: int) -> Log:
        """The log of what follows the first updates, so many of them; what those leave is there before it begins."""
        tables = {}
        for name, rows in self.tables.items():
            at = _positions(rows)
            before = rows.slice(0, int(np.searchsorted(at, first)))
            after = rows.slice(len(before), int(np.searchsorted(at, first + updates)) - len(before))
            shifted = pa.array(_positions(after) - first)
            after = after.set_column(after.column_names.index("_at"), "_at", shifted)
            tables[name] = pa.concat_tables(
                [self._left(name, before), after.select([*self.names(name), "_weight", "_at"])]
            )
        return Log.write(folder, f"{self.name}, after {first:,}", self.schema, tables)

    def _left(self, table: str, rows: pa.Table) -> pa.Table:
        """The rows that are there after some, as rows that are there before a log begins."""
        columns = self.names(table)
        counted = rows.group_by(columns, use_threads=False).aggregate([("_weight", "sum")])
        copies = np.maximum(counted.column("_weight_sum").to_numpy(), 0)
        left = counted.select(columns).take(pa.array(np.repeat(np.arange(len(counted)), copies)))
        left = left.append_column("_weight", pa.array(np.ones(len(left), np.int8)))
        return left.append_column("_at", pa.array(np.full(len(left), BEFORE)))

    def _first(self, table: str) -> int:
        return int(np.searchsorted(_positions(self.tables[table]), BEFORE, side="right"))


def cut(tables: Mapping[str, pa.Table], ends: Iterable[int], updates: int) -> Iterator[tuple[int, dict[str, pa.Table]]]:
    """Tables with ``_at`` cut into batches that end before these positions, or where the log does."""
    cuts = [0, *(min(end, updates) for end in ends)]
    places = {name: np.searchsorted(_positions(rows), cuts) for name, rows in tables.items()}
    for i, (first, end) in enumerate(pairwise(cuts)):
        parts = {t: tables[t].slice(p[i], p[i + 1] - p[i]) for t, p in places.items() if p[i + 1] > p[i]}
        yield end - first, parts


def _positions(rows: pa.Table) -> np.ndarray:
    return rows.column("_at").to_numpy()


def _declared(schema: str, tables: Mapping[str, pa.Table]) -> dict[str, list[tuple[str, str]]]:
    """The columns that a schema declares for the tables, which must have them and ``_weight`` and ``_at``."""
    from everview.sql import parse_script

    known = {t.name: [(c.name, str(c.type)) for c in t.columns] for t in parse_script(schema)[0]}
    for name, rows in tables.items():
        wanted = [*(c for c, _ in known[name]), "_weight", "_at"]
        if sorted(rows.column_names) != sorted(wanted):
            raise ValueError(f"{name} has the columns {rows.column_names}, not {wanted}")
    return {name: known[name] for name in tables}
