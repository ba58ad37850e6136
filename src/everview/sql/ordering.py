"""ORDER BY with LIMIT, OFFSET or FETCH: the first rows of a query in one total order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from everview.query.view import Body, Counting, Cut, Output, SortKey
from everview.sql.nodes import is_whole
from everview.sql.sql_text import SqlText

CUTS: Final = ("limit", "offset")
TIES_REMARK: Final = (
    "rows that ORDER BY calls equal are in the order of the output columns, so that it is always the same ones that "
    "LIMIT takes"
)
HIDDEN: Final = "$order"
"""How columns are called that are only there to be put in order by."""


@dataclass(frozen=True)
class Bounds:
    """How many rows are taken, and how many before them are not."""

    limit: int | None
    offset: int
    has_ties: bool


def is_cut(query: exp.Expr) -> bool:
    """True if only some rows of a query are wanted."""
    return any(query.args.get(name) for name in CUTS)


def read_bounds(source: SqlText, query: exp.Expr) -> Bounds:
    """What LIMIT, FETCH and OFFSET say."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    count = None
    options = limit.args.get("limit_options") if limit is not None else None
    has_ties = options is not None and bool(options.args.get("with_ties"))
    if options is not None and options.args.get("percent"):
        place = source.clause(query, limit, ("FETCH", "LIMIT"))
        raise source.unsupported("PERCENT of the rows", place, hint="take a number of rows")
    if isinstance(limit, exp.Fetch):
        amount = limit.args.get("count")
        count = 1 if amount is None else _number(source, query, limit, amount)
    elif limit is not None:
        amount = limit.args.get("expression")
        is_all = isinstance(amount, exp.Var | exp.Column) and amount.name.upper() == "ALL"
        count = None if is_all else _number(source, query, limit, amount)
    skipped = 0 if offset is None else _number(source, query, offset, offset.args.get("expression"))
    if has_ties and not query.args.get("order"):
        raise source.query(
            "WITH TIES needs ORDER BY", source.clause(query, limit, ("FETCH",)), hint="say what makes rows equal"
        )
    if has_ties and skipped:
        raise source.unsupported(
            "OFFSET with WITH TIES", source.clause(query, offset, ("OFFSET",)), hint="leave out one of the two"
        )
    return Bounds(count, skipped, has_ties)


def _number(source: SqlText, query: exp.Expr, clause: exp.Expr, amount: exp.Expr | None) -> int:
    amount = amount.unnest() if amount is not None else None
    if amount is None or not is_whole(amount) or int(amount.name) >= 2**63:
        word = "OFFSET" if isinstance(clause, exp.Offset) else "LIMIT"
        raise source.unsupported(
            f"{word} of an expression",
            source.clause(query, clause, (word, "FETCH")),
            message=f"{word} takes a whole number here",
            hint=f"write {word} 10",
        )
    return int(amount.name)


def ordered(node: exp.Expr) -> tuple[exp.Expr, bool, bool]:
    """What is put in order by, whether descending, and whether NULL comes first."""
    if not isinstance(node, exp.Ordered):
        return node, False, True
    return node.this, bool(node.args.get("desc")), bool(node.args.get("nulls_first"))


def is_all(key: exp.Expr) -> bool:
    """True for the ALL of ORDER BY ALL: all outputs, from left to right."""
    return isinstance(key, exp.Var) and key.name.upper() == "ALL"


def spelled_all(items: Sequence[exp.Expr], width: int) -> list[exp.Expr]:
    """The keys of ORDER BY, with one for each of so many outputs in the place of ALL."""
    found: list[exp.Expr] = []
    for item in items:
        if not is_all(ordered(item)[0]):
            found.append(item)
            continue
        for number in range(1, width + 1):
            one = item.copy()
            one.set("this", exp.Literal.number(number))
            found.append(one)
    return found


def output_place(source: SqlText, key: exp.Expr, names: Sequence[str], same: Sequence[object]) -> int | None:
    """The output that a key of ORDER BY names, by its number or its name; None if it is an expression.

    Outputs of one name are no trouble where they are the ``same``.
    """
    key = key.unnest()
    if is_whole(key):
        if not 1 <= int(key.name) <= len(names):
            raise source.query(
                f"ORDER BY {key.name}: the SELECT list has {len(names)} columns", key, hint="count from 1"
            )
        return int(key.name) - 1
    if not isinstance(key, exp.Column) or key.table:
        return None
    found = [i for i, name in enumerate(names) if name.lower() == key.name.lower()]
    if len({same[i] for i in found}) > 1:
        raise source.ambiguous(
            f"{key.name} is ambiguous: {len(found)} output columns have the name", key, hint="order by a number"
        )
    return found[0] if found else None


def cut(body: Body, columns: Sequence[Output], keys: Sequence[SortKey], bounds: Bounds) -> Cut:
    """The first rows of a body, in the order of the keys, then of the columns."""
    counting = Counting.RANKS if bounds.has_ties else Counting.ROWS
    first: dict[int, SortKey] = {}
    for key in keys:
        first.setdefault(key.column, key)
    return Cut(body, tuple(first.values()), tuple(columns), bounds.limit, bounds.offset, (), counting)
