"""Machines and their units: programs run in the compiled kernel, with names for the kernel's numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from everview.kernel import _kernel
from everview.kernel.encode import ENCODING, encode
from everview.kernel.program import Program
from everview.kernel.verifier import verify
from everview.kernel.wide_numbers import number_of

if TYPE_CHECKING:
    from everview.kernel._kernel import Column, Cursor, InputColumn, ValueTable

if getattr(_kernel, "ENCODING", 1) != ENCODING:
    raise ImportError(
        f"the compiled kernel {_kernel.__file__} is of another version than {__file__}: "
        "build it anew, by `make` or `python -m pip install --no-build-isolation --no-deps --editable .`"
    )


class UpdateFault(RuntimeError):
    """An update that could not be done and has been undone.

    Those before it in its call stay applied; within a batch, nothing can follow but taking the whole of it back.

    ``update`` is its position in the batch, ``kind`` is "overflow", "program" or "memory".
    """

    def __init__(self, message: str, *, update: int, kind: str) -> None:
        super().__init__(f"update {update}: {message}")
        self.message = message
        self.update = update
        self.kind = kind

    def after(self, earlier: int) -> UpdateFault:
        """The same fault, its position counted from so many updates earlier."""
        return UpdateFault(self.message, update=earlier + self.update, kind=self.kind)


class Machine:
    """What the units of a database have in common: the batch that changes them, and the memory that they may take.

    ``values`` is the table that the words of ordered indexes may be ids of.

    A batch is all that happens between ``begin`` and ``commit`` or ``roll_back``. Units keep what they change in logs,
    of which nothing is left when the batch is over; its cost follows the units that it touches, not all that there are.
    """

    def __init__(self, values: ValueTable | None = None) -> None:
        self.kernel = _kernel.Machine(values)
        self.has_values = values is not None
        self._units: WeakValueDictionary[int, Unit] = WeakValueDictionary()
        self.unit_count = 0
        """How many units it has ever had; the next one has this number."""
        self._undo: list[Callable[[], None]] | None = None
        self._undo_bytes = 0
        self._most_undo_bytes = 0
        self.beside_bytes = 0
        """By how much that has grown which Python keeps for units, since a memory limit was set."""

    def begin(self, most_log_bytes: int) -> None:
        """Begin a batch. Its logs take so many bytes at most: a unit that needs more has no log for the rest of it."""
        self.kernel.begin(most_log_bytes)
        self._undo = []
        self._undo_bytes, self._most_undo_bytes = 0, most_log_bytes

    def commit(self) -> None:
        """Keep what the batch has changed."""
        self._undo, self._undo_bytes = None, 0
        self.kernel.commit()

    def roll_back(self) -> frozenset[int]:
        """Have all units hold what they held before the batch, in any order of rows.

        Gives the numbers of the units for which that cannot be, as they have lost their logs: they must be filled anew.
        """
        undo, self._undo, self._undo_bytes = self._undo or [], None, 0
        try:
            while undo:
                undo.pop()()
        finally:
            lost = frozenset(self.kernel.roll_back())
        return lost

    def on_roll_back(self, undo: Callable[[], None]) -> None:
        """Have something undone that is not in a unit, if the batch is taken back; the last of these is called first.

        Outside of a batch nothing can be taken back.
        """
        if self._undo is not None:
            self._undo.append(undo)

    def on_roll_back_of(self, unit: Unit, undo: Callable[[], None], nbytes: int) -> None:
        """The same for what belongs to a unit and needs so many bytes to be undone: they count as its log does."""
        if self._undo is None:
            return
        self._undo_bytes += nbytes
        if self._undo_bytes <= self._most_undo_bytes:
            self._undo.append(undo)
        else:
            self._undo_bytes -= nbytes
            unit.lose_log()

    def grow_beside(self, nbytes: int) -> None:
        """Count what Python keeps for a unit, beside it, as the batch makes it grow, or shrink if below 0.

        Raises ``UpdateFault`` if this, what is kept to undo it, and the units are beyond the memory limit together.
        """
        self.beside_bytes += nbytes
        limit = self.memory_limit
        if limit is not None and self.nbytes() + self.beside_bytes + self._undo_bytes > limit:
            raise UpdateFault("the memory limit is reached", update=0, kind="memory")

    def link(self, unit: Unit, number: int) -> int:
        """Know of a unit, which has this number."""
        self._units[number] = unit
        self.unit_count = number + 1
        return number

    def unlink_from(self, first: int) -> None:
        """Free all units with this number or a higher one: they were made for something that has failed."""
        for number in range(first, self.unit_count):
            if number in self._units:
                self._units[number].unlink()

    def nbytes(self) -> int:
        """The memory that all units take."""
        return self.kernel.nbytes()

    @property
    def memory_limit(self) -> int | None:
        """An update that finds more bytes than this in use, in all units together, fails before it begins."""
        return self.kernel.memory_limit

    @memory_limit.setter
    def memory_limit(self, limit: int | None) -> None:
        self.kernel.memory_limit = limit


class Part:
    """A program's tables, procedures, cursors and functions inside a unit, under the names that it has for them.

    The unit's own program may have several such programs side by side, whose names are then told apart by a ``prefix``.
    Batches and results are columns of 64-bit words. The GIL is released while the kernel works; threads take turns.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.prefix = ""
        self._whole: Unit | None = None
        self._unit: _kernel.Unit

    def bind(self, unit: Unit, prefix: str) -> None:
        """Be in a unit, whose program has this one's names behind a prefix."""
        self._whole, self.prefix = unit, prefix
        self._use(unit._unit, _Numbers(unit.program))

    def _use(self, unit: _kernel.Unit, numbers: _Numbers) -> None:
        prefix, self._unit = self.prefix, unit
        self._tables = {t.name: numbers.tables[prefix + t.name] for t in self.program.tables}
        self._channels = {name: numbers.channels[prefix + name] for name, _ in self.program.channels}
        self._procedures = {p.name: numbers.procedures[prefix + p.name] for p in self.program.procedures}
        self._cursors = {c.name: numbers.cursors[prefix + c.name] for c in self.program.cursors}
        self._functions = {f.name: numbers.functions[prefix + f.name] for f in self.program.functions}

    @property
    def whole(self) -> Unit:
        """The unit that it is in."""
        if self._whole is None:
            raise RuntimeError("the program is not linked into a unit yet")
        return self._whole

    @property
    def machine(self) -> Machine:
        """The machine that the unit is in."""
        return self.whole.machine

    def apply(
        self,
        procedure: str,
        columns: Sequence[InputColumn],
        *,
        first_update: int = 0,
        most_pending: int | None = None,
    ) -> int:
        """Run a procedure once a row, in order; gives how many rows that were.

        A column is a buffer of 8-byte items or an Arrow array of int64 without nulls; a parameter of several words
        takes as many, the lowest word first. Raises ``UpdateFault`` at the first update that fails. Stops, to be called
        again with the rest, once a channel that it tells holds ``most_pending`` rows: so that can be taken as it comes.
        """
        done, failure = self._unit.apply_some(self._procedures[procedure], columns, first_update, most_pending)
        _check(failure)
        return done

    def unapply(self, procedure: str, columns: Sequence[InputColumn], weight: int | Sequence[int], count: int) -> None:
        """Take the first ``count`` rows back: in reverse order, parameter(s) ``weight`` negated, emitting nothing.

        No memory limit holds it up, and what it would emit is not even computed.
        """
        weights = [weight] if isinstance(weight, int) else list(weight)
        _check(self._unit.unapply(self._procedures[procedure], columns, weights, count))

    def ask(self, function: str, columns: Sequence[InputColumn]) -> list[Column]:
        """A function's results for each row of its arguments, by columns. Nothing changes, and cursors go on.

        Raises ``UpdateFault`` at the first row that it fails on.
        """
        procedure, channel = self._functions[function]
        answers, failure = self._unit.ask(procedure, columns, channel)
        _check(failure)
        return answers

    def emitted(self, procedure: str, columns: Sequence[InputColumn], channel: str) -> list[Column]:
        """What a procedure puts into a channel for these rows; if it fails, nothing of that stays there."""
        try:
            self.apply(procedure, columns)
            return self.take(channel)
        except BaseException:
            self.discard(channel)
            raise

    def take(self, channel: str) -> list[Column]:
        """Empty a channel and give what it held, by columns, without copying."""
        return self._unit.take(self._channels[channel])

    def discard(self, channel: str) -> None:
        """Empty a channel."""
        self._unit.discard(self._channels[channel])

    def pending(self, channel: str) -> int:
        """How many rows a channel holds."""
        return self._unit.pending(self._channels[channel])

    def open(self, cursor: str, arguments: Sequence[int] = ()) -> Cursor:
        """A cursor at its first row; it raises ``StaleCursor`` once a table that it reads may have changed."""
        return self._unit.open(self._cursors[cursor], list(arguments))

    def clear(self) -> None:
        """Remove all rows, and what the channels hold. In a batch the whole unit loses its log by that."""
        answers = [channel for _, channel in self._functions.values()]
        self._unit.clear([*self._tables.values()], [*self._channels.values(), *answers])

    def size(self, table: str) -> int:
        """How many rows a table has."""
        return self._unit.table_stats(self._tables[table])[0]

    def table_stats(self) -> dict[str, tuple[int, int]]:
        """Of each table, how many rows it has and how many bytes it takes."""
        return {name: self._unit.table_stats(number) for name, number in self._tables.items()}

    def dump(self, table: str) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """A table's rows in their order: key, values, level."""
        rows = self._unit.dump(self._tables[table])
        return [(key, tuple(self._values(table, values)), level) for key, values, level in rows]

    def find(self, table: str, key: Sequence[int]) -> tuple[list[int], int] | None:
        """The values and the level of the row with this key; None if there is none."""
        found = self._unit.find(self._tables[table], list(key))
        return None if found is None else (self._values(table, found[0]), found[1])

    def _values(self, table: str, words: Sequence[int]) -> list[int]:
        """A row's values, each from its words."""
        widths = self.program.table(table).widths
        if not widths:
            return list(words)
        ends = accumulate(widths)
        return [number_of(words[end - width : end]) for width, end in zip(widths, ends, strict=True)]

    def group(self, table: str, index: int, key: Sequence[int]) -> list[int]:
        """The numbers of a group's rows in their order."""
        return self._unit.group(self._tables[table], index, list(key))

    def in_order(self, table: str, order: int, key: Sequence[int] = ()) -> list[int]:
        """The numbers of the rows of a group of an ordered index, in order."""
        return self._unit.in_order(self._tables[table], order, list(key))


