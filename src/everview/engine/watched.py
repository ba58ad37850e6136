"""Views whose sums of products are kept factor by factor, though the product of a row may leave its type.

Such a view keeps the largest size of each factor (``programs.limits``), and is right as long as the product of these is
within the type. Once it is not, each row's product has to be looked at, now and from then on: by a companion that makes
them. It refuses a batch exactly if a row that the batch leaves is beyond its type, as the view itself would if it made
all products; the sums are exact whatever comes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from everview.engine.operators.join import Join
from everview.engine.view_runtime import ViewRuntime
from everview.plan.cores import careful
from everview.programs.limits import PRODUCTS

if TYPE_CHECKING:
    from everview.engine.database import Database

WATCH: Final = "watch"
"""The key of the companion that looks at each row's product."""


def has_products(runtime: ViewRuntime) -> bool:
    """True if the largest size of each factor is kept."""
    return any(_keeps_products(core) for core in runtime.result.cores)


def needs_watch(runtime: ViewRuntime) -> bool:
    """True if a row's product may leave its type now, and nobody looks at it."""
    return WATCH not in runtime.companions and any(
        _keeps_products(core) and core.part.size(PRODUCTS) for core in runtime.result.cores
    )


def _keeps_products(core: Join) -> bool:
    return any(table.name == PRODUCTS for table in core.maintained.program.tables)


def judge_products(db: Database, runtime: ViewRuntime) -> None:
    """Raise if a row's product has left its type; in a batch, or a definition, that can be taken back."""
    if needs_watch(runtime):
        before = runtime.companions
        db._machine.on_roll_back(partial(setattr, runtime, "companions", before))
        db._machine.on_roll_back(partial(db._machine.unlink_from, db._machine.unit_count))
        found = db._filled(careful(runtime.view), db.memory_limit)
        runtime.companions = {**before, WATCH: found}
    elif WATCH in runtime.companions:
        runtime.companions[WATCH].judge()
