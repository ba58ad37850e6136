"""The difference of a core's result to an earlier state, made of the stored rows that have changed since.

A result is a row of every node of a tree, each below one row of its parent (``DifferenceNode``). Of the rows that have
changed it is known what they weighed, and the state is that of now; so for every row above them it can be counted
whether it was, and is, part of a result, and what both states have in common below it. A result that only one state has
differs first at some child, in the order of the children: it is common before that child, differs there, and is any
that its own state has after it (q-hierarchical.md 8). So nothing is made that is not part of the difference, and every
group is listed only where each of its rows is: the time is that of the updates and the difference, whatever the result.

The weight is part of what a row is here: one that weighs something else is gone, and another one has come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.counts import Columns
from everview.engine.operators.fetched import FEWER, TOO_MANY
from everview.engine.operators.join import Join
from everview.engine.operators.steps import unlimited
from everview.engine.values.rows import words_array, zeros
from everview.errors import TooManyRowsError
from everview.kernel.machine import UpdateFault
from everview.query.terms import Var

_ALL, _WEIGHT = "all", "weight"
"""A column that is the same everywhere, as Arrow joins by no columns not at all; and that of weights."""
_OLD, _NEW = "old", "new"
_SIGN = pa.scalar(-(2**63), pa.int64())
"""Words without it are compared as if they had no sign."""
Names = list[str]


class State(Enum):
    """Of which state something is."""

    NOW = "now"
    BEFORE = "before"
    BOTH = "both"


@dataclass(frozen=True)
class _Changed:
    """The rows of a node with which, or below which, something has changed, and what is so of each of them.

    Columns beside the words: ``old`` and ``new`` weights; whether it matches ``now``, did ``before``, has what is
    ``common`` to both, ``plus`` and ``minus`` what only one has, and whether it is another row as a ``whole``.
    """

    rows: pa.Table

    def where(self, *flags: str) -> pa.Table:
        """Those of which all of this is so."""
        return self.rows.filter(reduce(pc.and_, (self.rows[flag] for flag in flags)))


class Difference:
    """Finds differences of a core's result."""

    def __init__(self, core: Join) -> None:
        self.core = core
        self.part = core.part
        self.nodes = core.maintained.difference
        self.children = [[j for j, n in enumerate(self.nodes) if n.parent == i] for i in range(len(self.nodes))]
        self._changed: list[_Changed] = []

    def between(self, logged: Sequence[Columns | None]) -> tuple[tuple[Columns, pa.Array], tuple[Columns, pa.Array]]:
        """What only the state of now has, and what only the one before had: words and weights of results.

        ``logged`` has for each node the rows that have changed, once each, with what they weighed then, in columns.
        """
        try:
            with unlimited(self.part.machine):
                self._changed = [_Changed(pa.table({}))] * len(self.nodes)
                for i in reversed(range(len(self.nodes))):
                    self._changed[i] = self._compared(i, logged[i])
                return self._side(State.NOW, "plus"), self._side(State.BEFORE, "minus")
        finally:
            self._changed = []

    def _side(self, state: State, flag: str) -> tuple[Columns, pa.Array]:
        found = self._delta(0, self._changed[0].where(flag), state)
        words = tuple(_column(found, name) for name in _names(self.core.maintained.outputs))
        return words, _column(found, _WEIGHT)

    # --- what has changed ------------------------------------------------------------------------------------------

    def _compared(self, i: int, logged: Columns | None) -> _Changed:
        """The rows of a node that have changed themselves, or below which something has, children being done."""
        node = self.nodes[i]
        keys = _keys(node.variables)
        words = max(1, node.words)
        olds = [f"{_OLD}{k}" for k in range(words)]
        own = _table(node.variables, logged or (), olds)
        below = [(c, self._below_each(c, keys)) for c in self.children[i]]
        rows = _distinct([own.select(keys), *(t.select(keys) for _, t in below)], keys)
        if not rows.num_rows:
            return _Changed(_empty(keys))
        asked = self.part.ask(node.now, _words(rows, node.variables))
        answers = [words_array(c) for c in asked]
        news = [f"{_NEW}{k}" for k in range(words)]
        for name, column in zip([*news, *(f"count{c}" for c in self.children[i])], answers, strict=True):
            rows = rows.append_column(name, column)
        rows = _left_joined(rows, own, keys)
        for _, table in below:
            rows = _left_joined(rows, table, keys)
        if not node.words:  # Such rows are there because of their children alone.
            old = new = _ones(rows)
        else:
            was = pc.is_valid(rows[olds[0]])
            now = [rows[name] for name in news]
            then = [pc.if_else(was, rows[name], word) for name, word in zip(olds, now, strict=True)]
            if len(self.nodes) == 1:  # Rows are results: only by how much they differ has to fit one word.
                more = _one_word(_subtracted(now, then))
                new, old = (pc.max_element_wise(word, 0) for word in (more, pc.negate(more)))
            else:
                new, old = _one_word(now), _one_word(then)
        is_now, was_before = pc.not_equal(new, 0), pc.not_equal(old, 0)
        common = same = pc.equal(old, new)
        plus = minus = pc.not_equal(new, new)
        for c in self.children[i]:
            count = rows[f"count{c}"]
            before = pc.add(pc.subtract(count, _filled(rows, f"came{c}")), _filled(rows, f"went{c}"))
            alike = pc.subtract(count, _filled(rows, f"other{c}"))
            is_now = pc.and_(is_now, pc.greater(count, 0))
            was_before = pc.and_(was_before, pc.greater(before, 0))
            common = pc.and_(common, pc.greater(alike, 0))
            rows = rows.append_column(f"core{c}", pc.greater(alike, 0))
            plus = pc.or_(plus, pc.greater(_filled(rows, f"plus{c}"), 0))
            minus = pc.or_(minus, pc.greater(_filled(rows, f"minus{c}"), 0))
        both = pc.and_(is_now, was_before)
        whole = pc.invert(pc.and_(both, same))
        flags = {
            _OLD: old,
            _NEW: new,
            "now": is_now,
            "before": was_before,
            "common": pc.and_(both, common),
            "plus": pc.and_(is_now, pc.or_(whole, plus)),
            "minus": pc.and_(was_before, pc.or_(whole, minus)),
            "whole": whole,
        }
        kept = {k: rows[k] for k in (*keys, *(f"{what}{c}" for c in self.children[i] for what in _USED))}
        return _Changed(pa.table({**kept, **flags}).filter(pc.or_(flags["plus"], flags["minus"])))

    def _below_each(self, c: int, keys: Names) -> pa.Table:
        """How many changed rows of a child there are below each row: that came or went, and so on."""
        rows = self._changed[c].rows
        is_now, before = rows["now"], rows["before"]
        told = {
            f"came{c}": pc.and_not(is_now, before),
            f"went{c}": pc.and_not(before, is_now),
            f"other{c}": pc.and_not(is_now, rows["common"]),
            f"plus{c}": rows["plus"],
            f"minus{c}": rows["minus"],
        }
        table = pa.table({**{k: rows[k] for k in keys}, **{n: f.cast(pa.int64()) for n, f in told.items()}})
        summed = table.group_by(keys, use_threads=False).aggregate([(name, "sum") for name in told])
        return summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])

    # --- what differs ----------------------------------------------------------------------------------------------

    def _delta(self, i: int, rows: pa.Table, state: State) -> pa.Table:
        """What only one state has of some changed rows and all below them."""
        names = _keys(self.nodes[i].results)
        if not rows.num_rows:
            return _empty([*names, _WEIGHT])
        flag = "plus" if state is State.NOW else "minus"
        whole = rows["whole"]
        found = [self._full(i, rows.filter(whole), state)]
        alike = rows.filter(pc.invert(whole))
        for place, c in enumerate(self.children[i]):
            here = alike.filter(pc.greater(_filled(alike, f"{flag}{c}"), 0))
            if here.num_rows:
                parts = [self._common_part(b, here) for b in self.children[i][:place]]
                parts.append(self._delta(c, _below(self._changed[c].where(flag), here, self._up(c)), state))
                parts += [self._full_part(b, here, state) for b in self.children[i][place + 1 :]]
                found.append(self._product(i, here, _NEW, parts))
            alike = alike.filter(alike[f"core{c}"])
        return pa.concat_tables([t.select([*names, _WEIGHT]) for t in found])

    def _full(self, i: int, rows: pa.Table, state: State) -> pa.Table:
        """All that one state has, or both have, of some changed rows and all below them."""
        if not rows.num_rows:
            return _empty([*_keys(self.nodes[i].results), _WEIGHT])
        weight = _OLD if state is State.BEFORE else _NEW
        if state is State.NOW and self.children[i]:
            return self._now_below(i, rows)
        if state is State.BOTH:
            return self._product(i, rows, weight, [self._common_part(c, rows) for c in self.children[i]])
        return self._product(i, rows, weight, [self._full_part(c, rows, state) for c in self.children[i]])

    def _full_part(self, c: int, parents: pa.Table, state: State) -> pa.Table:
        """All that one state has below some rows of the parent, at one child."""
        if state is State.NOW:
            return self._now_below(c, self._group(c, parents))
        own = self._full(c, _below(self._changed[c].where("before"), parents, self._up(c)), state)
        return self._with_unchanged(c, parents, own)

    def _common_part(self, c: int, parents: pa.Table) -> pa.Table:
        """All that both states have."""
        own = self._full(c, _below(self._changed[c].where("common"), parents, self._up(c)), State.BOTH)
        return self._with_unchanged(c, parents, own)

    def _with_unchanged(self, c: int, parents: pa.Table, changed: pa.Table) -> pa.Table:
        """What is made of changed rows, and what both states have of all others."""
        keys = _keys(self.nodes[c].variables)
        known = self._changed[c].rows.select(keys)
        group = self._group(c, parents)
        others = group.join(known, keys, join_type="left anti", use_threads=False) if known.num_rows else group
        names = [*_keys(self.nodes[c].results), _WEIGHT]
        return pa.concat_tables([changed.select(names), self._now_below(c, others).select(names)])

    def _product(self, i: int, rows: pa.Table, weight: str, parts: Sequence[pa.Table]) -> pa.Table:
        """What is made of some rows, with these weights, and what stands below them at each child."""
        keys = _keys(self.nodes[i].variables)
        found = rows.select([*keys, weight]).rename_columns([*keys, _WEIGHT])
        for part in parts:
            renamed = part.rename_columns([f"{_WEIGHT} below" if n == _WEIGHT else n for n in part.column_names])
            found = found.join(renamed, keys, join_type="inner", use_threads=False)
            try:
                weights = pc.multiply_checked(found[_WEIGHT], found[f"{_WEIGHT} below"])
            except pa.ArrowInvalid as overflow:
                raise TooManyRowsError(TOO_MANY, hint=FEWER) from overflow
            found = found.drop_columns([_WEIGHT, f"{_WEIGHT} below"]).append_column(_WEIGHT, weights)
        return found.select([*_keys(self.nodes[i].results), _WEIGHT])

    # --- what is there now -----------------------------------------------------------------------------------------

    def _group(self, c: int, parents: pa.Table) -> pa.Table:
        """The rows of a node that match, below some rows of the parent."""
        node = self.nodes[c]
        return self._emitted(node.group, parents, node.key, node.variables)

    def _now_below(self, i: int, rows: pa.Table) -> pa.Table:
        """What some rows that match are joined with now; of a leaf that is what they weigh."""
        node = self.nodes[i]
        return rows if node.below is None else self._emitted(node.below, rows, node.variables, node.results)

    def _emitted(self, procedure: str, rows: pa.Table, asked: Sequence[Var], variables: Sequence[Var]) -> pa.Table:
        if not rows.num_rows:
            return _empty([*_keys(variables), _WEIGHT])
        try:
            columns = self.part.emitted(procedure, _words(rows, asked), procedure)[1:]
        except UpdateFault as fault:
            raise TooManyRowsError(TOO_MANY, hint=FEWER) from fault
        arrays = [words_array(c) for c in columns]
        weights = [f"{_WEIGHT}{k}" for k in range(len(arrays) - len(variables))]
        found = _table(variables, arrays, weights)
        return found.select(_keys(variables)).append_column(_WEIGHT, _one_word([found[name] for name in weights]))

    def _up(self, c: int) -> Names:
        """The columns of a node's rows that say which row of the parent they are below."""
        parent = self.nodes[c].parent
        return _keys(() if parent is None else self.nodes[parent].variables)


