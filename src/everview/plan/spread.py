"""Which variables of a view's result can spread it over shards, and what that asks of the tables it reads.

A variable will do if every result has one value of it, wherever the result is put together: any variable of a plain
join; a grouping key or a DISTINCT column that is a variable; a column of a set operation that is one in each member. A
stage is either cut the same way, by an output column that holds the variable, or kept whole in every slice.

What comes out of a UNION ALL need not meet: each member may be cut by a variable of its own. So it is with FULL JOIN,
which is a UNION ALL of rows with partners, by what is equal, and of each side's rows without, by its own column. Where
such a stage is to be cut by that column, the members without it have NULL there. These rows are in any slice, which
does nothing to a join, as NULL joins with nothing, and forbids a GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from everview.plan.held_values import (
    hash_type,
    held_types,
    held_variables,
    is_by_partition,
    is_null,
    is_union_all,
    needs_rows,
    output_variable,
    result_variables,
    shown_variables,
)
from everview.query.conjunctive import Atom
from everview.query.null_safe import with_same_columns
from everview.query.schema import Schema
from everview.query.terms import Expression, Term, Var
from everview.query.types import BOOLEAN, DataType, Kind
from everview.query.view import (
    Block,
    Body,
    Cut,
    Exploded,
    FormulaBody,
    SetOperation,
    SetOperator,
    Stage,
    Timed,
    View,
    Windowed,
    blocks,
    each_block,
    relations_in,
)

_MOST_UNITED = 24
"""So many ways are looked at to cut the members of a UNION ALL each by a variable of its own."""
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
    """None: every slice gets them; nothing: one of them does."""
    conditions: tuple[Expression, ...] = ()
    """What must hold for the table's columns, or a row means nothing to this occurrence."""

    def part(self, share: int, skew: Mapping[tuple[str, str], float]) -> float:
        """The part of the rows that the fullest of so many slices gets."""
        if not self.hashed or share == 1:
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
        return Places("all", tuple(_Walk(view, schema).occurrences(_Cutting({}, {}))))


def spread(view: View, schema: Schema) -> list[Places]:
    """The candidates: those first that cut most occurrences; of these truth values last, and what no column shows."""
    walk = _Walk(view, schema)
    found: dict[tuple[Occurrence, ...], Places] = {}
    for way in walk.ways():
        places = walk.cut(way)
        if places is not None:
            found.setdefault(places.occurrences, places)
    ranked = sorted(
        found.values(), key=lambda p: (sum(o.hashed is None for o in p.occurrences), p.is_coarse, not p.is_shown)
    )
    return ranked[:MOST]


@dataclass(frozen=True)
class Way:
    """A way to cut a view: by a variable of each block of its body; by none, if each row may be in any slice."""

    name: str
    by_block: Mapping[int, Var]
    columns: Mapping[str, str]
    """Of some tables the columns that are to be hashed, wherever there is a choice."""


class _Nulls(IntEnum):
    """Where the rows are that have NULL where the others have the value that their slice goes by."""

    TOGETHER = 0
    """All in one slice."""
    ONCE = 1
    """Each in one slice, whichever."""
    ANYHOW = 2
    """As groups that may be in several slices, each of a part of the rows: only for those who do not read them."""


_EVERYWHERE = -1
"""Asked of a stage: all of its rows in every slice."""


@dataclass
class _Cutting:
    """An attempt to cut a view."""

    by_block: dict[int, Var]
    """The variables that rows of blocks are in their slices by."""
    columns: dict[str, str]
    """By which columns tables are cut so far, or are wished to be."""
    through: dict[int, Atom] = field(default_factory=dict)
    """Of blocks whose rows are in any slice: the atom of whose stage this is so; what it is joined with is whole."""
    free: set[int] = field(default_factory=set)
    """Members of a stage that have NULL in the column by which the stage is cut."""
    alone: set[int] = field(default_factory=set)
    """Members that nothing cuts, and that have no row where there are none: all their rows are in one slice."""
    asked: dict[str, set[int | None]] = field(default_factory=dict)
    """By which columns of a stage its readers want it to be cut; None: they do not care."""
    by_stage: dict[str, int | None] = field(default_factory=dict)
    """The stages that are cut: by which of their columns; None: each row is in one slice, whichever."""
    nulls: dict[str, _Nulls] = field(default_factory=dict)

    def rank(self, origins: Mapping[str, str]) -> tuple[int, int]:
        """How well columns of tables go with those by which tables are cut already."""
        agreed = sum(1 if self.columns[t] == c else -1 for t, c in origins.items() if t in self.columns)
        return agreed, len(origins)

    def prefer(self, origins: Mapping[str, str]) -> None:
        """Cut these tables by these columns, where it is not settled by which."""
        for table, column in origins.items():
            self.columns.setdefault(table, column)

    def forget(self, body: Body) -> None:
        """What was tried for a body does not do."""
        for block in blocks(body):
            self.by_block.pop(id(block), None)
            self.through.pop(id(block), None)
            self.free.discard(id(block))
            self.alone.discard(id(block))


