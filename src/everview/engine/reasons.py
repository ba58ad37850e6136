"""Why a row is in a view: the rows of base tables that it is made of.

For each block of a view, the same join with all columns of its tables is kept from the first such question on
(``engine.companions``): a tree of the same variables, in which those of a result are above the others, so that its
*derivations* come with constant delay where the view's query is q-hierarchical (q-hierarchical.md 23). A row of a
stage, or of another view, is in turn made of others. Occurrences have the names that the query's author gave them:
stages that nobody named, as those of outer joins, do not show. A row that shows all columns of a table, or its primary
key, says itself which row of it it is made of: nothing is kept where all tables are known so (``plan.read_off``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.base_table import BaseTable
from everview.engine.companions import companion
from everview.engine.operators.answers import Given
from everview.engine.operators.build import build_part
from everview.engine.relation import MOST_LISTED, Relation
from everview.engine.values.rows import WordRows, ones, repeated, zeros
from everview.engine.values.words import arrow_type, from_words, is_wide, to_words
from everview.errors import UnsupportedError
from everview.plan.read_off import read_off
from everview.programs.base_table import ROWS
from everview.query.conjunctive import Atom
from everview.query.options import ViewOptions
from everview.query.schema import Enforcement
from everview.query.terms import Const, Expression, Var
from everview.query.totals import TOTALS
from everview.query.types import DataType, same_words
from everview.query.view import (
    Block,
    Body,
    Cut,
    Exploded,
    FormulaBody,
    Output,
    SetOperation,
    SetOperator,
    Timed,
    Windowed,
    without_unread,
)
from everview.query.view import View as ViewDefinition

if TYPE_CHECKING:
    from everview.engine.database import Database
    from everview.engine.view_runtime import ViewRuntime

WHY, GROUPS = "why", "groups"
_TARGET: Final = "$target"
_COLUMN: Final = "$column"
_NO_ROW: Final = "false"
"""The condition of a block that stands for one row without input: it reads a table, and none of its rows."""
Words = tuple[int, ...]
Wanted = Callable[[], Mapping[int, int]]
"""The words of a row that is asked for, by the places of their columns: all of them, or those that matter.

