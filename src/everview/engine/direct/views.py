"""What a table and a view do with a batch, described for the kernel: once, when the first batch comes."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from everview.engine.base_table import BaseTable
from everview.engine.direct.cores import cores_of
from everview.engine.direct.expressions import Constants, NotInWords
from everview.engine.direct.groups import groups_of, handed
from everview.engine.direct.rows import rows_of
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.select import Select
from everview.engine.operators.sides import Operator
from everview.engine.values.words import is_wide
from everview.engine.view_runtime import ViewRuntime
from everview.kernel import BatchTable, BatchView
from everview.programs.base_table import CHANGE, DUPLICATE_KEY, OVER_DELETED, ROWS

_NAMES: Final = {
    "Concatenation": "UNION ALL",
    "Counted": "UNION, EXCEPT or INTERSECT",
    "FirstRows": "ORDER BY with LIMIT",
    "FormulaOperator": "a formula",
    "Indexed": "an index that its options ask for",
    "United": "UNION",
    "WindowValues": "a window function",
}
"""Operators that the kernel does not run, as the user knows them."""


class DirectStage:
    """A stage of a view, mostly its only one: what the kernel was told, and by which number it knows each relation."""

    def __init__(
        self, runtime: ViewRuntime, name: str, source: Select | GroupBy, derived: Container[str], shows_keys: bool
    ) -> None:
        self.name = name
        self.source = source
        self.core = source.core
        constants = Constants()
        described, self.entries = cores_of(source.cores, derived, constants)
        described |= {"rows": None, "group": None}
        if isinstance(source, GroupBy):
            described["group"] = groups_of(source, shows_keys, constants)
        else:
            described["rows"] = rows_of(source.projection, source.fold, constants)
        described["constants"] = constants.listed
        self.kernel = BatchView(runtime.unit._unit, described)
        self.finishes: bool = described["group"] is None or described["group"]["finish"] is not None
        """True if it makes rows of groups, too; else others do that, once it is through."""


class DirectView:
    """A view as the kernel runs batches through it."""

    def __init__(self, runtime: ViewRuntime) -> None:
        derived = {*runtime.above, *(name for name, _ in runtime.stages[:-1])}
        self.stages: list[DirectStage] = []
        for name, source in runtime.stages:
            if why := _why_not(source):
                raise NotInWords(why)
            assert isinstance(source, Select | GroupBy)
            is_result = source is runtime.result
            shows_keys = not is_result or runtime.group_columns is not None
            self.stages.append(DirectStage(runtime, name, source, derived, shows_keys))
            if not is_result and not self.stages[-1].finishes:
                raise NotInWords(f"rows of {name}")
        self.result = self.stages[-1]
        self.core = self.result.core
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
    if type(source) is Select:
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
