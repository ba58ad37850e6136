"""OPTIONS (name = value, …) of CREATE and ALTER VIEW: read as values, refused at their places; statements with them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from everview.errors import OptionError
from everview.query.options import NAMES, ViewOptions, unknown_option
from everview.sql.ddl import qualified
from everview.sql.sql_text import SqlText, is_word


def read_options(source: SqlText, statement: exp.Expr) -> ViewOptions:
    """The options of a CREATE VIEW statement."""
    return ViewOptions.of(_read(source, _entries(source, statement)))


def read_changed_options(source: SqlText, statement: exp.Alter, before: ViewOptions) -> ViewOptions:
    """The options of a view after ALTER VIEW … SET OPTIONS (…); one that is set to NULL is set no more."""
    actions = statement.args.get("actions") or []
    found = [p for action in actions if isinstance(action, exp.AlterSet) for p in action.find_all(exp.OptionsProperty)]
    if len(actions) != 1 or len(found) != 1 or not found[0].expressions:
        raise source.syntax(
            "of a view only the options can be altered",
            actions[0] if actions and isinstance(actions[0], exp.Expr) else statement.this,
            hint="write ALTER MATERIALIZED VIEW … SET OPTIONS (epsilon = 0.5)",
        )
    changes = _read(source, found[0].expressions, may_be_null=True)
    return ViewOptions.of(before.given() | changes)


def _read(source: SqlText, entries: list[exp.Property], *, may_be_null: bool = False) -> dict[str, Any]:
    """The values of options by their names, each checked; None for NULL."""
    found: dict[str, Any] = {}
    for entry in entries:
        name = _name(entry)
        try:
            if name not in NAMES:
                raise unknown_option(name)
            if name in found:
                raise OptionError(f"option {name} is given twice", option=name, hint="leave one of the two out")
        except OptionError as error:
            raise error.located(source.position(entry.this), source.text) from None
        value = entry.args["value"]
        if may_be_null and isinstance(value, exp.Null):
            found[name] = None
            continue
        try:
            found |= ViewOptions.of({name: _value(name, value)}).given()
        except OptionError as error:
            raise error.located(source.position(entry.args["value"]), source.text) from None
    return found


def create_view_text(name: str, options: ViewOptions, query: str) -> str:
    """The statement that creates a view from a query."""
    clause = f" OPTIONS ({options})" if options else ""
    return f"CREATE MATERIALIZED VIEW {qualified(name)}{clause} AS {query}"


def with_options(text: str, tokens: Sequence[Token], options: ViewOptions) -> str:
    """A CREATE VIEW statement, whose tokens these are, with other options in the place of its own."""
    depth, clause, last = 0, None, None
    for i, token in enumerate(tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0 and is_word(token, "AS"):
            break
        if depth == 0 and is_word(token, "OPTIONS") and tokens[i + 1].token_type is TokenType.L_PAREN:
            clause = token.start
        elif depth == 0 and clause is not None and last is None:
            last = token.end
    else:
        raise ValueError(f"{text!r} creates no view")
    head = text[: token.start].rstrip()
    if clause is not None and last is not None:
        head = f"{text[:clause].rstrip()} {text[last + 1 : token.start].strip()}".rstrip()
    inserted = f" OPTIONS ({options})" if options else ""
    return f"{head}{inserted} {text[token.start :]}"


def _entries(source: SqlText, statement: exp.Expr) -> list[exp.Property]:
    properties = statement.args.get("properties")
    found: list[exp.Property] = []
    for part in properties.expressions if properties is not None else ():
        if isinstance(part, exp.OptionsProperty):
            found += part.expressions
        elif type(part) is exp.Property and _name(part) in NAMES:
            raise source.syntax(
                f"{_name(part)} is an option of the view, and stands in another clause",
                part.this,
                hint=f"write CREATE MATERIALIZED VIEW … OPTIONS ({_name(part)} = …) AS …",
            )
    return found


def _name(entry: exp.Property) -> str:
    name = entry.this.name if isinstance(entry.this, exp.Literal | exp.Var | exp.Identifier) else entry.this.sql()
    return str(name).lower()


def _value(name: str, node: exp.Expr | None) -> object:
    """What stands behind an option's name: a number, a quotient of whole numbers, a text, true or false."""
    if name in ("lookup", "moments"):
        return _columns(node)
    if name == "component" and isinstance(node, exp.Var | exp.Identifier):
        return node.name
    if name == "component" and isinstance(node, exp.Column) and len(node.parts) == 1:
        return node.name
    if isinstance(node, exp.Neg):
        found = _value(name, node.this)
        return -found if isinstance(found, int | Decimal | Fraction) else None
    if isinstance(node, exp.Div):
        above, below = _value(name, node.this), _value(name, node.expression)
        if isinstance(above, int) and isinstance(below, int) and below:
            return Fraction(above, below)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return str(node.this)
        number = Decimal(node.this)
        return int(number) if node.this.isdigit() else number
    hint = "write a number, as 0.5 or 1/3, or a text in quotes, or true or false"
    if isinstance(node, exp.Var):
        hint = f"put it in quotes: {name} = '{node.name}'"
    said = f"the value of option {name} is neither a number nor a text, nor true or false"
    raise OptionError(said, option=name, hint=hint)


def _columns(node: exp.Expr | None) -> object:
    """The columns, or sets of columns, that stand behind the name of an option; False if that is something else."""
    match node:
        case exp.Literal() if node.is_string:
            return str(node.this)
        case exp.Var() | exp.Identifier():
            return node.name
        case exp.Column() if len(node.parts) == 1:
            return node.name
        case exp.Paren():
            inner = _columns(node.this)
            return inner if isinstance(node.this, exp.Paren | exp.Tuple) else [inner]
        case exp.Tuple():
            return [_columns(part) for part in node.expressions]
    return False
