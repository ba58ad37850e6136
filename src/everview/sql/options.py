"""OPTIONS (name = value, …) of CREATE VIEW: read as values, refused at their places; and the statement with them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from sqlglot import exp

from everview.errors import OptionError
from everview.query.options import NAMES, NO_OPTIONS, ViewOptions, unknown_option
from everview.sql.ddl import qualified
from everview.sql.sql_text import SqlText


def read_options(source: SqlText, statement: exp.Expr) -> ViewOptions:
    """The options of a CREATE VIEW statement."""
    found = NO_OPTIONS
    seen: set[str] = set()
    for entry in _entries(source, statement):
        name = _name(entry)
        try:
            if name not in NAMES:
                raise unknown_option(name)
            if name in seen:
                raise OptionError(f"option {name} is given twice", option=name, hint="leave one of the two out")
        except OptionError as error:
            raise error.located(source.position(entry.this), source.text) from None
        seen.add(name)
        try:
            found = found.joined(ViewOptions.of({name: _value(name, entry.args["value"])}))
        except OptionError as error:
            raise error.located(source.position(entry.args["value"]), source.text) from None
    return found


def create_view_text(name: str, options: ViewOptions, query: str) -> str:
    """The statement that creates a view from a query."""
    clause = f" OPTIONS ({options})" if options else ""
    return f"CREATE MATERIALIZED VIEW {qualified(name)}{clause} AS {query}"


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
    """What stands behind an option's name: a number, a quotient of whole numbers, or a text."""
    if isinstance(node, exp.Neg):
        found = _value(name, node.this)
        return -found if isinstance(found, int | Decimal | Fraction) else None
    if isinstance(node, exp.Div):
        above, below = _value(name, node.this), _value(name, node.expression)
        if isinstance(above, int) and isinstance(below, int) and below:
            return Fraction(above, below)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return str(node.this)
        number = Decimal(node.this)
        return int(number) if node.this.isdigit() else number
    hint = "write a number, as 0.5 or 1/3, or a text in quotes"
    if isinstance(node, exp.Var):
        hint = f"put it in quotes: {name} = '{node.name}'"
    raise OptionError(f"the value of option {name} is neither a number nor a text", option=name, hint=hint)
