"""A view by formula at work: rows of tables become facts of a census, and what that tells becomes rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.parked import Parked
from everview.engine.operators.answers import Answers, Given, Sought
from everview.engine.operators.counts import Kept
from everview.engine.operators.join import Join
from everview.engine.operators.steps import CHUNK, explained
from everview.engine.values.dictionary import NULL, Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, ones, repeated, words_array, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, to_words
from everview.errors import DegreeExceeded, FormulaLimitError, NotCountedError
from everview.kernel import StaleCursor
from everview.kernel.census.faults import DegreeFault, LimitFault
from everview.kernel.census.machine import Census, StaleListing
from everview.kernel.machine import UpdateFault
from everview.query.formula_facts import FactSource
from everview.query.terms import Const
from everview.query.types import DataType
from everview.strategies.fo_mod.plan import FormulaPlan

_NULL = pa.scalar(NULL, pa.int64())
_SMALLER: Final = "define it with a smaller radius: guard quantifiers, or split the query"


class FormulaOperator(Answers):
    """The rows for which a formula holds, each once."""

    cores: tuple[Join, ...] = ()
    folds: tuple[Kept, ...] = ()
    parked: tuple[Parked, ...] = ()
    needs_deltas = False
    is_net_per_update = False
    keeps_update_numbers = False

    def __init__(
        self, plan: FormulaPlan, relations: Mapping[str, tuple[DataType, ...]], dictionary: Dictionary
    ) -> None:
        self.plan = plan
        self.body = plan.body
        self.dictionary = dictionary
        self.width = len(plan.body.columns)
        self.types = {table: relations[table] for table in plan.body.tables}
        self.census = Census(plan.program)
        self.emits_deltas = False
        self.is_loading = False
        """True while rows are only taken up, to be looked at together."""
        self._sources: dict[str, list[tuple[int, FactSource]]] = {}
        for number, relation in enumerate(plan.body.relations):
            for source in relation.sources:
                self._sources.setdefault(source.table, []).append((number, source))
        self._is_in_batch = False
        self._is_pending = False
        self._over: DegreeFault | None = None
        """An element has too many neighbours, as far as the batch has come: nothing is made of that."""
        self._suspended: LimitFault | None = None
        self._was_suspended = False
        """So it was when the batch began."""
        self._is_changed = False
        """True if facts have changed since it was last tried whether it can go on."""

    # --- changes ---------------------------------------------------------------------------------------------------

    def reads(self, relation: str) -> bool:
        """True if a table's rows concern it."""
        return relation in self._sources

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """A row may depend on any number of rows."""
        return False

    def seed(self) -> None:
        """Over no elements, too, a sentence may be true."""
        self._begin()
        self._is_pending = True

    def emit_deltas(self, wanted: bool) -> None:
        """Tell what changes from now on, or no longer."""
        if wanted == self.emits_deltas:
            return
        if wanted:
            self.check_counted("what changes in it is not told")
        self._settle()
        self.emits_deltas = wanted
        self.census.told(wanted)

    def check_counted(self, what: str) -> None:
        """Raise if answers are of three elements: those are tested and listed only."""
        if not self.plan.is_counted:
            raise NotCountedError(
                f"{self.body.query.name} has three variables, and {what}",
                hint="test a row with 'in', list the rows, or look them up by the first columns; or split the query",
            )

    def process(self, changes: Changes) -> WordRows:
        """Take in updates of a table, and give what changes by them, if that is wanted."""
        self._begin()
        self._is_pending = self._is_changed = True
        for number, source in self._sources.get(changes.relation, ()):
            columns, weight = self._facts(changes, source)
            if len(weight):
                self.census.apply(number, columns, weight)
        if self.is_loading or not self.emits_deltas or not self._may_fit(changes):
            return WordRows.empty(self.width)
        self._settle()
        if self._over is not None or self._suspended is not None:
            return WordRows.empty(self.width)
        columns, signs = self.census.take_difference()
        position = changes.rows.update[0].as_py() if len(changes) else 0
        return WordRows(tuple(map(words_array, columns)), words_array(signs), repeated(position, len(signs)))

    def _may_fit(self, changes: Changes) -> bool:
        """False if an element has too many neighbours, and still has after these changes, as no row goes."""
        return self._over is None or pc.any(pc.less(changes.rows.weight, ZERO)).as_py()

    def _facts(self, changes: Changes, source: FactSource) -> tuple[list[pa.Array], pa.Array]:
        """The elements of those rows that are facts, and the change of their copies."""
        fits: pa.Array | None = None
        types = self.types[changes.relation]
        tests = [pc.equal(changes.words(i), self._word(c, types[i])) for i, c in source.tests]
        tests += [pc.not_equal(changes.words(i), _NULL) for i in source.not_null if i not in changes.no_nulls]
        if source.bit is not None:
            column, bit = source.bit
            tests.append(pc.not_equal(pc.bit_wise_and(changes.words(column), pa.scalar(bit, pa.int64())), ZERO))
        for test in tests:
            fits = test if fits is None else pc.and_(fits, test)
        columns, weight = [changes.words(i) for i in source.columns], changes.rows.weight
        return ([c.filter(fits) for c in columns], weight.filter(fits)) if fits is not None else (columns, weight)

    def _word(self, constant: Const, type_: DataType) -> int:
        array = pa.array([constant.value]).cast(arrow_type(type_))
        found = self.dictionary.lookup(array) if is_wide(type_) else to_words(array, type_, self.dictionary)
        return int(found[0].as_py())

    # --- a batch ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._is_in_batch:
            self._is_in_batch = True
            self._was_suspended = self._suspended is not None
            self.census.begin()
            self.dictionary.machine.on_roll_back(self._take_back)

    def _take_back(self) -> None:
        self._is_in_batch = self._is_pending = self.is_loading = False
        self._over = None
        self.census.roll_back()
        if not self._was_suspended:
            self._suspended = None
            if self.census.stats()["suspended"] is not None:
                self._resume()
        if self.emits_deltas and self._suspended is None:
            self.census.take_difference()

    def _settle(self) -> None:
        """Have the census take over what is pending, unless an element has too many neighbours by it."""
        if not self._is_pending:
            return
        before = self.census.nbytes()
        try:
            self.census.settle()
        except DegreeFault as fault:
            self._over = fault
            return
        except LimitFault as fault:
            self._suspended = fault
        self._over, self._is_pending = None, False
        try:
            self.dictionary.machine.grow_beside(self.census.nbytes() - before)
        except UpdateFault as fault:
            raise explained(fault) from fault

    def judge(self, *, may_suspend: bool = False) -> None:
        """The batch is at its end: raises if an element has more neighbours than it may have, or a limit is met.

        With ``may_suspend`` a limit does not refuse the batch: there is no result, until the data are within it again.
        """
        if not self._is_in_batch:
            return
        self._settle()
        if self._over is not None:
            element, degree = self._over.element, self._over.degree
            (value,) = from_words(pa.array([element], pa.int64()), self.body.element, self.dictionary).to_pylist()
            raise DegreeExceeded(
                f"element {value!r} of {self.body.query.name} has {degree} neighbours or more, and may have "
                f"{self.body.degree}; nothing has changed",
                element=value,
                degree=degree,
                bound=self.body.degree,
                hint=f"define {self.body.query.name} with a larger degree, or drop it",
            )
        if self._suspended is not None and not self._was_suspended and not may_suspend:
            raise self._refusal(self._suspended, "; nothing has changed", _SMALLER) from self._suspended

    def conclude(self) -> None:
        """The batch has been taken."""
        if self._is_in_batch:
            self._is_in_batch = False
            self.census.commit()

    # --- limits met at run time ------------------------------------------------------------------------------------

    @property
    def suspension(self) -> FormulaLimitError | None:
        """Why there is no result now; None if there is one."""
        if self._suspended is None:
            return None
        goes_on = "delete rows: whoever reads it then has all of them looked at anew; or " + _SMALLER
        return self._refusal(
            self._suspended, ", and so it has no result now; its tables are as they should be", goes_on
        )

    def check_result(self) -> None:
        """Raise if there is no result; if facts have changed since that was so, all are looked at anew before."""
        if self._suspended is not None and self._is_changed:
            self._resume()
        if self.suspension is not None:
            raise self.suspension

    def _resume(self) -> None:
        self._is_changed = False
        self._suspended = None
        try:
            self.census.resume()
        except LimitFault as fault:
            self._suspended = fault

    def _refusal(self, fault: LimitFault, what_now: str, hint: str) -> FormulaLimitError:
        name = self.body.query.name
        if fault.kind == "types":
            message = f"the data have more than {fault.limit:,} kinds of surroundings for {name}"
        else:
            message = f"an update takes more than {fault.limit:,} steps for {name}"
        return FormulaLimitError(
            message + what_now,
            limit="TYPE_LIMIT" if fault.kind == "types" else "STEP_LIMIT",
            bound=fault.limit + 1,
            allowed=fault.limit,
            subformula=str(self.body.normal.formula),
            hint=hint,
        )

    @property
    def is_empty(self) -> bool:
        """True if there are no facts and nobody is told what changes, so that rows may come in all at once."""
        return not self.emits_deltas and not self.census.stats()["elements"]

    # --- answers ---------------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of rows; not known of three variables."""
        self.check_counted("its rows are not counted")
        return int(self.census.count())

    def test(self, row: Sought) -> bool:
        """One look at the row's surroundings."""
        return bool(self.census.test(row.words))

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if the columns are the first ones."""
        return columns == frozenset(range(len(columns)))

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """The same: an index would do for others only where changes are told."""
        return self.looks_up(columns) or self.plan.is_counted

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """The rows that begin so."""
        if not self.looks_up(given.columns):
            return None
        words = given.words
        return self._chunks([words[i] for i in range(len(words))])

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed."""
        return self.rows(partly=partly)

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """All rows, in no order."""
        return self._chunks(())

    def _chunks(self, prefix: Sequence[int]) -> Iterator[WordRows]:
        self.check_result()
        cursor = self.census.cursor(prefix)
        while True:
            try:
                columns, each = self.census.fetch(cursor, CHUNK)
            except LimitFault as fault:
                raise self._refusal(fault, " when it is listed", _SMALLER) from fault
            except StaleListing as error:
                raise StaleCursor(str(error)) from error
            if not len(each):
                return
            yield WordRows(tuple(map(words_array, columns)), ones(len(each)), zeros(len(each)))

    def nbytes(self) -> int:
        """The memory that the census takes."""
        return self.census.nbytes()

    def stats(self) -> dict[str, Any]:
        """What the census keeps and has met."""
        return dict(self.census.stats())
