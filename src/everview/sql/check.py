"""The type checker for row expressions: resolves columns, types operators, puts string literals into place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlglot import exp

from everview.query.types import (
    BIGINT,
    BOOLEAN,
    INT,
    NULL,
    STRING,
    TINYINT,
    DataType,
    Kind,
    array_of,
    common_type,
)
from everview.sql.aggregates import WHOLE, AggregateCall, misfit, packed_type, read_aggregate
from everview.sql.chains import left_spine
from everview.sql.datatypes import arithmetic, can_cast, read_type
from everview.sql.durations import length_type
from everview.sql.functions.elements import element
from everview.sql.functions.elsewhere import CLOCK, GENERATORS, NON_DETERMINISTIC, WINDOW_FUNCTIONS
from everview.sql.functions.entry import Function
from everview.sql.functions.intervals import keep_units, part_type
from everview.sql.functions.registry import accepts, call_type, entry_of, is_span, is_strict
from everview.sql.functions.times import span_type
from everview.sql.literals import coerce, is_string_literal, literal_type
from everview.sql.names import Cell, Scope
from everview.sql.padding import pad
from everview.sql.parts import field_type, name_fields, name_variables
from everview.sql.refuse import TIME_WINDOWS, refuse_expression, refuse_subquery

MAPS_COMPARE = "a MAP has no order: compare map_entries(m), or single values as m['key']"


class Typed(NamedTuple):
    """An expression's type, and whether it is NULL only where one of its columns is."""

    type: DataType
    strict: bool = True


_SIGNS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseLeftShift, exp.BitwiseRightShift)
_LIKES = (exp.Like, exp.ILike, exp.RegexpLike)
_EXTRACTS = frozenset(
    "YEAR QUARTER MONTH WEEK DAY DAYOFWEEK DAYOFMONTH DOW DAYOFYEAR DOY HOUR MINUTE SECOND YEAROFWEEK".split()
)


