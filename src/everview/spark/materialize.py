"""``materialize``: a target that is kept equal to a view, batch by batch, from the view's change feed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from everview.errors import TargetError
from everview.spark.targets import Batch, Target, named
from everview.spark.targets.base import CHANGE_TYPE, COMMIT_VERSION, COUNT, another_view

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

DRIVER_ROWS: Final = 1_000_000
"""A batch of more rows comes to the driver in parts of about so many."""

VIEW, QUARANTINED, QUARANTINE = "_view", "_quarantined", "quarantine"
_META: Final = (CHANGE_TYPE, COMMIT_VERSION, COUNT)
_AVAILABLE_NOW: Final = "available now"
_BLOB: Final = "blob"

Named = Target | str | None


def materialize(
    changes: DataFrame,
    target: Target | str | Mapping[str, Named],
    *,
    checkpoint: str,
    dead_letter: Target | str | None = None,
    trigger: str | Mapping[str, Any] | None = None,
    query_name: str | None = None,
    driver_rows: int = DRIVER_ROWS,
) -> StreamingQuery:
    """Start a query that keeps a target equal to the view whose change feed is given; returns the running query.

    ``target`` is a target or its text (``parquet:/path``, ``delta:/path``, ``postgresql://…?table=…``); for a feed of
    several views a dict from each view's name to its target, or to None for a view that is not wanted.
    ``checkpoint`` is Spark's folder for the query: with it, a query that is started again goes on where it was, and
    each batch is in the target exactly once.
    ``dead_letter`` is the target of rows that ``maintain`` put into quarantine: their ``_commit_version`` and
    ``_quarantined``, the text that says which and why.
    ``trigger`` is an interval such as "5 seconds", or "available now", or a dict of what Spark's ``trigger`` takes.
    """
    from everview.spark.checkpoint.take_over import first_batch
    from everview.spark.restarting import restarting
    from everview.spark.session import ending

    if not changes.isStreaming:
        raise TargetError("materialize takes a streaming DataFrame", hint="give it what maintain returns")
    if driver_rows < 1:
        raise TargetError(f"driver_rows is at least 1, not {driver_rows}")
    writer = _Writer(_routes(changes, target, dead_letter), driver_rows, first_batch(changes, checkpoint))
    for route in writer.routes:
        route.target.check(route.schema)
        progress = route.target.progress() if writer.first and route.view != QUARANTINE else None
        if progress is not None and progress.batch < writer.first:
            raise another_view(route.target, progress, writer.first)
    stream = changes.writeStream.foreachBatch(writer).option("checkpointLocation", checkpoint)
    if query_name is not None:
        stream = stream.queryName(query_name)
    if isinstance(trigger, str):
        trigger = {"availableNow": True} if trigger == _AVAILABLE_NOW else {"processingTime": trigger}
    if trigger is not None:
        stream = stream.trigger(**trigger)
    return restarting(ending(changes.sparkSession, stream.start, trigger))


# --- which rows go where ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Route:
    """The rows of one view in a feed: the condition for them, what to select, their columns, where they go."""

    view: str
    target: Target
    condition: str | None
    columns: list[str]
    schema: pa.Schema

    def rows(self, batch: DataFrame) -> DataFrame:
        chosen = batch if self.condition is None else batch.where(self.condition)
        return chosen.selectExpr(*self.columns)


def _routes(changes: DataFrame, target: Any, dead_letter: Target | str | None) -> list[_Route]:
    missing = [name for name in _META if name not in changes.columns]
    if missing:
        raise TargetError(
            f"the DataFrame is no change feed: it has no column {missing[0]}",
            hint="give materialize what maintain returns",
        )
    quarantine = QUARANTINED in changes.columns
    if quarantine and dead_letter is None:
        raise TargetError(
            "the feed can have rows in quarantine, and there is no target for them",
            hint='give materialize a dead_letter, such as "parquet:/path", or maintain another policy',
        )
    if dead_letter is not None and not quarantine:
        raise TargetError(
            "there is a dead_letter target, but the feed has no rows in quarantine",
            hint='leave it out, or give maintain the policy "quarantine"',
        )
    own = [name for name in changes.columns if name not in (*_META, VIEW, QUARANTINED)]
    routes = _views(changes, own, target) if VIEW in changes.columns else [_single(changes, own, target, quarantine)]
    if dead_letter is not None:
        condition = f"{CHANGE_TYPE} = '{QUARANTINE}'"
        kept = [COMMIT_VERSION, QUARANTINED]
        columns = [COMMIT_VERSION, QUARANTINED, f"'insert' AS {CHANGE_TYPE}", f"1L AS {COUNT}"]
        schema = _arrow(changes.select(*kept))
        routes.append(_Route(QUARANTINE, named(dead_letter), condition, columns, schema))
    _all_different(routes)
    return routes


def _single(changes: DataFrame, own: list[str], target: Any, quarantine: bool) -> _Route:
    if isinstance(target, Mapping):
        if len(target) != 1 or None in target.values():
            raise TargetError("the feed is that of one view, so it has one target", hint="give the target, not a dict")
        target = next(iter(target.values()))
    condition = f"{CHANGE_TYPE} <> '{QUARANTINE}'" if quarantine else None
    columns = [*map(_quoted, own), *_META]
    return _Route("", named(target), condition, columns, _arrow(changes.select(*map(_quoted, own))))


def _views(changes: DataFrame, views: list[str], target: Any) -> list[_Route]:
    if not isinstance(target, Mapping):
        raise TargetError(
            f"the feed is that of several views: {', '.join(views)}",
            hint="give a dict from each view's name to its target",
        )
    if set(target) != set(views):
        raise TargetError(
            f"there are targets for {', '.join(target) or 'no view'}, and the feed has the views {', '.join(views)}",
            hint="give each view of the feed a target, or None",
        )
    routes = []
    for view in views:
        if target[view] is None:
            continue
        rows = changes.select(f"{_quoted(view)}.*")
        columns = [*(f"{_quoted(view)}.{_quoted(name)}" for name in rows.columns), *_META]
        text = view.replace("\\", "\\\\").replace("'", "\\'")
        routes.append(_Route(view, named(target[view]), f"{VIEW} = '{text}'", columns, _arrow(rows)))
    return routes


def _all_different(routes: list[_Route]) -> None:
    names = [route.target.name for route in routes]
    double = next((n for n in names if names.count(n) > 1), None)
    if double is not None:
        raise TargetError(f"{double} is given twice", hint="each view needs a target of its own")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _arrow(rows: DataFrame) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(rows.schema, timezone="UTC")


# --- a batch ---------------------------------------------------------------------------------------------------------


class _Writer:
    """What Spark calls with every batch.

    The batch is computed once, into Spark's cache, and all of it, also if every target has it already: a stateful
    query commits its state by being run.
    """

    def __init__(self, routes: list[_Route], driver_rows: int, first: int = 0) -> None:
        self.routes = routes
        self.first = first
        """The batch with which the views begin."""
        self._driver_rows = driver_rows
        self._owners: dict[str, str] = {}

    def __call__(self, batch: DataFrame, number: int) -> None:
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
        if query is None:
            raise TargetError(
                "Spark does not say which query a batch is of",
                hint="call materialize in the driver, not over Spark Connect",
            )
        batch.persist()
        try:
            rows = batch.count()
            for route in self.routes:
                self._write(route, batch, number, self._owner(route, query), rows)
        finally:
            batch.unpersist()

    def _write(self, route: _Route, batch: DataFrame, number: int, owner: str, rows: int) -> None:
        def chunks() -> Iterator[pa.RecordBatch]:
            if rows:
                yield from _chunks(route.rows(batch), rows, self._driver_rows)

        route.target.write(Batch(number, owner, route.schema, rows, chunks, self._first(route)))

    def _owner(self, route: _Route, query: str) -> str:
        """Who writes a target: query and view and, if the view took over a checkpoint, the batch with which it did."""
        if route.target.name not in self._owners:
            name = f"{query}/{route.view}" if route.view else query
            progress = route.target.progress()
            first = self._first(route)
            if first:
                name = f"{name}@{first}"
            elif progress is not None and progress.owner.startswith(f"{name}@"):
                name = progress.owner
            self._owners[route.target.name] = name
        return self._owners[route.target.name]

    def _first(self, route: _Route) -> int:
        """Of the rows that were put aside, those of before stay: they are no view that is told anew."""
        return 0 if route.view == QUARANTINE and route.target.progress() is not None else self.first


def _chunks(rows: DataFrame, count: int, driver_rows: int) -> Iterator[pa.RecordBatch]:
    """A batch's rows in the driver: at once if they are few, else one part after the other, as compressed Arrow."""
    if count <= driver_rows:
        yield from rows.toArrow().to_batches()
        return
    parts = -(-count // driver_rows)
    packed = rows.repartition(parts).mapInArrow(_packed, f"{_BLOB} binary")
    for row in packed.toLocalIterator():
        with pa.ipc.open_stream(pa.py_buffer(row[_BLOB])) as reader:
            yield from reader


def _packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Each record batch as one row that holds it whole: Spark brings blobs to the driver much quicker than rows."""
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    for batch in batches:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
            writer.write_batch(batch)
        yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], [_BLOB])
