"""A view at work: its parts one after the other, and what they keep."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.clock import Clock
from everview.engine.expressions.parked import Failure, Parked
from everview.engine.operators.build import blocks_of, build_part, formulas_in, grouped_blocks, reads_from, united
from everview.engine.operators.counts import Fold, Kept
from everview.engine.operators.indexed import Indexed
from everview.engine.operators.join import Join
from everview.engine.operators.select import Select
from everview.engine.operators.sides import Operator, pieces_of
from everview.engine.operators.timed import TimedRows
from everview.engine.progress import Progress
from everview.engine.row_history import RowHistory
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import ZERO, Changes, WordRows, repeated, zeros
from everview.engine.values.words import is_wide
from everview.errors import (
    DataError,
    ExpressionError,
    FormulaLimitError,
    MemoryLimitError,
    NotListedError,
    told_together,
)
from everview.kernel.machine import Unit
from everview.plan.part_plan import PartPlan
from everview.plan.view_plan import ViewPlan, looked_up
from everview.programs.link import Linker
from everview.query.terms import Var
from everview.query.types import BIGINT, DataType
from everview.query.view import Block, View

BuildPart = Callable[[PartPlan, Mapping[str, tuple[DataType, ...]], Dictionary, Linker], Operator]
_MANY_COPIES = 16
"""A stage that changes in so many times as many rows as came in has them added up before others read them."""


class ViewRuntime:
    """Maintains one view: changes of the relations it reads come in, its own changes come out."""

    def __init__(
        self,
        plan: ViewPlan,
        relations: Mapping[str, tuple[DataType, ...]],
        dictionary: Dictionary,
        views: Mapping[str, ViewRuntime] | None = None,
        build: BuildPart | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.plan = plan
        self.build = build
        """What makes the operator of its result, where that is not the one of its query."""
        self.view: View = plan.view
        self.dictionary = dictionary
        self.types = tuple(c.type for c in plan.view.columns)
        self.stages: list[tuple[str, Operator]] = []
        known, linker = dict(relations), Linker(dictionary.machine)
        for part in plan.parts:
            if part is plan.result and build is not None:
                source = build(part, known, dictionary, linker)
            else:
                source = build_part(part, known, dictionary, linker)
            if part is plan.result and build is None:
                source = self._indexed(source, linker)
            self.stages.append((part.name, source))
            known[part.name] = tuple(c.type for c in part.body.columns)
        self.timed = [source for _, source in self.stages if isinstance(source, TimedRows)]
        """The stages whose rows come and go by the clock."""
        for timed in self.timed:
            timed.clock = clock or timed.clock
        self.unit = linker.link()
        """Holds its state: all programs of all parts."""
        for i, (_, source) in enumerate(self.stages):
            source.seed()
            if source.needs_deltas or source is not self.result:
                source.emit_deltas(True)
            for name, earlier in self.stages[:i]:
                for rows in earlier.rows():
                    source.process(self._of_stage(name, rows))
        self.cores: tuple[Join, ...] = tuple(c for _, s in self.stages for c in s.cores)
        counting = [c for u in united(self.result) for _, term in u.terms for c in term.cores]
        self._telling = [c for c in self.result.cores if c not in counting]
        self.formulas = [f for _, s in self.stages for f in formulas_in(s)]
        """The formula that it is, if it is one."""
        own = {name for name, _ in self.stages[:-1]}
        read = {a.relation for c in self.cores for a in c.plan.query.atoms}
        self.reads = frozenset(read.union(*(f.body.tables for f in self.formulas))) - own
        """The tables and views that it reads."""
        self.above = {name: view for name, view in (views or {}).items() if name in self.reads}
        """Those of them that are views."""
        self._listed = [a for _, s in self.stages for block in grouped_blocks(s) for a in block.valued]
        self._parked = [(p, source) for _, source in self.stages for p in source.parked]
        self.net = Fold(self.types, 1, dictionary, is_kept=False)
        self._sums: dict[str, Fold] = {}
        self.updates = 0
        self.deltas = 0
        self.updates_with_deltas = 0
        """Of how many updates it has counted what they changed: those that came while it told that."""
        self.refills = 0
        """How often it was filled anew, as a view that it reads was replaced."""
        self.dropped = False
        self.restored: str | None = None
        self.history: RowHistory | None = None
        """Which of its stored rows the last batches have changed, if that is all that is kept for differences."""
        self.companions: dict[Hashable, ViewRuntime] = {}
        """Views that are kept beside it, and that nobody else knows of (``engine.companions``)."""
        self.direct: tuple[Unit, Any, str] | None = None
        """How the kernel runs batches through its unit, or why not, once one came (``engine.direct``)."""
        self.may_count_beside = True
        """False once it is known that no count of its rows can be kept in constant time (``engine.moments``)."""

    @property
    def family(self) -> tuple[ViewRuntime, ...]:
        """It and its companions."""
        return (self, *self.companions.values())

    def _indexed(self, source: Operator, linker: Linker) -> Operator:
        """The result with an index for each set of columns that its options name and that it cannot look up itself."""
        by = [columns for columns in dict.fromkeys(looked_up(self.view)) if not source.looks_up(columns)]
        return Indexed(source, self.types, by, self.dictionary, linker) if by else source

    @property
    def result(self) -> Operator:
        """The part that gives the view's rows."""
        return self.stages[-1][1]

    @property
    def logged(self) -> Join | None:
        """The core by whose stored rows differences of the result can be found; None if it must tell its changes."""
        return self.result.logged if isinstance(self.result, Select) else None

    def difference(self, version: int) -> WordRows:
        """What has changed since a version that its history knows, net."""
        assert self.history is not None
        assert isinstance(self.result, Select)
        (came, new), (went, old) = self.history.since(version)
        sides = (WordRows(came, new, zeros(len(new))), WordRows(went, old, zeros(len(old))).negated())
        return self.netted([self.result.projection.passed(rows) for rows in sides])

    @property
    def is_told(self) -> bool:
        """True if it tells what changes."""
        return all(c.emits_deltas for c in self._telling) and all(f.emits_deltas for f in self.formulas)

    @property
    def folds(self) -> tuple[Kept, ...]:
        """All folds of all parts."""
        return tuple(f for _, s in self.stages for f in s.folds)

    @property
    def is_net_per_update(self) -> bool:
        """True if each changed row knows the update that made it, though a whole batch is run at once.

        So it is for joins of tables: whatever they emit for an update comes, or goes, because of that update alone.
        """
        return len(self.stages) == 1 and self.result.is_net_per_update

    def identifies_inputs(self, implied: Mapping[str, frozenset[int]]) -> bool:
        """True if a row of the result says which row of each table it is made of, ``implied`` columns apart."""
        return len(self.stages) == 1 and self.result.identifies_inputs(implied)

    @property
    def keeps_update_numbers(self) -> bool:
        """True if a whole batch can be run at once, and what each update has changed be told, once netted."""
        return len(self.stages) == 1 and self.result.keeps_update_numbers

    @property
    def group_columns(self) -> tuple[int, ...] | None:
        """The output columns that hold the keys of a grouped view; None if it is not grouped or does not show them."""
        body = self.view.body
        if not isinstance(body, Block) or body.grouping is None:
            return None
        terms = [o.expression.term for o in body.outputs]
        keys = body.grouping.key_names
        return tuple(terms.index(k) for k in keys) if all(k in terms for k in keys) else None

    @property
    def is_listed(self) -> bool:
        """True unless its rows can only be tested."""
        return self.plan.is_listed

    def check_listed(self, why: str) -> None:
        """Raise if its rows can only be tested; ``why`` says what cannot be done then."""
        if not self.is_listed:
            raise NotListedError(
                f"{why}: with option answers = 'test' it is only known whether a row is there",
                hint=f"ALTER MATERIALIZED VIEW {self.view.name} SET OPTIONS (answers = 'list') has rows listed again",
            )

    def emit_deltas(self, wanted: bool) -> None:
        """Tell what changes, or stop telling, where that is not needed inside anyway."""
        if wanted:
            self.check_listed(f"what changes in {self.view.name} is not told")
        if not self.result.needs_deltas and self.is_listed:
            self.result.emit_deltas(wanted)

    def process(self, changes: Changes) -> Iterator[WordRows]:
        """Take in changes of one relation, piece by piece as the view's own, none empty, not netted, are asked for."""
        self.updates += len(changes)
        self.updates_with_deltas += len(changes) if self.is_told else 0
        tells = changes.per_update and not self.keeps_update_numbers
        yield from self._through([replace(changes, per_update=False) if tells else changes], len(changes))

    def moved(self) -> Iterator[WordRows]:
        """The clock has gone on: gives what changes by that, in the same way."""
        yield from self._through([], None)

    def _through(self, waiting: list[Changes], came: int | None) -> Iterator[WordRows]:
        """Have the stages take in, in turn, what waits for them; of updates that ``came``, or else of the clock."""
        try:
            for name, source in self.stages[:-1]:
                pieces = self._pieces(source, waiting)
                if came is None and isinstance(source, TimedRows):
                    pieces = chain([source.moved()], pieces)
                rows = WordRows.concat(pieces, source.width)
                if came is not None and len(rows) > _MANY_COPIES * came:
                    rows = self._added_up(name, rows)
                if len(rows):
                    waiting.append(self._of_stage(name, rows))
            for piece in self._pieces(self.result, waiting):
                self.deltas += len(piece)
                yield piece
        except DataError as error:
            if not isinstance(error, MemoryLimitError):
                error.name_view(self.view.name)
            raise

    def _added_up(self, stage: str, rows: WordRows) -> WordRows:
        """A stage's changes with copies as numbers: UNION ALL of a stage with itself, and so on, would double them.

        They are told as the first one's update: where updates are told apart, they come to stages one by one.
        """
        fold = self._sums.get(stage)
        if fold is None:
            fold = self._sums[stage] = Fold(self._types_of(stage), 1, self.dictionary, is_kept=False)
        columns, weight = fold.summed([(rows.columns, rows.weight)])
        update = repeated(rows.update[0].as_py(), len(weight))
        return WordRows(columns, weight, update).filter(pc.not_equal(weight, ZERO))

    @staticmethod
    def _pieces(source: Operator, waiting: list[Changes]) -> Iterator[WordRows]:
        for changes in waiting:
            if reads_from(source, changes.relation):
                yield from pieces_of(source, changes)

    def _of_stage(self, name: str, rows: WordRows) -> Changes:
        return Changes(name, self._types_of(name), rows, self.dictionary, is_base=False)

    def _types_of(self, stage: str) -> tuple[DataType, ...]:
        part = next(p for p in self.plan.parts if p.name == stage)
        return tuple(c.type for c in part.body.columns)

    def netted(self, parts: list[WordRows], *, per_update: bool = False) -> WordRows:
        """A batch's, or each single update's, changes added up: rows that came and went again are gone."""
        fold = Fold((BIGINT, *self.types), 1, self.dictionary, is_kept=False) if per_update else self.net
        columns, weight = fold.summed(
            ((part.update, *part.columns) if per_update else part.columns, part.weight) for part in parts
        )
        update, columns = (columns[0], columns[1:]) if per_update else (zeros(len(weight)), columns)
        return WordRows(columns, weight, update).filter(pc.not_equal(weight, ZERO))

    # --- what fails ------------------------------------------------------------------------------------------------

    def judge(self, *, may_suspend: bool = False) -> None:
        """A batch is at its end: raises if it leaves a row or group that an expression fails on.

        Not so if that is made of the row that a global aggregate has over no input: then the view has no result now.
        Nor, with ``may_suspend``, if a formula meets a limit: but what is kept beside it would not be right any more.
        """
        for formula in self.formulas:
            formula.judge(may_suspend=may_suspend and formula is self.result)
        left = [p for p, source in self._parked if p.is_left and not self._is_excused(p, source)]
        if left:
            raise told_together([p.refusal(self.view.name) for p in left])

    def conclude(self) -> None:
        """The batch has been taken."""
        for formula in self.formulas:
            formula.conclude()
        for parked, _ in self._parked:
            if parked.counts is not None:
                parked.conclude()
        for companion in self.companions.values():
            companion.conclude()

    def _is_excused(self, parked: Parked, source: Operator) -> bool:
        """True if what is parked may be made of such a row: of those that its own side of a set operation reads."""
        block = next(block for block in blocks_of(source) if any(p is parked for p in block.parked))
        if any(parked is grouped.failing and grouped.is_over_nothing for grouped in grouped_blocks(block)):
            return True
        at = [core.relation_of(parked) for core in block.cores]
        alone = {relation for relation in at if relation is not None}
        if not any(self._is_of_nothing(relation) for relation in alone or _read_by(block)):
            return False
        return bool(alone) or not self._fails_alone(parked, block)

    def _fails_alone(self, parked: Parked, block: Operator) -> bool:
        """True if a row that joins several relations fails on what others than such a row have given it."""
        grouped = grouped_blocks(block)
        plain = [block.projection] if isinstance(block, Select) else [g.projection for g in grouped]
        for projection in (*plain, *(a.projection for g in grouped for a in g.valued)):
            if projection.parked is parked:
                atoms = projection.core.plan.query.atoms
                of_nothing = (a.variables for a in atoms if self._is_of_nothing(a.relation))
                return projection.fails_without(frozenset[Var]().union(*of_nothing))
        return False

    def _is_of_nothing(self, relation: str) -> bool:
        """True if rows of a stage, or of a view that is read, may be made of a global aggregate's over no input."""
        if relation in self.above:
            view = self.above[relation]
            return view._is_of_nothing(view.stages[-1][0])
        source = dict(self.stages).get(relation)
        if source is None:
            return False
        if any(block.is_over_nothing for block in grouped_blocks(source)):
            return True
        return any(self._is_of_nothing(r) for r in _read_by(source))

    @property
    def parked(self) -> tuple[Parked, ...]:
        """All that may be parked, in a fixed order."""
        return tuple(p for p, _ in self._parked)

    def _standing(self) -> tuple[str, Failure] | None:
        """Why the view has no result now, and the view, this or one that it reads, that it is because of."""
        for view in self.above.values():
            found = view._standing()
            if found is not None:
                return found
        failing = next((p for p, _ in self._parked if p.is_left), None)
        return None if failing is None else (self.view.name, failing.failure()[0])

    @property
    def suspension(self) -> FormulaLimitError | None:
        """Why the view, a formula, has no result, as its data are beyond a limit; None if that is not so."""
        return next((f.suspension for f in self.formulas if f.suspension is not None), None)

    def check_result(self) -> None:
        """Raise if the view has no result now."""
        for formula in self.formulas:
            formula.check_result()
        why = self.why_no_result()
        if why is not None:
            hint = "it has one again once there is input; or write nullif(x, 0), or CASE, around what fails"
            raise ExpressionError(f"{self.view.name} has no result now: {why}", hint=hint)

    def why_no_result(self) -> str | None:
        """Why the view has no result now; None if it has one, which is nearly always."""
        if self.suspension is not None:
            return self.suspension.message
        found = self._standing()
        if found is None:
            return None
        name, failure = found
        whose = "its row" if name == self.view.name else f"the row of {name}, which it reads,"
        return f"{whose} over no input cannot be computed: {failure.text()}"

    def rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The whole result, chunk by chunk; a row may come in several pieces.

        With ``partly`` perhaps only the first rows are going to be read.
        """
        self.check_listed(f"the rows of {self.view.name} cannot be listed")
        yield from self.result.rows(partly=partly)

    @property
    def further_units(self) -> list[Unit]:
        """Those beside its own that are there for a while, or only for a batch."""
        parked = [p.counts for p in self.parked if p.counts is not None]
        totals = [core.total for core in self.cores if core.total is not None]
        nets = [u.net for _, source in self.stages for u in united(source)]
        own = [f.part.whole for f in (*parked, *totals, *nets, self.net, *self._sums.values())]
        return own + [unit for c in self.companions.values() for unit in (c.unit, *c.further_units)]

    def is_lost(self, lost: frozenset[int]) -> bool:
        """True if one of its units is among these, by their numbers: then it must be filled anew."""
        return any(unit.number in lost for unit in (self.unit, *self.further_units))

    def unlink(self) -> None:
        """Free all that it holds, as nobody reads it any more."""
        for unit in (self.unit, *self.further_units):
            unit.unlink()

    def release_values(self, read: Mapping[str, BaseTable | ViewRuntime]) -> None:
        """Give back the uses of wide values, as the view is no more; ``read`` are the relations that are read.

        Those are what it reads, and what its companions read, itself among that.
        """
        for companion in self.companions.values():
            companion.release_values({name: self if name == self.view.name else read[name] for name in companion.reads})
        read = {name: read[name] for name in self.reads}
        if not self.may_hold_wide({name: thing.types for name, thing in read.items()}):
            return
        with Progress(f"freeing {self.view.name}") as progress:
            for name, thing in sorted(read.items()):
                for rows in thing.rows():
                    is_base = isinstance(thing, BaseTable)
                    self._release(Changes(name, thing.types, rows.negated(), self.dictionary, is_base))
                    progress.add(len(rows))
            for name, source in self.stages[:-1]:
                for rows in source.rows():
                    self._release(self._of_stage(name, rows.negated()))
        for kept in (*self.folds, *(p.counts for p in self.parked if p.counts is not None)):
            kept.let_go()

    def _release(self, changes: Changes) -> None:
        for core in self.cores:
            core.count_values(changes)

    def may_hold_wide(self, relations: Mapping[str, tuple[DataType, ...]]) -> bool:
        """True if it may keep strings and other wide values alive, given the columns of what it reads."""
        types = [t for columns in relations.values() for t in columns]
        types += [c.type for part in self.plan.parts for c in part.body.columns]
        types += [c.expression.type for core in self.cores for atom in core.plan.query.atoms for c in atom.computed]
        types += [t for kept in self.folds for t in kept.word_types.values()]
        types += [type_ for core in self.cores for type_ in core.value_types.values()]
        return any(map(is_wide, types))

    def nbytes(self) -> int:
        """The memory that its state takes, as far as it is not the kernel's by estimate."""
        parked = sum(p.nbytes() for p in self.parked)
        beside = sum(c.unit.nbytes() for c in self.companions.values())
        return self.unit.nbytes() + parked + beside + self.beside_nbytes()

    def beside_nbytes(self) -> int:
        """What of that is not in a unit."""
        beside = sum(c.beside_nbytes() for c in self.companions.values())
        return beside + sum(a.nbytes() for a in self._listed) + sum(f.nbytes() for f in self.formulas)


def _read_by(source: Operator) -> set[str]:
    """The relations that a part reads."""
    return {atom.relation for core in source.cores for atom in core.plan.query.atoms}
