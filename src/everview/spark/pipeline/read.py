"""From a YAML file to a ``Pipeline``: every key is checked, and an error says where it stands in the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from everview.errors import EverviewError, OptionError
from everview.query.options import NAMES, NO_OPTIONS, ViewOptions, option_value
from everview.query.schema import Column, Table
from everview.query.types import STRING
from everview.redaction import learn_option, learn_url
from everview.spark.pipeline import model
from everview.spark.pipeline.columns import declared_columns, delta_columns, type_of
from everview.spark.pipeline.document import Document, Entry, did_you_mean
from everview.spark.pipeline.model import ChangeType, Feed, Pipeline, Source, TableSpec, Taken, ViewSpec
from everview.sql.names import CLOSED_HINT

KEYS: Final = (
    *("name", "sources", "tables", "views", "targets", "feed", "checkpoint", "shards", "master", "trigger", "conf"),
    *("bad_rows", "dead_letter", "skip_batch", "memory_limit"),
)
SOURCE_KEYS: Final = ("format", "path", "schema", "options", "streaming")
TABLE_KEYS: Final = ("source", "columns", "key", "not_null", "change_type", "initial", "rate")
FEED_COLUMNS: Final = ("_change_type", "_count", "_commit_version", "_commit_timestamp", "_update", "_corrupt_record")
CHANGE_TYPE: Final = "_change_type"

_NAME = re.compile(r"[A-Za-z_]\w*")
_ADDRESS = re.compile(r"[A-Za-z][\w+.-]*:/")
_INTERVAL = re.compile(r"\d+ (milliseconds?|seconds?|minutes?|hours?|days?)")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?i?B)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def load(path: Path, overrides: Mapping[str, str] | None = None) -> Pipeline:
    """Read and check a pipeline file; ``overrides`` are keys of it that stand on the command line instead."""
    document = Document.read(path)
    return _Reader(path, document).pipeline(overrides or {})


def _check_delta(options: Mapping[str, Entry]) -> None:
    """Refuse our options of a Delta source if they are misspelt or make no sense; others are Delta's, or a store's."""
    from everview.spark.sources.delta import MOST, STARTING

    own = {o.lower(): o for o in (STARTING, MOST)}
    for name, entry in options.items():
        known, text = own.get(name.lower()), entry.text()
        close = get_close_matches(name.lower(), own, 1, cutoff=0.9) if known is None else []
        if close:
            entry.refuse(f"there is no option {name}", f"did you mean {own[close[0]]}?")
        if known == STARTING and text != "latest" and not text.isdecimal():
            entry.refuse(f"{text!r} is no version of a Delta table", "it is a number, or latest")
        if known == MOST and (not text.isdecimal() or int(text) < 1):
            entry.refuse(f"{text!r} is no number of versions", "it is at least 1")


class _Reader:
    def __init__(self, path: Path, document: Document) -> None:
        self.path = path
        self.folder = path.absolute().parent
        self.document = document

    def pipeline(self, overrides: Mapping[str, str]) -> Pipeline:
        keys = self.document.root.mapping(KEYS, required=("sources", "tables", "views", "checkpoint"))
        for name, value in overrides.items():
            keys[name] = _option(name, value)
        sources = {name: self.source(name, e) for name, e in self.named(keys["sources"]).items()}
        tables = {name: self.table(name, e, sources) for name, e in self.named(keys["tables"]).items()}
        views = {name: self.view(name, e, tables) for name, e in self.named(keys["views"]).items()}
        targets = self.targets(keys, views)
        feed = self.feed(keys["feed"]) if "feed" in keys else None
        root = self.document.root
        if feed is None and not targets:
            raise root.error("there are neither targets nor a feed", "say where the views go: targets: {view: …}")
        if feed is not None and targets:
            raise keys["feed"].error(
                "there are targets and a feed, and a query has one sink",
                "leave one of them out, or run a second pipeline with a checkpoint of its own",
                at_key=True,
            )
        bad_rows = keys["bad_rows"].choice(model.POLICIES) if "bad_rows" in keys else model.POLICIES[0]
        dead_letter = self.dead_letter(keys, bad_rows, feed)
        return Pipeline(
            path=self.path,
            name=keys["name"].text() if "name" in keys else self.path.stem,
            sources=sources,
            tables=tables,
            views=views,
            targets=targets,
            feed=feed,
            checkpoint=self.place(keys["checkpoint"].text()),
            shards=keys["shards"].integer(1) if "shards" in keys else None,
            master=keys["master"].text() if "master" in keys else None,
            trigger=_trigger(keys["trigger"]) if "trigger" in keys else None,
            conf=_options(keys.get("conf")),
            bad_rows=bad_rows,
            dead_letter=dead_letter,
            skip_batch=self.skip_batch(keys, bad_rows),
            memory_limit=_size(keys["memory_limit"]) if "memory_limit" in keys else None,
        )

    def named(self, entry: Entry) -> dict[str, Entry]:
        """Things by names of their own, at least one."""
        found = entry.mapping()
        if not found:
            raise entry.error("there is none", at_key=True)
        lower: set[str] = set()
        for name, value in found.items():
            if not _NAME.fullmatch(name):
                raise value.error(f"{name!r} is no name", "use letters, digits and _", at_key=True)
            if name.lower() in lower:
                raise value.error(f"{name} is there twice, but for upper and lower case", at_key=True)
            lower.add(name.lower())
        return found

    def place(self, path: str) -> str:
        """A path of the file: relative ones begin at the folder of the file."""
        learn_url(path)
        return path if _ADDRESS.match(path) else str(self.folder / Path(path).expanduser())

    # --- sources -----------------------------------------------------------------------------------------------------

    def source(self, name: str, entry: Entry) -> Source:
        keys = entry.mapping(SOURCE_KEYS, required=("format",))
        format_ = keys["format"].text()
        known = [*model.FILES, model.DELTA]
        close = did_you_mean(format_, known) if format_ not in known else None
        if not _NAME.fullmatch(format_.replace(".", "_").replace("-", "_")):
            keys["format"].refuse(f"{format_!r} is no format of Spark", close)
        path = self.place(keys["path"].text()) if "path" in keys else None
        if path is None and (format_ in model.FILES or format_ == model.DELTA):
            raise entry.error(f"the key path is missing, and {format_} is read from one", at_key=True)
        streaming = keys["streaming"].boolean() if "streaming" in keys else True
        options = _options(keys.get("options"))
        if format_ == model.DELTA and "options" in keys:
            _check_delta(keys["options"].mapping())
        if "schema" in keys:
            columns = declared_columns(name, keys["schema"])
            if format_ == model.DELTA and streaming and all(c.name.lower() != CHANGE_TYPE for c in columns):
                columns = (*columns, Column(CHANGE_TYPE, STRING))
        elif format_ == model.DELTA and path is not None:
            columns = delta_columns(path, keys["path"], options, changes=streaming)
        else:
            hint = f"format {format_}: {close} " if close else ""
            raise entry.error(
                "the key schema is missing",
                f"{hint}say which columns it has: schema: id BIGINT, name STRING",
                at_key=True,
            )
        return Source(name, format_, path, options, streaming, Table(name, columns), keys.get("path"))

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, name: str, entry: Entry, sources: Mapping[str, Source]) -> TableSpec:
        keys = entry.mapping(TABLE_KEYS, required=("source",))
        source = self._source(keys["source"], sources)
        change = self._change_type(keys["change_type"], source) if "change_type" in keys else None
        if change is None and source.table.position(CHANGE_TYPE) is not None:
            change = ChangeType(CHANGE_TYPE)
        if change is not None and not source.streaming and "change_type" in keys:
            keys["change_type"].refuse(
                f"source {source.name} is read once, so its rows are no changes",
                "leave change_type out, or let the source stream",
            )
        taken = self._columns(keys.get("columns"), source, change)
        required = {e.text().lower() for e in keys["not_null"].texts()} if "not_null" in keys else set()
        for e in keys["not_null"].texts() if "not_null" in keys else ():
            self._own_column(e, taken)
        key = tuple(self._own_column(e, taken) for e in keys["key"].texts()) if "key" in keys else ()
        strict = required | {k.lower() for k in key}
        taken = tuple(
            replace(t, column=replace(t.column, nullable=False)) if t.column.name.lower() in strict else t
            for t in taken
        )
        try:
            table = Table(name, tuple(t.column for t in taken), key)
        except EverviewError as error:
            raise entry.error(error.message, error.hint, at_key=True) from error
        initial = self._initial(keys["initial"], source, sources, taken) if "initial" in keys else None
        rate = keys["rate"].number() if "rate" in keys else None
        return TableSpec(table, source.name, taken, change, initial, rate)

    def _source(self, entry: Entry, sources: Mapping[str, Source]) -> Source:
        name = entry.text()
        if name not in sources:
            entry.refuse(
                f"there is no source {name}",
                " ".join(h for h in (did_you_mean(name, sources), f"the sources are {', '.join(sources)}") if h),
            )
        return sources[name]

    def _columns(self, entry: Entry | None, source: Source, change: ChangeType | None) -> tuple[Taken, ...]:
        if entry is None:
            skipped = {*FEED_COLUMNS, change.column.lower() if change else ""}
            found = [Taken(c, c.name) for c in source.table.columns if c.name.lower() not in skipped]
        elif entry.is_mapping:
            found = [self._taken(name, e, source) for name, e in entry.mapping().items()]
        else:
            found = [self._renamed(e.text(), e, source) for e in entry.entries()]
        names = [t.column.name.lower() for t in found]
        for i, name in enumerate(names):
            if entry is not None and name in names[:i]:
                raise entry.error(f"column {name} is there twice", at_key=True)
            if entry is not None and name in FEED_COLUMNS:
                raise entry.error(f"{name} is a column of feeds, and no table can have it", at_key=True)
        if not found and entry is not None:
            raise entry.error("a table has at least one column", at_key=True)
        return tuple(found)

    def _taken(self, name: str, entry: Entry, source: Source) -> Taken:
        if not entry.is_mapping:
            return self._renamed(name, entry, source)
        keys = entry.mapping(("expression", "type"), required=("expression", "type"))
        return Taken(Column(name, type_of(keys["type"])), keys["expression"].text(), is_expression=True)

    def _renamed(self, name: str, entry: Entry, source: Source) -> Taken:
        column = source.table.columns[self._position(entry, source)]
        return Taken(replace(column, name=name), column.name)

    def _position(self, entry: Entry, source: Source) -> int:
        name = entry.text()
        found = source.table.position(name)
        if found is None:
            known = [c.name for c in source.table.columns]
            entry.refuse(
                f"source {source.name} has no column {name}",
                " ".join(h for h in (did_you_mean(name, known), f"its columns are {', '.join(known)}") if h),
            )
        return found

    def _own_column(self, entry: Entry, taken: tuple[Taken, ...]) -> str:
        name = entry.text()
        known = [t.column.name for t in taken]
        found = next((k for k in known if k.lower() == name.lower()), None)
        if found is None:
            entry.refuse(
                f"the table has no column {name}",
                " ".join(h for h in (did_you_mean(name, known), f"its columns are {', '.join(known)}") if h),
            )
        closed = next(t.column.closed for t in taken if t.column.name == found)
        if closed:
            entry.refuse(closed, CLOSED_HINT)
        return found

    def _change_type(self, entry: Entry, source: Source) -> ChangeType:
        if not entry.is_mapping:
            return ChangeType(source.table.columns[self._position(entry, source)].name)
        keys = entry.mapping(("column", *model.CHANGES), required=("column",))
        column = source.table.columns[self._position(keys["column"], source)].name
        meaning: dict[str, str] = {}
        for change in model.CHANGES:
            for e in keys[change].texts() if change in keys else ():
                value = e.text()
                if value in meaning:
                    e.refuse(f"{value!r} means {meaning[value]} already")
                meaning[value] = change
        return ChangeType(column, meaning)

    def _initial(
        self, entry: Entry, source: Source, sources: Mapping[str, Source], taken: tuple[Taken, ...]
    ) -> str | None:
        first = self._source(entry, sources)
        if first.streaming:
            entry.refuse(f"source {first.name} is streaming", "rows to begin with are read once: streaming: false")
        if not source.streaming:
            entry.refuse(f"the table's own source {source.name} is read once", "name one of the two only")
        for one in taken:
            there = first.table.position(one.origin)
            if (
                not one.is_expression
                and not one.column.closed
                and (there is None or first.table.columns[there].type != one.column.type)
            ):
                entry.refuse(f"source {first.name} has no column {one.origin} {one.column.type}")
        return first.name

    # --- views and where they go -------------------------------------------------------------------------------------

    def view(self, name: str, entry: Entry, tables: Mapping[str, TableSpec]) -> ViewSpec:
        if name.lower() in {t.lower() for t in tables}:
            raise entry.error(f"{name} is a table", "give the view another name", at_key=True)
        if entry.is_mapping:
            keys = entry.mapping(("sql", "file", "options"))
            if ("sql" in keys) == ("file" in keys):
                raise entry.error("a view is its sql or the file with it", at_key=True)
            options = _view_options(keys["options"]) if "options" in keys else NO_OPTIONS
            if "file" in keys:
                path = Path(self.place(keys["file"].text()))
                try:
                    return ViewSpec(name, path.read_text(encoding="utf-8"), keys["file"], options)
                except (OSError, UnicodeDecodeError) as error:
                    keys["file"].refuse(f"cannot be read: {error}")
            return ViewSpec(name, keys["sql"].raw(), keys["sql"], options)
        return ViewSpec(name, entry.raw(), entry)

    def targets(self, keys: Mapping[str, Entry], views: Mapping[str, ViewSpec]) -> dict[str, str]:
        if "targets" not in keys:
            return {}
        found: dict[str, str] = {}
        for name, entry in keys["targets"].mapping().items():
            if name not in views:
                raise entry.error(
                    f"there is no view {name}",
                    " ".join(h for h in (did_you_mean(name, views), f"the views are {', '.join(views)}") if h),
                    at_key=True,
                )
            target = self.target(entry)
            if target in found.values():
                entry.refuse("another view has this target already", "each view needs one of its own")
            found[name] = target
        return found

    def target(self, entry: Entry) -> str:
        """A target's text with an absolute path, if it names one that there is."""
        from everview.spark.targets.named import absolute, named

        text = entry.text()
        try:
            text = absolute(text, self.folder)
            named(text)
        except EverviewError as error:
            raise entry.error(error.message, error.hint) from error
        return text

    def skip_batch(self, keys: Mapping[str, Entry], bad_rows: str) -> int | None:
        if "skip_batch" not in keys:
            return None
        if bad_rows != "quarantine":
            raise keys["skip_batch"].error(
                "the rows of a batch that is skipped are put aside, and there is no place for them",
                "add bad_rows: quarantine",
                at_key=True,
            )
        return keys["skip_batch"].integer(0)

    def dead_letter(self, keys: Mapping[str, Entry], bad_rows: str, feed: Feed | None) -> str | None:
        if "dead_letter" in keys:
            if bad_rows != "quarantine":
                raise keys["dead_letter"].error(
                    "no row is put aside, so nothing would go there", "add bad_rows: quarantine", at_key=True
                )
            if feed is not None:
                raise keys["dead_letter"].error(
                    "a feed has the rows that were put aside in it", "leave dead_letter out", at_key=True
                )
            return self.target(keys["dead_letter"])
        if bad_rows == "quarantine" and feed is None:
            raise keys["bad_rows"].error(
                "rows are put aside, and nothing says where", "add dead_letter: parquet:/path", at_key=True
            )
        return None

    def feed(self, entry: Entry) -> Feed:
        keys = entry.mapping(("format", "path", "options"), required=("format",))
        path = self.place(keys["path"].text()) if "path" in keys else None
        return Feed(keys["format"].text(), path, _options(keys.get("options")))