_USED = ("plus", "minus", "core")
"""What is known of each child of a changed row."""


def _below(rows: pa.Table, parents: pa.Table, keys: Names) -> pa.Table:
    """Those rows that are below some of the parent's."""
    return rows.join(parents.select(keys), keys, join_type="left semi", use_threads=False) if rows.num_rows else rows


def _name(v: Var) -> str:
    return f"@{v.name}"


def _names(variables: Sequence[Var]) -> Names:
    return [_name(v) for v in variables]


def _keys(variables: Sequence[Var]) -> Names:
    return [_ALL, *_names(sorted(variables))]


def _table(variables: Sequence[Var], columns: Sequence[pa.Array], further: Names) -> pa.Table:
    """Columns of words under their names, and the one that is the same everywhere."""
    names = [*_names(variables), *further]
    arrays = list(columns) or [zeros(0) for _ in names]
    return pa.table([zeros(len(arrays[0])), *arrays], names=[_ALL, *names])


def _empty(names: Names) -> pa.Table:
    flags = ("now", "before", "common", "plus", "minus", "whole")
    found = {name: zeros(0) for name in [*names, _OLD, _NEW]} | {f: pa.array([], pa.bool_()) for f in flags}
    return pa.table(found)


def _distinct(tables: Sequence[pa.Table], keys: Names) -> pa.Table:
    return pa.concat_tables(tables).group_by(keys, use_threads=False).aggregate([])


