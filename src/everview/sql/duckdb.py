"""Our SQL in DuckDB's dialect: row expressions, which it evaluates for the engine, and queries to compare with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ErrorLevel

from everview.errors import SizeError, UnsupportedError
from everview.query.schema import Schema
from everview.query.terms import Expression, Var
from everview.query.types import DataType
from everview.sql.chains import balanced
from everview.sql.datatypes import integer_literal, spark_name
from everview.sql.dialect import EverviewDuckDB, EverviewSpark
from everview.sql.expansion import check_expansion
from everview.sql.functions.registry import MACROS
from everview.sql.grouping_sets import need_rows
from everview.sql.limits import MOST_PARTS
from everview.sql.meaning import spell_out, spelled_out
from everview.sql.nodes import NUMBER, refused
from everview.sql.parse import guarded, parse_statements
from everview.sql.sql_text import SqlText

MISTAKEN = "common_subexpressions"
"""The optimizer of DuckDB that takes a month for 30 days."""
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_Read = tuple[exp.Expr, str]
_T = TypeVar("_T")
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Neg, exp.Paren)


class SparkWithFunctions(Spark):
    """Spark SQL with doubled quotes, and sqlglot's own idea of its functions, so that they can be translated."""

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']


@contextmanager
def _bounded() -> Iterator[None]:
    """What is spelled out is deeper than what was read, and may be too deep where that was not."""
    try:
        yield
    except RecursionError:
        raise SizeError(
            "an expression is nested too deeply once it is written out for DuckDB",
            hint="make the inner parts columns of a view of their own, and read that",
        ) from None


@_bounded()
def read_expression(expression: Expression, names: dict[Var, str]) -> exp.Expr:
    """An expression as a tree, its variables called by ``names`` (plain identifiers)."""
    return _read("".join(names[p] if isinstance(p, Var) else str(p) for p in expression.parts))


def _read(text: str) -> exp.Expr:
    return balanced(_strict(sqlglot.parse_one(text, read=SparkWithFunctions)))


def _strict(tree: exp.Expr) -> exp.Expr:
    """CAST fails on what does not fit, as in Spark's ANSI mode; sqlglot takes it for TRY_CAST, which gives NULL."""
    for node in list(tree.find_all(exp.TryCast)):
        if not node.args.get("safe"):
            strict = exp.Cast(this=node.this, to=node.args["to"])
            if node is tree:
                tree = strict
            else:
                node.replace(strict)
    return tree


@_bounded()
def duckdb_expression(expression: Expression, names: Mapping[Var, str], types: Mapping[Var, DataType]) -> str:
    """An expression for a DuckDB that ``open_duckdb`` has opened, its variables called by ``names``."""
    return _translated(spelled_tree(expression, names, types), str(expression))


@_bounded()
def spelled_tree(expression: Expression, names: Mapping[Var, str], types: Mapping[Var, DataType]) -> exp.Expr:
    """The same as a tree, which only needs to be written in DuckDB's dialect."""
    try:
        spelled = spelled_out(expression, names, types)
    except UnsupportedError as error:
        shown = {name: str(variable) for variable, name in names.items()}
        error.message = re.sub(r"\bv[0-9]+\b", lambda found: shown.get(found.group(), found.group()), error.message)
        raise
    return _read(spelled)


def open_duckdb(*, threads: int | None = None, locked: bool = True, tried: bool = False) -> Any:
    """A DuckDB of its own, in memory, in UTC, that evaluates expressions as Spark does; everything opens it here.

    It reaches no file, no network and no extension: what comes to it is registered or inserted, so no text that it is
    given can read anything else. ``locked``: nor can its settings be changed any more. ``tried``: for expressions
    within TRY, which takes no ``error``, as that counts as volatile; a cast that always fails stands for it.
    """
    import duckdb

    connection = duckdb.connect(config=_CLOSED if threads is None else {**_CLOSED, "threads": threads})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET disabled_optimizers = '{MISTAKEN}'")
    connection.execute(f"SET GLOBAL max_expression_depth = {MOST_PARTS}")
    if tried:
        connection.execute("CREATE MACRO error(x) AS ([NULL])[CAST('x' || x AS BIGINT)]")
    for signature, meaning in MACROS.items():
        connection.execute(f"CREATE MACRO {signature} AS {meaning}")
    if locked:
        connection.execute("SET lock_configuration = true")
    return connection


