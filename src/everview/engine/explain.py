"""``everview.explain``: from text to verdict, without any data."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from everview.engine.expressions.check_supported import check_views
from everview.errors import QueryError, check_text
from everview.plan.distribute import distribute
from everview.plan.explain import Explanation
from everview.plan.formula_plan import explained
from everview.plan.shard_tables import as_checked
from everview.plan.view_plan import plan_view
from everview.query.options import OptionValues, ViewOptions
from everview.query.schema import Schema
from everview.query.view import View, relations_in
from everview.sql import parse_rules, parse_schema, parse_script
from everview.sql.formula_binding import parse_formula

_QUOTED_OR_COMMENT = re.compile(
    r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`|--[^\n]*|/\*.*?\*/|%[^\n]*""", re.DOTALL
)


def explain(
    query: str,
    schema: str | Schema | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    shards: int | None = None,
    updates: Mapping[str, float] | None = None,
    **options: Unpack[OptionValues],
) -> Explanation:
    """Say what class a view is in, how it would be maintained, what that costs, and why nothing better is possible.

    Args:
        query: one SELECT or CREATE MATERIALIZED VIEW in Spark SQL, with CREATE TABLE statements before it if need be;
            or rules such as ``hop(a, c) :- follows(a, b), follows(b, c).``, of which the last view is explained; or a
            formula such as ``lonely(x) := vertex(x) and not exists y (edge(x, y))``, with ``degree``.
        schema: CREATE TABLE statements, or a Schema. Rules can do without.
        rates: how many updates to expect at each table, relative to the others, as in ``maintain``: tables with more
            of them sit higher in the tree, and shards are cut so that the fullest has least to do.
        shards: also say how the view would be spread over so many shards on Spark.
        updates: what ``rates`` was called before.
        options: what is asked of the view's maintenance beside OPTIONS (…) in the SQL: epsilon, optimize, degree, mode,
            domain, component.

    Returns:
        An Explanation: ``str()`` is text, ``to_dict()`` data, ``to_svg()`` a picture that notebooks show.

    Example:
        >>> verdict = explain("SELECT a.src, b.dst FROM follows a JOIN follows b ON a.dst = b.src",
        ...                   schema="CREATE TABLE follows (src BIGINT, dst BIGINT)")
        >>> verdict.to_dict()["classes"]["free_connex"]
        False
    """
    found = explain_all(query, schema, rates=rates if rates is not None else updates, shards=shards, **options)
    if len(found) > 1 and not is_rules(query):
        names = ", ".join(e.plan.view.name for e in found)
        raise QueryError(
            f"the text holds {len(found)} views ({names}), explain takes one", hint="use everview.explain_all"
        )
    return found[-1]


def explain_all(
    text: str,
    schema: str | Schema | None = None,
    *,
    rates: Mapping[str, float] | None = None,
    shards: int | None = None,
    **options: Unpack[OptionValues],
) -> list[Explanation]:
    """The verdict on every view of a script or rule program, in their order; all of them with the options."""
    check_text(text, "a query")
    asked = ViewOptions.of(options)
    tables = parse_schema(schema) if isinstance(schema, str) else schema
    views: tuple[View, ...]
    if is_formula(text):
        tables = Schema() if tables is None else tables
        views = (parse_formula(text, tables, asked),)
    elif is_rules(text):
        tables, views = (
            tables or Schema(),
            tuple(replace(v, options=v.options.joined(asked)) for v in parse_rules(text, tables)),
        )
    else:
        tables, views = parse_script(text, tables or Schema(), options=lambda _: asked)
    if not views:
        raise QueryError("there is no view to explain", hint="give a SELECT, a CREATE MATERIALIZED VIEW or a rule")
    check_views(views, tables)
    names = frozenset(v.name for v in views)
    if shards is None:
        return [explained(plan_view(view, tables, rates, names - {view.name})) for view in views]
    if shards < 1:
        raise QueryError(f"shards is {shards}", hint="there is at least one")
    _check_declared(views, tables)
    known = {name.lower(): rate for name, rate in (rates or {}).items()}
    named = {t.name: known[t.name.lower()] for t in tables if t.name.lower() in known} or None
    found = []
    for i, view in enumerate(views):
        spread = distribute(views[: i + 1], tables, shards, rates=named).only(view.name)
        kept = as_checked(spread.first)
        checked = Schema(tuple(kept.table(t.name) or t for t in tables))
        plan = plan_view(view, checked, rates, names - {view.name}, told=True)
        found.append(explained(plan).spread(spread))
    return found


def _check_declared(views: Sequence[View], tables: Schema) -> None:
    """Rules need no schema, but rows are spread by the columns of their tables, which only a schema has."""
    defined = {v.name for v in views} | {s.name for v in views for s in v.stages}
    bodies = [body for v in views for body in (*(s.body for s in v.stages), v.body)]
    for name in (n for body in bodies for n in relations_in(body)):
        if name not in defined and tables.table(name) is None:
            raise QueryError(
                f"rows of {name} cannot be spread over shards: its columns are not declared",
                hint=f"give a schema with CREATE TABLE {name} (…)",
            )


def is_formula(text: str) -> bool:
    """True if the text is a formula, neither SQL nor rules: ``:=`` stands outside quotes and comments."""
    return ":=" in _QUOTED_OR_COMMENT.sub(" ", text)


def is_rules(text: str) -> bool:
    """True if the text is rules, not SQL: ``:-`` stands outside quotes and comments."""
    return ":-" in _QUOTED_OR_COMMENT.sub(" ", text)
