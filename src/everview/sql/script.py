"""Scripts: statements that change a catalogue one after the other, and queries that are answered or become views."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError, QueryError, UnsupportedError, check_text
from everview.query.catalogue import (
    AlterView,
    AnswerByView,
    Catalogue,
    Change,
    Command,
    CreateTable,
    Definition,
    Drop,
    Queries,
    relations_read,
)
from everview.query.options import ViewOptions
from everview.query.schema import Schema
from everview.query.view import View
from everview.sql.answer import in_full, read_answer
from everview.sql.ddl import References, create_table, resolve_references
from everview.sql.formula_binding import parse_formula
from everview.sql.options import create_view_text, read_changed_options, with_options
from everview.sql.parse import guarded, parse_one, parse_statements
from everview.sql.rules import parse_rules, texts_by_head
from everview.sql.sql_text import SqlText
from everview.sql.statements import Further, created, full_name, is_create, no_options, read_view, unexpected

_OF_FORMULAS: Final = ("degree", "domain", "component")
"""The options that say what a formula is, and not only how it is maintained."""


def parse_script(
    text: str,
    schema: Schema = Schema(),  # noqa: B008 - immutable
    *,
    options: Further = no_options,
) -> tuple[Schema, tuple[View, ...]]:
    """Read tables and views in order; later queries may read earlier views. Bare queries are query1, query2, …

    ``options`` tells further options of a view of a name.
    """
    catalogue = Catalogue(schema)
    source, statements = parse_statements(text)
    for statement in statements:
        if isinstance(statement, exp.Drop | exp.Alter):
            raise unexpected(source, statement, "")
    guarded(source, lambda: _Reader(source, catalogue, Queries.VIEWS, options).commands(statements))
    return Schema(tuple(catalogue.tables.values())), tuple(d.view for d in catalogue.views.values())


def read_commands(text: str, catalogue: Catalogue, queries: Queries) -> list[Command]:
    """What the statements of a script ask for, each after those before it; the catalogue is changed accordingly."""
    return _read(*parse_statements(text), catalogue, queries)


def read_query_into(text: str, catalogue: Catalogue, name: str, options: ViewOptions) -> Change:
    """A view of this name from a query alone; its places are those of the text that was given."""
    check_text(name, "a view's name")
    if not all(name.split(".")):
        raise QueryError(f"{name!r} is no name for a view", hint="give it a name that SQL can say")
    source, statement = parse_one(text, "query")
    if isinstance(statement, exp.Create):
        place = source.token(source.first_token(statement))
        raise source.syntax("a query is expected, and this is CREATE", place, hint="write the SELECT alone")
    catalogue.check_free("view", name)
    reader = _Reader(source, catalogue, Queries.VIEWS, lambda _: options)
    (written,) = source.statement_texts()
    found = guarded(source, lambda: reader.definition(statement, create_view_text(name, options, written), name))
    return catalogue.create_view(found)


def read_by_view(text: str, catalogue: Catalogue) -> AnswerByView:
    """How a view would answer a query."""
    source, statement = parse_one(text, "query")
    reader = _Reader(source, catalogue, Queries.VIEWS)
    return guarded(source, lambda: reader.by_view(statement, text))


def read_rules_into(text: str, catalogue: Catalogue, options: ViewOptions) -> list[Change]:
    """The views that rules define, each with the text of its own rules, and all with these options."""
    texts = texts_by_head(text)
    for head in texts:
        if catalogue.kind(head) == "view":
            catalogue.check_free("view", head)
    views = parse_rules(text, catalogue.schema())
    views = tuple(replace(v, options=options) for v in views)
    return [catalogue.create_view(Definition(v, "rules", texts[v.name.lower()], relations_read(v))) for v in views]


def read_formula_into(text: str, catalogue: Catalogue, options: ViewOptions) -> Change:
    """The view that a formula defines, over tables."""
    view = parse_formula(text, Schema(tuple(catalogue.tables.values())), options, views=catalogue.views.keys())
    return catalogue.create_view(Definition(view, "formula", text, relations_read(view)))


def _widened(catalogue: Catalogue) -> Iterator[Change]:
    """Formulas whose domain are the elements of all tables, with those of tables that have just been created."""
    tables = Schema(tuple(catalogue.tables.values()))
    for definition in tuple(catalogue.views.values()):
        if definition.language == "formula":
            view = parse_formula(definition.text, tables, definition.view.options)
            if relations_read(view) != definition.reads:
                yield catalogue.alter_view(replace(definition, view=view, reads=relations_read(view)))


def read_again(definition: Definition, schema: Schema) -> Definition:
    """A view's text read once more, over tables and views as they are now."""
    if definition.language == "formula":
        tables = Schema(tuple(t for t in schema if t.name.lower() in definition.reads))
        return replace(definition, view=parse_formula(definition.text, tables, definition.view.options))
    if definition.language == "rules":
        (view,) = parse_rules(definition.text, schema)
        return replace(definition, view=replace(view, options=definition.view.options))
    source, (statement,) = parse_statements(definition.text)
    return replace(definition, view=guarded(source, lambda: read_view(source, statement, schema, definition.name)))


