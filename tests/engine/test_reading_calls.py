"""All reading calls over random cases: what each gives follows from the list of rows, which DuckDB has agreed to."""

from __future__ import annotations

import math
import random
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

import everview as ev
from everview.engine.positions import _in_order
from everview.engine.reasons import _Trace
from everview.errors import ScanWarning, SingularMatrix, ValueTypeError
from tests.engine.bags import Bag, close, expect, plain
from tests.engine.case_data import Row
from tests.engine.differential import Run
from tests.engine.generator import make_case
from tests.scale import scaled

MOST_STAGES = 4
"""Each stage of a view is joined again for ``why``: views of more stages take too long to build."""


def shown(row: Sequence[Any]) -> Row:
    return tuple(map(plain, row))


class Reading(Run):
    """A case at work, in which some reading calls are made of each view after each batch."""

    def _check_reads(self, name: str, view: ev.View, rows: list[Row], found: Bag) -> None:
        calls: list[Callable[[ev.View, list[Row], Bag, random.Random], None]] = [
            positions,
            lookups,
            first_rows,
            samples,
            moments,
            strangers,
        ]
        if len(view._runtime.view.stages) <= MOST_STAGES:
            calls.append(self._reasons)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ScanWarning)
            for call in self.r.sample(calls, 2):
                call(view, rows, found, self.r)

    def _reasons(self, view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
        """The base rows that a row is made of make it, without any other."""
        for row in r.sample(rows, min(1, len(rows))):
            tables = _told_of(view, row)
            only: dict[str, list[Row]] = {name: [] for name in self.tables}
            for table, told in tables:
                kept = Counter(map(shown, only[table]))
                for one in told:  # Of several occurrences of a table each row is taken as often as in one of them.
                    kept[shown(one)] -= 1
                    if kept[shown(one)] < 0:
                        only[table].append(one)
            try:
                for table, kept_rows in only.items():
                    self._show(table, kept_rows)
                made = self._wanted(view.name)
            finally:
                for table in self.tables:
                    self._show(table)
            if isinstance(made, Counter):
                expect(
                    any(all(map(close, shown(row), one)) for one in made), f"{view.name}: {row} is not made of {only}"
                )
            for told in view.why(row, limit=1).values():
                expect(told.num_rows <= 1, f"{view.name}: more than one derivation of {row}")

    def _unchanged(self, before: dict[str, Any], what: str, *, filled_anew: bool = False) -> None:
        """What is kept beside views is not saved."""
        if what != "loading":
            super()._unchanged(before, what, filled_anew=filled_anew)

    def _as_fresh(self) -> None:
        """A new database has nothing beside its views."""

    def _empty(self) -> None:
        """Values of rows that are there without input stay: what is left is looked at elsewhere."""


def _told_of(view: ev.View, row: Row) -> list[tuple[str, list[Row]]]:
    """For each occurrence its table, and the rows of it."""
    names: list[str] = []
    tables = _Trace.tables

    def noted(trace: _Trace) -> dict[str, pa.Table]:
        names.extend(o.table.schema.name for o in trace.found.values())
        return tables(trace)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Trace, "tables", noted)
        found = view.why(row)
    return [(name, listed(table)) for name, table in zip(names, found.values(), strict=True)]


def listed(table: pa.Table) -> list[Row]:
    return list(zip(*(c.to_pylist() for c in table.columns), strict=True))


