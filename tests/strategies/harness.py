"""Runs a core's program under random updates and compares it with DuckDB after each of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from everview.kernel.wide_numbers import number_of, words_of
from everview.plan.core_plan import CorePlan, plan_core
from everview.query.conjunctive import Atom, ConjunctiveQuery
from everview.query.terms import Const, Var
from everview.strategies.core import Core
from everview.strategies.strategy import Entry, Gauge, Maintained, Sum
from tests.support import Row, evaluate

Update = tuple[str, Row, int]
"""A relation, a row, and +1 or −1."""
Result = dict[Row, tuple[int, ...]]
"""Rows of the maintained output with their measures: the weight, then the sums."""


@dataclass
class Driver:
    """Feeds base updates into a program: matches each against every atom, occurrence by occurrence."""

    query: ConjunctiveQuery
    machine_of: Callable[[Any], Any]
    sums: tuple[tuple[int, Var], ...] = ()
    """Atoms and the variables of theirs to sum up."""
    factor: int = 1
    """What each value counts in a sum; with a large one, sums have several words."""
    sums_up: bool = False
    """True if the result's weights may have several words, too."""
    plan: CorePlan = field(init=False)
    maintained: Maintained = field(init=False)
    machine: Any = field(init=False)
    database: dict[str, list[Row]] = field(default_factory=dict)
    total: Result = field(default_factory=dict)
    with_deltas: bool = True

    def __post_init__(self) -> None:
        self.plan = plan_core(Core("result", self.query, sums_up=self.sums_up))
        sums = [Sum({atom: self.words}) for atom, _ in self.sums]
        self.maintained = self.plan.compile(sums, signatures(self.plan.query))
        self.machine = self.machine_of(self.maintained.program)
        self.switch(self.with_deltas)

    @property
    def words(self) -> int:
        """How many words a sum has: as many as the values and some bits for their number need."""
        return (self.factor.bit_length() + 32) // 64 + 1 if abs(self.factor) > 3 else 1

    def rows_left(self) -> dict[str, list[Any]]:
        """What each table has, but for the one row in which a strategy keeps its numbers, which know the past."""
        parts = self.maintained.parts
        gauges = () if parts is None else (parts.base, *parts.heavy_keys, parts.minor, parts.major, parts.moved)
        numbers = {g.table for g in gauges if isinstance(g, Gauge)}
        found = {t.name: self.machine.dump(t.name) for t in self.maintained.program.tables}
        return {name: rows for name, rows in found.items() if rows and not (name in numbers and len(rows) == 1)}

    def switch(self, with_deltas: bool) -> None:
        """Open or close the feed."""
        self.with_deltas = with_deltas
        self.machine.apply(self.maintained.start_deltas if with_deltas else self.maintained.stop_deltas, [[0]])
        if with_deltas:
            self.total = self.listed()

    def update(self, relation: str, row: Row, change: int) -> None:
        rows = self.database.setdefault(relation, [])
        rows.extend([row] * change)
        for _ in range(-change):
            rows.remove(row)
        entry = self.maintained.entry(relation)
        if entry is not None:
            procedure = entry.with_deltas if self.with_deltas else entry.state_only
            self.machine.apply(procedure, [[w] for w in self.arguments(entry, row, change)])
        deltas = [delta[:-1] for delta in rows_of(self.machine.take("delta"))]
        for row_out, measures in self.measured(deltas):
            assert measures[0] != 0
            known = self.total.get(row_out, (0,) * len(measures))
            self.total[row_out] = tuple(a + b for a, b in zip(known, measures, strict=True))
            if self.total[row_out][0] == 0:
                assert not any(self.total.pop(row_out))

    def arguments(self, entry: Entry, row: Row, change: int) -> list[int]:
        """The words of one update: for each occurrence its variables, whether the row fits it, its sums' changes."""
        found: list[int] = []
        for atom_input in entry.atom_inputs:
            atom = self.plan.query.atoms[atom_input.atom]
            words = match(atom, row, self.plan.query.not_null)
            values = words or {}
            found += [values.get(v, 0) for v in atom_input.variables]
            found.append(int(words is not None))
            for j in (*atom_input.sums, *(sum_ for _, sum_ in atom_input.served_sums)):
                found += words_of(change * self.factor * values.get(self.sums[j - 1][1], 0), self.words)
        return [*found, change]

    def measured(self, rows: Sequence[tuple[int, ...]]) -> Iterator[tuple[Row, tuple[int, ...]]]:
        width = len(self.maintained.outputs)
        for row in rows:
            widths = self.maintained.widths or (1,) * (len(row) - width)
            ends = accumulate(widths, initial=width)
            yield row[:width], tuple(number_of(row[end : end + w]) for end, w in zip(ends, widths, strict=False))

    def listed(self) -> Result:
        """The result as the cursor lists it; a row comes once."""
        found: Result = {}
        for out, measures in self.measured(self.machine.rows("result")):
            assert out not in found
            assert measures[0] > 0
            found[out] = measures
        return found

    def expected(self) -> Result:
        """The maintained output by DuckDB, sums included."""
        summed = [v for _, v in self.sums]
        rows = evaluate(self.plan.query.with_head((*self.maintained.outputs, *summed)), self.database)
        found: dict[Row, list[int]] = {}
        width = len(self.maintained.outputs)
        for row, copies in rows.items():
            totals = found.setdefault(row[:width], [0] * (1 + len(summed)))
            totals[0] += copies
            for j, value in enumerate(row[width:], 1):
                assert isinstance(value, int)
                totals[j] += copies * self.factor * value
        return {row: tuple(totals) for row, totals in found.items()}

    def check(self) -> None:
        wanted = self.expected()
        assert self.listed() == wanted
        if self.with_deltas:
            assert self.total == wanted
            self._check_liveness()

    def _check_liveness(self) -> None:
        """A row that is marked live is part of a result: else deltas would visit rows in vain (crown.md 6)."""
        outputs = [str(v) for v in self.maintained.outputs]
        listed = self.machine.rows("result")
        for table in self.maintained.program.tables:
            live = {key for key, _, level in self.machine.dump(table.name) if level == 2}
            if live:
                places = [outputs.index(name) for name in table.key]
                assert live <= {tuple(row[i] for i in places) for row in listed}, table.name


def signatures(query: ConjunctiveQuery) -> list[Hashable]:
    """What decides which rows an atom takes, as ``match`` does it, with variables named by their columns."""
    found: list[Hashable] = []
    for atom in query.atoms:
        columns = {t: Var(f"#{i}") for i, t in reversed(list(enumerate(atom.terms))) if isinstance(t, Var)}
        found.append((atom.substitute(columns), frozenset(columns[v] for v in atom.variables & query.not_null)))
    return found


def rows_of(columns: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    return list(zip(*columns, strict=True)) if columns else []


def match(atom: Atom, row: Row, not_null: frozenset[Var]) -> dict[Var, Any] | None:
    """The words of an atom's variables for a row, or None if the row does not fit it."""
    found: dict[Var, Any] = {}
    for term, cell in zip(atom.terms, row, strict=True):
        if isinstance(term, Const):
            if cell is None or cell != term.value:
                return None
        elif (cell is None and term in not_null) or found.setdefault(term, cell) != cell:
            return None
    return found
