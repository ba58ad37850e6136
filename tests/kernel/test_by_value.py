"""Ordered indexes that compare strings by their bytes: order, ranks, groups and snapshots, beside DuckDB."""

from __future__ import annotations

from array import array

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Machine, Unit, ValueTable
from everview.kernel.printer import show_program
from everview.kernel.program import (
    Add,
    Cursor,
    Emit,
    Find,
    InOrder,
    KeyOf,
    Lit,
    Order,
    Procedure,
    Program,
    Rank,
    Reg,
    Select,
    Size,
    Table,
    ValueOf,
)
from everview.kernel.reference import Reference
from everview.kernel.verifier import ProgramError, verify
from tests.scale import thoroughness

G, V, N, R, S = (Reg(name) for name in "gvnrs")
BAG = "bag"
NULL = -(2**63)
STRING, BINARY, NUMBER = 0, 1, 2
OUT = (KeyOf(R, BAG, 0), KeyOf(R, BAG, 1), ValueOf(R, BAG, 0))
ORDERS = (Order((0, 1), None, (1,)), Order((1,), 0, (1,)), Order((0, 1), 0, (1,), (1,)))
PROGRAM = Program(
    (Table(BAG, ("g", "v"), ("n",), (), ORDERS),),
    (("out", 2),),
    (
        Procedure("change", (G, V, N), (Add(R, BAG, (G, V), (N,)),)),
        Procedure("lowest", (G,), (Select(R, BAG, 0, (G,), Lit(0), (Emit("out", (KeyOf(R, BAG, 1), G)),)),)),
        Procedure("highest", (G,), (Select(R, BAG, 0, (G,), Lit(-1), (Emit("out", (KeyOf(R, BAG, 1), G)),)),)),
        Procedure("rank", (G, V), (Find(R, BAG, (G, V), (Rank(S, R, BAG, 0, 1), Emit("out", (S, V)))),)),
        Procedure("copies", (V,), (Size(S, BAG, 1, (V,)), Emit("out", (S, V)))),
    ),
    (
        Cursor("group", (G,), (InOrder(R, BAG, 0, (G,)),), OUT),
        Cursor("all", (N,), (InOrder(R, BAG, 1, (), N),), OUT),
        Cursor("turned", (G, N), (InOrder(R, BAG, 2, (G,), N),), OUT),
        Cursor("down", (), (InOrder(R, BAG, 1, (), Lit(0), True),), OUT),
    ),
)
TEXTS = st.one_of(
    st.none(),
    st.text("ab\0ä", max_size=4),
    st.sampled_from(["", "a", "ab", "abc", "b", "\x7f", "é", "\uffff", "\U0001f600", "Z", "z"]),
    st.text(max_size=6).filter(lambda t: "\ud800" not in t),
)
ROWS = st.lists(st.tuples(st.integers(0, 2), TEXTS, st.integers(1, 3)), max_size=25)


class Both:
    """The machine and the reference over one value table."""

    def __init__(self) -> None:
        self.values = ValueTable()
        self.texts: dict[int, bytes] = {}
        self.machine = Unit(PROGRAM, Machine(self.values))
        self.reference = Reference(PROGRAM, self.texts)

    def ids(self, texts: list[str | None]) -> list[int]:
        found = list(memoryview(self.values.encode(STRING, pa.array(texts, pa.string()))))
        self.texts.update({i: t.encode() for i, t in zip(found, texts, strict=True) if t is not None})
        return found

    def apply(self, procedure: str, *columns: list[int]) -> list[list[int]]:
        self.machine.apply(procedure, [array("q", c) for c in columns])
        self.reference.apply(procedure, columns)
        told = [list(memoryview(c)) for c in self.machine.take("out")]
        assert told == self.reference.take("out")
        return told

    def rows(self, cursor: str, *arguments: int) -> list[tuple[int, ...]]:
        found = list(zip(*map(memoryview, self.machine.open(cursor, arguments).fetch(10**6)), strict=True))
        assert found == self.reference.rows(cursor, arguments)
        return found


@thoroughness(60)
@given(ROWS)
def test_the_order_is_that_of_duckdb(rows: list[tuple[int, str | None, int]]) -> None:
    both = Both()
    ids = both.ids([t for _, t, _ in rows])
    both.apply("change", [g for g, _, _ in rows], ids, [n for _, _, n in rows])
    gone = [(g, i, -n) for (g, _, n), i in zip(rows[::3], ids[::3], strict=True)]
    both.apply("change", *map(list, zip(*gone, strict=True)) if gone else ([], [], []))
    left = {(g, i): n for g, i, n in both.rows("down")}
    given_back = {i: t.decode() for i, t in both.texts.items()}
    table = pa.table(
        {
            "g": pa.array([g for g, _ in left], pa.int64()),
            "id": pa.array([i for _, i in left], pa.int64()),
            "s": pa.array([given_back.get(i) for _, i in left], pa.string()),
        }
    )
    with duckdb.connect() as db:
        db.register("t", table)
        wanted = db.sql("SELECT s, g, id FROM t ORDER BY s NULLS FIRST, g").fetchall()
        ends = db.sql("SELECT g, min(s), max(s), count(*) - count(s) FROM t GROUP BY g").fetchall()
    assert [(given_back.get(i), g) for g, i, _ in both.rows("all", 0)] == [(s, g) for s, g, _ in wanted]
    assert both.rows("down") == both.rows("all", 0)[::-1]
    for g, *_ in ends:  # What is greater first, NULL last.
        of_group = [i for h, i, _ in both.rows("group", g)]
        texts = [given_back.get(i) for i in of_group]
        assert [given_back.get(i) for _, i, _ in both.rows("turned", g, 0)] == texts[::-1]
    for g, lowest, highest, nulls in ends:
        low, high = (given_back.get(both.apply(name, [g])[0][0]) for name in ("lowest", "highest"))
        assert (low, high) == (None if nulls else lowest, highest)
        for place, (_, i, _) in enumerate(both.rows("group", g)):
            assert both.apply("rank", [g], [i])[0] == [place]
    for i in {i for _, i in left}:
        assert both.apply("copies", [i])[0] == [sum(n for (_, j), n in left.items() if j == i)]
    other = Unit(PROGRAM, Machine(both.values))
    other.restore(both.machine.snapshot())
    before = both.rows("all", 0)
    both.machine = other
    assert both.rows("all", 0) == before


