"""Files that were edited and given right checksums again: refused on load, or nothing raw comes out of them later."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import EverviewError, ExpressionError, SnapshotError
from tests.engine.samples import Changes, database, run
from tests.engine.test_snapshot import put_table, resign, table_of
from tests.kernel import blocks
from tests.scale import scaled

NAMES = ("hops", "over", "labels", "staged")
WORDS = (0, 1, -1, 2, 100, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1, -2, 4607182418800017408)

Edit = Callable[[dict[str, Any], dict[str, bytes]], None]


def with_words(data: bytes, change: Callable[[list[int]], None]) -> bytes:
    words = list(struct.unpack(f"<{len(data) // 8}q", data))
    found = blocks.bounds(words)
    change(words)
    blocks.sign(words, found)
    return struct.pack(f"<{len(words)}q", *words)


def set_cell(sections: dict[str, bytes], name: str, column: str, row: int, value: Any) -> None:
    table = table_of(sections, name)
    place = table.column_names.index(column)
    values = table.column(place).to_pylist()
    values[row] = value
    field = table.schema.field(place)
    put_table(sections, name, table.set_column(place, field, pa.array(values, field.type)))


def typed() -> ev.Database:
    db = ev.Database()
    db.sql("""CREATE TABLE t (b BOOLEAN, i INT, d DATE, f FLOAT, n DECIMAL(5, 2), s STRING NOT NULL, w DECIMAL(30, 4),
                              c INT CHECK (c IN (1, 2)), x DOUBLE, m TIMESTAMP)""")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT b, d, f, n, s, x FROM t")
    db.sql("CREATE MATERIALIZED VIEW g AS SELECT DISTINCT s, d FROM t")
    row = db.table("t").schema.empty_table().schema
    values = [True, 1, 0, 0.5, 1, "s", 2, 1, 0.5, 0]
    db.insert("t", pa.table([pa.array([v, v], f.type) for v, f in zip(values, row, strict=True)], schema=row))
    return db


def loaded(db: ev.Database, folder: Path, edit: Edit) -> ev.Database:
    path = folder / "edited"
    db.save(path)
    resign(path, edit)
    return ev.Database.load(path)


@pytest.mark.parametrize(
    ("column", "word"),
    [
        ("w0", 2),
        ("w1", 2**40),
        ("w2", 10**9),
        ("w3", 4607182418800017409),  # a double that is no float
        ("w4", 10**6),
        ("w5", -(2**63)),  # NULL in a NOT NULL column
        ("w6", 10**6),
        ("w7", 3),
        ("w8", 9221120237041090561),  # another NaN than the one
        ("w9", 2**62),
        ("copies", 2**63 - 1),
    ],
)
def test_words_that_no_value_has_are_refused(tmp_path: Path, column: str, word: int) -> None:
    db = typed()
    db.insert("t", db.table("t").to_arrow().slice(0, 1).set_column(1, "i", pa.array([7], pa.int32())))
    with pytest.raises(SnapshotError, match="section table/0 has"):
        loaded(db, tmp_path, lambda _, sections: set_cell(sections, "table/0", column, 0, word))


@pytest.mark.parametrize(
    ("name", "value"), [("version", -1), ("version", 2**70), ("version", 1.5), ("version", True), ("updates", -1)]
)
def test_numbers_that_are_no_counts_are_refused(tmp_path: Path, name: str, value: Any) -> None:
    def edit(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        (manifest if name == "version" else manifest["tables"][0])[name] = value

    with pytest.raises(SnapshotError, match=f"its {name} is .*, which is no count"):
        loaded(typed(), tmp_path, edit)


def test_too_few_uses_of_a_value_are_refused(tmp_path: Path) -> None:
    """It would be freed with the first of its rows, and the others could not be read."""
    with pytest.raises(SnapshotError, match="fewer uses"):
        loaded(typed(), tmp_path, lambda _, sections: set_cell(sections, "dictionary/string", "count", 0, 1))


@pytest.mark.parametrize("section", ["view/0", "view/1"])
def test_words_in_a_views_state_are_looked_at(tmp_path: Path, section: str) -> None:
    """The one string's id, 0, is made another, wherever the state has it as a word by itself."""

    def edit(_: dict[str, Any], sections: dict[str, bytes]) -> None:
        def change(words: list[int]) -> None:
            for i in blocks.inside(blocks.bounds(words)):
                words[i] = 10**6 if words[i] == 0 else words[i]

        sections[section] = with_words(sections[section], change)

    with pytest.raises(SnapshotError):
        loaded(typed(), tmp_path, edit)


