"""A view in two steps, where its groups span shards: what each shard makes of its own rows, and what is made of these.

The first step gives *partial groups*: for each group of a shard its key and what its aggregates can be put together
from. Counts and sums are added up, and so are averages, from their sums and counts; the least of the least values is
the least. A shard tells a group that has changed as the old row and the new one, so all of it holds under deletions.
Partial sums have a wider type, in which they do not overflow where the whole does not; those that no type holds (of
doubles, long decimals and squares) go as bytes. For DISTINCT aggregates a shard gives the different values of each
group beside: a value that it has already changes nothing there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from everview.query.aggregates import (
    AggregateFunction,
    Chosen,
    Combined,
    Counted,
    Gathered,
    Multiplied,
    Ordered,
    Packed,
    Paired,
    Reading,
    Shaped,
    Spread,
    Summed,
)
from everview.query.conjunctive import Atom
from everview.query.terms import Const, Expression, Var
from everview.query.types import BIGINT, BINARY, BOOLEAN, INT, MOST_DIGITS, DataType, Kind, as_decimal, decimal
from everview.query.view import (
    Aggregate,
    Block,
    Body,
    Cut,
    Grouping,
    Output,
    SetOperation,
    SetOperator,
    Stage,
    View,
    aggregate_result,
    arranged,
    blocks,
    each_block,
    group_key,
    relations_in,
)

_MORE_DIGITS = 10
"""A sum of so many digits more than its values' holds that many of them, as in Spark."""
AHEAD = "ahead"
"""What the names of first steps have in them that are made ahead of the shards."""
MOST_DISTINCT = 7
"""DISTINCT aggregates of more arguments have the rows of the join sent: for each, tables are joined once more."""


def split_up(view: View) -> tuple[list[View], View] | None:
    """The first step of each block as views of their own, and the view that makes the result; None if it cannot be."""
    found = in_two(view.body, view, 0)
    return found and (found[0], View(view.name, found[1], (), view.remarks, view.options))


def in_two(body: Body, view: View, number: int, mark: str = "") -> tuple[list[View], Body] | None:
    """A body of a view, perhaps of one of its stages: the first steps of its blocks, and what makes its rows of them.

    The first steps are counted from a ``number`` on.
    """
    pieces: list[View] = []

    def merging(block: Block) -> Block:
        name = piece_name(view, number + len(pieces), mark)
        needed = stages_of(block, view.stages)
        first, second = _partial(block, name) or _rows(block, name)
        cut = next((a for a in arranged(body) if isinstance(a, Cut) and a.body is block), None)
        if cut is not None and block.grouping is None:
            first = _first_rows(cut, first)
        pieces.append(View(name, first, needed, options=view.options))
        return second

    made = each_block(body, merging)
    if any(o.type.is_open for p in pieces for o in p.columns):
        return None
    return pieces, made


def first_rows(view: View) -> tuple[View, View] | None:
    """Of a view that is cut over all rows the first rows of a shard, and what takes the first of these; else None."""
    cut = view.body
    if not isinstance(cut, Cut) or cut.partition or cut.end is None or any(o.type.is_open for o in cut.body.columns):
        return None
    name = f"{_piece(view.name)}0"
    columns = tuple(replace(c, name=f"c{i}") for i, c in enumerate(cut.body.columns))
    own = Cut(cut.body, cut.keys, columns, cut.end, counting=cut.counting)
    piece = View(name, own, view.stages, options=view.options)
    terms = [Expression.of(Var(f"${name}.{i}"), c.type) for i, c in enumerate(cut.body.columns)]
    atom = Atom(name, tuple(Var(f"${name}.{i}") for i in range(len(terms))), alias=name)
    outputs = tuple(replace(c, expression=t) for c, t in zip(cut.body.columns, terms, strict=True))
    return piece, View(view.name, replace(cut, body=Block((atom,), (), outputs)), (), view.remarks, view.options)


def _first_rows(cut: Cut, body: Body) -> Body:
    """Of the rows of a shard those that may be among the first of all: the first of its own."""
    if cut.end is None:
        return body
    return Cut(body, cut.keys, body.columns, cut.end, 0, cut.partition, cut.counting)


def with_options_of(views: Sequence[View], wanted: Sequence[View]) -> tuple[View, ...]:
    """Views, and first steps of such, with the options that ``wanted`` has for them now."""

    def own(view: View) -> View:
        for other in wanted:
            first = _piece(other.name)
            if view.name == other.name or view.name.rstrip("0123456789") in (first, f"{first}{AHEAD}"):
                return replace(view, options=other.options)
        return view

    return tuple(map(own, views))


