"""Expressions over words: what ``sql/word_expressions.py`` reads, as code that the kernel computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from everview.engine.direct.columns import number_of_value
from everview.engine.values.words import NARROW_DIGITS
from everview.query.column_expression import ColumnExpression, Leaf, Operation
from everview.query.terms import Const, Expression, Var
from everview.query.types import MOST_DIGITS, DataType, Kind

_OPS: Final = (
    *("column", "constant", "+", "-", "*", "%", "&", "neg", "cast", "=", "<>", "<", "<=", "and", "or", "not", "null"),
    *("in", "if", "nothing", "pmod", "/", "part", "instant", "like", "to double", "+ doubles", "- doubles"),
    *("* doubles", "/ doubles", "= doubles", "< doubles", "<= doubles"),
)
"""In the order of the kernel's numbers (``cpp/batch/expression.h``)."""
_PARTS: Final = (
    *("year", "quarter", "month", "day", "hour", "minute", "date", "from year", "from quarter", "from month"),
    *("from week", "from day", "from hour", "from minute", "from second"),
)
"""Of times, in the order of the kernel's numbers (``cpp/batch/calendar.h``)."""
_NUMBER: Final = {name: number for number, name in enumerate(_OPS)}
_BITS: Final = {Kind.TINYINT: 8, Kind.SMALLINT: 16, Kind.INT: 32, Kind.BIGINT: 64}
_PLAIN: Final = (*_BITS, Kind.BOOLEAN, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ)
_MOST_MEMBERS: Final = 64
"""A longer list is looked up faster by others."""
_DEEPEST: Final = 100
"""Operations within more operations are left to those who do not call themselves for each."""

Code = list[int]
NOTHING: Final[Code] = [_NUMBER["nothing"]]
"""What is NULL."""


class NotInWords(Exception):
    """Something cannot be said in words; the batch goes the other way."""


class Constants:
    """The constants that a view's expressions use, by number: numbers as two words, and texts."""

    def __init__(self) -> None:
        self.listed: list[tuple[int, int] | str] = []

    def number(self, value: object, type_: DataType) -> int:
        """The number of a constant."""
        if isinstance(value, str):
            if type_.kind is not Kind.STRING:
                raise NotInWords
            return self._added(value)
        found = number_of_value(value, type_)
        if found is None or not -(2**127) <= found < 2**127:
            raise NotInWords
        low = found & (2**64 - 1)
        return self._added((low - 2**64 if low >= 2**63 else low, found >> 64))

    def word(self, word: int) -> int:
        """The number of a constant that is a word."""
        return self._added((word, -1 if word < 0 else 0))

    def _added(self, constant: tuple[int, int] | str) -> int:
        if constant not in self.listed:
            self.listed.append(constant)
        return self.listed.index(constant)