def test_ids_of_strings_that_are_kept_in_order_are_looked_at(tmp_path: Path) -> None:
    """MAX of what is computed: the only place that has the id, and the dictionary counts its use."""
    db = ev.Database()
    db.sql("CREATE TABLE t (g INT, s STRING)")
    db.create_view("v", "SELECT g, MAX(upper(s)) AS m FROM t GROUP BY g")
    db.insert("t", [(7, "a"), (7, "b")])
    ids = {v: i for i, v, _ in zip(*db._dictionary.to_state()["string"].to_pydict().values(), strict=True)}

    def edit(_: dict[str, Any], sections: dict[str, bytes]) -> None:
        def change(words: list[int]) -> None:
            for i in blocks.inside(blocks.bounds(words)):
                if words[i : i + 2] == [ids["B"], 1]:
                    words[i] = 10**6

        sections["view/0"] = with_words(sections["view/0"], change)

    with pytest.raises(SnapshotError, match="the dictionary does not have"):
        loaded(db, tmp_path, edit)
    at = list(ids).index("B")
    with pytest.raises(SnapshotError, match="fewer uses"):
        loaded(db, tmp_path, lambda _, sections: set_cell(sections, "dictionary/string", "count", at, 0))


def random_edit(draw: random.Random) -> Edit:
    """One cell, row or word of one section, or one entry of the manifest."""

    def edit(manifest: dict[str, Any], sections: dict[str, bytes]) -> None:
        if draw.random() < 0.1:
            entry = draw.choice([*manifest["views"], *manifest["tables"]])
            entry[draw.choice([key for key in entry if key != "name"])] = draw.choice(
                [-1, 2**70, "x", None, [], 1.5, 3]
            )
            return
        name = draw.choice(sorted(sections))
        if name.startswith("view"):
            sections[name] = with_words(sections[name], change_words)
            return
        table = table_of(sections, name)
        if not len(table):
            return
        row = draw.randrange(len(table))
        column = draw.choice(table.column_names)
        kind = table.schema.field(column).type
        if draw.random() < 0.15:
            kept = pa.array([i for i in range(len(table)) if i != row], pa.int64())
            put_table(sections, name, table.take(kept))
        elif kind == pa.int64():
            set_cell(sections, name, column, row, draw.choice([*WORDS, *table.column(column).to_pylist()]))
        elif kind == pa.large_string():
            set_cell(sections, name, column, row, draw.choice(["", "other", "x" * 1_000]))

    def change_words(words: list[int]) -> None:
        places = blocks.inside(blocks.bounds(words))
        for _ in range(draw.choice([1, 1, 2, 5]) if places else 0):
            at = draw.choice(places)
            words[at] = draw.choice([*WORDS, words[at] ^ 1, words[draw.choice(places)]])

    return edit


def used(db: ev.Database, changes: Changes, folder: Path) -> None:
    """Read, change and save it; what is refused on the way is told as ours."""
    for table in map(db.table, db.tables):
        assert len(table) == len(list(table)) == table.to_arrow().num_rows
    read(db)
    for _ in range(3):
        try:
            run(db, [changes.batch()])
        except EverviewError:
            continue
    for name in db.tables:
        try:
            db.delete(name, list(db.table(name)))
        except EverviewError:
            continue
    read(db)
    db.save(folder / "again")


def read(db: ev.Database) -> None:
    """A view's state that its tables contradict is told when it is met."""
    for view in map(db.view, db.views):
        try:
            assert view.to_arrow().num_rows == len(list(view)) == len(view)
        except SnapshotError:
            continue


def test_edited_at_random(tmp_path: Path) -> None:
    """SnapshotError on load; or whatever is done with the database raises nothing but our errors."""
    original, changes, refused = database(*NAMES), Changes(3), 0
    run(original, [changes.batch() for _ in range(6)])
    cases = max(scaled(20), 8)
    for seed in range(cases):
        try:
            db = loaded(original, tmp_path, random_edit(random.Random(seed)))
        except SnapshotError:
            refused += 1
            continue
        used(db, Changes(seed), tmp_path)
    assert 0 < refused < cases


