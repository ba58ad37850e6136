"""From a join query in SQL to Pathway's Table API.

A query becomes what one would write by hand with care: filters first, only the columns that are still needed, joins in
the order of the query, then grouping. ``pw.sql``, which its documentation calls experimental, is not used.

Pathway has no decimals. They are integers here, with the scale known when the query is translated, so that sums stay
exact. Dates are days, timestamps microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any

import pathway as pw
import sqlglot
from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from benchmarks.runners.pathway_rows import field


class Unsupported(Exception):
    """The query says something that cannot be translated."""


@dataclass(frozen=True)
class Value:
    """An expression of Pathway; a number has a scale: it stands for itself divided by 10 to the scale."""

    expression: Any
    scale: int | None = None
    optional: bool = False


@dataclass(frozen=True)
class Relation:
    """A table of Pathway with what is known of its columns: scale, and whether they may be None."""

    table: Any
    columns: dict[str, tuple[int | None, bool]]

    def value(self, name: str) -> Value:
        """A column."""
        return Value(self.table[field(name)], *self.columns[name])


Finder = Callable[[exp.Column], Value]


def translate(sql: str, tables: dict[str, Relation]) -> Relation:
    """A query's result as a relation whose columns are the query's."""
    return _Select(sqlglot.parse_one(sql, read="spark"), tables).relation()


class _Select:
    """One SELECT."""

    def __init__(self, select: exp.Expression, tables: dict[str, Relation]) -> None:
        if not isinstance(select, exp.Select):
            raise Unsupported(f"{type(select).__name__} is not translated")
        if select.ctes:
            raise Unsupported("WITH is not translated")
        self.select = select
        self.tables = tables
        self.sources: dict[str, Relation] = {}
        joins = select.args.get("joins") or []
        conditions = [select.args["where"].this] if select.args.get("where") else []
        from_ = select.args.get("from_") or select.args["from"]
        for source in [from_.this, *(j.this for j in joins)]:
            self.sources[source.alias_or_name] = self._source(source)
        for join in joins:
            if join.side or join.kind not in ("", "INNER", "CROSS"):
                raise Unsupported(f"{join.side} {join.kind} JOIN is not translated")
            if join.args.get("on") is not None:
                conditions.append(join.args["on"])
        if any(whole.find(exp.Exists) for whole in conditions):
            raise Unsupported("EXISTS is not translated")
        self.conditions = [c for whole in conditions for c in _conjuncts(simplify(whole))]

    def _source(self, source: exp.Expression) -> Relation:
        if isinstance(source, exp.Subquery):
            return _Select(source.this, self.tables).relation()
        if not isinstance(source, exp.Table):
            raise Unsupported(f"{source.sql()} is not translated")
        return self.tables[source.name]

    # --- columns -----------------------------------------------------------------------------------------------------

    def owner(self, column: exp.Column) -> str:
        """The source that a column belongs to."""
        if column.table:
            return column.table
        (found,) = [alias for alias, r in self.sources.items() if column.name in r.columns]
        return found

    def flat(self, column: exp.Column) -> str:
        """A column's name once sources are joined."""
        return f"{self.owner(column)}__{column.name}"

    def owners(self, expression: exp.Expression) -> set[str]:
        """The sources that an expression reads; subqueries are on their own."""
        return {self.owner(c) for c in _columns(expression)}

    def needed(self, later: Iterable[exp.Expression]) -> set[str]:
        """The columns that some expressions read, in joined names."""
        return {self.flat(c) for e in later for c in _columns(e)}

    # --- the clauses -------------------------------------------------------------------------------------------------

    def relation(self) -> Relation:
        """The result."""
        joined = self.joined()
        values = self.over(joined)
        outputs = [(e.alias_or_name, e.unalias()) for e in self.select.expressions]
        having = self.select.args.get("having")
        group = self.select.args.get("group")
        if group is not None or any(e.find(exp.AggFunc) for _, e in outputs):
            return self.grouped(joined, values, group.expressions if group else [], outputs, having)
        found = _project(joined.table, {name: values.value(e) for name, e in outputs})
        return _distinct(found) if self.select.args.get("distinct") else found

    def joined(self) -> Relation:
        """All sources, filtered each on its own, joined one after the other."""
        waiting = list(self.conditions)
        later = [
            *self.select.expressions,
            *(self.select.args[k] for k in ("group", "having") if self.select.args.get(k)),
        ]
        alone = {alias: [c for c in waiting if self.owners(c) == {alias}] for alias in self.sources}
        waiting = [c for c in waiting if len(self.owners(c)) > 1]
        ready = {a: self.filtered(a, alone[a], self.needed([*waiting, *later])) for a in self.sources}
        first, *others = self.sources
        found, inside = ready[first], {first}
        while others:
            following = next((a for a in others if self.links(waiting, inside, a)), None)
            if following is None:
                raise Unsupported("a product of tables without a condition is not translated")
            others.remove(following)
            links = self.links(waiting, inside, following)
            waiting = [c for c in waiting if c not in links]
            inside.add(following)
            found = self.join(found, ready[following], links, self.needed([*waiting, *later]))
            known = [c for c in waiting if self.owners(c) <= inside]
            waiting = [c for c in waiting if c not in known]
            found = Relation(_kept(found.table, known, self.over(found)), found.columns)
        return found

    def over(self, joined: Relation) -> Expressions:
        """Expressions over sources that are joined."""
        return Expressions(lambda column: joined.value(self.flat(column)))

    def filtered(self, alias: str, conditions: list[exp.Expression], needed: set[str]) -> Relation:
        """A source's rows that satisfy what is asked of it alone, under joined names."""
        source = self.sources[alias]
        values = Expressions(lambda column: source.value(column.name))
        table = _kept(source.table, [c for c in conditions if not _is_subquery(c)], values)
        kept = {f"{alias}__{name}": (name, known) for name, known in source.columns.items()}
        inner = [c.this for c in conditions if _is_subquery(c)]
        wanted = needed | self.needed(inner)
        kept = {flat: told for flat, told in kept.items() if flat in wanted} or dict(list(kept.items())[:1])
        found = Relation(
            table.select(**{flat: table[field(name)] for flat, (name, _) in kept.items()}),
            {flat: known for flat, (_, known) in kept.items()},
        )
        for condition in conditions:
            if _is_subquery(condition):
                found = self.semijoin(found, condition)
        return found

    def semijoin(self, found: Relation, condition: exp.In) -> Relation:
        """The rows whose value is in a subquery's result."""
        asked = _distinct(_Select(condition.args["query"].unnest(), self.tables).relation())
        (name,) = asked.columns
        column = found.value(self.flat(condition.this)).expression
        joined = found.table.join(asked.table, column == asked.value(name).expression)
        return Relation(joined.select(**{c: found.table[c] for c in found.columns}), found.columns)

    def links(self, conditions: list[exp.Expression], inside: set[str], alias: str) -> list[exp.Expression]:
        """The equalities that tie a source to those that are joined already."""
        found = []
        for c in conditions:
            sides = [self.owners(c.this), self.owners(c.expression)] if isinstance(c, exp.EQ) else []
            if sides and {alias} in sides and any(s and s <= inside for s in sides):
                found.append(c)
        return found

    def join(self, left: Relation, right: Relation, links: list[exp.Expression], needed: set[str]) -> Relation:
        """Two relations by some equalities; NULL, which Pathway would join with NULL, is left out."""
        columns = left.columns | right.columns
        values = Expressions(lambda c: (left if self.flat(c) in left.columns else right).value(self.flat(c)))
        conditions = []
        for link in links:
            one, other = (values.value(side) for side in (link.this, link.expression))
            if one.optional or other.optional:
                raise Unsupported(f"{link.sql()} compares what may be NULL")
            swap = not self.owners(link.this) <= {n.partition("__")[0] for n in left.columns}
            one, other = _same_scale(*((other, one) if swap else (one, other)))
            conditions.append(one.expression == other.expression)
        kept = {n: known for n, known in columns.items() if n in needed}
        made = left.table.join(right.table, *conditions)
        return Relation(made.select(**{n: (left if n in left.columns else right).table[n] for n in kept}), kept)

    def grouped(
        self,
        joined: Relation,
        values: Expressions,
        keys: list[exp.Expression],
        outputs: list[tuple[str, exp.Expression]],
        having: exp.Having | None,
    ) -> Relation:
        """Groups with their aggregates, filtered by HAVING."""
        if not all(isinstance(k, exp.Column) for k in keys):
            raise Unsupported("only columns are grouped by")
        reduced: dict[str, Value] = {self.flat(k): joined.value(self.flat(k)) for k in keys}
        asked = [e for _, e in outputs] + ([having.this] if having else [])
        aggregates = [a for e in asked for a in e.find_all(exp.AggFunc)]
        named = {a: f"aggregate{i}" for i, a in enumerate(dict.fromkeys(aggregates))}
        for aggregate, name in named.items():
            reduced[name] = values.aggregate(aggregate)
        table = joined.table.groupby(*(joined.table[self.flat(k)] for k in keys)) if keys else joined.table
        made = table.reduce(**{name: v.expression for name, v in reduced.items()})
        groups = Relation(made, {name: (v.scale, v.optional) for name, v in reduced.items()})
        after = Expressions(lambda c: groups.value(self.flat(c)), lambda a: groups.value(named[a]))
        if having is not None:
            kept = groups.table.filter(after.value(having.this).expression)
            groups = Relation(kept, groups.columns)
        return _project(groups.table, {name: after.value(e) for name, e in outputs})


