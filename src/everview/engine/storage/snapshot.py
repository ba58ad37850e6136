"""Saving a database to one file, and loading it again.

The file holds what the user wrote (definitions, in order), the base tables' rows, and as a shortcut the state of every
view. Loading runs the definitions again and then puts the views' state back, if they are kept by the very same programs
now; a file of another version of Everview, or of DuckDB, which evaluates expressions, has its views rebuilt from the
rows. Feeds are not saved. Checksums tell damage and not forgery: who does not trust a file has its views filled from
the rows, and compared with what the file says they are (``verify``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.companions import forget_companions
from everview.engine.history import History
from everview.engine.loading import loaded
from everview.engine.operators.build import blocks_of, grouped_blocks
from everview.engine.operators.counts import Fold
from everview.engine.operators.join import Join
from everview.engine.progress import Progress
from everview.engine.row_history import RowHistory
from everview.engine.storage.check_saved import (
    FROM_SNAPSHOT,
    check_failing,
    check_of_parked,
    check_of_state,
    check_parked,
    check_rows,
    check_uses,
    count_of,
    parked_of,
)
from everview.engine.storage.container import Path, Reader, SectionWriter, Writer, reading, replacing
from everview.engine.storage.unit_state import read_unit, write_unit
from everview.engine.transaction import Transaction, judge
from everview.engine.update_kinds import queue_schema
from everview.engine.values.dictionary import KINDS, NESTED, Dictionary, saved_schema
from everview.engine.values.nested import as_keys
from everview.engine.values.rows import ZERO, WordRows, ones, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide
from everview.engine.view_runtime import ViewRuntime
from everview.errors import EverviewError, SnapshotError
from everview.kernel import SNAPSHOTS
from everview.kernel.encode import encode
from everview.query.catalogue import Queries
from everview.query.options import ViewOptions
from everview.query.schema import Updates
from everview.query.terms import Var
from everview.query.types import DataType
from everview.strategies.strategy import Task

if TYPE_CHECKING:
    from everview.engine.database import Database

REBUILT: Final = "rebuilt"
"""How a loaded view got its state, if not from the file (FROM_SNAPSHOT)."""

_COPIES: Final = "copies"


def _makers() -> dict[str, str]:
    """What the state of views depends on beside the programs: our version, that of who evaluates expressions, and how
    the kernel writes it."""
    found = {"snapshots": str(SNAPSHOTS)}
    for package in ("everview", "duckdb"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # run from a folder, without being installed
            found[package] = "unknown"
    return found


# --- saving ----------------------------------------------------------------------------------------------------------


def save(database: Database, path: Path) -> None:
    """Write a database to a file, in the place of one that may be there."""
    tables, views = database._tables, database._views
    with replacing(path) as file:
        writer = Writer(file)
        for kind in KINDS:
            _write_arrow(writer.section(f"dictionary/{kind}"), saved_schema(kind), database._dictionary.saved(kind))
        for i, table in enumerate(tables.values()):
            _write_arrow(writer.section(f"table/{i}"), _word_schema(table), _word_batches(table))
            if table.schema.updates is Updates.FIFO:
                queue = database._update_kinds.saved(table)
                _write_arrow(writer.section(f"table/{i}/queue"), queue_schema(table), queue)
        for i, view in enumerate(views.values()):
            write_unit(writer.section(f"view/{i}"), view.unit)
            for j, counts in _parked(view):
                write_unit(writer.section(f"view/{i}/parked/{j}"), counts.part.whole)
            history = database.history(view.view.name)
            if isinstance(history, RowHistory):
                for j, (schema, batches) in enumerate(history.saved()):
                    _write_arrow(writer.section(f"view/{i}/rows/{j}"), schema, batches)
            elif history is not None:
                _write_arrow(writer.section(f"view/{i}/history"), history.schema, history.saved())
        writer.finish(
            {
                "made_by": _makers(),
                "version": database.version,
                "clock": database._clock.now,
                "definitions": _definitions(database),
                "tables": [
                    {"name": n, "updates": t.updates, "filled": database._update_kinds.is_filled(t)}
                    for n, t in tables.items()
                ],
                "views": [_described(n, v, database.history(n)) for n, v in views.items()],
            }
        )


def _definitions(database: Database) -> list[dict[str, Any]]:
    """The texts that define all tables, together, as they may refer to each other, and then each view.

    A view's options stand in its SQL; rules and formulas have no words for them.
    """
    tables = ";\n".join(database._texts[name] for name in database._tables)
    found: list[dict[str, Any]] = [{"language": "sql", "text": tables}] if tables else []
    for definition in (database._definitions[name] for name in database._views):
        entry: dict[str, Any] = {"language": definition.language, "text": definition.text}
        if definition.language != "sql" and definition.view.options:
            entry["options"] = definition.view.options.to_data()
        found.append(entry)
    return found


def _described(name: str, view: ViewRuntime, history: History | RowHistory | None) -> dict[str, Any]:
    return {
        **({} if history is None else {"history": history.first}),
        **({"rows": repr(history.shape)} if isinstance(history, RowHistory) else {}),
        "name": name,
        "updates": view.updates,
        "deltas": view.deltas,
        "told": view.updates_with_deltas,
        "program": _fingerprint(view),
        "awake": [core.emits_deltas for core in view.cores],
        "parked": [j for j, _ in _parked(view)],
    }


def _parked(view: ViewRuntime) -> list[tuple[int, Fold]]:
    """What an expression of the view fails on now, as an aggregate is over no input."""
    return [(j, p.counts) for j, p in enumerate(view.parked) if p.counts is not None and p.is_left]


def _fingerprint(view: ViewRuntime) -> str:
    """What tells its program from others."""
    return blake2b(repr(encode(view.unit.program)).encode(), digest_size=16).hexdigest()


def _word_schema(table: BaseTable) -> pa.Schema:
    return pa.schema([*((f"w{i}", pa.int64()) for i in range(len(table.types))), (_COPIES, pa.int64())])


def _word_batches(table: BaseTable) -> Iterator[pa.RecordBatch]:
    schema = _word_schema(table)
    for rows in table.rows():
        yield pa.RecordBatch.from_arrays([*rows.columns, rows.weight], schema=schema)


def _write_arrow(section: SectionWriter, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pa.ipc.new_stream(section, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)


# --- loading ---------------------------------------------------------------------------------------------------------


def load(make: Callable[[], Database], path: Path, *, verify: bool = False) -> Database:
    """The database that a file holds, in one that ``make`` gives, new and empty.

    With ``verify``, the views are filled from the rows whatever state is saved, and the file is refused if its views
    would have shown anything else.
    """
    with reading(path) as file, Progress("loading", file.size, "bytes") as progress:
        manifest = file.manifest
        database = make()
        _replay(database, manifest, file)
        if _fits(database, manifest):
            _restore(database, file, progress)
            if verify:
                shown, database = database, make()
                _rebuild(database, file, progress)
                _check_same(shown, database, file)
        else:
            database = make()
            _rebuild(database, file, progress)
        database.version = count_of(manifest, "version", file)
        for table, entry in zip(database._tables.values(), manifest["tables"], strict=True):
            table.updates = count_of(entry, "updates", file)
        for view, entry in zip(database._views.values(), manifest["views"], strict=True):
            view.updates, view.deltas = count_of(entry, "updates", file), count_of(entry, "deltas", file)
            older = {"told": view.updates if view.deltas else 0}
            view.updates_with_deltas = count_of(older | entry, "told", file)
        _restore_histories(database, file)
        _restore_update_kinds(database, file)
        database.keep_moments()
    return database


def _restore_update_kinds(database: Database, file: Reader) -> None:
    """Know again which static tables had their batch, and the order in which rows of FIFO tables came."""
    entries = list(zip(database._tables.values(), file.manifest["tables"], strict=True))
    queues = []
    for i, (table, _) in enumerate(entries):
        if table.schema.updates is Updates.FIFO:
            batches = list(_batches(file, f"table/{i}/queue"))
            if any(batch.schema != queue_schema(table) for batch in batches):
                raise file.damaged(f"section table/{i}/queue does not hold what it should")
            queues.append((table, batches))
    database._update_kinds.restore([t for t, entry in entries if entry.get("filled")], queues)


def _restore_histories(database: Database, file: Reader) -> None:
    """Keep the changes of the last batches that were kept; the database has its version."""
    for i, (name, entry) in enumerate(zip(database._views, file.manifest["views"], strict=True)):
        history = database.history(name)
        if history is None or isinstance(history, RowHistory):
            continue
        batches = []
        if "history" in entry and "rows" not in entry:
            for batch in _batches(file, f"view/{i}/history"):
                if batch.schema != history.schema:
                    raise file.damaged(f"section view/{i}/history does not hold what it should")
                batches += [batch] if batch.num_rows else []
        is_saved = "history" in entry and "rows" not in entry
        history.restore(count_of(entry, "history", file) if is_saved else database.version, batches)


def _restore_row_histories(database: Database, file: Reader, *, retains: bool) -> None:
    """The same of views that keep which stored rows have changed: these, as words, use strings as views do."""
    for i, (view, entry) in enumerate(zip(database._views.values(), file.manifest["views"], strict=True)):
        history = view.history
        if history is None:
            continue
        first, saved = count_of(file.manifest, "version", file), []
        if "history" in entry and entry.get("rows") == repr(history.shape):
            first = count_of(entry, "history", file)
            for j, schema in enumerate(history.schemas):
                batches = list(_batches(file, f"view/{i}/rows/{j}"))
                if any(batch.schema != schema or any(c.null_count for c in batch.columns) for batch in batches):
                    raise file.damaged(f"section view/{i}/rows/{j} does not hold what it should")
                saved.append([batch for batch in batches if batch.num_rows])
        try:
            history.restore(first, saved, retains=retains)
        except (IndexError, ValueError) as error:
            raise file.damaged(f"view/{i}/rows use a value that the dictionary does not have") from error


def _replay(database: Database, manifest: dict[str, Any], file: Reader) -> None:
    """Run the definitions again, which must give the tables and views that were saved.

    In those that an older version has saved, a query by itself is a view.
    """
    run = partial(database._script, queries=Queries.VIEWS)
    for number, definition in enumerate(manifest["definitions"]):
        try:
            options = ViewOptions.from_data(definition.get("options", {}))
            rules = partial(database._rules, options=options)
            formula = partial(database._formula, options=options)
            readers: dict[str, Callable[[str], object]] = {"sql": run, "rules": rules, "formula": formula}
            readers[definition["language"]](definition["text"])
        except EverviewError as error:
            raise SnapshotError(
                f"definition {number + 1} of the saved database is refused: {error.message}",
                hint="load it with the version of Everview that saved it",
            ) from error
    database._clock.now = manifest.get("clock")
    for runtime in database._views.values():  # They would know nothing of what is restored.
        forget_companions(database, runtime)
    for what, names in (("tables", database.tables), ("views", database.views)):
        if [entry["name"] for entry in manifest[what]] != list(names):
            raise file.damaged(f"its definitions do not give the {what} that it lists")


def _fits(database: Database, manifest: dict[str, Any]) -> bool:
    """True if every view is kept by the same program as when it was saved; older files name no single one.

    All or none: the dictionary counts the uses of all views together, and one cannot be taken out.
    """
    views = zip(database._views.values(), manifest["views"], strict=True)
    return bool(manifest["made_by"] == _makers() and all(_fingerprint(v) == entry.get("program") for v, entry in views))


def _restore(database: Database, file: Reader, progress: Progress) -> None:
    """Put everything back as it was."""
    database._dictionary.become(_values(file, progress))
    for i, (name, table) in enumerate(database._tables.items()):
        for rows in _word_rows(file, i, table, progress):
            table.load(database._changes(name, rows))
    for i, (view, entry) in enumerate(zip(database._views.values(), file.manifest["views"], strict=True)):
        name = f"view/{i}"
        read_unit(view.unit, file.section(name), check_of_state(view, file, name))
        progress.add(file.length(name))
        saved = parked_of(entry, len(view.parked), file)
        for j, parked in enumerate(view.parked):
            parked.counts = None
            if j in saved:
                name, counts = f"view/{i}/parked/{j}", parked.start_anew()
                read_unit(counts.part.whole, file.section(name), check_of_parked(counts, file, name))
                check_parked(counts, file, name)
        for core, emits_deltas in zip(view.cores, entry["awake"], strict=True):
            core.emits_deltas = bool(emits_deltas)
        for _, source in view.stages:
            for grouped in grouped_blocks(source):
                for valued in grouped.valued:
                    valued.rebuild()
        _refill(database, view)
        check_failing(view, file)
        view.restored = FROM_SNAPSHOT
    _restore_row_histories(database, file, retains=False)
    check_uses(database, file)
    database._dictionary.collect()  # what was only computed to fill accumulators


def _refill(database: Database, view: ViewRuntime) -> None:
    """Have a formula's census, of which nothing is saved, made of the rows of the tables that it reads.

    What keeps its rows beside it, as an index does, was saved, and is told of none of them.
    """
    if not view.formulas:
        return
    telling = [formula for formula in view.formulas if formula.emits_deltas]
    for formula in telling:
        formula.emit_deltas(False)
    with loaded([view]):
        for name in sorted(view.reads):
            for rows in database._rows_of(name):
                for _ in view.process(database._changes(name, rows)):
                    pass
    view.judge(may_suspend=True)
    view.conclude()
    for formula in telling:
        formula.emit_deltas(True)


def _rebuild(database: Database, file: Reader, progress: Progress) -> None:
    """Fill the tables, and from them the views.

    The saved values keep their ids, which the saved rows hold; until that is done each is counted as used once.
    """
    dictionary = database._dictionary
    dictionary.become(_values(file, progress, used_once=True))
    _replay(database, file.manifest, file)
    for i, (name, table) in enumerate(database._tables.items()):
        for rows in _word_rows(file, i, table, progress):
            changes = database._changes(name, rows)
            table.apply(changes)
            Transaction(database).propagate(changes)
    judge(database)
    _restore_row_histories(database, file, retains=True)
    for kind in _kinds(file):
        for values in _batches(file, f"dictionary/{kind}"):
            dictionary.release(values["id"])
    dictionary.collect()
    for view in database._views.values():
        view.restored = REBUILT


def _check_same(shown: Database, filled: Database, file: Reader) -> None:
    """Raise if a view with the saved state shows other rows than one that was filled from the rows of the tables."""
    for name, view in shown._views.items():
        other = filled._views[name]
        is_same = view.why_no_result() == other.why_no_result()
        if not is_same or (view.suspension is None and _content(view) != _content(other)):
            raise file.damaged(f"the saved state of view {name} does not follow from the rows of the tables")


def _content(view: ViewRuntime) -> list[Any]:
    """What a view shows, or, of rows that are only tested, what they are tested by."""
    if view.plan.is_listed:
        return [_listed(view.rows(), view.types, view.dictionary)]
    return [
        _listed(side.rows(), view.types, view.dictionary)
        if all(Task.LIST in core.plan.maintenance.tasks for core in side.cores)
        else [_asked(core) for core in side.cores]
        for side in blocks_of(view.result)
    ]


def _asked(core: Join) -> list[Any]:
    """The rows of a core's tables, in order, with values where words are numbers in the dictionary."""
    found = []
    for table in core.part.program.tables:
        keys, *others = zip(*core.part.dump(table.name), strict=True) if core.part.size(table.name) else ((), (), ())
        columns = [pa.array(words, pa.int64()) for words in zip(*keys, strict=True)]
        types = [core.types.get(Var(name)) for name in table.key]
        values = [
            from_words(c, t, core.dictionary).to_pylist() if t is not None and is_wide(t) else c.to_pylist()
            for c, t in zip(columns, types, strict=False)
        ]
        found.append(sorted(zip(*values, *others, strict=True), key=repr))
    return found


