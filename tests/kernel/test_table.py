"""The kernel's table: one thing at a time, then at random against a Counter."""

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from everview.kernel import OverDelete, Table

LOW, HIGH = -(2**63), 2**63 - 1

# What an emptied table may still hold: small first buffers, whatever it held before.
EMPTY_BYTES, EMPTY_INDEX_BYTES = 2048, 1536


def table_of(width, rows, *indexes):
    table = Table(width)
    for columns in indexes:
        table.add_index(columns)
    for row in rows:
        table.add(row)
    return table


def assert_unchanged_by(table, error, action):
    before = (sorted(table.rows()), len(table), table.total())
    with pytest.raises(error) as raised:
        action()
    assert (sorted(table.rows()), len(table), table.total()) == before
    return str(raised.value)


class TestRows:
    def test_a_new_table_is_empty(self):
        table = Table(2)
        assert (len(table), table.total(), table.rows(), table.get((1, 2)), table.width) == (0, 0, [], 0, 2)

    def test_its_repr_says_what_it_is(self):
        assert repr(table_of(3, [(1, 2, 3)], (0,))) == "<everview.kernel.Table: width 3, distinct rows 1, indexes 1>"

    def test_add_returns_the_multiplicity(self):
        table = Table(2)
        assert [table.add((1, 2)), table.add((1, 2), 4), table.add((1, 2), -2), table.add((1, 2), 0)] == [1, 5, 3, 3]
        assert (table.get((1, 2)), len(table), table.total()) == (3, 1, 3)

    def test_a_row_without_copies_is_gone(self):
        table = table_of(1, [(7,), (8,), (9,)])
        assert table.add((7,), -1) == 0
        assert sorted(table.rows()) == [((8,), 1), ((9,), 1)]

    def test_adding_no_copies_adds_no_row(self):
        table = Table(1)
        assert table.add((1,), 0) == 0
        assert len(table) == 0

    def test_words_keep_their_order_and_sign(self):
        rows = [(1, 2), (2, 1), (-1, -2), (LOW, HIGH), (HIGH, LOW), (0, 0)]
        assert sorted(table_of(2, rows).rows()) == sorted((row, 1) for row in rows)

    def test_rows_of_no_words(self):
        table = Table(0)
        everything = table.add_index(())
        assert table.add((), 3) == 3
        assert table.rows() == table.group(everything, ()) == [((), 3)]
        assert table.add((), -3) == 0
        assert table.rows() == table.group(everything, ()) == []

    def test_wide_rows(self):
        row = tuple(range(-500, 500))
        table = table_of(1000, [row])
        assert table.rows() == [(row, 1)]
        assert table.get((*row[:-1], 0)) == 0

    def test_sequences_and_numbers_that_act_as_ints(self):
        class Seven:
            def __index__(self):
                return 7

        table = Table(2)
        table.add([7, 1])
        table.add((Seven(), True))
        table.add(range(7, 0, -6))
        assert table.rows() == [((7, 1), 3)]

    def test_rows_is_a_snapshot(self):
        table = table_of(1, [(1,)])
        rows = table.rows()
        table.add((2,))
        assert rows == [((1,), 1)]

    def test_the_total_may_exceed_64_bits(self):
        table = Table(1)
        for word in range(5):
            table.add((word,), HIGH)
        assert table.total() == 5 * HIGH
        table.add((0,), -HIGH)
        assert table.total() == 4 * HIGH

    @pytest.mark.parametrize(
        "row_at",
        [
            lambda i: (i, 0),
            lambda i: (0, i),
            lambda i: (i << 40, i << 20),
            lambda i: ((i << 52) - (1 << 62), 1),
            lambda i: (-i, i),
        ],
        ids=["low bits", "second word", "strided", "high bits", "mirrored"],
    )
    def test_regular_rows_are_all_told_apart(self, row_at):
        rows = [row_at(i) for i in range(2000)]
        table = table_of(2, rows + rows[::2])
        assert dict(table.rows()) == Counter(rows + rows[::2])


