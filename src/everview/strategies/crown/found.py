"""Rows found by the words of some of their variables, or of all (q-hierarchical.md 22).

Where every node that has some of the variables anew shares with the node above it only such variables, too, the groups
that have the words depend on nothing but the words. If one of them is empty there is no result, which is asked first;
if none is, the loops from the root down, each over the rows that have the words, visit only rows that are in a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.kernel.cursors import Ask, Guard, Question
from everview.kernel.cursors import Node as CursorStep
from everview.kernel.program import (
    Compute,
    Count,
    Cursor,
    Find,
    Function,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Reg,
    Step,
    Test,
)
from everview.query.terms import Var
from everview.strategies.crown.full_join import result_weight
from everview.strategies.crown.layout import Layout, Node, Words, reg, regs
from everview.strategies.strategy import MEASURES, KeyedCursor

_FOUND, _ONCE, _IS_THERE = Reg("found"), Reg("once"), Reg("is_there")


class Found:
    """Writes the cursor that lists the results in which some variables have given words."""

    def __init__(self, layout: Layout, variables: frozenset[Var], number: int) -> None:
        self.layout = layout
        self.given: Words = tuple(sorted(variables))
        self.keyed = KeyedCursor(f"lookup{number}", self.given)
        self._guard = f"may_look_up{number}"

    def _columns(self, n: Node) -> Words:
        """By what the rows of a node are found: its key, and what is given of the rest."""
        return (*n.key, *(v for v in n.handed if v in self.given and v not in n.key))

    def guard(self) -> Function:
        """1 if no group that is found by given words alone is empty."""
        body: list[Instruction] = [Compute(_FOUND, Math.ADD, Lit(1), Lit(0))]
        for n in reversed(self.layout.shown):
            columns = self._columns(n)
            if len(columns) == len(n.key):
                continue
            size = Reg(f"size{n.number}")
            index = self.layout.index(n.out_table, columns)
            count = Count(size, self.layout.stored_in(n.out_table), index, regs(columns), n.matching)
            body = [
                Compute(_FOUND, Math.ADD, Lit(0), Lit(0)),
                count,
                If(Test.NOT_EQUAL, size, Lit(0), tuple(body)),
            ]
        return Function(self._guard, regs(self.given) or (_ONCE,), tuple(body), (_FOUND,))

    def cursor(self) -> Cursor:
        """The guard, then nested loops from the root down."""
        layout = self.layout
        arguments: tuple[Operand, ...] = regs(self.given) or (Lit(0),)
        steps: list[CursorStep] = [
            Ask((_IS_THERE,), Question(self._guard, arguments)),
            Guard(Test.NOT_EQUAL, _IS_THERE, Lit(0)),
        ]
        places: dict[Var, Operand] = {v: reg(v) for v in self.given}
        rows: dict[Node, Reg] = {}
        for n in layout.shown:
            row = Reg(f"at{n.number}")
            columns = self._columns(n)
            key = tuple(places[v] for v in columns)
            steps.append(Step(row, layout.stored_in(n.out_table), layout.index(n.out_table, columns), key, n.matching))
            rows[n] = row
            places.update({v: layout.word(row, n.out_table, v) for v in n.handed if v not in places})
        if layout.is_set:
            weights = [result_weight(layout, 0, {})]
        else:
            weights = [result_weight(layout, j, rows) for j in range(len(layout.sums) + 1)]
        outputs = (*(places[v] for v in layout.outputs), *weights)
        return Cursor(self.keyed.name, regs(self.given), tuple(steps), outputs)


def measures_of_row(layout: Layout) -> Function:
    """1 and the measures of the result that has given words, one for each output; 0 if there is none."""
    outputs = layout.outputs
    widths = layout.result_widths
    results = tuple(Reg(f"measure{j}", words) for j, words in enumerate(widths))
    rows = {n: Reg(f"at{n.number}") for n in layout.shown}
    body: list[Instruction] = [Compute(_FOUND, Math.ADD, Lit(1), Lit(0)), *_products(layout, rows, results)]
    for n in reversed(layout.shown):
        row, level = rows[n], Reg(f"level{n.number}")
        found: Sequence[Instruction] = body
        if n.is_inner:
            found = (GetLevel(level, row, n.out_table), If(Test.NOT_EQUAL, level, Lit(0), tuple(body)))
        body = [Find(row, layout.stored_in(n.out_table), regs(layout.key_of(n)), tuple(found))]
    cleared = [Compute(r, Math.ADD, Lit(0), Lit(0)) for r in (_FOUND, *results)]
    return Function(MEASURES, regs(outputs) or (_ONCE,), (*cleared, *body), (_FOUND, *results))


def _products(layout: Layout, rows: dict[Node, Reg], results: Sequence[Reg]) -> list[Instruction]:
    body: list[Instruction] = []
    for j, result in enumerate(results):
        factors = result_weight(layout, j, {} if layout.is_set else rows).factors
        body.append(Compute(result, Math.ADD, Lit(1), Lit(0)))
        body += [Compute(result, Math.MULTIPLY, result, factor) for factor in factors]
    return body
