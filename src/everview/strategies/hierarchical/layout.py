"""Where a program for a hierarchical query keeps what: its tables, their indexes, values and registers.

A *unit* is what is joined as a whole: an atom's rows, or the totals over a node of the order and all below it. Totals
do not depend on which keys are heavy, so a change of them goes up one way in constant time, and a key that becomes
heavy or light changes nothing above its node (hierarchical-tradeoff.md 7.3, 7.4):

| table | key | what it holds |
|---|---|---|
| `atomI` | the variables stored of it | the copies of an atom's rows, and the sums over them |
| `total.X` | those above X | the same of what is joined below, summed over X: the auxiliary views |
| `rows.X` | keys(X) | X listed: the values that have a result; X split: the heavy keys that have one |
| `light.X` | those above X, the output below X | X split or joined: the join over all light keys |
| `heavy.X` | keys(X) | X split: in how many atoms, and in which, a key is heavy |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from everview.kernel.program import MOST_WORDS, Instruction, KeyOf, Lit, Operand, Procedure, Reg, Table, ValueOf
from everview.query.terms import Var
from everview.strategies.hierarchical.order import Leaf, Order, OrderNode, Role, Words

Unit: TypeAlias = Leaf | OrderNode
"""What is joined as a whole: an atom's rows, or the totals over a node."""
Places: TypeAlias = Mapping[Var, Operand]
"""Where the words of variables are found."""


def reg(v: Var) -> Reg:
    """The register of a variable's word."""
    return Reg(f"@{v.name}")


def regs(words: Words) -> tuple[Reg, ...]:
    """The registers of some variables' words."""
    return tuple(map(reg, words))


def words_of(unit: Unit) -> Words:
    """The variables that a unit is joined by."""
    return unit.words if isinstance(unit, Leaf) else unit.above


def leaves_of(unit: Unit) -> tuple[Leaf, ...]:
    """The atoms of a unit."""
    return (unit,) if isinstance(unit, Leaf) else unit.all_leaves


def units_below(node: OrderNode) -> tuple[Unit, ...]:
    """The units that meet at a node, in each of its keys."""
    return (*node.leaves, *node.children)


def joined_units(node: OrderNode) -> tuple[Unit, ...]:
    """What is joined ahead below a node: atoms, and totals over what has no output (light inputs, refined)."""
    below = (u for c in node.children for u in (joined_units(c) if c.shown else (c,)))
    return (*node.leaves, *below)


@dataclass
class _Declared:
    key: Words
    values: tuple[str, ...]
    widths: tuple[int, ...]
    indexes: list[tuple[int, ...]]


