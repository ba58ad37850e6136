"""Window functions: a SELECT over a stage that has one column more for each of them.

The rows that a SELECT with window functions is made of (after WHERE, GROUP BY and HAVING) become a block that gives all
columns that are needed; over it stand the window functions, partitioning by partitioning; and the SELECT's own list and
QUALIFY are a block that reads this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from everview.query.aggregates import SIMPLE, Counted, Ordered
from everview.query.terms import Expression, Var
from everview.query.types import DOUBLE, INT, DataType, Kind, common_type
from everview.query.view import Body, Output, SortKey, WindowCall, Windowed, group_key
from everview.sql.aggregate_spelling import aggregated
from everview.sql.aggregates import AggregateCall, is_aggregate, misfit, packed_type, read_aggregate
from everview.sql.domain import WINDOWED
from everview.sql.duckdb import hole, with_holes
from everview.sql.durations import duration
from everview.sql.names import Cell
from everview.sql.nodes import NUMBER, is_whole
from everview.sql.ordering import ordered
from everview.sql.session import Rows, Selected, stage_columns

if TYPE_CHECKING:
    from everview.sql.select import Lower

RANKING: Final = frozenset(("row_number", "rank", "dense_rank"))
"""Those whose value for a row depends on the rows before it alone."""
_PLAIN: Final[dict[str, tuple[bool, DataType]]] = {
    "row_number": (True, INT),
    "rank": (False, INT),
    "dense_rank": (False, INT),
    "percent_rank": (False, DOUBLE),
    "cume_dist": (False, DOUBLE),
}
"""Without arguments: whether it goes by place, and its type."""
_VALUES: Final = {
    "first_value": "first_value",
    "first": "first_value",
    "any_value": "first_value",
    "last_value": "last_value",
    "last": "last_value",
    "nth_value": "nth_value",
}
_SHIFTS: Final = ("lag", "lead")
_NAMES: Final = frozenset((*_PLAIN, *_VALUES, *_SHIFTS, "ntile"))
_STRUCTURE: Final = (exp.If, exp.Ordered, exp.Tuple, exp.Distinct)
"""Nodes that are no expressions themselves, but hold some."""
_NO_VALUES: Final = (exp.Identifier, exp.DataType, exp.Var, exp.Literal, exp.Boolean, exp.Null, exp.Interval)
_USUAL: Final = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_SLOT: Final = "slot"
Slot = tuple[bool, int]
"""A window function (True) or a column of the block below, by its number."""


def windows_in(select: exp.Expr) -> Iterator[exp.Window]:
    """The window functions of a SELECT's list and its QUALIFY."""
    qualify = select.args.get("qualify")
    for node in (*select.expressions, *([qualify.this] if qualify else [])):
        for inner in node.walk(prune=lambda n: isinstance(n, exp.Query)):
            if isinstance(inner, exp.Window):
                yield inner


def is_windowed(select: exp.Expr) -> bool:
    """True if a SELECT has window functions."""
    return isinstance(select, exp.Select) and (
        bool(select.args.get("qualify")) or any(True for _ in windows_in(select))
    )


def goes_by_place(select: exp.Expr) -> bool:
    """True unless it makes no difference which of several equal rows comes first."""
    return any(_goes_by_place(window) for window in windows_in(select))


def _goes_by_place(window: exp.Window) -> bool:
    name = str(_function_of(window).name).lower()
    spec = _spec(window)
    by_rows = spec is not None and str(spec.args.get("kind")).upper() == "ROWS"
    return by_rows or (name in _NAMES and _PLAIN.get(name, (True, INT))[0]) or bool(window.args.get("alias"))


def over_windows(
    lower: Lower, inner: Rows, outer: Rows, select: exp.Select, projections: list[tuple[exp.Expr, str]]
) -> list[tuple[exp.Expr, str, exp.Expr]]:
    """Put the window functions of a SELECT below ``outer``, which reads them and all else that its list needs.

    Gives the list and, last, QUALIFY if there is one, as ``outer`` reads it: each with its name and where it stands.
    """
    made = _Windows(lower, inner, select)
    wanted = [(_bare(node), name, node) for node, name in projections]
    qualify = select.args.get("qualify")
    if qualify is not None:
        condition = _with_aliases(inner, qualify.this.copy(), projections)
        if not any(isinstance(n, exp.Window) for n in condition.walk()) and not any(True for _ in windows_in(select)):
            raise lower.source.query(
                "QUALIFY needs a window function", lower.source.keyword(qualify, "QUALIFY"), hint="use WHERE or HAVING"
            )
        wanted.append((condition, "", qualify))
    found = [(made.without_windows(exp.Paren(this=node)).this, name, place) for node, name, place in wanted]
    for cell, slots in made.below(outer):
        for node in slots:
            node.meta["cell"] = cell
    return found


