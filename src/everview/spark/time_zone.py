"""Time zones: a view computes in UTC, wherever it runs; Spark SQL computes in the session's zone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from pyspark.sql import SparkSession

from everview.errors import PipelineError
from everview.query.schema import Schema
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind
from everview.query.view import Block, Timed, View, blocks

ZONE: Final = "spark.sql.session.timeZone"
_UTC: Final = frozenset("utc gmt z zulu universal etc/utc etc/gmt etc/uct etc/zulu uct +00:00 utc+0 gmt0".split())
_COMPARING: Final = frozenset(["=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "(", ")", ""])


def check_zone(spark: SparkSession, views: Sequence[View], schema: Schema) -> None:
    """Refuse views that compute with instants where Spark SQL would give other results, as its zone is not UTC."""
    zone = spark.conf.get(ZONE, "UTC") or "UTC"
    if zone.lower() in _UTC:
        return
    known = {t.name.lower(): [c.type for c in t.columns] for t in schema}
    for view in views:
        found = next(depending(view, known), None)
        known[view.name.lower()] = [c.type for c in view.columns]
        if found is not None:
            raise PipelineError(
                f"view {view.name} computes with a TIMESTAMP ({found}), in UTC; the session's time zone is {zone}, in "
                "which Spark SQL would compute it",
                hint=f"set {ZONE} to UTC, or make it a TIMESTAMP_NTZ, of local times, in the DataFrame",
            )


def depending(view: View, known: Mapping[str, list[DataType]]) -> Iterator[Expression]:
    """The expressions of a view whose value depends on a time zone; it reads relations with columns of these types."""
    for stage in view.stages:
        if isinstance(stage.body, Timed):  # Spark counts days and months by the zone's own midnights.
            yield next(stage.body.body.outputs[b.column].expression for b in stage.body.bounds)
    relations = {**known, **{s.name.lower(): [c.type for c in s.columns] for s in view.stages}}
    for body in (*(s.body for s in view.stages), view.body):
        for block in blocks(body):
            types = _types(block, relations)
            yield from (e for e in _expressions(block) if _depends(e, types))
            for atom in block.atoms:
                for term, type_ in zip(atom.terms, relations[atom.relation.lower()], strict=True):
                    if isinstance(term, Const) and type_.kind is Kind.TIMESTAMP:
                        yield Expression.of(term, type_)


def _expressions(block: Block) -> Iterator[Expression]:
    yield from (c.expression for a in block.atoms for c in a.computed)
    yield from block.predicates
    yield from (o.expression for o in block.outputs)
    if block.grouping is not None:
        yield from block.grouping.keys
        yield from (a.argument for a in block.grouping.aggregates if a.argument is not None)
        if block.grouping.having is not None:
            yield block.grouping.having


def _types(block: Block, relations: Mapping[str, list[DataType]]) -> dict[Var, DataType]:
    """The types of a block's variables."""
    found: dict[Var, DataType] = {}
    for atom in block.atoms:
        pairs = [*zip(atom.terms, relations[atom.relation.lower()], strict=True)]
        pairs += [(c.term, c.expression.type) for c in atom.computed]
        found |= {term: type_ for term, type_ in pairs if isinstance(term, Var)}
    if block.grouping is not None:
        found |= zip(block.grouping.key_names, (k.type for k in block.grouping.keys), strict=True)
        found |= zip(block.grouping.aggregate_names, (a.type for a in block.grouping.aggregates), strict=True)
    return found


def _depends(expression: Expression, types: dict[Var, DataType]) -> bool:
    """True if instants go in or come out, unless they are only compared with each other."""
    term = expression.term
    if term is not None:
        return isinstance(term, Const) and isinstance(term.value, datetime) and expression.type.kind is Kind.TIMESTAMP
    inside = any(types[v].holds(Kind.TIMESTAMP) for v in expression.variables)
    if not inside and not expression.type.holds(Kind.TIMESTAMP):
        return False
    texts = [p.strip() for p in expression.parts if isinstance(p, str)]
    only_compares = all(t in _COMPARING for t in texts) and not any(isinstance(p, Const) for p in expression.parts)
    return not only_compares
