"""One rule: its variables' types and equalities, and the block that it becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from everview.errors import Position, SizeError, TypeMismatchError, UnsafeQueryError
from everview.query.aggregates import BY_NAME
from everview.query.conjunctive import Atom
from everview.query.schema import Column, Table
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import ANY, BOOLEAN, DataType, Kind, common_type
from everview.query.view import (
    Aggregate,
    Block,
    Grouping,
    Output,
    Stage,
    aggregate_result,
    group_key,
)
from everview.sql.body import FALSE
from everview.sql.datatypes import same_word
from everview.sql.limits import MOST_ATOMS
from everview.sql.literals import fit, literal_value_type, parse_string
from everview.sql.rule_nested import AGGREGATES, NestedHead, unique
from everview.sql.rule_syntax import Argument, Call, Comparison, Goal, Literal, Rule, Variable


class RuleLowering:
    """The lowering of one rule. ``find`` gives the relation of a goal, its arity checked."""

    def __init__(self, rule: Rule, find: Callable[[Goal], Table], text: str) -> None:
        self.rule = rule
        self.find = find
        self.text = text
        self.types: dict[str, DataType] = {}
        self.nullable: dict[str, bool] = {}
        self.parents: dict[str, str] = {}
        self.constants: dict[str, Const] = {}
        self.not_null: set[str] = set()
        self.predicates: list[Expression] = []

    def block(self, stages: list[Stage]) -> Block:
        """The rule's block; count(*) needs a stage with the distinct assignments of all variables."""
        goals = [(goal, self.find(goal)) for goal in self.rule.goals]
        if not goals:
            raise UnsafeQueryError(
                f"the rule {self.rule.name} reads no relation",
                position=self.rule.position,
                source=self.text,
                hint="a body needs at least one atom",
            )
        if len(goals) > MOST_ATOMS:
            raise SizeError(
                f"the rule has {len(goals)} atoms, and {MOST_ATOMS} is the most that are joined in one",
                position=goals[MOST_ATOMS][0].position,
                source=self.text,
                hint="make a part of it a rule of its own",
            )
        for goal, table in goals:
            self._declare(goal, table)
        self._equalities()
        names = self._named()
        atoms = tuple(
            Atom(
                table.name,
                tuple(self._goal_term(a, c, names) for a, c in zip(goal.arguments, table.columns, strict=True)),
            )
            for goal, table in goals
        )
        for comparison in self.rule.comparisons:
            if comparison.operator != "=":
                self.predicates.append(self._comparison(comparison, names))
        places = Counter(t for atom in atoms for t in atom.terms if isinstance(t, Var))
        refused = {names[self._root(v)] for v in self.not_null} | {v for v, n in places.items() if n > 1}
        inner = Block(
            atoms, tuple(self.predicates), (), None, True, frozenset(v for v in refused if isinstance(v, Var))
        )
        return self._headed(inner, names, stages)

    def _declare(self, goal: Goal, table: Table) -> None:
        """Give the goal's variables their columns' types; a second place must agree."""
        for argument, column in zip(goal.arguments, table.columns, strict=True):
            if not isinstance(argument, Variable):
                continue
            known = self.types.get(argument.name)
            if known is not None:
                self._agree(known, column.type, argument.name, argument.position)
                self.not_null.add(argument.name)
            if known is None or known.is_open:
                self.types[argument.name] = column.type
            self.nullable[argument.name] = self.nullable.get(argument.name, True) and column.nullable
            self.parents.setdefault(argument.name, argument.name)

    def _agree(self, left: DataType, right: DataType, what: str, at: Position) -> None:
        if common_type(left, right) is None or not same_word(left, right):
            raise TypeMismatchError(
                f"{what} is {left} in one place and {right} in another",
                position=at,
                source=self.text,
                hint="rules do not convert values: use SQL with CAST",
            )

    def _root(self, name: str) -> str:
        while self.parents[name] != name:
            name = self.parents[name]
        return name

    def _equalities(self) -> None:
        """``x = y`` unifies, ``x = 3`` binds; a variable may be bound by an equality alone."""
        equalities = [c for c in self.rule.comparisons if c.operator == "="]
        for c in equalities:
            for side in (c.left, c.right):
                if isinstance(side, Variable):
                    self.parents.setdefault(side.name, side.name)
        for c in equalities:
            left, right = c.left, c.right
            if isinstance(left, Literal):
                left, right = right, left
            if isinstance(left, Literal) and isinstance(right, Literal):
                if left.value != right.value:
                    self.predicates.append(FALSE)
            elif isinstance(left, Variable) and isinstance(right, Literal):
                self._bind(left, right)
            elif isinstance(left, Variable) and isinstance(right, Variable):
                self._unify(left, right)

    def _bind(self, variable: Variable, literal: Literal) -> None:
        root = self._root(variable.name)
        value = self._fitted(literal, self.types.get(variable.name, ANY), variable.name)
        self.not_null.add(variable.name)
        if self.constants.setdefault(root, value) != value and FALSE not in self.predicates:
            self.predicates.append(FALSE)

    def _unify(self, left: Variable, right: Variable) -> None:
        a, b = self._root(left.name), self._root(right.name)
        self.not_null |= {left.name, right.name}
        types = (self.types.get(left.name, ANY), self.types.get(right.name, ANY))
        self._agree(*types, left.name, left.position)
        if a == b:
            return
        if a not in self.types and b in self.types:
            a, b = b, a
        self.parents[b] = a
        if b in self.constants:
            value = self.constants.pop(b)
            if self.constants.setdefault(a, value) != value and FALSE not in self.predicates:
                self.predicates.append(FALSE)

    def _named(self) -> dict[str, Term]:
        """What each class of variables is called: by its first variable, or the constant it is bound to."""
        names: dict[str, Term] = {}
        anonymous = 0
        for name in self.parents:
            root = self._root(name)
            if root in self.constants:
                names[root] = self.constants[root]
            elif root.startswith("_$") and root not in names:
                anonymous += 1
                while f"_{anonymous}" in self.parents:
                    anonymous += 1
                names[root] = Var(f"_{anonymous}")
            else:
                names.setdefault(root, Var(root))
        return names

    def _goal_term(self, argument: Argument, column: Column, names: dict[str, Term]) -> Term:
        if isinstance(argument, Literal):
            return self._fitted(argument, column.type, column.name)
        return names[self._root(argument.name)]

    def _fitted(self, literal: Literal, type_: DataType, what: str) -> Const:
        value = fit(literal.value.value, type_)
        if value is None and isinstance(literal.value.value, str):
            parsed = parse_string(literal.value.value, type_)
            value = None if parsed is None else Const(parsed)
        if value is None:
            raise TypeMismatchError(
                f"{literal.value} is not a value of {what}, which is {type_}",
                position=literal.position,
                source=self.text,
            )
        return value

    def _term(self, argument: Argument, names: dict[str, Term], where: str) -> tuple[Term, DataType]:
        """A head's or comparison's argument; its variable must be bound by an atom or by a constant."""
        if isinstance(argument, Literal):
            return argument.value, literal_value_type(argument.value.value)
        root = self._root(argument.name) if argument.name in self.parents else None
        members = [n for n in self.parents if root is not None and self._root(n) == root]
        bound = [n for n in members if n in self.types]
        if root is None or (not bound and root not in self.constants):
            raise UnsafeQueryError(
                f"{where} uses {argument.name if not argument.is_anonymous else '_'}, which no atom binds",
                position=argument.position,
                source=self.text,
                hint="every variable must occur in an atom of the body",
            )
        term = names[root]
        if isinstance(term, Const) and not bound:
            return term, literal_value_type(term.value)
        return term, self.types[bound[0]]

    def _comparison(self, comparison: Comparison, names: dict[str, Term]) -> Expression:
        left, left_type = self._term(comparison.left, names, "a comparison")
        right, right_type = self._term(comparison.right, names, "a comparison")
        left = self._comparable(comparison.left, left, right_type)
        right = self._comparable(comparison.right, right, left_type)
        string_side = isinstance(left, Const) or isinstance(right, Const)
        if common_type(left_type, right_type) is None and not (
            string_side and Kind.STRING in (left_type.kind, right_type.kind)
        ):
            raise TypeMismatchError(
                f"{left_type} and {right_type} cannot be compared", position=comparison.position, source=self.text
            )
        return Expression((left, f" {comparison.operator} ", right), BOOLEAN)

    def _comparable(self, argument: Argument, term: Term, other: DataType) -> Term:
        """A string compared with a date or number is read as one."""
        if isinstance(argument, Literal) and isinstance(term, Const) and isinstance(term.value, str):
            return self._fitted(argument, other, "the other side")
        return term

    def _headed(self, inner: Block, names: dict[str, Term], stages: list[Stage]) -> Block:
        head = self.rule.head
        calls = [a for a in head if isinstance(a, Call)]
        used: set[str] = set()
        if not calls:
            outputs = []
            for index, argument in enumerate(a for a in head if not isinstance(a, Call)):
                term, type_ = self._term(argument, names, "the head")
                name = argument.name if isinstance(argument, Variable) else f"c{index + 1}"
                outputs.append(Output(unique(name, used), Expression.of(term, type_), self._nullable(argument)))
            return replace(inner, outputs=tuple(outputs))
        if not all(c.is_plain for c in calls):
            return NestedHead(self.rule, inner, lambda a: self._of_head(a, names), self.text, stages).block()
        if any(c.argument is None for c in calls):
            inner = self._counted(inner, stages)
        return self._grouped(replace(inner, distinct=False), names, used)

    def _of_head(self, argument: Argument, names: dict[str, Term]) -> tuple[Term, DataType, bool]:
        return *self._term(argument, names, "the head"), self._nullable(argument)

    def _nullable(self, argument: Argument) -> bool:
        if isinstance(argument, Literal):
            return False
        refused = {self._root(v) for v in self.not_null}
        return self.nullable.get(argument.name, False) and self._root(argument.name) not in refused

    def _counted(self, inner: Block, stages: list[Stage]) -> Block:
        """A stage with one row an assignment, so that counting its rows counts assignments."""
        variables = dict.fromkeys(t for atom in inner.atoms for t in atom.terms if isinstance(t, Var))
        types = {self._root(n): self.types[n] for n in self.types}
        outputs = []
        for name, type_ in types.items():
            if not name.startswith("_$") and Var(name) in variables:
                outputs.append(Output(name, Expression.of(Var(name), type_), self._nullable_name(name)))
        number = len(stages) + 1
        suffix = "" if number == 1 else f"_{number}"
        stage = Stage(
            f"{self.rule.name}$assignments{suffix}",
            replace(inner, outputs=tuple(outputs)),
            "distinct assignments to count",
        )
        stages.append(stage)
        return Block((Atom(stage.name, tuple(Var(o.name) for o in outputs)),), (), (), None, False)

    def _nullable_name(self, name: str) -> bool:
        return self.nullable.get(name, True) and name not in {self._root(v) for v in self.not_null}

    def _grouped(self, inner: Block, names: dict[str, Term], used: set[str]) -> Block:
        keys: list[Expression] = []
        aggregates: list[Aggregate] = []
        outputs: list[Output] = []
        for index, argument in enumerate(self.rule.head):
            if isinstance(argument, Call):
                aggregate = self._aggregate(argument, names)
                if aggregate not in aggregates:
                    aggregates.append(aggregate)
                result = Expression.of(aggregate_result(aggregates.index(aggregate)), aggregate.type)
                outputs.append(Output(unique(argument.name, used), result, argument.function != "count"))
                continue
            term, type_ = self._term(argument, names, "the head")
            if isinstance(term, Const):
                outputs.append(Output(unique(f"c{index + 1}", used), Expression.of(term, type_), False))
                continue
            key = Expression.of(term, type_)
            if key not in keys:
                keys.append(key)
            result = Expression.of(group_key(keys.index(key)), type_)
            outputs.append(Output(unique(term.name, used), result, self._nullable(argument)))
        return replace(inner, outputs=tuple(outputs), grouping=Grouping(tuple(keys), tuple(aggregates)))

    def _aggregate(self, call: Call, names: dict[str, Term]) -> Aggregate:
        function = BY_NAME[AGGREGATES.get(call.function, call.function)]
        if call.argument is None:
            return Aggregate(function, None, DataType(Kind.BIGINT))
        term, argument = self._term(call.argument, names, "the head")
        type_ = function.type_of(argument)
        if type_ is None:
            raise TypeMismatchError(
                f"{call.function} needs numbers, and {call.argument.name} is {argument}",
                position=call.argument.position,
                source=self.text,
            )
        return Aggregate(function, Expression.of(term, argument), type_, function.has_inverse)