def _listed(pieces: Iterable[WordRows], of: Sequence[DataType], dictionary: Dictionary) -> pa.Table:
    """Rows in order, each with its copies: words, but values where a word is a number in the dictionary.

    Strings that a view computes when it is read have another number in every database.
    """
    names = [f"w{i}" for i in range(len(of))]
    arrows = (arrow_type(t) if is_wide(t) else pa.int64() for t in of)
    types = [pa.large_binary() if pa.types.is_nested(t) else t for t in arrows]
    schema = pa.schema([*zip(names, types, strict=True), (_COPIES, pa.int64())])

    def shown(rows: WordRows) -> pa.Table:
        columns = zip(rows.columns, of, strict=True)
        values = [from_words(c, t, dictionary) if is_wide(t) else c for c, t in columns]
        return pa.table([*as_keys(values), rows.weight], schema=schema)

    whole = pa.concat_tables([schema.empty_table(), *map(shown, pieces)])
    copies = f"{_COPIES}_sum"
    added = whole.group_by(names).aggregate([(_COPIES, "sum")])
    ordered = added.filter(pc.not_equal(added[copies], ZERO)).sort_by([(n, "ascending") for n in (*names, copies)])
    return ordered.combine_chunks()


def _values(file: Reader, progress: Progress, *, used_once: bool = False) -> Dictionary:
    """The saved dictionary; with ``used_once`` each value is counted as used once, whatever the file says."""
    made = Dictionary()
    for kind in _kinds(file):
        name = f"dictionary/{kind}"
        for values in _batches(file, name):
            made.load(kind, values.set_column(2, "count", ones(len(values))) if used_once else values)
        progress.add(file.length(name))
    made.finish_loading()
    return made


def _kinds(file: Reader) -> list[str]:
    """The kinds of values that a file has: one that was saved before columns could be nested has no such."""
    return [kind for kind in KINDS if kind != NESTED or file.has(f"dictionary/{kind}")]


def _word_rows(file: Reader, number: int, table: BaseTable, progress: Progress) -> Iterator[WordRows]:
    """A table's saved rows, checked."""
    name = f"table/{number}"
    schema = _word_schema(table)
    for batch in _batches(file, name):
        if batch.schema != schema or any(c.null_count for c in batch.columns):
            raise file.damaged(f"section {name} does not hold what it should")
        *words, copies = batch.columns
        check_rows(words, copies, table, file, name)
        yield WordRows(tuple(words), copies, zeros(len(copies)))
    progress.add(file.length(name))


def _batches(file: Reader, name: str) -> Iterator[pa.RecordBatch]:
    """What a section holds, batch by batch, the first of them without rows: what it would hold is known by it."""
    with pa.ipc.open_stream(file.section(name)) as stream:
        yield pa.RecordBatch.from_pylist([], stream.schema)
        for batch in stream:
            batch.validate(full=True)
            yield batch