class TestRefusals:
    """A change that cannot be made raises and leaves the table as it was."""

    def test_removing_a_row_that_is_not_there(self):
        table = table_of(2, [(1, 2)], (0,))
        message = assert_unchanged_by(table, OverDelete, lambda: table.add((1, 3), -1))
        assert message == "cannot remove 1 copy of row (1, 3): it is not there"

    def test_removing_more_copies_than_there_are(self):
        table = table_of(1, [(5,), (5,)], (0,))
        message = assert_unchanged_by(table, OverDelete, lambda: table.add((5,), -3))
        assert message == "cannot remove 3 copies of row (5,): only 2 there"
        assert_unchanged_by(table, OverDelete, lambda: table.add((5,), LOW))

    def test_over_delete_is_a_value_error(self):
        assert issubclass(OverDelete, ValueError)

    def test_a_multiplicity_beyond_64_bits(self):
        table = Table(1)
        table.add((5,), HIGH)
        assert_unchanged_by(table, OverflowError, lambda: table.add((5,), 1))
        assert_unchanged_by(table, OverflowError, lambda: table.add((5,), HIGH))
        assert table.add((5,), -HIGH) == 0

    @pytest.mark.parametrize(
        ("row", "error", "message"),
        [
            ((1,), ValueError, "this row must have 2 words, not 1"),
            ((1, 2, 3), ValueError, "this row must have 2 words, not 3"),
            ((), ValueError, "not 0"),
            ((1, "2"), TypeError, r"row\[1\] must be an int, not str"),
            ((1.0, 2), TypeError, r"row\[0\] must be an int, not float"),
            ((None, 2), TypeError, "not NoneType"),
            ((1, HIGH + 1), OverflowError, r"row\[1\] does not fit in 64 bits"),
            ((LOW - 1, 1), OverflowError, r"row\[0\] does not fit in 64 bits"),
            ((10**40, 1), OverflowError, "64 bits"),
            ("ab", TypeError, "not str"),
            (12, TypeError, "row must be a sequence of ints, not int"),
            (None, TypeError, "not NoneType"),
            ({1, 2}, TypeError, "not set"),
            ({1: 2, 3: 4}, TypeError, "not dict"),
        ],
    )
    def test_bad_rows(self, row, error, message):
        table = table_of(2, [(1, 2)])
        with pytest.raises(error, match=message):
            table.get(row)
        assert_unchanged_by(table, error, lambda: table.add(row))

    @pytest.mark.parametrize(("count", "error"), [(1.5, TypeError), (None, TypeError), (HIGH + 1, OverflowError)])
    def test_bad_counts(self, count, error):
        table = table_of(1, [(1,)])
        assert "count" in assert_unchanged_by(table, error, lambda: table.add((1,), count))

    @pytest.mark.parametrize(
        ("width", "error"),
        [(-1, ValueError), (65536, ValueError), (2**70, OverflowError), ("2", TypeError), (None, TypeError)],
    )
    def test_bad_widths(self, width, error):
        with pytest.raises(error):
            Table(width)

    @pytest.mark.parametrize(
        ("columns", "error"),
        [((2,), IndexError), ((-1,), IndexError), ((0, 0), ValueError), (("a",), TypeError), (0, TypeError)],
    )
    def test_bad_index_columns(self, columns, error):
        table = Table(2)
        with pytest.raises(error):
            table.add_index(columns)
        assert table.add_index((0,)) == 0

    def test_bad_groups(self):
        table = table_of(2, [(1, 2)], (0,))
        for index in (1, -1):
            with pytest.raises(IndexError, match=f"no index {index}: this table has 1"):
                table.group(index, (1,))
        with pytest.raises(ValueError, match="this key must have 1 word, not 2"):
            table.group(0, (1, 2))
        with pytest.raises(TypeError, match=r"key\[0\] must be an int"):
            table.group_size(0, ("x",))

    def test_an_error_inside_index_comes_through(self):
        class Broken:
            def __index__(self):
                raise RuntimeError("broken")

        table = Table(1)
        assert_unchanged_by(table, RuntimeError, lambda: table.add((Broken(),)))

    def test_a_row_that_changes_the_table_while_it_is_read(self):
        table = Table(2)

        class Meddler:
            def __index__(self):
                for word in range(100):
                    table.add((word, word))
                return 0

        assert table.add([Meddler(), Meddler()]) == 3
        assert (len(table), table.total()) == (100, 201)