class Checker:
    """Checks the expressions of one clause. ``cells`` and ``calls`` remember what its nodes turned out to be."""

    def __init__(self, scope: Scope, place: str, allow_aggregates: bool = False) -> None:
        self.scope = scope
        self.source = scope.source
        self.place = place
        self.allow_aggregates = allow_aggregates
        self.cells: dict[int, Cell] = {}
        self.calls: dict[int, AggregateCall] = {}
        self._kept: list[exp.Expr] = []  # ids are only good while their nodes live
        self._inside_aggregate = False
        self._chained: dict[int, Typed] = {}  # what is left of an operator, until that is checked itself
        self._bound: list[dict[str, DataType]] = []  # the variables of the lambdas around, by their names

    def boolean(self, node: exp.Expr) -> Typed:
        """Check a condition."""
        typed = self.check(node)
        if not (typed.type.kind is Kind.BOOLEAN or typed.type.is_open):
            raise self.source.mismatch(
                f"{self.place} needs a condition, and this is {typed.type}", node, hint="compare it with something"
            )
        return typed

    def check(self, node: exp.Expr) -> Typed:
        """The type of an expression; raises for whatever is wrong inside it."""
        known = self._chained.pop(id(node), None)
        if known is not None:
            return known
        for inner in left_spine(node):
            self._chained[id(inner)] = self._check(inner)
        return self._check(node)

    def _check(self, node: exp.Expr) -> Typed:
        typed = self._checked(node)
        if not isinstance(node, exp.Column | exp.Paren):
            typed = Typed(typed.type.unbounded, typed.strict)
        if self.source.typed is not None:
            self.source.typed.append((node, typed.type))
        return typed

    def _checked(self, node: exp.Expr) -> Typed:
        literal = literal_type(node)
        if literal is not None:
            return Typed(literal, literal is not NULL)
        lowered = self.scope.lowered(node)
        if lowered is not None:
            self.cells[id(node)] = lowered
            return Typed(lowered.type, lowered.strict)
        for kind, rule in _RULES:
            if isinstance(node, kind):
                return rule(self, node)
        raise refuse_expression(self.source, node)

    def _all(self, nodes: Sequence[exp.Expr]) -> tuple[list[DataType], bool]:
        typed = [self.check(n) for n in nodes]
        return [t.type for t in typed], all(t.strict for t in typed)

    def _column(self, node: exp.Expr) -> Typed:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            raise self.source.syntax("* may only stand in a SELECT list or in COUNT(*)", node)
        if node.name.lower() in NON_DETERMINISTIC and not node.table and not self._is_column(node):
            raise self._non_deterministic(node.name, node)
        known = node.meta.get("cell")  # a star's column is resolved already
        cell = (known if isinstance(known, Cell) else self.scope.resolve(node)).opened(self.source, node)
        self.cells[id(node)] = cell
        self._kept.append(node)
        return Typed(cell.type, cell.strict)

    def _is_column(self, node: exp.Column) -> bool:
        return any(scope.find(node) is not None for scope in self.scope.outward())

    def _non_deterministic(self, name: str, node: exp.Expr) -> Exception:
        hint = "put the value into a column of a table"
        if name.lower() in CLOCK:
            hint = "write ts > now() - INTERVAL 7 DAYS in WHERE or ON, as a condition of its own, with AND"
        return self.source.unsupported(
            "non-deterministic function",
            node,
            message=f"{name.lower()} gives another value each time: a view cannot be kept fresh with it",
            hint=hint,
        )

    def _paren(self, node: exp.Expr) -> Typed:
        return self.check(node.this)

    def _negation(self, node: exp.Expr) -> Typed:
        typed = self.check(node.this)
        ok = typed.type.is_numeric or typed.type.is_open or typed.type.kind in (Kind.INTERVAL, Kind.DAY_TIME)
        if not ok or (isinstance(node, exp.BitwiseNot) and not (typed.type.is_integer or typed.type.is_open)):
            raise self.source.mismatch(f"a minus needs a number, and this is {typed.type}", node.this)
        return typed

    def _arithmetic(self, node: exp.Expr) -> Typed:
        left, right = self.check(node.this), self.check(node.expression)
        sign = _SIGNS[type(node)]
        l_type, r_type = (
            self._exact(node.this, left.type, right.type),
            self._exact(node.expression, right.type, left.type),
        )
        if Kind.DATE in (l_type.kind, r_type.kind):
            keep_units((node.this, node.expression), (l_type, r_type))
        result = arithmetic(sign, l_type, r_type)
        if result is None:
            raise self.source.mismatch(
                f"{left.type} {sign} {right.type} makes no sense", node, hint="CAST one side, or use a function"
            )
        return Typed(result, left.strict and right.strict and sign in "+-*")

    @staticmethod
    def _exact(node: exp.Expr, type_: DataType, other: DataType) -> DataType:
        """An integer literal beside a decimal counts with its own digits only, as in Spark."""
        literal = node.this if isinstance(node, exp.Neg) else node
        if other.kind is Kind.DECIMAL and isinstance(literal, exp.Literal) and literal.name.isdigit():
            return DataType(Kind.DECIMAL, len(str(int(literal.name))), 0)
        return type_

    def _bitwise(self, node: exp.Expr) -> Typed:
        (left, right), strict = self._all([node.this, node.expression])
        for side, type_ in ((node.this, left), (node.expression, right)):
            if not (type_.is_integer or type_.is_open):
                raise self.source.mismatch(f"bits of {type_} cannot be combined", side, hint="use integers")
        return Typed(common_type(left, right) or left, strict)

    def _comparison(self, node: exp.Expr) -> Typed:
        strict = self.compare([node.this, node.expression], node)
        return Typed(BOOLEAN, strict)

    def compare(self, nodes: Sequence[exp.Expr], whole: exp.Expr) -> bool:
        """Check that all can be compared with the first; string literals take the others' type."""
        types, strict = self._all(nodes)
        pad(nodes, types, self.source)
        known = zip(nodes, types, strict=True)
        model = next((t for n, t in known if t.kind is not Kind.NULL and not is_string_literal(n)), None)
        for index, node in enumerate(nodes):
            if model is None:
                break
            if not model.has_order:
                raise self.source.mismatch(f"{model} cannot be compared", whole, hint=MAPS_COMPARE)
            if is_string_literal(node) and model.kind not in (Kind.STRING, Kind.ANY):
                coerce(node, model, self.source)
                types[index] = model
            elif common_type(types[index], model) is None:
                raise self.source.mismatch(
                    f"{model} and {types[index]} cannot be compared",
                    whole if isinstance(whole, exp.Binary) else node,
                    hint="CAST one of the two",
                )
        return strict

    def _logic(self, node: exp.Expr) -> Typed:
        word = type(node).__name__.upper()
        strict = True
        for side in (node.this, node.expression) if isinstance(node, exp.Connector) else (node.this,):
            typed = self.check(side)
            if not (typed.type.kind is Kind.BOOLEAN or typed.type.is_open):
                raise self.source.mismatch(f"{word} needs conditions, and this is {typed.type}", side)
            strict = strict and typed.strict
        return Typed(BOOLEAN, strict)

    def _is(self, node: exp.Expr) -> Typed:
        typed = self.check(node.this)
        if not isinstance(node.expression, exp.Null | exp.Boolean):
            raise self.source.syntax("IS takes NULL, TRUE or FALSE", node.expression)
        if isinstance(node.expression, exp.Boolean) and not (typed.type.kind is Kind.BOOLEAN or typed.type.is_open):
            raise self.source.mismatch(f"IS TRUE needs a condition, and this is {typed.type}", node.this)
        return Typed(BOOLEAN)

    def _in(self, node: exp.Expr) -> Typed:
        if node.args.get("query"):
            raise refuse_subquery(self.source, node, self.place)
        if not node.expressions:
            raise self.source.syntax("IN needs a list in parentheses", node, hint="write x IN (1, 2, 3)")
        return Typed(BOOLEAN, self.compare([node.this, *node.expressions], node))

    def _between(self, node: exp.Expr) -> Typed:
        return Typed(BOOLEAN, self.compare([node.this, node.args["low"], node.args["high"]], node))

    def _like(self, node: exp.Expr) -> Typed:
        if isinstance(node.expression, exp.Any | exp.All | exp.Tuple):
            raise self.source.unsupported("LIKE ANY", node, hint="write LIKE … OR LIKE …")
        strict = True
        for side in (node.this, node.expression):
            typed = self.check(side)
            if not (typed.type.kind is Kind.STRING or typed.type.is_open):
                raise self.source.mismatch(f"LIKE needs strings, and this is {typed.type}", side, hint="CAST it")
            strict = strict and typed.strict
        return Typed(BOOLEAN, strict)

    def _escape(self, node: exp.Expr) -> Typed:
        return self.check(node.this)

    def _concatenation(self, node: exp.Expr) -> Typed:
        types, strict = self._all(list(node.expressions) or [node.this, node.expression])
        if any(t.kind is Kind.ARRAY for t in types):
            united = common_type(*types) if len(types) == 2 else None
            if united is None:
                raise self.source.mismatch(f"{types[0]} and {types[-1]} cannot be concatenated", node, hint="CAST one")
            return Typed(united, strict)
        for type_ in types:
            if type_.kind is Kind.INTERVAL:
                raise self.source.mismatch("an interval of months cannot be concatenated", node)
        keep_units(node.expressions or (node.this, node.expression), types)
        return Typed(STRING, strict)

    def _case(self, node: exp.Expr) -> Typed:
        subject = node.args.get("this")
        for branch in node.args["ifs"]:
            if subject is not None:
                self.compare([subject, branch.this], branch.this)
            else:
                Checker.boolean(self._named("WHEN"), branch.this)
        values = [branch.args["true"] for branch in node.args["ifs"]]
        default = node.args.get("default")
        return Typed(self._united([*values, default] if default else values, "branches of CASE"), False)

    def _named(self, place: str) -> Checker:
        other = Checker(self.scope, place, self.allow_aggregates)
        other.cells, other.calls, other._kept = self.cells, self.calls, self._kept
        other._inside_aggregate = self._inside_aggregate
        other._bound = self._bound
        return other

    def _united(self, nodes: Sequence[exp.Expr], what: str) -> DataType:
        result = self.check(nodes[0]).type
        for node in nodes[1:]:
            type_ = self.check(node).type
            united = common_type(result, type_)
            if united is None:
                raise self.source.mismatch(
                    f"the {what} have types {result} and {type_}, which do not go together", node, hint="CAST one"
                )
            result = united
        return result

    def _cast(self, node: exp.Expr) -> Typed:
        typed = self.check(node.this)
        target = read_type(node.args["to"], self.source)
        if not can_cast(typed.type, target):
            raise self.source.mismatch(f"{typed.type} cannot be cast to {target}", node.this)
        keep_units([node.this], [typed.type])
        if is_string_literal(node.this) and target.is_temporal and not node.args.get("safe"):
            coerce(node.this.copy(), target, self.source)
            return Typed(target)
        same = typed.type.is_numeric and target.is_numeric and typed.type.is_integer
        return Typed(target, typed.strict and (same or target == STRING))

    def _interval(self, node: exp.Expr) -> Typed:
        if node.this is not None and not isinstance(node.this, exp.Literal):
            self.check(node.this)
        return Typed(length_type(node))

    def _binary(self, node: exp.Expr) -> Typed:
        return Typed(DataType(Kind.BINARY), bool(node.this))

    def _extract(self, node: exp.Expr) -> Typed:
        typed = self.check(node.expression)
        field = node.this.name.upper()
        if field.rstrip("S") not in _EXTRACTS and field not in _EXTRACTS:
            raise self.source.unknown("date part", field, node, sorted(_EXTRACTS), "the parts are")
        if typed.type.kind is Kind.DAY_TIME:
            return Typed(part_type(typed.type, field, node.expression, self.source), typed.strict)
        if not (typed.type.is_temporal or typed.type.is_open or typed.type.kind is Kind.STRING):
            raise self.source.mismatch(f"EXTRACT needs a date or timestamp, and this is {typed.type}", node.expression)
        return Typed(DataType(Kind.DECIMAL, 8, 6) if field in ("SECOND", "SECONDS") else INT, typed.strict)

    def _strings(self, node: exp.Expr) -> Typed:
        if isinstance(node, exp.Substring) and node.args.get("start") is None:
            raise self.source.mismatch("substring takes 2 to 3 arguments, and here are 1", node)
        parts = [node.args[k] for k in ("this", "expression", "substr", "start", "length") if node.args.get(k)]
        strict = True
        for index, part in enumerate(parts):
            typed = self.check(part)
            wanted = "i" if isinstance(node, exp.Substring) and index else "s"
            if not accepts(wanted, typed.type):
                what = "an integer" if wanted == "i" else "a string"
                name = "substring" if isinstance(node, exp.Substring) else "this function"
                raise self.source.mismatch(
                    f"{name} takes {what} as argument {index + 1}, and this is {typed.type}", part, hint="CAST it"
                )
            strict = strict and typed.strict
        return Typed(INT if isinstance(node, exp.StrPosition) else STRING, strict)

    def _call(self, node: exp.Expr) -> Typed:
        assert isinstance(node, exp.Anonymous)
        name = node.name.lower()
        if name in NON_DETERMINISTIC or (name == "unix_timestamp" and not node.expressions):
            raise self._non_deterministic(name, node)
        if name == "exists" and not any(isinstance(a, exp.Lambda) for a in node.expressions):
            raise self.source.syntax("EXISTS needs a subquery", node, hint="write EXISTS (SELECT …)")
        if name in GENERATORS:
            hint = "it stands alone in the SELECT list, in LATERAL VIEW or in FROM"
            raise self.source.unsupported(name.upper(), node, hint=hint)
        if name in WINDOW_FUNCTIONS:
            raise self.source.unsupported("window function", node)
        if name in ("collate", "collation"):
            raise self.source.unsupported("COLLATE", node, hint="text is compared byte by byte; lower(x) ignores case")
        if is_span(node):
            types, strict = self._all(node.expressions[1:])
            return Typed(span_type(node, types, self.source), strict)
        if name in ("window", "session_window"):
            raise self.source.unsupported(name, node, TIME_WINDOWS[1], TIME_WINDOWS[0])
        if name == "struct":
            name_fields(node, self.source)
        entry = entry_of(node)
        if entry is not None and entry.binds is not None:
            return Typed(call_type(node, self._arguments(node, entry), self.source), False)
        types, strict = self._all(node.expressions)
        keep_units(node.expressions, types)
        if entry is not None and entry.is_padded and len(types) == 2:
            pad(node.expressions, types, self.source)
        return Typed(call_type(node, types, self.source), strict and is_strict(node.name.lower()))

    def _arguments(self, node: exp.Anonymous, entry: Function) -> list[DataType]:
        """The types of arguments, that of a lambda being the one of what it gives."""
        assert entry.binds is not None
        types: list[DataType] = []
        for index, argument in enumerate(node.expressions):
            if isinstance(argument, exp.Lambda) and index < (entry.most or 0) and entry.parameter(index) == "f":
                bound = entry.binds(types) if all(accepts(entry.parameter(i), t) for i, t in enumerate(types)) else ()
                types.append(self._lambda(argument, bound or (NULL, NULL)))
            else:
                types.append(self.check(argument).type)
        return types

    def _lambda(self, node: exp.Lambda, bound: Sequence[DataType]) -> DataType:
        names = name_variables(node, len(self._bound), len(bound), self.source)
        self._bound.append(dict(zip(names, bound, strict=False)))
        found = self.check(node.this).type
        self._bound.pop()
        return found

    def _variable(self, node: exp.Expr) -> Typed:
        """A lambda's variable."""
        found = next((names[node.name] for names in reversed(self._bound) if node.name in names), None)
        if found is None:
            raise self.source.unsupported("name", node, message=f"{node.name} means nothing here")
        return Typed(found, False)

    def _field(self, node: exp.Expr) -> Typed:
        return Typed(field_type(self.check(node.this).type, node.expression, self.source), False)

    def _element(self, node: exp.Expr) -> Typed:
        typed = self.check(node.this).type
        if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
            raise self.source.unsupported("slice of an array", node, hint="write slice(a, start, length)")
        (place,) = node.expressions
        if not (typed.is_open or typed.kind in (Kind.ARRAY, Kind.MAP)):
            hint = f"write s.{place.name}" if typed.kind is Kind.STRUCT else None
            raise self.source.mismatch(f"only an ARRAY or a MAP has elements, and this is {typed}", node.this, hint)
        types, _ = self._all([place])
        return Typed(element([node.this, place], [typed, *types], self.source), False)

    def _array(self, node: exp.Expr) -> Typed:
        return Typed(array_of(self._united(node.expressions, "elements") if node.expressions else NULL), False)

    def _aggregate(self, node: exp.Expr) -> Typed:
        if isinstance(node, exp.Anonymous) and node.name.lower() in ("grouping", "grouping_id"):
            return self._grouping(node)
        call = read_aggregate(self.source, node)
        if call is None:
            if isinstance(node, WHOLE):
                clause = _CLAUSES[type(node)]
                raise self.source.aggregation(f"{clause} belongs to an aggregate", node)
            return self._call(node)
        if self._inside_aggregate:
            raise self.source.aggregation(
                f"{call.name} inside another aggregate", node, hint="compute the inner one in a subquery in FROM"
            )
        if not self.allow_aggregates:
            hint = "move the condition to HAVING" if self.place in ("WHERE", "ON") else None
            raise self.source.aggregation(f"{call.name} is an aggregate: it cannot stand in {self.place}", node, hint)
        self._inside_aggregate = True
        types = [self.check(argument).type.unbounded for argument in call.arguments]
        if call.condition is not None:
            self._named("FILTER").boolean(call.condition)
        self._inside_aggregate = False
        wrong = misfit(call, types)
        type_ = call.type_of(packed_type(call, types))
        if wrong is not None or type_ is None:
            needs, place = wrong or ("something else", node)
            raise self.source.mismatch(f"{call.name} needs {needs}", place)
        self.calls[id(node)] = call.typed(type_)
        self._kept.append(node)
        return Typed(type_, call.function.is_count)

    def _grouping(self, node: exp.Anonymous) -> Typed:
        if not self.allow_aggregates:
            raise self.source.aggregation(f"{node.name} tells of groups: it cannot stand in {self.place}", node)
        self._all(node.expressions)
        return Typed(TINYINT if node.name.lower() == "grouping" else BIGINT)

    def _subquery(self, node: exp.Expr) -> Typed:
        raise refuse_subquery(self.source, node, self.place)

    def _now(self, node: exp.Expr) -> Typed:
        raise self._non_deterministic(node.sql().rstrip("()"), node)


