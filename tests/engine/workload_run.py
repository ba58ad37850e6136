"""One query of a workload, kept while small data changes: after every batch it equals DuckDB, and its feed adds up.

``python -m tests.engine.workload_run FOLDER [NAME …]`` runs queries and says of each what came of it.
"""

from __future__ import annotations

import random
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

import everview as ev
from benchmarks.texts import schema as schema_text
from benchmarks.texts import texts
from everview.engine.input.read import table_schema
from everview.query.schema import Schema, Table
from everview.sql import parse_schema
from everview.sql.datatypes import spark_name
from everview.sql.duckdb import duckdb_query, open_duckdb
from tests.engine.bags import bag, differences
from tests.engine.workload_data import Filling, Row, pools, tables_read

BATCHES: Final = 3
SPECIAL: Final[dict[str, dict[str, Sequence[Any]]]] = {
    "chbench": {
        "n_nationkey": (65, 66, 67, 68),
        "su_nationkey": (65, 66, 67, 68),
        "c_state": ("AB", "BA", "CC", "DE"),
        "w_id": (1, 2, 3),
        "ol_d_id": (1, 2),
        "d_id": (1, 2),
        "ol_number": (1, 2, 3, 4, 5),
        "o_id": tuple(range(12)),
        "c_id": tuple(range(6)),
        "o_carrier_id": (1, 2, 9),
        "o_entry_d": tuple(datetime(2007 + i, 5, 1) for i in range(5)),
        "ol_delivery_d": tuple(datetime(2009 + i, 6, 1, 12) for i in range(4)),
        "i_data": ("ab", "xb", "PRb", "coBB", "ca", "coc", "zz"),
        "su_comment": ("good", "bad", "fine"),
        "r_name": ("Europe", "Asia"),
        "c_phone": ("1-5", "2-6", "9-7"),
    },
    "tpcds": {
        "w_warehouse_sq_ft": (1, 20, 300),
        **{f"{sale}_quantity": tuple(range(50, 60)) for sale in ("ss", "cs", "ws")},
        **{f"{back}_return_quantity": (1, 2, 3) for back in ("sr", "cr", "wr")},
    },
    "finance": {"broker_id": (1, 2, 3), "price": tuple(map(float, range(0, 4000, 250)))},
    "nexmark": {
        "url": ("https://a.com/b/c/d/e?x=1", "https://a.com/f?x&channel_id=77", "none"),
        "channel": ("Apple", "x"),
    },
}
SIZES: Final = {"job": (6, 36), "finance": (40, 40), "nexmark": (12, 60), "chbench": (12, 80)}
"""How many rows tables have that nothing else points from, and the others."""


