"""Triangle bags with hubs: where two long lists meet, what they have in common is kept (triangle.md 18.7).

With ``LONG`` small and ε = 0 every key of two rows is heavy as soon as lists meet: logic is tested apart from degrees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

import everview as ev
from everview.errors import DataError
from everview.programs.parts import COLUMNS
from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Var
from everview.strategies.crown import bags, hubs
from everview.strategies.crown.bags import Bags
from everview.strategies.crown.extremes import Extremes
from everview.strategies.crown.hubs import Hubs, Side
from everview.strategies.crown.layout import Layout
from everview.strategies.crown.plan import CrownPlan
from everview.strategies.crown.totals import Totals
from everview.strategies.strategy import WORDS_AS_THEY_ARE
from tests.scale import scaled
from tests.strategies.harness import Driver, signatures
from tests.strategies.machines import Both, Kernel
from tests.strategies.triangle.test_database import JOINED, OF_EDGES, TABLES, Twins

SHAPES = {
    "three tables": "r ab, s bc, t ca",
    "one table": "g ab, g bc, g ca",
    "one table, transitive": "g ab, g bc, g ac",
    "two tables": "g ab, g bc, h ca",
    "with a tail": "g ab, g bc, g ca, h ad",
    "two triangles": "g ab, g bc, g ca, g cd, g de, g ec",
    "in all three": "r abz, s bcz, t caz",
    "composite": "r axb, s bc, t cax",
    "guards": "r abp, s bcq, t cas",
}
Row = tuple[int, ...]


def query(shape: str, semantics: Semantics) -> ConjunctiveQuery:
    atoms = tuple(Atom(one.split()[0], tuple(map(Var, one.split()[1]))) for one in SHAPES[shape].split(", "))
    every = set(map(Var, "pqs")) if shape == "guards" else {v for atom in atoms for v in atom.variables}
    return ConjunctiveQuery(tuple(sorted(every)), atoms, semantics=semantics)


def kept_by(driver: Driver) -> Hubs:
    """The wedges of a driver's program, as they were declared when it was written."""
    plan = driver.plan.maintenance
    assert isinstance(plan, CrownPlan)
    layout = Layout(plan, (), signatures(driver.plan.query))
    kept = Hubs(layout)
    Bags(layout, Totals(layout, False, Extremes(layout, WORDS_AS_THEY_ARE)), kept)
    return kept


def check_wedges(driver: Driver, kept: Hubs) -> int:
    """Wedges and heavy keys are what they are by definition; gives how many wedges there are."""
    dumped = {t.name: [key for key, _, _ in driver.machine.dump(t.name)] for t in driver.maintained.program.tables}
    numbers = driver.machine.dump("hubs")
    state = dict(zip(COLUMNS, numbers[0][1] if numbers else [0] * len(COLUMNS), strict=False))
    heavy = 0
    for status in {w.status(side) for w in kept.wedges for side in w.sides}:
        degrees = Counter(tuple(row[i] for i in status.columns) for row in dumped[status.rows])
        assert set(dumped[status.table]) <= degrees.keys()
        heavy += len(dumped[status.table])
    assert state["heavy"] == heavy
    found = 0

    def edges(side: Side, ends: tuple[int, ...], heavy: set[Row]) -> Iterator[dict[Var, int]]:
        for row in dumped[side.table]:
            if tuple(row[i] for i in ends) in heavy:
                yield dict(zip(side.words, row, strict=True))

    for wedge in kept.wedges:
        one, other = (list(edges(side, wedge.end(side), set(dumped[wedge.status(side).table]))) for side in wedge.sides)
        wanted = {
            tuple({**x, **y}[v] for v in wedge.key)
            for x in one
            for y in other
            if all(x[v] == y[v] for v in x.keys() & y.keys())
        }
        assert set(dumped[wedge.table]) == wanted
        found += len(wanted)
    return found


