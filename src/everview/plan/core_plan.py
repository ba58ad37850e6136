"""How CROWN maintains one conjunctive core: bags where it is cyclic, added outputs where it is not free-connex, a tree.

Steps (crown.md 2, 8): take the core's minimal form; conditions on one relation filter it at the door; a cyclic query is
decomposed into bags; conditions across relations, and queries that are not free-connex, make further variables part of
the maintained output; then the best tree is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from everview.errors import StatisticsError
from everview.plan.bounds import CONSTANT, ENCLOSURE, LINEAR, Bound, Bounds, power
from everview.plan.choose import choose_tree
from everview.plan.connex import fewest_added_outputs
from everview.plan.cores import Core
from everview.plan.search import SearchCutError, join_trees
from everview.plan.tree import Edge, JoinTree, TreeNode
from everview.query.classify import Classification, classify
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.covers import fractional_cover_number
from everview.query.decomposition import Decomposition, decompose
from everview.query.hypergraph import is_free_connex
from everview.query.terms import Expression, names

COUNTED_TREES = 1_000
"""Trees are listed up to here to say how many there were to choose from; the choice itself does not list them."""
COUNTING_STEPS = 500_000
"""So many links between relations are looked at for that."""


@dataclass(frozen=True)
class Relation:
    """A node of the tree's input: an atom, or a bag of several that is kept materialised."""

    label: str
    variables: Edge
    atoms: tuple[int, ...]
    guards: tuple[int, ...] = ()

    @property
    def is_bag(self) -> bool:
        """True if it is a join that must be maintained itself."""
        return len(self.atoms) + len(self.guards) > 1


@dataclass(frozen=True)
class CorePlan:
    """The plan for one core."""

    core: Core
    classification: Classification
    relations: tuple[Relation, ...]
    tree: JoinTree
    filters: tuple[Expression, ...]
    """Conditions on one relation: checked before an update enters."""
    residual: tuple[Expression, ...]
    """Conditions across relations: checked on results as they are listed."""
    added: Edge
    """Variables maintained in the output beyond what is asked for, and projected away when read."""
    checked: Edge
    """Those of them that conditions across relations need; the others make the query free-connex."""
    decomposition: Decomposition | None
    updates: tuple[Fraction, ...]
    cut: bool
    remarks: tuple[str, ...]

    @property
    def query(self) -> ConjunctiveQuery:
        """The query that is maintained: the core's minimal form."""
        return self.classification.core

    @property
    def height(self) -> int:
        """The height of the tree."""
        return self.tree.height

    @property
    def is_distinct(self) -> bool:
        """True if copies do not count."""
        return self.query.semantics is Semantics.SET

    @property
    def merges_rows(self) -> bool:
        """True if several maintained rows can be one row of the result."""
        return bool(self.added)

    @property
    def folds_rows(self) -> bool:
        """True if its changes are folded into rows that are kept: for an operator, or where derivations merge."""
        return self.core.folded or (self.merges_rows and (self.is_distinct or self.core.grouped))

    @cached_property
    def changes_one_row(self) -> bool:
        """True if an update changes at most one row of what is maintained: every node shown has all of the output."""
        free = self.tree.free
        return not self.weights_travel and all(n.attributes & free == free for n in self.tree.connex)

    @property
    def reduction(self) -> str:
        """What had to be done to get a free-connex query: none, added outputs, bags, or both."""
        steps = (["bags"] if self.decomposition else []) + (["added outputs"] if self.merges_rows else [])
        return " and ".join(steps) or "none"

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

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """The kinds of update sequences on which an update takes constant (amortised) time (crown.md 1)."""
        if self.decomposition or self.weights_travel or self.core.keeps_values:
            return ()
        if self.folds_rows and not self.changes_one_row:
            return ()
        if self.height <= 1:
            return ("any", "fifo", "insert_only")
        return ("fifo", "insert_only") if self.height == 2 else ("insert_only",)

    @cached_property
    def bounds(self) -> Bounds:
        """What maintaining this core costs."""
        size = max(_size(self.query, r) for r in self.relations)
        build = LINEAR if size == 1 else power(size)
        update, delay, space = self._update(), CONSTANT, build
        if self.weights_travel:
            update = update.plus(Bound(("|Δw|",), Fraction(1), ("Δw the stored rows whose weight changes",)))
        if self.folds_rows:
            update = update.plus(self._fold_cost())
            build = build.plus(self._kept_rows("|Q⁺|" if self.merges_rows else "|Q|", self.tree.free))
            space = space.plus(self._kept_rows("|Q|", self.tree.free if self.core.keeps_values else self.query.free))
        elif self.merges_rows:
            delay = Bound((), Fraction(1), (f"per derivation ({names(self.added)} projected away)",))
        if self.residual:
            delay = delay.plus(Bound((), Fraction(1), (f"per candidate ({_all(self.residual)} checked on each)",)))
        if self.core.filtered:
            delay = delay.plus(Bound((), Fraction(1), ("per group (HAVING checked on each)",)))
        return Bounds(build, update, delay, space)

    def _fold_cost(self) -> Bound:
        """Each changed row is folded in: MIN and MAX keep values in order."""
        if self.merges_rows:
            changed = Bound(("|Δ⁺|",), Fraction(1), (f"Δ⁺ the change before {names(self.added)} goes",))
        else:
            changed = CONSTANT if self.changes_one_row else Bound(("|Δ|",), Fraction(1))
        if not self.core.keeps_values:
            return changed
        return Bound(tuple(f"{t} log N" for t in changed.terms) or ("log N",), changed.exponent, changed.caveats)

    def _kept_rows(self, name: str, free: Edge) -> Bound:
        """The rows that a fold keeps; no more than are stored where one relation has all their columns."""
        size = fractional_cover_number(self.query.edges, free & self.query.variables)
        return CONSTANT if size <= 1 else Bound((name,), size)

    def _update(self) -> Bound:
        """Bags change by their delta join, and every relation above one is touched once a change at most."""
        exponents = [self._delta_exponent(node) for node in self.tree.root.walk()]
        worst_case = max(exponents)
        if self.decomposition and worst_case > 0:
            return power(worst_case)
        return CONSTANT if self.height <= 1 else ENCLOSURE

    def _delta_exponent(self, node: TreeNode) -> Fraction:
        if node.relation is None:
            return Fraction(0)
        relation = self.relations[node.relation]
        own = Fraction(0)
        if relation.is_bag:
            edges = [self.query.edges[i] for i in (*relation.atoms, *relation.guards)]
            own = max(fractional_cover_number(edges, relation.variables - e) for e in edges)
        above = self.tree.parents[node]
        while above is not None:
            if above.relation is not None:
                own = max(own, _size(self.query, self.relations[above.relation]))
            above = self.tree.parents[above]
        return own


