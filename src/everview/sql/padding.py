"""CHAR in comparisons: of two columns the shorter one, and a literal, are padded with blanks, as Spark does.

Values of a CHAR column have its length already (``engine/input/read.py``). Only a column by itself is padded: what is
computed from it is a string like others, and so is what it is compared with, if it is neither CHAR nor constant.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from everview.query.types import DataType, Kind
from everview.sql.sql_text import SqlText


def pad(nodes: Sequence[exp.Expr], types: Sequence[DataType], source: SqlText) -> None:
    """Bring CHAR columns and the literals that they are compared with to one length, in the tree."""
    padded = [type_.length or 0 for type_ in types if type_.padded]
    if not padded:
        return
    others = [node for node, type_ in zip(nodes, types, strict=True) if not type_.padded]
    if isinstance(nodes[0].parent, exp.In) and any(node.find(exp.Column) for node in others):
        return
    literals = [bare for node in others if isinstance(bare := node.unnest(), exp.Literal) and bare.is_string]
    constants = [
        node
        for node, type_ in zip(nodes, types, strict=True)
        if type_.kind is Kind.STRING and not type_.padded and not node.find(exp.Column)
    ]
    for node in (c for c in constants if not isinstance(c.unnest(), exp.Literal)):
        raise source.unsupported(
            "CHAR beside a computed constant",
            node,
            message="a CHAR column is compared with a constant that is computed",
            hint="write the constant as a literal",
        )
    width = max(*padded, *(len(literal.name) for literal in literals), 0)
    for literal in literals:
        literal.set("this", literal.name.ljust(width))
    for node, type_ in zip(nodes, types, strict=True):
        if type_.padded and (type_.length or 0) < width:
            longer = exp.Anonymous(this="rpad")
            node.replace(longer)
            longer.set("expressions", [node, exp.Literal.number(width)])
