"""Nodes of trees that calls of functions are spelled out with, and the refusal of those that cannot be."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from everview.errors import UnsupportedError
from everview.query.types import DataType
from everview.sql.datatypes import spark_name
from everview.sql.dialect import EverviewSpark

NUMBER: Final = "everview"
"""Under this name the nodes of a query that is spelled out for DuckDB have their numbers, in ``node.meta``."""


def refused(what: str, why: str) -> UnsupportedError:
    """DuckDB would compute something else."""
    return UnsupportedError(
        f"{what} cannot be computed in a view: {why}",
        construct="expression",
        hint="use another function, or put the value into a column of a table",
    )


def is_whole(node: exp.Expr) -> bool:
    """True for a number without sign and point, as it is written."""
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit()


def cast(node: exp.Expr, type_: DataType) -> exp.Expr:
    """A node in a type."""
    return exp.Cast(this=node.copy(), to=exp.DataType.build(spark_name(type_), dialect=EverviewSpark))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A function of some nodes."""
    return exp.Anonymous(this=name, expressions=[a.copy() for a in arguments])


def standing_for(node: exp.Expr) -> exp.Column:
    """A column in the place of a node, where errors find it."""
    found = exp.Column(this=exp.to_identifier(node.name or "window", quoted=True))
    first = next((n for n in node.walk() if "start" in n.meta), None)
    if first is not None:
        found.meta.update({k: v for k, v in first.meta.items() if k in ("line", "col", "start", "end")})
        found.this.meta.update(found.meta)
    if NUMBER in node.meta:  # what it is the type of is the node that it stands for
        found.meta[NUMBER] = node.meta[NUMBER]
    return found
