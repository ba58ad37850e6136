"""ROW_NUMBER() <= k and the like: of each partition only the first rows are kept up to date.

A stage of window functions that ends with one ranking (all ROW_NUMBER, RANK and DENSE_RANK by one order), of which the
one block that reads it wants no more than the first so many ranks, reads a *cut* instead of all rows. Where nothing but
that condition reads the rank, the ranking itself goes, too: what is left is the cut. So "the latest row for each key"
costs O(log N) an update, and no partition is computed anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from everview.query.conjunctive import Atom
from everview.query.terms import Const, Expression, Term, Var
from everview.query.view import Block, Body, Counting, Cut, Stage, View, Windowed, blocks, each_block
from everview.sql.windows import RANKING

_HOLE: Final = "\0"
_COUNTINGS: Final = {
    "row_number": Counting.ROWS,
    "rank": Counting.RANKS,
    "dense_rank": Counting.DENSE_RANKS,
}
_AT_MOST: Final = re.compile(rf"{_HOLE} <= (\d+)|(\d+) >= {_HOLE}|{_HOLE} BETWEEN 1 AND (\d+)")
_LESS: Final = re.compile(rf"{_HOLE} < (\d+)|(\d+) > {_HOLE}")
_WITHIN: Final = re.compile(rf"{_HOLE} BETWEEN \d+ AND (\d+)|{_HOLE} IN \((\d+(?:, \d+)*)\)")


@dataclass(frozen=True)
class _Wanted:
    """The first so many ranks that a block wants; ``condition`` says no more than that, if it is there."""

    limit: int
    condition: Expression | None
    is_whole: bool
    """True if the cut has exactly the rows that the condition lets through."""


def with_cuts(view: View) -> View:
    """The view with cuts in the place of rankings of which only the first are wanted."""
    for stage in view.stages:
        if isinstance(stage.body, Windowed) and all(c.name in RANKING for c in stage.body.calls):
            view = _with_cut(view, stage, stage.body)
    return view


def _bodies(view: View) -> Iterator[Body]:
    yield from (s.body for s in view.stages)
    yield view.body


def _with_cut(view: View, stage: Stage, windowed: Windowed) -> View:
    readers = [(b, a) for body in _bodies(view) for b in blocks(body) for a in b.atoms if a.relation == stage.name]
    if len(readers) != 1:
        return view
    (block, atom), first = readers[0], len(windowed.body.columns)
    found = [(w, i) for i in range(len(windowed.calls)) if (w := _wanted(block, atom, first + i)) is not None]
    if not found:
        return view
    wanted, number = min(found, key=lambda f: f[0].limit)
    call = windowed.calls[number]
    columns = windowed.body.columns
    cut = Cut(
        windowed.body,
        call.keys,
        columns,
        wanted.limit,
        partition=windowed.partition,
        counting=_COUNTINGS[call.name],
    )
    term = atom.terms[first + number]
    is_alone = wanted.is_whole and len(windowed.calls) == 1 and not _is_read(block, atom, term, wanted.condition)
    if not is_alone:
        return _replaced(view, replace(stage, body=replace(windowed, body=cut)), block, block)
    atoms = tuple(replace(a, terms=a.terms[:first]) if a is atom else a for a in block.atoms)
    predicates = tuple(p for p in block.predicates if p != wanted.condition)
    not_null = block.not_null - {t for t in (term,) if isinstance(t, Var)}
    changed = replace(block, atoms=atoms, predicates=predicates, not_null=not_null)
    purpose = "the first rows of each partition" if windowed.partition else "the first rows"
    return _replaced(view, replace(stage, body=cut, purpose=purpose), block, changed)


def _replaced(view: View, stage: Stage, block: Block, changed: Block) -> View:
    def change(one: Block) -> Block:
        return changed if one is block else one

    stages = (stage if s.name == stage.name else replace(s, body=each_block(s.body, change)) for s in view.stages)
    return replace(view, stages=tuple(stages), body=each_block(view.body, change))


def _wanted(block: Block, atom: Atom, place: int) -> _Wanted | None:
    """The first so many ranks in a column that a block wants; None if it may want any."""
    term = atom.terms[place]
    if isinstance(term, Const):
        is_number = isinstance(term.value, int) and not isinstance(term.value, bool)
        return _Wanted(int(str(term.value)), None, term.value == 1) if is_number and int(str(term.value)) > 0 else None
    found = [w for p in block.predicates if (w := _bound(p, term)) is not None]
    return min(found, key=lambda w: (w.limit, not w.is_whole)) if found else None


def _bound(predicate: Expression, variable: Var) -> _Wanted | None:
    if predicate.variables != frozenset((variable,)) or sum(p == variable for p in predicate.parts) != 1:
        return None
    text = "".join(_HOLE if p == variable else str(p) for p in predicate.parts).replace(f"({_HOLE})", _HOLE)
    for pattern, less, is_whole in ((_AT_MOST, 0, True), (_LESS, 1, True), (_WITHIN, 0, False)):
        match = pattern.fullmatch(text)
        if match is not None:
            numbers = next(g for g in match.groups() if g is not None).split(", ")
            limit = max(map(int, numbers)) - less
            return _Wanted(limit, predicate, is_whole) if 0 < limit < 2**31 else None
    return None


def _is_read(block: Block, atom: Atom, term: Term, condition: Expression | None) -> bool:
    """True if a block reads a column for more than one condition."""
    if isinstance(term, Const):
        return False
    grouping = block.grouping
    if sum(t == term for a in block.atoms for t in a.terms) > 1:
        return True
    expressions = [p for p in block.predicates if p != condition]
    expressions += [c.expression for a in block.atoms for c in a.computed]
    if grouping is None:
        expressions += [o.expression for o in block.outputs]
    else:
        expressions += [*grouping.keys, *(a.argument for a in grouping.aggregates if a.argument is not None)]
    return any(term in e.variables for e in expressions)
