"""What a table and a view do with a batch, described for the kernel: once, when the first batch comes."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from everview.engine.base_table import BaseTable
from everview.engine.direct.cores import cores_of
from everview.engine.direct.expressions import Constants, NotInWords
from everview.engine.direct.groups import groups_of, handed
from everview.engine.direct.rows import rows_of
from everview.engine.direct.sets import SetOfSides, set_of
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.join import Join
from everview.engine.operators.select import Select
from everview.engine.operators.set_operations import Asked, Concatenation, Counted
from everview.engine.operators.sides import Operator
from everview.engine.operators.united import United
from everview.engine.values.words import is_wide
from everview.engine.view_runtime import ViewRuntime
from everview.kernel import BatchTable, BatchView
from everview.programs.base_table import CHANGE, DUPLICATE_KEY, OVER_DELETED, ROWS
from everview.query.types import DataType

_NAMES: Final = {
    "FirstRows": "ORDER BY with LIMIT",
    "FormulaOperator": "a formula",
    "Indexed": "an index that its options ask for",
    "WindowValues": "a window function",
}
"""Operators that the kernel does not run, as the user knows them."""


class DirectStage:
    """A stage of a view, mostly its only one, or a part of one: a block, or a set operation over other such parts."""

    def __init__(self, name: str, source: Operator) -> None:
        self.name = name
        """What reads it calls it so; empty if only a set operation does."""
        self.source = source
        self.core: Join | None = None
        """The first of its cores."""
        self.entries: dict[str, int] = {}
        """By which number it knows each relation,"""
        self.sides: list[DirectStage] = []
        """or the parts that it combines."""
        self.finishes = True
        """True if it makes rows of groups, too; else others do that, once it is through."""

    def describe_block(
        self, runtime: ViewRuntime, source: Select | GroupBy, derived: Container[str], shows_keys: bool
    ) -> None:
        """Say what a block does."""
        constants = Constants()
        described, self.entries = cores_of(source.cores, derived, constants)
        described |= {"rows": None, "group": None, "set": None}
        if isinstance(source, GroupBy):
            described["group"] = groups_of(source, shows_keys, constants)
            self.finishes = described["group"]["finish"] is not None
        else:
            described["rows"] = rows_of(source.projection, source.fold, constants)
        described["constants"] = constants.listed
        self.core = source.core
        self.kernel = BatchView(runtime.unit._unit, described)

    def describe_set(self, runtime: ViewRuntime, source: SetOfSides, types: Sequence[DataType]) -> None:
        """Say what a set operation does."""
        constants = Constants()
        described: dict[str, Any] = {"set": set_of(source, types, constants)}
        described["constants"] = constants.listed
        self.kernel = BatchView(runtime.unit._unit, described)


class DirectView:
    """A view as the kernel runs batches through it."""

    def __init__(self, runtime: ViewRuntime) -> None:
        self._derived = {*runtime.above, *(name for name, _ in runtime.stages[:-1])}
        self.stages: list[DirectStage] = []
        """Each after those that it reads."""
        for name, source in runtime.stages:
            is_result = source is runtime.result
            self._add(
                runtime, name, source, runtime._types_of(name), not is_result or runtime.group_columns is not None
            )
            if not is_result and not self.stages[-1].finishes:
                raise NotInWords(f"rows of {name}")
        self.result = self.stages[-1]
        self.core = runtime.result.cores[0]
        self.parked = runtime.parked
        source = self.result.source
        self.kept_elsewhere = [a.aggregate for a in handed(source)] if isinstance(source, GroupBy) else []
        """The aggregates whose values are kept, and whose groups are finished, in Python."""
        self.tells_updates = (
            len(self.stages) == 1
            and not runtime.above
            and self.result.finishes
            and self.result.source.keeps_update_numbers
        )
        """True if it can tell what each update has changed."""

    def _add(
        self, runtime: ViewRuntime, name: str, source: Operator, types: Sequence[DataType], shows_keys: bool
    ) -> DirectStage:
        if why := _why_not(source):
            raise NotInWords(why)
        stage = DirectStage(name, source)
        if isinstance(source, Select | GroupBy):
            stage.describe_block(runtime, source, self._derived, shows_keys)
        else:
            assert isinstance(source, SetOfSides)
            terms = [term for _, term in source.terms] if isinstance(source, United) else []
            for term in terms:  # They are only counted.
                self._add(runtime, "", term, types, True)
            stage.sides = [self._add(runtime, "", side, types, True) for side in source.sides]
            if not all(side.finishes for side in stage.sides):
                raise NotInWords("rows of groups under a set operation")
            stage.describe_set(runtime, source, types)
        self.stages.append(stage)
        return stage


def direct_view(runtime: ViewRuntime) -> DirectView | None:
    """How a view takes batches in directly; None if that cannot be said in words."""
    if runtime.direct is not None and runtime.direct[0] is runtime.unit:
        known: DirectView | None = runtime.direct[1]
        return known
    found, why = None, ""
    try:
        found = DirectView(runtime)
    except NotInWords as error:
        why = f"{error} cannot be said in words" if str(error) else "it cannot be said in words"
    runtime.direct = runtime.unit, found, why
    return found


def _why_not(source: Operator) -> str:
    """What of an operator's shape cannot be said in words; empty if all of it can."""
    if type(source) in (Select, Concatenation, Asked, Counted, United):
        return ""
    if type(source) is not GroupBy:
        return _NAMES.get(type(source).__name__, "its result")
    return "DISTINCT of groups" if source.fold is not None else ""


def way_of_batches(runtime: ViewRuntime) -> str:
    """How a view takes batches in, for ``stats``."""
    found = direct_view(runtime)
    if found is None:
        assert runtime.direct is not None
        return f"the other way: {runtime.direct[2]}"
    if kept := ", ".join(map(str, found.kept_elsewhere)):
        return f"directly, up to the values of {kept}: these are kept, and rows made of groups, in Python"
    return "directly" if found.result.finishes else "directly, but rows are made of groups in Python"


def direct_table(base: BaseTable) -> BatchTable:
    """How a table takes batches in."""
    if base.direct is None:
        unit = base.unit
        wide = [i for i, t in enumerate(base.types) if is_wide(t)]
        refusals = [unit._channels[OVER_DELETED], unit._channels[DUPLICATE_KEY]]
        change, rows = unit._procedures[CHANGE], unit._tables[ROWS]
        base.direct = BatchTable(unit._unit, change, refusals, rows, wide, len(base.types))
    return base.direct
