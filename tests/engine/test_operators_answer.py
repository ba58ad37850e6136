"""Operators answer what is asked about their rows, or say "list them"; both ways a reader gets what listing gives."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.engine.operators.answers import Answers, Sought
from everview.engine.operators.select import Select
from everview.engine.operators.set_operations import Concatenation
from everview.engine.values.rows import WordRows, ones, words_array, zeros
from everview.errors import OverDeleteError
from everview.kernel.machine import Part
from tests.engine.samples import Change, Changes, database, run
from tests.scale import scaled

TRIANGLE = "follows a, follows b, follows c WHERE a.dst = b.src AND b.dst = c.src AND c.dst = a.src"
MORE = {
    "plain": "SELECT src, dst FROM follows",
    "copies": "SELECT src FROM follows",
    "distinct": "SELECT DISTINCT src FROM follows",
    "semi": "SELECT DISTINCT f.src FROM follows f JOIN people p ON f.dst = p.id",
    "checked": "SELECT DISTINCT f.src, p.id FROM follows f, people p WHERE f.dst < p.id",
    "paths": "SELECT DISTINCT a.src, a.dst, b.dst AS third FROM follows a JOIN follows b ON a.dst = b.src",
    "triangles": f"SELECT DISTINCT a.src AS x, b.src AS y, c.src AS z FROM {TRIANGLE}",
    "some_triangles": f"SELECT DISTINCT a.src AS x, b.src AS y, c.src AS z FROM {TRIANGLE} AND a.src + b.src < c.src",
    "counted": "SELECT city, COUNT(*) AS n FROM people GROUP BY city",
    "valued": "SELECT city, MAX(name) AS m, upper(MIN(name)) AS loud, COUNT(*) AS n FROM people GROUP BY city",
    "twice": "SELECT city AS c, SUM(pay) AS pay, city AS d FROM people GROUP BY city",
    "hidden": "SELECT COUNT(*) AS n FROM people GROUP BY city",
    "having": "SELECT city, MAX(id) AS m FROM people GROUP BY city HAVING MAX(id) > 4",
    "distinct_groups": "SELECT DISTINCT COUNT(*) AS n FROM people GROUP BY city",
    "one": "SELECT COUNT(*) AS n, MAX(city) AS c FROM people",
    "one_or_none": "SELECT COUNT(*) AS n FROM people HAVING COUNT(*) > 3",
    "sums": "SELECT DISTINCT src FROM follows UNION ALL SELECT COUNT(*) FROM people GROUP BY city",
    "one_side": "SELECT DISTINCT src FROM follows UNION ALL SELECT id FROM people",
    "over_group": "SELECT n, COUNT(*) AS m FROM counted GROUP BY n",
}


def filled(seed: int) -> tuple[ev.Database, Changes]:
    db, changes = database(), Changes(seed)
    for name, query in MORE.items():
        db.create_view(name, query)
    return db, changes


def check(db: ev.Database, r: random.Random) -> None:
    """Whatever is asked of a view is what its list says."""
    for name in db.views:
        view = db.view(name)
        view.page(limit=0)  # Where its rows can be kept in order, they are from now on.
        rows = list(view)
        assert (view.count(), len(view), bool(view)) == (len(rows), len(rows), bool(rows)), name
        known = Counter(rows)
        for row in r.sample(sorted(known, key=repr), min(6, len(known))):
            assert row in view, (name, row)
            assert view.rank(row) == rows.index(row), (name, row)
        columns = list(zip(*rows, strict=True))
        for _ in range(4 if rows else 0):
            mixed = tuple(r.choice(column) for column in columns)
            assert (mixed in view) == (mixed in known), (name, mixed)
        strange = tuple({int: 10**6, str: "nobody has it"}.get(type(v)) for v in (rows or [()])[0])
        if rows and strange not in known:
            assert strange not in view, (name, strange)
            with pytest.raises(KeyError, match=name):
                view.rank(strange)
        for at in r.sample(range(len(rows)), min(3, len(rows))):
            assert view[at] == rows[at] == view[at - len(rows)], (name, at)
        offset = r.randint(0, len(rows) + 2)
        assert view.page(offset=offset, limit=3) == rows[offset : offset + 3], (name, offset)
        for at in (len(rows), -len(rows) - 1):
            with pytest.raises(IndexError, match=f"{name} has no row at position {at}$"):
                view[at]


@pytest.mark.parametrize("seed", range(scaled(3)))
def test_answers_are_what_the_list_says(seed: int, tmp_path: Path) -> None:
    db, changes = filled(seed)
    r = random.Random(seed)
    check(db, r)
    for step in range(4):
        run(db, [changes.batch() for _ in range(2)])
        check(db, r)
        feeds = [db.view(name).changes() for name in db.views] if step % 2 else []  # They keep groups outside the core.
        run(db, [changes.batch()])
        check(db, r)
        bad: list[Change] = [
            ("insert", "people", [(99, "X", "Y", 1.0, None)]),
            ("insert", "follows", [(99, 99), (0, 99)]),
            ("delete", "follows", [(1000, 1000)]),
        ]
        with pytest.raises(OverDeleteError):
            run(db, [bad])
        check(db, r)
        for feed in feeds:
            feed.close()
    db.save(tmp_path / "saved")
    check(ev.Database.load(tmp_path / "saved"), r)
    gone = {"people": list(changes.people.values()), "follows": list(changes.follows.elements())}
    run(db, [[("delete", table, rows) for table, rows in gone.items()]])
    check(db, r)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The cursors that are opened from now on: all listing begins so."""
    found: list[str] = []
    open_ = Part.open

    def counted(self: Part, cursor: str, arguments: Any = ()) -> Any:
        found.append(cursor)
        return open_(self, cursor, arguments)

    monkeypatch.setattr(Part, "open", counted)
    return found