def _check_same_columns(old: View, new: View) -> None:
    """Refuse to have a view become a formula, or none, if others would see columns of other types."""
    if [(c.name, c.type) for c in old.columns] != [(c.name, c.type) for c in new.columns]:
        raise QueryError(
            f"{old.name} would have columns of other types as a formula, whose elements are all of one type",
            hint="write CREATE OR REPLACE MATERIALIZED VIEW … OPTIONS (degree = …) AS …",
        )


def _read(source: SqlText, statements: list[exp.Expr], catalogue: Catalogue, queries: Queries) -> list[Command]:
    return guarded(source, lambda: _Reader(source, catalogue, queries).commands(statements))


class _Reader:
    """The reading of one script."""

    def __init__(self, source: SqlText, catalogue: Catalogue, queries: Queries, options: Further = no_options) -> None:
        self.source = source
        self.catalogue = catalogue
        self.queries = queries
        self.options = options
        self.references: dict[str, References] = {}
        self.bare = 0

    def commands(self, statements: list[exp.Expr]) -> list[Command]:
        found: list[Command] = []
        for statement, text in zip(statements, self.source.statement_texts(), strict=True):
            command = self._command(statement, text)
            found += [command] if command is not None else []
        self._resolve()
        if any(isinstance(c, CreateTable) for c in found):
            found += _widened(self.catalogue)
        if any(isinstance(c, Drop) for c in found):
            return [self._complete(c) for c in found]
        # Tables first: a view that is planned knows of the foreign keys that point at tables created after it.
        return [self._complete(c) for c in sorted(found, key=lambda c: not isinstance(c, CreateTable))]

    def _command(self, statement: exp.Expr, text: str) -> Command | None:
        if isinstance(statement, exp.Drop):
            return self._drop(statement)
        if isinstance(statement, exp.Alter):
            return self._alter_view(statement)
        if is_create(statement, "TABLE"):
            return self._create_table(statement, text)
        if is_create(statement, "VIEW"):
            return self._create_view(statement, text)
        if not isinstance(statement, exp.Query) or isinstance(statement, exp.Table):
            raise unexpected(self.source, statement, "SELECT or CREATE MATERIALIZED VIEW")
        if self.queries is Queries.ANSWERED:
            return self._answer(statement, text)
        self.bare = next(n for n in count(self.bare + 1) if self.catalogue.kind(f"query{n}") is None)
        name = f"query{self.bare}"
        return self.catalogue.create_view(self.definition(statement, f"CREATE VIEW {name} AS {text}", name))

    def _answer(self, statement: exp.Expr, text: str) -> Command:
        """As DuckDB answers it, or, where only views know what it says, as one of these would."""
        written = statement.copy()
        try:
            return read_answer(self.source, statement, self.catalogue.schema(), text)
        except UnsupportedError:
            return self.by_view(written, text)  # or the view says why not
        except EverviewError as refused:
            try:
                return self.by_view(written, text)
            except EverviewError:
                raise refused from refused.__cause__

    def by_view(self, statement: exp.Expr, text: str) -> AnswerByView:
        """As a view by it would answer it."""
        name = next(f"query{n}" for n in count(1) if self.catalogue.kind(f"query{n}") is None)
        definition = self.definition(in_full(statement), f"CREATE VIEW {name} AS {text}", name)
        return AnswerByView(definition, tuple(t for t in self.catalogue.schema() if t.name.lower() in definition.reads))

    def _create_table(self, statement: exp.Expr, text: str) -> CreateTable | None:
        target, catalogue = created(statement), self.catalogue
        if statement.args.get("replace"):
            raise self.source.unsupported(
                "CREATE OR REPLACE TABLE",
                target,
                message="CREATE OR REPLACE TABLE is not supported",
                hint="write DROP TABLE IF EXISTS … before CREATE TABLE: the rows go with the old one",
            )
        with self._at(target):
            if statement.args.get("exists") and catalogue.is_there("table", full_name(target)):
                return None
            if catalogue.kind(full_name(target)) == "view":
                catalogue.check_free("table", full_name(target))
        table, references = create_table(self.source, statement, catalogue.schema())
        self.references[table.name.lower()] = references
        return catalogue.create_table(table, text)

    def _create_view(self, statement: exp.Expr, text: str) -> Change | None:
        target, catalogue = created(statement), self.catalogue
        name = full_name(target)
        is_replaced = bool(statement.args.get("replace"))
        with self._at(target):
            if statement.args.get("exists") and catalogue.is_there("view", name):
                return None
            if is_replaced:
                catalogue.is_there("view", name)
            else:
                catalogue.check_free("view", name)
            definition = self.definition(statement, text, name)
            return catalogue.replace_view(definition, read_again) if is_replaced else catalogue.create_view(definition)

    def _alter_view(self, statement: exp.Alter) -> AlterView | None:
        target, catalogue = statement.this, self.catalogue
        name = full_name(target)
        with self._at(target):
            if statement.args.get("exists") and catalogue.kind(name) is None:
                return None
            old = catalogue.viewed(name)
        options = read_changed_options(self.source, statement, old.view.options)
        text = old.text
        if old.language == "sql":
            text = with_options(text, parse_statements(text)[0].tokens, options)
        altered = replace(old, view=replace(old.view, options=options), text=text)
        if old.language != "rules" and any(getattr(options, n) != getattr(old.view.options, n) for n in _OF_FORMULAS):
            with self._at(target):
                others = Schema(tuple(t for t in catalogue.schema() if t.name != old.name))
                altered = read_again(altered, others)
                _check_same_columns(old.view, altered.view)
        return catalogue.alter_view(altered)

    def definition(self, statement: exp.Expr, text: str, name: str) -> Definition:
        """The view of a statement, whose text may be another one that means the same."""
        before = len(self.source.read)
        schema, views = self.catalogue.schema(), self.catalogue.views.keys()
        view = read_view(self.source, statement, schema, name, views=views, options=self.options)
        reads = frozenset(read.lower() for _, read in self.source.read[before:])
        return Definition(view, "sql", text, reads)

    def _drop(self, statement: exp.Drop) -> Drop:
        source, kind = self.source, str(statement.args.get("kind")).upper()
        place = source.token(source.first_token(statement))
        if kind not in ("TABLE", "VIEW"):
            raise source.unsupported(
                f"DROP {kind}",
                place,
                message=f"DROP {kind} is not a statement of Everview",
                hint="there are DROP TABLE and DROP VIEW",
            )
        known = ("exists", "tables", "kind", "temporary", "materialized", "cascade", "restrict", "purge")
        more = [word.upper() for word, value in statement.args.items() if value and word not in known]
        if more:
            raise source.unsupported(f"DROP {kind} {more[0]}", place, message=f"DROP {kind} … {more[0]} is unknown")
        targets = statement.args["tables"]
        with self._at(targets[0]):
            return self.catalogue.drop(
                [full_name(t) for t in targets],
                kind=kind.lower(),
                if_exists=bool(statement.args.get("exists")),
                cascade=bool(statement.args.get("cascade")),
            )

    def _resolve(self) -> None:
        """Check the foreign keys of the tables that are new and still there, now that all are known."""
        tables = self.catalogue.tables
        kept = [r for name, r in self.references.items() if name in tables]
        resolved = resolve_references(self.source, Schema(tuple(tables.values())), kept)
        self.catalogue.tables = {t.name.lower(): t for t in resolved}

    def _complete(self, command: Command) -> Command:
        """A new table with its foreign keys as they were resolved; without them if it was dropped again."""
        if not isinstance(command, CreateTable):
            return command
        found = self.catalogue.tables.get(command.table.name.lower())
        if found is None or replace(found, foreign_keys=()) != replace(command.table, foreign_keys=()):
            return replace(command, table=replace(command.table, foreign_keys=()))
        return replace(command, table=found)

    @contextmanager
    def _at(self, place: exp.Expr) -> Iterator[None]:
        """Errors that know no place have this one."""
        try:
            yield
        except EverviewError as error:
            raise error.located(self.source.position(place), self.source.text) from error.__cause__
