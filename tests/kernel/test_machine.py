"""The machine, one thing at a time; ``test_machine_random.py`` compares it with the reference at random."""

from __future__ import annotations

import gc
import threading
from array import array
from itertools import product
from random import Random

import pyarrow as pa
import pytest

from everview.kernel import Column, StaleCursor, Unit, UpdateFault, _kernel
from everview.kernel.encode import encode
from everview.kernel.floats import float_of, word_of
from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Step,
    Store,
    Table,
    Update,
    ValueOf,
)
from everview.kernel.program import (
    Test as Comparison,
)
from tests.kernel import blocks
from tests.kernel.programs import VALUES, Pair, ProgramMaker, words

A, B, C, R, S = (Reg(name) for name in "abcrs")
HIGHEST = 2**63 - 1
WHOLE_WORDS = [0, 1, -1, 3, -3, 7, 64, HIGHEST, -HIGHEST - 1, 2**32]
FLOAT_WORDS = [0, -3, HIGHEST, -HIGHEST - 1, *(word_of(number) for number in (0.1, -2.5, 1e300, float("inf")))]
PAIRS = Table("pairs", ("x", "y"), ("n", "m"), ((0,), (1,), ()), levels=3)


def upsert(*extra: Instruction) -> tuple[Instruction, ...]:
    """Add c to the first value of (a, b); it goes when it comes to 0."""
    return (
        Find(R, "pairs", (A, B), (), (Insert(R, "pairs", (A, B)),)),
        Compute(S, Math.ADD, ValueOf(R, "pairs", 0), C),
        Store(R, "pairs", 0, S),
        *extra,
        If(Comparison.EQUAL, S, Lit(0), (Remove(R, "pairs"),)),
    )


def bag(*extra: Instruction, channels: tuple[tuple[str, int], ...] = (("out", 4),)) -> Program:
    """A bag of pairs with one procedure, ``change(a, b, c)``, and a cursor over a group."""
    group = Cursor("of", (A,), (Step(R, "pairs", 0, (A,), 0),), (KeyOf(R, "pairs", 1), ValueOf(R, "pairs", 0)))
    everything = Cursor("all", (), (Step(R, "pairs", 2, (), 0),), (KeyOf(R, "pairs", 0), KeyOf(R, "pairs", 1)))
    return Program((PAIRS,), channels, (Procedure("change", (A, B, C), upsert(*extra)),), (group, everything))


def one(*body: Instruction, channels: tuple[tuple[str, int], ...] = (("out", 1),)) -> Pair:
    """Both machines for a program of one procedure of three parameters."""
    return Pair(Program((PAIRS,), channels, (Procedure("go", (A, B, C), body),)))


def lists(columns: list[Column]) -> list[list[int]]:
    return [list(memoryview(c)) for c in columns]


def columns(*rows: tuple[int, ...]) -> list[array[int]]:
    return [words(list(column)) for column in zip(*rows, strict=True)]