class TestGroups:
    def test_a_group_has_the_rows_with_its_key(self):
        table = table_of(2, [(1, 10), (1, 11), (2, 10), (1, 10)], (0,), (1,))
        assert sorted(table.group(0, (1,))) == [((1, 10), 2), ((1, 11), 1)]
        assert sorted(table.group(1, (10,))) == [((1, 10), 2), ((2, 10), 1)]
        assert (table.group(0, (3,)), table.group_size(0, (3,)), table.group_size(0, (1,))) == ([], 0, 2)

    def test_the_key_follows_the_order_of_the_columns(self):
        table = table_of(3, [(1, 2, 3)], (2, 0))
        assert table.group(0, (3, 1)) == [((1, 2, 3), 1)]
        assert table.group(0, (1, 3)) == []

    def test_an_index_takes_in_the_rows_already_there(self):
        table = table_of(2, [(i % 7, i) for i in range(100)])
        index = table.add_index((0,))
        assert sorted(table.group(index, (3,))) == [((3, i), 1) for i in range(3, 100, 7)]

    def test_the_same_columns_are_the_same_index(self):
        table = Table(2)
        assert [table.add_index(columns) for columns in [(0,), (1,), (0, 1), (1, 0), [1]]] == [0, 1, 2, 3, 1]

    def test_an_index_on_nothing_has_all_rows(self):
        table = table_of(1, [(1,), (2,)], ())
        assert sorted(table.group(0, ())) == [((1,), 1), ((2,), 1)]

    def test_a_change_of_multiplicity_shows_in_the_group(self):
        table = table_of(2, [(1, 1), (1, 2)], (0,))
        table.add((1, 2), 8)
        assert sorted(table.group(0, (1,))) == [((1, 1), 1), ((1, 2), 9)]

    def test_clear_keeps_the_indexes(self):
        table = table_of(2, [(i % 3, i) for i in range(1000)], (0,))
        table.clear()
        assert (len(table), table.total(), table.rows(), table.group(0, (1,))) == (0, 0, [], [])
        table.add((1, 5))
        assert table.group(0, (1,)) == [((1, 5), 1)]


class TestMemory:
    @pytest.mark.parametrize("groups", [1, 50, 20_000], ids=["one group", "some groups", "a group a row"])
    @pytest.mark.parametrize("order", ["fifo", "lifo", "random"])
    def test_an_emptied_table_holds_nearly_nothing(self, groups, order):
        rows = [(i % groups, i) for i in range(20_000)]
        table = table_of(2, rows, (0,), (1,))
        full = table.nbytes()
        if order == "lifo":
            rows.reverse()
        elif order == "random":
            random.Random(1).shuffle(rows)
        for row in rows:
            table.add(row, -1)
        assert table.nbytes() <= EMPTY_BYTES + 2 * EMPTY_INDEX_BYTES < full

    def test_a_cleared_table_holds_nearly_nothing(self):
        table = table_of(2, [(i, i) for i in range(10_000)], (0,))
        table.clear()
        assert table.nbytes() <= EMPTY_BYTES

    def test_memory_follows_the_rows(self):
        table = table_of(2, [(i % 100, i) for i in range(50_000)], (0,))
        full = table.nbytes()
        for i in range(49_000):
            table.add((i % 100, i), -1)
        assert table.nbytes() < full / 10
        assert sorted(table.group(0, (5,))) == [((5, i), 1) for i in range(49_005, 50_000, 100)]

    def test_a_sliding_window_does_not_grow(self):
        table = Table(2)
        table.add_index((0,))
        sizes = []
        for i in range(60_000):
            table.add((i % 97 if i % 3 else i, i))
            if i >= 3000:
                old = i - 3000
                table.add((old % 97 if old % 3 else old, old), -1)
            if i >= 10_000:
                sizes.append(table.nbytes())
        assert len(table) == 3000
        assert max(sizes) <= 2 * sizes[0]

    def test_groups_that_take_turns_do_not_grow(self):
        table = Table(2)
        table.add_index((0,))
        sizes = []
        for turn in range(100):
            for i in range(200):
                table.add((turn, i))
            for i in range(200):
                table.add((turn, i), -1)
            sizes.append(table.nbytes())
        assert max(sizes) <= EMPTY_BYTES + EMPTY_INDEX_BYTES


def check_against(table, model, indexes):
    assert len(table) == len(model)
    assert table.total() == sum(model.values())
    rows = table.rows()
    assert len(rows) == len(model)
    assert dict(rows) == model
    for number, columns in indexes.items():
        groups = {}
        for row, count in model.items():
            groups.setdefault(tuple(row[c] for c in columns), {})[row] = count
        for key, members in groups.items():
            group = table.group(number, key)
            assert table.group_size(number, key) == len(group) == len(members)
            assert dict(group) == members


