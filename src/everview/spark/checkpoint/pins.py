"""Pins: what of a query's plan a checkpoint holds fast, and how a query that is started again is planned by it.

What places rows is used as it was when the checkpoint was begun, whatever the statistics or the cost model say now.
Trees inside shards are no part of it. Views are compared by their meaning (``canonical``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import SparkSession

from everview.errors import DataFormatError, PipelineError, StateMismatchError
from everview.plan.distribute import distribute
from everview.plan.placement import distribution_from_data, distribution_to_data
from everview.plan.shards import Distribution, Grid, ShardLevel
from everview.plan.split import with_options_of
from everview.query.data import canonical
from everview.query.schema import Schema
from everview.query.view import View
from everview.spark.checkpoint.folder import Folder
from everview.spark.checkpoint.identity import FORMAT, HASH, Identity
from everview.spark.checkpoint.migration import stored_identity
from everview.spark.exchange.routing import settled
from everview.spark.session import shard_keys
from everview.spark.views import narrowed_to, read_views

FILE: Final = "everview/pin.json"
"""Where in a checkpoint's folder the pin is."""


@dataclass(frozen=True)
class Maintained:
    """What a query is planned as: its views, the tables as far as they are read, and what of it is pinned."""

    views: tuple[View, ...]
    schema: Schema
    distribution: Distribution
    single: bool
    keys: tuple[int, ...]
    """The shards' keys in Spark's state store."""
    by_key: tuple[str, ...] = ()
    """The tables that pass a step by key before the shards: a stateful operator, without which its rows are lost."""

    @property
    def identity(self) -> Identity:
        """The pin of it."""
        found = {
            "format": FORMAT,
            "hash": HASH,
            "shards": self.distribution.shards,
            "keys": list(self.keys),
            "views": sorted((canonical(v) for v in self.views), key=lambda v: str(v["name"])),
            "texts": [str(v) for v in self.views],
            "homes": _homes(self.distribution),
            "spread": distribution_to_data(self.distribution),
        }
        options = {v.name: v.options.to_data() for v in self.views if v.options}
        if options:
            found["options"] = options
        if self.by_key:
            found["by_key"] = sorted(self.by_key)
        return Identity(json.dumps(found, sort_keys=True))