They may be others once strings have been computed.
"""


class Reasons(Relation):
    """Rows that can be traced back to those of base tables."""

    def _why(self, db: Database, runtime: ViewRuntime, row: Sequence[Any], limit: int | None) -> dict[str, pa.Table]:
        if limit is not None and (type(limit) is not int or limit < 1):
            raise ValueError(f"a limit is a number of derivations, 1 or more, and not {limit!r}")
        limit = None if limit is not None and limit > MOST_LISTED else limit
        sought = self._sought(self._row(row))
        if sought is None or not self._has(sought):
            raise KeyError(f"{row!r} is not in {self.name}")
        trace = _Trace(db, limit)
        trace.body(runtime, runtime.view.body, len(runtime.view.stages), "", lambda: dict(enumerate(sought.words)))
        return trace.tables()


@dataclass
class _Occurrence:
    """An occurrence of a base table: which of its rows have been found, in the order in which they were."""

    table: BaseTable
    rows: dict[Words, None] = field(default_factory=dict)


@dataclass
class _Trace:
    """What one row is made of, as far as it is known: at most ``limit`` derivations of each block and row."""

    db: Database
    limit: int | None
    found: dict[str, _Occurrence] = field(default_factory=dict)
    _seen: set[tuple[str, tuple[str, ...], str, Words]] = field(default_factory=set)

    def body(
        self,
        runtime: ViewRuntime,
        body: Body,
        stage: int,
        path: str,
        wanted: Wanted,
        taken: Collection[str] = (),
    ) -> None:
        """Follow a row of a body, which is that of a view, or of its stage of this number.

        ``taken`` are the names of other occurrences beside it, under the same path.
        """
        given = list(_giving(body))
        is_alone = len(given) == 1
        for number, (block, matters) in enumerate(given):
            names = self._names(runtime, block, path, taken)
            left = self.limit
            for places in matters:
                part = _some(wanted, places)
                left = self._block(runtime, block, (stage, number), path, names, part, left, is_alone=is_alone)
                if left == 0:
                    break

    def _block(
        self,
        runtime: ViewRuntime,
        block: Block,
        at: tuple[int, int],
        path: str,
        names: Sequence[str],
        wanted: Wanted,
        left: int | None,
        *,
        is_alone: bool,
    ) -> int | None:
        """Follow a row of a block; gives how many more derivations are wanted, None if all are."""
        alone = _read_off(self.db, runtime, block, wanted) if is_alone else None
        targets = self._targets(runtime, block, at, wanted, is_alone=is_alone) if alone is None else [wanted]
        for key in targets:
            for rows in _derivations(self.db, runtime, block, at, key) if alone is None else [alone]:
                found = rows if left is None else rows.slice(0, left)
                for name, atom in zip(names, block.atoms, strict=True):
                    beside = {n for n in names if n} - {name}
                    self._rows(runtime, atom, path, name, beside, _columns(self.db, runtime, block, atom, found))
                if left is not None:
                    left -= len(found)
                    if left <= 0:
                        return 0
        return left

    def _targets(
        self, runtime: ViewRuntime, block: Block, at: tuple[int, int], wanted: Wanted, *, is_alone: bool
    ) -> Iterator[Wanted]:
        """What derivations are found by: the row itself, or of groups the keys of those that show it.

        A block that is not alone may have a group with the keys of a row that another block has given.
        """
        if block.grouping is None:
            yield wanted
            return
        known = wanted()
        terms = [o.expression.term for o in block.outputs]
        shown = {
            i: terms.index(key)
            for i, key in enumerate(block.grouping.key_names)
            if key in terms and terms.index(key) in known
        }
        if is_alone and len(shown) == len(block.grouping.keys):
            yield lambda: {i: wanted()[place] for i, place in shown.items()}
            return
        width = len(block.outputs)
        keys = zip(block.grouping.key_names, block.grouping.keys, strict=True)
        outputs = [
            *block.outputs,
            *(Output(f"{_TARGET}{i}", Expression.of(v, k.type)) for i, (v, k) in enumerate(keys)),
        ]
        grouped = replace(block, outputs=tuple(outputs), distinct=False)
        groups = companion(self.db, runtime, (GROUPS, at), _definition(runtime, grouped, at), build_part)
        by = frozenset(width + i for i in shown)
        listed = None
        if groups.result.looks_up(by):
            listed = groups.result.lookup(Given(by, lambda: {width + i: wanted()[p] for i, p in shown.items()}))
        for rows in groups.rows() if listed is None else listed:
            same = _among(rows, wanted())
            for words in zip(*(c.to_pylist() for c in same.columns[width:]), strict=True) if len(same) else ():
                yield lambda words=words: dict(enumerate(words))  # type: ignore[misc]  # mypy knows no type of a default
            if len(same) and not block.grouping.keys:
                yield dict

    def _names(self, runtime: ViewRuntime, block: Block, path: str, taken: Collection[str]) -> list[str]:
        """A name for each atom: its alias, with a number behind it where that is taken by another occurrence.

        It is empty for a stage that nobody named. Where several blocks read a table by the same alias, as those of an
        outer join do, it is the same occurrence.
        """
        names: list[str] = []
        is_read = not any(e.parts == (_NO_ROW,) for e in block.predicates)
        for atom in block.atoms:
            timed = _timed(runtime, atom)
            table = self.db._tables.get(atom.relation if timed is None else timed.relation)
            if table is None and not atom.alias and atom.relation not in self.db._views:
                names.append("")
                continue
            name = base = f"{path}{atom.alias or atom.relation}"
            number = 1
            while name in names or name in taken or (name in self.found and self.found[name].table is not table):
                number += 1
                name = f"{base}#{number}"
            names.append(name)
            if table is not None and is_read:
                self.found.setdefault(name, _Occurrence(table))
        return names

    def _rows(
        self,
        runtime: ViewRuntime,
        atom: Atom,
        path: str,
        name: str,
        beside: Collection[str],
        columns: Sequence[pa.Array],
    ) -> None:
        listed = zip(*(c.to_pylist() for c in columns), strict=True) if columns else ((),)
        rows: dict[Words, None] = dict.fromkeys(listed)
        if atom.relation in self.db._tables:
            kept = self.found[name].rows
            for words in rows if self.limit is None else list(rows)[: self.limit]:
                if self.limit is None or len(kept) < self.limit:
                    kept.setdefault(words)
            return
        timed = _timed(runtime, atom)
        if timed is not None:  # Its rows are those of its relation, which nobody is to read beside it, as they go.
            (inner,) = timed.body.atoms
            terms = [o.expression.term for o in timed.body.outputs]
            self._rows(runtime, inner, path, name, beside, [columns[terms.index(t)] for t in inner.terms])
            return
        below, taken = (f"{name}.", ()) if name else (path, tuple(sorted(beside)))
        stages = [s.name for s in runtime.view.stages]
        if any(s.name == atom.relation and s.purpose == TOTALS for s in runtime.view.stages):
            taken = ()  # The rows of a partition are of the same occurrence as the row itself.
        for words in rows:
            if (below, taken, atom.relation, words) in self._seen:
                continue
            self._seen.add((below, taken, atom.relation, words))
            wanted = lambda words=words: dict(enumerate(words))  # noqa: E731 the words of now, not of the last row
            if atom.relation in stages:
                stage = stages.index(atom.relation)
                self.body(runtime, runtime.view.stages[stage].body, stage, below, wanted, taken)
            else:
                view = self.db._views[atom.relation]
                self.body(view, view.view.body, len(view.view.stages), below, wanted, taken)

    def tables(self) -> dict[str, pa.Table]:
        """The rows found, by occurrence, copies repeated within the limit."""
        return {name: self._table(occurrence) for name, occurrence in self.found.items()}

    def _table(self, occurrence: _Occurrence) -> pa.Table:
        table = occurrence.table
        columns: list[list[int]] = [[] for _ in table.types]
        size = 0
        for words in occurrence.rows:
            held = table.unit.find(ROWS, words)
            copies = 1 if held is None or not held[0] else held[0][0]
            # Every row that was found is among the first ones, and so is one derivation: copies come last.
            room = None if self.limit is None else self.limit - size - (len(occurrence.rows) - size - 1)
            times = copies if room is None else max(1, min(copies, room))
            for column, word in zip(columns, words, strict=True):
                column += [word] * times
            size += times
        arrays = [
            from_words(pa.array(column, pa.int64()), type_, table.dictionary)
            for column, type_ in zip(columns, table.types, strict=True)
        ]
        names = [c.name for c in table.schema.columns]
        schema = pa.schema([pa.field(n, arrow_type(t)) for n, t in zip(names, table.types, strict=True)])
        return pa.table(arrays, schema=schema)


def _timed(runtime: ViewRuntime, atom: Atom) -> Timed | None:
    """The stage that an atom reads, if it has the rows of a relation by the clock."""
    body = next((s.body for s in runtime.view.stages if s.name == atom.relation), None)
    return body if isinstance(body, Timed) else None


def _giving(body: Body) -> Iterator[tuple[Block, Sequence[Collection[int]]]]:
    """The blocks whose rows are rows of the result, and by which of their columns: of EXCEPT those of its left side.

    A value of a window function is made of a whole partition: of the row itself first, then of the rows with the same
    partition columns.
    """
    if isinstance(body, Block):
        yield body, (range(len(body.outputs)),)
        return
    if isinstance(body, Cut | Timed | Exploded | Windowed):
        inner = body.body.columns if isinstance(body, Exploded | Windowed) else body.columns
        for block, matters in _giving(body.body):
            own = [[place for place in places if place < len(inner)] for places in matters]
            yield block, own if not isinstance(body, Windowed) else [*own, body.partition]
        return
    if isinstance(body, FormulaBody):
        raise UnsupportedError(
            f"why a row is in {body.query.name} is not told: a formula also holds by rows that are not there",
            construct="why",
            hint="ask it of views that read no formula",
        )
    assert isinstance(body, SetOperation)
    yield from _giving(body.left)
    if body.operator is not SetOperator.EXCEPT:
        yield from _giving(body.right)


def _some(wanted: Wanted, places: Collection[int]) -> Wanted:
    """The words of some columns alone."""

    def words() -> Mapping[int, int]:
        known = wanted()
        return {place: known[place] for place in places if place in known}

    return words


def _definition(runtime: ViewRuntime, block: Block, at: tuple[int, int]) -> ViewDefinition:
    """A view of a block alone, over the stages that it may read."""
    stage, number = at
    name = f"{runtime.view.name}$why{stage}.{number}"
    return without_unread(ViewDefinition(name, block, runtime.view.stages[:stage]))


def _variables(block: Block) -> list[Var]:
    """The variables of all columns of all atoms."""
    return list(dict.fromkeys(t for a in block.atoms for t in a.terms if isinstance(t, Var)))


def _read_off(db: Database, runtime: ViewRuntime, block: Block, wanted: Wanted) -> WordRows | None:
    """The one row of a block's join with all columns that a row is made of, if the row itself says which that is."""
    words, types = wanted(), types_of_variables(db, runtime, block)
    known: dict[Var, int] = {}
    for i, output in enumerate(block.outputs):
        term = output.expression.term
        if isinstance(term, Var) and term in types and i in words and same_words(types[term], output.type):
            known[term] = words[i]

    def key_of(relation: str) -> tuple[int, ...]:
        table = db._tables.get(relation)
        is_unique = table is not None and table.schema.key_enforcement is Enforcement.ENFORCED
        return table.key if table is not None and is_unique else ()

    steps = read_off(block, known, key_of)
    for number, key in steps or ():
        atom = block.atoms[number]
        if key:
            terms, types_of = atom.terms, _types_of(db, runtime, atom)
            given = [known[t] if isinstance(t := terms[p], Var) else _constant(db, t, types_of[p]) for p in key]
            found = db._tables[atom.relation].with_key(given)
            if len(found) != 1:
                return None
            row = zip(terms, (c[0].as_py() for c in found.columns), strict=True)
            known |= {t: word for t, word in row if isinstance(t, Var)}
    if steps is None:
        return None
    return WordRows(tuple(repeated(known[v], 1) for v in _variables(block)), ones(1), zeros(1))


