"""From a planned triangle to its program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from everview.kernel.program import (
    Add,
    Call,
    GetLevel,
    If,
    Instruction,
    Lit,
    Operand,
    Program,
    Reg,
    SetLevel,
    Test,
)
from everview.kernel.verifier import verify
from everview.programs.optimise import optimise
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.strategies.strategy import DELTA, AtomInput, Entry, Gauge, Maintained, Parts
from everview.strategies.triangle.deltas import Deltas
from everview.strategies.triangle.layout import RELATIONS, Layout, copied, reg
from everview.strategies.triangle.listing import PIECES, Listing
from everview.strategies.triangle.rebalance import LEVEL, REBASE, Rebalance
from everview.strategies.triangle.shape import Triangle
from everview.strategies.triangle.updates import Updates

ROW, FLIP, ONCE, CHANGE = Reg("row"), Reg("flip"), Reg("once"), Reg("change")
GAUGES = ("N", "heavy", "minors", "majors", "moved")


def compile_triangle(
    query: ConjunctiveQuery,
    triangle: Triangle,
    epsilon: Fraction,
    sums: Sequence[Mapping[int, int]],
    limits: Mapping[int, int],
    *,
    sums_up: bool = False,
) -> Maintained:
    """The program that keeps a triangle's parts and views, with ``sums`` over products.

    Each is given by the atoms that have a factor, with the words in which that one's change comes. With ``sums_up``
    groups are made of the results.
    """
    is_set = query.semantics is Semantics.SET
    sources = [{triangle.atoms.index(atom): words for atom, words in factors.items()} for factors in sums]
    layout = Layout(triangle, epsilon, sources, is_set, limits, sums_up=sums_up)
    layout.procedures += (*layout.base.procedures, *layout.limits.procedures)
    updates = Updates(layout)
    updates.write()
    rebalance = Rebalance(layout, updates)
    rebalance.write()
    entering = Entering(layout, updates, rebalance)
    for tag in ("", "!"):
        for k in range(3):
            entering.write(k, tag)
    entries = _write_entries(layout, query)
    deltas = Deltas(layout)
    layout.procedure(Maintained.start_deltas, (ONCE,), deltas.start())
    layout.procedure(Maintained.stop_deltas, (ONCE,), deltas.stop())
    listing = Listing(layout)
    cursors, test = listing.cursors(), listing.test()
    recount = None if is_set else listing.write_count(deltas)
    widths = tuple(map(layout.told_width, layout.measures))
    channels = ((DELTA, len(triangle.outputs) + sum(widths) + 1),)
    written = Program(layout.tables, channels, tuple(layout.procedures), cursors, tuple(listing.functions))
    kept = [Maintained.start_deltas, Maintained.stop_deltas, REBASE]
    program = optimise(written, [*kept, *(name for e in entries for name in (e.state_only, e.with_deltas))])
    verify(program)
    gauges = {name: Gauge(layout.base.name, (), layout.base.column(name)) for name in GAUGES}
    parts = Parts(epsilon, gauges["N"], (gauges["heavy"],), gauges["minors"], gauges["majors"], gauges["moved"])
    return Maintained(
        program,
        entries,
        triangle.outputs,
        widths=widths,
        test=test,
        recount=recount,
        pieces=next((c.name for c in cursors if c.name == PIECES), None),
        parts=parts,
    )


class Entering:
    """Writes how a relation's rows come in: to the rows under its edges, its edges, the views, and what is told."""

    def __init__(self, layout: Layout, updates: Updates, rebalance: Rebalance) -> None:
        self.layout = layout
        self.updates = updates
        self.rebalance = rebalance
        self.deltas = Deltas(layout)

    def changes(self, relation: int) -> tuple[int, ...]:
        """The measures that come in with a row."""
        return (0, *self.layout.own(relation))

    def write(self, relation: int, tag: str) -> None:
        """``input`` takes a row and its changes, ``edge`` an edge and its."""
        layout = self.layout
        changes = tuple(layout.change(relation, j) for j in self.changes(relation))
        edge = tuple(map(reg, layout.key(relation)))
        tells = bool(tag)
        inside = tells and layout.is_set and not layout.has_rows(relation)
        name = f"{RELATIONS[relation]}.edge{'!' if inside else ''}"
        if inside or not tells or not any(p.name == name for p in layout.procedures):
            layout.procedure(name, (*edge, *changes), self._edge(relation, inside))
        own: dict[int, Operand] = {j: layout.change(relation, j) for j in self.changes(relation)}
        told = self.deltas.told(relation, own) if tells and not inside else []
        body: list[Instruction]
        if not layout.has_rows(relation):
            body = [Call(name, (*edge, *changes)), *told]
        else:
            row = tuple(map(reg, layout.rows_key(relation)))
            comes, goes = (copied(FLIP, Lit(flip)) for flip in (1, -1))
            noted = layout.noted(ROW, relation, of_rows=True)
            rows = layout.rows_table(relation)
            body = [copied(FLIP, Lit(0)), Add(ROW, rows, row, changes, (comes, *noted), (goes,), noted)]
            if layout.is_set:
                told = self.deltas.told(relation, {0: FLIP}) if tells else []
                body.append(If(Test.NOT_EQUAL, FLIP, Lit(0), (Call(name, (*edge, FLIP)), *told)))
            else:
                body += [Call(name, (*edge, *changes)), *told]
        parameters = (*map(reg, layout.rows_key(relation)), *changes)
        layout.procedure(f"{RELATIONS[relation]}.input{tag}", parameters, body)

    def _edge(self, relation: int, tells: bool) -> list[Instruction]:
        """An edge changes: so do the views over its part; if it has come or gone, parts may have to be rebalanced."""
        layout = self.layout
        table = RELATIONS[relation]
        edge = tuple(map(reg, layout.key(relation)))
        changes = tuple(layout.change(relation, j) for j in self.changes(relation))
        levelled: list[Instruction] = []
        for level in range(1, self.rebalance.highest(relation) + 1):
            levelled.append(If(Test.EQUAL, LEVEL, Lit(level), (SetLevel(ROW, table, level),)))
        appeared = (copied(FLIP, Lit(1)), *self.rebalance.found_level(relation), *levelled)
        known = GetLevel(LEVEL, ROW, table)
        noted = layout.noted(ROW, relation, of_rows=False)
        body: list[Instruction] = [
            copied(FLIP, Lit(0)),
            copied(LEVEL, Lit(0)),
            Add(ROW, table, edge, changes, (*appeared, *noted), (copied(FLIP, Lit(-1)), known), (known, *noted)),
        ]
        flipped: list[Instruction] = []
        if layout.counts_once(relation):
            flipped += self._applied(relation, (*edge, FLIP))
        else:
            body += self._applied(relation, (*edge, *changes))
        if tells:
            flipped += self.deltas.told(relation, {0: FLIP})
        flipped += self.rebalance.after(relation, FLIP)
        return [*body, If(Test.NOT_EQUAL, FLIP, Lit(0), tuple(flipped))]

    def _applied(self, relation: int, arguments: tuple[Operand, ...]) -> list[Instruction]:
        """Change the views over the part that the level says."""
        highest = self.rebalance.highest(relation)
        chosen: tuple[Instruction, ...] = (Call(self.updates.name(relation, highest), arguments),)
        for level in reversed(range(highest)):
            call = Call(self.updates.name(relation, level), arguments)
            chosen = (If(Test.EQUAL, LEVEL, Lit(level), (call,), chosen),)
        return list(chosen)


