"""Which variables of a view's result can spread it over shards, and what that asks of the tables it reads.

A variable will do if every result has one value of it, wherever the result is put together: any variable of a plain
join; a grouping key or a DISTINCT column that is a variable; a column of a set operation that is one in each member. A
stage is either cut the same way, by an output column that holds the variable, or kept whole in every slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from everview.query.conjunctive import Atom
from everview.query.schema import Schema
from everview.query.terms import Expression, Term, Var
from everview.query.types import BOOLEAN, DataType, Kind
from everview.query.view import (
    Block,
    Body,
    Cut,
    FormulaBody,
    Stage,
    View,
    Windowed,
    arranged,
    blocks,
    group_key,
    relations_in,
)

MOST = 12
"""So many candidates are weighed against each other; more are rare, and every one multiplies the ways to share."""


@dataclass(frozen=True)
class Occurrence:
    """One use of a table in a view, and what of its rows is hashed; None: every slice gets them."""

    table: str
    alias: str
    filtered: bool
    joins: int
    """How many of its variables other atoms have: each costs an update an index and a way to go on."""
    hashed: tuple[Expression, ...] | None
    conditions: tuple[Expression, ...] = ()
    """What must hold for the table's columns, or a row means nothing to this occurrence."""

    def part(self, share: int, skew: Mapping[tuple[str, str], float]) -> float:
        """The part of the rows that the fullest of so many slices gets."""
        if self.hashed is None or share == 1:
            return 1.0
        column = next(iter(sorted(self.hashed[0].variables)), None)
        return 1.0 if column is None else max(1 / share, skew.get((self.table, column.name), 0.0))


@dataclass(frozen=True)
class Places:
    """A candidate for a dimension: its name, and for each occurrence of a table how its rows are cut."""

    name: str
    occurrences: tuple[Occurrence, ...]
    is_shown: bool = False
    """True if the result has its value in a column: then equal rows of a result come together in one slice."""

    @property
    def is_coarse(self) -> bool:
        """True if there are too few values to spread anything."""
        return any(e.type.kind in (Kind.BOOLEAN, Kind.TINYINT) for o in self.occurrences for e in o.hashed or ())

    @staticmethod
    def nowhere(view: View, schema: Schema) -> Places:
        """No cut at all: every occurrence whole; for those who want the list of occurrences."""
        return Places("all", tuple(_Walk(view, schema).occurrences({}, {})))


def spread(view: View, schema: Schema) -> list[Places]:
    """The candidates: those first that cut most occurrences; of these truth values last, and what no column shows."""
    walk = _Walk(view, schema)
    found: dict[tuple[Occurrence, ...], Places] = {}
    for name, variables in walk.candidates():
        places = walk.cut(name, variables)
        if places is not None:
            found.setdefault(places.occurrences, places)
    ranked = sorted(
        found.values(), key=lambda p: (sum(o.hashed is None for o in p.occurrences), p.is_coarse, not p.is_shown)
    )
    return ranked[:MOST]


