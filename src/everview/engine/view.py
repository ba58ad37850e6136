"""What a user holds of a view: its rows, its changes, its explanation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.feed import Callback, ChangeFeed
from everview.engine.progress import Progress
from everview.engine.rows import ZERO, WordRows
from everview.engine.runtime import ViewRuntime
from everview.engine.words import NULL, arrow_type, from_words, is_wide, to_words
from everview.errors import RowShapeError, StaleReadError
from everview.kernel import StaleCursor
from everview.plan.explain import Explanation

if TYPE_CHECKING:
    from everview.engine.database import Database

ROWS_AT_ONCE = 65_536


class View:
    """A maintained view. Reading it sees whole batches only, also beside threads that change its tables."""

    def __init__(self, database: Database, runtime: ViewRuntime) -> None:
        self._database = database
        self._runtime = runtime
        self._lock = database._lock
        self.name = runtime.view.name

    @property
    def schema(self) -> pa.Schema:
        """The view's columns."""
        return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in self._runtime.view.columns])

    # --- reading ---------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many rows there are, copies included, as SELECT COUNT(*) would say."""
        with self._lock:
            return sum(int(pc.sum(rows.weight).as_py() or 0) for rows in self._runtime.rows())

    def __bool__(self) -> bool:
        """True if there is any row."""
        with self._lock:
            return any(len(rows) for rows in self._runtime.rows())

    def __contains__(self, row: object) -> bool:
        """True if the row is in the result."""
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise RowShapeError(f"{self.name} holds rows, and {row!r} is none", hint="test a tuple of its columns")
        if len(row) != len(self._runtime.types):
            raise RowShapeError(
                f"a row of {self.name} has {len(self._runtime.types)} columns, not {len(row)}",
                hint=f"its columns are {', '.join(self.schema.names)}",
            )
        with self._lock:
            return self._contains(row)

    def _contains(self, row: Sequence[Any]) -> bool:
        words = self._words(row)
        if words is None:
            return False
        found = self._runtime.holds(words)
        if found is not None:
            return found
        for rows in self._runtime.rows():
            words = self._words(row)  # anew: a computed string has an id only once it has been computed
            if words is not None and _holds(rows, words):
                return True
        return False

    def _words(self, row: Sequence[Any]) -> list[int] | None:
        """A row's words, None if a value cannot be in the column or nobody has stored it."""
        dictionary = self._runtime.dictionary
        found = []
        for value, type_ in zip(row, self._runtime.types, strict=True):
            try:
                array = pa.array([value], arrow_type(type_))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
                return None
            words = dictionary.lookup(array) if is_wide(type_) else to_words(array, type_, dictionary)
            found.append(int(words[0].as_py()))
            if found[-1] == NULL and value is not None:
                return None
        return found

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples, each as often as it has copies; the order is the engine's own.

        They are all of one state: a StaleReadError ends the loop if the view's tables change before it does.
        """
        for batch, counts in self._steps():
            for row, copies in zip(_tuples(batch), counts, strict=True):
                for _ in range(copies):
                    yield row

    def __getitem__(self, position: int) -> tuple[Any, ...]:
        """The row at a position of the engine's order."""
        if not isinstance(position, int):
            raise TypeError(f"a position is an integer, not a {type(position).__name__}: use page(offset=, limit=)")
        with self._lock:
            if position < 0:
                position += len(self)
            rows = self.page(offset=position, limit=1) if position >= 0 else []
        if not rows:
            raise IndexError(f"{self.name} has no row at position {position}")
        return rows[0]

    def page(self, *, offset: int = 0, limit: int) -> list[tuple[Any, ...]]:
        """Some rows, from a position of the engine's order on."""
        if offset < 0 or limit < 0:
            raise ValueError("offset and limit are not negative")
        with self._lock:
            return self._page(offset, limit)

    def _page(self, offset: int, limit: int) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        passed = 0
        for rows in self._runtime.rows() if limit else ():
            size = int(pc.sum(rows.weight).as_py() or 0)
            if passed + size > offset:
                batch, counts = self._decoded(rows)
                first = max(0, offset - passed)
                expanded = (row for row, copies in zip(_tuples(batch), counts, strict=True) for _ in range(copies))
                found += islice(expanded, first, first + limit - len(found))
            passed += size
            if len(found) == limit:
                break
        return found

    def to_arrow(self) -> pa.Table:
        """All rows, copies repeated."""
        batches = []
        with self._lock, Progress(f"reading {self.name}") as progress:
            for batch, counts in self._batches():
                if any(c != 1 for c in counts):
                    positions = [i for i, c in enumerate(counts) for _ in range(c)]
                    batch = batch.take(pa.array(positions, pa.int64()))
                batches.append(batch)
                progress.add(batch.num_rows)
        return pa.Table.from_batches(batches, schema=self.schema)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame."""
        return self.to_arrow().to_pandas()

    def _batches(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        for rows in self._runtime.rows():
            yield self._decoded(rows)

    def _steps(self) -> Iterator[tuple[pa.RecordBatch, list[int]]]:
        """The same, and others may have their turn between two batches."""
        batches = self._batches()
        seen = None
        while True:
            with self._lock:
                seen = self._runtime.updates if seen is None else seen
                try:
                    found = next(batches, None) if self._runtime.updates == seen else self._stale()
                except StaleCursor:  # a feed was opened or closed, which changes the state, too
                    self._stale()
            if found is None:
                return
            yield found

    def _stale(self) -> NoReturn:
        raise StaleReadError(
            f"{self.name} has changed since the first of its rows was read, or a feed of it was opened or closed",
            table=self.name,
            hint="read all rows before the next change, with list(view); beside other threads use view.to_arrow()",
        ) from None

    def _decoded(self, rows: WordRows) -> tuple[pa.RecordBatch, list[int]]:
        """Rows as values, and the copies of each."""
        columns = zip(rows.columns, self._runtime.types, strict=True)
        arrays = [from_words(c, t, self._runtime.dictionary) for c, t in columns]
        counts = rows.weight.to_pylist()
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema), counts
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(counts), pa.struct([]))), counts

    # --- changes ---------------------------------------------------------------------------------------------------

    def changes(self, *, per_update: bool = False) -> ChangeFeed:
        """Open a feed of changes from now on: net per batch, or every single update's own (``per_update``)."""
        return self._database.open_feed(self._runtime, per_update, None)

    def subscribe(self, callback: Callback, *, per_update: bool = False) -> ChangeFeed:
        """Have each batch's changes handed to ``callback``; close what is returned to end that."""
        return self._database.open_feed(self._runtime, per_update, callback)

    # --- what it is ------------------------------------------------------------------------------------------------

    def explain(self, *, analyze: bool = False, program: bool = False) -> Explanation:
        """The verdict; with ``analyze`` what it costs so far, with ``program`` the programs that run it."""
        explanation = Explanation(self._runtime.plan)
        if analyze:
            explanation = explanation.with_section("measured", _measured(self.stats()))
        if program:
            from everview.kernel.printer import show_program

            listed = [show_program(c.crown.program) for c in self._runtime.cores]
            explanation = explanation.with_section("programs", "\n\n".join(listed))
        return explanation

    def stats(self) -> dict[str, Any]:
        """Rows, bytes, updates, deltas and their ratio, in all and for each node of each core.

        ``restored`` says how ``Database.load`` filled it: from a "snapshot" of its state, or "rebuilt" from the rows.
        """
        with self._lock:
            return self._stats()

    def _stats(self) -> dict[str, Any]:
        runtime = self._runtime
        nodes = []
        for core in runtime.cores:
            for table, (rows, size) in core.machine.table_stats().items():
                nodes.append({"core": core.plan.core.role, "table": table, "rows": rows, "bytes": size})
        return {
            "view": self.name,
            "bytes": runtime.nbytes(),
            "updates": runtime.updates,
            "deltas": runtime.deltas,
            "amplification": runtime.deltas / runtime.updates if runtime.updates else 0.0,
            "steps": sum(c.machine.steps for c in runtime.cores),
            "nodes": nodes,
            "restored": runtime.restored,
        }

    def __repr__(self) -> str:
        return f"<View {self.name}({', '.join(self.schema.names)})>"


def _holds(rows: WordRows, words: list[int]) -> bool:
    mask = pc.greater(rows.weight, ZERO)
    for column, word in zip(rows.columns, words, strict=True):
        mask = pc.and_(mask, pc.equal(column, word))
    return bool(pc.any(mask).as_py())


def _tuples(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    if batch.num_columns == 0:
        return [()] * batch.num_rows
    return list(zip(*(c.to_pylist() for c in batch.columns), strict=True))


def _measured(stats: dict[str, Any]) -> str:
    lines = [
        f"{stats['updates']:,} updates, {stats['deltas']:,} changed rows "
        f"({stats['amplification']:.2f} an update), {stats['bytes']:,} bytes"
    ]
    lines += [f"{n['table']}: {n['rows']:,} rows, {n['bytes']:,} bytes" for n in stats["nodes"]]
    return "\n".join(lines)