def test_words_without_a_value_come_first_as_words() -> None:
    both = Both()
    ids = both.ids(["b", "a"])
    unknown = [10**6, -1, 77]
    both.apply("change", [0] * 6, [*ids, *unknown, NULL], [1] * 6)
    assert [i for _, i, _ in both.rows("all", 0)] == [NULL, -1, 77, 10**6, ids[1], ids[0]]
    assert both.apply("copies", [10**7, -5, 77])[0] == [0, 0, 1]


def test_equal_bytes_of_two_kinds_are_two_values() -> None:
    both = Both()
    (text,) = both.ids(["same"])
    (binary,) = memoryview(both.values.encode(BINARY, pa.array([b"same"])))
    both.texts[binary] = b"same"
    both.apply("change", [0, 0], [binary, text], [1, 1])
    assert [i for _, i, _ in both.rows("group", 0)] == [text, binary]
    assert both.apply("rank", [0, 0], [text, binary])[0] == [0, 1]


@thoroughness(30)
@given(st.lists(st.one_of(st.integers(-(2**255), 2**255 - 1), st.integers(-300, 300)), max_size=20, unique=True))
def test_numbers_compare_as_numbers(numbers: list[int]) -> None:
    """After strings and binary, whatever these are."""
    values = ValueTable()
    machine = Unit(PROGRAM, Machine(values))
    raw = pa.array([n.to_bytes(32, "little", signed=True) for n in numbers], pa.large_binary())
    ids = list(memoryview(values.encode(NUMBER, raw)))
    (text,) = memoryview(values.encode(STRING, pa.array(["\U0001f600" * 8])))
    every = [*ids, text]
    machine.apply("change", [array("q", [0] * len(every)), array("q", every), array("q", [1] * len(every))])
    found = list(memoryview(machine.open("group", [0]).fetch(10**6)[1]))
    assert found == [text, *(i for _, i in sorted(zip(numbers, ids, strict=True)))]


def test_values_come_and_go_while_rows_are_kept() -> None:
    """Ids are given out again to other values once their rows have gone, never before: rows hold uses."""
    both = Both()
    kept: dict[int, str] = {}
    for turn in range(30):
        texts = [f"{(turn * 7 + i) % 13:02}-{turn}" for i in range(5)]
        ids = both.ids(texts)
        both.values.retain(array("q", ids))
        both.apply("change", [0] * 5, ids, [1] * 5)
        kept.update(zip(ids, texts, strict=True))
        gone = sorted(kept)[turn % 3 :: 3]
        both.apply("change", [0] * len(gone), gone, [-1] * len(gone))
        both.values.release(array("q", gone))
        both.values.collect()
        for i in gone:
            del kept[i], both.texts[i]
        assert [i for _, i, _ in both.rows("group", 0)] == sorted(kept, key=lambda i: kept[i])


def test_what_takes_over_a_table_is_seen() -> None:
    """The machine keeps its value table when that takes over what another one holds, as when a database is loaded."""
    values, other = ValueTable(), ValueTable()
    machine = Unit(PROGRAM, Machine(values))
    other.encode(STRING, pa.array(["b", "a"]))
    values.become(other)
    values.become(values)
    machine.apply("change", [array("q", [0, 0]), array("q", [0, 1]), array("q", [1, 1])])
    assert list(memoryview(machine.open("group", [0]).fetch(9)[1])) == [1, 0]
    assert (len(values), len(other)) == (2, 0)


def test_a_machine_needs_the_values() -> None:
    with pytest.raises(ValueError, match="orders rows by values"):
        Unit(PROGRAM)


@pytest.mark.parametrize("columns", [(0,), (1, 1), (7,)])
def test_refused(columns: tuple[int, ...]) -> None:
    for order in (Order((1,), None, columns), Order((1,), None, (), columns)):
        with pytest.raises(ProgramError, match="not ordered by"):
            verify(Program((Table(BAG, ("g", "v"), (), (), (order,)),)))


def test_text() -> None:
    assert "order 0 by (g, v by value); order 1 by (v by value), ranks by n" in show_program(PROGRAM)
