"""MIN and MAX: a program that keeps each group's values in order, and reads the lowest or highest in O(log n)."""

from __future__ import annotations

from functools import lru_cache

from everview.kernel.program import (
    Add,
    Compute,
    Cursor,
    Emit,
    Function,
    InOrder,
    KeyOf,
    Lit,
    Math,
    Order,
    Procedure,
    Program,
    Reg,
    Select,
    Table,
    ValueOf,
)
from everview.kernel.verifier import verify

VALUES, READ, USES = "values", "read", "uses"
_ROW, _VALUE, _COPIES, _IS_THERE = Reg("row"), Reg("value"), Reg("copies"), Reg("is_there")


@lru_cache(maxsize=256)
def compile_extremes(keys: int, highest: bool, by_value: bool = False) -> Program:
    """The values of groups that have ``keys`` words; ``by_value`` if they are ids whose values have the order.

    ``change`` takes a group, a value and the change of its copies. Function ``read`` takes a group (with no keys:
    anything) and gives its lowest or highest value, after 1; if it has none, two zeros. Cursor ``all`` lists groups,
    values and copies. Ids must stay those of their values for as long as they are here: channel ``uses`` has
    each that comes into a group, with 1, or leaves one, with -1.
    """
    group = tuple(Reg(f"@{i}") for i in range(keys))
    key = (*group, _VALUE)
    table = Table(
        VALUES,
        (*(f"g{i}" for i in range(keys)), "value"),
        ("copies",),
        orders=(Order(tuple(range(keys + 1)), by_value=(keys,) if by_value else ()),),
    )
    came, went = ((Emit(USES, (_VALUE, Lit(use))),) if by_value else () for use in (1, -1))
    found, nothing = (
        (Compute(_IS_THERE, Math.ADD, Lit(there), Lit(0)), Compute(_VALUE, Math.ADD, value, Lit(0)))
        for there, value in ((1, KeyOf(_ROW, VALUES, keys)), (0, Lit(0)))
    )
    select = Select(_ROW, VALUES, 0, group, Lit(-1 if highest else 0), found, nothing)
    read = Function(READ, group or (Reg("once"),), (select,), (_IS_THERE, _VALUE))
    change = Procedure("change", (*key, _COPIES), (Add(_ROW, VALUES, key, (_COPIES,), came, went),))
    words = tuple(KeyOf(_ROW, VALUES, i) for i in range(keys + 1))
    listing = Cursor("all", (), (InOrder(_ROW, VALUES, 0, ()),), (*words, ValueOf(_ROW, VALUES, 0)))
    program = Program((table,), ((USES, 2),) if by_value else (), (change,), (listing,), (read,))
    verify(program)
    return program
