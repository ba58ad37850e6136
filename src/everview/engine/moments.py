"""Moments of a view's rows: how many there are, and the sums over products of their columns, kept as rows change.

They are kept beside the view (``engine.companions``) by a join of their own, in which nothing is listed and each table
gives the product of its own columns: where the view's query is q-hierarchical an update takes constant time
(q-hierarchical.md 12). A view of distinct rows is read as a join of distinct rows of its parts (13); of what is
grouped, united or has conditions across tables the rows are summed up as they change.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Final

from everview.engine.companions import companion, forget_companions
from everview.engine.expressions.evaluate import Evaluator
from everview.engine.operators.moments import Moments, Monomial, Unit, monomials
from everview.engine.reasons import types_of_variables
from everview.engine.relation import Relation
from everview.engine.view_runtime import ViewRuntime
from everview.errors import MemoryLimitError, SchemaError, UnknownNameError
from everview.plan.cores import covering_atom
from everview.plan.view_plan import plan_view
from everview.query.aggregates import AggregateFunction
from everview.query.conjunctive import Atom, connected_components
from everview.query.schema import Schema
from everview.query.terms import Const, Expression, Var
from everview.query.totals import with_fewer_totals
from everview.query.types import BIGINT, BOOLEAN, INT, DataType, Kind
from everview.query.view import Aggregate, Block, Grouping, Output, Stage, Windowed, aggregate_result
from everview.query.view import View as ViewDefinition
from everview.strategies.bounds import CONSTANT

if TYPE_CHECKING:
    from everview.engine.database import Database

MOMENTS: Final = "moments"
FEWEST_COUNTED: Final = 4_096
"""Views that store fewer rows are counted by a walk through them."""
MOST_SUMS: Final = 2_000
"""So many sums are kept at most for one set of columns."""
_FEWEST_BITS: Final = 40
"""Doubles whose mean square has less than twice so many bits, counted in units, may be counted in smaller ones."""
Number = int | float | Decimal


class MomentTable(dict[tuple[str, ...], Number]):
    """Sums by the columns whose product is summed up, in the view's order; a key may name them in any order."""

    def __init__(self, values: Mapping[tuple[str, ...], Number], names: Sequence[str]) -> None:
        super().__init__(values)
        self._places = {name: i for i, name in enumerate(names)}

    def __missing__(self, key: tuple[str, ...]) -> Number:
        if all(name in self._places for name in key):
            ordered = tuple(sorted(key, key=lambda name: self._places[name]))
            if ordered != key and ordered in self:
                return self[ordered]
        raise KeyError(key)


@dataclass(frozen=True)
class Sums:
    """The moments of some columns, exactly as they are kept."""

    count: int
    products: Mapping[Monomial, Fraction]
    """By the columns' numbers among those that were asked for."""
    not_finite: Mapping[int, int]
    """Of each column of doubles how many values are NaN or infinite."""
    units: Mapping[int, Fraction]
    """What those doubles are rounded to multiples of."""


