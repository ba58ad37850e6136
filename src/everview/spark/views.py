"""The views of a query and the columns that they read, from SQL in any of the forms that ``maintain`` takes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from everview.engine.explain import is_formula
from everview.engine.expressions.check_supported import check_views
from everview.errors import NotCountedError, OptionError, PipelineError
from everview.query.catalogue import as_table
from everview.query.conjunctive import Atom
from everview.query.data import table_to_data
from everview.query.formula_facts import FactSource
from everview.query.options import NO_OPTIONS, READING, ViewOptions
from everview.query.schema import Schema, Table
from everview.query.terms import Var
from everview.query.view import Block, Body, FormulaBody, View, blocks, each_block, sources
from everview.sql import parse_script, parse_view
from everview.sql.formula_binding import parse_formula
from everview.sql.formula_syntax import read_formula
from everview.sql.statements import Further, no_options


def read_views(
    sql: str | Mapping[str, str],
    schema: Schema,
    tables: Schema | None = None,
    options: Mapping[str, Any] | None = None,
) -> tuple[tuple[View, ...], bool, Schema]:
    """The views, whether it was a single one without a name, and the tables with only the columns that they read.

    Rows that differ in other columns only are copies of one row for the views, and travel and are kept as such.
    ``tables`` has them with these columns and perhaps more, which are then kept. ``options`` are those of a single
    view, or of several by their names, beside what stands in the SQL.
    """
    views, single = _parsed(sql, schema, _further(_names(sql, schema), options) if options else no_options)
    for view in views:
        _refuse_reads(view)
    check_views(views, schema)
    read = _columns_read(views, schema)
    narrow = tables or Schema(tuple(_narrowed(t, read[t.name], read) for t in schema if t.name in read))
    return tuple(_over(view, schema, narrow) for view in views), single, narrow


def _names(sql: str | Mapping[str, str], schema: Schema) -> list[str]:
    """What the views are called."""
    if not isinstance(sql, str):
        return list(sql)
    if is_formula(sql):
        return [read_formula(sql).name]
    return [v.name for v in _parsed(sql, schema, no_options)[0]]


def _further(names: Sequence[str], options: Mapping[str, Any]) -> Further:
    """The further options of views: those of each by its name or, of a single view, by themselves."""
    is_single = len(names) == 1 and not any(isinstance(value, Mapping) for value in options.values())
    by_view = {names[0].lower(): options} if is_single else {name.lower(): own for name, own in options.items()}
    for name, own in by_view.items():
        if name not in {n.lower() for n in names}:
            raise PipelineError(
                f"there are options for {name}, and no such view", hint=f"the views are {', '.join(names)}"
            )
        if not isinstance(own, Mapping):
            raise PipelineError(
                f"the options of {name} are {own!r}", hint="give each view a dict of its options, as {'epsilon': 0.5}"
            )
    asked = {name: ViewOptions.of(own) for name, own in by_view.items()}
    return lambda name: asked.get(name.lower(), NO_OPTIONS)


def _refuse_reads(view: View) -> None:
    """Refuse what is only for reads of a result, which nobody holds on Spark: some options, and formulas not told."""
    if isinstance(view.body, FormulaBody) and len(view.columns) > 2:
        raise NotCountedError(
            f"{view.name} has three variables, and what changes in it is not told, which is all there is on Spark",
            hint="split the query, or keep it in ev.Database, where it is tested and listed",
        )
    name = next((name for name in view.options.given() if name in READING), None)
    if name is not None:
        raise OptionError(
            f"option {name} of {view.name} is for reads of a result in this process, and on Spark a view is a feed",
            option=name,
            hint="leave it out; write the feed to a table with materialize, and read that, or use ev.Database",
        )


def narrowed_to(tables: Sequence[Table], schema: Schema, read: Schema) -> Schema | None:
    """These tables, if the schema still has them with all their columns, and no view reads anything else; else None."""
    if {t.name for t in tables} != {t.name for t in read}:
        return None
    for table in tables:
        whole, needed = schema.table(table.name), read.table(table.name)
        assert whole is not None
        assert needed is not None
        names = [c.name for c in table.columns]
        if not {c.name for c in needed.columns} <= set(names) or not set(names) <= {c.name for c in whole.columns}:
            return None
        now = _narrowed(whole, set(names), {t.name for t in tables})
        now = replace(now, columns=tuple(sorted(now.columns, key=lambda c: names.index(c.name))))
        if table_to_data(now) != table_to_data(table):  # The length of a CHAR is a part of it, which == leaves out.
            return None
    return Schema(tuple(tables))


def _over(view: View, schema: Schema, narrow: Schema) -> View:
    """The view over tables with fewer columns, none of which it reads."""

    def kept(atom: Atom) -> Atom:
        table, small = schema.table(atom.relation), narrow.table(atom.relation)
        if table is None or small is None:
            return atom
        return replace(atom, terms=tuple(atom.terms[i] for i in table.positions(c.name for c in small.columns)))

    def block(found: Block) -> Block:
        return replace(found, atoms=tuple(map(kept, found.atoms)))

    def moved(source: FactSource) -> FactSource:
        table, small = schema.table(source.table), narrow.table(source.table)
        if table is None or small is None:
            return source
        places = {i: at for at, i in enumerate(table.positions(c.name for c in small.columns))}
        return replace(
            source,
            columns=tuple(places[i] for i in source.columns),
            tests=tuple((places[i], value) for i, value in source.tests),
            not_null=tuple(places[i] for i in source.not_null),
        )

    def over(body: Body) -> Body:
        return body.each_source(moved) if isinstance(body, FormulaBody) else each_block(body, block)

    stages = tuple(replace(s, body=over(s.body)) for s in view.stages)
    return replace(view, stages=stages, body=over(view.body))


def _parsed(sql: str | Mapping[str, str], schema: Schema, options: Further) -> tuple[tuple[View, ...], bool]:
    if isinstance(sql, str) and is_formula(sql):
        return (parse_formula(sql, schema, options(read_formula(sql).name)),), True
    if isinstance(sql, str):
        made, views = parse_script(sql, schema, options=options)
        extra = [t.name for t in made if t.name not in schema]
        if extra:
            raise PipelineError(
                f"the SQL creates table {extra[0]}", hint="tables are DataFrames here; declare keys with schema="
            )
        if not views:
            raise PipelineError("there is no view in the SQL", hint="write a SELECT or CREATE MATERIALIZED VIEW")
        return views, len(views) == 1
    if not sql:
        raise PipelineError("there is no view", hint="pass a SELECT, or SELECTs by view name")
    found: list[View] = []
    known = schema
    for name, text in sql.items():
        if not re.fullmatch(r"\w+", name):
            raise PipelineError(f"{name!r} is no name for a view", hint="use letters, digits and _")
        view = one_view(text, name, known, found, options)
        found.append(view)
        known = known.with_table(as_table(view))
    return tuple(found), False


def one_view(text: str, name: str, schema: Schema, earlier: Sequence[View], options: Further) -> View:
    """A view by its name, from a SELECT or a formula; ``earlier`` are the views that it may read."""
    names = [v.name.lower() for v in earlier]
    if not is_formula(text):
        return parse_view(text, schema, name, views=names, options=options)
    if (own := read_formula(text).name).lower() != name.lower():
        raise PipelineError(f"view {name} is a formula that calls itself {own}", hint="give both one name")
    tables = Schema(tuple(t for t in schema if t.name.lower() not in names))
    return parse_formula(text, tables, options(name), views=names)


def _columns_read(views: tuple[View, ...], schema: Schema) -> dict[str, set[str]]:
    """The columns of each table that some view does anything with."""
    found: dict[str, set[str]] = {}
    for view in views:
        for body in (*(s.body for s in view.stages), view.body):
            for source in sources(body):
                table = schema.table(source.table)
                assert table is not None
                places = {*source.columns, *source.not_null, *(i for i, _ in source.tests)}
                found.setdefault(table.name, set()).update(table.columns[i].name for i in places)
            for block in blocks(body):
                used: set[Var] = set()
                expressions = [*block.predicates, *(o.expression for o in block.outputs)]
                if block.grouping is not None:
                    expressions += block.grouping.keys
                    expressions += [a.argument for a in block.grouping.aggregates if a.argument is not None]
                for expression in expressions:
                    used |= expression.variables
                for atom in block.atoms:
                    for computed in atom.computed:
                        used |= computed.expression.variables
                terms = [t for a in block.atoms for t in a.all_terms]
                for atom in block.atoms:
                    table = schema.table(atom.relation)
                    if table is None:
                        continue
                    columns = found.setdefault(table.name, set())
                    for column, term in zip(table.columns, atom.terms, strict=True):
                        if not isinstance(term, Var) or term in used or term in block.not_null or terms.count(term) > 1:
                            columns.add(column.name)
    return found


def _narrowed(table: Table, columns: set[str], tables: Collection[str]) -> Table:
    """The table with the columns that are read, its key, and at least one, and the constraints that concern these.

    A foreign key that points at a table that no view reads says nothing of a view.
    """
    key = {c.lower() for c in table.primary_key}
    kept = [c for c in table.columns if c.name in columns or c.name.lower() in key]
    kept = kept or [next(c for c in table.columns if not c.closed)]
    names = {c.name.lower() for c in kept}
    domains = tuple(d for d in table.small_domains if d.column.lower() in names)
    there = {name.lower() for name in tables}
    references = tuple(
        k for k in table.foreign_keys if {c.lower() for c in k.columns} <= names and k.target.lower() in there
    )
    return replace(table, columns=tuple(kept), foreign_keys=references, small_domains=domains)