def _size(query: ConjunctiveQuery, relation: Relation) -> Fraction:
    """The exponent of a relation's size: 1 for a stored one, the AGM bound for a bag."""
    if not relation.is_bag:
        return Fraction(1)
    return max(Fraction(1), fractional_cover_number(query.edges, relation.variables))


def _all(expressions: Sequence[Expression]) -> str:
    return " and ".join(map(str, expressions))


def plan_core(core: Core, statistics: Mapping[str, float] | None = None) -> CorePlan:
    """Plan one core; ``statistics`` are the updates expected at each table."""
    classification = classify(core.query)
    query = classification.core
    remarks: list[str] = []
    if not classification.core_is_proven:
        remarks.append("the search for a smaller equivalent query was cut: the class may be better than shown")
    if len(query.atoms) < len(core.query.atoms):
        gone = len(core.query.atoms) - len(query.atoms)
        remarks.append(f"{gone} of {len(core.query.atoms)} atoms are redundant under set semantics and not maintained")
    decomposition = None if classification.acyclic else _decomposition(query)
    relations = _relations(query, decomposition)
    edges = tuple(r.variables for r in relations)
    filters = tuple(p for p in query.predicates if any(p.variables <= e for e in query.edges))
    residual = tuple(p for p in query.predicates if p not in filters)
    wanted = query.free | frozenset(v for p in residual for v in p.variables)
    extra = fewest_added_outputs(edges, wanted)
    free = wanted | extra.variables
    updates = _updates(query, relations, statistics or {})
    choice = choose_tree(edges, free, updates)
    if choice is None:
        raise AssertionError(f"no free-connex tree for {query} with output {names(free)}")
    if decomposition and not decomposition.exact:
        remarks.append("too many variables to prove the bags' width least: found greedily")
    if extra.cut:
        remarks.append("the search for the fewest added outputs was cut: found greedily")
    if choice.cut:
        remarks.append("the search for the best tree was cut: the best found so far is used")
    cut = extra.cut or choice.cut or bool(decomposition and not decomposition.exact)
    return CorePlan(
        core,
        classification,
        relations,
        choice.tree,
        filters,
        residual,
        added=free - query.free,
        checked=wanted - query.free,
        decomposition=decomposition,
        updates=updates,
        cut=cut,
        remarks=tuple(remarks),
    )


def _decomposition(query: ConjunctiveQuery) -> Decomposition:
    """Bags that keep the output together where that costs no width, else bags of least width.

    Columns that nothing else mentions play no part: with them, an atom inside a bag would look like one beside it.
    """
    joined = frozenset(v for v, atoms in query.atoms_of.items() if len(atoms) > 1)
    relevant = joined | query.free | frozenset(v for p in query.predicates for v in p.variables)
    edges = [e & relevant for e in query.edges]
    least = decompose(edges)
    if is_free_connex([b.variables for b in least.bags], query.free):
        return least
    together = decompose(edges, query.free)
    same = (together.width, together.fractional_width) <= (least.width, least.fractional_width)
    return together if same else least


def _relations(query: ConjunctiveQuery, decomposition: Decomposition | None) -> tuple[Relation, ...]:
    labels = atom_labels(query)
    if decomposition is None:
        return tuple(Relation(labels[i], e, (i,)) for i, e in enumerate(query.edges))
    found = []
    for bag in decomposition.bags:
        parts = [labels[i] for i in bag.edges] + [f"π {labels[i]}" for i in bag.guards]
        label = parts[0] if len(parts) == 1 else " ⋈ ".join(parts)
        found.append(Relation(label, bag.variables, bag.edges, bag.guards))
    return tuple(found)


def atom_labels(query: ConjunctiveQuery) -> tuple[str, ...]:
    """A short distinct name for each atom: its relation, with the alias where the relation occurs twice."""
    relations = [a.relation for a in query.atoms]
    labels = []
    for i, atom in enumerate(query.atoms):
        if relations.count(atom.relation) == 1:
            labels.append(atom.relation)
        elif atom.alias and atom.alias != atom.relation:
            labels.append(f"{atom.relation} {atom.alias}")
        else:
            labels.append(f"{atom.relation}#{relations[: i + 1].count(atom.relation)}")
    return tuple(labels)


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