class _Walk:
    """Looks through a view's blocks."""

    def __init__(self, view: View, schema: Schema) -> None:
        stages = tuple(replace(s, body=each_block(s.body, with_same_columns)) for s in view.stages)
        view = replace(view, body=each_block(view.body, with_same_columns), stages=stages)
        self.view = view
        self.schema = schema
        self.stages = {s.name: s for s in view.stages}
        self.parts: tuple[Stage | View, ...] = (*view.stages, view)
        self._origins: dict[tuple[str, int], dict[str, str]] = {}
        self._united: dict[str, tuple[Block, ...]] = {}
        for stage in view.stages:
            self._united[stage.name] = self._members(stage.body)

    def ways(self) -> Iterator[Way]:
        """By a variable of the result; or, of UNION ALL, with each member by one of its own."""
        members = list(blocks(self.view.body))
        if len(members) == 1:
            held = [t for a in members[0].atoms for t in a.all_terms if isinstance(t, Var)]
            wanted = result_variables(members[0])
            for v in dict.fromkeys(held):
                if v in wanted:
                    yield Way(str(v), {id(members[0]): v}, self._origins_in(members[0], v))
        else:
            for i, column in enumerate(self.view.columns):
                variables = [output_variable(m, i) for m in members]
                if all(v is not None for v in variables):
                    by_block = {id(m): v for m, v in zip(members, variables, strict=True) if v is not None}
                    if len({hash_type(self._type(m, by_block[id(m)])) for m in members}) == 1:
                        yield Way(column.name, by_block, self._origins_in(members[0], by_block[id(members[0])]))
        seen: set[tuple[tuple[str, str], ...]] = set()
        for member in self._members(self.view.body):
            for v in held_variables(member):
                origins = self._origins_in(member, v)
                known = tuple(sorted(origins.items()))
                if v in result_variables(member) and known not in seen and len(seen) < _MOST_UNITED:
                    seen.add(known)
                    yield Way(str(v), {}, origins)

    def _members(self, body: Body) -> tuple[Block, ...]:
        """What a body is put together of by UNION ALL, perhaps in a stage that it reads; nothing if it is not."""
        if is_union_all(body):
            return tuple(blocks(body))
        if isinstance(body, Block) and not (body.grouping or body.distinct):
            return next((found for a in body.atoms if (found := self._united.get(a.relation, ()))), ())
        return ()

    def cut(self, way: Way) -> Places | None:
        """The view cut in such a way; None if a result would not come together in exactly one slice."""
        whole: set[str] = set()
        while True:
            cutting = _Cutting(dict(way.by_block), dict(way.columns))
            broken = self._broken(cutting) if self._place_all(cutting, whole) else self.view.name
            if broken == self.view.name:
                return None
            if broken is None:
                members = list(blocks(self.view.body))
                shown = all(cutting.by_block.get(id(b)) in shown_variables(b) for b in members)
                is_shown = shown and bool(way.by_block) and not cutting.nulls.get(self.view.name)
                return Places(way.name, tuple(self.occurrences(cutting)), is_shown)
            whole.add(broken)

    # --- where rows are to be --------------------------------------------------------------------------------------

    def _place_all(self, cutting: _Cutting, whole: set[str]) -> bool:
        """Say for each part, the last one first, where its rows are to be; False if the view's own cannot be so."""
        for part in reversed(self.parts):
            if part is self.view:
                if not cutting.by_block and not self._place(part.body, None, cutting):
                    return False
            else:
                asked = cutting.asked.get(part.name, {_EVERYWHERE})
                columns = asked - {None}
                if _EVERYWHERE not in asked and len(columns) <= 1 and part.name not in whole:
                    column = next(iter(columns), None)
                    if self._place(part.body, column, cutting):
                        cutting.by_stage[part.name] = column
                    else:
                        cutting.forget(part.body)
            for block in blocks(part.body):
                v, through = cutting.by_block.get(id(block)), cutting.through.get(id(block))
                for atom in block.atoms:
                    if atom.relation in self.stages:
                        place = atom.terms.index(v) if v in atom.terms else None if atom is through else _EVERYWHERE
                        cutting.asked.setdefault(atom.relation, set()).add(place)
        return True

    def _place(self, body: Body, column: int | None, cutting: _Cutting) -> bool:
        """Have the rows of a body in the slice of a column's value, or each in one slice, whichever."""
        if column is not None:
            found = [(b, output_variable(b, column)) for b in blocks(body)]
            free = [b for b, v in found if v is None]
            if len(free) == len(found) or (free and not self._can_be_free(body, free, column)):
                return False
            for block, v in found:
                if v is not None:
                    cutting.by_block[id(block)] = v
                    cutting.prefer(self._origins_in(block, v))
            cutting.free.update(map(id, free))
            return all(self._place(b, None, cutting) for b in free)
        if isinstance(body, SetOperation) and is_union_all(body):
            return self._place(body.left, None, cutting) and self._place(body.right, None, cutting)
        if isinstance(body, Block):
            return self._place_block(body, cutting)
        if isinstance(body, FormulaBody):
            return False
        if isinstance(body, Timed | Exploded):
            return self._place(body.body, None, cutting)
        first = next(blocks(body))
        columns = [(i, v) for i in range(len(body.columns)) if (v := output_variable(first, i)) and self._fits(body, i)]
        if not columns:
            return False
        best = max(columns, key=lambda found: cutting.rank(self._origins_in(first, found[1])))
        return self._place(body, best[0], cutting)

    def _can_be_free(self, body: Body, members: Iterable[Block], column: int) -> bool:
        """True if members have NULL in a column, and nothing but UNION ALL makes a body of them."""
        operators = [body] if isinstance(body, SetOperation) else []
        for operation in operators:  # it grows
            operators += [side for side in (operation.left, operation.right) if isinstance(side, SetOperation)]
        return bool(operators) and all(map(is_union_all, operators)) and all(is_null(b, column) for b in members)

    def _fits(self, body: Body, column: int) -> bool:
        found = [(b, output_variable(b, column)) for b in blocks(body)]
        return all(v is not None and is_by_partition(body, b, v) for b, v in found)

    def _place_block(self, block: Block, cutting: _Cutting) -> bool:
        wanted = result_variables(block)
        found = [v for v in held_variables(block) if v in wanted and hash_type(self._type(block, v)) is not None]
        joined = [v for v in found if sum(v in a.terms for a in block.atoms) > 1]
        united = [a for a in block.atoms if self._united.get(a.relation)]
        if united and not joined and not block.distinct and block.grouping is None:
            cutting.through[id(block)] = united[0]
        elif found:
            best = max(found, key=lambda v: (*cutting.rank(self._origins_in(block, v)), v in joined))
            cutting.by_block[id(block)] = best
            cutting.prefer(self._origins_in(block, best))
        elif not united and needs_rows(block) and any(a.relation not in self.stages for a in block.atoms):
            cutting.alone.add(id(block))
            return True
        return bool(united or found)

    def _origins_in(self, block: Block, v: Var) -> dict[str, str]:
        """The columns of tables whose values a variable of a block has, one for each table."""
        found: dict[str, str] = {}
        for atom in block.atoms:
            if v in atom.terms:
                at = atom.terms.index(v)
                table = None if atom.relation in self.stages else self.schema.table(atom.relation)
                own = {table.name: table.columns[at].name} if table else self._origins_of(atom.relation, at)
                found = {**own, **found}
        return found

    def _origins_of(self, stage: str, column: int) -> dict[str, str]:
        known = self._origins.get((stage, column))
        if known is None:
            known = {}
            for block in blocks(self.stages[stage].body):
                if (v := output_variable(block, column)) is not None:
                    known = {**self._origins_in(block, v), **known}
            self._origins[stage, column] = known
        return known

    # --- whether they are there ------------------------------------------------------------------------------------

    def _broken(self, cutting: _Cutting) -> str | None:
        """A part that nothing confines to its slice, or where hashes would not agree; None if all is well."""
        for part in self.parts:
            for block in blocks(part.body):
                v, through = cutting.by_block.get(id(block)), cutting.through.get(id(block))
                if through is not None and through.relation not in cutting.by_stage:
                    return part.name
                if v is None:
                    continue
                holders = [a for a in block.atoms if v in a.all_terms]
                held = any(v in a.terms and self._is_cut_by(a, v, cutting) for a in holders)
                kinds = {hash_type(t) for a in holders for t in held_types(a, v, self.schema, self.stages)}
                if not held or len(kinds) != 1 or None in kinds or not is_by_partition(part.body, block, v):
                    return part.name
            if part is self.view or part.name in cutting.by_stage:
                nulls = self._nulls(part.body, cutting)
                by_column = cutting.by_stage.get(part.name) is not None
                if nulls is _Nulls.ANYHOW and not by_column:
                    return part.name
                cutting.nulls[part.name] = nulls
        return None

    def _is_cut_by(self, atom: Atom, v: Var, cutting: _Cutting) -> bool:
        """True if what an atom reads is in the slices of the variable's values."""
        if atom.relation not in self.stages:
            return True
        column = cutting.by_stage.get(atom.relation)
        return column is not None and atom.terms[column] == v

    def _nulls(self, body: Body, cutting: _Cutting) -> _Nulls:
        """Where the rows of a body are that have NULL where the others have the value of their slice."""
        if isinstance(body, SetOperation):
            sides = self._nulls(body.left, cutting), self._nulls(body.right, cutting)
            if max(sides) is _Nulls.TOGETHER or (body.operator is SetOperator.UNION and body.all):
                return max(sides)
            if not body.all or not any(self._has_none(side, cutting) for side in (body.left, body.right)):
                return _Nulls.ANYHOW
            return max(sides)
        if isinstance(body, Cut | Windowed):
            return _Nulls.ANYHOW if self._nulls(body.body, cutting) else _Nulls.TOGETHER
        if isinstance(body, Timed | Exploded):
            return self._nulls(body.body, cutting)
        if isinstance(body, FormulaBody):
            return _Nulls.TOGETHER
        v = cutting.by_block.get(id(body))
        if v is None:
            return _Nulls.ONCE
        least = _Nulls.ONCE if id(body) in cutting.free else _Nulls.TOGETHER
        read = [cutting.nulls.get(a.relation, _Nulls.TOGETHER) for a in body.atoms if v in a.terms]
        worst = max(read, default=_Nulls.TOGETHER)
        if v in body.not_null or not worst:
            return least
        return _Nulls.ANYHOW if body.distinct or body.grouping is not None else worst

    def _has_none(self, body: Body, cutting: _Cutting) -> bool:
        return all(cutting.by_block.get(id(b)) in b.not_null for b in blocks(body))

    def occurrences(self, cutting: _Cutting) -> list[Occurrence]:
        """Every use of a table, in the order of parts, blocks and atoms."""
        found = []
        for part in self.parts:
            if isinstance(part.body, FormulaBody):  # A stage by formula is kept whole.
                found += [Occurrence(name, name, False, 1, None) for name in relations_in(part.body)]
            for block in blocks(part.body):
                for atom in block.atoms:
                    if atom.relation not in self.stages:
                        v = cutting.by_block.get(id(block))
                        hashed = None if v is None else self._hashed(atom, v)
                        if id(block) in cutting.alone:
                            hashed = ()
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
        return (
            Expression.of(
                Var(table.columns[atom.terms.index(v)].name), held_types(atom, v, self.schema, self.stages)[0]
            ),
        )

    def _type(self, block: Block, v: Var) -> DataType | None:
        return next((t for a in block.atoms for t in held_types(a, v, self.schema, self.stages)), None)