def _left_joined(rows: pa.Table, others: pa.Table, keys: Names) -> pa.Table:
    return rows.join(others, keys, join_type="left outer", use_threads=False)


def _filled(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A number that is 0 where nothing is known."""
    return pc.fill_null(rows[name], 0)


def _ones(rows: pa.Table) -> pa.ChunkedArray:
    return pc.add(rows[_ALL], 1)


def _column(table: pa.Table, name: str) -> pa.Array:
    return table[name].combine_chunks() if table.num_rows else zeros(0)


def _words(rows: pa.Table, variables: Sequence[Var]) -> list[pa.Array]:
    return [_column(rows, name) for name in _names(variables)] or [zeros(rows.num_rows)]


def _one_word(words: Sequence[pa.ChunkedArray]) -> pa.ChunkedArray:
    """A number that is in several words, the lowest first; refused where it does not fit one."""
    lowest, *higher = words
    sign = pc.if_else(pc.less(lowest, 0), -1, 0)
    for word in higher:
        if pc.any(pc.not_equal(word, sign)).as_py():
            raise TooManyRowsError(TOO_MANY, hint=FEWER)
    return lowest


def _subtracted(numbers: Sequence[pa.ChunkedArray], others: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
    """Numbers less others, in words, the lowest first."""
    found = []
    borrowed = pc.not_equal(numbers[0], numbers[0])
    for number, other in zip(numbers, others, strict=True):
        difference = pc.subtract(number, other)
        found.append(pc.subtract(difference, borrowed.cast(pa.int64())))
        is_less = pc.less(pc.bit_wise_xor(number, _SIGN), pc.bit_wise_xor(other, _SIGN))
        borrowed = pc.or_(is_less, pc.and_(borrowed, pc.equal(difference, 0)))
    return found
