"""SELECT, WITH and set operations: from a statement's tree to the bodies of a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from sqlglot import exp

from everview.query import view as model
from everview.query.types import DataType, Kind, common_type
from everview.query.view import Block, Output, SetOperation, SetOperator, SortKey
from everview.sql.apart import names_read
from everview.sql.beside import beside
from everview.sql.body import Body, cast
from everview.sql.conditions import add_condition
from everview.sql.datatypes import same_word
from everview.sql.dialect import EverviewSpark
from everview.sql.exploding import add_laterals, explode_listed
from everview.sql.fromclause import add_from
from everview.sql.grouping import add_groups, add_having, grouped_output, is_grouped
from everview.sql.listed_names import spell_listed
from everview.sql.listed_subqueries import lower_listed, name_subqueries
from everview.sql.names import Scope
from everview.sql.nested import bare
from everview.sql.one_row import add_one_row, values_query
from everview.sql.ordering import (
    CUTS,
    HIDDEN,
    TIES_REMARK,
    cut,
    is_all,
    is_cut,
    ordered,
    output_place,
    read_bounds,
    spelled_all,
)
from everview.sql.overgroups import after_grouping, subqueries_over_groups
from everview.sql.refuse import refuse_clauses, refuse_map
from everview.sql.semijoin import exists_of_one_group
from everview.sql.session import (
    Beside,
    Carried,
    Cte,
    Environment,
    Lowering,
    Query,
    Rows,
    Selected,
    over_stage,
    spell_names,
    written,
)
from everview.sql.spans import add_spans
from everview.sql.windows import goes_by_place, is_windowed, over_windows

_SELECT_CLAUSES = (
    "with_", "expressions", "from_", "joins", "where", "group", "having", "distinct", "order", "hint", "laterals",
    "qualify", "windows", *CUTS
)  # fmt: skip
_OPERATORS: dict[type[exp.Expr], SetOperator] = {
    exp.Union: SetOperator.UNION,
    exp.Except: SetOperator.EXCEPT,
    exp.Intersect: SetOperator.INTERSECT,
}
ORDER_REMARK = "ORDER BY has no meaning for a view: read it ordered instead"


class Lower(Lowering):
    """The lowering of one view."""

    is_arranged: ClassVar[bool] = False
    """True if somebody else sees to ORDER BY and LIMIT, and only checks are wanted here."""
    needs_from: ClassVar[bool] = True

    def query(self, node: exp.Expr, env: Environment, parent: Scope | None = None) -> Query:
        """A whole query: WITH, then a SELECT or a set operation."""
        if isinstance(node, exp.Subquery):
            refuse_clauses(self.source, node, ("this", "with_", "order", "alias", *CUTS))
            env = self.environment(node, env)
            return self._first_of(node, self.query(node.this, env, parent))
        if isinstance(node, exp.SetOperation):
            return self._first_of(node, self._set_operation(node, self.environment(node, env), parent))
        if isinstance(node, exp.Values) and not self.is_arranged:
            return self.query(values_query(self.source, node), env, parent)
        if not isinstance(node, exp.Select):
            raise self._not_a_query(node)
        rows = self._block(node, env, parent)
        loose = [where for _, _, where in rows.correlations] + [where for _, where in rows.mixed]
        if loose or rows.outer_conditions:
            raise self.source.unsupported(
                "correlated subquery", loose[0] if loose else node, hint="only EXISTS and IN may refer to outer columns"
            )
        names, places = [o.name for o in rows.outputs], [o.place for o in rows.outputs]
        if not is_cut(node) or self.is_arranged:
            return Query(rows.finish(), names, places)
        order = node.args.get("order")
        items = spelled_all(order.expressions, len(names)) if order else ()
        keys = [self._key(rows, node, item, len(names)) for item in items]
        body = rows.finish()
        return Query(self.cut(body, body.outputs[: len(names)], keys, node), names, places)

    def _key(self, rows: Rows, select: exp.Select, item: exp.Expr, width: int) -> SortKey:
        """A key of ORDER BY: a column of the output, or one more that nobody sees."""
        node, descending, nulls_first = ordered(item)
        outputs = rows.outputs
        place = output_place(self.source, node, [o.name for o in outputs[:width]], [o.expression for o in outputs])
        if place is None:
            spelled = exp.Paren(this=node.copy())
            spell_names(spelled, select)
            found = rows.keys.get(id(item)) or self.output(rows, spelled.this, f"{HIDDEN}{len(outputs)}", node)
            known = [o.expression for o in outputs]
            if found.expression not in known and rows.distinct:
                raise self.source.query(
                    "of SELECT DISTINCT only what is selected can be put in order by",
                    node,
                    hint="select it, or group by the columns",
                )
            place = known.index(found.expression) if found.expression in known else len(outputs)
            if place == len(outputs):
                outputs.append(found)
        return SortKey(place, descending, nulls_first)

    def _first_of(self, node: exp.Expr, found: Query) -> Query:
        """The first rows of a set operation, or of a query in parentheses, whose outputs alone have names."""
        order = node.args.get("order")
        if not is_cut(node) or self.is_arranged:
            if order:
                self.remark(ORDER_REMARK)
            return found
        items = spelled_all(order.expressions, len(found.names)) if order else ()
        keys = self.keys_of_outputs(items, found, len(found.names))
        return Query(self.cut(found.body, found.body.columns, keys, node), found.names, found.places)

    def keys_of_outputs(self, items: Sequence[exp.Expr], found: Query, width: int) -> list[SortKey]:
        """Keys of ORDER BY that are some of the first columns of a query, by name or number."""
        keys = []
        for item in items:
            key, descending, nulls_first = ordered(item)
            place = output_place(self.source, key, found.names[:width], range(width))
            if place is None:
                raise self.source.unsupported(
                    "ORDER BY of an expression over a set operation",
                    key,
                    hint="order by output columns, by name or number, or SELECT … FROM (…) ORDER BY the expression",
                )
            keys.append(SortKey(place, descending, nulls_first))
        return keys

    def cut(
        self,
        body: model.Body,
        columns: Sequence[Output],
        keys: Sequence[SortKey],
        node: exp.Expr,
        partition: tuple[int, ...] = (),
    ) -> model.Cut:
        """The first rows of a body, or of each partition of its rows, as LIMIT says."""
        bounds = read_bounds(self.source, node)
        for key in keys:
            refuse_map(self.source, body.columns[key.column].type, node.args["order"], "ORDER BY")
        if not bounds.has_ties and bounds.limit != 0 and {k.column for k in keys} < set(range(len(columns))):
            self.remark(TIES_REMARK)
        return replace(cut(body, columns, keys, bounds), partition=partition)

    def block(
        self,
        select: exp.Select,
        env: Environment,
        parent: Scope | None,
        as_set: bool = False,
        carried: Carried | None = None,
    ) -> Rows:
        """One SELECT with a body of its own; all its rows, so it has no LIMIT."""
        self._refuse_cut(select)
        return self._block(select, env, parent, as_set, carried)

    def _refuse_cut(self, select: exp.Select) -> None:
        if is_cut(select) and not self.is_arranged:
            clause = select.args.get("limit") or select.args.get("offset")
            raise self.source.unsupported(
                "LIMIT in a correlated subquery",
                self.source.clause(select, clause, ("LIMIT", "FETCH", "OFFSET")),
                message="LIMIT in a subquery that refers to the query around it is not supported",
                hint="use MAX, MIN, or ROW_NUMBER() OVER (PARTITION BY …) in a subquery in FROM",
            )

    def _block(
        self,
        select: exp.Select,
        env: Environment,
        parent: Scope | None,
        as_set: bool = False,
        carried: Carried | None = None,
    ) -> Rows:
        body = Body(self.fresh) if carried is None else carried.body
        body.is_set = not is_grouped(select) and (as_set or bool(select.args.get("distinct")))
        return self._select(select, env, body, parent, carried)

    def beside(self, rows: Rows, query: exp.Expr) -> Beside:
        """The rows of a subquery of any form, beside the values that it reads of the rows of the query around."""
        return beside(self, rows, query)

    def inline(self, select: exp.Select, env: Environment, body: Body, parent: Scope | None) -> Rows:
        """A plain SELECT, its atoms and conditions added to an outer body."""
        self._refuse_cut(select)
        return self._select(select, env, body, parent)

    def _select(
        self, select: exp.Select, env: Environment, body: Body, parent: Scope | None, carried: Carried | None = None
    ) -> Rows:
        self._check_clauses(select)
        exists_of_one_group(select)
        env = self.environment(select, env)
        distinct = bool(select.args.get("distinct"))
        if is_windowed(select):
            below, above = (Body(self.fresh), body) if carried is None else (body, Body(self.fresh))
            inner = Rows(self, env, Scope(self.source, parent), below, carried=carried)
            outer = Rows(self, env, Scope(self.source, parent), above, distinct=distinct)
            return self._over_windows(select, inner, outer)
        rows = Rows(self, env, Scope(self.source, parent), body, distinct=distinct, carried=carried)
        projections = self._grouped(rows, select)
        if rows.groups is not None and subqueries_over_groups(rows, select):
            return after_grouping(rows, select, projections)
        rows.outputs = [self.output(rows, _bare(p), name, p) for p, name in projections]
        for output in rows.outputs if distinct else ():
            refuse_map(self.source, output.expression.type, output.place, "DISTINCT")
        self._having(rows, select, projections)
        if select.args.get("order") and (self.is_arranged or not is_cut(select)):
            self.check_order(rows, select.args["order"])
        return rows

    def _over_windows(self, select: exp.Select, inner: Rows, outer: Rows) -> Rows:
        """A SELECT with window functions: ``outer`` reads a stage that has them, made of the rows of ``inner``."""
        projections = self._grouped(inner, select)
        if inner.groups is not None and subqueries_over_groups(inner, select):
            raise self.source.unsupported(
                "subquery over groups beside window functions", select, hint="group in a subquery in FROM"
            )
        self._having(inner, select, projections)
        keys = self._further_keys(select, [name for _, name in projections])
        columns = over_windows(self, inner, outer, select, [*projections, *((key, "") for key in keys.values())])
        for node, name, place in columns[: len(projections)]:
            outer.outputs.append(self.output(outer, node, name, place))
        for item, (node, _, place) in zip(keys, columns[len(projections) :], strict=False):
            outer.keys[item] = self.output(outer, node, f"{HIDDEN}{len(outer.keys)}", place)
        for condition, _, _ in columns[len(projections) + len(keys) :]:
            add_condition(outer, condition, "QUALIFY")
        if select.args.get("order") and not is_cut(select) and not self.is_arranged:
            self.remark(ORDER_REMARK)
        return outer

    def _further_keys(self, select: exp.Select, names: Sequence[str]) -> dict[int, exp.Expr]:
        """What ORDER BY puts the rows in order by that are taken, apart from outputs; by the ids of its items."""
        order = select.args.get("order") if is_cut(select) or self.is_arranged else None
        found: dict[int, exp.Expr] = {}
        for item in order.expressions if order else ():
            node = ordered(item)[0]
            if is_all(node):
                continue
            if output_place(self.source, node, names, [0] * len(names)) is None:
                spelled = exp.Paren(this=node.copy())
                spell_names(spelled, select)
                found[id(item)] = spelled.this
        return found

    def _grouped(self, rows: Rows, select: exp.Select) -> list[tuple[exp.Expr, str]]:
        """FROM, WHERE and GROUP BY, and the SELECT list as it is written."""
        rows.names = None if is_windowed(select) and goes_by_place(select) else names_read(select)
        name_subqueries(select, output_name)
        if select.args.get("from_"):
            add_from(rows, select)
        elif self.needs_from:
            add_one_row(rows, select.expressions[0])
        add_laterals(rows, select)
        if self.has_values:
            spell_listed(rows, select, [output_name(e) for e in select.expressions])
        if select.args.get("where"):
            add_condition(rows, select.args["where"].this, "WHERE")
        explode_listed(rows, select)
        add_spans(rows, select)
        self._count_stars(rows, select)
        lower_listed(rows, select, by_order=is_cut(select) and not self.is_arranged)
        projections = self._projections(rows, select)
        if is_grouped(select):
            add_groups(rows, select, [p for p, _ in projections])
        return projections

    def _having(self, rows: Rows, select: exp.Select, projections: list[tuple[exp.Expr, str]]) -> None:
        having = select.args.get("having")
        if having is not None:
            add_having(rows, having, [p for p, _ in projections])

    def check_order(self, rows: Rows, order: exp.Order) -> None:
        """ORDER BY is dropped, but must make sense: outputs by name or number, or expressions over columns."""
        self.remark(ORDER_REMARK)
        names = {o.name.lower() for o in rows.outputs}
        for item in order.expressions:
            key = item.this if isinstance(item, exp.Ordered) else item
            if (
                is_all(key)
                or isinstance(key, exp.Literal)
                or any(c.name.lower() in names for c in key.find_all(exp.Column))
            ):
                continue
            rows.checker("ORDER BY", allow_aggregates=True).check(key)

    def _check_clauses(self, select: exp.Select) -> None:
        source = self.source
        if not select.expressions:
            raise source.syntax("SELECT names no column", source.keyword(select, "SELECT"), hint="name one, or write *")
        refuse_clauses(source, select, _SELECT_CLAUSES)
        distinct = select.args.get("distinct")
        if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
            raise source.unsupported("DISTINCT ON", source.keyword(distinct, "DISTINCT"), hint="name the columns")
        if select.args.get("hint"):
            self.remark("hints are ignored: the plan follows from the query's shape")

    def environment(self, node: exp.Expr, env: Environment) -> Environment:
        """The WITH names in scope in a query."""
        clause = node.args.get("with_")
        if clause is None:
            return env
        if clause.args.get("recursive"):
            raise self.source.unsupported(
                "recursive WITH", self.source.keyword(clause, "RECURSIVE"), hint="recursion is not supported"
            )
        seen: set[str] = set()
        for cte in clause.expressions:
            name = cte.alias
            if name.lower() in seen:
                raise self.source.ambiguous(
                    f"two WITH entries are named {name}", cte.args["alias"], hint="rename one of them"
                )
            seen.add(name.lower())
            alias = cte.args["alias"]
            entry = Cte(name, cte.this, env, list(alias.columns) if isinstance(alias, exp.TableAlias) else [])
            if name.lower() not in {t.name.lower() for t in node.find_all(exp.Table)}:
                self._check_unused(entry)
            env = env.with_cte(entry)
        return env

    def _check_unused(self, entry: Cte) -> None:
        """A WITH entry that nobody reads is still checked; stages that it alone needed are dropped in the end."""
        remarks = list(self.remarks)
        self.query(entry.query.copy(), entry.scope)
        self.remarks = remarks

    def _projections(self, rows: Rows, select: exp.Select) -> list[tuple[exp.Expr, str]]:
        """The SELECT list with stars spelt out, each with its output name."""
        found: list[tuple[exp.Expr, str]] = []
        for node in select.expressions:
            star = node if isinstance(node, exp.Star) else node.this if isinstance(node, exp.Column) else None
            if isinstance(star, exp.Star):
                found += self._star(rows, node, star)
            elif isinstance(node, exp.Aliases):
                raise self.source.unsupported("several aliases for one column", node)
            else:
                found.append((node, output_name(node)))
        return found

    def _count_stars(self, rows: Rows, select: exp.Select) -> None:
        """``count(DISTINCT *)`` with the columns that it stands for; ``count(*)`` is of rows."""
        for star in list(select.find_all(exp.Star)):
            call = star.parent.parent if isinstance(star.parent, exp.Distinct) else None
            if call is not None and call.name.lower() == "count" and star.parent_select is select:
                star.replace([column for column, _ in self._star(rows, star, star)])

    def _star(self, rows: Rows, node: exp.Expr, star: exp.Star) -> list[tuple[exp.Expr, str]]:
        refuse_clauses(self.source, star, ("except_",))
        if isinstance(node, exp.Column):
            relation = next((r for s in rows.scope.outward() if (r := s.relation(node.table))), None)
            if relation is None:
                known = [r.alias for r in rows.scope.relations if r.alias]
                raise self.source.unknown("relation", node.table, node.args["table"], known, "in scope here:")
            columns = relation.visible()
        else:
            columns = list(rows.scope.columns)
        if not columns:
            raise self.source.query("* stands for no column here", node, hint="name the columns that are wanted")
        dropped = {c.name.lower(): c for c in star.args.get("except_") or ()}
        for name, place in dropped.items():
            if name not in {c.name.lower() for c in columns}:
                raise self.source.unknown("column", place.name, place, [c.name for c in columns], "there are")
        columns = [c for c in columns if c.name.lower() not in dropped]
        self.source.stars.append((node, [exp.column(c.name, c.alias or None, quoted=True) for c in columns]))
        found: list[tuple[exp.Expr, str]] = []
        for column in columns:
            reference = exp.column(exp.to_identifier(column.name, quoted=True))
            reference.meta.update(star.meta)
            reference.meta["cell"] = column.cell
            found.append((reference, column.name))
        return found

    def output(self, rows: Rows, node: exp.Expr, name: str, place: exp.Expr) -> Selected:
        """An expression over the rows, or over the groups that they make."""
        node = bare(node)
        if rows.groups is not None:
            return grouped_output(rows, node, name, place)
        checker = rows.checker("SELECT")
        typed = checker.check(node)
        expression = written(node, checker, typed.type)
        if typed.type.kind is Kind.INTERVAL:
            raise self.source.unsupported(
                "INTERVAL type", node, message="a view cannot hold intervals of months", hint="use a number of months"
            )
        return Selected(name, expression, typed.strict, place)

    def _set_operation(self, node: exp.SetOperation, env: Environment, parent: Scope | None) -> Query:
        refuse_clauses(self.source, node, ("with_", "this", "expression", "distinct", "order", *CUTS))
        return self.combined(node, self.query(node.this, env, parent), self.query(node.expression, env, parent))

    def combined(self, node: exp.SetOperation, left: Query, right: Query) -> Query:
        """A set operation of two queries."""
        word = type(node).__name__.upper()
        if len(left.names) != len(right.names):
            raise self.source.query(
                f"{word} of {len(left.names)} and {len(right.names)} columns",
                self.source.keyword(node.expression, word),
                hint="give both sides the same number of columns",
            )
        operator = _OPERATORS[type(node)]
        columns = []
        for index, (a, b) in enumerate(zip(left.body.columns, right.body.columns, strict=True)):
            type_ = common_type(a.type, b.type)
            if type_ is None:
                raise self.source.mismatch(
                    f"column {index + 1} of the {word} is {a.type} on the left and {b.type} on the right",
                    right.places[index],
                    hint="CAST one of the two",
                )
            if node.args.get("distinct") or operator is not SetOperator.UNION:
                refuse_map(self.source, type_, right.places[index], word)
            nullable = a.nullable or (b.nullable and operator is SetOperator.UNION)
            columns.append(Output(a.name, replace(a.expression, type=type_), nullable))
        types = [c.type for c in columns]
        body = SetOperation(
            operator,
            not node.args.get("distinct"),
            self._typed(left.body, types),
            self._typed(right.body, types),
            tuple(columns),
        )
        return Query(body, left.names, left.places)

    def _typed(self, body: model.Body, types: list[DataType]) -> model.Body:
        """A side of a set operation with its columns in the common types."""
        if all(c.type == t for c, t in zip(body.columns, types, strict=True)):
            return body
        if isinstance(body, model.Cut | model.Windowed):
            body = over_stage(self.stage(body, "part", "part of a set operation"), self)
        columns = tuple(_converted(c, t) for c, t in zip(body.columns, types, strict=True))
        if isinstance(body, Block):
            return replace(body, outputs=columns)
        assert isinstance(body, SetOperation)
        left, right = self._typed(body.left, types), self._typed(body.right, types)
        return replace(body, left=left, right=right, columns=columns)

    def _not_a_query(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Values):
            return self.source.unsupported("VALUES", self.source.keyword(node, "VALUES"), hint="put rows into a table")
        return self.source.syntax("a query is expected: SELECT …", node)


def output_name(node: exp.Expr) -> str:
    """What an output is called: by its alias, its column's name, or as it is written."""
    if isinstance(node, exp.Alias):
        return str(node.alias)
    if isinstance(bare(node), exp.Column):
        return str(bare(node).name)
    return str(node.sql(EverviewSpark, comments=False, normalize_functions="lower"))


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _converted(column: Output, type_: DataType) -> Output:
    if column.type == type_:
        return column
    same = same_word(column.type, type_) and column.type.kind is not Kind.NULL
    expression = replace(column.expression, type=type_) if same else cast(column.expression, type_)
    return replace(column, expression=expression)
