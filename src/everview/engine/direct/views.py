"""What a table and a view do with a batch, described for the kernel: once, when the first batch comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from everview.engine.base_table import BaseTable
from everview.engine.direct.columns import has_code, type_code
from everview.engine.direct.expressions import Code, Constants, NotInWords, Writer, is_exact, limit_code
from everview.engine.operators.aggregates.sums import PRESENT, SQUARE, VALUE, Summand, Values
from everview.engine.operators.group_by import GroupBy
from everview.engine.operators.group_output import Finish
from everview.engine.operators.join import Join
from everview.engine.values.words import is_wide
from everview.engine.view_runtime import ViewRuntime
from everview.kernel import BatchTable, BatchView
from everview.programs.base_table import CHANGE, DUPLICATE_KEY, OVER_DELETED, ROWS
from everview.programs.counts import ROWS as GROUPS
from everview.programs.limits import BEYOND
from everview.query.aggregates import Counted, Summed
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind
from everview.query.view import Aggregate
from everview.strategies.strategy import DELTA

_KINDS = (VALUE, PRESENT, SQUARE)
_NOT_NULL, _SAME_AS, _EQUALS, _WITHIN = range(4)
_COUNT, _SUM, _DECIMAL_AVERAGE, _DOUBLE_AVERAGE = range(4)


class DirectView:
    """A view as the kernel runs batches through it: what it was told, and by which number it knows each relation."""

    def __init__(self, runtime: ViewRuntime, grouped: GroupBy) -> None:
        self.grouped = grouped
        described, self.entries = _described(runtime, grouped)
        self.kernel = BatchView(runtime.unit._unit, described)
        self.finishes: bool = described["group"]["finish"] is not None
        """True if it makes rows of groups, too; else others do that, once it is through."""


def direct_view(runtime: ViewRuntime) -> DirectView | None:
    """How a view takes batches in directly; None if that cannot be said in words."""
    if runtime.direct is not None and runtime.direct[0] is runtime.unit:
        known: DirectView | None = runtime.direct[1]
        return known
    found, why = None, _why_not(runtime)
    source = runtime.result
    if not why and isinstance(source, GroupBy):
        try:
            found = DirectView(runtime, source)
        except NotInWords as error:
            why = f"{error} cannot be said in words" if str(error) else "it cannot be said in words"
    runtime.direct = runtime.unit, found, why
    return found


def _why_not(runtime: ViewRuntime) -> str:
    """What of a view's shape is not run directly; empty if all of it is."""
    source = runtime.result
    if len(runtime.stages) > 1 or runtime.above:
        return "it reads other views, or subqueries that are views"
    if type(source) is not GroupBy:
        return "it is no single grouped block"
    if source.listed:
        return "an aggregate lists the values of each group"
    if source.in_tree:
        return "an aggregate keeps the values of each group in order"
    return "its groups are made distinct" if source.fold is not None else ""


def way_of_batches(runtime: ViewRuntime) -> str:
    """How a view takes batches in, for ``stats``."""
    found = direct_view(runtime)
    if found is None:
        assert runtime.direct is not None
        return f"the other way: {runtime.direct[2]}"
    return "directly" if found.finishes else "directly, but rows are made of groups in Python"


def direct_table(base: BaseTable) -> BatchTable:
    """How a table takes batches in."""
    if base.direct is None:
        unit = base.unit
        wide = [i for i, t in enumerate(base.types) if is_wide(t)]
        refusals = [unit._channels[OVER_DELETED], unit._channels[DUPLICATE_KEY]]
        change, rows = unit._procedures[CHANGE], unit._tables[ROWS]
        base.direct = BatchTable(unit._unit, change, refusals, rows, wide, len(base.types))
    return base.direct


def _described(runtime: ViewRuntime, grouped: GroupBy) -> tuple[dict[str, Any], dict[str, int]]:
    core, constants = grouped.core, Constants()
    entries = list(core._entries.items())
    described = {
        "entries": [_entry(core, entry, constants) for _, entry in entries],
        "delta": core.part._channels[DELTA],
        "width": core.width,
        "beyond": core.part._tables[BEYOND] if core._has_limits else None,
        "group": _group(runtime, grouped, constants),
        "constants": constants.listed,
    }
    return described, {name: number for number, (name, _) in enumerate(entries)}


def _entry(core: Join, entry: Any, constants: Constants) -> dict[str, Any]:
    if entry.entry.is_set:
        raise NotInWords
    inputs = [_atom_input(core, one, constants) for one in entry.atom_inputs]
    procedures = core.part._procedures
    return {
        "arity": len(entry.atom_inputs[0].types) if entry.atom_inputs else 0,
        "state_only": procedures[entry.entry.state_only],
        "with_deltas": procedures[entry.entry.with_deltas],
        "inputs": inputs,
    }


