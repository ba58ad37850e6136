"""The dictionary beside a plain model, with every shape of Arrow array, and what it must refuse."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import everview as ev
from everview.engine.values.dictionary import NULL, UNKNOWN, Dictionary
from everview.errors import DataError
from tests.scale import thoroughness

TYPES = {
    "string": [pa.string(), pa.large_string()],
    "binary": [pa.binary(), pa.large_binary()],
    "decimal": [pa.decimal128(38, 2), pa.decimal128(37, 4)],
}
TEXTS = ["", "a", "\0", "a\0", "a\0b", "é", "日本語", "🙂" * 9, "1234567", "12345678", "123456789", "x" * 5_000]
POOL = {
    "string": TEXTS,
    "binary": [*(t.encode() for t in TEXTS), b"\xff", b"\x80" * 40],
    "decimal": [Decimal(n) for n in ("0", "1", "-1", "0.01", "-0.01", "1" * 33, "9" * 33 + ".99")],
}
BATCHES = st.sampled_from(list(POOL)).flatmap(
    lambda kind: st.tuples(st.just(kind), st.lists(st.none() | st.sampled_from(POOL[kind]), max_size=40))
)


class AgainstAModel(RuleBasedStateMachine):
    """The ids and uses of values, in Python's dict."""

    @initialize()
    def start(self) -> None:
        self.dictionary = Dictionary()
        self.ids: dict[tuple[str, Any], int] = {}
        self.uses: Counter[tuple[str, Any]] = Counter()

    @rule(chosen=BATCHES, before=st.integers(0, 9), wide=st.booleans(), counted=st.booleans(), keep=st.booleans())
    def encode(self, chosen: Any, before: int, wide: bool, counted: bool, keep: bool) -> None:
        kind, values = chosen
        padding = [*POOL[kind][:before], None]
        array = pa.array([*padding, *values, *padding], TYPES[kind][wide]).slice(len(padding), len(values))
        known = self.dictionary.lookup(array).to_pylist()
        assert known == [NULL if v is None else self.ids.get((kind, v), UNKNOWN) for v in values]
        ids = self.dictionary.encode(array)
        for value, id_ in zip(values, ids.to_pylist(), strict=True):
            assert id_ == NULL if value is None else self.ids.setdefault((kind, value), id_) == id_
        assert len({*self.ids.values()}) == len(self.ids)
        if keep:
            counts = [i % 3 for i in range(len(values))] if counted else [1] * len(values)
            self.dictionary.retain(ids, pa.array(counts, pa.int64()) if counted else None)
            for value, count in zip(values, counts, strict=True):
                if value is not None:
                    self.uses[kind, value] += count

    @rule(data=st.data(), twice=st.booleans())
    def release(self, data: st.DataObject, twice: bool) -> None:
        if not self.ids:
            return
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.ids, key=repr)), unique=not twice, max_size=10))
        ids = pa.array([NULL, *(self.ids[c] for c in chosen)], pa.int64())
        taken = Counter(chosen)
        if any(self.uses[c] < n for c, n in taken.items()):
            short = next(c for c in chosen if self.uses[c] < taken[c])
            with pytest.raises(ValueError, match=f"^{taken[short]} uses of id .* and it has {self.uses[short]}$"):
                self.dictionary.release(ids)
        else:
            self.dictionary.release(ids)
            self.uses -= taken

    @rule(data=st.data())
    def count(self, data: st.DataObject) -> None:
        """Uses come and go in one call; what is short in between is not short in the end."""
        if not self.ids:
            return
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.ids, key=repr)), max_size=10))
        changes = [data.draw(st.integers(-3, 3)) for _ in chosen]
        ids = pa.array([NULL, *(self.ids[c] for c in chosen)], pa.int64())
        after = self.uses.copy()
        for value, change in zip(chosen, changes, strict=True):
            after[value] += change
        counts = pa.array([-5, *changes], pa.int64())
        short = next((c for c in chosen if after[c] < 0), None)
        if short is None:
            self.dictionary.count(ids, counts)
            self.uses = after
        else:
            out = self.uses[short] - after[short]
            with pytest.raises(ValueError, match=f"^{out} uses of id .* and it has {self.uses[short]}$"):
                self.dictionary.count(ids, counts)

    @rule()
    def collect(self) -> None:
        unused = [v for v in self.ids if not self.uses[v]]
        assert self.dictionary.collect() == len(unused)
        for value in unused:
            del self.ids[value]

    @rule()
    def go_back(self) -> None:
        uses = self.dictionary.uses()
        ids = self.dictionary.encode(pa.array(["new"]))
        self.dictionary.retain(ids)
        self.dictionary.retain(pa.array(self.ids.values(), pa.int64()))
        self.dictionary.reset_uses(uses)
        self.ids["string", "new"] = ids[0].as_py()

    @rule()
    def save_and_load(self) -> None:
        self.dictionary.become(Dictionary.from_state(self.dictionary.to_state()))

    @invariant()
    def same_as_the_model(self) -> None:
        assert len(self.dictionary) == len(self.ids)
        state = self.dictionary.to_state()
        for kind, types in TYPES.items():
            mine = {v: i for (k, v), i in self.ids.items() if k == kind}
            saved = zip(*(state[kind][c].to_pylist() for c in ("value", "id", "count")), strict=True)
            assert {v: (i, n) for v, i, n in saved} == {v: (i, self.uses[kind, v]) for v, i in mine.items()}
            ids = pa.array([NULL, *mine.values(), NULL], pa.int64())
            for arrow in types:
                found = self.dictionary.decode(ids[1:], arrow)
                found.validate(full=True)
                assert found.type == arrow
                assert found.to_pylist() == [*mine, None]
                assert self.dictionary.has_all(ids, arrow)
            for other in TYPES.keys() - {kind}:
                assert self.dictionary.has_all(ids, TYPES[other][0]) == (not mine)


