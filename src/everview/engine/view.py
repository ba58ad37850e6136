"""What a user holds of a view: its rows, its changes, its explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from everview.engine.change_feed import Callback, ChangeFeed, Delivery
from everview.engine.operators.answers import Answers
from everview.engine.relation import Relation, T, tuples
from everview.engine.storage.check_saved import blaming_the_file
from everview.engine.values.rows import WordRows
from everview.engine.view_runtime import ViewRuntime
from everview.errors import DroppedError
from everview.plan.explain import Explanation

if TYPE_CHECKING:
    from everview.engine.database import Database


class View(Relation):
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

    def _ask(self, question: Callable[[Answers], T]) -> T:
        self._runtime.check_result()
        with blaming_the_file(self._runtime):
            return question(self._runtime.result)

    def _changed(self) -> int:
        return self._runtime.updates + self._runtime.refills

    def __getitem__(self, position: int) -> tuple[Any, ...]:
        """The row at a position of the engine's order."""
        if not isinstance(position, int):
            raise TypeError(f"a position is an integer, not a {type(position).__name__}: use page(offset=, limit=)")
        with self._lock:
            offset = position if position >= 0 else position + self.count()
            rows = self.page(offset=offset, limit=1) if offset >= 0 else []
        if not rows:
            raise IndexError(f"{self.name} has no row at position {position}")
        return rows[0]

    def page(self, *, offset: int = 0, limit: int) -> list[tuple[Any, ...]]:
        """Some rows, from a position of the engine's order on, which need not be the one in which all are listed."""
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit are not negative")
        with self._lock:
            return self._page(offset, limit)

    def rank(self, row: Sequence[Any]) -> int:
        """The first position of a row in the engine's order, from 0; a KeyError if it is not there."""
        with self._lock:
            if row not in self:
                raise KeyError(f"{row!r} is not in {self.name}")
            sought = self._sought(row)
            assert sought is not None
            known = self._ask(lambda rows: rows.rank(sought))
            if known is not None:
                return known
            passed = 0
            for rows in self._rows(partly=True):
                place = sought.place(rows)
                if place is not None:
                    return passed + rows.slice(0, place).copies
                passed += rows.copies
        raise AssertionError(row)

    def _page(self, offset: int, limit: int) -> list[tuple[Any, ...]]:
        size = self._ask(lambda rows: rows.count())
        if size is not None and offset >= size:
            return []
        accessed = self._accessed(range(offset, min(offset + limit, size))) if size is not None else None
        return self._cut(offset, limit) if accessed is None else accessed

    def _accessed(self, positions: range) -> list[tuple[Any, ...]] | None:
        """The rows at some positions, each by itself; None if rows have to be listed for that."""

        def asked(rows: Answers) -> list[WordRows] | None:
            found: list[WordRows] = []
            for position in positions:
                row = rows.access(position)
                if row is None:
                    return None
                found.append(row)
            return found

        found = self._ask(asked)
        return None if found is None else [row for rows in found for row in tuples(self._decoded(rows)[0])]

    def _cut(self, offset: int, limit: int) -> list[tuple[Any, ...]]:
        """The same out of the list of all rows."""
        found: list[tuple[Any, ...]] = []
        passed = 0
        for rows in self._rows(partly=True) if limit else ():
            size = rows.copies
            if passed + size > offset:
                batch, counts = self._decoded(rows)
                first = max(0, offset - passed)
                expanded = (row for row, copies in zip(tuples(batch), counts, strict=True) for _ in range(copies))
                found += islice(expanded, first, first + limit - len(found))
            passed += size
            if len(found) == limit:
                break
        return found

    # --- changes ---------------------------------------------------------------------------------------------------

    def changes(self, *, per_update: bool = False) -> ChangeFeed:
        """Open a feed of changes from now on: net per batch, or every single update's own (``per_update``)."""
        return self._database.open_feed(self._runtime, Delivery.PER_UPDATE if per_update else Delivery.NET, None)

    def subscribe(self, callback: Callback, *, per_update: bool = False) -> ChangeFeed:
        """Have each batch's changes handed to ``callback``; close what is returned to end that."""
        return self._database.open_feed(self._runtime, Delivery.PER_UPDATE if per_update else Delivery.NET, callback)

    # --- what it is ------------------------------------------------------------------------------------------------

    def explain(self, *, analyze: bool = False, program: bool = False) -> Explanation:
        """The verdict; with ``analyze`` what it costs so far, with ``program`` the programs that run it."""
        explanation = Explanation(self._runtime.plan)
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
        ``failing`` says why the view has no result now; None if it has one.
        """
        with self._lock:
            return self._stats()

    def _stats(self) -> dict[str, Any]:
        runtime = self._runtime
        nodes = []
        for core in runtime.cores:
            for table, (rows, size) in core.unit.table_stats().items():
                nodes.append({"core": core.plan.core.role, "table": table, "rows": rows, "bytes": size})
        return {
            "view": self.name,
            "bytes": runtime.nbytes(),
            "updates": runtime.updates,
            "counted_updates": runtime.updates_with_deltas,
            "deltas": runtime.deltas if runtime.updates_with_deltas else None,
            "amplification": runtime.deltas / runtime.updates_with_deltas if runtime.updates_with_deltas else None,
            "steps": sum(c.unit.steps for c in runtime.cores),
            "nodes": nodes,
            "parts": [
                {"core": c.plan.core.role, "strategy": c.plan.strategy.name, **c.gauges()} for c in runtime.cores
            ],
            "restored": runtime.restored,
            "failing": runtime.why_no_result(),
        }


def _measured(stats: dict[str, Any]) -> str:
    lines = [f"{stats['updates']:,} updates, {stats['bytes']:,} bytes", _told(stats)]
    lines += [f"{n['table']}: {n['rows']:,} rows, {n['bytes']:,} bytes" for n in stats["nodes"]]
    return "\n".join(lines)


def _told(stats: dict[str, Any]) -> str:
    if stats["deltas"] is None:
        return "changed rows: not counted, as no feed was open"
    of = "" if stats["counted_updates"] == stats["updates"] else f" of the {stats['counted_updates']:,} counted"
    return f"{stats['deltas']:,} changed rows ({stats['amplification']:.2f} an update{of})"
