"""Maintenance programs: what a strategy writes and the kernel runs (docs/programs.md).

A program is plain data: tables with indexes, procedures made of a few kinds of instructions, and cursors that list a
result. It knows no queries. Every program runs on the C++ kernel and on the reference interpreter alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from everview.kernel.operations import Math, Test

if TYPE_CHECKING:
    from everview.kernel.cursors import Node

__all__ = ["Math", "Test"]

MOST_LEVELS = 8
"""A table has at most so many levels; a group keeps its rows sorted by level, the highest first."""
MOST_WORDS = 6
"""So many words a value, a register or a product may have: a number in two's complement, the lowest word first."""


@dataclass(frozen=True, slots=True)
class Order:
    """An ordered index: rows in the order of some key columns, ties by the other key columns, as signed words.

    Words of the columns ``by_value`` are ids of a value table, and compare by the bytes of their values, long decimals
    as numbers; words without a value, NULL first, come before those with one. Whoever fills the table keeps its values
    in the value table. Columns that are ``descending`` have what is greater first, and so NULL last.

    The rows that agree on the first so many of the columns are a *group*: it is named by a key of so many words. Ranks
    in a group begin with 0 and count rows, or, with a ``measure`` (a value column), what rows have there: a row takes
    as many ranks as its measure says, and none if that is negative.
    """

    columns: tuple[int, ...]
    measure: int | None = None
    by_value: tuple[int, ...] = ()
    descending: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of ``key`` words (unique together) and ``values`` words, found by key and through indexes on key columns.

    An index on no columns is one group that holds every row; on all levels it is the table, in its own order, and free.
    ``orders`` keep the rows in order. Rows stand on one of ``levels`` levels, numbered from 0; a group takes four bytes
    for each that there is. ``widths`` says of how many words each value is; without it, all are of one.
    """

    name: str
    key: tuple[str, ...]
    values: tuple[str, ...] = ()
    indexes: tuple[tuple[int, ...], ...] = ()
    orders: tuple[Order, ...] = ()
    levels: int = 1
    widths: tuple[int, ...] = ()

    def width(self, column: int) -> int:
        """Of how many words a value is."""
        return self.widths[column] if self.widths else 1

    def place(self, column: int) -> int:
        """Where a value's words begin among those of all values."""
        return sum(self.widths[:column]) if self.widths else column


# --- operands --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reg:
    """A register: a number of one word or of several, or a row's handle."""

    name: str
    words: int = 1

    def __str__(self) -> str:
        return _sized(self.name, self.words)


@dataclass(frozen=True, slots=True)
class Lit:
    """A literal number: a word, or, in ``Compute`` and ``If``, as many words as it needs."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class KeyOf:
    """A key word of the row in a register."""

    row: Reg
    table: str
    column: int

    def __str__(self) -> str:
        return f"{self.row}.k{self.column}"


@dataclass(frozen=True, slots=True)
class ValueOf:
    """A value of the row in a register."""

    row: Reg
    table: str
    column: int

    def __str__(self) -> str:
        return f"{self.row}.v{self.column}"


@dataclass(frozen=True, slots=True)
class Update:
    """The position of the current update in its batch."""

    def __str__(self) -> str:
        return "update"


Operand: TypeAlias = Reg | Lit | KeyOf | ValueOf | Update


@dataclass(frozen=True, slots=True)
class Product:
    """A checked product, made from left to right; of no factors it is 1. Only what is emitted or listed may be one.

    It has so many ``words``, whatever its factors have; if the product so far leaves them, that is an overflow.
    """

    factors: tuple[Operand, ...]
    words: int = 1

    def __str__(self) -> str:
        return _sized(" * ".join(map(str, self.factors)) or "1", self.words)


Output: TypeAlias = Operand | Product


def _sized(text: str, words: int) -> str:
    return text if words == 1 else f"{text}:{words}"


# --- instructions ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute:
    """target ← left ∘ right."""

    target: Reg
    operation: Math
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Find:
    """row ← the row with this key; run ``found`` or ``missing``."""

    row: Reg
    table: str
    key: tuple[Operand, ...]
    found: tuple[Instruction, ...] = ()
    missing: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert:
    """row ← a new row with this key, values 0, level 0; a key that is there already is a fault of the program."""

    row: Reg
    table: str
    key: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Take a row out; handles of other rows of the table are void after that."""

    row: Reg
    table: str


@dataclass(frozen=True, slots=True)
class Store:
    """value ← source, which has as many words, or is a literal."""

    row: Reg
    table: str
    column: int
    source: Operand


@dataclass(frozen=True, slots=True)
class Add:
    """row ← the row with this key, its first values increased by ``changes``; run one of three blocks.

    A key that is not there counts as a row of zeros. A row is there for as long as its first value is not 0:

    - ``appeared`` runs after the row has been inserted, with ``changes`` for its values;
    - ``vanished`` runs before the row is removed, which has its old values and level until then;
    - ``otherwise`` runs after the values of a row that stays have been changed;
    - nothing runs if there is no row and the first change is 0.

    With ``vanished`` None a row is never removed, and appears whatever the changes are. Other values than those that
    ``changes`` has numbers for are left alone. Each change has as many words as its value, or is a literal; sums are
    checked to have no more, as ``Compute`` does.
    """

    row: Reg
    table: str
    key: tuple[Operand, ...]
    changes: tuple[Operand, ...]
    appeared: tuple[Instruction, ...] = ()
    vanished: tuple[Instruction, ...] | None = ()
    otherwise: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class SetLevel:
    """Move a row to a level."""

    row: Reg
    table: str
    level: int