def positions(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """What stands where: positions, slices, pages and ranks are of one order."""
    placed = [shown(row) for row in view.page(limit=len(rows) + 1)]
    size = len(placed)
    expect(Counter(placed) == found, f"{view.name}: a page of all rows")
    expect((view.count(), len(view)) == (size, size), f"{view.name}: count")
    for at in (r.randint(-size - 2, size + 1) for _ in range(3)):
        if -size <= at < size:
            expect(shown(view[at]) == placed[at], f"{view.name}[{at}]")
        else:
            with pytest.raises(IndexError):
                view[at]
    bounds = [r.choice([None, r.randint(-size - 2, size + 2)]) for _ in range(2)]
    part = slice(*bounds, r.choice([None, 1, 2, -1, -3]))
    expect([shown(row) for row in view[part]] == placed[part], f"{view.name}[{part}]")
    for row in r.sample(rows, min(2, size)):
        expect(view.rank(row) == placed.index(shown(row)), f"{view.name}: rank of {row}")


def lookups(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """Rows with some values are those that a filter leaves."""
    names = view.schema.names
    places = r.sample(range(len(names)), r.randint(1, len(names)))
    keys = [{names[i]: row[i] for i in places} for row in r.sample(rows, min(r.choice((1, 1, 3)), len(rows)))]
    keys.append({names[i]: None for i in places})
    wanted = Counter(
        {row: n for row, n in found.items() if any(all(plain(k[names[i]]) == row[i] for i in places) for k in keys)}
    )
    expect(Counter(map(shown, listed(view.lookup_many(keys)))) == wanted, f"{view.name}: look-up of {keys}")


def first_rows(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """The first row at or after another one, in the order that the view has or by columns."""
    view.page(limit=0)
    order = view._ask(lambda answers: answers.order)
    by = range(len(view.schema)) if order is None else order
    keys = [_in_order(row, by) for row in (view if order is not None else ())]
    expect(keys == sorted(keys), f"{view.name} is not in its order")
    mixed = tuple(r.choice(rows)[i] if rows and r.random() < 0.9 else None for i in range(len(view.schema)))
    later = [_in_order(row, by) for row in rows if _in_order(row, by) >= _in_order(mixed, by)]
    first = view.first_at_or_after(mixed)
    expect((None if first is None else _in_order(first, by)) == min(later, default=None), f"{view.name} at {mixed}")


def samples(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """Samples are rows, no oftener than they are there, and the same for the same seed."""
    seed, n = r.randrange(99), r.randint(0, len(rows))
    drawn = [shown(row) for row in view.sample(n, seed=seed)]
    expect(len(drawn) == n and Counter(drawn) <= found, f"{view.name}: sample of {n}")
    expect([shown(row) for row in view.sample(n, seed=seed)] == drawn, f"{view.name}: another sample")
    again = {shown(row) for row in view.sample(9, seed=seed, replace=True)}
    expect(again <= set(found) and bool(again) == bool(rows), f"{view.name}: sample with replacement")
    with pytest.raises(ValueError, match="without replace"):
        view.sample(len(rows) + 1)


def moments(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """Sums over products of columns, over the rows without NULL in them."""
    types = {f.name: f.type for f in view.schema}
    names = [n for n, t in types.items() if pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t)]
    places = {name: view.schema.names.index(name) for name in names}
    whole = [row for row in rows if all(row[i] is not None for i in places.values())]
    told = view.moments(2)
    expect((told[()], len(told)) == (len(whole), math.comb(len(names) + 2, 2)), f"{view.name}: {told}")
    for product, value in told.items():
        each = [math.prod((Fraction(row[places[c]]) for c in product), start=Fraction(1)) for row in whole]
        near = 1e-6 * max([1.0, *(abs(float(x)) for x in each)])
        is_exact = not any(pa.types.is_floating(types[c]) for c in product)
        same = Fraction(value) == sum(each) if is_exact else math.isclose(value, sum(each), rel_tol=1e-9, abs_tol=near)
        expect(same, f"{view.name}: Σ {product} is {sum(each)}, not {value}")
    if len(names) > 1:
        target, *features = r.sample(names, 2)
        kept = [row for row in rows if None not in (row[places[target]], row[places[features[0]]])]
        try:
            expect(view.linear_regression(target, features).n == len(kept), f"{view.name}: regression")
        except SingularMatrix:
            expect(len(kept) < 2 or len({row[places[features[0]]] for row in kept}) == 1, f"{view.name}: singular")


def strangers(view: ev.View, rows: list[Row], found: Bag, r: random.Random) -> None:
    """Whatever value is asked for: a row is there or not, and all calls say the same."""
    names = view.schema.names
    for value in (r.choice(STRANGE), r.choice(STRANGE)):
        row = tuple(value if r.random() < 0.6 or not rows else r.choice(rows)[i] for i in range(len(names)))
        there = row in view
        asked = dict(zip(names, row, strict=True))
        try:
            expect(there == (view.lookup(**asked).num_rows > 0), f"{view.name}: {row}")
        except ValueTypeError:
            expect(not there, f"{view.name}: {row} is of other types, and there")
            for ask in (lambda: view.rank(row), lambda: view.lookup_many([asked]), lambda: view.why(row)):  # noqa: B023  # asked at once
                with pytest.raises(ValueTypeError):
                    ask()
            continue
        for ask in (view.rank, view.why if len(view._runtime.view.stages) <= MOST_STAGES else view.rank):
            try:
                ask(row)
            except KeyError:
                expect(not there, f"{view.name}: {row} is there")
            else:
                expect(there, f"{view.name}: {row} is not there")


STRANGE: list[Any] = [object(), [1], {"a": 1}, b"x", "é", 10**30, -1.5, math.nan, math.inf, True, None, 2**63, "1"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60_006, 60_006 + scaled(8, least=3)))
def test_reads_follow_from_the_list(seed: int) -> None:
    Reading(make_case(seed)).go()
