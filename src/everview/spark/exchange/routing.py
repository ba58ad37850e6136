"""Where a table's rows go: slices of their values, and the shards that these lead to (HyperCube, crown.md 10).

A slice is a hash of some columns, modulo a dimension's share. Integers are hashed here, on Arrow's columns, which costs
less than having Spark hand over another column. Everything else is hashed by Catalyst, before the rows come.

A row goes on an occurrence's route only if the occurrence's own conditions hold for it, as far as they can be computed
here and never fail; shards compute them again. Whatever they say, every row goes to the cells that are its table's
*homes*, so that none is unknown everywhere, and a deletion of one that is not there is noticed. Tables with a key have
no such conditions: a second row of a key would be noticed in some of the shards only that get it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from everview.engine.expressions.by_arrow import compiled
from everview.errors import PipelineError
from everview.plan.shards import MOST_OCCURRENCES, Route, ShardLevel
from everview.query.column_expression import ColumnExpression
from everview.query.schema import Table
from everview.query.terms import Expression, Var
from everview.sql.column_expressions import column_expression
from everview.sql.fallible import may_fail

Cells = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Slice:
    """Columns of a table that are hashed into some slices; without any, all rows are in the first one."""

    hashed: tuple[Expression, ...]
    share: int

    @property
    def is_given(self) -> bool:
        """True if Catalyst has to hash. All tables that share a dimension have integers in it, or none has."""
        return not all(e.type.is_integer and isinstance(e.term, Var) for e in self.hashed)

    def of(self, columns: dict[str, pa.ChunkedArray], length: int) -> Cells:
        """The slice of every row; NULLs are in one."""
        mixed = np.zeros(length, np.uint64)
        for expression in self.hashed:
            assert isinstance(expression.term, Var)
            values = columns[expression.term.name].cast(pa.int64())
            words = pc.fill_null(values, 0) if values.null_count else values
            mixed = _mixed(mixed ^ words.to_numpy().view(np.uint64))
        return (mixed % np.uint64(self.share)).astype(np.int64)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64's last steps: every bit of a word moves every other."""
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@dataclass(frozen=True)
class Way:
    """One occurrence's route: in which slices a row must be to go to each shard, and what must hold for it.

    To shards that are homes, it goes even if that does not hold.
    """

    slices: tuple[int, ...]
    wanted: tuple[tuple[int, ...], ...]
    conditions: tuple[tuple[str, ColumnExpression], ...] = ()
    """As text, and as Arrow computes them."""
    homes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Routing:
    """The ways of a table's occurrences; the position of one is its bit in the mask that rows carry."""

    ways: tuple[Way, ...]
    slices: tuple[Slice, ...]

    @staticmethod
    def of(table: Table, level: ShardLevel) -> Routing:
        """A table's ways through a level."""
        places: dict[Slice, int] = {}
        ways: list[Way] = []
        for grid, route in level.routes(table.name):
            used = []
            for k, (dimension, hashed) in enumerate(zip(grid.dimensions, route.coordinates, strict=True)):
                if hashed is not None:
                    used.append((k, places.setdefault(Slice(hashed, dimension.share), len(places))))
            wanted = tuple(tuple(grid.coordinates(s)[k] for k, _ in used) for s in range(level.shards))
            homes = level.homes(table.name) if not ways else frozenset[int]()
            idle = table.checked_key or len(homes) == level.shards
            conditions = () if idle else _simple(route, table)
            ways.append(Way(tuple(at for _, at in used), wanted, conditions, homes))
        if len(ways) > MOST_OCCURRENCES and level.is_masked(table.name):
            raise PipelineError(
                f"{table.name} occurs {len(ways)} times in the views of one query, and shards tell {MOST_OCCURRENCES} "
                "apart",
                hint="keep some of the views in a query of their own",
            )
        return Routing(tuple(ways), tuple(places))

    @property
    def given(self) -> tuple[Slice, ...]:
        """The slices that come with the rows."""
        return tuple(s for s in self.slices if s.is_given)

    def cells(self, columns: dict[str, pa.ChunkedArray], given: Sequence[Cells], length: int) -> list[Cells]:
        """For every slice where each row is in it."""
        rest = iter(given)
        return [next(rest) if s.is_given else s.of(columns, length) for s in self.slices]

    def kept(self, columns: dict[str, pa.ChunkedArray]) -> list[npt.NDArray[np.bool_] | None]:
        """For every way the rows for which its conditions hold; None: it has none."""
        named = {Var(name): column for name, column in columns.items()}
        return [_holding(way.conditions, named) if way.conditions else None for way in self.ways]

    def masks(
        self, cells: Sequence[Cells], kept: Sequence[npt.NDArray[np.bool_] | None], shard: int, length: int
    ) -> npt.NDArray[np.int64]:
        """On which ways each row goes to a shard. All ways from the last bit on share it: nobody asks which."""
        mask = np.zeros(length, np.int64)
        for bit, (way, holds) in enumerate(zip(self.ways, kept, strict=True)):
            fits = np.ones(length, bool) if holds is None or shard in way.homes else holds.copy()
            for at, wanted in zip(way.slices, way.wanted[shard], strict=True):
                fits &= cells[at] == wanted
            mask |= fits.astype(np.int64) << min(bit, MOST_OCCURRENCES)
        return mask


def settled(level: ShardLevel) -> ShardLevel:
    """The level with those conditions on its routes only that rows are sent by."""
    grids = {grid.view: list(grid.routes) for grid in level.grids}
    for table in level.tables:
        ways = Routing.of(table, level).ways
        for (grid, route), way in zip(level.routes(table.name), ways, strict=True):
            used = {text for text, _ in way.conditions}
            kept = tuple(c for c in route.conditions if str(c) in used)
            own = grids[grid.view]
            own[next(i for i, r in enumerate(own) if r is route)] = replace(route, conditions=kept)
    return replace(level, grids=tuple(replace(g, routes=tuple(grids[g.view])) for g in level.grids))


def _simple(route: Route, table: Table) -> tuple[tuple[str, ColumnExpression], ...]:
    """The conditions of a route that Arrow computes, whatever the values are."""
    types = {Var(c.name): c.type for c in table.columns}
    found = ((str(c), column_expression(c, types)) for c in route.conditions if not may_fail(c, types))
    return tuple((text, computed) for text, computed in found if computed is not None)


def _holding(
    conditions: Sequence[tuple[str, ColumnExpression]], columns: dict[Var, pa.ChunkedArray]
) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] | None = None
    for _, condition in conditions:
        held = pc.fill_null(compiled(condition)(columns), False).to_numpy()
        found = held if found is None else found & held
    assert found is not None
    return found
