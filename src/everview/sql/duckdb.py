"""Row expressions in DuckDB's dialect: the engine lets DuckDB evaluate them on Arrow batches."""

from __future__ import annotations

from typing import ClassVar

import sqlglot
from sqlglot.dialects.spark import Spark

from everview.query.terms import Expression, Var


class _SparkWithFunctions(Spark):
    """Spark SQL with doubled quotes, and sqlglot's own idea of its functions, so that they can be translated."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


def duckdb_expression(expression: Expression, names: dict[Var, str]) -> str:
    """An expression as DuckDB reads it, its variables called by ``names`` (plain identifiers)."""
    text = "".join(names[p] if isinstance(p, Var) else str(p) for p in expression.parts)
    return sqlglot.transpile(text, read=_SparkWithFunctions, write="duckdb")[0]