class Writer:
    """Writes expressions over columns, each of which is a variable's."""

    def __init__(self, constants: Constants, columns: Mapping[Var, tuple[int, DataType]]) -> None:
        self.constants = constants
        self.columns = columns

    def column(self, variable: Var) -> int:
        """The number of a variable's column."""
        if variable not in self.columns:
            raise NotInWords
        return self.columns[variable][0]

    def reads(self, variable: Var, type_: DataType) -> bool:
        """True if what stands in a variable's column is its value's number."""
        return is_exact(type_)

    def code(self, expression: Expression, *, any_type: bool = False) -> Code:
        """An expression's code; with ``any_type`` a column alone may be of any type, as only NULLs matter."""
        term = expression.term
        if isinstance(term, Var):
            code = [_NUMBER["column"], self.column(term)]
            have = self.columns[term][1]
            if any_type or (have == expression.type and (self.reads(term, have) or _is_floating(have))):
                return code
            raise NotInWords(f"{expression}")
        if isinstance(term, Const):
            if not (_is_number(expression.type) or expression.type.kind is Kind.DOUBLE):
                raise NotInWords(f"{expression}")
            return [_NUMBER["constant"], self.constants.number(term.value, expression.type)]
        from everview.sql.word_expressions import word_expression

        try:
            types = {v: self.columns[v][1] for v in expression.variables}
        except KeyError:
            raise NotInWords(f"{expression}") from None
        found = word_expression(expression, types)
        if found is None or found.type != expression.type or _is_deep(found):
            raise NotInWords(f"{expression}")
        try:
            return self._written(found)
        except NotInWords:
            raise NotInWords(f"{expression}") from None

    def widened(self, variable: Var, type_: DataType) -> Code:
        """The code of a column as a value of a wider type of numbers, as sides of a set operation have it."""
        have, code = self.columns[variable][1], [_NUMBER["column"], self.column(variable)]
        if not self.reads(variable, have) or not (have.is_integer or have.kind is Kind.DECIMAL):
            raise NotInWords
        if type_.kind is Kind.DOUBLE:
            return [*code, _NUMBER["to double"], have.scale]
        up = type_.scale - have.scale
        if up < 0 or not (type_.is_integer or type_.kind is Kind.DECIMAL):
            raise NotInWords
        return [*code, _NUMBER["cast"], up, limit_code(type_)]

    def _written(self, part: ColumnExpression, *, any_type: bool = False) -> Code:
        if isinstance(part, Leaf):
            if isinstance(part.term, Const):
                if not (any_type or _is_number(part.type) or part.type.kind is Kind.DOUBLE):
                    raise NotInWords
                return [_NUMBER["constant"], self.constants.number(part.term.value, part.type)]
            if not (any_type or self.reads(part.term, part.type) or part.type.kind is Kind.DOUBLE):
                raise NotInWords
            return [_NUMBER["column"], self.column(part.term)]
        return self._operation(part)

    def _operation(self, part: Operation) -> Code:
        operator, arguments = part.operator, part.arguments
        if operator in _PARTS:
            return [*self._all(arguments), _NUMBER["part"], _PARTS.index(operator)]
        if operator == "number":
            return self._written(arguments[0])
        if operator in ("if", "nothing", "instant"):
            if not (_is_number(part.type) or part.type.kind is Kind.DOUBLE):
                raise NotInWords
            return [*self._all(arguments), _NUMBER[operator]]
        if operator == "like":
            tested, pattern = arguments
            return [*self._written(tested, any_type=True), _NUMBER["like"], self._member(pattern)]
        if part.arguments[0].type.kind is Kind.DOUBLE or part.type.kind is Kind.DOUBLE:
            return self._of_doubles(part)
        if operator in ("+", "-", "*", "/", "%", "pmod", "&"):
            scales = _scales(part)
            return [*self._all(arguments), _NUMBER[operator], *scales, limit_code(part.type)]
        if operator in ("neg", "cast"):
            up = part.type.scale - arguments[0].type.scale
            if up < 0:
                raise NotInWords
            return [*self._all(arguments), _NUMBER[operator], up, limit_code(part.type)]
        if operator in ("and", "or", "not"):
            return [*self._all(arguments), _NUMBER[operator]]
        if operator == "null":
            return [*self._written(arguments[0], any_type=True), _NUMBER["null"]]
        is_text = arguments[0].type.kind is Kind.STRING
        if operator == "in":
            members = [self._member(m) for m in arguments[1:]]
            if len(members) > _MOST_MEMBERS:
                raise NotInWords
            return [*self._written(arguments[0], any_type=is_text), _NUMBER["in"], len(members), *members]
        left, right = (self._written(a, any_type=is_text) for a in arguments)
        if operator in (">", ">="):
            operator, left, right = "<" + operator[1:], right, left
        if is_text and operator not in ("=", "<>"):
            raise NotInWords
        return [*left, *right, _NUMBER[operator]]

    def _of_doubles(self, part: Operation) -> Code:
        operator, arguments = part.operator, part.arguments
        if operator == "null":
            return [*self._written(arguments[0], any_type=True), _NUMBER["null"]]
        if operator == "cast":
            return [*self._written(arguments[0]), _NUMBER["to double"], arguments[0].type.scale]
        left, right = map(self._written, arguments)
        if operator == "<>":
            return [*left, *right, _NUMBER["= doubles"], _NUMBER["not"]]
        if operator in (">", ">="):
            operator, left, right = "<" + operator[1:], right, left
        return [*left, *right, _NUMBER[f"{operator} doubles"]]

    def _all(self, arguments: tuple[ColumnExpression, ...]) -> Code:
        return [word for argument in arguments for word in self._written(argument)]

    def _member(self, member: ColumnExpression) -> int:
        if not isinstance(member, Leaf) or not isinstance(member.term, Const):
            raise NotInWords
        return self.constants.number(member.term.value, member.type)


def _is_deep(part: ColumnExpression) -> bool:
    """True of operations within more operations than these functions, which call themselves, go into."""
    layer, depth = [part], 0
    while layer and depth <= _DEEPEST:
        layer = [argument for one in layer if isinstance(one, Operation) for argument in one.arguments]
        depth += 1
    return bool(layer)


def is_exact(type_: DataType) -> bool:
    """True if a word of this type is its value's number."""
    return type_.kind in _PLAIN or (type_.kind is Kind.DECIMAL and type_.precision <= NARROW_DIGITS)


def _is_number(type_: DataType) -> bool:
    return type_.kind in _PLAIN or type_.kind is Kind.DECIMAL


def _is_floating(type_: DataType) -> bool:
    return type_.kind in (Kind.FLOAT, Kind.DOUBLE)


def limit_code(type_: DataType) -> int:
    """What a type holds: the bits of an integer, or the digits of a decimal below 0."""
    if type_.kind is Kind.DECIMAL:
        return -type_.precision
    if type_.kind not in _BITS:
        raise NotInWords
    return _BITS[type_.kind]


def _scales(part: Operation) -> tuple[int, int]:
    """How many digits both arguments are moved by, so that the result comes out in its scale, exactly."""
    if part.type.kind is not Kind.DECIMAL:
        return 0, 0
    left, right = (a.type.scale for a in part.arguments)
    if part.operator == "/":
        up = part.type.scale + right - left
        return max(0, up), max(0, -up)
    if part.operator == "*":
        exact, moved = left + right, (0, 0)
    else:
        exact = max(left, right)
        moved = exact - left, exact - right
    if exact != part.type.scale or part.type.precision > MOST_DIGITS:
        raise NotInWords  # The result is rounded.
    return moved
