"""What a formula in SQL asks of a number of rows: COUNT compared with numbers, also modulo a number."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from everview.query.formula import (
    FALSE,
    TRUE,
    AtLeast,
    Condition,
    Formula,
    Not,
    Residue,
    conjunction,
    disjunction,
)
from everview.sql.aggregates import is_aggregate, read_aggregate
from everview.sql.formula_syntax import MOST_NUMBER
from everview.sql.nested import bare
from everview.sql.sql_text import SqlText

MOST_RESIDUES: Final = 100
"""A comparison of a remainder other than by = is spelled out for each of so many remainders at most."""
_COMPARED: Final[dict[type[exp.Expr], tuple[str, str, Callable[[int, int], bool]]]] = {
    exp.EQ: ("=", "=", operator.eq),
    exp.NEQ: ("<>", "<>", operator.ne),
    exp.GT: (">", "<", operator.gt),
    exp.GTE: (">=", "<=", operator.ge),
    exp.LT: ("<", ">", operator.lt),
    exp.LTE: ("<=", ">=", operator.le),
}
"""Of each comparison its sign, that of the same with sides exchanged, and what it says of two numbers."""
_HOLDS: Final = {sign: holds for sign, _, holds in _COMPARED.values()}


@dataclass(frozen=True)
class Count:
    """COUNT(*), COUNT(x) or COUNT(DISTINCT x) of a subquery's rows, or those of a group; perhaps modulo a number."""

    node: exp.Expr
    select: exp.Select | None
    """The subquery; None for a count of a group, as in HAVING."""
    column: exp.Column | None
    """What is counted; None if it is rows."""
    is_distinct: bool
    modulus: int | None = None


@dataclass(frozen=True)
class CountTest:
    """A count compared with a number: ``sign`` is one of = <> < <= > >=."""

    count: Count
    sign: str
    number: int

    def formula(self, asked: Callable[[Condition], Formula]) -> Formula:
        """The test, where ``asked`` says that the number of witnesses meets a condition."""
        number, modulus = self.number, self.count.modulus
        if modulus is not None:
            residues = [number] if self.sign in ("=", "<>") else range(modulus)
            holds = _HOLDS["=" if self.sign == "<>" else self.sign]
            met = [asked(Residue(i, modulus)) for i in residues if 0 <= i < modulus and holds(i, number)]
            found = disjunction(met)
            return Not(found) if self.sign == "<>" else found

        def least(of: int) -> Formula:
            return asked(AtLeast(of)) if of > 0 else TRUE

        exact = conjunction((least(number), Not(least(number + 1)))) if number >= 0 else FALSE
        return {
            "=": exact,
            "<>": Not(exact),
            ">=": least(number),
            ">": least(number + 1),
            "<": Not(least(number)),
            "<=": Not(least(number + 1)),
        }[self.sign]


def counted(source: SqlText, node: exp.Expr) -> Count | None:
    """The count that an expression is; None if it is something else."""
    node = bare(node)
    if isinstance(node, exp.Mod) or (isinstance(node, exp.Anonymous) and node.name.upper() == "MOD"):
        left, right = (node.this, node.expression) if isinstance(node, exp.Mod) else node.expressions
        found = counted(source, left)
        if found is None:
            return None
        modulus = _whole(bare(right))
        if modulus is None or not 2 <= modulus <= MOST_NUMBER or found.modulus is not None:
            raise source.query(f"a count is divided by a number from 2 to {MOST_NUMBER:,}", right)
        return replace(found, modulus=modulus)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        select = node.this
        if len(select.expressions) != 1:
            return None
        inner = counted(source, select.expressions[0].unalias())
        return None if inner is None else replace(inner, select=select)
    if is_aggregate(node) or isinstance(node, exp.Filter):
        call = read_aggregate(source, node)
        if call is None:
            return None
        if call.name != "count" or call.condition is not None:
            raise source.unsupported(
                f"{call.name} in a formula", node, hint="a formula counts: COUNT(*), COUNT(DISTINCT x)"
            )
        if len(call.arguments) > 1:
            raise source.unsupported("COUNT of several columns", node, hint="count one column, or COUNT(*)")
        column = bare(call.argument) if call.argument is not None else None
        if column is not None and not isinstance(column, exp.Column):
            raise source.unsupported("COUNT of an expression in a formula", column, hint="count a column")
        return Count(node, None, column, call.distinct)
    return None


def count_tests(source: SqlText, node: exp.Expr) -> list[CountTest]:
    """The comparisons of a count that a condition is, all of which must hold; none if it is something else."""
    node = bare(node)
    if isinstance(node, exp.Between):
        count = counted(source, node.this)
        bounds = ((">=", node.args["low"]), ("<=", node.args["high"]))
        return [] if count is None else [_test(source, count, sign, bound) for sign, bound in bounds]
    if type(node) not in _COMPARED:
        return []
    sign, turned, _ = _COMPARED[type(node)]
    for own, one, other in ((sign, node.this, node.expression), (turned, node.expression, node.this)):
        count = counted(source, one)
        if count is not None:
            return [_test(source, count, own, other)]
    return []


def _test(source: SqlText, count: Count, sign: str, number: exp.Expr) -> CountTest:
    found = _whole(bare(number))
    if found is None or abs(found) > MOST_NUMBER:
        raise source.unsupported(
            "a count compared with something else than a number",
            number,
            hint=f"compare it with a whole number up to {MOST_NUMBER:,}",
        )
    if count.modulus is not None and count.modulus > MOST_RESIDUES and sign not in ("=", "<>"):
        raise source.query(f"a remainder by more than {MOST_RESIDUES} is compared by = only", number)
    return CountTest(count, sign, found)


def _whole(node: exp.Expr) -> int | None:
    if isinstance(node, exp.Neg):
        inner = _whole(bare(node.this))
        return None if inner is None else -inner
    is_whole = isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and len(node.name) < 10
    return int(node.name) if is_whole else None
