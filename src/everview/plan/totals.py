"""Window aggregates over all rows as a join of these with their one group: on shards, the group is made ahead.

Over all rows at once nothing can be spread; a group of all rows is put together of what each shard says of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Final

from everview.query.aggregates import Counted, Ordered, Summed, saved_as
from everview.query.conjunctive import Atom
from everview.query.terms import Expression, Var
from everview.query.types import Kind
from everview.query.view import (
    Aggregate,
    Block,
    Body,
    Cut,
    Grouping,
    Output,
    SetOperation,
    Stage,
    View,
    WindowCall,
    Windowed,
    aggregate_result,
)

_CALL: Final = re.compile(r"(\w+)\((\*|(DISTINCT )?\{0\})\)")


def with_totals(view: View) -> View:
    """The view with a group of all rows in the place of window aggregates over all of them."""
    found = _Rewriting(view)
    for stage in view.stages:
        found.stages.append(replace(stage, body=found.body(stage.body)))
    body = found.body(view.body)
    return view if found.is_same else replace(view, stages=tuple(found.stages), body=body)


@dataclass
class _Rewriting:
    view: View
    stages: list[Stage] = field(default_factory=list)
    is_same: bool = True

    def body(self, body: Body) -> Body:
        """A body without such aggregates; what it reads instead comes before it."""
        if isinstance(body, SetOperation):
            return replace(body, left=self.body(body.left), right=self.body(body.right))
        if isinstance(body, Cut):
            return replace(body, body=self.body(body.body))
        if not isinstance(body, Windowed):
            return body
        body = replace(body, body=self.body(body.body))
        totals = [_total(call, body) for call in body.calls]
        if body.partition or None in totals:
            return body
        return self._joined(body, [total for total in totals if total is not None])

    def _joined(self, body: Windowed, totals: list[Aggregate]) -> Block:
        """The rows, each with the group of all."""
        self.is_same = False
        rows = self._stage(body.body, "rows that stand beside their sums")
        outputs = (Output(f"t{i}", Expression.of(aggregate_result(i), t.type)) for i, t in enumerate(totals))
        own = _atom(rows)
        summed = tuple(t.substitute({Var(f"${i}"): v for i, v in enumerate(own.terms)}) for t in totals)
        group = Block((own,), (), tuple(outputs), Grouping((), summed))
        atoms = (own, _atom(self._stage(group, "sums of all rows")))
        terms = [term for atom in atoms for term in atom.terms]
        shown = (replace(c, expression=Expression.of(t, c.type)) for c, t in zip(body.columns, terms, strict=True))
        return Block(atoms, (), tuple(shown))

    def _stage(self, body: Body, purpose: str) -> Stage:
        taken = {s.name for s in (*self.view.stages, *self.stages)}
        name = next(n for i in range(len(taken) + 1) if (n := f"{self.view.name}$all{i}") not in taken)
        self.stages.append(Stage(name, body, purpose))
        return self.stages[-1]


def _atom(stage: Stage) -> Atom:
    return Atom(stage.name, tuple(Var(f"${stage.name}.{i}") for i in range(len(stage.columns))), alias=stage.name)


def _total(call: WindowCall, body: Windowed) -> Aggregate | None:
    """A call over all rows as an aggregate of them; None if it is no such."""
    found = _CALL.fullmatch(call.text)
    if found is None or call.keys or call.frame or call.reading or len(call.arguments) > 1:
        return None
    try:
        function = saved_as(found[1])
    except ValueError:
        return None
    argument = None
    if call.arguments:
        (place,) = call.arguments
        argument = Expression.of(Var(f"${place}"), body.body.columns[place].type)
    total = Aggregate(function, argument, call.type, distinct=found[3] is not None)
    return total if _is_exact(total) else None


def _is_exact(total: Aggregate) -> bool:
    """True if its value does not depend on who computes it, and in which order, to the last bit."""
    made, argument = total.function.made, total.argument
    if isinstance(made, Summed) and not made.mean:
        return argument is not None and (argument.type.is_integer or argument.type.kind is Kind.DECIMAL)
    return isinstance(made, Counted | Ordered)
