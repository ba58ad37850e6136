"""A block without grouping at work: its core's rows, conditions across relations, and computed columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.evaluate import Condition, Evaluator, either
from everview.engine.expressions.parked import Failure, Parked, came_from, reason, values_text
from everview.engine.operators.answers import Answers, Given, Sought
from everview.engine.operators.counts import Columns, Fold
from everview.engine.operators.join import Join
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, ones, repeated, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, to_words
from everview.errors import DataError
from everview.plan.core_plan import CorePlan
from everview.programs.link import Linker
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind, same_words
from everview.query.view import Block, Output
from everview.strategies.strategy import MOST_RANKS, Task

Maker = Callable[[WordRows, Sequence[pa.Array]], pa.Array]


class Select(Answers):
    """SELECT [DISTINCT] without GROUP BY."""

    def __init__(
        self,
        block: Block,
        plan: CorePlan,
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
        linker: Linker,
    ) -> None:
        self.core = Join(plan, (), relations, dictionary, linker)
        self.projection = Projection(block.outputs, self.core, dictionary)
        folds = plan.folds_rows or (block.distinct and self.projection.computes)
        types = [o.type for o in block.outputs]
        self.fold = Fold(types, 1, dictionary, linker) if folds else None
        self.width = len(block.outputs)
        self.needs_deltas = self.fold is not None or self.projection.may_fail
        """True if state outside the core depends on its deltas, or a batch may be refused because of them."""

    @property
    def cores(self) -> tuple[Join, ...]:
        """Its core."""
        return (self.core,)

    @property
    def folds(self) -> tuple[Fold, ...]:
        """The fold that makes rows distinct, where the core cannot."""
        return (self.fold,) if self.fold else ()

    @property
    def parked(self) -> tuple[Parked, ...]:
        """The rows that an expression fails on."""
        return (*self.core.parked, self.projection.parked)

    @property
    def is_net_per_update(self) -> bool:
        """True unless a fold stands between the core and the result."""
        return self.fold is None

    keeps_update_numbers = True

    def seed(self) -> None:
        """Without input it has no rows."""

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """True if a row says which row of each relation it is made of; ``implied`` columns follow from the others."""
        if self.fold is not None or self.core.plan.is_distinct:
            return False
        shown = self.projection.shown
        return all(
            not isinstance(term, Var) or term in shown or i in implied.get(atom.relation, ())
            for atom in self.core.plan.query.atoms
            for i, term in enumerate(atom.terms)
        )

    def emit_deltas(self, wanted: bool) -> None:
        """Give what changes from now on, or stop."""
        if wanted:
            self.core.start_deltas()
        else:
            self.core.stop_deltas()

    def process(self, changes: Changes) -> WordRows:
        """Take in updates and give what changed."""
        delta = WordRows.concat(self._deltas(changes), self.width)
        return delta if self.fold is None else flips(self.fold, delta, per_update=changes.per_update)

    def pieces(self, changes: Changes) -> Iterator[WordRows]:
        """The same, piece by piece, where nothing has to be added up first."""
        if self.fold is None:
            yield from self._deltas(changes)
        else:
            yield self.process(changes)

    def _deltas(self, changes: Changes) -> Iterator[WordRows]:
        for columns, measures, update in self.core.stream(changes):
            yield self.projection.passed(WordRows(columns, measures[0], update), changes)

    def count(self) -> int | None:
        """The fold's rows; or the core's, if each of them is one row of the result."""
        if self.fold is not None:
            return self.fold.count()
        if not self.projection.keeps_all:
            return None
        if self.core.maintained.counts_at_once:
            return self.core.count()
        return self.core.distinct() if self.core.plan.is_distinct else None

    def counted(self) -> int | None:
        """The core's rows, if it can count them and all are in the result."""
        return self.core.count() if self.fold is None and self.projection.keeps_all else None

    def recounted(self) -> int | None:
        """The same."""
        return self.core.recount() if self.fold is None and self.projection.keeps_all else None

    def test(self, row: Sought) -> bool | None:
        """A lookup in the fold, or in the core if the row's columns say which of its rows it is."""
        self.projection.know_constants()
        return self.projection.test(row.words) if self.fold is None else self.fold.holds(row.words)

    @property
    def _has_positions(self) -> bool:
        """True if its rows stand where those of the core do: each is one of them, and says which."""
        return self.fold is None and self.projection.keeps_all and self._shows_all

    @property
    def _shows_all(self) -> bool:
        """True if a row shows all variables of the core's row that it is made of."""
        return self.projection.shown >= frozenset(self.core.maintained.outputs)

    @property
    def is_in_order(self) -> bool:
        """True if its rows are kept in an order, and so have positions."""
        return self._has_positions and self.core.maintained.access is not None

    @property
    def may_access(self) -> bool:
        """True if its core has no positions, and could have them."""
        is_ordered = self.core.maintained.access is not None
        return not is_ordered and self._has_positions and Task.ACCESS in self.core.plan.maintenance.tasks

    @property
    def order(self) -> tuple[int, ...] | None:
        """The columns that show what the core's rows are ordered by; None if that is not the order of their values.

        So it is of floating-point numbers, whose words are kept in order.
        """
        order, terms = self.core.maintained.order, [e.term for e in self.projection.outputs]
        if not self.is_in_order or any(self.core.types[v].kind in (Kind.FLOAT, Kind.DOUBLE) for v in order):
            return None
        return tuple(terms.index(v) for v in order)

    def access(self, positions: Sequence[int]) -> WordRows | None:
        """The core's rows, if each is one of the result."""
        if not self._has_positions or not self._is_within_ranks:
            return None
        columns = self.core.access(positions)
        assert columns is not None
        return self.projection.passed(WordRows(columns, ones(len(positions)), zeros(len(positions))))

    def rank(self, row: Sought) -> int | None:
        """The core's rank of the row."""
        if not self._has_positions or not self._is_within_ranks:
            return None
        found = self.projection.core_words(dict(enumerate(row.words)))
        return None if found is None else self.core.rank(found)

    @property
    def shows_each_once(self) -> bool:
        """True if every column is a variable of its core, and no two are the same."""
        terms = [e.term for e in self.projection.outputs]
        return all(isinstance(t, Var) for t in terms) and len(set(terms)) == len(terms)

    def before(self, columns: Columns) -> pa.Array | None:
        """How many of its rows come before rows that need not be there, where it ``shows_each_once``."""
        if not self._has_positions or not self._is_within_ranks:
            return None
        terms = [e.term for e in self.projection.outputs]
        return self.core.before(tuple(columns[terms.index(v)] for v in self.core.maintained.outputs))

    @property
    def _is_within_ranks(self) -> bool:
        """True if there are no more rows than positions go."""
        return self.core.maintained.access is not None and (self.core.count() or 0) < MOST_RANKS

    @property
    def logged(self) -> Join | None:
        """The core, if differences of its rows can be found and each is one of the result's, without fail."""
        is_plain = self.fold is None and self.projection.residual is None and not self.needs_deltas
        return self.core if is_plain and self.core.maintained.difference else None

    def lookup(self, given: Given) -> Iterator[WordRows] | None:
        """A lookup of the whole row in the fold, or of what the columns say of the core's rows."""
        if self.fold is not None:
            return _folded(self.fold, given) if len(given.columns) == self.width else None
        if not given.columns <= self.projection.plain_columns:
            return None
        self.projection.know_constants()
        words = self.projection.core_words(given.words)
        if words is None:
            return iter(())
        found = self.core.look_up(words)
        return None if found is None else self._passed(found)

    def looks_up(self, columns: frozenset[int]) -> bool:
        """True if its core finds rows by the variables that are these columns, or the fold has the whole row."""
        if self.fold is not None:
            return len(columns) == self.width
        return columns <= self.projection.plain_columns and self.core.looks_up(self.projection.variables_of(columns))

    def may_look_up(self, columns: frozenset[int]) -> bool:
        """True if its core can, or could."""
        if self.looks_up(columns) or self.fold is not None or not columns <= self.projection.plain_columns:
            return self.looks_up(columns)
        return self.core.plan.maintenance.looks_up(self.projection.variables_of(columns))

    def placed(self, *, partly: bool) -> Iterator[WordRows] | None:
        """As they are listed, if a fold has them, or each says which row of the core it is."""
        return self.rows(partly=partly) if self.fold is not None or self._shows_all else None

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The whole result."""
        if self.fold is not None:
            for columns, measures in self.fold.rows():
                yield WordRows(columns, pc.cast(pc.greater(measures[0], ZERO), pa.int64()), zeros(len(measures[0])))
            return
        yield from self._passed(self.core.scan(partly=partly))

    def _passed(self, found: Iterator[tuple[Columns, Columns]]) -> Iterator[WordRows]:
        for columns, measures in found:
            yield self.projection.passed(WordRows(columns, measures[0], zeros(len(measures[0]))))


def _folded(fold: Fold, given: Given) -> Iterator[WordRows]:
    """The one row of a fold that has words in all columns, if it is there."""
    words = [word for _, word in sorted(given.words.items())]
    if fold.holds(words):
        yield WordRows(tuple(repeated(word, 1) for word in words), ones(1), zeros(1))


def flips(fold: Fold, delta: WordRows, *, per_update: bool = False) -> WordRows:
    """Count derivations; only a row's first coming and last going count, in all or ``per_update``, at every change."""
    if per_update:
        columns, update = delta.columns, delta.update
        (old,), (new,) = fold.trace(columns, (delta.weight,))
    else:
        fold.add(delta.columns, (delta.weight,))
        columns, (old,), (new,) = fold.touched()
        update = repeated(delta.update[0].as_py() if len(delta) else 0, len(new))
    fold.settle()
    change = pc.subtract(pc.cast(pc.greater(new, ZERO), pa.int64()), pc.cast(pc.greater(old, ZERO), pa.int64()))
    return WordRows(columns, change, update).filter(pc.not_equal(change, ZERO))


