"""Where a CROWN program keeps what: the tree's nodes, their tables, indexes and registers (crown.md 3).

The tree falls into two parts. Nodes outside E_con are *hidden*: each keeps, by key, the total weight of what hangs
below it. The nodes of E_con, projected to their output variables, are *shown*: together they form a full join, in which
a row's level says how far it has come (0 stored, 1 its subtree matches: V_s, 2 part of a result: live). The sizes of
the groups by key are the counts of the projection views V_p.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

from everview.kernel.program import (
    MOST_WORDS,
    Instruction,
    KeyOf,
    Lit,
    Operand,
    Order,
    Procedure,
    Reg,
    Table,
    ValueOf,
)
from everview.query.terms import Var, names
from everview.strategies.crown.alike import alike_below, is_needless, places_of
from everview.strategies.crown.factors import Factors, value_name
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.crown.tree import TreeNode
from everview.strategies.strategy import Sum, WordOrders

Words = tuple[Var, ...]
SATISFIED = "satisfied"
TOTAL, RANKS = "total", "ranks"
"""How many results a row is in, with all that is below it; and the same in one word, for ordered indexes."""
LEVELS = 3
"""Of the rows of a node with others below it; the rows of leaves are all alike."""
ROW = Reg("row")
BODIES = frozenset({"body", "found", "missing", "then", "otherwise", "appeared", "vanished"})
"""The fields of instructions that are instructions."""
CHANGE = Reg("change")


@dataclass(frozen=True, eq=False)
class Node:
    """A tree node in its place."""

    number: int
    tree: TreeNode
    label: str
    parent: Node | None
    key: Words
    """What it shares with its parent."""
    output: Words | None
    """Its output variables if it is shown."""
    alike: tuple[int, ...] = ()
    """The atoms that it is kept for, if they are several (``alike``): its measures are products over them."""
    children: list[Node] = field(default_factory=list)

    @property
    def is_generalized(self) -> bool:
        """True for [X]."""
        return self.tree.relation is None

    @property
    def shown(self) -> list[Node]:
        """The children that take part in results."""
        return [c for c in self.children if c.output is not None]

    @property
    def hidden(self) -> list[Node]:
        """The children that are summed away."""
        return [c for c in self.children if c.output is None]

    @property
    def is_inner(self) -> bool:
        """True if what is below it depends on its rows being live."""
        return bool(self.shown)

    @property
    def matching(self) -> int:
        """The level from which on a row's subtree matches; a leaf's rows always do, and stay on level 0."""
        return 1 if self.shown else 0

    @property
    def is_pure(self) -> bool:
        """A generalized node that is shown and sums nothing: its rows come and go with its children's keys."""
        return self.is_generalized and self.output is not None and not self.hidden

    @property
    def counts_children(self) -> bool:
        """True if a row must count which of its children match; with one child, its level says so."""
        return len(self.shown) > 1

    def is_keyed_by(self, child: Node) -> bool:
        """True if no two rows shown here have the same key of this child."""
        return set(child.key) == set(self.handed)

    @property
    def handed(self) -> Words:
        """By what its weight is kept: its output variables if it is shown, its key if not."""
        return self.output if self.output is not None else self.key

    @property
    def stored(self) -> Words:
        """The variables of its rows: what is handed on, and what joins them to hidden children."""
        return tuple(sorted(set(self.handed).union(*(c.key for c in self.hidden))))

    @property
    def out_table(self) -> str:
        """Its output rows, if it is shown."""
        return f"{self.label}.out"

    @property
    def sum_table(self) -> str:
        """Its totals by key, if it is hidden."""
        return f"{self.label}.sum"

    @property
    def weighed(self) -> str:
        """The procedure that is told by how much the weight of one of its rows has changed."""
        return f"{self.label}.weighed"

    @property
    def row_table(self) -> str:
        """Its own rows, kept only where hidden children need them."""
        return f"{self.label}.rows"


