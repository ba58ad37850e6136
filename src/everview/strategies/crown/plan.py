"""How CROWN maintains one conjunctive core: bags where it is cyclic, added outputs where it is not free-connex, a tree.

Steps (crown.md 2, 8): conditions on one relation filter it at the door; a cyclic query is decomposed into bags;
conditions across relations, and queries that are not free-connex, make further variables part of the maintained output;
then the best tree is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from everview.errors import StatisticsError
from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.covers import fractional_cover_number
from everview.query.decomposition import Decomposition
from everview.query.dependencies import Dependency, closed, closure, dependencies_of
from everview.query.terms import Expression, Var, names
from everview.strategies.bounds import CONSTANT, ENCLOSURE, LINEAR, LOGARITHMIC, Bound, Bounds, power, power_of_n
from everview.strategies.core import Extreme, Facts
from everview.strategies.crown.choose import choose_tree
from everview.strategies.crown.connex import fewest_added_outputs
from everview.strategies.crown.decomposed import (
    TRIANGLE,
    Relation,
    by_keys,
    has_triangle,
    is_triangle_bag,
    relations_of,
    smaller_by,
)
from everview.strategies.crown.keyed import KeyedTree, best_keyed_tree
from everview.strategies.crown.search import SearchCutError, join_trees
from everview.strategies.crown.tree import Edge, JoinTree, TreeNode
from everview.strategies.diagram import Diagram
from everview.strategies.strategy import Cost, Task

KEYED = Bound((), Fraction(0), ("amortised", "and a step for each row that points at a row which a batch replaces"))
"""An update where foreign keys bound it."""
COUNTED_TREES = 1_000
"""Trees are listed up to here to say how many there were to choose from; the choice itself does not list them."""
COUNTING_STEPS = 500_000
"""So many links between relations are looked at for that."""


@dataclass(frozen=True)
class CrownPlan:
    """The tree that maintains a core, and what was done to get one."""

    classification: Classification
    relations: tuple[Relation, ...]
    tree: JoinTree
    residual: tuple[Expression, ...]
    """Conditions across relations: checked on results as they are listed."""
    checked: Edge
    """The added outputs that conditions across relations need; the others make the query free-connex."""
    decomposition: Decomposition | None
    cut: bool
    remarks: tuple[str, ...]
    dependencies: tuple[Dependency, ...] = ()
    """What keys say of the atoms' variables, where bags are smaller by them."""
    keyed: KeyedTree | None = None
    """How keys bound what an update touches, if they do."""
    has_groups: bool = False
    """True if its rows are groups, as they are read: their copies are a column then."""
    sums_up: bool = False
    """True if its rows' weights go into groups, and may have several words."""
    wants_access: bool = False
    """True if the view's options ask for access by position."""
    has_access: bool = False
    """True if rows are kept in order, with the number of results of each: asked for by the view's options."""
    preferred: tuple[Var, ...] = ()
    """The variables by which results are to be kept in order, as far as the tree leaves a choice."""
    has_count: bool = False
    """True if the number of results is kept, in no order: asked for by the view's options."""
    has_log: bool = False
    """True if it is told which rows have changed: for differences, which the view's options ask for."""
    extremes: tuple[Extreme, ...] = ()
    """What is kept in order for its groups: MIN and MAX of what rows of a relation have."""
    lookups: tuple[Edge, ...] = ()
    """The sets of variables by whose values rows are found with constant delay: asked for by the view's options."""
    why_listed: str | None = None
    """Why rows are kept so that they can be listed, where the view's options say that they are only tested."""

    @property
    def query(self) -> ConjunctiveQuery:
        """The query that is maintained."""
        return self.classification.minimal

    @property
    def has_totals(self) -> bool:
        """True if the number of results of each row is kept."""
        return self.has_access or self.has_count

    @property
    def outputs(self) -> Edge:
        """The variables of the rows that are maintained."""
        return self.tree.free

    @property
    def added(self) -> Edge:
        """Variables maintained in the output beyond what is asked for, and projected away when read."""
        return self.tree.free - self.query.free

    @property
    def height(self) -> int:
        """The height of the tree."""
        return self.tree.height

    @property
    def is_distinct(self) -> bool:
        """True if copies do not count."""
        return self.query.semantics is Semantics.SET

    @cached_property
    def changes_one_row(self) -> bool:
        """True if an update changes at most one row of what is maintained: every node shown has all of the output."""
        free = self.tree.free
        return not self.weights_travel and all(n.attributes & free == free for n in self.tree.connex)

    @property
    def reduction(self) -> str:
        """What had to be done to get a free-connex query: none, added outputs, bags, or both."""
        steps = (["bags"] if self.decomposition else []) + (["added outputs"] if self.added else [])
        return " and ".join(steps) or "none"

    @property
    def reason(self) -> str:
        """Why CROWN fits, and what it runs over."""
        if self.decomposition:
            total = len(self.relations)
            joined = sum(r.is_bag for r in self.relations)
            width = power_of_n(self.decomposition.fractional_width)
            bags = "one bag" if total == 1 else f"{total} bags, {joined} of them joins"
            return f"cyclic: runs over {bags} of size {width} at most, kept by delta joins"
        if self.added and not self.classification.free_connex:
            return f"acyclic but not free-connex: runs with {names(self.added)} in the output as well"
        if self.residual:
            return "conditions across relations are checked on its results as they are listed"
        if self.height == 1:
            update = "O(log N), to keep order" if self.has_access else "constant time"
            return f"q-hierarchical: a tree of height 1 exists, so every update takes {update}"
        return f"free-connex: a tree of height {self.height} exists, with no join state beside the input"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """How the tree's relations are called."""
        return tuple(r.label for r in self.relations)

    @cached_property
    def tree_count(self) -> int:
        """How many trees there are to choose from, as far as they were counted."""
        return self._counted_trees[0]

    @property
    def has_more_trees(self) -> bool:
        """True if there may be more trees than were counted."""
        return self._counted_trees[1]

    @cached_property
    def _counted_trees(self) -> tuple[int, bool]:
        count = 0
        try:
            for _ in join_trees(self.tree.edges, self.tree.free, COUNTED_TREES, COUNTING_STEPS):
                count += 1
        except SearchCutError:
            return max(count, 1), True
        return count, count >= COUNTED_TREES

    @cached_property
    def weights_travel(self) -> bool:
        """True if a changed multiplicity must be carried from row to row, though no row comes or goes.

        Sets only care whether a row is there, and that is what CROWN's amortised bounds count. Copies and sums below
        the output are summed over the rows of the relation above them whenever they change; under a generalized node,
        which has one row a key, that is no loop.
        """
        return not self.is_distinct and any(
            node.relation is not None and any(c not in self.tree.connex for c in node.children)
            for node in self.tree.root.walk()
        )

    @cached_property
    def may_access(self) -> bool:
        """True if results can be kept in order: every key of a listed node is a whole row of the one above it.

        Then a changed row changes the number of results of one row above it, and so on (q-hierarchical.md 10).
        """
        return self._has_items and not (self.has_groups or self.sums_up)

    @property
    def may_keep_extremes(self) -> bool:
        """True if the values of groups can be kept in order in the tree: its rows are the groups, without bags."""
        return not (self.added or self.residual or self.decomposition or self.is_distinct)

    @property
    def keeps_extremes(self) -> bool:
        """True if it keeps what its core wants to have in order."""
        return bool(self.extremes)

    @property
    def may_log(self) -> bool:
        """True if differences can be made of the rows that have changed: each row is below one row (same, 8)."""
        return self.may_access and not self.residual and self.decomposition is None

    @property
    def _has_items(self) -> bool:
        parents, free = self.tree.parents, self.tree.free
        keyed = ((n, parents[n]) for n in self.tree.connex)
        return not self.added and all(
            p is None or n.attributes & p.attributes & free == p.attributes & free for n, p in keyed
        )

    def looks_up(self, variables: Edge) -> bool:
        """True if rows can be found by the values of these variables with constant delay (q-hierarchical.md 22).

        A node that has some of them, and shares none of these with the one above it, must share nothing else with it:
        which of its rows have the values does not depend on the rows that are chosen elsewhere then.
        """
        parents, free = self.tree.parents, self.tree.free
        if not variables <= free:
            return False
        for n in self.tree.connex:
            above = parents[n]
            shared = frozenset() if above is None else n.attributes & above.attributes
            if variables & n.attributes - shared and not shared <= variables:
                return False
        return True

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """The kinds of update sequences on which an update takes constant (amortised) time (crown.md 1)."""
        if self.decomposition or self.has_access:
            return ()
        if self._is_boundedby_keys or (self.height <= 1 and not self.weights_travel):
            return ("any", "fifo", "insert_only")
        by_height = () if self.weights_travel else ("fifo",) if self.height == 2 else ()
        by_keys = ("keyed",) if self.keyed else ()
        return (*by_height, *(("insert_only",) if self.keyed or not self.weights_travel else ()), *by_keys)

    @property
    def _is_boundedby_keys(self) -> bool:
        """True if an update touches one row of each relation above its own at most, as keys say."""
        return self.keyed is not None and not self.keyed.is_amortised

    @cached_property
    def bounds(self) -> Bounds:
        """What it costs to keep the tree, and to list its rows."""
        size = max(map(self._size, self.relations))
        build = LINEAR if size == 1 else power(size)
        update = self._update()
        if self.weights_travel and self.keyed is None:
            update = update.plus(Bound(("|Δw|",), Fraction(1), ("Δw the stored rows whose weight changes",)))
        if self.has_access:
            update = update.plus(LOGARITHMIC)
        return Bounds(build, update, CONSTANT, build)

    @property
    def tasks(self) -> Mapping[Task, Cost]:
        """Rows are listed from the root down, and tested by a lookup in each table that listing visits.

        Where they can be kept in order, they have positions; updates take more then, once that is asked for.
        """
        bounds = self.bounds
        found = {Task.LIST: Cost(bounds.update, bounds.delay), Task.TEST: Cost(bounds.update, CONSTANT)}
        if self.may_access:
            ordered = bounds.update.plus(LOGARITHMIC)
            found |= {Task.COUNT: Cost(bounds.update, CONSTANT), Task.ACCESS: Cost(ordered, LOGARITHMIC)}
        if self.lookups:
            found[Task.LOOKUP] = Cost(bounds.update, CONSTANT)
        if self.has_log:
            found[Task.DIFFERENCE] = Cost(bounds.update, CONSTANT)
        return found

    @property
    def diagram(self) -> Diagram:
        """The tree."""
        from everview.strategies.crown.show import diagram

        return diagram(self)

    @property
    def summary(self) -> str:
        """The tree on one line."""
        return self.tree.show(self.labels)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """The outputs that had to be added, and what for; the order in which results are kept."""
        added = (
            (self.checked, "for conditions across relations"),
            (self.added - self.checked, "to become free-connex"),
        )
        found = [("output", f"{names(vs)} added {why}, projected away when read") for vs, why in added if vs]
        if self.has_access:
            order = ", ".join(map(str, self.order))
            found.append(
                ("access", f"kept in the order of {order or 'nothing'}: positions, ranks and samples in O(log N)")
            )
        elif self.wants_access:
            found.append(("access", f"not kept in order, {self.why_unordered}: positions are found by listing"))
        if self.has_count:
            found.append(("count", "the number of results of each row is kept: count() takes constant time"))
        if self.has_log:
            found.append(("history", "stored rows that change are kept: diff() takes O(1) an update and row told"))
        if self.extremes:
            kept = ", ".join(str(e.aggregate) for e in self.extremes)
            found.append(("in order", f"{kept}: values are kept in the tree, and a group's is read off it in O(log N)"))
        if self.lookups:
            sets = "; ".join(names(variables) for variables in self.lookups)
            found.append(("look-up", f"by {sets}: constant delay, from the rows of the tree"))
        if self.why_listed is not None:
            found.append(("answers", f"rows can be listed as well, {self.why_listed}"))
        return tuple(found)

    @property
    def order(self) -> tuple[Var, ...]:
        """The variables by which results are ordered, if they are."""
        from everview.strategies.crown.access import order_of

        return order_of(self)

    @property
    def ordered_by(self) -> tuple[Var, ...] | None:
        """The same; None if results are kept in no order."""
        return self.order if self.has_access else None

    @property
    def why_unordered(self) -> str:
        """Why results cannot be kept in order with the number of results of each row."""
        if self.has_groups or self.sums_up:
            return "as its rows are groups"
        if self.added:
            return f"as {names(self.added)} would be needed in the output"
        return "as one row of the tree would change the numbers of many above it"

    def to_dict(self) -> dict[str, Any]:
        """The tree, the bags and what the search for them did, as plain data."""
        from everview.strategies.crown.show import plan_dict

        return plan_dict(self)

    def _update(self) -> Bound:
        """Bags change by their delta join, and every relation above one is touched once a change at most."""
        exponents = [self._delta_exponent(node) for node in self.tree.root.walk()]
        worst_case = max(exponents)
        if self.decomposition and worst_case > 0:
            return power(worst_case)
        if self.height <= 1 or self._is_boundedby_keys:
            return CONSTANT
        return ENCLOSURE if self.keyed is None else KEYED

    def _delta_exponent(self, node: TreeNode) -> Fraction:
        if node.relation is None:
            return Fraction(0)
        relation = self.relations[node.relation]
        own = Fraction(0)
        if relation.is_bag:
            own = max(self._met(relation, i) for i in (*relation.atoms, *relation.guards))
        above = self.tree.parents[node]
        while above is not None:
            if above.relation is not None:
                own = max(own, self._size(self.relations[above.relation]))
            above = self.tree.parents[above]
        return own

    def _met(self, relation: Relation, atom: int) -> Fraction:
        """The exponent of how many rows of a bag one row of an atom is in."""
        keys = self._keys_in(relation)
        edges = [self.query.edges[i] for i in (*relation.atoms, *relation.guards)]
        known = closure(self.query.edges[atom], relation.variables, keys)
        covering = closed(edges, relation.variables, keys)
        return fractional_cover_number(covering, relation.variables - known)

    def _size(self, relation: Relation) -> Fraction:
        """The exponent of a relation's size: 1 for a stored one, the AGM bound for a bag, over edges closed by keys."""
        if not relation.is_bag:
            return Fraction(1)
        keys, size = self._keys_in(relation), fractional_cover_number(self.query.edges, relation.variables)
        if keys:
            edges = [self.query.edges[i] for i in (*relation.atoms, *relation.guards)]
            size = min(size, fractional_cover_number(closed(edges, relation.variables, keys), relation.variables))
        return max(Fraction(1), size)

    def _keys_in(self, relation: Relation) -> list[Dependency]:
        """The dependencies that hold in a bag, as the atoms that they are of are part of it."""
        return [d for d in self.dependencies if d.edge in (*relation.atoms, *relation.guards)]