class Workload:
    """The tables of a workload, and its queries."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.schema = parse_schema(schema_text(folder))
        self.texts = texts(folder)

    def tables(self, name: str) -> list[Table]:
        """The tables that a query reads."""
        return tables_read(self.texts[name], self.schema)

    def ddl(self, name: str) -> str:
        """The statements that make these, without foreign keys, which are not enforced."""
        return "\n".join(map(_ddl, self.tables(name)))

    def rows(self, name: str, seed: int) -> dict[str, list[Row]]:
        """Data for a query."""
        filling = Filling(random.Random(seed), self.schema, pools(self.texts[name]), SPECIAL.get(self.folder, {}))
        few, many = SIZES.get(self.folder, (14, 90))
        return {t.name: filling.fill(t, many if t.foreign_keys else few) for t in self.tables(name)}


def _ddl(table: Table) -> str:
    inner = [f"{c.name} {spark_name(c.type)}{'' if c.nullable else ' NOT NULL'}" for c in table.columns]
    inner += [f"PRIMARY KEY ({', '.join(table.primary_key)})"] if table.primary_key else []
    return f"CREATE TABLE {table.name} ({', '.join(inner)});"


def follow(workload: Workload, name: str, seed: int = 0) -> int:
    """Keep a query's view through batches of changes; gives how many rows there were in the end, at most."""
    r, text, ddl = random.Random(seed), workload.texts[name], workload.ddl(name)
    schema = parse_schema(ddl)
    db = ev.Database()
    db.sql(ddl)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {text}")
    view = db.view("v")
    feed, told = view.changes(), bag(view)
    query = in_total_order(oracle(text, schema), len(view.schema), schema)
    rows = workload.rows(name, seed)
    state: dict[str, list[Row]] = {table: [] for table in rows}
    most = 0
    for number in range(BATCHES):
        with db.batch() as batch:
            for table, all_of_them in rows.items():
                gone = r.sample(state[table], len(state[table]) // 8)
                for row in gone:
                    state[table].remove(row)
                come = all_of_them[number::BATCHES] + gone[: len(gone) // 3]
                state[table] += come
                batch.delete(table, gone)
                batch.insert(table, come)
        wanted, found = bag(filled(state, schema).execute(query).fetchall()), bag(view)
        assert differences(found, wanted) == ({}, {}), f"{name} after batch {number}: {differences(found, wanted)}"
        for record in feed.read():
            _add(told, record)
        assert differences(+told, wanted) == ({}, {}), f"the feed of {name} after batch {number}"
        most = max(most, sum(n for row, n in wanted.items() if any(v is not None for v in row)))
    return most


_TUMBLE: Final = re.compile(r"TUMBLE\((\w+), (\w+), INTERVAL (\d+) SECONDS\)")
_HOP: Final = re.compile(r"HOP\((\w+), (\w+), INTERVAL (\d+) SECONDS, INTERVAL (\d+) SECONDS\)")
_SESSIONS: Final = """
SELECT bidder, COUNT(*), MIN(at), MAX(at) + INTERVAL 10 SECONDS
FROM (SELECT bidder, at, SUM(begins) OVER (PARTITION BY bidder ORDER BY at) AS number
      FROM (SELECT bidder, dateTime AS at,
              CASE WHEN dateTime <= LAG(dateTime) OVER (PARTITION BY bidder ORDER BY dateTime) + INTERVAL 10 SECONDS
                THEN 0 ELSE 1 END AS begins
            FROM bid WHERE dateTime IS NOT NULL))
GROUP BY bidder, number"""


def oracle(text: str, schema: Schema) -> str:
    """The query as DuckDB computes it; spans of time, which it does not know, are written out."""
    if "session_window" in text:
        return _SESSIONS
    spans, hops = _TUMBLE.sub(_tumbled, text), _HOP.sub(_hopped, text)
    if text == spans == hops:
        return duckdb_query(text, schema)
    return str(sqlglot.transpile(_HOP.sub(_hopped, spans), read="spark", write="duckdb")[0])


def _tumbled(found: re.Match[str]) -> str:
    table, time, width = found.groups()
    begin = f"time_bucket(INTERVAL {width} SECOND, {time})"
    return f"(SELECT *, {begin} AS window_start, {begin} + INTERVAL {width} SECOND AS window_end FROM {table})"


def _hopped(found: re.Match[str]) -> str:
    table, time, slide, width = found.groups()
    starts = "UNION ALL SELECT ".join(f"{i} AS i " for i in range(int(width) // int(slide)))
    begin = f"time_bucket(INTERVAL {slide} SECOND, {time}) - i * INTERVAL {slide} SECOND"
    return (
        f"(SELECT {table}.*, {begin} AS window_start, {begin} + INTERVAL {width} SECOND AS window_end "
        f"FROM {table}, (SELECT {starts}) WHERE {time} IS NOT NULL)"
    )


def _add(told: Counter[Any], record: pa.RecordBatch) -> None:
    visible = [i for i, n in enumerate(record.schema.names) if n not in ("_change_type", "_commit_version", "_count")]
    columns = [record.column(i).to_pylist() for i in visible]
    kinds = record.column("_change_type").to_pylist()
    counts = record.column("_count").to_pylist()
    for values, kind, count in zip(zip(*columns, strict=True), kinds, counts, strict=True):
        (row,) = bag([values])
        told[row] += count if kind in ("insert", "update_postimage") else -count


def in_total_order(query: str, width: int, schema: Schema) -> str:
    """A query of DuckDB's, its LIMIT and ROW_NUMBER in the total order of docs/sql.md: else any may be first."""
    tree = sqlglot.parse_one(query, read="duckdb")
    for window in tree.find_all(exp.Window):
        select = window.find_ancestor(exp.Select)
        if isinstance(window.this, exp.RowNumber) and select is not None:
            order = window.args["order"]
            order.set("expressions", [*order.expressions, *_inputs(select, schema)])
    if tree.args.get("limit") is not None:
        order = tree.args.get("order") or exp.Order(expressions=[])
        places = [_ascending(exp.Literal.number(i)) for i in range(1, width + 1)]
        order.set("expressions", [*order.expressions, *places])
        tree.set("order", order)
    return tree.sql("duckdb")


def _inputs(select: exp.Select, schema: Schema) -> list[exp.Expression]:
    """The columns of the tables in FROM, in their order."""
    sources = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
    tables = [(s.alias_or_name, schema.table(s.name)) for s in sources if isinstance(s, exp.Table)]
    return [_ascending(exp.column(c.name, alias)) for alias, table in tables if table for c in table.columns]


def _ascending(node: exp.Expression) -> exp.Expression:
    return exp.Ordered(this=node, desc=False, nulls_first=True)


def filled(state: Mapping[str, Sequence[Row]], schema: Schema) -> duckdb.DuckDBPyConnection:
    """A DuckDB with these rows."""
    duck: duckdb.DuckDBPyConnection = open_duckdb(locked=False, threads=1)
    for one in schema:
        arrow = table_schema(one)
        columns = list(zip(*state[one.name], strict=True)) or [()] * len(arrow)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)]
        duck.register(one.name, pa.table(arrays, schema=arrow))
    return duck


def main() -> None:
    """Run the queries that the command line names, and print what came of each."""
    folder, *names = sys.argv[1:]
    workload = Workload(folder)
    outcomes: Counter[str] = Counter()
    for name in names or workload.texts:
        begun = time.process_time()
        try:
            most = follow(workload, name)
            outcome, detail = "equal", f"{most} rows"
        except ev.errors.UnsupportedError as error:
            outcome, detail = "refused", f"{error.construct}: {str(error).splitlines()[0]}"
        except Exception as error:  # What it is, is said; the next query goes on.
            outcome, detail = type(error).__name__, str(error)[:600].replace("\n", " | ")
        outcomes[outcome] += 1
        print(f"{name:5} {outcome:10} {time.process_time() - begun:6.2f} s  {detail}", flush=True)
    print(dict(outcomes))


if __name__ == "__main__":
    main()