def _atom_input(core: Join, one: Any, constants: Constants) -> dict[str, Any]:
    """One atom: tests of its stored columns, computed ones, conditions and sums, in the order of ``operators.join``."""
    types, not_null = one.types, core.plan.query.not_null
    columns: dict[Var, tuple[int, DataType]] = {v: (i, types[i]) for v, i in one.places.items()}
    stored = Writer(constants, dict(columns))
    tests: list[Code] = []
    for i, term in enumerate(one.atom.terms):
        if isinstance(term, Const):
            tests.append(_equals(i, term, types[i], constants))
        elif one.places[term] != i:
            tests.append([_SAME_AS, i, one.places[term], 0, 0])
    for v, i in one.places.items():
        tests += _tests(v, i, v in not_null, core)
    computed: list[Code] = []
    later: list[Code] = []
    for column in one.atom.computed:
        type_, place = column.expression.type, len(types) + len(computed)
        if not is_exact(type_):
            raise NotInWords(f"{column.expression}")
        computed.append(stored.code(column.expression))
        if isinstance(column.term, Const):
            later.append(_equals(place, column.term, type_, constants))
        elif column.term in columns:
            later.append([_SAME_AS, place, columns[column.term][0], 0, 0])
        else:
            columns[column.term] = place, type_
            later += _tests(column.term, place, column.term in not_null, core)
    writer = Writer(constants, columns)
    conditions = [] if one.conditions is None else [writer.code(c) for c in one.conditions.conditions]
    return {
        "tests": tests,
        "computed": computed,
        "later": later,
        "conditions": conditions,
        "sums": [(*_summand(p, [one.arguments[i] for i in places], writer), p.words) for p, places in one.parts],
        "outputs": [writer.column(v) for v in one.atom_input.variables],
    }


def _equals(column: int, term: Const, type_: DataType, constants: Constants) -> Code:
    if not is_exact(type_) and type_.kind is not Kind.STRING:
        raise NotInWords
    return [_EQUALS, column, constants.number(term.value, type_), 0, 0]


def _tests(v: Var, column: int, is_required: bool, core: Join) -> list[Code]:
    tests = [[_NOT_NULL, column, 0, 0, 0]] if is_required else []
    if v in core.ranges:
        tests.append([_WITHIN, column, 0, *core.ranges[v]])
    return tests


def _summand(part: Summand, arguments: Sequence[Expression], writer: Writer) -> tuple[Code, int]:
    if not isinstance(part, Values) or len(arguments) != 1:
        raise NotInWords
    return writer.code(arguments[0], any_type=part.kind == PRESENT), _KINDS.index(part.kind)


def _group(runtime: ViewRuntime, grouped: GroupBy, constants: Constants) -> dict[str, Any]:
    """What follows the core: conditions, keys, sums and the table of groups."""
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
    count, *words = grouped.widths
    slots: list[dict[str, Any]] = []
    place = core.width + count
    for slot, width in zip(grouped.slots, words, strict=True):
        if slot.parts:
            slots.append({"words": width, "inside": place})
            place += width
        else:
            value, kind = _summand(slot.whole, slot.whole.arguments, writer)
            slots.append({"words": width, "inside": None, "value": value, "kind": kind})
    part = grouped.groups.part
    residual = projection.residual
    return {
        "conditions": [] if residual is None else [writer.code(c) for c in residual.conditions],
        "keys": keys,
        "count_words": count,
        "slots": slots,
        "add": part._procedures["add"],
        "settle": part._procedures["settle"],
        "drop": part._procedures["drop"],
        "table": part._tables[GROUPS],
        "wide_keys": [i for i, key in enumerate(grouped.grouping.keys) if is_wide(key.type)],
        "finish": _finish(runtime, grouped, constants),
    }


def _finish(runtime: ViewRuntime, grouped: GroupBy, constants: Constants) -> dict[str, Any] | None:
    """From groups to rows; None if that cannot be said in words, or rows of several groups may be the same one."""
    if runtime.group_columns is None:
        return None
    finish, grouping = grouped.finish, grouped.grouping
    named: dict[Var, tuple[int, DataType]] = {}
    for v, key in zip(grouping.key_names, grouping.keys, strict=True):
        named[v] = len(named), key.type
    try:
        aggregates = []
        for v, aggregate in zip(grouping.aggregate_names, grouping.aggregates, strict=True):
            named[v] = len(named), aggregate.type
            aggregates.append(_aggregate(finish, v, aggregate))
        writer = _GroupWriter(constants, named)
        writer.aggregates = frozenset(grouping.aggregate_names)
        outputs = grouped.finish.block.outputs
        shown = finish.keys_shown
        if not all(has_code(o.type) for o in outputs):
            return None
        return {
            "aggregates": aggregates,
            "having": None if grouping.having is None else writer.code(grouping.having),
            "outputs": [
                (shown[i], []) if i in shown else (None, writer.code(o.expression)) for i, o in enumerate(outputs)
            ],
            "types": [type_code(o.type) for o in outputs],
        }
    except NotInWords:
        return None


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
    if not isinstance(made, Summed) or not (argument.type.is_integer or argument.type.kind is Kind.DECIMAL):
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
