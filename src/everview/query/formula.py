"""First-order formulas that count: what a view by formula is made of, in a small core language (fo-mod.md section 3).

The core language has facts, equality, distance, negation, conjunction, disjunction and one quantifier, which asks of
the number of its witnesses that it is at least m, or has some residue. Everything else people write (``forall``,
``implies``, ``exists <= m``, ``!=``) is written in it by the functions at the end of this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

from everview.errors import Position
from everview.query.terms import Term, Var

ANY_VALUE = Var("_")
"""What stands in a fact for a value that does not matter; it is no variable, and two of them are not equal."""


@dataclass(frozen=True)
class Fact:
    """``R(x, y)``: a tuple of a relation."""

    relation: str
    terms: tuple[Term, ...]
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its variables."""
        return frozenset(t for t in self.terms if isinstance(t, Var) and t != ANY_VALUE)

    def __str__(self) -> str:
        return f"{self.relation}({', '.join(map(str, self.terms))})"


@dataclass(frozen=True)
class Equal:
    """``x = y``."""

    left: Term
    right: Term
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its variables."""
        return frozenset(t for t in (self.left, self.right) if isinstance(t, Var))

    def __str__(self) -> str:
        return f"{self.left} = {self.right}"


@dataclass(frozen=True)
class Distance:
    """``dist(x, y) <= bound``: so many steps lead from one to the other, each between two elements of one fact."""

    left: Var
    right: Var
    bound: int
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its variables."""
        return frozenset((self.left, self.right))

    def __str__(self) -> str:
        return f"dist({self.left}, {self.right}) <= {self.bound}"


@dataclass(frozen=True)
class Truth:
    """``true`` or ``false``."""

    value: bool

    @property
    def free(self) -> frozenset[Var]:
        """No variables."""
        return frozenset()

    def __str__(self) -> str:
        return "true" if self.value else "false"


TRUE, FALSE = Truth(True), Truth(False)


@dataclass(frozen=True)
class Not:
    """``not body``."""

    body: Formula

    @property
    def free(self) -> frozenset[Var]:
        """Its free variables."""
        return self.body.free

    def __str__(self) -> str:
        match self.body:
            case Equal(left, right):
                return f"{left} != {right}"
            case Distance(left, right, bound):
                return f"dist({left}, {right}) > {bound}"
            case Quantifier(AtLeast(1), variable, Not(inner)):
                return f"forall {variable} ({inner})"
            case Quantifier(AtLeast(least), variable, inner) if least > 1:
                return f"exists<={least - 1} {variable} ({inner})"
        return f"not {_inner(self.body)}"


@dataclass(frozen=True)
class And:
    """All of its parts; there are at least two. Build it with ``all_of`` or ``conjunction``."""

    parts: tuple[Formula, ...]

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its free variables."""
        return frozenset[Var]().union(*(p.free for p in self.parts))

    def __str__(self) -> str:
        return " and ".join(_inner(p) for p in self.parts)


@dataclass(frozen=True)
class Or:
    """At least one of its parts; there are at least two. Build it with ``any_of`` or ``disjunction``."""

    parts: tuple[Formula, ...]

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its free variables."""
        return frozenset[Var]().union(*(p.free for p in self.parts))

    def __str__(self) -> str:
        return " or ".join(_inner(p) for p in self.parts)


@dataclass(frozen=True)
class AtLeast:
    """There are at least so many witnesses; ``least`` is not negative, and 1 is the plain ``exists``."""

    least: int = 1

    def holds(self, witnesses: int) -> bool:
        """Whether so many witnesses do."""
        return witnesses >= self.least

    def __str__(self) -> str:
        return "exists" if self.least == 1 else f"exists>={self.least}"


@dataclass(frozen=True)
class Residue:
    """The number of witnesses leaves ``residue`` when divided by ``modulus``; 0 witnesses leave 0."""

    residue: int
    modulus: int

    def __post_init__(self) -> None:
        if not 0 <= self.residue < self.modulus or self.modulus < 2:
            raise ValueError(f"{self.residue} mod {self.modulus}")

    def holds(self, witnesses: int) -> bool:
        """Whether so many witnesses do."""
        return witnesses % self.modulus == self.residue

    def __str__(self) -> str:
        return f"exists[{self.residue} mod {self.modulus}]"


Condition: TypeAlias = AtLeast | Residue
"""What a quantifier asks of the number of its witnesses."""


@dataclass(frozen=True)
class Quantifier:
    """So many elements of the active domain, taken for ``variable``, make ``body`` true."""

    condition: Condition
    variable: Var
    body: Formula
    position: Position | None = field(default=None, compare=False, repr=False)

    @cached_property
    def free(self) -> frozenset[Var]:
        """Its free variables."""
        return self.body.free - {self.variable}

    def __str__(self) -> str:
        return f"{self.condition} {self.variable} ({self.body})"


Atom: TypeAlias = Fact | Equal | Distance | Truth
Formula: TypeAlias = Atom | Not | And | Or | Quantifier


def _inner(formula: Formula) -> str:
    """A formula as it stands beside others: in parentheses if it is a conjunction or disjunction."""
    return f"({formula})" if isinstance(formula, And | Or) else str(formula)


@dataclass(frozen=True)
class FormulaQuery:
    """``name(head) := formula``: the elements of the active domain, one for each variable, that make it true."""

    name: str
    head: tuple[Var, ...]
    formula: Formula

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.head))}) := {self.formula}"


# --- looking at formulas -------------------------------------------------------------------------------------------


