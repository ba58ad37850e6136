"""Parcels: large changes that a shard's process leaves in files. Without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from everview.engine.transaction import Transaction
from everview.errors import FeedError, MemoryLimitError, PipelineError
from everview.spark import feed as unpacking
from everview.spark import parcels
from everview.spark.blobs import read_blob
from everview.spark.feed import Unpacker
from everview.spark.host import Host
from everview.spark.messages import FEED, LEAST_BYTES, Apply, Done, Leave, Targets
from everview.spark.parcels import Outgoing, Parcel, Post
from everview.spark.processor import CHANGES
from everview.spark.sending import sent
from everview.spark.shard import ShardSpec
from everview.spark.spool import Spool
from everview.spark.types import VERSION
from tests.spark.shards import FIRST, SECOND, Rows, blobs, changes, rebuild, spec, together

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.string()})
BATCHES = [
    pa.record_batch({"x": list(range(n)), "y": [f"row {i}" for i in range(n)]}, schema=SCHEMA) for n in (3, 0, 5)
]


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path, "query-shard")


def left(post: Post, batch: int = 1) -> Parcel:
    outgoing = post.begin(SCHEMA, batch)
    for rows in BATCHES:
        outgoing.write(rows)
    return outgoing.end()


def spooled(batches: list[pa.RecordBatch], post: Post | None = None, least: int = LEAST_BYTES) -> Spool:
    spool = Spool(post, Leave(1, least))
    for batch in batches:
        spool.add(batch)
    return spool


def lying(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir())


# --- one parcel ------------------------------------------------------------------------------------------------------


def test_what_is_left_is_found_by_the_reference_that_has_travelled(post: Post, tmp_path: Path) -> None:
    parcel = left(post)
    assert parcel.rows == 8
    assert Path(parcel.path).stat().st_size == parcel.size
    found = pa.Table.from_batches(Parcel.of(parcel.text()).opened())
    assert found.to_pylist() == pa.Table.from_batches(BATCHES).to_pylist()
    assert not lying(tmp_path)


def test_its_name_is_gone_before_the_first_row(post: Post, tmp_path: Path) -> None:
    rows = left(post).opened()
    assert not lying(tmp_path)
    assert sum(batch.num_rows for batch in rows) == 8


def test_two_parcels_never_share_a_name(post: Post, tmp_path: Path) -> None:
    assert len({left(post).path for _ in range(10)}) == 10
    assert len(lying(tmp_path)) == 10


def test_large_batches_are_cut(post: Post) -> None:
    parcel = spooled([pa.record_batch({"x": range(2_000_000), VERSION: [0] * 2_000_000})], post, 0).parcel()
    assert parcel is not None
    sizes = [batch.nbytes for batch in parcel.opened()]
    assert len(sizes) == 2
    assert max(sizes) <= 8 << 20


def test_one_that_is_missing_fails(post: Post) -> None:
    parcel = left(post)
    Path(parcel.path).unlink()
    with pytest.raises(PipelineError, match=r"cannot be read: .*No such file.*\n.*the task has to run again"):
        parcel.opened()


def test_one_that_was_read_already_fails(post: Post) -> None:
    parcel = left(post)
    list(parcel.opened())
    with pytest.raises(PipelineError, match="cannot be read"):
        parcel.opened()


@pytest.mark.parametrize("by", [-1, -100, 1])
def test_one_of_another_length_fails(post: Post, by: int) -> None:
    parcel = left(post)
    content = Path(parcel.path).read_bytes()
    Path(parcel.path).write_bytes(content[:by] if by < 0 else content + b"\0" * by)
    with pytest.raises(PipelineError, match=f"{parcel.size + by} bytes instead of {parcel.size}"):
        parcel.opened()


def test_another_one_in_its_place_fails(post: Post) -> None:
    parcel, other = left(post), left(post)
    Path(other.path).rename(parcel.path)
    with pytest.raises(PipelineError, match="it is another one"):
        parcel.opened()


def test_garbage_in_its_place_fails(post: Post) -> None:
    parcel = left(post)
    Path(parcel.path).write_bytes(b"\xff" * parcel.size)
    with pytest.raises(PipelineError, match="cannot be read"):
        parcel.opened()


def test_one_that_ends_early_fails_after_its_rows(post: Post) -> None:
    parcel = left(post)
    content = bytearray(Path(parcel.path).read_bytes())
    with pa.memory_map(parcel.path) as file, pa.ipc.open_stream(file) as reader:
        reader.read_next_batch()
        end = file.tell()
    content[end : end + 8] = b"\xff\xff\xff\xff\0\0\0\0"  # how Arrow ends a stream
    Path(parcel.path).write_bytes(content)
    rows = parcel.opened()
    assert next(rows).num_rows == 3
    with pytest.raises(PipelineError, match="cannot be read"):
        next(rows)


def test_one_with_other_rows_than_were_left_fails_after_them(post: Post) -> None:
    with pytest.raises(PipelineError, match="8 rows instead of 9"):
        list(replace(left(post), rows=9).opened())


@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_what_is_too_much_to_be_left_plain_is_compressed(
    post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    rows = pa.record_batch({"x": pa.repeat(5, 10_000)})
    sizes = []
    for plain in (0, 2 * rows.nbytes, 100 * rows.nbytes):
        monkeypatch.setattr(parcels, "PLAIN_BYTES", plain)
        outgoing = post.begin(rows.schema, 1)
        for _ in range(pieces):
            outgoing.write(rows)
        parcel = outgoing.end()
        sizes.append(parcel.size)
        assert [batch.column("x").to_pylist() for batch in parcel.opened()] == [[5] * 10_000] * pieces
    assert sizes[0] < rows.nbytes
    assert min(pieces, 2) * rows.nbytes < sizes[1] < (min(pieces, 2) + 1) * rows.nbytes
    assert sizes[2] > pieces * rows.nbytes
    assert not lying(tmp_path)


# --- those that nobody reads -----------------------------------------------------------------------------------------


def test_other_batches_leave_nothing_and_this_one_keeps_its_own(post: Post, tmp_path: Path) -> None:
    left(post, 1), left(post, 1)
    now = left(post, 2)
    post.clear(2)
    assert lying(tmp_path) == [Path(now.path).name]
    post.clear(3)
    post.clear(3)
    assert not lying(tmp_path)


def test_a_shards_files_are_cleared_and_those_of_others_are_not(post: Post, tmp_path: Path) -> None:
    other = Post(tmp_path, "query-shard2")
    left(post)
    kept = left(other)
    post.close()
    assert lying(tmp_path) == [Path(kept.path).name]
    other.close()
    assert not lying(tmp_path)


def test_what_a_killed_process_left_goes_when_the_next_one_starts(post: Post, tmp_path: Path) -> None:
    left(post)
    kept = left(Post(tmp_path, "query-shard2"))
    Post(tmp_path, "query-shard").inherit()
    assert lying(tmp_path) == [Path(kept.path).name]


def test_without_room_changes_travel_in_the_reply(tmp_path: Path) -> None:
    nowhere = Post(tmp_path / "not there", "query-shard")
    ((key, parts),) = sent({"v": spooled(changed(4), nowhere, 0)}, None).items()
    assert key == ("v", FEED)
    assert [(type(blob), rows) for blob, rows in parts] == [(bytes, 4)]


@pytest.mark.parametrize("fails", ["write", "end"])
@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("plain_bytes", [0, 100, parcels.PLAIN_BYTES])
def test_when_the_room_ends_what_was_left_comes_back(
    post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, after: int, plain_bytes: int
) -> None:
    monkeypatch.setattr(parcels, "PLAIN_BYTES", plain_bytes)
    spool = spooled([], post, 0)
    plain, calls = getattr(Outgoing, fails), []

    def full(self: Outgoing, *arguments: Any) -> Any:
        calls.append(fails)
        if len(calls) > after:
            raise OSError("No space left on device")
        return plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Outgoing, fails, full)
        for batch in changed(4) * 5:
            spool.add(batch)
        found = sent({"v": spool}, None)["v", FEED]
    told = [row["x"] for blob, _ in found if isinstance(blob, bytes) for row in read_blob(blob).to_pylist()]
    if fails == "end" and after:
        assert isinstance(found[0][0], Parcel)
        assert lying(tmp_path)
    else:
        assert told == [0, 1, 2, 3] * 5
        assert sum(rows for _, rows in found) == spool.rows == 20
        assert not lying(tmp_path)


def test_a_spool_that_is_cleared_begins_anew(post: Post, tmp_path: Path) -> None:
    spool = spooled(changed(10), post, 0)
    assert len(lying(tmp_path)) == 1
    spool.clear()
    assert not lying(tmp_path)
    for batch in changed(3):
        spool.add(batch)
    ((parcel, rows),) = sent({"v": spool}, None)["v", FEED]
    assert isinstance(parcel, Parcel)
    assert rows == sum(batch.num_rows for batch in parcel.opened()) == 3


# --- which changes become one ----------------------------------------------------------------------------------------


def changed(rows: int) -> list[pa.RecordBatch]:
    columns: dict[str, Any] = {"x": list(range(rows)), "_change_type": ["insert"] * rows}
    return [pa.record_batch({**columns, "_commit_version": [7] * rows, "_count": [1] * rows})]


def test_small_changes_travel_in_the_reply(post: Post, tmp_path: Path) -> None:
    found = sent({"v": spooled(changed(10), post)}, None)
    assert isinstance(found["v", FEED][0][0], bytes)
    assert not lying(tmp_path)
    found = sent({"v": spooled(changed(20_000), post)}, None)
    ((parcel, rows),) = found["v", FEED]
    assert isinstance(parcel, Parcel)
    assert rows == parcel.rows == 20_000


def test_no_changes_are_no_parcel(post: Post, tmp_path: Path) -> None:
    assert not sent({"v": spooled([], post, 0), "w": spooled(changed(0), post, 0)}, None)
    assert not lying(tmp_path)


def test_what_goes_on_to_other_machines_is_never_one(post: Post, tmp_path: Path) -> None:
    found = sent({"v": spooled(changed(20_000))}, Targets({"v": (0,)}, 2))
    assert set(found) == {("v", 0), ("v", 1)}
    assert isinstance(sent({"v": spooled(changed(20_000))}, None)["v", FEED][0][0], bytes)
    host, of = started(post)
    targets = Targets({view.name: (0,) for view in of.views}, 2)
    reply = host.answer(Apply("digest", "v1", "v2", blobs(SECOND, of), False, targets, leave=Leave(1, 0)))
    assert isinstance(reply, Done)
    assert {type(blob) for told in reply.changes.values() for blob, _ in told} == {bytes}
    assert not lying(tmp_path)


# --- a shard that leaves them ----------------------------------------------------------------------------------------


def ask(host: Host, of: ShardSpec, rows: Rows, batch: int, before: str = "v1", after: str = "v2") -> Done:
    reply = host.answer(Apply("digest", before, after, blobs(rows, of), False, None, leave=Leave(batch, 0)))
    assert isinstance(reply, Done)
    return reply


def started(post: Post) -> tuple[Host, ShardSpec]:
    of, host = spec(), Host(post)
    rebuild(host, of, "v1", [(1, n, b) for n, b in blobs(FIRST, of)])
    return host, of


def test_a_retried_batch_leaves_new_ones_with_the_same_rows(post: Post, tmp_path: Path) -> None:
    host, of = started(post)
    once = ask(host, of, SECOND, 1, after="first attempt")
    many = len(lying(tmp_path))
    assert many
    again = ask(host, of, SECOND, 1, after="second attempt")
    assert len(lying(tmp_path)) == 2 * many
    assert changes(again) == changes(once)
    assert not lying(tmp_path)


def test_what_a_dead_attempt_left_goes_with_the_next_batch(post: Post, tmp_path: Path) -> None:
    host, of = started(post)
    ask(host, of, SECOND, 1, after="dead attempt")
    dead = lying(tmp_path)
    changes(ask(host, of, SECOND, 1, after="v2"))
    assert lying(tmp_path) == dead
    changes(ask(host, of, together({}, {"r": [(9, 2, 1)]}), 2, before="v2", after="v3"))
    assert not lying(tmp_path)


def test_a_batch_with_more_changes_than_a_feed_holds(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not wait until somebody reads them."""
    host, of = started(post)
    assert host.shard is not None
    monkeypatch.setattr("everview.engine.database.MOST_BYTES", 2)
    with host.shard.db.view(of.views[0].name).changes() as read:
        assert len(changes(ask(host, of, {"r": [(i, 2, 1) for i in range(10, 20)]}, 1))) > 2
        with pytest.raises(FeedError, match="more than 2 bytes"):
            read.read()


