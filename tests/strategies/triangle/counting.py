"""A count's program at work, beside its relations as they should be, and programs of every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate

from everview.kernel.wide_numbers import number_of
from everview.kernel.wide_numbers import words_of as split
from everview.programs.parts import COLUMNS, ThresholdBase
from everview.query.terms import Var
from everview.strategies.strategy import Sum
from everview.strategies.triangle.count_measures import Stored
from everview.strategies.triangle.count_parts import PartitionedTriangle
from everview.strategies.triangle.count_program import CountProgram, Status
from everview.strategies.triangle.count_shared import SharedTriangle
from everview.strategies.triangle.loomis_whitney import LoomisWhitney
from everview.strategies.triangle.paths import FourPath
from tests.strategies.machines import Kernel

HALF = Fraction(1, 2)
EPSILONS = [Fraction(0), Fraction(1, 4), Fraction(1, 3), HALF, Fraction(3, 4), Fraction(1)]
Row = tuple[int, ...]
A, B, C, D, Z = (Var(name) for name in "abcdz")
CORNERS = [(C,), (A,), (B,)]


def words_of(bundles: Sequence[tuple[Var, ...]], everywhere: tuple[Var, ...] = ()) -> list[tuple[Var, ...]]:
    """The words of the relations that lack one bundle each, in a circle."""
    n = len(bundles)
    return [(*everywhere, *(v for i in range(1, n) for v in bundles[(j + i) % n])) for j in range(n)]


Measure = Mapping[int, int]
"""A sum over a product: for each atom that has a factor, which of its rows' numbers that is."""
WORDS = 1, 2
"""Of how many words the numbers are that come with every row, beside its copies."""


def stored(words: Sequence[tuple[Var, ...]]) -> list[Stored]:
    """Relations r0, r1, …"""
    return [Stored("r", j, w) for j, w in enumerate(words)]


def sums_of(measures: Sequence[Measure]) -> list[Sum]:
    """The measures as a strategy is told of them."""
    return [Sum({atom: WORDS[n] for atom, n in m.items()}, None, dict(m)) for m in measures]


Part = tuple[tuple[Var, ...], Mapping[Row, int]]
"""Some rows of a relation, with their copies, and the variables of their columns."""


def joined(parts: Sequence[Part], outputs: tuple[Var, ...]) -> dict[Row, int]:
    """The sum of products of rows that agree, by some variables, by brute force."""
    found: Counter[Row] = Counter()

    def go(at: int, known: dict[Var, int], copies: int) -> None:
        if at == len(parts):
            found[tuple(known[v] for v in outputs)] += copies
            return
        words, rows = parts[at]
        for row, n in rows.items():
            more = dict(known)
            if all(more.setdefault(v, x) == x for v, x in zip(words, row, strict=True)):
                go(at + 1, more, copies * n)

    go(0, {}, 1)
    return dict(found)