class TestInstructions:
    @pytest.mark.parametrize(
        ("operation", "a", "b"),
        [
            (operation, a, b)
            for operation in Math
            for a, b in product(WHOLE_WORDS if operation < Math.FLOAT_ADD else FLOAT_WORDS, repeat=2)
        ],
    )
    def test_compute(self, operation: Math, a: int, b: int) -> None:
        pair = one(Compute(S, operation, A, B), Emit("out", (S,)))
        pair.apply("go", [[a], [b], [0]])
        pair.check_channels()

    @pytest.mark.parametrize(
        ("operation", "a", "b", "found"),
        [
            (Math.DIVIDE, -7, 2, -4),
            (Math.DIVIDE, 7, -2, -4),
            (Math.REMAINDER, -7, 2, 1),
            (Math.REMAINDER, 7, -2, -1),
            (Math.ROOT, 26, 3, 2),
            (Math.ROOT, 27, 3, 3),
            (Math.ROOT, HIGHEST, 2, 3037000499),
            (Math.ROOT, HIGHEST, 62, 2),
            (Math.ROOT, HIGHEST, 64, 1),
            (Math.ROOT, 0, 5, 0),
        ],
    )
    def test_quotients_and_roots(self, operation: Math, a: int, b: int, found: int) -> None:
        pair = one(Compute(S, operation, A, B), Emit("out", (S,)))
        pair.apply("go", [[a], [b], [0]])
        assert lists(pair.machine.take("out")) == pair.reference.take("out") == [[found]]

    @pytest.mark.parametrize(
        ("operation", "a", "b", "found"),
        [
            (Math.FLOAT_ADD, word_of(0.1), word_of(0.2), 0.1 + 0.2),
            (Math.FLOAT_SUBTRACT, word_of(1.0), word_of(1.5), -0.5),
            (Math.FLOAT_MULTIPLY, word_of(1e200), word_of(1e-200), 1e200 * 1e-200),
            (Math.FLOAT_DIVIDE, word_of(1.0), word_of(3.0), 1 / 3),
            (Math.FLOAT_SCALE, -3, word_of(0.1), -3 * 0.1),
            (Math.FLOAT_SCALE, 2**53 + 1, word_of(1.0), 2.0**53),
            (Math.FLOAT_MULTIPLY, word_of(-1.0), word_of(0.0), 0.0),
        ],
    )
    def test_floats(self, operation: Math, a: int, b: int, found: float) -> None:
        pair = one(Compute(S, operation, A, B), Emit("out", (S,)))
        pair.apply("go", [[a], [b], [0]])
        assert lists(pair.machine.take("out")) == pair.reference.take("out") == [[word_of(found)]]
        assert float_of(word_of(found)) == found

    @pytest.mark.parametrize(
        ("operation", "a", "b", "fault"),
        [
            (Math.FLOAT_MULTIPLY, 1e200, 1e200, "overflow"),
            (Math.FLOAT_SUBTRACT, float("inf"), float("inf"), "overflow"),
            (Math.FLOAT_DIVIDE, 1.0, 0.0, "program"),
            (Math.FLOAT_ADD, float("nan"), 1.0, "overflow"),
        ],
    )
    def test_floats_that_are_not_finite_are_faults(self, operation: Math, a: float, b: float, fault: str) -> None:
        assert one(Compute(S, operation, A, B)).apply("go", [[word_of(a)], [word_of(b)], [0]]) == fault

    def test_a_float_is_kept_as_a_value(self) -> None:
        """Moments: a sum of floats that rows come to and go from, exactly undone where they are whole."""
        pair = one(
            Find(R, "pairs", (Lit(1), Lit(1)), (), (Insert(R, "pairs", (Lit(1), Lit(1))),)),
            Find(
                R,
                "pairs",
                (Lit(1), Lit(1)),
                (
                    Compute(S, Math.FLOAT_SCALE, A, B),
                    Compute(S, Math.FLOAT_ADD, ValueOf(R, "pairs", 0), S),
                    Store(R, "pairs", 0, S),
                    Emit("out", (S,)),
                ),
            ),
        )
        pair.apply("go", [[2, 1, -2], [word_of(1.5), word_of(-0.5), word_of(1.5)], [0] * 3])
        told = [[word_of(number) for number in (3.0, 2.5, -0.5)]]
        assert lists(pair.machine.take("out")) == pair.reference.take("out") == told

    @pytest.mark.parametrize(("operation", "a", "b"), [(Math.DIVIDE, 1, 0), (Math.REMAINDER, 1, 0), (Math.ROOT, -1, 2)])
    def test_words_without_a_quotient_or_root_are_faults_of_the_program(self, operation: Math, a: int, b: int) -> None:
        assert one(Compute(S, operation, A, B)).apply("go", [[a], [b], [0]]) == "program"

    @pytest.mark.parametrize("test", list(Comparison))
    def test_if(self, test: Comparison) -> None:
        pair = one(If(test, A, B, (Emit("out", (Lit(1),)),), (Emit("out", (Lit(0),)),)))
        pair.apply("go", [[1, 2, 2, -1, HIGHEST], [2, 1, 2, 1, -1], [0] * 5])
        pair.check_channels()

    def test_insert_of_a_key_that_is_there_is_a_fault_of_the_program(self) -> None:
        pair = one(Insert(R, "pairs", (A, B)))
        assert pair.apply("go", [[1, 2, 1, 3], [1, 1, 1, 1], [0] * 4]) == "program"
        assert len(pair.machine.dump("pairs")) == 2

    def test_store_and_read(self) -> None:
        pair = one(Insert(R, "pairs", (A, B)), Store(R, "pairs", 1, C), Emit("out", (ValueOf(R, "pairs", 1),)))
        pair.apply("go", [[1, 2], [3, 4], [-5, HIGHEST]])
        pair.check_channels()

    def test_add_runs_the_block_of_what_happened(self) -> None:
        def told(what: int) -> tuple[Instruction, ...]:
            return (Emit("out", (Lit(what), ValueOf(R, "pairs", 0), ValueOf(R, "pairs", 1))),)

        add = Add(R, "pairs", (A, Lit(0)), (B, C), told(1), told(-1), told(0))
        pair = one(add, channels=(("out", 3),))
        pair.apply("go", [[1, 1, 1, 1, 1, 2], [2, 3, -5, 0, 7, 0], [10, 10, 10, 10, -1, 5]])
        seen = lists(pair.machine.take("out"))
        assert seen == [[1, 0, -1, 1], [2, 5, 5, 7], [10, 20, 20, -1]]  # a row that vanishes has its old values
        assert pair.machine.dump("pairs") == [((1, 0), (7, -1), 0)]  # a change of nothing makes no row

    def test_add_may_keep_rows_of_zeros(self) -> None:
        add = Add(R, "pairs", (A, B), (C,), (Emit("out", (Lit(1),)),), None, (Emit("out", (Lit(0),)),))
        pair = one(add, Emit("out", (ValueOf(R, "pairs", 0),)))
        pair.apply("go", [[1, 1, 1, 2], [0] * 4, [2, -2, 0, 0]])
        pair.check_channels()
        assert [values[0] for _, values, _ in pair.machine.dump("pairs")] == [0, 0]

    def test_add_overflows_as_compute_does_but_not_where_the_row_vanishes(self) -> None:
        pair = one(Add(R, "pairs", (A, Lit(0)), (B, C)))
        assert pair.apply("go", [[1, 1], [1, -1], [HIGHEST, 1]]) is None
        assert pair.apply("go", [[1, 1], [1, 1], [HIGHEST, 1]]) == "overflow"
        assert pair.machine.dump("pairs") == [((1, 0), (1, HIGHEST), 0)]

    def test_add_vanishes_with_levels_groups_and_a_row_that_takes_its_place(self) -> None:
        live = SetLevel(R, "pairs", 2)
        gone = (GetLevel(S, R, "pairs"), Count(Reg("n"), "pairs", 0, (A,), 2), Emit("out", (S, Reg("n"))))
        pair = one(Add(R, "pairs", (A, B), (C,), (live,), gone), channels=(("out", 2),))
        random = Random(7)
        keys = [[random.randint(0, 2) for _ in range(300)] for _ in range(2)]
        pair.apply("go", [*keys, random.choices([-1, 1], k=300)])
        assert pair.machine.pending("out") > 20
        pair.check_channels()

    def test_levels_and_counts(self) -> None:
        levels = [SetLevel(R, "pairs", level) for level in (2, 0, 1)]
        counts = [
            Count(Reg(f"n{i}{lv}"), "pairs", i, key, lv) for i, key in enumerate(((A,), (B,), ())) for lv in range(3)
        ]
        outputs = tuple(c.target for c in counts)
        pair = one(
            Find(R, "pairs", (A, B), (), (Insert(R, "pairs", (A, B)),)),
            If(
                Comparison.EQUAL,
                C,
                Lit(0),
                (levels[0],),
                (If(Comparison.EQUAL, C, Lit(1), (levels[1],), (levels[2],)),),
            ),
            GetLevel(S, R, "pairs"),
            *counts,
            Emit("out", (S, *outputs)),
            channels=(("out", 10),),
        )
        random = Random(5)
        pair.apply("go", [[random.randint(0, 2) for _ in range(200)] for _ in range(3)])
        pair.check_channels()

    def test_each_walks_over_the_rows_as_they_were(self) -> None:
        body = (GetLevel(S, R, "pairs"), Compute(S, Math.SUBTRACT, Lit(1), S), Emit("out", (S, KeyOf(R, "pairs", 1))))
        flip = (If(Comparison.EQUAL, S, Lit(0), (SetLevel(R, "pairs", 0),), (SetLevel(R, "pairs", 1),)),)
        pair = one(
            Find(R, "pairs", (A, B), (), (Insert(R, "pairs", (A, B)),)),
            Each(R, "pairs", 0, (A,), 0, (*body, *flip)),
            channels=(("out", 2),),
        )
        pair.apply("go", [[0] * 9, list(range(9)), [0] * 9])
        pair.check_channels()

    def test_call_passes_words_and_has_registers_of_its_own(self) -> None:
        callee = Procedure("callee", (A, B), (Compute(C, Math.ADD, A, B), Emit("out", (C,))))
        caller = Procedure("go", (A, B, C), (Call("callee", (B, Lit(40))), Emit("out", (C,)), Call("callee", (C, A))))
        pair = Pair(Program((), (("out", 1),), (caller, callee)))
        pair.apply("go", [[1, 2], [3, 4], [5, 6]])
        assert lists(pair.machine.take("out")) == pair.reference.take("out") == [[43, 5, 6, 44, 6, 8]]

    def test_update_is_the_position_in_the_batch(self) -> None:
        pair = one(Emit("out", (Update(),)))
        pair.apply("go", [[0] * 3] * 3, first_update=100)
        assert lists(pair.machine.take("out")) == [[100, 101, 102]]

    def test_apply_stops_once_enough_is_pending_and_goes_on_from_there(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, Update()))))
        rows = [(i, i, 1) for i in range(10)]
        assert machine.apply("change", columns(*rows), most_pending=4) == 4
        assert lists(machine.take("out"))[3] == [0, 1, 2, 3]
        assert machine.apply("change", columns(*rows[4:]), first_update=4, most_pending=100) == 6
        assert lists(machine.take("out"))[3] == [4, 5, 6, 7, 8, 9]
        assert len(machine.dump("pairs")) == 10

    def test_a_key_of_many_words(self) -> None:
        width = 20
        table = Table(
            "wide", tuple(f"k{i}" for i in range(width)), (), (tuple(range(width)), tuple(range(0, width, 2)))
        )
        key: tuple[Operand, ...] = (A, *(Lit(i) for i in range(width - 1)))
        count = Count(S, "wide", 1, key[::2], 0)
        body = (Find(R, "wide", key, (), (Insert(R, "wide", key),)), count, Emit("out", (S,)))
        pair = Pair(Program((table,), (("out", 1),), (Procedure("go", (A,), body),)))
        pair.apply("go", [[1, 2, 1, 3]])
        pair.check_channels()