class Moment(Relation):
    """Rows whose moments are kept once somebody has asked for them."""

    @property
    @abstractmethod
    def _moment_columns(self) -> tuple[int, ...]:
        """The columns of which moments are asked for: those that the options name, else all that hold numbers."""

    @abstractmethod
    def _sums(self, columns: tuple[int, ...], degree: int) -> Sums:
        """The moments of some columns up to a degree."""

    def moments(self, degree: int) -> dict[tuple[str, ...], Number]:
        """The sum of each product of up to ``degree`` columns over all rows, by the columns' names; ``()``: the rows.

        ``("x", "x", "y")`` is Σ x²y. Rows weigh by their copies; rows with a NULL in one of the columns are left out.
        The columns are those of OPTIONS (moments = (…)), else all that hold numbers. Sums of integers are integers, of
        decimals Decimals; both are exact. Doubles count as rounded to a multiple of 2⁻⁴⁶ of the column's largest or
        finer, and products of them are floats; NaN where a value is not finite.
        """
        if type(degree) is not int or degree < 0:
            raise ValueError(f"a degree is a whole number that is not negative, and not {degree!r}")
        with self._lock:
            columns = self._moment_columns
            found = self._sums(columns, degree)
        names = [self.schema.names[i] for i in columns]
        values: dict[tuple[str, ...], Number] = {(): found.count}
        for monomial, exact in found.products.items():
            if len(monomial) <= degree:
                types = [self._types[columns[i]] for i in monomial]
                odd = any(found.not_finite.get(i) for i in monomial)
                values[tuple(names[i] for i in monomial)] = math.nan if odd else _number(exact, types)
        return MomentTable(values, names)

    def _number_columns(self, names: Sequence[str]) -> tuple[int, ...]:
        """The places of columns that hold numbers; names are compared as SQL does."""
        known = {name.lower(): i for i, name in enumerate(self.schema.names)}
        found = []
        for name in names:
            place = known.get(str(name).lower())
            if place is None:
                listed = ", ".join(self.schema.names)
                raise UnknownNameError(f"{self.name} has no column {name}", hint=f"its columns are {listed}")
            if not self._types[place].is_numeric:
                raise SchemaError(
                    f"the column {name} of {self.name} is {self._types[place]}, which is no number",
                    hint="name columns of integers, decimals or doubles, or make numbers of it in the view",
                )
            found.append(place)
        return tuple(found)


def _number(exact: Fraction, types: Sequence[DataType]) -> Number:
    if any(type_.kind in (Kind.DOUBLE, Kind.FLOAT) for type_ in types):
        return as_float(exact)
    scale = sum(type_.scale for type_ in types if type_.kind is Kind.DECIMAL)
    if not any(type_.kind is Kind.DECIMAL for type_ in types):
        return int(exact)
    digits = int(exact * 10**scale)
    return Decimal(digits).scaleb(-scale, Context(prec=max(1, len(str(abs(digits))))))


def as_float(exact: Fraction) -> float:
    """The nearest double, or an infinity."""
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


# --- what is kept ----------------------------------------------------------------------------------------------------


def kept_sums(db: Database, runtime: ViewRuntime, columns: tuple[int, ...], degree: int) -> Sums:
    """The moments of some columns of a view, from what is kept beside it, which is made if need be."""
    places = tuple(sorted(set(columns)))
    key = (MOMENTS, places)
    is_double = {i for i, place in enumerate(places) if runtime.types[place].kind in (Kind.DOUBLE, Kind.FLOAT)}
    degree = max(degree, 2 if is_double else 1)
    size = math.comb(len(places) + degree, degree)
    if size > MOST_SUMS:
        raise ValueError(
            f"{len(places)} columns have {size:,} products of degree {degree} or less, and {MOST_SUMS:,} sums are kept "
            "at most: name fewer columns, with OPTIONS (moments = (…))"
        )
    found = runtime.companions.get(key)
    moments = None if found is None else found.result
    if found is None or not isinstance(moments, Moments) or moments.degree < degree or _is_lost(moments):
        found = _made(db, runtime, key, places, max(degree, moments.degree if isinstance(moments, Moments) else 0))
    elif _is_coarse(found):
        found = _made(db, runtime, key, places, moments.degree)
    assert isinstance(found.result, Moments)
    count, products, odd = found.result.sums()
    units = {i: Fraction(2) ** (unit.exponent or 0) for i, unit in found.result.units.items()}
    if places == columns:
        return Sums(count, products, odd, units)
    numbers = {i: [j for j, place in enumerate(columns) if place == places[i]] for i in range(len(places))}
    return _renumbered(Sums(count, products, odd, units), numbers)


def kept_count(db: Database, runtime: ViewRuntime) -> int | None:
    """How many rows a view has, from a count that is kept beside it from the first time on; None if none is.

    None is kept of a view that is small, which can be counted at once, and where it would cost more than constant time
    an update.
    """
    key = (MOMENTS, ())
    found = runtime.companions.get(key)
    if found is None:
        stored = sum(rows for core in runtime.cores for rows, _ in core.part.table_stats().values())
        if stored < FEWEST_COUNTED or not runtime.may_count_beside:
            return None
        definition = _of_distinct_rows(db, runtime, ()) or _of_tables(db, runtime, ())
        runtime.may_count_beside = definition is not None and _is_constant(db, definition)
        if definition is None or not runtime.may_count_beside:
            return None
        try:
            found = companion(db, runtime, key, definition, partial(Moments, degree=0, units={}))
        except MemoryLimitError:
            return None
    assert isinstance(found.result, Moments)
    return found.result.sums()[0]


def _is_constant(db: Database, definition: ViewDefinition) -> bool:
    """True if an update takes constant time, in each of a view's stages and for what reads them."""
    if any(isinstance(stage.body, Windowed) for stage in definition.stages):
        return False  # Whatever the join costs, each partition in which a row changes is computed anew.
    schema = Schema(tuple(t.schema for t in db._tables.values()))
    *stages, last = plan_view(definition, schema, views=frozenset(db._views)).parts
    changing = all(core.maintenance.changes_one_row for part in stages for core in part.cores)
    return changing and all(core.bounds.update == CONSTANT for part in (*stages, last) for core in part.cores)


def _renumbered(sums: Sums, numbers: Mapping[int, Sequence[int]]) -> Sums:
    """The same by the numbers that columns have in another order, in which one may be there several times."""
    own = {j: i for i, found in numbers.items() for j in found}
    longest = max(map(len, sums.products), default=0)
    products = {m: sums.products[tuple(sorted(own[j] for j in m))] for m in monomials(len(own), longest)}
    return Sums(
        sums.count,
        products,
        {j: sums.not_finite[i] for j, i in own.items() if i in sums.not_finite},
        {j: sums.units[i] for j, i in own.items() if i in sums.units},
    )


def _is_lost(moments: Moments) -> bool:
    return any(unit.is_too_small for unit in moments.units.values())


def _is_coarse(found: ViewRuntime) -> bool:
    """True if doubles have become so small that smaller units may pay, and as much has changed as there is to count."""
    moments = found.result
    assert isinstance(moments, Moments)
    count, products, _ = moments.sums()
    if count <= 0 or found.updates < count:
        return False
    return any(
        0 < products[i, i] / count < (Fraction(2) ** (unit.exponent or 0) * 2**_FEWEST_BITS) ** 2
        or (not products[i, i] and unit.largest > 0)
        for i, unit in moments.units.items()
    )


def _made(
    db: Database, runtime: ViewRuntime, key: tuple[str, tuple[int, ...]], places: tuple[int, ...], degree: int
) -> ViewRuntime:
    """Keep moments, those of doubles in units that are chosen by the largest values that there are."""
    definition = _definition(db, runtime, places)
    forget_companions(db, runtime, key)
    doubles = [i for i, place in enumerate(places) if runtime.types[place].kind in (Kind.DOUBLE, Kind.FLOAT)]
    units = {i: Unit(degree) for i in doubles}
    if units:
        companion(db, runtime, key, definition, partial(Moments, degree=1, units=units))
        forget_companions(db, runtime, key)
        for unit in units.values():
            unit.choose()
    return companion(db, runtime, key, definition, partial(Moments, degree=degree, units=units))


# --- the join --------------------------------------------------------------------------------------------------------


def _definition(db: Database, runtime: ViewRuntime, places: tuple[int, ...]) -> ViewDefinition:
    """The join whose rows are those of the view, or the view itself, as a view that counts them."""
    return _of_distinct_rows(db, runtime, places) or _of_tables(db, runtime, places) or _of_changes(runtime, places)


def _of_changes(runtime: ViewRuntime, places: tuple[int, ...]) -> ViewDefinition:
    """The view's rows, as they change."""
    variables = [Var(f"{MOMENTS}{i}") for i in range(len(runtime.types))]
    atom = Atom(runtime.view.name, tuple(variables), alias=runtime.view.name)
    return _counting(runtime, (atom,), (), [Expression.of(variables[i], runtime.types[i]) for i in places])


def _of_tables(db: Database, runtime: ViewRuntime, places: tuple[int, ...]) -> ViewDefinition | None:
    """The tables that the view joins; None if it needs more of the join's rows than their number."""
    body = runtime.view.body
    if not isinstance(body, Block) or body.grouping is not None or body.distinct:
        return None
    columns = [body.outputs[i].expression for i in places]
    if any(covering_atom(body, e) is None for e in body.predicates) or not _are_found(db, runtime, body, columns):
        return None
    return _counting(runtime, body.atoms, body.predicates, columns, body.not_null, runtime.view.stages)


def _are_found(db: Database, runtime: ViewRuntime, block: Block, columns: Sequence[Expression]) -> bool:
    """True if each column is one table's, and has a value in all of its rows, also in those that no row joins."""
    types = types_of_variables(db, runtime, block)
    return all(
        e.variables
        and covering_atom(block, e) is not None
        and (e.term is not None or not Evaluator([e]).may_fail(types))
        for e in columns
    )


def _of_distinct_rows(db: Database, runtime: ViewRuntime, places: tuple[int, ...]) -> ViewDefinition | None:
    """Of a view of distinct rows the joins of what its columns do not show, each as distinct rows of what they show.

    Atoms that share such a variable are one join, and what these joins give is joined by what is shown: each row of the
    view once. None if a condition spans several of them, or a column is computed.
    """
    body = runtime.view.body
    planned = runtime.plan.result.blocks
    if not isinstance(body, Block) or body.grouping is not None or not body.distinct or len(planned) != 1:
        return None
    block, query = planned[0].block, planned[0].cores[0].query
    shown = [o.expression for o in block.outputs]
    if any(e.term is None for e in shown) or not all(isinstance(shown[i].term, Var) for i in places):
        return None
    types = types_of_variables(db, runtime, block)
    hiding = [p for p in query.predicates if p.variables - query.free]
    edges = [*query.edges, *(p.variables for p in hiding)]
    rest = [p for p in query.predicates if p not in hiding]
    atoms: list[Atom] = []
    stages: list[Stage] = []
    for group in connected_components(edges, without=query.free):
        own = tuple(query.atoms[i] for i in group if i < len(query.atoms))
        held = frozenset[Var]().union(*(atom.variables for atom in own))
        conditions = [hiding[i - len(query.atoms)] for i in group if i >= len(query.atoms)]
        if any(not p.variables <= held for p in conditions):
            return None
        inside = [p for p in rest if p.variables <= held]
        rest = [p for p in rest if p not in inside]
        keys = sorted(held & query.free)
        outputs = [Output(v.name, Expression.of(v, types[v])) for v in keys]
        part = Block(
            own,
            (*conditions, *inside),
            tuple(outputs) or (Output("is_there", Expression.of(Const(0), INT)),),
            distinct=True,
            not_null=query.not_null & held,
        )
        name = f"{runtime.view.name}${MOMENTS}{len(stages)}"
        stages.append(Stage(name, part, "distinct rows, whose moments are kept"))
        atoms.append(Atom(name, tuple(keys) or (Var(f"{MOMENTS}{len(stages)}"),), alias=name))
    if rest:
        return None
    kept = (*runtime.view.stages, *stages)
    return _counting(runtime, tuple(atoms), (), [shown[i] for i in places], query.not_null & query.free, kept)


def _counting(
    runtime: ViewRuntime,
    atoms: tuple[Atom, ...],
    predicates: tuple[Expression, ...],
    columns: Sequence[Expression],
    not_null: frozenset[Var] = frozenset(),
    stages: tuple[Stage, ...] = (),
) -> ViewDefinition:
    """The view that counts a join's rows which have a value in all of the columns, the factors of its aggregate."""
    plain = frozenset(e.term for e in columns if isinstance(e.term, Var))
    there = [Expression(("(", *e.parts, ") IS NOT NULL"), BOOLEAN) for e in columns if not isinstance(e.term, Var)]
    aggregate = Aggregate(AggregateFunction.COUNT, None, BIGINT, factors=tuple(columns))
    block = Block(
        atoms,
        (*predicates, *there),
        (Output("rows", Expression.of(aggregate_result(0), BIGINT), nullable=False),),
        Grouping((), (aggregate,)),
        not_null=not_null | plain,
    )
    return with_fewer_totals(ViewDefinition(f"{runtime.view.name}${MOMENTS}", block, stages))
