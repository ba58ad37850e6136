"""Spans of time to group by: window(…), session_window(…), and what Flink calls TUMBLE, HOP, CUMULATE and SESSION.

A span of fixed width is known of a row alone: it begins at a multiple of the slide. So ``window(ts, '10 minutes')`` is
a computed column, and where spans overlap, the rows are joined with the numbers of the spans that a moment is in. A
session goes on as long as no pause between two rows is longer than the gap: where the sessions of a partition begin is
found by window functions over its rows in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, TIMESTAMP, DataType, Kind
from everview.query.view import Body as AnyBody
from everview.query.view import Output, SortKey, WindowCall, Windowed
from everview.sql.apart import Kept, block, go_on, kept, whole
from everview.sql.conditions import add_condition
from everview.sql.durations import fixed_duration, interval_of
from everview.sql.grouping import key_node
from everview.sql.grouping_sets import has_sets
from everview.sql.names import Cell
from everview.sql.nodes import call, cast
from everview.sql.one_row import values_query
from everview.sql.session import Rows, stage_columns, written

MOST_SPANS: Final = 100
"""A moment may be in so many spans of one length."""
_FIXED: Final = ("window", "tumble", "hop", "cumulate")
_SESSIONS: Final = ("session_window", "session")
_SPANS: Final = (*_FIXED, *_SESSIONS)
_EDGES: Final = {
    f"{name}_{edge}": (name, edge) for name in ("tumble", "hop", "session") for edge in ("start", "end", "rowtime")
}
_KEYS: Final = (exp.Group, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
"""Where a key of GROUP BY stands."""
_TABLE_FUNCTIONS: Final = ("tumble", "hop", "cumulate")
_LAST: Final = "window_time"
_EPOCH: Final = exp.cast(exp.Literal.string("1970-01-01 00:00:00"), "TIMESTAMP_NTZ", dialect="spark")
Edges = tuple[exp.Expr, exp.Expr]
"""Where a span begins and where it ends."""


@dataclass(frozen=True)
class _Span:
    """What a call says: lengths are in microseconds, those of fixed width 0 for a session."""

    time: exp.Expr
    width: int = 0
    slide: int = 0
    start: int = 0
    gap: int = 0
    """The pause that ends a session."""
    grows: bool = False
    """True if all spans begin where the longest one does, and end a slide later each."""


def add_spans(rows: Rows, select: exp.Select) -> None:
    """Have what a SELECT says of spans of time stand for columns of its rows, which FROM and WHERE have made."""
    calls = [n for n in _own(select) if call_name(n) in _SPANS or call_name(n) in _EDGES]
    if not calls:
        return
    if not rows.lowering.has_values:
        raise rows.source.unsupported(
            "time window in a query that is answered once", calls[0], hint="define a view by it, and read that"
        )
    span = _read(rows, calls[0])
    for other in calls:
        if _read(rows, other) != span:
            raise rows.source.unsupported(
                "several time windows", other, hint="a SELECT goes by one: unite two of them, or join their results"
            )
    time, type_ = _moment(rows, span.time)
    add_condition(rows, exp.Not(this=exp.Is(this=time.copy(), expression=exp.Null())), "WHERE")
    edges = _session(rows, select, span, time) if span.gap else _fixed(rows, span, time, type_)
    _replace_calls(rows, select, edges)


def spanned_table(rows: Rows, item: exp.Table) -> exp.Subquery | None:
    """``TUMBLE(t, ts, width)``, ``HOP`` or ``CUMULATE(t, ts, step, width)`` in FROM as the SELECT that it means."""
    function: exp.Expr = item.this
    if call_name(function) == "table" and len(function.expressions) == 1:
        function = function.expressions[0]
    name = call_name(function)
    if name not in _TABLE_FUNCTIONS:
        return None
    table, *arguments = [_described(a) for a in function.expressions] or [exp.Null()]
    if len(arguments) < 2 or not isinstance(table, exp.Column):
        raise rows.source.mismatch(
            f"{name.upper()} takes a table, its column of time, and lengths: TUMBLE(t, ts, INTERVAL 10 MINUTES)", item
        )
    span = call(name, *arguments)
    span.meta.update(function.meta)
    columns: list[exp.Expr] = [exp.Column(this=exp.Star(), table=table.this.copy())]
    for field, shown in (("start", "window_start"), ("end", "window_end")):
        columns.append(exp.alias_(exp.Dot(this=span.copy(), expression=exp.to_identifier(field)), shown, quoted=True))
    columns.append(exp.alias_(call(_LAST, span), _LAST, quoted=True))
    source = exp.Table(this=table.this.copy(), db=table.args.get("table"))
    alias = item.args.get("alias")
    found = exp.Subquery(this=exp.Select(expressions=columns, from_=exp.From(this=source)), alias=alias)
    found.meta.update(item.meta)
    return found


def call_name(node: exp.Expr) -> str:
    """The name of a function that is called, in lower case; nothing for what is no call."""
    return str(node.name).lower() if isinstance(node, exp.Anonymous) else ""


def _described(node: exp.Expr) -> exp.Expr:
    """A column of time, which Flink wants as DESCRIPTOR(ts)."""
    return node.expressions[0] if call_name(node) == "descriptor" and len(node.expressions) == 1 else node


def _own(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in a SELECT behind its FROM and WHERE, without its subqueries."""
    for name in ("expressions", "group", "having", "qualify", "order"):
        found = select.args.get(name)
        for node in found if isinstance(found, list) else [found] if found is not None else []:
            yield from node.walk(prune=lambda n: isinstance(n, exp.Query))