def test_a_refused_batch_leaves_nothing(post: Post, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though some of its changes have been written already when it fails."""
    host, of = started(post)

    def refusing(self: Transaction, before: int) -> None:
        if lying(tmp_path):
            raise MemoryLimitError("no more")

    assert host.shard is not None
    host.shard.db.memory_limit = 1 << 40
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_check_memory", refusing)
        with pytest.raises(MemoryLimitError):
            ask(host, of, {"r": [(i, 2, 1) for i in range(10, 20)]}, 1)
    assert not lying(tmp_path)
    assert changes(ask(host, of, SECOND, 1)) == changes(ask(started(post)[0], of, SECOND, 1))


def test_a_parcel_and_a_blob_are_unpacked_alike(post: Post) -> None:
    of = spec()
    view = of.views[0]
    host, _ = started(post)
    reply = ask(host, of, SECOND, 1)
    ((parcel, rows),) = reply.changes[view.name, FEED]
    assert isinstance(parcel, Parcel)
    plain = Host()
    rebuild(plain, of, "v1", [(1, n, b) for n, b in blobs(FIRST, of)])
    inline = plain.answer(Apply("digest", "v1", "v2", blobs(SECOND, of), False, None))
    assert isinstance(inline, Done)
    ((blob, _),) = inline.changes[view.name, FEED]
    unpack = Unpacker((view,), True, False)
    found = [
        pa.Table.from_batches(unpack(iter([packed(view.name, rows, blob, info)]))).to_pylist()
        for blob, info in ((None, parcel.text()), (blob, None))
    ]
    assert found[0] == found[1]
    assert {row[unpacking.VERSION] for row in found[0]} == {5}


def packed(name: str, rows: int, blob: Any, info: str | None) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "kind": [CHANGES],
            "name": [name],
            "version": [5],
            "rows": [rows],
            "blob": pa.array([blob], pa.binary()),
            "info": pa.array([info], pa.string()),
        }
    )