class TestNests:
    """Scans around one emit, which run in a loop of their own."""

    def nest(self, *outputs: Operand | Product) -> Pair:
        """All pairs of pairs (a, y), (y, z) for the a of the update."""
        second = Scan(S, "pairs", 0, (KeyOf(R, "pairs", 1),), 0, (Emit("out", outputs),))
        return one(
            *upsert()[:3],
            Scan(R, "pairs", 0, (A,), 0, (second,)),
            channels=(("out", len(outputs)),),
        )

    @pytest.mark.slow
    def test_columns(self) -> None:
        outputs = (
            KeyOf(R, "pairs", 0),
            KeyOf(S, "pairs", 0),
            KeyOf(S, "pairs", 1),
            Update(),
            Lit(-7),
            C,
            Product((C, ValueOf(R, "pairs", 0), ValueOf(S, "pairs", 0))),
            Product((ValueOf(S, "pairs", 0), ValueOf(S, "pairs", 0), C, ValueOf(R, "pairs", 0))),
            Product(()),
        )
        pair = self.nest(*outputs)
        random = Random(3)
        size = 300
        pair.apply("go", [[random.randint(0, 9) for _ in range(size)] for _ in range(3)])
        pair.check_channels()

    @pytest.mark.parametrize("factors", [(C, "inner"), ("inner", C), ("inner", "inner"), ("outer", "inner"), (C, C)])
    def test_overflow_in_a_product(self, factors: tuple[str | Reg, ...]) -> None:
        named: dict[str | Reg, Operand] = {"inner": ValueOf(S, "pairs", 0), "outer": ValueOf(R, "pairs", 0), C: C}
        pair = self.nest(Product(tuple(named[f] for f in factors)))
        pair.apply("go", [[1, 2, 1], [2, 3, 2], [1, 3, 4]])
        assert pair.apply("go", [[2, 1], [3, 2], [2**40, 2**40]]) == "overflow"
        pair.check_channels()

    def test_a_product_overflows_from_left_to_right_as_the_reference_says(self) -> None:
        big = Lit(2**62)
        for factors in [(Lit(0), big, big), (big, big, Lit(0)), (ValueOf(S, "pairs", 1), big, big)]:
            pair = self.nest(Product(factors))
            pair.apply("go", [[1, 2, 1], [2, 3, 5], [1, 1, 1]])
            pair.check_channels()

    def test_nothing_overflows_where_no_row_is(self) -> None:
        pair = self.nest(Product((Lit(2**62), Lit(2**62))))
        assert pair.apply("go", [[1, 1], [2, 3], [1, 1]]) is None

    @pytest.mark.slow
    def test_long_groups(self) -> None:
        pair = self.nest(KeyOf(R, "pairs", 1), KeyOf(S, "pairs", 1))
        pair.apply("go", [[7] * 150, list(range(150)), [1] * 150])
        pair.apply("go", [[3, 6, 149], [7, 7, 7], [1] * 3])
        pair.apply("go", [[7], [2], [1]])
        pair.check_channels()


