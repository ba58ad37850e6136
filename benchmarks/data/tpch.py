"""TPC-H-derived logs: orders and their lines under refresh streams.

Half of the orders are there before the log begins, with all customers, suppliers, nations and regions. Then refresh
functions follow each other in pairs, as in TPC-H: RF1 inserts new orders with their lines, RF2 deletes as many of the
oldest, a thousandth of all orders at a time, until every order has come. Lines go before their order and come after it,
so that foreign keys hold at every update. The rows are made by ``tpchgen-cli``, in an environment of its own.

TPC-H's own generator makes further orders for RF1 and deletes old ones by key; here both are parts of one population,
so that any scale can be cycled through. This is no TPC-H benchmark: results are to be called TPC-H-derived.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import environments
from benchmarks.data.log import BEFORE, Log
from everview.engine.input.read import table_schema
from everview.sql import parse_schema

SCHEMA = Path(__file__).parent.parent / "workloads" / "tpch" / "schema.sql"
STATIC = ("region", "nation", "supplier", "customer")
"""Tables that do not change; ``part`` and ``partsupp`` are not needed by the queries that are run."""
REFRESHED = ("orders", "lineitem")
PAIRS = 1_000
"""A refresh function is about one order in so many."""


def log(scale: float, folder: Path) -> Log:
    """Write the log of a scale factor to a folder."""
    with TemporaryDirectory() as scratch:
        generate(scale, Path(scratch))
        files = {name: Path(scratch) / f"{name}.parquet" for name in (*STATIC, *REFRESHED)}
        tables = {name: _typed(name, pq.read_table(file)) for name, file in files.items()}
    return write(f"TPC-H-derived, SF {scale:g}", tables, folder)


def generate(scale: float, folder: Path) -> None:
    """Have the tables' files written; the generator's environment is made if it is not there."""
    command = environments.make("tpchgen").with_name("tpchgen-cli")
    tables = ",".join((*STATIC, *REFRESHED))
    subprocess.run(
        [command, "parquet", f"--scale-factor={scale:g}", f"--tables={tables}", f"--output-dir={folder}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _typed(name: str, rows: pa.Table) -> pa.Table:
    """The rows in the types that the schema declares."""
    table = parse_schema(SCHEMA.read_text(encoding="utf-8")).table(name)
    assert table is not None
    wanted = table_schema(table)
    return rows.select(wanted.names).cast(wanted)


def write(name: str, tables: Mapping[str, pa.Table], folder: Path) -> Log:
    """Write the log of some tables; ``orders`` come, and go, in the order that they have there."""
    orders, lines = tables["orders"], tables["lineitem"]
    keys = orders["o_orderkey"].to_numpy()
    by_key = np.argsort(keys)
    order_of = by_key[np.searchsorted(keys, lines["l_orderkey"].to_numpy(), sorter=by_key)]
    streams = {"orders": _stream(np.arange(len(orders)), len(orders), 0), "lineitem": _stream(order_of, len(orders), 1)}
    found = {t: _with(tables[t], np.ones(len(tables[t]), np.int8), np.full(len(tables[t]), BEFORE)) for t in STATIC}
    for (table, stream), at in zip(streams.items(), _places(list(streams.values())), strict=True):
        found[table] = _with(tables[table].take(stream.row), stream.weight, at)
    return Log.write(folder, name, SCHEMA.read_text(encoding="utf-8"), found)


class _Stream(NamedTuple):
    """What happens to the rows of a table, unordered: the row, and by what it is ordered among all that happens."""

    row: np.ndarray
    weight: np.ndarray
    function: np.ndarray
    """The number of the refresh function; −1 for rows that are there before."""
    order: np.ndarray
    rank: np.ndarray
    """The place among what a function does for one order."""


def _stream(order: np.ndarray, orders: int, depth: int) -> _Stream:
    """The stream of a table whose rows belong to orders, by number; what is deeper comes later and goes earlier."""
    half, size = orders // 2, max(1, orders // PAIRS)
    comes = np.where(order < half, BEFORE, 2 * ((order - half) // size))
    going = np.flatnonzero(order < orders - half)
    goes = 2 * (order[going] // size) + 1
    return _Stream(
        row=np.concatenate([np.arange(len(order)), going]),
        weight=np.concatenate([np.ones(len(order), np.int8), np.full(len(going), -1, np.int8)]),
        function=np.concatenate([comes, goes]),
        order=np.concatenate([order, order[going]]),
        rank=np.concatenate([np.full(len(order), depth), np.full(len(going), -depth)]),
    )


def _places(streams: list[_Stream]) -> list[np.ndarray]:
    """The places in the log of all that happens."""
    row, _, function, order, rank = (np.concatenate(columns) for columns in zip(*streams, strict=True))
    sorted_ = np.lexsort((row, rank, order, function))
    at = np.empty(len(sorted_), np.int64)
    at[sorted_] = np.arange(len(sorted_)) - np.count_nonzero(function == BEFORE)
    at[function == BEFORE] = BEFORE
    return np.split(at, np.cumsum([len(s.row) for s in streams])[:-1])


def _with(rows: pa.Table, weight: np.ndarray, at: np.ndarray) -> pa.Table:
    return rows.append_column("_weight", pa.array(weight)).append_column("_at", pa.array(at))
