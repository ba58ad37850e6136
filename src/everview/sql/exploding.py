"""EXPLODE, POSEXPLODE, INLINE and UNNEST: in the SELECT list, in LATERAL VIEW and in FROM, a row an element.

What has been joined so far becomes a stage in which each row stands once for each element of its array, and the SELECT
goes on over that. A map is the array of its entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, INT, DataType, Kind
from everview.query.view import Exploded, Output
from everview.sql.apart import Kept, block, go_on, kept
from everview.sql.chains import conjuncts
from everview.sql.conditions import add_condition
from everview.sql.domain import EXPLODED
from everview.sql.grouping import is_grouped
from everview.sql.names import Cell, Relation
from everview.sql.nested import is_exploding, subqueries_in
from everview.sql.nodes import call as call_of
from everview.sql.nodes import cast, is_whole
from everview.sql.one_row import add_one_row
from everview.sql.session import Rows, written
from everview.sql.windows import is_windowed

_USUAL: Final = ("pos", "col", "key", "value")
"""What the columns are called that nobody gives a name."""


# --- where it may stand ----------------------------------------------------------------------------------------------


def explode_item(rows: Rows, item: exp.Expr, *, outer: bool = False) -> bool:
    """Read an item of FROM that gives a row an element of what stands before it; False if it is another one."""
    node = item if isinstance(item, exp.Unnest) else item.this
    ordinality: exp.Expr | bool | None = None
    if isinstance(node, exp.Unnest):
        ordinality = node.args.get("offset")
        node = _unnested(rows, item, node)
    is_range = isinstance(node, exp.Anonymous) and node.name.lower() == "range"
    if is_range:
        node = _range(rows, node)
    if not is_exploding(node):
        return False
    if not len(rows.body):
        add_one_row(rows, node)
    found = explode(rows, node, item, outer=outer)
    if ordinality:
        (_, position), *found = found
        number = Cell(Expression(("(", *position.expression.parts, " + 1)"), position.type), False)
        _add(rows, item, found, "unnest", [(getattr(ordinality, "name", "ordinality"), number)])
    else:
        _add(rows, item, [("id", cell) for _, cell in found] if is_range else found, node.name)
    return True


def _unnested(rows: Rows, item: exp.Expr, node: exp.Unnest) -> exp.Anonymous:
    """UNNEST, as Presto and Flink have it, in Spark's words.

    A map gives its entries, an array of structs their fields if all of them are given names, and WITH ORDINALITY says
    which element it is, the first being 1.
    """
    if len(node.expressions) != 1:
        raise rows.source.unsupported("UNNEST of several arrays", node, hint="write inline(arrays_zip(a, b))")
    (array,) = node.expressions
    type_ = rows.checker("UNNEST").check(array).type
    alias = item.args.get("alias")
    given = len(alias.columns) if isinstance(alias, exp.TableAlias) else 0
    name = "unnest"
    if node.args.get("offset"):
        name = "posexplode"
    elif type_.kind is Kind.MAP:
        name = "explode"
    elif type_.kind is Kind.ARRAY and type_.element.kind is Kind.STRUCT and given == len(type_.element.names) > 1:
        name = "inline"
    found = exp.Anonymous(this=name, expressions=[array])
    found.meta.update(array.meta)
    return found


def add_laterals(rows: Rows, select: exp.Select) -> None:
    """LATERAL VIEW, one after the other; conditions of WHERE that read nothing of theirs come before."""
    laterals = list(select.args.get("laterals") or ())
    if not laterals:
        return
    if not len(rows.body):
        add_one_row(rows, select.expressions[0])
    where = select.args.get("where")
    if where is not None:
        _add_early(rows, where, {name for lateral in laterals for name in _names_of(lateral)})
    for lateral in laterals:
        if _is_json_tuple(lateral.this):
            _add(rows, lateral, _json_fields(rows, lateral.this), "json_tuple")
            continue
        if not is_exploding(lateral.this):
            hint = "there are explode, posexplode and inline, each also with _outer, and json_tuple"
            raise rows.source.unsupported("LATERAL VIEW", lateral.this, hint=hint)
        found = explode(rows, lateral.this, lateral, outer=bool(lateral.args.get("outer")))
        _add(rows, lateral, found, lateral.this.name)


def explode_listed(rows: Rows, select: exp.Select) -> None:
    """In the SELECT list: such a call stands for the columns that it gives."""
    found = [e for e in select.expressions if is_exploding(_bare(e))]
    if not found:
        return
    generator = _bare(found[0])
    if len(found) > 1:
        raise rows.source.unsupported("several generators", _bare(found[1]), hint="use LATERAL VIEW for each of them")
    if is_grouped(select) or is_windowed(select):
        raise rows.source.unsupported(
            f"{generator.name.upper()} beside groups or window functions",
            generator,
            hint="make the array a column of a subquery in FROM, and explode that",
        )
    columns = explode(rows, generator, generator, outer=False)
    aliases = _aliases(rows, found[0], columns)
    listed: list[exp.Expr] = []
    for node in select.expressions:
        if node is not found[0]:
            listed.append(node)
            continue
        for (_, cell), name in zip(columns, aliases, strict=True):
            column = exp.column(exp.to_identifier(name, quoted=True))
            column.meta.update(generator.meta)
            column.meta["cell"] = cell
            listed.append(column)
    select.set("expressions", listed)


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias | exp.Aliases) else node


def _aliases(rows: Rows, node: exp.Expr, columns: list[tuple[str, Cell]]) -> list[str]:
    if isinstance(node, exp.Aliases):
        names = [e.name for e in node.expressions]
    elif isinstance(node, exp.Alias):
        names = [node.alias]
    else:
        return [name for name, _ in columns]
    if len(names) != len(columns):
        raise rows.source.query(
            f"{_bare(node).name} gives {len(columns)} columns, and {len(names)} names are given",
            node,
            hint=f"its columns are {', '.join(n for n, _ in columns)}",
        )
    return names


def _add(
    rows: Rows,
    item: exp.Expr,
    columns: list[tuple[str, Cell]],
    base: str,
    more: Sequence[tuple[str, Cell]] = (),
) -> None:
    """Have an item of FROM bring columns, for which it may give names; ``more`` of them have theirs."""
    alias = item.args.get("alias")
    given = list(alias.columns) if isinstance(alias, exp.TableAlias) else []
    if given and len(given) != len(columns):
        raise rows.source.query(
            f"{base} gives {len(columns)} columns, and {len(given)} names are given",
            given[0],
            hint=f"its columns are {', '.join(n for n, _ in columns)}",
        )
    if given:
        columns = [(new.name, cell) for new, (_, cell) in zip(given, columns, strict=True)]
    shown = alias.name if isinstance(alias, exp.TableAlias) else ""
    place = given[0] if given else item
    if shown:
        rows.places[shown.lower()] = place
    rows.scope.add(Relation(shown, [*columns, *more]), place)


def _names_of(lateral: exp.Expr) -> Iterator[str]:
    """The names that a LATERAL VIEW brings, in lower case."""
    alias = lateral.args.get("alias")
    yield from _USUAL
    if isinstance(alias, exp.TableAlias):
        yield alias.name.lower()
        yield from (c.name.lower() for c in alias.columns)


def _add_early(rows: Rows, where: exp.Where, given: set[str]) -> None:
    """The conditions that only read what stands before; the others stay."""
    known = {c.name.lower() for c in rows.scope.columns}
    late: list[exp.Expr] = []
    for condition in list(conjuncts(where.this)):
        columns = list(condition.find_all(exp.Column))
        names = {part.name.lower() for column in columns for part in column.parts}
        reads_known = columns and all(c.name.lower() in known and len(c.parts) <= 2 for c in columns)
        if reads_known and not names & given and not subqueries_in(condition):
            add_condition(rows, condition, "WHERE")
        else:
            late.append(condition)
    where.set("this", exp.and_(*late, copy=False) if late else exp.Boolean(this=True))


# --- what it is ------------------------------------------------------------------------------------------------------


def explode(rows: Rows, call: exp.Expr, where: exp.Expr, *, outer: bool) -> list[tuple[str, Cell]]:
    """Have each of the rows stand once for each element of an array; gives the columns that come with that."""
    name = call.name.lower()
    outer = outer or name.endswith("_outer")
    name = name.removesuffix("_outer")
    if not rows.lowering.has_values:
        raise rows.source.unsupported(
            f"{name.upper()} in a query that is answered once", call, hint="define a view by it, and read that"
        )
    if len(call.expressions) != 1:
        raise rows.source.mismatch(f"{name} takes 1 argument, and here are {len(call.expressions)}", call)
    array, type_, is_map = _array(rows, call.expressions[0], name)
    columns = kept(rows)
    inner = block(rows, rows.body, [*columns, Kept("array", array)])
    has_position = name == "posexplode"
    more = [Output(_fresh("pos", inner.outputs), Expression.of(Var("$position"), INT), outer)] if has_position else []
    element = Expression.of(Var("$element"), type_.element)
    outputs = (*inner.outputs, *more, Output(_fresh("element", inner.outputs), element))
    body = Exploded(inner, len(columns), outer, has_position, outputs)
    cells = go_on(rows, body, columns, "explode", "one row an element", where)
    places = [("pos", cell) for cell in cells[len(columns) + 1 : -1]]
    if is_map or name == "inline":
        fields = zip(type_.element.names, type_.element.parts, strict=True)
        return [*places, *((field, _field(cells[-1], field, of)) for field, of in fields)]
    return [*places, ("col", cells[-1])]


def _is_json_tuple(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.lower() == "json_tuple"


def _json_fields(rows: Rows, node: exp.Anonymous) -> list[tuple[str, Cell]]:
    """``json_tuple(text, 'a', 'b')`` has one row for each, with these fields of the text: nothing is taken apart."""
    text, *names = node.expressions or [exp.Null()]
    if not names:
        raise rows.source.mismatch("json_tuple takes a text and names of fields", node)
    found = []
    for i, name in enumerate(names):
        if not isinstance(name, exp.Literal) or not name.is_string or not name.name.isidentifier():
            raise rows.source.unsupported("json_tuple of other than literal names", name, hint="write 'name'")
        checker = rows.checker("json_tuple")
        field = call_of("get_json_object", text, exp.Literal.string(f"$.{name.name}"))
        found.append((f"c{i}", Cell(written(field, checker, checker.check(field).type), False)))
    return found


def _field(cell: Cell, name: str, type_: DataType) -> Cell:
    return Cell(Expression((*cell.expression.parts, ".`" + name.replace("`", "``") + "`"), type_), False)


def _fresh(name: str, columns: tuple[Output, ...]) -> str:
    taken = {c.name.lower() for c in columns}
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _array(rows: Rows, node: exp.Expr, name: str) -> tuple[Expression, DataType, bool]:
    """The array, as an expression over the rows, its type, and whether it has the entries of a map."""
    checker = rows.checker(name.upper())
    type_ = checker.check(node).type
    is_map = type_.kind is Kind.MAP
    if is_map and name in ("explode", "posexplode"):
        node = call_of("map_entries", node)
        type_ = checker.check(node).type
    if type_.kind is not Kind.ARRAY or (name == "inline" and type_.element.kind is not Kind.STRUCT):
        wanted = {"inline": "an array of structs", "unnest": "an array"}.get(name, "an array or a map")
        raise rows.source.mismatch(f"{name} takes {wanted}, and this is {type_}", node)
    found = written(node, checker, type_)
    if not rows.body.owns(found):
        raise rows.source.unsupported(
            EXPLODED,
            node,
            message=f"{name} of a column of another query is not supported here",
            hint="join with the query in FROM, and explode there",
        )
    return found, type_, is_map


def _range(rows: Rows, node: exp.Anonymous) -> exp.Expr:
    """``range(end)`` or ``range(start, end[, step])``: whole numbers, without the end."""
    numbers = [_whole(a) for a in node.expressions]
    whole = [n for n in numbers if n is not None]
    if not 1 <= len(numbers) <= 3 or len(whole) != len(numbers):
        raise rows.source.unsupported("range of other than literals", node, hint="explode(sequence(first, last))")
    start, end, step = (0, whole[0], 1) if len(whole) == 1 else (*whole, 1)[:3]
    count = len(range(start, end, step)) if step else 0
    if not count:
        raise rows.source.query("this range has no numbers", node, hint="range(start, end, step) goes up to the end")
    parts = [cast(exp.Literal.number(n), BIGINT) for n in (start, start + (count - 1) * step, step)]
    found = call_of("explode", call_of("sequence", *parts))
    found.meta.update(node.meta)
    return found


def _whole(node: exp.Expr) -> int | None:
    inner = node.this if isinstance(node, exp.Neg) else node
    if not is_whole(inner):
        return None
    return -int(inner.name) if inner is not node else int(inner.name)
