"""Why nothing better is possible, where that is known.

Sources: q-hierarchical.md 16, 17; ucq-constraints.md 10; crown.md 1; triangle.md 15; parameterized-hardness.md.

Every statement is conditional and names its conjecture. Where the theorems do not reach (self-joins, conditions across
relations, keys and foreign keys) the answer is "unknown", never "impossible".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from everview.plan.core_plan import CorePlan
from everview.plan.unions import UnionVerdict
from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.constraints import Constraints
from everview.query.fracture import fracture
from everview.query.hard_patterns import largest_star, longest_path
from everview.query.hierarchy import Violation, is_hierarchical, is_q_hierarchical, q_violation, t_violation
from everview.query.homomorphism import Budget, minimal_query, minimal_union
from everview.query.terms import Var, names
from everview.strategies.bounds import CONSTANT, LOGARITHMIC
from everview.strategies.strategy import Cost

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
    kept: Cost | None = None
    """What it costs as the view is kept; None where that is not asked."""
    how: str = ""
    """What is done for it then, where that is more than an answer."""

    def as_kept(self, cost: Cost, how: str = "") -> Task:
        """The same with what it costs as the view is kept, which is a verdict where nobody has another one."""
        found = replace(self, kept=cost, how=how)
        if self.verdict != "unknown":
            return found
        update, time = str(cost.update), str(cost.read)
        best = next((v for v, bounds in _BEST.items() if {cost.update, cost.read} <= bounds), None)
        if best is None:
            return replace(found, update=update, time=time)
        return Task(best, update, time, "as it is kept", kept=cost)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        how = {"how": self.how} if self.how else {}
        kept = {"kept": {"update": str(self.kept.update), "time": str(self.kept.read), **how}} if self.kept else {}
        return {
            "verdict": self.verdict,
            "update": self.update,
            "time": self.time,
            "reason": self.reason,
            "witness": self.witness,
            "unless": self.unless,
            "reference": self.reference,
            **kept,
        }


_BEST: Final = {"constant": {CONSTANT}, "logarithmic": {CONSTANT, LOGARITHMIC}}
"""The verdicts that follow from what a read and the updates for it cost here."""


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


_NULLS = (
    "two members may have a row with NULL in common, which the intersection of their queries has not; where columns "
    "are NOT NULL it is constant"
)


def union_tasks(
    verdict: UnionVerdict, constraints: Constraints, lookups: Sequence[frozenset[int]] = ()
) -> dict[str, Task]:
    """What each kind of read of a union of queries costs at best under arbitrary updates (ucq-constraints.md 10).

    Positions, look-ups and differences of unions have upper bounds in the literature, and no lower ones. ``lookups``
    are the sets of columns that rows are looked up by; without any, each by itself.
    """
    members = verdict.minimal.members
    known = all(_theorems_apply(m, constraints) for m in members)
    simple = all(m.is_self_join_free for m in members)
    budget = Budget()
    boolean = minimal_union(replace(verdict.minimal, members=tuple(m.with_head(()) for m in members)), budget)
    q_witness = _first_violation(members, q_violation)
    decided = verdict.exhaustively_q_hierarchical is not None
    listed = Task("constant", "O(1)", "O(1)", "every member is q-hierarchical", reference=f"{_ICDT} 4.2")
    tested = Task("constant", "O(1)", "O(1)", "every member is t-hierarchical", reference=f"{_ICDT} 4.1")
    answered = replace(tested, reason="without output every member is q-hierarchical")
    undecided = Task("unknown", None, None, "there are too many members, or they are too large, to decide it")
    counted = Task("constant", "O(1)", "O(1)", "the union is exhaustively q-hierarchical", reference=f"{_ICDT} 4.5")
    accessed = Task(
        "logarithmic",
        "O(log N)",
        "O(log N)",
        "the union is strongly exhaustively q-hierarchical",
        reference="Theorem 3.12",
    )
    found = {
        "answer": answered
        if all(map(is_q_hierarchical, boolean.members))
        else _hard("an answer", "n^(2−γ)", q_witness, "4.1", known and not budget.exhausted, True),
        "test": tested
        if verdict.t_hierarchical
        else _hard("a test", "n^(1−γ)", _first_violation(members, t_violation), "4.1", known, True),
        "count": replace(undecided, reason=_NULLS)
        if verdict.exhaustively_q_hierarchical and verdict.shares_null
        else counted
        if verdict.exhaustively_q_hierarchical
        else _hard("a count", "n^(1−γ)", verdict.obstacle, "4.5", known, True, f"{OMV} or the OV conjecture")
        if decided
        else undecided,
        "list": listed
        if verdict.q_hierarchical
        else _hard("listing a row", "n^(1−γ)", q_witness, "4.2", known, simple),
    }
    found = {
        name: replace(task, reference=task.reference.replace("Theorem", _ICDT)) if task.verdict == "hard" else task
        for name, task in found.items()
    }
    strong = verdict.strongly_exhaustively_q_hierarchical
    unknown = Task("unknown", None, None, "no theorem is about it in a union")
    shared = replace(unknown, reason=_NULLS.replace("constant", "logarithmic"))
    access = unknown if not strong else shared if verdict.shares_null else accessed
    looked_up = _lookup_in_all(members, lookups) if verdict.t_hierarchical else unknown
    return {**found, "access": access, "lookup": looked_up, "difference": unknown}


def _lookup_in_all(members: Sequence[ConjunctiveQuery], lookups: Sequence[frozenset[int]]) -> Task:
    """Of a union: each member looks up, and says of a row that another one has found whether it has it, too."""
    width = len(members[0].head)
    for columns in lookups or [frozenset((i,)) for i in range(width)]:
        for member in members:
            given = frozenset(t for t in (member.head[i] for i in columns) if isinstance(t, Var))
            witness = fracture(member, given).violation()
            if witness is not None:
                why = "no theorem is about it in a union, and a member is not known to be looked up so"
                return Task("unknown", None, None, why, f"by {names(given)}: {witness}")
    reason = "every member can be looked up so, and tested: a row is passed over once for each member that has it"
    return Task("constant", "O(1)", "O(1)", reason, reference="Kara et al., LMCS 2025")


_ICDT = "Berkholz et al., ICDT 2018, Theorem"


def _first_violation(
    members: Sequence[ConjunctiveQuery], violation: Callable[[ConjunctiveQuery], Violation | None]
) -> str | None:
    """What keeps the first member from a class that is not in it."""
    return next((found.describe(m) for m in members if (found := violation(m)) is not None), None)


def concatenated_tasks(members: Sequence[dict[str, Task]]) -> dict[str, Task]:
    """Of rows that are passed on from several queries: what is cheap for each of them is for all."""
    found = {}
    for name in TASKS:
        verdicts = {member[name].verdict for member in members}
        if verdicts <= {"constant", "logarithmic"}:
            slowest = next(m[name] for m in members if m[name].verdict == max(verdicts))
            found[name] = replace(slowest, reason="so it is for every member, and their rows are passed on")
        else:
            found[name] = Task(
                "unknown", None, None, "the theorems are about one query, and the view is made of several"
            )
    return found


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
