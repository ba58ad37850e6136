"""FROM: tables, joins and subqueries become atoms of the body and names in scope."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError, UnknownNameError, UnsupportedError
from everview.query.schema import Column
from everview.query.types import compared_in
from everview.query.view import Stage
from everview.sql.aggregates import aggregates_in
from everview.sql.apart import hold_constants
from everview.sql.body import Body, equality
from everview.sql.conditions import add_condition
from everview.sql.domain import NESTED, TWO_QUERIES, WINDOWED
from everview.sql.exploding import explode_item
from everview.sql.names import Cell, Named, Relation, Scope
from everview.sql.nested import is_outer, joins_of, needs_own_body
from everview.sql.one_row import values_query
from everview.sql.ordering import is_cut
from everview.sql.outerjoin import drop_matched, outer_join
from everview.sql.pivot import pivoted
from everview.sql.refuse import refuse_clauses, refuse_join
from everview.sql.semijoin import semi_join
from everview.sql.session import Cte, Rows, stage_columns
from everview.sql.spans import spanned_table
from everview.sql.subqueries import BESIDE, anti_join, is_one_row, joined_beside, lateral
from everview.sql.windows import is_windowed

_WORDS_OF_JOINS: Final = ("side", "kind", "method", "on", "using")
"""What a join has that is not written as a comma."""


def add_from(rows: Rows, select: exp.Select) -> None:
    """Lower the FROM clause of a SELECT, its joins included.

    As in Spark a comma binds as JOIN does. But where LEFT JOIN follows one and reads nothing before it, it comes first:
    the result is the same, and no stage is made of what the comma would combine.
    """
    groups: list[list[exp.Join]] = [[]]
    items = [select.args["from_"].this]
    for join in select.args.get("joins") or ():
        if not any(join.args.get(word) for word in _WORDS_OF_JOINS) and rows.source.follows_comma(join.this):
            items.append(join.this)
            groups.append([])
        else:
            groups[-1].append(join)
    for item, group in zip(items, groups, strict=True):
        outer = [join for join in group if is_outer(join)]
        if len(rows.body) and outer and all(join.side in ("", "LEFT") for join in outer):
            try:
                _add_apart(rows, item, group)
                continue
            except UnknownNameError:  # it reads what stands before the comma, or is told below
                pass
            except UnsupportedError as error:  # it reads the values that a subquery is joined with
                if error.construct != TWO_QUERIES or rows.carried is None:
                    raise
        _add_item(rows, item)
        for join in group:
            _add_join(rows, join)


def _add_apart(rows: Rows, item: exp.Expr, joins: Sequence[exp.Join]) -> None:
    """Add what is joined to an item by a body of its own, which becomes a part of the rows' one then."""
    own = _side(rows, item)
    for join in joins:
        _add_join(own, join)
    for relation in own.scope.relations:
        rows.scope.add_alias(relation, own.places.get(relation.alias.lower(), item))
    rows.places |= own.places
    rows.scope.columns += own.scope.columns
    rows.scope.subqueries |= own.scope.subqueries
    rows.body = rows.body.joined(own.body)
    rows.absorb(own)


def _side(rows: Rows, item: exp.Expr) -> Rows:
    """An item of FROM with a body of its own."""
    scope = Scope(rows.source, rows.scope.parent)
    found = Rows(rows.lowering, rows.env, scope, Body(rows.lowering.fresh), names=rows.names)
    _add_item(found, item)
    return found


def _lateral_side(rows: Rows, join: exp.Join) -> tuple[Rows, exp.Join]:
    """The right side of LEFT JOIN LATERAL, and the join by what it reads of the left side, too."""
    item = join.this
    query = item.this
    if not isinstance(query, exp.Subquery):
        query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=item.copy()))
    found = rows.lowering.beside(rows, query)
    stage = rows.lowering.stage(found.query.body, "lateral", BESIDE)
    right = Rows(rows.lowering, rows.env, Scope(rows.source, rows.scope.parent), Body(rows.lowering.fresh))
    right.names = rows.names
    terms = right.atom(stage.name, "lateral", stage_columns(stage), item)
    _add_relation(right, item, [(n, Cell(t)) for n, t in zip(found.names, terms, strict=False)])
    conditions = [join.args["on"]] if join.args.get("on") is not None else []
    for term, outer in zip(terms[len(found.names) :], found.outer, strict=True):
        sides = [exp.column(exp.to_identifier("everview", quoted=True)) for _ in range(2)]
        for side, expression in zip(sides, (term, outer), strict=True):
            side.meta["cell"] = Cell(expression)
        conditions.append(exp.EQ(this=sides[0], expression=sides[1]))
    again = join.copy()
    again.set("on", exp.and_(*conditions, copy=False))
    return right, again


