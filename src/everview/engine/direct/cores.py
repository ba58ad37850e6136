"""What a view's cores take of the rows of relations, described for the kernel."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Final

from everview.engine.direct.expressions import Code, Constants, NotInWords, Writer, is_exact
from everview.engine.operators.aggregates.sums import PRESENT, SQUARE, VALUE, Summand, Values
from everview.engine.operators.join import Join
from everview.engine.values.words import is_wide
from everview.programs.limits import BEYOND
from everview.query.terms import Const, Expression, Var
from everview.query.types import DataType, Kind
from everview.strategies.strategy import DELTA

_KINDS: Final = (VALUE, PRESENT, SQUARE)
_NOT_NULL, _SAME_AS, _EQUALS, _WITHIN = range(4)


def cores_of(
    cores: Sequence[Join], derived: Container[str], constants: Constants
) -> tuple[dict[str, Any], dict[str, int]]:
    """The cores of a stage, and by which number it knows each relation; the ``derived`` ones are no tables."""
    relations = list(dict.fromkeys(name for core in cores for name in core._entries))
    described = {
        "cores": [_core(core) for core in cores],
        "entries": [
            [
                _entry(i, core, core._entries[name], name in derived, constants)
                for i, core in enumerate(cores)
                if core.reads(name)
            ]
            for name in relations
        ],
    }
    return described, {name: number for number, name in enumerate(relations)}


def _core(core: Join) -> dict[str, Any]:
    logs = [node.log for node in core.maintained.difference if node.log is not None]
    return {
        "delta": core.part._channels[DELTA],
        "width": core.width,
        "beyond": core.part._tables[BEYOND] if core._has_limits else None,
        "logs": [core.part._channels[log] for log in logs],
    }


def _entry(number: int, core: Join, entry: Any, is_derived: bool, constants: Constants) -> dict[str, Any]:
    if entry.entry.is_set:
        raise NotInWords("a table whose rows are taken as a set")
    types = entry.atom_inputs[0].types if entry.atom_inputs else ()
    inputs = [_atom_input(core, one, constants) for one in entry.atom_inputs]
    procedures = core.part._procedures
    return {
        "core": number,
        "arity": len(types),
        "wide": [i for i, type_ in enumerate(types) if is_derived and is_wide(type_)],
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
        "sums": [(*summand(p, [one.arguments[i] for i in places], writer), p.words) for p, places in one.parts],
        "outputs": [writer.column(v) for v in one.atom_input.variables],
        "values": [_in_order(value, one.values.column(value), writer) for value in one.values.values],
    }


def _in_order(value: Expression, column: Var | None, writer: Writer) -> tuple[int | None, Code, bool]:
    """A value that is kept in order: a column, or what is computed; and whether it is of floating point."""
    is_floating = value.type.kind in (Kind.FLOAT, Kind.DOUBLE)
    if column is not None:
        return writer.column(column), [], is_floating
    if not is_exact(value.type):
        raise NotInWords(f"{value}")
    return None, writer.code(value), False


def _equals(column: int, term: Const, type_: DataType, constants: Constants) -> Code:
    if not is_exact(type_) and type_.kind is not Kind.STRING:
        raise NotInWords
    return [_EQUALS, column, constants.number(term.value, type_), 0, 0]


def _tests(v: Var, column: int, is_required: bool, core: Join) -> list[Code]:
    tests = [[_NOT_NULL, column, 0, 0, 0]] if is_required else []
    if v in core.ranges:
        tests.append([_WITHIN, column, 0, *core.ranges[v]])
    return tests


def summand(part: Summand, arguments: Sequence[Expression], writer: Writer) -> tuple[Code, int]:
    """What is summed up, and as what."""
    if not isinstance(part, Values) or len(arguments) != 1:
        raise NotInWords
    return writer.code(arguments[0], any_type=part.kind == PRESENT), _KINDS.index(part.kind)
