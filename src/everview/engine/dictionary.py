"""Wide values as words: strings, binary and long decimals get ids, counted by who uses them and given out again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal
from sys import getsizeof
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

NULL: Final = -(2**63)
"""The word that stands for NULL, in every type; no value is ever given it."""

MOST_IDS: Final = 2**32
"""No saved dictionary has an id as high as this, which would take more memory than there is."""

UNKNOWN: Final = -1
"""What ``lookup`` answers for a value that nobody has stored; never an id."""

Wide: TypeAlias = str | bytes | Decimal

# How each kind lies in Arrow: 64-bit offsets, since all values together may exceed 2 GB, and a decimal that holds every
# precision and scale up to 38 exactly. The names are those of the saved state.
_KINDS: Final[dict[str, tuple[type, pa.DataType]]] = {
    "string": (str, pa.large_string()),
    "binary": (bytes, pa.large_binary()),
    "decimal": (Decimal, pa.decimal256(76, 38)),
}
_EXACT = Context(prec=80)
_FEW = 1_000  # Below this, a plain loop is quicker than asking Arrow for the distinct values first.


def _kind(arrow: pa.DataType) -> str:
    if pa.types.is_decimal(arrow):
        return "decimal"
    if pa.types.is_string(arrow) or pa.types.is_large_string(arrow):
        return "string"
    if pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow):
        return "binary"
    raise TypeError(f"a dictionary holds strings, binary and decimals, not {arrow}")


class Dictionary:
    """The wide values of a whole database, each with an id (0, 1, 2, …) and the number of its uses.

    A value keeps its id while its count is above 0; ``collect`` frees the others, and their ids are given to new
    values. Values of different kinds never share an id, and decimals are one value whatever their scale.
    """

    def __init__(self) -> None:
        self._ids: dict[str, dict[Wide, int]] = {kind: {} for kind in _KINDS}
        self._values: list[Wide | None] = []  # by id; None: free
        self._counts: list[int] = []  # by id
        self._free: list[int] = []
        self._idle: set[int] = set()  # ids that may have count 0: what collect looks at
        self._freed = 0  # ids freed since the arrays were last compacted
        self._value_bytes = 0
        self._arrays: dict[str, pa.Array] = {}  # the values by id, null where of another kind; emptied by any change

    def __len__(self) -> int:
        return len(self._values) - len(self._free)

    def nbytes(self) -> int:
        """About how much memory it takes; constant time, so that it can be asked after every batch."""
        parts = (*self._ids.values(), self._values, self._counts, self._free, self._idle)
        arrays: int = sum(a.nbytes for a in self._arrays.values())
        return self._value_bytes + sum(map(getsizeof, parts)) + arrays

    # --- values to ids -----------------------------------------------------------------------------------------------

    def encode(self, array: pa.Array) -> pa.Array:
        """The ids of values, as words; NULL for nulls. Values not seen before get an id with count 0."""
        ids = self._ids[_kind(array.type)]

        def id_of(value: Wide) -> int:
            found = ids.get(value)
            return self._add(ids, value) if found is None else found

        return _translate(array, id_of)

    def lookup(self, array: pa.Array) -> pa.Array:
        """The ids of values, as words; NULL for nulls and UNKNOWN for values that are not stored. Adds nothing."""
        ids = self._ids[_kind(array.type)]
        return _translate(array, lambda value: ids.get(value, UNKNOWN))

    def _add(self, ids: dict[Wide, int], value: Wide) -> int:
        value = _shortest(value)
        if self._free:
            new = self._free.pop()
            self._values[new] = value
        else:
            new = len(self._values)
            self._values.append(value)
            self._counts.append(0)
        ids[value] = new
        self._idle.add(new)
        self._value_bytes += getsizeof(value)
        self._arrays.clear()
        return new

    # --- ids to values -----------------------------------------------------------------------------------------------

    def decode(self, ids: pa.Array, arrow: pa.DataType) -> pa.Array:
        """The values of ids, as an array of the given Arrow type; nulls for NULL.

        Takes time for the ids asked, not for the dictionary: only who asks for much of it pays for an array of all
        values, which then serves until the dictionary changes.
        """
        kind = _kind(arrow)
        if len(ids) <= _FEW:
            values = [None if i == NULL else self._values[i] for i in ids.to_pylist()]
            return pa.array(values, arrow)
        if kind == "decimal":
            return self._decimals(ids, arrow)
        known = pc.if_else(pc.equal(ids, NULL), pa.scalar(None, pa.int64()), ids)
        if kind not in self._arrays:
            encoded = known.dictionary_encode()
            wanted = encoded.dictionary.to_pylist()
            if 4 * len(wanted) < len(self._values):
                few = pa.array([self._values[i] for i in wanted], _KINDS[kind][1])
                return few.take(encoded.indices).cast(arrow)
            self._arrays[kind] = self._array(kind)
        return self._arrays[kind].take(known).cast(arrow)

    def _decimals(self, ids: pa.Array, arrow: pa.DataType) -> pa.Array:
        """Made in their type at once: Arrow (26.0) cannot bring some decimals of 256 bits to a smaller scale."""
        encoded = pc.if_else(pc.equal(ids, NULL), pa.scalar(None, pa.int64()), ids).dictionary_encode()
        values = pa.array([self._values[i] for i in encoded.dictionary.to_pylist()], arrow)
        return values.take(encoded.indices)

    def _array(self, kind: str) -> pa.Array:
        python, arrow = _KINDS[kind]
        return pa.array([v if isinstance(v, python) else None for v in self._values], arrow)

    # --- uses --------------------------------------------------------------------------------------------------------

    def retain(self, ids: pa.Array, counts: pa.Array | None = None) -> None:
        """Count further uses of ids: one for each time they occur, or as many as ``counts`` says. NULL is skipped."""
        for id_, count in _totals(ids, counts).items():
            self._counts[id_] += count

    def release(self, ids: pa.Array, counts: pa.Array | None = None) -> None:
        """Take back uses that were retained; ids with none left go with the next ``collect``.

        Releasing more than was retained is a mistake of the caller: it raises ValueError and changes nothing.
        """
        totals = _totals(ids, counts)
        for id_, count in totals.items():
            if self._counts[id_] < count:
                raise ValueError(f"{count} uses of id {id_} are released, and it has {self._counts[id_]}")
        for id_, count in totals.items():
            self._counts[id_] -= count
            if self._counts[id_] == 0:
                self._idle.add(id_)

    def collect(self) -> int:
        """Free the values whose count is 0, and return how many; takes time for those that became unused, not all."""
        freed = [i for i in self._idle if self._counts[i] == 0]
        self._idle.clear()
        for id_ in freed:
            value = self._values[id_]
            if value is not None:
                del self._ids[_kind_of(value)][value]
                self._value_bytes -= getsizeof(value)
                self._values[id_] = None
        if freed:
            self._free += freed
            self._freed += len(freed)
            self._arrays.clear()
            if not len(self) or 2 * self._freed > len(self._values):
                self._compact()
        return len(freed)

    def _compact(self) -> None:
        """Give memory back: cut the free ids at the end, and rebuild the hash tables, which never shrink themselves."""
        while self._values and self._values[-1] is None:
            self._values.pop()
        size = len(self._values)
        self._values = self._values[:]
        self._counts = self._counts[:size]
        self._free = [i for i in range(size - 1, -1, -1) if self._values[i] is None]
        self._idle = set()
        self._ids = {kind: dict(ids.items()) for kind, ids in self._ids.items()}
        self._freed = 0

    def uses(self) -> list[int]:
        """How often each id is used, to go back to."""
        return self._counts[:]

    def reset_uses(self, uses: list[int]) -> None:
        """Go back to what ``uses`` gave, if nothing was collected since; values that are new since have none."""
        self._idle |= {i for i in range(len(self._counts)) if i >= len(uses) or uses[i] == 0}
        self._counts = uses + [0] * (len(self._counts) - len(uses))

    # --- saving ------------------------------------------------------------------------------------------------------

    def to_state(self) -> dict[str, pa.Table]:
        """All of it as Arrow tables with columns id, value and count, by kind of value."""
        state = {}
        for kind, (_, arrow) in _KINDS.items():
            ids = list(self._ids[kind].values())
            values = pa.array(list(self._ids[kind]), arrow)
            counts = pa.array([self._counts[i] for i in ids], pa.int64())
            state[kind] = pa.table({"id": pa.array(ids, pa.int64()), "value": values, "count": counts})
        return state

    @classmethod
    def from_state(cls, state: Mapping[str, pa.Table]) -> Dictionary:
        """The dictionary that ``to_state`` described, every value with its old id; ValueError if it cannot be one."""
        made = cls()
        _check(state)
        size = 1 + max((max(t["id"].to_pylist(), default=-1) for t in state.values()), default=-1)
        made._values = [None] * size
        made._counts = [0] * size
        for kind, table in state.items():
            for id_, value, count in zip(*(table[c].to_pylist() for c in ("id", "value", "count")), strict=True):
                value = _shortest(value)
                made._ids[kind][value] = id_
                made._values[id_] = value
                made._counts[id_] = count
                made._value_bytes += getsizeof(value)
                if count == 0:
                    made._idle.add(id_)
        made._free = [i for i in range(size - 1, -1, -1) if made._values[i] is None]
        return made

    def become(self, other: Dictionary) -> None:
        """Take over all that another dictionary holds, which is not to be used any more."""
        self.__dict__.update(other.__dict__)

    def has_all(self, ids: pa.Array, arrow: pa.DataType) -> bool:
        """True if each of the ids is NULL or stands for a value that a column of the given Arrow type can have."""
        python, size = _KINDS[_kind(arrow)][0], len(self._values)
        return all(
            i == NULL or (0 <= i < size and isinstance(self._values[i], python)) for i in pc.unique(ids).to_pylist()
        )


def _check(state: Mapping[str, pa.Table]) -> None:
    """Refuse what ``to_state`` cannot have given: ids are used once and none is far beyond the others."""
    ids: list[int] = []
    for kind, table in state.items():
        schema = pa.schema([("id", pa.int64()), ("value", _KINDS[kind][1]), ("count", pa.int64())])
        if table.schema != schema or len(table["value"].unique()) < len(table):
            raise ValueError(f"the dictionary of {kind} values is not well formed")
        if any(count < 0 for count in table["count"].to_pylist()):
            raise ValueError("a dictionary counts fewer than no uses")
        ids += table["id"].to_pylist()
    if len(set(ids)) < len(ids) or min(ids, default=0) < 0 or max(ids, default=0) >= MOST_IDS:
        raise ValueError("the ids of a dictionary are wrong")


def _shortest(value: Wide) -> Wide:
    """A decimal without zeros at its end: it then fits every type that can hold it without being divided."""
    return _EXACT.normalize(value) if isinstance(value, Decimal) else value


def _kind_of(value: Wide) -> str:
    return "string" if isinstance(value, str) else "binary" if isinstance(value, bytes) else "decimal"


def _translate(array: pa.Array, id_of: Callable[[Wide], int]) -> pa.Array:
    """Apply a function to every distinct value once; the answers as words, NULL for nulls."""
    if len(array) <= _FEW:
        return pa.array([NULL if v is None else id_of(v) for v in array.to_pylist()], pa.int64())
    encoded = array.dictionary_encode()
    ids = pa.array([id_of(v) for v in encoded.dictionary.to_pylist()], pa.int64())
    return pc.fill_null(ids.take(encoded.indices), NULL)


def _totals(ids: pa.Array, counts: pa.Array | None) -> dict[int, int]:
    """How often each id occurs, or the sum of its counts; without NULL."""
    totals: Counter[int] = Counter()
    for id_, count in _weighted(ids, counts):
        totals[id_] += count
    totals.pop(NULL, None)
    return totals


def _weighted(ids: pa.Array, counts: pa.Array | None) -> Iterable[tuple[int, int]]:
    if counts is None:
        pairs = pc.value_counts(ids)
        return zip(pairs.field("values").to_pylist(), pairs.field("counts").to_pylist(), strict=True)
    if len(ids) > _FEW:
        sums = pa.table({"id": ids, "count": counts}).group_by("id").aggregate([("count", "sum")])
        return zip(sums["id"].to_pylist(), sums["count_sum"].to_pylist(), strict=True)
    return zip(ids.to_pylist(), counts.to_pylist(), strict=True)