def _write_entries(layout: Layout, query: ConjunctiveQuery) -> tuple[Entry, ...]:
    """One procedure a table: an update goes to each of its occurrences in turn, before the next update comes."""
    relations: dict[str, list[int]] = {}
    for k, atom in enumerate(layout.triangle.atoms):
        relations.setdefault(query.atoms[atom].relation, []).append(k)
    entries = []
    for relation, found in relations.items():
        inputs: list[AtomInput] = []
        names = []
        for tag in ("", "!"):
            parameters: list[Reg] = []
            body: list[Instruction] = []
            inputs = []
            for k in found:
                variables = layout.rows_key(k)
                words = tuple(Reg(f"{RELATIONS[k]}@{v.name}") for v in variables)
                flag = Reg(f"{RELATIONS[k]}?")
                sums = tuple(layout.change(k, j) for j in layout.own(k))
                parameters += [*words, flag, *sums]
                call = Call(f"{RELATIONS[k]}.input{tag}", (*words, CHANGE, *sums))
                body.append(If(Test.NOT_EQUAL, flag, Lit(0), (call,)))
                inputs.append(AtomInput(layout.triangle.atoms[k], variables, layout.own(k)))
            names.append(layout.procedure(f"update {relation}{tag}", (*parameters, CHANGE), body))
        entries.append(Entry(relation, tuple(inputs), names[0], names[1]))
    return tuple(entries)
