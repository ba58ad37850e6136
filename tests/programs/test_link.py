"""Linked programs: in one unit each part does what it does alone, and a view is one unit."""

from __future__ import annotations

from array import array
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.storage import container
from everview.kernel import Machine, StaleCursor, UpdateFault
from everview.kernel.machine import Part
from everview.kernel.program import Call, Insert, Procedure, Program, Reg, Store, Table
from everview.kernel.reference import Fault, Reference
from everview.kernel.verifier import verify
from everview.programs.counts import compile_fold
from everview.programs.link import Linker, linked, prefixed
from everview.programs.min_max import compile_extremes
from tests.kernel.programs import TEXTS, VALUES, Pair, ProgramMaker, argument_columns
from tests.scale import thoroughness


def words(*values: int) -> array[int]:
    return array("q", values)


class LinkedPair(Pair):
    """A part of a unit beside the reference interpreter of its program alone."""

    def __init__(self, part: Part) -> None:
        self.program = part.program
        self.machine = part  # type: ignore[assignment]
        self.reference = Reference(part.program, TEXTS)


@thoroughness(60)
@given(st.integers(0, 2**40))
def test_parts_do_what_they_do_alone(seed: int) -> None:
    """Random programs with the same names, in turns; and the linked program in the reference interpreter."""
    random = Random(seed)
    programs = [ProgramMaker(random).program() for _ in range(random.randint(2, 3))]
    linker = Linker(Machine(VALUES))
    parts = [linker.add("part", program) for program in programs]
    unit = linker.link()
    verify(unit.program)
    pairs, whole = [LinkedPair(part) for part in parts], Reference(unit.program, TEXTS)
    for _ in range(8):
        pair = random.choice(pairs)
        procedure = random.choice(pair.program.procedures)
        columns = argument_columns(random, procedure.parameters, lambda: random.randint(0, 3), random.randint(0, 6))
        fault = pair.apply(procedure.name, columns)
        if fault is None:
            whole.apply(pair.machine.prefix + procedure.name, columns)
        else:
            with pytest.raises(Fault) as raised:
                whole.apply(pair.machine.prefix + procedure.name, columns)
            assert raised.value.kind == fault
        pair.check_cursors(random)
        pair.check_functions(random)
    for pair in pairs:
        pair.check()
        for table in pair.program.tables:
            assert whole.dump(pair.machine.prefix + table.name) == pair.reference.dump(table.name)
        for channel, _ in pair.program.channels:
            assert whole._channels[pair.machine.prefix + channel] == pair.reference._channels[channel]
        pair.check_channels()


def counts_and_values() -> tuple[Part, Part]:
    linker = Linker(Machine(VALUES))
    counts, values = linker.add("counts", compile_fold(1, (1,))), linker.add("min_max", compile_extremes(1, True))
    linker.link()
    return counts, values


def test_names_are_told_apart() -> None:
    fold = compile_fold(1, (1,))
    both = linked([fold, fold], ["a.", "b."])
    assert [t.name for t in both.tables] == ["a.rows", "b.rows"]
    verify(both)
    assert prefixed(fold, "") == fold
    with pytest.raises(ValueError, match="the same prefix"):
        linked([fold, fold], ["a.", "a."])


def test_a_part_cannot_be_used_before_it_is_linked() -> None:
    part = Linker(Machine()).add("counts", compile_fold(1, (1,)))
    with pytest.raises(RuntimeError, match="not linked"):
        _ = part.whole


def test_a_cursor_survives_changes_of_tables_that_it_does_not_read() -> None:
    counts, values = counts_and_values()
    counts.apply("add", [words(1, 2, 3), words(5, 6, 7)])
    cursor = counts.open("all")
    assert [list(memoryview(c)) for c in cursor.fetch(1)] == [[1], [5]]
    values.apply("change", [words(1, 1), words(9, 8), words(1, 1)])
    assert [list(memoryview(c)) for c in cursor.fetch(9)] == [[2, 3], [6, 7]]
    assert [list(memoryview(c)) for c in values.ask("read", [words(1)])] == [[1], [9]]
    cursor = counts.open("all")
    counts.apply("settle", [words(0)])
    with pytest.raises(StaleCursor):
        cursor.fetch(1)


def test_a_part_is_cleared_without_the_others() -> None:
    counts, values = counts_and_values()
    counts.apply("add", [words(1), words(5)])
    values.apply("change", [words(1), words(9), words(1)])
    listing, other = counts.open("all"), values.open("all")
    counts.clear()
    assert (counts.size("rows"), values.size("values")) == (0, 1)
    assert len(memoryview(other.fetch(9)[0])) == 1
    with pytest.raises(StaleCursor):
        listing.fetch(1)


