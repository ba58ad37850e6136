"""Whether what a saved file says can be true: values that their columns can have, uses that are there, plain numbers.

A file that was made up, or edited, may have right checksums. What is let in here is met by reads and updates much
later, where nobody expects it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import MOST_COPIES, BaseTable
from everview.engine.input.read import read_rows, table_schema
from everview.engine.operators.aggregates.in_tree import wide_words
from everview.engine.operators.build import grouped_blocks
from everview.engine.operators.counts import Fold
from everview.engine.storage.container import Reader
from everview.engine.storage.unit_state import Check
from everview.engine.values.dictionary import Dictionary
from everview.engine.values.rows import WordRows, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, to_words
from everview.engine.view_runtime import ViewRuntime
from everview.errors import DataError, EverviewError, SnapshotError
from everview.kernel.program import Table
from everview.query.types import DataType

if TYPE_CHECKING:
    from everview.engine.database import Database

MOST = 2**63 - 1
FROM_SNAPSHOT = "snapshot"
"""How a loaded view got its state, if not from the rows (``View.stats()["restored"]``)."""


def blame_the_file(error: BaseException, views: Iterable[ViewRuntime]) -> None:
    """Raise as ours what goes wrong inside views whose state came from a file, which only tables could contradict.

    Whether a view's state is what follows from its tables' rows is not looked at on load: that is to fill it anew.
    """
    names = [view.view.name for view in views if view.restored == FROM_SNAPSHOT]
    if isinstance(error, EverviewError):  # says itself what is wrong: of a row too many copies to tell, for one
        return
    if names and isinstance(error, IndexError | ArithmeticError | ValueError):
        raise SnapshotError(
            f"the state of {', '.join(names)} is not what follows from the tables, as the file that it was loaded from "
            f"is not as it was saved: {type(error).__name__}: {error}",
            hint="load another copy of the file; if there is none, fill a new database from db.table(…) of this one",
        ) from error


@contextmanager
def blaming_the_file(view: ViewRuntime) -> Iterator[None]:
    """The same for a read."""
    try:
        yield
    except Exception as error:
        blame_the_file(error, [view])
        raise


def count_of(entry: Mapping[str, Any], name: str, file: Reader) -> int:
    """A count that the manifest gives."""
    value = entry[name]
    if type(value) is not int or not 0 <= value <= MOST:
        raise file.damaged(f"its {name} is {value!r}, which is no count")
    return value


def check_rows(words: Sequence[pa.Array], copies: pa.Array, table: BaseTable, file: Reader, section: str) -> None:
    """Refuse rows that could not have been inserted into the table."""
    if pc.any(pc.less(copies, 1)).as_py():
        raise file.damaged(f"section {section} has a row without copies")
    if table.copies + WordRows((), copies, copies).copies > MOST_COPIES:
        raise file.damaged(f"section {section} has more copies of rows than 64 bits can count")
    for column, type_ in zip(words, table.types, strict=True):
        if not _are_values(column, type_, table.dictionary):
            raise file.damaged(f"section {section} has a value that the dictionary does not have, or no {type_} can be")
    values = [from_words(c, t, table.dictionary) for c, t in zip(words, table.types, strict=True)]
    try:
        read_rows(table.schema, pa.Table.from_arrays(values, names=table_schema(table.schema).names), what="load")
    except DataError as error:
        raise file.damaged(f"section {section} has a row that the table cannot have: {error.message}") from error


def _are_values(words: pa.Array, type_: DataType, dictionary: Dictionary) -> bool:
    """True if each word stands for a value of the type, and is the one that does."""
    if type_.is_open:
        return True
    try:
        if is_wide(type_):
            return dictionary.has_all(words, arrow_type(type_))
        values = from_words(words, type_, dictionary)
        values.validate(full=True)
        return bool(to_words(values, type_, dictionary).equals(words))
    except (pa.ArrowException, ValueError, ArithmeticError):
        return False


def check_of_state(view: ViewRuntime, file: Reader, section: str) -> Check:
    """What refuses a view's saved rows with words that stand for no value of their column.

    Integers of all widths are one kind of word inside a join, and so are not looked at.
    """

    types = _types(view)

    def check(table: Table, columns: list[pa.Array]) -> None:
        known = types.get(table.name, {})
        for name, column in zip(table.key, columns, strict=False):
            type_ = known.get(name)
            if type_ is None or type_.is_integer or _are_values(column, type_, view.dictionary):
                continue
            raise file.damaged(f"section {section} has a value that the dictionary does not have, or no {type_} can be")

    return check


def _types(view: ViewRuntime) -> Mapping[str, Mapping[str, DataType]]:
    """By tables of its unit, the types of key columns: of a core's variables, or of what else the view keeps."""
    known = [(core.part, {**core.types, **core.value_types}) for core in view.cores]
    cores = [(part, {v.name: type_ for v, type_ in types.items()}) for part, types in known]
    parts = [*cores, *((kept.part, kept.word_types) for kept in view.folds)]
    return {part.prefix + table.name: types for part, types in parts for table in part.program.tables}


