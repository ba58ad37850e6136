"""The program: each atom's rows, the result's rows, and a delta join for each atom."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from everview.kernel.program import (
    MOST_WORDS,
    Call,
    Compute,
    Cursor,
    Emit,
    Find,
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
    Step,
    Store,
    Table,
    Test,
    Update,
    ValueOf,
)
from everview.kernel.verifier import verify
from everview.programs.limits import Factor, Limit, Limits
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.terms import Var
from everview.strategies.strategy import (
    DELTA,
    RESULT,
    AtomInput,
    Entry,
    Gauge,
    Lookup,
    Maintained,
    Parts,
    RowCount,
    Sum,
)

PIECES = "pieces"
TOTAL = "total"
ROW = Reg("row")
Words = tuple[Var, ...]
Loop = tuple[Reg, int, int, tuple[Operand, ...]]
"""A row, its atom, and the group of an index that has it."""


def compile_stored_result(
    query: ConjunctiveQuery, outputs: Words, sums: Sequence[Sum], epsilon: Fraction, *, sums_up: bool = False
) -> Maintained:
    """The program for a query whose result rows have these variables and sums.

    It has no heavy keys; that tables stand in for them, and ε has no meaning, shows that the numbers are found.
    """
    writer = _Writer(query, outputs, sums, sums_up)
    procedures = [p for with_deltas in (False, True) for p in writer.procedures(with_deltas)]
    empty = [Procedure(name, (Reg("once"),), ()) for name in ("start_deltas", "stop_deltas")]
    measures = 1 + len(sums)
    pieces = writer.pieces()
    tables = [
        Table(
            f"atom{i}",
            tuple(map(str, writer.words[i])),
            _values(len(writer.own[i])),
            tuple(writer.indexes[i]),
            widths=(1, *(sums[j - 1].factors[i] for j in writer.own[i])),
        )
        for i in range(len(query.atoms))
    ]
    tables.append(Table(RESULT, tuple(map(str, outputs)), _values(len(sums)), ((),), widths=writer.widths))
    tables.append(Table(TOTAL, (), ("weight",), widths=writer.widths[:1]))
    keys: tuple[Operand, ...] = tuple(KeyOf(ROW, RESULT, i) for i in range(len(outputs)))
    values = [Product((ValueOf(ROW, RESULT, j),), writer.widths[j]) for j in range(measures)]
    listed = [Product(())] if writer.is_set else values
    cursor = Cursor(RESULT, (), (Step(ROW, RESULT, 0, (), 0),), (*keys, *listed))
    channels = ((DELTA, len(outputs) + sum(writer.widths) + 1),)
    limits = writer.limits
    program = Program((*tables, *limits.tables), channels, (*procedures, *empty, *limits.procedures), (cursor, pieces))
    verify(program)
    entries = tuple(
        Entry(relation, tuple(AtomInput(i, writer.words[i], writer.own[i]) for i in atoms), relation, f"{relation}!")
        for relation, atoms in writer.relations.items()
    )
    test = (Lookup(RESULT, outputs, 0),)
    gauges = {"derivations": Gauge(TOTAL, (), 0)}
    parts = Parts(
        epsilon,
        base=Gauge(TOTAL, (), 0),
        heavy_keys=(RowCount(RESULT), RowCount("atom0")),
        minor=RowCount(RESULT),
        major=RowCount(TOTAL),
        moved=Gauge(TOTAL, (), 0),
    )
    return Maintained(
        program,
        entries,
        outputs,
        widths=writer.widths,
        test=test,
        gauges=gauges,
        pieces=PIECES,
        parts=parts,
    )


def _values(sums: int) -> tuple[str, ...]:
    return ("weight", *(f"sum{j}" for j in range(sums)))


def _add(table: str, key: tuple[Operand, ...], changes: Sequence[Reg]) -> list[Instruction]:
    """Add to the values of a row, which is there exactly as long as its first value is not 0."""
    store: list[Instruction] = []
    for j, change in enumerate(changes):
        new = Reg(f"new{table}{j}", change.words)
        store += [Compute(new, Math.ADD, ValueOf(ROW, table, j), change), Store(ROW, table, j, new)]
    gone = If(Test.EQUAL, ValueOf(ROW, table, 0), Lit(0), (Remove(ROW, table),))
    return [Find(ROW, table, key, (*store, gone), (Insert(ROW, table, key), *store))]


class _Writer:
    def __init__(self, query: ConjunctiveQuery, outputs: Words, sums: Sequence[Sum], sums_up: bool) -> None:
        self.query = query
        self.outputs = outputs
        self.sums = sums
        self.is_set = query.semantics is Semantics.SET
        edges = query.edges
        more = sums_up and not self.is_set and len(edges) > 1
        factors: list[dict[int, int]] = [{}, *(dict(s.factors) for s in sums)]
        every = range(len(edges))
        self.widths = tuple(min(MOST_WORDS, max(1, sum(f.get(i, 1) for i in (every if more else f)))) for f in factors)
        most = {j: s.limit for j, s in enumerate(sums, 1) if s.limit is not None} | ({0: 2**63 - 1} if more else {})
        self.limited = {Factor(RESULT, str(j), self.widths[j]): j for j in most}
        self.limits = Limits([Limit(most[j], (factor,)) for factor, j in self.limited.items()])
        self.words: list[Words] = []
        self.own: list[tuple[int, ...]] = []
        for i, edge in enumerate(edges):
            others = frozenset(outputs).union(*(e for j, e in enumerate(edges) if j != i))
            self.words.append(tuple(sorted(edge & others)))
            self.own.append(tuple(j for j, s in enumerate(sums, 1) if i in s.factors))
        self.indexes: list[list[tuple[int, ...]]] = [[] for _ in edges]
        self.relations: dict[str, list[int]] = {}
        for i, atom in enumerate(query.atoms):
            self.relations.setdefault(atom.relation, []).append(i)

    def procedures(self, with_deltas: bool) -> list[Procedure]:
        """The result's, each atom's and each relation's."""
        tag = "!" if with_deltas else ""
        found = [self._change_result(tag, with_deltas)]
        found += [self._join(i, tag) for i in range(len(self.query.atoms))]
        for relation, atoms in self.relations.items():
            parameters: list[Reg] = []
            body: list[Instruction] = []
            for i in atoms:
                words = tuple(Reg(f"{i}@{v}") for v in self.words[i])
                flag, changes = Reg(f"{i}?"), tuple(Reg(f"{i}+{j}", self.sums[j - 1].factors[i]) for j in self.own[i])
                parameters += [*words, flag, *changes]
                call = Call(f"atom{i}{tag}", (*words, Reg("change0"), *changes))
                body.append(If(Test.NOT_EQUAL, flag, Lit(0), (call,)))
            found.append(Procedure(f"{relation}{tag}", (*parameters, Reg("change0")), tuple(body)))
        return found

    def _join(self, atom: int, tag: str) -> Procedure:
        """Store a changed row, and change the result by what it joins with."""
        own = self.own[atom]
        changes = [Reg("change0"), *(Reg(f"change{j}", self.sums[j - 1].factors[atom]) for j in own)]
        parameters = (*(Reg(str(v)) for v in self.words[atom]), *changes)
        places: dict[Var, Operand] = {v: Reg(str(v)) for v in self.words[atom]}
        body = _add(f"atom{atom}", tuple(places.values()), changes)
        loops = self._loops(places, [i for i in range(len(self.words)) if i != atom])
        inner: list[Instruction] = []
        for j in range(1 + len(self.sums)):
            product = self._product(j)
            first = changes[1 + own.index(j)] if j in own else changes[0]
            inner.append(Compute(product, Math.MULTIPLY, first, Lit(1)))
            for row, other, _, _ in loops:
                inner.append(Compute(product, Math.MULTIPLY, product, self._measure(row, other, j)))
        products = tuple(self._product(j) for j in range(1 + len(self.sums)))
        inner.append(Call(f"result{tag}", (*(places[v] for v in self.outputs), *products)))
        for row, other, index, key in reversed(loops):
            inner = [Scan(row, f"atom{other}", index, key, 0, tuple(inner))]
        return Procedure(f"atom{atom}{tag}", parameters, (*body, *inner))

    def _measure(self, row: Reg, atom: int, j: int) -> ValueOf:
        return ValueOf(row, f"atom{atom}", 1 + self.own[atom].index(j) if j in self.own[atom] else 0)

    def pieces(self) -> Cursor:
        """The cursor that makes the result by joining the atoms: it lists each derivation of a row by itself."""
        places: dict[Var, Operand] = {}
        loops = self._loops(places, list(range(len(self.words))))
        steps = tuple(Step(row, f"atom{other}", index, key, 0) for row, other, index, key in loops)
        measures = [
            Product(tuple(self._measure(row, other, j) for row, other, _, _ in loops), self.widths[j])
            for j in range(1 + len(self.sums))
        ]
        listed = [Product(())] if self.is_set else measures
        return Cursor(PIECES, (), steps, (*(places[v] for v in self.outputs), *listed))

    def _loops(self, places: dict[Var, Operand], rest: list[int]) -> list[Loop]:
        """One loop for each of these atoms, inside the others; it is known then where each variable's word is."""
        loops: list[Loop] = []
        while rest:
            other = max(rest, key=lambda i: len(places.keys() & set(self.words[i])))
            rest.remove(other)
            bound = tuple(i for i, v in enumerate(self.words[other]) if v in places)
            if bound not in self.indexes[other]:
                self.indexes[other].append(bound)
            row = Reg(f"row{other}")
            key = tuple(places[self.words[other][i]] for i in bound)
            loops.append((row, other, self.indexes[other].index(bound), key))
            for place, v in enumerate(self.words[other]):
                places.setdefault(v, KeyOf(row, f"atom{other}", place))
        return loops

    def _product(self, j: int) -> Reg:
        return Reg(f"product{j}", self.widths[j])

    def _change_result(self, tag: str, with_deltas: bool) -> Procedure:
        key = tuple(Reg(str(v)) for v in self.outputs)
        changes = [self._product(j) for j in range(1 + len(self.sums))]
        there, after = Reg("there"), Reg("after")

        def looked_up(target: Reg) -> list[Instruction]:
            one, zero = (Compute(target, Math.ADD, Lit(n), Lit(0)) for n in (1, 0))
            return [Find(ROW, RESULT, key, (one,), (zero,))]

        body: list[Instruction] = [*_add(TOTAL, (), changes[:1])]
        noted = tuple(i for f, j in self.limited.items() for i in self.limits.noted(f, ValueOf(ROW, RESULT, j)))
        if not with_deltas:
            body += _add(RESULT, key, changes)
        elif self.is_set:
            body += [*looked_up(there), *_add(RESULT, key, changes), *looked_up(after)]
            body.append(Compute(after, Math.SUBTRACT, after, there))
            body.append(If(Test.NOT_EQUAL, after, Lit(0), (Emit(DELTA, (*key, after, Update())),)))
        else:
            body += [*_add(RESULT, key, changes), Emit(DELTA, (*key, *changes, Update()))]
        if noted:
            body.append(Find(ROW, RESULT, key, noted))
        return Procedure(f"result{tag}", (*key, *changes), tuple(body))
