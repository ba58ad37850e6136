"""How many bytes of text expressions make, asked before they are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sqlglot import exp

from everview.query.terms import Expression, Var
from everview.query.types import DataType
from everview.sql.dialect import EverviewDuckDB
from everview.sql.duckdb import spelled_tree

_LONGEST_CHARACTER: Final = 4


def made_bytes(
    expressions: Sequence[Expression], names: Mapping[Var, str], types: Mapping[Var, DataType]
) -> str | None:
    """The most bytes that the expressions make of a row, as DuckDB reads it; None if they make no text longer.

    Branches that are not taken count, too; where an argument cannot be computed, its text is not made.
    """
    found = []
    for expression in expressions:
        tree = spelled_tree(expression, names, types)
        found += [f"coalesce(TRY({_size(node)}), 0)" for node in tree.find_all(exp.Anonymous) if _rule(node)]
    return " + ".join(found) or None


def _rule(node: exp.Expr) -> Callable[[Sequence[exp.Expr]], str] | None:
    return _SIZES.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None


def _size(node: exp.Expr) -> str:
    """The size of a text; of one that is made from longer ones, a bound that needs none of them."""
    rule = _rule(node)
    if rule is not None:
        return rule(node.expressions)
    inner = [n for n in node.find_all(exp.Anonymous) if _rule(n)]
    if not inner:
        return f"CAST(strlen({node.sql(EverviewDuckDB)}) AS HUGEINT)"
    return f"{_LONGEST_CHARACTER} * ({' + '.join(_size(n) for n in inner)})"


def _count(node: exp.Expr) -> str:
    return f"greatest(CAST({node.sql(EverviewDuckDB)} AS HUGEINT), 0)"


def _of_padded(arguments: Sequence[exp.Expr]) -> str:
    if any(_rule(n) for a in arguments for n in a.find_all(exp.Anonymous)):
        return f"{_LONGEST_CHARACTER} * {_count(arguments[1])}"
    return f"greatest(spark_padding({', '.join(a.sql(EverviewDuckDB) for a in arguments)}), 0)"


def _of_replaced(arguments: Sequence[exp.Expr]) -> str:
    text, new = arguments[0], arguments[2]
    if any(_rule(n) for n in text.find_all(exp.Anonymous)):
        return f"{_size(text)} * (1 + {_size(new)})"
    shown = ", ".join(a.sql(EverviewDuckDB) for a in arguments[:2])
    return f"{_size(text)} + spark_occurrences({shown}) * {_size(new)}"


_SIZES: Final[dict[str, Callable[[Sequence[exp.Expr]], str]]] = {
    "spark_repeat": lambda a: f"{_size(a[0])} * {_count(a[1])}",
    "spark_space": lambda a: _count(a[0]),
    "spark_lpad": _of_padded,
    "spark_rpad": _of_padded,
    "spark_replace": _of_replaced,
    "spark_regexp_replace": lambda a: f"{_size(a[0])} * (1 + {_count(a[4])}) + (1 + {_size(a[0])}) * {_count(a[3])}",
}
