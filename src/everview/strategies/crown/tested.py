"""Views that are only asked whether they have a row: a tree of height 1 for each part (q-hierarchical.md 13).

The atoms of a t-hierarchical query fall into parts that share no variable but output ones: single atoms whose variables
are all output, and others, each of which is q-hierarchical if its output variables are its head. A row is there exactly
if each part has the row's own values. So every part has a tree of CROWN's, an update changes constant many rows of
these, and a test looks one row up in each table that listing a part would visit. The parts' rows are never joined,
which is why the result cannot be listed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from everview.kernel.program import (
    Call,
    Compute,
    Find,
    Function,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Procedure,
    Program,
    Reg,
    Test,
)
from everview.kernel.verifier import verify
from everview.programs.link import prefixed
from everview.programs.optimise import optimise
from everview.query.classify import Classification
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics, connected_components
from everview.query.options import NO_OPTIONS
from everview.query.terms import Var, names
from everview.strategies.bounds import CONSTANT, LINEAR, Bound, Bounds
from everview.strategies.core import Core, Facts
from everview.strategies.crown.compile import compile_crown
from everview.strategies.crown.layout import CHANGE
from everview.strategies.crown.plan import CrownPlan, plan_crown
from everview.strategies.crown.show import diagram, tree_dict
from everview.strategies.diagram import Box, Diagram, DiagramNode
from everview.strategies.strategy import DELTA, MEASURES, AtomInput, Cost, Entry, Lookup, Maintained, Task

TESTED = Bound((), caveats=("to test a row, as none is listed",))
"""What a read of the result costs."""


@dataclass(frozen=True)
class Part:
    """Some atoms of a query, by their places in it, and how the rows of their output variables are maintained."""

    atoms: tuple[int, ...]
    plan: CrownPlan


@dataclass(frozen=True)
class TestedPlan:
    """The parts of a t-hierarchical query, each with a tree of its own."""

    query: ConjunctiveQuery
    parts: tuple[Part, ...]
    changes_one_row: bool = False
    ordered_by: tuple[Var, ...] | None = None
    remarks: tuple[str, ...] = ()
    height: int = 1
    constant_update_for: tuple[str, ...] = ("any", "fifo", "insert_only")

    @property
    def reason(self) -> str:
        """Why it fits, and what it does here."""
        return (
            f"t-hierarchical: {len(self.parts)} parts have trees of height 1, so every update takes constant time, and "
            "so does the test of a row"
        )

    @property
    def outputs(self) -> frozenset[Var]:
        """The query's own output; nothing is added."""
        return self.query.free

    @property
    def bounds(self) -> Bounds:
        """What it costs to keep the parts, and to ask all of them."""
        return Bounds(LINEAR, CONSTANT, TESTED, LINEAR)

    @property
    def tasks(self) -> Mapping[Task, Cost]:
        """Rows are tested, and that is all."""
        return {Task.TEST: Cost(CONSTANT, CONSTANT)}

    @property
    def keeps_extremes(self) -> bool:
        """No groups are only tested."""
        return False

    def looks_up(self, variables: frozenset[Var]) -> bool:
        """Nothing is listed, by no values."""
        return False

    @cached_property
    def diagram(self) -> Diagram:
        """The parts' trees under one box, which stands for a row that is asked for."""
        below = tuple(_asked(diagram(part.plan).root, names(part.plan.query.free) or "∅") for part in self.parts)
        root = DiagramNode(f"row ({names(self.query.free)})", Box.GROUP, is_listed=False, children=below)
        title = f"{len(self.parts)} parts, each asked for its values of the row"
        return Diagram("parts", title, f"{len(self.parts)} parts", root)

    @property
    def summary(self) -> str:
        """The parts' trees on one line."""
        return " ∧ ".join(part.plan.summary for part in self.parts)

    def notes(self) -> tuple[tuple[str, str], ...]:
        """What can be asked."""
        return (("answers", "whether a row is there; rows are neither listed nor counted, and no change is told"),)

    def to_dict(self) -> dict[str, Any]:
        """The parts as plain data."""
        trees = [tree_dict(part.plan, part.plan.tree.root) for part in self.parts]
        parts = [
            {"atoms": list(part.atoms), "output": sorted(v.name for v in part.plan.query.free), "tree": tree}
            for part, tree in zip(self.parts, trees, strict=True)
        ]
        return {"tree": {"node": self.summary, "children": trees}, "height": self.height, "parts": parts}


def _asked(node: DiagramNode, key: str) -> DiagramNode:
    """A part's tree below the row that is asked for: nothing of it is listed."""
    below = tuple(_asked(child, child.key) for child in node.children)
    return replace(node, key=key, is_listed=False, children=below)


