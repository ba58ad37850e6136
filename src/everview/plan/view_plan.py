"""The plan of a whole view: its stages, the blocks of its set operations, and the cores of each block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

from everview.errors import OptionError
from everview.plan.core_plan import CorePlan, plan_core
from everview.plan.cores import cores_of, extremes_of, watched
from everview.plan.ordering import added, cost_of
from everview.plan.part_plan import BlockPlan, PartPlan
from everview.plan.rewrite import gone_members, query_of, rewrite_block
from everview.plan.set_operations import is_set_union, only_concatenates, operators
from everview.plan.small_domains import ALWAYS_EMPTY, expand_block, is_always_empty, united
from everview.plan.union_order import UnionOrder, in_one_order, sides_in_order
from everview.plan.unions import Combination, UnionVerdict, block_of, combination_of
from everview.query.chase import surviving
from everview.query.conjunctive import Atom, ConjunctiveQuery, UnionQuery
from everview.query.constraints import Constraints, constraints_of
from everview.query.homomorphism import Budget, minimal_query
from everview.query.options import OF_ONE_TREE, ViewOptions
from everview.query.schema import Schema, Updates
from everview.query.terms import Term, Var
from everview.query.types import ANY, DataType
from everview.query.view import (
    Block,
    Body,
    Cut,
    Exploded,
    FormulaBody,
    SetOperation,
    Timed,
    View,
    Windowed,
    blocks,
    each_block,
)
from everview.strategies.bounds import Bound, Bounds, total_of
from everview.strategies.core import Core
from everview.strategies.strategy import KINDS, Task


@dataclass(frozen=True)
class ViewPlan:
    """How a whole view is maintained."""

    view: View
    parts: tuple[PartPlan, ...]
    constraints: Constraints
    views: frozenset[str] = frozenset()
    """The names of other views, which this one may read like tables."""
    updates: Mapping[str, Updates] = field(default_factory=dict)
    """How each base table may change, by its name in lower case."""
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the columns of each base table, by its name in lower case."""

    @property
    def derived(self) -> frozenset[str]:
        """The relations that are no base tables: stages, and other views."""
        return self.views | {p.name for p in self.parts[:-1]}

    @property
    def result(self) -> PartPlan:
        """The part that gives the view's rows."""
        return self.parts[-1]

    @property
    def main(self) -> CorePlan:
        """The core that gives the view's rows (of a set operation: its first block's)."""
        return self.result.blocks[0].cores[0]

    @property
    def is_listed(self) -> bool:
        """True unless its rows are only tested."""
        return all(Task.LIST in c.maintenance.tasks for c in self.result.cores)

    @property
    def cores(self) -> tuple[CorePlan, ...]:
        """Every core of every part."""
        return tuple(c for p in self.parts for c in p.cores)

    @cached_property
    def bounds(self) -> Bounds:
        """The costs of all parts together; a part that changes in many rows at once multiplies what reads it."""
        found = total_of(c.bounds for c in self.cores)
        for part in self.parts:
            if part.keeps_result:
                both = "EXCEPT" in part.operator_words or "INTERSECT" in part.operator_words
                kept = Bound(("|Q1| + |Q2|",) if both else ("|Q|",), Fraction(1))
                # Rows that are counted, and are in no result, are passed over when it is read.
                passed = found.delay.plus(kept) if both and part is self.result else found.delay
                found = Bounds(
                    found.preprocessing.plus(kept),
                    found.update.plus(Bound(("|Δ|",), Fraction(1))),
                    passed,
                    found.space.plus(kept),
                )
        for ordered in (a for p in self.parts for a in p.arranged):
            found = added(found, cost_of(ordered))
        for name in self._changing:
            each = Bound((f"|Δ {name}|",), Fraction(1), (f"for each changed row of {name}",))
            found = replace(found, update=found.update.plus(each))
        return found

    @property
    def _changing(self) -> list[str]:
        """The stages and views of which one update may change many rows."""
        read = {a.relation for c in self.cores for a in c.query.atoms}
        return [p.name for p in self.parts[:-1] if not p.changes_one_row] + sorted(read & self.views)

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """The kinds of update sequences that are constant time in every core."""
        stages = self.parts[:-1]
        by_order = [a for p in self.parts for a in p.arranged if not isinstance(a, Timed)]
        if self._changing or by_order or any(p.keeps_result for p in self.parts):
            return ()
        kinds = [c.constant_update_for for c in self.cores]
        shared = tuple(k for k in KINDS if all(k in c or (k == "keyed" and "any" in c) for c in kinds))
        if self.timed:
            return ("fifo",) if self.is_one_window and {"any", "fifo"} & set(shared) else ()
        if "any" in shared:
            return tuple(k for k in shared if k != "keyed")
        if not stages:
            return shared
        # A stage lets go of a row when its last derivation goes, so windows are no windows behind it; and a grouped
        # stage deletes old values though its input only grows.
        grows = not any(isinstance(p.body, Block) and p.body.grouping for p in stages)
        return ("insert_only",) if "insert_only" in shared and grows else ()

    @property
    def timed(self) -> tuple[Timed, ...]:
        """The stages whose rows come and go by the clock."""
        return tuple(p.body for p in self.parts[:-1] if isinstance(p.body, Timed))

    @property
    def is_one_window(self) -> bool:
        """True if all that is joined goes by the clock, so long after its time: what comes in order goes in order."""
        names = {p.name for p in self.parts[:-1] if isinstance(p.body, Timed)}
        read = {a.relation for c in self.result.cores for a in c.query.atoms}
        windows = {t.window for t in self.timed}
        return read <= names and len(self.parts) == len(names) + 1 and len(windows) == 1 and None not in windows

    @property
    def is_restricted(self) -> bool:
        """True if one of the tables that it reads may not change in any way."""
        read = {a.relation.lower() for c in self.cores for a in c.query.atoms} - {d.lower() for d in self.derived}
        return any(self.updates.get(name, Updates.ANY) is not Updates.ANY for name in read)

    @property
    def is_constant_as_declared(self) -> bool:
        """True if updates as the tables' declarations allow them take amortised constant time, and others might not."""
        kinds = self.constant_update_for
        return "any" not in kinds and self.declared in kinds

    @property
    def declared(self) -> str | None:
        """The kind of update sequences that the tables' declarations allow, if it is one of which theory says anything.

        Where no table loses a row it is ``insert_only``, and ``fifo`` where all of them form one queue. Of other
        combinations nothing is known.
        """
        read = {a.relation for c in self.cores for a in c.query.atoms} - self.derived
        kinds = {self.updates.get(name.lower(), Updates.ANY) for name in read}
        if read & self.views or not kinds:
            return None
        if kinds <= {Updates.STATIC, Updates.APPEND}:
            return "insert_only"
        return "fifo" if kinds == {Updates.FIFO} else None


