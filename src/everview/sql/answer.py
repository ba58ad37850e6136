"""A query that is answered once: checked and typed as a view's is, and then run by DuckDB as it is written.

ORDER BY, LIMIT and OFFSET mean something here, and FROM may be missing; what else a view refuses is refused here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from sqlglot import exp

from everview.query.catalogue import Answer, Read
from everview.query.schema import Schema
from everview.query.view import Output
from everview.sql.duckdb import duckdb_type, spell_out_query, translated_query
from everview.sql.nodes import is_whole
from everview.sql.ordering import CUTS
from everview.sql.select import Lower, output_name
from everview.sql.session import Environment, Rows, spell_names
from everview.sql.sql_text import SqlText

_ARRANGED: Final = ("order", *CUTS)
_INNER: Final = "everview$inner"
_ALL_ROWS: Final = 2**62
_COLUMN: Final = "everview$column"


class _Lower(Lower):
    """The lowering of a query that is answered: of what comes out, only names and types are used."""

    is_arranged: ClassVar[bool] = True
    needs_from: ClassVar[bool] = False
    has_values: ClassVar[bool] = False

    def check_order(self, rows: Rows, order: exp.Order) -> None:
        """An output by its number or name, or an expression over the rows or groups."""
        for item in order.expressions:
            key = item.this if isinstance(item, exp.Ordered) else item
            if is_whole(key):
                self._check_number(rows.outputs, key)
            elif not self._is_output(rows, key):
                self.output(rows, key, "", key)

    def _check_number(self, outputs: Sequence[object], key: exp.Expr) -> None:
        if not 1 <= int(key.name) <= len(outputs):
            raise self.source.query(
                f"ORDER BY {key.name}: the SELECT list has {len(outputs)} columns", key, hint="count from 1"
            )

    def _is_output(self, rows: Rows, key: exp.Expr) -> bool:
        if not isinstance(key, exp.Column) or key.table:
            return False
        found = {o.expression for o in rows.outputs if o.name.lower() == key.name.lower()}
        if len(found) > 1:
            raise self.source.ambiguous(
                f"{key.name} is ambiguous: {len(found)} output columns have the name", key, hint="order by a number"
            )
        return bool(found)


def read_answer(source: SqlText, statement: exp.Expr, schema: Schema, written: str) -> Answer:
    """Check a query over tables and views, and make ready what DuckDB needs to answer it."""
    query = _arranged(source, statement)
    lower = _Lower(source, schema, "query")
    found, read = spell_out_query(source, query, lambda copy: lower.query(copy, Environment()))
    outputs: Sequence[Output] = found.body.columns
    types = tuple(o.type for o in outputs)
    reads = _renamed(query, read, schema)
    names = [f'"{_COLUMN}{i}"' for i in range(len(types))]
    listed = ", ".join(f"CAST({n} AS {duckdb_type(t)}) AS {n}" for n, t in zip(names, types, strict=True))
    text = f"SELECT {listed} FROM ({translated_query(query)}) AS answer({', '.join(names)})"
    return Answer(text, tuple(found.names), types, reads, written)


def in_full(statement: exp.Expr) -> exp.Expr:
    """The query as one of a view, which has an order only if it has a LIMIT: one that takes all rows will do."""
    found = statement.copy()
    if found.args.get("order") and not any(found.args.get(name) for name in CUTS):
        found.set("limit", exp.Limit(expression=exp.Literal.number(_ALL_ROWS)))
    return found


def _renamed(query: exp.Expr, read: Sequence[tuple[exp.Expr, str]], schema: Schema) -> tuple[Read, ...]:
    """Have the query call what it reads by names of our own, under the names by which its columns are qualified."""
    wanted = None if _wants_all(query) else {i.name.lower() for i in query.find_all(exp.Identifier)}
    aliases: dict[str, str] = {}
    for node, name in {id(n): (n, name) for n, name in read}.values():
        alias = node.args.get("alias") or exp.TableAlias(this=node.this.copy())
        if not alias.this:
            alias.set("this", node.this.copy())
        aliases.setdefault(name, f"everview${len(aliases)}")
        node.set("this", exp.to_identifier(aliases[name], quoted=True))
        node.set("db", None)
        node.set("alias", alias)
    for column in query.find_all(exp.Column):
        column.set("db", None)
    found = []
    for name, alias_name in aliases.items():
        table = schema.table(name)
        assert table is not None
        columns = [c.name for c in table.columns if wanted is None or c.name.lower() in wanted]
        found.append(Read(alias_name, name, tuple(columns or [table.columns[0].name])))
    return tuple(found)


def _wants_all(query: exp.Expr) -> bool:
    """True if columns may be read that the text does not name, since they are given other names in FROM."""
    return any(a.columns and isinstance(a.parent, exp.Table) for a in query.find_all(exp.TableAlias))


# --- ORDER BY and LIMIT ----------------------------------------------------------------------------------------------


def _arranged(source: SqlText, query: exp.Expr) -> exp.Expr:
    """The query with every ORDER BY in a form that means in DuckDB what it means in Spark.

    Outputs have names. What Spark calls by one of those inside of an expression is spelled out. Unions, queries in
    parentheses and SELECT DISTINCT are ordered from outside, where only their outputs have names.
    """
    for select in list(query.find_all(exp.Select)):
        select.set("expressions", [_named(e) for e in select.expressions])
    for node in reversed(list(query.walk())):
        _check_cuts(source, node)
        if isinstance(node, exp.Select):
            node.set("hint", None)
        arranged = _one_by_one(node)
        if isinstance(node, exp.SetOperation | exp.Subquery) and any(node.args.get(a) for a in _ARRANGED):
            arranged = _from_outside(node)
        elif isinstance(node, exp.Select) and node.args.get("order"):
            arranged = _select_arranged(node)
        if arranged is not node:
            query = _put(arranged, node, query)
    return query


def _named(output: exp.Expr) -> exp.Expr:
    """An output under the name that Spark gives it; DuckDB would find another one."""
    if isinstance(output, exp.Alias | exp.Aliases | exp.Column | exp.Star):
        return output
    alias = exp.Alias(this=output, alias=exp.to_identifier(output_name(output), quoted=True))
    alias.meta.update(output.meta)
    return alias


def _one_by_one(node: exp.Expr) -> exp.Expr:
    """``(a, b) = (c, d)`` as ``a = c AND b = d``: DuckDB would find NULLs equal."""
    if not isinstance(node, exp.EQ) or not all(isinstance(s, exp.Tuple) for s in (node.this, node.expression)):
        return node
    pairs = list(zip(node.this.expressions, node.expression.expressions, strict=False))
    if len(pairs) != len(node.this.expressions) or len(pairs) != len(node.expression.expressions):
        return node
    equalities = [exp.EQ(this=a.copy(), expression=b.copy()) for a, b in pairs]
    return exp.paren(exp.and_(*equalities, copy=False), copy=False)


def _put(new: exp.Expr, old: exp.Expr, query: exp.Expr) -> exp.Expr:
    if old is query:
        return new
    nested = exp.Subquery(this=new) if isinstance(old.parent, exp.SetOperation) else new
    old.replace(nested)
    return query


def _check_cuts(source: SqlText, node: exp.Expr) -> None:
    """LIMIT and OFFSET take a number, and LIMIT ALL is none."""
    for name in CUTS:
        clause = node.args.get(name) if isinstance(node, exp.Query) else None
        if clause is None:
            continue
        amount = clause.args.get("expression")
        if isinstance(amount, exp.Var) and amount.name.upper() == "ALL":
            node.set(name, None)
        elif not isinstance(clause, exp.Limit | exp.Offset) or _is_no_count(clause, amount):
            word = name.upper()
            raise source.unsupported(
                f"{word} of an expression",
                source.clause(node, clause, (word, "FETCH")),
                message=f"{word} takes a whole number here",
                hint=f"write {word} 10",
            )


def _is_no_count(clause: exp.Expr, amount: exp.Expr | None) -> bool:
    """True for all but a plain number of rows: PERCENT and WITH TIES are DuckDB's, and not Spark's."""
    return amount is None or not is_whole(amount) or bool(clause.args.get("limit_options"))


def _from_outside(node: exp.Expr) -> exp.Select:
    """``node ORDER BY …`` as ``SELECT * FROM (node) ORDER BY …``."""
    inner = node.copy()
    for name in (*_ARRANGED, "with_"):
        inner.set(name, None)
    nested = inner if isinstance(inner, exp.Subquery) else exp.Subquery(this=inner)
    nested.set("alias", exp.TableAlias(this=exp.to_identifier(_INNER, quoted=True)))
    outer = exp.Select(expressions=[exp.Star()], from_=exp.From(this=nested))
    for name in (*_ARRANGED, "with_"):
        value = node.args.get(name)
        outer.set(name, value.copy() if value is not None else None)
    return outer


def _select_arranged(select: exp.Select) -> exp.Expr:
    order = select.args["order"]
    keys = [item.this for item in order.expressions]
    if not select.args.get("distinct"):
        for key in keys:
            spell_names(key, select)
        return select
    for key in keys:
        place = _place(key, select)
        if place is not None:
            key.replace(exp.Literal.number(place))
    return _from_outside(select)


def _place(key: exp.Expr, select: exp.Select) -> int | None:
    """The number of the output that a key is, if it is one as it is written."""
    for number, output in enumerate(select.expressions, 1):
        if isinstance(output, exp.Star) or (isinstance(output, exp.Column) and isinstance(output.this, exp.Star)):
            return None
        if key == (output.this if isinstance(output, exp.Alias) else output):
            return number
    return None
