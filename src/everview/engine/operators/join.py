"""A core at work: the program of its strategy, as a part of the view's unit, and how rows become its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import Condition, Evaluator, either
from everview.engine.expressions.parked import Failure, Parked, came_from, reason, values_text
from everview.engine.operators.aggregates.sums import Summing
from everview.engine.operators.atoms import (
    AtomValues,
    ValuesInOrder,
    and_not,
    common_range,
    factors_at,
    in_range,
    signature_of,
    sum_of,
    values_in_order,
    variable_columns,
    word_orders,
)
from everview.engine.operators.counts import Columns, Fold
from everview.engine.operators.fetched import CHUNK_OF_FEW, FEWER, TOO_MANY, fetched
from everview.engine.operators.gauges import read_gauges
from everview.engine.operators.row_test import has_row
from everview.engine.operators.steps import CHUNK, beyond_a_word, explained
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import SLICE, Changes, has_lowest, ones, words_array, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, to_words
from everview.errors import DataError, TooManyRowsError
from everview.kernel.machine import UpdateFault
from everview.kernel.wide_numbers import number_of
from everview.plan.core_plan import CorePlan
from everview.programs.limits import BEYOND
from everview.programs.link import Linker
from everview.query.terms import Const, Var
from everview.query.types import BIGINT, DataType
from everview.strategies.strategy import (
    DELTA,
    RESULT,
    AtomInput,
    Entry,
    Lookup,
    value_variable,
)

_NULL = pa.scalar(NULL, pa.int64())

Delta = tuple[tuple[pa.Array, ...], tuple[pa.Array, ...], pa.Array]


class Join:
    """One core's state; knows nothing of what happens to its rows afterwards.

    What can be asked about its rows (``engine.operators.answers``) is what its strategy answers (``Maintained``).
    """

    def __init__(
        self,
        plan: CorePlan,
        sums: Sequence[Summing],
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
        linker: Linker,
    ) -> None:
        self.plan = plan
        self.dictionary = dictionary
        columns = variable_columns(plan, relations)
        self.types = {v: types[0] for v, types in columns.items()}
        self.ranges = {v: found for v, types in columns.items() if (found := common_range(types)) is not None}
        """The integers that a variable may be, where its columns do not hold the same: others never join."""
        self.value_types = {value_variable(i): a.type for i, a in values_in_order(plan).items() if is_wide(a.type)}
        """The types of values that are kept in order, where their words are ids."""
        signatures = [signature_of(plan, i, self.ranges) for i in range(len(plan.query.atoms))]
        self.maintained = plan.compile(
            [sum_of(plan, s) for s in sums], signatures, word_orders(self.types, self.value_types)
        )
        self.widths = self.maintained.widths or (1,) * (1 + len(sums))
        """Of how many words each measure is: so many columns it has in what the core gives."""
        self.part = linker.add("core", self.maintained.program)
        self._has_limits = any(table.name == BEYOND for table in self.maintained.program.tables)
        total = partial(Fold, [BIGINT] * self.width, len(self.widths), dictionary, widths=self.widths, is_kept=False)
        self.total = None if self.maintained.pieces is None else total()
        """Where the pieces of rows are added up while everything is read; None if rows are not listed in pieces."""
        self.emits_deltas = False
        self.keeps_log = False
        """True if it is kept which of its rows change; else that is forgotten at once."""
        self.is_loading = False
        """True while rows are only stored, as its state is made of all of them at the end (``operators.loading``)."""
        self._entries = {
            e.relation: _EntryRuntime(self, e, relations[e.relation], sums) for e in self.maintained.entries
        }

    @property
    def width(self) -> int:
        """How many variables a row of its result has."""
        return len(self.maintained.outputs)

    def takes_set(self, relation: str) -> bool:
        """True if it must be told when rows of this base table appear and vanish."""
        return relation in self._entries and self._entries[relation].entry.is_set

    def reads(self, relation: str) -> bool:
        """True if updates of this relation concern the core."""
        return relation in self._entries

    def atom_inputs(self, changes: Changes) -> Iterator[tuple[int, list[pa.Array], pa.Array]]:
        """How each atom sees a relation's updates: its number, the words that it stores, and 1 for rows that fit it."""
        entry = self._entries.get(changes.relation)
        for runtime in entry.atom_inputs if entry is not None else ():
            width = len(runtime.atom_input.variables)
            columns, _ = runtime.columns(changes)
            for atom in (runtime.atom_input.atom, *runtime.atom_input.serves):
                yield atom, columns[:width], columns[width]

    @property
    def parked(self) -> tuple[Parked, ...]:
        """The rows that an atom's own condition or computed column fails on."""
        return tuple(o.parked for e in self._entries.values() for o in e.atom_inputs)

    def relation_of(self, parked: Parked) -> str | None:
        """The relation whose rows alone are parked there; None if it is no place of an atom of this core."""
        entries = self._entries.items()
        return next((name for name, e in entries if any(o.parked is parked for o in e.atom_inputs)), None)

    def start_deltas(self) -> None:
        """From now on tell what changes."""
        if not self.emits_deltas:
            self.part.apply(self.maintained.start_deltas, [zeros(1)])
            self._set_awake(True)

    def stop_deltas(self) -> None:
        """Tell no more."""
        if self.emits_deltas:
            self.part.apply(self.maintained.stop_deltas, [zeros(1)])
            self._set_awake(False)

    def _set_awake(self, emits_deltas: bool) -> None:
        self.dictionary.machine.on_roll_back(partial(setattr, self, "emits_deltas", self.emits_deltas))
        self.emits_deltas = emits_deltas

    def apply(self, changes: Changes) -> None:
        """Take in a relation's updates."""
        entry = self._entries.get(changes.relation)
        if entry is not None and len(changes):
            for _ in entry.run(changes, None):
                pass

    def stream(self, changes: Changes) -> Iterator[Delta]:
        """Take in a relation's updates, and give what they have changed, piece by piece, as ``take`` does."""
        entry = self._entries.get(changes.relation)
        if entry is not None and len(changes):
            for _ in entry.run(changes, SLICE):
                if self.has_changes:
                    yield self.take(changes)

    def count_values(self, changes: Changes) -> None:
        """Count the uses of wide values as taking in a relation's updates does, and do nothing else."""
        entry = self._entries.get(changes.relation)
        if entry is not None and len(changes):
            changes = entry.taken(changes)
            entry.count_values(changes)
            for atom_input in entry.atom_inputs:
                atom_input.columns(changes)

    def forget_log(self) -> None:
        """Forget which rows have changed, if nobody keeps that."""
        if not self.keeps_log:
            for node in self.maintained.difference:
                if node.log is not None:
                    self.part.discard(node.log)

    @property
    def has_changes(self) -> bool:
        """True if there is something to take."""
        return self.part.pending(DELTA) > 0

    def take(self, changes: Changes) -> Delta:
        """What these changes, just applied, have changed: output words, measures' changes, the updates' numbers.

        A measure of several words (``widths``) is as many columns.
        """
        columns = [words_array(c) for c in self.part.take(DELTA)]
        update = columns[-1] if changes.start is not None else changes.rows.update.take(columns[-1])
        words, measures = tuple(columns[: self.width]), tuple(columns[self.width : -1])
        if self.widths[0] == 1 and has_lowest(measures[0]):
            first = pc.index(measures[0], _NULL).as_py()
            place = changes.place(columns[-1][first].as_py() - (changes.start or 0))
            raise beyond_a_word(place.table, place.row)
        return words, measures, update

    def distinct(self) -> int | None:
        """How many different rows the result has; None: list it to know.

        It is known where one lookup, of a row at any level, tells whether a row is there: they are that table's rows.
        """
        match self.maintained.test:
            case (Lookup(table, key, 0),) if frozenset(key) == frozenset(self.maintained.outputs):
                return self.part.size(table)
        return None

    def test(self, words: Mapping[Var, int]) -> bool | None:
        """Whether the result has a row with these words, one for each output variable; None: list it to know."""
        return has_row(self.part, self.maintained, words)

    def gauges(self) -> dict[str, Any]:
        """What the strategy counts of itself, and of its parts, for ``stats``."""
        return read_gauges(self.part, self.maintained)

    def beyond(self) -> int | None:
        """The update, by its place in its batch, that may have passed a limit; None: sums and counts are within it."""
        row = self.part.find(BEYOND, ()) if self._has_limits else None
        return None if row is None else row[0][0]

    def count(self) -> int | None:
        """How many rows the result has, copies included, counted without listing it; None: list it to know."""
        return None if self.maintained.count is None else self._counted(self.maintained.count)

    def recount(self) -> int | None:
        """The same where rows that are listed have more copies than a word holds; None if it cannot be told then."""
        return None if self.maintained.recount is None else self._counted(self.maintained.recount)

    def _counted(self, function: str) -> int:
        try:
            return number_of([words_array(c)[0].as_py() for c in self.part.ask(function, [zeros(1)])])
        except UpdateFault as fault:
            raise TooManyRowsError("the result has more rows than 384 bits can count", hint=FEWER) from fault

    def access(self, positions: Sequence[int]) -> Columns | None:
        """The words of the rows at some positions, which there are; None: list the rows to know."""
        if self.maintained.access is None:
            return None
        found = self.part.ask(self.maintained.access, [pa.array(positions, pa.int64())])
        return tuple(words_array(c) for c in found[1:])

    def rank(self, words: Mapping[Var, int]) -> int | None:
        """The first position of a row that is there, given by its words; None: list the rows to know."""
        if self.maintained.rank is None:
            return None
        row = [pa.array([words[v]], pa.int64()) for v in self.maintained.outputs] or [zeros(1)]
        is_found, rank = (words_array(c)[0].as_py() for c in self.part.ask(self.maintained.rank, row))
        assert is_found, words
        return int(rank)

    def before(self, columns: Columns) -> pa.Array | None:
        """How many rows come before rows that need not be there, given by the words of its outputs; None: unknown."""
        if self.maintained.before is None:
            return None
        return words_array(self.part.ask(self.maintained.before, list(columns) or [zeros(1)])[0])

    def looks_up(self, variables: frozenset[Var]) -> bool:
        """True if it can look rows up by the words of these variables."""
        is_row = self.maintained.measures is not None and variables == frozenset(self.maintained.outputs)
        return is_row or any(variables == frozenset(keyed.variables) for keyed in self.maintained.lookups)

    def look_up(self, words: Mapping[Var, int]) -> Iterator[tuple[Columns, Columns]] | None:
        """Output words and measures of the rows with these words of some variables; None: list the rows to know."""
        given = frozenset(words)
        if self.maintained.measures is not None and given == frozenset(self.maintained.outputs):
            return self._row(self.maintained.measures, words)
        for keyed in self.maintained.lookups:
            if given == frozenset(keyed.variables):
                return fetched(self.part, keyed.name, self.width, given=[words[v] for v in keyed.variables])
        return None

    def _row(self, function: str, words: Mapping[Var, int]) -> Iterator[tuple[Columns, Columns]]:
        """The one row that has all of these words, if it is there."""
        row = tuple(pa.array([words[v]], pa.int64()) for v in self.maintained.outputs)
        try:
            is_found, *measures = (words_array(c) for c in self.part.ask(function, row or [zeros(1)]))
        except UpdateFault as fault:
            raise TooManyRowsError(TOO_MANY, hint=FEWER) from fault
        if is_found[0].as_py():
            yield row, tuple(measures)

    def scan(self, *, partly: bool = False) -> Iterator[tuple[Columns, Columns]]:
        """The whole result, chunk by chunk: output words and measures; each row is there once.

        With ``partly`` perhaps only the first rows are going to be read, so nothing is done for the others before.
        """
        added_up = None if partly else self._added_up()
        if added_up is None:
            yield from fetched(self.part, RESULT, self.width, CHUNK_OF_FEW if partly else CHUNK)
        else:
            columns, measures = added_up
            if self.plan.is_distinct:
                measures = (ones(len(measures[0])), *measures[1:])
            for first in range(0, len(measures[0]), CHUNK):
                yield tuple(c.slice(first, CHUNK) for c in columns), tuple(m.slice(first, CHUNK) for m in measures)

    def _added_up(self) -> tuple[Columns, Columns] | None:
        """The pieces of the result, added up; None if it is not listed in pieces, or they do not fit their words."""
        if self.maintained.pieces is None or self.total is None:
            return None
        try:
            return self.total.sums(fetched(self.part, self.maintained.pieces, self.width))
        except DataError:
            if max(self.widths) == 1:
                raise
            return None