def duckdb_query(text: str, schema: Schema) -> str:
    """The last query of a script over these tables, or its last view's, for a DuckDB of ``open_duckdb``."""
    from everview.sql.statements import read_view

    source, parsed = parse_statements(text)
    statement = [s for s in parsed if not (isinstance(s, exp.Create) and s.kind == "TABLE")][-1]
    query = statement.expression if isinstance(statement, exp.Create) else statement
    guarded(source, lambda: spell_out_query(source, query, lambda copy: read_view(source, copy, schema, "query")))
    return translated_query(query)


def spell_out_query(source: SqlText, query: exp.Expr, lower: Callable[[exp.Expr], _T]) -> tuple[_T, list[_Read]]:
    """Have a copy of a query checked by ``lower``, and make of the query itself what means the same in DuckDB.

    Stars and NATURAL are spelled out: USING puts its columns first in Spark, and where they were in DuckDB.
    Gives what ``lower`` gives, and the nodes of the query that name tables or views, with the names of those.
    """
    nodes = list(query.walk())
    for number, node in enumerate(nodes):
        node.meta[NUMBER] = number
    source.typed, source.read, source.stars, source.natural, source.preferred = [], [], [], [], []
    try:
        found = lower(query.copy())  # which may change the tree, and reads copies of parts of it
        typed = [(nodes[n.meta[NUMBER]], type_) for n, type_ in source.typed if NUMBER in n.meta]
    finally:
        source.typed = None
    for number, columns in {n.meta[NUMBER]: columns for n, columns in source.stars}.items():
        nodes[number].replace(columns)
    for number, relation in {n.meta[NUMBER]: r for n, r in source.preferred if r and NUMBER in n.meta}.items():
        nodes[number].set("table", exp.to_identifier(relation, quoted=True))
    spell_out(typed)
    for number, using in {n.meta[NUMBER]: using for n, using in source.natural}.items():
        nodes[number].set("method", None)
        nodes[number].set("using", using or None)
        nodes[number].set("kind", None if using else "CROSS")
    for select in query.find_all(exp.Select):
        need_rows(select)
    return found, [(nodes[n.meta[NUMBER]], name) for n, name in source.read]


def hole(number: int) -> exp.Expr:
    """A node for what an expression is yet to be written about."""
    return exp.column(f"hole{number}")


def with_holes(tree: exp.Expr) -> str:
    """An expression in DuckDB's dialect, with ``{0}`` for the first hole and so on, as ``format`` takes it."""
    text = _translated(_read(tree.sql(EverviewSpark, comments=False)), "a window function")
    return re.sub(r"\bhole([0-9]+)\b", r"{\1}", text.replace("{", "{{").replace("}", "}}"))


@_bounded()
def translated_query(query: exp.Expr) -> str:
    """A query that was spelled out, in DuckDB's dialect."""
    return _translated(_read(query.sql(EverviewSpark, comments=False)), "the query")


def duckdb_type(type_: DataType) -> str:
    """A type as DuckDB calls it."""
    return str(exp.DataType.build(spark_name(type_), dialect=EverviewSpark).transform(_typed, copy=False).sql("duckdb"))


def _translated(tree: exp.Expr, what: str) -> str:
    """A tree in DuckDB's dialect; what sqlglot has no translation for is refused, where it would only warn."""
    check_expansion(tree, what)
    try:
        return tree.transform(_typed, copy=False).sql(EverviewDuckDB, unsupported_level=ErrorLevel.RAISE)
    except sqlglot.UnsupportedError as error:
        raise refused(what, "a function in it is not known here") from error


def _typed(node: exp.Expr) -> exp.Expr:
    """An integer in arithmetic has a type of its own in Spark; in DuckDB it takes that of the other side.

    Lengths of time are microseconds there.
    """
    if isinstance(node, exp.DataType) and isinstance(node.this, exp.Interval):
        return exp.DataType.build("BIGINT")
    if not isinstance(node, exp.Literal) or not isinstance(node.parent, _ARITHMETIC) or not node.name.isdigit():
        return node
    type_ = integer_literal(node.name)
    return exp.cast(node.copy(), str(type_)) if type_.is_integer and not node.is_string else node
