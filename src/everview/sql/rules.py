"""The second front end: Datalog-like rules under set semantics, lowered into the same views as SQL."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from everview.errors import (
    AmbiguousNameError,
    EverviewError,
    Position,
    QueryError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from everview.query.schema import Column, Schema, Table
from everview.query.types import ANY, common_type
from everview.query.view import FEED_COLUMNS, Body, Output, SetOperation, SetOperator, Stage, View
from everview.sql.datatypes import same_word
from everview.sql.rule_lowering import RuleLowering
from everview.sql.rule_syntax import Goal, Rule, read_rules
from everview.sql.sql_text import SqlText


def parse_rules(text: str, schema: Schema | None = None) -> tuple[View, ...]:
    """Read rules; one view a head predicate, in an order in which each only reads those before it.

    Without a schema the tables are taken as the rules use them, with columns of any type.
    """
    rules = read_rules(text)
    heads: dict[str, list[Rule]] = {}
    for rule in rules:
        heads.setdefault(rule.name.lower(), []).append(rule)
    tables = _Tables(text, schema, heads)
    views = []
    try:
        for name in _in_order(text, heads):
            view = _view(heads[name], tables, text)
            views.append(view)
            columns = tuple(Column(o.name, o.type, o.nullable) for o in view.columns)
            tables.views[name] = Table(view.name, columns)
    except EverviewError as error:
        raise error.located(None, text) from error.__cause__
    return tuple(views)


def texts_by_head(text: str) -> dict[str, str]:
    """The text of each view's own rules, by its name in lower case."""
    found: dict[str, str] = {}
    for rule in read_rules(text):
        name = rule.name.lower()
        found[name] = f"{found[name]}\n{rule.text}" if name in found else rule.text
    return found


def _in_order(text: str, heads: dict[str, list[Rule]]) -> list[str]:
    """The head predicates, those that a rule reads before it; recursion is refused."""
    done: list[str] = []
    path: list[str] = []

    def visit(name: str, at: Position) -> None:
        if name in done:
            return
        if name in path:
            cycle = " → ".join([*path[path.index(name) :], name])
            raise UnsupportedError(
                f"recursion is not supported: {cycle}",
                construct="recursion",
                position=at,
                source=text,
                hint="unfold the rule to a fixed depth",
            )
        path.append(name)
        for rule in heads[name]:
            for goal in rule.goals:
                if goal.relation.lower() in heads:
                    visit(goal.relation.lower(), goal.position)
        path.pop()
        done.append(name)

    for name, rules in heads.items():
        visit(name, rules[0].position)
    return done


@dataclass
class _Tables:
    """The relations that rules may read: tables of the schema, views of earlier rules, or what use tells."""

    text: str
    schema: Schema | None
    heads: dict[str, list[Rule]]
    views: dict[str, Table] = field(default_factory=dict)
    inferred: dict[str, Table] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, rules in self.heads.items():
            if self.schema is not None and name in self.schema:
                raise AmbiguousNameError(
                    f"{rules[0].name} is a table: it cannot be the head of a rule",
                    position=rules[0].position,
                    source=self.text,
                    hint="give the head another name",
                )

    def find(self, goal: Goal) -> Table:
        """The relation of a goal, its arity checked."""
        name = goal.relation.lower()
        table = self.views.get(name) or (self.schema.table(name) if self.schema is not None else None)
        if table is None and self.schema is None:
            columns = tuple(Column(f"c{i + 1}", ANY) for i in range(len(goal.arguments)))
            table = self.inferred.setdefault(name, Table(goal.relation, columns))
        if table is None:
            known = [t.name for t in self.schema or ()] + [t.name for t in self.views.values()]
            error = SqlText(self.text).unknown("relation", goal.relation, goal.position, known, "there are")
            raise UnknownNameError(error.message, position=goal.position, source=self.text, hint=error.hint)
        if len(goal.arguments) != table.arity:
            plural = "s" * (table.arity != 1)
            raise QueryError(
                f"{goal.relation} has {table.arity} column{plural}, and is given {len(goal.arguments)}",
                position=goal.position,
                source=self.text,
                hint=f"{table}" if table.name.lower() not in self.inferred else "use a relation with one arity",
            )
        return table


def _view(rules: list[Rule], tables: _Tables, text: str) -> View:
    """One head predicate: a block, or the union of its rules' blocks."""
    name = rules[0].name
    stages: list[Stage] = []
    body: Body | None = None
    for rule in rules:
        if len(rule.head) != len(rules[0].head):
            raise QueryError(
                f"{rule.name} has {len(rules[0].head)} columns in its first rule, and {len(rule.head)} here",
                position=rule.position,
                source=text,
                hint="give all rules of one head the same number of columns",
            )
        block = RuleLowering(rule, tables.find, text).block(stages)
        body = block if body is None else _union(body, block, rule, text)
    assert body is not None
    for column, written in zip(body.columns, rules[0].head, strict=True):
        if column.name.lower() in FEED_COLUMNS:
            raise AmbiguousNameError(
                f"a view's column cannot be named {column.name}: its change feed has a column of that name",
                position=written.position,
                source=text,
                hint="give the variable another name",
            )
    return View(name, body, tuple(stages))


def _union(left: Body, right: Body, rule: Rule, text: str) -> SetOperation:
    columns = []
    for index, (a, b) in enumerate(zip(left.columns, right.columns, strict=True)):
        type_ = common_type(a.type, b.type)
        if type_ is None or not same_word(a.type, b.type):
            raise TypeMismatchError(
                f"column {index + 1} of {rule.name} is {a.type} in one rule and {b.type} in another",
                position=rule.head[index].position,
                source=text,
            )
        columns.append(Output(a.name, replace(a.expression, type=type_), a.nullable or b.nullable))
    return SetOperation(SetOperator.UNION, False, left, right, tuple(columns))
