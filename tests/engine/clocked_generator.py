"""Random queries over rows that come and go by the clock, under all constructs; and steps by which it goes on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tests.engine.case_data import Case, ColumnDef, Row, Step, TableDef
from tests.engine.nested_generator import NestedQueries
from tests.engine.query_generator import Relation

START = datetime(2024, 2, 27, 12)
"""A leap year's end of February is near."""
EVENTS = TableDef(
    "events",
    (ColumnDef("a", "n", "INT", True), ColumnDef("ts", "z", "TIMESTAMP_NTZ", True), ColumnDef("b", "n", "INT", True)),
)
_BOUNDS = (
    "ts > now() - INTERVAL 3 DAYS",
    "ts >= now() - INTERVAL 12 HOURS AND ts < now()",
    "ts BETWEEN now() - INTERVAL 1 MONTH AND now() - INTERVAL 1 DAY",
    "ts + INTERVAL 2 DAYS >= now()",
    "ts > now() + INTERVAL 1 HOUR",
    "now() - ts < INTERVAL 1 DAY",
)


def with_clock(case: Case, tables: Sequence[TableDef]) -> Case:
    """The case with a table of events, views over the recent ones, and a clock.

    The views are there from the beginning: events that no view reads any more are forgotten.
    """
    r = random.Random(f"clock {case.seed}")
    queries = NestedQueries(r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in tables])
    recent = Relation("recent", [(c.name, c.kind) for c in EVENTS.columns])
    queries.relations += [recent] * (2 * len(tables))
    steps: list[Step] = []
    for number in range(r.choice((1, 2))):
        text = "SELECT a, b, ts FROM recent"
        for _ in range(6):
            found, _ = queries.nested()
            if " recent " in found and "WITH" not in found:
                text = found
                break
        view = f"WITH recent AS (SELECT a, ts, b FROM events WHERE {r.choice(_BOUNDS)}) {text}"
        steps.append(Step("view", f"c{number}", view, oracle=queries.oracle(view).replace("now()", "the_clock()")))
        if r.random() < 0.7:
            steps.append(Step("feed", f"c{number}", option=r.choice(("net", "per_update"))))
    later, known = list(case.steps), list[Row]()
    at = 0
    for _ in range(r.randint(3, 6)):
        at = r.randint(at, len(later))
        if r.random() < 0.5:
            hours = r.choice((0, 1, 5, 24, 24 * 4, 24 * 31))
            later.insert(at, Step("advance", option=str(hours)))
        else:
            gone = r.sample(known, min(len(known), r.choice((0, 0, 1, 2))))
            rows = [_event(r) for _ in range(r.randint(1, 6))]
            known = [row for row in known if row not in gone] + rows
            operations = [("delete", "events", tuple(gone)), ("insert", "events", tuple(rows))]
            operations = [o for o in operations if o[2]]
            later.insert(at, Step("batch", operations=tuple(operations), option=r.choice(("plain", "apply"))))
        at += 1
    return replace(case, tables=(*case.tables, EVENTS), steps=(*steps, *later), clock=START)


def _event(r: random.Random) -> Row:
    """An event around the clock's beginning, or far from it."""
    when = None if r.random() < 0.05 else START + timedelta(hours=r.choice((1, 24)) * r.randint(-40, 40))
    return r.choice((None, 0, 1, 2)), when, r.choice((None, 0, 1, 2, 3))