class _Numbers:
    """What the kernel has for the names of a program; functions have a procedure and a channel."""

    def __init__(self, program: Program) -> None:
        self.tables = _numbered([t.name for t in program.tables])
        self.channels = _numbered([name for name, _ in program.channels])
        self.procedures = _numbered([p.name for p in program.procedures])
        self.cursors = _numbered([c.name for c in program.cursors])
        first = (len(program.procedures), len(program.channels))
        self.functions = {f.name: (first[0] + i, first[1] + i) for i, f in enumerate(program.functions)}


class Unit(Part):
    """A program and its state, in a machine: that of a table, or of a view, whose program is linked of its parts'.

    It has its own tables, bytes, log and snapshot, and is verified by itself. ``is_logged`` is False for one that is
    not taken back with a batch, since its state does not outlive the batch or another way back is known.
    """

    def __init__(self, program: Program, machine: Machine | None = None, *, is_logged: bool = True) -> None:
        verify(program)
        super().__init__(program)
        self._machine = machine or Machine()
        if not self._machine.has_values and any(o.by_value for t in program.tables for o in t.orders):
            raise ValueError("the program orders rows by values: give the machine the table that holds them")
        self._use(_kernel.Unit(self._machine.kernel, encode(program), is_logged), _Numbers(program))
        self.number = self._machine.link(self, self._unit.number)
        """Its number in the machine; no other unit ever has it."""

    @property
    def whole(self) -> Unit:
        """Itself."""
        return self

    @property
    def machine(self) -> Machine:
        """The machine that it is in."""
        return self._machine

    def unlink(self) -> None:
        """Free all that it holds. Nothing else can be asked of it from then on."""
        self._unit.unlink()

    def lose_log(self) -> None:
        """Have no log for the batch that is running: if it is taken back, the unit must be filled anew."""
        self._unit.lose_log()

    def nbytes(self) -> int:
        """The memory that the state and the channels take."""
        return self._unit.nbytes()

    @property
    def steps(self) -> int:
        """Elementary steps so far: instructions, rows that loops visited, and hash lookups."""
        return self._unit.steps

    def blocks(self) -> Iterator[bytes]:
        """All tables, with the order of their rows and groups, in blocks of about a megabyte; not what channels hold.

        It raises ``StaleCursor`` once the state has changed.
        """
        return _kernel.Saver(self._unit)

    def restore_blocks(self, blocks: Iterable[bytes]) -> None:
        """Do what ``restore`` does, block by block."""
        loader = _kernel.Loader(self._unit)
        for block in blocks:
            loader.add(block)
        loader.finish()

    def snapshot(self) -> bytes:
        """All blocks as one."""
        return self._unit.snapshot()

    def restore(self, data: bytes) -> None:
        """Go back to a snapshot of this program; ``ValueError``, and nothing changed, if it is damaged or foreign."""
        self._unit.restore(data)


