"""From text to statement trees, with syntax errors in words and places in the user's text.

sqlglot is lenient: it reads ``SELECT a FROM t GROUP`` as a table with the alias GROUP, and ``SELEC a`` as an
expression. What Spark would reject is rejected here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from difflib import get_close_matches
from itertools import pairwise
from typing import TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError, TokenError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from everview.errors import EverviewError, Position, SizeError, SqlSyntaxError, check_text
from everview.sql.chains import balanced
from everview.sql.dialect import EverviewSpark, TokenSyntaxError
from everview.sql.limits import MOST_TYPES, MOST_WORDS
from everview.sql.refuse import refuse_other_systems
from everview.sql.sql_text import SqlText, is_word, position_at
from everview.sql.written_out import spelled

_DIALECT = EverviewSpark()
_CLAUSE_WORDS = frozenset(
    "SELECT FROM WHERE GROUP BY HAVING ORDER JOIN ON USING INNER LEFT RIGHT FULL CROSS NATURAL UNION EXCEPT INTERSECT "
    "LIMIT OFFSET AND OR NOT CASE WHEN THEN ELSE END AS IN EXISTS BETWEEN DISTINCT WITH QUALIFY WINDOW IS".split()
)
_STARTS = ("SELECT", "WITH", "CREATE", "ALTER", "DROP", "FROM", "VALUES", "(")
_DATA = ("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "LOAD", "COPY")
_OTHERS = (
    *_DATA,
    *"USE SHOW SET RESET EXPLAIN DESCRIBE DESC ANALYZE CACHE UNCACHE CLEAR REFRESH REPAIR MSCK ADD LIST "
    "GRANT REVOKE CALL DECLARE EXECUTE BEGIN COMMIT ROLLBACK START COMMENT TABLE REPLACE MAP REDUCE PRAGMA ATTACH "
    "DETACH KILL VACUUM OPTIMIZE".split(),
)
_INSTEAD = (
    dict.fromkeys(("SHOW", "DESCRIBE", "DESC"), "db.tables and db.views have the names; print a table or view for more")
    | dict.fromkeys(("BEGIN", "START", "COMMIT", "ROLLBACK"), "changes that belong together stand in with db.batch()")
    | dict.fromkeys(("REFRESH", "ANALYZE", "OPTIMIZE", "VACUUM"), "nothing is to be done: a view is always fresh")
    | {"EXPLAIN": "write everview.explain(query, schema), or db.view(name).explain()"}
)
"""What is there in place of a statement that other databases have."""
_CREATE_MODIFIERS = ("OR", "REPLACE", "TEMPORARY", "TEMP", "GLOBAL", "MATERIALIZED", "EXTERNAL")
_AFTER_LISTS = ("FROM", "WHERE", "GROUP", "HAVING", "ORDER", "UNION", "EXCEPT", "INTERSECT", "LIMIT")
_DEEPER = {TokenType.L_PAREN: 1, TokenType.CASE: 1, TokenType.R_PAREN: -1, TokenType.END: -1}
_MAX_DEPTH = 150
_MAX_SET_OPERATIONS = 150
_T = TypeVar("_T")


def parse_statements(text: str) -> tuple[SqlText, list[exp.Expr]]:
    """The statements of a script, empty ones left out; raises SqlSyntaxError for what is not SQL."""
    check_text(text, "SQL")
    source = SqlText(text)
    try:
        source = SqlText(text, _DIALECT.tokenize(text))
    except TokenError as error:
        raise _token_error(text) from error
    _check_size(source)
    _check_nesting(source)
    _check_beginnings(source)
    _check_tokens(source)
    statements = guarded(source, lambda: _DIALECT.parse(text))
    found = [balanced(spelled(s)) for s in statements if s is not None and not isinstance(s, exp.Semicolon)]
    for statement in found:
        _check_statement(source, statement)
    return source, found


def parse_one(text: str, what: str) -> tuple[SqlText, exp.Expr]:
    """The single statement of a text."""
    source, statements = parse_statements(text)
    if not statements:
        raise source.syntax(f"there is no {what}: the text is empty", Position(1, 1), hint="write a SELECT statement")
    if len(statements) > 1:
        raise source.syntax(
            f"one {what} is expected, and here are {len(statements)} statements",
            source.token(source.first_token(statements[1])),
            hint="pass one statement at a time; db.sql takes several",
        )
    return source, statements[0]


def guarded(source: SqlText, work: Callable[[], _T]) -> _T:
    """Run something over sqlglot's trees; whatever goes wrong inside comes out as an Everview error."""
    try:
        return work()
    except EverviewError as error:
        raise error.located(None, source.text) from error.__cause__
    except TokenSyntaxError as error:
        raise _syntax_error(source, error) from None
    except RecursionError:
        raise source.syntax(
            "the statement is nested too deeply", _deepest(source), hint="split it with WITH clauses"
        ) from None
    except (SqlglotError, ValueError, TypeError, KeyError, AttributeError, IndexError, AssertionError) as error:
        raise source.syntax("the statement cannot be understood", None, hint="check its spelling") from error


