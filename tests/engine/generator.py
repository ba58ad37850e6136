"""Random cases for the engine: a schema, views of every shape, and a script of updates, feeds and failures.

A case is plain data made from a seed, so that it can be printed, run again and made smaller. Steps are lenient: the
runner drops deletes of rows that are not there and second rows of a key, so that any part of a script is a script.
"""

from __future__ import annotations

from tests.engine.case_data import Case, Step, TableDef
from tests.engine.clocked_generator import with_clock
from tests.engine.column_generator import with_columns
from tests.engine.nested_generator import with_nested
from tests.engine.option_generator import dialled
from tests.engine.script_generator import Script
from tests.engine.subquery_generator import with_subqueries


def case_for(seed: int, schema: tuple[TableDef, ...], views: tuple[str, ...]) -> Case:
    """A case with given tables and views under random updates; the views are v0, v1, …"""
    script = Script(seed)
    script.tables = schema
    script.inserted = {t.name: [] for t in schema}
    script.most, script.domain = 6, 3
    steps = [Step("view", f"v{i}", text) for i, text in enumerate(views)]
    if seed % 2:
        steps.insert(0, script.filled())
    for option in ("net", "per_update"):
        steps += [Step("feed", f"v{i}", option=option) for i in range(len(views))]
    for i in range(5):
        steps.append(
            script.filled()
            if i == 1
            else script.bad()
            if i == 3
            else Step("batch", operations=(script.operation("random"), script.operation("fifo")), option="plain")
        )
    steps.append(Step("close", option="0"))
    steps.append(Step("batch", operations=tuple(script.adversarial()), option="plain"))
    return Case(seed, schema, tuple(steps), check_updates=True)


def make_case(seed: int) -> Case:
    """The case of a seed."""
    script = Script(seed)
    steps = script.steps()
    case = dialled(Case(seed, script.tables, steps, script.r.random() < 0.3))
    if script.fails:
        return case
    if seed % 7 == 0:
        case = with_columns(case, script.tables)
    found = (with_nested if seed % 4 else with_subqueries)(case, script.tables)
    return with_clock(found, script.tables) if seed % 5 == 0 else found
