"""All that a database has stored, to be compared: with what it was, or with another one's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import everview as ev
from everview.programs.limits import BEYOND, LARGEST
from everview.strategies.strategy import Gauge
from tests.engine.bags import expect, plain
from tests.engine.case_data import Case, Step


def stored(db: ev.Database) -> dict[str, Any]:
    """All that is stored, whatever its order."""
    found: dict[str, Any] = {"version": db.version}
    machines: dict[str, Any] = {n: t.unit for n, t in db._tables.items()}
    for name, runtime in db._views.items():
        machines |= {f"{name} core {i}": c.part for i, c in enumerate(runtime.cores)}
        machines |= {f"{name} fold {i}": f.part for i, f in enumerate(runtime.folds)}
        machines[f"{name} net"] = runtime.net.part
        machines |= {
            f"{name} fold parked {i}": p.counts.part
            for i, p in enumerate(runtime.parked)
            if p.counts is not None and p.is_left
        }
        for i, source in enumerate(s for _, s in runtime.stages):
            for j, listed in enumerate(_listed(source)):
                states = getattr(listed, "states", {})  # the others keep theirs in folds
                found[f"{name} listed {i} {j}"] = {g: plain(s.result()) for g, s in states.items()}
    for name, machine in machines.items():
        fold = " fold" in name or " net" in name
        for table in machine.program.tables:
            rows = machine.dump(table.name)
            if fold:  # old measures mean nothing once settled
                now = sum(not v.startswith("old") for v in table.values)
                rows = [(k, v[:now], lv) for k, v, lv in rows if any(v[:now])]
            found[f"{name} {table.name}"] = sorted(rows)
        for channel, _ in machine.program.channels:
            found[f"{name} {channel}"] = machine.pending(channel)
    state = db._dictionary.to_state()
    found["dictionary"] = {
        kind: dict(zip(t["value"].to_pylist(), t["count"].to_pylist(), strict=True)) for kind, t in state.items()
    }
    return found


def check_unchanged(db: ev.Database, before: dict[str, Any], what: str, *, filled_anew: bool) -> None:
    """All stored is as it was; which keys are heavy depends on the past, and may differ where filled anew."""
    after = stored(db)
    if filled_anew:
        parted = tuple(
            f"{name} core {i} "
            for name, runtime in db._views.items()
            for i, core in enumerate(runtime.cores)
            if core.maintained.parts is not None
        )
        before, after = ({k: v for k, v in s.items() if not k.startswith(parted)} for s in (before, after))
    for kind in ("string", "binary", "decimal", "nested"):  # values without uses go with the next batch
        for state in (before, after):
            state["dictionary"][kind] = {v: c for v, c in state["dictionary"][kind].items() if c}
    changed = {k: (before.get(k), after.get(k)) for k in {*before, *after} if before.get(k) != after.get(k)}
    expect(not changed, f"{what} failed, and changed {changed}")


def counted(db: ev.Database) -> dict[str, int]:
    """Tables whose rows depend on the past, with the most that they have: how often a strategy has rebalanced, in one
    row, and how large each of the numbers was that a program stores.
    """
    found = {}
    for name, runtime in db._views.items():
        for i, core in enumerate(runtime.cores):
            found[f"{name} core {i} {BEYOND}"] = 1
            found[f"{name} core {i} {LARGEST}"] = sum(len(table.values) for table in core.part.program.tables)
            if (parts := core.maintained.parts) is not None:
                gauges = (parts.base, *parts.heavy_keys, parts.minor, parts.major, parts.moved)
                found |= {f"{name} core {i} {g.table}": 1 for g in gauges if isinstance(g, Gauge)}
    return found


def _listed(source: Any) -> list[Any]:
    found = list(getattr(source, "listed", ()))
    for side in getattr(source, "sides", ()):
        found += _listed(side)
    return found


def check_as_fresh(db: ev.Database, case: Case, made: Sequence[Step]) -> None:
    """What is left is what a new database with the same views holds."""
    fresh = ev.Database()
    for table in case.tables:
        fresh.sql(table.ddl())
    for step in made:
        if step.kind == "rules":
            fresh.rules(step.text)
        else:
            fresh.sql(step.definition())
    for name, runtime in db._views.items():  # what a first use of positions or of a look-up has built
        if fresh._views[name].view.options != runtime.view.options:
            fresh.view(name)._set_options(runtime.view.options)
    with fresh.batch():
        pass
    fresh.version = db.version
    mine, new = stored(db), stored(fresh)
    if mine["dictionary"] != new["dictionary"]:
        expect(False, f"left in the dictionary: {mine['dictionary']}, {new['dictionary']}")
    if not any(new["dictionary"].values()):  # else words of the two databases differ
        of_the_past = counted(db)
        expect(mine.keys() == new.keys(), f"other tables: {mine.keys() ^ new.keys()}")
        left = {
            k: (mine[k], new[k])
            for k in new
            if mine[k] != new[k] and (k not in of_the_past or len(mine[k]) > of_the_past[k])
        }
        expect(not left, f"left behind: {left}")
    have, empty = db.nbytes(), fresh.nbytes()
    allowed = 1.05 * empty + 640 * sum(1 for k in mine if isinstance(mine[k], list))  # first blocks of arrays
    expect(have <= allowed, f"{have} bytes are left of an empty database of {empty}, {allowed} allowed")