def _add_join(rows: Rows, join: exp.Join) -> None:
    source = rows.source
    refuse_join(source, join)
    refuse_clauses(source, join, ("this", "on", "side", "kind", "using", "method", "hint", "global_"))
    using = list(join.args.get("using") or ())
    if join.kind == "SEMI":
        semi_join(rows, _as_predicate(join, using))
        return
    if join.kind == "ANTI":
        _add_anti(rows, join, using)
        return
    is_true = join.args.get("on") == exp.Boolean(this=True)
    may_explode = isinstance(join.this, exp.Lateral | exp.Unnest) and join.side == "LEFT" and is_true
    if may_explode and explode_item(rows, join.this, outer=True):
        return
    if isinstance(join.this, exp.Lateral) and join.side:
        if join.side != "LEFT":
            raise source.unsupported(
                f"{join.side} JOIN LATERAL",
                source.keyword(join.this, join.side),
                hint="what stands on the right reads the rows on the left: only these can all be kept, by LEFT JOIN",
            )
        if is_true and is_one_row(join.this.this.unnest()):
            _add_item(rows, join.this)  # which has one row for each
            return
    if join.side:
        is_lateral = isinstance(join.this, exp.Lateral)
        right, join = _lateral_side(rows, join) if is_lateral else (_side(rows, join.this), join)
        if join.side in ("LEFT", "FULL"):
            hold_constants(right, join)
        if join.side in ("RIGHT", "FULL"):
            hold_constants(rows, join)
        pairs = _pairs(rows, rows.scope.columns, right.scope.columns, _using(rows, join, right.scope.columns), join)
        outer_join(rows, right, join, pairs)
        rows.places |= right.places
        return
    left, right_columns = _add_right(rows, join.this)
    _merge(rows, left, right_columns, _using(rows, join, right_columns, left), join)
    if join.args.get("on") is not None:
        add_condition(rows, join.args["on"], "ON")


def _add_right(rows: Rows, item: exp.Expr) -> tuple[list[Named], list[Named]]:
    """Add the right side of a join; gives the columns of both sides.

    What stands before LATERAL is in scope in it, and may be set apart for it, which moves the columns on both sides; so
    it is with functions, such as range.
    """
    left = list(rows.scope.columns)
    if not (isinstance(item, exp.Lateral | exp.Unnest) or isinstance(item.this, exp.Func)):
        rows.scope.columns = []
        _add_item(rows, item)
        rows.scope.columns = [*left, *rows.scope.columns]
    else:
        _add_item(rows, item)
    return rows.scope.columns[: len(left)], rows.scope.columns[len(left) :]


def _using(
    rows: Rows, join: exp.Join, right: Sequence[Named], left: Sequence[Named] | None = None
) -> Sequence[exp.Expr]:
    """The names of the columns that USING or NATURAL equates."""
    if join.method != "NATURAL":
        return list(join.args.get("using") or ())
    shared = {c.name.lower() for c in right}
    columns = rows.scope.columns if left is None else left
    using: list[exp.Expr] = [exp.to_identifier(c.name, quoted=True) for c in columns if c.name.lower() in shared]
    rows.source.natural.append((join, using))
    return using


def _add_anti(rows: Rows, join: exp.Join, using: Sequence[exp.Expr]) -> None:
    """LEFT ANTI JOIN: the rows for which no row exists that they match."""
    if not using:
        anti_join(rows, _as_predicate(join, using))
        return
    right = _side(rows, join.this)
    pairs = _pairs(rows, rows.scope.columns, right.scope.columns, using, join)
    drop_matched(rows, right, pairs, join)


