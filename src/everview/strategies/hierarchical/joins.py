"""Joins of units as nested loops: those found by their whole key first, then the unit that fixes the most.

Every loop that is left covers an output variable that none before it has: with a key that is light, it has fewer rows
than the threshold says, so as many loops as the cover has atoms give the bound (hierarchical-tradeoff.md 7.5, 9.1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from everview.kernel.program import Compute, Find, Instruction, Lit, Math, Operand, Product, Reg, Scan
from everview.query.terms import Var
from everview.strategies.hierarchical.layout import Layout, Places, Unit, words_of

Rows = Mapping[Unit, Reg]
"""The rows of the units that were joined."""
Deltas = Mapping[int, Operand]
"""The changes of a unit's measures, by the measures' numbers."""


def nested(
    layout: Layout, units: Sequence[Unit], places: Places, inside: Callable[[Places, Rows], Sequence[Instruction]]
) -> list[Instruction]:
    """Loops over all combinations of the units' rows that agree with ``places``, with ``inside`` for each of them."""
    known = dict(places)
    rows: dict[Unit, Reg] = {}
    loops: list[Callable[[tuple[Instruction, ...]], Instruction]] = []
    rest = list(units)
    while rest:
        unit = _next(rest, known)
        rest.remove(unit)
        row = layout.fresh("row")
        rows[unit] = row
        loops.append(_loop(layout, unit, row, known))
        for v, word in layout.words(row, layout.table(unit)).items():
            known.setdefault(v, word)
    body = tuple(inside(known, rows))
    for loop in reversed(loops):
        body = (loop(body),)
    return list(body)


def _next(rest: Sequence[Unit], known: Mapping[Var, Operand]) -> Unit:
    """A unit whose key is known, or the one with the most words that are not."""
    found = next((u for u in rest if known.keys() >= set(words_of(u))), None)
    return found or max(rest, key=lambda u: (len(set(words_of(u)) & known.keys()) > 0, len(words_of(u))))


def _loop(
    layout: Layout, unit: Unit, row: Reg, known: Mapping[Var, Operand]
) -> Callable[[tuple[Instruction, ...]], Instruction]:
    table, words = layout.table(unit), words_of(unit)
    given = tuple(v for v in words if v in known)
    key = tuple(known[v] for v in given)
    if given == words:
        return lambda body: Find(row, table, key, body)
    index = layout.index(table, given)
    return lambda body: Scan(row, table, index, key, 0, body)


def factors(layout: Layout, j: int, rows: Rows, changed: Deltas | None = None) -> tuple[Operand, ...]:
    """What a measure of a combination is the product of; ``changed`` is that of the unit that is not among the rows."""
    found: list[Operand] = []
    if changed is not None:
        found.append(changed[j] if j in changed else changed[0])
    found += [layout.value(row, unit, j) for unit, row in rows.items()]
    return tuple(found)


def product(target: Reg, operands: Sequence[Operand]) -> list[Instruction]:
    """target ← the product."""
    first, *others = operands or (Lit(1),)
    second = others.pop(0) if others else Lit(1)
    found: list[Instruction] = [Compute(target, Math.MULTIPLY, first, second)]
    return [*found, *(Compute(target, Math.MULTIPLY, target, other) for other in others)]


def listed_product(operands: Sequence[Operand]) -> Product:
    """The product as it is emitted or listed, in one word."""
    return Product(tuple(operands))
