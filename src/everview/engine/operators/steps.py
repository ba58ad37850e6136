"""Single steps of a batch on the kernel's units, and what a fault in one of them means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from everview.engine.values.rows import Changes
from everview.errors import DataError, MemoryLimitError
from everview.kernel.machine import Machine, UpdateFault

CHUNK = 65_536
"""Rows that are fetched from a cursor at once."""


@contextmanager
def unlimited(machine: Machine) -> Iterator[None]:
    """Lift the memory limit for what must not fail half-way."""
    limit, machine.memory_limit = machine.memory_limit, None
    try:
        yield
    finally:
        machine.memory_limit = limit


def explained(fault: UpdateFault, changes: Changes | None = None) -> DataError:
    """A unit's fault as an error of the batch; ``changes`` are those it happened in, if they are the user's own."""
    table = row = None
    if changes is not None and changes.is_base and changes.is_given:
        table, row = changes.relation, changes.first + fault.update
    if fault.kind == "memory":
        return MemoryLimitError(
            "the batch needs more memory than the limit allows; nothing has changed",
            table=table,
            row=row,
            hint="raise memory_limit, or send smaller batches",
        )
    return beyond_a_word(table, row, str(fault))


def beyond_a_word(table: str | None = None, row: int | None = None, why: str = "2^63 copies go at once") -> DataError:
    """What a view has no number for in what it tells."""
    return DataError(
        f"a count or sum leaves 64 bits ({why}); nothing has changed",
        table=table,
        row=row,
        hint="a view tells copies, and sums of integers, in 64 bits; make the values or the result smaller",
    )