def parked_of(entry: Mapping[str, Any], count: int, file: Reader) -> frozenset[int]:
    """Where a view has parked something, by the manifest; older files have no parked rows."""
    found = entry.get("parked", [])
    if type(found) is not list or any(type(j) is not int or not 0 <= j < count for j in found):
        raise file.damaged(f"what it lists as parked, {found!r}, are no places of {entry['name']}")
    return frozenset(found)


def check_of_parked(counts: Fold, file: Reader, section: str) -> Check:
    """What refuses parked rows that no value is for."""

    def check(table: Table, columns: list[pa.Array]) -> None:
        types = counts.word_types
        if not all(_are_values(c, types[n], counts.dictionary) for n, c in zip(table.key, columns, strict=False)):
            raise file.damaged(
                f"section {section} has a value that the dictionary does not have, or no column can have"
            )

    return check


def check_parked(counts: Fold, file: Reader, section: str) -> None:
    """Refuse parked rows that are not there."""
    copies = [count for _, (count,) in counts.rows()]
    most = MOST if counts.width else 1
    if not copies or any(pc.any(pc.or_(pc.less(c, 1), pc.greater(c, most))).as_py() for c in copies):
        raise file.damaged(f"section {section} has a row with another number of copies than it can have, or none")


def check_failing(view: ViewRuntime, file: Reader) -> None:
    """Refuse a view with a row that fails, other than one over no input; and that one, if it is not said to fail."""
    try:
        view.judge()
    except DataError as error:
        raise file.damaged(f"it has what no batch may leave: {error.message}") from error
    for _, source in view.stages:
        for block in grouped_blocks(source):
            if block.is_over_nothing and block.failing.is_left != block.fails_over_nothing:
                raise file.damaged(f"it does not say of {view.view.name} whether its row over no input fails")


def check_uses(database: Database, file: Reader) -> None:
    """Refuse a dictionary that counts fewer uses of a value than there are: it would be freed while it is needed.

    For that it counts them itself, and then goes back to what the file says.
    """
    dictionary = database._dictionary
    saved = dictionary.uses()
    dictionary.reset_uses(zeros(len(saved)))
    for words, weights in _uses(database):
        try:
            dictionary.retain(words, weights)
        except (DataError, IndexError, ValueError) as error:
            raise file.damaged("a view uses a value that the dictionary does not have") from error
    if pc.any(pc.less(saved, dictionary.uses())).as_py():
        raise file.damaged("the dictionary counts fewer uses of a value than there are")
    dictionary.reset_uses(saved)


def _uses(database: Database) -> Iterator[tuple[pa.Array, pa.Array | None]]:
    """The wide words that tables and views keep, and how often."""
    for table in database._tables.values():
        yield from _wide(table.rows(), table.types)
    for view in database._views.values():
        for kept in (*view.folds, *(p.counts for p in view.parked if p.counts is not None)):
            yield from ((words, None) for words in kept.wide_words())
        for core in view.cores:
            yield from wide_words(core)
        if view.history is not None:
            yield from ((words, None) for words in view.history.wide_words())


def _wide(chunks: Iterator[Any], types: Sequence[DataType]) -> Iterator[tuple[pa.Array, pa.Array]]:
    wide = [i for i, type_ in enumerate(types) if is_wide(type_)]
    for rows in chunks if wide else ():
        yield from ((rows.columns[i], rows.weight) for i in wide)
