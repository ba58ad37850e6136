"""Variables, constants, and row expressions over them: the leaves of the query model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from everview.query.types import ANY, DataType

Value: TypeAlias = bool | int | float | Decimal | str | bytes | date | datetime


@dataclass(frozen=True, slots=True, order=True)
class Var:
    """A variable; two occurrences of one name within a query are one variable."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Const:
    """A constant. Its Python type is part of it, so that 1, 1.0 and True stay three constants."""

    value: Value
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", type(self.value).__name__)

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
        if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        if isinstance(value, datetime):
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        if isinstance(value, date):
            return f"DATE '{value.isoformat()}'"
        return str(value)


Term: TypeAlias = Var | Const


@dataclass(frozen=True, slots=True)
class Expression:
    """A row expression in Spark SQL, as text with holes for its terms.

    Everview never evaluates one: Arrow, DuckDB or Catalyst do. The model only needs to know which variables it reads,
    its type, and how to rename them.
    """

    parts: tuple[str | Term, ...]
    type: DataType = ANY

    @staticmethod
    def of(term: Term, type_: DataType = ANY) -> Expression:
        """The expression that is just this term."""
        return Expression((term,), type_)

    @property
    def variables(self) -> frozenset[Var]:
        """The variables it reads."""
        return frozenset(p for p in self.parts if isinstance(p, Var))

    @property
    def term(self) -> Term | None:
        """The term that it is, if it is nothing but one."""
        only = self.parts[0] if len(self.parts) == 1 else None
        return only if isinstance(only, Var | Const) else None

    def substitute(self, mapping: Mapping[Var, Term]) -> Expression:
        """The same expression with variables replaced."""
        return Expression(tuple(mapping.get(p, p) if isinstance(p, Var) else p for p in self.parts), self.type)

    def inline(self, mapping: Mapping[Var, Expression]) -> Expression:
        """The same expression with variables replaced by whole expressions, in parentheses where needed."""
        parts: list[str | Term] = []
        for p in self.parts:
            inner = mapping.get(p) if isinstance(p, Var) else None
            if inner is None:
                parts.append(p)
            elif inner.term is not None or len(self.parts) == 1:
                parts.extend(inner.parts)
            else:
                parts.extend(("(", *inner.parts, ")"))
        return Expression(tuple(parts), self.type)

    def __str__(self) -> str:
        return "".join(map(str, self.parts))


def names(variables: Iterable[Var]) -> str:
    """Variables as people list them: sorted, separated by commas."""
    return ", ".join(sorted(v.name for v in variables))
