"""What a view may not hold: one table of clauses, and the errors for the rest."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError
from everview.query.types import DataType
from everview.sql.sql_text import SqlText

_ORDERED = "a view is a bag of rows: cut or order it when you read it"
TIME_WINDOWS = (
    "a time window stands in the SELECT list, GROUP BY, HAVING or ORDER BY",
    "compare the timestamp itself, or make the window in a subquery in FROM",
)
"""What is wrong with window(…) elsewhere, and what to do."""
CLAUSES: dict[str, tuple[str, tuple[str, ...], str]] = {
    # argument of the tree: construct, the keywords it begins with, hint
    "limit": ("LIMIT", ("LIMIT", "FETCH", "TOP"), _ORDERED),
    "offset": ("OFFSET", ("OFFSET",), _ORDERED),
    "qualify": ("QUALIFY", ("QUALIFY",), "window functions are not supported"),
    "windows": ("window function", ("WINDOW",), "use GROUP BY"),
    "laterals": ("LATERAL VIEW", ("LATERAL",), "write it behind FROM and its joins"),
    "pivots": ("PIVOT", ("PIVOT", "UNPIVOT"), "define a view by it, and read that"),
    "sample": ("TABLESAMPLE", ("TABLESAMPLE",), "sample when you read the view: view.sample(n)"),
    "into": ("SELECT INTO", ("INTO",), "use CREATE MATERIALIZED VIEW … AS SELECT …"),
    "version": ("time travel", ("VERSION", "TIMESTAMP", "FOR"), "a view is about the tables as they are now"),
    "when": ("time travel", ("VERSION", "TIMESTAMP", "FOR"), "a view is about the tables as they are now"),
    "changes": ("time travel", ("CHANGES",), "a view is about the tables as they are now"),
    "connect": ("CONNECT BY", ("CONNECT", "START"), "recursion is not supported"),
    "match": ("MATCH_RECOGNIZE", ("MATCH_RECOGNIZE",), "use joins"),
    "distribute": ("DISTRIBUTE BY", ("DISTRIBUTE",), _ORDERED),
    "cluster": ("CLUSTER BY", ("CLUSTER",), _ORDERED),
    "sort": ("SORT BY", ("SORT",), _ORDERED),
    "prewhere": ("PREWHERE", ("PREWHERE",), "use WHERE"),
    "kind": ("SELECT AS STRUCT", ("SELECT",), "select plain columns"),
    "locks": ("FOR UPDATE", ("FOR",), "drop it"),
    "only": ("ONLY", ("ONLY",), "drop it"),
    "ordinality": ("WITH ORDINALITY", ("WITH",), "drop it"),
    "rows_from": ("ROWS FROM", ("ROWS",), "join tables"),
    "partition": ("PARTITION", ("PARTITION",), "use WHERE"),
    "system_time": ("time travel", ("FOR",), "a view is about the tables as they are now"),
    "by_name": ("UNION BY NAME", ("BY",), "list the columns in order"),
    "match_condition": ("ASOF JOIN", ("ASOF", "MATCH_CONDITION"), "join by equality"),
    "operation_modifiers": ("SELECT modifier", ("SELECT",), "drop it"),
    "exclude": ("SELECT EXCLUDE", ("EXCLUDE",), "list the columns"),
}


def refuse_clauses(source: SqlText, node: exp.Expr, allowed: Iterable[str]) -> None:
    """Raise for the first clause of a node that is not among the allowed ones."""
    known = set(allowed)
    for name, value in node.args.items():
        if not value or name in known:
            continue
        construct, words, hint = CLAUSES.get(name, (name.strip("_").replace("_", " ").upper(), (), "drop it"))
        first = value[0] if isinstance(value, list) else value
        raise source.unsupported(construct, source.clause(node, first, words), hint)


_OF_OTHERS: Final[tuple[tuple[type[exp.Expr], str, str, str], ...]] = (
    (exp.Limit, "expressions", "LIMIT … BY", "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY k) <= 2"),
    (exp.Offset, "expressions", "LIMIT … BY", "QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY k) <= 2"),
    (exp.Ordered, "with_fill", "WITH FILL", "LEFT JOIN from the values that are to be there"),
    (exp.Cast, "format", "CAST … FORMAT", "to_date(s, 'yyyy-MM-dd'), to_number and to_char take a format"),
    (exp.Cast, "default", "CAST … DEFAULT", "coalesce(try_cast(x AS t), y)"),
    (exp.Between, "symmetric", "BETWEEN SYMMETRIC", "BETWEEN least(a, b) AND greatest(a, b)"),
    (exp.In, "is_global", "GLOBAL IN", "x IN (SELECT …)"),
)
"""What sqlglot reads in any dialect, other systems mean by it, and Spark does not have: node, argument, words, hint."""


def refuse_other_systems(source: SqlText, statement: exp.Expr) -> None:
    """Raise for what would be read and then not looked at."""
    for node in statement.find_all(*{kind for kind, *_ in _OF_OTHERS}):
        for kind, argument, words, hint in _OF_OTHERS:
            value = node.args.get(argument)
            if value and isinstance(node, kind):
                place = value[0] if isinstance(value, list) else node.this or node
                raise source.unsupported(words, place, hint=f"write {hint}")


def refuse_join(source: SqlText, join: exp.Join) -> None:
    """Raise for joins that are not inner, outer, cross, natural, semi or anti."""
    side, kind, method = join.side, join.kind, join.method
    if method not in ("", "NATURAL"):
        hint = "join by equality"
        if method == "ASOF":
            hint = "LEFT JOIN LATERAL (SELECT … WHERE b.ts <= a.ts ORDER BY b.ts DESC LIMIT 1) ON TRUE"
        raise source.unsupported(f"{method} JOIN", source.keyword(join.this, method), hint=hint)
    if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
        return
    if kind in ("SEMI", "ANTI"):
        hint = f"write the other side first: LEFT {kind} JOIN"
        raise source.unsupported(f"{side} {kind} JOIN", source.keyword(join.this, side), hint)
    if kind not in ("", "INNER", "CROSS", "OUTER"):
        raise source.unsupported(f"{kind} JOIN", source.keyword(join.this, kind), hint="use JOIN … ON")
    if side and join.args.get("on") is None and not join.args.get("using") and method != "NATURAL":
        word = f"{side} JOIN"
        raise source.syntax(f"{word} without a condition", source.keyword(join.this, side), hint="add ON, or USING")


def refuse_subquery(source: SqlText, node: exp.Expr, place: str) -> EverviewError:
    """The error for a subquery that stands where none is maintained."""
    return source.unsupported(
        f"subquery in {place}",
        source.position(node),
        hint="make it a column of a subquery in FROM, and use that: FROM (SELECT *, (SELECT …) AS m FROM t) AS t",
    )


def refuse_map(source: SqlText, type_: DataType, where: exp.Expr, clause: str) -> None:
    """Raise if values of a type cannot be compared, and a clause would have to."""
    if not type_.has_order:
        raise source.mismatch(
            f"{clause} cannot compare values of type {type_}",
            source.position(where),
            hint="a MAP has no order: take map_entries(m), map_keys(m), or single values as m['key']",
        )


def refuse_expression(source: SqlText, node: exp.Expr) -> EverviewError:
    """The error for an expression that the checker does not know."""
    if isinstance(node, exp.Window):
        return source.unsupported("window function", node, hint="use GROUP BY and join the result")
    if isinstance(node, exp.Star):
        return source.syntax("* may only stand in a SELECT list or in COUNT(*)", node)
    if isinstance(node, exp.Dot | exp.Bracket):
        construct = "struct field access" if isinstance(node, exp.Dot) else "element access"
        return source.unsupported(construct, node, hint="store it in a column of its own")
    if isinstance(node, exp.Placeholder | exp.Parameter | exp.SessionParameter):
        return source.unsupported("parameter", node, hint="write the value itself: a view has no parameters")
    if isinstance(node, exp.Alias):
        return source.syntax(f"an alias cannot stand here: {node.alias}", node.args["alias"])
    if isinstance(node, exp.Collate):
        return source.unsupported("COLLATE", node, hint="text is compared byte by byte; lower(x) ignores case")
    if isinstance(node, exp.Tuple):
        return source.unsupported("row value", node, hint="compare the columns one by one")
    if isinstance(node, exp.Distinct):
        return source.syntax("DISTINCT may only stand after SELECT or in an aggregate", node)
    if isinstance(node, exp.Order):
        hint = "leave it out; texts are put in order by LISTAGG(x, ', ') WITHIN GROUP (ORDER BY k)"
        return source.unsupported("ORDER BY in an aggregate", node.expressions[0], hint=hint)
    if isinstance(node, exp.Kwarg):
        return source.unsupported(
            "argument by name", node.this, hint="write the arguments in order, without their names"
        )
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__).lower()
    return source.unsupported(words, node)
