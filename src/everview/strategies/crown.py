"""CROWN: change propagation without joins (crown.md 3–6), as a program.

The tree falls into two parts. Nodes outside E_con are summed away: each keeps, for a key, the total weight of what
hangs below it (*hidden* part). The nodes of E_con, each projected to its output variables, form a full join: there a
row's level says how far it has come (0 stored, 1 its subtree matches: V_s, 2 part of a result: live), and the sizes of
the groups are the counts of the projection views V_p.

A changed row is in every result that changes with it, so the delta of one update is one nest of loops around that row:
up through live rows only, down through matching ones, which is what makes the delay constant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from everview.kernel.program import (
    Call,
    Compute,
    Count,
    Cursor,
    Each,
    Emit,
    Find,
    GetLevel,
    If,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Operand,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    SetLevel,
    Step,
    Store,
    Table,
    Test,
    ValueOf,
)
from everview.kernel.verifier import verify
from everview.plan.core_plan import CorePlan, Relation
from everview.plan.tree import TreeNode
from everview.query.terms import Var, names

RESULT = "result"
DELTA = "delta"
WEIGHT, SATISFIED = 0, 1
Words = tuple[Var, ...]


@dataclass(frozen=True)
class Input:
    """How one atom's updates enter: the variables whose words are given, in order, and then the change of copies."""

    atom: int
    variables: Words
    quiet: str
    loud: str


@dataclass(frozen=True)
class CrownProgram:
    """A program, how its updates enter, and which variables its rows hold.

    The ``quiet`` procedures keep the state; the ``loud`` ones also mark what is live and emit each update's delta to
    channel ``delta``: the output variables, then the change of the weight. ``wake`` and ``sleep`` switch over; they take
    one word that they do not use, so that one row of input runs them once.
    """

    program: Program
    inputs: tuple[Input, ...]
    outputs: Words
    wake: str
    sleep: str


def compile_crown(plan: CorePlan) -> CrownProgram:
    """The program that maintains a planned core."""
    return _Compiler(plan).compile()


@dataclass(frozen=True)
class _Node:
    """A tree node with its place in the tree and what it stores."""

    number: int
    node: TreeNode
    label: str
    parent: _Node | None
    key: Words
    """What it shares with its parent."""
    output: Words | None
    """Its output variables, if it is in E_con."""

    @property
    def is_generalized(self) -> bool:
        return self.node.relation is None

    @property
    def in_result(self) -> bool:
        return self.output is not None

    @property
    def live_table(self) -> str:
        """The table of its output rows."""
        return f"{self.label}.out"

    @property
    def sum_table(self) -> str:
        """The table of the weights that it hands to its parent, by key."""
        return f"{self.label}.sum"

    @property
    def row_table(self) -> str:
        """The table of its own rows, kept only where hidden children need them."""
        return f"{self.label}.rows"