def _as_predicate(join: exp.Join, using: Sequence[exp.Expr]) -> exp.Expr:
    """LEFT SEMI JOIN as the EXISTS or IN that it is."""
    inner = exp.Select(from_=exp.From(this=join.this))
    if using:
        inner.set("expressions", [exp.Column(this=u.copy()) for u in using])
        outer = [exp.Column(this=u.copy()) for u in using]
        left = outer[0] if len(outer) == 1 else exp.Tuple(expressions=outer)
        return exp.In(this=left, query=exp.Subquery(this=inner))
    inner.set("expressions", [exp.Literal.number(1)])
    if join.args.get("on") is not None:
        inner.set("where", exp.Where(this=join.args["on"]))
    return exp.Exists(this=inner)


def _merge(rows: Rows, left: list[Named], right: list[Named], using: Sequence[exp.Expr], join: exp.Join) -> None:
    """USING and NATURAL: equate the columns, and show each once, in front."""
    if not using:
        return
    merged = []
    for one, other in _pairs(rows, left, right, using, join):
        a, b = one.cell.expression, other.cell.expression
        rows.body.equate(a, b, equality(a, b))
        merged.append(Named(one.name, one.cell, one.alias))
    gone = {c.name.lower() for c in merged}
    rest = [c for c in (*left, *right) if c.name.lower() not in gone]
    rows.scope.columns = [*merged, *rest]


def _pairs(
    rows: Rows, left: Sequence[Named], right: Sequence[Named], using: Sequence[exp.Expr], join: exp.Join
) -> list[tuple[Named, Named]]:
    """The columns of both sides that USING and NATURAL name."""
    source, merged = rows.source, []
    for name in using:
        pair = []
        where = name if "start" in name.meta else join.this
        for side, columns in (("left", left), ("right", right)):
            found = [c for c in columns if c.name.lower() == name.name.lower()]
            if not found:
                known = [c.name for c in columns]
                raise source.unknown("column", name.name, where, known, f"the {side} side of the join has")
            if len(found) > 1:
                candidates = " or ".join(f"{c.alias}.{c.name}" for c in found)
                raise source.ambiguous(
                    f"column {name.name} is ambiguous: it could be {candidates}", where, hint="use ON instead of USING"
                )
            pair.append(found[0])
        a, b = (c.cell.opened(source, where).expression for c in pair)
        if compared_in(a.type, b.type) is None:
            raise source.mismatch(f"{a.type} and {b.type} cannot be compared: column {name.name}", where)
        if a.type.padded and b.type.padded and a.type.length != b.type.length:
            raise source.unsupported(
                f"USING with {a.type} and {b.type}", where, hint="use ON, which pads the shorter of the two"
            )
        merged.append((pair[0], pair[1]))
    return merged


def _columns_of(rows: Rows, item: exp.Expr) -> list[str]:
    """The names of the columns that an item of FROM has."""
    return [c.name for c in _side(rows, item).scope.columns]


def _add_item(rows: Rows, item: exp.Expr) -> None:
    source = rows.source
    pivot = pivoted(source, item, lambda inner: _columns_of(rows, inner)) if rows.lowering.has_values else None
    if pivot is not None:
        _add_subquery(rows, pivot)
        for join in item.args.get("joins") or ():
            _add_join(rows, join)
        return
    if isinstance(item, exp.Table | exp.Lateral | exp.Unnest) and explode_item(rows, item):
        for join in item.args.get("joins") or ():
            _add_join(rows, join)
    elif isinstance(item, exp.Paren):
        _add_item(rows, item.this)
    elif any(map(is_outer, item.args.get("joins") or ())):
        inner = item.copy()
        inner.set("joins", None)
        _add_apart(rows, inner, item.args["joins"])
    elif isinstance(item, exp.Table):
        if isinstance(item.this, exp.Func):
            spanned = spanned_table(rows, item)
            if spanned is None:
                raise source.unsupported("table function", item, hint="join tables")
            _add_subquery(rows, spanned)
            for join in item.args.get("joins") or ():
                _add_join(rows, join)
            return
        refuse_clauses(source, item, ("this", "alias", "db", "catalog", "joins", "hints"))
        _add_table(rows, item)
        for join in item.args.get("joins") or ():
            _add_join(rows, join)
    elif isinstance(item, exp.Values) and rows.lowering.has_values:
        nested = exp.Subquery(this=values_query(source, item), alias=item.args.get("alias"))
        nested.meta.update(item.meta)
        _add_subquery(rows, nested)
    elif isinstance(item, exp.Subquery):
        refuse_clauses(source, item, ("this", "alias", "joins"))
        inner = item.this
        if isinstance(inner, exp.Table) or (
            isinstance(inner, exp.Subquery) and (inner.alias or inner.args.get("joins"))
        ):
            _add_nested(rows, item)
        else:
            _add_subquery(rows, item)
        for join in item.args.get("joins") or ():
            _add_join(rows, join)
    elif isinstance(item, exp.Lateral) and isinstance(item.this, exp.Subquery):
        _add_lateral(rows, item)
    else:
        words: dict[type[exp.Expr], str] = {exp.Values: "VALUES", exp.Unnest: "UNNEST", exp.Lateral: "LATERAL"}
        word = words.get(type(item), "this in FROM")
        raise source.unsupported(
            word, source.keyword(item, word), hint="put the rows into a table" if word == "VALUES" else "join tables"
        )


