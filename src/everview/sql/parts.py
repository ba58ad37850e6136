"""Parts of nested values: elements, fields and keys, the names of a struct's fields, and what lambdas are bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sqlglot import exp

from everview.query.types import DataType, Kind
from everview.sql.sql_text import SqlText

_WRITTEN: Final = "lambda"
"""Where a variable of a lambda keeps the name that it was given."""


def field_type(type_: DataType, name: exp.Expr, source: SqlText) -> DataType:
    """The type of a struct's field."""
    if type_.kind is Kind.ARRAY and type_.element.kind is Kind.STRUCT:
        raise source.mismatch(
            f"{type_} has a field {name.name} in each element, and none itself",
            name,
            hint=f"write transform(a, x -> x.{name.name}), or a[0].{name.name}",
        )
    if type_.kind is not Kind.STRUCT:
        hint = f"write m['{name.name}']" if type_.kind is Kind.MAP else None
        raise source.mismatch(f"only a STRUCT has fields, and this is {type_}", name, hint=hint)
    place = type_.field(name.name)
    if place is None:
        raise source.unknown("field", name.name, name, type_.names, "the fields are")
    return type_.parts[place]


def name_fields(call: exp.Anonymous, source: SqlText) -> None:
    """Make of ``struct(a, b AS c)`` the ``named_struct('a', a, 'c', b)`` that it means."""
    found: list[exp.Expr] = []
    for number, argument in enumerate(call.expressions, 1):
        value = argument.this if isinstance(argument, exp.Alias) else argument
        if isinstance(value, exp.Star) or (isinstance(value, exp.Column) and isinstance(value.this, exp.Star)):
            raise source.unsupported("struct(*)", argument, hint="name the columns: struct(a, b)")
        name = f"col{number}"
        if isinstance(argument, exp.Alias):
            name = argument.alias
        elif isinstance(value, exp.Column):
            name = value.name
        elif isinstance(value, exp.Dot):
            name = value.expression.name
        elif isinstance(value, exp.Identifier):
            name = value.meta.get(_WRITTEN, value.name)
        found += [exp.Literal.string(name), value]
    call.set("this", "named_struct")
    call.set("expressions", found)


def name_variables(function: exp.Lambda, depth: int, most: int, source: SqlText) -> list[str]:
    """Give a lambda's variables names that nothing else has, and say which: columns have none of these."""
    given = [p.name for p in function.expressions]
    if len(given) > most:
        raise source.mismatch(f"a lambda of up to {most} variables is expected, and this has {len(given)}", function)
    names = {old.lower(): f"_e{depth}_{i}" for i, old in enumerate(given)}
    if len(names) < len(given):
        raise source.mismatch("two variables of a lambda have one name", function)
    _rename(function.this, names)
    for parameter in function.expressions:
        _call(parameter, names[parameter.name.lower()])
    return list(names.values())


def _rename(node: exp.Expr, names: dict[str, str]) -> None:
    """Rename variables in a lambda's body, but for those of a lambda in it that hide them."""
    if isinstance(node, exp.Lambda):
        hidden = {p.name.lower() for p in node.expressions}
        _rename(node.this, {old: new for old, new in names.items() if old not in hidden})
        return
    if isinstance(node, exp.Identifier):
        if node.name.lower() in names:
            _call(node, names[node.name.lower()])
        return
    skipped = {"expression"} if isinstance(node, exp.Dot) else set[str]()
    if isinstance(node, exp.Column | exp.DataType | exp.Alias):
        skipped = {"this", "table", "db", "catalog"} if isinstance(node, exp.Column) else {"alias"}
    for key, value in list(node.args.items()):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr) and key not in skipped:
                _rename(child, names)


def _call(node: exp.Expr, name: str) -> None:
    node.meta.setdefault(_WRITTEN, node.name)
    node.set("this", name)


def with_values(function: exp.Lambda, values: Sequence[exp.Expr]) -> exp.Expr:
    """The body of a lambda with values in the place of its variables."""
    places = {p.name: v for p, v in zip(function.expressions, values, strict=False)}
    holder = exp.Paren(this=function.this.copy())
    for node in list(holder.find_all(exp.Identifier)):
        if node.name in places and not (isinstance(node.parent, exp.Column | exp.Dot) and node.arg_key != "this"):
            node.replace(places[node.name].copy())
    return holder
