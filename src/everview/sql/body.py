"""A conjunctive body in the making: atoms, and the equalities that unify their variables.

Every column of every atom starts as a variable of its own (``#7``). Equalities merge them (union-find) or bind them to
constants; only ``finish`` gives the classes their readable names and replaces variables by what they have become.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from everview.query.conjunctive import Atom, Computed
from everview.query.schema import Column
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import BOOLEAN, DataType, common_type
from everview.sql.datatypes import same_word, spark_name
from everview.sql.literals import fit

FALSE = Expression(("false",), BOOLEAN)


def cast(expression: Expression, type_: DataType) -> Expression:
    """The expression converted to a type."""
    return Expression(("CAST(", *expression.parts, f" AS {spark_name(type_)})"), type_)


def equality(left: Expression, right: Expression) -> Expression:
    """left = right, as a predicate."""
    sides = [e.parts if e.term is not None else ("(", *e.parts, ")") for e in (left, right)]
    return Expression((*sides[0], " = ", *sides[1]), BOOLEAN)


@dataclass
class _Draft:
    """An atom in the making."""

    relation: str
    base: str
    """What names of variables begin with where columns of several atoms are called alike."""
    alias: str
    terms: list[Var]
    computed: list[tuple[Var, Expression]] = field(default_factory=list)


@dataclass(frozen=True)
class _Origin:
    """Where a variable comes from: its atom, and the column's name and type."""

    atom: int
    column: str
    type: DataType
    nullable: bool