def children(formula: Formula) -> tuple[Formula, ...]:
    """The formulas that it is made of, one floor down."""
    match formula:
        case Not(body) | Quantifier(_, _, body):
            return (body,)
        case And(parts) | Or(parts):
            return parts
    return ()


def subformulas(formula: Formula) -> Iterator[Formula]:
    """It and all that it is made of, from the outside in."""
    yield formula
    for child in children(formula):
        yield from subformulas(child)


def quantifiers(formula: Formula) -> list[Quantifier]:
    """All its quantifiers, each once, from the outside in."""
    return list(dict.fromkeys(f for f in subformulas(formula) if isinstance(f, Quantifier)))


def facts(formula: Formula) -> list[Fact]:
    """All facts that it asks for."""
    return [f for f in subformulas(formula) if isinstance(f, Fact)]


def size(formula: Formula) -> int:
    """Of how many formulas it is made."""
    return 1 + sum(size(child) for child in children(formula))


def rank(formula: Formula) -> int:
    """How deep its quantifiers are nested."""
    below = max((rank(child) for child in children(formula)), default=0)
    return below + isinstance(formula, Quantifier)


def substituted(formula: Formula, mapping: Mapping[Var, Term]) -> Formula:
    """The same formula with free variables replaced; nothing that comes in may be bound inside."""
    if not mapping or not formula.free & mapping.keys():
        return formula
    match formula:
        case Fact(_, terms):
            return replace(formula, terms=tuple(mapping.get(t, t) if isinstance(t, Var) else t for t in terms))
        case Equal(left, right):
            new = (mapping.get(t, t) if isinstance(t, Var) else t for t in (left, right))
            return replace(formula, left=next(new), right=next(new))
        case Distance(left, right):
            first, second = mapping.get(left, left), mapping.get(right, right)
            if not isinstance(first, Var) or not isinstance(second, Var):
                raise TypeError("a distance is one between variables")
            return replace(formula, left=first, right=second)
        case Not(body):
            return Not(substituted(body, mapping))
        case And(parts):
            return And(tuple(substituted(p, mapping) for p in parts))
        case Or(parts):
            return Or(tuple(substituted(p, mapping) for p in parts))
        case Quantifier(_, variable, body):
            inner = {v: t for v, t in mapping.items() if v != variable}
            return replace(formula, body=substituted(body, inner))
    return formula


# --- making formulas -----------------------------------------------------------------------------------------------


def all_of(parts: Iterable[Formula]) -> Formula:
    """All of the parts, as they are written: what cannot matter in them still names its table."""
    found = tuple(one for part in parts for one in (part.parts if isinstance(part, And) else (part,)))
    return And(found) if len(found) > 1 else next(iter(found), TRUE)


def any_of(parts: Iterable[Formula]) -> Formula:
    """At least one of the parts, as they are written."""
    found = tuple(one for part in parts for one in (part.parts if isinstance(part, Or) else (part,)))
    return Or(found) if len(found) > 1 else next(iter(found), FALSE)


def conjunction(parts: Iterable[Formula]) -> Formula:
    """All of the parts, without those that say nothing or the same as another one."""
    found: dict[Formula, None] = {}
    for part in parts:
        for one in part.parts if isinstance(part, And) else (part,):
            if one == FALSE:
                return FALSE
            if one != TRUE:
                found[one] = None
    if any(isinstance(f, Not) and f.body in found for f in found):
        return FALSE
    return And(tuple(found)) if len(found) > 1 else next(iter(found), TRUE)


def disjunction(parts: Iterable[Formula]) -> Formula:
    """At least one of the parts, without those that say nothing or the same as another one."""
    found: dict[Formula, None] = {}
    for part in parts:
        for one in part.parts if isinstance(part, Or) else (part,):
            if one == TRUE:
                return TRUE
            if one != FALSE:
                found[one] = None
    if any(isinstance(f, Not) and f.body in found for f in found):
        return TRUE
    return Or(tuple(found)) if len(found) > 1 else next(iter(found), FALSE)


def negation(formula: Formula) -> Formula:
    """Its opposite, the negation moved inward as far as atoms and quantifiers."""
    match formula:
        case Truth(value):
            return Truth(not value)
        case Not(body):
            return body
        case And(parts):
            return disjunction(negation(p) for p in parts)
        case Or(parts):
            return conjunction(negation(p) for p in parts)
        case Quantifier(Residue(residue, 2)):
            return replace(formula, condition=Residue(1 - residue, 2))
    return Not(formula)


def exists(variables: Iterable[Var], body: Formula, position: Position | None = None) -> Formula:
    """Some elements, one for each variable, make the body true."""
    for variable in reversed(tuple(variables)):
        body = Quantifier(AtLeast(1), variable, body, position)
    return body


def for_all(variables: Iterable[Var], body: Formula, position: Position | None = None) -> Formula:
    """Whatever elements are taken for the variables, the body is true."""
    return Not(exists(variables, Not(body), position))


def at_most(most: int, variable: Var, body: Formula, position: Position | None = None) -> Formula:
    """At most so many elements make the body true."""
    return Not(Quantifier(AtLeast(most + 1), variable, body, position))


def exactly(number: int, variable: Var, body: Formula, position: Position | None = None) -> Formula:
    """Exactly so many elements make the body true."""
    least = Quantifier(AtLeast(number), variable, body, position) if number else TRUE
    return conjunction((least, at_most(number, variable, body, position)))


def implies(left: Formula, right: Formula) -> Formula:
    """If the left side is true, so is the right one."""
    return any_of((Not(left), right))


def equivalent(left: Formula, right: Formula) -> Formula:
    """Both sides are true, or both are false."""
    return all_of((implies(left, right), implies(right, left)))