def plan_over(
    sql: str | Mapping[str, str],
    schema: Schema,
    shards: int | None,
    *,
    rates: Mapping[str, float] | None = None,
    skew: Mapping[tuple[str, str], float] | None = None,
    pins: Sequence[Identity] = (),
    migrate: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Maintained:
    """Plan views over tables that are declared: needs no DataFrame and no session.

    Args:
        sql: the views, in any of the forms that ``maintain`` takes.
        schema: the tables.
        shards: how many; None: as pinned.
        rates: how many updates to expect at each table, relative to the others; of no account with a pin.
        skew: for (table, column) the part of the rows that the most frequent value has; the same.
        pins: what a checkpoint holds fast (``read_pins``); what does not fit it is refused.
        migrate: other views than the pinned ones are taken, if they find their rows where those are.
        options: of the views, as ``maintain`` takes them.
    """
    if pins:
        return _as_pinned(pins, sql, schema, shards, migrate=migrate, options=options)
    views, single, narrow = read_views(sql, schema, options=options)
    count = shards or 1
    spread = _settled(distribute(views, narrow, count, rates=rates, skew=skew))
    return Maintained(views, narrow, spread, single, tuple(shard_keys(count)))


def _as_pinned(
    pins: Sequence[Identity],
    sql: str | Mapping[str, str],
    schema: Schema,
    shards: int | None,
    *,
    migrate: bool,
    options: Mapping[str, Any] | None,
) -> Maintained:
    pin = pins[0]
    held = _held(pin)
    count = shards or int(pin.parts.get("shards") or 1)
    fresh = plan_over(sql, schema, count, options=options)
    if held is None or count != held.shards:
        raise StateMismatchError(fresh.identity.refusal(pin))
    tables = narrowed_to(held.tables, schema, fresh.schema)
    if tables is None:
        raise StateMismatchError(fresh.identity.refusal(pin))
    views, single, _ = read_views(sql, schema, tables, options)
    same = Maintained(views, tables, held, single, tuple(map(int, pin.parts["keys"])))
    wanted = same.identity.parts["views"]
    for known in pins:
        if known.parts["views"] == wanted:
            return replace(same, distribution=_with_options(_held(known) or held, views))
    spread = _settled(_with_conditions(distribute(views, tables, count, like=held), held))
    other = replace(same, distribution=spread)
    if not replace(other.identity, migrate=migrate).can_take_over(pin):
        raise StateMismatchError(other.identity.refusal(pin))
    return other


def _held(pin: Identity) -> Distribution | None:
    """How the pin spreads rows; None if this version does that otherwise."""
    if pin.parts.get("format") != FORMAT or pin.parts.get("hash") != HASH:
        return None
    held = distribution_from_data(pin.parts["spread"])
    if _homes(held) != pin.parts["homes"] or _settled(held) != held:
        raise StateMismatchError(
            "the checkpoint's rows are placed in a way that this version of Everview does not know",
            hint="restart the query with the version that wrote it",
        )
    return held


def _homes(distribution: Distribution) -> dict[str, list[int]]:
    first, ahead = distribution.first, distribution.ahead
    in_first = {t.name for t in first.tables} - distribution.made
    found = {t.name: first if t.name in in_first else ahead for t in distribution.tables}
    return {name: sorted(level.homes(name)) for name, level in found.items() if level is not None}


def _settled(distribution: Distribution) -> Distribution:
    ahead = distribution.ahead
    return replace(distribution, first=settled(distribution.first), ahead=None if ahead is None else settled(ahead))


def _with_options(distribution: Distribution, views: Sequence[View]) -> Distribution:
    """The views with the options that are asked for now: shards that kept them by others make them anew from rows."""

    def given(level: ShardLevel | None) -> ShardLevel | None:
        return None if level is None else replace(level, views=with_options_of(level.views, views))

    first = given(distribution.first) or distribution.first
    return replace(distribution, first=first, merge=given(distribution.merge), ahead=given(distribution.ahead))


def _with_conditions(distribution: Distribution, held: Distribution) -> Distribution:
    """Rows have come on the conditions that were: a view that asks for more of them finds those that it needs."""
    ahead = held.ahead and distribution.ahead and _with_conditions_of(distribution.ahead, held.ahead)
    return replace(distribution, first=_with_conditions_of(distribution.first, held.first), ahead=ahead)


def _with_conditions_of(level: ShardLevel, held: ShardLevel) -> ShardLevel:
    there = {g.view: g for g in held.grids}

    def kept(grid: Grid) -> Grid:
        old = there.get(grid.view)
        if old is None or len(old.routes) != len(grid.routes):
            return grid
        routes = [
            replace(new, conditions=was.conditions) if set(was.conditions) <= set(new.conditions) else new
            for new, was in zip(grid.routes, old.routes, strict=True)
        ]
        return replace(grid, routes=tuple(routes))

    return replace(level, grids=tuple(map(kept, level.grids)))


# --- in the checkpoint's folder --------------------------------------------------------------------------------------


def read_pins(checkpoint: str, spark: SparkSession | None = None) -> tuple[Identity, ...]:
    """The pins of a checkpoint, the last one first: another before it is that of views that may not have ended yet.

    None if no batch was finished: then nothing is held fast. A checkpoint on local disks is read without a session,
    unless its query was begun without our knowing where: then the shards' state is asked.
    """
    folder = Folder.of(checkpoint, spark)
    if not any(name.isdigit() for name in folder.names("commits")):
        return ()
    if _is_there(folder):
        return _read(folder.text(FILE), checkpoint)
    if spark is None:
        return ()
    stored = stored_identity(spark, checkpoint)
    return (stored,) if stored.parts else ()


def _read(text: str, checkpoint: str) -> tuple[Identity, ...]:
    try:
        found = json.loads(text)
        pins = [found["pin"], found["before"]]
        if not all(pin is None or isinstance(pin, dict) for pin in pins) or pins[0] is None:
            raise TypeError("no pin")
    except (LookupError, TypeError, ValueError) as error:
        raise DataFormatError(
            f"{checkpoint}/{FILE} is damaged: {error}",
            hint="remove it: what it says is then read from the shards' state",
        ) from error
    return tuple(Identity(_text(pin)) for pin in pins if pin is not None)


def hold(checkpoint: str, identity: Identity, spark: SparkSession) -> None:
    """Hold fast what a query is planned as, before it is started; refused if the checkpoint holds fast another one.

    Of views that take over, those before stay beside them: until a batch has ended, the checkpoint is theirs.
    """
    pins = read_pins(checkpoint, spark)
    same = fitting(identity, pins)
    if same and same[0] is pins[0] and _is_there(Folder.of(checkpoint, spark)):
        return
    before = next((pin for pin in pins if pin not in same), None)
    content = {"pin": identity.parts, "before": None if before is None else before.parts}
    Folder.of(checkpoint, spark).write(FILE, _text(content))


def fitting(identity: Identity, pins: Sequence[Identity]) -> list[Identity]:
    """The pins that are the query's own; refused if there are others only, which it cannot take over."""
    same = [pin for pin in pins if not identity.differences(pin)]
    if pins and not same and not identity.can_take_over(pins[0]):
        raise StateMismatchError(identity.refusal(pins[0]))
    return same


def _is_there(folder: Folder) -> bool:
    below, _, name = FILE.rpartition("/")
    return name in folder.names(below)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def need_same_place(planned: str | None, given: str) -> None:
    """Refuse to start a query elsewhere than where it was planned for."""
    if planned is not None and _plain(planned) != _plain(given):
        raise PipelineError(
            f"maintain was given checkpoint {planned}, and the query is started with {given}",
            hint="give both the same",
        )


def _plain(path: str) -> str:
    return path.removeprefix("file://").removeprefix("file:").rstrip("/")