class Driver:
    """A count's program, and its relations as they should be: copies and numbers for each row."""

    def __init__(
        self,
        program: CountProgram,
        machine_of: type = Kernel,
        roles: Sequence[int] | None = None,
        measures: Sequence[Measure] = (),
    ) -> None:
        self.program = program
        self.measured = list(measures)
        self.maintained = program.compile()
        self.machine = machine_of(self.maintained.program)
        self.rows: list[dict[Row, tuple[int, ...]]] = [{} for _ in program.relations]
        self.roles = list(roles or range(len(program.relations)))
        """The relation that each atom of the query takes its rows from."""
        self.told = [0] * len(program.measures)
        self.tells = True
        """False: updates change the state alone."""

    def update(self, j: int, row: Row, change: int, numbers: Sequence[int] = (0,) * len(WORDS)) -> None:
        """Change one relation, and hear what the total changes by."""
        known = self.rows[j].get(row, (0,) * (1 + len(WORDS)))
        self.rows[j][row] = tuple(a + b for a, b in zip(known, (change, *numbers), strict=True))
        if not self.rows[j][row][0]:
            assert not any(self.rows[j].pop(row))
        (entry,) = self.maintained.entries
        arguments: list[int] = []
        for given in entry.atom_inputs:
            factors = [
                self.measured[s - 1][atom] for atom, s in (*((given.atom, s) for s in given.sums), *given.served_sums)
            ]
            if given.atom == self.program.relations[j].atom:
                arguments += [*row, 1, *(word for n in factors for word in split(numbers[n], WORDS[n]))]
            else:
                arguments += [0] * (len(given.variables) + 1 + sum(WORDS[n] for n in factors))
        self.machine.apply("update r!" if self.tells else "update r", [[w] for w in (*arguments, change)])
        if not self.tells:
            self.told = self.total()
        for delta in zip(*self.machine.take("delta"), strict=True):
            self.told = [a + b for a, b in zip(self.told, self.numbers(delta[:-1]), strict=True)]

    def numbers(self, words: Sequence[int]) -> list[int]:
        """Measures of several words each."""
        ends = list(accumulate(self.maintained.widths))
        return [number_of(words[e - n : e]) for e, n in zip(ends, self.maintained.widths, strict=True)]

    def total(self) -> list[int]:
        found = self.machine.rows("result")
        return self.numbers(found[0]) if found else [0] * len(self.program.measures)

    def state(self) -> dict[str, int]:
        found = self.machine.dump("parts")
        return dict(zip(COLUMNS, found[0][1] if found else (1, *[0] * 8), strict=False))

    def heavy(self, place: int) -> set[Row]:
        return {key for key, _, _ in self.machine.dump(self.program.statuses[place].table)}

    def view(self, name: str) -> dict[Row, int]:
        return {key: values[0] for key, values, _ in self.machine.dump(name)}

    def expected(self, words: Sequence[tuple[Var, ...]]) -> list[int]:
        """Brute force: the sum over all ways to take a row of each atom that agree."""
        found = [0] * (1 + len(self.measured))

        def go(atom: int, known: dict[Var, int], values: list[int]) -> None:
            if atom == len(words):
                for i, value in enumerate(values):
                    found[i] += value
                return
            for row, have in self.rows[self.roles[atom]].items():
                more = dict(known)
                if all(more.setdefault(v, x) == x for v, x in zip(words[atom], row, strict=True)):
                    go(atom + 1, more, [
                        value * have[1 + m[atom] if atom in m else 0]
                        for value, m in zip(values, [{}, *self.measured], strict=True)
                    ])  # fmt: skip

        go(0, {}, [1] * len(found))
        return found

    def check_parts(self) -> None:
        """The size invariant, and what makes a key heavy or light (triangle.md 5)."""
        state, size = self.state(), sum(map(len, self.rows))
        assert state["size"] == size
        assert state["N"] // 4 <= size < state["N"]
        heavy = 0
        for place, status in enumerate(self.program.statuses):
            rows = self.rows[self.program.relations.index(status.stored)]
            degrees = Counter(tuple(row[c] for c in status.columns) for row in rows)
            keys = self.heavy(place)
            heavy += len(keys)
            assert keys <= degrees.keys()
            assert all(degrees[key] >= state["heavy_until"] for key in keys)
            assert all(d < state["light_until"] for key, d in degrees.items() if key not in keys)
            if self.program.base.epsilon in (0, 1):
                assert keys == (set() if self.program.base.epsilon else degrees.keys())
        assert state["heavy"] == heavy

    # --- views by their definitions ---

    def check_views(self) -> None:
        """Every view has the weights that its definition gives for the statuses that there are."""
        wanted = self.definitions()
        assert wanted.keys() == {v.name for v in self.program.views}
        for name, rows in wanted.items():
            assert self.view(name) == rows, name

    def definitions(self) -> dict[str, dict[Row, int]]:
        """The views of each kind of count."""
        program, relations = self.program, self.program.relations
        heavy = {s: self.heavy(i) for i, s in enumerate(program.statuses)}

        def part(stored: Stored, wanted: Mapping[Status, bool]) -> Part:
            """The rows of a relation whose keys are heavy, or light, as wanted."""
            rows = self.rows[relations.index(stored)].items()
            return stored.words, {
                row: have[0]
                for row, have in rows
                if all((s.key(row) in heavy[s]) == is_heavy for s, is_heavy in wanted.items())
            }

        match program:
            case SharedTriangle():
                out, into = program.statuses
                _, first = part(program.edges, {out: True})
                _, second = part(program.edges, {into: True})
                return {"pairs": joined([((A, B), first), ((B, C), second)], (A, C))}
            case LoomisWhitney():
                return {
                    f"heavy pairs {k}": joined(
                        [part(r, {program._status[j, k]: True}) for j, r in enumerate(relations) if j != k],
                        relations[k].words,
                    )
                    for k, bundle in enumerate(program.bundles)
                    if bundle
                }
            case PartitionedTriangle():
                found = {}
                for j in range(3):
                    n = (j + 1) % 3
                    one, other = {program._first[j]: True}, {program._first[n]: False}
                    if program.double:
                        one[program._second[j]], other[program._second[n]] = False, True
                    name, words = program.view(j)
                    found[name] = joined([part(relations[j], one), part(relations[n], other)], words)
                return found
            case FourPath():
                return self._path_views(program, heavy)
        raise AssertionError(program)

    def _path_views(self, program: FourPath, heavy: Mapping[Status, set[Row]]) -> dict[str, dict[Row, int]]:
        (r, s), (u, t) = ((e.near, e.mid) for e in program.ends)
        rows = {x: {row: have[0] for row, have in self.rows[i].items()} for i, x in enumerate(program.relations)}
        joint = {c for e in program.ends for c in heavy[program._of_centre[e]]}
        heavy_b, heavy_d = (heavy[program._of_end[e]] for e in program.ends)
        all_r, all_u = (r.words, rows[r]), (u.words, rows[u])

        def mid(stored: Stored, is_joint: bool, end: int, ends: set[Row] | None = None, is_in: bool = False) -> Part:
            return stored.words, {
                row: n
                for row, n in rows[stored].items()
                if ((row[1 - end],) in joint) == is_joint and (ends is None or ((row[end],) in ends) == is_in)
            }

        return {
            "x": joined([all_r, mid(s, True, 0)], (C,)),
            "xL": joined([all_r, mid(s, False, 0, heavy_b)], (C,)),
            "y": joined([mid(t, True, 1), all_u], (C,)),
            "yL": joined([mid(t, False, 1, heavy_d), all_u], (C,)),
            "middle": {
                key: n
                for key, n in joined([mid(s, False, 0), mid(t, False, 1)], (B, D)).items()
                if key[:1] in heavy_b or key[1:] in heavy_d
            },
            "W": joined([mid(s, False, 0, heavy_b, True), mid(t, False, 1, heavy_d), all_u], (B,)),
            "W'": joined([all_r, mid(s, False, 0, heavy_b), mid(t, False, 1, heavy_d, True)], (D,)),
        }

    def empty(self) -> None:
        """Delete everything: nothing is left but the base."""
        for j, rows in enumerate(self.rows):
            for row, have in list(rows.items()):
                self.update(j, row, -have[0], [-x for x in have[1:]])
        for table in self.program.views:
            assert self.machine.dump(table.name) == []
        assert not any(self.heavy(i) for i in range(len(self.program.statuses)))
        assert not any(self.total())
        assert not any(self.told)


