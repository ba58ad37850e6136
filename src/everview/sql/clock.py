"""Conditions on the clock: ``ts > now() - INTERVAL 7 DAYS``, in WHERE and ON.

One side is made of columns of one relation, the other of now() and constants. Whose rows these are is then a stage that
has only those whose time it is (``Timed``), which come and go by the clock; whatever the query does with them follows
from their coming and going, as it does for any rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sqlglot import exp

from everview.errors import EverviewError
from everview.query.clock import DAY, ClockBound, Shift, Unit
from everview.query.terms import Expression, Var
from everview.query.types import Kind
from everview.query.view import Block, Output, Timed
from everview.sql.body import Body
from everview.sql.durations import MICROSECONDS, MONTHS, duration
from everview.sql.functions.elsewhere import CLOCK
from everview.sql.nested import bare
from everview.sql.nodes import call, is_whole
from everview.sql.session import ClockCondition, Rows, written

_DATES: Final = ("current_date", "curdate")
_MOST: Final = 12 * 10_000
"""So many months a constant may be at most, or their days: rows have years up to 9999."""
_TURNED: Final[dict[type[exp.Expr], type[exp.Expr]]] = {
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.EQ: exp.EQ,
}
_OPERATORS: Final[dict[type[exp.Expr], tuple[str, ...]]] = {
    exp.LT: ("<",),
    exp.LTE: ("<=",),
    exp.GT: (">",),
    exp.GTE: (">=",),
    exp.EQ: ("<=", ">="),
}
_OTHERWISE: Final[dict[type[exp.Expr] | type[None], type[exp.Expr]]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
}
_MIDNIGHT: Final = Shift(Unit.BEGIN, DAY)
_BEGINS: Final = {
    **{name: Shift(Unit.BEGIN, MICROSECONDS[name]) for name in ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND")},
    **{name: Shift(Unit.BEGIN_OF_MONTHS, months) for name, months in MONTHS.items()},
}
"""What DATE_TRUNC takes."""
HINT: Final = "write ts > now() - INTERVAL 7 DAYS: columns of one table, compared with now() and what is added to it"


def reads_clock(rows: Rows, node: exp.Expr) -> bool:
    """True if now(), or the like, stands in an expression."""
    return _clock_in(rows, node) is not None


def _clock_in(rows: Rows, node: exp.Expr) -> exp.Expr | None:
    """Where it stands first; what stands in a subquery is that one's own affair."""
    walk = node.walk(prune=lambda n: isinstance(n, exp.Query))
    return next((n for n in walk if _is_clock(n) and not _is_named_so(rows, n)), None)


def _is_clock(node: exp.Expr) -> bool:
    if isinstance(node, exp.CurrentDate | exp.CurrentTimestamp):
        return True
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in CLOCK and not node.expressions
    return isinstance(node, exp.Column) and not node.table and node.name.lower() in CLOCK


def _is_named_so(rows: Rows, node: exp.Expr) -> bool:
    """True for a column that has such a name."""
    return isinstance(node, exp.Column) and any(scope.find(node) is not None for scope in rows.scope.outward())


def comparisons(node: exp.Expr) -> Iterator[exp.Expr]:
    """``a BETWEEN b AND c`` as two comparisons, NOT of one as the other one; anything else as it is."""
    node = bare(node)
    if isinstance(node, exp.Between):
        yield exp.GTE(this=node.this.copy(), expression=node.args["low"])
        yield exp.LTE(this=node.this, expression=node.args["high"])
        return
    inner = bare(node.this) if isinstance(node, exp.Not) else None
    other = _OTHERWISE.get(type(inner))
    yield node if inner is None or other is None else other(this=inner.this, expression=inner.expression)


def _apart(rows: Rows, node: exp.Expr) -> exp.Expr:
    """``now() - ts < INTERVAL 7 DAYS`` as ``now() - INTERVAL 7 DAYS < ts``, and the like."""
    left, right = bare(node.this), bare(node.expression)
    if isinstance(left, exp.Interval) or is_whole(left):
        left, right, kind = right, left, _TURNED[type(node)]
    else:
        kind = type(node)
    is_days = isinstance(left, exp.Anonymous) and left.name.lower() == "datediff" and len(left.expressions) == 2
    if is_days and is_whole(right):
        later, earlier = left.expressions
        length: exp.Expr = exp.Interval(this=exp.Literal.string(right.name), unit=exp.Var(this="DAY"))
        later, earlier = (call("to_date", side) for side in (later, earlier))
    elif isinstance(left, exp.Sub) and isinstance(right, exp.Interval) and not duration(rows.source, right)[0]:
        later, earlier, length = left.this, left.expression, right
    else:
        return node
    if reads_clock(rows, later):
        return kind(this=exp.Sub(this=later.copy(), expression=length.copy()), expression=earlier.copy())
    return kind(this=later.copy(), expression=exp.Add(this=earlier.copy(), expression=length.copy()))


