"""What goes by the order of rows, in words and costs: the first rows of all or of partitions, and window functions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from everview.query.view import Counting, Cut, Exploded, Output, SortKey, Timed, Windowed
from everview.strategies.bounds import CONSTANT, LINEAR, Bound, Bounds

UNKNOWN = "the theorems are about all rows of a query, and here rows go by their order"
"""Why nothing is known of what reads of such a view can cost."""


def said_of(body: Cut | Windowed | Timed | Exploded) -> str:
    """What is done, as ``explain`` says it."""
    if isinstance(body, Exploded):
        which = f"one row for each element of {body.body.columns[body.column].name}"
        which += ", with its position" if body.has_position else ""
        return which + (", or one with NULL if there is none" if body.outer else "")
    shown = body.body.columns
    if isinstance(body, Timed):
        while_ = ", ".join(f"{shown[b.column].expression} {b}" for b in body.bounds)
        return f"rows while {while_}: they are queued by when the clock has them come or go"
    each = f" of each ({_listed(body.partition, shown)})" if body.partition else ""
    if isinstance(body, Windowed):
        calls = ", ".join(c.shown([o.name for o in shown]) for c in body.calls)
        which = f"partitions by ({_listed(body.partition, shown)})" if body.partition else "one partition"
        return f"window functions {calls}: recompute those of {which} in which a row changes"
    by = f" in the order of {', '.join(_key(k, shown) for k in body.keys)}" if body.keys else " in any fixed order"
    some = "all rows" if body.limit is None else f"the first {body.limit}"
    after = f" after {body.offset}" if body.offset else ""
    ties = {
        Counting.ROWS: "",
        Counting.RANKS: ", and all that are equal to the last of them",
        Counting.DENSE_RANKS: " different keys' rows",
    }[body.counting]
    return f"take {some}{ties}{after}{each}{by}: all rows are kept in this order"


def _listed(places: Sequence[int], columns: Sequence[Output]) -> str:
    return ", ".join(columns[p].name for p in places)


def _key(key: SortKey, columns: Sequence[Output]) -> str:
    output = columns[key.column]
    name = str(output.expression) if output.name.startswith("$") else output.name
    nulls = "" if key.is_plain else f" nulls {'first' if key.nulls_first else 'last'}"
    return f"{name}{' descending' if key.descending else ''}{nulls}"


def cost_of(body: Cut | Windowed | Timed | Exploded) -> Bounds:
    """What it adds to the costs of what gives its rows."""
    if isinstance(body, Exploded):
        each = Bound(("e",), Fraction(0), ("e the elements of a changed row",))
        return Bounds(CONSTANT, each, Bound(("e",), Fraction(0)), CONSTANT)
    if isinstance(body, Timed):
        each = Bound(("log N",), Fraction(0), ("for each row that comes or goes, by the clock, too",))
        return Bounds(Bound(("N log N",), Fraction(1)), each, CONSTANT, LINEAR)
    if isinstance(body, Windowed):
        size = "|partition| log N" if body.partition else "N log N"
        update = Bound((size,), Fraction(1), ("for each partition in which a row changes",))
        return Bounds(Bound(("N log N",), Fraction(1)), update, CONSTANT, LINEAR)
    taken = () if body.limit is None else ("k",)
    caveat = () if body.limit is None else (f"k = {body.limit + body.offset}",)
    return Bounds(Bound(("N log N",), Fraction(1)), Bound(("log N", *taken), Fraction(0), caveat), CONSTANT, LINEAR)


def added(bounds: Bounds, more: Bounds) -> Bounds:
    """The costs of both."""
    return Bounds(
        bounds.preprocessing.plus(more.preprocessing),
        bounds.update.plus(more.update),
        bounds.delay.plus(more.delay),
        bounds.space.plus(more.space),
    )
