"""One shard without Spark: rows for it, and what Spark and its state store would do."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import duckdb
import pyarrow as pa

from everview.engine.input.read import table_schema
from everview.spark.exchange.arrow_blob import WEIGHT, read_blob, write_blob
from everview.spark.shard.client import ShardClient
from everview.spark.shard.messages import Apply, Done, Load, Rebuild, Rebuilt
from everview.spark.shard.output.spill_file import SpillFile
from everview.spark.shard.server import ShardServer, started
from everview.spark.shard.shard import ShardSpec
from everview.sql import parse_script

SCRIPT = """
CREATE TABLE r (a BIGINT, b BIGINT);
CREATE TABLE s (b BIGINT, c BIGINT);
CREATE TABLE k (id BIGINT PRIMARY KEY, name STRING);
CREATE MATERIALIZED VIEW pairs AS SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b;
CREATE MATERIALIZED VIEW totals AS SELECT s.c, COUNT(*) AS n, SUM(r.a * 0.1D) AS total
  FROM r JOIN s ON r.b = s.b GROUP BY s.c;
CREATE MATERIALIZED VIEW names AS SELECT name FROM k;
"""
VIEWS = {
    "pairs": "SELECT r.a, r.b, s.c FROM r JOIN s ON r.b = s.b",
    "names": "SELECT name FROM k",
}
KEY = b"the key of a test's job"
Rows = dict[str, list[tuple[Any, ...]]]


def spec(script: str = SCRIPT, **settings: Any) -> ShardSpec:
    schema, views = parse_script(script)
    return ShardSpec(tuple(schema), views, **settings)


def described(of: ShardSpec) -> bytes:
    """What a shard's process is told of what it keeps."""
    return json.dumps(of.to_data()).encode()


def blobs(rows: Rows, of: ShardSpec) -> list[tuple[str, bytes]]:
    """Rows whose last value is the weight, packed as Spark's workers do it."""
    found = []
    for table in of.tables:
        if rows.get(table.name):
            schema = table_schema(table).append(pa.field(WEIGHT, pa.int64()))
            columns = list(zip(*rows[table.name], strict=True))
            arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            found.append((table.name, write_blob(pa.table(arrays, schema=schema), stored=True)))
    return found


def rebuild(host: ShardServer, of: ShardSpec, token: str | None, rows: list[tuple[int, str, bytes]]) -> object:
    """Have a shard made of its base rows."""
    host.answer(Rebuild(described(of), "digest"))
    host.answer(Load(rows))
    return host.answer(Rebuilt(token))


class Driver:
    """What Spark and the state store do for one shard: versions and the log, and attempts that are not committed."""

    def __init__(self, of: ShardSpec | None = None, query: str | None = None) -> None:
        self.spec = of or spec()
        self.query = query or uuid4().hex
        self.token: str | None = None
        self.log: list[tuple[int, str, bytes]] = []
        self.told: Counter[tuple[Any, ...]] = Counter()
        self.cause: str | None = None
        self.stats: dict[str, Any] = {}

    def client(self) -> ShardClient:
        return ShardClient(self.query, "0/0", zlib.compress(described(self.spec)), KEY)

    def run(self, rows: Rows, *, commit: bool = True, client: ShardClient | None = None) -> Counter[tuple[Any, ...]]:
        """One attempt at a batch; gives what has changed."""
        packed = blobs(rows, self.spec)
        after = uuid4().hex
        with client or self.client() as used:
            request = Apply(used.digest, self.token, after, packed, False, None)
            reply, self.cause = used.apply(request, lambda: self.log)
        self.stats = reply.stats
        found = changes(reply)
        if commit:
            taken = packed if reply.accepted is None else reply.accepted
            self.log += [(len(self.log), name, blob) for name, blob in taken]
            self.token = after if packed else self.token
            self.told.update(found)
            for row, count in found.items():
                if count < 0:
                    self.told[row] += 0
        return found

    def check(self, tables: Rows) -> None:
        """What was told adds up to the views, by DuckDB."""
        with duckdb.connect() as db:
            for name, columns in (
                ("r", "a BIGINT, b BIGINT"),
                ("s", "b BIGINT, c BIGINT"),
                ("k", "id BIGINT, name VARCHAR"),
            ):
                db.execute(f"CREATE TABLE {name} ({columns})")
                net: Counter[tuple[Any, ...]] = Counter()
                for *row, weight in tables.get(name, ()):
                    net[tuple(row)] += weight
                for row, copies in net.items():
                    for _ in range(copies):
                        db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
            for view, sql in VIEWS.items():
                expected = Counter({(view, *row): n for row, n in Counter(db.sql(sql).fetchall()).items()})
                assert Counter({r: n for r, n in self.told.items() if n and r[0] == view}) == expected
            groups = db.sql("SELECT s.c, COUNT(*) FROM r JOIN s ON r.b = s.b GROUP BY s.c").fetchall()
            assert {r[1:3]: n for r, n in self.told.items() if n and r[0] == "totals"} == dict.fromkeys(groups, 1)


