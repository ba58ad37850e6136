"""A formula as the census takes it: relations by number, variables by slot, each quantifier with its guard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from everview.kernel.census import program
from everview.kernel.census.program import MOST_STEPS, MOST_TYPES, CensusProgram, CensusRelation
from everview.query.formula import (
    And,
    AtLeast,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    Residue,
    Truth,
)
from everview.query.locality import guard
from everview.query.terms import Term, Var


def lower(
    query: FormulaQuery,
    relations: Sequence[CensusRelation],
    degree: int,
    most_types: int = MOST_TYPES,
    most_steps: int = MOST_STEPS,
) -> CensusProgram:
    """The program of a normalised query without constants, whose facts are of these relations, by name."""
    lowering = _Lowering({relation.name: i for i, relation in enumerate(relations)}, len(query.head))
    formula = lowering.lower(query.formula, {v: i for i, v in enumerate(query.head)})
    return CensusProgram(tuple(relations), len(query.head), formula, degree, most_types, most_steps)


class _Lowering:
    def __init__(self, numbers: Mapping[str, int], slots: int) -> None:
        self.numbers = numbers
        self.slots = slots

    def lower(self, formula: Formula, slots: Mapping[Var, int]) -> program.Node:
        def slot(term: Term) -> int:
            if not isinstance(term, Var):
                raise TypeError(f"the constant {term} must have become a relation")
            return slots[term]

        match formula:
            case Fact(relation, terms):
                return program.Fact(self.numbers[relation], tuple(map(slot, terms)))
            case Equal(left, right):
                return program.Equal(slot(left), slot(right))
            case Distance(left, right, bound):
                return program.Near(slot(left), slot(right), bound)
            case Truth(value):
                return program.Truth(value)
            case Not(body):
                return program.Not(self.lower(body, slots))
            case And(parts):
                return program.And(tuple(self.lower(part, slots) for part in parts))
            case Or(parts):
                return program.Or(tuple(self.lower(part, slots) for part in parts))
            case Quantifier(condition, variable, body):
                own = self.slots
                self.slots += 1
                found = guard(formula) if formula.free else None
                return program.Quantify(
                    own,
                    self.lower(body, {**slots, variable: own}),
                    condition.least if isinstance(condition, AtLeast) else None,
                    (condition.residue, condition.modulus) if isinstance(condition, Residue) else None,
                    (slots[found.variable], found.distance) if found is not None else None,
                )