@dataclass(frozen=True, slots=True)
class GetLevel:
    """target ← a row's level."""

    target: Reg
    row: Reg
    table: str


@dataclass(frozen=True, slots=True)
class Count:
    """target ← how many rows a group has on ``level`` or above, up to ``highest`` (None: to the highest there is)."""

    target: Reg
    table: str
    index: int
    key: tuple[Operand, ...]
    level: int
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class If:
    """Run ``then`` if the test holds, else ``otherwise``."""

    test: Test
    left: Operand
    right: Operand
    then: tuple[Instruction, ...]
    otherwise: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Each:
    """For each row that a group has on ``level`` to ``highest`` (None: or above) when the loop begins: run ``body``.

    The body may change values and levels of any row, of this table too; it may not add or remove rows of this table.
    """

    row: Reg
    table: str
    index: int
    key: tuple[Operand, ...]
    level: int
    body: tuple[Instruction, ...]
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """Like ``Each``, but the body does not touch this table at all: nothing is copied."""

    row: Reg
    table: str
    index: int
    key: tuple[Operand, ...]
    level: int
    body: tuple[Instruction, ...]
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class Emit:
    """Append a row of words to a channel: an output of several words fills as many columns, the lowest word first."""

    channel: str
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """Run another procedure with these arguments; procedures never call each other in a circle.

    An argument has as many words as its parameter, or is a literal.
    """

    procedure: str
    arguments: tuple[Operand, ...] = ()


@dataclass(frozen=True, slots=True)
class Silent:
    """Run ``body``, but tell nothing of it: what it emits, and what it calls emits, is not even computed."""

    body: tuple[Instruction, ...]


@dataclass(frozen=True, slots=True)
class Select:
    """row ← the row at a rank of a group of an ordered index; run ``found`` or ``missing``.

    Negative ranks count from the end: -1 is the last one.
    """

    row: Reg
    table: str
    order: int
    key: tuple[Operand, ...]
    rank: Operand
    found: tuple[Instruction, ...] = ()
    missing: tuple[Instruction, ...] = ()


@dataclass(frozen=True, slots=True)
class Rank:
    """target ← the first rank of a row in its group, which the first ``width`` columns of an ordered index make."""

    target: Reg
    row: Reg
    table: str
    order: int
    width: int


@dataclass(frozen=True, slots=True)
class Size:
    """target ← how many ranks a group of an ordered index has."""

    target: Reg
    table: str
    order: int
    key: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Before:
    """target ← how many ranks come before a key in its group, which its first ``width`` words make.

    The key has words for the first columns of an ordered index; no row need have them.
    """

    target: Reg
    table: str
    order: int
    key: tuple[Operand, ...]
    width: int


Instruction: TypeAlias = (
    Compute
    | Find
    | Insert
    | Remove
    | Store
    | SetLevel
    | GetLevel
    | Count
    | If
    | Each
    | Scan
    | Emit
    | Call
    | Select
    | Rank
    | Size
    | Before
    | Add
    | Silent
)


@dataclass(frozen=True, slots=True)
class Procedure:
    """A named list of instructions over the words that it is given.

    ``row_of`` names, for parameters that are handles of rows, the table of those. A parameter of several words takes as
    many columns of a batch, the lowest word first.
    """

    name: str
    parameters: tuple[Reg, ...]
    body: tuple[Instruction, ...]
    row_of: tuple[tuple[Reg, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A question: gives ``results`` for the words that it is asked with, as they are after ``body``.

    It changes no table and emits nothing, nor does what it calls: state and cursors stay as they are.
    """

    name: str
    parameters: tuple[Reg, ...]
    body: tuple[Instruction, ...]
    results: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One loop of a cursor: the rows of a group on ``level`` or above, up to ``highest``."""

    row: Reg
    table: str
    index: int
    key: tuple[Operand, ...]
    level: int
    highest: int | None = None


@dataclass(frozen=True, slots=True)
class InOrder:
    """One loop of a cursor: the rows of a group of an ordered index, upwards or downwards.

    It begins with the row that has rank ``start``, counted from the end where the loop begins; a negative start is
    nowhere, so there are no rows then.
    """

    row: Reg
    table: str
    order: int
    key: tuple[Operand, ...]
    start: Operand = Lit(0)
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Cursor:
    """Steps within steps that can be left and taken up again: they list a result without holding it.

    A step is a loop, or one of those in ``kernel/cursors.py``.
    """

    name: str
    parameters: tuple[Reg, ...]
    steps: tuple[Node, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True)
class Program:
    """Tables, channels (by name, with their width), procedures, cursors and functions."""

    tables: tuple[Table, ...] = ()
    channels: tuple[tuple[str, int], ...] = ()
    procedures: tuple[Procedure, ...] = ()
    cursors: tuple[Cursor, ...] = ()
    functions: tuple[Function, ...] = ()
    _tables: dict[str, Table] = field(init=False, repr=False, compare=False)
    _procedures: dict[str, Procedure] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tables", {t.name: t for t in self.tables})
        object.__setattr__(self, "_procedures", {p.name: p for p in self.procedures})

    def table(self, name: str) -> Table:
        """A table by its name."""
        return self._tables[name]

    def procedure(self, name: str) -> Procedure:
        """A procedure by its name."""
        return self._procedures[name]

    def function(self, name: str) -> Function:
        """A function by its name."""
        return next(f for f in self.functions if f.name == name)

    def cursor(self, name: str) -> Cursor:
        """A cursor by its name."""
        return next(c for c in self.cursors if c.name == name)
