"""Methods that this version judges, so that ``explain`` can say what they would give, but does not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from everview.query.conjunctive import ConjunctiveQuery
from everview.strategies.core import Facts
from everview.strategies.strategy import Judgement


@dataclass(frozen=True)
class JudgedOnly:
    """A method by name, and its verdict on a core."""

    name: str
    judge: Callable[[Facts], Judgement]


def loomis_whitney_degree(query: ConjunctiveQuery) -> int | None:
    """n if the query joins n relations over n variables, each missing a different one; 3 is the triangle.

    Variables of one atom only and variables that occur in the same atoms are taken together (triangle.md 18.3).
    """
    shared = {frozenset(atoms) for atoms in query.atoms_of.values() if len(atoms) > 1}
    n = len(query.atoms)
    everywhere = frozenset(range(n))
    missing = [everywhere - atoms for atoms in shared if atoms != everywhere]
    return n if n >= 3 and len(missing) == n and all(len(m) == 1 for m in missing) else None


def _recompute(_: Facts) -> Judgement:
    return Judgement(True, "always possible, and never taken unless it is asked for")


JUDGED_ONLY = (JudgedOnly("recompute", _recompute),)
