"""What follows the core of a grouped view, described for the kernel: keys, sums, and how groups become rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from everview.engine.direct.columns import has_code, type_code
from everview.engine.direct.cores import summand
from everview.engine.direct.expressions import Code, Constants, NotInWords, Writer, is_exact, limit_code
from everview.engine.direct.rows import kept_rows, rows_of
from everview.engine.operators.aggregates.accumulated import Accumulated
from everview.engine.operators.aggregates.distinct import DistinctCount
from everview.engine.operators.aggregates.gathered import GatheredValues
from everview.engine.operators.aggregates.in_tree import WORDS, InTree
from everview.engine.operators.aggregates.min_max import Extremes
from everview.engine.operators.aggregates.sums import PRESENT, VALUE
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.group_output import Finish
from everview.plan.cores import is_summed
from everview.programs.min_max import READ, USES
from everview.query.aggregates import Counted, Summed
from everview.query.terms import Var
from everview.query.types import DataType, Kind, same_words
from everview.query.view import Aggregate, Output

_COUNT, _SUM, _DECIMAL_AVERAGE, _DOUBLE_AVERAGE, _LISTED = range(5)


def groups_of(grouped: GroupBy, shows_keys: bool, constants: Constants) -> dict[str, Any]:
    """What follows the core: conditions, keys, sums and the table of groups.

    Rows of groups that do not show their keys may be the same one: then others make rows of groups.
    """
    core, projection = grouped.core, grouped.projection
    outputs = core.maintained.outputs
    writer = Writer(constants, {v: (i, core.types[v]) for i, v in enumerate(outputs)})
    keys: list[tuple[int | None, Code]] = []
    for expression, key in zip(projection.outputs, grouped.grouping.keys, strict=True):
        if isinstance(expression.term, Var) and expression.term in projection.shown:
            keys.append((writer.column(expression.term), []))
        elif is_exact(key.type):
            keys.append((None, writer.code(expression)))
        else:
            raise NotInWords(f"{expression}")
    count, *words = grouped.widths[: 1 + len(grouped.slots)]
    slots: list[dict[str, Any]] = []
    place = core.width + count
    for slot, width in zip(grouped.slots, words, strict=True):
        if slot.parts:
            slots.append({"words": width, "inside": place})
            place += width
        else:
            value, kind = summand(slot.whole, slot.whole.arguments, writer)
            slots.append({"words": width, "inside": None, "value": value, "kind": kind})
    residual = projection.residual
    numbered = list(enumerate(grouped.valued, 1))
    handed_values = [_handed(i, a, constants) for i, a in numbered if isinstance(a, Accumulated | GatheredValues)]
    return {
        "conditions": [] if residual is None else [writer.code(c) for c in residual.conditions],
        "keys": keys,
        "count_words": count,
        "slots": slots,
        "further": grouped.groups.measures - sum(grouped.widths[: 1 + len(words)]),
        "kept": kept_rows(grouped.groups),
        "listed": [_listed(i, a, constants) for i, a in numbered if isinstance(a, Extremes)],
        "distinct": [_distinct(i, a, grouped, constants) for i, a in numbered if isinstance(a, DistinctCount)],
        "read": [_read(i, a, grouped) for i, a in enumerate(grouped.in_tree)],
        "handed": handed_values,
        "finish": _finish(grouped, constants) if shows_keys and not handed_values else None,
    }


def in_order(grouped: GroupBy) -> list[Extremes | DistinctCount | InTree]:
    """The aggregates that are no sums, as the kernel numbers them."""
    listed = [a for a in grouped.valued if isinstance(a, Extremes)]
    return [*listed, *grouped.distinct, *grouped.in_tree]


def _listed(core: int, listed: Extremes, constants: Constants) -> dict[str, Any]:
    """An aggregate whose values are kept in order, along the view's core of this number."""
    read, answers = listed.part._functions[READ]
    return {
        "core": core,
        "rows": rows_of(listed.projection, None, constants, as_words=True),
        "change": listed.part._procedures["change"],
        "read": read,
        "answers": answers,
        "uses": listed.part._channels[USES] if listed.is_wide else None,
        "is_floating": listed.type.kind in (Kind.FLOAT, Kind.DOUBLE),
    }


def handed(grouped: GroupBy) -> list[Accumulated | GatheredValues]:
    """The aggregates that the kernel hands what has changed of their values, in its order."""
    return [a for a in grouped.valued if isinstance(a, Accumulated | GatheredValues)]


def _handed(core: int, kept: Accumulated | GatheredValues, constants: Constants) -> dict[str, Any]:
    """An aggregate that keeps its own state, along the view's core of this number."""
    return {"core": core, "rows": rows_of(kept.projection, None, constants, as_words=True)}