class Body:
    """The atoms and conditions of one block. ``is_set``: nobody counts its rows' copies, so more may be inlined."""

    def __init__(self, fresh: Iterator[int], is_set: bool = False) -> None:
        self.is_set = is_set
        self.predicates: dict[Expression, None] = {}  # as an ordered set
        self.remarks: list[str] = []
        self._fresh = fresh
        self._drafts: list[_Draft] = []
        self._origins: dict[Var, _Origin] = {}
        self._parents: dict[Var, Var] = {}
        self._constants: dict[Var, Const] = {}
        self._not_null: set[Var] = set()
        self._ruled_out: set[Var] = set()

    def __len__(self) -> int:
        """How many atoms there are."""
        return len(self._drafts)

    def add_atom(self, relation: str, base: str, columns: Sequence[Column], *, named: bool = False) -> list[Expression]:
        """A new occurrence of a relation, ``named`` by the query's author or not; gives one expression a column."""
        draft = _Draft(relation, base, base if named else "", [])
        self._drafts.append(draft)
        for column in columns:
            draft.terms.append(
                self._variable(_Origin(len(self._drafts) - 1, column.name, column.type, column.nullable))
            )
        return [Expression.of(v, c.type) for v, c in zip(draft.terms, columns, strict=True)]

    def copied(self) -> Body:
        """The same body again, over the same variables, to go another way with."""
        other = Body(self._fresh, self.is_set)
        other.predicates = dict(self.predicates)
        other.remarks = list(self.remarks)
        other._drafts = [_Draft(d.relation, d.base, d.alias, d.terms, list(d.computed)) for d in self._drafts]
        other._origins = dict(self._origins)
        other._parents = dict(self._parents)
        other._constants = dict(self._constants)
        other._not_null = set(self._not_null)
        other._ruled_out = set(self._ruled_out)
        return other

    def joined(self, other: Body) -> Body:
        """The rows of this body with each row of another one, whose variables are others."""
        both = self.copied()
        both.take_in(other)
        return both

    def take_in(self, other: Body) -> None:
        """Join each row of another body, whose variables are others."""
        first = len(self._drafts)
        self.predicates |= other.predicates
        self.remarks += [r for r in other.remarks if r not in self.remarks]
        self._drafts += [_Draft(d.relation, d.base, d.alias, d.terms, list(d.computed)) for d in other._drafts]
        self._origins |= {v: replace(o, atom=o.atom + first) for v, o in other._origins.items()}
        self._parents |= other._parents
        self._constants |= other._constants
        self._not_null |= other._not_null
        self._ruled_out |= other._ruled_out

    def type_of(self, variable: Var) -> DataType:
        """The type of the column that one of its variables stands for."""
        return self._origins[variable].type

    def name_of(self, expression: Expression) -> str:
        """What to call an expression: as the first column that it reads."""
        return next((self._origins[v].column for v in expression.parts if v in self._origins), "c")

    def owns(self, expression: Expression) -> bool:
        """True if all variables of the expression are this body's."""
        return all(v in self._origins for v in expression.variables)

    def is_foreign(self, expression: Expression) -> bool:
        """True if it reads variables, and none of them is this body's."""
        return bool(expression.variables) and not any(v in self._origins for v in expression.variables)

    def refuse_null(self, variable: Var) -> None:
        """Rows with a NULL there do not count."""
        self._not_null.add(variable)

    def rule_out_null(self, variable: Var) -> None:
        """A condition sees to it already that rows with a NULL there do not count."""
        self._ruled_out.add(variable)

    def nullable(self, expression: Expression) -> bool:
        """True if a variable of the expression may be NULL in the rows that count."""
        refused = {self._find(v) for v in self._not_null | self._ruled_out}
        return any(self._origins[v].nullable and self._find(v) not in refused for v in expression.variables)

    def atom_of(self, expression: Expression) -> int | None:
        """The number of the one atom whose columns an expression reads; None if there is no such."""
        atoms = self._atoms(expression)
        return next(iter(atoms)) if len(atoms) == 1 and self.owns(expression) else None

    def read_by(self, atom: int) -> tuple[str, list[Column], dict[Var, int]]:
        """What an atom reads: the relation, its columns, and which column each of the atom's variables stands for."""
        draft = self._drafts[atom]
        origins = [self._origins[v] for v in draft.terms]
        columns = [Column(o.column, o.type, o.nullable) for o in origins]
        return draft.relation, columns, {v: i for i, v in enumerate(draft.terms)}

    def read_instead(self, atom: int, relation: str) -> None:
        """Have an atom read another relation with the same columns."""
        self._drafts[atom].relation = relation

    def over_columns(self, expression: Expression) -> Expression:
        """An expression without the computed columns of its atom: as they are computed of the others."""
        computed = {v: e for draft in self._drafts for v, e in draft.computed}
        while any(v in computed for v in expression.variables):
            parts: list[str | Term] = []
            for part in expression.parts:
                inner = computed.get(part) if isinstance(part, Var) else None
                parts += [part] if inner is None else ["(", *inner.parts, ")"]
            expression = Expression(tuple(parts), expression.type)
        return expression

    def as_column(self, expression: Expression) -> Expression:
        """The expression, which reads one atom, as a column of it: computed, if it is none."""
        return expression if isinstance(expression.term, Var) else self.computed(expression) or expression

    def computed(self, expression: Expression) -> Expression | None:
        """The expression as a computed column of its atom; None if it does not read exactly one atom."""
        atoms = self._atoms(expression)
        if len(atoms) != 1 or not self.owns(expression):
            return None
        (index,) = atoms
        draft = self._drafts[index]
        for variable, other in draft.computed:
            if other == expression:
                return Expression.of(variable, expression.type)
        name = "_".join(dict.fromkeys(self._origins[v].column for v in expression.parts if isinstance(v, Var)))
        variable = self._variable(_Origin(index, f"{name}_value", expression.type, True))
        draft.computed.append((variable, expression))
        return Expression.of(variable, expression.type)

    def equate(self, left: Expression, right: Expression, otherwise: Expression) -> None:
        """Demand left = right: by unifying variables if possible, else by the predicate ``otherwise``."""
        a, b = left.term, right.term
        if isinstance(a, Const) and isinstance(b, Var):
            left, right, a, b = right, left, b, a
        if isinstance(a, Var) and isinstance(b, Const):
            fitted = fit(b.value, left.type)
            if fitted is None or a not in self._origins:
                self.require(otherwise)
            else:
                self.bind(a, fitted)
            return
        type_ = common_type(left.type, right.type)
        if type_ is not None and not same_word(left.type, right.type):
            left = left if same_word(left.type, type_) else cast(left, type_)
            right = right if same_word(right.type, type_) else cast(right, type_)
        a, b = left.term, right.term
        if isinstance(a, Const) and isinstance(b, Const):
            if a != b:
                self._contradiction(f"{a} = {b}")
        elif isinstance(a, Var) and isinstance(b, Var):
            self._unify(a, b)
        else:
            self._equate_computed(left, right, otherwise)

    def bind(self, variable: Var, constant: Const) -> None:
        """Demand variable = constant."""
        self._not_null.add(variable)
        root = self._find(variable)
        known = self._constants.setdefault(root, constant)
        if known != constant:
            self._contradiction(f"{self._origins[variable].column} = {known} and {constant}")

    def require(self, predicate: Expression) -> None:
        """Demand a condition that no unification can say."""
        if predicate.term == Const(True):
            return
        if predicate.term == Const(False):
            self._contradiction("false")
        else:
            self.predicates[predicate] = None

    def _contradiction(self, what: str) -> None:
        self.predicates[FALSE] = None
        self.remarks.append(f"the view is always empty: its conditions demand {what}")

    def _equate_computed(self, left: Expression, right: Expression, otherwise: Expression) -> None:
        sides = (self._atoms(left), self._atoms(right))
        if any(len(atoms) != 1 for atoms in sides) or sides[0] == sides[1]:
            self.require(otherwise)
            return
        variables = []
        for side in (left, right):
            column = side if isinstance(side.term, Var) else self.computed(side)
            if column is None or not isinstance(column.term, Var):
                self.require(otherwise)
                return
            variables.append(column.term)
        self._unify(*variables)

    def _unify(self, a: Var, b: Var) -> None:
        self._not_null |= {a, b}
        first, second = sorted((self._find(a), self._find(b)), key=_number)
        if first == second:
            return
        self._parents[second] = first
        constant = self._constants.pop(second, None)
        if constant is not None:
            self.bind(first, constant)

    def _atoms(self, expression: Expression) -> set[int]:
        return {self._origins[v].atom if v in self._origins else -1 for v in expression.variables}

    def _variable(self, origin: _Origin) -> Var:
        variable = Var(f"#{next(self._fresh)}")
        self._origins[variable] = origin
        self._parents[variable] = variable
        return variable

    def _find(self, variable: Var) -> Var:
        while self._parents[variable] != variable:
            self._parents[variable] = variable = self._parents[self._parents[variable]]
        return variable

    def terms(self) -> dict[Var, Term]:
        """What every variable has become: a constant, or the named variable of its class."""
        members: dict[Var, list[Var]] = {}
        for variable in self._origins:
            members.setdefault(self._find(variable), []).append(variable)
        classes = {root: vs for root, vs in members.items() if root not in self._constants}
        owners: dict[str, set[Var]] = {}
        for root, variables in classes.items():
            for variable in variables:
                owners.setdefault(self._origins[variable].column.lower(), set()).add(root)
        result: dict[Var, Term] = {
            v: self._constants[r] for r, vs in members.items() if r in self._constants for v in vs
        }
        taken: set[str] = set()
        for variables in classes.values():
            name = self._name(variables[0], owners, taken)
            taken.add(name.lower())
            result |= dict.fromkeys(variables, Var(name))
        return result

    def _name(self, first: Var, owners: dict[str, set[Var]], taken: set[str]) -> str:
        origin = self._origins[first]
        name = origin.column
        if len(owners[name.lower()]) > 1 or name.lower() in taken:
            name = f"{self._drafts[origin.atom].base}_{name}"
        number, unique = 1, name
        while unique.lower() in taken or (unique != origin.column and unique.lower() in owners):
            number += 1
            unique = f"{name}_{number}"
        return unique

    def finish(self) -> tuple[tuple[Atom, ...], tuple[Expression, ...], frozenset[Var], dict[Var, Term]]:
        """Atoms, predicates and NOT NULL variables under their final names, and the renaming that leads there."""
        terms = self.terms()
        atoms = tuple(
            Atom(
                draft.relation,
                tuple(terms[v] for v in draft.terms),
                tuple(Computed(terms[v], e.substitute(terms)) for v, e in draft.computed),
                draft.alias,
            )
            for draft in self._drafts
        )
        predicates = tuple(dict.fromkeys(p.substitute(terms) for p in self.predicates))
        moved = (terms[v] for v in self._not_null)
        return atoms, predicates, frozenset(t for t in moved if isinstance(t, Var)), terms


def _number(variable: Var) -> int:
    return int(variable.name[1:])
