"""All functions by name: calls of them are checked, typed, and spelled out for DuckDB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlglot import exp
from sqlglot.dialects.spark import Spark

from everview.errors import EverviewError
from everview.query.aggregates import BY_NAME
from everview.query.types import DataType, Kind
from everview.sql.functions import (
    addresses,
    arrays,
    choices,
    codes,
    conversions,
    documents,
    elements,
    from_json,
    intervals,
    lambdas,
    maps,
    moments,
    numbers,
    numerals,
    patterns,
    text,
    times,
)
from everview.sql.functions.aggregated import AGGREGATE_MACROS
from everview.sql.functions.elsewhere import INSTEAD
from everview.sql.functions.entry import Function
from everview.sql.macros import SHARED_MACROS
from everview.sql.sql_text import SqlText

FUNCTIONS: Final = (
    *conversions.FUNCTIONS,
    *choices.FUNCTIONS,
    *elements.FUNCTIONS,
    *arrays.FUNCTIONS,
    *lambdas.FUNCTIONS,
    *maps.FUNCTIONS,
    *text.FUNCTIONS,
    *patterns.FUNCTIONS,
    *codes.FUNCTIONS,
    *addresses.FUNCTIONS,
    *numbers.FUNCTIONS,
    *numerals.FUNCTIONS,
    *times.FUNCTIONS,
    *moments.FUNCTIONS,
    *intervals.FUNCTIONS,
    *documents.FUNCTIONS,
    *from_json.FUNCTIONS,
)
"""Every entry."""
FUNCTION_BY_NAME: Final = {name: entry for entry in FUNCTIONS for name in entry.names}
"""Every entry by each of its names."""
MACROS: Final = {
    **SHARED_MACROS,
    **{s: meaning for entry in FUNCTIONS for s, meaning in entry.macros.items()},
    **AGGREGATE_MACROS,
}
"""What DuckDB is taught, in its dialect, by signature, each after those it calls."""

_LETTERS: Final = {
    "n": "a number",
    "i": "an integer",
    "s": "a string",
    "t": "a date or timestamp",
    "d": "a number or a length of time",
    "b": "a boolean",
    "y": "a string or binary",
    "a": "an array",
    "m": "a map",
    "c": "an array or a map",
    "f": "a lambda, such as x -> x + 1,",
    "x": "anything",
}


def known_functions() -> list[str]:
    """Every function and aggregate by name, to suggest from."""
    return [*FUNCTION_BY_NAME, *BY_NAME]


def entry_of(node: exp.Expr) -> Function | None:
    """The entry of the function that a node calls; None if it is no call, or of another."""
    return FUNCTION_BY_NAME.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None


def is_strict(name: str) -> bool:
    """True if the function is NULL only where an argument is."""
    return FUNCTION_BY_NAME[name].is_strict


def is_span(node: exp.Anonymous) -> bool:
    """True for ``datediff(unit, start, end)`` and its other names: the whole units between two times."""
    entry = entry_of(node)
    return entry is not None and entry.takes_unit and len(node.expressions) == 3


def accepts(letter: str, type_: DataType) -> bool:
    """True if an argument of that type fits the parameter."""
    if type_.is_open or letter in "xf":
        return True
    return {
        "n": type_.is_numeric,
        "i": type_.is_integer,
        "d": type_.is_numeric or type_.kind is Kind.DAY_TIME,
        "s": type_.kind is Kind.STRING,
        "t": type_.is_temporal or type_.kind is Kind.STRING,
        "b": type_.kind is Kind.BOOLEAN,
        "y": type_.kind in (Kind.STRING, Kind.BINARY),
        "a": type_.kind is Kind.ARRAY,
        "m": type_.kind is Kind.MAP,
        "c": type_.kind in (Kind.ARRAY, Kind.MAP),
    }[letter]


def call_type(node: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """Check a function call's arguments and give its type."""
    name = node.name.lower()
    entry = FUNCTION_BY_NAME.get(name)
    if entry is None:
        raise _foreign(node, source)
    _check_count(node, entry, len(types), source)
    for index, (argument, type_) in enumerate(zip(node.expressions, types, strict=True)):
        letter = entry.parameter(index)
        if not accepts(letter, type_) or (letter == "f") is not isinstance(argument, exp.Lambda):
            raise source.mismatch(
                f"{name} takes {_LETTERS[letter]} as argument {index + 1}, and this is {type_}",
                argument,
                hint="CAST the argument",
            )
    return entry.result if isinstance(entry.result, DataType) else entry.result(node, types, source)


def spelled(node: exp.Anonymous, type_: DataType, types: Mapping[int, DataType]) -> exp.Expr:
    """A checked call as DuckDB computes it; ``types`` are those of nodes."""
    arguments = node.expressions
    entry = FUNCTION_BY_NAME[node.name.lower()]
    return entry.spelled(node.name.lower(), arguments, [types.get(id(a)) for a in arguments], type_)


def _check_count(node: exp.Anonymous, entry: Function, given: int, source: SqlText) -> None:
    least, most = entry.least, entry.most
    if given >= least and (most is None or given <= most):
        return
    wanted = f"{least}" if least == most else f"at least {least}" if most is None else f"{least} to {most}"
    plural = "" if wanted == "1" or (most is None and least == 1) else "s"
    raise source.mismatch(f"{node.name.lower()} takes {wanted} argument{plural}, and here are {given}", node)


def _foreign(node: exp.Anonymous, source: SqlText) -> EverviewError:
    """The error for a function without an entry: what nobody has compared with Spark is not computed."""
    name = node.name.lower()
    if name in INSTEAD:
        message = f"the function {name} is not one of Spark's"
        return source.unsupported(f"function {name}", node, message=message, hint=f"write {INSTEAD[name]}")
    if name.upper() not in Spark.Parser.FUNCTIONS:
        return source.unknown("function", name, node, known_functions(), "")
    return source.unsupported(
        f"function {name}", node, message=f"the function {name} is not known here", hint="use another function"
    )
