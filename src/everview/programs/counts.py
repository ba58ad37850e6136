"""Folds: small programs that keep some measures for every distinct row, and tell what changed.

Everything around the join core that needs state is one of these: DISTINCT and UNION (how many derivations), GROUP BY
(count and sums), EXCEPT and INTERSECT (copies on each side), and the netting of a batch's deltas.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from everview.kernel.program import (
    Add,
    Compute,
    Cursor,
    Each,
    Emit,
    Find,
    Function,
    GetLevel,
    If,
    InOrder,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Order,
    Procedure,
    Program,
    Rank,
    Reg,
    Remove,
    SetLevel,
    Step,
    Store,
    Table,
    Test,
    ValueOf,
)
from everview.kernel.verifier import verify

ROWS = "rows"
TRACE = "trace"
RANKED, PLACE = "ranked", "place"
TOUCHED = 1
_ROW = Reg("row")


@dataclass(frozen=True, slots=True)
class Ranked:
    """A fold's rows in order, with as many ranks as the first measure says, which counts copies."""

    order: Order
    partition: int
    """So many of the order's columns say which partition a row is in: ranks are those of a partition."""
    keys: int
    """So many columns after these are the keys that rows are put in order by; the others only part what is equal."""


@lru_cache(maxsize=256)
def compile_fold(
    width: int, widths: tuple[int, ...], by: tuple[tuple[int, ...], ...] = (), ranked: Ranked | None = None
) -> Program:
    """A fold over rows of ``width`` words, with a measure of so many words for each of ``widths``.

    ``add`` takes a row and the change of each measure; ``trace`` does the same and tells, in its own channel, the
    measures before it and after it. Cursor ``touched`` lists the rows that changed since ``settle``: words, old
    measures, new measures; cursor ``all`` every row with its measures. ``drop`` takes rows out. For each set of columns
    of ``by`` there is an index, and a cursor that lists the rows which have given words there (``found_by``).

    With ``ranked`` cursor ``ranked`` takes a partition's words and a rank, and lists the partition's rows from that on;
    function ``place`` takes a row and gives whether it is there, its first rank in its partition, and that of the first
    row with its keys.
    """
    key = tuple(Reg(f"@{i}") for i in range(width))
    measures = len(widths)
    changes = tuple(Reg(f"+{i}", words) for i, words in enumerate(widths))
    now = tuple(f"now{i}" for i in range(measures))
    old = tuple(f"old{i}" for i in range(measures))
    table = Table(
        ROWS,
        tuple(f"w{i}" for i in range(width)),
        (*now, *old),
        ((), *by),
        levels=TOUCHED + 1,
        widths=widths * 2,
        orders=() if ranked is None else (ranked.order,),
    )
    once = Reg("once")
    touch = SetLevel(_ROW, ROWS, TOUCHED)
    add = Add(_ROW, ROWS, key, changes, (touch,), None, _remembered(changes, touch))
    current = tuple(ValueOf(_ROW, ROWS, i) for i in range(measures))
    procedures = (
        Procedure("add", (*key, *changes), (add,)),
        Procedure(TRACE, (*key, *changes), (add, *_traced(changes))),
        Procedure("drop", key, (Find(_ROW, ROWS, key, (Remove(_ROW, ROWS),)),)),
        Procedure("settle", (once,), (Each(_ROW, ROWS, 0, (), TOUCHED, (SetLevel(_ROW, ROWS, 0),)),)),
    )
    words = tuple(KeyOf(_ROW, ROWS, i) for i in range(width))
    before = tuple(ValueOf(_ROW, ROWS, measures + i) for i in range(measures))
    cursors = (
        Cursor("touched", (), (Step(_ROW, ROWS, 0, (), TOUCHED),), (*words, *before, *current)),
        Cursor("all", (), (Step(_ROW, ROWS, 0, (), 0),), (*words, *current)),
        *(_found(i, tuple(key[c] for c in columns), (*words, *current)) for i, columns in enumerate(by)),
    )
    functions: tuple[Function, ...] = ()
    if ranked is not None:
        cursors = (*cursors, _in_order(ranked, (*words, *current)))
        functions = (_place(ranked, key),)
    program = Program((table,), ((TRACE, 2 * sum(widths)),), procedures, cursors, functions)
    verify(program)
    return program


def _in_order(ranked: Ranked, outputs: tuple[KeyOf | ValueOf, ...]) -> Cursor:
    group, start = tuple(Reg(f"@{i}") for i in range(ranked.partition)), Reg("start")
    return Cursor(RANKED, (*group, start), (InOrder(_ROW, ROWS, 0, group, start),), outputs)


def _place(ranked: Ranked, key: tuple[Reg, ...]) -> Function:
    there, rank, among, first = (Reg(name) for name in ("there", "rank", "among", "first"))
    found = (
        Compute(there, Math.ADD, Lit(1), Lit(0)),
        Rank(rank, _ROW, ROWS, 0, ranked.partition),
        Rank(among, _ROW, ROWS, 0, ranked.partition + ranked.keys),
        Compute(first, Math.SUBTRACT, rank, among),
    )
    missing = tuple(Compute(r, Math.ADD, Lit(0), Lit(0)) for r in (there, rank, first))
    return Function(PLACE, key, (Find(_ROW, ROWS, key, found, missing),), (there, rank, first))


def found_by(number: int) -> str:
    """The cursor that lists the rows with given words in the columns of one of the sets."""
    return f"by{number}"


def _found(number: int, given: tuple[Reg, ...], outputs: tuple[KeyOf | ValueOf, ...]) -> Cursor:
    return Cursor(found_by(number), given, (Step(_ROW, ROWS, number + 1, given, 0),), outputs)


def _traced(changes: tuple[Reg, ...]) -> tuple[Instruction, ...]:
    """Tell the measures before a change, and after it."""
    current = tuple(ValueOf(_ROW, ROWS, i) for i in range(len(changes)))
    before = tuple(Reg(f"before{i}", change.words) for i, change in enumerate(changes))
    each = zip(before, current, changes, strict=True)
    return (*(Compute(was, Math.SUBTRACT, now, change) for was, now, change in each), Emit(TRACE, (*before, *current)))


def _remembered(changes: tuple[Reg, ...], touch: Instruction) -> tuple[Instruction, ...]:
    """The first change since the row was settled keeps its old measures."""
    level = Reg("level")
    kept: list[Instruction] = []
    for i, change in enumerate(changes):
        before = Reg(f"before{i}", change.words)
        kept.append(Compute(before, Math.SUBTRACT, ValueOf(_ROW, ROWS, i), change))
        kept.append(Store(_ROW, ROWS, len(changes) + i, before))
    return (GetLevel(level, _ROW, ROWS), If(Test.EQUAL, level, Lit(0), (*kept, touch)))