def _syntax_error(source: SqlText, error: TokenSyntaxError) -> SqlSyntaxError:
    token = error.token
    if token is None or (not token.text and token.start >= len(source.text)):
        last = source.tokens[-1] if source.tokens else None
        place = position_at(source.text, last.end + 1 if last else 0)
        return source.syntax(f"the statement ends too early: {_in_words(error.description, '')}", place)
    shown = source.text[token.start : token.end + 1]
    return source.syntax(_in_words(error.description, shown), source.token(token), hint=_misspelled(source, token))


def _misspelled(source: SqlText, token: Token) -> str | None:
    """What the unexpected word, or the one before it, is probably meant to be: another keyword, or a name."""
    at = next((i for i, t in enumerate(source.tokens) if t.start == token.start), 0)
    before = source.tokens[at - 1] if at else None
    if (
        before is not None
        and before.token_type in (TokenType.L_PAREN, TokenType.COMMA)
        and is_word(token, *_CLAUSE_WORDS)
    ):
        return f"a name that is a keyword needs quotes: `{token.text}`"
    for near in (before, token):
        if near is not None and near.token_type is TokenType.VAR:
            close = get_close_matches(near.text.upper(), _CLAUSE_WORDS, n=1, cutoff=0.7)
            if close and close[0] != near.text.upper():
                return f"did you mean {close[0]} in place of {near.text}?"
    return None


def _in_words(description: str, shown: str) -> str:
    """sqlglot's complaint without its Python class names and token dumps."""
    before = f" before {shown}" if shown else ""
    missing = re.match(r"Required keyword: '(\w+)' missing for <class '[\w.]*?(\w+)'>", description)
    if missing:
        return f"something is missing in {_construct(missing[2])}{before}"
    if description.startswith(("Invalid expression", "Unexpected token")):
        return f"unexpected {shown}" if shown else "something is missing"
    expecting = re.match(r"Expect(?:ing|ed) (.+?)(?: but got .*)?$", description, re.DOTALL)
    if expecting and "<" not in expecting[1]:
        return f"expected {expecting[1]}{before}"
    plain = re.sub(r"<[^<>]*>+", "", description).strip().rstrip(":.")
    return f"{plain[:1].lower()}{plain[1:]}{before}" if plain else f"unexpected {shown}"


