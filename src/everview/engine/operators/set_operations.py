"""UNION, EXCEPT and INTERSECT at work: copies of each row on each side, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Fold, Kept
from everview.engine.operators.merged import Merged
from everview.engine.operators.select import Select
from everview.engine.operators.sides import Operator, Sides, pieces_of
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, repeated, zeros
from everview.errors import TooManyRowsError
from everview.plan.set_operations import are_disjoint
from everview.programs.link import Linker
from everview.query.view import SetOperation, SetOperator


class Concatenation(Sides):
    """UNION ALL: the rows of all sides.

    No row is on two sides if they are ``disjoint``. Sides that can be kept in one ``order``, by these columns, are
    merged for what goes by positions.
    """

    def __init__(self, sides: tuple[Operator, ...], *, disjoint: bool = False, order: Sequence[int] = ()) -> None:
        super().__init__(sides)
        self.disjoint = disjoint
        selects = [side for side in sides if isinstance(side, Select)]
        is_ordered = bool(order) and len(selects) == len(sides) and all(side.is_in_order for side in selects)
        self._merged = Merged(selects) if is_ordered else None
        self._columns = tuple(order)

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """Two sides may give the same row."""
        return False

    @property
    def is_net_per_update(self) -> bool:
        """True if all sides are."""
        return all(s.is_net_per_update for s in self.sides)

    @property
    def keeps_update_numbers(self) -> bool:
        """True if all sides do."""
        return all(s.keeps_update_numbers for s in self.sides)

    def process(self, changes: Changes) -> WordRows:
        """What changed on any side."""
        return WordRows.concat(self.pieces(changes), self.width)

    def pieces(self, changes: Changes) -> Iterator[WordRows]:
        """One side after the other."""
        for side in self.sides:
            yield from pieces_of(side, changes)

    def count(self) -> int | None:
        """The rows of all sides together."""
        counts = [side.count() for side in self.sides]
        return None if None in counts else sum(c for c in counts if c is not None)

    def counted(self) -> int | None:
        """The same, each side as it can."""
        found = 0
        for side in self.sides:
            known = side.count()
            known = side.counted() if known is None else known
            if known is None:
                return None
            found += known
        return found

    def recounted(self) -> int | None:
        """The same, each side in the first way that can tell."""
        found = 0
        for side in self.sides:
            known = side.count()
            known = side.counted() if known is None else known
            if known is None:
                try:
                    known = sum(rows.copies for rows in side.rows())
                except TooManyRowsError:
                    known = side.recounted()
            if known is None:
                return None
            found += known
        return found

    def test(self, row: Sought) -> bool | None:
        """One side that has the row is enough."""
        is_known = True
        for side in self.sides:
            found = side.test(row)
            if found:
                return True
            is_known = is_known and found is not None
        return False if is_known else None

    @property
    def may_access(self) -> bool:
        """True if a side could, and all others can or could, and no row has copies on two of them that stand apart."""
        if not (self.disjoint or self._columns):
            return False
        could = [side.may_access for side in self.sides]
        return any(could) and all(m or side.access(()) is not None for m, side in zip(could, self.sides, strict=True))

    @property
    def order(self) -> tuple[int, ...] | None:
        """The one in which all sides are kept."""
        by_value = self._in_order is not None and all(side.order is not None for side in self._in_order.sides)
        return self._columns if by_value and not self.disjoint else None

    @property
    def _in_order(self) -> Merged | None:
        """The rows in the order of all sides, if they are kept so and there are no more than positions go."""
        return None if self._merged is None or self._merged.total is None else self._merged

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """The rows in the order of all sides; or of those in which the positions fall, as they were asked for."""
        if not self.disjoint:
            return None if self._in_order is None else self._in_order.access(positions)
        found: list[WordRows] = []
        places: list[int] = []
        first = 0
        for side in self.sides:
            size = side.count()
            if size is None:
                return None
            inside = [i for i, position in enumerate(positions) if first <= position < first + size]
            rows = side.access([positions[i] - first for i in inside])
            if rows is None:
                return None
            found.append(rows)
            places += inside
            first += size
        return WordRows.concat(found, self.width).take(pc.sort_indices(pa.array(places, pa.int64())))

    def rank(self, row: Sought) -> int | None:
        """Where the row is in the order of all sides; or behind all rows of the sides before the one that has it."""
        if not self.disjoint:
            return None if self._in_order is None else self._in_order.rank(row)
        passed = 0
        for side in self.sides:
            found = side.test(row)
            size = side.count()
            if found:
                rank = side.rank(row)
                return None if rank is None else passed + rank
            if found is None or size is None:
                return None
            passed += size
        return None

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """What is found on any side."""
        found = [side.lookup(given) for side in self.sides]
        return None if None in found else chain.from_iterable(f for f in found if f is not None)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if all sides can."""
        return all(side.looks_up(columns) for side in self.sides)

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if all sides can, or could."""
        return all(side.may_look_up(columns) for side in self.sides)

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """In the order of all sides; or one side after the other, if a row is on one of them only."""
        if not self.disjoint:
            return None if self._in_order is None else self._in_order.rows(partly=partly)
        placed = [side.placed(partly=partly) for side in self.sides]
        return None if None in placed else chain.from_iterable(p for p in placed if p is not None)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """One side after the other."""
        for side in self.sides:
            yield from side.rows(partly=partly)


class Asked(Concatenation):
    """UNION of which rows are only tested: whoever has one shows that it is there, once."""

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if the columns are all that there are."""
        return len(columns) == self.width

    may_look_up = looks_up

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """A lookup of a whole row is a test."""
        words = [word for _, word in sorted(given.words.items())]
        if len(words) < self.width:
            return None
        found = WordRows(tuple(repeated(word, 1) for word in words), repeated(1, 1), zeros(1))
        return iter((found,) if self.test(Sought(lambda: words)) else ())


