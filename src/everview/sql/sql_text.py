"""Places in the SQL text: from a node of the tree back to the line and column that the user wrote."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from difflib import get_close_matches
from itertools import pairwise
from typing import Final

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from everview.errors import (
    AggregationError,
    AmbiguousNameError,
    Position,
    QueryError,
    SchemaError,
    SizeError,
    SqlSyntaxError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    some_of,
)
from everview.query.types import DataType

_QUOTED: Final = frozenset(
    (
        TokenType.STRING,
        TokenType.IDENTIFIER,
        TokenType.RAW_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.UNICODE_STRING,
    )
)
"""Tokens whose text is the user's own, whatever word or sign it looks like."""


def position_at(text: str, start: int, length: int = 1) -> Position:
    """The position of a character offset; lines are counted as ``str.splitlines`` does, as the excerpts are."""
    rows = (text[: max(0, min(start, len(text)))] + "^").splitlines()
    return Position(len(rows), len(rows[-1]), max(1, length))


def is_word(token: Token | None, *words: str) -> bool:
    """True if a token is one of the keywords, or begins with it as GROUP BY does; never for what is quoted."""
    return token is not None and token.token_type not in _QUOTED and token.text.upper().partition(" ")[0] in words


class SqlText:
    """A text with its tokens: makes errors that know where they happened."""

    def __init__(self, text: str, tokens: Iterable[Token] = ()) -> None:
        self.text = text
        self.tokens = list(tokens)
        self._starts = [token.start for token in self.tokens]
        self.typed: list[tuple[exp.Expr, DataType]] | None = None
        """The type of each expression that was checked, inner ones first, if somebody wants to know."""
        self.read: list[tuple[exp.Expr, str]] = []
        """Each place in FROM that named a table or view of the schema, and the name of that."""
        self.stars: list[tuple[exp.Expr, list[exp.Expr]]] = []
        """Each star of a SELECT list, and the columns that it stands for."""
        self.natural: list[tuple[exp.Expr, list[exp.Expr]]] = []
        """Each NATURAL JOIN, and the columns that it equates."""
        self.preferred: list[tuple[exp.Expr, str]] = []
        """Columns of QUALIFY, and their relations: an output has the same name, which DuckDB would read."""

    def span(self, node: exp.Expr | None) -> tuple[int, int] | None:
        """First and last character of the leftmost part of a node that has a place, or that of its parents."""
        while node is not None:
            spans = [(n.meta["start"], n.meta["end"]) for n in node.walk() if "start" in n.meta]
            if spans:
                return min(spans)
            node = node.parent
        return None

    def position(self, node: exp.Expr | None) -> Position:
        """Where a node begins; for a text without places, its first token."""
        found = self.span(node)
        if found is None:
            found = (self.tokens[0].start, self.tokens[0].end) if self.tokens else (0, 0)
        return position_at(self.text, found[0], found[1] - found[0] + 1)

    def keyword(self, node: exp.Expr | None, *words: str) -> Position:
        """The nearest of ``words`` at or before a node, such as the LEFT of its join; the node if there is none."""
        found = self.span(node)
        index = bisect_right(self._starts, found[0]) - 1 if found else len(self.tokens) - 1
        for token in reversed(self.tokens[: index + 1]):
            if is_word(token, *words):
                return self.token(token)
        return self.position(node)

    def clause(self, node: exp.Expr, clause: object, words: tuple[str, ...]) -> Position:
        """The keyword of a clause of a node: before what is in it, or else the first such word after the node."""
        if isinstance(clause, exp.Expr) and any("start" in n.meta for n in clause.walk()):
            return self.keyword(clause, *words)
        found = self.span(node)
        for token in self.tokens[bisect_right(self._starts, found[0]) if found else 0 :]:
            if is_word(token, *words):
                return self.token(token)
        return self.position(node)

    def between(self, left: exp.Expr, right: exp.Expr, word: str) -> Position | None:
        """A keyword between two parts of a node, such as the NOT of x NOT IN (…)."""
        start, end = self.span(left), self.span(right)
        inside = [t for t in self.tokens if start and end and start[0] < t.start < end[0]]
        return next((self.token(t) for t in inside if is_word(t, word)), None)

    def follows_comma(self, node: exp.Expr) -> bool:
        """True if a comma stands before a node, and what opens parentheses around it."""
        found = self.span(node)
        index = bisect_right(self._starts, found[0]) - 2 if found else -1
        while index >= 0 and self.tokens[index].token_type is TokenType.L_PAREN:
            index -= 1
        return index >= 0 and self.tokens[index].token_type is TokenType.COMMA

    def beginnings(self) -> list[int]:
        """The indexes of the tokens that statements begin with."""
        ends = [t.token_type is TokenType.SEMICOLON for t in self.tokens]
        return [i for i, is_end in enumerate(ends) if not is_end and (i == 0 or ends[i - 1])]

    def statement_texts(self) -> list[str]:
        """What each statement says, from its first word to its last."""
        starts = [*self.beginnings(), len(self.tokens)]
        found = []
        for first, stop in pairwise(starts):
            words = [t for t in self.tokens[first:stop] if t.token_type is not TokenType.SEMICOLON]
            found.append(self.text[words[0].start : words[-1].end + 1])
        return found

    def first_token(self, statement: exp.Expr) -> Token:
        """The token that a statement begins with."""
        span = self.span(statement)
        starts = [self.tokens[i] for i in self.beginnings()]
        before = [t for t in starts if span is None or t.start <= span[0]]
        return before[-1] if before and span is not None else starts[0]

    def token(self, token: Token) -> Position:
        """Where a token stands."""
        return position_at(self.text, token.start, token.end - token.start + 1)

    # Errors, one method a class: ``where`` is a node, or a position that was found already.

    def _place(self, where: exp.Expr | Position | None) -> Position:
        return where if isinstance(where, Position) else self.position(where)

    def syntax(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> SqlSyntaxError:
        """The text is not SQL."""
        return SqlSyntaxError(message, position=self._place(where), source=self.text, hint=hint)

    def unknown(
        self, what: str, name: str, where: exp.Expr | Position | None, known: Iterable[str], listed: str
    ) -> UnknownNameError:
        """There is no such table, column or function; says which names are close, and what there is."""
        names = list(dict.fromkeys(known))
        by_lower = {n.lower(): n for n in reversed(names)}
        close = [by_lower[n] for n in get_close_matches(name.lower(), by_lower, n=3, cutoff=0.6)]
        hints = [f"did you mean {' or '.join(close)}?"] if close else []
        if listed:
            nothing = "there is none: write CREATE TABLE before" if what == "table" else "there is none"
            hints.append(f"{listed} {some_of(names)}" if names else nothing)
        return UnknownNameError(
            f"there is no {what} {name}", position=self._place(where), source=self.text, hint=" ".join(hints) or None
        )

    def ambiguous(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> AmbiguousNameError:
        """A name that could mean two things."""
        return AmbiguousNameError(message, position=self._place(where), source=self.text, hint=hint)

    def mismatch(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> TypeMismatchError:
        """Types that do not go together."""
        return TypeMismatchError(message, position=self._place(where), source=self.text, hint=hint)

    def aggregation(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> AggregationError:
        """An aggregate, or a column beside aggregates, where it may not stand."""
        return AggregationError(message, position=self._place(where), source=self.text, hint=hint)

    def schema(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> SchemaError:
        """A table or constraint that makes no sense."""
        return SchemaError(message, position=self._place(where), source=self.text, hint=hint)

    def query(self, message: str, where: exp.Expr | Position | None, hint: str | None = None) -> QueryError:
        """Anything else that is wrong with a query."""
        return QueryError(message, position=self._place(where), source=self.text, hint=hint)

    def too_large(self, message: str, where: exp.Expr | Position | None, hint: str) -> SizeError:
        """More than a limit of ``limits.py`` allows."""
        return SizeError(message, position=self._place(where), source=self.text, hint=hint)

    def unsupported(
        self, construct: str, where: exp.Expr | Position | None, hint: str | None = None, message: str | None = None
    ) -> UnsupportedError:
        """Understood, but not maintained."""
        return UnsupportedError(
            message or f"{construct} is not supported in a view",
            construct=construct,
            position=self._place(where),
            source=self.text,
            hint=hint,
        )