def plan_view(
    view: View,
    schema: Schema,
    statistics: Mapping[str, float] | None = None,
    views: frozenset[str] = frozenset(),
    *,
    told: bool = False,
) -> ViewPlan:
    """Plan every part of a view; ``views`` are the names of other views that it may read.

    With ``told`` all that changes in it is always told, as on Spark.
    """
    computed = {s.name for s in view.stages} | views
    never_null = frozenset(
        (t.name, i) for t in schema if t.name not in computed for i, c in enumerate(t.columns) if not c.nullable
    )
    # Whoever reads a stage needs all its changes.
    constraints = constraints_of(schema).without(computed)
    columns = {t.name.lower(): tuple(c.type for c in t.columns) for t in schema}
    columns |= {s.name.lower(): tuple(c.type for c in s.columns) for s in view.stages}
    known = _Known(statistics, view.options, never_null, constraints, columns)
    parts = [_plan_part(s.name, s.purpose, s.body, known.without_history(), told=True) for s in view.stages]
    if isinstance(view.body, FormulaBody):
        from everview.plan.formula_plan import plan_formula

        return plan_formula(view, view.body, parts, schema, views)
    told = told or view.options.history is not None
    # Where all changes are told, as those of stages are, each row's product is made anyway.
    body = view.body if told or not isinstance(view.body, Block) else watched(view.body)
    parts.append(_plan_part(view.name, "", body, known, told=told, lookups=looked_up(view)))
    _check_moments(view)
    tables = {t.name.lower(): tuple(c.name for c in t.columns) for t in schema if t.name not in computed}
    return ViewPlan(view, tuple(parts), constraints, views, {t.name.lower(): t.updates for t in schema}, tables)


@dataclass(frozen=True)
class _Known:
    """What is known of all parts of a view."""

    statistics: Mapping[str, float] | None
    options: ViewOptions
    never_null: frozenset[tuple[str, int]]
    constraints: Constraints
    columns: Mapping[str, tuple[DataType, ...]]
    """The types of the columns of all relations that were declared, by their names in lower case."""

    def without_history(self) -> _Known:
        """The same for a part of which nothing is kept for differences."""
        return replace(self, options=replace(self.options, history=None))

    def types_of(self, atom: Atom) -> tuple[DataType, ...]:
        """The types of the columns of an atom's relation; in rules nobody need have declared it."""
        return self.columns.get(atom.relation.lower()) or (ANY,) * len(atom.terms)


def _plan_part(
    name: str,
    purpose: str,
    body: Body,
    known: _Known,
    *,
    told: bool,
    lookups: Sequence[frozenset[int]] = (),
) -> PartPlan:
    remarks: list[str] = []

    def rewritten(block: Block) -> Block:
        found = rewrite_block(block, known.constraints)
        remarks.extend(found.remarks)
        return found.block

    body = each_block(body, rewritten)
    if not known.options.given().keys() & set(OF_ONE_TREE):
        body = _by_small_domains(body, known, remarks, name)
    members = list(blocks(body))
    if isinstance(body, SetOperation) and is_set_union(body):
        members = [m if m.grouping else replace(m, distinct=True) for m in members]
    budget = Budget()
    union = _union_verdict(name, body, members, known, budget)
    kept = list(range(len(members)))
    if union is not None:
        kept = surviving(union.union.members, known.constraints, budget)
        if budget.exhausted:
            remarks.append("the search for members of the union that add nothing was cut: there may be more of them")
        remarks += gone_members(union.union.members, kept, known.constraints, budget)
    unites = isinstance(body, SetOperation) and is_set_union(body)
    is_arranged = isinstance(body, Cut | Windowed | Timed | Exploded)
    known = known if isinstance(body, Block) else known.without_history()
    counts = is_arranged or (isinstance(body, SetOperation) and not unites and not only_concatenates(body))
    lookups = () if is_arranged else lookups

    def planned(told: bool, order: Sequence[int] = (), known: _Known = known) -> tuple[BlockPlan, ...]:
        label = f"{name}, member {{}}" if len(members) > 1 else name
        return tuple(_plan_block(label.format(i + 1), name, members[i], known, lookups, order, told=told) for i in kept)

    plans, combination = planned(told or counts), None
    if unites and len(kept) > 1:
        minimal = None if union is None else union.minimal
        combination = combination_of(minimal, [(p.block, p.cores[0]) for p in plans], known.types_of)
        if combination is Combination.COUNTED and not told:
            plans = planned(True)
    said = operators(body, len(kept), combination)
    part = PartPlan(name, purpose, body, plans, said, union, tuple(remarks), combination)
    if isinstance(body, SetOperation) and part.only_concatenates and not part.is_disjoint:
        with_access = replace(known, options=replace(known.options, access=True))
        return sides_in_order(part, known.options.access, lambda order: planned(told, order, with_access))
    if union is None or combination is not Combination.TESTED or not (known.options.count or known.options.access):
        return part
    wants_order = bool(known.options.access) and union.may_access
    sets = union.intersections(ordered=wants_order)
    shown = [(f"{name}, overlap {i}", block_of(s.query, members[0].outputs)) for i, s in enumerate(sets, 1)]

    def ordered(order: Sequence[int]) -> tuple[tuple[BlockPlan, ...], tuple[BlockPlan, ...]]:
        overlaps = (_plan_block(label, name, block, known, (), order, told=False) for label, block in shown)
        return planned(told, order), tuple(overlaps)

    plans, overlaps, columns = in_one_order(ordered) if wants_order else (*ordered(()), ())
    terms = tuple(
        (s.coefficient, overlap) for s, overlap in zip(sets, overlaps, strict=True) if columns or s.coefficient
    )
    numbers = {chosen: i for i, s in enumerate(sets) for chosen in s.members}
    return replace(part, blocks=plans, terms=terms, order=UnionOrder(columns, numbers) if columns else None)


