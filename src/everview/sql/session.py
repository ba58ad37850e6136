"""What the parts of the lowering share: the schema, WITH names, the stages made so far, and blocks in the making."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

from sqlglot import exp

from everview.errors import SizeError
from everview.query import view as model
from everview.query.clock import Shift
from everview.query.schema import Column, Schema
from everview.query.terms import Expression, Var
from everview.query.types import BOOLEAN, DataType
from everview.query.view import Aggregate, Block, Grouping, Output, Stage, aggregate_result, group_key
from everview.sql.body import Body
from everview.sql.check import Checker
from everview.sql.grouping_sets import over_sets
from everview.sql.limits import MOST_ATOMS, MOST_RELATIONS
from everview.sql.literals import constant
from everview.sql.names import Cell, Scope
from everview.sql.render import Hole, render
from everview.sql.sql_text import SqlText


@dataclass
class Query:
    """A lowered query: its body, and its columns' names as written (a stage's must differ, these need not)."""

    body: model.Body
    names: list[str]
    places: list[exp.Expr]
    """The nodes that gave the columns, to point at in errors."""


@dataclass(frozen=True)
class Beside:
    """The rows of a subquery beside the values that it reads: these are its last columns, as many as ``outer`` has."""

    query: Query
    outer: tuple[Expression, ...] = ()
    """What the last columns are equal to, over the rows of the query around."""

    @property
    def names(self) -> list[str]:
        """The names of the columns that it gives."""
        return self.query.names[: len(self.query.names) - len(self.outer)]


@dataclass
class Cte:
    """A WITH entry; ``stage`` once a reference needed one, so that all references share it."""

    name: str
    query: exp.Expr
    scope: Environment
    columns: list[exp.Expr]
    stage: tuple[Stage, list[str]] | None = None


@dataclass(frozen=True)
class Environment:
    """The WITH names in scope."""

    ctes: Mapping[str, Cte] = field(default_factory=dict)

    def with_cte(self, cte: Cte) -> Environment:
        """One name more; a new one shadows an old one."""
        return Environment({**self.ctes, cte.name.lower(): cte})


@dataclass(frozen=True)
class ClockCondition:
    """A time, over the columns of a relation by number, ``$0`` and so on, compared with now() and its shifts."""

    time: Expression
    operator: str
    shifts: tuple[Shift, ...]


class Lowering(ABC):
    """The state of one view's lowering, and the entry points that its parts call each other by."""

    has_values: ClassVar[bool] = True
    """True if rows that stand in FROM are lowered; answers leave them to whoever runs the query."""

    def __init__(self, source: SqlText, schema: Schema, name: str) -> None:
        self.source = source
        self.schema = schema
        self.name = name
        self.fresh = count()
        self.stages: list[Stage] = []
        self.relations = 0
        self.remarks: list[str] = []
        self.timed: dict[str, tuple[str, tuple[ClockCondition, ...]]] = {}
        """The stages whose rows go by the clock: of which relation, and on which conditions."""

    @abstractmethod
    def query(self, node: exp.Expr, env: Environment, parent: Scope | None = None) -> Query:
        """Lower a whole query, on its own."""

    @abstractmethod
    def block(
        self,
        select: exp.Select,
        env: Environment,
        parent: Scope | None,
        as_set: bool = False,
        carried: Carried | None = None,
    ) -> Rows:
        """Lower one SELECT, on its own or joined with ``carried`` values of the query around it, up to its outputs."""

    @abstractmethod
    def inline(self, select: exp.Select, env: Environment, body: Body, parent: Scope | None) -> Rows:
        """Lower a plain SELECT into a body that exists already."""

    @abstractmethod
    def beside(self, rows: Rows, query: exp.Expr) -> Beside:
        """The rows of a subquery of any form, beside the values that it reads of the rows of the query around."""

    def remark(self, text: str) -> None:
        """Say what was ignored or changed, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def stage(self, body: model.Body, base: str, purpose: str) -> Stage:
        """Set a part of the view apart."""
        taken = {s.name.lower() for s in self.stages}
        name, number = f"{self.name}${base}", 1
        while name.lower() in taken or name in self.schema:
            number += 1
            name = f"{self.name}${base}_{number}"
        stage = Stage(name, body, purpose)
        self.stages.append(stage)
        return stage


@dataclass
class Selected:
    """An output column in the making."""

    name: str
    expression: Expression
    strict: bool
    place: exp.Expr


@dataclass
class Groups:
    """GROUP BY in the making: keys as the query wrote them, and as the body computes them."""

    written: list[Expression] = field(default_factory=list)
    keys: list[Expression] = field(default_factory=list)
    strict: list[bool] = field(default_factory=list)
    aggregates: list[Aggregate] = field(default_factory=list)
    having: Expression | None = None
    left_out: list[frozenset[int]] | None = None
    """The keys that each grouping set leaves out, by number; None if there is one set, of all keys."""

    def key(self, body: Body, written: Expression, strict: bool) -> int:
        """The index of a key, new or known; an expression over one atom becomes a computed column of it."""
        if written in self.written:
            return self.written.index(written)
        lowered = written if written.term is not None else body.computed(written) or written
        self.written.append(written)
        self.keys.append(lowered)
        self.strict.append(strict)
        return len(self.keys) - 1

    def aggregate(self, aggregate: Aggregate) -> int:
        """The index of an aggregate, new or known."""
        if aggregate not in self.aggregates:
            self.aggregates.append(aggregate)
        return self.aggregates.index(aggregate)


@dataclass
class Carried:
    """A body with the values of the query around a subquery, which is joined with them."""

    body: Body
    terms: dict[Expression, Expression]
    """What stands for them there, by what they are in the query around; the scope around the subquery has it, too."""


@dataclass
class Rows:
    """A SELECT in the making: its scope, its body, and what it makes of the rows."""

    lowering: Lowering
    env: Environment
    scope: Scope
    body: Body
    outputs: list[Selected] = field(default_factory=list)
    groups: Groups | None = None
    distinct: bool = False
    correlations: list[tuple[Expression, Expression, exp.Expr]] = field(default_factory=list)
    """Equalities with an outer query: inner side, outer side, and where it was written."""
    keys: dict[int, Selected] = field(default_factory=dict)
    """What ORDER BY names beside the outputs, where window functions stand below, by the ids of its items."""
    outer_conditions: list[Expression] = field(default_factory=list)
    """Conditions that only read the outer query."""
    mixed: list[tuple[Expression, exp.Expr]] = field(default_factory=list)
    """Other conditions that tie it to an outer query, and where they were written."""
    compared: set[Var] = field(default_factory=set)
    """Columns of outer queries that are compared in them: where one is NULL, none holds."""
    names: frozenset[str] | None = None
    """The columns that the SELECT names anywhere, in lower case; None where it may read all."""
    carried: Carried | None = None
    places: dict[str, exp.Expr] = field(default_factory=dict)
    """The nodes that brought relations into scope, by their names in lower case."""
    is_over_groups: bool = False
    """True if its rows are the groups of another SELECT's rows, to which subqueries are added."""
    over_groups: set[int] = field(default_factory=set)
    """The ids of the nodes that stand for subqueries over its groups."""

    @property
    def source(self) -> SqlText:
        """The text."""
        return self.lowering.source

    def atom(
        self, relation: str, base: str, columns: Sequence[Column], where: exp.Expr, *, named: bool = False
    ) -> list[Expression]:
        """A new occurrence of a relation in the body, which may not have too many of them (``Body.add_atom``)."""
        self.lowering.relations += 1
        joined, in_all = len(self.body), self.lowering.relations
        if joined >= MOST_ATOMS or in_all > MOST_RELATIONS:
            what = f"more than {MOST_ATOMS} relations are joined in one SELECT"
            if joined < MOST_ATOMS:
                what = f"the view reads relations in more than {MOST_RELATIONS} places"
            raise self.source.too_large(
                f"{what}, counting the subqueries and WITH entries that are folded in wherever they are read",
                where,
                hint="make a part of it a view of its own: a view is kept once, however often it is read",
            )
        return self.body.add_atom(relation, base, columns, named=named)

    def checker(self, place: str, allow_aggregates: bool = False) -> Checker:
        """A type checker for one clause of this SELECT."""
        return Checker(self.scope, place, allow_aggregates)

    def condition(self, node: exp.Expr, place: str) -> Expression:
        """A checked condition as an expression."""
        checker = self.checker(place)
        checker.boolean(node)
        return written(node, checker, BOOLEAN)

    def absorb(self, inner: Rows) -> None:
        """Take over what an inlined SELECT wants of the queries around both."""
        self.correlations += inner.correlations
        self.outer_conditions += inner.outer_conditions
        self.mixed += inner.mixed
        self.compared |= inner.compared

    def cells(self) -> list[tuple[str, Cell]]:
        """The outputs as columns of a relation, for a SELECT that was inlined."""
        return [(o.name, Cell(o.expression, o.strict)) for o in self.outputs]

    def finish(self) -> Block:
        """The block, under its final variable names."""
        body, groups = self.body, self.groups
        atoms, predicates, not_null, terms = body.finish()
        for text in body.remarks:
            self.lowering.remark(text)
        outputs, used = [], set()
        for selected in self.outputs:
            name, number = selected.name, 1
            while name.lower() in used:
                number += 1
                name = f"{selected.name}_{number}"
            used.add(name.lower())
            nullable = not selected.strict or self._nullable(selected.expression)
            outputs.append(Output(name, selected.expression.substitute(terms), nullable))
        grouping = None
        distinct = self.distinct
        if groups is not None:
            aggregates = tuple(a.substitute(terms) for a in groups.aggregates)
            grouping = Grouping(tuple(k.substitute(terms) for k in groups.keys), aggregates, groups.having)
            shown = {o.expression.term for o in outputs}
            if groups.left_out is not None:
                block = Block(atoms, predicates, tuple(outputs), grouping, distinct, not_null)
                return over_sets(block, groups.left_out, self.lowering)
            distinct = distinct and not shown.issuperset(grouping.key_names)
        return Block(atoms, predicates, tuple(outputs), grouping, distinct, not_null)

    def _nullable(self, expression: Expression) -> bool:
        if self.groups is None:
            return self.body.nullable(expression)
        if self.groups.left_out is not None:
            return True
        for index, (key, strict) in enumerate(zip(self.groups.written, self.groups.strict, strict=True)):
            if group_key(index) in expression.variables and (not strict or self.body.nullable(key)):
                return True
        is_count = [a.function.is_count for a in self.groups.aggregates]
        counts = {aggregate_result(i) for i, yes in enumerate(is_count) if yes}
        keys = {group_key(i) for i in range(len(self.groups.keys))}
        return not expression.variables <= keys | counts


