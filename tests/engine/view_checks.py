"""What a view answers, in several ways, and what it says that has no result."""

from __future__ import annotations

import random

import everview as ev
from everview.errors import ExpressionError
from tests.engine.bags import Bag, bag, expect, plain
from tests.engine.case_data import Row
from tests.engine.judging import Verdict


def check_no_result(view: ev.View, verdict: Verdict) -> None:
    """A view whose row over no input fails is there, and has no rows."""
    name = view.name
    expect(verdict in (Verdict.NO_RESULT, Verdict.UNKNOWN), f"{name} has no result: {verdict}")
    expect("no input" in view.stats()["failing"], f"{name}: {view.stats()['failing']}")
    row = (None,) * len(view.schema)
    for ask in (len, list, bool, lambda v: v.to_arrow(), lambda v: row in v, lambda v: v.page(limit=1)):
        try:
            ask(view)
        except ExpressionError as error:
            expect("has no result now" in error.message, f"{name}: {error!r}")
        else:
            expect(False, f"{name} has no result, and answers all the same")
    expect(bool(view.explain()), f"{name}: explain")


def check_reads(r: random.Random, view: ev.View, rows: list[Row], found: Bag) -> None:
    """Some of the ways to read a view, beside its list."""
    name = view.name
    if r.random() < 0.3:
        table = view.to_arrow()
        expect(table.num_rows == len(rows), f"{name}: to_arrow has {table.num_rows} rows, not {len(rows)}")
        listed = bag(zip(*(c.to_pylist() for c in table.columns), strict=True))
        expect(listed == found, f"{name}: to_arrow differs")
        offset, limit = r.randint(0, len(rows)), r.randint(0, 5)
        paged = view.page(offset=0, limit=len(rows))
        expect(bag(paged) == found, f"{name}: page(0, {len(rows)})")
        page = view.page(offset=offset, limit=limit)
        expect(bag(page) == bag(paged[offset : offset + limit]), f"{name}: page({offset}, {limit})")
        if rows:
            at = r.randrange(-len(rows), len(rows))
            expect(bag([view[at]]) == bag([paged[at]]), f"{name}: [{at}]")
    for row in r.sample(rows, min(2, len(rows))):
        expect(row in view, f"{name}: {row} is not in it")
    if rows:
        mixed = tuple(r.choice(rows)[i] for i in range(len(rows[0])))
        there = tuple(map(plain, mixed)) in found
        expect((mixed in view) == there, f"{name}: {mixed} in it is {not there}")
