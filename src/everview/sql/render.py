"""From a checked tree to an ``Expression``: Spark SQL text with holes where the columns were."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from everview.errors import SizeError
from everview.query.terms import Expression, Var
from everview.query.types import DataType
from everview.sql.dialect import EverviewSpark
from everview.sql.limits import MOST_PARTS

Hole = Callable[[exp.Expr], Expression | None]
"""What a node is to be replaced by; None to keep it and look inside."""

_TAG = "everview_hole"


def render(node: exp.Expr, hole: Hole, type_: DataType) -> Expression:
    """The text of a tree, with every node that ``hole`` knows replaced by the expression it gives.

    The tree is copied, its holes become identifiers that occur nowhere else in it, and the generated text is cut at
    them: the generator alone decides about blanks, parentheses and quoting.
    """
    fillings: list[Expression] = []
    tagged: list[exp.Expr] = []

    def look(n: exp.Expr) -> bool:
        filling = hole(n)
        if filling is None:
            return False
        n.meta[_TAG] = len(fillings)
        tagged.append(n)
        fillings.append(filling)
        return True

    for _ in node.walk(bfs=False, prune=look):
        pass
    copy = node.copy()
    for n in tagged:
        del n.meta[_TAG]
    prefix = _unused_prefix(copy)

    def punch(n: exp.Expr) -> exp.Expr:
        if _TAG not in n.meta:
            return n
        column = exp.column(f"{prefix}{n.meta[_TAG]}_")
        return exp.paren(column, copy=False) if isinstance(n.parent, exp.Neg) else column

    text = copy.transform(punch, copy=False).sql(EverviewSpark, comments=False)
    pieces = re.split(rf"{prefix}(\d+)_", text)
    names = [Var(f"{prefix}{i}") for i in range(len(fillings))]
    parts = [names[int(piece)] if i % 2 else piece for i, piece in enumerate(pieces)]
    skeleton = Expression(tuple(p for p in parts if p != ""), type_)
    size = len(skeleton.parts) + sum(len(filling.parts) - 1 for filling in fillings)
    if size > MOST_PARTS:
        raise SizeError(
            f"the expression has {size} parts once those that it reads are written out in it, and {MOST_PARTS} is the "
            "most there may be",
            hint="make the inner query a view of its own: then its columns are computed once, and read",
        )
    return skeleton.inline(dict(zip(names, fillings, strict=True)))


def _unused_prefix(node: exp.Expr) -> str:
    text = node.sql(EverviewSpark, comments=False)
    prefix = "ev"
    while prefix in text:
        prefix += "v"
    return prefix
