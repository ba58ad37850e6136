"""What an entry for a function says: names, parameters, result, examples, and what DuckDB is to compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from sqlglot import exp

from everview.query.types import BIGINT, DataType, Kind, common_type, decimal
from everview.sql.nodes import call as node_of
from everview.sql.nodes import refused
from everview.sql.sql_text import SqlText

ResultRule: TypeAlias = Callable[[exp.Anonymous, Sequence[DataType], SqlText], DataType]
Binding: TypeAlias = Callable[[Sequence[DataType]], tuple[DataType, ...]]
"""The types of a lambda's variables by those of the arguments before it."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that is to be spelled out: by which name, of what, and what type it has. Types of some are not known."""

    name: str
    computed_by: str
    arguments: Sequence[exp.Expr]
    types: Sequence[DataType | None]
    type: DataType

    @property
    def first_type(self) -> DataType | None:
        """The type of the first argument, if there is one and it is known."""
        return self.types[0] if self.types else None

    def with_arguments(self, *arguments: exp.Expr) -> exp.Expr:
        """The function as DuckDB has it, or has been taught it, of these arguments."""
        return node_of(self.computed_by, *arguments)


Spelling: TypeAlias = Callable[[Call], exp.Expr | None]


@dataclass(frozen=True, slots=True)
class Function:
    """A function that has been compared with Spark's.

    ``names``: all that it goes by; the first is DuckDB's, or that of the macro that stands for it. ``parameters``: a
    letter each (``n`` number, ``i`` integer, ``s`` string, ``t`` date or timestamp, ``d`` number or length of time,
    ``b`` boolean, ``y`` binary or string, ``x`` anything), ``?`` makes it optional and ``*`` repeats it. ``result``:
    its type, or how that follows from the arguments'. ``examples``, with each of the names: tests compute them
    embedded, by Spark SQL and on shards, over columns that ``tests/engine/functions.py`` lists.

    Where DuckDB means something else by the name: ``macros`` are what it is taught, ``spark_`` and the first name for
    the function itself, each after those it calls; ``spelling`` writes a call in other functions, or gives None
    where this one stays as it is. ``refusal`` says why no call can be computed.

    ``is_strict``: NULL only where an argument is. ``takes_unit``: with three arguments the first is a unit of time.
    ``is_widened``: of its arguments a FLOAT beside another number is a DOUBLE, as with operators. ``is_padded``: its
    arguments are compared, and CHAR is padded as by ``=``. ``binds``: what the variables of its lambdas are.
    """

    names: tuple[str, ...]
    parameters: tuple[str, ...]
    result: DataType | ResultRule
    examples: tuple[str, ...]
    macros: Mapping[str, str] = field(default_factory=dict)
    spelling: Spelling | None = None
    refusal: str | None = None
    is_strict: bool = False
    takes_unit: bool = False
    is_widened: bool = False
    is_padded: bool = False
    binds: Binding | None = None

    @property
    def least(self) -> int:
        """How many arguments it needs."""
        return sum("?" not in p for p in self.parameters)

    @property
    def most(self) -> int | None:
        """How many it takes; None if any number."""
        return None if any(p.endswith("*") for p in self.parameters) else len(self.parameters)

    def parameter(self, index: int) -> str:
        """The letter of the index-th argument."""
        return self.parameters[min(index, len(self.parameters) - 1)][0]

    @property
    def computed_by(self) -> str:
        """The function of DuckDB that a call becomes where it is not spelled out otherwise."""
        macro = f"spark_{self.names[0]}"
        return macro if any(s.partition("(")[0] == macro for s in self.macros) else self.names[0]

    def spelled(
        self, name: str, arguments: Sequence[exp.Expr], types: Sequence[DataType | None], type_: DataType
    ) -> exp.Expr:
        """A call, by one of the names, in functions of which DuckDB means what Spark means by this one."""
        if self.refusal is not None:
            raise refused(name, self.refusal)
        call = Call(name, self.computed_by, arguments, types, type_)
        other = self.spelling(call) if self.spelling is not None else None
        return other if other is not None else call.with_arguments(*arguments)


def function(
    names: str,
    parameters: str,
    result: DataType | ResultRule,
    *examples: str,
    macros: Mapping[str, str] | None = None,
    spelling: Spelling | None = None,
    refusal: str | None = None,
    is_strict: bool = False,
    takes_unit: bool = False,
    is_widened: bool = False,
    is_padded: bool = False,
    binds: Binding | None = None,
) -> Function:
    """An entry; names and parameters are separated by blanks."""
    return Function(
        tuple(names.split()),
        tuple(parameters.split()),
        result,
        examples,
        macros or {},
        spelling,
        refusal,
        is_strict,
        takes_unit,
        is_widened,
        is_padded,
        binds,
    )


def same(call: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type of the first argument."""
    return types[0]


def common(call: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type that all arguments have in common."""
    result = types[0]
    for type_ in types[1:]:
        united = common_type(result, type_)
        if united is None:
            raise source.mismatch(
                f"the arguments of {call.name.lower()} have types {result} and {type_}, which do not go together",
                call,
                hint="CAST them to one type",
            )
        result = united
    return result


def of_branches(call: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type that all arguments but the first have in common."""
    return common(call, types[1:], source)


def whole(call: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type of a number without its fraction."""
    type_ = types[0]
    if type_.kind is Kind.DECIMAL:
        return decimal(type_.precision - type_.scale + 1, 0)
    return type_ if type_.is_open else BIGINT


def rounded(call: exp.Anonymous, types: Sequence[DataType], source: SqlText) -> DataType:
    """The type of a number that is rounded to the digits that the second argument says."""
    type_ = types[0]
    if type_.kind is not Kind.DECIMAL:
        return type_
    digits = call.expressions[1] if len(call.expressions) > 1 else None
    scale = int(digits.name) if isinstance(digits, exp.Literal) and digits.name.isdigit() else 0 if not digits else None
    scale = type_.scale if scale is None else min(scale, type_.scale)
    return decimal(type_.precision - type_.scale + scale + 1, scale)