def changes(reply: Done) -> Counter[tuple[Any, ...]]:
    """The changes of a reply as rows, with their view, and the copies that came or went."""
    found: Counter[tuple[Any, ...]] = Counter()
    for (view, _), parts in reply.changes.items():
        for blob, size in parts:
            table = pa.Table.from_batches(blob.opened()) if isinstance(blob, SpillFile) else read_blob(blob)
            rows = table.to_pylist()
            assert len(rows) == size
            for row in rows:
                sign = 1 if row["_change_type"] in {"insert", "update_postimage"} else -1
                values = [v for k, v in row.items() if not k.startswith("_")]
                found[view, *values] += sign * row["_count"]
    return Counter({row: n for row, n in found.items() if n})


FIRST: Rows = {"r": [(1, 2, 1), (2, 2, 1)], "s": [(2, 3, 1), (2, 4, 2)], "k": [(1, "one", 1)]}
SECOND: Rows = {"r": [(1, 2, -1), (3, 2, 1)], "s": [(2, 4, -1)], "k": [(1, "one", -1), (1, "uno", 1)]}
THIRD: Rows = {"r": [(5, 2, 1)], "k": [(2, "two", 1)]}


def together(*batches: Rows) -> Rows:
    found: Rows = {}
    for batch in batches:
        for name, rows in batch.items():
            found.setdefault(name, []).extend(rows)
    return found


def random_batch(rng: random.Random, held: dict[str, Counter[tuple[Any, ...]]]) -> Rows:
    """Rows that come and go, and what the tables hold then."""
    batch: Rows = {}
    for name in ("r", "s"):
        for _ in range(rng.randint(1, 6)):
            there = [row for row, n in held[name].items() if n]
            if there and rng.random() < 0.4:
                row, weight = rng.choice(there), -1
            else:
                row, weight = (rng.randint(1, 4), rng.randint(1, 4)), rng.randint(1, 2)
            held[name][row] += weight
            batch.setdefault(name, []).append((*row, weight))
    return batch


def processes(path: Path) -> list[int]:
    """The living processes of shards whose sockets are below a folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and started(int(entry.name)) is not None:
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"everview.spark.shard.server" in words and any(w.startswith(bytes(path) + b"/") for w in words):
                found.append(int(entry.name))
    return found


def end(process: int) -> None:
    """Kill a process, and wait until all its threads have ended: until then its files are open."""
    os.kill(process, signal.SIGKILL)
    until(lambda: started(process) is None and len(list(Path(f"/proc/{process}/task").glob("*"))) <= 1)


def until(done: Callable[[], bool], seconds: float = 600.0) -> None:
    limit = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < limit, "it takes too long"
        time.sleep(0.05)


def files(path: Path) -> list[str]:
    return sorted(p.suffix for p in path.rglob("*") if not p.is_dir())