TestAgainstAModel = AgainstAModel.TestCase
TestAgainstAModel.settings = thoroughness(25)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=0, min_value=-(10**38) + 1), max_size=5))
def test_every_decimal_comes_back(numbers: list[Decimal]) -> None:
    dictionary = Dictionary()
    for scale in (0, 1, 19, 37, 38):
        arrow = pa.decimal128(38, scale)
        values = pa.array([int(n) % 10**38 * (-1) ** (n < 0) for n in numbers], pa.decimal128(38, 0))
        array = pa.Array.from_buffers(arrow, len(values), values.buffers())
        assert dictionary.decode(dictionary.encode(array), arrow).equals(array)


def test_memory_falls_back() -> None:
    dictionary = Dictionary()
    empty = dictionary.nbytes()
    for size in (1, 100, 10_000):
        array = pa.array([f"{i:050}" for i in range(size)])
        ids = dictionary.encode(array)
        dictionary.retain(ids)
        assert dictionary.nbytes() > empty + 50 * size
        dictionary.release(ids)
        assert dictionary.collect() == size
        assert dictionary.nbytes() == empty


def test_memory_stays_while_values_come_and_go() -> None:
    dictionary = Dictionary()
    most = 0
    for start in range(0, 50_000, 500):
        ids = dictionary.encode(pa.array([f"{i:050}" for i in range(start, start + 1_000)]))
        dictionary.retain(ids[500:])
        if start:
            dictionary.release(ids[:500])
        dictionary.collect()
        most = max(most, dictionary.nbytes())
    assert len(dictionary) == 500
    assert most < 1_000 * 150


def test_going_back_does_not_free_ids_twice() -> None:
    dictionary = Dictionary()
    ids = dictionary.encode(pa.array(list("abcde")))
    dictionary.retain(ids[2:])
    dictionary.collect()
    dictionary.reset_uses(dictionary.uses())
    assert dictionary.collect() == 0
    assert len(dictionary) == 3
    assert len(set(dictionary.encode(pa.array(list("vwxyz"))).to_pylist())) == 5


