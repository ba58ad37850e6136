"""Heads with nested aggregates: ``q(y, count(x1), max(prod(x2, sum(x3)))) :- …`` as stages, one a level of the tree.

The rows of a level are the different values of its variables, each with what the aggregates below it give; they are
grouped by the variables above. What is above reads that in the place of all atoms below (q-hierarchical.md 11.3): so
the last block is a query over the groups' variables alone, and each stage is as quick as a join that is q-hierarchical.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from everview.errors import EverviewError, Position, UnsupportedError
from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.homomorphism import minimal_query
from everview.query.schema import Column, Schema, Table
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import DataType
from everview.query.view import Block, Output, Stage
from everview.sql.rule_syntax import Argument, Call, Rule, Variable
from everview.sql.rule_tree import Head, Level, aggregates_of, implied_variables
from everview.sql.statements import parse_view

AGGREGATES = {"prod": "product", "argmax": "max_by", "argmin": "min_by"}
"""What SQL calls an aggregate, where rules have another name."""
_OPERATORS = {"prod": " * ", "sum": " + ", "avg": " + "}
_CHOICES = {"min": "least", "max": "greatest"}
Bound = Callable[[Argument], tuple[Term, DataType, bool]]
"""What a variable of the head, or a constant, stands for, its type, and whether it may be NULL."""


@dataclass(frozen=True)
class Item:
    """A column that is computed: its name, as SQL over the columns of a relation, and where it is written."""

    name: str
    sql: str
    position: Position


class NestedHead:
    """The lowering of one rule with such a head, whose body is lowered already; adds its stages to ``stages``."""

    def __init__(self, rule: Rule, body: Block, bound: Bound, text: str, stages: list[Stage]) -> None:
        self.rule = rule
        self.text = text
        self.stages = stages
        self.bound = bound
        self.columns: dict[Var, Column] = {}
        """Of each variable, its column in the stages: no two have the same name in any case."""
        self.values: dict[Call, Column] = {}
        """Of each aggregate that a stage has, its column."""
        self.calls = [a for a in rule.head if isinstance(a, Call)]
        grouped = [a for a in rule.head if isinstance(a, Variable) and isinstance(bound(a)[0], Var)]
        self.groups = tuple(dict.fromkeys(map(self.variable, grouped)))
        named = [self.variable(v) for call in self.calls for v in call.variables]
        self._check_counted(self.calls)
        head = tuple(dict.fromkeys([*self.groups, *named]))
        query = minimal_query(ConjunctiveQuery(head, body.atoms, body.predicates, not_null=body.not_null))
        implied = sorted(implied_variables(query))
        for variable in implied:
            self.variable(Variable(variable.name, rule.position))
        self.query = minimal_query(replace(query, head=(*head, *implied)))
        self.taken = {v.name.lower() for v in query.variables} | {c.name.lower() for c in self.columns.values()}
        self.tree = Head(self.query, tuple(grouped), tuple(self.calls), self.variable, text).tree()

    def _check_counted(self, calls: Sequence[Call]) -> None:
        """Refuse count(*), which counts what has no place in a tree."""
        for call in calls:
            if not call.arguments:
                raise UnsupportedError(
                    "count(*) counts assignments of all variables, and does not go with nested aggregates",
                    construct="nested aggregate",
                    position=call.position,
                    source=self.text,
                    hint="write it in a rule of its own, or count one variable",
                )
            self._check_counted([a for a in call.arguments if isinstance(a, Call)])

    def variable(self, written: Variable) -> Var:
        """The variable that one of the head is."""
        term, type_, nullable = self.bound(written)
        if isinstance(term, Const):
            raise UnsupportedError(
                f"{written.name} is always {term}, so there is nothing to aggregate",
                construct="nested aggregate",
                position=written.position,
                source=self.text,
                hint=f"leave {written.name} out of the head",
            )
        if term not in self.columns:
            known = {c.name.lower() for c in self.columns.values()}
            self.columns[term] = Column(unique(term.name, known), type_, nullable)
        return term

    def block(self) -> Block:
        """The rule's own block, after its stages."""
        top = self.tree.top
        atoms, conditions = self._atoms((), top), self._conditions((), top)
        if len(top) == 1 and not atoms and not conditions and set(top[0].above) == set(self.groups):
            rows = self._rows(top[0])
            return self._headed(self._select(rows, self._items(self._aggregate), top[0].above, is_grouped=True))
        atoms = (*atoms, *map(self._grouped, top))
        inner = self._joined(atoms, conditions, top)
        aggregates = dict.fromkeys(c for call in self.calls for c in aggregates_of(call))
        values = [self._value(call) for call in aggregates]
        if not self.groups:
            stage = self._stage("rows", replace(inner, outputs=tuple(values)), "what aggregates give, if anything")
            return self._headed(self._select(_table(stage), self._items(self._of_one_row), (), is_grouped=True))
        outputs = [*self._outputs_of(self.groups), *values]
        relation = Table(self.rule.name, tuple(Column(o.name, o.type, o.nullable) for o in outputs))
        found = self._headed(self._select(relation, self._items(self._column), self.groups, is_grouped=False))
        named = {t: o.expression.term for t, o in zip(found.atoms[0].terms, outputs, strict=True)}
        terms = {t: n for t, n in named.items() if isinstance(t, Var) and n is not None}
        computed = (replace(o, expression=o.expression.substitute(terms)) for o in found.outputs)
        return replace(inner, outputs=tuple(computed))

    def _headed(self, block: Block) -> Block:
        """The block, of which the outputs are the groups' variables and then the calls, with outputs as in the head."""
        used: set[str] = set()
        by_group = dict(zip(self.groups, block.outputs, strict=False))
        by_call = dict(zip(self.calls, block.outputs[len(block.outputs) - len(self.calls) :], strict=True))
        outputs = []
        for index, argument in enumerate(self.rule.head):
            if isinstance(argument, Call):
                output = by_call[argument]
                nullable = output.nullable and argument.function != "count"
                outputs.append(Output(unique(argument.name, used), output.expression, nullable))
                continue
            term, type_, _ = self.bound(argument)
            if isinstance(term, Var):
                outputs.append(replace(by_group[term], name=unique(term.name, used)))
            else:
                outputs.append(Output(unique(f"c{index + 1}", used), Expression.of(term, type_), False))
        return replace(block, outputs=tuple(outputs))

    # --- stages -------------------------------------------------------------------------------------------------------

    def _grouped(self, level: Level) -> Atom:
        """An atom that stands for a level: a stage with its aggregates by the variables above."""
        rows = self._rows(level)
        items = [Item(self._fresh(call.name), self._aggregate(call), call.position) for call in level.calls]
        block = self._select(rows, items, level.above, is_grouped=True, has_rows=not level.above)
        outputs = block.outputs[len(level.above) :]
        for call, output in zip(level.calls, outputs, strict=True):
            self.values[call] = Column(output.name, output.type, output.nullable)
        by = f" for each {', '.join(map(str, level.above))}" if level.above else ""
        stage = self._stage("groups", block, f"{', '.join(map(str, level.calls))}{by}")
        return Atom(stage.name, (*level.above, *(Var(o.name) for o in outputs)))

    def _rows(self, level: Level) -> Table:
        """What a level's aggregates are over: the different values of its variables, with those of what is below."""
        below = tuple(map(self._grouped, level.below))
        atoms = (*self._atoms((level,), level.below), *below)
        conditions = self._conditions((level,), level.below)
        if len(atoms) == 1 and below and not conditions:
            (stage,) = (s for s in self.stages if s.name == atoms[0].relation)
            return _table(stage)  # a group of each value is there once
        values = [self._value(call) for one in level.below for call in one.calls]
        outputs = (*self._outputs_of(level.path), *values)
        block = replace(self._joined(atoms, conditions, level.below), outputs=outputs)
        own = ", ".join(map(str, level.own))
        return _table(self._stage("rows", block, f"different values of {own}, to be aggregated"))

    def _outputs_of(self, variables: Sequence[Var]) -> list[Output]:
        found = [(v, self.columns[v]) for v in variables]
        return [Output(c.name, Expression.of(v, c.type), c.nullable) for v, c in found]

    def _value(self, call: Call) -> Output:
        column = self.values[call]
        return Output(column.name, Expression.of(Var(column.name), column.type), column.nullable)

    def _atoms(self, within: Sequence[Level], without: Sequence[Level]) -> tuple[Atom, ...]:
        """The atoms that some levels are over and others are not."""
        return tuple(a for a in self.query.atoms if self._is_at(a.variables, within, without))

    def _conditions(self, within: Sequence[Level], without: Sequence[Level]) -> tuple[Expression, ...]:
        return tuple(p for p in self.query.predicates if self._is_at(p.variables, within, without))

    def _is_at(self, variables: frozenset[Var], within: Sequence[Level], without: Sequence[Level]) -> bool:
        path = self.tree.path_of(variables)
        return all(one.covers(path) for one in within) and not any(one.covers(path) for one in without)

    def _joined(self, atoms: tuple[Atom, ...], conditions: tuple[Expression, ...], levels: Sequence[Level]) -> Block:
        """The different rows of atoms, some of which stand for levels."""
        known = frozenset().union(*(a.variables for a in atoms))
        for variable in known - self.query.not_null:
            if sum(variable in a.variables for a in atoms) > 1 and self.columns[variable].nullable:
                apart = " and of ".join(", ".join(map(str, level.own)) for level in levels)
                raise UnsupportedError(
                    f"aggregates of {apart} are put together by {variable}, which may be NULL, and NULL joins nothing",
                    construct="nested aggregate",
                    position=levels[0].calls[0].position,
                    source=self.text,
                    hint=f"declare the column of {variable} as NOT NULL, or write a rule for each of them",
                )
        return Block(atoms, conditions, (), None, True, self.query.not_null & known)

    def _stage(self, base: str, block: Block, purpose: str) -> Stage:
        taken = {s.name.lower() for s in self.stages}
        stage = Stage(unique(f"{self.rule.name}${base}", taken), block, purpose)
        self.stages.append(stage)
        return stage

    def _fresh(self, name: str) -> str:
        return unique(name, self.taken)

    # --- what is computed ---------------------------------------------------------------------------------------------

    def _items(self, inner: Callable[[Call], str]) -> list[Item]:
        return [Item(self._fresh(call.name), self._sql(call, inner), call.position) for call in self.calls]

    def _sql(self, argument: Variable | Call, inner: Callable[[Call], str]) -> str:
        """A variable, values beside each other, or an aggregate, by ``inner``, as SQL over a relation's columns."""
        if isinstance(argument, Variable):
            return quoted(self.columns[self.variable(argument)].name)
        if not argument.is_row:
            return inner(argument)
        parts = [self._sql(part, inner) for part in argument.arguments]
        if argument.function in _CHOICES:
            return f"{_CHOICES[argument.function]}({', '.join(parts)})"
        joined = f"({_OPERATORS[argument.function].join(parts)})"
        return f"({joined} / {len(parts)})" if argument.function == "avg" else joined

    def _aggregate(self, call: Call) -> str:
        """An aggregate over the rows of its level."""
        parts = [self._sql(part, self._column) for part in call.arguments]
        if call.function == "wavg":
            value, weight = parts
            there = f"CASE WHEN {value} IS NOT NULL THEN {weight} END"
            return f"(sum({value} * {weight}) / nullif(sum({there}), 0))"
        of = "DISTINCT " if self.tree.is_over_finer_rows(call) else ""
        return f"{AGGREGATES.get(call.function, call.function)}({of}{', '.join(parts)})"

    def _column(self, call: Call) -> str:
        return quoted(self.values[call].name)

    def _of_one_row(self, call: Call) -> str:
        """The value in the one row that there may be; if there is none, what it is of no values."""
        value = f"max({self._column(call)})"
        return f"coalesce({value}, 0)" if call.function == "count" else value

    def _select(
        self, relation: Table, items: Sequence[Item], keys: Sequence[Var], *, is_grouped: bool, has_rows: bool = False
    ) -> Block:
        """SQL over a relation's rows: the columns of some variables, by which they are grouped, and what is computed.

        One group over everything is there in any case, unless it ``has_rows`` only.
        """
        by = ", ".join(quoted(self.columns[v].name) for v in keys)
        text, starts = "SELECT " + by, []
        for item in items:
            text += ", " if text != "SELECT " else ""
            starts.append(len(text))
            text += f"{item.sql} AS {quoted(item.name)}"
        text += f" FROM {quoted(relation.name)}"
        text += f" GROUP BY {by}" if is_grouped and by else ""
        text += " HAVING count(*) > 0" if has_rows else ""
        try:
            block = parse_view(text, Schema((relation,)), self.rule.name).body
        except EverviewError as error:
            column = error.column or 0
            error.position = [
                i.position for i, start in zip(items, starts, strict=True) if start < column or i is items[0]
            ][-1]
            error.source = self.text
            raise
        assert isinstance(block, Block)
        return replace(block, atoms=tuple(replace(a, alias="") for a in block.atoms))  # nobody named them


def unique(name: str, used: set[str]) -> str:
    """A name that is not in use, in any case, and from now on is."""
    number, found = 1, name
    while found.lower() in used:
        number += 1
        found = f"{name}_{number}"
    used.add(found.lower())
    return found


def quoted(name: str) -> str:
    """A name of a column or relation as SQL."""
    return f"`{name}`"


def _table(stage: Stage) -> Table:
    """A stage as a relation."""
    return Table(stage.name, tuple(Column(o.name, o.type, o.nullable) for o in stage.columns))