def _construct(class_name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", class_name).upper()
    return {"EQ": "the comparison", "ALIAS": "the alias"}.get(words, f"the {words}")


def _token_error(text: str) -> SqlSyntaxError:
    """The unterminated quote or comment: sqlglot does not say where it began, so find it."""
    at, closing = 0, None
    starts = {"'": "'", '"': '"', "`": "`", "/*": "*/"}
    start = 0
    while at < len(text):
        if closing is None:
            if text.startswith("--", at):
                at = (text.find("\n", at) + 1) or len(text)
                continue
            opening = next((s for s in ("/*", "'", '"', "`") if text.startswith(s, at)), None)
            if opening:
                start, closing = at, starts[opening]
                at += len(opening)
                continue
            at += 1
        elif text[at] == "\\" and closing in "'\"":
            at += 2
        elif text.startswith(closing, at):
            at += len(closing)
            closing = None
        else:
            at += 1
    source = SqlText(text)
    if closing is None:
        return source.syntax("the text cannot be split into words", Position(1, 1), hint="check its quotes")
    what = {"*/": "comment", "`": "quoted name"}.get(closing, "string")
    return source.syntax(f"the {what} is never closed", position_at(text, start), hint=f"close it with {closing}")


def _check_size(source: SqlText) -> None:
    """Refuse what the parser alone would take too long for: very long statements, and calls named as types in calls.

    It reads ``string(…)`` as a type first and then again as a call, so each level of such a nest doubles its time.
    """
    words, named_as_types, before = 0, list[bool](), TokenType.SEMICOLON
    for token in source.tokens:
        kind = token.token_type
        words = 0 if kind is TokenType.SEMICOLON else words + 1
        if kind is TokenType.L_PAREN:
            named_as_types.append(before in SparkParser.TYPE_TOKENS)
        elif kind is TokenType.R_PAREN and named_as_types:
            named_as_types.pop()
        before = kind
        if words > MOST_WORDS:
            raise SizeError(
                f"the statement has more than {MOST_WORDS:,} words and signs",
                position=source.token(token),
                source=source.text,
                hint="put long lists of values into a table, and join with it",
            )
        if kind is TokenType.L_PAREN and sum(named_as_types) > MOST_TYPES:
            raise SizeError(
                f"more than {MOST_TYPES} calls that are named as types stand in each other",
                position=source.token(token),
                source=source.text,
                hint="write CAST(x AS type), or split it with WITH clauses",
            )


def _check_nesting(source: SqlText) -> None:
    depth = 0
    for token in source.tokens:
        depth += _DEEPER.get(token.token_type, 0)
        if depth > _MAX_DEPTH:
            raise source.syntax(
                f"more than {_MAX_DEPTH} levels of nesting", source.token(token), hint="split it with WITH clauses"
            )


def _deepest(source: SqlText) -> Position | None:
    """The place with most parentheses and CASEs around it."""
    depth, most, deepest = 0, 0, None
    for token in source.tokens:
        depth += _DEEPER.get(token.token_type, 0)
        if depth > most:
            most, deepest = depth, source.token(token)
    return deepest


def _check_beginnings(source: SqlText) -> None:
    """Each statement must begin with a word that Everview reads; others are refused before sqlglot guesses."""
    for index in source.beginnings():
        token = source.tokens[index]
        word = token.text.upper().partition(" ")[0]
        if not is_word(token, *_STARTS, *_OTHERS):
            close = get_close_matches(word, _STARTS, n=1)
            raise source.syntax(
                f"a statement cannot begin with {source.text[token.start : token.end + 1]}",
                source.token(token),
                hint=f"did you mean {close[0]}?" if close else "write SELECT …, CREATE TABLE … or CREATE VIEW …",
            )
        if word in _DATA:
            raise source.unsupported(
                word,
                source.token(token),
                message=f"{word} is not a statement of Everview: data comes through the API",
                hint="use db.insert, db.delete, db.apply or db.batch",
            )
        if word in _OTHERS:
            raise source.unsupported(
                word,
                source.token(token),
                message=f"{word} is not a statement of Everview",
                hint=_INSTEAD.get(word, "write CREATE TABLE, CREATE VIEW or SELECT"),
            )
        if word == "CREATE":
            _check_create(source, index)
        if word == "ALTER":
            _check_alter(source, index)


def _check_create(source: SqlText, index: int) -> None:
    rest = [t for t in source.tokens[index + 1 : index + 6] if not is_word(t, *_CREATE_MODIFIERS)]
    if rest and not is_word(rest[0], "TABLE", "VIEW"):
        construct = f"CREATE {rest[0].text.upper()}"
        raise source.unsupported(
            construct,
            source.token(source.tokens[index]),
            message=f"{construct} is not supported",
            hint="there are CREATE TABLE and CREATE [MATERIALIZED] VIEW",
        )


def _check_alter(source: SqlText, index: int) -> None:
    rest = [t for t in source.tokens[index + 1 : index + 3] if not is_word(t, "MATERIALIZED")]
    if not rest or not is_word(rest[0], "VIEW"):
        construct = f"ALTER {rest[0].text.upper()}" if rest else "ALTER"
        raise source.unsupported(
            construct,
            source.token(source.tokens[index]),
            message=f"{construct} is not supported",
            hint="there is ALTER [MATERIALIZED] VIEW … SET OPTIONS (…)",
        )


def _check_tokens(source: SqlText) -> None:
    """sqlglot forgives commas that separate nothing, Spark does not; and TOP, which neither knows, means LIMIT."""
    for token, after in pairwise([*source.tokens, None]):
        if token is None:
            break
        ends = after is None or after.token_type is TokenType.SEMICOLON
        if is_word(token, "ON", "USING") and (ends or is_word(after, *_AFTER_LISTS, "JOIN")):
            raise source.syntax(f"{token.text.upper()} needs something after it", source.token(token))
        if token.token_type is TokenType.COMMA and ends:
            raise source.syntax("unexpected , at the end", source.token(token), hint="drop the comma")
        if after is None:
            break
        if token.token_type is TokenType.COMMA:
            if after.token_type is TokenType.COMMA:
                raise source.syntax("unexpected ,", source.token(after), hint="something is missing between the commas")
            if is_word(after, *_AFTER_LISTS) or after.token_type is TokenType.R_PAREN:
                raise source.syntax(f"unexpected , before {after.text}", source.token(token), hint="drop the comma")
        if is_word(token, "TOP") and after.token_type is TokenType.NUMBER:
            raise source.unsupported("LIMIT", source.token(token), hint="cut the view when you read it")
        if is_word(token, "MATCH_RECOGNIZE") and after.token_type is TokenType.L_PAREN:
            hint = "LAG and LEAD compare a row with those before and behind it"
            raise source.unsupported("MATCH_RECOGNIZE", source.token(token), hint=hint)
        if token.token_type is TokenType.L_PAREN and after.token_type is TokenType.COMMA:
            raise source.syntax("unexpected ,", source.token(after), hint="something is missing before the comma")
    for token, after, last in zip(source.tokens, source.tokens[1:], [*source.tokens[2:], None], strict=False):
        is_last = last is None or last.token_type is TokenType.SEMICOLON
        if is_word(token, "EMIT") and is_word(after, "CHANGES") and is_last:
            hint = "leave it out: every view has a feed of its changes"
            raise source.unsupported("EMIT CHANGES", source.token(token), hint=hint)


def _check_statement(source: SqlText, statement: exp.Expr) -> None:
    if isinstance(statement, exp.Command):
        raise source.syntax("the statement cannot be understood", source.token(source.first_token(statement)))
    for alias in statement.find_all(exp.Alias, exp.TableAlias):
        name = alias.args.get("alias") if isinstance(alias, exp.Alias) else alias.this
        _check_alias(source, name)
    for column in statement.find_all(exp.Column):
        if not column.args.get("table"):
            _check_alias(source, column.this)
    refuse_other_systems(source, statement)
    operations = sum(1 for _ in statement.find_all(exp.SetOperation))
    if operations > _MAX_SET_OPERATIONS:
        raise source.syntax(
            f"{operations} set operations, and at most {_MAX_SET_OPERATIONS} may stand in one statement",
            source.token(source.first_token(statement)),
            hint="split it into several views",
        )
    for group in statement.find_all(exp.Group):
        if not any(group.args.values()):
            raise source.syntax("GROUP BY names no column", source.keyword(None, "GROUP"), hint="name one, or drop it")


def _check_alias(source: SqlText, name: exp.Expr | None) -> None:
    if isinstance(name, exp.Identifier) and not name.quoted and name.name.upper() in _CLAUSE_WORDS:
        raise source.syntax(
            f"unexpected {name.name.upper()}",
            name,
            hint=f"the clause is incomplete; a name that is a keyword needs quotes: `{name.name}`",
        )