def _add_nested(rows: Rows, item: exp.Subquery) -> None:
    """A join in parentheses: with an alias, its inner names are hidden."""
    if not item.alias:
        _add_item(rows, item.this)
        return
    scope = rows.scope
    rows.scope = Scope(rows.source, scope.parent)
    _add_item(rows, item.this)
    columns = [(c.name, c.cell) for c in rows.scope.columns]
    rows.scope = scope
    _add_relation(rows, item, columns)


def _add_relation(rows: Rows, item: exp.Expr, columns: list[tuple[str, Cell]], name: str = "", db: str = "") -> None:
    """Bring columns into scope under the item's alias, renamed if it says t(a, b)."""
    alias = item.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        if len(alias.columns) != len(columns):
            raise rows.source.query(
                f"{alias.name or name} has {len(columns)} columns, and {len(alias.columns)} names are given",
                alias.columns[0],
                hint=f"its columns are {', '.join(n for n, _ in columns)}",
            )
        columns = [(new.name, cell) for new, (_, cell) in zip(alias.columns, columns, strict=True)]
    if isinstance(alias, exp.TableAlias) and not isinstance(alias.this, exp.Identifier | None):
        raise rows.source.unsupported("time travel", item, hint="a view is about the tables as they are now")
    shown = item.alias or name
    place = alias if isinstance(alias, exp.TableAlias) and alias.this is not None else item
    rows.places[shown.lower()] = place
    rows.scope.add(Relation(shown, columns, db), place)


def _add_table(rows: Rows, item: exp.Table) -> None:
    name, lowering = item.name, rows.lowering
    cte = rows.env.ctes.get(name.lower()) if not item.db else None
    if cte is not None:
        _add_cte(rows, item, cte)
        return
    full = ".".join(part.name for part in item.parts)
    table = lowering.schema.table(full)
    if table is None:
        known = [t.name for t in lowering.schema] + [c.name for c in rows.env.ctes.values()]
        raise lowering.source.unknown("table", full, item.parts[0], known, "there are")
    lowering.source.read.append((item, table.name))
    terms = rows.atom(table.name, item.alias or name, table.columns, item, named=True)
    columns = [(c.name, Cell(e, closed=c.closed)) for c, e in zip(table.columns, terms, strict=True)]
    _add_relation(rows, item, columns, name, item.db)


def _add_cte(rows: Rows, item: exp.Table, cte: Cte) -> None:
    source = rows.source
    if cte.stage is None:
        query = cte.query.copy()
        plain = _plain(query, rows.body.is_set)
        if plain is not None:
            inner = rows.lowering.inline(plain, cte.scope, rows.body, None)
            columns = inner.cells()
        else:
            result = rows.lowering.query(query, cte.scope)
            stage = rows.lowering.stage(result.body, cte.name, f"{_kind(query)} in WITH")
            cte.stage = (stage, result.names)
            columns = []
    if cte.stage is not None:
        columns = _read_stage(rows, *cte.stage, item.alias or cte.name, item)
    if cte.columns:
        if len(cte.columns) != len(columns):
            raise source.query(
                f"{cte.name} has {len(columns)} columns, and {len(cte.columns)} names are given", cte.columns[0]
            )
        columns = [(new.name, cell) for new, (_, cell) in zip(cte.columns, columns, strict=True)]
    _add_relation(rows, item, columns, cte.name)


