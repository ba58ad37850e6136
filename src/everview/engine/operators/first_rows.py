"""The first rows in a total order, of all or of each partition: ORDER BY … LIMIT, and ROW_NUMBER() <= k.

All rows are kept in order by the kernel, with their copies, and those that are taken once more. What a batch changes
can change what is taken only in partitions where a row comes or goes before the end of the cut: there the rows that are
taken are listed anew, so an update costs O(log N), and O(k) more where it matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Columns, Fold, Kept
from everview.engine.operators.sides import OneSide, Operator, pieces_of
from everview.engine.operators.steps import CHUNK
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, negated, repeated, zeros
from everview.engine.values.words import is_wide, ordered_words
from everview.kernel.program import Order
from everview.programs.counts import Ranked
from everview.programs.link import Linker
from everview.query.types import BIGINT, BOOLEAN, Kind
from everview.query.view import Counting, Cut

_NULL = pa.scalar(NULL, pa.int64())
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)


class FirstRows(OneSide):
    """A cut at work, over the operator that gives the rows it is made of."""

    needs_deltas = True
    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(self, source: Operator, cut: Cut, dictionary: Dictionary, linker: Linker) -> None:
        super().__init__(source)
        self.cut = cut
        self.width = len(cut.columns)
        self._types = [c.type for c in cut.body.columns]
        self._flagged: list[int] = []
        """The columns for which a further one says whether they are NULL, as NULL is not the least of them here."""
        self._ranked = self._order()
        types = [BIGINT if t.kind in _FLOATS else t for t in self._types] + [BOOLEAN] * len(self._flagged)
        self.ordered = Fold(types, 1, dictionary, linker, ranked=self._ranked)
        shown = [c.type for c in cut.columns]
        self.shown = Fold(shown, 1, dictionary, linker, by=[cut.partition])

    def _order(self) -> Ranked:
        columns = list(self.cut.partition)
        descending: list[int] = []
        for key in self.cut.keys:
            if key.column in columns:
                continue  # Rows that come here have one value in it.
            if not key.is_plain:
                flag = len(self._types) + len(self._flagged)
                self._flagged.append(key.column)
                columns.append(flag)
                descending += [flag] if key.nulls_first else []
            columns.append(key.column)
            descending += [key.column] if key.descending else []
        partition = len(self.cut.partition)
        keys = len(columns) - partition
        columns += [i for i in range(self.width) if i not in columns]
        wide = tuple(c for c in columns[partition:] if c < len(self._types) and is_wide(self._types[c]))
        return Ranked(Order(tuple(columns), 0, wide, tuple(descending)), partition, keys)

    def seed(self) -> None:
        """A global aggregate has a row before there is any input."""
        super().seed()
        for rows in self.source.rows():
            self._changed(rows)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """All rows in order, those that are taken, and the folds of what gives the rows."""
        return (self.ordered, self.shown, *super().folds)

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """A row may come as another one goes."""
        return False

    def process(self, changes: Changes) -> WordRows:
        """Take in updates; gives the rows that are taken now and were not, and those that were."""
        delta = WordRows.concat(pieces_of(self.source, changes), self.source.width)
        if not len(delta):
            return WordRows.empty(self.width)
        columns, change = self._changed(delta)
        position = changes.rows.update[0].as_py() if len(changes) else 0
        return WordRows(columns, change, repeated(position, len(change)))

    def _changed(self, delta: WordRows) -> tuple[Columns, pa.Array]:
        """Keep what has changed; gives the change of what is taken."""
        stored = self._stored(delta.columns)
        near = self._near(stored)
        self.ordered.add(stored, (delta.weight,))
        touched = self.ordered.touched()
        near |= self._near(touched[0])
        self.ordered.settle(touched)
        for partition in near:
            for columns, (copies,) in list(self._shown(partition)):
                self.shown.add(columns, (negated(copies),))
        for partition in near:
            for rows in self._taken(partition):
                self.shown.add(rows.columns, (rows.weight,))
        columns, (old,), (new,) = changed = self.shown.touched()
        self.shown.settle(changed)
        change = pc.subtract(new, old)
        mask = pc.not_equal(change, ZERO)
        return tuple(c.filter(mask) for c in columns), change.filter(mask)

    def _near(self, stored: Columns) -> set[tuple[int, ...]]:
        """The partitions of those of some rows that are there, and before the end of the cut."""
        end = self.cut.end
        if not len(stored[0]) or end == 0:
            return set()
        there, rank, first = self.ordered.places(stored)
        mask = pc.equal(there, 1)
        if end is not None and self.cut.counting is not Counting.DENSE_RANKS:
            place = rank if self.cut.counting is Counting.ROWS else first
            mask = pc.and_(mask, pc.less(place, end))
        if not self.cut.partition:
            return {()} if pc.any(mask).as_py() else set()
        return set(zip(*(stored[i].filter(mask).to_pylist() for i in self.cut.partition), strict=True))

    def _stored(self, columns: Columns) -> Columns:
        """Columns as they are kept in order: doubles by words that compare as they do, and flags for NULL."""
        flags = (pc.equal(columns[i], _NULL).cast(pa.int64()) for i in self._flagged)
        return (*(ordered_words(c, t) for c, t in zip(columns, self._types, strict=True)), *flags)

    def _shown(self, partition: Sequence[int]) -> Iterator[tuple[Columns, Columns]]:
        return self.shown.found(0, [self._word(i, w) for i, w in zip(self.cut.partition, partition, strict=True)])

    def _word(self, column: int, word: int) -> int:
        """A word that is kept in order as the word of its value."""
        return int(ordered_words(pa.array([word], pa.int64()), self._types[column])[0].as_py())

    def _taken(self, partition: Sequence[int]) -> Iterator[WordRows]:
        """The rows of a partition that are taken, in order."""
        end, start = self.cut.end, self.cut.offset
        if end == 0:
            return
        taken = self._as_rows if self.cut.counting is Counting.ROWS else self._as_ranks
        most = CHUNK if self.cut.limit is None else min(CHUNK, self.cut.limit + 1)
        state = _Passed(start)
        for columns, (copies,) in self.ordered.from_rank(partition, start, most):
            if start and state.is_first:
                state.passed = self.ordered.places(tuple(c.slice(0, 1) for c in columns))[1][0].as_py()
            state.is_first = False
            weights = taken(columns, copies.to_pylist(), state)
            values = zip(columns[: self.width], self._types, strict=False)
            words = tuple(ordered_words(c.slice(0, len(weights)), t) for c, t in values)
            yield WordRows(words, pa.array(weights, pa.int64()), zeros(len(weights)))
            if len(weights) < len(copies):
                return

    def _as_rows(self, columns: Columns, copies: list[int], state: _Passed) -> list[int]:
        """How many copies are taken of each of the next rows, up to the last one."""
        found, start, end = [], self.cut.offset, self.cut.end
        for own in copies:
            if end is not None and state.passed >= end:
                break
            stop = state.passed + own
            found.append((stop if end is None else min(stop, end)) - max(state.passed, start))
            state.passed = stop
        return found

    def _as_ranks(self, columns: Columns, copies: list[int], state: _Passed) -> list[int]:
        """The same where all rows with the same keys are taken, or none of them."""
        found, end = [], self.cut.end
        first, keys = self._ranked.partition, self._ranked.keys
        places = self._ranked.order.columns[first : first + keys]
        each = zip(*(columns[i].to_pylist() for i in places), strict=True) if places else [()] * len(copies)
        for key, own in zip(each, copies, strict=True):
            if key != state.key:
                state.key, state.rank = key, state.passed
                state.different += 1
            dense = self.cut.counting is Counting.DENSE_RANKS
            if end is not None and (state.different > end if dense else state.rank >= end):
                break
            found.append(own)
            state.passed += own
        return found

    def test(self, row: Sought) -> bool:
        """A lookup among the rows that are taken."""
        return self.shown.holds(row.words)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if the columns are all that there are."""
        return len(columns) == self.width

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """The same: nothing would be kept by other columns."""
        return self.looks_up(columns)

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """A lookup of a whole row."""
        if len(given.columns) < self.width:
            return None
        words = [word for _, word in sorted(given.words.items())]
        copies = self.shown.measures_of(words)
        if copies is None or not copies[0]:
            return iter(())
        return iter((WordRows(tuple(repeated(w, 1) for w in words), repeated(copies[0], 1), zeros(1)),))

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed: in the order of the cut, also where equal rows differ in a key that is not shown."""
        return self.rows(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The rows that are taken: in their order, where they are the first of all."""
        if not self.cut.partition:
            yield from self._taken(())
            return
        for columns, (copies,) in self.shown.rows():
            yield WordRows(columns, copies, zeros(len(copies)))


class _Passed:
    """How far a walk through a partition has come."""

    def __init__(self, passed: int) -> None:
        self.passed = passed
        self.is_first = True
        self.key: tuple[int, ...] | None = None
        self.rank = 0
        self.different = 0
