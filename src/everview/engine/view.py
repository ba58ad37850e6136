"""What a user holds of a view: its rows, its changes, its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.engine.change_feed import Callback, ChangeFeed, Delivery, check_subscriber, feed_batches, feed_schema
from everview.engine.direct.views import way_of_batches
from everview.engine.lookups import Lookups, more_lookups
from everview.engine.moments import Sums, kept_count, kept_sums
from everview.engine.operators.answers import Answers
from everview.engine.operators.counts import Fold
from everview.engine.places import Places
from everview.engine.positions import Positions
from everview.engine.reasons import Reasons
from everview.engine.regression import Regressions
from everview.engine.relation import T
from everview.engine.row_history import RowHistory
from everview.engine.storage.check_saved import blaming_the_file
from everview.engine.values.rows import WordRows
from everview.engine.view_runtime import ViewRuntime
from everview.errors import DroppedError, HistoryExceeded, whole_number
from everview.plan.explain import Explanation
from everview.plan.formula_plan import FormulaExplanation, explained
from everview.query.options import MOST_LOOKUPS, ViewOptions

if TYPE_CHECKING:
    from everview.engine.database import Database


class View(Positions, Lookups, Reasons, Regressions):
    """A maintained view. Reading it sees whole batches only, also beside threads that change its tables."""

    def __init__(self, database: Database, runtime: ViewRuntime) -> None:
        columns = [(c.name, c.type) for c in runtime.view.columns]
        super().__init__(runtime.view.name, columns, runtime.dictionary, database._lock)
        self._database = database
        self._held = runtime

    @property
    def _runtime(self) -> ViewRuntime:
        if self._held.dropped:
            raise DroppedError(
                f"the view {self.name} was dropped or replaced",
                table=self.name,
                hint=f"take the one that has the name now with db.view('{self.name}')",
            )
        if self.name in self._database._unfilled:
            self._database.fill_what_is_lost()
        return self._held

    # --- reading ---------------------------------------------------------------------------------------------------

    def _rows(self, *, partly: bool = False) -> Iterator[WordRows]:
        """The whole result; raises if there is none now, which only an aggregate over no input can be the reason of."""
        self._runtime.check_result()
        return self._listed(partly)

    def _listed(self, partly: bool) -> Iterator[WordRows]:
        with blaming_the_file(self._runtime):
            yield from self._runtime.rows(partly=partly)

    def _decoded(self, rows: WordRows) -> tuple[pa.RecordBatch, list[int]]:
        with blaming_the_file(self._runtime):
            return super()._decoded(rows)

    def _placed(self, *, partly: bool) -> Iterator[WordRows]:
        return self._checked(super()._placed(partly=partly))

    def _streamed(self) -> Iterator[WordRows]:
        return self._checked(super()._streamed())

    def _checked(self, listed: Iterator[WordRows]) -> Iterator[WordRows]:
        """The same rows; it raises if there are none now."""
        runtime = self._runtime
        runtime.check_result()
        runtime.check_listed(f"the rows of {self.name} cannot be listed")
        with blaming_the_file(runtime):
            yield from listed

    def _kept_places(self) -> Places | None:
        kept = self._database._places.get(self.name)
        return kept if kept is not None and kept.state == self._state else None

    def _keep_places(self, rows: WordRows) -> None:
        limit = self._database.memory_limit
        if limit is None or self._database.nbytes() + sum(c.nbytes for c in (*rows.columns, rows.weight)) <= limit:
            self._database._places[self.name] = Places(rows, self._state)

    @property
    def _state(self) -> tuple[object, ...]:
        """Another one where rows, or the words that stand for their values, may be others."""
        return (self._runtime, self._changed(), self._dictionary.collected)

    def _net(self) -> Fold:
        return self._runtime.net

    def _ask(self, question: Callable[[Answers], T]) -> T:
        self._runtime.check_result()
        with blaming_the_file(self._runtime):
            return question(self._runtime.result)

    def _changed(self) -> int:
        return self._runtime.updates + self._runtime.refills

    def count(self) -> int:
        """How many rows there are, copies included, as SELECT COUNT(*) would say; of any size.

        Where a union has to be counted, and can be in constant time, what that takes is kept from the first time on.
        """
        with self._lock:
            options, plan = self._runtime.view.options, self._runtime.plan.result
            if options.count is None and plan.may_count and self._ask(lambda rows: rows.count()) is None:
                self._set_options(ViewOptions(count=True))
            return super().count()

    def _prepare_positions(self) -> None:
        if self._runtime.view.options.access is None and self._runtime.result.may_access:
            self._set_options(ViewOptions(access=True))

    def _prepare_lookup(self, columns: frozenset[int]) -> None:
        options, result = self._runtime.view.options, self._runtime.result
        asked = [frozenset(map(str.lower, names)) for names in options.lookup or ()]
        names = [self.schema.names[i] for i in sorted(columns)]
        if frozenset(map(str.lower, names)) in asked or len(asked) == MOST_LOOKUPS:
            return
        if not result.looks_up(columns):
            by = ", ".join(names)
            self._runtime.check_listed(f"rows of {self.name} cannot be found by {by}")
        if result.may_look_up(columns) and not result.looks_up(columns):
            self._set_options(more_lookups(options, names))

    @property
    def _moment_columns(self) -> tuple[int, ...]:
        asked = self._runtime.view.options.moments
        if asked is not None:
            return tuple(sorted(self._number_columns(asked)))
        return tuple(i for i, type_ in enumerate(self._types) if type_.is_numeric)

    def _kept_count(self) -> int | None:
        kept = self._kept_places()
        if kept is not None or self._runtime.view.options.count is False:
            return None if kept is None else kept.count()
        self._runtime.check_result()
        with blaming_the_file(self._runtime):
            return kept_count(self._database, self._runtime)

    def _sums(self, columns: tuple[int, ...], degree: int) -> Sums:
        self._runtime.check_result()
        with blaming_the_file(self._runtime):
            return kept_sums(self._database, self._runtime, columns, degree)

    def why(self, row: Sequence[Any], *, limit: int | None = None) -> dict[str, pa.Table]:
        """The base rows that a row is made of, by occurrence: for each alias those of its table.

        A row may be made in several ways, its *derivations*; with a ``limit`` those of so many are given, and of no
        occurrence more rows than that, without it all. A KeyError if the row is not there.
        """
        with self._lock, blaming_the_file(self._runtime):
            return self._why(self._database, self._runtime, row, limit)

    def _set_options(self, options: ViewOptions) -> None:
        from everview.sql.ddl import qualified

        self._database.sql(f"ALTER MATERIALIZED VIEW {qualified(self.name)} SET OPTIONS ({options})")

    # --- changes ---------------------------------------------------------------------------------------------------

    def changes(self, *, per_update: bool = False) -> ChangeFeed:
        """Open a feed of changes from now on: net per batch, or every single update's own (``per_update``)."""
        return self._database.open_feed(self._runtime, Delivery.PER_UPDATE if per_update else Delivery.NET, None)

    def subscribe(self, callback: Callback, *, per_update: bool = False) -> ChangeFeed:
        """Have each batch's changes handed to ``callback``; close what is returned to end that."""
        check_subscriber(callback)
        return self._database.open_feed(self._runtime, Delivery.PER_UPDATE if per_update else Delivery.NET, callback)

    def diff(self, *, since: int) -> pa.Table:
        """What has changed since the database had a version (``db.version``), net, with the columns of a feed.

        It is known for as many batches as OPTIONS (history = …) says; a HistoryExceeded before that.
        """
        since = whole_number(since, "since, a version of the database,")
        with self._lock:
            history = self._database.history(self._runtime.view.name)
            if history is None:
                raise HistoryExceeded(
                    f"what changes in {self.name} is not kept",
                    hint="have the last 100 batches kept with OPTIONS (history = 100), or follow it with changes()",
                )
            if isinstance(history, RowHistory):
                return self._difference(since)
            return history.since(since, self._runtime.group_columns)

    def _difference(self, since: int) -> pa.Table:
        """The same, made of the stored rows that have changed."""
        runtime, outputs = self._runtime, self._runtime.view.columns
        version, schema = self._database.version, feed_schema(outputs, False)
        rows = runtime.difference(since)
        batches = feed_batches([rows], outputs, None, version, schema, runtime.dictionary)
        return pa.Table.from_batches(batches, schema=schema)

    # --- what it is ------------------------------------------------------------------------------------------------

    def explain(self, *, analyze: bool = False, program: bool = False) -> Explanation:
        """The verdict; with ``analyze`` what it costs so far, with ``program`` the programs that run it."""
        explanation = explained(self._runtime.plan)
        if isinstance(explanation, FormulaExplanation):
            with self._lock:
                explanation = explanation.counted(self._runtime.formulas[0].stats())
        if analyze:
            explanation = explanation.with_section("measured", _measured(self.stats()))
        if program:
            from everview.kernel.printer import show_program

            listed = [show_program(c.maintained.program) for c in self._runtime.cores]
            explanation = explanation.with_section("programs", "\n\n".join(listed))
        return explanation

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, updates, changed rows (``deltas``) and how many an update, in all and for each node of a core.

        What an update changes is counted only while the view tells it: with a feed open, or where another view or its
        own state needs it. ``counted_updates`` is of how many that is so; if of none, ``deltas`` and ``amplification``
        are None.
        ``parts`` has the strategy of each core, and what it counts of itself; where it keeps heavy and light keys apart
        these are ``epsilon``, ``N`` and ``theta`` = N^ε, the number of ``heavy_keys``, and since the view was filled
        the ``minor`` and ``major`` rebalances and the tuples that they ``moved``.
        ``restored`` says how ``Database.load`` filled it: from a "snapshot" of its state, or "rebuilt" from the rows.
        ``failing`` says why the view has no result now; None if it has one. ``batches`` says whether batches go the
        direct way through it, in one call of the kernel, and if not what stands in the way.
        """
        with self._lock:
            return self._stats()

    def _stats(self) -> dict[str, Any]:
        runtime = self._runtime
        nodes = []
        for core in runtime.cores:
            for table, (rows, size) in core.part.table_stats().items():
                nodes.append({"core": core.plan.core.role, "table": table, "rows": rows, "bytes": size})
        return {
            "view": self.name,
            "bytes": runtime.nbytes(),
            "updates": runtime.updates,
            "counted_updates": runtime.updates_with_deltas,
            "deltas": runtime.deltas if runtime.updates_with_deltas else None,
            "amplification": runtime.deltas / runtime.updates_with_deltas if runtime.updates_with_deltas else None,
            "steps": runtime.unit.steps + sum(f.stats()["total_steps"] for f in runtime.formulas),
            "nodes": nodes,
            "parts": [{"core": c.plan.core.role, "strategy": c.plan.strategy.name, **c.gauges()} for c in runtime.cores]
            + [{"core": "formula", "strategy": f.plan.name, **f.stats()} for f in runtime.formulas],
            "restored": runtime.restored,
            "failing": runtime.why_no_result(),
            "batches": way_of_batches(runtime),
        }


def _measured(stats: dict[str, Any]) -> str:
    lines = [f"{stats['updates']:,} updates, {stats['bytes']:,} bytes", _told(stats)]
    lines += [f"batches go {stats['batches']}"]
    lines += [_parted(p) for p in stats["parts"] if "theta" in p]
    lines += [f"{n['table']}: {n['rows']:,} rows, {n['bytes']:,} bytes" for n in stats["nodes"]]
    return "\n".join(lines)


def _parted(part: dict[str, Any]) -> str:
    base = f"N = {part['N']:,}, θ = {part['theta']:,.2f}, ε = {part['epsilon']:.3g}"
    rebalanced = f"rebalanced {part['minor']:,} times for a key, {part['major']:,} times for all"
    heavy, moved = f"heavy keys: {part['heavy_keys']:,}", f"rows moved: {part['moved']:,}"
    return f"heavy and light parts at {base}; {heavy}; {rebalanced}; {moved}"


def _told(stats: dict[str, Any]) -> str:
    if stats["deltas"] is None:
        return "changed rows: not counted, as no feed was open"
    of = "" if stats["counted_updates"] == stats["updates"] else f" of the {stats['counted_updates']:,} counted"
    return f"{stats['deltas']:,} changed rows ({stats['amplification']:.2f} an update{of})"