COUNTED = [
    *("ends", "labels", "distinct", "semi", "counted", "valued", "hidden", "distinct_groups", "one", "sums"),
    *("total", "twice", "hop", "back", "over_group"),
]
TESTED = [
    *("hops", "three", "ends", "labels", "either", "both", "less", "shared", "plain", "distinct", "semi", "valued"),
    *("having", "distinct_groups", "one", "total", "twice", "one_side", "hop", "back", "copies", "checked"),
    *("counted", "cities"),
]


@pytest.mark.parametrize("is_told", [False, True])
def test_what_is_answered_is_not_listed(is_told: bool, opened: list[str]) -> None:
    db, changes = filled(5)
    run(db, [changes.batch() for _ in range(12)])
    for name in db.views:
        db.view(name).page(limit=0)  # Where rows can be kept in order, they are from now on.
    rows = {name: list(db.view(name)) for name in db.views}
    if is_told:
        for name in db.views:
            db.view(name).changes()
    opened.clear()
    for name in COUNTED:
        view = db.view(name)
        assert len(view) == view.count() == len(rows[name])
        assert bool(view) == bool(rows[name])
        assert view.page(offset=len(rows[name]), limit=2) == []
        assert opened == [], name
    for name in TESTED:
        assert all(row in db.view(name) for row in rows[name][:5])
        assert rows[name][:5], name  # Else this would show nothing.
        assert opened == [], name
    assert ("Atlantis", 3) not in db.view("counted")  # A group that is not there is known not to be by the core, too.
    assert opened == []
    assert len(db.view("three")) == len(rows["three"])  # Counted, where it cannot be known.
    assert opened == []
    assert bool(db.view("three"))  # And what cannot be answered is listed.
    assert opened == ["result"]


def test_a_table_answers_without_being_listed(opened: list[str]) -> None:
    db, changes = filled(1)
    run(db, [changes.batch() for _ in range(6)])
    opened.clear()
    table = db.table("follows")
    assert len(table) == table.count() == sum(changes.follows.values()) > 0
    assert bool(table)
    assert all(row in table for row in changes.follows)
    assert (77, 77) not in table
    assert opened == []


class Numbers(Answers):
    """Rows of one column, all of which it knows; as a side of a set operation."""

    width = 1

    def __init__(self, *numbers: int, says_list: tuple[str, ...] = ()) -> None:
        self.numbers = numbers
        self.says_list = says_list

    def count(self) -> int | None:
        return None if "count" in self.says_list else len(self.numbers)

    def test(self, row: Sought) -> bool | None:
        return None if "test" in self.says_list else row.words[0] in self.numbers

    def access(self, positions: Sequence[int]) -> WordRows | None:
        return None if "access" in self.says_list else rows_of(*(self.numbers[position] for position in positions))

    def rank(self, row: Sought) -> int | None:
        return None if "rank" in self.says_list else self.numbers.index(row.words[0])