class Expressions:
    """Expressions over one table, given how columns, and aggregates that were computed before, are found."""

    def __init__(self, column: Finder, aggregate: Callable[[exp.AggFunc], Value] | None = None) -> None:
        self._column = column
        self._aggregate = aggregate

    def value(self, e: exp.Expression) -> Value:
        """Any expression."""
        if isinstance(e, exp.Column):
            return self._column(e)
        if isinstance(e, exp.AggFunc) and self._aggregate is not None:
            return self._aggregate(e)
        if isinstance(e, exp.Paren):
            return self.value(e.this)
        if isinstance(e, (exp.Literal, exp.Cast, exp.Date)):
            return _constant(e)
        if isinstance(e, exp.Is) and isinstance(e.expression, exp.Null):
            return Value(self.value(e.this).expression.is_none())
        if isinstance(e, exp.Not):
            return Value(~self.value(e.this).expression)
        if isinstance(e, exp.Between):
            low, high = exp.GTE(this=e.this, expression=e.args["low"]), exp.LTE(this=e.this, expression=e.args["high"])
            return Value(self.value(low).expression & self.value(high).expression)
        if isinstance(e, exp.Binary):
            return self._binary(e)
        raise Unsupported(f"{e.sql()} is not translated")

    def aggregate(self, a: exp.AggFunc) -> Value:
        """An aggregate over the table."""
        if isinstance(a, exp.Count) and isinstance(a.this, exp.Star):
            return Value(pw.reducers.count(), 0)
        if isinstance(a, exp.Count) and isinstance(a.this, exp.Distinct) and len(a.this.expressions) == 1:
            counted = self.value(a.this.expressions[0])
            if not counted.optional:
                return Value(pw.reducers.count_distinct(counted.expression), 0)
        if isinstance(a, exp.Sum):
            summed = self.value(a.this)
            if not summed.optional:
                return Value(pw.reducers.sum(summed.expression), summed.scale)
        raise Unsupported(f"{a.sql()} is not translated")

    def _binary(self, e: exp.Binary) -> Value:
        one, other = self.value(e.this), self.value(e.expression)
        if isinstance(e, exp.Mul):
            return Value(one.expression * other.expression, (one.scale or 0) + (other.scale or 0))
        one, other = _same_scale(one, other)
        a, b = one.expression, other.expression
        if isinstance(e, (exp.Add, exp.Sub, exp.Mod)):
            made = a + b if isinstance(e, exp.Add) else a - b if isinstance(e, exp.Sub) else a % b
            return Value(made, one.scale)
        found = {
            exp.EQ: lambda: a == b,
            exp.NEQ: lambda: a != b,
            exp.LT: lambda: a < b,
            exp.LTE: lambda: a <= b,
            exp.GT: lambda: a > b,
            exp.GTE: lambda: a >= b,
            exp.And: lambda: a & b,
            exp.Or: lambda: a | b,
        }.get(type(e))
        if found is None or one.optional or other.optional:
            raise Unsupported(f"{e.sql()} is not translated")
        return Value(found())


