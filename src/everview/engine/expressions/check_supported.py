"""Whether every expression of a view can be computed here: the one check, asked before there is any data.

``explain``, ``Database.sql`` and everything that plans for Spark ask it, so that none of them takes a view that another
refuses, or that would end its job at the first batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from everview.errors import DataError
from everview.query.schema import Schema
from everview.query.terms import Expression, Var
from everview.query.types import ANY, BOOLEAN, DataType
from everview.query.view import Block, View, blocks

Typed = tuple[Expression, Mapping[Var, DataType]]
Relations = Mapping[str, tuple[DataType, ...]]


def check_views(views: Iterable[View], schema: Schema) -> None:
    """Refuse views over these tables, and over one another, of which an expression cannot be computed."""
    relations = {table.name: tuple(c.type for c in table.columns) for table in schema}
    for view in views:
        check_expressions(view, relations)
        relations[view.name] = tuple(c.type for c in view.columns)


def check_expressions(view: View, relations: Relations) -> None:
    """Refuse a view with an expression that nothing here computes as Spark does; data could not change that."""
    known = dict(relations)
    for name, body in [*((s.name, s.body) for s in view.stages), (view.name, view.body)]:
        for block in blocks(body):
            for expression, types in _expressions(block, known):
                _check(expression, types)
        known[name] = tuple(c.type for c in body.columns)


def _expressions(block: Block, relations: Relations) -> Iterator[Typed]:
    """All expressions of a block, with the types of what they read."""
    types: dict[Var, DataType] = {}
    for atom in block.atoms:
        columns = relations.get(atom.relation) or (ANY,) * len(atom.terms)  # rules have tables that nobody declared
        types |= {t: k for t, k in zip(atom.terms, columns, strict=True) if isinstance(t, Var)}
        types |= {c.term: c.expression.type for c in atom.computed if isinstance(c.term, Var)}
        yield from ((c.expression, types) for c in atom.computed)
    yield from ((Expression(p.parts, BOOLEAN), types) for p in block.predicates)
    grouping = block.grouping
    if grouping is not None:
        yield from ((k, types) for k in grouping.keys)
        yield from ((a.argument, types) for a in grouping.aggregates if a.argument is not None)
        types = {v: k.type for v, k in zip(grouping.key_names, grouping.keys, strict=True)}
        types |= {v: a.type for v, a in zip(grouping.aggregate_names, grouping.aggregates, strict=True)}
        if grouping.having is not None:
            yield Expression(grouping.having.parts, BOOLEAN), types
    yield from ((o.expression, types) for o in block.outputs)


def _check(expression: Expression, types: Mapping[Var, DataType]) -> None:
    if expression.term is not None or any(types[v].is_open for v in expression.variables):
        return
    import pyarrow as pa  # Only now: most views compute nothing, and their verdict need not wait for Arrow.

    from everview.engine.expressions.evaluate import Evaluator
    from everview.engine.values.words import arrow_type

    columns = {v: pa.nulls(0, arrow_type(types[v])) for v in expression.variables}
    try:
        Evaluator([expression]).try_out(columns)
    except DataError as error:
        from everview.sql.duckdb_errors import is_about_the_expression, reason
        from everview.sql.nodes import refused

        cause = error.__cause__
        if cause is not None and is_about_the_expression(cause):  # else it may be right for other data
            raise refused(str(expression), reason(cause)) from None