class _EntryRuntime:
    """How one relation's rows come in: the columns of the procedure's parameters."""

    def __init__(self, core: Join, entry: Entry, types: tuple[DataType, ...], sums: Sequence[Summing]) -> None:
        self.core = core
        self.entry = entry
        self.atom_inputs = [_AtomInputRuntime(core, o, types, sums) for o in entry.atom_inputs]

    def count_values(self, changes: Changes) -> None:
        """Count uses of the wide values of rows that come or go, apart from computed ones; a table counts its own."""
        if not changes.is_base:
            for i, type_ in enumerate(changes.types):
                if is_wide(type_):
                    self.core.dictionary.count(changes.words(i), changes.rows.weight)

    def taken(self, changes: Changes) -> Changes:
        """Updates as the strategy takes them: of a bag of rows, or of a set."""
        return changes.of_set() if self.entry.is_set else changes

    def run(self, changes: Changes, most_pending: int | None) -> Iterator[None]:
        """Take in updates; stops to have deltas taken whenever so many rows are pending, and at the end."""
        changes = self.taken(changes)
        self.count_values(changes)
        columns: list[pa.Array] = []
        for atom_input in self.atom_inputs:
            found, failed = atom_input.columns(changes)
            if failed is not None:
                atom_input.park(changes, failed)
            if self.entry.is_set:
                flag = len(atom_input.atom_input.variables)
                found[flag] = pc.multiply(found[flag], pc.abs(changes.rows.weight))
            columns += found
        columns.append(changes.rows.weight)
        procedure = self.entry.with_deltas if self.core.emits_deltas else self.entry.state_only
        if self.core.is_loading and self.entry.load is not None:
            procedure = self.entry.load
        done = 0
        while done < len(changes):
            part = [c.slice(done) for c in columns] if done else columns
            try:
                done += self.core.part.apply(
                    procedure, part, first_update=(changes.start or 0) + done, most_pending=most_pending
                )
            except UpdateFault as fault:
                raise explained(fault.after(done), changes) from fault
            self.core.forget_log()
            yield


