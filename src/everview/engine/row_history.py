"""What has changed in a view since a version, by the stored rows that have: nothing of its result is kept.

A join whose stored rows are each below one other row, as those of q-hierarchical queries are, needs no more than these
rows, with what they weighed before, to find its difference to an earlier state (``engine.operators.difference``). So a
batch takes as long with OPTIONS (history = n) as without, however many rows of the result it changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.history import Span
from everview.engine.operators.counts import Columns
from everview.engine.operators.difference import Difference
from everview.engine.operators.join import Join
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import words_array
from everview.engine.values.words import is_wide

FEW = 64
"""Up to so many rows Python's own dictionary is faster than Arrow's groups."""
_VERSION = "version"
Logged = tuple[Columns | None, ...]
"""For each node of a tree the rows that a batch has changed, once each, with what they weighed before; None: none."""


@dataclass(frozen=True)
class _Entry:
    version: int
    rows: Logged
    nbytes: int


class RowHistory(Span):
    """The stored rows of a core that the last batches have changed, and what they weighed before."""

    def __init__(
        self,
        view: str,
        core: Join,
        most: int,
        version: Callable[[], int],
        room: Callable[[RowHistory], int],
    ) -> None:
        super().__init__(view, most, version)
        self._room = room
        self._dictionary: Dictionary = core.dictionary
        self._entries: deque[_Entry] = deque()
        self.nbytes = 0
        self.core = core
        self.attach(core)

    @property
    def shape(self) -> tuple[object, ...]:
        """What must be the same for rows of one core to be those of another."""
        return tuple((n.variables, n.parent, n.words) for n in self._nodes)

    def attach(self, core: Join) -> None:
        """Go on with a core that holds the same result; where it stores other rows, begin anew."""
        before = self.shape if self._entries else None
        self.core = core
        self._nodes = core.maintained.difference
        self._wide = [[i for i, v in enumerate(n.variables) if is_wide(core.types[v])] for n in self._nodes]
        core.keeps_log = True
        self._discard()
        if before is not None and before != self.shape:
            self.begin()

    def _discard(self) -> None:
        """Forget what has changed up to now."""
        for node in self._nodes:
            if node.log is not None:
                self.core.part.discard(node.log)

    # --- batches ---------------------------------------------------------------------------------------------------

    def take(self) -> None:
        """A batch was taken: keep which rows it has changed, and let go of what is too old now."""
        pending = [n.log is not None and self.core.part.pending(n.log) > 0 for n in self._nodes]
        if any(pending):
            found = tuple(self._taken(i) if is_there else None for i, is_there in enumerate(pending))
            self._keep(self._version(), found)
            self._count_uses(found, comes=True)
        while self._entries and self._entries[0].version <= self._version() - self.most:
            self._drop_first()
        room = self._room(self)
        if self.nbytes > room:
            self.begin()

    def _taken(self, i: int) -> Columns:
        """The rows of a node that have changed, each as it was first."""
        log = self._nodes[i].log
        assert log is not None
        columns = tuple(words_array(c) for c in self.core.part.take(log))
        return _first(columns, len(self._nodes[i].variables))

    def _keep(self, version: int, rows: Logged) -> None:
        nbytes = sum(c.nbytes for columns in rows if columns is not None for c in columns)
        self._entries.append(_Entry(version, rows, nbytes))
        self.nbytes += nbytes

    def _drop_first(self) -> None:
        entry = self._entries.popleft()
        self.nbytes -= entry.nbytes
        self._count_uses(entry.rows, comes=False)

    def _count_uses(self, rows: Logged, *, comes: bool) -> None:
        """Rows that have gone are needed still: their strings are kept for as long as they are."""
        for words in self._wide_in(rows):
            if comes:
                self._dictionary.retain(words)
            else:
                self._dictionary.release(words)

    def _wide_in(self, rows: Logged) -> Iterator[pa.Array]:
        for columns, wide in zip(rows, self._wide, strict=True):
            yield from (columns[i] for i in wide if columns is not None)

    def wide_words(self) -> Iterator[pa.Array]:
        """The ids of strings and other wide values that it uses: one use each time that one comes."""
        return (words for entry in self._entries for words in self._wide_in(entry.rows))

    def begin(self) -> None:
        """Begin anew: forget all, and know changes from now on."""
        while self._entries:
            self._drop_first()
        self._discard()
        self.first = self._version()

    def give_up(self, room: int) -> None:
        """Begin anew, as what is kept takes more than there is room for."""
        self.begin()

    def end(self) -> None:
        """Keep nothing any more."""
        self.begin()
        self.core.keeps_log = False

    # --- differences -----------------------------------------------------------------------------------------------

    def since(self, version: int) -> tuple[tuple[Columns, pa.Array], tuple[Columns, pa.Array]]:
        """What the core has only now, and what it had only then: words and weights."""
        self.check(version)
        entries = [entry.rows for entry in self._entries if entry.version > version]
        merged = (self._merged(i, [rows[i] for rows in entries]) for i in range(len(self._nodes)))
        return Difference(self.core).between(list(merged))

    def _merged(self, i: int, parts: Sequence[Columns | None]) -> Columns | None:
        """What several batches have changed in a node, each row as it was before the first of them."""
        there = [columns for columns in parts if columns is not None]
        if len(there) <= 1:
            return there[0] if there else None
        columns = tuple(pa.concat_arrays([c[k] for c in there]) for k in range(len(there[0])))
        return _first(columns, len(self._nodes[i].variables))

    # --- snapshots -------------------------------------------------------------------------------------------------

    @property
    def schemas(self) -> list[pa.Schema]:
        """How the rows of each node are saved."""
        return [
            pa.schema([(_VERSION, pa.int64()), *((f"w{k}", pa.int64()) for k in range(len(n.variables) + n.words))])
            for n in self._nodes
        ]

    def saved(self) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """What is kept of each node, oldest first."""
        for i, schema in enumerate(self.schemas):
            yield schema, self._saved(i, schema)

    def _saved(self, i: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for entry in self._entries:
            columns = entry.rows[i]
            if columns is not None:
                versions = pa.repeat(pa.scalar(entry.version, pa.int64()), len(columns[0]) if columns else 0)
                yield pa.RecordBatch.from_arrays([versions, *columns], schema=schema)

    def restore(self, first: int, saved: Sequence[Sequence[pa.RecordBatch]], *, retains: bool) -> None:
        """Keep what was saved; ``retains`` the strings that it needs, unless their saved uses count that."""
        self._discard()
        self.first = first
        versions: dict[int, list[Columns | None]] = {}
        for i, batches in enumerate(saved):
            for batch in batches:
                columns = tuple(batch.columns[1:])
                versions.setdefault(batch.column(0)[0].as_py(), [None] * len(self._nodes))[i] = columns
        for version, rows in sorted(versions.items()):
            self._keep(version, tuple(rows))
            if retains:
                self._count_uses(tuple(rows), comes=True)


def _first(columns: Columns, width: int) -> Columns:
    """Rows of ``width`` words once each, with what stands beside them where they come first."""
    length = len(columns[0])
    if length <= FEW:
        known: dict[tuple[int, ...], int] = {}
        keys = zip(*(c.to_pylist() for c in columns[:width]), strict=True) if width else iter([()] * length)
        for place, key in enumerate(keys):
            known.setdefault(key, place)
        places = pa.array(list(known.values()), pa.int64())
    else:
        names = [f"c{i}" for i in range(width)]
        order = pa.array(range(length), pa.int64())
        table = pa.table([*columns[:width], order], names=[*names, "place"])
        summed = table.group_by(names, use_threads=False).aggregate([("place", "min")])
        places = pc.array_sort_indices(summed["place_min"])
        places = summed["place_min"].take(places).combine_chunks()
    return tuple(c.take(places) for c in columns)