def change_columns(weights: InputColumn) -> tuple[Column, Column | None]:
    """What a feed says of rows with these weights: "insert" or "delete" as bytes, six a row, and how many copies.

    The copies are None if each row is one.
    """
    return _kernel.change_columns(weights)


def pair_rows(keys: Sequence[InputColumn], weights: InputColumn) -> tuple[Column, Column]:
    """A delta's rows with the one that goes and the one that comes of each group side by side, where the first was.

    Gives the rows' numbers in that order, and of each what happened: 0 it comes, 1 it goes, 2 it is the old one of a
    pair, 3 the new one. ``keys`` are the columns that rows of one group agree in.
    """
    return _kernel.pair_rows(keys, weights)


def constant_column(word: int, rows: int) -> Column:
    """One word again and again."""
    return _kernel.constant_column(word, rows)


def total(column: InputColumn) -> int:
    """The sum of words, of any size."""
    high, low = _kernel.total(column)
    return (high << 64) + low


def multiplied(
    values: InputColumn, width: int, squared: bool, factors: Sequence[InputColumn], words: int
) -> tuple[list[Column], int | None]:
    """Values of ``width`` words side by side, or their squares, each times a factor, which is a column for each word.

    The products are columns of so many words; beside them the first row whose product has more, None if none does.
    """
    return _kernel.multiplied(values, width, squared, factors, words)


def narrowed(
    columns: Sequence[InputColumn], rows: int, largest: Sequence[int], words: int
) -> tuple[Column, Column | None]:
    """Numbers, a column for each word, in so many words side by side: 0 where one is larger than the largest.

    That is 1 in the second column, which is None if it is so nowhere; numbers below 0 count by their size.
    """
    return _kernel.narrowed(columns, rows, largest, words)


def _numbered(names: Sequence[str]) -> Mapping[str, int]:
    return {name: i for i, name in enumerate(names)}


def _check(failure: tuple[int, str, str] | None) -> None:
    if failure is not None:
        update, kind, message = failure
        raise UpdateFault(message, update=update, kind=kind)
