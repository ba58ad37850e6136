"""Parcels: large changes that a shard's process leaves in files. Without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from everview.engine.direct.batch import DirectBatch
from everview.engine.transaction import Transaction
from everview.errors import FeedError, MemoryLimitError, PipelineError
from everview.spark.exchange import unpack as unpacking
from everview.spark.exchange.arrow_blob import read_blob
from everview.spark.exchange.unpack import Unpacker
from everview.spark.shard.messages import FEED, LEAST_BYTES, Apply, Done, Leave, MergeShards
from everview.spark.shard.operator import CHANGES
from everview.spark.shard.output import spill_file as spill_files
from everview.spark.shard.output.address import sent
from everview.spark.shard.output.change_buffer import ChangeBuffer
from everview.spark.shard.output.spill_file import SpillFile, Spills, SpillWriter
from everview.spark.shard.server import ShardServer
from everview.spark.shard.shard import ShardSpec
from everview.spark.types import VERSION
from tests.spark.shards import FIRST, SECOND, Rows, blobs, changes, rebuild, spec, together

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.string()})
BATCHES = [
    pa.record_batch({"x": list(range(n)), "y": [f"row {i}" for i in range(n)]}, schema=SCHEMA) for n in (3, 0, 5)
]


@pytest.fixture
def spills(tmp_path: Path) -> Spills:
    return Spills(tmp_path, "query-shard")


def left(spills: Spills, batch: int = 1) -> SpillFile:
    outgoing = spills.begin(SCHEMA, batch)
    for rows in BATCHES:
        outgoing.write(rows)
    return outgoing.end()


def spooled(batches: list[pa.RecordBatch], spills: Spills | None = None, least: int = LEAST_BYTES) -> ChangeBuffer:
    buffer = ChangeBuffer(spills, Leave(1, least))
    for batch in batches:
        buffer.add(batch)
    return buffer


def lying(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir())


# --- one parcel ------------------------------------------------------------------------------------------------------


def test_what_is_left_is_found_by_the_reference_that_has_travelled(spills: Spills, tmp_path: Path) -> None:
    spill_file = left(spills)
    assert spill_file.rows == 8
    assert Path(spill_file.path).stat().st_size == spill_file.size
    found = pa.Table.from_batches(SpillFile.of(spill_file.text()).opened())
    assert found.to_pylist() == pa.Table.from_batches(BATCHES).to_pylist()
    assert not lying(tmp_path)


def test_its_name_is_gone_before_the_first_row(spills: Spills, tmp_path: Path) -> None:
    rows = left(spills).opened()
    assert not lying(tmp_path)
    assert sum(batch.num_rows for batch in rows) == 8


def test_two_parcels_never_share_a_name(spills: Spills, tmp_path: Path) -> None:
    assert len({left(spills).path for _ in range(10)}) == 10
    assert len(lying(tmp_path)) == 10


def test_large_batches_are_cut(spills: Spills) -> None:
    spill_file = spooled([pa.record_batch({"x": range(2_000_000), VERSION: [0] * 2_000_000})], spills, 0).spill_file()
    assert spill_file is not None
    sizes = [batch.nbytes for batch in spill_file.opened()]
    assert len(sizes) == 2
    assert max(sizes) <= 8 << 20


def test_one_that_is_missing_fails(spills: Spills) -> None:
    spill_file = left(spills)
    Path(spill_file.path).unlink()
    with pytest.raises(PipelineError, match=r"cannot be read: .*No such file.*\n.*the task has to run again"):
        spill_file.opened()


def test_one_that_was_read_already_fails(spills: Spills) -> None:
    spill_file = left(spills)
    list(spill_file.opened())
    with pytest.raises(PipelineError, match="cannot be read"):
        spill_file.opened()


@pytest.mark.parametrize("by", [-1, -100, 1])
def test_one_of_another_length_fails(spills: Spills, by: int) -> None:
    spill_file = left(spills)
    content = Path(spill_file.path).read_bytes()
    Path(spill_file.path).write_bytes(content[:by] if by < 0 else content + b"\0" * by)
    with pytest.raises(PipelineError, match=f"{spill_file.size + by} bytes instead of {spill_file.size}"):
        spill_file.opened()


def test_another_one_in_its_place_fails(spills: Spills) -> None:
    spill_file, other = left(spills), left(spills)
    Path(other.path).rename(spill_file.path)
    with pytest.raises(PipelineError, match="it is another one"):
        spill_file.opened()


def test_garbage_in_its_place_fails(spills: Spills) -> None:
    spill_file = left(spills)
    Path(spill_file.path).write_bytes(b"\xff" * spill_file.size)
    with pytest.raises(PipelineError, match="cannot be read"):
        spill_file.opened()


def test_one_that_ends_early_fails_after_its_rows(spills: Spills) -> None:
    spill_file = left(spills)
    content = bytearray(Path(spill_file.path).read_bytes())
    with pa.memory_map(spill_file.path) as file, pa.ipc.open_stream(file) as reader:
        reader.read_next_batch()
        end = file.tell()
    content[end : end + 8] = b"\xff\xff\xff\xff\0\0\0\0"  # how Arrow ends a stream
    Path(spill_file.path).write_bytes(content)
    rows = spill_file.opened()
    assert next(rows).num_rows == 3
    with pytest.raises(PipelineError, match="cannot be read"):
        next(rows)


def test_one_with_other_rows_than_were_left_fails_after_them(spills: Spills) -> None:
    with pytest.raises(PipelineError, match="8 rows instead of 9"):
        list(replace(left(spills), rows=9).opened())


@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_what_is_too_much_to_be_left_plain_is_compressed(
    spills: Spills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int
) -> None:
    rows = pa.record_batch({"x": pa.repeat(5, 10_000)})
    sizes = []
    for plain in (0, 2 * rows.nbytes, 100 * rows.nbytes):
        monkeypatch.setattr(spill_files, "PLAIN_BYTES", plain)
        outgoing = spills.begin(rows.schema, 1)
        for _ in range(pieces):
            outgoing.write(rows)
        spill_file = outgoing.end()
        sizes.append(spill_file.size)
        assert [batch.column("x").to_pylist() for batch in spill_file.opened()] == [[5] * 10_000] * pieces
    assert sizes[0] < rows.nbytes
    assert min(pieces, 2) * rows.nbytes < sizes[1] < (min(pieces, 2) + 1) * rows.nbytes
    assert sizes[2] > pieces * rows.nbytes
    assert not lying(tmp_path)


# --- those that nobody reads -----------------------------------------------------------------------------------------


def test_other_batches_leave_nothing_and_this_one_keeps_its_own(spills: Spills, tmp_path: Path) -> None:
    left(spills, 1), left(spills, 1)
    now = left(spills, 2)
    spills.clear(2)
    assert lying(tmp_path) == [Path(now.path).name]
    spills.clear(3)
    spills.clear(3)
    assert not lying(tmp_path)


def test_a_shards_files_are_cleared_and_those_of_others_are_not(spills: Spills, tmp_path: Path) -> None:
    other = Spills(tmp_path, "query-shard2")
    left(spills)
    kept = left(other)
    spills.close()
    assert lying(tmp_path) == [Path(kept.path).name]
    other.close()
    assert not lying(tmp_path)


def test_what_a_killed_process_left_goes_when_the_next_one_starts(spills: Spills, tmp_path: Path) -> None:
    left(spills)
    kept = left(Spills(tmp_path, "query-shard2"))
    Spills(tmp_path, "query-shard").inherit()
    assert lying(tmp_path) == [Path(kept.path).name]


def test_without_room_changes_travel_in_the_reply(tmp_path: Path) -> None:
    nowhere = Spills(tmp_path / "not there", "query-shard")
    ((key, parts),) = sent({"v": spooled(changed(4), nowhere, 0)}, None).items()
    assert key == ("v", FEED)
    assert [(type(blob), rows) for blob, rows in parts] == [(bytes, 4)]


@pytest.mark.parametrize("fails", ["write", "end"])
@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize("plain_bytes", [0, 100, spill_files.PLAIN_BYTES])
def test_when_the_room_ends_what_was_left_comes_back(
    spills: Spills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, after: int, plain_bytes: int
) -> None:
    monkeypatch.setattr(spill_files, "PLAIN_BYTES", plain_bytes)
    buffer = spooled([], spills, 0)
    plain, calls = getattr(SpillWriter, fails), []

    def full(self: SpillWriter, *arguments: Any) -> Any:
        calls.append(fails)
        if len(calls) > after:
            raise OSError("No space left on device")
        return plain(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(SpillWriter, fails, full)
        for batch in changed(4) * 5:
            buffer.add(batch)
        found = sent({"v": buffer}, None)["v", FEED]
    told = [row["x"] for blob, _ in found if isinstance(blob, bytes) for row in read_blob(blob).to_pylist()]
    if fails == "end" and after:
        assert isinstance(found[0][0], SpillFile)
        assert lying(tmp_path)
    else:
        assert told == [0, 1, 2, 3] * 5
        assert sum(rows for _, rows in found) == buffer.rows == 20
        assert not lying(tmp_path)


def test_a_spool_that_is_cleared_begins_anew(spills: Spills, tmp_path: Path) -> None:
    buffer = spooled(changed(10), spills, 0)
    assert len(lying(tmp_path)) == 1
    buffer.clear()
    assert not lying(tmp_path)
    for batch in changed(3):
        buffer.add(batch)
    ((spill_file, rows),) = sent({"v": buffer}, None)["v", FEED]
    assert isinstance(spill_file, SpillFile)
    assert rows == sum(batch.num_rows for batch in spill_file.opened()) == 3


# --- which changes become one ----------------------------------------------------------------------------------------


def changed(rows: int) -> list[pa.RecordBatch]:
    columns: dict[str, Any] = {"x": list(range(rows)), "_change_type": ["insert"] * rows}
    return [pa.record_batch({**columns, "_commit_version": [7] * rows, "_count": [1] * rows})]


def test_small_changes_travel_in_the_reply(spills: Spills, tmp_path: Path) -> None:
    found = sent({"v": spooled(changed(10), spills)}, None)
    assert isinstance(found["v", FEED][0][0], bytes)
    assert not lying(tmp_path)
    found = sent({"v": spooled(changed(20_000), spills)}, None)
    ((spill_file, rows),) = found["v", FEED]
    assert isinstance(spill_file, SpillFile)
    assert rows == spill_file.rows == 20_000


def test_no_changes_are_no_parcel(spills: Spills, tmp_path: Path) -> None:
    assert not sent({"v": spooled([], spills, 0), "w": spooled(changed(0), spills, 0)}, None)
    assert not lying(tmp_path)


def test_what_goes_on_to_other_machines_is_never_one(spills: Spills, tmp_path: Path) -> None:
    found = sent({"v": spooled(changed(20_000))}, MergeShards({"v": (0,)}, 2))
    assert set(found) == {("v", 0), ("v", 1)}
    assert isinstance(sent({"v": spooled(changed(20_000))}, None)["v", FEED][0][0], bytes)
    host, of = started(spills)
    targets = MergeShards({view.name: (0,) for view in of.views}, 2)
    reply = host.answer(Apply("digest", "v1", "v2", blobs(SECOND, of), False, targets, leave=Leave(1, 0)))
    assert isinstance(reply, Done)
    assert {type(blob) for told in reply.changes.values() for blob, _ in told} == {bytes}
    assert not lying(tmp_path)


# --- a shard that leaves them ----------------------------------------------------------------------------------------


def ask(host: ShardServer, of: ShardSpec, rows: Rows, batch: int, before: str = "v1", after: str = "v2") -> Done:
    reply = host.answer(Apply("digest", before, after, blobs(rows, of), False, None, leave=Leave(batch, 0)))
    assert isinstance(reply, Done)
    return reply


def started(spills: Spills) -> tuple[ShardServer, ShardSpec]:
    of, host = spec(), ShardServer(spills)
    rebuild(host, of, "v1", [(1, n, b) for n, b in blobs(FIRST, of)])
    return host, of


def test_a_retried_batch_leaves_new_ones_with_the_same_rows(spills: Spills, tmp_path: Path) -> None:
    host, of = started(spills)
    once = ask(host, of, SECOND, 1, after="first attempt")
    many = len(lying(tmp_path))
    assert many
    again = ask(host, of, SECOND, 1, after="second attempt")
    assert len(lying(tmp_path)) == 2 * many
    assert changes(again) == changes(once)
    assert not lying(tmp_path)


def test_what_a_dead_attempt_left_goes_with_the_next_batch(spills: Spills, tmp_path: Path) -> None:
    host, of = started(spills)
    ask(host, of, SECOND, 1, after="dead attempt")
    dead = lying(tmp_path)
    changes(ask(host, of, SECOND, 1, after="v2"))
    assert lying(tmp_path) == dead
    changes(ask(host, of, together({}, {"r": [(9, 2, 1)]}), 2, before="v2", after="v3"))
    assert not lying(tmp_path)


def test_a_batch_with_more_changes_than_a_feed_holds(spills: Spills, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need not wait until somebody reads them."""
    host, of = started(spills)
    assert host.shard is not None
    monkeypatch.setattr("everview.engine.database.MOST_BYTES", 2)
    with host.shard.db.view(of.views[0].name).changes() as read:
        assert len(changes(ask(host, of, {"r": [(i, 2, 1) for i in range(10, 20)]}, 1))) > 2
        with pytest.raises(FeedError, match="more than 2 bytes"):
            read.read()


