"""How a formula is spread over shards: by the column that is the same for all that hangs together, or not at all.

Where whether an answer holds depends on nothing but what hangs together with it, each component is kept whole in one
shard, and the shards have no answer in common. That no element stands in rows of two components is checked by stages
of the view (``sql.formula_components``): each shard tells the second step the components in which its elements stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from everview.plan.held_values import hash_type
from everview.plan.split import split_up
from everview.query.schema import Schema
from everview.query.terms import Expression, Var
from everview.query.view import FormulaBody, View
from everview.strategies.fo_mod.plan import FormulaPlan


@dataclass(frozen=True)
class Components:
    """By which column of each table its rows are spread, or why they are not."""

    name: str
    columns: dict[str, Expression]
    why_not: str | None = None

    @staticmethod
    def of(body: FormulaBody, schema: Schema) -> Components:
        """How a formula's tables are spread."""
        name, columns = body.component, dict[str, Expression]()
        why = FormulaPlan(body).spans
        if why is not None or name is None:
            hint = "no component is declared: a column that is the same for all that hangs together"
            return Components(name or "", {}, why or hint)
        for table in map(schema.table, sorted(body.tables)):
            assert table is not None
            at = table.position(name)
            if at is None:
                return Components(name, {}, f"{table.name}, of which rows matter, has no column {name}")
            column = table.columns[at]
            columns[table.name] = Expression.of(Var(column.name), column.type)
        kinds = {hash_type(e.type) for e in columns.values()}
        if len(kinds) != 1 or None in kinds:
            return Components(name, {}, f"{name} has types that are not spread alike")
        return Components(name, columns)

    @property
    def are_spread(self) -> bool:
        """True if rows are spread."""
        return self.why_not is None

    def __str__(self) -> str:
        if self.why_not is not None:
            return f"on Spark it is kept by one shard: {self.why_not}"
        return (
            f"on Spark it is spread over shards by {self.name}; a second step checks that no element stands in rows of "
            "two components"
        )


def checking(view: View) -> tuple[list[View], View]:
    """The views that check a formula's components: what each shard tells, and what the second step finds of that."""
    *stages, last = view.stages
    found = split_up(View(f"{view.name}{CHECK}", last.body, tuple(stages), (), view.options))
    assert found is not None
    return found


CHECK = "'s components"
"""What follows a formula's name in that of the view that checks its components."""


def without_check(view: View) -> View:
    """The formula alone."""
    return replace(view, stages=())


def views_of(view: str, pieces: Sequence[View]) -> set[str]:
    """The names of those views that are kept, or make a first step, for a view."""
    own = (view, f"{view}{CHECK}")
    return {p.name for p in pieces if p.name in own or p.name.startswith(tuple(f"__{name}_" for name in own))}