_CLAUSES: dict[type[exp.Expr], str] = {
    exp.Filter: "FILTER",
    exp.WithinGroup: "WITHIN GROUP",
    exp.IgnoreNulls: "IGNORE NULLS",
    exp.RespectNulls: "RESPECT NULLS",
}
_Rule = Callable[[Checker, exp.Expr], Typed]
_RULES: tuple[tuple[type[exp.Expr] | tuple[type[exp.Expr], ...], _Rule], ...] = (
    (exp.Column, Checker._column),
    (exp.Paren, Checker._paren),
    ((exp.Neg, exp.BitwiseNot), Checker._negation),
    (tuple(_SIGNS), Checker._arithmetic),
    (_BITWISE, Checker._bitwise),
    (_COMPARISONS, Checker._comparison),
    ((exp.And, exp.Or, exp.Xor, exp.Not), Checker._logic),
    (exp.Is, Checker._is),
    (exp.In, Checker._in),
    (exp.Between, Checker._between),
    (_LIKES, Checker._like),
    (exp.Escape, Checker._escape),
    ((exp.DPipe, exp.Concat), Checker._concatenation),
    (exp.Case, Checker._case),
    ((exp.Cast, exp.TryCast), Checker._cast),
    (exp.Interval, Checker._interval),
    (exp.Identifier, Checker._variable),
    (exp.Dot, Checker._field),
    (exp.Bracket, Checker._element),
    (exp.Array, Checker._array),
    (exp.HexString, Checker._binary),
    (exp.Extract, Checker._extract),
    ((exp.Substring, exp.Trim, exp.StrPosition), Checker._strings),
    ((exp.Anonymous, *WHOLE), Checker._aggregate),
    ((exp.Subquery, exp.Exists, exp.Query, exp.SubqueryPredicate), Checker._subquery),
    ((exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentTime, exp.CurrentUser, exp.SessionUser), Checker._now),
)