def add_clock_condition(rows: Rows, node: exp.Expr, place: str) -> None:
    """Have the rows of a relation be only those whose time it is."""
    source = rows.source
    if not rows.lowering.has_values:
        raise _refused(rows, node, "now() in a query that is answered once", "write the time itself, or define a view")
    kind = type(node)
    if kind not in _TURNED:
        raise _refused(rows, node, "now() in such a condition", HINT)
    node = _apart(rows, node)
    kind = type(node)
    sides = node.this, node.args["expression"]
    at = [i for i, side in enumerate(sides) if reads_clock(rows, side)]
    if len(at) != 1:
        raise _refused(rows, node, "now() on both sides of a comparison", HINT)
    clock, time = bare(sides[at[0]]), bare(sides[1 - at[0]])
    shifts, _ = _shifted(rows, clock)
    checker = rows.checker(place)
    type_ = checker.check(time).type
    if type_.kind not in (Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ):
        raise source.mismatch(f"{type_} is compared with now()", time, hint="CAST it to TIMESTAMP, or to DATE")
    expression = written(time, checker, type_)
    atom = rows.body.atom_of(expression) if expression.variables else None
    if atom is None:
        raise _refused(
            rows,
            node,
            "now() compared with other than columns of one table",
            "compare columns of one table of this FROM; of others, filter in a subquery in FROM",
        )
    if isinstance(expression.term, Var):
        rows.body.rule_out_null(expression.term)
    for operator in _OPERATORS[kind if at[0] == 1 else _TURNED[kind]]:
        _let_go(rows, atom, expression, operator, shifts)


def _refused(rows: Rows, node: exp.Expr, construct: str, hint: str) -> EverviewError:
    place = _clock_in(rows, node) or node
    message = f"{construct} is not supported: a view follows the clock only where it says which rows it reads"
    return rows.source.unsupported(construct, place, message=message, hint=hint)


# --- now() and what is added to it -----------------------------------------------------------------------------------


def _shifted(rows: Rows, node: exp.Expr) -> tuple[list[Shift], bool]:
    """What is done to now(), step by step, and whether a DATE comes out."""
    node = bare(node)
    if _is_clock(node):
        is_date = isinstance(node, exp.CurrentDate) or node.name.lower() in _DATES
        return ([_MIDNIGHT], True) if is_date else ([], False)
    if isinstance(node, exp.Add | exp.Sub):
        return _added(rows, node)
    if isinstance(node, exp.Cast) and node.to.this in (exp.DType.DATE, exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ):
        shifts, _ = _shifted(rows, node.this)
        is_date = node.to.this is exp.DType.DATE
        return _begun(shifts) if is_date else shifts, is_date
    if isinstance(node, exp.Anonymous):
        found = _called(rows, node)
        if found is not None:
            return found
    raise _refused(rows, node, "what is made of now() here", HINT)


def _added(rows: Rows, node: exp.Add | exp.Sub) -> tuple[list[Shift], bool]:
    left, right = bare(node.this), bare(node.expression)
    if isinstance(node, exp.Add) and not reads_clock(rows, left):
        left, right = right, left
    if reads_clock(rows, right):
        raise _refused(rows, right, "what is made of now() here", HINT)
    shifts, is_date = _shifted(rows, left)
    sign = -1 if isinstance(node, exp.Sub) else 1
    if is_date and (days := _whole(right)) is not None:
        return [*shifts, *_checked(rows, right, 0, sign * days * DAY)], True
    if not isinstance(right, exp.Interval):
        raise _refused(rows, node, "what is made of now() here", HINT)
    months, micros = duration(rows.source, right)
    shifts = [*shifts, *_checked(rows, right, sign * months, sign * micros)]
    unit = str(right.args.get("unit") or "").upper()
    return shifts, is_date and (bool(months) or unit.startswith(("DAY", "WEEK")))


