"""Window functions: a SELECT over a stage that has one column more for each of them.

The rows that a SELECT with window functions is made of (after WHERE, GROUP BY and HAVING) become a block that gives all
columns that are needed; over it stand the window functions, partitioning by partitioning; and the SELECT's own list and
QUALIFY are a block that reads this. Aggregates over whole partitions are none of these: they are joined with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from everview.query.aggregates import SIMPLE, Counted, Ordered
from everview.query.terms import Const, Expression, Var
from everview.query.types import DOUBLE, INT, DataType, common_type
from everview.query.view import Body, Output, SortKey, Stage, WindowCall, Windowed, group_key
from everview.sql.aggregate_spelling import aggregated
from everview.sql.aggregates import AggregateCall, is_aggregate, misfit, packed_type, read_aggregate
from everview.sql.apart import whole
from everview.sql.domain import WINDOWED
from everview.sql.duckdb import hole, with_holes
from everview.sql.listed_names import with_aliases
from everview.sql.names import Cell
from everview.sql.nodes import standing_for
from everview.sql.ordering import ordered
from everview.sql.session import Rows, Selected, over_stage, stage_columns
from everview.sql.window_frames import USUAL, frame_of, is_whole_partition, spec_of, written_number
from everview.sql.window_totals import Total, add_totals, total_of

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


class _Slot(Enum):
    """What a column below is: of the rows, a window function, or an aggregate over the whole partition."""

    COLUMN = "column"
    WINDOW = "window"
    TOTAL = "total"


Slot = tuple[_Slot, int]
"""A column of what stands below, by its number."""


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
    spec = spec_of(window)
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
        condition = with_aliases(inner, qualify.this.copy(), projections)
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


class _Windows:
    """The window functions of one SELECT, and the columns that they and the list need."""

    def __init__(self, lower: Lower, rows: Rows, select: exp.Select) -> None:
        self.lower = lower
        self.source = lower.source
        self.rows = rows
        self.named = {w.this.name.lower(): w for w in select.args.get("windows") or ()}
        self.calls: list[tuple[tuple[int, ...], WindowCall]] = []
        self.totals: list[Total] = []
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
            node.replace(self._slot(self.call(node), node))
        elif isinstance(node, _STRUCTURE) or any(isinstance(n, exp.Window) for n in node.walk()):
            self.without_windows(node)
        elif not isinstance(node, _NO_VALUES) and any(
            isinstance(n, exp.Column) or is_aggregate(n) for n in node.walk()
        ):
            node.replace(self._slot((_Slot.COLUMN, self.column(node)), node))

    def _slot(self, slot: Slot, node: exp.Expr) -> exp.Expr:
        found = standing_for(node)
        self.slots.setdefault(slot, []).append(found)
        return found

    # --- window functions --------------------------------------------------------------------------------------------

    def call(self, window: exp.Window) -> Slot:
        """A window function, new or known."""
        partition_by, order, spec = self._specification(window)
        partition = tuple(dict.fromkeys((*self.carried.values(), *map(self.column, partition_by))))
        keys: dict[int, SortKey] = {}
        for item in order:
            node, descending, nulls_first = ordered(item)
            place = self.column(node)
            keys.setdefault(place, SortKey(place, descending, nulls_first))
        total = self._total(window, partition, tuple(keys.values()), spec)
        if total is not None:
            self.totals.append(total)
            return _Slot.TOTAL, len(self.totals) - 1
        made = self._made(window, tuple(keys.values()), spec)
        if (partition, made) not in self.calls:
            self.calls.append((partition, made))
        return _Slot.WINDOW, self.calls.index((partition, made))

    def _total(
        self, window: exp.Window, partition: tuple[int, ...], keys: tuple[SortKey, ...], spec: exp.Expr | None
    ) -> Total | None:
        """An aggregate over whole partitions; None if it is another function, or its frame may be a part of one."""
        if _name(window.this) in _NAMES or read_aggregate(self.source, window.this.copy()) is None:
            return None
        if not is_whole_partition(self._frame(spec, keys), is_ordered=bool(keys)):
            return None
        return total_of(window.this, partition, self.column)

    def _specification(self, window: exp.Window) -> tuple[list[exp.Expr], list[exp.Expr], exp.Expr | None]:
        """PARTITION BY, ORDER BY and the frame, together with those of a named window that it builds on."""
        partition_by = list(window.args.get("partition_by") or ())
        order = list(window.args["order"].expressions) if window.args.get("order") else []
        spec = spec_of(window)
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

    def _frame(self, spec: exp.Expr | None, keys: Sequence[SortKey] = ()) -> str:
        return frame_of(self.source, spec, self.type_of(keys[0].column) if len(keys) == 1 else None)

    def _made(self, window: exp.Window, keys: tuple[SortKey, ...], spec: exp.Expr | None) -> WindowCall:
        name = _name(window.this)
        call = window.this
        nulls = ""
        if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
            nulls = " IGNORE NULLS" if isinstance(call, exp.IgnoreNulls) else ""
            call = call.this
        arguments = list(call.expressions)
        if len(arguments) == 1 and isinstance(arguments[0], exp.IgnoreNulls | exp.RespectNulls):
            nulls = " IGNORE NULLS" if isinstance(arguments[0], exp.IgnoreNulls) else ""
            arguments = [arguments[0].this]
        if name not in _NAMES:
            return self._aggregate(window, call, keys, spec)
        if name in _PLAIN or name == "ntile" or name in _SHIFTS:
            if spec is not None and self._frame(spec) != USUAL:
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
            return WindowCall(name, f"ntile({written_number(self.source, arguments[0], 1)})", (), keys, "", True, INT)
        self._count(call, arguments, 1, 3)
        column = self.column(arguments[0])
        type_, steps, further = self.type_of(column), 1, ""
        places = [column]
        if len(arguments) > 1:
            steps = written_number(self.source, arguments[1], None)
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
            number = f", {written_number(self.source, arguments[1], 1)}"
        elif len(arguments) == 2:
            if not isinstance(arguments[1], exp.Boolean):
                raise self.source.mismatch(f"{name} takes true or false as argument 2", arguments[1])
            nulls = " IGNORE NULLS" if arguments[1].this else nulls
        place = self.column(arguments[0])
        frame = self._frame(spec, keys)
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
        frame = self._frame(spec, keys)
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

    # --- the stage ---------------------------------------------------------------------------------------------------

    def below(self, outer: Rows) -> Iterator[tuple[Cell, list[exp.Expr]]]:
        """The cells of all that was put below, once what has it is joined in the block above."""
        if self.rows.correlations or self.rows.mixed or self.rows.outer_conditions:
            raise self.source.unsupported(WINDOWED, None, hint="join with the query in FROM instead")
        columns = self._columns(outer)
        if self.rows.carried is not None:
            found = ((column, columns[_Slot.COLUMN, place]) for column, place in self.carried.items())
            self.rows.carried.terms = {column: cell.expression for column, cell in found}
        for slot, nodes in self.slots.items():
            yield columns[slot], nodes

    def _columns(self, outer: Rows) -> dict[Slot, Cell]:
        """All columns of what stands below, once ``outer`` joins it: the rows, and the groups beside them.

        Rows of one relation are read from there by both, all others are a stage, so that they are made once.
        """
        body: Body | None = None
        places: dict[int, int] = {}
        own = [Cell(o.expression, o.strict) for o in self.rows.outputs]
        is_one = self.rows.groups is None and self.rows.carried is None and len(self.rows.body) == 1
        given, columns = self.rows.body, own
        if self.totals and not is_one:
            if not own:
                self._place(Selected("one", Expression.of(Const(1), INT), True, exp.Null()))
            rows = self._stage(self.rows.finish(), "rows", "rows beside totals of their partitions")
            given, terms = whole(rows, self.rows)
            columns = list(map(Cell, terms))
            body = over_stage(rows, self.lower)
        if self.calls or not self.totals:
            windowed, places = self._windowed(body or self.rows.finish())
            own = self._atom(outer, self._stage(windowed, "window", "window functions"))
        elif is_one:
            self.lower.relations += 1
            outer.body.take_in(self.rows.body)
        else:
            own = self._atom(outer, rows)
        found: dict[Slot, Cell] = {(_Slot.COLUMN, i): cell for i, cell in enumerate(own)}
        found |= {(_Slot.WINDOW, i): own[place] for i, place in places.items()}
        totals = add_totals(self.lower, outer, given, columns, own, self.totals)
        return found | {(_Slot.TOTAL, i): cell for i, cell in enumerate(totals)}

    def _windowed(self, body: Body) -> tuple[Body, dict[int, int]]:
        """The rows with a column more for each window function, and which column each of them is."""
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
        return body, places

    def _stage(self, body: Body, base: str, purpose: str) -> Stage:
        known = next((s for s in self.lower.stages if s.body == body), None)
        return known or self.lower.stage(body, base, purpose)

    def _atom(self, outer: Rows, stage: Stage) -> list[Cell]:
        return [Cell(term) for term in outer.atom(stage.name, stage.name, stage_columns(stage), exp.Null())]


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


def _name(call: exp.Expr) -> str:
    """What a function is called; nothing of what is no call, or has more around it than what it does with NULL."""
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    return str(call.name).lower() if isinstance(call, exp.Anonymous) else ""


def _function_of(window: exp.Window) -> exp.Expr:
    call = window.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        call = call.this
    found: exp.Expr = call
    return found
