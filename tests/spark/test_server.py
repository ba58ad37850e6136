"""A shard's versions: what is taken in, taken back, refused, and given up. In one process."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from everview.engine.transaction import Transaction
from everview.errors import BadRowError, DataError, EverviewError, MemoryLimitError
from everview.spark.shard import server as hosts
from everview.spark.shard.messages import Apply, Done, Failed, Load, Need, Rebuild, Rebuilt
from everview.spark.shard.server import ShardServer
from everview.spark.shard.shard import ShardSpec
from tests.spark.shards import FIRST, SECOND, THIRD, Rows, blobs, changes, described, random_batch, rebuild, spec


def at_first(settings: dict[str, Any] | None = None) -> tuple[ShardServer, ShardSpec]:
    of = spec(**(settings or {}))
    host = ShardServer()
    rebuild(host, of, "v1", [(1, n, b) for n, b in blobs(FIRST, of)])
    return host, of


def ask(
    host: ShardServer, of: ShardSpec, rows: Rows, before: str | None = "v1", after: str = "v2", **more: Any
) -> object:
    return host.answer(Apply(more.get("digest", "digest"), before, after, blobs(rows, of), False, None))


def test_a_batch_for_another_version_or_query_is_not_taken_in() -> None:
    host, of = at_first()
    assert isinstance(ask(host, of, SECOND, before="v0"), Need)
    assert isinstance(ask(host, of, SECOND, before=None), Need)
    assert isinstance(ask(host, of, SECOND, digest="another"), Need)
    assert isinstance(ShardServer().answer(Apply("digest", None, "v1", [], False, None)), Need)
    assert isinstance(ask(host, of, SECOND), Done)


def test_a_retried_batch_is_taken_back_and_gives_the_same_changes() -> None:
    host, of = at_first()
    once = ask(host, of, SECOND, after="first attempt")
    again = ask(host, of, SECOND, after="second attempt")
    assert isinstance(once, Done)
    assert isinstance(again, Done)
    assert changes(once) == changes(again) != Counter()
    assert (host.undone, host.rebuilds) == (1, 1)
    third = ask(host, of, THIRD, before="second attempt")
    anew, _ = at_first()
    ask(anew, of, SECOND)
    expected = ask(anew, of, THIRD, before="v2", after="v3")
    assert isinstance(third, Done)
    assert isinstance(expected, Done)
    assert changes(third) == changes(expected)


def test_only_the_last_batch_is_taken_back() -> None:
    host, of = at_first()
    ask(host, of, SECOND)
    ask(host, of, THIRD, before="v2", after="v3")
    assert isinstance(ask(host, of, SECOND), Need)
    assert isinstance(ask(host, of, THIRD, before="v2", after="v3b"), Done)
    assert isinstance(ask(host, of, THIRD, before="v2", after="v3c"), Done)


def test_a_large_batch_is_not_kept_to_be_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "MOST_UNDO", 10)
    host, of = at_first()
    ask(host, of, SECOND)
    assert isinstance(ask(host, of, SECOND), Need)


def test_rows_that_were_put_aside_are_not_taken_back() -> None:
    host, of = at_first({"quarantine": True})
    wrong: Rows = {"r": [(7, 2, 1), (9, 9, -1)], "k": [(1, "second", 1), (8, "eight", 1)]}
    once, again = ask(host, of, wrong, after="x"), ask(host, of, wrong, after="y")
    assert isinstance(once, Done)
    assert isinstance(again, Done)
    assert once.bad == again.bad
    assert len(once.bad) == 2
    assert changes(once) == changes(again)
    assert host.undone == 1


@pytest.mark.parametrize("seed", range(20))
def test_any_history_with_retries_equals_one_without(seed: int) -> None:
    rng = random.Random(seed)
    of = spec()
    plain, retried = ShardServer(), ShardServer()
    for host in (plain, retried):
        rebuild(host, of, None, [])
    held: dict[str, Counter[tuple[Any, ...]]] = {"r": Counter(), "s": Counter()}
    before: str | None = None
    for number in range(12):
        batch = random_batch(rng, held)
        expected = plain.answer(Apply("digest", before, f"v{number}", blobs(batch, of), False, None))
        for attempt in range(rng.choice([1, 1, 2, 3])):
            after = f"v{number}" if attempt == 0 else f"v{number}.{attempt}"
            found = retried.answer(Apply("digest", before, after, blobs(batch, of), False, None))
            assert isinstance(expected, Done)
            assert isinstance(found, Done)
            assert changes(found) == changes(expected)
        retried.token = before = f"v{number}"
    assert retried.rebuilds == 1


@pytest.mark.parametrize(
    ("settings", "rows", "error"),
    [
        ({}, {"r": [(7, 7, 1), (9, 9, -1)]}, BadRowError),
        ({}, {"k": [(1, "second", 1)], "r": [(7, 2, 1)]}, BadRowError),
        ({"memory_limit": 300_000}, {"r": [(i, i, 1) for i in range(100_000)]}, MemoryLimitError),
    ],
    ids=["over-delete", "key", "memory"],
)
def test_a_refused_batch_leaves_the_version(settings: dict[str, Any], rows: Rows, error: type[Exception]) -> None:
    host, of = at_first(settings)
    with pytest.raises(error):
        ask(host, of, rows)
    assert host.token == "v1"
    found = ask(host, of, SECOND)
    expected = ask(at_first()[0], of, SECOND)
    assert isinstance(found, Done)
    assert isinstance(expected, Done)
    assert changes(found) == changes(expected)


def test_a_failure_after_the_batch_was_taken_in_gives_the_shard_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fails after the commit: at the old version, the batch would be taken in twice."""
    host, of = at_first()
    many: Rows = {"r": [(i, 2, 1) for i in range(10, 20)]}
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_deliver", refusing)
        with pytest.raises(DataError):
            ask(host, of, many)
    assert isinstance(ask(host, of, many), Need)