def row_of(r: Random, width: int) -> Row:
    """A value is a hub; what comes after them is one of few."""
    return tuple(r.choice((0, r.randrange(4))) if i < 2 else r.randrange(2) for i in range(width))


@pytest.mark.parametrize("semantics", list(Semantics), ids=lambda s: s.value)
@pytest.mark.parametrize("shape", SHAPES)
def test_random_updates(shape: str, semantics: Semantics, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows come and go around hubs, loops and copies among them: the result, its deltas and the wedges are right."""
    monkeypatch.setattr(bags, "LONG", 1)
    most = 0
    is_large = shape == "two triangles"
    for seed in range(1 if is_large else scaled(3, 3)):
        r = Random(f"{seed} {shape}")
        monkeypatch.setattr(hubs, "EPSILON", r.choice((Fraction(0), Fraction(0), Fraction(1, 5))))
        asked = query(shape, semantics)
        driver = Driver(asked, Both, with_deltas=r.random() < 0.7)
        kept = kept_by(driver)
        assert kept.wedges
        relations = {a.relation: len(a.terms) for a in asked.atoms}
        updates = 16 if is_large else 32 + 8 * len(relations)
        for at in range(updates):
            relation = r.choice(sorted(relations))
            there = driver.database.get(relation, [])
            if there and r.random() < (0.2 if 3 * at < 2 * updates else 0.6):
                row = r.choice(there)
                driver.update(relation, row, -r.randint(1, there.count(row)))
            else:
                driver.update(relation, row_of(r, relations[relation]), r.choice((1, 1, 2)))
            most = max(most, check_wedges(driver, kept))
            if at % 6 == 5:
                driver.check()
        for relation, rows in driver.database.items():
            for row in set(rows):
                driver.update(relation, row, -rows.count(row))
        driver.check()
        assert driver.rows_left() == {}, seed
    assert most > 0 or is_large


def test_hubs_by_degree() -> None:
    """With the thresholds as they are: hubs grow past 3θ/2, lose their edges and become light again."""
    r = Random(7)
    driver = Driver(query("one table", Semantics.BAG), Kernel, with_deltas=True)
    kept = kept_by(driver)
    edges = [edge for i in range(2, 180) for edge in ((0, i), (i, 1)) if r.random() < 0.9]
    r.shuffle(edges)
    for edge in edges:
        driver.update("g", edge, 1)
    assert check_wedges(driver, kept) == 0
    assert not driver.machine.dump("hubs")
    for change in (1, -1, 2):
        driver.update("g", (1, 0), change)
        driver.check()
    assert check_wedges(driver, kept) > 0
    for n, edge in enumerate(edges[:-10]):
        driver.update("g", edge, -1)
        if n % 40 == 0:
            driver.update("g", (1, 0), r.choice((1, 2)))
            check_wedges(driver, kept)
            driver.check()
    assert check_wedges(driver, kept) == 0
    driver.check()


# --- the database ----------------------------------------------------------------------------------------------------

VIEWS = {
    "listing": f"SELECT r.a, s.b, t.c {JOINED}",
    "distinct": f"SELECT DISTINCT r.a, s.b, t.c {JOINED}",
    "filters": f"SELECT r.a, s.b, t.c {JOINED} AND r.w < 2 AND s.w > 0",
    "conditions across": f"SELECT r.a, s.b, t.c {JOINED} AND r.w <= s.w",
    "one table": f"SELECT p.x, p.y, o.x AS z {OF_EDGES}",
    "one table by edge": f"SELECT p.x, p.y, COUNT(*) AS n, SUM(q.w) AS m {OF_EDGES} GROUP BY p.x, p.y",
    "the same filter": f"SELECT p.x, p.y, o.x AS z {OF_EDGES} AND p.w < 2 AND q.w < 2 AND o.w < 2",
    "rows under an edge": f"SELECT r.a, s.b, t.c, r.w {JOINED}",
    "with a tail": "SELECT r.a, s.b, t.c, e.y FROM e JOIN r ON e.x = r.a JOIN s ON r.b = s.b JOIN t ON s.c = t.c "
    "AND t.a = r.a",
    "two triangles": "SELECT p.x, COUNT(*) AS n FROM e p, e q, e o, r, s, t "
    "WHERE p.y = q.x AND q.y = o.x AND o.y = p.x AND r.b = s.b AND s.c = t.c AND t.a = r.a AND r.a = p.x GROUP BY p.x",
}


class Plain(Twins):
    """The tables, and the view without a dial, with a feed of each kind from the begin."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.duck = duckdb.connect()
        self.db = ev.Database()
        for name, columns in TABLES.items():
            self.db.sql(f"CREATE TABLE {name} ({columns})")
            self.duck.execute(f"CREATE TABLE {name} ({columns})")
        self.rows = {name: [] for name in TABLES}
        self.view = self.db.create_view("v", sql)
        self.names = ["v"]
        self.tables = [name for name in TABLES if f" {name} " in sql or f" {name}," in sql]
        self.open()

    def open(self) -> None:
        """Open a feed of each kind; what they have told so far is what the view has now."""
        self.feeds = [(feed, Counter(self.db.view("v"))) for feed in self._feeds()]

    def _feeds(self) -> list[ev.Feed]:
        return [self.db.view("v").changes(), self.db.view("v").changes(per_update=True)]

    def row(self, random: Random) -> tuple[Any, ...]:
        def value() -> int | None:
            return random.choice([0, 0, 1, random.randrange(12), random.randrange(12), None])

        return value(), value(), random.choice([0, 1, 2])

    def be_refused(self, random: Random) -> None:
        """A batch whose last row is not there to be deleted."""
        with self.db.batch() as batch:
            for table in self.tables:
                batch.insert(table, [self.row(random) for _ in range(9)])
            batch.delete(self.tables[0], [(77, 77, 77)])

    def check(self) -> None:
        super().check()
        for feed, told in self.feeds:
            for batch in feed.read():
                for change in batch.to_pylist():
                    row = tuple(value for name, value in change.items() if not name.startswith("_"))
                    sign = 1 if change["_change_type"] in ("insert", "update_postimage") else -1
                    told[row] += sign * change["_count"]
            assert Counter(self.db.view("v")) == +told
            assert min(told.values(), default=0) >= 0


@pytest.mark.parametrize("view", VIEWS)
def test_against_duckdb(view: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views, net feeds and feeds of single updates; growth and shrinkage, save and load, a batch that is refused."""
    monkeypatch.setattr(bags, "LONG", 1)
    monkeypatch.setattr(hubs, "EPSILON", Fraction(1, 5))
    random, twins = Random(view), Plain(VIEWS[view])
    most = 0
    for i in range(scaled(6, 6)):
        twins.step(random, random.choice((9, 14)), random.choice((0, 4)))
        twins.check()
        if i == 2:
            with pytest.raises(DataError):
                twins.be_refused(random)
            twins.check()
            twins.db.save(tmp_path / "saved.db")
            twins.db = ev.Database.load(tmp_path / "saved.db")
            assert twins.db.view("v").stats()["restored"] == "snapshot"
            twins.open()
        most = max(most, *(part["heavy_keys"] for part in twins.db.view("v").stats()["parts"]))
    assert most > 0
    while any(twins.rows.values()):
        twins.step(random, 0, 30)
        twins.check()
    assert list(twins.db.view("v")) == []
    assert [part["heavy_keys"] for part in twins.db.view("v").stats()["parts"]] == [0]


# --- steps -----------------------------------------------------------------------------------------------------------


Updates = list[tuple[Row, int]]


def driver_of(relations: Sequence[str]) -> Driver:
    """A listing of triangles, with a feed open."""
    atoms = tuple(Atom(name, (Var(e[0]), Var(e[1]))) for name, e in zip(relations, ("ab", "bc", "ca"), strict=True))
    return Driver(ConjunctiveQuery((Var("a"), Var("b"), Var("c")), atoms), Kernel, with_deltas=True)


def run(driver: Driver, relation: str, updates: Updates) -> int:
    """Apply updates to a relation in which every row fits each atom; gives how many steps they took."""
    entry = driver.maintained.entry(relation)
    assert entry is not None
    columns: list[list[int]] = []
    for given in entry.atom_inputs:
        terms = driver.plan.query.atoms[given.atom].terms
        columns += [[row[terms.index(v)] for row, _ in updates] for v in given.variables] + [[1] * len(updates)]
    before = driver.machine.machine.steps
    driver.machine.apply(entry.with_deltas, [*columns, [change for _, change in updates]])
    return int(driver.machine.machine.steps) - before


@pytest.mark.parametrize("relations", ["ggg", "rst"])
def test_no_list_is_walked_in_vain(relations: str) -> None:
    """Two hubs without a neighbour in common, whose edge comes and goes, and closes no triangle.

    That takes as many steps at 10⁵ neighbours as at 10³; so does an update of all there are, the first time included.
    """
    r, s, t = list(relations)
    found, toggled = {}, set()
    toggle: Updates = [((-2, -1), 1), ((-2, -1), -1)]
    for size in (1_000, 10_000, 100_000):
        driver = driver_of((r, s, t))
        taken = run(driver, s, [((-1, i), 1) for i in range(size)])
        taken += run(driver, t, [((size + i, -2), 1) for i in range(size)])
        taken += run(driver, r, toggle)
        found[size] = taken / (2 * size + 2)
        toggled.add(run(driver, r, toggle * 50))
    assert len(toggled) == 1, toggled
    assert max(found.values()) <= 1.1 * found[1_000], found


def test_steps_of_hubs_that_come_and_go() -> None:
    """Hubs that grow, meet, shrink and meet again, more of them in a larger graph: O(√N) an update, all included."""
    points = {}
    for size in (1_200, 4_800, 19_200):
        driver, random, updates = driver_of("ggg"), Random(size), 0
        hubs_, leaves, taken = round(size**0.5 / 4), round(size**0.5 * 4), 0
        for _ in range(3):
            edges: Updates = []
            for h in range(hubs_):
                edges += [((-1 - h, i), 1) for i in range(leaves)] + [((leaves + i, -1 - h), 1) for i in range(leaves)]
            random.shuffle(edges)
            met: Updates = [((-1 - h, -1 - k), n) for h in range(hubs_) for k in range(hubs_) for n in (1, -1)]
            for batch in (edges, met, [(edge, -1) for edge, _ in edges[: len(edges) - 8]], met):
                taken += run(driver, "g", batch)
                updates += len(batch)
            taken += run(driver, "g", [(edge, -1) for edge, _ in edges[len(edges) - 8 :]])
        points[size] = taken / updates
        (numbers,) = driver.machine.dump("hubs")
        assert numbers[1][COLUMNS.index("minors")] >= 2 * hubs_
    logs = [(math.log(n), math.log(cost)) for n, cost in points.items()]
    assert (logs[-1][1] - logs[0][1]) / (logs[-1][0] - logs[0][0]) <= 0.6, points


def test_a_graph_without_hubs_pays_next_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the same program without wedges: a few steps an update, whatever the degrees are."""
    for degree in (2, 20):
        random, steps = Random(degree), []
        edges = sorted({(random.randrange(400), random.randrange(400)) for _ in range(400 * degree)})
        updates = [(edge, 1) for edge in edges] + [(edge, -1) for edge in edges]
        for has_wedges in (True, False):
            if not has_wedges:
                monkeypatch.setattr(bags, "is_triangle", lambda edges: False)
            steps.append(run(driver_of("ggg"), "g", updates))
        monkeypatch.undo()
        assert steps[0] - steps[1] == 4 * len(updates)