# --- reading a call ---------------------------------------------------------------------------------------------------


def _read(rows: Rows, node: exp.Expr) -> _Span:
    source, name = rows.source, call_name(node)
    name = _EDGES[name][0] if name in _EDGES else name
    time, *arguments = node.expressions or [exp.Null()]
    least, most = {"hop": (2, 3), "cumulate": (2, 3), "tumble": (1, 2), "window": (1, 3)}.get(name, (1, 1))
    if not least <= len(arguments) <= most:
        wanted = f"{least + 1} to {most + 1}" if least < most else str(least + 1)
        raise source.mismatch(f"{name} takes {wanted} arguments, and here are {len(node.expressions)}", node)
    lengths = [fixed_duration(source, a) for a in arguments]
    if min(lengths[:1] if name == "tumble" else lengths[:2]) <= 0:
        raise source.mismatch("a window is longer than nothing", node)
    if name in _SESSIONS:
        return _Span(_described(time), gap=lengths[0])
    if name in ("hop", "cumulate"):  # Flink has the slide first
        lengths[:2] = reversed(lengths[:2])
    elif name == "tumble":
        lengths.insert(1, lengths[0])
    width, slide, start = (*lengths, *(lengths[0], 0)[len(lengths) - 1 :])
    if slide > width:
        raise source.mismatch("the window slides by more than its length: there would be rows between two", node)
    if -(-width // slide) > MOST_SPANS:
        raise source.too_large(
            f"a moment would be in more than {MOST_SPANS} windows", node, hint="let the window slide by more"
        )
    if name == "cumulate" and width % slide:
        raise source.mismatch("the length of CUMULATE is a multiple of its step", node)
    return _Span(
        _described(time), width, slide, start % (width if name == "cumulate" else slide), 0, name == "cumulate"
    )


def _moment(rows: Rows, node: exp.Expr) -> tuple[exp.Expr, DataType]:
    """What says when a row was, and its type: a date is its first moment."""
    type_ = rows.checker("a time window").check(node).type
    if type_.kind is Kind.DATE:
        return cast(node, TIMESTAMP), TIMESTAMP
    if type_.kind not in (Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        raise rows.source.mismatch(f"a time window goes by a date or timestamp, and this is {type_}", node)
    return node, type_


# --- spans of fixed width ---------------------------------------------------------------------------------------------


def _fixed(rows: Rows, span: _Span, time: exp.Expr, type_: DataType) -> Edges:
    """Where the span of a row begins and ends."""
    is_plain = type_.kind is Kind.TIMESTAMP
    since = call("unix_micros", time) if is_plain else call("timestampdiff", exp.column("MICROSECOND"), _EPOCH, time)
    if span.start:
        since = exp.Sub(this=since, expression=_number(span.start))
    past = call("pmod", since, _number(span.width if span.grows else span.slide))
    numbers = _numbers(rows, -(-span.width // span.slide))
    if numbers is not None and not span.grows:
        past = exp.Add(this=past, expression=exp.Mul(this=numbers, expression=_number(span.slide)))
    if is_plain:
        begin = call("timestamp_micros", exp.Sub(this=call("unix_micros", time), expression=exp.Paren(this=past)))
    else:
        begin = call("timestampadd", exp.column("MICROSECOND"), exp.Neg(this=exp.Paren(this=past)), time)
    begin = _column(rows, begin)
    if span.grows and numbers is not None:
        length = exp.Mul(this=exp.paren(exp.Add(this=numbers, expression=_number(1))), expression=_number(span.slide))
        end: exp.Expr = _column(rows, call("timestampadd", exp.column("MICROSECOND"), length, begin))
        add_condition(rows, exp.LT(this=time.copy(), expression=end.copy()), "WHERE")
        return begin, end
    end = exp.Add(this=begin.copy(), expression=interval_of(span.width))
    if span.width % span.slide:
        add_condition(rows, exp.LT(this=time.copy(), expression=exp.Paren(this=end.copy())), "WHERE")
    return begin, end


def _numbers(rows: Rows, count: int) -> exp.Expr | None:
    """A column of the numbers of the spans that a moment is in, with which rows are joined; None if it is in one."""
    if count == 1:
        return None
    lowering = rows.lowering
    values = exp.Values(expressions=[exp.Tuple(expressions=[cast(_number(i), BIGINT)]) for i in range(count)])
    found = lowering.query(values_query(rows.source, values), rows.env)
    stage = next((s for s in lowering.stages if s.body == found.body), None)
    if stage is None:
        stage = lowering.stage(found.body, "spans", "the numbers of the windows that a moment is in")
    (term,) = rows.atom(stage.name, "spans", stage_columns(stage), exp.Null())
    return _standing_for(Cell(term))


# --- sessions ---------------------------------------------------------------------------------------------------------


def _session(rows: Rows, select: exp.Select, span: _Span, time: exp.Expr) -> Edges:
    """Where the session of a row begins, and as an aggregate where it ends: the gap after its last row."""
    group = select.args.get("group")
    if group is None or has_sets(group):
        raise rows.source.unsupported(
            "session window without groups", span.time, hint="GROUP BY session_window(ts, '5 minutes') and further keys"
        )
    keys = [_written(rows, k) for k in _further_keys(rows, select)]
    moment = _written(rows, time)
    columns = list({k.expression: k for k in (*kept(rows), *keys, moment)}.values())
    places = {column.expression: i for i, column in enumerate(columns)}
    at, partition = places[moment.expression], tuple(dict.fromkeys(places[k.expression] for k in keys))
    before = _over_partitions(block(rows, rows.body, columns), partition, at, "lag", "lag({0}, 1)", at)
    body, terms = whole(rows.lowering.stage(before, "before", "the row before each in its partition"), rows)
    carried = [Kept(c.name, term) for c, term in zip(before.columns[: len(columns)], terms, strict=False)]
    begins = _begins(rows, terms[at], terms[-1], interval_of(span.gap))
    marked = block(rows, body, [*carried, Kept("begins", begins, False)])
    text = "last_value({0} IGNORE NULLS)"
    sessions = _over_partitions(marked, partition, at, "last_value", text, len(columns))
    cells = go_on(rows, sessions, columns, "session", "sessions: rows of a partition without a longer pause", select)
    last = exp.Anonymous(this="max", expressions=[_standing_for(cells[at])])
    return _standing_for(cells[-1]), exp.Add(this=last, expression=interval_of(span.gap))


def _further_keys(rows: Rows, select: exp.Select) -> list[exp.Expr]:
    """The keys of GROUP BY beside the session: sessions are those of the rows that agree in them."""
    listed = list(select.expressions)
    named = {e.alias.lower() for e in listed if isinstance(e, exp.Alias) and call_name(e.this) in _SESSIONS}
    found = []
    for item in select.args["group"].expressions:
        for node in item.expressions if isinstance(item, exp.Tuple) else [item.unnest()]:
            key = key_node(rows, node, listed)
            if call_name(key) not in _SESSIONS and not _is_named(rows, node, {*named, *_SESSIONS}):
                found.append(key)
    return found


def _is_named(rows: Rows, node: exp.Expr, names: set[str]) -> bool:
    """True if a plain name means a span of the list, as no column has it."""
    is_plain = isinstance(node, exp.Column) and not node.table
    return is_plain and node.name.lower() in names and rows.scope.find(node) is None  # type: ignore[arg-type]


def _written(rows: Rows, node: exp.Expr) -> Kept:
    checker = rows.checker("GROUP BY")
    typed = checker.check(node)
    return Kept("key", written(node, checker, typed.type), typed.strict)


def _begins(rows: Rows, moment: Expression, before: Expression, gap: exp.Interval) -> Expression:
    """When a row is, if a session begins with it: there is none before it, or the pause is longer than the gap."""
    own, last = _standing_for(Cell(moment)), _standing_for(Cell(before, False))
    later = exp.GT(this=own.copy(), expression=exp.Add(this=last.copy(), expression=gap))
    is_first = exp.Or(this=exp.Is(this=last, expression=exp.Null()), expression=later)
    return _written(rows, exp.Case(ifs=[exp.If(this=is_first, true=own)])).expression


def _over_partitions(body: AnyBody, partition: tuple[int, ...], time: int, name: str, text: str, of: int) -> Windowed:
    """Rows with one window function over their partitions in the order of time."""
    type_ = body.columns[of].type
    window = WindowCall(name, text, (of,), (SortKey(time),), "", name == "lag", type_)
    expression = Expression.of(Var(f"$window{len(body.columns)}"), type_)
    return Windowed(body, partition, (window,), (*body.columns, Output(f"session_{name}", expression)))


# --- what stands for them ---------------------------------------------------------------------------------------------


def _replace_calls(rows: Rows, select: exp.Select, edges: Edges) -> None:
    """Put columns in the place of calls, of their fields, and of names that mean them."""
    begin, end = edges
    items = [e for e in select.expressions if isinstance(e, exp.Alias) and call_name(e.this) in _SPANS]
    names = {*_SPANS, *(e.alias.lower() for e in items)}
    names -= {r.alias.lower() for r in rows.scope.relations}
    for node in list(_own(select)):
        found = _meant(rows, node, names, begin, end)
        if found is None:
            continue
        if isinstance(node.parent, _KEYS):
            found = begin
        elif node.parent is select:
            shown = node.expression.name if isinstance(node, exp.Dot) else node.name.lower()
            found = exp.alias_(found, shown, quoted=True)
        found = found.copy()
        found.meta.update({k: v for k, v in node.meta.items() if k in ("line", "col", "start", "end")})
        node.replace(found)


def _meant(rows: Rows, node: exp.Expr, names: set[str], begin: exp.Expr, end: exp.Expr) -> exp.Expr | None:
    """What a node means, if it is a span, or one of its edges."""
    edges = {"start": begin, "end": exp.Paren(this=end)}
    name = call_name(node)
    name, edge = _EDGES.get(name, (name, None))
    if name == _LAST or edge == "rowtime":
        return exp.Paren(this=exp.Sub(this=edges["end"].copy(), expression=interval_of(1)))
    if edge is not None:
        return edges[edge]
    if isinstance(node, exp.Dot) and call_name(node.this) in _SPANS:
        return _edge(rows, node, node.expression.name, edges)
    if isinstance(node, exp.Column) and node.table.lower() in names:
        return _edge(rows, node, node.name, edges)
    if name in _SPANS or _is_named(rows, node, names):
        if isinstance(node.parent, exp.Dot) or call_name(node.parent or node) == _LAST:
            return None
        parts = [exp.Literal.string("start"), edges["start"], exp.Literal.string("end"), edges["end"]]
        return call("named_struct", *parts)
    return None


def _edge(rows: Rows, node: exp.Expr, field: str, edges: Mapping[str, exp.Expr]) -> exp.Expr:
    found = edges.get(field.lower())
    if found is None:
        raise rows.source.unknown("field", field, node, list(edges), "a time window has")
    return found


def _number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def _column(rows: Rows, node: exp.Expr) -> exp.Expr:
    """A node that stands for an expression over the rows."""
    found = _written(rows, node)
    return _standing_for(Cell(found.expression, found.strict))


def _standing_for(cell: Cell) -> exp.Expr:
    found = exp.Column(this=exp.to_identifier("everview$span", quoted=True))
    found.meta["cell"] = cell
    return found
