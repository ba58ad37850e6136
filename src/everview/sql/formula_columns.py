"""A query that is to be a formula: which table each of its names reads, and which columns hold elements.

A column that is selected, counted, or compared with another column holds *elements*. One that is compared only with
constants is a *label*, and so is the column that ``component`` names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from everview.query.schema import Schema, Table
from everview.query.terms import Expression, Var
from everview.query.types import ANY
from everview.sql.chains import conjuncts
from everview.sql.literals import constant
from everview.sql.names import Cell, Relation, Scope
from everview.sql.nested import bare
from everview.sql.refuse import refuse_clauses, refuse_join
from everview.sql.sql_text import SqlText

_CLAUSES = ("expressions", "from_", "joins", "where", "group", "having", "distinct", "hint")
_OWN_TABLES = "a formula reads tables: name the tables themselves, and say the rest with EXISTS"


@dataclass(frozen=True, eq=False)
class Occurrence:
    """One table in the FROM of one SELECT."""

    table: Table
    alias: str
    node: exp.Expr
    select: exp.Select


@dataclass(frozen=True)
class Place:
    """A column of an occurrence, by its position."""

    occurrence: Occurrence
    column: int

    def __str__(self) -> str:
        return f"{self.occurrence.alias}.{self.occurrence.table.columns[self.column].name}"

    @property
    def identity(self) -> tuple[str, int]:
        """The column of the table."""
        return self.occurrence.table.name, self.column


class Columns:
    """All columns that a query names, in all of its SELECTs, with what they are."""

    def __init__(
        self, source: SqlText, query: exp.Select, schema: Schema, views: Collection[str], component: str | None
    ) -> None:
        self.source = source
        self.schema = schema
        self.views = views
        self.component = component.lower() if component is not None else None
        self._places: list[Place] = []
        self._found: dict[int, Place] = {}
        self.occurrences: dict[int, list[Occurrence]] = {}
        """The tables of each SELECT, by its id."""
        scopes: dict[int, Scope] = {}
        for select in query.find_all(exp.Select, bfs=False):
            around = select.find_ancestor(exp.Select)
            scopes[id(select)] = self._scope(select, scopes.get(id(around)))
        self.elements: set[tuple[str, int]] = set()
        """Columns of tables that hold elements."""
        self.named: dict[Place, None] = {}
        """What is named as an element, in the order of the text."""
        for column in query.find_all(exp.Column, bfs=False):
            place = self._resolved(scopes[id(column.find_ancestor(exp.Select))], column)
            if not self.is_component(place) and not self._is_tested(column):
                self.elements.add(place.identity)
                self.named[place] = None

    def name_all(self, counted: Iterable[Place]) -> None:
        """Have these columns hold elements as well; and one that holds some somewhere does so wherever it is tested."""
        for place in counted:
            self.elements.add(place.identity)
            self.named[place] = None
        for place in self._found.values():
            if place.identity in self.elements:
                self.named[place] = None

    def place(self, column: exp.Expr) -> Place:
        """What a column of the text is."""
        return self._found[id(column)]

    def is_label(self, place: Place) -> bool:
        """True if a column holds no elements."""
        return place.identity not in self.elements

    def is_component(self, place: Place) -> bool:
        """True for the column that says what a row belongs to."""
        return place.occurrence.table.columns[place.column].name.lower() == self.component

    def of(self, occurrence: Occurrence) -> list[Place]:
        """The columns of an occurrence that are named as elements."""
        return [place for place in self.named if place.occurrence is occurrence]

    def elements_of(self, table: Table) -> list[int]:
        """The columns of a table that hold elements."""
        return [i for i in range(table.arity) if (table.name, i) in self.elements]

    def conditions(self, select: exp.Select) -> Iterator[exp.Expr]:
        """What WHERE and ON demand, each part that AND joins by itself."""
        for join in select.args.get("joins") or ():
            if join.args.get("on") is not None:
                yield from conjuncts(join.args["on"])
        if select.args.get("where") is not None:
            yield from conjuncts(select.args["where"].this)

    # --- FROM ------------------------------------------------------------------------------------------------------

    def _scope(self, select: exp.Select, around: Scope | None) -> Scope:
        source = self.source
        with_ = select.args.get("with_")
        if with_ is not None:
            raise source.unsupported("WITH in a formula", source.keyword(with_, "WITH"), hint=_OWN_TABLES)
        refuse_clauses(source, select, _CLAUSES)
        if select.args.get("from_") is None:
            raise source.unsupported("SELECT without FROM in a formula", select, hint=_OWN_TABLES)
        scope = Scope(source, around)
        self.occurrences[id(select)] = []
        self._add(select, scope, select.args["from_"].this)
        for join in select.args.get("joins") or ():
            refuse_join(source, join)
            if join.side or join.kind in ("SEMI", "ANTI"):
                word = join.side or join.kind
                raise source.unsupported(
                    f"{word} JOIN in a formula",
                    source.keyword(join.this, word),
                    hint="say with EXISTS or NOT EXISTS what there must be, or must not be",
                )
            if join.args.get("using") or join.method == "NATURAL":
                raise source.unsupported("USING in a formula", join.this, hint="write the equalities behind ON")
            self._add(select, scope, join.this)
        return scope

    def _add(self, select: exp.Select, scope: Scope, item: exp.Expr) -> None:
        source = self.source
        if not isinstance(item, exp.Table) or isinstance(item.this, exp.Func):
            raise source.unsupported("a subquery in FROM of a formula", item, hint=_OWN_TABLES)
        refuse_clauses(source, item, ("this", "alias", "db", "catalog", "hints"))
        name = ".".join(part.name for part in item.parts)
        if name.lower() in self.views:
            hint = "write what the view says in the query itself"
            message = f"{name} is a view, and a formula reads tables"
            raise source.unsupported("formula over a view", item, hint=hint, message=message)
        table = self.schema.table(name)
        if table is None:
            raise source.unknown("table", name, item.parts[0], [t.name for t in self.schema], "there are")
        source.read.append((item, table.name))
        occurrence = Occurrence(table, item.alias or item.name, item, select)
        self.occurrences[id(select)].append(occurrence)
        cells = []
        for i, column in enumerate(table.columns):
            cells.append(
                (column.name, Cell(Expression.of(Var(str(len(self._places))), column.type), True, column.closed))
            )
            self._places.append(Place(occurrence, i))
        scope.add(Relation(occurrence.alias, cells, item.db), item)

    # --- names -----------------------------------------------------------------------------------------------------

    def _resolved(self, scope: Scope, column: exp.Column) -> Place:
        if isinstance(column.this, exp.Star):
            raise self.source.unsupported("* in a formula", column, hint="name the columns")
        term = scope.resolve(column).opened(self.source, column).expression.term
        assert isinstance(term, Var)
        found = self._found[id(column)] = self._places[int(term.name)]
        return found

    @staticmethod
    def _is_tested(column: exp.Expr) -> bool:
        """True if a column is compared with constants, and nothing else is done with it here."""
        node = column
        while isinstance(node.parent, exp.Paren):
            node = node.parent
        above = node.parent
        if isinstance(above, exp.EQ | exp.NEQ):
            other = above.expression if above.this is node else above.this
            return constant(other, ANY) is not None
        if isinstance(above, exp.In):
            return above.this is node and not above.args.get("query")
        return isinstance(above, exp.Is)


def equated(columns: Columns, condition: exp.Expr) -> tuple[Place, Place] | None:
    """The two columns that a condition says are equal; None if it says something else."""
    node = bare(condition)
    if not isinstance(node, exp.EQ):
        return None
    left, right = bare(node.this), bare(node.expression)
    if not isinstance(left, exp.Column) or not isinstance(right, exp.Column):
        return None
    return columns.place(left), columns.place(right)


def compared_with_constant(columns: Columns, condition: exp.Expr) -> tuple[Place, exp.Expr] | None:
    """The column that a condition says is equal to a constant, and that; None if it says something else."""
    node = bare(condition)
    if isinstance(node, exp.EQ | exp.NEQ):
        for one, other in ((bare(node.this), node.expression), (bare(node.expression), node.this)):
            if isinstance(one, exp.Column) and constant(other, ANY) is not None:
                return columns.place(one), other
    return None
