"""Why nothing better is possible, where that is known.

Sources: q-hierarchical.md 16, 17; crown.md 1; triangle.md 15; parameterized-hardness.md.

Every statement is conditional and names its conjecture. Where the theorems do not reach (self-joins, conditions across
relations, keys and foreign keys) the answer is "unknown", never "impossible".
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from everview.plan.core_plan import CorePlan
from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints
from everview.query.hard_patterns import largest_star, longest_path
from everview.query.hierarchy import is_hierarchical, is_q_hierarchical
from everview.query.homomorphism import Budget, minimal_query

OMV = "the OMv conjecture"


@dataclass(frozen=True, slots=True)
class Task:
    """What one kind of read can cost next to updates: constant, log, hard (with the bound) or unknown."""

    status: str
    bound: str
    reference: str

    def to_dict(self) -> dict[str, str]:
        """As plain data."""
        return {"status": self.status, "bound": self.bound, "reference": self.reference}


def tasks(verdict: Classification, constraints: Constraints) -> dict[str, Task]:
    """What each kind of read costs at best under arbitrary updates (decision logic of q-hierarchical.md 17)."""
    query = verdict.minimal
    known = _theorems_apply(query, constraints)
    budget = Budget()
    boolean = minimal_query(query.with_head(()), budget)
    q_hierarchical = verdict.q_hierarchical
    counted = is_hierarchical(query) if query.semantics is Semantics.BAG else q_hierarchical
    simple = query.is_self_join_free
    return {
        "answer": _task(
            is_q_hierarchical(boolean),
            known and not budget.exhausted,
            "update O(1), answer O(1)",
            "answer",
            "n^(2−γ)",
            "3.2",
            "3.14",
        ),
        "test": _task(verdict.t_hierarchical, known, "update O(1), test O(1)", "test", "n^(1−γ)", "3.6", "3.4(b)"),
        "count": _task(counted, known, "update O(1), count O(1)", "count", "n^(1−γ)", "3.3", "3.15", "OMv or OV"),
        "enumerate": _task(
            q_hierarchical, known and simple, "update O(1), delay O(1)", "delay", "n^(1−γ)", "3.3", "3.13"
        ),
        "direct access": _task(
            q_hierarchical, known and simple, "update O(log N), access O(log N)", "access", "n^(1−γ)", "3.9", "3.16"
        ),
    }


def _task(
    holds: bool, known: bool, cost: str, read: str, excluded: str, upper: str, lower: str, unless: str = "OMv"
) -> Task:
    if holds:
        return Task("log" if "log" in cost else "constant", cost, f"Theorem {upper}")
    if known:
        bound = f"not both update O(n^(1−γ)) and {read} O({excluded}), unless {unless} fails"
        return Task("hard", bound, f"Theorem {lower}")
    return Task("unknown", "no lower bound is known for this query", "")


def _theorems_apply(query: ConjunctiveQuery, constraints: Constraints) -> bool:
    return constraints.about(query).only_small_domains and not _crosses(query)


def _crosses(query: ConjunctiveQuery) -> bool:
    return any(not any(p.variables <= e for e in query.edges) for p in query.predicates)


def lower_bound(plan: CorePlan, constraints: Constraints, derived: frozenset[str]) -> str | None:
    """The strongest statement on update time and delay that is known, or None where constant time is reached.

    ``derived`` names the relations that are views or stages: they have keys, or read the same tables again.
    """
    verdict = plan.classification
    query = verdict.minimal
    if "any" in plan.constant_update_for and not plan.merges_rows and not _crosses(query):
        return None
    if any(a.relation in derived for a in query.atoms):
        return "none known: the theorems do not cover queries over other views"
    if not constraints.about(query).only_small_domains:
        return "none known: the theorems do not cover queries over keys and foreign keys"
    if _crosses(query):
        return "none known: the theorems do not cover conditions across relations"
    if verdict.q_hierarchical:
        return "none known: the query is q-hierarchical, what costs more is what follows it"
    if not query.is_self_join_free:
        return "none known for listing: the theorem needs a query without self-joins"
    said = f"update time and delay cannot both be O(N^(1/2−γ)) for any γ > 0, unless {OMV} fails"
    if query.semantics is Semantics.BAG and plan.merges_rows and not plan.folds_rows:
        said = f"to list distinct rows, {said}"
    if _is_double_ended_path(query):
        said += "; not even over FIFO updates (Theorem 6.2)"
    said += _beyond_a_half(query)
    if verdict.acyclic and not verdict.free_connex:
        said += "; without updates, no linear build with constant delay unless Boolean matrices multiply in O(n²)"
    return said


def _beyond_a_half(query: ConjunctiveQuery) -> str:
    """What a star or a path inside the query excludes beyond N^(1/2): parameterized-hardness.md 2, 3."""
    star, path = largest_star(query), longest_path(query)
    d, k = star.dimension if star else 1, path.height if path else 1
    if max(d, k) <= 2:
        return ""
    excluded = f"O(N^({Fraction(max(d, k) - 1, max(d, k))}−γ))"
    if star and d >= k:
        *others, last = (v.name for v in star.variables)
        listed = f", {last} by its output" if star.is_listed else ""
        return (
            f"; with constant delay an update cannot even be {excluded}, unless the OuMv conjecture for {d} vectors "
            f"fails: {', '.join(others)} and {last} meet in {query.atoms[star.atom].relation}, and each is somewhere "
            f"without the others{listed} (dimension {d})"
        )
    assert path is not None
    shown = " – ".join(v.name for v in path.variables)
    return (
        f"; with constant delay an update of a combinatorial algorithm cannot even be {excluded}, unless the "
        f"combinatorial k-clique conjecture fails: {shown} is a path with an atom of its own at each end (height {k})"
    )


def _is_double_ended_path(query: ConjunctiveQuery) -> bool:
    """The shape R1(x1), R2(x1,x2), R3(x2,x3), R4(x3,x4), R5(x4), all output: hard even for sliding windows."""
    if not query.is_full or len(query.atoms) != 5:
        return False
    ends = [e for e in query.edges if len(e) == 1]
    links = [e for e in query.edges if len(e) == 2]
    degrees = sorted(sum(v in e for e in query.edges) for v in query.variables)
    return len(ends) == 2 and len(links) == 3 and degrees == [2, 2, 2, 2] and len(query.components()) == 1
