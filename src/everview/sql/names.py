"""Names in scope: which relation and column an identifier means (case-insensitive, inner scopes first)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.errors import EverviewError
from everview.query.terms import Expression
from everview.query.types import DataType, Kind
from everview.sql.parts import field_type
from everview.sql.sql_text import SqlText

STANDS_FOR = "stands for"
"""Where a node without a name says by which number ``Scope.subqueries`` has what it stands for."""
CLOSED_HINT = "leave the column out of the view, or CAST it in the source to a type that views have"


@dataclass(frozen=True)
class Cell:
    """What a column name stands for: an expression over the variables of the body that reads it.

    ``strict`` says that it is NULL only where one of its variables is, ``closed`` why it cannot be read at all.
    """

    expression: Expression
    strict: bool = True
    closed: str = ""

    def opened(self, source: SqlText, where: exp.Expr) -> Cell:
        """The cell, if it can be read."""
        if self.closed:
            raise source.unsupported("column type", where, message=self.closed, hint=CLOSED_HINT)
        return self

    @property
    def type(self) -> DataType:
        """The column's type."""
        return self.expression.type


@dataclass(frozen=True)
class Named:
    """A column that plain names and stars reach; ``alias`` is that of its relation, empty once USING merged it."""

    name: str
    cell: Cell
    alias: str = ""


@dataclass
class Relation:
    """One entry of a FROM clause: an alias and its columns in order."""

    alias: str
    columns: list[tuple[str, Cell]]
    qualifier: str = ""
    """The database part of a qualified table name, so that db.t.x can be resolved too."""

    def named(self, name: str) -> list[Cell]:
        """The cells of that name; more than one if a subquery has two such columns."""
        wanted = name.lower()
        return [cell for column, cell in self.columns if column.lower() == wanted]

    def visible(self) -> list[Named]:
        """Its columns as plain names see them."""
        return [Named(name, cell, self.alias) for name, cell in self.columns]


def may_mean(column: exp.Column) -> set[tuple[str, str]]:
    """Aliases, or none, and names of the columns that a reference may be, or be a field of: t.s.x is of t.s or of s."""
    parts = [part.name.lower() for part in column.parts]
    found = {(column.table.lower(), column.name.lower()), ("", parts[0])}
    return found | {(parts[0], parts[1])} if len(parts) > 2 else found