Make = Callable[[Fraction, Sequence[Measure]], tuple[CountProgram, list[tuple[Var, ...]], list[int]]]


def shared(epsilon: Fraction, measures: Sequence[Measure]) -> tuple[CountProgram, list[tuple[Var, ...]], list[int]]:
    edges = Stored("r", 0, (A, B), (1, 2))
    program = SharedTriangle(edges, (0, 1, 2), sums_of(measures), ThresholdBase(epsilon))
    return program, words_of(CORNERS), [0, 0, 0]


def over(bundles: Sequence[tuple[Var, ...]], kind: str, everywhere: tuple[Var, ...] = ()) -> Make:
    def make(epsilon: Fraction, measures: Sequence[Measure]) -> tuple[CountProgram, list[tuple[Var, ...]], list[int]]:
        words, sums, base = words_of(bundles, everywhere), sums_of(measures), ThresholdBase(epsilon)
        if kind == "heavy":
            return LoomisWhitney(stored(words), bundles, sums, base), words, list(range(len(words)))
        return PartitionedTriangle(stored(words), bundles, sums, base, kind == "double"), words, [0, 1, 2]

    return make


def path(epsilon: Fraction, measures: Sequence[Measure]) -> tuple[CountProgram, list[tuple[Var, ...]], list[int]]:
    words = [(B,), (B, C), (C, D), (D,)]
    return FourPath(stored(words), sums_of(measures), ThresholdBase(epsilon)), words, [0, 1, 2, 3]


COMPOSITE = [(C, Var("c2")), (A,), (B,)]
MAKES: dict[str, Make] = {
    "one edge table": shared,
    **{f"{kind}, {name}": over(bundles, kind, z)
       for kind in ("heavy", "single", "double")
       for name, bundles, z in (
           ("triangle", CORNERS, ()), ("composite", COMPOSITE, (Z,)), ("3-path", [(C,), (), (B,)], ())
       )},
    "Loomis-Whitney 4": over([(D,), (A,), (B,), (C,)], "heavy"),
    "4-path": path,
}  # fmt: skip
