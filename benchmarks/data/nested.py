"""A log whose lifespans enclose each other as often as one likes: the enclosureness λ grows, and nothing else does.

Three tables in a path, r1(a, b), r2(b, c), r3(c, d). A row of r2 lives for a window of ``WINDOW`` rows of r2; meanwhile
the row of r3 that it meets comes and goes ``times`` times. Few rows of r1 match, so that hardly any result comes of it:
what is measured is the upkeep.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.data.log import BEFORE, Log

WINDOW = 4_096
STEPS = 40_000
"""The rows of r2 at scale 1, and of r3."""
MATCHING = 256
"""Every so many rows of r2 have a row of r1 that they meet."""
SCHEMA = """\
CREATE TABLE r1 (a BIGINT NOT NULL, b BIGINT NOT NULL);
CREATE TABLE r2 (b BIGINT NOT NULL, c BIGINT NOT NULL);
CREATE TABLE r3 (c BIGINT NOT NULL, d BIGINT NOT NULL);
"""


def log(times: int, steps: int, folder: Path) -> Log:
    """A log of ``steps`` rows of r2 and as many of r3, each of which also goes again once its time is over."""
    keys = WINDOW // times
    r2 = _windowed(np.arange(steps), np.arange(steps) % keys, steps, WINDOW, offset=0)
    r3 = _windowed(np.arange(steps) % keys, np.arange(steps), steps, keys, offset=2)
    second, third = (_table(names, rows) for names, rows in ((("b", "c"), r2), (("c", "d"), r3)))
    b = np.arange(0, steps, MATCHING)
    first = {"a": b, "b": b, "_weight": np.ones(len(b), np.int8), "_at": np.full(len(b), BEFORE)}
    tables = {"r1": pa.table(first), "r2": second, "r3": third}
    return Log.write(folder, f"nested {times} times", SCHEMA, _renumbered(tables))


def _windowed(left: np.ndarray, right: np.ndarray, steps: int, window: int, offset: int) -> list[np.ndarray]:
    """Each row comes at its step, and goes just before the row ``window`` steps later comes."""
    come = [left, right, np.ones(steps, np.int8), 4 * np.arange(steps) + offset + 1]
    last = max(0, steps - window)
    go = [left[:last], right[:last], np.full(last, -1, np.int8), 4 * (np.arange(last) + window) + offset]
    return [np.concatenate(pair) for pair in zip(come, go, strict=True)]


def _table(names: tuple[str, str], rows: list[np.ndarray]) -> pa.Table:
    return pa.table(dict(zip((*names, "_weight", "_at"), rows, strict=True)))


def _renumbered(tables: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """The same order, positions without gaps."""
    used = np.unique(np.concatenate([t.column("_at").to_numpy() for t in tables.values()]))
    used = used[used != BEFORE]
    found = {}
    for name, table in tables.items():
        at = table.column("_at").to_numpy()
        places = np.where(at == BEFORE, BEFORE, np.searchsorted(used, at))
        found[name] = table.set_column(table.column_names.index("_at"), "_at", pa.array(places))
    return found