def test_what_other_parts_have_pending_holds_nothing_up() -> None:
    """``most_pending`` is about what the procedure itself tells."""
    linker = Linker(Machine())
    one, other = (linker.add("counts", compile_fold(1, (1,))) for _ in range(2))
    linker.link()
    one.apply("trace", [words(1, 2, 3), words(1, 1, 1)])
    assert one.pending("trace") == 3
    assert other.apply("trace", [words(1, 2), words(1, 1)], most_pending=2) == 2
    assert other.apply("trace", [words(1), words(1)], most_pending=2) == 0


def test_a_fault_takes_back_what_the_update_told_and_not_what_others_have_pending() -> None:
    linker = Linker(Machine())
    one, other = (linker.add("counts", compile_fold(1, (1,))) for _ in range(2))
    linker.link()
    one.apply("trace", [words(1), words(1)])
    with pytest.raises(UpdateFault):
        other.apply("trace", [words(1, 1), words(2**62, 2**62)])
    assert (one.pending("trace"), other.pending("trace")) == (1, 1)


VIEWS = {
    "plain": "SELECT a, b FROM t",
    "grouped": "SELECT a, COUNT(*) AS n, MIN(b) AS l, MAX(s) AS h, COUNT(DISTINCT b) AS d FROM t GROUP BY a",
    "united": "SELECT a FROM t UNION SELECT b FROM t",
    "staged": "SELECT a FROM t WHERE b IN (SELECT MAX(b) FROM t GROUP BY s)",
    "distinct": "SELECT DISTINCT a + b AS c FROM t EXCEPT SELECT a FROM t",
}


def database() -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, b INT, s STRING)")
    for name, query in VIEWS.items():
        db.create_view(name, query)
    return db


def test_a_view_is_one_unit() -> None:
    """One unit a view whatever it is made of, with one section of the file, and gone when it is dropped."""
    db = database()
    db.insert("t", [(i % 3, i % 5, f"s{i % 4}") for i in range(40)])
    for name in VIEWS:
        runtime = db._views[name]
        parts = [kept.part for kept in (*runtime.cores, *runtime.folds)]
        assert {part.whole for part in parts} == {runtime.unit}
        tables = [part.prefix + table.name for part in parts for table in part.program.tables]
        assert sorted(tables) == sorted(table.name for table in runtime.unit.program.tables)
    assert len(db._views["grouped"].unit.program.tables) > 5
    empty = db._machine.nbytes()
    for name in VIEWS:
        db.drop(name)
    assert db._machine.nbytes() < empty / 2


def test_a_file_has_one_section_a_view(tmp_path: Path) -> None:
    db = database()
    db.insert("t", [(i % 3, i % 5, f"s{i % 4}") for i in range(40)])
    db.save(tmp_path / "saved")
    with container.reading(tmp_path / "saved") as file:
        sections = [entry["name"] for entry in file.manifest["sections"] if entry["name"].startswith("view/")]
    assert sections == [f"view/{i}" for i in range(len(VIEWS))]
    loaded = ev.Database.load(tmp_path / "saved")
    assert {loaded.view(v).stats()["restored"] for v in VIEWS} == {"snapshot"}
    for each in (db, loaded):
        each.delete("t", [(0, 0, "s0")])
    assert all(Counter(loaded.view(v)) == Counter(db.view(v)) for v in VIEWS)


def test_a_procedure_that_is_given_a_row_knows_its_table() -> None:
    """Two parts whose tables have the same name: the handle of a row is of its own part's table."""
    row, key, by = map(Reg, ("row", "key", "by"))
    program = Program(
        (Table("t", ("k",), ("n",)),),
        (),
        (
            Procedure("more", (row, by), (Store(row, "t", 0, by),), row_of=((row, "t"),)),
            Procedure("put", (key, by), (Insert(row, "t", (key,)), Call("more", (row, by)))),
        ),
        (),
        (),
    )
    linker = Linker(Machine())
    parts = [linker.add("part", program) for _ in range(2)]
    whole = linker.link()
    verify(whole.program)
    for i, part in enumerate(parts):
        part.apply("put", [words(5), words(7 + i)])
    assert [whole.dump(f"{part.prefix}t") for part in parts] == [[((5,), (7,), 0)], [((5,), (8,), 0)]]