def piece_name(view: View, number: int, mark: str = "") -> str:
    """What a first step of a view is called."""
    return f"{_piece(view.name)}{mark}{number}"


def _piece(view: str) -> str:
    """How the names of a view's first steps begin; their number follows."""
    return f"__{view}_"


def is_partial(piece: View) -> bool:
    """True if a first step gives groups or different values, and not all rows of a join."""
    return all(block.grouping is not None or block.distinct for block in blocks(piece.body))


def stages_of(block: Block, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Those of the stages that a block reads, and those that these read."""
    read = {a.relation for a in block.atoms}
    kept: list[Stage] = []
    for stage in reversed(stages):
        if stage.name in read:
            kept.append(stage)
            read |= set(relations_in(stage.body))
    return tuple(reversed(kept))


# --- partial groups --------------------------------------------------------------------------------------------------


def _partial(block: Block, name: str) -> tuple[Body, Block] | None:
    """A grouped block as the groups of a shard, and what puts them together; None if an aggregate cannot be.

    Partial groups and the different values of each argument of DISTINCT aggregates are rows of one bag, whose columns
    are the keys and then ``wanted``; a row has NULL for what it does not tell.
    """
    if block.grouping is None:
        return None
    keys = block.grouping.keys
    wanted: list[Aggregate | Expression] = []

    def column(what: Aggregate | Expression) -> Expression:
        if what not in wanted:
            wanted.append(what)
        return Expression.of(Var(f"${name}.c{len(keys) + wanted.index(what)}"), what.type.unbounded)

    whole: list[Aggregate] = []
    for aggregate in block.grouping.aggregates:
        found = merged(aggregate, column)
        if found is None:
            return None
        whole.append(found)
    if not keys and not wanted:
        column(_ROWS)
    values = [w for w in wanted if isinstance(w, Expression)]
    if len(values) > MOST_DISTINCT:
        return None
    members = [_groups(block, wanted)] if len(values) < len(wanted) or not values else []
    members += [_values(block, wanted, value) for value in values]
    first: Body = members[0]
    for member in members[1:]:
        first = SetOperation(SetOperator.UNION, True, first, member, first.columns)
    atom = Atom(name, tuple(Var(f"${name}.c{i}") for i in range(len(keys) + len(wanted))), alias=name)
    own = tuple(Expression.of(Var(f"${name}.c{i}"), k.type) for i, k in enumerate(keys))
    second = Grouping(own, tuple(whole), block.grouping.having)
    return first, Block((atom,), (), block.outputs, second, block.distinct)


_ROWS = Aggregate(AggregateFunction.COUNT, None, BIGINT)


def _groups(block: Block, wanted: Sequence[Aggregate | Expression]) -> Block:
    """The partial groups. The one group over everything has no row without input: only over all shards it has."""
    assert block.grouping is not None
    keys = block.grouping.keys
    parts = [w for w in wanted if isinstance(w, Aggregate)]
    columns = [Expression.of(group_key(i), k.type) for i, k in enumerate(keys)]
    columns += [
        Expression.of(aggregate_result(parts.index(w)), w.type) if isinstance(w, Aggregate) else _null(w.type)
        for w in wanted
    ]
    having = None
    if not keys:
        parts = list(dict.fromkeys([*parts, _ROWS]))
        having = Expression((aggregate_result(parts.index(_ROWS)), " > 0"), BOOLEAN)
    return replace(block, outputs=_named(columns), grouping=Grouping(keys, tuple(parts), having), distinct=False)


def _values(block: Block, wanted: Sequence[Aggregate | Expression], value: Expression) -> Block:
    """The different values of an argument in each group."""
    assert block.grouping is not None
    columns = [*block.grouping.keys, *(value if w == value else _null(w.type) for w in wanted)]
    return replace(block, outputs=_named(columns), grouping=None, distinct=True)


def _named(columns: Sequence[Expression]) -> tuple[Output, ...]:
    return tuple(Output(f"c{i}", e) for i, e in enumerate(columns))


def _null(type_: DataType) -> Expression:
    return Expression((f"CAST(NULL AS {type_.unbounded})",), type_.unbounded)


def merged(aggregate: Aggregate, column: Callable[[Aggregate | Expression], Expression]) -> Aggregate | None:
    """An aggregate over what the first step gives, a ``column`` of its own each; None if it cannot be made of any."""
    argument, made = aggregate.argument, aggregate.function.made
    if argument is not None and (aggregate.distinct or made == Gathered(Reading.SET)):
        return replace(aggregate, argument=column(argument), factors=())
    wide = None
    match made:
        case Counted():
            counts = column(aggregate)
            return replace(aggregate, argument=counts, counts=counts, factors=())
        case Ordered():
            return None if argument is None else replace(aggregate, argument=column(aggregate), factors=())
        case Chosen():
            if argument is None:
                return None
            parts = AggregateFunction.MAX if made.highest else AggregateFunction.MIN
            return replace(aggregate, argument=column(Aggregate(parts, argument, argument.type)))
        case Combined():
            return None if argument is None else replace(aggregate, argument=column(aggregate))
        case Packed() | Gathered() | Shaped() | Multiplied() | Paired():
            return None
        case Spread():
            parts = AggregateFunction.MOMENTS
        case Summed():
            parts, wide = AggregateFunction.SUMS, None if argument is None else _wide(argument.type)
        case _:
            assert_never(made)
    if argument is None or not argument.type.is_numeric:
        return None
    if wide is None:
        return replace(aggregate, argument=column(_part(aggregate, parts, BINARY)), factors=())
    total = column(_part(aggregate, AggregateFunction.SUM, wide))
    if isinstance(made, Summed) and not made.mean:
        return replace(aggregate, argument=total, factors=())
    counts = column(_part(aggregate, AggregateFunction.COUNT, BIGINT))
    return replace(aggregate, argument=total, counts=counts, factors=())


def _part(aggregate: Aggregate, function: AggregateFunction, type_: DataType) -> Aggregate:
    """What the first step makes of an aggregate's argument."""
    return Aggregate(function, aggregate.argument, type_, factors=aggregate.factors)


def _wide(type_: DataType) -> DataType | None:
    """The type of a part of an exact sum; None if the sum is not exact, or may be longer than any type."""
    if not type_.is_integer and type_.kind is not Kind.DECIMAL:
        return None
    exact = as_decimal(type_)
    more = exact.precision + _MORE_DIGITS
    return decimal(more, exact.scale) if more <= MOST_DIGITS else None


# --- rows of the join ------------------------------------------------------------------------------------------------


def _rows(block: Block, name: str) -> tuple[Block, Block]:
    """A block's rows, as far as the second step reads them, and that step; different ones, where only those count."""
    columns = _wanted(block)
    distinct = block.distinct and block.grouping is None
    return replace(block, outputs=columns, grouping=None, distinct=distinct), _merging(block, name, columns)


def _wanted(block: Block) -> tuple[Output, ...]:
    """What the merge needs of a block's rows: keys and arguments, or the outputs.

    Outputs of a set operation's members have one type already, so that equal values meet in one shard.
    """
    if block.grouping is None:
        found = [o.expression for o in block.outputs]
    else:
        arguments = [a.argument for a in block.grouping.aggregates if a.argument is not None]
        found = list(dict.fromkeys([*block.grouping.keys, *arguments]))
    if not found:
        found = [Expression.of(Const(0), INT)]
    return tuple(Output(f"c{i}", e) for i, e in enumerate(found))


def _merging(block: Block, name: str, columns: tuple[Output, ...]) -> Block:
    variables = [Var(f"${name}.{c.name}") for c in columns]
    atom = Atom(name, tuple(variables), alias=name)
    as_read = [Expression.of(v, c.type) for v, c in zip(variables, columns, strict=True)]
    if block.grouping is None:
        # What shows no column, as EXISTS does not, has one for the way.
        outputs = tuple(replace(o, expression=e) for o, e in zip(block.outputs, as_read, strict=False))
        return Block((atom,), (), outputs, None, block.distinct)
    place = {c.expression: e for c, e in zip(columns, as_read, strict=True)}

    def moved(aggregate: Aggregate) -> Aggregate:
        argument = None if aggregate.argument is None else place[aggregate.argument]
        return replace(aggregate, argument=argument, factors=())

    grouping = Grouping(
        tuple(place[k] for k in block.grouping.keys),
        tuple(map(moved, block.grouping.aggregates)),
        block.grouping.having,
    )
    return Block((atom,), (), block.outputs, grouping, block.distinct)