class Layout:
    """The tables of an order, the sums kept in them, and the procedures as they are written.

    Measures are what a weight consists of: number 0 is the count, the others are sums over one atom each (``sources``).
    """

    def __init__(
        self, order: Order, outputs: Words, sources: Sequence[int], is_set: bool, *, sums_up: bool = False
    ) -> None:
        self.order = order
        self.outputs = outputs
        self.sources = tuple(sources)
        self.is_set = is_set
        self.sums_up = sums_up and not is_set
        self.leaves: tuple[Leaf, ...] = tuple(
            sorted((*order.scalars, *(x for r in order.roots for x in r.all_leaves)), key=lambda leaf: leaf.atom)
        )
        self.procedures: list[Procedure] = []
        self._tables: dict[str, _Declared] = {}
        self._count = 0
        for leaf in self.leaves:
            self._declare_measured(leaf.label, leaf.words, leaf)
        for node in order.walk():
            self._declare_measured(self.table(node), node.above, node)
            if self.own_rows(node):
                self.declare(self.rows_table(node), node.keys, ("weight",), (self.width(node),))
            if node.role in (Role.SPLIT, Role.JOINED):
                self._declare_measured(self.light_table(node), (*node.above, *node.shown), node)
            if node.role is Role.SPLIT:
                bits = tuple(leaf.label for leaf in node.all_leaves)
                self.declare(self.heavy_table(node), node.keys, ("number", *bits))

    # --- measures ----------------------------------------------------------------------------------------------------

    @property
    def measures(self) -> range:
        """The numbers of all measures."""
        return range(1 + len(self.sources))

    def carried(self, unit: Unit) -> tuple[int, ...]:
        """The measures that a unit's rows hold: the count, and the sums over its atoms."""
        atoms = {leaf.atom for leaf in leaves_of(unit)}
        return (0, *(j for j, atom in enumerate(self.sources, 1) if atom in atoms))

    def width(self, unit: Unit) -> int:
        """How many words a unit's measures have: as many as factors, each of one word."""
        return min(MOST_WORDS, len(leaves_of(unit)))

    @property
    def result_width(self) -> int:
        """How many words the number of all results may have."""
        return min(MOST_WORDS, len(self.leaves) + 1)

    @property
    def told_width(self) -> int:
        """How many words a measure has in what is told and listed: one, unless groups are made of it."""
        return self.result_width if self.sums_up else 1

    def value(self, row: Reg, unit: Unit, j: int, table: str | None = None) -> ValueOf:
        """A measure of a row: the sum if the unit carries it, else the count."""
        held = self.carried(unit)
        return ValueOf(row, table or self.table(unit), held.index(j) if j in held else 0)

    # --- tables ------------------------------------------------------------------------------------------------------

    def table(self, unit: Unit) -> str:
        """Where a unit's rows are."""
        return unit.label if isinstance(unit, Leaf) else f"total.{unit.label}"

    def only_unit(self, node: OrderNode) -> Unit | None:
        """The one unit below a listed node, whose rows are the node's own then."""
        below = units_below(node)
        return below[0] if node.role is Role.LISTED and len(below) == 1 else None

    def own_rows(self, node: OrderNode) -> bool:
        """True if the node's rows are a table of their own."""
        return node.role in (Role.LISTED, Role.SPLIT) and self.only_unit(node) is None

    def rows_table(self, node: OrderNode) -> str:
        """Where the keys of a node are that are part of a result."""
        only = self.only_unit(node)
        return self.table(only) if only is not None else f"rows.{node.label}"

    def light_table(self, node: OrderNode) -> str:
        """Where what is joined ahead at a node is."""
        return f"light.{node.label}"

    def heavy_table(self, node: OrderNode) -> str:
        """Where the heavy keys of a node are."""
        return f"heavy.{node.label}"

    def declare(self, name: str, key: Words, values: tuple[str, ...], widths: tuple[int, ...] = ()) -> None:
        """A table."""
        self._tables[name] = _Declared(key, values, widths or (1,) * len(values), [])

    def _declare_measured(self, name: str, key: Words, unit: Unit) -> None:
        held = self.carried(unit)
        values = ("weight", *(f"sum{j}" for j in held[1:]))
        self.declare(name, key, values, (self.width(unit),) * len(values))

    def key_of(self, table: str) -> Words:
        """The variables of a table's key."""
        return self._tables[table].key

    def index(self, table: str, by: Words) -> int:
        """The number of a table's index by some variables, which is made if there is none yet."""
        declared = self._tables[table]
        columns = tuple(i for i, v in enumerate(declared.key) if v in by)
        if columns not in declared.indexes:
            declared.indexes.append(columns)
        return declared.indexes.index(columns)

    def index_key(self, table: str, by: Words, places: Places) -> tuple[Operand, ...]:
        """The words by which such an index is asked."""
        return tuple(places[v] for v in self._tables[table].key if v in by)

    def words(self, row: Reg, table: str) -> dict[Var, Operand]:
        """The variables of a table's row."""
        return {v: KeyOf(row, table, i) for i, v in enumerate(self._tables[table].key)}

    def tables(self) -> tuple[Table, ...]:
        """All tables, with the indexes that were asked for."""
        return tuple(
            Table(name, tuple(str(v) for v in t.key), t.values, tuple(t.indexes), widths=t.widths)
            for name, t in self._tables.items()
        )

    # --- names -------------------------------------------------------------------------------------------------------

    def fresh(self, what: str, words: int = 1) -> Reg:
        """A register that nothing else uses."""
        self._count += 1
        return Reg(f"{what}{self._count}", words)

    def procedure(self, name: str, parameters: Sequence[Reg], body: Sequence[Instruction]) -> str:
        """A procedure, and its name."""
        self.procedures.append(Procedure(name, tuple(parameters), tuple(body)))
        return name


ZERO, ONE = Lit(0), Lit(1)
