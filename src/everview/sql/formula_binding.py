"""A formula over the tables of a schema: its atoms' columns, their types, and which of them hold elements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from everview.errors import (
    AmbiguousNameError,
    EverviewError,
    OptionError,
    Position,
    QueryError,
    SizeError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from everview.query.formula import (
    ANY_VALUE,
    And,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    facts,
    subformulas,
)
from everview.query.formula_facts import FactRelation, FactSource, atoms, shape
from everview.query.formula_limits import check_limits, check_size
from everview.query.formula_normal import is_domain_independent, normalised
from everview.query.locality import Locality
from everview.query.options import ViewOptions
from everview.query.schema import Schema, Table
from everview.query.terms import Const, Term, Var
from everview.query.types import ANY, DataType, common_type
from everview.query.view import FEED_COLUMNS, FormulaBody, View
from everview.sql.datatypes import same_word
from everview.sql.formula_components import component_stages
from everview.sql.formula_syntax import read_formula
from everview.sql.literals import fit, parse_string
from everview.sql.sql_text import SqlText

DEGREE_HINT: Final = "say how many neighbours an element has at most: degree = 4"


def parse_formula(text: str, schema: Schema, options: ViewOptions, views: Collection[str] = ()) -> View:
    """The view that a formula defines over tables; ``views``, in lower case, are no tables."""
    query = read_formula(text)
    for fact in facts(query.formula):
        if fact.relation.lower() in views:
            raise UnsupportedError(
                f"{fact.relation} is a view, and a formula reads tables",
                construct="formula over a view",
                position=fact.position,
                source=text,
                hint="write what the view says in the formula itself",
            )
    try:
        return formula_view(query, schema, options, text)
    except RecursionError:
        raise SizeError("the formula is nested too deep", hint="split the query") from None


def formula_view(query: FormulaQuery, schema: Schema, options: ViewOptions, text: str | None = None) -> View:
    """The view of a formula that was read already; ``text`` is what its places are in."""
    if options.degree is None:
        raise OptionError(
            f"{query.name} is a formula, and is kept only where no element has many neighbours",
            option="degree",
            hint=DEGREE_HINT,
        )
    try:
        check_size(query.formula)
        body = _Binding(query, schema, options).body(max(options.degree, 2))
        stages = component_stages(body, schema)
    except EverviewError as error:
        raise error.located(None, text) from error.__cause__
    return View(query.name, body, stages, options=options)


class _Binding:
    """One formula on its way to its tables."""

    def __init__(self, query: FormulaQuery, schema: Schema, options: ViewOptions) -> None:
        self.schema = schema
        self.options = options
        self.found = {f.relation.lower(): self._table(f) for f in facts(query.formula)}
        if not self.found:
            raise QueryError("the formula reads no relation", hint="its elements are those of the tables that it reads")
        self.query = replace(query, formula=_each_atom(query.formula, self._named))
        self.elements = self._elements()
        self.type = self._type()
        self.query = replace(self.query, formula=_each_atom(self.query.formula, self._fitted))

    def body(self, degree: int) -> FormulaBody:
        """The view's body; raises if it costs more than is allowed."""
        for variable in self.query.head:
            if variable.name.lower() in FEED_COLUMNS:
                raise AmbiguousNameError(
                    f"a view's column cannot be named {variable}: its change feed has a column of that name",
                    hint="give the variable another name",
                )
        names = [v.name.lower() for v in self.query.head]
        if len(set(names)) < len(names):
            raise AmbiguousNameError(
                f"two columns of {self.query.name} differ in case only", hint="give the variables different names"
            )
        if len(self.query.head) > 2 and self.options.history is not None:
            raise OptionError(
                f"{self.query.name} has three variables, and what changes in it is not told",
                option="history",
                hint="leave it out, or split the query",
            )
        normal = normalised(self.query)
        check_limits(Locality(normal), degree)
        independent = is_domain_independent(normal)
        elsewhere = [] if independent or self.options.domain == "query" else self._elsewhere()
        relations = [self._relation(atom, elsewhere) for atom in atoms(self.query.formula)]
        if any(isinstance(part, Distance) for part in subformulas(self.query.formula)):
            relations += self._neighbours(relations)
        if not independent:
            relations += self._domain(elsewhere)
        return FormulaBody(
            self.query,
            normal,
            tuple(relations),
            self.type,
            degree,
            self.options.domain or "schema",
            self.options.component,
            independent,
        )

    # --- names and types -------------------------------------------------------------------------------------------

    def _table(self, fact: Fact) -> Table:
        table = self.schema.table(fact.relation)
        if table is None:
            at = fact.position or Position(1, 1)
            found = SqlText("").unknown("table", fact.relation, at, [t.name for t in self.schema], "there are")
            raise UnknownNameError(found.message, position=fact.position, hint=found.hint)
        return table

    def _named(self, atom: Fact | Equal) -> Fact | Equal:
        """An atom under its table's own name, its arity checked, and NULL refused."""
        if not isinstance(atom, Fact):
            return atom
        table = self.found[atom.relation.lower()]
        if len(atom.terms) != table.arity:
            plural = "s" * (table.arity != 1)
            raise QueryError(
                f"{table.name} has {table.arity} column{plural}, and is given {len(atom.terms)}",
                position=atom.position,
                hint=f"{table}; write _ for a column that does not matter",
            )
        if not atom.free:
            raise QueryError(
                f"{atom} has no variable",
                position=atom.position,
                hint=f"write exists x ({table.name}(x, …)), with a variable for an element",
            )
        return replace(atom, relation=table.name)

    def _elements(self) -> dict[str, tuple[int, ...]]:
        """For each table the columns that hold elements: those that meet a variable."""
        places: dict[str, set[int]] = {t.name: set() for t in self.found.values()}
        for fact in facts(self.query.formula):
            table = self.found[fact.relation.lower()]
            for i, term in enumerate(fact.terms):
                if isinstance(term, Var) and term != ANY_VALUE:
                    self._check_element(fact, table, i)
                    places[fact.relation].add(i)
        return {name: tuple(sorted(found)) for name, found in places.items()}

    def _check_element(self, fact: Fact, table: Table, column: int) -> None:
        component = self.options.component
        if component is not None and table.columns[column].name.lower() == component.lower():
            raise QueryError(
                f"{table.name}.{table.columns[column].name} names the component, and is no element",
                position=fact.position,
                hint="write _ for it",
            )

    def _type(self) -> DataType:
        """The type that all elements have."""
        found = ANY
        first = ""
        for name, columns in self.elements.items():
            table = self.found[name.lower()]
            for i in columns:
                column = table.columns[i]
                known = common_type(found, column.type)
                if known is None or not same_word(found, column.type):
                    raise TypeMismatchError(
                        f"elements are {found} in {first} and {column.type} in {table.name}.{column.name}",
                        hint="all elements of a formula have one type; write _ or a constant for what is a label",
                    )
                found, first = known.unbounded, first or f"{table.name}.{column.name}"
        return found

    def _fitted(self, atom: Fact | Equal) -> Fact | Equal:
        """An atom with its constants as values of their columns."""
        if isinstance(atom, Equal):
            left, right = (self._constant(t, self.type, "an element", atom.position) for t in (atom.left, atom.right))
            return replace(atom, left=left, right=right)
        table = self.found[atom.relation.lower()]
        terms = (
            self._constant(t, c.type, f"{table.name}.{c.name}", atom.position)
            for t, c in zip(atom.terms, table.columns, strict=True)
        )
        return replace(atom, terms=tuple(terms))

    def _constant(self, term: Term, type_: DataType, what: str, at: Position | None) -> Term:
        if isinstance(term, Var):
            return term
        value = fit(term.value, type_)
        if value is None and isinstance(term.value, str):
            parsed = parse_string(term.value, type_)
            value = None if parsed is None else Const(parsed)
        if value is None:
            raise TypeMismatchError(f"{term} is not a value of {what}, which is {type_}", position=at)
        return value

    # --- what the facts are ----------------------------------------------------------------------------------------

    def _relation(self, atom: Fact | Equal, elsewhere: Sequence[tuple[Table, int]]) -> FactRelation:
        """What an atom asks for; what a variable is equal to may be an element of any table of the domain."""
        if isinstance(atom, Equal):
            (constant,) = (t for t in (atom.left, atom.right) if isinstance(t, Const))
            places = [
                (self.found[name.lower()], i, columns) for name, columns in self.elements.items() for i in columns
            ]
            sources = (
                FactSource(table.name, (i,), ((i, constant),), not_null)
                for table, i, not_null in (*places, *((table, i, (i,)) for table, i in elsewhere))
                if self._may_be(constant, table.columns[i].type)
            )
            return FactRelation(shape(atom), 1, tuple(sources))
        tests = tuple((i, t) for i, t in enumerate(atom.terms) if isinstance(t, Const))
        columns = tuple(i for i, t in enumerate(atom.terms) if isinstance(t, Var) and t != ANY_VALUE)
        source = FactSource(atom.relation, columns, tests, self.elements[atom.relation])
        return FactRelation(shape(atom), len(columns), (source,))

    @staticmethod
    def _may_be(constant: Const, type_: DataType) -> bool:
        return fit(constant.value, type_) is not None

    def _neighbours(self, relations: Sequence[FactRelation]) -> list[FactRelation]:
        """Rows that make elements neighbours, though no atom asks for all of their elements."""
        known = {s for relation in relations for s in relation.sources}
        rows = ((name, FactSource(name, columns, (), columns)) for name, columns in self.elements.items())
        return [
            FactRelation(f"neighbours by {name}", len(source.columns), (source,))
            for name, source in rows
            if len(source.columns) > 1 and source not in known
        ]

    def _domain(self, elsewhere: Sequence[tuple[Table, int]]) -> list[FactRelation]:
        """Where elements come from beside the facts that atoms ask for."""
        own = [(name, FactSource(name, columns, (), columns)) for name, columns in self.elements.items()]
        others = [(f"{t.name}.{t.columns[i].name}", FactSource(t.name, (i,), (), (i,))) for t, i in elsewhere]
        return [
            FactRelation(f"elements of {name}", len(source.columns), (source,), False)
            for name, source in (*own, *others)
        ]

    def _elsewhere(self) -> list[tuple[Table, int]]:
        """Columns of tables that the formula does not name whose values are elements."""
        return [
            (table, i)
            for table in self.schema
            if table.name not in self.elements
            for i, column in enumerate(table.columns)
            if self._is_of_elements(column.name, column.type) and not column.closed
        ]

    def _is_of_elements(self, name: str, type_: DataType) -> bool:
        """True if a column of a table that the formula does not mention may hold elements."""
        if self.options.component is not None and name.lower() == self.options.component.lower():
            return False
        return common_type(self.type, type_) is not None and same_word(self.type, type_)


def _each_atom(formula: Formula, change: Callable[[Fact | Equal], Fact | Equal]) -> Formula:
    """The formula with each of its facts and equalities changed."""
    match formula:
        case Fact() | Equal():
            return change(formula)
        case Not(body):
            return Not(_each_atom(body, change))
        case And(parts):
            return And(tuple(_each_atom(p, change) for p in parts))
        case Or(parts):
            return Or(tuple(_each_atom(p, change) for p in parts))
        case Quantifier(_, _, body):
            return replace(formula, body=_each_atom(body, change))
    return formula
