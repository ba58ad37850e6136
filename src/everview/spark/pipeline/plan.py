"""A pipeline's views, planned against the declared tables: what ``--dry-run`` shows, without Spark or Java."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from everview.engine.expressions.check_supported import check_views
from everview.errors import EverviewError, PipelineError
from everview.plan.explain import Explanation
from everview.plan.formula_plan import explained
from everview.plan.shards import Distribution
from everview.plan.view_plan import plan_view
from everview.query.catalogue import as_table
from everview.query.schema import Schema
from everview.query.view import View, relations_in
from everview.redaction import redact, redacted
from everview.spark.checkpoint.folder import is_local
from everview.spark.checkpoint.pins import fitting, plan_over, read_pins
from everview.spark.exchange.key_step import tables_with_spread_keys
from everview.spark.pipeline.model import FILES, Pipeline, Source, ViewSpec
from everview.spark.views import one_view

_WILD = re.compile(r"[*?\[\]{}]")
_MAKE = "correct the path, or make the folder; it may be empty"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\d+)?\])?|local-cluster\[(\d+),(\d+),\d+\]")


@dataclass(frozen=True)
class Planned:
    """The verdict on every view, and how they are spread over shards."""

    pipeline: Pipeline
    verdicts: tuple[Explanation, ...]
    distribution: Distribution
    is_guess: bool
    """True if the number of shards is the cluster's, and this one is only to show something."""

    def __str__(self) -> str:
        return redact("\n".join(_lines(self)))

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        found: dict[str, Any] = redacted(
            {
                "pipeline": self.pipeline.name,
                "views": [v.to_dict() for v in self.verdicts],
                "targets": dict(self.pipeline.targets),
                "missing": {s.name: s.path for s in missing(self.pipeline)},
                "shards": self.distribution.to_dict(),
            }
        )
        return found


def plan(pipeline: Pipeline, *, migrate: bool = False) -> Planned:
    """Parse and plan the views; an error says where in the file it is.

    What a checkpoint on local disks holds fast is used, and a pipeline that does not fit it refused, as by a run.
    """
    views = _parsed(pipeline)
    names = frozenset(v.name for v in views)
    verdicts = []
    for view in views:
        entry = pipeline.views[view.name].entry
        try:
            others = names - {view.name}
            verdicts.append(explained(plan_view(view, pipeline.schema, pipeline.rates, others, told=True)))
        except EverviewError as error:
            raise entry.error(error.message, error.hint) from error
    _all_read(pipeline, views)
    pins = read_pins(pipeline.checkpoint) if is_local(pipeline.checkpoint) else ()
    shards = pipeline.shards if pipeline.shards or pins else cores(pipeline.master)
    guess = 2 if shards is None and not pins else shards
    spread = plan_over(
        pipeline.sql,
        pipeline.schema,
        guess,
        rates=pipeline.rates,
        pins=pins,
        migrate=migrate,
        options=pipeline.options,
    )
    if pins:
        with_spread_keys = tables_with_spread_keys(spread.distribution) if pipeline.bad_rows == "quarantine" else ()
        streaming = {t.table.name for t in pipeline.tables.values() if pipeline.sources[t.source].streaming}
        by_key = tuple(t.name for t in with_spread_keys if t.name in streaming)
        fitting(replace(replace(spread, by_key=by_key).identity, migrate=migrate), pins)
    return Planned(pipeline, tuple(verdicts), spread.distribution, is_guess=shards is None and not pins)


def missing(pipeline: Pipeline) -> list[Source]:
    """The sources that tables read from files of this machine that are not there; a cluster's are its own to know."""
    if cores(pipeline.master) is None:
        return []
    read = dict.fromkeys(s for t in pipeline.tables.values() for s in (t.source, t.initial) if s is not None)
    return [s for s in map(pipeline.sources.__getitem__, read) if s.format in FILES and s.path and _is_missing(s.path)]


