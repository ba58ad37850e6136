"""Single statements: CREATE TABLE as a schema, CREATE VIEW and SELECT as a view; scripts of them are in script.py."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeAlias

from sqlglot import exp

from everview.errors import EverviewError, UnsupportedError
from everview.query.options import NO_OPTIONS, ViewOptions
from everview.query.schema import Schema
from everview.query.totals import with_fewer_totals
from everview.query.view import FEED_COLUMNS, Block, Body, SetOperation, Stage, View, relations_in
from everview.sql.blockers import other_blockers
from everview.sql.ddl import create_table, resolve_references
from everview.sql.formula_binding import formula_view
from everview.sql.formula_select import formula_of_query
from everview.sql.options import read_options
from everview.sql.parse import guarded, parse_one, parse_statements
from everview.sql.select import Lower
from everview.sql.session import Environment
from everview.sql.sql_text import SqlText
from everview.sql.window_cuts import with_cuts

Further: TypeAlias = Callable[[str], ViewOptions]
"""What is asked of a view, by its name, beside the options that stand in its SQL."""


def no_options(_: str) -> ViewOptions:
    """Nothing more is asked of any view."""
    return NO_OPTIONS


def parse_schema(text: str, schema: Schema = Schema()) -> Schema:  # noqa: B008 - immutable
    """Read CREATE TABLE statements; foreign keys may point forward, and are checked at the end."""
    source, statements = parse_statements(text)

    def work() -> Schema:
        found, references = schema, []
        for statement in statements:
            if not is_create(statement, "TABLE"):
                raise unexpected(source, statement, "CREATE TABLE")
            if statement.args.get("exists") and full_name(created(statement)) in found:
                continue
            table, reference = create_table(source, statement, found)
            found = found.with_table(table)
            references.append(reference)
        return resolve_references(source, found, references)

    return guarded(source, work)


def parse_view(
    text: str,
    schema: Schema,
    name: str = "view",
    *,
    views: Collection[str] = (),
    options: Further = no_options,
) -> View:
    """Read one query, or one CREATE [MATERIALIZED] VIEW … AS query.

    ``views``, in lower case, are no tables of the schema; ``options`` tells further options of a view of a name.
    """
    source, statement = parse_one(text, "query")
    return guarded(source, lambda: read_view(source, statement, schema, name, views=views, options=options))


def read_view(
    source: SqlText,
    statement: exp.Expr,
    schema: Schema,
    name: str,
    *,
    views: Collection[str] = (),
    options: Further = no_options,
) -> View:
    """The view of a CREATE VIEW statement, or the query as a view of this name."""
    if is_create(statement, "VIEW"):
        return _create_view(source, statement, schema, views, options)
    if not isinstance(statement, exp.Query) or isinstance(statement, exp.Table):
        raise unexpected(source, statement, "SELECT or CREATE MATERIALIZED VIEW")
    return _read(source, statement, schema, name, (), views, options(name))


def _create_view(
    source: SqlText, statement: exp.Expr, schema: Schema, views: Collection[str], further: Further
) -> View:
    target, query = statement.this, statement.expression
    columns: list[exp.Expr] = []
    if isinstance(target, exp.Schema):
        columns, target = target.expressions, target.this
    name = full_name(target)
    if name in schema and not statement.args.get("replace"):
        raise source.ambiguous(f"{name} exists already", target, hint="choose another name")
    if not isinstance(query, exp.Query):
        raise source.syntax("CREATE VIEW needs AS SELECT …", target)
    options = read_options(source, statement).joined(further(name))
    renamed = [c.this if isinstance(c, exp.ColumnDef) else c for c in columns]
    return _read(source, query, schema, name, renamed, views, options)


def _read(
    source: SqlText,
    query: exp.Expr,
    schema: Schema,
    name: str,
    columns: Sequence[exp.Expr],
    views: Collection[str],
    options: ViewOptions,
) -> View:
    """The view of a query: a formula, if the degree of its data is promised, or else blocks and stages."""
    if options.degree is None:
        return replace(_lowered(source, query, schema, name, columns), options=options)
    found, tables, places = formula_of_query(source, query, schema, views, name, columns, options.component)
    _check_names(source, [v.name for v in found.head], places)
    return formula_view(found, tables, options, source.text)


def _lowered(source: SqlText, query: exp.Expr, schema: Schema, name: str, columns: Sequence[exp.Expr]) -> View:
    lower, as_written = Lower(source, schema, name), query.copy()
    try:
        result = lower.query(query, Environment())
    except UnsupportedError as error:
        again = lambda tree: Lower(source, schema, name).query(tree, Environment())  # noqa: E731
        error.others = tuple(other_blockers(source, as_written, error, again))
        raise
    if columns:
        if len(columns) != len(result.names):
            raise source.query(
                f"view {name} names {len(columns)} columns, and its query has {len(result.names)}", columns[0]
            )
        result.names, result.places = [c.name for c in columns], list(columns)
    _check_names(source, result.names, result.places)
    stages = _needed(result.body, lower.stages)
    view = View(name, _renamed(result.body, result.names), stages, tuple(lower.remarks))
    return with_fewer_totals(with_cuts(view))


def _check_names(source: SqlText, names: Sequence[str], places: Sequence[exp.Expr]) -> None:
    """Refuse columns whose names a change feed has for its own, and two of the same name."""
    seen: set[str] = set()
    for column, place in zip(names, places, strict=True):
        if column.lower() in FEED_COLUMNS:
            raise source.ambiguous(
                f"a view's column cannot be named {column}: its change feed has a column of that name",
                place,
                hint="give it another name with AS",
            )
        if column.lower() in seen:
            raise source.ambiguous(
                f"two output columns named {column}: give one an alias",
                place,
                hint="each column of a view needs a name of its own: write AS",
            )
        seen.add(column.lower())


def _needed(body: Body, stages: list[Stage]) -> tuple[Stage, ...]:
    """The stages that the body reads, directly or through others; a stage only reads those before it."""
    kept: list[Stage] = []
    read = set(relations_in(body))
    for stage in reversed(stages):
        if stage.name in read:
            kept.append(stage)
            read |= set(relations_in(stage.body))
    return tuple(reversed(kept))


def _renamed(body: Body, names: list[str]) -> Body:
    columns = tuple(replace(c, name=n) for c, n in zip(body.columns, names, strict=True))
    if isinstance(body, Block):
        return replace(body, outputs=columns)
    return replace(body, columns=columns) if isinstance(body, SetOperation) else body


def is_create(statement: exp.Expr, kind: str) -> bool:
    """True for CREATE TABLE, or CREATE VIEW."""
    return isinstance(statement, exp.Create) and str(statement.args.get("kind")).upper() == kind


def created(statement: exp.Expr) -> exp.Table:
    """The node that names what a CREATE statement creates."""
    target = statement.this.this if isinstance(statement.this, exp.Schema) else statement.this
    assert isinstance(target, exp.Table)
    return target


def full_name(table: exp.Table) -> str:
    """A name with what it is qualified by."""
    return ".".join(part.name for part in table.parts)


def unexpected(source: SqlText, statement: exp.Expr, wanted: str) -> EverviewError:
    """The error for a statement of another kind than the caller reads."""
    place = source.token(source.first_token(statement))
    if isinstance(statement, exp.Create):
        return source.syntax(f"{wanted} is expected, and this is CREATE {statement.args.get('kind')}", place)
    if isinstance(statement, exp.Drop):
        return source.unsupported(
            "DROP",
            place,
            message="DROP has no meaning here: it is a statement for a database",
            hint="use db.sql of an everview.Database, and leave out here what is not wanted",
        )
    if isinstance(statement, exp.Alter):
        return source.unsupported(
            "ALTER",
            place,
            message="ALTER has no meaning here: it is a statement for a database, whose views are there already",
            hint="write CREATE MATERIALIZED VIEW … OPTIONS (…) AS … here; or use db.sql of an everview.Database",
        )
    if isinstance(statement, exp.Values):
        return source.unsupported("VALUES", place, hint="put the rows into a table")
    return source.syntax(f"{wanted} is expected, and this is a query", place)