# Few values, the small ones most often, so that rows meet again and groups are of very different sizes.
WORDS = st.one_of(st.just(0), st.integers(0, 2), st.integers(0, 40), st.sampled_from([LOW, -1, HIGH]))


class TableMachine(RuleBasedStateMachine):
    """Whatever is done to a table is done to a Counter too, and they must agree."""

    @initialize(width=st.integers(0, 4))
    def start(self, width):
        self.table, self.model, self.indexes = Table(width), {}, {}

    def words(self, data, count):
        return tuple(data.draw(WORDS) for _ in range(count))

    def change(self, row, count):
        before = self.model.get(row, 0)
        after = before + count
        if after < 0:
            with pytest.raises(OverDelete):
                self.table.add(row, count)
        elif after > HIGH:
            with pytest.raises(OverflowError):
                self.table.add(row, count)
        else:
            assert self.table.add(row, count) == after
            self.model[row] = after
            if after == 0:
                del self.model[row]

    @rule(data=st.data(), count=st.one_of(st.just(1), st.integers(-3, 3), st.sampled_from([LOW, HIGH])))
    def change_any(self, data, count):
        self.change(self.words(data, self.table.width), count)

    @rule(data=st.data(), many=st.integers(1, 60), stride=st.integers(1, 3))
    def add_run(self, data, many, stride):
        row = self.words(data, self.table.width)
        for i in range(many):
            self.change(tuple(word if at else i * stride for at, word in enumerate(row)), 1)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), whole=st.booleans())
    def remove_one(self, data, whole):
        row = data.draw(st.sampled_from(sorted(self.model)))
        self.change(row, -self.model[row] if whole else -1)

    @precondition(lambda self: self.model)
    @rule(seed=st.integers(0, 9), part=st.sampled_from([0.5, 0.9, 1.0]))
    def remove_many(self, seed, part):
        rows = sorted(self.model)
        random.Random(seed).shuffle(rows)
        for row in rows[: round(part * len(rows))]:
            self.change(row, -self.model[row])

    @precondition(lambda self: len(self.indexes) < 3)
    @rule(data=st.data())
    def add_index(self, data):
        order = data.draw(st.permutations(range(self.table.width)))
        columns = tuple(order[: data.draw(st.integers(0, len(order)))])
        self.indexes[self.table.add_index(columns)] = columns

    @rule()
    def clear(self):
        self.table.clear()
        self.model.clear()

    @rule(data=st.data())
    def look_up(self, data):
        row = self.words(data, self.table.width)
        assert self.table.get(row) == self.model.get(row, 0)
        for number, columns in self.indexes.items():
            key = self.words(data, len(columns))
            expected = {r: n for r, n in self.model.items() if tuple(r[c] for c in columns) == key}
            assert dict(self.table.group(number, key)) == expected

    @invariant()
    def agrees(self):
        check_against(self.table, self.model, self.indexes)
        if not self.model:
            assert self.table.nbytes() <= EMPTY_BYTES + len(self.indexes) * EMPTY_INDEX_BYTES


TestAgainstModel = TableMachine.TestCase
TestAgainstModel.settings = settings(deadline=None)


@pytest.mark.parametrize("seed", range(4))
def test_long_skewed_runs_agree_with_a_counter(seed):
    """Grows to thousands of rows with Zipf-like keys, shrinks to nothing, and grows again."""
    rng = random.Random(seed)
    indexes = {0: (0,), 1: (1,), 2: (2, 0), 3: ()}
    table, model = Table(3), Counter()
    for columns in indexes.values():
        table.add_index(columns)
    live = []
    for growing in (0.8, 0.2, 0.7, 0.05):
        for _ in range(4000):
            if not live or rng.random() < growing:
                row = (int(rng.paretovariate(0.7)) % 1000, rng.randrange(5), rng.randrange(-(2**40), 2**40))
                row = rng.choice(live) if live and rng.random() < 0.1 else row
                live.append(row)
                model[row] += 1
                assert table.add(row) == model[row]
            else:
                at = rng.randrange(len(live))
                row, live[at] = live[at], live[-1]
                live.pop()
                model[row] -= 1
                assert table.add(row, -1) == model[row]
                if model[row] == 0:
                    del model[row]
        check_against(table, dict(model), indexes)
    for row in live:
        table.add(row, -1)
    assert table.rows() == []
    assert table.nbytes() <= EMPTY_BYTES + len(indexes) * EMPTY_INDEX_BYTES
