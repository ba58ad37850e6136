"""Further state beside a view, kept from the first question on that needs it: views of their own that nobody sees.

A companion reads what its view reads, or the view itself, and takes part in every batch. It is planned as any view is,
so it costs what its own query costs. It goes with its view, and is not saved: who loads a database builds it anew at
the first such question.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from everview.engine.transaction import complain
from everview.engine.view_runtime import BuildPart, ViewRuntime
from everview.query.view import View as ViewDefinition

if TYPE_CHECKING:
    from everview.engine.database import Database


def companion(
    db: Database, runtime: ViewRuntime, key: Hashable, view: ViewDefinition, build: BuildPart | None = None
) -> ViewRuntime:
    """The companion of a view that has a key; it is defined so, and filled, if there is none yet.

    The database's lock is held. With ``build`` its result is what that makes of its plan.
    """
    found = runtime.companions.get(key)
    if found is not None:
        return found
    first = db._machine.unit_count
    db._dictionary.begin()
    try:
        found = db._filled(view, db.memory_limit, build=build)
    except BaseException as error:
        db._machine.unlink_from(first)
        db._dictionary.roll_back()
        complain(error)
        raise
    db._dictionary.commit()
    runtime.companions = {**runtime.companions, key: found}
    if runtime.view.name in found.reads:
        runtime.emit_deltas(True)
    return found


def forget_companions(db: Database, runtime: ViewRuntime, *keys: Hashable) -> None:
    """Free some companions of a view, or all of them."""
    gone = {key: c for key, c in runtime.companions.items() if not keys or key in keys}
    if not gone:
        return
    for member in gone.values():
        read = {n: db._tables[n] if n in db._tables else db._views[n] for n in member.reads}
        member.release_values(read)
    runtime.companions = {key: c for key, c in runtime.companions.items() if key not in gone}
    for member in gone.values():
        member.unlink()
    name = runtime.view.name
    if not db._feeds[name] and not db._is_read(name):
        runtime.emit_deltas(False)
    db._dictionary.collect()
