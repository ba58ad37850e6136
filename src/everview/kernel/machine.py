"""The machine: runs a program in the compiled kernel, with names for the kernel's numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from everview.kernel import _kernel
from everview.kernel.encode import ENCODING, encode
from everview.kernel.program import Program
from everview.kernel.verifier import verify

if TYPE_CHECKING:
    from everview.kernel._kernel import Column, Cursor, InputColumn

if getattr(_kernel, "ENCODING", 1) != ENCODING:
    raise ImportError(
        f"the compiled kernel {_kernel.__file__} is of another version than {__file__}: "
        "build it anew, by `make` or `python -m pip install --no-build-isolation --no-deps --editable .`"
    )


class UpdateFault(RuntimeError):
    """An update that could not be done and has been undone; those before it in its batch stay applied.

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
    """A program and its state.

    Batches and results are columns of 64-bit words. The GIL is released while the kernel works; threads take turns.
    """

    def __init__(self, program: Program) -> None:
        verify(program)
        self.program = program
        self._machine = _kernel.Machine(encode(program))
        self._tables = _numbered([t.name for t in program.tables])
        self._channels = _numbered([name for name, _ in program.channels])
        self._procedures = _numbered([p.name for p in program.procedures])
        self._cursors = _numbered([c.name for c in program.cursors])
        first = (len(program.procedures), len(program.channels))
        self._functions = {f.name: (first[0] + i, first[1] + i) for i, f in enumerate(program.functions)}

    def apply(
        self,
        procedure: str,
        columns: Sequence[InputColumn],
        *,
        first_update: int = 0,
        most_pending: int | None = None,
    ) -> int:
        """Run a procedure once a row, in order; gives how many rows that were.

        A column is a buffer of 8-byte items or an Arrow array of int64 without nulls. Raises ``UpdateFault`` at the
        first update that fails. Stops, to be called again with the rest, once a channel holds ``most_pending`` rows: so
        what updates emit can be taken as it comes.
        """
        done, failure = self._machine.apply_some(self._procedures[procedure], columns, first_update, most_pending)
        _check(failure)
        return done

    def unapply(self, procedure: str, columns: Sequence[InputColumn], weight: int | Sequence[int], count: int) -> None:
        """Take the first ``count`` rows back: in reverse order, parameter(s) ``weight`` negated, emitting nothing.

        No memory limit holds it up, and what it would emit is not even computed.
        """
        weights = [weight] if isinstance(weight, int) else list(weight)
        _check(self._machine.unapply(self._procedures[procedure], columns, weights, count))

    def ask(self, function: str, columns: Sequence[InputColumn]) -> list[Column]:
        """A function's results for each row of its arguments, by columns. Nothing changes, and cursors go on.

        Raises ``UpdateFault`` at the first row that it fails on.
        """
        procedure, channel = self._functions[function]
        answers, failure = self._machine.ask(procedure, columns, channel)
        _check(failure)
        return answers

    def take(self, channel: str) -> list[Column]:
        """Empty a channel and give what it held, by columns, without copying."""
        return self._machine.take(self._channels[channel])

    def discard(self, channel: str) -> None:
        """Empty a channel."""
        self._machine.discard(self._channels[channel])

    def pending(self, channel: str) -> int:
        """How many rows a channel holds."""
        return self._machine.pending(self._channels[channel])

    def open(self, cursor: str, arguments: Sequence[int] = ()) -> Cursor:
        """A cursor at its first row; it raises ``StaleCursor`` once the state has changed."""
        return self._machine.open(self._cursors[cursor], list(arguments))

    def clear(self) -> None:
        """Remove all rows, and what the channels hold."""
        self._machine.clear()

    def nbytes(self) -> int:
        """The memory that the state and the channels take."""
        return self._machine.nbytes()

    def table_stats(self) -> dict[str, tuple[int, int]]:
        """Of each table, how many rows it has and how many bytes it takes."""
        return dict(zip(self._tables, self._machine.table_stats(), strict=True))

    @property
    def steps(self) -> int:
        """Elementary steps so far: instructions, rows that loops visited, and hash lookups."""
        return self._machine.steps

    @property
    def memory_limit(self) -> int | None:
        """An update that finds more bytes than this in use fails before it begins."""
        return self._machine.memory_limit

    @memory_limit.setter
    def memory_limit(self, limit: int | None) -> None:
        self._machine.memory_limit = limit

    def dump(self, table: str) -> list[tuple[tuple[int, ...], tuple[int, ...], int]]:
        """A table's rows in their order: key, values, level."""
        return self._machine.dump(self._tables[table])

    def find(self, table: str, key: Sequence[int]) -> tuple[list[int], int] | None:
        """The values and the level of the row with this key; None if there is none."""
        return self._machine.find(self._tables[table], list(key))

    def group(self, table: str, index: int, key: Sequence[int]) -> list[int]:
        """The numbers of a group's rows in their order."""
        return self._machine.group(self._tables[table], index, list(key))

    def in_order(self, table: str, order: int, key: Sequence[int] = ()) -> list[int]:
        """The numbers of the rows of a group of an ordered index, in order."""
        return self._machine.in_order(self._tables[table], order, list(key))

    def snapshot(self) -> bytes:
        """All tables, with the order of their rows and groups; not what the channels hold."""
        return self._machine.snapshot()

    def restore(self, data: bytes) -> None:
        """Go back to a snapshot of this program; ``ValueError``, and nothing changed, if it is damaged or foreign."""
        self._machine.restore(data)


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


def _numbered(names: Sequence[str]) -> Mapping[str, int]:
    return {name: i for i, name in enumerate(names)}


def _check(failure: tuple[int, str, str] | None) -> None:
    if failure is not None:
        update, kind, message = failure
        raise UpdateFault(message, update=update, kind=kind)
