"""Runs the program of a hierarchical query, and derives from the tables what the paper keeps: All, L, H, light parts.

The oracle joins the tables by brute force, and knows nothing of programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Var
from everview.query.widths import widths
from everview.strategies.hierarchical.compile import compile_hierarchical
from everview.strategies.hierarchical.order import Leaf, Mode, OrderNode, Role
from everview.strategies.hierarchical.plan import HierarchicalPlan
from everview.strategies.strategy import Maintained, Sum
from tests.strategies.machines import Kernel

Row = tuple[Any, ...]
Bag = dict[Row, int]


def query_of(head: str, *atoms: str, semantics: Semantics = Semantics.BAG) -> ConjunctiveQuery:
    """``query_of("AC", "RAB", "SBC")`` is Q(A,C) = R(A,B), S(B,C)."""

    def variables(names: str) -> tuple[Var, ...]:
        return tuple(map(Var, names))

    body = tuple(Atom(a[0], variables(a[1:])) for a in atoms)
    return ConjunctiveQuery(variables(head), body, semantics=semantics)


def joined(
    atoms: Sequence[Atom], head: Sequence[Var], database: Mapping[str, Bag], known: Mapping[Var, int] | None = None
) -> Bag:
    """The join by brute force: rows over the head with the numbers of their derivations."""
    found: list[tuple[dict[Var, Any], int]] = [(dict(known or {}), 1)]
    for atom in atoms:
        more = []
        for places, weight in found:
            for row, copies in database.get(atom.relation, {}).items():
                own = dict(places)
                if all(own.setdefault(t, x) == x for t, x in zip(atom.terms, row, strict=True)):
                    more.append((own, weight * copies))
        found = more
    out: Counter[Row] = Counter()
    for places, weight in found:
        out[tuple(places[v] for v in head)] += weight
    return dict(out)


@dataclass
class Run:
    """A program at work, and the tables beside it."""

    query: ConjunctiveQuery
    epsilon: Fraction
    mode: Mode = Mode.DYNAMIC
    machine_of: Callable[[Any], Any] = Kernel
    sums: tuple[tuple[int, Var], ...] = ()
    database: dict[str, Bag] = field(default_factory=dict)
    with_deltas: bool = False
    told: Counter[Row] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.plan = HierarchicalPlan(self.query, widths(self.query), Fraction(self.epsilon), "for a test", self.mode)
        self.order = self.plan.order
        self.maintained: Maintained = compile_hierarchical(self.plan, [Sum({atom: 1}) for atom, _ in self.sums])
        self.machine = self.machine_of(self.maintained.program)

    @property
    def is_set(self) -> bool:
        return self.query.semantics is Semantics.SET

    # --- updates -----------------------------------------------------------------------------------------------------

    def update(self, relation: str, row: Row, change: int = 1, *, load: bool = False) -> None:
        """One update of all occurrences of a relation; with ``load`` it is only stored."""
        bag = self.database.setdefault(relation, {})
        bag[row] = bag.get(row, 0) + change
        assert bag[row] >= 0
        if not bag[row]:
            del bag[row]
        entry = self.maintained.entry(relation)
        assert entry is not None
        words: list[int] = []
        for given in entry.atom_inputs:
            places: dict[Var, int] = {}
            terms = self.query.atoms[given.atom].terms
            fits = all(places.setdefault(t, x) == x for t, x in zip(terms, row, strict=True) if isinstance(t, Var))
            words += [*(places[v] for v in given.variables), int(fits)]
            words += [change * places[self.sums[j - 1][1]] for j in given.sums]
        procedure = entry.with_deltas if self.with_deltas else entry.state_only
        self.machine.apply((load and entry.load) or procedure, [[w] for w in (*words, change)])
        width = len(self.maintained.outputs)
        for out in zip(*self.machine.take("delta"), strict=True):
            self.told[out[:width]] += out[width]
            if not self.told[out[:width]]:
                del self.told[out[:width]]

    def load(self, tables: Mapping[str, Iterable[Row] | Bag]) -> None:
        """A database that is there before the first update: N = 2|D| + 1, and a strict partition."""
        for relation, rows in tables.items():
            for row in rows:
                self.update(relation, row, rows[row] if isinstance(rows, Mapping) else 1, load=True)
        assert self.maintained.build is not None
        self.machine.apply(self.maintained.build, [[0]])

    def switch(self, with_deltas: bool) -> None:
        """Open or close the feed."""
        self.machine.apply("start_deltas" if with_deltas else "stop_deltas", [[0]])
        self.with_deltas = with_deltas
        self.told = Counter(self.result() if with_deltas else {})

    # --- reads -------------------------------------------------------------------------------------------------------

    def wanted(self) -> Bag:
        """The result by brute force."""
        found = joined(self.query.atoms, self.maintained.outputs, self.database)
        return dict.fromkeys(found, 1) if self.is_set else found

    def result(self) -> Bag:
        """The result as the cursor lists it, each row once."""
        width = len(self.maintained.outputs)
        rows = self.machine.rows("result")
        found = {row[:width]: row[width] for row in rows}
        assert len(found) == len(rows)
        return found

    def pieces(self) -> Bag:
        """The same from the cursor for who reads everything, added up."""
        width = len(self.maintained.outputs)
        found: Counter[Row] = Counter()
        for row in self.machine.rows("pieces"):
            found[row[:width]] += row[width]
        return dict.fromkeys(found, 1) if self.is_set else dict(found)

    def base(self, column: str) -> int:
        """A number of the threshold base."""
        table = self.maintained.program.table("parts")
        ((_, values, _),) = self.machine.dump("parts") or [((), (1, *[0] * len(table.values)), 0)]
        return int(values[table.values.index(column)])

    def table(self, name: str) -> dict[Row, int]:
        """The first value of every row of a table."""
        return {key: values[0] for key, values, _ in self.machine.dump(name)}

    # --- what the paper keeps, derived -------------------------------------------------------------------------------

    def node(self, label: str) -> OrderNode:
        """A node by its variables."""
        return next(n for n in self.order.walk() if n.label == label)

    def all_of(self, node: OrderNode) -> Bag:
        """All_X: for each key the number of joins of everything below."""
        atoms = [self.query.atoms[leaf.atom] for leaf in node.all_leaves]
        return joined(atoms, node.keys, self.database)

    def marks(self, node: OrderNode) -> dict[Row, tuple[int, ...]]:
        """For each heavy key its marks, by atom."""
        return {key: values[1:] for key, values, _ in self.machine.dump(f"heavy.{node.label}")}

    def light_of(self, node: OrderNode) -> Bag:
        """L_X."""
        heavy = self.marks(node)
        return {key: n for key, n in self.all_of(node).items() if key not in heavy}

    def heavy_of(self, node: OrderNode) -> Bag:
        """H_X."""
        heavy = self.marks(node)
        return {key: n for key, n in self.all_of(node).items() if key in heavy}

    def light_part(self, node: OrderNode, leaf: Leaf) -> int:
        """|R^K|: the rows of an atom whose key is light in it."""
        place = node.all_leaves.index(leaf)
        marked = {key for key, marks in self.marks(node).items() if marks[place]}
        places = [leaf.words.index(v) for v in node.keys]
        return sum(tuple(row[i] for i in places) not in marked for row in self.table(leaf.label))

    # --- invariants (hierarchical-tradeoff.md 10.5) ------------------------------------------------------------------

    def check(self) -> None:
        """The result, what was told, and everything that must hold of the state."""
        wanted = self.wanted()
        assert self.result() == wanted
        assert self.pieces() == wanted
        if self.with_deltas:
            assert dict(self.told) == wanted
        size = sum(len(self.table(leaf.label)) for n in self.order.walk() for leaf in n.leaves)
        size += sum(len(self.table(leaf.label)) for leaf in self.order.scalars)
        assert self.base("size") == size
        assert self.base("N") // 4 <= size < self.base("N")
        for node in self.order.walk():
            self._check_tables(node)
            if node.role is Role.SPLIT:
                self._check_marks(node)

    def _check_marks(self, node: OrderNode) -> None:
        p, q = self.epsilon.numerator, self.epsilon.denominator
        power = self.base("N") ** p
        marks = self.marks(node)
        for place in range(len(node.all_leaves)):
            count = sum(m[place] for m in marks.values())
            assert count**q * power <= (2 * self.base("size")) ** q
        assert all(sum(m) == n > 0 for (_, (n, *m), _) in self.machine.dump(f"heavy.{node.label}"))
        for place, leaf in enumerate(node.all_leaves):
            places = [leaf.words.index(v) for v in node.keys]
            degrees = Counter(tuple(row[i] for i in places) for row in self.table(leaf.label))
            assert {key for key, m in marks.items() if m[place]} <= degrees.keys()
            for key, degree in degrees.items():
                if key in marks and marks[key][place]:
                    assert (2 * degree) ** q >= power
                else:
                    assert (2 * degree) ** q < 3**q * power

    def _check_tables(self, node: OrderNode) -> None:
        atoms = [self.query.atoms[leaf.atom] for leaf in node.all_leaves]
        every = self.all_of(node)
        assert self.table(f"total.{node.label}") == joined(atoms, node.above, self.database)
        if node.role is Role.SPLIT:
            assert self.table(f"rows.{node.label}") == self.heavy_of(node)
        elif node.role is Role.LISTED:
            assert self.table(self._rows_of(node)) == every
        if node.role in (Role.SPLIT, Role.JOINED):
            heavy = self.marks(node) if node.role is Role.SPLIT else {}
            found: Counter[Row] = Counter()
            width = len(node.keys)
            for row, n in joined(atoms, (*node.keys, *node.above, *node.shown), self.database).items():
                if row[:width] not in heavy:
                    found[row[width:]] += n
            assert self.table(f"light.{node.label}") == dict(found)

    def _rows_of(self, node: OrderNode) -> str:
        below = (*node.leaves, *node.children)
        if len(below) > 1:
            return f"rows.{node.label}"
        (only,) = below
        return only.label if isinstance(only, Leaf) else f"total.{only.label}"