def _read_stage(rows: Rows, stage: Stage, names: list[str], alias: str, where: exp.Expr) -> list[tuple[str, Cell]]:
    outputs = stage_columns(stage)
    inside = [Column(n, c.type, c.nullable) for n, c in zip(names, outputs, strict=True)]
    terms = rows.atom(stage.name, alias, inside, where, named=True)
    return [(name, Cell(term)) for name, term in zip(names, terms, strict=True)]


def _add_subquery(rows: Rows, item: exp.Subquery) -> None:
    plain = _plain(item.this, rows.body.is_set)
    again = item.copy() if plain is not None and is_windowed(plain) else item
    if plain is not None:
        try:
            inner = rows.lowering.inline(plain, rows.env, rows.body, rows.scope.parent)
        except UnsupportedError as error:
            if error.construct != WINDOWED:
                raise
            columns = _reading_around(rows, again, error)
        else:
            rows.absorb(inner)
            columns = inner.cells()
    else:
        try:
            result = rows.lowering.query(item.this.copy(), rows.env)
        except UnknownNameError as error:
            columns = _reading_around(rows, item, error)
        else:
            stage = rows.lowering.stage(result.body, item.alias or "subquery", f"{_kind(item.this)} in FROM")
            columns = _read_stage(rows, stage, result.names, item.alias or "subquery", item)
    _add_relation(rows, item, columns)


def _reading_around(rows: Rows, item: exp.Subquery, error: EverviewError) -> list[tuple[str, Cell]]:
    """The columns of a subquery in FROM that reads the query around the one that it is in."""
    around = rows.scope.parent
    if around is None or not any(around.has(column) for column in item.find_all(exp.Column)):
        raise error
    if rows.carried is None:
        raise rows.source.unsupported(NESTED, item, hint="join with it in the query whose columns it reads")
    return joined_beside(replace(rows, scope=around), item.this, item)


def _add_lateral(rows: Rows, item: exp.Lateral) -> None:
    """A subquery that reads what stands before it in FROM."""
    query = item.this.this
    plain = None if is_windowed(query) or _has_blocks(query) else _plain(query, rows.body.is_set)
    if plain is not None:
        inner = rows.lowering.inline(plain, rows.env, rows.body, rows.scope)
        rows.absorb(inner)
        columns = inner.cells()
    elif isinstance(query, exp.Select) and not is_cut(query):
        columns = lateral(rows, query, item)
    else:
        columns = joined_beside(rows, query, item)
    _add_relation(rows, item, columns)


def _has_blocks(query: exp.Expr) -> bool:
    """True if a SELECT has subqueries in FROM that are blocks of their own: these may read what the SELECT reads."""
    items = [query.args["from_"].this] if query.args.get("from_") else []
    items += [join.this for join in joins_of(query)]
    inner = [item.this for item in items if isinstance(item, exp.Subquery)]
    queries = [q for q in inner if isinstance(q, exp.Query)]
    return any(_plain(q, False) is None or is_windowed(q.unnest()) or _has_blocks(q.unnest()) for q in queries)


def _plain(query: exp.Expr, as_set: bool) -> exp.Select | None:
    """The SELECT, if it can be folded into the block that reads it: no grouping, and no DISTINCT that matters."""
    while isinstance(query, exp.Subquery) and not query.alias and not query.args.get("joins") and not is_cut(query):
        query = query.this
    if is_windowed(query) and not query.args.get("distinct") and not is_cut(query):
        assert isinstance(query, exp.Select)
        return query
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("having"):
        return None
    if needs_own_body(query):
        return None
    if (query.args.get("distinct") and not as_set) or is_cut(query):
        return None
    return None if any(True for e in query.expressions for _ in aggregates_in(e)) else query


def _kind(query: exp.Expr) -> str:
    if any(is_cut(q) for q in (query, query.unnest())):
        return "LIMIT subquery"
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        return f"{type(query).__name__.upper()} subquery"
    if isinstance(query, exp.Select) and needs_own_body(query) and not query.args.get("group"):
        return "subquery with an outer or anti join, or with values of subqueries,"
    return "DISTINCT subquery" if query.args.get("distinct") and not query.args.get("group") else "grouped subquery"
