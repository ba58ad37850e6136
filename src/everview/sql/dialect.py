"""The dialect that Everview reads: Spark SQL, with every function call kept as it was written.

sqlglot turns ``date_add(d, 1)`` into a node of its own making, so that it can be printed for other systems. Everview
prints for Spark only, types functions by entries of its own (``functions/``), and wants each call's text and place
untouched: so nearly all calls parse as plain ``name(arguments)``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError
from sqlglot.generators.duckdb import DuckDBGenerator
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.transforms import any_to_exists, preprocess, unnest_to_explode

from everview.sql.chains import ChainWriter

WRITTEN: Final = "written"
"""Where a type's node keeps the words that it was read from."""
CHECK_OPTIONS: Final = "options"
"""Where a CHECK's node keeps the words behind it, such as NOT ENFORCED."""
_CONSTRUCTORS = ("ARRAY", "STRUCT", "MAP")
_SPAN_FUNCTIONS = ("tumble", "hop", "cumulate")
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "POSITION")


class TokenSyntaxError(ParseError):
    """A parse error that still knows its token: sqlglot's own only keeps the end column."""

    def __init__(self, description: str, token: Token | None) -> None:
        super().__init__(description)
        self.description = description
        self.token = token


class _Parser(SparkParser):
    FUNCTIONS: ClassVar[dict[str, Any]] = {}
    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in _SPECIAL_SYNTAX
    } | {"OVERLAY": lambda self: self._parse_placing()}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
        "CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"],
        "ANY": lambda self: self._parse_any(),
    }

    def parse(self, raw_tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        """``window(`` is a call, and not the clause of that name; in ``TUMBLE(TABLE t, …)`` stands a table."""
        for token, after in pairwise(raw_tokens):
            if token.token_type in (TokenType.WINDOW, TokenType.SESSION) and after.token_type is TokenType.L_PAREN:
                token.token_type = TokenType.VAR
        return super().parse(_with_select(_without_table(raw_tokens)), sql)

    def raise_error(self, message: str, token: Token | None = None) -> None:
        expected = message.startswith("Expect")  # then what stands there now matters, not what stood before
        raise TokenSyntaxError(message, (None if expected else token) or self._curr or None)

    def _parse_as_command(self, start: Token) -> exp.Command:
        """sqlglot keeps a CREATE that it cannot read to its end as unparsed text; here that is an error."""
        self.raise_error("Unexpected token")
        return super()._parse_as_command(start)

    def _parse_alter(self) -> exp.Alter | exp.Command:
        """ALTER MATERIALIZED VIEW is read as ALTER VIEW."""
        self._match_text_seq("MATERIALIZED")
        return super()._parse_alter()

    def _parse_any(self) -> exp.Expr:
        """``any(condition)`` is an aggregate; ``x = ANY (SELECT …)`` and ``LIKE ANY (…)`` are none."""
        token = self._prev
        inner = self._parse_bitwise()
        if isinstance(inner, exp.Paren) and not isinstance(inner.unnest(), exp.Query):
            call = exp.Anonymous(this=token.text, expressions=[inner.this])
            call.update_positions(token)
            return call
        return exp.Any(this=inner)

    def _parse_placing(self) -> exp.Expr:
        """``overlay(s PLACING p FROM n FOR k)`` is ``overlay(s, p, n, k)``."""
        found = [self._parse_bitwise()]
        for word in ("PLACING", "FROM", "FOR"):
            if self._match(TokenType.COMMA) or self._match_text_seq(word):
                found.append(self._parse_bitwise())
        return exp.Anonymous(this="overlay", expressions=[part for part in found if part is not None])

    def _parse_check_constraint(self) -> exp.CheckColumnConstraint | None:
        """CHECK (…) may have the options of a key behind it, which sqlglot does not look for."""
        found = super()._parse_check_constraint()
        if found is not None:
            found.meta[CHECK_OPTIONS] = self._parse_key_constraint_options()
        return found

    def _parse_types(self, *args: Any, **options: Any) -> exp.Expr | None:
        """Keep how a type was written: sqlglot takes NUMBER for DECIMAL, and drops WITHOUT TIME ZONE."""
        start = self._index
        if self._is_constructor():
            return None  # ``array(a, b)[0]`` is a call, and no type with a value
        found = super()._parse_types(*args, **options)
        if isinstance(found, exp.DataType):
            found.meta[WRITTEN] = " ".join(token.text.upper() for token in self._tokens[start : self._index])
        return found

    def _is_constructor(self) -> bool:
        name, after = self._curr, self._next
        return bool(name and after) and name.text.upper() in _CONSTRUCTORS and after.token_type is TokenType.L_PAREN

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """``array(a, b)[0]`` is an element of what the call gives, and no array of 0."""
        if not isinstance(this, exp.Anonymous):
            return super()._parse_bracket(this)
        hidden = exp.Paren(this=this)
        found = super()._parse_bracket(hidden)
        hidden.replace(this)
        return this if found is hidden else found

    def _parse_key_value_property(self, *args: Any, **options: Any) -> exp.Property | None:
        """Keep where the name of an option stands."""
        token = self._curr
        found = super()._parse_key_value_property(*args, **options)
        if found is not None and token and isinstance(found.this, exp.Expr) and "start" not in found.this.meta:
            found.this.update_positions(token)
        return found

    def _parse_user_defined_type(self, identifier: exp.Identifier) -> exp.Expr | None:
        return exp.DataType(this=exp.DType.USERDEFINED, kind=identifier.name)

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        token = self._curr
        call = super()._parse_function_call(*args, **options)
        if isinstance(call, exp.Func | exp.SubqueryPredicate | exp.Case) and token and "start" not in call.meta:
            call.update_positions(token)
        return call


class _SparkWriter(ChainWriter, SparkGenerator):
    """What it writes is read again by this dialect, which has QUALIFY: sqlglot's form has outputs for its columns."""

    TRANSFORMS: ClassVar[dict[type[exp.Expr], Any]] = {
        **SparkGenerator.TRANSFORMS,
        exp.Select: preprocess([unnest_to_explode, any_to_exists]),
    }


class _DuckDBWriter(ChainWriter, DuckDBGenerator):
    pass


def _without_table(tokens: list[Token]) -> list[Token]:
    """The tokens without TABLE before a table that is the first argument of a function."""
    found = []
    for i, token in enumerate(tokens):
        is_named = i > 1 and token.token_type is TokenType.TABLE and tokens[i - 1].token_type is TokenType.L_PAREN
        if not (is_named and tokens[i - 2].text.lower() in _SPAN_FUNCTIONS):
            found.append(token)
    return found


def _with_select(tokens: list[Token]) -> list[Token]:
    """The tokens with ``AS SELECT * FROM t`` for ``AS TABLE t``."""
    found = []
    for i, token in enumerate(tokens):
        if i and token.token_type is TokenType.TABLE and tokens[i - 1].token_type is TokenType.ALIAS:
            words = (TokenType.SELECT, "SELECT"), (TokenType.STAR, "*"), (TokenType.FROM, "FROM")
            found += [Token(kind, text, token.line, token.col, token.start, token.end) for kind, text in words]
        else:
            found.append(token)
    return found


class EverviewSpark(Spark):
    """Spark SQL as of version 4, where a doubled quote inside a string stands for the quote itself."""

    SUPPORTS_USER_DEFINED_TYPES = True  # any word may stand where a type does: those that are none are refused by name

    class Tokenizer(Spark.Tokenizer):
        """Spark's tokens, with doubled quotes."""

        STRING_ESCAPES: ClassVar[list[str]] = ["\\", "'", '"']

    Parser = _Parser

    Generator = _SparkWriter


class EverviewDuckDB(DuckDB):
    """DuckDB's SQL, which is only written here."""

    Generator = _DuckDBWriter
