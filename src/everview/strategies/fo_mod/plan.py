"""A formula's verdict before there is data: radii, guards, tier, bounds and promises (fo-mod.md 5, 6.1, 8, 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from typing import Any

from everview.kernel.census.program import CensusProgram, CensusRelation
from everview.query.formula_limits import balls, describe_quantifier
from everview.query.locality import CLOSED, UNGUARDED, Locality, links
from everview.query.view import FormulaBody
from everview.strategies.bounds import CONSTANT, LINEAR, Bound, Bounds
from everview.strategies.fo_mod.lower import lower
from everview.strategies.fo_mod.strategy import NAME
from everview.strategies.strategy import Cost, Task

LOWER_BOUND = (
    "the constants grow three-fold exponentially with the formula, and must: with f(Q) = 2^(2^(2^o(|Q|))) there is no "
    "algorithm with preprocessing f(Q)·poly(N) and update and answer time f(Q), unless FPT = AW[∗], already for "
    "sentences over one binary relation and degree 3 (Corollary 11.3)"
)
TIERS = {
    "A": "small surroundings, and all quantifiers with free variables are guarded",
    "B": "two variables, an unguarded quantifier or a larger radius",
    "C": "three variables: tested and listed, but neither counted nor told",
}
CLASSES = {
    "G0": "no global count matters",
    "G1": "closed parts are evaluated once an update",
    "G2": "counts of elements that are far away matter",
}
_KEPT = Bound((), Fraction(0), ("while the number of types that occur does not grow",))


@dataclass(frozen=True)
class FormulaPlan:
    """How a view by formula is maintained."""

    body: FormulaBody

    @property
    def name(self) -> str:
        """What ``explain`` calls the method."""
        return NAME

    @cached_property
    def locality(self) -> Locality:
        """Guards and radii of the formula as it is maintained."""
        return Locality(self.body.normal)

    @property
    def is_counted(self) -> bool:
        """True if answers are counted, and changes told; not so of three variables."""
        return self.locality.arity <= 2

    @property
    def spans(self) -> str | None:
        """Why answers depend on more than one component of the data, in words; None if they do not.

        Then whether an answer holds depends on its surroundings alone, and all its elements are near each other.
        """
        if not self.locality.arity:
            return "a formula without variables is about all elements"
        if self.locality.caching_class != "G0":
            kind = CLOSED if self.locality.sentences else UNGUARDED
            far = next(q.quantifier for q in self.locality.quantifiers if q.kind == kind)
            return f"{far} counts over all elements"
        near = links(self.body.normal.formula)
        for pair in combinations(self.body.query.head, 2):
            if frozenset(pair) not in near:
                return f"{pair[0]} and {pair[1]} may be far apart"
        return None

    @property
    def reason(self) -> str:
        """Why the method fits, in words."""
        return (
            f"a formula over data in which no element has more than {self.body.degree} neighbours: one looks "
            f"{self.locality.reach} steps around a change"
        )

    @property
    def bounds(self) -> Bounds:
        """What it costs, f(Q, d) being a constant; N are the elements."""
        pairs = self.locality.arity >= 2
        return Bounds(LINEAR, _KEPT, CONSTANT if not pairs else _KEPT, LINEAR)

    @property
    def tasks(self) -> Mapping[Task, Cost]:
        """What can be asked, and what that costs."""
        found = {Task.LIST: Cost(_KEPT, CONSTANT), Task.TEST: Cost(CONSTANT, CONSTANT)}
        if self.is_counted:
            found |= {Task.COUNT: Cost(_KEPT, CONSTANT), Task.DIFFERENCE: Cost(_KEPT, CONSTANT)}
        if self.locality.arity:
            found[Task.LOOKUP] = Cost(_KEPT, CONSTANT)
        return found

    @cached_property
    def program(self) -> CensusProgram:
        """What the kernel's census runs."""
        relations = [CensusRelation(r.name, r.arity, r.has_edges, True) for r in self.body.relations]
        return lower(self.body.bound, relations, self.body.degree)

    def lines(self) -> list[tuple[str, str]]:
        """What ``explain`` says of it: the word in the margin, and the text."""
        found = self.locality
        around, near = balls(found, self.body.degree)
        lines = [("formula", str(self.body.query.formula))]
        if self.body.normal.formula != self.body.query.formula:
            lines.append(("normalised", str(self.body.normal.formula)))
        lines.append(("strategy", f"{self.name} — {self.reason}"))
        lines.append(("tier", f"{found.tier}: {TIERS[found.tier]}"))
        lines.append(("class", f"{found.caching_class}: {CLASSES[found.caching_class]}"))
        lines.append(("rank", f"{found.rank}; by the theorem a radius of 4^{found.rank} = {4**found.rank} is enough"))
        lines.append(("radius", f"{found.radius} for the formula, {found.reach} for all that is looked at (r*)"))
        for q in found.quantifiers:
            said = f"{describe_quantifier(q)}; radius {q.radius}, {q.body_radius} inside"
            lines.append(("quantifier", f"{q.quantifier} — {said}"))
        more = "" if near is None else f"; up to {near} elements count as near one"
        lines.append(
            ("degree", f"at most {self.body.degree}: up to {around} elements are looked at for an answer{more}")
        )
        counted = ", ".join(map(str, self.program.typed_radii))
        said_of_types = (
            f"elements are counted by type for radius {counted}" if counted else "no element is counted by type"
        )
        lines.append(("census", said_of_types))
        for relation in self.body.relations:
            lines.append(("facts" if relation.has_edges else "elements", relation.name.removeprefix("elements of ")))
        lines.append(("domain", self.domain_text))
        return lines

    @property
    def domain_text(self) -> str:
        """Over which elements variables and quantifiers range, in words."""
        if self.body.is_independent:
            return f"{self.body.domain}; no element outside of the formula's own facts can matter"
        of = "the tables that it names" if self.body.domain == "query" else "all tables"
        return f"{self.body.domain}: the elements of {of}"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        found = self.locality
        around, near = balls(found, self.body.degree)
        return {
            "formula": str(self.body.query.formula),
            "normalised": str(self.body.normal.formula),
            "tier": found.tier,
            "class": found.caching_class,
            "rank": found.rank,
            "source_radius": 4**found.rank,
            "radius": found.radius,
            "reach": found.reach,
            "degree": self.body.degree,
            "ball": around,
            "near_ball": near,
            "census_radii": list(self.program.typed_radii),
            "sentences": len(found.sentences),
            "domain": self.body.domain,
            "domain_independent": self.body.is_independent,
            "component": self.body.component,
            "relations": [r.name for r in self.body.relations if r.has_edges],
            "quantifiers": [
                {
                    "quantifier": str(q.quantifier),
                    "kind": q.kind,
                    "guard": None
                    if q.guard is None
                    else {"variable": q.guard.variable.name, "distance": q.guard.distance},
                    "body_radius": q.body_radius,
                    "radius": q.radius,
                }
                for q in found.quantifiers
            ],
        }