def _plan_block(
    label: str,
    name: str,
    block: Block,
    known: _Known,
    lookups: Sequence[frozenset[int]],
    order: Sequence[int] = (),
    *,
    told: bool,
) -> BlockPlan:
    shown = [block.outputs[i].expression.term for i in order]
    found = _variables(block, lookups)  # Aggregates that have a core of their own list its rows by group.

    def plan(core: Core, lookups: Sequence[frozenset[Var]] = ()) -> CorePlan:
        return plan_core(
            core,
            known.statistics,
            known.options,
            known.never_null,
            known.constraints,
            lookups=lookups,
            order=[t for t in dict.fromkeys(shown) if isinstance(t, Var)],
            told=told,
        )

    first, *others = cores_of(block, name, extremes_of(block))
    main = plan(first, found)
    if first.extremes and not main.maintenance.keeps_extremes:
        first, *others = cores_of(block, name)
        main = plan(first, found)
    return BlockPlan(label, block, (main, *map(plan, others)))


def _by_small_domains(body: Body, known: _Known, remarks: list[str], name: str, *, is_member: bool = False) -> Body:
    """The body with a union over small domains in the place of each block that gains by it: alone, or in a union."""
    if isinstance(body, Cut | Windowed | Timed | Exploded | FormulaBody):
        return body
    if isinstance(body, SetOperation):
        if not is_set_union(body):
            return body
        sides = (_by_small_domains(side, known, remarks, name, is_member=True) for side in (body.left, body.right))
        return replace(body, left=next(sides), right=next(sides))
    if is_member and body.grouping is None:
        body = replace(body, distinct=True)
    if is_always_empty(query_of(body), known.constraints):
        remarks.append(ALWAYS_EMPTY)
    found = expand_block(body, known.constraints)
    if found is None:
        return body
    (core,) = cores_of(body, name)
    plan = plan_core(core, known.statistics, known.options, known.never_null, known.constraints)
    if {"any", "keyed"} & set(plan.constant_update_for):
        return body
    remarks.append(found.remark)
    return united(body, found.members, all=found.is_disjoint and not is_member)


def looked_up(view: View) -> list[frozenset[int]]:
    """The sets of columns that rows of a view are to be looked up by, as its options say."""
    places = {c.name.lower(): i for i, c in enumerate(view.columns)}
    found = []
    for columns in view.options.lookup or ():
        for column in columns:
            if column.lower() not in places:
                listed = ", ".join(c.name for c in view.columns)
                raise OptionError(
                    f"rows of {view.name} are to be looked up by {column}, which is no column of it",
                    option="lookup",
                    hint=f"its columns are {listed}",
                )
        found.append(frozenset(places[column.lower()] for column in columns))
    return found


def _check_moments(view: View) -> None:
    """The columns of which the options want moments must be there, and hold numbers."""
    types = {c.name.lower(): c.type for c in view.columns}
    for column in view.options.moments or ():
        type_ = types.get(column.lower())
        if type_ is None or not (type_.is_numeric or type_.is_open):
            what = "which is no column of it" if type_ is None else f"which is {type_}, and no number"
            listed = ", ".join(c.name for c in view.columns if c.type.is_numeric) or "none"
            raise OptionError(
                f"moments of {view.name} are to be kept of {column}, {what}",
                option="moments",
                hint=f"its columns of numbers are {listed}",
            )


def _variables(block: Block, lookups: Sequence[frozenset[int]]) -> list[frozenset[Var]]:
    """Sets of a block's columns as sets of variables, where all of them are variables or constants."""
    keys: Mapping[Term, Term | None] = {}
    if block.grouping is not None:
        keys = {v: k.term for v, k in zip(block.grouping.key_names, block.grouping.keys, strict=True)}
    found = []
    for columns in lookups:
        shown = [block.outputs[i].expression.term for i in columns]
        terms = [t if block.grouping is None else keys.get(t) if isinstance(t, Var) else t for t in shown]
        if None not in terms:
            found.append(frozenset(t for t in terms if isinstance(t, Var)))
    return found


def _union_verdict(
    name: str, body: Body, members: Sequence[Block], known: _Known, budget: Budget
) -> UnionVerdict | None:
    if not isinstance(body, SetOperation) or not is_set_union(body):
        return None
    queries: list[ConjunctiveQuery] = []
    for member in members:
        terms = [o.expression.term for o in member.outputs]
        if member.grouping or any(t is None for t in terms):
            return None
        (core,) = cores_of(member, name)
        queries.append(core.query)
    cores = [minimal_query(query, budget) for query in queries]
    minimal = UnionQuery(tuple(cores[i] for i in surviving(cores, known.constraints, budget)), name)
    return UnionVerdict(UnionQuery(tuple(queries), name), minimal, known.never_null)