class Counted(Sides):
    """A set operation that counts each row's copies on every side and computes the result's copies from the counts."""

    needs_deltas = True
    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(
        self,
        sides: tuple[Operator, ...],
        operation: SetOperation,
        copies: Callable[[tuple[pa.Array, ...]], pa.Array],
        dictionary: Dictionary,
        linker: Linker,
    ) -> None:
        super().__init__(sides)
        self.operation = operation
        self.copies = copies
        self.counts = Fold([c.type for c in operation.columns], len(sides), dictionary, linker)

    def seed(self) -> None:
        """A global aggregate has a row before there is any input."""
        for i, side in enumerate(self.sides):
            side.seed()
            for rows in side.rows():
                self._add(i, rows)
        self.counts.settle()

    @property
    def folds(self) -> tuple[Kept, ...]:
        """The counts, and the folds of all sides."""
        return (self.counts, *(f for s in self.sides for f in s.folds))

    def process(self, changes: Changes) -> WordRows:
        """What changed: the copies after less the copies before."""
        for i, side in enumerate(self.sides):
            self._add(i, side.process(changes))
        columns, old, new = touched = self.counts.touched()
        self.counts.settle(touched)
        change = pc.subtract(self.copies(new), self.copies(old))
        position = changes.rows.update[0].as_py() if len(changes) else 0
        update = pa.repeat(pa.scalar(position, pa.int64()), len(change))
        return WordRows(columns, change, update).filter(pc.not_equal(change, ZERO))

    def _add(self, side: int, delta: WordRows) -> None:
        nothing = zeros(len(delta))
        measures = tuple(delta.weight if i == side else nothing for i in range(len(self.sides)))
        self.counts.add(delta.columns, measures)

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """Rows of several sides are one."""
        return False

    def count(self) -> int | None:
        """Every row that is counted is in a UNION, once; of the other operations only some are."""
        return self.counts.count() if self.operation.operator is SetOperator.UNION else None

    def test(self, row: Sought) -> bool:
        """Follows from the row's copies on each side."""
        counts = self.counts.measures_of(row.words)
        return counts is not None and self.copies(tuple(repeated(c, 1) for c in counts))[0].as_py() > 0

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
        counts = self.counts.measures_of(words) or [0] * len(self.sides)
        copies = self.copies(tuple(repeated(c, 1) for c in counts))
        found = WordRows(tuple(repeated(word, 1) for word in words), copies, zeros(1))
        return iter((found.filter(pc.greater(copies, ZERO)),))

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed."""
        return self.rows(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The rows with copies in the result."""
        for columns, counts in self.counts.rows():
            copies = self.copies(counts)
            yield WordRows(columns, copies, zeros(len(copies))).filter(pc.greater(copies, ZERO))


def _there(counts: pa.Array) -> pa.Array:
    return pc.cast(pc.greater(counts, ZERO), pa.int64())


def _union(counts: tuple[pa.Array, ...]) -> pa.Array:
    total = counts[0]
    for c in counts[1:]:
        total = pc.add_checked(total, c)
    return _there(total)


def _except(counts: tuple[pa.Array, ...]) -> pa.Array:
    left, right = counts
    return pc.cast(pc.and_(pc.greater(left, ZERO), pc.equal(right, ZERO)), pa.int64())


def _except_all(counts: tuple[pa.Array, ...]) -> pa.Array:
    left, right = counts
    return pc.max_element_wise(pc.subtract(left, right), ZERO)


def _intersect(counts: tuple[pa.Array, ...]) -> pa.Array:
    left, right = counts
    return pc.cast(pc.and_(pc.greater(left, ZERO), pc.greater(right, ZERO)), pa.int64())


def _intersect_all(counts: tuple[pa.Array, ...]) -> pa.Array:
    left, right = counts
    return pc.min_element_wise(left, right)


def combine(operation: SetOperation, sides: tuple[Operator, ...], dictionary: Dictionary, linker: Linker) -> Operator:
    """The runtime of a set operation over its sides."""
    if operation.operator is SetOperator.UNION:
        if operation.all:
            return Concatenation(sides, disjoint=are_disjoint((operation.left, operation.right)))
        return Counted(sides, operation, _union, dictionary, linker)
    if operation.operator is SetOperator.EXCEPT:
        copies = _except_all if operation.all else _except
    else:
        copies = _intersect_all if operation.all else _intersect
    return Counted(sides, operation, copies, dictionary, linker)
