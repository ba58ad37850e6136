"""MIN and MAX off the tree: of each row the best value below it, kept in order by what the row hands on.

For groups whose values come in with one relation's rows (q-hierarchical.md 11). A leaf keeps the values of each key in
order. A row of a node above it is as good as the best value of the group below it, if it matches all its children that
are summed away; the node keeps these bests in order in turn. So a group's MIN or MAX is the first or the last value of
one group of one ordered index, and an update looks at as many rows as it changes the weights of, in O(log N) each: it
goes on upwards only where the best of a group is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Cursor,
    Find,
    Function,
    If,
    Insert,
    Instruction,
    Lit,
    Math,
    Operand,
    Reg,
    Remove,
    Scan,
    Select,
    Step,
    Store,
    Test,
)
from everview.strategies.crown.layout import CHANGE, ROW, Layout, Node, Words, reg, regs
from everview.strategies.strategy import WordOrders, value_variable, words_of_value

BEST = "best"
_NULL = Lit(-(2**63))
_ONCE, _END, _THERE, _VALUE = Reg("once"), Reg("end"), Reg("there"), Reg("value")


class Extremes:
    """Writes how values in order change with rows, and what reads the first and last of them."""

    def __init__(self, layout: Layout, orders: WordOrders) -> None:
        self.layout = layout
        self.orders = orders
        self.wanted = layout.plan.extremes
        self.paths = tuple(tuple(_path(layout.home(e.atom))) for e in self.wanted)
        """The nodes that the values of each go through: from that of their atom to the first that is shown."""
        for n in layout.nodes:
            for value in self.values_at(n):
                layout.plain_table(_own_table(n, value), (*n.stored, value_variable(value)), [("copies", 1)])
            for j in self._at(n) if n.hidden else ():
                handed = (*n.handed, value_variable(self.wanted[j].value))
                layout.plain_table(_bests_table(n, j), handed, [("rows", 1)])
                layout.plain_table(_best_table(n, j), n.stored, [(BEST, 1)])

    def values_at(self, n: Node) -> tuple[int, ...]:
        """The values that come in with the rows of a node's relation."""
        own = (e.value for e, path in zip(self.wanted, self.paths, strict=True) if path[0] is n)
        return tuple(dict.fromkeys(own))

    def _at(self, n: Node) -> list[int]:
        """What of all is handed on by a node."""
        return [j for j, path in enumerate(self.paths) if n in path]

    def _source(self, n: Node, j: int) -> Node | None:
        """The child that the values come from; None if they are those of the node's own relation."""
        at = self.paths[j].index(n)
        return self.paths[j][at - 1] if at else None

    # --- what is kept ----------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Parents first: a group's best that has changed is told upwards."""
        for n in self.layout.nodes:
            for j in self._at(n) if n.hidden else ():
                value = self.wanted[j].value
                told = [(j, self._told(n, j))]
                body = self._counted(_bests_table(n, j), n.handed, value, told)
                self.layout.procedure(_counting(n, j), (*regs(n.handed), *_come(value)), body)
                self.layout.procedure(_judging(n, j), regs(n.stored), self._judged(n, j))
                for child in n.hidden:
                    self.layout.procedure(_above(child, j), regs(child.key), self._rows_above(n, child, j))
            for value in self.values_at(n):
                own = [j for j in self._at(n) if self._source(n, j) is None and self.wanted[j].value == value]
                told = [(j, self._judge(n, j) if n.hidden else self._told(n, j)) for j in own]
                body = self._counted(_own_table(n, value), n.stored, value, told)
                self.layout.procedure(_coming(n, value), (*regs(n.stored), *_come(value)), body)

    def came(self, n: Node) -> list[Instruction]:
        """A row of a node's relation comes or goes with its values, of which NULL does not count."""
        found: list[Instruction] = []
        for value in self.values_at(n):
            there, call = _come(value)[0], Call(_coming(n, value), (*regs(n.stored), *_come(value)))
            found.append(If(Test.NOT_EQUAL, there, _NULL, (call,)))
        return found

    def flipped(self, n: Node) -> list[Instruction]:
        """A stored row of a node has come or gone, of whose children the values are."""
        passed = [j for j in self._at(n) if n.hidden and self._source(n, j) is not None]
        return [call for j in passed for call in self._judge(n, j)]

    def flipped_below(self, child: Node) -> list[Instruction]:
        """A key of a hidden child has come or gone, from which no values come: rows above match now, or no more."""
        n = child.parent
        assert n is not None
        return [Call(_above(child, j), regs(child.key)) for j in self._at(n) if self._source(n, j) is not child]

    def _judge(self, n: Node, j: int) -> list[Instruction]:
        return [Call(_judging(n, j), regs(n.stored))]

    def _told(self, n: Node, j: int) -> list[Instruction]:
        """The best of a group is another one: rows above are; a shown node's groups are read where they are."""
        return [Call(_above(n, j), regs(n.key))] if n.output is None else []

    def _counted(
        self, table: str, words: Words, value: int, told: Iterable[tuple[int, list[Instruction]]]
    ) -> list[Instruction]:
        """Count a value in or out of its group; run what is told if the group's best is another one then.

        It is if the value is the best once it has come, or was the best until it went.
        """
        moved = {j: (Reg(f"moved{j}"), then) for j, then in told if then}
        looked: list[Instruction] = []
        for j, (flag, _) in moved.items():
            known = _compute(flag, Lit(1))
            is_best = If(Test.EQUAL, _END, reg(value_variable(value)), (known,))
            looked += [self._best(table, words, j, (_compute(_END, self._word(table, value)), is_best))]
        key = (*regs(words), reg(value_variable(value)))
        return [
            *(_compute(flag, Lit(0)) for flag, _ in moved.values()),
            Add(ROW, table, key, (CHANGE,), tuple(looked), tuple(looked)),
            *(If(Test.NOT_EQUAL, flag, Lit(0), tuple(then)) for flag, then in moved.values()),
        ]

    def _judged(self, n: Node, j: int) -> list[Instruction]:
        """See what the best value of a stored row is now, and put it in the place of the one that it was."""
        had, old, same = Reg("had"), Reg("old"), Reg("same")
        source, value = self._source(n, j), self.wanted[j].value
        table, words = (_own_table(n, value), n.stored) if source is None else (self._table(source, j), source.key)
        found = (_compute(_THERE, Lit(1)), _compute(_VALUE, self._word(table, value)))
        body: list[Instruction] = [self._best(table, words, j, found)]
        for child in reversed([c for c in n.hidden if c is not source]):
            body = [Find(Reg(f"sum{child.number}"), child.sum_table, regs(child.key), tuple(body))]
        if source is not None and not n.is_generalized:
            body = [Find(Reg("own"), n.row_table, regs(n.stored), tuple(body))]
        best, counting = _best_table(n, j), _counting(n, j)
        kept = self.layout.value(ROW, best, BEST)
        known = (_compute(had, Lit(1)), _compute(old, kept))
        stored = Store(ROW, best, kept.column, _VALUE)
        now = (
            Call(counting, (*regs(n.handed), _VALUE, Lit(1))),
            Find(ROW, best, regs(n.stored), (stored,), (Insert(ROW, best, regs(n.stored)), stored)),
        )
        gone = (Find(ROW, best, regs(n.stored), (Remove(ROW, best),)),)
        changed = (
            If(Test.NOT_EQUAL, _THERE, Lit(0), now, gone),
            If(Test.NOT_EQUAL, had, Lit(0), (Call(counting, (*regs(n.handed), old, Lit(-1))),)),
        )
        return [
            *(_compute(r, Lit(0)) for r in (_THERE, _VALUE, had, old, same)),
            *body,
            Find(ROW, best, regs(n.stored), known),
            If(Test.EQUAL, had, _THERE, (If(Test.EQUAL, old, _VALUE, (_compute(same, Lit(1)),)),)),
            If(Test.EQUAL, same, Lit(0), changed),
        ]

    def _rows_above(self, n: Node, child: Node, j: int) -> list[Instruction]:
        """Judge the rows of a node that have a key of its child; [X] has one row for each, which is the key."""
        if n.is_generalized:
            return self._judge(n, j)
        row = Reg(f"row{n.number}")
        index = self.layout.index(n.row_table, child.key)
        judged = Call(_judging(n, j), self.layout.words(row, n.row_table, n.stored))
        return [Scan(row, n.row_table, index, regs(child.key), 0, (judged,))]

    # --- what is read ----------------------------------------------------------------------------------------------

    def functions(self) -> tuple[Function, ...]:
        """For each of them the one that reads a group's value."""
        return tuple(self._read(j) for j in range(len(self.wanted)))

    def cursors(self) -> tuple[Cursor, ...]:
        """For each value that comes in the one that lists its words, with their copies."""
        return tuple(self._words(n, value) for n in self.layout.nodes for value in self.values_at(n))

    def _words(self, n: Node, value: int) -> Cursor:
        row, table = Reg("at"), _own_table(n, value)
        step = Step(row, table, self.layout.index(table, ()), (), 0)
        outputs = (self.layout.word(row, table, value_variable(value)), self.layout.value(row, table, "copies"))
        return Cursor(words_of_value(value), (), (step,), outputs)

    def _read(self, j: int) -> Function:
        n = self.paths[j][-1]
        table = self._table(n, j)
        found = (_compute(_THERE, Lit(1)), _compute(_VALUE, self._word(table, self.wanted[j].value)))
        nothing = [_compute(r, Lit(0)) for r in (_THERE, _VALUE)]
        body: tuple[Instruction, ...] = (*nothing, self._best(table, n.handed, j, found))
        return Function(f"extreme{j}", regs(self.layout.outputs) or (_ONCE,), body, (_THERE, _VALUE))

    def _table(self, n: Node, j: int) -> str:
        """What has a node's values in order, by what it hands on."""
        return _bests_table(n, j) if n.hidden else _own_table(n, self.wanted[j].value)

    def _best(self, table: str, words: Words, j: int, found: Sequence[Instruction]) -> Select:
        """The row ``at`` of a group with the best value, if there is one."""
        columns = (*words, value_variable(self.wanted[j].value))
        order = self.layout.order(table, columns, None, self.orders)
        rank = Lit(-1 if self.wanted[j].highest else 0)
        return Select(Reg("at"), table, order, regs(words), rank, tuple(found))

    def _word(self, table: str, value: int) -> Operand:
        return self.layout.word(Reg("at"), table, value_variable(value))


def _path(home: Node) -> Iterable[Node]:
    """From a node up to the first that is shown."""
    yield home
    if home.output is None:
        assert home.parent is not None
        yield from _path(home.parent)


def _compute(target: Reg, value: Operand) -> Compute:
    return Compute(target, Math.ADD, value, Lit(0))


def _come(value: int) -> tuple[Reg, Reg]:
    """The registers in which a value comes in, and the change of its copies."""
    return reg(value_variable(value)), CHANGE


def _own_table(n: Node, value: int) -> str:
    """The values of a node's own rows."""
    return f"{n.label}.value{value}"


def _best_table(n: Node, j: int) -> str:
    """The best value of each stored row of a node that matches what is hidden below it."""
    return f"{n.label}.best{j}"


def _bests_table(n: Node, j: int) -> str:
    """How many rows have each of these, by what they hand on."""
    return f"{n.label}.bests{j}"


def _coming(n: Node, value: int) -> str:
    return f"{n.label}.came{value}"


def _judging(n: Node, j: int) -> str:
    return f"{n.label}.judge{j}"


def _counting(n: Node, j: int) -> str:
    return f"{n.label}.count{j}"


def _above(n: Node, j: int) -> str:
    return f"{n.label}.above{j}"