class _Compiler:
    def __init__(self, plan: CorePlan) -> None:
        self.plan = plan
        self.is_set = plan.is_distinct
        self.free = plan.tree.free
        self.nodes: list[_Node] = []
        self.below: dict[int, list[_Node]] = {}
        self._place(plan.tree.root, None)
        self.indexes: dict[str, list[Words]] = {}
        self.tables: dict[str, tuple[Words, tuple[str, ...]]] = {}
        self.procedures: dict[str, Procedure] = {}
        self._fresh = 0

    def _place(self, node: TreeNode, parent: _Node | None) -> None:
        number = len(self.nodes)
        label = f"[{names(node.attributes)}]" if node.relation is None else self.plan.labels[node.relation]
        key = tuple(sorted(node.attributes & parent.node.attributes)) if parent else ()
        output = tuple(sorted(node.attributes & self.free)) if node in self.plan.tree.connex else None
        placed = _Node(number, node, label, parent, key, output)
        self.nodes.append(placed)
        self.below[number] = []
        if parent is not None:
            self.below[parent.number].append(placed)
        for child in node.children:
            self._place(child, placed)

    # --- what the tree says ----------------------------------------------------------------------------------------

    def hidden(self, n: _Node) -> list[_Node]:
        """The children that are summed away."""
        return [c for c in self.below[n.number] if not c.in_result]

    def shown(self, n: _Node) -> list[_Node]:
        """The children that take part in results."""
        return [c for c in self.below[n.number] if c.in_result]

    def is_inner(self, n: _Node) -> bool:
        """True if liveness must be kept: it has children in E_con."""
        return bool(self.shown(n))

    def is_pure(self, n: _Node) -> bool:
        """A generalized node in E_con with nothing to sum: it lives by its children's keys alone."""
        return n.is_generalized and n.in_result and not self.hidden(n)

    @cached_property
    def root(self) -> _Node:
        return self.nodes[0]

    @cached_property
    def outputs(self) -> Words:
        return tuple(sorted(self.free))

    def handed(self, n: _Node) -> Words:
        """What a node's total weight is kept by: its output variables in E_con, its key elsewhere."""
        return n.output if n.output is not None else n.key

    def stored(self, n: _Node) -> Words:
        """The variables of the rows that hidden children make a relation keep."""
        needed = set(self.handed(n)).union(*(c.key for c in self.hidden(n)))
        return tuple(sorted(needed))

    # --- tables and registers --------------------------------------------------------------------------------------

    def table(self, name: str, key: Words, values: tuple[str, ...]) -> str:
        self.tables[name] = (key, values)
        self.indexes.setdefault(name, [])
        return name

    def index(self, table: str, columns: Words) -> int:
        known = self.indexes[table]
        if columns not in known:
            known.append(columns)
        return known.index(columns)

    def word(self, row: Reg, table: str, v: Var) -> KeyOf:
        return KeyOf(row, table, self.tables[table][0].index(v))

    def words(self, row: Reg, table: str, variables: Words) -> tuple[Operand, ...]:
        return tuple(self.word(row, table, v) for v in variables)

    def fresh(self, stem: str) -> Reg:
        self._fresh += 1
        return Reg(f"{stem}{self._fresh}")

    def procedure(self, name: str, words: Words, body: Sequence[Instruction], *extra: Reg) -> str:
        parameters = (*(_reg(v) for v in words), *extra)
        self.procedures[name] = Procedure(name, parameters, tuple(body))
        return name

    def row_procedure(self, name: str, table: str, body: Sequence[Instruction]) -> str:
        self.procedures[name] = Procedure(name, (ROW,), tuple(body), ((ROW, table),))
        return name

    # --- the program -----------------------------------------------------------------------------------------------

    def compile(self) -> CrownProgram:
        for n in self.nodes:
            self._declare(n)
        inputs = []
        for loud in (False, True):
            writer = _Writer(self, loud)
            for n in self.nodes:
                writer.write_rows(n)
            for n in reversed(self.nodes):
                writer.write_totals(n)
            inputs.append(writer.write_inputs())
        wake, sleep = self._write_switch()
        cursor = self._cursor()
        tables = tuple(
            Table(name, tuple(map(str, key)), values, tuple(self._columns(key, c) for c in self.indexes[name]))
            for name, (key, values) in self.tables.items()
        )
        program = Program(tables, ((DELTA, len(self.outputs) + 1),), self._ordered(), (cursor,))
        verify(program)
        both = tuple(Input(q.atom, q.variables, q.quiet, loud_one.loud) for q, loud_one in zip(*inputs, strict=True))
        return CrownProgram(program, both, self.outputs, wake, sleep)

    def _ordered(self) -> tuple[Procedure, ...]:
        return tuple(self.procedures.values())

    @staticmethod
    def _columns(key: Words, columns: Words) -> tuple[int, ...]:
        return tuple(key.index(v) for v in columns)

    def _declare(self, n: _Node) -> None:
        """A node's tables: output rows in E_con, else totals by key; and its rows where hidden children need them."""
        if n.output is not None:
            table = self.table(n.live_table, n.output, ("weight", "satisfied"))
            self.index(table, n.key)
            for child in self.shown(n):
                self.index(table, child.key)
        else:
            self.index(self.table(n.sum_table, n.key, ("weight",)), n.key)
        if self.hidden(n) and not n.is_generalized:
            table = self.table(n.row_table, self.stored(n), ("weight",))
            for child in self.hidden(n):
                self.index(table, child.key)

    def _cursor(self) -> Cursor:
        steps: list[Step] = []
        places: dict[Var, Operand] = {}
        weights: list[Operand] = []
        for n in self.nodes:
            if n.output is None:
                continue
            row = Reg(f"r{n.number}")
            table = n.live_table
            steps.append(Step(row, table, self.index(table, n.key), tuple(places[v] for v in n.key), 1))
            places.update({v: self.word(row, table, v) for v in n.output})
            if not self.is_set and not self.is_pure(n):
                weights.append(ValueOf(row, table, WEIGHT))
        outputs = (*(places[v] for v in self.outputs), Product(tuple(weights)))
        return Cursor(RESULT, (), tuple(steps), outputs)

    def _write_switch(self) -> tuple[str, str]:
        """Procedures that mark everything live, or nothing, when the first feed opens and the last one closes."""
        row = Reg("row")
        table = self.root.live_table
        whole = self.index(table, ())
        wake: list[Instruction] = []
        sleep: list[Instruction] = []
        if self.is_inner(self.root):
            wake.append(Each(row, table, whole, (), 1, (Call(f"{self.root.label}.live", (row,)),)))
            for n in self.nodes:
                if n.output is not None and self.is_inner(n):
                    everything = self.index(n.live_table, ())
                    sleep.append(Each(row, n.live_table, everything, (), 2, (SetLevel(row, n.live_table, 1),)))
        self.procedure("wake", (), wake, Reg("once"))
        self.procedure("sleep", (), sleep, Reg("once"))
        return "wake", "sleep"