def _view_options(entry: Entry) -> ViewOptions:
    """The options of a view; one that there is not is refused at its name, others at their values."""
    found = NO_OPTIONS
    for name, value in entry.mapping(NAMES).items():
        try:
            found = found.joined(ViewOptions.of({name: option_value(value.expanded())}))
        except OptionError as error:
            raise value.error(error.message, error.hint) from error
    return found


def _options(entry: Entry | None) -> dict[str, str]:
    """Options by name; those that are secret are not shown from then on."""
    found = {name: value.text() for name, value in entry.mapping().items()} if entry is not None else {}
    for name, value in found.items():
        learn_option(name, value)
    return found


def _option(name: str, value: str) -> Entry:
    """What the command line says instead of the file."""
    entry = Document.of(f"{name}: {value!r}", "the command line").root.mapping()[name]
    return replace(entry, name=f"--{name.replace('_', '-')}")


def _trigger(entry: Entry) -> str:
    if entry.is_mapping:
        entry = entry.mapping(("interval",), required=("interval",))["interval"]
    text = entry.text()
    words = (model.AVAILABLE_NOW, model.ONCE)
    if text not in words and not _INTERVAL.fullmatch(text):
        hint = did_you_mean(text, words) or "for example: trigger: 5 seconds"
        entry.refuse(f"{text!r} is neither {' nor '.join(words)} nor an interval", hint)
    return text


def _size(entry: Entry) -> int:
    text = entry.text()
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        entry.refuse(f"{text!r} is no number of bytes", "for example: memory_limit: 2 GB")
    unit = (match[2] or "").lower()
    size = int(float(match[1]) * (1024 if "i" in unit else 1000) ** _POWERS[unit.removesuffix("b").removesuffix("i")])
    if size < 1:
        entry.refuse("it is at least one byte")
    return size