@dataclass
class Scope:
    """The relations of one SELECT, and the scope around it for correlated references."""

    source: SqlText
    parent: Scope | None = None
    relations: list[Relation] = field(default_factory=list)
    columns: list[Named] = field(default_factory=list)
    """What ``*`` stands for at this point of the FROM clause, and what plain names are looked up in."""
    subqueries: dict[int, tuple[exp.Expr, Cell]] = field(default_factory=dict)
    """Subqueries of expressions that have been lowered: by the id of the node, that node and what stands for it."""

    def lowered(self, node: exp.Expr) -> Cell | None:
        """What stands for a subquery that has been lowered, here or, for a copy of what stands for it, further out."""
        found = self.subqueries.get(id(node))
        if found is None and STANDS_FOR in node.meta:
            key = node.meta[STANDS_FOR]
            found = next((s.subqueries[key] for s in self.outward() if key in s.subqueries), None)
        return None if found is None else found[1]

    def add(self, relation: Relation, where: exp.Expr) -> None:
        """Bring a relation into scope; its alias must be new."""
        self.add_alias(relation, where)
        self.columns += relation.visible()

    def add_alias(self, relation: Relation, where: exp.Expr) -> None:
        """Bring a relation into scope for qualified names only."""
        if relation.alias and any(r.alias.lower() == relation.alias.lower() for r in self.relations):
            raise self.source.ambiguous(
                f"two relations are named {relation.alias}", where, hint="give one of them another alias"
            )
        self.relations.append(relation)

    def tell_apart(self) -> None:
        """Let no two columns stand for the same expression: of a subquery's ``x AS a, x AS b``, b is ``(x)``."""
        seen: set[Expression] = set()
        for relation in self.relations:
            for i, (name, cell) in enumerate(relation.columns):
                expression = cell.expression
                while expression in seen:
                    expression = Expression(("(", *expression.parts, ")"), expression.type)
                seen.add(expression)
                if expression is not cell.expression:
                    other = replace(cell, expression=expression)
                    relation.columns[i] = name, other
                    self.columns = [
                        replace(c, cell=other) if (c.alias, c.name) == (relation.alias, name) else c
                        for c in self.columns
                    ]

    def resolve(self, column: exp.Column) -> Cell:
        """The cell that a column reference means, here or in a scope around."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.find(column)
            if found is not None:
                return found
            scope = scope.parent
        raise self._unknown(column)

    def has(self, column: exp.Column) -> bool:
        """True if it, or a scope around, has a column of that name, or several."""
        scopes = list(self.outward())
        known = {(r.alias.lower(), name.lower()) for scope in scopes for r in scope.relations for name, _ in r.columns}
        known |= {("", c.name.lower()) for scope in scopes for c in scope.columns}
        return not known.isdisjoint(may_mean(column))

    def find(self, column: exp.Column) -> Cell | None:
        """The cell in this very scope; None if it has no such relation or plain name."""
        name, table = column.name, column.table
        if table:
            relation = self.relation(table, column.db)
            cells = relation.named(name) if relation is not None else []
            if not cells:
                path = self._path(column)
                if path is not None:
                    return path
            if relation is None:
                return None
            if not cells:
                raise self.source.unknown(
                    "column", f"{table}.{name}", column.this, (c for c, _ in relation.columns), f"{table} has columns"
                )
            candidates = [f"two columns of {relation.alias}"]
        else:
            hits = [c for c in self.columns if c.name.lower() == name.lower()]
            cells = [hit.cell for hit in hits]
            candidates = [f"{hit.alias}.{hit.name}" if hit.alias else hit.name for hit in hits]
        if len(cells) > 1:
            raise self.source.ambiguous(
                f"column {name} is ambiguous: it could be {' or '.join(dict.fromkeys(candidates))}",
                column,
                hint="put the table's alias before it" if not table else "give the subquery's columns distinct names",
            )
        return cells[0] if cells else None

    def _path(self, column: exp.Column) -> Cell | None:
        """A field of a struct, or of a struct in it, that a column of this scope has: ``s.x``, ``t.s.x``, ``s.x.y``."""
        parts = column.parts
        for size in (2, 1):
            if len(parts) <= size:
                continue
            first = exp.Column(**dict(zip(("this", "table"), reversed(parts[:size]), strict=False)))
            relation = self.relation(parts[0].name) if size > 1 else None
            if size > 1 and (relation is None or not relation.named(parts[1].name)):
                continue
            cell = self.find(first)
            if cell is not None and (cell.type.kind is Kind.STRUCT or not self._is_named_further_out(column)):
                return self._field(cell, parts[size:])
        return None

    def _is_named_further_out(self, column: exp.Column) -> bool:
        """True if a scope around has the relation of a reference: d.day is not of a column d in here, then."""
        return any(scope.relation(column.table, column.db) is not None for scope in self.outward() if scope is not self)

    def _field(self, cell: Cell, names: Sequence[exp.Expr]) -> Cell:
        type_, text = cell.type, ""
        for name in names:
            type_ = field_type(type_, name, self.source)
            text += ".`" + name.name.replace("`", "``") + "`"
        inner = cell.expression.parts if cell.expression.term is not None else ("(", *cell.expression.parts, ")")
        return Cell(Expression((*inner, text), type_), False, cell.closed)

    def relation(self, alias: str, qualifier: str = "") -> Relation | None:
        """The relation of that alias in this scope."""
        for relation in self.relations:
            if relation.alias.lower() == alias.lower() and (
                not qualifier or relation.qualifier.lower() == qualifier.lower()
            ):
                return relation
        return None

    def _unknown(self, column: exp.Column) -> EverviewError:
        table = column.table
        if table:
            first = next((column.args[part] for part in ("catalog", "db", "table") if column.args.get(part)), column)
            aliases = [r.alias for scope in self.outward() for r in scope.relations if r.alias]
            return self.source.unknown("relation", table, first, aliases, "in scope here:")
        columns = [c.name for scope in self.outward() for c in scope.columns]
        return self.source.unknown("column", column.name, column, columns, "the columns in scope are")

    def outward(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent
