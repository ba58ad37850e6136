"""What Spark's state store holds of a shard: its log, how much of it a batch touches, and when it is made shorter."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from everview.errors import StateMismatchError
from everview.spark.checkpoint.identity import Identity
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.arrow_blob import WEIGHT, write_blob
from everview.spark.metrics import stats
from everview.spark.shard import operator as processors
from everview.spark.shard.client import NoDumpError
from everview.spark.shard.operator import ShardOperator
from everview.spark.shard.state import TIDY_BYTES, Meta, ShardState
from everview.sql import parse_schema
from tests.spark.test_loading import GRAPH, PATHS


class Store:
    """Spark's handle for one key: a map in an order of its own."""

    def __init__(self) -> None:
        self.map: dict[tuple[int, int], tuple[str, bytes]] = {}

    def getMapState(self, *_: object) -> Store:
        return self

    def updateValue(self, key: tuple[int, int], value: tuple[str, bytes]) -> None:
        self.map[key] = value

    def getValue(self, key: tuple[int, int]) -> tuple[str, bytes] | None:
        return self.map.get(key)

    def keys(self) -> Iterator[tuple[int, int]]:
        return iter(random.Random(len(self.map)).sample(list(self.map), len(self.map)))

    def removeKey(self, key: tuple[int, int]) -> None:
        del self.map[key]


class Shard:
    """A client whose shard gives these rows, and then perhaps dies."""

    def __init__(self, *rows: tuple[str, bytes, int], dies: bool = False) -> None:
        self.rows, self.dies = rows, dies

    def dump(self, token: str) -> Iterator[tuple[str, bytes, int]]:
        assert token == "t"
        yield from self.rows
        if self.dies:
            raise NoDumpError


def dumping(*rows: tuple[str, bytes, int], dies: bool = False) -> Any:
    """Such a client, of which nothing else is asked."""
    return Shard(*rows, dies=dies)


def test_batches_are_read_in_the_order_of_their_numbers() -> None:
    log = ShardState(Store())
    log.put(Meta(1))
    for batch in range(1, 12):
        log.append(batch, [("r", b"%d" % batch), ("s", b"-%d" % batch)])
    log.put_aside(["no row"])
    log.put_aside(["another", "a third"])
    expected = [(b, n, s % b) for b in range(1, 12) for n, s in (("r", b"%d"), ("s", b"-%d"))]
    assert list(log.read()) == expected
    assert log.taken_aside() == ["no row", "another", "a third"]
    assert log.taken_aside() == []
    keys = log.keys()
    log.remove(key for key in keys if key[0] < 11)
    assert [b for b, _, _ in log.read()] == [11, 11]
    assert log.meta() == Meta(1)


def test_where_a_shard_stands_is_read_as_it_was_put() -> None:
    state = ShardState(Store())
    assert state.meta() is None
    meta = Meta(2, 1, "token", "{}", 7, 1_000, 50, 3, 900, 1, True, 4)
    state.put(meta)
    assert state.meta() == meta


def logged() -> tuple[ShardOperator, Store, Meta]:
    """A log of three batches, of which one row is left."""
    store = Store()
    processor = ShardOperator([], Identity("{}"), [0])
    processor.state = ShardState(store)
    meta = Meta(0, token="t", identity="{}", batch=3, stored=9, logged=3, blobs=3)
    for batch in (1, 2, 3):
        processor.state.append(batch, [("r", b"abc")])
    return processor, store, meta


def test_a_log_becomes_the_rows_that_are_left() -> None:
    processor, store, meta = logged()
    found = processor._shortened(dumping(("r", b"x", 1), ("s", b"yz", 2)), meta, 1)
    assert list(processor.state.read()) == [(4, "r", b"x"), (4, "s", b"yz")]
    assert found == replace(meta, batch=4, stored=3, logged=3, blobs=2, compacted=3, compactions=1)
    assert len(store.map) == 2


def test_a_shard_that_dies_while_it_dumps_leaves_the_log_as_it_was() -> None:
    processor, _, meta = logged()
    before = list(processor.state.read())
    found = processor._shortened(dumping(("r", b"x", 1), ("s", b"yz", 2), dies=True), meta, 1)
    assert (list(processor.state.read()), found) == (before, meta)


def test_a_log_that_would_not_become_shorter_is_left_alone() -> None:
    processor, _, meta = logged()
    before = list(processor.state.read())
    large = replace(meta, stored=3 * TIDY_BYTES)
    assert processor._shortened(dumping(dies=True), large, 2) == replace(large, compacted=large.stored)
    assert list(processor.state.read()) == before