class _Walk:
    """Looks through a view's blocks."""

    def __init__(self, view: View, schema: Schema) -> None:
        self.view = view
        self.schema = schema
        self.stages = {s.name: s for s in view.stages}
        self.parts: tuple[Stage | View, ...] = (*view.stages, view)

    def candidates(self) -> list[tuple[str, tuple[Var, ...]]]:
        """A name, and a variable of each block of the view's body."""
        members = list(blocks(self.view.body))
        if len(members) == 1:
            held = [t for a in members[0].atoms for t in a.all_terms if isinstance(t, Var)]
            wanted = _result_variables(members[0])
            return [(str(v), (v,)) for v in dict.fromkeys(held) if v in wanted]
        found = []
        for i, column in enumerate(self.view.columns):
            variables = tuple(_output_variable(m, i) for m in members)
            if all(v is not None for v in variables):
                found.append((column.name, tuple(v for v in variables if v is not None)))
        return found

    def cut(self, name: str, variables: Sequence[Var]) -> Places | None:
        """The view cut along these variables; None if a result would not come together in exactly one slice."""
        members = list(blocks(self.view.body))
        if len({hash_type(self._type(b, v)) for b, v in zip(members, variables, strict=True)}) != 1:
            return None
        whole: set[str] = set()
        while True:
            by_block = {id(b): v for b, v in zip(members, variables, strict=True)}
            by_stage = self._stage_columns(by_block, whole)
            broken = self._broken(by_block, by_stage)
            if broken == self.view.name:
                return None
            if broken is None:
                shown = all(v in _shown_variables(b) for b, v in zip(members, variables, strict=True))
                return Places(name, tuple(self.occurrences(by_block, by_stage)), shown)
            whole.add(broken)

    def _stage_columns(self, by_block: dict[int, Var], whole: set[str]) -> dict[str, int]:
        """For the stages that are cut: by which of their columns. Fills in the variables of their blocks."""
        wanted: dict[str, set[int | None]] = {}
        cut: dict[str, int] = {}
        for part in reversed(self.parts):
            if part is not self.view:
                asked = wanted.get(part.name, set())
                column = next(iter(asked)) if len(asked) == 1 else None
                inner = [] if column is None else [_output_variable(b, column) for b in blocks(part.body)]
                if column is not None and part.name not in whole and inner and all(v is not None for v in inner):
                    cut[part.name] = column
                    by_block |= {id(b): v for b, v in zip(blocks(part.body), inner, strict=True) if v is not None}
            for block in blocks(part.body):
                v = by_block.get(id(block))
                for atom in block.atoms:
                    if atom.relation in self.stages:
                        wanted.setdefault(atom.relation, set()).add(atom.terms.index(v) if v in atom.terms else None)
        return cut

    def _broken(self, by_block: dict[int, Var], by_stage: dict[str, int]) -> str | None:
        """A part that nothing confines to its slice, or where hashes would not agree; None if all is well."""
        for part in self.parts:
            for block in blocks(part.body):
                v = by_block.get(id(block))
                if v is None:
                    continue
                holders = [a for a in block.atoms if v in a.all_terms]
                held = any(v in a.terms and (a.relation not in self.stages or a.relation in by_stage) for a in holders)
                kinds = {hash_type(t) for a in holders for t in self._types(a, v)}
                if not held or len(kinds) != 1 or None in kinds or not _is_by_partition(part.body, block, v):
                    return part.name
        return None

    def occurrences(self, by_block: Mapping[int, Var], by_stage: Mapping[str, int]) -> list[Occurrence]:
        """Every use of a table, in the order of parts, blocks and atoms."""
        found = []
        for part in self.parts:
            if isinstance(part.body, FormulaBody):  # A stage by formula is kept whole.
                found += [Occurrence(name, name, False, 1, None) for name in relations_in(part.body)]
            for block in blocks(part.body):
                for atom in block.atoms:
                    if atom.relation not in self.stages:
                        v = by_block.get(id(block))
                        hashed = None if v is None else self._hashed(atom, v)
                        filtered = any(p.variables and p.variables <= atom.variables for p in block.predicates)
                        others = frozenset[Var]().union(*(a.variables for a in block.atoms if a is not atom))
                        joins = max(1, len(atom.variables & others))
                        alias = atom.alias or atom.relation
                        conditions = tuple(self._conditions(block, atom))
                        found.append(Occurrence(atom.relation, alias, filtered, joins, hashed, conditions))
        return found

    def _conditions(self, block: Block, atom: Atom) -> Iterator[Expression]:
        """The conditions that concern an atom alone, over its table's columns."""
        table = self.schema.table(atom.relation)
        assert table is not None
        columns: dict[Var, Term] = {}
        for column, term in zip(table.columns, atom.terms, strict=True):
            if isinstance(term, Var):
                columns.setdefault(term, Var(column.name))
            else:
                yield Expression((Var(column.name), " = ", term), BOOLEAN)
        for predicate in block.predicates:
            if predicate.variables and predicate.variables <= columns.keys():
                yield predicate.substitute(columns)

    def _hashed(self, atom: Atom, v: Var) -> tuple[Expression, ...] | None:
        """The table's column that holds the variable; None if none does.

        A computed value is not hashed: Spark hashes before the row comes to us, and what it computes may differ from
        what we do (a timestamp's year depends on the session's time zone).
        """
        table = self.schema.table(atom.relation)
        assert table is not None
        if v not in atom.terms:
            return None
        return (Expression.of(Var(table.columns[atom.terms.index(v)].name), self._types(atom, v)[0]),)

    def _type(self, block: Block, v: Var) -> DataType | None:
        return next((t for a in block.atoms for t in self._types(a, v)), None)

    def _types(self, atom: Atom, v: Var) -> list[DataType]:
        """The types under which an atom holds a variable."""
        found = [c.expression.type for c in atom.computed if c.term == v]
        table = self.schema.table(atom.relation)
        own = [c.type for c in table.columns] if table and atom.relation not in self.stages else None
        types = own or [c.type for c in self.stages[atom.relation].columns]
        return [t for term, t in zip(atom.terms, types, strict=True) if term == v] + found


def _is_by_partition(body: Body, block: Block, v: Var) -> bool:
    """True if rows go by their order only within partitions, of all of which a variable of the block is part."""
    columns = [i for i in range(len(block.outputs)) if _output_variable(block, i) == v]
    by_order = (a for a in arranged(body) if isinstance(a, Cut | Windowed))  # Others go by each row alone.
    return all(any(i in a.partition for i in columns) for a in by_order)


def _result_variables(block: Block) -> frozenset[Var]:
    """The variables of which each row of a block's result has one value, however it came about."""
    if block.grouping is not None and block.distinct:  # Groups of different keys can give one row.
        return _shown_variables(block)
    if block.grouping is not None:
        terms = [k.term for k in block.grouping.keys]
    elif block.distinct:
        terms = [o.expression.term for o in block.outputs]
    else:
        return frozenset().union(*(a.variables for a in block.atoms))
    return frozenset(t for t in terms if isinstance(t, Var))


def _shown_variables(block: Block) -> frozenset[Var]:
    """The variables that a block's result has as columns."""
    found = (_output_variable(block, i) for i in range(len(block.outputs)))
    return frozenset(v for v in found if v is not None)


def _output_variable(block: Block, column: int) -> Var | None:
    """The variable that a column of a block's result holds as it is."""
    if column >= len(block.outputs):  # Of a window function.
        return None
    term = block.outputs[column].expression.term
    if block.grouping is not None:
        keys = block.grouping.keys
        named = {group_key(i): k.term for i, k in enumerate(keys)}
        term = named.get(term) if isinstance(term, Var) else None
    return term if isinstance(term, Var) else None


def hash_type(type_: DataType | None) -> DataType | str | None:
    """Types whose equal values hash alike once integers are widened; None where that is not so."""
    if type_ is None or type_.is_open or type_.kind is Kind.INTERVAL or not type_.has_order:
        return None
    return "integer" if type_.is_integer else type_