# --- what is parked --------------------------------------------------------------------------------------------------


def without_input() -> ev.Database:
    """A view whose row over no input fails, and one over it with a row that is parked, too."""
    db = ev.Database()
    db.sql("CREATE TABLE t (s STRING, x BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW mean AS SELECT 10 / COUNT(*) AS m FROM t")
    db.sql("CREATE MATERIALIZED VIEW counted AS SELECT COUNT(*) AS n, COALESCE(MAX(s), 'none') AS s FROM t")
    db.sql("CREATE MATERIALIZED VIEW over AS SELECT s, 10 / n AS m FROM counted")
    db.sql("CREATE MATERIALIZED VIEW by_s AS SELECT s, 10 / SUM(x) AS q FROM t GROUP BY s")
    return db


def test_what_is_parked_is_loaded(tmp_path: Path) -> None:
    db = loaded(without_input(), tmp_path, lambda _, sections: None)
    for name in ("mean", "over"):
        assert db.view(name).stats()["restored"] == "snapshot"
        with pytest.raises(ExpressionError, match="no result now"):
            list(db.view(name))
    db.insert("t", [("a", 2)])
    assert [list(db.view(name)) for name in ("mean", "over", "by_s")] == [[(10.0,)], [("a", 10.0)], [("a", 5.0)]]


def parked_sections(sections: dict[str, bytes]) -> list[str]:
    return sorted(name for name in sections if "/parked/" in name)


@pytest.mark.parametrize("value", [None, 3, [0.5], ["0"], [-1], [99], [True], {"0": 1}])
def test_places_of_what_is_parked_are_numbers_of_them(tmp_path: Path, value: Any) -> None:
    def edit(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        manifest["views"][0]["parked"] = value

    with pytest.raises(SnapshotError):
        loaded(without_input(), tmp_path, edit)


def test_a_row_that_fails_and_is_not_listed_is_missed(tmp_path: Path) -> None:
    """It would be counted below zero when it goes, and all batches would be refused."""

    def edit(manifest: dict[str, Any], _: dict[str, bytes]) -> None:
        assert manifest["views"][0]["parked"]
        manifest["views"][0]["parked"] = []

    with pytest.raises(SnapshotError):
        loaded(without_input(), tmp_path, edit)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("word", [-1, 2**62])
def test_words_of_what_is_parked_are_looked_at(tmp_path: Path, number: int, word: int) -> None:
    """Every word of a section is changed in turn: refused on load, or nothing raw comes out of it later."""
    sizes: dict[str, bytes] = {}
    with pytest.raises(RuntimeError):
        loaded(without_input(), tmp_path, lambda _, sections: stop(sizes, sections))
    name = parked_sections(sizes)[number]
    refused = 0
    for at in range(5, len(sizes[name]) // 8):

        def edit(_: dict[str, Any], sections: dict[str, bytes], at: int = at) -> None:
            sections[name] = with_words(sections[name], lambda words: words.__setitem__(at, word))

        try:
            db = loaded(without_input(), tmp_path, edit)
        except SnapshotError:
            refused += 1
            continue
        with suppress(EverviewError):  # The state of one view is not held against that of another.
            db.insert("t", [("a", 2)])
            assert list(db.view("mean")) == [(10.0,)]
    assert refused > 0


def stop(sizes: dict[str, bytes], sections: dict[str, bytes]) -> None:
    sizes |= sections
    raise RuntimeError


def test_a_group_with_keys_cannot_be_parked_in_a_file(tmp_path: Path) -> None:
    """Another view's section in its place: no batch leaves such a group."""

    def edit(manifest: dict[str, Any], sections: dict[str, bytes]) -> None:
        db = without_input()
        places = range(len(db._views["by_s"].parked))
        manifest["views"][3]["parked"] = list(places)
        for j in places:
            sections[f"view/3/parked/{j}"] = sections[parked_sections(sections)[0]]

    with pytest.raises(SnapshotError):
        loaded(without_input(), tmp_path, edit)