class TestFaults:
    def test_an_update_that_overflows_is_undone_and_those_before_it_stay(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, S))))
        machine.apply("change", columns((1, 1, 5), (1, 2, 5), (2, 2, HIGHEST)))
        machine.discard("out")
        with pytest.raises(UpdateFault, match="update 2") as fault:
            machine.apply("change", columns((1, 3, 1), (1, 1, -5), (2, 2, 1), (9, 9, 9)))
        assert (fault.value.update, fault.value.kind) == (2, "overflow")
        assert isinstance(fault.value, RuntimeError)
        assert sorted(machine.dump("pairs")) == [
            ((1, 2), (5, 0), 0),
            ((1, 3), (1, 0), 0),
            ((2, 2), (HIGHEST, 0), 0),
        ]
        assert lists(machine.take("out")) == [[1, 1], [3, 1], [1, -5], [1, 0]]

    def test_an_update_that_did_much_is_undone_to_the_letter(self) -> None:
        """Rows come, go, change levels and values in many groups, and then a word overflows."""
        step = (
            Find(R, "pairs", (A, B), (), (Insert(R, "pairs", (A, B)),)),
            SetLevel(R, "pairs", 2),
            Find(
                S,
                "pairs",
                (B, A),
                (SetLevel(S, "pairs", 1), Remove(S, "pairs")),
                (Insert(S, "pairs", (B, A)), Store(S, "pairs", 1, C), SetLevel(S, "pairs", 1)),
            ),
        )
        often = tuple(Call("step", (Lit(x), Lit(y), C)) for x, y in product(range(4), repeat=2))
        procedures = (
            Procedure("step", (A, B, C), step),
            Procedure("go", (A, B, C), (*often, *reversed(often), Compute(S, Math.MULTIPLY, C, C))),
        )
        pair = Pair(Program((PAIRS,), (), procedures))
        random = Random(11)
        for _ in range(30):
            pair.apply("step", [[random.randint(0, 3) for _ in range(4)] for _ in range(3)])
            assert pair.apply("go", [[0], [0], [2**40]]) == "overflow"

    def test_memory_limit(self) -> None:
        machine = Unit(bag())
        assert machine.machine.memory_limit is None
        rows = [(i, i, 1) for i in range(2000)]
        machine.machine.memory_limit = 50_000
        with pytest.raises(UpdateFault) as fault:
            machine.apply("change", columns(*rows))
        assert fault.value.kind == "memory"
        assert len(machine.dump("pairs")) == fault.value.update > 100
        machine.unapply("change", columns(*rows), 2, fault.value.update)
        assert machine.dump("pairs") == []
        machine.machine.memory_limit = None
        machine.apply("change", columns(*rows))

    def test_unapply_takes_a_batch_back_and_emits_nothing(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, S))))
        machine.apply("change", columns((1, 1, 5), (1, 2, 5), (2, 2, 1)))
        before = sorted(machine.dump("pairs"))
        batch = columns((1, 1, -5), (3, 3, 3), (1, 2, 7), (3, 3, -3))
        machine.apply("change", batch)
        pending = machine.pending("out")
        machine.unapply("change", batch, 2, 4)
        assert sorted(machine.dump("pairs")) == before
        assert machine.pending("out") == pending

    def test_unapply_with_several_weights(self) -> None:
        second = (Compute(B, Math.ADD, ValueOf(R, "pairs", 1), B), Store(R, "pairs", 1, B))
        body = (Find(R, "pairs", (A, A), (), (Insert(R, "pairs", (A, A)),)), *upsert()[1:3], *second)
        machine = Unit(Program((PAIRS,), (), (Procedure("change", (A, B, C), body),)))
        batch = columns((1, 5, 7), (1, 6, 8), (2, 1, 1))
        machine.apply("change", batch)
        assert machine.dump("pairs")[0] == ((1, 1), (15, 11), 0)
        machine.unapply("change", batch, [1, 2], 2)
        assert machine.dump("pairs") == [((1, 1), (0, 0), 0), ((2, 2), (1, 1), 0)]

    def test_unapply_refuses_to_negate_the_lowest_word(self) -> None:
        machine = Unit(bag())
        with pytest.raises(UpdateFault, match="negated"):
            machine.unapply("change", columns((1, 1, -(2**63))), 2, 1)

    def test_unapply_like_the_reference(self) -> None:
        pair = Pair(bag(Emit("out", (A, B, C, S))))
        random = Random(2)
        batch = [[random.randint(0, 3) for _ in range(50)] for _ in range(3)]
        pair.apply("change", batch)
        pair.reference.unapply("change", batch, 2, 30)
        pair.machine.unapply("change", [words(c) for c in batch], 2, 30)
        pair.check()
        pair.check_channels()


