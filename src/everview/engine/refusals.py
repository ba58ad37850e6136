"""All rows because of which a batch is refused, and not the first of them alone.

A batch that is refused is looked at once more, with its tables only: what can be taken in is, and each other row is
told and changes nothing. So the rows that are told are those without which the tables take the batch. It is taken back
then.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.engine.expiry import move_clock, unexpired
from everview.engine.references import refused_by
from everview.errors import (
    EverviewError,
    KeyViolationError,
    OverDeleteError,
    ReferenceViolationError,
    RefusedRow,
    each_once,
)
from everview.kernel.machine import UpdateFault

if TYPE_CHECKING:
    from everview.engine.batch import Operation
    from everview.engine.database import Database
    from everview.engine.transaction import Transaction

LOG_BYTES = 16 << 20
"""Of what the clock changes in views, which is taken back, too."""


def tell_all(transaction: Transaction, operations: Sequence[Operation], error: BaseException, now: int) -> None:
    """Have an error of a batch, which was taken back because of it, say all rows that the tables refuse."""
    db = transaction._db
    if not isinstance(error, KeyViolationError | OverDeleteError | ReferenceViolationError):
        return
    db._machine.begin(LOG_BYTES)
    db._dictionary.begin()
    try:
        move_clock(transaction, now)
        found = list(_refused(db, operations))
    except (EverviewError, MemoryError, ArithmeticError, UpdateFault):
        return  # There is no room to look for more.
    finally:
        db._roll_back()
    error.refused = each_once([*error.refused, *found])


def _refused(db: Database, operations: Sequence[Operation]) -> Iterable[RefusedRow]:
    from everview.engine.batch import KeyDeletion

    taken, position = [], 0
    for number, operation in enumerate(operations):
        base = db._tables[operation.table]
        if isinstance(operation, KeyDeletion):
            going, missing = operation.found(base, position)
            yield from (replace(row, operation=number) for row in missing)
            parts = [going]
        else:
            parts = operation.changes(base, position)
        for changes in parts:
            ahead = unexpired(changes, db.readers.expiring.get(operation.table, ()))
            accepted, refused = base.take_or_pass(replace(ahead, operation=number))
            position += len(changes)
            taken.append(accepted)
            yield from refused
    yield from refused_by(db.readers.references({c.relation for c in taken}), taken)