def rows_of(*numbers: int, width: int = 1) -> WordRows:
    return WordRows((words_array(list(numbers)),) * width, ones(len(numbers)), zeros(len(numbers)))


def sought(number: int) -> Sought:
    return Sought(lambda: [number])


def concatenation(*sides: Any) -> Concatenation:
    return Concatenation(sides)


def concatenated(*sides: Any) -> Concatenation:
    return Concatenation(sides, disjoint=True)


def test_union_all_puts_answers_together() -> None:
    both = concatenated(Numbers(5, 6, 6), Numbers(), Numbers(7, 8))
    assert both.count() == 5
    for wanted in ([0, 1, 2, 3, 4], [4, 0, 3, 3], [2]):
        found = both.access(wanted)
        assert found is not None
        assert found.columns[0].to_pylist() == [[5, 6, 6, 7, 8][i] for i in wanted]
    assert [both.rank(sought(n)) for n in (5, 6, 7, 8)] == [0, 1, 3, 4]
    assert [both.test(sought(n)) for n in (7, 9)] == [True, False]


def test_union_all_says_list_where_a_side_does() -> None:
    first = Numbers(5, 6)
    assert concatenated(first, Numbers(7, says_list=("count",))).count() is None
    assert concatenated(Numbers(7, says_list=("count",)), first).access([2]) is None
    assert concatenated(first, Numbers(7, says_list=("access",))).access([2]) is None
    assert concatenated(first, Numbers(7, says_list=("rank",))).rank(sought(7)) is None
    assert concatenated(Numbers(7, says_list=("count",)), first).rank(sought(5)) is None
    unsure = concatenated(Numbers(7, says_list=("test",)), first)
    assert unsure.test(sought(5)) is True
    assert unsure.test(sought(8)) is None
    assert unsure.rank(sought(5)) is None


def test_union_all_has_no_positions_of_sides_that_may_share_rows() -> None:
    """The copies of a row stand side by side, and sides by themselves do not know those of others."""
    both = concatenation(Numbers(5, 6), Numbers(6, 7))
    assert (both.count(), both.test(sought(6))) == (4, True)
    assert (both.access([0]), both.rank(sought(6)), both.placed(partly=True)) == (None, None, None)


def test_a_view_asks_before_it_lists(monkeypatch: pytest.MonkeyPatch, opened: list[str]) -> None:
    """Once an operator counts, accesses or ranks, its view does, up to any number, and through UNION ALL."""
    db = ev.Database()
    db.sql("CREATE TABLE t (a BIGINT)")
    db.insert("t", [(1,), (2,)])
    db.create_view("v", "SELECT a FROM t", access=True)
    db.create_view("w", "SELECT a, 1 AS side FROM t UNION ALL SELECT a, 2 FROM t", access=True)
    many = 2**64
    monkeypatch.setattr(Select, "count", lambda self: many)
    monkeypatch.setattr(Select, "access", lambda self, at: rows_of(*(p % 1000 for p in at), width=self.width))
    monkeypatch.setattr(Select, "rank", lambda self, row: 10 * row.words[0])
    opened.clear()
    for name, sides in (("v", 1), ("w", 2)):
        view = db.view(name)
        assert view.count() == sides * many
        assert bool(view)
        with pytest.raises(OverflowError):
            len(view)
        assert view[10**12 + 7] == (7,) * sides
        assert view[-1] == ((many - 1) % 1000,) * sides
        assert view.page(offset=sides * many - 1, limit=5) == [((many - 1) % 1000,) * sides]
        assert view.rank((2, 1)[:sides]) == 20
    assert opened == []


def test_a_string_that_is_computed_is_found_though_nobody_has_stored_it(opened: list[str]) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (k BIGINT, s STRING)")
    db.create_view("v", "SELECT k, upper(MAX(s)) AS loud FROM t GROUP BY k")
    db.create_view("w", "SELECT upper(s) AS loud FROM t")
    db.insert("t", [(1, "ab"), (1, "cd"), (2, "x")])
    opened.clear()
    assert (1, "CD") in db.view("v")
    assert (1, "AB") not in db.view("v")
    assert (3, "CD") not in db.view("v")
    assert opened == []
    assert ("AB",) in db.view("w")
    assert ("ab",) not in db.view("w")
