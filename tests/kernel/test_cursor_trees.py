"""Cursor trees: unions give each row once, by whatever pages they are read; the rest is what the generators say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.kernel import Cursor as Opened
from everview.kernel import StaleCursor, Unit, _kernel, cursors
from everview.kernel.cursors import Ask, Buckets, Concat, Guard, Member, Node, Part, Question, Union
from everview.kernel.encode import encode
from everview.kernel.printer import show_program
from everview.kernel.program import (
    Add,
    Compute,
    Count,
    Cursor,
    Find,
    Function,
    InOrder,
    KeyOf,
    Lit,
    Math,
    Order,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    Step,
    Table,
    ValueOf,
)
from everview.kernel.program import Test as Comparison
from everview.kernel.reference import Fault, Reference
from everview.kernel.verifier import ProgramError, verify
from tests.kernel.programs import Pair, ProgramMaker, words
from tests.scale import thoroughness

PAGE = Path(__file__).parents[2] / "docs" / "programs.md"
DEFINED = PAGE.read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
"""What the page defines in Python."""
S, X, Y, Z, R, Q, N, W, K = (Reg(name) for name in "sxyzrqnwk")
SETS = Table("sets", ("s", "x"), ("n",), ((0,), (1,)), (Order((0, 1)),), levels=2)
NAMES = Table("names", ("s",), ("n",), ((),), (Order((0,)),))
"""The numbers of the sets."""

HAS = Function(
    "has",
    (S, X),
    (Compute(N, Math.ADD, Lit(0), Lit(0)), Find(R, "sets", (S, X), (Compute(N, Math.ADD, Lit(1), Lit(0)),))),
    (N,),
)
"""Whether set s has x."""
IN_ANY = Function("in_any", (X,), (Count(N, "sets", 1, (X,), 0),), (N, X))
"""In how many sets x is; and x itself."""
ADDED = (Add(R, "sets", (S, X), (Lit(1),), (), None), Add(R, "names", (S,), (Lit(1),), (), None))
ADD = Procedure("add", (S, X), ADDED)
CLEAR = Procedure("clear", (S, X), (Find(R, "sets", (S, X), (Remove(R, "sets"),)),))


def member(number: int, row: Reg, word: Reg, descending: bool = False) -> Member:
    """A set by its number: as it stands, or downwards."""
    step: Node = Step(row, "sets", 0, (Lit(number),), 0)
    if descending:
        step = InOrder(row, "sets", 0, (Lit(number),), descending=True)
    return Member((step,), (KeyOf(row, "sets", 1),), Question("has", (Lit(number), word)))


def buckets(word: Reg, ordered: bool = False) -> Buckets:
    """All sets that have a name."""
    each: Step | InOrder = Step(Q, "names", 0, (), 0)
    if ordered:
        each = InOrder(Q, "names", 0, ())
    own = KeyOf(Q, "names", 0)
    bucket = Member((Step(R, "sets", 0, (own,), 0),), (KeyOf(R, "sets", 1),), Question("has", (own, word)))
    return Buckets((word,), each, bucket)


class Trees:
    """A machine and the reference with some sets, and one cursor ``all``."""

    def __init__(self, *steps: Node, outputs: tuple[Reg, ...] = (X,), parameters: tuple[Reg, ...] = ()) -> None:
        cursor = Cursor("all", parameters, steps, outputs)
        self.program = Program((SETS, NAMES), (), (ADD, CLEAR), (cursor,), (HAS, IN_ANY))
        self.machine, self.reference = Unit(self.program), Reference(self.program)

    def fill(self, *sets: list[int], on_both: bool = True) -> Trees:
        pairs = [(s, x) for s, xs in enumerate(sets) for x in xs]
        columns = [list(column) for column in zip(*pairs, strict=True)] if pairs else [[], []]
        self.machine.apply("add", [words(c) for c in columns])
        if on_both:
            self.reference.apply("add", columns)
        return self

    def open(self, *arguments: int) -> Opened:
        return self.machine.open("all", list(arguments))

    def rows(self, *arguments: int) -> list[tuple[int, ...]]:
        """All rows, which come alike in whatever pages."""
        whole = rows(self.open(*arguments), 10**6)
        assert whole == self.reference.rows("all", arguments)
        for first in range(len(whole) + 1):
            opened = self.open(*arguments)
            assert rows(opened, first) == whole[:first]
            one = self.open(*arguments)
            assert one.skip(first) == first
            assert rows(one, 2) == whole[first : first + 2]
            assert rows(opened, 10**6) == whole[first:]
            assert rows(opened, 1) == []
        single = self.open(*arguments)
        assert [row for _ in whole for row in rows(single, 1)] == whole
        return whole

    def words(self, *arguments: int) -> list[int]:
        return [x for (x,) in self.rows(*arguments)]


def rows(cursor: Opened, limit: int) -> list[tuple[int, ...]]:
    return list(zip(*(memoryview(c) for c in cursor.fetch(limit)), strict=True))


some_sets = st.lists(st.lists(st.integers(0, 6), unique=True, max_size=5), min_size=1, max_size=5)


class TestUnions:
    @pytest.mark.parametrize(
        ("sets", "wanted"),
        [
            ([[1, 2, 3], [2, 4]], [1, 2, 3, 4]),
            ([[1, 2, 3], [2, 4], [1, 4, 5]], [1, 2, 3, 4, 5]),
            ([[], [1], [1]], [1]),
            ([[0], [0], [1]], [0, 1]),
            ([[1, 2, 3], [4, 1, 5], [2, 5, 3], [4, 6]], [1, 2, 3, 4, 5, 6]),
        ],
    )
    def test_examples(self, sets: list[list[int]], wanted: list[int]) -> None:
        """Those of triangle.md 6 and ucq-constraints.md 7."""
        rows_ = [Reg(f"r{i}") for i in range(len(sets))]
        fixed = Trees(Union((X,), tuple(member(i, r, X) for i, r in enumerate(rows_)))).fill(*sets)
        named = Trees(buckets(X)).fill(*sets)
        for trees in (fixed, named):
            assert sorted(trees.words()) == wanted
        assert fixed.words() == named.words()

    @pytest.mark.parametrize(
        ("sets", "wanted"),
        [
            ([[1, 2, 3], [2, 3, 4]], [1, 2, 3, 4]),
            ([[1, 2, 3], [4, 3, 2]], [1, 4, 3, 2]),
            ([[], [5]], [5]),
            ([[1, 2, 3, 4, 5]] * 4, [1, 2, 3, 4, 5]),
        ],
    )
    def test_what_is_in_a_later_set_comes_from_there(self, sets: list[list[int]], wanted: list[int]) -> None:
        """T11 of hierarchical-tradeoff.md 12, with its order."""
        rows_ = [Reg(f"r{i}") for i in range(len(sets))]
        trees = Trees(Union((X,), tuple(member(i, r, X) for i, r in enumerate(rows_)))).fill(*sets)
        assert trees.words() == wanted

    @thoroughness(100)
    @given(some_sets, st.booleans(), st.data())
    def test_each_row_once_with_its_weight(self, sets: list[list[int]], ordered: bool, data: st.DataObject) -> None:
        """A union of sets, buckets and unions of these, in any order; ``in_any`` weighs their rows."""
        whole = Member((buckets(Y, ordered),), (Y,), Question("in_any", (X,)))
        count = data.draw(st.integers(0, len(sets)))
        several = [member(i, Reg(f"r{i}"), X, data.draw(st.booleans())) for i in range(count)]
        inner = Union((Z,), tuple(member(i, Reg(f"i{i}"), Z) for i in range(len(sets))))
        nested = Member((inner,), (Z,), Question("in_any", (X,)))
        members = data.draw(st.permutations([*several, whole, nested]).map(lambda m: tuple(m[: len(m) - 1])))
        union = Union((X,), members)
        trees = Trees(union, Ask((W, K), Question("in_any", (X,))), outputs=(X, W, K)).fill(*sets)
        everything = whole in members or nested in members
        used = {i for i in range(len(sets)) if everything or (i < count and several[i] in members)}
        wanted = {x for i, xs in enumerate(sets) if i in used for x in xs}
        weights = Counter(x for xs in sets for x in xs)
        listed = trees.rows()
        assert sorted(listed) == sorted((x, weights[x], x) for x in wanted)

    @pytest.mark.parametrize("count", [2, 5, 40, 160])
    def test_the_delay_follows_the_number_of_sets(self, count: int) -> None:
        """Nearly all sets are alike, which is the worst case: most rows make way for one another."""
        trees = Trees(buckets(X)).fill(*([*range(20), 100 + i] for i in range(count)), on_both=False)
        opened, before = trees.open(), 0
        assert opened.steps == 0
        for _ in range(20 + count + 1):
            opened.fetch(1)
            assert opened.steps - before <= 12 * count + 20
            before = opened.steps
        assert rows(opened, 1) == []
        machine = trees.machine.steps
        assert len(rows(trees.open(), 10**6)) == 20 + count
        assert trees.machine.steps - machine > 20 * count  # what functions do counts there, too

    def test_a_test_that_is_wrong_is_found(self) -> None:
        lies = Question("in_any", (X,))
        first = Member((Step(R, "sets", 0, (Lit(0),), 0),), (KeyOf(R, "sets", 1),), lies)
        second = Member((Step(Q, "sets", 0, (Lit(1),), 0),), (KeyOf(Q, "sets", 1),), lies)
        trees = Trees(Union((X,), (first, second))).fill([1, 2], [])
        opened = trees.open()
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a set has a row which it has not given"):
                opened.fetch(5)


class TestProducts:
    def test_the_last_step_changes_fastest_and_reads_those_before(self) -> None:
        third = Step(R, "sets", 0, (Y,), 0)
        union = Union((X,), (member(0, K, X), member(1, Q, X)))
        again = Union((Y,), (member(2, N, Y), member(3, Z, Y)))
        cursor = Cursor("all", (), (union, again, third), (X, Y, KeyOf(R, "sets", 1)))
        program = Program((SETS, NAMES), (), (ADD, CLEAR), (cursor,), (HAS,))
        machine, reference = Unit(program), Reference(program)
        pairs = [(0, 5), (0, 6), (1, 6), (1, 7), (2, 1), (3, 0), (3, 1)]
        columns = [list(c) for c in zip(*pairs, strict=True)]
        machine.apply("add", [words(c) for c in columns])
        reference.apply("add", columns)
        found = rows(machine.open("all"), 100)
        assert found == reference.rows("all")
        assert sorted(found) == [(x, y, z) for x in (5, 6, 7) for y, zs in ((0, (5, 6)), (1, (6, 7))) for z in zs]
        slow = [x for x, _, _ in found]
        assert slow == sorted(slow, key=slow.index)  # all rows of an x come together

    def test_a_bucket_within_a_bucket_goes_on_where_it_was(self) -> None:
        """For every x of any set: every y of any set that has x. Buckets are opened again for each x."""
        own = KeyOf(W, "sets", 0)
        bucket = Member((Step(K, "sets", 0, (own,), 0),), (KeyOf(K, "sets", 1),), Question("has", (own, Y)))
        inner = Buckets((Y,), Step(W, "sets", 1, (X,), 0), bucket)
        trees = Trees(buckets(X), inner, outputs=(X, Y))
        sets = [[1, 2, 3], [2, 3], [4], [], [4, 5, 1]]
        trees.fill(*sets)
        wanted = {(x, y) for xs in sets for x in xs for y in xs}
        listed = trees.rows()
        assert len(listed) == len(wanted)
        assert set(listed) == wanted

    @pytest.mark.parametrize("as_nests", [True, False])
    def test_guarded_parts_one_after_the_other(self, as_nests: bool) -> None:
        """As nests of loops they run at one go, and give the same."""
        seven, eight = Reg("seven"), Reg("eight")
        ask = () if as_nests else (Ask((seven, eight), Question("in_any", (Lit(0),))),)
        plain = Part((Step(R, "sets", 0, (Lit(0),), 0),), (KeyOf(R, "sets", 1), Lit(0)))
        pairs = (Step(Q, "sets", 0, (Lit(1),), 0), InOrder(N, "sets", 0, (KeyOf(Q, "sets", 1),)))
        guarded = Part((Guard(Comparison.LESS, S, Lit(5)), *pairs), (KeyOf(N, "sets", 1), ValueOf(Q, "sets", 0)))
        alone = Part((Guard(Comparison.NOT_EQUAL, S, Lit(2)), *ask), (Lit(77), S))
        trees = Trees(Concat((X, Y), (plain, guarded, alone)), outputs=(Y, X), parameters=(S,))
        trees.fill([3, 4, 4], [0, 0, 2], [8, 9])
        assert trees.rows(1) == [(0, 3), (0, 4), (2, 3), (2, 4), (1, 8), (1, 9), (1, 77)]
        assert trees.rows(2) == [(0, 3), (0, 4), (2, 3), (2, 4), (1, 8), (1, 9)]
        assert trees.rows(9) == [(0, 3), (0, 4), (9, 77)]
        opened = trees.open(9)
        assert len(rows(opened, 100)) == 3
        assert opened.steps > 0

    def test_nothing_and_one(self) -> None:
        assert Trees(Concat((X,), ())).rows() == []
        assert Trees(Union((X,), ())).rows() == []
        assert Trees(Concat((X,), (Part((), (Lit(5),)), Part((), (Lit(5),))))).words() == [5, 5]
        assert Trees(buckets(X)).rows() == []
        assert Trees(Ask((X, Y), Question("in_any", (Lit(3),))), outputs=(X, Y)).rows() == [(0, 3)]


class TestJoinAndProject:
    """Q(a, c) = R(a, b), S(b, c): a bucket for every b, as a hierarchical strategy lists what is heavy."""

    A, B, C, L, M, E, J = (Reg(name) for name in "abclmej")

    def program(self) -> Program:
        a, b, c = self.A, self.B, self.C
        left = Table("left", ("a", "b"), ("n",), ((0,), (1,)), levels=2)
        right = Table("right", ("b", "c"), ("n",), ((0,), (1,)))
        heavy = Table("heavy", ("b",), ("n",), ((),))
        add = Find(self.L, "heavy", (b,), (), (Add(self.L, "heavy", (b,), (Lit(1),)),))
        puts = (
            Procedure("put left", (a, b, N), (Add(self.L, "left", (a, b), (N,)), add)),
            Procedure("put right", (b, c, N), (Add(self.L, "right", (b, c), (N,)), add)),
        )
        one = (Compute(N, Math.ADD, Lit(1), Lit(0)),)
        both = Find(self.L, "left", (a, b), (Find(self.M, "right", (b, c), one),))
        test = Function("test", (a, b, c), (Compute(N, Math.ADD, Lit(0), Lit(0)), both), (N,))
        product = Compute(K, Math.MULTIPLY, ValueOf(self.E, "left", 0), ValueOf(self.J, "right", 0))
        found = Find(self.J, "right", (KeyOf(self.E, "left", 1), c), (product, Compute(N, Math.ADD, N, K)))
        summed = (Compute(N, Math.ADD, Lit(0), Lit(0)), Scan(self.E, "left", 0, (a,), 0, (found,)))
        own = KeyOf(self.E, "heavy", 0)
        loops = (Step(self.J, "left", 1, (own,), 0), Step(self.L, "right", 0, (own,), 0))
        bucket = Member(loops, (KeyOf(self.J, "left", 0), KeyOf(self.L, "right", 1)), Question("test", (X, own, Y)))
        listed = Buckets((X, Y), Step(self.E, "heavy", 0, (), 0), bucket)
        cursor = Cursor("all", (), (listed, Ask((W,), Question("weight", (X, Y)))), (X, Y, W))
        return Program((left, right, heavy), (), puts, (cursor,), (test, Function("weight", (a, c), summed, (N,))))

    @thoroughness(60)
    @given(st.dictionaries(st.tuples(*[st.integers(0, 4)] * 2), st.integers(1, 3), max_size=12), st.data())
    def test_each_pair_once_with_its_weight(self, left: dict[tuple[int, int], int], data: st.DataObject) -> None:
        right = data.draw(st.dictionaries(st.tuples(*[st.integers(0, 4)] * 2), st.integers(1, 3), max_size=12))
        unit = Unit(self.program())
        for name, tuples in (("put left", left), ("put right", right)):
            columns = [[*key, n] for key, n in tuples.items()]
            unit.apply(name, [words([row[c] for row in columns]) for c in range(3)])
        wanted: Counter[tuple[int, int]] = Counter()
        for (a, b), n in left.items():
            for (other, c), m in right.items():
                wanted[a, c] += n * m if b == other else 0
        listed = rows(unit.open("all"), 10**6)
        assert sorted(listed) == sorted((*key, n) for key, n in wanted.items() if n)
        opened, pages = unit.open("all"), []
        while page := rows(opened, data.draw(st.integers(1, 5))):
            pages += page
        assert pages == listed


class TestAFault:
    def test_of_a_function(self) -> None:
        root = Function("root", (X,), (Compute(N, Math.ROOT, X, Lit(2)), Compute(N, Math.DIVIDE, Lit(12), N)), (N,))
        steps = (Step(R, "sets", 0, (Lit(0),), 0), Ask((Y,), Question("root", (KeyOf(R, "sets", 1),))))
        program = Program((SETS, NAMES), (), (ADD,), (Cursor("all", (), steps, (Y,)),), (root,))
        machine = Unit(program)
        machine.apply("add", [words([0, 0, 0]), words([9, 4, 0])])
        opened = machine.open("all")
        assert rows(opened, 2) == [(4,), (6,)]
        for _ in range(2):
            with pytest.raises(RuntimeError, match="divided by 0"):
                opened.fetch(1)
        assert [list(memoryview(c)) for c in machine.ask("root", [words([16])])] == [[3]]

    def test_of_an_output(self) -> None:
        large = Part((Step(R, "sets", 0, (Lit(0),), 0),), (Product((KeyOf(R, "sets", 1), KeyOf(R, "sets", 1))),))
        trees = Trees(Concat((X,), (large,)), Guard(Comparison.EQUAL, Lit(1), Lit(1))).fill([3, 2**40, 4])
        opened = trees.open()
        assert rows(opened, 1) == [(9,)]
        with pytest.raises(OverflowError):
            opened.fetch(1)


def test_a_change_makes_it_stale_and_a_question_does_not() -> None:
    trees = Trees(buckets(X)).fill([1, 2], [2, 3])
    opened = trees.open()
    assert len(rows(opened, 1)) == 1
    trees.machine.ask("has", [words([0]), words([1])])
    assert len(rows(opened, 1)) == 1
    trees.machine.apply("clear", [words([0]), words([1])])
    with pytest.raises(StaleCursor):
        opened.fetch(1)
    trees.reference.apply("clear", [[0], [1]])
    assert sorted(trees.words()) == [2, 3]


def test_asking_leaves_no_memory_behind() -> None:
    trees = Trees(buckets(X)).fill(*([i, i + 1] for i in range(50)))
    before = trees.machine.nbytes()
    assert len(rows(trees.open(), 10**6)) == 51
    assert trees.machine.nbytes() == before


def test_they_are_shown() -> None:
    nested = Member((buckets(Y),), (Y,), Question("in_any", (X,)))
    union = Union((X,), (member(0, K, X), nested))
    guarded = Part((Guard(Comparison.LESS, X, Lit(3)),), (X, Lit(1)))
    steps = (union, Concat((Z, W), (guarded,)), Ask((N, S), Question("in_any", (Z,))))
    text = show_program(Trees(*steps, outputs=(Z, N)).program)
    assert text.endswith(
        """cursor all()
  for x once in any of
    member if has(0, x)
      for k in sets.0[0]
        give k.k1
    member if in_any(x)
      for y once in any of
        bucket of each q in names.0[] if has(q.k0, y)
          for r in sets.0[q.k0]
            give r.k1
        give y
    for z, w in all of
      part
        if x < 3
          give x, 1
      n, s ← in_any(z)
        row z, n

