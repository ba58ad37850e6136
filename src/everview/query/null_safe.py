"""``a <=> b`` in a block: columns of two atoms that are joined by their values and by whether they are NULL.

Both atoms compute two columns, ``coalesce(a, 0)`` and ``a IS NULL``, each of which is one variable with the other's. So
the columns hold the same, NULL included, though they are two variables.
"""

from __future__ import annotations

from dataclasses import replace

from everview.query.conjunctive import Atom
from everview.query.terms import Expression, Term, Var
from everview.query.view import Block, Grouping

_IS_NULL = (" IS NULL",)


def same_columns(block: Block) -> dict[Var, Var]:
    """Variables that hold what an earlier one holds, NULL included; each with the first of those."""
    seen: list[tuple[Atom, Var]] = []
    found: dict[Var, Var] = {}
    for atom in block.atoms:
        own = [(atom, t) for t in dict.fromkeys(atom.terms) if isinstance(t, Var) and atom.computed]
        for _, v in own:
            value = Expression.of(v)
            first = next((u for other, u in seen if are_same(other, Expression.of(u), atom, value)), None)
            if first is not None and first != v:
                found[v] = first
        seen += own
    return found


def are_same(one: Atom, value: Expression, other: Atom, second: Expression) -> bool:
    """True if values of two atoms are joined so that they are equal, or both are NULL."""
    made, known = _made(one, value), _made(other, second)
    shared = [how for how, term in made.items() if isinstance(term, Var) and known.get(how) == term]
    return _IS_NULL in shared and len(shared) > 1


def with_same_columns(block: Block) -> Block:
    """The block with one variable for them; it says where rows meet, and is not to be maintained: NULL joins in it."""
    same: dict[Var, Term] = {**same_columns(block)}
    if not same:
        return block
    grouping = block.grouping
    return replace(
        block,
        atoms=tuple(a.substitute(same) for a in block.atoms),
        predicates=tuple(p.substitute(same) for p in block.predicates),
        outputs=tuple(replace(o, expression=o.expression.substitute(same)) for o in block.outputs),
        grouping=grouping
        and Grouping(
            tuple(k.substitute(same) for k in grouping.keys),
            tuple(a.substitute(same) for a in grouping.aggregates),
            grouping.having,
        ),
        not_null=frozenset(t for v in block.not_null if isinstance(t := same.get(v, v), Var)),
    )


def _made(atom: Atom, value: Expression) -> dict[tuple[str | Term, ...], Term]:
    """The columns that say if a value is NULL, and have another one in its place, by what is written behind it."""
    parts = value.parts if value.term is not None else ("(", *value.parts, ")")
    found: dict[tuple[str | Term, ...], Term] = {}
    for column in atom.computed:
        whole = column.expression.parts
        if whole == (*parts, *_IS_NULL):
            found[_IS_NULL] = column.term
        elif whole[: len(parts) + 1] == ("coalesce(", *parts):
            found[whole[len(parts) + 1 :]] = column.term
    return found
