"""Wide values as words: strings, binary and long decimals get ids, counted by who uses them and given out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Context
from typing import Final

import pyarrow as pa

from everview.engine.values.nested import is_well_formed, nested_array, nested_bytes
from everview.errors import DataError
from everview.kernel import Machine, ValueTable

NULL: Final = -(2**63)
"""The word that stands for NULL, in every type; no value is ever given it."""

UNKNOWN: Final = -1
"""What ``lookup`` answers for a value that nobody has stored; never an id."""

NESTED: Final = "nested"
"""The kind of arrays, structs and maps."""

# How each kind lies in Arrow when saved: 64-bit offsets, since all values together may exceed 2 GB, and a decimal that
# holds every precision and scale up to 38 exactly. The names are those of the saved state, the places the kernel's.
_KINDS: Final = {
    "string": pa.large_string(),
    "binary": pa.large_binary(),
    "decimal": pa.decimal256(76, 38),
    NESTED: pa.large_binary(),
}
KINDS: Final = tuple(_KINDS)
"""Strings, binary, decimals and nested values, by the names that they are saved under."""
_TOGETHER: Final = 8_192
"""So many values are saved at once."""
_STRING, _BINARY, _DECIMAL, _NESTED = range(4)
_NUMBER_BY_NAME: Final = dict(zip(_KINDS, range(4), strict=True))
_NUMBERS: Final[dict[int, int]] = {
    pa.lib.Type_STRING: _STRING,
    pa.lib.Type_LARGE_STRING: _STRING,
    pa.lib.Type_BINARY: _BINARY,
    pa.lib.Type_LARGE_BINARY: _BINARY,
    pa.lib.Type_DECIMAL32: _DECIMAL,
    pa.lib.Type_DECIMAL64: _DECIMAL,
    pa.lib.Type_DECIMAL128: _DECIMAL,
    pa.lib.Type_DECIMAL256: _DECIMAL,
    pa.lib.Type_LIST: _NESTED,
    pa.lib.Type_STRUCT: _NESTED,
    pa.lib.Type_MAP: _NESTED,
}
_LONG: Final = {pa.lib.Type_LARGE_STRING, pa.lib.Type_LARGE_BINARY}
_EXACT = Context(prec=80)


def _kind(arrow: pa.DataType) -> int:
    kind = _NUMBERS.get(arrow.id)
    if kind is None:
        raise TypeError(f"a dictionary holds strings, binary, decimals and nested values, not {arrow}")
    return kind


def saved_schema(name: str) -> pa.Schema:
    """How values of a kind are saved: each with its id, and how often it is used."""
    return pa.schema([("id", pa.int64()), ("value", _KINDS[name]), ("count", pa.int64())])


class Dictionary:
    """The wide values of a whole database, each with an id (0, 1, 2, …) and the number of its uses.

    A value keeps its id while its count is above 0; ``collect`` frees the others, and their ids are given to new
    values. Values of different kinds never share an id, and decimals are one value whatever their scale. The kernel
    keeps them; here they are Arrow arrays.
    """

    def __init__(self) -> None:
        self._table = ValueTable()
        self.machine = Machine(self._table)
        """The machine of the same database, whose units hold the ids."""
        self.collected = 0
        """How often values were freed: from one time to the next an id stands for the same value, used or not."""

    def __len__(self) -> int:
        return len(self._table)

    @property
    def table(self) -> ValueTable:
        """The kernel's own table of them."""
        return self._table

    def nbytes(self) -> int:
        """About how much memory it takes; constant time, so that it can be asked after every batch."""
        return self._table.nbytes()

    # --- values to ids -----------------------------------------------------------------------------------------------

    def encode(self, array: pa.Array) -> pa.Array:
        """The ids of values, as words; NULL for nulls. Values not seen before get an id with count 0."""
        if array.type.id == pa.lib.Type_DECIMAL128 and array.type.scale >= 0:
            return pa.array(self._table.encode_decimals(array, array.type.scale))
        kind = _kind(array.type)
        return pa.array(self._table.encode(kind, _stored(kind, array)))

    def lookup(self, array: pa.Array) -> pa.Array:
        """The ids of values, as words; NULL for nulls and UNKNOWN for values that are not stored. Adds nothing."""
        kind = _kind(array.type)
        return pa.array(self._table.lookup(kind, _stored(kind, array)))

    # --- ids to values -----------------------------------------------------------------------------------------------

    def decode(self, ids: pa.Array, arrow: pa.DataType) -> pa.Array:
        """The values of ids, as an array of the given Arrow type; nulls for NULL.

        IndexError if an id has no value of that type's kind, ValueError if they are too long for one array.
        """
        kind = _kind(arrow)
        if kind == _NESTED:
            return nested_array(self._saved(kind, ids), arrow)
        if kind != _DECIMAL:
            return pa.array(self._table.decode(kind, ids, text=kind == _STRING, is_long=arrow.id in _LONG))
        if arrow.id == pa.lib.Type_DECIMAL128 and arrow.scale >= 0:
            return _decimals(*self._table.decode_decimals(ids, arrow.scale), arrow)
        # From Python's decimals: Arrow (26.0) cannot bring some decimals of 256 bits to a smaller scale. Without zeros
        # at its end, a decimal fits every type that can hold it without being divided.
        values = (None if v is None else _EXACT.normalize(v) for v in self._saved(_DECIMAL, ids).to_pylist())
        return pa.array(values, arrow)

    def _saved(self, kind: int, ids: pa.Array) -> pa.Array:
        """The values of ids in the type in which this kind is saved."""
        values = pa.array(self._table.decode(kind, ids, text=kind == _STRING, is_long=True))
        return values if kind != _DECIMAL else values.cast(pa.binary(32)).view(_KINDS["decimal"])

    # --- uses --------------------------------------------------------------------------------------------------------

    def retain(self, ids: pa.Array, counts: pa.Array | None = None) -> None:
        """Count further uses of ids: one for each time they occur, or as many as ``counts`` says. NULL is skipped."""
        try:
            self._table.retain(ids, counts)
        except OverflowError as error:
            raise _too_often() from error

    def release(self, ids: pa.Array, counts: pa.Array | None = None) -> None:
        """Take back uses that were retained; ids with none left go with the next ``collect``.

        Releasing more than was retained is a mistake of the caller: it raises ValueError and changes nothing.
        """
        self._table.release(ids, counts)

    def count(self, ids: pa.Array, counts: pa.Array) -> None:
        """Retain ids where the count is above 0 and release them where it is below: all of it or nothing."""
        try:
            self._table.count(ids, counts)
        except OverflowError as error:
            raise _too_often() from error

    def collect(self) -> int:
        """Free the values whose count is 0, and return how many; takes time for those that became unused, not all."""
        self.collected += 1
        return self._table.collect()

    def begin(self) -> None:
        """Begin a batch: from now on what is counted can be taken back, and nothing is freed."""
        self._table.begin()

    def commit(self) -> None:
        """Keep what the batch has counted."""
        self._table.commit()

    def roll_back(self) -> None:
        """Have all uses as they were when the batch began."""
        self._table.roll_back()

    def uses(self) -> pa.Array:
        """How often each id is used, to go back to."""
        return pa.array(self._table.uses())

    def reset_uses(self, uses: pa.Array | Sequence[int]) -> None:
        """Go back to what ``uses`` gave, if nothing was collected since; values that are new since have none."""
        self._table.set_uses(pa.array(uses, pa.int64()))

    # --- saving ------------------------------------------------------------------------------------------------------

    def saved(self, name: str) -> Iterator[pa.RecordBatch]:
        """All values of a kind with columns id, value and count, some thousand at a time, by id."""
        kind, schema, first = _NUMBER_BY_NAME[name], saved_schema(name), 0
        while len(ids := pa.array(self._table.ids_of(kind, first, _TOGETHER))):
            counts = pa.array(self._table.uses_of(ids))
            yield pa.RecordBatch.from_arrays([ids, self._saved(kind, ids), counts], schema=schema)
            first = ids[-1].as_py() + 1

    def load(self, name: str, saved: pa.RecordBatch) -> None:
        """Add values of a kind with their old ids, as ``saved`` gave them; ValueError if that cannot be.

        When all are there, ``finish_loading`` is to be called.
        """
        if saved.schema != saved_schema(name) or any(c.null_count for c in saved.columns):
            raise ValueError(f"the dictionary of {name} values is not well formed")
        kind = _NUMBER_BY_NAME[name]
        ids, values, counts = saved.columns
        try:
            self._table.load(kind, values if kind != _DECIMAL else _to_bytes(values), ids, counts)
        except ValueError as error:
            raise ValueError(f"the dictionary of {name} values is not well formed: {error}") from error

    def finish_loading(self) -> None:
        """All that was saved is loaded: new values may come."""
        self._table.finish_loading()

    def to_state(self) -> dict[str, pa.Table]:
        """All of it as Arrow tables, by kind of value."""
        return {name: pa.Table.from_batches(self.saved(name), saved_schema(name)) for name in KINDS}

    @classmethod
    def from_state(cls, state: Mapping[str, pa.Table]) -> Dictionary:
        """The dictionary that ``to_state`` described; ValueError if it cannot be one."""
        made = cls()
        for name, table in state.items():
            nothing = pa.RecordBatch.from_pylist([], table.schema)
            for batch in (nothing, *table.to_batches()):
                made.load(name, batch)
        made.finish_loading()
        return made

    def become(self, other: Dictionary) -> None:
        """Take over all that another dictionary holds, which is not to be used any more."""
        self._table.become(other._table)

    def has_all(self, ids: pa.Array, arrow: pa.DataType) -> bool:
        """True if each of the ids is NULL or stands for a value that a column of the given Arrow type can have."""
        kind = _kind(arrow)
        if not self._table.has_all(kind, ids):
            return False
        return kind != _NESTED or is_well_formed(self._saved(kind, ids), arrow)


def _too_often() -> DataError:
    return DataError(
        "a string or other wide value would be held more often than 64 bits can count; nothing has changed",
        hint="insert fewer copies of the rows that hold it",
    )


def _decimals(words: object, there: object | None, arrow: pa.DataType) -> pa.Array:
    """Decimals from their words, two each, and from a column of 1 where there is one, if some are NULL."""
    data = pa.py_buffer(words)
    length = data.size // 16
    if there is None:
        return pa.Array.from_buffers(arrow, length, [None, data])
    valid = pa.array(there).cast(pa.bool_())
    return pa.Array.from_buffers(arrow, length, [valid.buffers()[1], data])


def _stored(kind: int, array: pa.Array) -> pa.Array:
    """Values as the kernel takes them: bytes."""
    return array if kind < _DECIMAL else _to_bytes(array) if kind == _DECIMAL else nested_bytes(array)


def _to_bytes(decimals: pa.Array) -> pa.Array:
    """Decimals as the 32 bytes of their largest type: the same for equal numbers, whatever their scale."""
    return decimals.cast(_KINDS["decimal"]).view(pa.binary(32)).cast(pa.large_binary())