def _constant(db: Database, term: Const, type_: DataType) -> int:
    """The word of a constant."""
    array = pa.array([term.value]).cast(arrow_type(type_))
    words = db._dictionary.lookup(array) if is_wide(type_) else to_words(array, type_, db._dictionary)
    return int(words[0].as_py())


def _derivations(
    db: Database, runtime: ViewRuntime, block: Block, at: tuple[int, int], wanted: Wanted
) -> Iterator[WordRows]:
    """The rows of a block's join with all columns that become a row with the wanted words, without the row itself."""
    targets = [o.expression for o in block.outputs] if block.grouping is None else list(block.grouping.keys)
    width = len(targets)
    found = runtime.companions.get((WHY, at))
    known = wanted()
    plain = [i for i, e in enumerate(targets) if isinstance(e.term, Var)]
    if found is None:
        types = types_of_variables(db, runtime, block)
        outputs = [Output(f"{_TARGET}{i}", e) for i, e in enumerate(targets)]
        outputs += [Output(f"{_COLUMN}{i}", Expression.of(v, types[v])) for i, v in enumerate(_variables(block))]
        listed = replace(block, outputs=tuple(outputs), grouping=None, distinct=False)
        lookup = (tuple(f"{_TARGET}{i}" for i in plain),) if plain else None
        view = replace(_definition(runtime, listed, at), options=ViewOptions(lookup=lookup))
        found = companion(db, runtime, (WHY, at), view, build_part)
    columns = frozenset(i for i in plain if i in known)
    rows = None
    if columns and found.result.looks_up(columns):
        rows = found.result.lookup(Given(columns, lambda: {i: wanted()[i] for i in columns}))
    for listed_rows in found.rows(partly=True) if rows is None else rows:
        same = _among(listed_rows, wanted())
        if len(same):
            yield same.with_columns(same.columns[width:])