class _AtomInputRuntime:
    """An atom's view of a row: which rows fit it, and the words of its variables."""

    def __init__(self, core: Join, atom_input: AtomInput, types: tuple[DataType, ...], sums: Sequence[Summing]) -> None:
        plan = core.plan
        self.core = core
        self.atom_input = atom_input
        self.atom = plan.query.atoms[atom_input.atom]
        self.types = types
        self.places = {t: i for i, t in reversed(list(enumerate(self.atom.terms))) if isinstance(t, Var)}
        filters = plan.filters_of(atom_input.atom)
        self.conditions = Condition(filters) if filters else None
        stored = [p for p in filters if p.variables <= self.places.keys()]
        self.guards = Condition(stored) if stored else None
        computed = [c.expression for c in self.atom.computed]
        self.computed = Evaluator(computed) if computed else None
        own = list(factors_at(plan, atom_input, sums))
        self.values = ValuesInOrder(plan, atom_input.values, core.types, core.dictionary)
        arguments = (a for _, arguments in own for a in arguments)
        self.arguments = tuple(dict.fromkeys((*arguments, *self.values.computed)))
        self.summed = Evaluator(self.arguments) if self.arguments else None
        self.parts = [(part, [self.arguments.index(argument) for argument in arguments]) for part, arguments in own]
        self.parked = Parked([types[i] for i in self.places.values()], core.dictionary, self._explain)

    def columns(self, changes: Changes) -> tuple[list[pa.Array], pa.Array | None]:
        """Words of the variables, the flag, and the change of each sum; and the rows that fail, which do not fit."""
        words = {v: changes.words(i) for v, i in self.places.items()}
        fits = self._fits(changes, words)
        values = AtomValues(changes, self.places)
        failed = None
        if self.computed is not None:
            # All rows, fitting or not: a row's words must be the same ones whenever it comes or goes.
            arrays, without = self.computed.tried(values, len(changes))
            if without is not None:
                failed = self._guarded(values, without if fits is None else pc.and_(fits, without))
            fits = and_not(self._compute(changes, words, values, fits, arrays), without, len(changes))
        if self.conditions is not None:
            held, more = self.conditions.tried(values, len(changes), fits)
            fits = held if fits is None else pc.and_(fits, held)
            failed = either(failed, more)
        arrays = []
        if self.summed is not None:
            arrays, more = self.summed.tried(values, len(changes), fits)
            fits = and_not(fits, more, len(changes))
            failed = either(failed, more)
            if fits is not None:  # Doubles are counted in units that are chosen by those that are in the join.
                arrays = [pc.if_else(fits, a, None) if pa.types.is_floating(a.type) else a for a in arrays]
        flag = ones(len(changes)) if fits is None else fits.cast(pa.int64())
        found = [words[v] for v in self.atom_input.variables]
        found.append(flag)
        for part, places in self.parts:
            found += part.change([arrays[place] for place in places], [changes.rows.weight], part.words)
        computed = dict(zip(self.arguments, arrays, strict=False))
        found += self.values.words(words, computed, changes.rows.weight, fits)
        return found, failed

    def _guarded(self, values: AtomValues, without: pa.Array) -> pa.Array:
        """Of the rows without a value for a computed column, those that the atom's conditions do not leave out."""
        if self.guards is None:
            return without
        held, failed = self.guards.tried(values, len(without), without)
        return pc.and_(without, either(held, failed))

    def park(self, changes: Changes, failed: pa.Array) -> None:
        """Count the rows that fail."""
        rows = changes.rows.filter(failed)
        columns = tuple(rows.columns[i] for i in self.places.values())
        self.parked.add(columns, rows.weight, came_from(changes, columns, rows.update))

    def _explain(self, columns: tuple[pa.Array, ...]) -> Failure | None:
        """What is wrong with one row."""
        kept = zip(self.places.items(), columns, strict=True)
        values = {v: from_words(c, self.types[i], self.core.dictionary) for (v, i), c in kept}
        if self.computed is not None:
            found = self.computed.why(values)
            if found is not None:
                computed = self.atom.computed[found[0]]
                text = values_text(values, self.computed.reads(found[0]))
                return Failure(f"{computed.expression}", reason(found[1]), text)
            arrays = self.computed(values, 1)
            values |= {c.term: a for c, a in zip(self.atom.computed, arrays, strict=True) if isinstance(c.term, Var)}
        if self.conditions is not None and (unmet := self.conditions.why(values)) is not None:
            condition, error = unmet
            return Failure(
                f"the condition {condition}", reason(error), values_text(values, sorted(condition.variables))
            )
        if self.summed is not None and (found := self.summed.why(values)) is not None:
            text = values_text(values, self.summed.reads(found[0]))
            return Failure(f"{self.arguments[found[0]]}, which is aggregated,", reason(found[1]), text)
        return None

    def _fits(self, changes: Changes, words: dict[Var, pa.Array]) -> pa.Array | None:
        """Constants, repeated variables and NULLs decide whether a row belongs to the atom; None: all do."""
        tests = []
        for i, term in enumerate(self.atom.terms):
            if isinstance(term, Const):
                tests.append(pc.equal(changes.words(i), self._constant(term, self.types[i])))
            elif self.places[term] != i:
                tests.append(pc.equal(changes.words(i), words[term]))
        for v, i in self.places.items():
            if i not in changes.no_nulls and v in self.core.plan.query.not_null:
                tests.append(pc.not_equal(words[v], _NULL))
            tests += in_range(self.core.ranges.get(v), words[v])
        result = None
        for test in tests:
            result = test if result is None else pc.and_(result, test)
        return result

    def _constant(self, term: Const, type_: DataType) -> int:
        array = pa.array([term.value]).cast(arrow_type(type_))
        if is_wide(type_):
            return int(self.core.dictionary.lookup(array)[0].as_py())
        return int(to_words(array, type_, self.core.dictionary)[0].as_py())

    def _compute(
        self,
        changes: Changes,
        words: dict[Var, pa.Array],
        values: AtomValues,
        fits: pa.Array | None,
        arrays: Sequence[pa.Array],
    ) -> pa.Array | None:
        """Add the computed columns; their wide values are kept alive for as long as the row is there."""
        dictionary = self.core.dictionary
        for computed, array in zip(self.atom.computed, arrays, strict=True):
            type_ = computed.expression.type
            found = to_words(array, type_, dictionary)
            if is_wide(type_):
                dictionary.count(found, changes.rows.weight)
            if isinstance(computed.term, Const):
                test = pc.equal(found, self._constant(computed.term, type_))
            elif computed.term in words:
                test = pc.equal(found, words[computed.term])
            else:
                words[computed.term] = found
                values.extra[computed.term] = array
                refused = computed.term in self.core.plan.query.not_null
                test = pc.not_equal(found, _NULL) if refused else None
                for within in in_range(self.core.ranges.get(computed.term), found):
                    test = within if test is None else pc.and_(test, within)
            if test is not None:
                fits = test if fits is None else pc.and_(fits, test)
        return fits
