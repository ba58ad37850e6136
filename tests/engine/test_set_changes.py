"""Set changes of base tables: what each update does to the set of rows, and strategies whose inputs are sets."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.engine.operators.netting import net_changes
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import Changes, WordRows
from everview.errors import OverDeleteError
from everview.kernel.machine import Part, Unit
from everview.kernel.reference import Reference
from everview.plan.core_plan import CorePlan
from everview.programs.base_table import CHANGE, CHANGE_AND_TELL, OVER_DELETED, ROWS, SET_CHANGES, compile_base
from everview.query.types import DataType, Kind
from tests.engine.samples import uses
from tests.scale import thoroughness

Rows = list[tuple[int, int]]
SCHEMA = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (b INT, c INT)"
VIEWS = {
    "join": "SELECT x.a, y.c FROM r x JOIN s y ON x.b = y.b",
    "counted": "SELECT x.a, COUNT(*) AS n, SUM(y.c) AS t FROM r x JOIN s y ON x.b = y.b GROUP BY x.a",
    "twice": "SELECT x.a, y.b FROM r x JOIN r y ON x.b = y.a WHERE y.b <> 2",
}


@thoroughness(80)
@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1), st.integers(-2, 3)), max_size=8), max_size=5))
def test_a_base_table_tells_what_appears_and_vanishes(batches: list[list[tuple[int, int, int]]]) -> None:
    """Beside a plain count, the reference, and the procedure that does not tell."""
    program = compile_base(2)
    machine, plain, reference = Unit(program), Unit(program), Reference(program)
    copies: Counter[tuple[int, int]] = Counter()
    for batch in batches:
        taken, wanted = [], []
        for a, b, asked in batch:
            change = max(asked, -copies[a, b])
            before, after = copies[a, b], copies[a, b] + change
            copies[a, b] = after
            taken.append((a, b, change))
            wanted.append((after > 0) - (before > 0))
        columns = [array("q", c) for c in zip(*taken, strict=True)] or [array("q")] * 3
        machine.apply(CHANGE_AND_TELL, columns)
        plain.apply(CHANGE, columns)
        reference.apply(CHANGE_AND_TELL, [list(c) for c in columns])
        (told,) = machine.take(SET_CHANGES)
        assert list(memoryview(told)) == wanted == reference.take(SET_CHANGES)[0]
        assert machine.dump(ROWS) == plain.dump(ROWS) == reference.dump(ROWS)
    assert plain.pending(SET_CHANGES) == machine.pending(OVER_DELETED) == 0


@pytest.fixture
def of_sets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if the strategy had asked for set semantics of all its inputs."""
    compiled = CorePlan.compile

    def asking(self: CorePlan, *arguments: Any) -> Any:
        made = compiled(self, *arguments)
        return replace(made, entries=tuple(replace(e, is_set=True) for e in made.entries))

    with monkeypatch.context() as patched:
        patched.setattr(CorePlan, "compile", asking)
        yield


def expected(select: str, r: Rows, s: Rows) -> Counter[tuple[Any, ...]]:
    with duckdb.connect() as db:
        db.sql("CREATE TABLE all_r (a INT, b INT); CREATE TABLE all_s (b INT, c INT)")
        for name, rows in (("all_r", r), ("all_s", s)):
            for row in rows:
                db.execute(f"INSERT INTO {name} VALUES (?, ?)", row)
        db.sql("CREATE VIEW r AS SELECT DISTINCT * FROM all_r; CREATE VIEW s AS SELECT DISTINCT * FROM all_s")
        return Counter(db.sql(select).fetchall())