def plan_crown(facts: Facts) -> CrownPlan:
    """Find the best tree for a core, over bags and with added outputs where there is none without."""
    query = facts.query
    remarks: list[str] = []
    dependencies: tuple[Dependency, ...] = ()
    decomposition = None
    if not facts.classification.acyclic:
        dependencies, decomposition = by_keys(query, dependencies_of(query, facts.constraints))
        remarks += smaller_by(dependencies)
    relations = relations_of(query, decomposition)
    edges = tuple(r.variables for r in relations)
    wanted = query.free | frozenset(v for p in facts.residual for v in p.variables)
    extra = fewest_added_outputs(edges, wanted)
    free = wanted | extra.variables
    choice = choose_tree(edges, free, _updates(query, relations, facts.rates))
    if choice is None:
        raise AssertionError(f"no free-connex tree for {query} with output {names(free)}")
    if decomposition and not decomposition.exact:
        remarks.append("too many variables to prove the bags' width least: found greedily")
    found_in = [r.label for r in relations if is_triangle_bag(query, r)]
    if found_in:
        remarks.append(
            f"the triangles of {' and of '.join(found_in)} that an update changes are found in O(N^(1/2) + |Δ|), "
            "amortised, for |Δ| of them: what two hubs have in common is kept"
        )
    if len(query.atoms) > TRIANGLE and any(has_triangle(query, r) for r in relations):
        remarks.append(
            "a bag must give every triangle that changes to the tree above it, and an edge may be in N of them: the √N "
            "of triangles alone does not carry over"
        )
    if extra.cut:
        remarks.append("the search for the fewest added outputs was cut: found greedily")
    if choice.cut:
        remarks.append("the search for the best tree was cut: the best found so far is used")
    tree, keyed = choice.tree, None
    if decomposition is None:
        tree, keyed = best_keyed_tree(choice.tree, query.atoms, facts.constraints.about(query))
    if keyed is not None and keyed.constraints and tree.height > 1:
        kind = "amortised constant time" if keyed.is_amortised else "constant time"
        warning = "; one of them is relied on and not checked" if keyed.is_relied_on else ""
        remarks.append(f"an update takes {kind} by {', '.join(keyed.constraints)}{warning}")
    cut = extra.cut or choice.cut or bool(decomposition and not decomposition.exact)
    return CrownPlan(
        facts.classification,
        relations,
        tree,
        facts.residual,
        checked=wanted - query.free,
        decomposition=decomposition,
        dependencies=dependencies,
        cut=cut,
        remarks=tuple(remarks),
        keyed=keyed,
        preferred=facts.order,
    )


def _updates(
    query: ConjunctiveQuery, relations: Sequence[Relation], statistics: Mapping[str, float]
) -> tuple[Fraction, ...]:
    """The updates expected at each relation of the tree, 1 where nothing is known."""
    known: dict[str, Fraction] = {}
    given: Mapping[str, object] = statistics
    for name, value in given.items():
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
            raise StatisticsError(
                f"the expected updates of {name} are {value!r}", hint="give a number that is not negative"
            )
        known[name.lower()] = Fraction(value)
    return tuple(
        sum((known.get(query.atoms[i].relation.lower(), Fraction(1)) for i in r.atoms), Fraction(0)) for r in relations
    )