def test_a_refused_view_leaves_every_string_its_own_id() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT, s STRING)")
    db.insert("t", [(i, f"a{i}") for i in range(100)])
    db.delete("t", [(0, "a0"), (1, "a1")])
    with pytest.raises(DataError):
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, CAST(s AS INT) AS n FROM t")
    db.insert("t", [(i, letter) for i, letter in enumerate("wxyz")])
    assert len(db._dictionary) == 102
    assert len(set(db._dictionary.lookup(pa.array(list("wxyz"))).to_pylist())) == 4


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_ids_that_nothing_has(wrong: int) -> None:
    dictionary = Dictionary()
    dictionary.retain(dictionary.encode(pa.array(["a", "b", "c"])))
    before = dictionary.to_state()
    ids = pa.array([0, wrong])
    for use in (dictionary.retain, dictionary.release, lambda i: dictionary.decode(i, pa.string())):
        with pytest.raises(IndexError, match=str(wrong)):
            use(ids)
    with pytest.raises(IndexError, match="kind"):
        dictionary.decode(ids[:1], pa.binary())
    assert not dictionary.has_all(ids, pa.string())
    assert dictionary.to_state() == before


def test_more_uses_than_can_be_counted() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (s STRING); CREATE TABLE u (s STRING)")

    def change(kind: str, table: str) -> None:
        with db.batch() as batch:
            batch.apply(table, pa.table({"s": ["x"], "_change_type": [kind], "_count": [2**62]}))

    change("insert", "t")
    before = db._dictionary.to_state()
    with pytest.raises(DataError, match="more often than 64 bits can count; nothing has changed"):
        change("insert", "u")
    assert db._dictionary.to_state() == before
    change("delete", "t")
    assert len(db._dictionary) == 0


def saved(ids: list[Any], values: list[Any], counts: list[Any]) -> dict[str, pa.Table]:
    columns = (ids, pa.int64()), (values, pa.large_string()), (counts, pa.int64())
    table = pa.table([pa.array(v, t) for v, t in columns], ["id", "value", "count"])
    return Dictionary().to_state() | {"string": table}


@pytest.mark.parametrize(
    "state",
    [
        saved([0, 0], ["a", "b"], [1, 1]),
        saved([0, 1], ["a", "a"], [1, 1]),
        saved([0, 1], ["a", "b"], [1, -1]),
        saved([0, -1], ["a", "b"], [1, 1]),
        saved([0, 2**31], ["a", "b"], [1, 1]),
        saved([0, None], ["a", "b"], [1, 1]),
        saved([0, 1], ["a", None], [1, 1]),
        saved([0, 1], ["a", "b"], [1, None]),
        saved([], [], []) | {"string": pa.table({"id": [1]})},
    ],
)
def test_a_state_that_cannot_be(state: dict[str, pa.Table]) -> None:
    with pytest.raises(ValueError, match="dictionary of string"):
        Dictionary.from_state(state)


def test_ids_with_holes_are_filled_after_loading() -> None:
    dictionary = Dictionary.from_state(saved([5, 2], ["a", "b"], [1, 0]))
    assert dictionary.encode(pa.array(list("cdefg"))).to_pylist() == [0, 1, 3, 4, 6]
    assert dictionary.collect() == 6
    assert dictionary.lookup(pa.array(["a", "b"])).to_pylist() == [5, UNKNOWN]


def test_a_batch_that_is_taken_back_has_freed_nothing() -> None:
    dictionary = Dictionary()
    ids = dictionary.encode(pa.array(["a", "b"]))
    dictionary.retain(ids)
    dictionary.begin()
    dictionary.release(ids)
    new = dictionary.encode(pa.array(["c"]))
    dictionary.retain(new)
    assert dictionary.collect() == 0
    dictionary.roll_back()
    assert dictionary.collect() == 1
    assert dictionary.decode(ids, pa.string()).to_pylist() == ["a", "b"]
    assert dictionary.uses().to_pylist()[:2] == [1, 1]
    dictionary.begin()
    dictionary.release(ids)
    dictionary.commit()
    assert dictionary.collect() == 2
