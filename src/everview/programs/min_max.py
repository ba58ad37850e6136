"""MIN and MAX: a program that keeps each group's values in order, and reads the lowest or highest in O(log n)."""

from __future__ import annotations

from functools import lru_cache

from everview.kernel.program import (
    Add,
    Cursor,
    Emit,
    InOrder,
    KeyOf,
    Lit,
    Order,
    Procedure,
    Program,
    Reg,
    Select,
    Table,
    ValueOf,
)
from everview.kernel.verifier import verify

VALUES, FOUND, USES = "values", "found", "uses"
_ROW, _VALUE, _COPIES = Reg("row"), Reg("value"), Reg("copies")


@lru_cache(maxsize=256)
def compile_extremes(keys: int, highest: bool, by_value: bool = False) -> Program:
    """The values of groups that have ``keys`` words; ``by_value`` if they are ids whose values have the order.

    ``change`` takes a group, a value and the change of its copies. ``read`` takes a group (with no keys: anything) and
    tells on channel ``found`` its lowest or highest value, after 1; if it has none, two zeros. Cursor ``all`` lists
    groups, values and copies. Ids must stay those of their values for as long as they are here: channel ``uses`` has
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
    told = Emit(FOUND, (Lit(1), KeyOf(_ROW, VALUES, keys)))
    read = Select(_ROW, VALUES, 0, group, Lit(-1 if highest else 0), (told,), (Emit(FOUND, (Lit(0), Lit(0))),))
    procedures = (
        Procedure("change", (*key, _COPIES), (Add(_ROW, VALUES, key, (_COPIES,), came, went),)),
        Procedure("read", group or (Reg("once"),), (read,)),
    )
    words = tuple(KeyOf(_ROW, VALUES, i) for i in range(keys + 1))
    listing = Cursor("all", (), (InOrder(_ROW, VALUES, 0, ()),), (*words, ValueOf(_ROW, VALUES, 0)))
    program = Program((table,), ((FOUND, 2), (USES, 2)) if by_value else ((FOUND, 2),), procedures, (listing,))
    verify(program)
    return program
