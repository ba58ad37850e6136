"""Why nothing better is possible, where that is known.

Sources: q-hierarchical.md 16, 17; crown.md 1; triangle.md 15; parameterized-hardness.md.

Every statement is conditional and names its conjecture. Where the theorems do not reach (self-joins, conditions across
relations, keys and foreign keys) the answer is "unknown", never "impossible".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from everview.plan.core_plan import CorePlan
from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints
from everview.query.fracture import fracture
from everview.query.hard_patterns import largest_star, longest_path
from everview.query.hierarchy import is_hierarchical, is_q_hierarchical
from everview.query.homomorphism import Budget, minimal_query
from everview.query.terms import Var, names

OMV = "the OMv conjecture"
TASKS = ("answer", "test", "count", "list", "access", "lookup", "difference")
"""The kinds of reads that there is a verdict for."""
VERDICTS = ("constant", "logarithmic", "hard", "unknown")


@dataclass(frozen=True, slots=True)
class Task:
    """What one kind of read can cost next to arbitrary updates, whatever method is used."""

    verdict: str
    """One of ``VERDICTS``."""
    update: str | None
    """What an update costs; of a hard task what it and the read cannot both cost. None: not known."""
    time: str | None
    """What the read costs, of listing and looking up each row; of a hard task as for updates."""
    reason: str
    witness: str | None = None
    """What shows that the query is not in the class that it takes."""
    unless: str | None = None
    """The conjecture that makes a hard task hard."""
    reference: str = ""

    def to_dict(self) -> dict[str, str | None]:
        """As plain data."""
        return {
            "verdict": self.verdict,
            "update": self.update,
            "time": self.time,
            "reason": self.reason,
            "witness": self.witness,
            "unless": self.unless,
            "reference": self.reference,
        }


def tasks(verdict: Classification, constraints: Constraints, lookups: Sequence[frozenset[Var]] = ()) -> dict[str, Task]:
    """What each kind of read costs at best under arbitrary updates (decision logic of q-hierarchical.md 17, 22).

    ``lookups`` are the sets of variables that rows are looked up by; without any, each output by itself.
    """
    query = verdict.minimal
    known = _theorems_apply(query, constraints)
    budget = Budget()
    boolean = minimal_query(query.with_head(()), budget)
    q_hierarchical = verdict.q_hierarchical
    counted = is_hierarchical(query) if query.semantics is Semantics.BAG else q_hierarchical
    simple = query.is_self_join_free
    shown = verdict.witnesses()
    q_witness, t_witness = shown.get("q_hierarchical"), shown.get("t_hierarchical")
    answer_witness = None if is_q_hierarchical(boolean) else q_witness or shown.get("hierarchical")
    count_witness = shown.get("hierarchical") if query.semantics is Semantics.BAG else q_witness
    listed = Task("constant", "O(1)", "O(1)", "the query is q-hierarchical", reference="Theorem 3.3")
    accessed = Task("logarithmic", "O(log N)", "O(log N)", "the query is q-hierarchical", reference="Theorem 3.9")
    hard_to_list = _hard("listing a row", "n^(1−γ)", q_witness, "3.13", known, simple)
    difference = listed if q_hierarchical else hard_to_list
    if difference.verdict == "hard":
        difference = replace(difference, reason=f"{difference.reason} (by analogy)")
    return {
        "answer": Task(
            "constant", "O(1)", "O(1)", "without output the query is q-hierarchical", reference="Theorem 3.2"
        )
        if is_q_hierarchical(boolean)
        else _hard("an answer", "n^(2−γ)", answer_witness, "3.14", known and not budget.exhausted, True),
        "test": Task("constant", "O(1)", "O(1)", "the query is t-hierarchical", reference="Theorem 3.6")
        if verdict.t_hierarchical
        else _hard("a test", "n^(1−γ)", t_witness, "3.4(b)", known, True),
        "count": Task("constant", "O(1)", "O(1)", _COUNTED[query.semantics], reference="Theorem 3.3")
        if counted
        else _hard("a count", "n^(1−γ)", count_witness, "3.15", known, True, f"{OMV} or the OV conjecture"),
        "list": listed if q_hierarchical else hard_to_list,
        "access": accessed if q_hierarchical else _hard("access", "n^(1−γ)", q_witness, "3.16", known, simple),
        "lookup": _lookup(query, lookups or [frozenset((v,)) for v in query.telling if v in query.free], known, simple),
        "difference": difference,
    }


_COUNTED = {Semantics.BAG: "the query is hierarchical", Semantics.SET: "the query is q-hierarchical"}


def _hard(
    read: str, excluded: str, witness: str | None, theorem: str, known: bool, simple: bool, unless: str = OMV
) -> Task:
    if not known:
        reason = "the theorems do not cover keys and foreign keys, or conditions across relations"
        return Task("unknown", None, None, reason, witness)
    if not simple:
        return Task("unknown", None, None, "the theorem needs a query without self-joins", witness)
    update = "O(n^(1−γ))"
    reason = f"not both an update in {update} and {read} in O({excluded}), unless {unless} fails"
    return Task("hard", update, f"O({excluded})", reason, witness, unless, f"Theorem {theorem}")


def _lookup(query: ConjunctiveQuery, lookups: Sequence[frozenset[Var]], known: bool, simple: bool) -> Task:
    """Of all sets together: constant if each is, else what the first one that is not shows."""
    for variables in lookups:
        witness = fracture(query, variables).violation()
        if witness is not None:
            by = names(variables)
            found = _hard(f"a row by {by}", "n^(1/2−γ)", f"by {by}: {witness}", "", known, simple)
            if found.verdict == "hard":
                reason = found.reason.replace("O(n^(1−γ))", "O(n^(1/2−γ))")
                return replace(found, update="O(n^(1/2−γ))", reason=reason, reference="Kara et al., LMCS 2025")
            return found
    by = "; ".join(names(variables) or "nothing" for variables in lookups) or "nothing"
    reason = f"by {by}: the fracture is hierarchical, free-dominant and input-dominant"
    return Task("constant", "O(1)", "O(1)", reason, reference="Kara et al., LMCS 2025")


def unknown_tasks(why: str) -> dict[str, Task]:
    """Of a view that no theorem is about."""
    return {name: Task("unknown", None, None, why) for name in TASKS}


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
