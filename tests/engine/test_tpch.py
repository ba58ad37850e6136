"""The queries of TPC-H on small random tables that meet their conditions, kept while rows change: equal to DuckDB."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot

import everview as ev
from everview.engine.input.read import table_schema
from everview.sql import parse_schema
from everview.sql.duckdb import duckdb_query, open_duckdb
from tests.engine.bags import bag, differences
from tests.test_workloads import EXPECTED, read

NAMES = [name for name, expected in EXPECTED["tpch"].items() if expected["outcome"] == "planned"]
NATIONS = ("GERMANY", "FRANCE", "CANADA", "SAUDI ARABIA", "BRAZIL", "ROMANIA")
BATCHES = 3


def table(r: random.Random, name: str, size: int) -> list[tuple[Any, ...]]:
    """Rows whose values meet the conditions of the queries often."""

    def money(most: int) -> Decimal:
        return Decimal(r.randint(0, most)).scaleb(-2)

    def day(first: int = 1992, last: int = 1998) -> date:
        return date(first, 1, 1) + timedelta(r.randint(0, 365 * (last - first + 1)))

    def phone() -> str:
        return f"{r.choice(('13', '31', '23', '44'))}-555"

    match name:
        case "region":
            return [(i, n, None) for i, n in enumerate(("EUROPE", "ASIA", "AMERICA", "MIDDLE EAST"))]
        case "nation":
            return [(i, n, i % 2, None) for i, n in enumerate(NATIONS)]
        case "part":
            types = ("ECONOMY ANODIZED STEEL", "PROMO BRASS", "MEDIUM POLISHED TIN", "LARGE BRASS")
            names = ("forest green", "green mint", "almond")
            boxes = ("MED BOX", "SM CASE", "LG PKG", "MED BAG")
            return [
                (
                    *(i, r.choice(names), "m", r.choice(("Brand#23", "Brand#45", "Brand#12")), r.choice(types)),
                    *(r.choice((15, 49, 3, 9, 5)), r.choice(boxes), money(10**5), "c"),
                )
                for i in range(size)
            ]
        case "supplier":
            said = ("fine", "a Customer with Complaints")
            return [(i, f"s{i}", "a", r.randrange(6), phone(), money(10**5), r.choice(said)) for i in range(size // 3)]
        case "partsupp":
            pairs = {(r.randrange(size), r.randrange(size // 3)) for _ in range(2 * size)}
            return [(p, s, r.randint(1, 60), money(5000), "c") for p, s in sorted(pairs)]
        case "customer":
            segments = ("BUILDING", "MACHINERY")
            return [
                (i, f"c{i}", "a", r.randrange(6), phone(), money(10**5) - 200, r.choice(segments), "c")
                for i in range(size)
            ]
        case "orders":
            said = ("plain", "special packages requests")
            return [
                (
                    *(i, r.randrange(size), r.choice("FFO"), money(10**7), day(), r.choice(("1-URGENT", "5-LOW"))),
                    *("k", 0, r.choice(said)),
                )
                for i in range(2 * size)
            ]
        case _:
            keys = {(r.randrange(2 * size), r.randint(1, 4)) for _ in range(5 * size)}
            modes, told = ("MAIL", "SHIP", "AIR", "AIR REG"), ("DELIVER IN PERSON", "NONE")
            return [
                (
                    *(o, r.randrange(size), r.randrange(size // 3), n, Decimal(r.randint(1, 120)), money(10**6)),
                    *(Decimal(r.randint(0, 10)).scaleb(-2), Decimal(0), r.choice("RAN"), r.choice("FO")),
                    *(day(), day(), day(), r.choice(told), r.choice(modes), "c"),
                )
                for o, n in sorted(keys)
            ]


@pytest.mark.slow
def test_all_of_them_while_rows_change() -> None:
    r, ddl = random.Random(22), read("tpch", "schema")
    schema = parse_schema(ddl)
    db, views = ev.Database(), {f"v{i}": read("tpch", name) for i, name in enumerate(NAMES)}
    db.sql(ddl)
    for view, text in views.items():
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS {text}")
    feeds = {view: db.view(view).changes() for view in views}
    told = {view: bag(db.view(view)) for view in views}
    tables = {t.name: table(r, t.name, 40) for t in schema}
    state: dict[str, list[tuple[Any, ...]]] = {name: [] for name in tables}
    queries = {view: duckdb_query(text, schema) for view, text in views.items()}
    queries = {view: _in_total_order(query, len(db.view(view).schema)) for view, query in queries.items()}
    were_there = set()
    for number in range(BATCHES):
        with db.batch() as batch:
            for name, rows in tables.items():
                gone = r.sample(state[name], len(state[name]) // 8) if len(state[name]) > 8 else []
                for row in gone:
                    state[name].remove(row)
                batch.delete(name, gone)
                come = rows[number::BATCHES] if len(rows) > 8 else rows[: len(rows) * (number == 0)]
                state[name] += come
                batch.insert(name, come)
        duck = _filled(state, ddl)
        for view, query in queries.items():
            wanted, found = bag(duck.execute(query).fetchall()), bag(db.view(view))
            assert differences(found, wanted) == ({}, {}), f"{NAMES[int(view[1:])]} after batch {number}"
            for record in feeds[view].read():
                for row in record.to_pylist():
                    sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
                    (values,) = bag([[v for k, v in row.items() if k[0] != "_"]])
                    told[view][values] += sign * row["_count"]
            assert differences(+told[view], wanted) == ({}, {}), f"the feed of {NAMES[int(view[1:])]}"
            were_there |= {view} if any(any(v is not None for v in row) for row in wanted) else set()
    assert len(were_there) > len(views) // 2
    assert set(NAMES) == {f"q{i:02}" for i in range(1, 23)}


def _in_total_order(query: str, width: int) -> str:
    """A query with LIMIT, its order made total by the output columns: DuckDB takes any of what ORDER BY calls equal."""
    tree = sqlglot.parse_one(query, read="duckdb")
    limit, order = tree.args.get("limit"), tree.args.get("order")
    if limit is None:
        return query
    keys = [key.sql("duckdb") for key in order.expressions]
    tree.set("limit", None)
    tree.set("order", None)
    by = ", ".join([*keys, *(f"{i} NULLS FIRST" for i in range(1, width + 1))])
    return f"SELECT * FROM ({tree.sql('duckdb')}) ORDER BY {by} {limit.sql('duckdb')}"


def _filled(state: dict[str, list[tuple[Any, ...]]], ddl: str) -> duckdb.DuckDBPyConnection:
    duck: duckdb.DuckDBPyConnection = open_duckdb(locked=False)
    for one in parse_schema(ddl):
        arrow = table_schema(one)
        columns = list(zip(*state[one.name], strict=True)) or [()] * len(arrow)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, arrow, strict=True)]
        duck.register(one.name, pa.table(arrays, schema=arrow))
    return duck
