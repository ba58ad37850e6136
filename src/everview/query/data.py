"""Views, tables and expressions as plain data: what JSON can hold, with a number for its format.

For whatever leaves the process: what a shard's process is told, what a checkpoint keeps. Names in the data are written
out here, none is taken from a Python class, so that a field that is renamed changes nothing that was written before.
``canonical`` gives the part of a view's data that is its meaning: two texts that differ in aliases, blanks or the order
of their conditions give the same.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypeVar

from everview.errors import DataFormatError, OptionError
from everview.query.aggregates import saved_as
from everview.query.conjunctive import Atom, Computed
from everview.query.data_values import place, places, short, text, texts, truth, type_from_data, type_to_data
from everview.query.formula_data import body_from_data, body_to_data
from everview.query.options import ViewOptions
from everview.query.order_data import (
    clock_bound_from_data,
    clock_bound_to_data,
    sort_key_from_data,
    sort_key_to_data,
    window_call_from_data,
    window_call_to_data,
)
from everview.query.schema import Column, Enforcement, ForeignKey, Schema, SmallDomain, Table, Updates
from everview.query.terms import Const, Expression, Term, Value, Var
from everview.query.types import DataType, char, varchar
from everview.query.view import (
    Aggregate,
    Block,
    Body,
    Counting,
    Cut,
    Exploded,
    FormulaBody,
    Grouping,
    Output,
    SetOperation,
    SetOperator,
    Stage,
    Timed,
    View,
    Windowed,
)

FORMAT: Final = 1
"""Of the data; whoever changes what a name in it means counts up."""
_PADDED: Final = "char"
_BOUNDED: Final = "varchar"
"""The types of columns whose texts have a length."""
Data: TypeAlias = dict[str, Any]
T = TypeVar("T")


def view_to_data(view: View) -> Data:
    """A view as plain data."""
    return {
        "format": FORMAT,
        "name": view.name,
        "stages": [{"name": s.name, "body": _body(s.body), "purpose": s.purpose} for s in view.stages],
        "body": _body(view.body),
        "remarks": list(view.remarks),
        **({"options": view.options.to_data()} if view.options else {}),
    }


def view_from_data(data: Data) -> View:
    """The view that plain data holds."""
    return checked("view", data, FORMAT, _read_view)


def table_to_data(table: Table) -> Data:
    """A table with its columns and constraints as plain data."""
    return {
        "format": FORMAT,
        "name": table.name,
        "columns": [_column(c) for c in table.columns],
        "primary_key": list(table.primary_key),
        "foreign_keys": [
            {
                "columns": list(k.columns),
                "target": k.target,
                "target_columns": list(k.target_columns),
                **_enforcement("enforcement", k.enforcement),
            }
            for k in table.foreign_keys
        ],
        "small_domains": [
            {"column": d.column, "values": [_term(v) for v in d.values], **_enforcement("enforcement", d.enforcement)}
            for d in table.small_domains
        ],
        **_enforcement("key_enforcement", table.key_enforcement),
        **({} if table.updates is Updates.ANY else {"updates": table.updates.value}),
    }


def _enforcement(name: str, enforcement: Enforcement) -> Data:
    """How a constraint is enforced, if that is not as usual."""
    return {} if enforcement is Enforcement.ENFORCED else {name: enforcement.value}


def table_from_data(data: Data) -> Table:
    """The table that plain data holds."""
    return checked("table", data, FORMAT, _read_table)


def schema_to_data(schema: Schema) -> Data:
    """A schema as plain data."""
    return {"format": FORMAT, "tables": [table_to_data(t) for t in schema]}


def schema_from_data(data: Data) -> Schema:
    """The schema that plain data holds."""
    return checked("schema", data, FORMAT, lambda d: Schema(tuple(map(table_from_data, d["tables"]))))


def checked(what: str, data: object, number: int, read: Callable[[Data], T]) -> T:
    """What ``read`` makes of data of this format; anything else is refused, whatever it is."""
    if not isinstance(data, dict):
        raise DataFormatError(f"this is no {what}: {short(data)}", hint="it is an object with a format number")
    if data.get("format") != number:
        raise DataFormatError(
            f"a {what} of format {short(data.get('format'))} cannot be read, but only of format {number}",
            hint="read it with the version of Everview that wrote it",
        )
    try:
        return read(data)
    except (ArithmeticError, AttributeError, LookupError, OptionError, TypeError, ValueError) as error:
        raise DataFormatError(
            f"the data of a {what} is damaged: {type(error).__name__}: {error}",
            hint="it was not written by Everview, or was changed since",
        ) from error


def canonical(view: View) -> Data:
    """What of a view's data is its meaning: equal for views that mean the same by the same atoms, in the same order.

    Aliases, remarks, purposes, options and the names of variables and stages are left out; conditions have one order.
    """
    stages = {s.name: f"${i}" for i, s in enumerate(view.stages)}
    bodies = [_canonical_body(s.body, stages) for s in view.stages]
    return {"format": FORMAT, "name": view.name, "stages": bodies, "body": _canonical_body(view.body, stages)}


# --- to data ---------------------------------------------------------------------------------------------------------


def expression_to_data(expression: Expression) -> Data:
    """An expression as its type and its parts: text as strings, terms as objects."""
    parts = [p if isinstance(p, str) else _term(p) for p in expression.parts]
    return {"type": type_to_data(expression.type), "parts": parts}


def _column(column: Column) -> Data:
    type_ = column.type
    text = type_to_data(type_)
    if type_.length is not None:  # Expressions' types have none: rows are checked and padded where they come in.
        text = f"{_PADDED if type_.padded else _BOUNDED}({type_.length})"
    found = {"name": column.name, "type": text, "nullable": column.nullable}
    return found | {"closed": column.closed} if column.closed else found


def _term(term: Term) -> Data:
    return {"variable": term.name} if isinstance(term, Var) else _constant(term.value)


def _constant(value: Value) -> Data:
    """By name of the kind, as Python tells more of them apart than JSON."""
    if isinstance(value, bool):
        return {"boolean": value}
    if isinstance(value, int):
        return {"integer": value}
    if isinstance(value, float):
        return {"double": value if math.isfinite(value) else str(value)}
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    if isinstance(value, str):
        return {"string": value}
    if isinstance(value, bytes):
        return {"binary": value.hex()}
    return {"timestamp" if isinstance(value, datetime) else "date": value.isoformat()}


def _body(body: Body) -> Data:
    if isinstance(body, FormulaBody):
        return {"formula": body_to_data(body, _term, type_to_data)}
    if isinstance(body, Cut):
        return {
            "of": _body(body.body),
            "keys": list(map(sort_key_to_data, body.keys)),
            "columns": list(map(_output, body.columns)),
            "limit": body.limit,
            "offset": body.offset,
            "partition": list(body.partition),
            "counting": body.counting.value,
        }
    if isinstance(body, Windowed):
        return {
            "of": _body(body.body),
            "partition": list(body.partition),
            "calls": list(map(window_call_to_data, body.calls)),
            "columns": list(map(_output, body.columns)),
        }
    if isinstance(body, Exploded):
        return {
            "of": _body(body.body),
            "element": body.column,
            "outer": body.outer,
            "position": body.has_position,
            "columns": list(map(_output, body.columns)),
        }
    if isinstance(body, Timed):
        return {
            "of": _body(body.body),
            "while": list(map(clock_bound_to_data, body.bounds)),
            "columns": list(map(_output, body.columns)),
        }
    if isinstance(body, SetOperation):
        return {
            "operator": body.operator.value,
            "all": body.all,
            "left": _body(body.left),
            "right": _body(body.right),
            "columns": list(map(_output, body.columns)),
        }
    return {
        "atoms": list(map(_atom, body.atoms)),
        "predicates": list(map(expression_to_data, body.predicates)),
        "outputs": list(map(_output, body.outputs)),
        "grouping": None if body.grouping is None else _grouping(body.grouping),
        "distinct": body.distinct,
        "not_null": sorted(v.name for v in body.not_null),
    }


def _atom(atom: Atom) -> Data:
    return {
        "relation": atom.relation,
        "terms": list(map(_term, atom.terms)),
        "computed": [{"term": _term(c.term), "expression": expression_to_data(c.expression)} for c in atom.computed],
        "alias": atom.alias,
    }


def _output(output: Output) -> Data:
    return {
        "name": output.name,
        "expression": expression_to_data(output.expression),
        "nullable": output.nullable,
    }


def _grouping(grouping: Grouping) -> Data:
    return {
        "keys": list(map(expression_to_data, grouping.keys)),
        "aggregates": [
            {
                "function": a.function.value,
                "argument": None if a.argument is None else expression_to_data(a.argument),
                "type": type_to_data(a.type),
                "distinct": a.distinct,
                **({} if a.counts is None else {"counts": expression_to_data(a.counts)}),
                **({} if not a.factors else {"factors": list(map(expression_to_data, a.factors))}),
                **({} if a.most is None else {"most": str(a.most), "risky": list(map(expression_to_data, a.risky))}),
                **({} if not a.parameters else {"parameters": list(map(_term, a.parameters))}),
            }
            for a in grouping.aggregates
        ],
        "having": None if grouping.having is None else expression_to_data(grouping.having),
    }


# --- from data -------------------------------------------------------------------------------------------------------

_SIZED: Final = re.compile(rf"({_PADDED}|{_BOUNDED})\((\d+)\)")
_CONSTANTS: Final[dict[str, tuple[type | tuple[type, ...], Callable[[Any], Value]]]] = {
    "boolean": (bool, bool),
    "integer": (int, int),
    "double": ((float, str), float),
    "decimal": (str, Decimal),
    "string": (str, str),
    "binary": (str, bytes.fromhex),
    "date": (str, date.fromisoformat),
    "timestamp": (str, datetime.fromisoformat),
}


def expression_from_data(data: Data) -> Expression:
    """The expression that plain data holds."""
    parts = tuple(p if isinstance(p, str) else _read_term(p) for p in data["parts"])
    return Expression(parts, type_from_data(data["type"]))


def _column_type(text: str) -> DataType:
    sized = _SIZED.fullmatch(text)
    if sized is None:
        return type_from_data(text)
    return char(int(sized[2])) if sized[1] == _PADDED else varchar(int(sized[2]))


def _read_term(data: Data) -> Term:
    ((kind, value),) = data.items()
    if kind == "variable":
        return Var(text(value))
    types, read = _CONSTANTS[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
        raise TypeError(f"{value!r} is no {kind}")
    return Const(read(value))


def _read_view(data: Data) -> View:
    stages = tuple(Stage(text(s["name"]), _read_body(s["body"]), text(s["purpose"])) for s in data["stages"])
    options = ViewOptions.from_data(data.get("options", {}))
    return View(text(data["name"]), _read_body(data["body"]), stages, texts(data["remarks"]), options)


def _read_table(data: Data) -> Table:
    columns = (
        Column(text(c["name"]), _column_type(c["type"]), truth(c["nullable"]), text(c.get("closed", "")))
        for c in data["columns"]
    )
    foreign = (
        ForeignKey(
            texts(k["columns"]),
            text(k["target"]),
            texts(k["target_columns"]),
            Enforcement(text(k.get("enforcement", ""))),
        )
        for k in data["foreign_keys"]
    )
    domains = (
        SmallDomain(
            text(d["column"]),
            tuple(map(_read_constant, d["values"])),
            Enforcement(text(d.get("enforcement", ""))),
        )
        for d in data["small_domains"]
    )
    return Table(
        text(data["name"]),
        tuple(columns),
        texts(data["primary_key"]),
        tuple(foreign),
        tuple(domains),
        Enforcement(text(data.get("key_enforcement", ""))),
        Updates(text(data.get("updates", Updates.ANY.value))),
    )


def _read_constant(data: Data) -> Const:
    found = _read_term(data)
    if isinstance(found, Var):
        raise TypeError(f"{found} is no constant")
    return found


def _read_body(data: Data) -> Body:
    if "formula" in data:
        return body_from_data(data["formula"], _read_term, type_from_data)
    if "operator" in data:
        left, right = _read_body(data["left"]), _read_body(data["right"])
        columns = tuple(map(_read_output, data["columns"]))
        return SetOperation(SetOperator(data["operator"]), truth(data["all"]), left, right, columns)
    if "element" in data:
        inner = _read_body(data["of"])
        if not isinstance(inner, Block):
            raise TypeError("only the rows of a block are exploded")
        columns = tuple(map(_read_output, data["columns"]))
        return Exploded(inner, place(data["element"]), truth(data["outer"]), truth(data["position"]), columns)
    if "calls" in data:
        calls = tuple(map(window_call_from_data, data["calls"]))
        columns = tuple(map(_read_output, data["columns"]))
        return Windowed(_read_body(data["of"]), places(data["partition"]), calls, columns)
    if "while" in data:
        bounds = tuple(map(clock_bound_from_data, data["while"]))
        inner = _read_body(data["of"])
        if not isinstance(inner, Block):
            raise TypeError("only the rows of a relation go by the clock")
        return Timed(inner, bounds, tuple(map(_read_output, data["columns"])))
    if "of" in data:
        return Cut(
            _read_body(data["of"]),
            tuple(map(sort_key_from_data, data["keys"])),
            tuple(map(_read_output, data["columns"])),
            None if data["limit"] is None else place(data["limit"]),
            place(data["offset"]),
            places(data["partition"]),
            Counting(text(data["counting"])),
        )
    return Block(
        tuple(map(_read_atom, data["atoms"])),
        tuple(map(expression_from_data, data["predicates"])),
        tuple(map(_read_output, data["outputs"])),
        None if data["grouping"] is None else _read_grouping(data["grouping"]),
        truth(data["distinct"]),
        frozenset(map(Var, texts(data["not_null"]))),
    )


def _read_atom(data: Data) -> Atom:
    computed = tuple(Computed(_read_term(c["term"]), expression_from_data(c["expression"])) for c in data["computed"])
    return Atom(text(data["relation"]), tuple(map(_read_term, data["terms"])), computed, text(data["alias"]))


def _read_output(data: Data) -> Output:
    return Output(text(data["name"]), expression_from_data(data["expression"]), truth(data["nullable"]))


def _read_grouping(data: Data) -> Grouping:
    aggregates = tuple(
        Aggregate(
            saved_as(text(a["function"])),
            None if a["argument"] is None else expression_from_data(a["argument"]),
            type_from_data(a["type"]),
            truth(a["distinct"]),
            expression_from_data(a["counts"]) if "counts" in a else None,
            tuple(map(expression_from_data, a.get("factors", ()))),
            tuple(map(_read_constant, a.get("parameters", ()))),
            tuple(map(expression_from_data, a.get("risky", ()))),
            int(text(a["most"])) if "most" in a else None,
        )
        for a in data["aggregates"]
    )
    having = None if data["having"] is None else expression_from_data(data["having"])
    return Grouping(tuple(map(expression_from_data, data["keys"])), aggregates, having)


# --- one form for one meaning ----------------------------------------------------------------------------------------


def _canonical_body(body: Body, stages: Mapping[str, str]) -> Data:
    if isinstance(body, FormulaBody):
        return _body(body)
    if isinstance(body, SetOperation):
        found = _body(body)
        found |= {"left": _canonical_body(body.left, stages), "right": _canonical_body(body.right, stages)}
        # Its columns say again what the blocks' outputs say, in variables of the first of them.
        found["columns"] = [{"name": c.name, "type": type_to_data(c.type)} for c in body.columns]
        return found
    if isinstance(body, Cut | Windowed | Timed | Exploded):
        found = _body(body) | {"of": _canonical_body(body.body, stages)}
        found["columns"] = [{"name": c.name, "type": type_to_data(c.type)} for c in body.columns]
        return found
    held = [t for a in body.atoms for t in a.all_terms if isinstance(t, Var)]
    numbers = {v: Var(f"${i}") for i, v in enumerate(dict.fromkeys(held))}
    found = _body(_renamed(body, numbers))
    for atom in found["atoms"]:
        del atom["alias"]
        atom["relation"] = stages.get(atom["relation"], atom["relation"].lower())
    found["predicates"].sort(key=lambda p: json.dumps(p, sort_keys=True))
    return found


def _renamed(block: Block, numbers: Mapping[Var, Var]) -> Block:
    """The block with other variables; those of groups and aggregates have one name each already."""
    grouping = block.grouping
    if grouping is not None:
        # The factors say nothing that the product does not say.
        aggregates = tuple(replace(a, counts=None, factors=(), risky=(), most=None) for a in grouping.aggregates)
        aggregates = tuple(a.substitute(numbers) for a in aggregates)
        grouping = Grouping(tuple(k.substitute(numbers) for k in grouping.keys), aggregates, grouping.having)
    outputs = (
        o if grouping is not None else Output(o.name, o.expression.substitute(numbers), o.nullable)
        for o in block.outputs
    )
    return Block(
        tuple(a.substitute(numbers) for a in block.atoms),
        tuple(p.substitute(numbers) for p in block.predicates),
        tuple(outputs),
        grouping,
        block.distinct,
        frozenset(numbers.get(v, v) for v in block.not_null),
    )
