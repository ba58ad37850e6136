"""How tables may change: what is not so is refused and changes nothing; verdicts use it where there is a theorem."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import DataError, OptionError, UpdateKindError
from tests.scale import thoroughness

HOPS = "SELECT a.x, b.y, c.z FROM a JOIN b ON a.y = b.x JOIN c ON b.y = c.x"
LONG = "SELECT COUNT(*) AS n FROM p JOIN q ON p.a = q.a JOIN r ON q.b = r.b JOIN s ON r.c = s.c"


def queue(*names: str, kind: str = "fifo") -> ev.Database:
    db = ev.Database()
    for name in names:
        db.create_table(name, "x INT, s STRING", updates=kind)
    return db


def test_a_static_table_takes_one_batch() -> None:
    db = queue("t", kind="static")
    db.insert("t", [])
    with db.batch() as batch:
        batch.insert("t", [(1, "a"), (2, "b")])
        batch.insert("t", [(3, "c")])
    with pytest.raises(UpdateKindError, match=r"row 0 of the changes to t inserts .*its one batch") as found:
        db.insert("t", [(4, "d")])
    assert (found.value.table, found.value.row, bool(found.value.hint)) == ("t", 0, True)
    with pytest.raises(UpdateKindError):
        db.delete("t", [(1, "a")])
    assert len(db.table("t")) == 3


def test_a_batch_that_is_refused_is_not_the_one_of_a_static_table() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (x INT PRIMARY KEY) OPTIONS (updates = 'static')")
    with pytest.raises(DataError):
        db.insert("t", [(1,), (1,)])
    db.insert("t", [(1,)])
    assert len(db.table("t")) == 1


def test_an_append_only_table_refuses_deletes_and_replacements() -> None:
    db = ev.Database()
    db.create_table("t", "x INT PRIMARY KEY, s STRING", updates="append")
    db.insert("t", [(1, "a")])
    db.insert("t", [(2, "b")])
    with pytest.raises(UpdateKindError, match="no row of it ever goes"):
        db.delete("t", [(1, "a")])
    with pytest.raises(UpdateKindError):
        db.upsert("t", [(2, "c")])
    db.upsert("t", [(3, "c")])
    assert len(db.table("t")) == 3


def test_fifo_tables_form_one_queue() -> None:
    db = queue("t", "u")
    db.insert("t", [(1, "a"), (2, "b")])
    db.insert("u", [(1, "a")])
    with pytest.raises(UpdateKindError, match="an older row of t is still there, from batch 1"):
        db.delete("u", [(1, "a")])
    db.delete("t", [(2, "b")])  # rows of one batch go in any order
    with pytest.raises(UpdateKindError):
        db.delete("u", [(1, "a")])
    with db.batch() as batch:  # and so do those of a batch that deletes, as long as nothing older is left
        batch.delete("u", [(1, "a")])
        batch.delete("t", [(1, "a")])
    assert len(db.table("t")) == len(db.table("u")) == 0


def test_a_copy_that_goes_is_the_oldest() -> None:
    db = queue("t")
    db.insert("t", [(1, "a")])
    db.insert("t", [(2, "b")])
    db.insert("t", [(1, "a")])
    db.delete("t", [(1, "a")])
    with pytest.raises(UpdateKindError, match="from batch 2"):
        db.delete("t", [(1, "a")])
    db.delete("t", [(2, "b")])
    db.delete("t", [(1, "a")])


def test_a_row_that_comes_and_goes_in_one_batch_passes_all_that_are_there() -> None:
    db = queue("t")
    db.insert("t", [(1, "a")])

    def comes_and_goes() -> None:
        with db.batch() as batch:
            batch.insert("t", [(2, "b")])
            batch.delete("t", [(2, "b")])

    with pytest.raises(UpdateKindError):
        comes_and_goes()
    with db.batch() as batch:
        batch.delete("t", [(1, "a")])
        batch.insert("t", [(2, "b")])
        batch.delete("t", [(2, "b")])
    assert len(db.table("t")) == 0


def test_a_dropped_table_leaves_the_queue() -> None:
    db = queue("t", "u")
    db.insert("t", [(1, "a")])
    db.insert("u", [(1, "a"), (2, "b")])
    db.drop("t")
    db.delete("u", [(1, "a")])
    db.create_table("t", "x INT, s STRING", updates="fifo")
    db.insert("t", [(1, "a")])
    with pytest.raises(UpdateKindError, match="older row of u"):
        db.delete("t", [(1, "a")])


@pytest.mark.parametrize("durable", [False, True])
def test_it_is_kept_in_snapshots(tmp_path: Path, durable: bool) -> None:
    db = queue("t", "u")
    db.create_table("once", "x INT", updates="static")
    db.create_table("more", "x INT", updates="append")
    db.insert("t", [(1, "a"), (1, "a"), (2, "b")])
    db.insert("u", [(7, "x")])
    db.insert("t", [(1, "a")])
    db.delete("t", [(2, "b")])
    db.insert("once", [(1,)])
    db.save(tmp_path / "db")
    again = ev.Database.load(tmp_path / "db", verify=durable)
    for table, row in (("u", (7, "x")), ("more", (1,)), ("once", (1,))):
        with pytest.raises(DataError):
            again.delete(table, [row])
    again.delete("t", [(1, "a")])
    with pytest.raises(UpdateKindError, match="from batch 1"), again.batch() as batch:
        batch.delete("u", [(7, "x")])
    again.delete("t", [(1, "a")])
    again.delete("u", [(7, "x")])
    again.delete("t", [(1, "a")])


@pytest.mark.parametrize("clause", ["updates = 'often'", "updates = 1", "kind = 'fifo'"])
def test_other_options_are_refused_at_their_place(clause: str) -> None:
    with pytest.raises(OptionError, match="line 1, column"):
        ev.Database().sql(f"CREATE TABLE t (x INT) OPTIONS ({clause})")


def schema(**kinds: str) -> str:
    tables = {"a": "x INT, y INT", "b": "x INT, y INT", "c": "x INT, z INT"}
    tables |= {"p": "a INT", "q": "a INT, b INT", "r": "b INT, c INT", "s": "c INT"}
    default = kinds.get("all", "any")
    return ";".join(
        f"CREATE TABLE {n} ({columns}) OPTIONS (updates = '{kinds.get(n, default)}')" for n, columns in tables.items()
    )


@pytest.mark.parametrize(
    ("kinds", "is_constant"),
    [
        ({}, False),
        ({"all": "append"}, True),
        ({"all": "append", "b": "static"}, True),
        ({"all": "static"}, True),
        ({"all": "fifo"}, True),
        ({"all": "fifo", "b": "static"}, False),  # no theorem
        ({"all": "append", "b": "fifo"}, False),
        ({"b": "static"}, False),
    ],
)
def test_a_verdict_uses_it_where_there_is_a_theorem(kinds: dict[str, str], is_constant: bool) -> None:
    found = ev.explain(HOPS, schema(**kinds))
    assert ("as its tables are declared to change" in str(found)) is is_constant
    assert any("(OPTIONS (updates" in n for n in found.to_dict()["notes"]) is is_constant
    lower = found.to_dict()["lower_bound"]
    assert lower is None if is_constant else ("none known" in lower) is bool(kinds)
    hard = [t for t in found.to_dict()["tasks"].values() if t["verdict"] == "hard"]
    assert not hard if kinds else hard


def test_a_window_over_a_tall_tree_gets_no_claim() -> None:
    tall = "SELECT a.x FROM a JOIN b ON a.y = b.x JOIN c ON b.y = c.x JOIN p ON c.z = p.a JOIN q ON q.a = p.a"
    found = ev.explain(tall, schema(all="fifo"))
    if "fifo" not in found.to_dict()["constant_update_for"]:
        assert "as its tables are declared" not in str(found)


change = st.tuples(st.sampled_from("tu"), st.integers(0, 2), st.sampled_from((1, 1, -1)))


@thoroughness(60)
@given(st.lists(st.lists(change, min_size=1, max_size=4), max_size=12), st.booleans())
def test_batches_are_refused_as_a_queue_by_itself_would(steps: list[list[Any]], saved: bool) -> None:
    """The oracle is a list of copies with the batch in which each came."""
    db = queue("t", "u")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT t.x, u.s FROM t JOIN u ON t.x = u.x")
    held: list[tuple[int, str, int]] = []
    for number, step in enumerate(steps):
        after = list(held)
        deleted: list[int] = []
        after += [(number, table, x) for table, x, weight in step if weight > 0]
        legal = True
        counts = Counter((table, x) for _, table, x in held)
        for table, x, weight in step:
            counts[table, x] += weight
            legal = legal and counts[table, x] >= 0
        for table, x, weight in step:
            if weight < 0 and legal:
                first = min(copy for copy in after if copy[1:] == (table, x))
                after.remove(first)
                deleted.append(first[0])
        legal = legal and (not deleted or not after or max(deleted) <= min(n for n, _, _ in after))
        try:
            with db.batch() as batch:
                for table, x, weight in step:
                    (batch.insert if weight > 0 else batch.delete)(table, [(x, "s")])
            assert legal
            held = after
        except DataError:
            assert not legal
        for name in "tu":
            there = Counter((x, "s") for _, table, x in held if table == name)
            assert Counter(map(tuple, db.table(name))) == there
        if saved and number == 5:
            with TemporaryDirectory() as folder:
                db.save(Path(folder) / "db")
                db = ev.Database.load(Path(folder) / "db")
    pairs = ((a, b) for a in held for b in held if (a[1], b[1]) == ("t", "u") and a[2] == b[2])
    joined = Counter((a[2], "s") for a, _ in pairs)
    assert Counter(map(tuple, db.view("v"))) == joined