def stage_columns(stage: Stage) -> list[Column]:
    """A stage's columns as a table's."""
    return [Column(o.name, o.type, o.nullable) for o in stage.columns]


def over_stage(stage: Stage, lowering: Lowering) -> Block:
    """A block that gives a stage's rows."""
    body = Body(lowering.fresh)
    terms = body.add_atom(stage.name, stage.name, stage_columns(stage))
    atoms, predicates, not_null, renamed = body.finish()
    columns = zip(stage.columns, terms, strict=True)
    outputs = tuple(Output(c.name, t.substitute(renamed), c.nullable) for c, t in columns)
    return Block(atoms, predicates, outputs, None, False, not_null)


def spell_names(key: exp.Expr, select: exp.Select) -> None:
    """Inside of a key of ORDER BY an output's name stands for the output, also where a column has the name."""
    if isinstance(key, exp.Column):
        return
    named = {e.alias.lower(): e.this for e in select.expressions if isinstance(e, exp.Alias)}
    for column in list(key.find_all(exp.Column)):
        meant = named.get(column.name.lower()) if not column.table else None
        within = column.find_ancestor(exp.Query)
        if meant is not None and within in (None, select):
            column.replace(exp.Paren(this=meant.copy()))


def written(node: exp.Expr, checker: Checker, type_: DataType) -> Expression:
    """A checked row expression over the variables that its columns stand for."""
    value = constant(node, type_) if not isinstance(node, exp.Column) else None
    if value is not None:
        return Expression.of(value, type_)

    def hole(n: exp.Expr) -> Expression | None:
        cell = checker.cells.get(id(n))
        return cell.expression if cell else None

    return rendered(node, hole, type_, checker.scope.source)


def rendered(node: exp.Expr, hole: Hole, type_: DataType, source: SqlText) -> Expression:
    """What ``render`` gives; an expression that has become too large is told where it stands."""
    try:
        return render(node, hole, type_)
    except SizeError as error:
        raise error.located(source.position(node), source.text) from None
