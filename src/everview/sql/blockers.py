"""All that keeps a statement from being maintained, and not only the first thing.

Each blocker that is found is taken out of a copy of the statement (the clause, the output, the condition or the key
that it stands in), and the rest is read again, until it can be maintained or something else is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError

from everview.errors import EverviewError, Position, UnsupportedError
from everview.sql.chains import conjuncts
from everview.sql.refuse import CLAUSES
from everview.sql.sql_text import SqlText, position_at

MOST: Final = 12
"""So many blockers are told at most."""
_BEFORE: Final = 60
"""So many characters before what has a place in the text may an error point, at a keyword."""

Lower = Callable[[exp.Expr], object]
Piece = tuple[int, int, Callable[[], object]]
"""The first and the last character of a part of a query, and how to take it out."""


def other_blockers(source: SqlText, query: exp.Expr, first: UnsupportedError, lower: Lower) -> list[UnsupportedError]:
    """What else a query has that is not maintained; ``query`` is as it was before it was read for the first time."""
    found, tree = [first], query.copy()
    while len(found) < MOST and _take_out(source, tree, found[-1]):
        try:
            lower(tree.copy())
        except UnsupportedError as error:
            error.located(None, source.text)
            if error.position in [e.position for e in found]:
                break
            found.append(error)
        except (EverviewError, SqlglotError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            break  # it makes no sense any more without what was taken out
        else:
            break
    return sorted(found[1:], key=lambda e: (e.line or 0, e.column or 0))


def _take_out(source: SqlText, tree: exp.Expr, error: UnsupportedError) -> bool:
    """Take the part of a query out that an error points at; False if that cannot be done."""
    place = error.position
    if place is None:
        return False
    for node in tree.walk():
        for name, value in list(node.args.items()):
            if value and name in CLAUSES and isinstance(node, exp.Query | exp.Table):
                first = value[0] if isinstance(value, list) else value
                if source.clause(node, first, CLAUSES[name][1]) == place:
                    node.set(name, None)
                    return True
    offset = _offset(source.text, place)
    inside = [piece for piece in _pieces(tree) if piece[0] - _BEFORE <= offset <= piece[1]]
    if not inside:
        return False
    min(inside, key=lambda piece: piece[1])[2]()
    return True


def _offset(text: str, place: Position) -> int:
    lines = text.splitlines(keepends=True)
    offset = sum(map(len, lines[: place.line - 1])) + place.column - 1
    return offset if position_at(text, offset).line == place.line else 0


def _pieces(tree: exp.Expr) -> Iterator[Piece]:
    for select in tree.find_all(exp.Select):
        for node in select.expressions:
            yield from _piece(node, lambda node=node: node.replace(_nothing(node)))  # type: ignore[misc]
        for name in ("where", "having"):
            clause = select.args.get(name)
            parts = list(conjuncts(clause.this)) if clause is not None else []
            for part in parts:
                yield from _piece(part, lambda part=part: _drop(part))  # type: ignore[misc]
        group = select.args.get("group")
        for node in group.expressions if group is not None else ():
            yield from _piece(node, lambda node=node: node.pop())  # type: ignore[misc]


def _piece(node: exp.Expr, take_out: Callable[[], object]) -> Iterator[Piece]:
    places = [(n.meta["start"], n.meta["end"]) for n in node.walk() if "start" in n.meta]
    if places:
        yield min(start for start, _ in places), max(end for _, end in places), take_out


def _nothing(node: exp.Expr) -> exp.Expr:
    """An output in the place of one that is taken out."""
    return exp.Alias(this=exp.Null(), alias=exp.to_identifier(node.alias_or_name or "everview", quoted=True))


def _drop(part: exp.Expr) -> None:
    part.replace(exp.Boolean(this=True))