@dataclass(frozen=True)
class Chosen:
    """Rows of a core that pass its conditions and have values for all that is computed of them."""

    outputs: WordRows
    further: list[pa.Array]
    mask: pa.Array | None
    """Which of the core's rows they are; None: all."""


class Projection:
    """From a core's variables to output columns: residual conditions first, then terms and computed columns.

    ``further`` expressions are computed beside them. A row that any of this fails on is parked.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        core: Join,
        dictionary: Dictionary,
        further: Sequence[Expression] = (),
    ) -> None:
        self.core = core
        self.dictionary = dictionary
        self.outputs = tuple(o.expression for o in outputs)
        self.residual = Condition(core.plan.residual) if core.plan.residual else None
        computed = [e for e in self.outputs if e.term is None]
        self._count = len(computed)
        self._named = [*(o for o in outputs if o.expression.term is None), *(Output(str(e), e) for e in further)]
        self.evaluator = Evaluator([*computed, *further]) if computed or further else None
        self._makers = [self._maker(e, computed) for e in self.outputs]
        types = [core.types[v] for v in core.maintained.outputs]
        self.parked = Parked(types, dictionary, self._explain)

    @property
    def computes(self) -> bool:
        """True if some column is computed, so that different rows may become one."""
        return self._count > 0

    @property
    def keeps_all(self) -> bool:
        """True if no condition leaves rows out, and nothing is computed that they could have no value for."""
        return self.residual is None and self.evaluator is None

    @property
    def may_fail(self) -> bool:
        """True if there may be rows that a condition or a computed column has no value for."""
        used = (u for u in (self.residual, self.evaluator) if u is not None)
        return any(u.may_fail(self.core.types) for u in used)

    @property
    def shown(self) -> frozenset[Var]:
        """The core's variables that are columns of the output, as they are."""
        terms = [(e.term, e.type) for e in self.outputs]
        return frozenset(t for t, type_ in terms if isinstance(t, Var) and same_words(self.core.types[t], type_))

    def chosen(self, rows: WordRows, changes: Changes | None = None) -> Chosen:
        """What is made of those rows that pass; with ``changes`` the rows are a delta, made by them.

        Rows that fail are parked if they are a delta, and have been parked before if they are not.
        """
        mask = failed = None
        if self.residual is not None:
            mask, failed = self.residual.tried(self.values(rows, self.residual.variables), len(rows))
        kept = rows if mask is None else rows.filter(mask)
        computed: list[pa.Array] = []
        if self.evaluator is not None:
            computed, more = self.evaluator.tried(self.values(kept, self.evaluator.variables), len(kept))
            if more is not None:
                good = pc.invert(more)
                kept, computed = kept.filter(good), [array.filter(good) for array in computed]
                passed = mask if mask is not None else pa.repeat(True, len(rows))
                failed = either(failed, replaced(passed, more))
                mask = replaced(passed, good)
        if failed is not None:
            self._park(rows.filter(failed), changes)
        outputs = kept.with_columns([make(kept, computed) for make in self._makers])
        return Chosen(outputs, computed[self._count :], mask)

    def passed(self, rows: WordRows, changes: Changes | None = None) -> WordRows:
        """The output columns of those rows that pass."""
        return self.chosen(rows, changes).outputs

    def _park(self, rows: WordRows, changes: Changes | None | None) -> None:
        if changes is None:
            if self.parked.counts is None:  # Nobody has looked at them when they came.
                failure = self._explain(tuple(c.slice(0, 1) for c in rows.columns))
                assert failure is not None
                raise DataError(failure.text())
            return
        self.parked.add(rows.columns, rows.weight, came_from(changes, rows.columns, rows.update))

    def _explain(self, columns: tuple[pa.Array, ...]) -> Failure | None:
        """What is wrong with one row."""
        row = WordRows(columns, ones(1), zeros(1))
        if self.residual is not None:
            values = self.values(row, self.residual.variables)
            unmet = self.residual.why(values)
            if unmet is not None:
                condition, error = unmet
                text = values_text(values, sorted(condition.variables))
                return Failure(f"the condition {condition}", reason(error), text)
        if self.evaluator is None:
            return None
        values = self.values(row, self.evaluator.variables)
        found = self.evaluator.why(values)
        if found is None:
            return None
        at, error = found
        output, text = self._named[at], values_text(values, self.evaluator.reads(at))
        if str(output.expression) == output.name:
            return Failure(output.name, reason(error), text)
        return Failure(f"column {output.name}, {output.expression},", reason(error), text, column=output.name)

    def fails_without(self, variables: frozenset[Var]) -> bool:
        """True if a row that is parked fails on what has nothing to do with these variables."""
        if self.residual is not None and not variables.isdisjoint(self.residual.variables):
            return False  # once they have other values, the condition may leave the row out
        alone = [o.expression for o in self._named if variables.isdisjoint(o.expression.variables)]
        evaluator = Evaluator(alone) if alone else None
        for columns in self.parked.left():
            rows = WordRows(columns, ones(len(columns[0])), zeros(len(columns[0])))
            mask = failed = None
            if self.residual is not None:
                mask, failed = self.residual.tried(self.values(rows, self.residual.variables), len(rows))
            kept = rows if mask is None else rows.filter(mask)
            if failed is None and evaluator is not None:
                _, failed = evaluator.tried(self.values(kept, evaluator.variables), len(kept))
            if failed is not None and pc.any(failed).as_py():
                return True
        return False

    def test(self, words: Sequence[int]) -> bool | None:
        """Whether the core has the row that becomes this output; None if outputs are computed or do not say which."""
        if not self.says_core_row:
            return None
        found = self.core_words(dict(enumerate(words)))
        if found is None:
            return False
        held = self.core.test(found)
        if not held:
            return held
        columns = tuple(repeated(found[v], 1) for v in self.core.maintained.outputs)
        return len(self.passed(WordRows(columns, ones(1), zeros(1)))) > 0

    def know_constants(self) -> None:
        """See to it that constants have ids, so that a row that is asked for has theirs, and no other one has."""
        for expression in self.outputs:
            if isinstance(expression.term, Const) and is_wide(expression.type):
                to_words(
                    pa.array([expression.term.value]).cast(arrow_type(expression.type)),
                    expression.type,
                    self.dictionary,
                )

    @property
    def says_core_row(self) -> bool:
        """True if its output is made of constants and of all variables of the core, as they are."""
        terms = [e.term for e in self.outputs]
        variables = frozenset(t for t in terms if isinstance(t, Var))
        is_plain = None not in terms and variables == self.shown
        return is_plain and variables == frozenset(self.core.maintained.outputs)

    @property
    def plain_columns(self) -> frozenset[int]:
        """The columns that are constants, or variables of the core as they are."""
        shown = self.shown
        terms = enumerate(e.term for e in self.outputs)
        return frozenset(i for i, t in terms if isinstance(t, Const) or t in shown)

    def variables_of(self, columns: frozenset[int]) -> frozenset[Var]:
        """The core's variables that some columns are."""
        terms = (self.outputs[i].term for i in columns)
        return frozenset(t for t in terms if isinstance(t, Var))

    def core_words(self, words: Mapping[int, int]) -> dict[Var, int] | None:
        """The words of the core's rows that have given words in some of the columns; None if there can be none."""
        found: dict[Var, int] = {}
        for place, word in words.items():
            expression = self.outputs[place]
            term = expression.term
            if isinstance(term, Var):
                if found.setdefault(term, word) != word:
                    return None
            elif isinstance(term, Const) and self._constant(term, expression.type) != word:
                return None
        return found

    def _constant(self, term: Const, type_: DataType) -> int:
        """The word of a constant, which is not kept for that."""
        array = pa.array([term.value]).cast(arrow_type(type_))
        wide = is_wide(type_)
        words = self.dictionary.lookup(array) if wide else to_words(array, type_, self.dictionary)
        return int(words[0].as_py())

    def values(self, rows: WordRows, variables: Sequence[Var]) -> dict[Var, pa.Array]:
        """Some of the core's variables as values."""
        places = self.core.maintained.outputs
        return {v: from_words(rows.columns[places.index(v)], self.core.types[v], self.dictionary) for v in variables}

    def _maker(self, expression: Expression, computed: Sequence[Expression]) -> Maker:
        """How an output column is made from the core's words and the computed columns."""
        term, want, dictionary = expression.term, expression.type, self.dictionary
        if isinstance(term, Var):
            place, have = self.core.maintained.outputs.index(term), self.core.types[term]
            if same_words(have, want):
                return lambda rows, _: rows.columns[place]
            return lambda rows, _: _in_type(rows.columns[place], have, want, dictionary)
        if isinstance(term, Const):
            scalar = pa.scalar(term.value).cast(arrow_type(want))
            return lambda rows, _: to_words(pa.repeat(scalar, len(rows)), want, dictionary)
        position = computed.index(expression)
        return lambda _, arrays: to_words(arrays[position], want, dictionary)


def replaced(mask: pa.Array, values: pa.Array) -> pa.Array:
    """``values`` for those rows that ``mask`` is true for, one after the other, and false for all others."""
    return pc.replace_with_mask(pa.repeat(False, len(mask)), mask, values)


def _in_type(words: pa.Array, have: DataType, want: DataType, dictionary: Dictionary) -> pa.Array:
    """Words of one type as words of another, where a set operation widens a column."""
    return to_words(from_words(words, have, dictionary).cast(arrow_type(want)), want, dictionary)