def test_a_refused_batch_leaves_nothing(spills: Spills, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though some of its changes have been written already when it fails."""
    host, of = started(spills)

    def refusing(self: Transaction, before: int) -> None:
        if lying(tmp_path):
            raise MemoryLimitError("no more")

    assert host.shard is not None
    host.shard.db.memory_limit = 1 << 40
    with monkeypatch.context() as patch:
        patch.setattr(Transaction, "_check_memory", refusing)
        patch.setattr(DirectBatch, "of", lambda *_: None)  # In one call nothing is written before all is computed.
        with pytest.raises(MemoryLimitError):
            ask(host, of, {"r": [(i, 2, 1) for i in range(10, 20)]}, 1)
    assert not lying(tmp_path)
    assert changes(ask(host, of, SECOND, 1)) == changes(ask(started(spills)[0], of, SECOND, 1))


def test_a_parcel_and_a_blob_are_unpacked_alike(spills: Spills) -> None:
    of = spec()
    view = of.views[0]
    host, _ = started(spills)
    reply = ask(host, of, SECOND, 1)
    ((spill_file, rows),) = reply.changes[view.name, FEED]
    assert isinstance(spill_file, SpillFile)
    plain = ShardServer()
    rebuild(plain, of, "v1", [(1, n, b) for n, b in blobs(FIRST, of)])
    inline = plain.answer(Apply("digest", "v1", "v2", blobs(SECOND, of), False, None))
    assert isinstance(inline, Done)
    ((blob, _),) = inline.changes[view.name, FEED]
    unpack = Unpacker((view,), True, False)
    found = [
        pa.Table.from_batches(unpack(iter([packed(view.name, rows, blob, info)]))).to_pylist()
        for blob, info in ((None, spill_file.text()), (blob, None))
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