def why_listed(core: Core, facts: Facts) -> str | None:
    """Why a core's rows are kept so that they can be listed, though they are only tested; None if they are not."""
    if facts.classification.q_hierarchical:
        return "which costs nothing, as the query is q-hierarchical"
    if not facts.classification.t_hierarchical:
        return "as the query is not t-hierarchical"
    if facts.told:
        return "as all that changes is told"
    if core.grouped or core.folded or core.operators:
        return "as rows are made of them"
    if facts.residual:
        return "as conditions across relations are checked on them"
    asked = [name for name in ("lookup", "moments", "access", "count") if getattr(facts.options, name)]
    return f"as option {asked[0]} asks for more than tests" if asked else None


def plan_tested(facts: Facts) -> TestedPlan:
    """The parts of a query that is to be tested only."""
    query = facts.query
    parts = []
    for atoms in connected_components(query.edges, query.free):
        first: dict[Atom, int] = {}  # Of atoms with the same terms one is enough, as a set has no copies.
        for i in atoms:
            first.setdefault(query.atoms[i], i)
        own = tuple(first.values())
        inside = frozenset[Var]().union(*(query.edges[i] for i in own))
        shown = tuple(sorted(query.free & inside))
        part = ConjunctiveQuery(shown, tuple(query.atoms[i] for i in own), (), Semantics.SET, query.not_null)
        known = replace(
            facts, classification=Classification(part, part, True), options=NO_OPTIONS, lookups=(), order=()
        )
        parts.append(Part(own, plan_crown(known)))
    return TestedPlan(query, tuple(parts))


def compile_tested(plan: TestedPlan, signatures: Sequence[Hashable]) -> Maintained:
    """One program of those of all parts: each update goes to all that read its relation, a test asks all of them."""
    compiled = [
        compile_crown(part.plan, (), [signatures[i] for i in part.atoms] if signatures else ()) for part in plan.parts
    ]
    prefixes = [f"part{i}." for i in range(1, len(compiled) + 1)]
    programs = [prefixed(m.program, prefix) for m, prefix in zip(compiled, prefixes, strict=True)]
    inputs: dict[str, list[AtomInput]] = {}
    bodies: dict[str, list[Instruction]] = {}
    for part, maintained, prefix in zip(plan.parts, compiled, prefixes, strict=True):
        for entry in maintained.entries:
            given = [_placed(one, part.atoms) for one in entry.atom_inputs]
            inputs.setdefault(entry.relation, []).extend(given)
            call = Call(prefix + entry.state_only, (*_parameters(given), CHANGE))
            bodies.setdefault(entry.relation, []).append(call)
    procedures = {
        name: Procedure(f"update {name}", (*_parameters(given), CHANGE), tuple(bodies[name]))
        for name, given in inputs.items()
    }
    outputs = tuple(sorted(plan.outputs))
    asked: list[Lookup] = []
    for maintained, prefix in zip(compiled, prefixes, strict=True):
        assert isinstance(maintained.test, tuple)
        asked += [replace(lookup, table=prefix + lookup.table) for lookup in maintained.test]
    silent = [Procedure(name, (Reg("once"),), ()) for name in (Maintained.start_deltas, Maintained.stop_deltas)]
    is_distinct = plan.query.semantics is Semantics.SET
    written = Program(
        tuple(table for p in programs for table in p.tables),
        ((DELTA, len(outputs) + 2),),
        (*(procedure for p in programs for procedure in p.procedures), *procedures.values(), *silent),
        functions=(_found(outputs, asked),) if is_distinct else (),
    )
    program = optimise(written, [procedure.name for procedure in (*procedures.values(), *silent)])
    verify(program)
    entries = (Entry(name, tuple(inputs[name]), p.name, p.name) for name, p in procedures.items())
    measures = MEASURES if is_distinct else None
    return Maintained(program, tuple(entries), outputs, test=tuple(asked), measures=measures)


def _found(outputs: Sequence[Var], asked: Sequence[Lookup]) -> Function:
    """1 and the one copy that a row has which is there, 0 and 0 if it is not."""
    is_there = Reg("is there")
    body: tuple[Instruction, ...] = (Compute(is_there, Math.ADD, Lit(1), Lit(0)),)
    for i, lookup in reversed(tuple(enumerate(asked))):
        row, level = Reg(f"at{i}"), Reg(f"level{i}")
        if lookup.level:
            body = (GetLevel(level, row, lookup.table), If(Test.LESS, level, Lit(lookup.level), (), body))
        body = (Find(row, lookup.table, tuple(Reg(v.name) for v in lookup.key), body),)
    parameters = tuple(Reg(v.name) for v in outputs) or (Reg("once"),)
    return Function(MEASURES, parameters, (Compute(is_there, Math.ADD, Lit(0), Lit(0)), *body), (is_there, is_there))


def _placed(given: AtomInput, atoms: Sequence[int]) -> AtomInput:
    """How a part's atom takes rows in, as that atom of the whole query."""
    return replace(given, atom=atoms[given.atom], serves=tuple(atoms[i] for i in given.serves))


def _parameters(inputs: Sequence[AtomInput]) -> list[Reg]:
    """The words of each atom, and whether the row belongs to it."""
    return [Reg(f"{o.atom}@{v.name}") if v else Reg(f"{o.atom}?") for o in inputs for v in (*o.variables, None)]
