"""From a plan to its program."""

from __future__ import annotations

from collections.abc import Sequence

from everview.kernel.program import Add, Call, If, Instruction, Lit, Procedure, Program, Reg, Test
from everview.kernel.verifier import verify
from everview.programs.limits import BEYOND_TABLE, passed
from everview.programs.optimise import optimise
from everview.programs.parts import ThresholdBase
from everview.strategies.hierarchical.layout import ZERO, Layout, regs
from everview.strategies.hierarchical.listing import PIECES, TEST, Listing, Pieces, counted
from everview.strategies.hierarchical.loading import BUILD, built, stored
from everview.strategies.hierarchical.order import Leaf
from everview.strategies.hierarchical.plan import HierarchicalPlan
from everview.strategies.hierarchical.rebalance import Rebalance
from everview.strategies.hierarchical.updates import RESULT_TABLE, Updates, change_regs, copied
from everview.strategies.strategy import COUNT, DELTA, AtomInput, Entry, Gauge, Maintained, Parts, RowCount, Sum

ONCE, CAME = Reg("once"), Reg("came")
MOST_COPIES = 2**63 - 1
"""So many rows a group may have: COUNT is a BIGINT."""
START_DELTAS, STOP_DELTAS = Maintained.start_deltas, Maintained.stop_deltas


def compile_hierarchical(plan: HierarchicalPlan, sums: Sequence[Sum]) -> Maintained:
    """The program that maintains a hierarchical query with this plan's ε."""
    layout = Layout(
        plan.order, tuple(sorted(plan.outputs)), [s.atom for s in sums], plan.is_distinct, sums_up=plan.sums_up
    )
    base = ThresholdBase(plan.epsilon)
    if layout.is_set:
        layout.declare(RESULT_TABLE, layout.outputs, ("weight",), (layout.result_width,))
    rebalance = Rebalance(layout, base)
    rebalance.write()
    for leaf in layout.leaves:
        for with_deltas in (False, True):
            _write_change(plan, layout, rebalance, leaf, with_deltas)
        parameters = (*regs(leaf.words), *change_regs(layout, leaf).values())
        layout.procedure(_store(leaf), parameters, stored(layout, leaf))
    layout.procedure(BUILD, (ONCE,), [*built(layout, rebalance), *_limited(plan, layout)])
    entries = _write_entries(plan, layout)
    switched = Updates(layout, with_deltas=True)
    for name, sign in ((START_DELTAS, 1), (STOP_DELTAS, -1)):
        layout.procedure(name, (ONCE,), switched.count_derivations(sign) if layout.is_set else ())
    listing = Listing(layout)
    in_pieces = Pieces(layout)
    result, pieces = listing.cursor(), in_pieces.cursor()
    listing.write_questions()
    widths = (layout.told_width,) * len(layout.measures)
    width = len(layout.outputs) + sum(widths) + 1
    written = Program(
        (base.table, *layout.tables(), *((BEYOND_TABLE,) if plan.has_groups else ())),
        ((DELTA, width),),
        (*base.procedures, *layout.procedures),
        (result, pieces),
        (*listing.functions, *in_pieces.functions.values()),
    )
    called = [START_DELTAS, STOP_DELTAS, BUILD]
    called += [name for e in entries for name in (e.state_only, e.with_deltas, e.load) if name is not None]
    program = optimise(written, called)
    verify(program)
    return Maintained(
        program,
        entries,
        layout.outputs,
        widths=widths,
        test=TEST if layout.outputs else None,
        count=None if layout.is_set else COUNT,
        pieces=PIECES,
        build=BUILD,
        parts=_parts(layout, base),
    )


def _parts(layout: Layout, base: ThresholdBase) -> Parts:
    """Where ``stats`` finds N, the heavy keys and the rebalances."""

    def gauge(column: str) -> Gauge:
        return Gauge(base.name, (), base.column(column))

    heavy = tuple(RowCount(layout.heavy_table(n)) for n in layout.order.split)
    return Parts(base.epsilon, gauge("N"), heavy, gauge("minors"), gauge("majors"), gauge("moved"))


def _limited(plan: HierarchicalPlan, layout: Layout) -> tuple[Instruction, ...]:
    """Take note if a group may have more rows than can be counted: it has no more than there are in all."""
    if not plan.has_groups:
        return ()
    total = layout.fresh("total", layout.result_width)
    return counted(layout, total, (If(Test.LESS, Lit(MOST_COPIES), total, passed()),))


def _write_change(plan: HierarchicalPlan, layout: Layout, rebalance: Rebalance, leaf: Leaf, with_deltas: bool) -> None:
    """One procedure an atom: its row, what follows from it, and where keys must change their side."""
    words, changes = regs(leaf.words), tuple(change_regs(layout, leaf).values())
    body: list[Instruction] = [
        copied(CAME, ZERO),
        Add(Reg("row"), leaf.label, words, changes, (copied(CAME, Lit(1)),), (copied(CAME, Lit(-1)),)),
        *Updates(layout, with_deltas).climb(leaf),
        If(Test.NOT_EQUAL, CAME, ZERO, tuple(rebalance.after(leaf, CAME))),
        *(() if with_deltas else _limited(plan, layout)),
    ]
    layout.procedure(_change(leaf, with_deltas), (*words, *changes), body)


def _change(leaf: Leaf, with_deltas: bool) -> str:
    return f"change {leaf.label}{'!' if with_deltas else ''}"


def _store(leaf: Leaf) -> str:
    return f"store {leaf.label}"


def _write_entries(plan: HierarchicalPlan, layout: Layout) -> tuple[Entry, ...]:
    """One procedure a relation: an update goes to each occurrence in turn, and all of it is done before the next."""
    relations: dict[str, list[Leaf]] = {}
    for leaf in layout.leaves:
        relations.setdefault(plan.query.atoms[leaf.atom].relation, []).append(leaf)
    entries = []
    for relation, leaves in relations.items():
        inputs = tuple(AtomInput(x.atom, tuple(sorted(x.words)), layout.carried(x)[1:]) for x in leaves)
        called = {
            f"update {relation}": [_change(x, with_deltas=False) for x in leaves],
            f"update {relation}!": [_change(x, with_deltas=True) for x in leaves],
            f"load {relation}": [_store(x) for x in leaves],
        }
        for name, procedures in called.items():
            parameters: list[Reg] = []
            body: list[Instruction] = []
            for leaf, given, procedure in zip(leaves, inputs, procedures, strict=True):
                words = {v: Reg(f"{leaf.atom}@{v.name}") for v in given.variables}
                flag, own = Reg(f"{leaf.atom}?"), tuple(Reg(f"{leaf.atom}+{j}") for j in given.sums)
                parameters += [*words.values(), flag, *own]
                call = Call(procedure, (*(words[v] for v in leaf.words), Reg("change"), *own))
                body.append(If(Test.NOT_EQUAL, flag, ZERO, (call,)))
            layout.procedures.append(Procedure(name, (*parameters, Reg("change")), tuple(body)))
        state_only, with_deltas, load = called
        entries.append(Entry(relation, inputs, state_only, with_deltas, load=load))
    return tuple(entries)