def _among(rows: WordRows, words: Mapping[int, int]) -> WordRows:
    """Those of some rows that have these words in these columns."""
    mask = None
    for i, word in words.items():
        same = pc.equal(rows.columns[i], pa.scalar(word, pa.int64()))
        mask = same if mask is None else pc.and_(mask, same)
    return rows if mask is None else rows.filter(mask)


def types_of_variables(db: Database, runtime: ViewRuntime, block: Block) -> dict[Var, Any]:
    """The types of a block's variables, as a join of it has them: of the first column that each of them is."""
    found: dict[Var, Any] = {}
    for atom in block.atoms:
        for term, type_ in zip(atom.terms, _types_of(db, runtime, atom), strict=True):
            if isinstance(term, Var):
                found.setdefault(term, type_)
    return found


def _types_of(db: Database, runtime: ViewRuntime, atom: Atom) -> tuple[Any, ...]:
    """The types of the columns of an atom's relation: a table, another view, or a stage."""
    for stage in runtime.view.stages:
        if stage.name == atom.relation:
            return tuple(c.type for c in stage.columns)
    return (db._tables if atom.relation in db._tables else db._views)[atom.relation].types


def _columns(db: Database, runtime: ViewRuntime, block: Block, atom: Atom, rows: WordRows) -> list[pa.Array]:
    """The columns of an atom's own rows among those of the whole join."""
    places = {v: i for i, v in enumerate(_variables(block))}
    found = []
    for term, type_ in zip(atom.terms, _types_of(db, runtime, atom), strict=True):
        if isinstance(term, Const):
            found.append(repeated(_constant(db, term, type_), len(rows)))
        else:
            found.append(rows.columns[places[term]])
    return found