def _distinct(core: int, distinct: DistinctCount, grouped: GroupBy, constants: Constants) -> dict[str, Any]:
    """A number of different values, which are listed along the view's core of this number."""
    return {
        "core": core,
        "rows": rows_of(distinct.projection, None, constants, as_words=True),
        "values": kept_rows(distinct.values),
        "measure": grouped.place_of(distinct),
    }


def _read(number: int, extreme: InTree, grouped: GroupBy) -> dict[str, Any]:
    """An aggregate whose values the core itself keeps in order."""
    ask, answers = grouped.core.part._functions[extreme.function]
    return {
        "ask": ask,
        "answers": answers,
        "keys": extreme.places,
        "measure": grouped.groups.measures - WORDS * (len(grouped.in_tree) - number),
        "is_floating": extreme.type.kind in (Kind.FLOAT, Kind.DOUBLE),
    }


def _finish(grouped: GroupBy, constants: Constants) -> dict[str, Any] | None:
    """From groups to rows; None if that cannot be said in words."""
    finish, grouping = grouped.finish, grouped.grouping
    named: dict[Var, tuple[int, DataType]] = {}
    for v, key in zip(grouping.key_names, grouping.keys, strict=True):
        named[v] = len(named), key.type
    try:
        aggregates: list[Code] = []
        listed: dict[Var, int] = {}
        numbers = {id(a): i for i, a in enumerate(in_order(grouped))}
        further = iter(grouped.further)
        for v, aggregate in zip(grouping.aggregate_names, grouping.aggregates, strict=True):
            named[v] = len(named), aggregate.type
            if is_summed(aggregate):
                aggregates.append(_aggregate(finish, v, aggregate))
                continue
            assert aggregate.argument is not None
            kept = next(further)
            if not isinstance(kept, DistinctCount) and not same_words(aggregate.argument.type, aggregate.type):
                return None
            aggregates.append([_LISTED, numbers[id(kept)], *[0] * 5])
            listed[v] = len(grouping.keys) + numbers[id(kept)]
        writer = _GroupWriter(constants, named)
        writer.aggregates = frozenset(grouping.aggregate_names) - listed.keys()
        outputs = grouped.finish.block.outputs
        shown = finish.keys_shown
        if not all(has_code(o.type) for o in outputs):
            return None
        return {
            "aggregates": aggregates,
            "having": None if grouping.having is None else writer.code(grouping.having),
            "outputs": [_output(i, o, shown, listed, writer) for i, o in enumerate(outputs)],
            "types": [type_code(o.type) for o in outputs],
        }
    except NotInWords:
        return None


def _output(
    place: int, output: Output, shown: Mapping[int, int], listed: Mapping[Var, int], writer: Writer
) -> tuple[int | None, Code]:
    """A column: a key or a listed value as it is, or what is computed."""
    term = output.expression.term
    if place in shown:
        return shown[place], []
    if isinstance(term, Var) and term in listed and output.type == writer.columns[term][1]:
        return listed[term], []
    return None, writer.code(output.expression)


class _GroupWriter(Writer):
    """Expressions over groups: aggregates are numbers with all the digits of their types."""

    def reads(self, variable: Var, type_: DataType) -> bool:
        """An aggregate, or a key whose word is its number."""
        return is_exact(type_) or (type_.kind is Kind.DECIMAL and variable in self.aggregates)

    aggregates: frozenset[Var] = frozenset()


def _aggregate(finish: Finish, v: Var, aggregate: Aggregate) -> Code:
    """Kind, where its sum is and of how many words, the same of what counts its values, limit, and digits."""
    places: Mapping[str, tuple[int, int]] = {kind: (first, last) for kind, first, last in finish._places[v]}
    everything = 0, finish.widths[0]
    present = places.get(PRESENT, everything)
    made, argument, type_ = aggregate.function.made, aggregate.argument, aggregate.type
    if argument is None or isinstance(made, Counted):
        counted = everything if argument is None else present
        return [_COUNT, *_place(counted), *_place(counted), 64, 0]
    assert argument is not None
    if (
        not isinstance(made, Summed)
        or made.tried
        or not (argument.type.is_integer or argument.type.kind is Kind.DECIMAL)
    ):
        raise NotInWords
    total = places[VALUE]
    if not made.mean:
        return [_SUM, *_place(total), *_place(present), limit_code(type_) if type_.kind is Kind.DECIMAL else 64, 0]
    if type_.kind is Kind.DECIMAL:
        up = type_.scale - argument.type.scale
        return [_DECIMAL_AVERAGE, *_place(total), *_place(present), limit_code(type_), up]
    return [_DOUBLE_AVERAGE, *_place(total), *_place(present), 64, 0]


def _place(ends: tuple[int, int]) -> tuple[int, int]:
    return ends[0], ends[1] - ends[0]
