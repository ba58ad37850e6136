"""The program of a base table: a bag of rows that refuses to go below nothing, and keys that hold one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from everview.kernel.program import (
    Add,
    Compute,
    Cursor,
    Emit,
    Find,
    Function,
    If,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Output,
    Procedure,
    Program,
    Reg,
    Scan,
    Step,
    Table,
    Test,
    Update,
    ValueOf,
)
from everview.kernel.verifier import verify

ROWS, KEYS = "rows", "keys"
OVER_DELETED, DUPLICATE_KEY = "over_deleted", "duplicate_key"
LOOK_UP, FOUND = "look_up", "found"
HAS_KEY = "has_key"
CHANGE, CHANGE_AND_TELL, SET_CHANGES = "change", "change_and_tell", "set_changes"
CHANGE_OR_PASS = "change_or_pass"
_ROW, _KEY, _CHANGE, _FLIP = Reg("row"), Reg("key"), Reg("change"), Reg("flip")


def references(index: int) -> str:
    """The table that counts the rows by what they hold in the columns of a foreign key."""
    return f"references{index}"


def refers(index: int) -> str:
    """The function that tells whether a row holds some words in the columns of a foreign key."""
    return f"refers{index}"


@lru_cache(maxsize=256)
def compile_base(
    width: int,
    primary_key: tuple[int, ...] = (),
    foreign_keys: tuple[tuple[int, ...], ...] = (),
    *,
    is_unique: bool = True,
) -> Program:
    """The program of a table of ``width`` columns.

    ``change`` takes a row's words and the change of its copies; a row that is deleted though it is not there, and a
    second row with one key, are told on channels ``over_deleted`` and ``duplicate_key`` by the update's position.
    ``change_and_tell`` does the same and also tells, on channel ``set_changes``, what each update has done to the set
    of rows: 1 if its row has appeared (there were no copies of it), −1 if it has vanished, 0 if it was and is there.
    ``change_or_pass`` takes in what can be taken in: an update that is told changes nothing, so that those after it
    are judged without it.
    Cursor ``all`` lists rows and copies; ``by_key`` the row with a given key. Many keys are looked up at once by
    ``look_up``, which gives the rows that have them, their copies and the positions of their keys on channel ``found``.
    Function ``has_key`` gives 1 for keys that a row has, and 0 for others. For each of the ``foreign_keys``, columns
    whose values are counted, function ``refers`` does so for these values. Unless ``is_unique``, which the primary key
    is as a rule, several rows may have one key.
    """
    words = tuple(Reg(f"@{i}") for i in range(width))
    indexes: tuple[tuple[int, ...], ...] = ((),) if not primary_key else ((), primary_key)
    tables = [Table(ROWS, tuple(f"w{i}" for i in range(width)), ("copies",), indexes)]
    rows = _changed(_ROW, ROWS, words, _over_deleted)
    body: list[Instruction] = []
    taken: list[Instruction] = [Add(_ROW, ROWS, words, (_CHANGE,))]
    cursors = [_listing("all", (), 0, (), width)]
    procedures: list[Procedure] = []
    functions: list[Function] = []
    channels = [(OVER_DELETED, 1), (DUPLICATE_KEY, 1)]
    if primary_key:
        key = tuple(words[i] for i in primary_key)
        tables.append(Table(KEYS, tuple(f"w{i}" for i in primary_key), ("rows",)))
        counted = Add(_KEY, KEYS, key, (_CHANGE,))
        body.append(_changed(_KEY, KEYS, key, _duplicate) if is_unique else counted)
        taken.append(counted)
        functions.append(_there(HAS_KEY, KEYS, key))
        cursors.append(_listing("by_key", key, 1, key, width))
        emitted = (*_outputs(_ROW, width), Update())
        procedures.append(Procedure(LOOK_UP, key, (Scan(_ROW, ROWS, 1, key, 0, (Emit(FOUND, emitted),)),)))
        channels.append((FOUND, len(emitted)))
    for i, columns in enumerate(foreign_keys):
        key = tuple(words[c] for c in columns)
        tables.append(Table(references(i), tuple(f"w{j}" for j in range(len(columns))), ("rows",)))
        body.append(Add(Reg(f"reference{i}"), references(i), key, (_CHANGE,)))
        taken.append(body[-1])
        functions.append(_there(refers(i), references(i), key))
    parameters = (*words, _CHANGE)
    told = replace(rows, appeared=(*rows.appeared, _flip(1)), vanished=(_flip(-1),))
    procedures.append(Procedure(CHANGE, parameters, (rows, *body)))
    if primary_key and is_unique:
        key, after = tuple(words[i] for i in primary_key), Reg("rows_after")
        taken = [*_after(after, KEYS, key), If(Test.LESS, Lit(1), after, (_told(DUPLICATE_KEY),), tuple(taken))]
    after = Reg("copies_after")
    passed = If(Test.LESS, after, Lit(0), (_told(OVER_DELETED),), tuple(taken))
    procedures.append(Procedure(CHANGE_OR_PASS, parameters, (*_after(after, ROWS, words), passed)))
    procedures.append(Procedure(CHANGE_AND_TELL, parameters, (_flip(0), told, *body, Emit(SET_CHANGES, (_FLIP,)))))
    channels.append((SET_CHANGES, 1))
    program = Program(tuple(tables), tuple(channels), tuple(procedures), tuple(cursors), tuple(functions))
    verify(program)
    return program


def _changed(row: Reg, table: str, key: tuple[Reg, ...], told: Callable[[Operand], Instruction]) -> Add:
    """Add the change, and tell what it has come to if that is not as it should be."""
    return Add(row, table, key, (_CHANGE,), (told(_CHANGE),), (), (told(ValueOf(row, table, 0)),))


def _there(name: str, table: str, key: tuple[Reg, ...]) -> Function:
    """1 if the table has a row with the key, 0 if not."""
    there = Reg("there")
    yes, no = (Compute(there, Math.ADD, Lit(truth), Lit(0)) for truth in (1, 0))
    return Function(name, key, (Find(Reg("found"), table, key, (yes,), (no,)),), (there,))


def _flip(change: int) -> Instruction:
    return Compute(_FLIP, Math.ADD, Lit(change), Lit(0))


def _over_deleted(copies: Operand) -> Instruction:
    return If(Test.LESS, copies, Lit(0), (_told(OVER_DELETED),))


def _duplicate(rows: Operand) -> Instruction:
    return If(Test.LESS, Lit(1), rows, (_told(DUPLICATE_KEY),))


def _told(channel: str) -> Instruction:
    return Emit(channel, (Update(),))


def _after(after: Reg, table: str, key: tuple[Reg, ...]) -> tuple[Instruction, ...]:
    """What the first value of a table's row would be after the change."""
    row = Reg(f"{after.name}_of")
    changed = Compute(after, Math.ADD, ValueOf(row, table, 0), _CHANGE)
    return (Find(row, table, key, (changed,), (Compute(after, Math.ADD, _CHANGE, Lit(0)),)),)


def _listing(name: str, parameters: tuple[Reg, ...], index: int, key: tuple[Reg, ...], width: int) -> Cursor:
    row = Reg("at")
    return Cursor(name, parameters, (Step(row, ROWS, index, key, 0),), _outputs(row, width))


def _outputs(row: Reg, width: int) -> tuple[Output, ...]:
    """A row's words and its copies."""
    return (*(KeyOf(row, ROWS, i) for i in range(width)), ValueOf(row, ROWS, 0))