def _bare(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Alias) else node


def _with_aliases(rows: Rows, condition: exp.Expr, projections: list[tuple[exp.Expr, str]]) -> exp.Expr:
    """QUALIFY with what aliases of the SELECT list stand for, where no column has the name."""
    named = {node.alias.lower(): node.this for node, _ in projections if isinstance(node, exp.Alias)}
    holder = exp.Paren(this=condition)
    for column in list(holder.find_all(exp.Column)):
        meant = named.get(column.name.lower()) if not column.table else None
        if meant is not None and rows.scope.find(column) is None:
            column.replace(exp.Paren(this=meant.copy()))
    found: exp.Expr = holder.this
    return found


class _Windows:
    """The window functions of one SELECT, and the columns that they and the list need."""

    def __init__(self, lower: Lower, rows: Rows, select: exp.Select) -> None:
        self.lower = lower
        self.source = lower.source
        self.rows = rows
        self.named = {w.this.name.lower(): w for w in select.args.get("windows") or ()}
        self.calls: list[tuple[tuple[int, ...], WindowCall]] = []
        self.slots: dict[Slot, list[exp.Expr]] = {}
        self.carried = self._carried()
        if goes_by_place(select):
            self._add_inputs()

    def _carried(self) -> dict[Expression, int]:
        """The places of the values of the query around, for each of which there are partitions of its own."""
        rows = self.rows
        terms = rows.carried.terms if rows.carried is not None else {}
        found = {}
        for outer, term in terms.items():
            expression = term
            if rows.groups is not None:
                expression = Expression.of(group_key(rows.groups.key(rows.body, term, strict=True)), term.type)
            found[outer] = self._place(Selected(rows.body.name_of(term), expression, True, exp.Null()))
        return found

    def _add_inputs(self) -> None:
        """All columns that come in: where keys are equal, their values say what comes first."""
        rows = self.rows
        if rows.groups is None:
            for named in rows.scope.columns:
                if not named.cell.closed:
                    self._place(Selected(named.name, named.cell.expression, named.cell.strict, exp.Null()))
        else:
            for i, key in enumerate(rows.groups.written):
                found = Expression.of(group_key(i), key.type)
                self._place(Selected(f"key{i}", found, rows.groups.strict[i], exp.Null()))

    def _place(self, selected: Selected) -> int:
        """The place of a column of the block below, new or known."""
        if self.rows.groups is None and not self.rows.body.owns(selected.expression):
            raise self.source.unsupported(WINDOWED, selected.place, hint="join with the query in FROM instead")
        known = [o.expression for o in self.rows.outputs]
        if selected.expression in known:
            return known.index(selected.expression)
        self.rows.outputs.append(selected)
        return len(known)

    def column(self, node: exp.Expr) -> int:
        """The place of what an expression without window functions gives."""
        name = node.name if isinstance(node, exp.Column) else f"c{len(self.rows.outputs)}"
        return self._place(self.lower.output(self.rows, node, name, node))

    def type_of(self, place: int) -> DataType:
        """The type of a column of the block below."""
        return self.rows.outputs[place].expression.type

    # --- the SELECT list ---------------------------------------------------------------------------------------------

    def without_windows(self, node: exp.Expr) -> exp.Expr:
        """The node with columns of the stage in the place of window functions and of what else is computed below."""
        for value in list(node.args.values()):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, exp.Expr):
                    self._replace(child)
        return node

    def _replace(self, node: exp.Expr) -> None:
        if isinstance(node, exp.Window):
            node.replace(self._slot((True, self.call(node)), node))
        elif isinstance(node, _STRUCTURE) or any(isinstance(n, exp.Window) for n in node.walk()):
            self.without_windows(node)
        elif not isinstance(node, _NO_VALUES) and any(
            isinstance(n, exp.Column) or is_aggregate(n) for n in node.walk()
        ):
            node.replace(self._slot((False, self.column(node)), node))

    def _slot(self, slot: Slot, node: exp.Expr) -> exp.Expr:
        found = exp.Column(this=exp.to_identifier(node.name or "window", quoted=True))
        first = next((n for n in node.walk() if "start" in n.meta), None)
        if first is not None:
            found.meta.update({k: v for k, v in first.meta.items() if k in ("line", "col", "start", "end")})
            found.this.meta.update(found.meta)
        if NUMBER in node.meta:  # what it is the type of is the node that it stands for
            found.meta[NUMBER] = node.meta[NUMBER]
        self.slots.setdefault(slot, []).append(found)
        return found

    # --- window functions --------------------------------------------------------------------------------------------

    def call(self, window: exp.Window) -> int:
        """The number of a window function, new or known."""
        partition_by, order, spec = self._specification(window)
        partition = tuple(dict.fromkeys((*self.carried.values(), *map(self.column, partition_by))))
        keys: dict[int, SortKey] = {}
        for item in order:
            node, descending, nulls_first = ordered(item)
            place = self.column(node)
            keys.setdefault(place, SortKey(place, descending, nulls_first))
        made = self._made(window, tuple(keys.values()), spec)
        if (partition, made) not in self.calls:
            self.calls.append((partition, made))
        return self.calls.index((partition, made))

    def _specification(self, window: exp.Window) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None]:
        """PARTITION BY, ORDER BY and the frame, together with those of a named window that it builds on."""
        partition_by = list(window.args.get("partition_by") or ())
        order = list(window.args["order"].expressions) if window.args.get("order") else []
        spec = _spec(window)
        base = window.args.get("alias")
        if base is not None:
            named = self.named.get(base.name.lower())
            if named is None:
                known = [w.this.name for w in self.named.values()]
                raise self.source.unknown("window", base.name, base, known, "WINDOW has")
            above = self._specification(named)
            partition_by = partition_by or [p.copy() for p in above[0]]
            order = order or [o.copy() for o in above[1]]
            spec = spec or above[2]
        return partition_by, order, spec

    def _made(self, window: exp.Window, keys: tuple[SortKey, ...], spec: exp.Expr | None) -> WindowCall:
        call = window.this
        nulls = ""
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
            call = call.this
        name = str(call.name).lower() if isinstance(call, exp.Anonymous) else ""
        arguments = list(call.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            nulls = " IGNORE NULLS" if isinstance(arguments[0], exp.IgnoreNulls) else ""
            arguments = [arguments[0].this]
        if name not in _NAMES:
            return self._aggregate(window, call, keys, spec)
        if name in _PLAIN or name == "ntile" or name in _SHIFTS:
            if spec is not None and _frame(self, spec) != _USUAL:
                raise self.source.unsupported(f"{name} with a frame", spec, hint="leave out ROWS or RANGE")
            return self._by_order(name, call, arguments, keys, nulls)
        return self._value(name, call, arguments, keys, spec, nulls)

    def _by_order(
        self, name: str, call: exp.Expr, arguments: list[exp.Expr], keys: tuple[SortKey, ...], nulls: str
    ) -> WindowCall:
        if name in _PLAIN:
            self._count(call, arguments, 0, 0)
            by_place, type_ = _PLAIN[name]
            return WindowCall(name, f"{name}()", (), keys, "", by_place, type_)
        if name == "ntile":
            self._count(call, arguments, 1, 1)
            return WindowCall(name, f"ntile({self._whole(arguments[0], 1)})", (), keys, "", True, INT)
        self._count(call, arguments, 1, 3)
        column = self.column(arguments[0])
        type_, steps, further = self.type_of(column), 1, ""
        places = [column]
        if len(arguments) > 1:
            steps = self._whole(arguments[1], None)
        if len(arguments) > 2 and not isinstance(arguments[2], exp.Null):
            places.append(self.column(arguments[2]))
            other = common_type(type_, self.type_of(places[1]))
            if other is None or (other != type_ and not (other.is_numeric and type_.is_numeric)):
                raise self.source.mismatch(
                    f"{name} gives {type_}, and its default is {self.type_of(places[1])}", arguments[2], hint="CAST it"
                )
            type_, further = other, ", {1}"
        text = f"{name}({{0}}, {steps}{further}{nulls})"
        return WindowCall(name, text, tuple(places), keys, "", True, type_)

    def _value(
        self,
        name: str,
        call: exp.Expr,
        arguments: list[exp.Expr],
        keys: tuple[SortKey, ...],
        spec: exp.Expr | None,
        nulls: str,
    ) -> WindowCall:
        self._count(call, arguments, 2 if name == "nth_value" else 1, 2)
        number = ""
        if name == "nth_value":
            number = f", {self._whole(arguments[1], 1)}"
        elif len(arguments) == 2:
            if not isinstance(arguments[1], exp.Boolean):
                raise self.source.mismatch(f"{name} takes true or false as argument 2", arguments[1])
            nulls = " IGNORE NULLS" if arguments[1].this else nulls
        place = self.column(arguments[0])
        frame = _frame(self, spec, keys)
        by_place = frame.startswith("ROWS")
        order = "" if by_place else " {order}"
        text = f"{_VALUES[name]}({{0}}{number}{order}{nulls})"
        return WindowCall(_VALUES[name], text, (place,), keys, frame, by_place, self.type_of(place))

    def _aggregate(
        self, window: exp.Window, call: exp.Expr, keys: tuple[SortKey, ...], spec: exp.Expr | None
    ) -> WindowCall:
        found: AggregateCall | None = read_aggregate(self.source, call)
        if found is None:
            shown = call.name if isinstance(call, exp.Anonymous) else call.sql()
            raise self.source.unsupported(
                f"window function {shown}", window, message=f"{shown} is no window function that is supported"
            )
        made = found.function.made
        frame = _frame(self, spec, keys)
        by_place = frame.startswith("ROWS")
        if not isinstance(made, SIMPLE) or len(found.arguments) > 1:
            return self._computed(found, call, keys, frame)
        if found.value is None:
            return WindowCall("count", "count(*)", (), keys, frame, by_place, found.function.type_of(None) or INT)
        place = self.column(found.value.copy())
        argument = self.type_of(place)
        type_ = found.function.type_of(argument)
        if type_ is None:
            raise self.source.mismatch(f"{found.name} cannot take {argument}", found.argument or call)
        name = found.function.value
        if isinstance(made, Ordered):
            name = "max" if made.highest else "min"
        text = f"{name}(DISTINCT {{0}})" if found.distinct else f"{name}({{0}})"
        return WindowCall(name, text, (place,), keys, frame, by_place, type_)

    def _computed(self, found: AggregateCall, call: exp.Expr, keys: tuple[SortKey, ...], frame: str) -> WindowCall:
        """An aggregate whose value is computed of a list, or of a pair, that DuckDB finds over the frame."""
        places: list[int] = []
        group = call.find(exp.WithinGroup)
        if group is not None:
            by, _, _ = ordered(group.expression.expressions[0])
            if not any(by is node for node in found.arguments):  # it is said twice what is put in order
                by.replace(hole(0))
        for node in (*found.arguments, *([found.condition] if found.condition is not None else [])):
            node.replace(hole(len(places)))
            places.append(self.column(node))
        types = [self.type_of(place) for place in places[: len(found.arguments)]]
        wrong = misfit(found, types)
        if wrong is not None:
            raise self.source.mismatch(f"{found.name} takes {wrong[0]}", call)
        type_ = found.type_of(packed_type(found, types))
        assert type_ is not None
        nested = next((t for t in types if t.is_nested), None)
        if nested is not None and not isinstance(found.function.made, Counted):
            # DuckDB puts NULL behind all values within nested ones.
            hint = "aggregate in a subquery, and join it"
            raise self.source.unsupported(f"window function {found.name} of {nested}", call, hint=hint)
        inner: list[exp.Expr] = []

        def over(aggregate: exp.Expr) -> exp.Expr:
            inner.append(aggregate)
            return hole(0)

        value = aggregated(call, type_, over)
        reading = "" if value == hole(0) else with_holes(value)
        name, by_place = found.function.value, frame.startswith("ROWS")
        return WindowCall(name, with_holes(inner[0]), tuple(places), keys, frame, by_place, type_, reading)

    def _count(self, call: exp.Expr, arguments: list[exp.Expr], least: int, most: int) -> None:
        if not least <= len(arguments) <= most:
            wanted = str(least) if least == most else f"{least} to {most}"
            raise self.source.mismatch(f"{call.name} takes {wanted} arguments, and here are {len(arguments)}", call)

    def _whole(self, node: exp.Expr, least: int | None) -> int:
        """A number that stands in the text."""
        inner = node.this if isinstance(node, exp.Neg) else node
        if not is_whole(inner) or (least is not None and (inner is not node or int(inner.name) < least)):
            raise self.source.unsupported(
                "number of a window function", node, message="a whole number is expected here, written as it is"
            )
        return -int(inner.name) if inner is not node else int(inner.name)

    # --- the stage ---------------------------------------------------------------------------------------------------

    def below(self, outer: Rows) -> Iterator[tuple[Cell, list[exp.Expr]]]:
        """The cells of all that was put below, once the stage that has it is an atom of the block above."""
        if self.rows.correlations or self.rows.mixed or self.rows.outer_conditions:
            raise self.source.unsupported(WINDOWED, None, hint="join with the query in FROM instead")
        body: Body = self.rows.finish()
        places: dict[int, int] = {}
        for partition, ranking in _partitionings(self.calls):
            chosen = [i for i, (p, c) in enumerate(self.calls) if p == partition and _group(c) == ranking]
            calls = tuple(self.calls[i][1] for i in chosen)
            columns = list(body.columns)
            for i, call in zip(chosen, calls, strict=True):
                places[i] = len(columns)
                expression = Expression.of(Var(f"$window{len(columns)}"), call.type)
                columns.append(Output(_fresh(call.name, columns), expression, call.name not in (*_PLAIN, "ntile")))
            body = Windowed(body, partition, calls, tuple(columns))
        stage = next((s for s in self.lower.stages if s.body == body), None)
        if stage is None:
            stage = self.lower.stage(body, "window", "window functions")
        terms = outer.atom(stage.name, stage.name, stage_columns(stage), exp.Null())
        if self.rows.carried is not None:
            self.rows.carried.terms = {column: terms[place] for column, place in self.carried.items()}
        for (is_window, number), nodes in self.slots.items():
            place = places[number] if is_window else number
            yield Cell(terms[place]), nodes


def _partitionings(calls: list[tuple[tuple[int, ...], WindowCall]]) -> list[tuple[tuple[int, ...], object]]:
    """The partitionings, those of ranking functions by one order last: of these perhaps only the first are wanted."""
    found = list(dict.fromkeys((p, _group(c)) for p, c in calls))
    return sorted(found, key=lambda f: f[1] is not None)


def _group(call: WindowCall) -> object:
    return call.keys if call.name in RANKING else None


def _fresh(name: str, columns: list[Output]) -> str:
    taken = {c.name.lower() for c in columns}
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found


def _spec(window: exp.Expr) -> exp.Expr | None:
    spec = window.args.get("spec")
    return spec if isinstance(spec, exp.Expr) else None


def _function_of(window: exp.Window) -> exp.Expr:
    call = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        call = call.this
    found: exp.Expr = call
    return found


def _frame(windows: _Windows, spec: exp.Expr | None, keys: Sequence[SortKey] = ()) -> str:
    """A frame over rows in the order of some keys, as SQL; nothing for the usual one."""
    if spec is None:
        return ""
    kind = str(spec.args.get("kind")).upper()
    if kind not in ("ROWS", "RANGE") or spec.args.get("exclude"):
        raise windows.source.unsupported(f"{kind} frame", spec, hint="use ROWS or RANGE")
    key = windows.type_of(keys[0].column) if len(keys) == 1 else None
    start = _edge(windows, kind, spec.args.get("start"), spec.args.get("start_side"), key)
    end = _edge(windows, kind, spec.args.get("end") or "CURRENT ROW", spec.args.get("end_side"), key)
    return f"{kind} BETWEEN {start} AND {end}"


def _edge(windows: _Windows, kind: str, edge: object, side: object, key: DataType | None) -> str:
    if isinstance(edge, str):
        return edge.upper() if edge.upper() == "CURRENT ROW" else f"UNBOUNDED {str(side).upper()}"
    assert isinstance(edge, exp.Expr)
    if kind == "RANGE" and edge.find(exp.Interval) is not None:
        months, micros = duration(windows.source, edge)
        if min(months, micros) < 0:
            raise windows.source.query("a frame reaches a length of time that is not negative", edge)
        return f"INTERVAL '{months} months {micros} microseconds' {str(side).upper()}"
    if isinstance(edge, exp.Interval):
        raise windows.source.unsupported("frame", edge, hint="write a number of rows")
    is_fraction = isinstance(edge, exp.Literal) and not edge.is_string and not is_whole(edge)
    if kind == "RANGE" and is_fraction and key is not None and key.is_numeric and not key.is_integer:
        number = edge.name.rstrip("dDfF")
        shown = number if key.kind is Kind.DECIMAL else f"CAST({number} AS DOUBLE)"
        return f"{shown} {str(side).upper()}"
    return f"{windows._whole(edge, 0)} {str(side).upper()}"
