"""From a planned core to its CROWN program."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from everview.kernel.program import (
    Call,
    Compute,
    Cursor,
    Each,
    Function,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Program,
    Reg,
    Scan,
    Step,
    Test,
)
from everview.kernel.verifier import verify
from everview.programs.optimise import optimise
from everview.query.terms import Var
from everview.strategies.crown.access import Access
from everview.strategies.crown.bags import Bags
from everview.strategies.crown.difference import Differences
from everview.strategies.crown.extremes import Extremes
from everview.strategies.crown.factors import multiplied
from everview.strategies.crown.found import Found, measures_of_row
from everview.strategies.crown.full_join import FullJoin, result_weight
from everview.strategies.crown.hubs import Hubs
from everview.strategies.crown.layout import CHANGE, Layout, Node, Words, reg, regs
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.crown.totals import Totals, entry_words
from everview.strategies.strategy import (
    ACCESS,
    BEFORE,
    COUNT,
    DELTA,
    MEASURES,
    RANK,
    RESULT,
    WORDS_AS_THEY_ARE,
    AtomInput,
    Entry,
    Lookup,
    Maintained,
    Sum,
    WordOrders,
    value_variable,
)

ONCE = Reg("once")
START_DELTAS, STOP_DELTAS = Maintained.start_deltas, Maintained.stop_deltas


def compile_crown(
    plan: CrownPlan,
    sums: Sequence[Sum] = (),
    signatures: Sequence[Hashable] = (),
    orders: WordOrders = WORDS_AS_THEY_ARE,
) -> Maintained:
    """The program that maintains a core along its tree, with these sums.

    Atoms of equal ``signatures`` take the same rows, and may share a table.
    """
    layout = Layout(plan, sums, signatures)
    hubs = Hubs(layout)
    access = Access(layout, orders) if plan.has_totals else None
    if access is not None:
        access.write()
    extremes = Extremes(layout, orders)
    extremes.write()
    layout.procedures += layout.limits.procedures
    atom_inputs: list[AtomInput] = []
    for with_deltas in (False, True):
        FullJoin(layout, with_deltas).write()
        totals = Totals(layout, with_deltas, extremes)
        totals.write()
        atom_inputs = _write_inputs(layout, totals, extremes, hubs)
    hubs.write()
    entries = _write_entries(layout, atom_inputs)
    _write_switch(layout)
    widths = layout.result_widths
    width = len(layout.outputs) + sum(widths) + 1
    cursor = access.cursor() if access is not None and plan.has_access else _cursor(layout)
    functions = (_count(layout),) if access is None else access.functions()
    found = [Found(layout, variables, i) for i, variables in enumerate(plan.lookups)]
    cursors = (cursor, *(f.cursor() for f in found), *extremes.cursors())
    read = extremes.functions()
    functions = (*functions, measures_of_row(layout), *(f.guard() for f in found), *read)
    differences = Differences(layout) if plan.has_log else None
    difference = differences.write() if differences is not None else ()
    channels: tuple[tuple[str, int], ...] = ((DELTA, width),)
    called = [START_DELTAS, STOP_DELTAS, *(name for e in entries for name in (e.state_only, e.with_deltas))]
    if differences is not None:
        functions, channels = (*functions, *differences.functions), (*channels, *differences.channels)
        called += differences.procedures
    written = Program((*layout.tables(), *hubs.tables), channels, tuple(layout.procedures), cursors, functions)
    program = optimise(written, called)
    verify(program)
    maintained = Maintained(
        program,
        entries,
        layout.outputs,
        widths=widths,
        test=_lookups(layout),
        measures=MEASURES,
        lookups=tuple(f.keyed for f in found),
        count=COUNT,
        difference=difference,
        extremes=tuple(f.name for f in read),
        parts=hubs.parts,
    )
    maintained = replace(maintained, counts_at_once=access is not None)
    if access is None or not plan.has_access:
        return maintained
    return replace(maintained, access=ACCESS, rank=RANK, before=BEFORE, order=access.order)


def _write_inputs(layout: Layout, totals: Totals, extremes: Extremes, hubs: Hubs) -> list[AtomInput]:
    """One procedure an atom, which tells every relation and bag that holds it; none for those that another serves."""
    targets: dict[int, list[tuple[str, Words, tuple[Reg, ...]]]] = {}
    given: dict[int, dict[tuple[int, int], Reg]] = {}
    served: dict[int, set[int]] = {layout.atom_of(one): {layout.atom_of(n)} for n, one in layout.shared_with.items()}
    values = {e.atom: extremes.values_at(layout.home(e.atom)) for e in extremes.wanted}

    def add(atom: int, procedure: str, words: Words, factors: Sequence[tuple[int, int]], serves: Iterable[int]) -> None:
        own = {(other, j): layout.factor_change(atom, other, j) for other, j in factors}
        further = (*own.values(), *map(_value, values.get(atom, ())))
        targets.setdefault(atom, []).append((procedure, words, further))
        given.setdefault(atom, {}).update(own)
        served.setdefault(atom, set()).update(serves)

    for n in (n for n in layout.nodes if n not in layout.shared_with):
        if n.tree.relation is not None and not layout.plan.relations[n.tree.relation].is_bag:
            atom = layout.atom_of(n)
            factors = layout.factors.given(n) if n.alike else tuple((atom, j) for j in layout.own_sums(n))
            add(atom, totals.name(n, "base"), entry_words(n), factors, n.alike)
    for bag in Bags(layout, totals, hubs).write():
        add(bag.atom, bag.procedure, bag.words, [(bag.atom, j) for j in bag.sums], bag.serves)
    found = []
    for atom, calls in sorted(targets.items()):
        words = tuple(sorted({v for _, needed, _ in calls for v in needed}))
        own = [factor for factor in given[atom] if factor[0] == atom]
        others = [factor for factor in given[atom] if factor[0] != atom]
        changes = [given[atom][factor] for factor in (*own, *others)]
        body: list[Instruction] = [
            i for (a, j), change in given[atom].items() for i in layout.factors.noted_coming(a, j, change)
        ]
        body += [Call(name, (*regs(needed), CHANGE, *factors)) for name, needed, factors in calls]
        valued = values.get(atom, ())
        layout.procedure(f"input{atom}{totals.tag}", (*regs(words), CHANGE, *changes, *map(_value, valued)), body)
        serves = tuple(sorted(served[atom] - targets.keys()))
        found.append(AtomInput(atom, words, tuple(j for _, j in own), serves, tuple(others), valued))
    return found


def _value(number: int) -> Reg:
    """The register in which a value to be kept in order comes in."""
    return reg(value_variable(number))


def _write_entries(layout: Layout, atom_inputs: Sequence[AtomInput]) -> tuple[Entry, ...]:
    """One procedure a relation: an update goes to each occurrence in turn, before the next update comes."""
    relations: dict[str, list[AtomInput]] = {}
    for atom_input in atom_inputs:
        relations.setdefault(layout.plan.query.atoms[atom_input.atom].relation, []).append(atom_input)
    entries = []
    for relation, found in relations.items():
        names = []
        for tag in ("", "!"):
            parameters: list[Reg] = []
            body: list[Instruction] = []
            for o in found:
                words = tuple(Reg(f"{o.atom}@{v.name}") for v in o.variables)
                flag = Reg(f"{o.atom}?")
                factors = (*((o.atom, j) for j in o.sums), *o.served_sums)
                changes = tuple(Reg(f"{o.atom}+{i}", layout.sums[j - 1].factors[a]) for i, (a, j) in enumerate(factors))
                values = tuple(Reg(f"{o.atom}={i}") for i in o.values)
                parameters += [*words, flag, *changes, *values]
                call = Call(f"input{o.atom}{tag}", (*words, CHANGE, *changes, *values))
                body.append(If(Test.NOT_EQUAL, flag, Lit(0), (call,)))
            names.append(layout.procedure(f"update {relation}{tag}", (*parameters, CHANGE), body))
        entries.append(Entry(relation, tuple(found), *names))
    return tuple(entries)


def _write_switch(layout: Layout) -> None:
    """Mark everything that is live, or nothing, when the first feed opens and the last one closes."""
    row = Reg("row")
    root = layout.root
    start_deltas: list[Instruction] = []
    stop_deltas: list[Instruction] = []
    if root.is_inner:
        whole = layout.index(root.out_table, ())
        start_deltas.append(Each(row, root.out_table, whole, (), 1, (Call(f"{root.label}.live", (row,)),)))
        stop_deltas.append(Each(row, root.out_table, whole, (), 2, (Call(f"{root.label}.dead", (row,)),)))
    layout.procedure(START_DELTAS, (ONCE,), start_deltas)
    layout.procedure(STOP_DELTAS, (ONCE,), stop_deltas)


def _lookups(layout: Layout) -> tuple[Lookup, ...]:
    """A row of the result is a row of each table that listing it walks through, and these are found by their words."""
    return tuple(Lookup(layout.stored_in(n.out_table), layout.key_of(n), n.matching) for n in layout.shown)


def _cursor(layout: Layout) -> Cursor:
    """Nested loops from the root down: every row visited is in a result (crown.md 5)."""
    steps: list[Step] = []
    places: dict[Var, Operand] = {}
    rows: dict[Node, Reg] = {}
    for n in layout.shown:
        row = Reg(f"at{n.number}")
        key = tuple(places[v] for v in n.key)
        steps.append(Step(row, layout.stored_in(n.out_table), layout.index(n.out_table, n.key), key, n.matching))
        rows[n] = row
        places.update({v: layout.word(row, n.out_table, v) for v in n.handed if v not in places})
    if layout.is_set:
        weights = [result_weight(layout, 0, {})]
    else:
        weights = [result_weight(layout, j, rows) for j in range(len(layout.sums) + 1)]
    return Cursor(RESULT, (), tuple(steps), (*(places[v] for v in layout.outputs), *weights))


def _count(layout: Layout) -> Function:
    """How many results there are: of each row its copies times what its children's groups have, added up.

    That visits no more rows than listing does, and of a star each row but once.
    """
    places: dict[Var, Operand] = {}

    def total(n: Node) -> tuple[list[Instruction], Reg]:
        row = Reg(f"at{n.number}")
        found, product = (Reg(f"{what}{n.number}", layout.result_width) for what in ("total", "product"))
        key = tuple(places[v] for v in n.key)
        places.update({v: layout.word(row, n.out_table, v) for v in n.handed if v not in places})
        copies: Sequence[Operand] = [Lit(1)] if n.is_pure or layout.is_set else layout.factors.of(row, n, 0)
        body = multiplied(product, copies)
        for child in n.shown:
            inner, below = total(child)
            body += [*inner, Compute(product, Math.MULTIPLY, product, below)]
        body.append(Compute(found, Math.ADD, found, product))
        index = layout.index(n.out_table, n.key)
        scan = Scan(row, layout.stored_in(n.out_table), index, key, n.matching, tuple(body))
        return [Compute(found, Math.ADD, Lit(0), Lit(0)), scan], found

    body, result = total(layout.root)
    return Function(COUNT, (ONCE,), tuple(body), (result,))