class TestColumns:
    def test_take_gives_arrow_without_copying(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, S))))
        machine.apply("change", columns(*((i, i + 1, 1) for i in range(1000))))
        taken = machine.take("out")
        assert [len(c) for c in taken] == [1000] * 4
        arrays = [pa.array(c) for c in taken]
        assert arrays[0].type == pa.int64()
        assert arrays[1].to_pylist() == list(range(1, 1001))
        assert arrays[0].buffers()[1].address == memoryview_address(taken[0])
        batch = pa.RecordBatch.from_arrays(arrays, names=list("abcd"))
        del taken, arrays, machine
        gc.collect()
        assert batch.column(0).to_pylist() == list(range(1000))

    def test_columns_stay_as_they_are_while_the_machine_goes_on(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, S))))
        kept = []
        for i in range(20):
            machine.apply("change", columns(*((i, j, 1) for j in range(100 * (i % 5)))) or [words([])] * 3)
            kept.append([pa.array(c) for c in machine.take("out")])
        for i, arrays in enumerate(kept):
            assert arrays[0].to_pylist() == [i] * (100 * (i % 5))
            assert arrays[1].to_pylist() == list(range(100 * (i % 5)))

    def test_an_empty_channel(self) -> None:
        machine = Unit(bag())
        taken = machine.take("out")
        assert [pa.array(c).to_pylist() for c in taken] == [[], [], [], []]
        assert lists(taken) == [[], [], [], []]
        assert machine.pending("out") == 0

    def test_what_apply_takes(self) -> None:
        machine = Unit(bag())
        for column in [
            words([1, 2]),
            memoryview(words([1, 2])),
            pa.array([1, 2], pa.int64()),
            pa.array([9, 1, 2, 9], pa.int64()).slice(1, 2),
            pa.array([None, 1, 2], pa.int64()).slice(1),
        ]:
            machine.apply("change", [column, column, column])
        assert machine.dump("pairs") == [((1, 1), (5, 0), 0), ((2, 2), (10, 0), 0)]
        machine.apply("change", [pa.array([], pa.int64())] * 3)

    @pytest.mark.parametrize(
        "column",
        [
            [1, 2],
            array("i", [1, 2]),
            b"12345678",
            memoryview(words([1, 2, 3, 4]))[::2],
            pa.array([1, None], pa.int64()),
            pa.array([1, 2], pa.int32()),
            pa.array(["a", "b"]),
            pa.array([1.0, 2.0]),
            pa.chunked_array([[1], [2]]),
            None,
        ],
    )
    def test_what_apply_refuses(self, column: object) -> None:
        machine = Unit(bag())
        with pytest.raises((TypeError, ValueError, BufferError)):
            machine.apply("change", [column, words([1, 2]), words([1, 2])])  # type: ignore[list-item]
        assert machine.dump("pairs") == []

    def test_lengths_and_numbers_of_columns(self) -> None:
        machine = Unit(bag())
        with pytest.raises(ValueError, match="lengths"):
            machine.apply("change", [words([1]), words([1, 2]), words([1])])
        with pytest.raises(ValueError, match="3 columns"):
            machine.apply("change", [words([1])])
        with pytest.raises(ValueError, match="only 1"):
            machine.unapply("change", columns((1, 1, 1)), 2, 2)
        with pytest.raises(IndexError):
            machine.unapply("change", columns((1, 1, 1)), 3, 1)
        with pytest.raises(KeyError):
            machine.apply("nothing", [])


def memoryview_address(column: Column) -> int:
    return int(pa.py_buffer(column).address)


class TestCursors:
    def filled(self) -> Unit:
        machine = Unit(bag())
        machine.apply("change", columns(*((i % 3, i, 1) for i in range(100))))
        return machine

    def test_fetch_in_pieces(self) -> None:
        cursor = self.filled().open("of", [1])
        pieces = []
        while len((piece := cursor.fetch(10))[0]):
            pieces.append(lists(piece)[0])
        assert [len(p) for p in pieces] == [10, 10, 10, 3]
        assert [x for piece in pieces for x in piece] == list(range(1, 100, 3))
        assert lists(cursor.fetch(10)) == [[], []]

    def test_skip(self) -> None:
        cursor = self.filled().open("of", [1])
        assert cursor.skip(5) == 5
        assert lists(cursor.fetch(1))[0] == [16]
        assert cursor.skip(1000) == 27

    def test_a_group_that_is_not_there(self) -> None:
        assert lists(self.filled().open("of", [7]).fetch(5)) == [[], []]

    def test_a_cursor_keeps_its_machine(self) -> None:
        cursor = self.filled().open("all")
        gc.collect()
        assert len(cursor.fetch(1000)[0]) == 100

    def test_two_cursors_do_not_mind_each_other(self) -> None:
        machine = self.filled()
        one, other = machine.open("of", [0]), machine.open("of", [0])
        assert lists(one.fetch(3)) == lists(other.fetch(3))

    def test_stale(self) -> None:
        machine = self.filled()
        data = machine.snapshot()
        for change in (
            lambda: machine.apply("change", columns((1, 1, 1))),
            lambda: machine.unapply("change", columns((1, 1, 1)), 2, 1),
            machine.clear,
            lambda: machine.restore(data),
        ):
            cursor = machine.open("all")
            change()
            with pytest.raises(StaleCursor, match="changed"):
                cursor.fetch(1)
            with pytest.raises(RuntimeError):
                cursor.skip(1)

    def test_arguments(self) -> None:
        machine = self.filled()
        with pytest.raises(ValueError, match="1 arguments"):
            machine.open("of")
        with pytest.raises(KeyError):
            machine.open("nothing")

    def test_overflow(self) -> None:
        cursor = Cursor("c", (A,), (), (Product((A, A)),))
        machine = Unit(Program((), (), (), (cursor,)))
        assert lists(machine.open("c", [3]).fetch(9)) == [[9]]
        with pytest.raises(OverflowError):
            machine.open("c", [2**40]).fetch(1)