@pytest.mark.parametrize(
    ("stored", "logged", "blobs", "rows", "tidy"),
    [
        (TIDY_BYTES, 100, 1, 100, True),
        (TIDY_BYTES, 150, 1, 100, True),
        (TIDY_BYTES, 151, 1, 100, False),
        (TIDY_BYTES, 100, 2, 100, False),
        (TIDY_BYTES, 100, 1, 0, False),
    ],
)
def test_a_log_is_tidy_if_its_rows_are_there_and_its_blobs_not_small(
    stored: int, logged: int, blobs: int, rows: int, tidy: bool
) -> None:
    assert Meta(stored=stored, logged=logged, blobs=blobs).is_tidy(rows) is tidy


def test_a_log_is_looked_at_when_it_has_doubled() -> None:
    assert not Meta(stored=1_000).is_long(1_000)
    assert Meta(stored=1_001).is_long(1_000)
    assert not Meta(stored=4_000, compacted=2_000).is_long(1_000)
    assert Meta(stored=4_001, compacted=2_000).is_long(1_000)


def test_a_batch_reads_nothing_of_the_log_and_a_short_one_makes_the_same_shard(
    stream: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On Spark: by RocksDB's own count. Then the log is compacted, and the shards are rebuilt from what is left."""
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    edges = [(i, i + 1) for i in range(20_000)]
    s.put({"g": [(edge, "insert") for edge in edges]})
    s.put({"g": [((-1, 0), "insert")]})
    store = s.query.lastProgress["stateOperators"][0]["customMetrics"]
    assert store["rocksdbTotalBytesWritten"] > 0
    assert store["rocksdbTotalBytesRead"] < 20_000
    s.stop()
    monkeypatch.setattr(processors, "COMPACT_BYTES", 1_000)
    s.start(PATHS, shards=2)
    s.put({"g": [(edge, "delete") for edge in edges[:15_000]]})
    found = stats(s.query)
    assert found["rebuilds"] >= 2
    assert all(shard["compactions"] == 1 for shard in found["shards"])
    s.stop()
    s.start(PATHS, shards=2)
    s.put({"g": [((-2, 15_000), "insert")]})
    assert s.result() == s.expected(PATHS, {"g": [(-1, 0), *edges[15_000:], (-2, 15_000)]})


def test_what_was_made_ahead_for_other_views_is_forgotten() -> None:
    schema = parse_schema("CREATE TABLE r (a BIGINT); CREATE TABLE t (b BIGINT)")
    sql = "SELECT a FROM r WHERE a > (SELECT {}(b) FROM t)"
    old, new = (plan_over({"v": sql.format(name)}, schema, 4).identity for name in ("MIN", "MAX"))
    assert old.made == new.made == {"__v_ahead0"}
    processor, _, _ = logged()
    processor.identity = replace(new, migrate=True)
    blob = write_blob(
        pa.table({"c0": pa.array([5, 6], pa.int64()), WEIGHT: pa.array([1, -1], pa.int64())}), stored=True
    )
    processor.state.remove(processor.state.keys())
    processor.state.put_pin(old.text)
    processor.state.append(1, [("r", b"abc"), ("__v_ahead0", blob)])
    processor.state.append(2, [("__v_ahead0", blob)])
    meta = Meta(0, token="t", identity=old.digest, batch=2, stored=3 + 2 * len(blob), logged=5, blobs=3, told=True)
    found = processor._checked(meta)
    assert list(processor.state.read()) == [(1, "r", b"abc")]
    assert found.token not in (None, "t")
    assert replace(found, token="t") == replace(meta, identity=new.digest, stored=3, logged=1, blobs=1, told=False)


def test_a_log_of_another_format_is_refused_with_what_to_do() -> None:
    """Older versions kept the whole text beside the rows' meta data, and reprs in it."""
    was = {"format": 2, "shards": 1, "tables": ["t(a: BIGINT) [True] ()"], "routes": [], "views": ["v"], "homes": {}}
    old = Identity(json.dumps(was))
    new = replace(plan_over("SELECT a FROM t", parse_schema("CREATE TABLE t (a BIGINT)"), 1).identity, migrate=True)
    assert not new.can_take_over(old)
    text = new.refusal(old)
    assert "format: it has 2, and this query has 3" in text
    assert "if another version of Everview has written it, that version can read it" in text
    assert "saved_tables" in text
    processor, _, meta = logged()
    processor.identity = new
    with pytest.raises(StateMismatchError, match="format: it has 2"):
        processor._checked(replace(meta, identity=old.text))