def _called(rows: Rows, node: exp.Anonymous) -> tuple[list[Shift], bool] | None:
    """A function of what is made of now(), and whether it gives a DATE; None if it is none that is known here."""
    name, arguments = node.name.lower(), node.expressions
    if len(arguments) == 2 and name == "date_trunc":
        begin = _BEGINS.get(arguments[0].name.upper())
        return None if begin is None else ([*_shifted(rows, arguments[1])[0], begin], False)
    if len(arguments) == 3 and name == "timestampadd":
        unit, number = arguments[0].name.upper(), _whole(arguments[1])
        months, micros = MONTHS.get(unit, 0), MICROSECONDS.get(unit, 0)
        if number is None or not months + micros:
            return None
        return [*_shifted(rows, arguments[2])[0], *_checked(rows, node, months * number, micros * number)], False
    if name in ("to_date", "date") and len(arguments) == 1:
        return _begun(_shifted(rows, arguments[0])[0]), True
    number = _whole(arguments[1]) if len(arguments) == 2 else None
    if number is None or name not in ("date_add", "dateadd", "date_sub", "add_months"):
        return None
    day = _begun(_shifted(rows, arguments[0])[0])
    if name == "add_months":
        return [*day, *_checked(rows, node, number, 0)], True
    return [*day, *_checked(rows, node, 0, (-number if name == "date_sub" else number) * DAY)], True


def _begun(shifts: list[Shift]) -> list[Shift]:
    """The beginning of the day of what comes out."""
    return shifts if shifts and shifts[-1] == _MIDNIGHT else [*shifts, _MIDNIGHT]


def _whole(node: exp.Expr) -> int | None:
    """A number without a point, with a sign or without."""
    node = bare(node)
    if isinstance(node, exp.Neg):
        inner = _whole(node.this)
        return None if inner is None else -inner
    return int(node.name) if is_whole(node) else None


def _checked(rows: Rows, node: exp.Expr, months: int, micros: int) -> list[Shift]:
    if abs(months) > _MOST or abs(micros) > _MOST * 31 * DAY:
        raise rows.source.mismatch("so long a time is added to now() that no row can be so far away", node)
    found = [Shift(Unit.MONTHS, months)] if months else []
    return [*found, Shift(Unit.MICROSECONDS, micros)] if micros else found


# --- the stage -------------------------------------------------------------------------------------------------------


def _let_go(rows: Rows, atom: int, time: Expression, operator: str, shifts: Sequence[Shift]) -> None:
    """Have an atom read a stage: its relation's rows while the condition holds, beside others that it has already."""
    lowering = rows.lowering
    relation, columns, places = rows.body.read_by(atom)
    over = rows.body.over_columns(time).substitute({v: Var(f"${i}") for v, i in places.items()})
    condition = ClockCondition(over, operator, tuple(shifts))
    base, before = lowering.timed.get(relation, (relation, ()))
    conditions = tuple(sorted({*before, condition}, key=str))
    known = next((name for name, meaning in lowering.timed.items() if meaning == (base, conditions)), None)
    if known is None:
        body = Body(lowering.fresh)
        terms = body.add_atom(base, base, columns)
        named = {Var(f"${i}"): term.term for i, term in enumerate(terms) if term.term is not None}
        times = [body.as_column(c.time.substitute(named)) for c in conditions]
        atoms, predicates, not_null, renamed = body.finish()
        outputs = [Output(c.name, t.substitute(renamed), c.nullable) for c, t in zip(columns, terms, strict=True)]
        at: list[int] = []
        for t in (t.substitute(renamed) for t in times):
            found = next((i for i, o in enumerate(outputs) if o.expression == t), len(outputs))
            at.append(found)
            if found == len(outputs):
                outputs.append(Output(f"$time{found}", t))
        bounds = tuple(ClockBound(i, c.operator, c.shifts) for i, c in zip(at, conditions, strict=True))
        block = Block(atoms, predicates, tuple(outputs), None, False, not_null)
        timed = Timed(block, bounds, tuple(outputs[: len(columns)]))
        known = lowering.stage(timed, "within", "rows that come and go by the clock").name
        lowering.timed[known] = (base, conditions)
    rows.body.read_instead(atom, known)