class TestFunctions:
    def program(self, *body: Instruction, results: tuple[Operand, ...] = (S,)) -> Program:
        made = bag()
        functions = (Function("how many", (A,), body, results),)
        return Program(made.tables, made.channels, made.procedures, made.cursors, functions)

    def test_answers_come_by_columns_and_cursors_go_on(self) -> None:
        pair = Pair(self.program(Count(S, "pairs", 0, (A,), 0), results=(A, S)))
        pair.apply("change", [[1, 1, 2], [5, 6, 5], [1, 1, 1]])
        cursor = pair.machine.open("all")
        assert lists(cursor.fetch(1)) == [[1], [5]]
        before = pair.machine.steps
        assert lists(pair.machine.ask("how many", columns((1,), (2,), (3,)))) == [[1, 2, 3], [2, 1, 0]]
        assert pair.machine.steps > before
        assert lists(cursor.fetch(5)) == [[1, 2], [6, 5]]
        assert pair.reference.ask("how many", [[1, 2, 3]]) == [[1, 2, 3], [2, 1, 0]]

    def test_a_fault_gives_the_row_and_no_answers_are_left(self) -> None:
        pair = Pair(self.program(Compute(S, Math.MULTIPLY, A, A)))
        with pytest.raises(UpdateFault) as raised:
            pair.machine.ask("how many", columns((2,), (HIGHEST,)))
        assert (raised.value.kind, raised.value.update) == ("overflow", 1)
        assert lists(pair.machine.ask("how many", columns((3,)))) == [[9]]

    @pytest.mark.parametrize(
        "body",
        [
            (Insert(R, "pairs", (A, A)), Compute(S, Math.ADD, A, A)),
            (Compute(S, Math.ADD, A, A), Emit("out", (S, S, S, S))),
            (Call("change", (A, A, A)), Compute(S, Math.ADD, A, A)),
        ],
    )
    def test_functions_only_read(self, body: tuple[Instruction, ...]) -> None:
        program = self.program(*body)
        with pytest.raises(ValueError, match="functions only read"):
            Unit(program)
        machine = _kernel.Unit(_kernel.Machine(), encode(program), True)
        if not isinstance(body[1], Emit):
            with pytest.raises(ValueError, match="must not change"):
                machine.ask(len(program.procedures), columns((1,)), 1)

    def test_results_must_be_set(self) -> None:
        body = (Find(R, "pairs", (A, A), (Compute(S, Math.ADD, A, A),)),)
        with pytest.raises(ValueError, match="holds no word"):
            Unit(self.program(*body))


class TestMemory:
    def test_it_goes_when_the_rows_go(self) -> None:
        machine = Unit(bag())
        empty = machine.nbytes()
        random = Random(4)
        rows = [(random.randint(0, 500), i, 1) for i in range(30_000)]
        machine.apply("change", columns(*rows))
        full = machine.nbytes()
        stats = machine.table_stats()
        assert stats["pairs"][0] == 30_000
        assert 30_000 * 40 < stats["pairs"][1] <= full
        random.shuffle(rows)
        machine.apply("change", columns(*((a, b, -1) for a, b, _ in rows)))
        assert machine.dump("pairs") == []
        assert machine.nbytes() < empty + 10_000
        machine.apply("change", columns(*rows))
        assert len(machine.dump("pairs")) == 30_000

    def test_clear(self) -> None:
        machine = Unit(bag(Emit("out", (A, B, C, S))))
        machine.apply("change", columns(*((i, i, 1) for i in range(5000))))
        machine.clear()
        assert machine.dump("pairs") == []
        assert machine.pending("out") == 0
        assert machine.nbytes() < 10_000
        machine.apply("change", columns((1, 2, 3)))
        assert machine.dump("pairs") == [((1, 2), (3, 0), 0)]

    def test_a_window_that_moves_on_takes_no_more(self) -> None:
        machine = Unit(bag())
        sizes = []
        for start in range(0, 40_000, 2000):
            machine.apply("change", columns(*((i % 97, i, 1) for i in range(start, start + 2000))))
            if start >= 4000:
                machine.apply("change", columns(*((i % 97, i, -1) for i in range(start - 4000, start - 2000))))
            sizes.append(machine.nbytes())
        assert max(sizes[10:]) <= 1.5 * max(sizes[2:10])

    def test_steps_are_the_same_every_time(self) -> None:
        random = Random(6)
        rows = [(random.randint(0, 9), random.randint(0, 9), 1) for _ in range(500)]
        seen = set()
        for _ in range(2):
            machine = Unit(bag())
            assert machine.steps == 0
            machine.apply("change", columns(*rows))
            seen.add(machine.steps)
        assert len(seen) == 1
        assert 4 * 500 < seen.pop() < 20 * 500