def delete_too_much(db: ev.Database) -> None:
    with db.batch() as batch:
        batch.insert("r", [(1, 2), (9, 1)])
        batch.delete("r", [(8, 8)])


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize("name", VIEWS)
def test_inputs_are_taken_as_sets(of_sets: None, name: str, fed: bool, tmp_path: Path) -> None:
    """With copies, deletions and insertions of the same rows in one batch, a failed batch, and a load in the middle."""
    random = Random(name)
    db = ev.Database()
    db.sql(SCHEMA)
    kept: dict[str, Rows] = {"r": [(1, 1), (1, 1), (2, 1)], "s": [(1, 1), (1, 1)]}
    for table, rows in kept.items():
        db.insert(table, rows)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {VIEWS[name]}")
    feed = db.view("v").changes(per_update=True) if fed else None
    told = Counter(db.view("v"))
    assert told == expected(VIEWS[name], kept["r"], kept["s"])
    for turn in range(12):
        with db.batch() as batch:
            for _ in range(6):
                table = random.choice("rs")
                rows = kept[table]
                if rows and random.random() < 0.5:
                    row = random.choice(rows)
                    times = random.randint(1, rows.count(row))
                    batch.delete(table, [row] * times)
                    for _ in range(times):
                        rows.remove(row)
                    if random.random() < 0.5:
                        batch.insert(table, [row])
                        rows.append(row)
                else:
                    row = (random.randint(1, 3), random.randint(1, 3))
                    more = [row] * random.randint(1, 3)
                    batch.insert(table, more)
                    rows += more
        with pytest.raises(OverDeleteError):
            delete_too_much(db)
        if turn == 6 and feed is None:
            db.save(tmp_path / "saved")
            db = ev.Database.load(tmp_path / "saved")
        wanted = expected(VIEWS[name], kept["r"], kept["s"])
        assert Counter(db.view("v")) == wanted
        if feed is not None:
            for found in feed.read():
                for row in found.to_pylist():
                    sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
                    told[tuple(v for k, v in row.items() if not k.startswith("_"))] += sign * row["_count"]
            assert +told == wanted


def test_strings_of_computed_columns_are_given_back_once_a_row(of_sets: None) -> None:
    """They were given back once a copy, which freed those of others."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, s STRING)")
    db.insert("t", [(1, "x"), (1, "x"), (1, "x"), (2, "Y")])
    views = {
        name: f"CREATE VIEW {name} AS SELECT upper(s) AS u, count(*) AS n FROM t GROUP BY upper(s)" for name in "vw"
    }
    db.sql(views["v"])
    before = uses(db)
    db.sql(views["w"])
    db.drop("w")
    assert uses(db) == before
    assert sorted(db.view("v")) == [("X", 1), ("Y", 1)]


def test_an_update_that_changes_no_set_belongs_to_no_occurrence(of_sets: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The procedure is given, of r's two occurrences: two words and a flag each, and at the end the change."""
    db = ev.Database()
    db.sql(f"{SCHEMA}; CREATE MATERIALIZED VIEW v AS {VIEWS['twice']}")
    given: list[list[list[int]]] = []
    apply = Part.apply

    def watched(self: Part, procedure: str, columns: Any, **further: Any) -> int:
        if self is db._views["v"].cores[0].part:
            given.append([pa.array(c).to_pylist() for c in columns])
        return apply(self, procedure, columns, **further)

    monkeypatch.setattr(Part, "apply", watched)
    db.insert("r", [(1, 1), (1, 1), (1, 3)])
    db.delete("r", [(1, 1), (1, 1)])
    (first, second) = ([columns[2], columns[5], columns[6]] for columns in given)
    assert first == [[1, 0, 1], [1, 0, 1], [1, 0, 1]]
    assert second == [[0, 1], [0, 1], [0, -1]]


def changes(flips: list[int]) -> Changes:
    count = len(flips)
    rows = WordRows((pa.array(range(count)), pa.array([7] * count)), pa.array([1] * count), pa.array(range(count)))
    types = (DataType(Kind.INT), DataType(Kind.INT))
    return Changes("r", types, rows, Dictionary(), flips=pa.array(flips, pa.int64()))


def test_parts_of_updates_have_their_own_flips() -> None:
    part = changes([1, 0, -1, 1, 0]).slice(2, 2)
    assert part.of_set().rows.weight.to_pylist() == [-1, 1]
    assert part.slice(1).of_set().rows.weight.to_pylist() == [1]


def test_netted_updates_appear_or_vanish() -> None:
    """Only where no row has copies are updates netted: what is left of each row flips it."""
    (netted,) = net_changes([changes([1, 0, 0]), changes([0, 0, 0])])
    assert netted.of_set().rows.weight.to_pylist() == [1, 1, 1]


def test_rows_of_views_are_not_known_as_sets() -> None:
    with pytest.raises(TypeError, match="r is no base table"):
        replace(changes([1]), is_base=False).of_set()
