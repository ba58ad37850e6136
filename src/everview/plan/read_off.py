"""Which rows of its relations a result row is made of, where it says so itself: by all columns, or by a primary key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from everview.query.terms import Const, Term, Var
from everview.query.view import Block


class ReadOff(NamedTuple):
    """How the row of an atom, by its number, is known: by its key, whose columns these are, or, without, by all."""

    atom: int
    key: tuple[int, ...]


def read_off(
    block: Block, shown: Collection[Var], key_of: Callable[[str], tuple[int, ...]]
) -> tuple[ReadOff, ...] | None:
    """The atoms of a block, in an order in which the row of each is known from the variables that a result row shows.

    ``key_of`` gives the columns of a relation's primary key, by which its rows can be found. None if some atom's row is
    not known, as those of groups are not.
    """
    if block.grouping is not None:
        return None
    known, found = set(shown), list[ReadOff]()

    def are_known(terms: Collection[Term]) -> bool:
        return all(isinstance(t, Const) or t in known for t in terms)

    left = list(range(len(block.atoms)))
    while left:
        for i in left:
            atom = block.atoms[i]
            key = () if are_known(atom.terms) else key_of(atom.relation)
            if (not key and not are_known(atom.terms)) or not are_known([atom.terms[p] for p in key]):
                continue
            found.append(ReadOff(i, key))
            known |= atom.variables
            left.remove(i)
            break
        else:
            return None
    return tuple(found)