def check_paths(pipeline: Pipeline) -> None:
    """Refuse to run a pipeline that has nothing to read from."""
    for source in missing(pipeline):
        error = source.place.error if source.place is not None else PipelineError
        raise error(f"source {source.name} reads {source.path}, and there is no such file or folder", hint=_MAKE)


def _is_missing(path: str) -> bool:
    """Whether it is a path of this machine, without wildcards, where nothing is."""
    local = url2pathname(urlsplit(path).path) if path.startswith("file:") else path
    return is_local(path) and not _WILD.search(local) and not Path(local).exists()


def cores(master: str | None) -> int | None:
    """The cores of a local master; None for a cluster, which alone knows."""
    match = _LOCAL.fullmatch(master or "local[*]")
    if match is None:
        return None
    if match[2]:
        return int(match[2]) * int(match[3])
    if match[1] == "*":
        return os.cpu_count() or 1
    return int(match[1] or 1)


def _parsed(pipeline: Pipeline) -> tuple[View, ...]:
    known: Schema = pipeline.schema
    found: list[View] = []
    for spec in pipeline.views.values():
        try:
            view = one_view(spec.sql, spec.name, known, found, spec.further)
        except EverviewError as error:
            raise _located(spec, error) from error
        if view.name != spec.name:
            spec.entry.refuse(f"the SQL creates a view {view.name}", "write the SELECT alone")
        try:
            check_views([view], known)
        except EverviewError as error:
            raise spec.entry.error(error.message, error.hint) from error
        found.append(view)
        known = known.with_table(as_table(view))
    return tuple(found)


def _located(spec: ViewSpec, error: EverviewError) -> EverviewError:
    """The error at its place in the pipeline file, or in the file of the SQL."""
    if spec.entry.name.endswith(".file"):
        where = f"{spec.entry.raw()}: {error.message}"
        return PipelineError(where, position=error.position, source=error.source, hint=error.hint)
    return spec.entry.within(error)


def _all_read(pipeline: Pipeline, views: tuple[View, ...]) -> None:
    """At least one table that a view reads must be streaming."""
    read = set()
    for view in views:
        for body in (*(s.body for s in view.stages), view.body):
            read |= {name.lower() for name in relations_in(body)}
    used = [t for n, t in pipeline.tables.items() if n.lower() in read]
    if not any(pipeline.sources[t.source].streaming for t in used):
        spec = next(iter(pipeline.views.values()))
        raise spec.entry.error(
            "the views read static tables only, so nothing can change",
            "let at least one of their sources stream; for static data run the SQL itself",
        )


def _lines(planned: Planned) -> list[str]:
    pipeline = planned.pipeline
    lines = [f"pipeline    {pipeline.name} ({pipeline.path})"]
    for table in pipeline.tables.values():
        source = pipeline.sources[table.source]
        changes = "read once" if not source.streaming else "changes" if table.change_type else "inserts only"
        key = f", key {', '.join(table.table.primary_key)}" if table.table.primary_key else ""
        lines.append(f"table       {table.table.name} from {source.name} ({source.format}, {changes}{key})")
    for verdict in planned.verdicts:
        name = verdict.plan.view.name
        lines += ["", *str(verdict).splitlines()]
        if name in pipeline.targets:
            lines.append(f"target      {pipeline.targets[name]}")
    lines += [""] if missing(pipeline) else []
    for source in missing(pipeline):
        lines.append(f"missing     {source.path} of source {source.name}: a run is refused until it is there")
    lines += ["", "shards"]
    if planned.is_guess:
        lines.append(
            f"  one a core of {pipeline.master}, which only a run can ask; shown here for {planned.distribution.shards}"
        )
    lines += [f"  {line}" for line in str(planned.distribution).splitlines()]
    lines += ["", f"checkpoint  {pipeline.checkpoint}"]
    lines.append(f"trigger     {pipeline.trigger or 'as soon as the last batch is done'}")
    policy = "stop the query" if pipeline.bad_rows == "fail" else f"go to {pipeline.dead_letter or 'the feed'}"
    lines.append(f"bad rows    {policy}")
    return lines
