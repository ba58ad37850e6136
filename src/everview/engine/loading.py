"""Rows that come while there are none: they are stored first, and the state is made of all of them at the end.

That is cheaper than one update after the other where a strategy knows how (``Maintained.build``): nothing has to be
moved as tables grow, and what is joined is joined once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from everview.engine.operators.build import grouped_blocks
from everview.engine.operators.formula import FormulaOperator
from everview.engine.operators.join import Join
from everview.engine.operators.steps import explained
from everview.engine.values.rows import Place, zeros
from everview.engine.view_runtime import ViewRuntime
from everview.kernel.machine import UpdateFault


@contextmanager
def loaded(views: Sequence[ViewRuntime]) -> Iterator[None]:
    """Have the cores that have no rows yet store those that come now, and make their state of them at the end."""
    loading = [core for view in views for core in view.cores if can_load(core)]
    formulas = [formula for view in views for formula in view.formulas if formula.is_empty]
    parts: list[Join | FormulaOperator] = [*loading, *formulas]
    for part in parts:
        part.is_loading = True
    try:
        yield
    finally:
        for part in parts:
            part.is_loading = False
    for core in loading:
        _build(core)
    for view in views if loading else ():
        for block in (b for _, source in view.stages for b in grouped_blocks(source)):
            block.check_limits(Place())


def can_load(core: Join) -> bool:
    """True if there are no rows, nobody is told what changes, and the strategy knows how.

    A table without a key may have a row that holds numbers.
    """
    if core.maintained.build is None or core.emits_deltas:
        return False
    keyed = {table.name for table in core.maintained.program.tables if table.key}
    return not any(rows for name, (rows, _) in core.part.table_stats().items() if name in keyed)


def _build(core: Join) -> None:
    assert core.maintained.build is not None
    try:
        core.part.apply(core.maintained.build, [zeros(1)])
    except UpdateFault as fault:
        raise explained(fault) from fault