class Layout:
    """The nodes of a plan's tree, and the tables and procedures as they are written.

    Measures are what a weight consists of: number 0 is the count of copies (or of derivations), the others are sums;
    ``sources`` has for each sum the nodes whose rows have a factor of it, mostly one: the sum over a subtree is the
    product of what its nodes with a factor sum up and of the counts of the others. ``limits`` has what a group's sums
    and its count may be that nobody has looked at. Atoms of equal ``signatures`` take the same rows; without any, no
    two are known to.
    """

    def __init__(self, plan: CrownPlan, sums: Sequence[Sum], signatures: Sequence[Hashable] = ()) -> None:
        self.plan = plan
        self.is_set = plan.is_distinct
        valued = {e.atom for e in plan.extremes}
        self.signatures = tuple(("its own", i) if i in valued else s for i, s in enumerate(signatures))
        self.nodes: list[Node] = []
        self._place(plan.tree.root, None)
        self.sums = tuple(sums)
        self.sources = tuple(frozenset(map(self.home, s.factors)) for s in sums)
        self.factors = Factors(self)
        self.procedures: list[Procedure] = []
        self._tables: dict[str, tuple[Words, tuple[str, ...]]] = {}
        self._indexes: dict[str, list[Words]] = {}
        self._widths: dict[str, tuple[int, ...]] = {}
        self._orders: dict[str, list[Order]] = {}
        self._same: dict[str, tuple[str, dict[Var, Var]]] = {}
        self._registers = 0
        self.shared_with = self._paired()
        """A leaf whose rows are those of another leaf's table, by that other one."""
        for node in self.nodes:
            self._declare(node)
        self.limits = self.factors.limits()

    def _place(self, tree: TreeNode, parent: Node | None, alike: tuple[int, ...] = ()) -> None:
        children = alike_below(self.plan, self.signatures, tree)
        if len(children) == 1 and is_needless(self.plan, tree, parent.tree if parent else None, *children[0]):
            tree, alike = children[0]
            children = []
        label = f"[{names(tree.attributes)}]" if tree.relation is None else self.plan.labels[tree.relation]
        if any(label == n.label for n in self.nodes):  # tables and procedures go by it
            label = f"{label}~{len(self.nodes)}"
        key = tuple(sorted(tree.attributes & parent.tree.attributes)) if parent else ()
        output = tuple(sorted(tree.attributes & self.plan.tree.free)) if tree in self.plan.tree.connex else None
        node = Node(len(self.nodes), tree, label, parent, key, output, alike)
        self.nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        if self.plan.has_access:
            children.sort(key=lambda child: self._first(child[0]))
        for child, atoms in children:
            self._place(child, node, atoms)

    def _first(self, tree: TreeNode) -> int:
        """The place in the head of the first output variable that a subtree adds: results are ordered by it."""
        below = frozenset().union(*(n.attributes for n in tree.walk())) & self.plan.tree.free
        return min((self.head.index(v) for v in below), default=len(self.head))

    @cached_property
    def head(self) -> Words:
        """The output variables in the order that is preferred, else in which they are asked for."""
        asked = [t for t in self.plan.query.head if isinstance(t, Var)]
        return tuple(dict.fromkeys((*self.plan.preferred, *asked, *sorted(self.plan.tree.free))))

    def home(self, atom: int) -> Node:
        """The node of an atom."""
        return next(n for n in self.nodes if atom in self._own_atoms(n))

    @cached_property
    def outputs(self) -> Words:
        """The variables of the maintained result, in the order of its columns."""
        return tuple(sorted(self.plan.tree.free))

    @property
    def root(self) -> Node:
        """The root of the tree."""
        return self.nodes[0]

    @property
    def shown(self) -> list[Node]:
        """The nodes of E_con, parents first."""
        return [n for n in self.nodes if n.output is not None]

    def own_sums(self, n: Node) -> tuple[int, ...]:
        """The sums that this node's own relation has a factor of."""
        return tuple(j for j, homes in enumerate(self.sources, 1) if n in homes)

    def carried_sums(self, n: Node) -> tuple[int, ...]:
        """The sums that the node hands on: its own and those of hidden children."""
        below = (j for c in n.hidden for j in self.carried_sums(c))
        return tuple(sorted({*self.own_sums(n), *below}))

    def width(self, n: Node, j: int) -> int:
        """How many words a measure that a node hands on has: its own, and one more for every further factor."""
        return self._product_words(j, self._atoms(n))

    def own_width(self, n: Node, j: int) -> int:
        """How many words a measure of a node's own rows has; those of a bag are products over its atoms."""
        return self._product_words(j, self._own_atoms(n))

    def _product_words(self, j: int, atoms: Iterable[int]) -> int:
        """How many words a measure has that is a product over some atoms: a factor of it, or 64 bits of copies, each.

        A node without atoms, a bag of guards alone or [X], has rows that count once: a word, as those of one atom.
        """
        factors = self.sums[j - 1].factors if j else {}
        return 1 if self.is_set else min(MOST_WORDS, max(1, sum(factors.get(atom, 1) for atom in atoms)))

    def _own_atoms(self, n: Node) -> tuple[int, ...]:
        return n.alike or (() if n.tree.relation is None else tuple(self.plan.relations[n.tree.relation].atoms))

    def _atoms(self, n: Node) -> tuple[int, ...]:
        """The atoms that a node's measures are products over: its own, and those that are hidden below it."""
        return (*self._own_atoms(n), *(atom for c in n.hidden for atom in self._atoms(c)))

    @property
    def result_widths(self) -> tuple[int, ...]:
        """How many words each measure of a result has; where it goes into no group, its copies have one."""
        if self.is_set:
            return (1,)
        every = range(len(self.plan.query.atoms))
        factors = [frozenset[int](), *(frozenset(s.factors) for s in self.sums)]
        return tuple(self._product_words(j, every if self.plan.sums_up else atoms) for j, atoms in enumerate(factors))

    @property
    def result_width(self) -> int:
        """How many words the number of all results may have."""
        return min(MOST_WORDS, len(self.plan.query.atoms) + 1)

    # --- tables ----------------------------------------------------------------------------------------------------

    def _paired(self) -> dict[Node, Node]:
        """The second leaf of each pair that shares a table, and the first: they take the same rows, and sum nothing.

        Two and not more: the table is changed between their two steps, so that each sees the other one as it must be,
        the second one still old and then the first one new.
        """
        waiting: dict[Hashable, Node] = {}
        found: dict[Node, Node] = {}
        for n in self.nodes if self.signatures and not (self.plan.has_totals or self.plan.has_log) else ():
            relation = None if n.tree.relation is None else self.plan.relations[n.tree.relation]
            if relation is None or relation.is_bag or n.output is None or n.children or n.parent is None:
                continue
            if self.own_sums(n) or n.alike:
                continue
            kind = (self.signatures[relation.atoms[0]], frozenset(self._places(n)))
            if kind in waiting:
                found[n] = waiting.pop(kind)
            else:
                waiting[kind] = n
        return found

    def atom_of(self, n: Node) -> int:
        """The atom that a node of one atom stands for; the first of those alike."""
        assert n.tree.relation is not None
        (atom,) = self.plan.relations[n.tree.relation].atoms
        return atom

    def _places(self, n: Node) -> dict[int, Var]:
        """The variables that a leaf stores, by their columns."""
        return places_of(self.plan, self.atom_of(n), n.handed)

    def _declare(self, n: Node) -> None:
        if n in self.shared_with:
            first = self.shared_with[n]
            theirs = self._places(first)
            self._same[n.out_table] = first.out_table, {v: theirs[place] for place, v in self._places(n).items()}
            return
        if n.alike:
            self.plain_table(n.out_table if n.output is not None else n.sum_table, n.handed, self.factors.values(n))
            return
        carried = {j: self.width(n, j) for j in (0, *self.carried_sums(n))}
        if n.output is not None:
            self.table(n.out_table, n.output, carried, with_weight=not n.is_pure, with_satisfied=n.counts_children)
        else:
            self.table(n.sum_table, n.key, carried)
        if n.hidden and not n.is_generalized:
            own = {j: self.own_width(n, j) for j in (0, *self.own_sums(n))}
            table = self.table(n.row_table, n.stored, own)
            for child in n.hidden:
                self.index(table, child.key)

    def table(
        self,
        name: str,
        key: Words,
        measures: Mapping[int, int],
        *,
        with_weight: bool = True,
        with_satisfied: bool = False,
    ) -> str:
        """Declare a table with some measures, each of so many words, the count among them or not."""
        values = [(value_name(0), measures[0])] if with_weight else []
        values += [(SATISFIED, 1)] if with_satisfied else []
        values += [(value_name(j), words) for j, words in measures.items() if j]
        return self.plain_table(name, key, values)

    def plain_table(self, name: str, key: Words, values: Sequence[tuple[str, int]]) -> str:
        """Declare a table with these values, each of so many words."""
        self._tables[name] = (key, tuple(value for value, _ in values))
        self._widths[name] = tuple(words for _, words in values)
        self._indexes[name] = []
        return name

    def value(self, row: Reg, table: str, name: str) -> ValueOf:
        """A value of a row by its name."""
        return ValueOf(row, table, self._tables[table][1].index(name))

    def order(self, table: str, columns: Words, measure: str | None, orders: WordOrders) -> int:
        """The number of a table's ordered index on these columns, with ranks by a value, which is made if need be."""
        valued = frozenset(i for i, v in enumerate(columns) if v in orders.by_value)
        if table in self._same:
            table, theirs = self._same[table]
            columns = tuple(theirs[v] for v in columns)
        key, values = self._tables[table]
        places = tuple(map(key.index, columns))
        ranked = None if measure is None else values.index(measure)
        order = Order(places, ranked, tuple(c for i, c in enumerate(places) if i in valued))
        known = self._orders.setdefault(table, [])
        if order not in known:
            known.append(order)
        return known.index(order)

    @property
    def table_names(self) -> frozenset[str]:
        """The tables that are declared."""
        return frozenset(self._tables)

    def stored_in(self, table: str) -> str:
        """The table that holds a node's rows: its own, or that of the leaf that it shares it with."""
        return self._same[table][0] if table in self._same else table

    def key_of(self, n: Node) -> Words:
        """A node's variables in the order of its table's key."""
        if n.out_table not in self._same:
            return n.handed
        table, theirs = self._same[n.out_table]
        mine = {first: v for v, first in theirs.items()}
        return tuple(mine[v] for v in self._tables[table][0])

    def index(self, table: str, columns: Words) -> int:
        """The number of a table's index on these columns, which is made if need be."""
        if table in self._same:
            table, theirs = self._same[table]
            columns = tuple(theirs[v] for v in columns)
        known = self._indexes[table]
        if columns not in known:
            known.append(columns)
        return known.index(columns)

    def tables(self) -> tuple[Table, ...]:
        """All tables with the indexes that turned out to be needed."""
        moving = {n.out_table for n in self.nodes if n.is_inner}
        found = []
        for name, (key, values) in self._tables.items():
            indexes = tuple(tuple(map(key.index, columns)) for columns in self._indexes[name])
            levels = LEVELS if name in moving else 1
            widths = self._widths[name] if any(words > 1 for words in self._widths[name]) else ()
            orders = tuple(self._orders.get(name, ()))
            found.append(Table(name, tuple(map(str, key)), values, indexes, orders, levels=levels, widths=widths))
        return (*found, *self.limits.tables)

    # --- operands --------------------------------------------------------------------------------------------------

    def word(self, row: Reg, table: str, v: Var) -> KeyOf:
        """A variable's word in a row."""
        if table in self._same:
            table, theirs = self._same[table]
            v = theirs[v]
        return KeyOf(row, table, self._tables[table][0].index(v))

    def words(self, row: Reg, table: str, variables: Words) -> tuple[Operand, ...]:
        """Several variables' words in a row."""
        return tuple(self.word(row, table, v) for v in variables)

    def measure(self, row: Reg, table: str, j: int) -> ValueOf:
        """A measure in a row."""
        table = self.stored_in(table)
        return ValueOf(row, table, self._tables[table][1].index(value_name(j)))

    def added(self, table: str, changes: Mapping[int, Operand]) -> tuple[Operand, ...]:
        """The words by which a row's values change, given the changes of its measures."""
        numbers = {value_name(j): j for j in changes}
        return tuple(changes[numbers[name]] if name in numbers else Lit(0) for name in self._tables[table][1])

    def satisfied(self, row: Reg, table: str) -> ValueOf:
        """How many children match a row."""
        return ValueOf(row, table, self._tables[table][1].index(SATISFIED))

    def fresh(self, stem: str, words: int = 1) -> Reg:
        """A register that nothing else uses."""
        self._registers += 1
        return Reg(f"{stem}{self._registers}", words)

    def change(self, n: Node, j: int) -> Reg:
        """The register in which the change of a measure of a node is handed on."""
        return change_of(j, self.width(n, j))

    def changes(self, n: Node) -> tuple[Reg, ...]:
        """Those of the count and of all sums that a node hands on."""
        return tuple(self.change(n, j) for j in (0, *self.carried_sums(n)))

    def own_changes(self, n: Node) -> tuple[Reg, ...]:
        """Those of the count and of the sums over a node's own rows; of atoms alike, of what each of them has."""
        if n.alike:
            return self.factors.changes(n)
        return tuple(change_of(j, self.own_width(n, j)) for j in (0, *self.own_sums(n)))

    def factor_change(self, atom: int, other: int, j: int) -> Reg:
        """The register in which a factor comes in with an atom's row: its own, or that of one that it is alike."""
        name = change_of(j).name if atom == other else f"{change_of(j).name} of {other}"
        return Reg(name, self.sums[j - 1].factors[other])

    def atom_change(self, atom: int, j: int) -> Reg:
        """The register in which the change of a measure comes in with an atom's row."""
        return change_of(j, self.sums[j - 1].factors[atom] if j else 1)

    def atom_changes(self, atom: int, sums: Sequence[int]) -> tuple[Reg, ...]:
        """Those of the count and of some sums."""
        return tuple(self.atom_change(atom, j) for j in (0, *sums))

    # --- procedures ------------------------------------------------------------------------------------------------

    def procedure(self, name: str, parameters: Sequence[Reg], body: Sequence[Instruction]) -> str:
        """Add a procedure over words."""
        self.procedures.append(Procedure(name, tuple(parameters), self._resolved(body)))
        return name

    def row_procedure(self, name: str, table: str, body: Sequence[Instruction]) -> str:
        """Add a procedure over a row of a table, in register ROW."""
        self.procedures.append(Procedure(name, (ROW,), self._resolved(body), ((ROW, self.stored_in(table)),)))
        return name

    def _resolved(self, body: Sequence[Instruction]) -> tuple[Instruction, ...]:
        """The same over the tables that hold the nodes' rows."""
        return tuple(map(self._resolve, body)) if self._same else tuple(body)

    def _resolve(self, instruction: Instruction) -> Instruction:
        changed: dict[str, Any] = {}
        for part in fields(instruction):
            value = getattr(instruction, part.name)
            if part.name == "table":
                changed["table"] = self.stored_in(value)
            elif part.name in BODIES:
                changed[part.name] = self._resolved(value)
        return replace(instruction, **changed) if changed else instruction


def reg(v: Var) -> Reg:
    """A variable's register; the mark keeps it apart from the registers that procedures use themselves."""
    return Reg(f"@{v.name}")


def regs(variables: Words) -> tuple[Reg, ...]:
    """Several variables' registers."""
    return tuple(map(reg, variables))


def change_of(j: int, words: int = 1) -> Reg:
    """The register in which the change of a measure is handed on, in so many words."""
    return Reg(CHANGE.name if j == 0 else f"change{j}", words)
