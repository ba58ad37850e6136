"""How large an expression becomes once DuckDB has written its macros out.

A macro's argument stands as often in the result as its parameter in the macro, so calls within calls grow as a power of
their depth: forty nested ``replace`` would have more nodes than fit any memory.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import sqlglot
from sqlglot import exp

from everview.errors import SizeError
from everview.sql.functions.registry import MACROS
from everview.sql.limits import MOST_EXPANDED

_BODIES: Final = {s.partition("(")[0]: (s.partition("(")[2].rstrip(")").split(", "), m) for s, m in MACROS.items()}


class _Macro(NamedTuple):
    """How often each argument is written out, and how many nodes there are besides."""

    uses: tuple[int, ...]
    nodes: int


def check_expansion(tree: exp.Expr, what: str) -> None:
    """Raise if a tree for DuckDB, whose functions are taught, is too large once they are written out."""
    calls = [node for node in tree.find_all(exp.Anonymous) if node.name.lower() in _BODIES]
    if len(calls) > 1 and _size(tree, ()).nodes > MOST_EXPANDED:
        raise SizeError(
            f"{what if len(what) < 100 else 'the expression'} calls functions within functions, and is too large to "
            "compute once they are written out",
            hint="make the inner calls columns of a view of their own, and read that",
        )


@cache
def _macro(name: str) -> _Macro:
    parameters, body = _BODIES[name]
    return _size(sqlglot.parse_one(body, read="duckdb"), tuple(parameters))


def _size(tree: exp.Expr, parameters: tuple[str, ...]) -> _Macro:
    """The uses of some columns in a tree, and its other nodes."""
    times: dict[int, int] = {}
    uses, nodes = dict.fromkeys(parameters, 0), 0
    for node in tree.walk():  # parents come before what is in them
        around = node.parent if node is not tree else None
        count = times[id(around)] if around is not None else 1
        if isinstance(around, exp.Anonymous) and around.name.lower() in _BODIES and node.arg_key == "expressions":
            count *= _macro(around.name.lower()).uses[node.index or 0]
        times[id(node)] = count
        if isinstance(node, exp.Column) and node.name in uses:
            uses[node.name] += count
        elif isinstance(node, exp.Anonymous) and node.name.lower() in _BODIES:
            nodes += count * _macro(node.name.lower()).nodes
        else:
            nodes += count
    return _Macro(tuple(uses.values()), nodes)
