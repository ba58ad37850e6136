"""Subqueries of any form that read the query around them: first rows, set operations, and what they are nested in.

The different values of the outer columns that a subquery names are a stage. Each SELECT in it is lowered as LATERAL
over the rows of that, so what comes out has these values as columns: both sides of a set operation have them, and the
first rows are those for each of them. The rows of the query around are joined with the result by these columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.errors import UnknownNameError
from everview.query.terms import Expression
from everview.query.view import SortKey, Stage
from everview.sql.apart import Kept, block
from everview.sql.body import Body
from everview.sql.carried import named_within, shadow, ties
from everview.sql.one_row import values_query
from everview.sql.ordering import CUTS, HIDDEN, is_cut, ordered, output_place, spelled_all
from everview.sql.session import Beside, Carried, Environment, Query, Rows, Selected, spell_names, stage_columns
from everview.sql.subqueries import lateral

if TYPE_CHECKING:
    from everview.sql.select import Lower


def beside(lower: Lower, rows: Rows, query: exp.Expr) -> Beside:
    """The rows of a subquery: on its own, or beside the values of the columns of ``rows`` that it names."""
    try:
        return Beside(lower.query(query.copy(), rows.env))
    except UnknownNameError:
        wanted = named_within(rows, query)
        if not wanted:
            raise
    columns = [Kept(rows.body.name_of(e), e, strict=e.term is not None) for e in wanted]
    purpose = "the values that a subquery reads of the query around it"
    values = lower.stage(block(rows, rows.body, columns, distinct=True), "outer", purpose)
    made = _Beside(lower, rows, wanted, values)
    found = made.query(query.copy(), rows.env)
    return Beside(found, tuple(made.outer))


class _Beside:
    """A subquery over the values of the columns of ``rows`` that are ``wanted``."""

    def __init__(self, lower: Lower, rows: Rows, wanted: Sequence[Expression], values: Stage) -> None:
        self.lower = lower
        self.rows = rows
        self.wanted = wanted
        self.values = values
        self.outer: list[Expression] = []

    def query(self, node: exp.Expr, env: Environment) -> Query:
        """A query whose columns are what it gives, and the values."""
        if isinstance(node, exp.Subquery):
            return self._first_of(node, self.query(node.this, self.lower.environment(node, env)))
        if isinstance(node, exp.SetOperation):
            env = self.lower.environment(node, env)
            sides = self.query(node.this, env), self.query(node.expression, env)
            return self._first_of(node, self.lower.combined(node, *sides))
        if isinstance(node, exp.Values):
            return self.query(values_query(self.lower.source, node), env)
        assert isinstance(node, exp.Select)
        return self._select(node, env)

    def _first_of(self, node: exp.Expr, found: Query) -> Query:
        """The first rows of each of the values, of what has outputs with names."""
        if not is_cut(node):
            return found
        order = node.args.get("order")
        width = self._visible(found)
        keys = self.lower.keys_of_outputs(spelled_all(order.expressions, width) if order else (), found, width)
        return self._cut(node, found, keys)

    def _visible(self, found: Query) -> int:
        return len(found.names) - len(self.outer)

    def _cut(self, node: exp.Expr, found: Query, keys: Sequence[SortKey]) -> Query:
        partition = tuple(range(self._visible(found), len(found.names)))
        columns = found.body.columns[: len(found.names)]
        return Query(self.lower.cut(found.body, columns, keys, node, partition), found.names, found.places)

    def _select(self, select: exp.Select, env: Environment) -> Query:
        own = self._values(env)
        order = select.args.get("order")
        width = len(select.expressions)
        items = spelled_all(order.expressions, width) if order and is_cut(select) else []
        plain = select.copy()
        for name in ("order", *CUTS) if is_cut(select) else ():
            plain.set(name, None)
        listed = [*select.expressions]
        hidden: list[exp.Expr] = []
        for item in items:
            names = [e.alias_or_name for e in listed]
            key = ordered(item)[0]
            if output_place(self.lower.source, key, names, range(len(names))) is None:
                spelled = exp.Paren(this=key.copy())
                spell_names(spelled, select)
                hidden.append(exp.Alias(this=spelled.this, alias=exp.to_identifier(f"{HIDDEN}{len(hidden)}")))
        plain.set("expressions", [*(e.copy() for e in listed), *hidden])
        found = lateral(own, plain, select)
        shown = len(found) - len(hidden)
        assert own.carried is not None
        pairs = ties(self.rows, own.carried.terms)
        self.outer = [outer for _, outer in pairs]
        outputs = [Selected(name, cell.expression, cell.strict, select) for name, cell in found]
        values = [Selected(f"k{i}", value, True, select) for i, (value, _) in enumerate(pairs)]
        own.outputs = [*outputs[:shown], *values, *outputs[shown:]]
        names = [o.name for o in own.outputs[: shown + len(values)]]
        made = Query(own.finish(), names, [select] * len(names))
        if not is_cut(select):
            return made
        keys, extra = [], len(names)
        for item in items:
            key, descending, nulls_first = ordered(item)
            place = output_place(self.lower.source, key, names[:shown], range(shown))
            if place is None:
                place, extra = extra, extra + 1
            keys.append(SortKey(place, descending, nulls_first))
        return self._cut(select, made, keys)

    def _values(self, env: Environment) -> Rows:
        """Rows of nothing but the values, under the names of what they are the values of."""
        body = Body(self.lower.fresh)
        self.lower.relations += 1
        terms = dict(
            zip(self.wanted, body.add_atom(self.values.name, "outer", stage_columns(self.values)), strict=True)
        )
        return Rows(self.lower, env, shadow(self.rows.scope, terms), body, carried=Carried(body, terms))