ROW = Reg("row")
CHANGE = Reg("change")


def _reg(v: Var) -> Reg:
    """A variable's register; the mark keeps it apart from the registers that procedures use themselves."""
    return Reg(f"@{v.name}")


def _regs(variables: Words) -> tuple[Operand, ...]:
    return tuple(_reg(v) for v in variables)


class _Writer:
    """Writes the procedures of one kind: quiet ones keep the state, loud ones also liveness and deltas."""

    def __init__(self, compiler: _Compiler, loud: bool) -> None:
        self.c = compiler
        self.loud = loud
        self.tag = "!" if loud else ""

    def name(self, n: _Node, verb: str) -> str:
        return f"{n.label}.{verb}{self.tag}"

    # --- E_con: rows enter and leave -------------------------------------------------------------------------------

    def write_rows(self, n: _Node) -> None:
        """The procedures of a node in E_con, parents before children: they are called from below."""
        if n.output is None:
            return
        table = n.live_table
        if self.loud and self.c.is_inner(n):
            self.c.row_procedure(f"{n.label}.live", table, self._live(n))
            self.c.row_procedure(f"{n.label}.dead", table, self._dead(n))
        self.c.row_procedure(self.name(n, "enter"), table, self._enter(n))
        self.c.row_procedure(self.name(n, "leave"), table, self._leave(n))
        if self.c.is_pure(n):
            self.c.procedure(self.name(n, "gain"), n.output, self._gain_pure(n))
            self.c.procedure(self.name(n, "lose"), n.output, self._lose_pure(n))
        else:
            for child in self.c.shown(n):
                self.c.procedure(f"{child.label}.gained{self.tag}", child.key, self._gain(n, child))
                self.c.procedure(f"{child.label}.lost{self.tag}", child.key, self._lose(n, child))

    def _enter(self, n: _Node) -> list[Instruction]:
        """S-update: a row whose subtree matches joins V_s; a new key is a P-update at the parent."""
        table = n.live_table
        if n.parent is None:
            return [Call(f"{n.label}.live", (ROW,))] if self._keeps_live(n) else [SetLevel(ROW, table, 1)]
        key = self.c.words(ROW, table, n.key)
        others = Reg("others")
        known: tuple[Instruction, ...] = ()
        if self._keeps_live(n):
            above = Reg("above")
            known = (
                *self._count_live(n.parent, n, key, above),
                If(Test.NOT_EQUAL, above, Lit(0), (Call(f"{n.label}.live", (ROW,)),)),
            )
        return [
            Count(others, table, self.c.index(table, n.key), key, 1),
            SetLevel(ROW, table, 1),
            If(Test.EQUAL, others, Lit(0), (Call(self._upward(n, "gain"), key),), known),
        ]

    def _leave(self, n: _Node) -> list[Instruction]:
        """The reverse: liveness below goes first where this row was the last live one above it."""
        table = n.live_table
        before = Reg("before")
        body: list[Instruction] = []
        if self._keeps_live(n):
            body += [GetLevel(before, ROW, table), SetLevel(ROW, table, 0)]
            body.append(If(Test.EQUAL, before, Lit(2), tuple(self._abandon(n))))
        else:
            body.append(SetLevel(ROW, table, 0))
        if n.parent is not None:
            key = self.c.words(ROW, table, n.key)
            left = Reg("left")
            body.append(Count(left, table, self.c.index(table, n.key), key, 1))
            body.append(If(Test.EQUAL, left, Lit(0), (Call(self._upward(n, "lose"), key),)))
        return body

    def _upward(self, n: _Node, verb: str) -> str:
        """The P-update that a key of this node causes at its parent."""
        assert n.parent is not None
        if self.c.is_pure(n.parent):
            return self.name(n.parent, verb)
        return f"{n.label}.{'gained' if verb == 'gain' else 'lost'}{self.tag}"

    def _gain(self, n: _Node, child: _Node) -> list[Instruction]:
        table = n.live_table
        count, full = Reg("count"), Lit(len(self.c.shown(n)))
        body = (
            Compute(count, Math.ADD, ValueOf(ROW, table, SATISFIED), Lit(1)),
            Store(ROW, table, SATISFIED, count),
            If(Test.EQUAL, count, full, (Call(self.name(n, "enter"), (ROW,)),)),
        )
        return [Each(ROW, table, self.c.index(table, child.key), _regs(child.key), 0, body)]

    def _lose(self, n: _Node, child: _Node) -> list[Instruction]:
        table = n.live_table
        count, full = Reg("count"), Lit(len(self.c.shown(n)))
        body = (
            If(Test.EQUAL, ValueOf(ROW, table, SATISFIED), full, (Call(self.name(n, "leave"), (ROW,)),)),
            Compute(count, Math.SUBTRACT, ValueOf(ROW, table, SATISFIED), Lit(1)),
            Store(ROW, table, SATISFIED, count),
        )
        return [Each(ROW, table, self.c.index(table, child.key), _regs(child.key), 0, body)]

    def _gain_pure(self, n: _Node) -> list[Instruction]:
        """A generalized node stores a row from its first child on."""
        assert n.output is not None
        table = n.live_table
        count, full = Reg("count"), Lit(len(self.c.shown(n)))
        key = _regs(n.output)
        return [
            Find(ROW, table, key, (), (Insert(ROW, table, key),)),
            Find(
                ROW,
                table,
                key,
                (
                    Compute(count, Math.ADD, ValueOf(ROW, table, SATISFIED), Lit(1)),
                    Store(ROW, table, SATISFIED, count),
                    If(Test.EQUAL, count, full, (Call(self.name(n, "enter"), (ROW,)),)),
                ),
            ),
        ]

    def _lose_pure(self, n: _Node) -> list[Instruction]:
        assert n.output is not None
        table = n.live_table
        count, full = Reg("count"), Lit(len(self.c.shown(n)))
        found = (
            If(Test.EQUAL, ValueOf(ROW, table, SATISFIED), full, (Call(self.name(n, "leave"), (ROW,)),)),
            Compute(count, Math.SUBTRACT, ValueOf(ROW, table, SATISFIED), Lit(1)),
            Store(ROW, table, SATISFIED, count),
            If(Test.EQUAL, count, Lit(0), (Remove(ROW, table),)),
        )
        return [Find(ROW, table, _regs(n.output), found)]

    # --- liveness ---------------------------------------------------------------------------------------------------

    def _keeps_live(self, n: _Node) -> bool:
        return self.loud and self.c.is_inner(n)

    def _count_live(self, n: _Node, child: _Node, key: tuple[Operand, ...], target: Reg) -> tuple[Instruction, ...]:
        """How many live rows of a node have a child's key."""
        table = n.live_table
        return (Count(target, table, self.c.index(table, child.key), key, 2),)

    def _live(self, n: _Node) -> list[Instruction]:
        """A row has become part of a result, and so have the rows below it, unless another live row has them."""
        table = n.live_table
        body: list[Instruction] = [SetLevel(ROW, table, 2)]
        for child in self.c.shown(n):
            if self.c.is_inner(child):
                body += self._each_below(n, child, 1, "live")
        return body

    def _dead(self, n: _Node) -> list[Instruction]:
        return [SetLevel(ROW, n.live_table, 1), *self._abandon(n)]

    def _abandon(self, n: _Node) -> list[Instruction]:
        """A row is live no more: rows below it that no other live row has are not either."""
        body: list[Instruction] = []
        for child in self.c.shown(n):
            if self.c.is_inner(child):
                key = self.c.words(ROW, n.live_table, child.key)
                rest = Reg("rest")
                body += [
                    *self._count_live(n, child, key, rest),
                    If(Test.EQUAL, rest, Lit(0), tuple(self._each_below(n, child, 2, "dead"))),
                ]
        return body

    def _each_below(self, n: _Node, child: _Node, level: int, verb: str) -> list[Instruction]:
        key = self.c.words(ROW, n.live_table, child.key)
        table = child.live_table
        index = self.c.index(table, child.key)
        row, live = Reg("lower"), Reg("live")
        loop = Each(row, table, index, key, level, (Call(f"{child.label}.{verb}", (row,)),))
        if verb == "dead":
            return [loop]
        return [Count(live, table, index, key, 2), If(Test.EQUAL, live, Lit(0), (loop,))]

    # --- totals and inputs ------------------------------------------------------------------------------------------

    def write_totals(self, n: _Node) -> None:
        """``change``: the weight that a node hands on, by output or by key, has changed; children before parents."""
        if self.c.is_pure(n):
            return
        words = self.c.handed(n)
        body = self._change_output(n) if n.output is not None else self._change_sum(n)
        self.c.procedure(self.name(n, "change"), words, body, CHANGE)

    def _change_output(self, n: _Node) -> list[Instruction]:
        """R-update of the full join: a row of E_con appears, vanishes or changes its weight."""
        assert n.output is not None
        table = n.live_table
        key = _regs(n.output)
        after, count = Reg("after"), Reg("count")
        satisfied: list[Instruction] = [Compute(count, Math.ADD, Lit(0), Lit(0))]
        for child in self.c.shown(n):
            group = Reg("group")
            index = self.c.index(child.live_table, child.key)
            satisfied.append(Count(group, child.live_table, index, self.c.words(ROW, table, child.key), 1))
            satisfied.append(If(Test.NOT_EQUAL, group, Lit(0), (Compute(count, Math.ADD, count, Lit(1)),)))
        appears = (
            Insert(ROW, table, key),
            Store(ROW, table, WEIGHT, CHANGE),
            *satisfied,
            Store(ROW, table, SATISFIED, count),
            If(
                Test.EQUAL,
                count,
                Lit(len(self.c.shown(n))),
                (Call(self.name(n, "enter"), (ROW,)), *self._delta(n, Lit(1) if self.c.is_set else CHANGE)),
            ),
        )
        level = Reg("level")
        vanishes = (
            GetLevel(level, ROW, table),
            If(
                Test.NOT_EQUAL,
                level,
                Lit(0),
                (*self._delta(n, Lit(-1) if self.c.is_set else CHANGE), Call(self.name(n, "leave"), (ROW,))),
            ),
            Remove(ROW, table),
        )
        changes: tuple[Instruction, ...] = (Store(ROW, table, WEIGHT, after),)
        if not self.c.is_set and self.loud:
            changes = (
                *changes,
                GetLevel(level, ROW, table),
                If(Test.NOT_EQUAL, level, Lit(0), tuple(self._delta(n, CHANGE))),
            )
        found = (
            Compute(after, Math.ADD, ValueOf(ROW, table, WEIGHT), CHANGE),
            If(Test.EQUAL, after, Lit(0), vanishes, changes),
        )
        return [Find(ROW, table, key, found, appears)]

    def _change_sum(self, n: _Node) -> list[Instruction]:
        """A total by key has changed: hand it on, for sets only when it comes from or goes to nothing."""
        parent = n.parent
        assert parent is not None
        return self._kept(n.sum_table, n.key, lambda change: tuple(self._through(parent, n, change)))

    def _through(self, n: _Node, child: _Node, change: Operand) -> Iterator[Instruction]:
        """A hidden child's total has changed: every row of ``n`` with that key changes its weight in proportion."""
        if n.is_generalized:
            places: dict[Var, Operand] = {v: _reg(v) for v in child.key}
            yield from self._weigh(n, child, places, (change,))
            return
        row = Reg(f"row{n.number}")
        table = n.row_table
        places = {v: self.c.word(row, table, v) for v in self.c.stored(n)}
        weight: tuple[Operand, ...] = (change,) if self.c.is_set else (change, ValueOf(row, table, WEIGHT))
        body = tuple(self._weigh(n, child, places, weight))
        yield Scan(row, table, self.c.index(table, child.key), _regs(child.key), 0, body)

    def _weigh(
        self, n: _Node, apart_from: _Node | None, places: dict[Var, Operand], factors: tuple[Operand, ...]
    ) -> Iterator[Instruction]:
        """Multiply by the totals of the (other) hidden children and hand the product on; nothing if one is missing."""
        others = [c for c in self.c.hidden(n) if c is not apart_from]
        arguments = tuple(places[v] for v in self.c.handed(n))
        rows = [Reg(f"sum{c.number}") for c in others]
        if not self.c.is_set:
            factors = (*factors, *(ValueOf(r, c.sum_table, WEIGHT) for r, c in zip(rows, others, strict=True)))
        product = self.c.fresh("product")
        inner: tuple[Instruction, ...] = (
            Compute(product, Math.MULTIPLY, factors[0], factors[1] if len(factors) > 1 else Lit(1)),
            *(Compute(product, Math.MULTIPLY, product, f) for f in factors[2:]),
            Call(self.name(n, "change"), (*arguments, product)),
        )
        for row, child in reversed(list(zip(rows, others, strict=True))):
            inner = (Find(row, child.sum_table, tuple(places[v] for v in child.key), inner),)
        yield from inner

    def write_inputs(self) -> list[Input]:
        """One procedure an atom: its words and the change of copies come in here and go wherever they are needed."""
        targets: dict[int, list[tuple[str, Words]]] = {}
        for n in self.c.nodes:
            if n.node.relation is None:
                continue
            relation = self.c.plan.relations[n.node.relation]
            words = self.c.stored(n) if self.c.hidden(n) else self.c.handed(n)
            base = self.c.procedure(self.name(n, "base"), words, self._base(n, words), CHANGE)
            if relation.is_bag:
                for atom, target in self._bag_parts(n, relation, words):
                    targets.setdefault(atom, []).append(target)
            else:
                targets.setdefault(relation.atoms[0], []).append((base, words))
        found = []
        for atom, calls in sorted(targets.items()):
            words = tuple(sorted({v for _, needed in calls for v in needed}))
            body = [Call(name, (*_regs(needed), CHANGE)) for name, needed in calls]
            name = self.c.procedure(f"input{atom}{self.tag}", words, body, CHANGE)
            found.append(Input(atom, words, name, name))
        return found

    def _base(self, n: _Node, words: Words) -> list[Instruction]:
        """A relation's own rows change; where nothing is hidden below it, they need not be kept."""
        if not self.c.hidden(n):
            return [Call(self.name(n, "change"), (*_regs(words), CHANGE))]
        places: dict[Var, Operand] = {v: _reg(v) for v in words}
        return self._kept(n.row_table, words, lambda change: tuple(self._weigh(n, None, places, (change,))))

    def _kept(
        self,
        table: str,
        words: Words,
        then: Callable[[Operand], tuple[Instruction, ...]],
        *,
        as_set: bool | None = None,
    ) -> list[Instruction]:
        """Add CHANGE to a stored weight and hand the change on: for sets only a coming or going, as ±1."""
        as_set = self.c.is_set if as_set is None else as_set
        key = _regs(words)
        after = Reg("after")
        appears = (Insert(ROW, table, key), Store(ROW, table, WEIGHT, CHANGE), *then(Lit(1) if as_set else CHANGE))
        vanishes = (Remove(ROW, table), *then(Lit(-1) if as_set else CHANGE))
        changes = (Store(ROW, table, WEIGHT, after), *(() if as_set else then(CHANGE)))
        found = (
            Compute(after, Math.ADD, ValueOf(ROW, table, WEIGHT), CHANGE),
            If(Test.EQUAL, after, Lit(0), vanishes, changes),
        )
        return [Find(ROW, table, key, found, appears)]

    # --- bags -------------------------------------------------------------------------------------------------------

    def _bag_parts(self, n: _Node, relation: Relation, words: Words) -> Iterator[tuple[int, tuple[str, Words]]]:
        """The atoms of a bag, each with the delta join that brings its changes into the bag (crown.md 8)."""
        members = [(i, False) for i in relation.atoms] + [(i, True) for i in relation.guards]
        needed = {m: self._bag_words(m, members, relation, words) for m in members}
        for member in members:
            self.c.table(_part_table(n, member), needed[member], ("weight",))
        for member in members:
            atom, is_guard = member
            own = needed[member]
            body = self._kept(
                _part_table(n, member),
                own,
                lambda change, member=member: self._delta_join(n, member, needed, words, change),  # type: ignore[misc]
                as_set=self.c.is_set or is_guard,
            )
            yield atom, (self.c.procedure(f"{_part_table(n, member)}{self.tag}", own, body, CHANGE), own)

    def _bag_words(
        self, member: tuple[int, bool], members: list[tuple[int, bool]], relation: Relation, words: Words
    ) -> Words:
        """The variables of an atom that the bag hands on or that others of the bag share."""
        edges = self.c.plan.query.edges
        mine = edges[member[0]] & relation.variables
        others = frozenset().union(*(edges[i] for i, g in members if (i, g) != member)) & relation.variables
        return tuple(sorted(mine & (others | frozenset(words))))

    def _delta_join(
        self,
        n: _Node,
        member: tuple[int, bool],
        needed: dict[tuple[int, bool], Words],
        words: Words,
        change: Operand,
    ) -> tuple[Instruction, ...]:
        """Join a changed row with the bag's other atoms, the best bound one first, by their indexes."""
        places: dict[Var, Operand] = {v: _reg(v) for v in needed[member]}
        rest = [m for m in needed if m != member]
        loops: list[tuple[Reg, str, int, tuple[Operand, ...]]] = []
        factors: list[Operand] = [change]
        while rest:
            best = max(rest, key=lambda m: (len(places.keys() & set(needed[m])), -len(needed[m])))
            rest.remove(best)
            table = _part_table(n, best)
            row = self.c.fresh("join")
            bound = tuple(v for v in needed[best] if v in places)
            loops.append((row, table, self.c.index(table, bound), tuple(places[v] for v in bound)))
            places.update({v: self.c.word(row, table, v) for v in needed[best] if v not in places})
            if not self.c.is_set and not best[1]:
                factors.append(ValueOf(row, table, WEIGHT))
        product = self.c.fresh("product")
        body: tuple[Instruction, ...] = (
            Compute(product, Math.MULTIPLY, factors[0], factors[1] if len(factors) > 1 else Lit(1)),
            *(Compute(product, Math.MULTIPLY, product, f) for f in factors[2:]),
            Call(self.name(n, "base"), (*(places[v] for v in words), product)),
        )
        for row, table, index, key in reversed(loops):
            body = (Scan(row, table, index, key, 0, body),)
        return body

    # --- deltas -----------------------------------------------------------------------------------------------------

    def _delta(self, n: _Node, change: Operand) -> list[Instruction]:
        """Emit every result that holds ROW of ``n``: up through live rows, down through matching ones."""
        if not self.loud:
            return []
        assert n.output is not None
        places: dict[Var, Operand] = {v: self.c.word(ROW, n.live_table, v) for v in n.output}
        loops: list[tuple[Reg, _Node, Words, int]] = []
        here = n
        while here.parent is not None:
            parent = here.parent
            if not parent.is_generalized:
                loops.append((Reg(f"up{parent.number}"), parent, here.key, 2))
            for sibling in self.c.shown(parent):
                if sibling is not here:
                    loops.append((Reg(f"at{sibling.number}"), sibling, sibling.key, 1))
                    self._loops_below(sibling, loops)
            here = parent
        self._loops_below(n, loops)
        emitted = self._nested(loops, places, [change])
        if n.parent is None:
            return emitted
        above = Reg("above")
        key = self.c.words(ROW, n.live_table, n.key)
        return [
            *self._count_live(n.parent, n, key, above),
            If(Test.NOT_EQUAL, above, Lit(0), tuple(emitted)),
        ]

    def _loops_below(self, n: _Node, loops: list[tuple[Reg, _Node, Words, int]]) -> None:
        for child in self.c.shown(n):
            loops.append((Reg(f"at{child.number}"), child, child.key, 1))
            self._loops_below(child, loops)

    def _nested(
        self, loops: list[tuple[Reg, _Node, Words, int]], places: dict[Var, Operand], weights: list[Operand]
    ) -> list[Instruction]:
        scans: list[tuple[Reg, str, int, tuple[Operand, ...], int]] = []
        for row, n, key, level in loops:
            table = n.live_table
            assert n.output is not None
            scans.append((row, table, self.c.index(table, key), tuple(places[v] for v in key), level))
            for v in n.output:
                places.setdefault(v, self.c.word(row, table, v))
            if not self.c.is_set and not self.c.is_pure(n):
                weights.append(ValueOf(row, table, WEIGHT))
        outputs = (*(places[v] for v in self.c.outputs), Product(tuple(weights)))
        body: tuple[Instruction, ...] = (Emit(DELTA, outputs),)
        for row, table, index, scan_key, level in reversed(scans):
            body = (Scan(row, table, index, scan_key, level, body),)
        return list(body)


def _part_table(n: _Node, member: tuple[int, bool]) -> str:
    """The table of one atom of a bag; a guard's is apart from the atom's own."""
    return f"{n.label}.{'guard' if member[1] else 'part'}{member[0]}"
