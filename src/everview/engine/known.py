"""Whether every expression of a view can be computed here, asked before there is any data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from everview.engine.expressions import Evaluator
from everview.engine.words import arrow_type
from everview.errors import DataError, UnsupportedError
from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN, DataType
from everview.query.view import Block, View, blocks

Typed = tuple[Expression, Mapping[Var, DataType]]
_MISSING = (
    "BinderException",
    "CatalogException",
    "NotImplementedException",
    "OutOfRangeException",
    "ParserException",
)


def check_expressions(view: View, relations: Mapping[str, tuple[DataType, ...]]) -> None:
    """Refuse a view with an expression that DuckDB has no function for; data could not change that."""
    known = dict(relations)
    for name, body in [*((s.name, s.body) for s in view.stages), (view.name, view.body)]:
        for block in blocks(body):
            for expression, types in _expressions(block, known):
                _check(expression, types)
        known[name] = tuple(c.type for c in body.columns)


def _expressions(block: Block, relations: Mapping[str, tuple[DataType, ...]]) -> Iterator[Typed]:
    """All expressions of a block, with the types of what they read."""
    types: dict[Var, DataType] = {}
    for atom in block.atoms:
        types |= {t: k for t, k in zip(atom.terms, relations[atom.relation], strict=True) if isinstance(t, Var)}
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
    columns = {v: pa.array([], arrow_type(types[v])) for v in expression.variables}
    try:
        Evaluator([expression]).try_out(columns)
    except DataError as error:
        cause = error.__cause__
        if type(cause).__name__ not in _MISSING:
            return  # it may be right for other data
        why = str(cause).strip().partition("\n")[0]
        raise UnsupportedError(
            f"{expression} cannot be computed in an embedded view: {why}",
            construct="expression",
            hint="use another function, or put the value into a column of a table",
        ) from error