function has(s, x)
  n ← 0 + 0
  find r in sets[s, x]
  found
    n ← 1 + 0
  give n

function in_any(x)
  n ← count sets.1[x]
  give n, x"""
    )


@thoroughness(60)
@given(st.integers(0, 2**40))
def test_docs_programs_says_what_they_mean(seed: int) -> None:
    """The generators of docs/programs.md, run as they stand there on random trees, give what the kernel gives."""
    random = Random(seed)
    program = ProgramMaker(random, wide=False).program()
    pair = Pair(program)
    for procedure in program.procedures:
        pair.apply(procedure.name, [[random.randint(0, 3) for _ in range(6)] for _ in procedure.parameters])
    state = pair.reference
    read = {"loop_rows": state.loop_rows, "holds": state.holds, "output": state.output}
    names: dict[str, Any] = {**vars(cursors), **read}
    names["ask"] = lambda asked, frame: state.answer(asked.function, [state.output(a, frame) for a in asked.arguments])
    exec(DEFINED, names)
    for cursor in program.cursors:
        arguments = [random.randint(0, 3) for _ in cursor.parameters]
        try:
            wanted = state.rows(cursor.name, arguments)
        except Fault:
            continue
        frame = dict(zip(cursor.parameters, arguments, strict=True))
        listed = [tuple(state.output(o, frame) for o in cursor.outputs) for _ in names["product"](cursor.steps, frame)]
        assert listed == wanted == rows(pair.machine.open(cursor.name, arguments), 10**6)


def nested(depth: int) -> tuple[Node, ...]:
    """Concatenations of one part within each other."""
    steps: tuple[Node, ...] = ()
    for i in range(depth):
        steps = (Concat((Reg(f"w{i}"),), (Part(steps, (Lit(i),)),)),)
    return steps


def test_as_deep_as_they_may_be() -> None:
    assert Trees(*nested(63), outputs=(Reg("w62"),)).rows() == [(62,)]


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Step(R, "sets", 0, (Lit(0),), 0), Step(R, "sets", 0, (Lit(0),), 0)), "r is set twice"),
        ((Union((X,), (member(0, R, X), member(1, R, X))),), "r is set twice"),
        ((Concat((X,), (Part((), (Lit(1), Lit(2))),)),), "a part gives 2 words, not 1"),
        ((Concat((X,), (Part((Step(R, "sets", 0, (Lit(0),), 0),), (X,)),)),), "x holds no word here"),
        ((Concat((X,), (Part((), (Lit(1),)),)), Guard(Comparison.LESS, Y, X)), "y holds no word here"),
        ((Union((X,), (member(0, R, X),)), Guard(Comparison.LESS, KeyOf(R, "sets", 0), X)), "r holds no row of sets"),
        ((buckets(X), Guard(Comparison.LESS, KeyOf(Q, "names", 0), X)), "q holds no row of names"),
        ((Ask((X,), Question("nobody")),), "asks nobody, which is not there"),
        ((Ask((X,), Question("has", (Lit(1),))),), "has takes 2 arguments, not 1"),
        ((Ask((X,), Question("in_any", (Lit(1),))),), "in_any gives 2 words, not 1"),
        ((Union((X,), (Member((), (Lit(1),), Question("nothing")),)),), "nothing gives nothing"),
        (nested(64), "more than 64 deep"),
    ],
)
def test_what_is_ill_formed(steps: tuple[Node, ...], message: str) -> None:
    nothing = Function("nothing", (), (), ())
    cursor = Cursor("all", (), steps, (Lit(1),))
    with pytest.raises(ProgramError, match=message):
        verify(Program((SETS, NAMES), (), (ADD,), (cursor,), (HAS, IN_ANY, nothing)))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ((Ask((X,), Question("changes", (Lit(1),))),), "a cursor asks what changes tables"),
        ((Ask((X,), Question("has", (Lit(1),))),), "wrong number of arguments"),
        ((Ask((), Question("has", (Lit(1), Lit(1)))),), "a function gives other words"),
        ((Concat((X,), (Part((), (Lit(1), Lit(2))),)),), "more or fewer words"),
        ((Union((X,), (Member((), (Lit(1),), Question("nothing")),)),), "a test gives nothing"),
        (nested(64), "nested too deeply"),
    ],
)
def test_the_kernel_refuses_it_by_itself(steps: tuple[Node, ...], message: str) -> None:
    changes = Function("changes", (X,), (Add(R, "names", (X,), (Lit(1),)),), (X,))
    nothing = Function("nothing", (), (), ())
    program = Program((SETS, NAMES), (), (ADD,), (Cursor("all", (), steps, (Lit(1),)),), (HAS, changes, nothing))
    with pytest.raises(ValueError, match=message):
        _kernel.Unit(_kernel.Machine(), encode(program), True)