class TestSnapshots:
    def filled(self) -> Unit:
        machine = Unit(bag(SetLevel(R, "pairs", 1), Emit("out", (A, B, C, S))))
        random = Random(8)
        machine.apply("change", columns(*((random.randint(0, 3), random.randint(0, 9), 1) for _ in range(40))))
        return machine

    def test_round_trip(self) -> None:
        machine = self.filled()
        other = Unit(machine.program)
        other.apply("change", columns((77, 7, 7)))
        other.restore(machine.snapshot())
        assert other.dump("pairs") == machine.dump("pairs")
        assert other.snapshot() == machine.snapshot()
        assert other.pending("out") == 0
        machine.apply("change", columns((1, 1, -1), (0, 5, 2)))
        other.apply("change", columns((1, 1, -1), (0, 5, 2)))
        assert other.snapshot() == machine.snapshot()

    def test_damage_is_found_and_changes_nothing(self) -> None:
        machine = self.filled()
        data = machine.snapshot()
        other = Unit(machine.program)
        other.apply("change", columns((77, 7, 7)))
        before = other.snapshot()
        for at in range(len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1 << (at % 8)
            with pytest.raises(ValueError, match="bad snapshot"):
                other.restore(bytes(damaged))
        for size in range(0, len(data), 3):
            with pytest.raises(ValueError, match="bad snapshot"):
                other.restore(data[:size])
        with pytest.raises(ValueError, match="bad snapshot"):
            other.restore(data + bytes(8))
        assert other.snapshot() == before
        assert other.pending("out") == 1

    def test_blocks(self) -> None:
        """A unit that takes several blocks; each is about a megabyte, and together they are the snapshot."""
        machine = Unit(bag(SetLevel(R, "pairs", 1)))
        rows = 200_000
        machine.apply("change", [words([i % 7 for i in range(rows)]), words(range(rows)), words([1] * rows)])
        found = list(machine.blocks())
        assert len(found) > 5
        assert max(map(len, found)) < 1_300_000
        assert b"".join(found) == machine.snapshot()
        other = Unit(machine.program)
        other.restore_blocks(iter(found))
        assert other.snapshot() == machine.snapshot()
        for wrong in (found[:-1], found[1:], found[::-1], [found[0], *found], [*found, found[-1]], [*found, b""]):
            before = other.snapshot()
            with pytest.raises(ValueError, match="bad snapshot"):
                other.restore_blocks(wrong)
            assert other.snapshot() == before

    def test_blocks_are_of_one_state(self) -> None:
        machine = self.filled()
        found = machine.blocks()
        next(found)
        machine.apply("change", columns((1, 1, 1)))
        with pytest.raises(StaleCursor):
            next(found)
        machine.unlink()
        with pytest.raises(RuntimeError, match="unlinked"):
            next(found)

    def test_another_program(self) -> None:
        with pytest.raises(ValueError, match="another program"):
            Unit(bag()).restore(self.filled().snapshot())

    def test_lies_with_a_right_checksum(self) -> None:
        """What passes the checksum is still checked: whatever it says, the machine works on."""
        machine = self.filled()
        data = array("q", machine.snapshot())
        random = Random(9)
        other = Unit(machine.program)
        accepted = 0
        found = blocks.bounds(data)
        places = blocks.inside(found)
        for _ in range(3000):
            lie = data[:]
            for _ in range(random.randint(1, 2)):
                at = random.choice(places)
                lie[at] = random.choice([0, 1, -1, 2, 40, 2**31, 2**62, lie[at] + 1, lie[random.choice(places)]])
            blocks.sign(lie, found)
            try:
                other.restore(lie.tobytes())
            except ValueError:
                continue
            accepted += 1
            other.apply("change", columns(*((a, b, -1) for a in range(4) for b in range(10))))
        assert accepted > 0


class TestPrograms:
    def test_the_verifier_is_asked(self) -> None:
        with pytest.raises(ValueError, match="no word"):
            Unit(Program((), (("out", 1),), (Procedure("go", (), (Emit("out", (A,)),)),)))

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ((Add(R, "pairs", (A, B), ()),), "0 words are added"),
            ((Add(R, "pairs", (A, B), (C, C, C)),), "3 words are added"),
            ((Add(R, "pairs", (A,), (C,)),), "2 words, not 1"),
            ((Add(R, "pairs", (A, B), (C,)), Store(R, "pairs", 0, C)), "holds no row"),
            ((Add(R, "pairs", (A, B), (C,), (), (Insert(S, "pairs", (B, A)),)),), "loses hold"),
            ((Add(R, "pairs", (A, B), (C,), (), (Find(R, "pairs", (B, A)),)),), "loses hold"),
            ((Each(S, "pairs", 0, (A,), 0, (Add(R, "pairs", (A, B), (C,)),)),), "come or go inside a loop"),
            ((Insert(S, "pairs", (A, A)), Add(R, "pairs", (A, B), (C,)), Store(S, "pairs", 0, C)), "holds no row"),
        ],
    )
    def test_additions_that_lose_hold_of_rows(self, body: tuple[Instruction, ...], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            one(*body)

    @pytest.mark.parametrize(
        ("table", "procedures", "message"),
        [
            (PAIRS, [Procedure("go", (A, A), ())], "two parameters"),
            (PAIRS, [Procedure("go", (), (Insert(R, "nowhere", ()),))], "no nowhere"),
        ],
    )
    def test_names(self, table: Table, procedures: list[Procedure], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            encode(Program((table,), (), tuple(procedures)))

    @pytest.mark.parametrize(
        ("procedures", "message"),
        [
            ([Procedure("p", (), (Call("p"),))], "calls itself"),
            ([Procedure("p", (), (Call("q"),)), Procedure("q", (), (Call("p"),))], "calls itself"),
            ([Procedure("p", (), (Call("q", (Lit(1),)),)), Procedure("q", (), ())], "arguments"),
            ([Procedure("p", (A,), (Insert(R, "pairs", (A,)),))], "1 words instead of 2"),
            ([Procedure("p", (A,), (Store(R, "pairs", 2, A),))], "no value column 2"),
            ([Procedure("p", (A,), (SetLevel(R, "pairs", 3),))], "no level 3"),
            ([Procedure("p", (A,), (Count(R, "pairs", 3, (), 0),))], "no index 3"),
            ([Procedure("p", (A,), (Emit("out", (A, A)),))], "width"),
            ([Procedure("p", (A,), (Emit("out", (KeyOf(R, "pairs", 2),)),))], "no key column 2"),
            ([Procedure("p", (A,), (Scan(R, "pairs", 2, (), 0, (SetLevel(R, "pairs", 1),)),))], "scan"),
            (
                [
                    Procedure("p", (A,), (Scan(R, "pairs", 2, (), 0, (Each(R, "pairs", 2, (), 0, (Call("q"),)),)),)),
                    Procedure("q", (), (Call("r"),)),
                    Procedure("r", (), (Find(R, "pairs", (Lit(1), Lit(1)), (Remove(R, "pairs"),)),)),
                ],
                "scan",
            ),
        ],
    )
    def test_the_kernel_itself_refuses(self, procedures: list[Procedure], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            _kernel.Unit(_kernel.Machine(), encode(Program((PAIRS,), (("out", 1),), tuple(procedures))), True)

    def test_deep_programs(self) -> None:
        def nested(depth: int) -> list[int]:
            head = [0, 0, 1, 0, 0]  # No tables, no channels, a procedure without parameters or registers.
            return [*head, *([1, 8, 0, 1, 0, 1, 0] * depth), *([0] * (depth + 1)), 0]

        _kernel.Unit(_kernel.Machine(), nested(1900), True)
        with pytest.raises(ValueError, match="deep"):
            _kernel.Unit(_kernel.Machine(), nested(100_000), True)

    def test_deep_calls(self) -> None:
        def chain(length: int) -> Program:
            calls = [Procedure(f"p{i}", (A,), (Call(f"p{i + 1}", (A,)),)) for i in range(length)]
            return Program((), (("out", 1),), (*calls, Procedure(f"p{length}", (A,), (Emit("out", (A,)),))))

        machine = _kernel.Unit(_kernel.Machine(), encode(chain(1900)), True)
        assert machine.apply(0, [words([5])], 0) is None
        assert lists(machine.take(0)) == [[5]]
        with pytest.raises(ValueError, match="deep"):
            _kernel.Unit(_kernel.Machine(), encode(chain(5000)), True)

    def test_registers_that_hold_no_rows_are_faults_of_the_program(self) -> None:
        for body in [
            (Store(A, "pairs", 0, B),),
            (SetLevel(A, "pairs", 1),),
            (GetLevel(B, A, "pairs"),),
            (Remove(A, "pairs"),),
            (Compute(B, Math.ADD, KeyOf(A, "pairs", 0), Lit(1)),),
            (Scan(R, "pairs", 0, (ValueOf(A, "pairs", 0),), 0, (Emit("out", (B,)),)),),
        ]:
            program = Program((PAIRS,), (("out", 1),), (Procedure("go", (A, B), body),))
            machine = _kernel.Unit(_kernel.Machine(), encode(program), True)
            for handle in (0, -1, 2**32, 2**40, HIGHEST):
                failure = machine.apply(0, [words([handle]), words([0])], 0)
                assert failure is not None
                assert failure[1] == "program"

    def test_damaged_encodings_never_crash(self) -> None:
        """Most are refused; what is accepted runs, or faults."""
        random = Random(13)
        accepted = 0
        for seed in range(60):
            code = encode(ProgramMaker(Random(seed)).program())
            for _ in range(60):
                damaged = list(code)
                for _ in range(random.randint(1, 3)):
                    at = random.randrange(len(damaged))
                    damaged[at] = random.choice([0, 1, 2, 3, -1, 7, 100, 2**40, damaged[at] + 1, damaged[at] - 1])
                damaged = [max(min(word, HIGHEST), -HIGHEST) for word in damaged]
                if random.random() < 0.2:
                    del damaged[random.randrange(len(damaged)) :]
                try:
                    machine = _kernel.Unit(_kernel.Machine(VALUES), damaged, True)
                except ValueError:
                    continue
                accepted += 1
                for procedure in range(3):
                    for width in range(4):
                        batch = [words([random.randint(0, 3) for _ in range(5)]) for _ in range(width)]
                        try:
                            machine.apply(procedure, batch, 0)
                        except (IndexError, ValueError):
                            continue
                machine.snapshot()
        assert accepted > 100


def test_threads_take_turns() -> None:
    machine = Unit(bag())
    rows = columns(*((i % 50, i % 7, 1) for i in range(20_000)))

    def work() -> None:
        for _ in range(3):
            machine.apply("change", rows)
            machine.table_stats()
            machine.snapshot()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(values[0] for _, values, _ in machine.dump("pairs")) == 12 * 20_000


def test_find_gives_what_dump_gives() -> None:
    """Values and level by key; None where there is no such row, an error where the key is no key."""
    machine = Unit(bag(SetLevel(R, "pairs", 1)))
    machine.apply("change", columns((1, 2, 3), (4, 5, 6), (1, 7, -1)))
    for key, values, level in machine.dump("pairs"):
        assert machine.find("pairs", key) == (list(values), level)
    assert machine.find("pairs", (2, 1)) is None
    with pytest.raises(ValueError, match="2 words"):
        machine.find("pairs", (1,))