# --- details ---------------------------------------------------------------------------------------------------------


def _conjuncts(e: exp.Expression) -> list[exp.Expression]:
    """The conditions that AND ties together."""
    return [c for part in e.flatten() for c in _conjuncts(part)] if isinstance(e, exp.And) else [e]


def _columns(e: exp.Expression) -> Iterable[exp.Column]:
    """The columns of an expression, without those of subqueries in it."""
    for node in e.walk(prune=lambda n: isinstance(n, exp.Select)):
        if isinstance(node, exp.Column):
            yield node


def _is_subquery(e: exp.Expression) -> bool:
    return isinstance(e, exp.In) and e.args.get("query") is not None


def _constant(e: exp.Expression) -> Value:
    """A literal; a date is its day."""
    if isinstance(e, exp.Literal):
        if e.is_string:
            return Value(e.this)
        number = Decimal(e.this)
        scale = max(0, -int(number.as_tuple().exponent))
        return Value(int(number.scaleb(scale)), scale)
    inner = e.this
    if isinstance(inner, exp.Literal) and inner.is_string and (isinstance(e, exp.Date) or e.is_type("date")):
        return Value((date.fromisoformat(inner.this) - date(1970, 1, 1)).days)
    raise Unsupported(f"{e.sql()} is not translated")


def _same_scale(one: Value, other: Value) -> tuple[Value, Value]:
    """Two values that can be compared and added: numbers of different scales are brought to the larger one."""
    if one.scale == other.scale or one.scale is None or other.scale is None:
        return one, other
    scale = max(one.scale, other.scale)
    return _scaled(one, scale), _scaled(other, scale)


def _scaled(value: Value, scale: int) -> Value:
    return Value(value.expression * 10 ** (scale - (value.scale or 0)), scale, value.optional)


def _kept(table: Any, conditions: list[exp.Expression], values: Expressions) -> Any:
    """The rows that satisfy all conditions; the expressions are over this very table, so there is one filter."""
    if not conditions:
        return table
    return table.filter(reduce(and_, (values.value(c).expression for c in conditions)))


def _project(table: Any, values: dict[str, Value]) -> Relation:
    made = table.select(**{field(name): v.expression for name, v in values.items()})
    return Relation(made, {name: (v.scale, v.optional) for name, v in values.items()})


def _distinct(found: Relation) -> Relation:
    """Each row once."""
    listed = [found.table[field(name)] for name in found.columns]
    return Relation(found.table.groupby(*listed).reduce(*listed), found.columns)
