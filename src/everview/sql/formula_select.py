"""SELECT with OPTIONS (degree = d) as a formula: EXISTS nests, COUNT comparisons, AND, OR and NOT (fo-mod.md 3).

A table in FROM becomes a fact, and its columns that hold elements become variables: those that are selected are the
formula's own, all others are quantified where their SELECT stands. What SQL means otherwise than the formula would,
because of NULL or of several copies of a row, is refused at its place.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError
from everview.query.formula import (
    ANY_VALUE,
    FALSE,
    TRUE,
    Condition,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Quantifier,
    Truth,
    conjunction,
    disjunction,
    exists,
)
from everview.query.schema import Schema
from everview.query.terms import Const, Var
from everview.sql.aggregates import aggregates_in, is_aggregate
from everview.sql.formula_columns import Columns, Occurrence, Place, compared_with_constant, equated
from everview.sql.formula_counts import Count, CountTest, count_tests
from everview.sql.formula_rows import are_linked, check_nulls, counted_by, is_determined, may_be_null
from everview.sql.literals import constant, parse_string
from everview.sql.nested import bare
from everview.sql.sql_text import SqlText

MOST_WAYS: Final = 32
"""So many combinations of labels, as several IN lists allow them, one SELECT may have."""
_IN_TEXT: Final = "db.formula takes formulas as text, in which more can be said"


def formula_of_query(
    source: SqlText,
    query: exp.Expr,
    schema: Schema,
    views: Collection[str],
    name: str,
    columns: Sequence[exp.Expr],
    component: str | None,
) -> tuple[FormulaQuery, Schema, list[exp.Expr]]:
    """What a query says as a formula, its columns renamed if names are given; the tables read, and its columns' places.

    ``views``, in lower case, are no tables of the schema.
    """
    if not isinstance(query, exp.Select):
        raise source.unsupported(
            "set operation in a formula",
            source.keyword(query.args.get("expression"), "UNION", "EXCEPT", "MINUS", "INTERSECT", "VALUES"),
            hint="write one SELECT, with OR, AND and NOT EXISTS in its WHERE",
        )
    lowering = _Select(source, Columns(source, query, schema, views, component))
    found = lowering.query(query, name, columns)
    read = {o.table.name for each in lowering.columns.occurrences.values() for o in each}
    return found, Schema(tuple(t for t in schema if t.name in read)), lowering.outputs


@dataclass(frozen=True)
class _Way:
    """One way for a condition to hold: what labels are then, and what else must hold."""

    labels: dict[Place, Const]
    formula: Formula

    def also(self, other: _Way) -> _Way | None:
        """Both; None if a label would have two values."""
        if any(self.labels.get(place, value) != value for place, value in other.labels.items()):
            return None
        return _Way({**self.labels, **other.labels}, conjunction((self.formula, other.formula)))


class _Select:
    """The lowering of one query."""

    def __init__(self, source: SqlText, columns: Columns) -> None:
        self.source = source
        self.columns = columns
        self.outputs: list[exp.Expr] = []
        self._variables: dict[Place, Var] = {}
        self._taken: set[str] = set()
        self._group: tuple[exp.Select, set[Place], list[Var], Formula] | None = None
        """In HAVING: the SELECT, its keys, its variables, and what holds of them."""

    # --- the query -------------------------------------------------------------------------------------------------

    def query(self, select: exp.Select, name: str, columns: Sequence[exp.Expr]) -> FormulaQuery:
        """The formula of the outermost SELECT, whose columns are its free variables."""
        shown = self._shown(select)
        if columns and len(columns) != len(shown):
            raise self.source.query(
                f"view {name} names {len(columns)} columns, and its query has {len(shown)}", columns[0]
            )
        names = [c.name for c in columns] or [e.alias_or_name for e in select.expressions]
        self.outputs = list(columns) or [e.args.get("alias") or e for e in select.expressions]
        self._taken |= {n.lower() for n in names}
        head = [Var(n) for n in names]
        same = []
        for variable, place in zip(head, shown, strict=True):
            if place in self._variables:
                same.append(Equal(variable, self._variables[place]))
            else:
                self._variables[place] = variable
        keys = self._keys(select)
        self.columns.name_all(self._counting_rows(select, keys))
        variables, matrix = self._matrix(select, is_negated=False)
        self._check_set(select, shown, keys)
        parts = [matrix, *same]
        if select.args.get("having") is not None:
            self._group = (select, set(keys or ()), variables, matrix)
            parts.append(self._condition(select.args["having"].this, is_negated=False))
            self._group = None
        bound = [v for v in variables if v not in head]
        return FormulaQuery(name, tuple(head), exists(bound, conjunction(parts)))

    def _shown(self, select: exp.Select) -> list[Place]:
        found = []
        for item in select.expressions:
            column = bare(item.unalias())
            if not isinstance(column, exp.Column):
                raise self.source.unsupported(
                    "an output of a formula that is no column",
                    item,
                    hint=f"select columns of tables: an answer is elements, and counts stand in conditions; {_IN_TEXT}",
                )
            place = self.columns.place(column)
            if self.columns.is_label(place):
                raise self.source.query(f"{place} names the component, and is no element", item, hint="leave it out")
            found.append(place)
        return found

    def _keys(self, select: exp.Select) -> list[Place] | None:
        """What the SELECT groups by; None if it does not."""
        group = select.args.get("group")
        if group is None:
            if select.args.get("having") is not None:
                where = self.source.keyword(select.args["having"].this, "HAVING")
                raise self.source.unsupported("HAVING without GROUP BY in a formula", where, hint=_IN_TEXT)
            return None
        found = []
        for key in group.expressions:
            if not isinstance(bare(key), exp.Column):
                raise self.source.unsupported("a key of a formula that is no column", key, hint="group by columns")
            found.append(self.columns.place(bare(key)))
        return found

    def _counting_rows(self, query: exp.Select, keys: Sequence[Place] | None) -> Iterator[Place]:
        """The columns whose values are counted where rows are."""
        for node in query.walk():
            if is_aggregate(node) and node.name.lower() == "count":
                select = node.find_ancestor(exp.Select)
                if select is not None and not any(isinstance(e, exp.Distinct) for e in node.expressions):
                    by = counted_by(self.columns, select, (keys or ()) if select is query else ())
                    yield from [by] if by is not None else []

    def _check_set(self, select: exp.Select, shown: Sequence[Place], keys: Sequence[Place] | None) -> None:
        """Refuse a SELECT that may give a row several times, which no formula does."""
        distinct = select.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise self.source.unsupported("DISTINCT ON", select, hint="write SELECT DISTINCT")
        if keys is not None:
            missing = next((i for i, place in enumerate(shown) if place not in keys), None)
            if missing is not None:
                raise self.source.aggregation(
                    f"{shown[missing]} is not in GROUP BY", select.expressions[missing], hint="group by it, too"
                )
        is_set = distinct is not None or (keys is not None and set(keys) <= set(shown))
        if not is_set and (keys is not None or not is_determined(self.columns, select, shown)):
            raise self.source.query(
                "this SELECT may give a row several times, and a formula gives each row once",
                select.expressions[0],
                hint="write SELECT DISTINCT, or select the primary key of each table in FROM",
            )

    # --- one SELECT ------------------------------------------------------------------------------------------------

    def _matrix(
        self,
        select: exp.Select,
        *,
        is_negated: bool,
        more: Sequence[Formula] = (),
        counted: exp.Column | None = None,
    ) -> tuple[list[Var], Formula]:
        """The variables of a SELECT's own tables, and what must hold of them."""
        own = self.columns.occurrences[id(select)]
        conditions = list(self.columns.conditions(select))
        check_nulls(self.columns, own, conditions, counted, is_negated=is_negated)
        ways = [_Way({}, TRUE)]
        for condition in conditions:
            ways = self._product([ways, self._ways(condition, own, is_negated=is_negated)], condition)
        variables = list(dict.fromkeys(self._variable(p) for o in own for p in self.columns.of(o)))
        formulas = []
        for way in ways:
            facts = []
            for occurrence in own:
                fact, extra = self._fact(occurrence, way.labels)
                facts.append(fact)
                variables += [v for v in extra if v not in variables]
            formulas.append(conjunction((*facts, way.formula, *more)))
        return variables, disjunction(formulas)

    def _fact(self, occurrence: Occurrence, labels: dict[Place, Const]) -> tuple[Fact, list[Var]]:
        """What a table's row says, where labels are as given; and a variable more if it has none otherwise."""
        table = occurrence.table
        named, extra = self.columns.of(occurrence), []
        if not named:
            held = self.columns.elements_of(table)
            if not held:
                raise self.source.unsupported(
                    "a table without elements",
                    occurrence.node,
                    message=f"no column of {table.name} is selected, counted or compared with another column here",
                    hint="a formula is about elements: compare a column of it with one of another table",
                )
            named = [Place(occurrence, held[0])]
            extra = [self._variable(named[0])]
        places = [Place(occurrence, i) for i in range(table.arity)]
        terms = [self._variable(p) if p in named else labels.get(p, ANY_VALUE) for p in places]
        return Fact(table.name, tuple(terms), self.source.position(occurrence.node)), extra

    def _variable(self, place: Place) -> Var:
        if place not in self._variables:
            column = place.occurrence.table.columns[place.column].name
            base = f"{place.occurrence.alias}_{column}"
            name, number = base, 1
            while name.lower() in self._taken:
                number += 1
                name = f"{base}_{number}"
            self._taken.add(name.lower())
            self._variables[place] = Var(name)
        return self._variables[place]

    # --- labels ----------------------------------------------------------------------------------------------------

    def _ways(self, node: exp.Expr, own: Sequence[Occurrence], *, is_negated: bool) -> list[_Way]:
        """The ways for a condition to hold, where labels of a SELECT's own tables are concerned."""
        node = bare(node)
        if not self._tests_labels(node, own):
            return [_Way({}, self._condition(node, is_negated=is_negated))]
        if isinstance(node, exp.And):
            return self._product(
                [self._ways(part, own, is_negated=is_negated) for part in (node.this, node.expression)], node
            )
        if isinstance(node, exp.Or):
            return [w for part in (node.this, node.expression) for w in self._ways(part, own, is_negated=is_negated)]
        if isinstance(node, exp.In):
            place = self.columns.place(bare(node.this))
            return [_Way({place: self._constant(item, place)}, TRUE) for item in node.expressions]
        found = compared_with_constant(self.columns, node) if isinstance(node, exp.EQ) else None
        if found is not None:
            return [_Way({found[0]: self._constant(found[1], found[0])}, TRUE)]
        return [_Way({}, self._condition(node, is_negated=is_negated))]

    def _tests_labels(self, node: exp.Expr, own: Sequence[Occurrence]) -> bool:
        for inner in node.walk(prune=lambda n: isinstance(n, exp.Query)):
            if isinstance(inner, exp.Column):
                place = self.columns.place(inner)
                if place.occurrence in own and self.columns.is_label(place):
                    return True
        return False

    def _product(self, each: Sequence[Sequence[_Way]], node: exp.Expr) -> list[_Way]:
        if prod(map(len, each)) > MOST_WAYS:
            raise self.source.too_large(
                f"the labels may be combined in more than {MOST_WAYS} ways", node, hint="split the query"
            )
        found = []
        for ways in product(*each):
            both: _Way | None = _Way({}, TRUE)
            for way in ways:
                both = both.also(way) if both is not None else None
            found += [both] if both is not None else []
        return found

    def _constant(self, node: exp.Expr, place: Place) -> Const:
        column = place.occurrence.table.columns[place.column]
        found = constant(node, column.type)
        literal = bare(node)
        if found is None and isinstance(literal, exp.Literal) and literal.is_string:
            parsed = parse_string(literal.name, column.type)
            found = None if parsed is None else Const(parsed)
        if found is None or column.type.padded:
            raise self.source.mismatch(f"{place} is {column.type}, and is compared with another type", node)
        return found

    # --- conditions ------------------------------------------------------------------------------------------------

    def _condition(self, node: exp.Expr, *, is_negated: bool) -> Formula:
        """A condition in which no labels of the SELECT around it are tested."""
        node = bare(node)
        tests = count_tests(self.source, node)
        if tests:
            return conjunction(self._counted(test, is_negated=is_negated) for test in tests)
        match node:
            case exp.And():
                return conjunction(self._condition(n, is_negated=is_negated) for n in (node.this, node.expression))
            case exp.Or():
                return disjunction(self._condition(n, is_negated=is_negated) for n in (node.this, node.expression))
            case exp.Not():
                return Not(self._condition(node.this, is_negated=True))
            case exp.Boolean():
                return Truth(bool(node.this))
            case exp.Exists() if isinstance(self._inner(node), exp.Select):
                return self._exists(self._inner(node), node, is_negated=is_negated)
            case exp.In():
                return self._in(node, is_negated=is_negated)
            case exp.EQ():
                return self._equal(node)
            case exp.NEQ():
                return Not(self._equal(node))
            case exp.Is() if isinstance(node.expression, exp.Null) and isinstance(bare(node.this), exp.Column):
                self._element(bare(node.this))
                return FALSE
        raise self._unsaid(node)

    def _unsaid(self, node: exp.Expr) -> EverviewError:
        return self.source.unsupported(
            "this condition in a formula",
            node,
            hint="there are EXISTS, IN, = and <> of columns and constants, (SELECT COUNT(…) …) compared with a number, "
            f"also modulo one, AND, OR and NOT; {_IN_TEXT}",
        )

    @staticmethod
    def _inner(node: exp.Expr) -> exp.Expr:
        found: exp.Expr = node.this
        while isinstance(found, exp.Subquery | exp.Paren):
            found = found.this
        return found

    def _element(self, column: exp.Expr) -> Var:
        """The variable of a column that must hold elements."""
        place = self.columns.place(column)
        if self.columns.is_label(place):
            where = "in the WHERE of the SELECT that reads its table, by = or IN, and not under NOT"
            raise self.source.query(
                f"{place} is compared with constants alone, so it is a label, and a label is tested {where}",
                column,
                hint="say which values it may have, as in kind IN ('a', 'b')",
            )
        if self._group is not None and place.occurrence.select is self._group[0] and place not in self._group[1]:
            raise self.source.aggregation(f"{place} is not in GROUP BY", column, hint="group by it, or count it")
        return self._variable(place)

    def _equal(self, node: exp.Expr) -> Formula:
        pair = equated(self.columns, exp.EQ(this=node.this, expression=node.expression))
        if pair is not None:
            if any(map(self.columns.is_component, pair)):
                return self._same_component(pair, node)
            left, right = (self._element(bare(side)) for side in (node.this, node.expression))
            return Equal(left, right, self.source.position(node))
        found = compared_with_constant(self.columns, node)
        if found is None:
            raise self._unsaid(node)
        place, value = found
        column = bare(node.this) if isinstance(bare(node.this), exp.Column) else bare(node.expression)
        return Equal(self._element(column), self._constant(value, place), self.source.position(node))

    def _same_component(self, pair: tuple[Place, Place], node: exp.Expr) -> Formula:
        """Rows that share an element are of one component, so that to say so changes nothing."""
        for place in pair:
            if not self.columns.is_component(place) or not isinstance(node, exp.EQ):
                raise self.source.query(
                    f"{place} and the component are compared", node, hint="components are compared by = alone"
                )
            if may_be_null(place):
                raise self.source.query(
                    f"{place} names the component, and may be NULL", node, hint="declare it NOT NULL"
                )
        if not are_linked(self.columns, *(place.occurrence for place in pair)):
            raise self.source.query(
                f"{pair[0]} = {pair[1]} ties rows that share no element, which a component cannot do",
                node,
                hint="tie them by elements as well",
            )
        return TRUE

    def _exists(self, select: exp.Expr, node: exp.Expr, *, is_negated: bool, more: Sequence[Formula] = ()) -> Formula:
        assert isinstance(select, exp.Select)
        self._check_inner(select, node)
        variables, matrix = self._matrix(select, is_negated=is_negated, more=more)
        return exists(variables, matrix, self.source.position(node))

    def _check_inner(self, select: exp.Select, node: exp.Expr) -> None:
        """Refuse a subquery whose rows are groups."""
        if select.args.get("group") is not None or select.args.get("having") is not None:
            raise self.source.unsupported(
                "GROUP BY in a subquery of a formula", select, hint="write (SELECT COUNT(…) …) >= 2 instead"
            )
        if isinstance(node, exp.Exists | exp.In) and any(any(aggregates_in(e)) for e in select.expressions):
            raise self.source.unsupported(
                "an aggregate under EXISTS or IN in a formula",
                select,
                hint="compare the count: (SELECT COUNT(…) …) >= 2",
            )

    def _in(self, node: exp.Expr, *, is_negated: bool) -> Formula:
        left = bare(node.this)
        columns = [bare(e) for e in left.expressions] if isinstance(left, exp.Tuple) else [left]
        if not all(isinstance(column, exp.Column) for column in columns):
            raise self._unsaid(node)
        query = node.args.get("query")
        if query is None:
            if len(columns) > 1:
                raise self._unsaid(node)
            place, variable = self.columns.place(left), self._element(left)
            return disjunction(Equal(variable, self._constant(item, place)) for item in node.expressions)
        while isinstance(query, exp.Subquery | exp.Paren):
            query = query.this
        outputs = [bare(e.unalias()) for e in query.expressions] if isinstance(query, exp.Select) else []
        if len(outputs) != len(columns) or not all(isinstance(output, exp.Column) for output in outputs):
            raise self._unsaid(node)
        pairs = zip(columns, outputs, strict=True)
        same = [Equal(self._element(a), self._element(b), self.source.position(node)) for a, b in pairs]
        return self._exists(query, node, is_negated=is_negated, more=same)

    # --- counts ----------------------------------------------------------------------------------------------------

    def _counted(self, test: CountTest, *, is_negated: bool) -> Formula:
        count = test.count
        if count.select is not None:
            self._check_inner(count.select, count.node)
            select = count.select
            variables, matrix = self._matrix(select, is_negated=True, counted=count.column)
            fixed: set[Place] = set()
        elif self._group is not None:
            select, fixed, variables, matrix = self._group
        else:
            raise self.source.aggregation(
                "an aggregate cannot stand in WHERE", count.node, hint="write it as (SELECT COUNT(…) FROM … WHERE …)"
            )
        bound = [v for v in variables if v not in {self._variable(p) for p in fixed}]
        counted = self._witness(count, select, fixed)
        at = self.source.position(count.node)
        if counted is None:  # There is one row, or none.
            there = exists(bound, matrix, at)
            return test.formula(lambda condition: _of_one(condition, there))
        body = exists([v for v in bound if v != counted], matrix)
        return test.formula(lambda condition: Quantifier(condition, counted, body, at))

    def _witness(self, count: Count, select: exp.Select, fixed: set[Place]) -> Var | None:
        """The variable whose values are counted; None if there can be one row at most."""
        own = self.columns.occurrences[id(select)]
        if count.column is not None:
            place = self.columns.place(count.column)
            if place.occurrence not in own:
                raise self.source.query(
                    f"{place} is counted, and is the same in all rows", count.column, hint="count a column of FROM"
                )
            if count.is_distinct:
                return None if place in fixed else self._variable(place)
        if is_determined(self.columns, select, fixed):
            return None
        by = counted_by(self.columns, select, fixed)
        if by is not None:
            return self._variable(by)
        raise self.source.query(
            "COUNT counts rows here, and a formula counts the different values of one column",
            count.node,
            hint="write COUNT(DISTINCT x), or declare the table's primary key, of which one column may be left open",
        )


def _of_one(condition: Condition, there: Formula) -> Formula:
    """A condition on the number of rows, of which there is one at most: one if ``there`` holds."""
    one, none = condition.holds(1), condition.holds(0)
    if one is none:
        return Truth(one)
    return there if one else Not(there)