def test_an_unforeseen_failure_gives_the_shard_up(monkeypatch: pytest.MonkeyPatch) -> None:
    host, of = at_first()
    with monkeypatch.context() as patch:
        patch.setattr("everview.spark.shard.shard.apply_weighted", failing)
        with pytest.raises(MemoryError):
            ask(host, of, SECOND)
    assert isinstance(ask(host, of, SECOND), Need)


def refusing(*_: Any, **__: Any) -> None:
    raise DataError("too late")


def failing(*_: Any) -> None:
    raise MemoryError("no more")


def test_a_batch_that_comes_in_parts_is_taken_in_as_a_whole() -> None:
    """Of some of its rows alone, a sum would not fit 64 bits, and a quotient would not be."""
    of = spec(
        """CREATE TABLE r (a BIGINT, b BIGINT);
           CREATE MATERIALIZED VIEW sums AS SELECT b, SUM(a) AS n FROM r GROUP BY b;
           CREATE MATERIALIZED VIEW parts AS SELECT b, SUM(a) / SUM(a % 2) AS q FROM r GROUP BY b"""
    )
    large = 9 * 10**18
    parts = [[(large, 1, 1), (large - 2, 1, 1)], [(-large, 1, 1)], [(3 - large, 1, 1)], [(4, 2, 1)], [(1, 2, 1)]]
    host = ShardServer()
    host.answer(Rebuild(described(of), "digest"))
    for part in parts:
        host.answer(Load([(7, name, blob) for name, blob in blobs({"r": part}, of)]))
    assert host.answer(Rebuilt("v1")) == Done({}, [], {})
    assert host.shard is not None
    assert sorted(host.shard.db.view("sums")) == [(1, 1), (2, 5)]
    assert sorted(host.shard.db.view("parts")) == [(1, -1.0), (2, 5.0)]
    assert isinstance(ask(host, of, {"r": [(1, 3, 1)]}), Done)


def test_a_failed_rebuild_leaves_no_version() -> None:
    host, of = at_first()
    wrong = [(1, n, b) for n, b in blobs({"r": [(1, 1, -1)]}, of)]
    with pytest.raises(BadRowError):
        rebuild(host, of, None, wrong)
    assert isinstance(ask(host, of, SECOND), Need)
    assert isinstance(ask(host, of, SECOND, before=None), Need)


def test_what_was_not_foreseen_comes_with_its_trace() -> None:
    foreseen = hosts._answer(ShardServer(), Rebuild(b'{"format": 0}', "digest"))
    assert isinstance(foreseen, Failed)
    assert (isinstance(foreseen.error, EverviewError), foreseen.trace) == (True, "")
    unforeseen = hosts._answer(ShardServer(), Rebuilt("v1"))
    assert isinstance(unforeseen, Failed)
    assert isinstance(unforeseen.error, AssertionError)
    assert "in _rebuilt" in unforeseen.trace
