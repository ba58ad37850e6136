"""Files by ranges of hashes: the layout, the hash, and batches that are larger than memory is meant to hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from everview.spark.targets import buckets
from everview.spark.targets.buckets import File, apply
from everview.spark.targets.rows import hashes
from tests.spark.feeds import COLUMNS, INTS, SCHEMA, bag, batch

ALL = 1 << 64


class Memory:
    """A store that counts what is read and written."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}
        self.largest = 0

    def read(self, name: str) -> pa.Table:
        return self.tables[name]

    def write(self, name: str, tables: Iterator[pa.Table]) -> None:
        assert name not in self.tables
        self.tables[name] = pa.concat_tables([INTS.empty_table(), *tables])
        self.largest = max(self.largest, self.tables[name].num_rows)


def covers_all(files: Sequence[File]) -> None:
    found = buckets.buckets(files)
    assert (found[0].low, found[-1].high) == (0, ALL)
    assert all(a.high == b.low for a, b in pairwise(found))
    assert Counter(f.name for b in found for f in b.files) == Counter(f.name for f in files)


@pytest.mark.parametrize("seed", range(10))
def test_files_hold_the_bag_whatever_comes(seed: int) -> None:
    random = Random(seed)
    store, files, there = Memory(), list[File](), Counter[int]()
    for number in range(12):
        changes = []
        for _ in range(random.choice([0, 1, 10, 400])):
            gone = bool(there) and random.random() < (0.3 if number < 7 else 0.9)
            value = random.choice(list(there)) if gone else random.randrange(2_000)
            count = random.randint(1, there[value]) if gone else random.randint(1, 3)
            there[value] += -count if gone else count
            there = +there
            changes.append(((value,), "delete" if gone else "insert", count))
        outcome = apply(files, batch(number, changes, schema=INTS, pieces=3), store, "it", bucket_rows=20)
        gone_names = {f.name for f in outcome.removed}
        files = [f for f in files if f.name not in gone_names] + outcome.added
        covers_all(files)
        rows = [store.tables[f.name] for f in files]
        assert [t.num_rows for t in rows] == [f.rows for f in files]
        assert bag(pa.concat_tables([INTS.empty_table(), *rows])) == {(v,): c for v, c in there.items()}
        for file, table in zip(files, rows, strict=True):
            low, high = file.range
            assert all(low <= int(h) < high for h in hashes(table))


def test_buckets_come_and_go_with_the_data() -> None:
    store, files = Memory(), list[File]()
    values = [((x,), "insert", 1) for x in range(3_000)]
    outcome = apply(files, batch(0, values, schema=INTS), store, "it", bucket_rows=100)
    assert 30 <= len(outcome.added) <= 150
    assert store.largest <= 100
    left = [((x,), "delete", 1) for x in range(2_990)]
    after = apply(outcome.added, batch(1, left, schema=INTS), store, "it", bucket_rows=100)
    kept = len(outcome.added) - len(after.removed) + len(after.added)
    assert kept <= 3


def test_copies_of_one_row_are_not_cut() -> None:
    store = Memory()
    outcome = apply([], batch(0, [((1,), "insert", 250_000)], schema=INTS), store, "it", bucket_rows=100)
    assert [f.rows for f in outcome.added] == [250_000]


def test_a_bucket_that_only_gains_gets_one_more_file() -> None:
    store = Memory()
    files = apply([], batch(0, [((x,), "insert", 1) for x in range(9)], schema=INTS), store, "it").added
    for number in range(1, buckets.MOST_FILES):
        outcome = apply(files, batch(number, [((100 + number,), "insert", 1)], schema=INTS), store, "it")
        assert (len(outcome.added), outcome.removed) == (1, [])
        files = files + outcome.added
    outcome = apply(files, batch(99, [((999,), "insert", 1)], schema=INTS), store, "it")
    assert (len(outcome.added), len(outcome.removed)) == (1, buckets.MOST_FILES)


def test_the_hash_is_the_same_in_every_version() -> None:
    """Files are named by it: if this fails, what targets hold cannot be found any more."""
    rows = [[pool[-1], None] for _, pool in COLUMNS.values()]
    table = pa.table([pa.array(v, f.type) for v, f in zip(rows, SCHEMA, strict=True)], schema=SCHEMA)
    assert [f"{h:016x}" for h in hashes(table)] == ["a987f2c032cfe873", "29891c9afac0f260"]


def test_the_hash_does_not_depend_on_slices_and_spreads() -> None:
    texts = pa.array([None, "", "a", "b", "ab", "ba", "a" * 50, *map(str, range(10_000))])
    table = pa.table({"s": texts, "x": pa.array(range(len(texts)))})
    whole = hashes(table)
    assert (hashes(table.slice(3, 500)) == whole[3:503]).all()
    assert len(set(hashes(table.select(["s"])).tolist())) == len(texts)
    counts = Counter(int(h) >> 60 for h in whole)
    assert max(counts.values()) < 1.3 * min(counts.values())
