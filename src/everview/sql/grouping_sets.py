"""GROUPING SETS, ROLLUP and CUBE: a UNION ALL of one grouped block for each set, and what is made of its rows.

Keys that are not in a set are NULL in its rows; GROUPING(key) says so. What the SELECT makes of groups, HAVING
included, is computed of the union's rows, which are a stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from everview.query.aggregates import AggregateFunction
from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT, BOOLEAN, TINYINT
from everview.query.view import (
    Aggregate,
    Block,
    Body,
    Grouping,
    Output,
    SetOperation,
    SetOperator,
    Stage,
    aggregate_result,
    group_key,
)
from everview.sql.body import Body as Draft
from everview.sql.body import cast
from everview.sql.sql_text import SqlText

if TYPE_CHECKING:
    from everview.sql.session import Lowering

GROUPINGS: Final = ("grouping", "grouping_id")
MOST_SETS: Final = 64
_SETS: Final = (exp.Rollup, exp.Cube, exp.GroupingSets)
_ROWS: Final = Aggregate(AggregateFunction.COUNT, None, BIGINT)
Sets = list[list[exp.Expr]]


def grouping_mark(index: int) -> Var:
    """The variable that says whether a key is left out of a row's grouping set: 1, else 0."""
    return Var(f"$grouping{index}")


def has_sets(group: exp.Expr | None) -> bool:
    """True if GROUP BY has more than plain keys."""
    if group is None:
        return False
    return any(group.args.get(a) for a in ("rollup", "cube", "grouping_sets")) or any(
        isinstance(e, _SETS) for e in group.expressions
    )


def listed_keys(group: exp.Group) -> list[exp.Expr]:
    """The keys that stand before the sets, in ``GROUP BY a, b GROUPING SETS (…)``: a set need not have them."""
    if not group.args.get("grouping_sets"):
        return []
    return [key for e in group.expressions if not isinstance(e, _SETS) for key in _keys(e)]


def need_rows(select: exp.Select) -> None:
    """Several grouping sets over no input give no row in Spark, not even that of the set without keys."""
    group = select.args.get("group")
    if group is None or not has_sets(group) or not any(isinstance(n, exp.Column) for n in group.walk()):
        return
    having = select.args.get("having")
    some = exp.GT(this=exp.Count(this=exp.Star(), big_int=True), expression=exp.Literal.number(0))
    select.set("having", exp.Having(this=exp.and_(having.this, some, copy=False) if having else some))


def sets_of(source: SqlText, group: exp.Group) -> Sets:
    """The keys of each grouping set, as they are written."""
    plain = [e for e in group.expressions if not isinstance(e, _SETS)]
    found: Sets = [[]]
    for element in group.expressions:
        found = _times(source, found, _sets(source, element), element)
    for name in ("rollup", "cube", "grouping_sets"):
        for element in group.args.get(name) or ():
            if not element.expressions and name != "grouping_sets":  # WITH ROLLUP: of all keys
                whole = type(element)(expressions=[p.copy() for p in plain])
                found = _sets(source, whole)
            elif name == "grouping_sets" and plain:  # GROUP BY a, b GROUPING SETS (…): the keys are listed twice
                found = _sets(source, element)
            else:
                found = _times(source, found, _sets(source, element), element)
    return found


def _times(source: SqlText, left: Sets, right: Sets, where: exp.Expr) -> Sets:
    if len(left) * len(right) > MOST_SETS:
        raise source.too_large(f"GROUP BY has more than {MOST_SETS} grouping sets", where, hint="list those you need")
    return [[*a, *b] for a, b in product(left, right)]


def _sets(source: SqlText, element: exp.Expr) -> Sets:
    if isinstance(element, exp.Rollup):
        parts = [_keys(e) for e in element.expressions]
        return [[k for part in parts[:size] for k in part] for size in range(len(parts), -1, -1)]
    if isinstance(element, exp.Cube):
        parts = [_keys(e) for e in element.expressions]
        if 2 ** len(parts) > MOST_SETS:
            raise source.too_large(
                f"GROUP BY has more than {MOST_SETS} grouping sets", element, hint="list those you need"
            )
        sizes = range(len(parts), -1, -1)
        return [[k for part in chosen for k in part] for size in sizes for chosen in combinations(parts, size)]
    if isinstance(element, exp.GroupingSets):
        return [found for e in element.expressions for found in _sets(source, e)]
    return [_keys(element)]


def _keys(element: exp.Expr) -> list[exp.Expr]:
    if isinstance(element, exp.Tuple):
        return list(element.expressions)
    return [element.unnest()]


def over_sets(block: Block, sets: Sequence[frozenset[int]], lowering: Lowering) -> Block:
    """A block of one GROUP BY of all keys as one over a stage that has the groups of each set of them.

    ``sets`` has the keys, by number, that are left out of each.
    """
    grouping = block.grouping
    assert grouping is not None
    members = [_member(block, grouping, left_out) for left_out in sets]
    body: Body = members[0]
    for member in members[1:]:
        body = SetOperation(SetOperator.UNION, True, body, member, members[0].outputs)
    stage = lowering.stage(body, "groups", "grouping sets")
    return _over(block, grouping, stage, lowering)


def _member(block: Block, grouping: Grouping, left_out: frozenset[int]) -> Block:
    """The groups of one set: all keys, all aggregates, and which keys are left out."""
    kept = [i for i in range(len(grouping.keys)) if i not in left_out]
    outputs = []
    for i, key in enumerate(grouping.keys):
        value = Expression.of(group_key(kept.index(i)), key.type) if i in kept else _null(key)
        outputs.append(Output(f"key{i}", value, True))
    outputs += [
        Output(f"value{i}", Expression.of(aggregate_result(i), a.type), not a.function.is_count)
        for i, a in enumerate(grouping.aggregates)
    ]
    marks = (Expression.of(Const(int(i in left_out)), TINYINT) for i in range(len(grouping.keys)))
    outputs += [Output(f"grouping{i}", mark, False) for i, mark in enumerate(marks)]
    aggregates, having = grouping.aggregates, None
    if not kept:  # As in Spark the set of no keys has no row over no input.
        aggregates = tuple(dict.fromkeys((*aggregates, _ROWS)))
        having = Expression((aggregate_result(aggregates.index(_ROWS)), " > 0"), BOOLEAN)
    own = Grouping(tuple(grouping.keys[i] for i in kept), aggregates, having)
    return replace(block, outputs=tuple(outputs), grouping=own, distinct=False)


def _null(key: Expression) -> Expression:
    return cast(Expression(("NULL",), key.type), key.type)


def _over(block: Block, grouping: Grouping, stage: Stage, lowering: Lowering) -> Block:
    from everview.sql.session import stage_columns

    draft = Draft(lowering.fresh)
    terms = draft.add_atom(stage.name, stage.name, stage_columns(stage))
    atoms, _, not_null, renamed = draft.finish()
    keys, values = len(grouping.keys), len(grouping.aggregates)
    names = [*grouping.key_names, *grouping.aggregate_names, *(grouping_mark(i) for i in range(keys))]
    assert len(names) == len(terms) == 2 * keys + values
    places = {name: renamed[v] for name, t in zip(names, terms, strict=True) if isinstance(v := t.term, Var)}
    outputs = tuple(replace(o, expression=o.expression.substitute(places)) for o in block.outputs)
    predicates = () if grouping.having is None else (grouping.having.substitute(places),)
    return Block(atoms, predicates, outputs, None, block.distinct, not_null)
