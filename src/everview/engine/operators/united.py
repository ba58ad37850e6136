"""A union of queries at work: nothing is kept for it, as its members can be asked whether they have a row.

A row is in the union if a member has it. So what a batch changes in the union follows from what it changes in each
member, which tells how the row was before, and from asking the others; and rows are listed once each with a constant
number of questions between two of them (``programs.unions``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.parked import Parked
from everview.engine.operators.answers import Given, Sought
from everview.engine.operators.counts import Columns, Fold
from everview.engine.operators.fetched import CHUNK_OF_FEW, fetched
from everview.engine.operators.join import Join
from everview.engine.operators.select import Select
from everview.engine.operators.sides import Sides
from everview.engine.operators.steps import CHUNK
from everview.engine.operators.union_positions import UnionPositions
from everview.engine.values.dictionary import UNKNOWN, Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, ones, repeated, words_array, zeros
from everview.engine.values.words import arrow_type, is_wide, to_words
from everview.kernel.program import Lit, Operand
from everview.plan.union_order import UnionOrder
from everview.programs.counts import ROWS as KEPT_ROWS
from everview.programs.link import Linker, renamed
from everview.programs.unions import ANY, ROWS, AskedOf, Listed, RowOf, compile_union, constant, has
from everview.query.terms import Const, Var
from everview.query.types import DataType
from everview.strategies.strategy import RESULT


@dataclass(frozen=True)
class _WideConstant:
    """A string, or other wide value, that stands in a column of a member: its id is another one at other times."""

    term: Const
    type: DataType

    def word(self, number: int, dictionary: Dictionary) -> int:
        """Its id now; a word that no value has, and no other constant, if nobody has stored it."""
        found = int(dictionary.lookup(self._array)[0].as_py())
        return UNKNOWN - 1 - number if found == UNKNOWN else found

    def shown(self, dictionary: Dictionary) -> int:
        """An id that it can be shown by, now."""
        return int(to_words(self._array, self.type, dictionary)[0].as_py())

    @property
    def _array(self) -> pa.Array:
        return pa.array([self.term.value]).cast(arrow_type(self.type))


class United(Sides):
    """UNION of queries that each have every row once: the sides test each other's rows."""

    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(
        self,
        sides: tuple[Select, ...],
        types: Sequence[DataType],
        dictionary: Dictionary,
        linker: Linker,
        terms: Sequence[tuple[int, Select]] = (),
        *,
        order: UnionOrder | None = None,
        may_access: bool = False,
    ) -> None:
        super().__init__(sides)
        self.members = sides
        self._may_access = may_access
        self.terms = tuple(terms)
        """Intersections of the sides, each with what its number of rows is to be multiplied by (theory 8)."""
        self.types = tuple(types)
        self.dictionary = dictionary
        self._constants: dict[_WideConstant, int] = {}
        self._shown_in: dict[int, set[_WideConstant]] = {}
        """The columns in which wide constants stand."""
        members = [self._listed(side, linker) for side in sides]
        constants = len(self._constants)
        self.part, self._prefix = linker.add_reader("union", lambda own: compile_union(members, constants, own))
        self.net = Fold(types, len(sides), dictionary, is_kept=False)
        """Where what changes is added up, by row and member; nothing is left in it."""
        self.positions = None if order is None else self._positions(order)
        """Finds rows by their positions, where members and intersections are kept in one order."""

    def _positions(self, order: UnionOrder) -> UnionPositions:
        sets: dict[tuple[int, ...], Select] = {(i,): member for i, member in enumerate(self.members)}
        sets |= {members: self.terms[number][1] for members, number in order.terms.items()}
        return UnionPositions(len(self.sides), sets, order.columns, self.types, self.dictionary, self._shows)

    def _listed(self, side: Select, linker: Linker) -> Listed:
        """What lists a side's rows, under the names of the unit, and what tests one."""
        if side.fold is not None:
            cursor = next(c for c in side.fold.part.program.cursors if c.name == "all")
            table = linker.name_of(side.fold.part, KEPT_ROWS)
            everything = tuple(range(self.width))
            return Listed(renamed(cursor, linker.name_of(side.fold.part, "")), everything, (RowOf(table, everything),))
        core = side.core
        outputs, prefix = core.maintained.outputs, linker.name_of(core.part, "")
        columns: list[int | Operand] = []
        for i, output in enumerate(side.projection.outputs):
            term = output.term
            if isinstance(term, Var):
                columns.append(outputs.index(term))
            else:
                assert isinstance(term, Const), output
                columns.append(self._constant(i, term, output.type))
        places = [columns.index(i) for i in range(len(outputs))]
        test: tuple[RowOf, ...] | AskedOf
        match core.maintained.test:
            case str() as name:
                function = renamed(core.part.program.function(name), prefix)
                test = AskedOf(function, tuple(places))
            case lookups:
                assert lookups is not None, core.plan.strategy.name
                test = tuple(
                    RowOf(prefix + found.table, tuple(places[outputs.index(v)] for v in found.key), found.level)
                    for found in lookups
                )
        return Listed(renamed(core.part.program.cursor(RESULT), prefix), tuple(columns), test)

    def _constant(self, column: int, term: Const, type_: DataType) -> Operand:
        if not is_wide(type_):
            array = pa.array([term.value]).cast(arrow_type(type_))
            return Lit(int(to_words(array, type_, self.dictionary)[0].as_py()))
        wide = _WideConstant(term, type_)
        self._shown_in.setdefault(column, set()).add(wide)
        return constant(self._constants.setdefault(wide, len(self._constants)))

    @property
    def _given(self) -> list[int]:
        """The words that the wide constants have now."""
        return [wide.word(number, self.dictionary) for wide, number in self._constants.items()]

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """Rows of several sides are one."""
        return False

    @property
    def cores(self) -> tuple[Join, ...]:
        """Those of the sides, and of the intersections that count."""
        return (*super().cores, *(core for _, term in self.terms for core in term.cores))

    @property
    def parked(self) -> tuple[Parked, ...]:
        """The same."""
        return (*super().parked, *(parked for _, term in self.terms for parked in term.parked))

    # --- what changes ----------------------------------------------------------------------------------------------

    def process(self, changes: Changes) -> WordRows:
        """What changed: rows that some member has now and none had before, and the other way round."""
        for _, term in self.terms:
            term.process(changes)
        deltas = [side.process(changes) for side in self.sides]
        if not any(map(len, deltas)):
            return WordRows.empty(self.width)
        columns, net = self.net.sums((d.columns, self._by_side(i, d.weight)) for i, d in enumerate(deltas) if len(d))
        before: pa.Array | None = None
        after: pa.Array | None = None
        for i, changed in enumerate(net):
            now = self._has(i, columns)
            was = pc.subtract(now, changed)
            after = now if after is None else pc.bit_wise_or(after, now)
            before = was if before is None else pc.bit_wise_or(before, was)
        change = pc.subtract(after, before)
        position = changes.rows.update[0].as_py() if len(changes) else 0
        return WordRows(columns, change, repeated(position, len(change))).filter(pc.not_equal(change, ZERO))

    def _by_side(self, side: int, weight: pa.Array) -> Columns:
        nothing = zeros(len(weight))
        return tuple(weight if i == side else nothing for i in range(len(self.sides)))

    def _shows(self, side: int, columns: Columns) -> list[bool]:
        """Whether a side has rows that some side has shown: constants have the ids that they are shown by."""
        found = self._has(side, columns, [wide.shown(self.dictionary) for wide in self._constants])
        return [word != 0 for word in found.to_pylist()]

    @property
    def tests(self) -> list[tuple[int, int]]:
        """The functions by which sides are asked whether they have a row, and their channels."""
        return [self.part._functions[self._prefix + has(side)] for side in range(len(self.sides))]

    @property
    def wide_constants(self) -> list[tuple[object, DataType]]:
        """What these functions are given behind a row: the ids of these."""
        return [(wide.term.value, wide.type) for wide in self._constants]

    def _has(self, side: int, columns: Columns, constants: Sequence[int] | None = None) -> pa.Array:
        """1 for the rows that a side has, 0 for the others."""
        given = (repeated(word, len(columns[0])) for word in (self._given if constants is None else constants))
        return words_array(self.part.ask(self._prefix + has(side), [*columns, *given])[0])

    # --- what is asked ---------------------------------------------------------------------------------------------

    def count(self) -> int | None:
        """By inclusion and exclusion, where the intersections that this takes are kept."""
        if not self.terms:
            return None
        counts = [(1, side.count()) for side in self.sides] + [(n, term.count()) for n, term in self.terms]
        found = 0
        for coefficient, rows in (c for c in counts if c[0]):
            if rows is None:
                return None
            found += coefficient * rows
        return found

    def test(self, row: Sought) -> bool:
        """Whether a member has it."""
        given = [
            wide.shown(self.dictionary) for wide in self._constants
        ]  # Then the row's have ids, too, if they are these.
        words = [pa.array([word], pa.int64()) for word in (*row.words, *given)]
        return bool(words_array(self.part.ask(self._prefix + ANY, words)[0])[0].as_py())

    @property
    def may_access(self) -> bool:
        """True if its members and their intersections could be kept in one order, and nobody has asked for it."""
        return self.positions is None and self._may_access

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """Row by row of what is listed, if its members are kept in one order."""
        return None if self.positions is None else self.positions.access(positions)

    def rank(self, row: Sought) -> int | None:
        """Where a row is listed, likewise."""
        if self.positions is None:
            return None
        words = WordRows(tuple(pa.array([word], pa.int64()) for word in row.words), ones(1), zeros(1))
        return self.positions.rank(words, lambda side: side.rank(row))

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if all members can."""
        return all(side.looks_up(columns) for side in self.sides)

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if all members can, or could."""
        return all(side.may_look_up(columns) for side in self.sides)

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """What is found in any member, but for what those before it have."""
        if not self.looks_up(given.columns):
            return None
        return self._looked_up(given)

    def _looked_up(self, given: Given) -> Iterator[WordRows]:
        for i, side in enumerate(self.sides):
            for rows in side.lookup(given) or ():
                new = rows
                for earlier in range(i):
                    new = new.filter(pc.equal(self._has(earlier, new.columns), ZERO)) if len(new) else new
                yield new

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed."""
        return self.rows(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The rows of all members, each once."""
        given = self._given
        first = CHUNK_OF_FEW if partly else CHUNK
        for columns, _ in fetched(self.part, self._prefix + ROWS, self.width, first, given):
            size = len(columns[0])
            yield WordRows(self._shown(columns, given), ones(size), zeros(size))

    def _shown(self, columns: Columns, given: Sequence[int]) -> Columns:
        """The same rows with an id for each wide constant that is one now, as others may have come to have its old."""
        shown = list(columns)
        for column, constants in self._shown_in.items():
            for wide in constants:
                word, now = given[self._constants[wide]], wide.shown(self.dictionary)
                if word != now:
                    is_it = pc.equal(columns[column], word)
                    shown[column] = pc.if_else(is_it, now, shown[column])
        return tuple(shown)
