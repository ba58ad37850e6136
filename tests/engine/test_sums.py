"""Sums of extreme numbers: DuckDB lists the rows, Python adds them up exactly; a batch is refused if and only if a
result does not fit into its type when the batch ends."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.errors import DataError
from everview.query.types import Kind
from tests.engine.test_regressions import changes, made
from tests.scale import SCALE, scaled

BIG = 2**63 - 1
TABLES = {
    "t": {
        "g": ("INT", pa.int32()),
        "k": ("INT", pa.int32()),
        "i": ("INT", pa.int32()),
        "b": ("BIGINT", pa.int64()),
        "m": ("DECIMAL(18, 2)", pa.decimal128(18, 2)),
        "d": ("DECIMAL(38, 4)", pa.decimal128(38, 4)),
    },
    "u": {
        "k": ("INT", pa.int32()),
        "b": ("BIGINT", pa.int64()),
        "m": ("DECIMAL(10, 2)", pa.decimal128(10, 2)),
    },
}
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Sums:
    """A view: its keys, its aggregates by function and argument, and what comes after SELECT's list."""

    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]
    body: str
    having: int | None = None
    """The aggregate that must be above 0."""

    def sql(self) -> str:
        columns = [f"{k} AS k{i}" for i, k in enumerate(self.keys)]
        columns += [f"{f}({a}) AS a{i}" for i, (f, a) in enumerate(self.aggregates)]
        groups = f" GROUP BY {', '.join(self.keys)}" if self.keys else ""
        having = "" if self.having is None else " HAVING {}({}) > 0".format(*self.aggregates[self.having])
        return f"SELECT {', '.join(columns)} {self.body}{groups}{having}"

    def listing(self) -> str:
        return f"SELECT {', '.join([*self.keys, *(a for _, a in self.aggregates)])} {self.body}"


VIEWS = {
    "plain": Sums(("g",), (("SUM", "b"), ("AVG", "b"), ("COUNT", "b"), ("SUM", "i")), "FROM t"),
    "selfjoin": Sums(("x.g",), (("SUM", "x.b"), ("SUM", "y.m")), "FROM t x JOIN t y ON x.k = y.k"),
    "product": Sums(
        ("t.g",),
        (
            ("SUM", "CAST(t.m AS DECIMAL(20, 2)) * u.m"),
            ("AVG", "CAST(t.m AS DECIMAL(20, 2)) * u.m"),
            ("VAR_POP", "CAST(t.i AS BIGINT) + u.k"),
        ),
        "FROM t JOIN u ON t.k = u.k",
    ),
    "decimals": Sums(("g",), (("SUM", "d"), ("AVG", "m")), "FROM t", having=0),
    "average": Sums(("k",), (("AVG", "d"), ("COUNT", "d")), "FROM t"),
    "spread": Sums(
        ("g",), (("VARIANCE", "b"), ("STDDEV_POP", "i"), ("VAR_POP", "m"), ("STDDEV", "CAST(d AS DOUBLE)")), "FROM t"
    ),
    "whole": Sums((), (("SUM", "b"), ("SUM", "d")), "FROM t"),
    "shown": Sums(("t.k", "t.g", "u.b"), (("SUM", "t.b"), ("SUM", "t.d")), "FROM t JOIN u ON t.k = u.k"),
    "joined": Sums(("u.k",), (("SUM", "u.b"),), "FROM t JOIN u ON t.k = u.k"),
}


# --- exact results ---------------------------------------------------------------------------------------------------


def aggregated(function: str, values: list[Any]) -> Fraction | None:
    """The exact value; of a deviation its square."""
    exact = [Fraction(v) for v in values if v is not None]
    n = len(exact)
    if function == "COUNT":
        return Fraction(n)
    if not n or (function in ("VARIANCE", "STDDEV") and n == 1):
        return None
    total = sum(exact, Fraction(0))
    match function:
        case "SUM":
            return total
        case "AVG":
            return total / n
    spread = sum((x * x for x in exact), Fraction(0)) - total * total / n
    return spread / n if function.endswith("POP") else spread / (n - 1)


class Illegal(Exception):
    """A result does not fit."""


def in_type(value: Fraction | None, function: str, type_: Any) -> Any:
    if value is None:
        return None
    if type_.kind is Kind.DECIMAL:
        scaled = value * 10**type_.scale
        whole = math.floor(abs(scaled) + Fraction(1, 2)) * (-1 if scaled < 0 else 1)
        if abs(whole) >= 10**type_.precision:
            raise Illegal
        return Decimal((whole < 0, tuple(map(int, str(abs(whole)))), -type_.scale))
    if type_.is_integer:
        if not -(2**63) < value < 2**63:  # the lowest word stands for NULL
            raise Illegal
        return int(value)
    return math.sqrt(float(value)) if function.startswith("STDDEV") else float(value)


class Run:
    """A database and a model of it."""

    def __init__(self, names: list[str], r: random.Random) -> None:
        self.r = r
        self.db = ev.Database()
        self.duck = duckdb.connect()
        self.duck.execute("SET threads = 1")
        self.model: dict[str, list[Row]] = {name: [] for name in TABLES}
        for name, columns in TABLES.items():
            self.db.sql(f"CREATE TABLE {name} ({', '.join(f'{c} {t}' for c, (t, _) in columns.items())})")
        self.names = names
        for name in names:
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {VIEWS[name].sql()}")
        self.feeds = {name: self.db.view(name).changes() for name in names if r.random() < 0.4}
        self.totals = {name: Counter(self.db.view(name)) for name in self.feeds}
        self.refused = self.accepted = 0

    def expected(self, model: dict[str, list[Row]]) -> dict[str, Counter[Row]]:
        for name, columns in TABLES.items():
            arrays = [pa.array([row[i] for row in model[name]], a) for i, (_, a) in enumerate(columns.values())]
            self.duck.register(name, pa.table(arrays, names=list(columns)))
        found = {}
        for name in self.names:
            view = VIEWS[name]
            types = self.db._views[name].types
            groups: dict[Row, list[Row]] = {} if view.keys else {(): []}
            for row in self.duck.execute(view.listing()).fetchall():
                groups.setdefault(row[: len(view.keys)], []).append(row[len(view.keys) :])
            found[name] = Counter(dict(self._rows(view, types, groups)))
        return found

    def _rows(self, view: Sums, types: Any, groups: dict[Row, list[Row]]) -> Iterator[tuple[Row, int]]:
        for key, rows in groups.items():
            columns = list(zip(*rows, strict=True)) if rows else [()] * len(view.aggregates)
            values = [
                in_type(aggregated(f, list(column)), f, t)
                for (f, _), column, t in zip(view.aggregates, columns, types[len(view.keys) :], strict=True)
            ]
            if view.having is None or (values[view.having] is not None and values[view.having] > 0):
                yield (*key, *values), 1

    def batch(self, operations: list[tuple[str, str, list[Row]]]) -> None:
        """Do it if it is legal; see that it is refused, and nothing has changed, if it is not."""
        model = {name: list(rows) for name, rows in self.model.items()}
        for op, name, rows in operations:
            for row in rows:
                model[name].append(row) if op == "insert" else model[name].remove(row)
        try:
            wanted = self.expected(model)
        except Illegal:
            with pytest.raises(DataError), self.db.batch() as batch:
                self._fill(batch, operations)
            self.refused += 1
            assert not any(feed.read() for feed in self.feeds.values())
            self._check(self.expected(self.model))
            return
        with self.db.batch() as batch:
            self._fill(batch, operations)
        self.accepted += 1
        self.model = model
        self._check(wanted)
        for name, feed in self.feeds.items():
            for _, kind, count, *row in changes(feed):
                self.totals[name][tuple(row)] += count if kind in ("insert", "update_postimage") else -count
            assert +self.totals[name] == Counter(self.db.view(name))

    def _fill(self, batch: Any, operations: list[tuple[str, str, list[Row]]]) -> None:
        for op, name, rows in operations:
            (batch.insert if op == "insert" else batch.delete)(name, rows)

    def _check(self, wanted: dict[str, Counter[Row]]) -> None:
        for name, rows in wanted.items():
            assert Counter(self.db.view(name)) == rows, name


# --- random batches --------------------------------------------------------------------------------------------------


def numbers(r: random.Random, top: int) -> int:
    kind = r.random()
    if kind < 0.3:
        return r.choice([-top, top, top - 1, top // 2, -(top // 2), -1, 1])
    return r.randint(-3, 3) if kind < 0.6 else r.randint(-top, top)


def row_of(r: random.Random, name: str, tame: bool) -> Row:
    def maybe(make: Callable[[], Any]) -> Any:
        return None if r.random() < 0.1 else make()

    def decimal(digits: int, scale: int) -> Decimal:
        n = numbers(r, 10 ** (digits // 2 if tame else digits) - 1)
        return Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale))

    key, big = r.randint(0, 2), 2**40 if tame else BIG
    if name == "u":
        return key, maybe(lambda: numbers(r, big)), maybe(lambda: decimal(10, 2))
    return (
        r.randint(0, 2),
        key,
        maybe(lambda: numbers(r, 2**31 - 1)),
        maybe(lambda: numbers(r, big)),
        maybe(lambda: decimal(18, 2)),
        maybe(lambda: decimal(38, 4)),
    )


def random_run(seed: int) -> tuple[int, int]:
    r = random.Random(seed)
    run = Run(r.sample(list(VIEWS), r.randint(1, 3)), r)
    tameness = r.choice([0.2, 0.6, 0.95])
    for _ in range(r.randint(3, 9)):
        operations = []
        there = {name: list(rows) for name, rows in run.model.items()}
        for _ in range(r.randint(1, 4)):
            name = r.choice(["t", "t", "u"])
            if there[name] and r.random() < 0.45:
                gone = [there[name].pop(r.randrange(len(there[name]))) for _ in range(min(2, len(there[name])))]
                operations.append(("delete", name, gone))
            else:
                come = [row_of(r, name, r.random() < tameness) for _ in range(r.randint(1, 3))]
                if r.random() < 0.3:
                    come.append(come[0])
                there[name] += come
                operations.append(("insert", name, come))
        run.batch(operations)
    for name, rows in run.model.items():  # a legal way out, row by row or at once
        r.shuffle(rows)
        run.batch([("delete", name, list(rows))])
    return run.accepted, run.refused


@pytest.mark.parametrize("part", range(4))
def test_random_batches(part: int) -> None:
    accepted = refused = 0
    for seed in range(part * 100_000, part * 100_000 + scaled(9)):
        try:
            more = random_run(seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}") from error
        accepted, refused = accepted + more[0], refused + more[1]
    assert accepted > 10 or SCALE < 1
    assert refused > 3 or SCALE < 1


# --- one by one ------------------------------------------------------------------------------------------------------


def test_duckdb_agrees_where_its_own_sums_are_exact() -> None:
    db = made(
        "CREATE TABLE t (g INT, b BIGINT, d DECIMAL(30, 3))",
        "CREATE MATERIALIZED VIEW v AS SELECT g, SUM(b) AS s, SUM(d) AS x, AVG(b) AS a FROM t GROUP BY g",
    )
    r = random.Random(5)
    rows = [
        (r.randint(0, 9), r.randint(-(2**58), 2**58), Decimal(r.randint(-(10**30), 10**30)).scaleb(-3))
        for _ in range(300)
    ]
    db.insert("t", rows)
    db.delete("t", rows[::3])
    kept = [row for i, row in enumerate(rows) if i % 3]
    data = pa.table(
        [
            pa.array(c, t)
            for c, t in zip(zip(*kept, strict=True), [pa.int32(), pa.int64(), pa.decimal128(30, 3)], strict=True)
        ],
        names=["g", "b", "d"],
    )
    found = duckdb.connect().execute("SELECT g, SUM(b), SUM(d), AVG(b) FROM data GROUP BY g").fetchall()
    assert data.num_rows == 200
    assert [row[:3] for row in sorted(db.view("v"))] == [row[:3] for row in sorted(found)]
    assert [row[3] for row in sorted(db.view("v"))] == pytest.approx([row[3] for row in sorted(found)], rel=1e-14)


@pytest.mark.parametrize("loud", [False, True])
def test_a_sum_may_leave_64_bits_within_a_batch(loud: bool) -> None:
    db = made(
        "CREATE TABLE t (k INT, b BIGINT)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(b) AS n, AVG(b) AS a FROM t GROUP BY k",
    )
    feed = db.view("v").changes() if loud else None
    db.insert("t", [(1, BIG), (1, BIG), (1, -BIG), (2, 5)])
    assert sorted(db.view("v")) == [(1, BIG, BIG / 3), (2, 5, 5.0)]
    with db.batch() as batch:
        batch.insert("t", [(1, 1), (1, BIG), (3, -BIG)])
        batch.delete("t", [(1, BIG), (1, 1)])
    assert sorted(db.view("v")) == [(1, BIG, BIG / 3), (2, 5, 5.0), (3, -BIG, float(-BIG))]
    with pytest.raises(DataError, match="64 bits") as caught:
        db.delete("t", [(2, 5), (1, -BIG)])
    assert (caught.value.table, caught.value.row) == ("t", 1)
    if feed is not None:
        assert len(changes(feed)) == 3
    assert sorted(db.view("v")) == [(1, BIG, BIG / 3), (2, 5, 5.0), (3, -BIG, float(-BIG))]


def test_an_average_of_bigint_never_overflows() -> None:
    db = made("CREATE TABLE t (b BIGINT)", "CREATE MATERIALIZED VIEW v AS SELECT AVG(b) AS a FROM t")
    db.insert("t", [(BIG,)] * 5)
    assert list(db.view("v")) == [(float(BIG),)]


def test_a_product_of_decimals_has_all_digits_that_its_type_has() -> None:
    """The expression is DECIMAL(29, 4) by Spark's rules, so that the product fits."""
    db = made(
        "CREATE TABLE t (m DECIMAL(18, 2), p DECIMAL(10, 2))",
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(m * p) AS s FROM t",
    )
    db.insert("t", [(Decimal("4999999999999999.99"), Decimal("49999999.99"))])
    assert list(db.view("v")) == [(Decimal("249999999949999999500000.0001"),)]


def test_a_view_over_large_sums_sees_them_in_the_end() -> None:
    """What passes through NULL within a batch leaves no trace in a view that reads it."""
    db = made(
        "CREATE TABLE t (k INT, b BIGINT)",
        "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(b) AS n FROM t GROUP BY k",
        "CREATE MATERIALIZED VIEW w AS SELECT COUNT(*) AS c, COUNT(n) AS m, MAX(n) AS x FROM v",
    )
    with db.batch() as batch:
        batch.insert("t", [(1, BIG), (1, BIG)])
        batch.insert("t", [(1, -BIG), (2, 7)])
    assert list(db.view("w")) == [(2, 2, BIG)]


def test_a_legal_delete_is_never_refused() -> None:
    """Between the two occurrences of a self-join, the sum is beyond 64 bits."""
    db = made(
        "CREATE TABLE e (src INT, dst INT, b BIGINT)",
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(x.b) AS n FROM e x JOIN e y ON x.dst = y.src",
    )
    high, low, through = (1, 2, BIG), (2, 2, -BIG), (2, 3, BIG)
    with db.batch() as batch:
        batch.insert("e", [high, low, through])
    for rows in ([low, through], [high]):
        db.delete("e", rows)
    assert list(db.view("v")) == [(None,)]
    r = random.Random(1)
    for _ in range(30):
        rows = [(r.randint(0, 2), r.randint(0, 2), r.choice([BIG, -BIG, BIG // 2, 1])) for _ in range(5)]
        total = sum(x[2] for x in rows for y in rows if x[1] == y[0])
        if abs(total) > BIG:
            with pytest.raises(DataError):
                db.insert("e", rows)
            continue
        db.insert("e", rows)
        db.delete("e", r.sample(rows, 5))


def test_the_way_back_never_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that fails is taken back step by step, whatever sums it meets; views need not be made anew."""
    db = made(
        "CREATE TABLE e (src INT, dst INT, b BIGINT, d DECIMAL(38, 0))",
        "CREATE MATERIALIZED VIEW v AS SELECT SUM(x.b) AS n, SUM(y.d) AS m FROM e x JOIN e y ON x.dst = y.src",
        "CREATE MATERIALIZED VIEW w AS SELECT src, VARIANCE(b) AS a FROM e GROUP BY src",
    )
    monkeypatch.setattr(ev.Database, "_fill_anew", lambda self, name: pytest.fail(f"{name} was not taken back"))
    r = random.Random(3)
    most = 10**38 - 1
    for _ in range(60):
        rows = [
            (r.randint(0, 2), r.randint(0, 2), r.choice([BIG, -BIG, 1]), Decimal(r.choice([most, -most, 1])))
            for _ in range(r.randint(1, 5))
        ]
        before = {name: sorted(db.view(name)) for name in db.views}
        with pytest.raises(DataError), db.batch() as batch:  # noqa: PT012
            batch.insert("e", rows)
            batch.delete("e", [(9, 9, 9, Decimal(9))])
        assert {name: sorted(db.view(name)) for name in db.views} == before


def test_small_numbers_of_both_signs_have_room_for_many_copies() -> None:
    """A sum has 64 bits for copies beside those of its values."""
    db = made("CREATE TABLE t (b BIGINT)", "CREATE MATERIALIZED VIEW v AS SELECT SUM(b) AS n FROM t")
    db.apply("t", pa.table({"b": [-3], "_change_type": ["insert"], "_count": [2**60]}))
    assert list(db.view("v")) == [(-3 * 2**60,)]


def test_a_view_whose_sum_may_be_beyond_its_type_can_be_saved(tmp_path: Any) -> None:
    db = made(
        "CREATE TABLE t (k INT, b BIGINT)", "CREATE MATERIALIZED VIEW v AS SELECT k, SUM(b) AS n FROM t GROUP BY k"
    )
    db.insert("t", [(1, BIG), (2, 1)])
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    assert sorted(again.view("v")) == [(1, BIG), (2, 1)]
    again.view("v").changes().close()
    with pytest.raises(DataError):
        again.insert("t", [(1, 1)])
    again.insert("t", [(1, -1)])
    assert sorted(again.view("v")) == [(1, BIG - 1), (2, 1)]


COPIES = "SELECT x.a, x.b FROM e x, e y, e z, e w WHERE x.a = y.a AND y.a = z.a AND z.a = w.a"
TRIANGLES = "FROM m x, m y, m z WHERE x.b = y.a AND y.b = z.a AND z.b = x.a"


@pytest.mark.parametrize("options", ["", "OPTIONS (epsilon = 0)", "OPTIONS (epsilon = 1/2)"])
@pytest.mark.parametrize("has_feed", [False, True])
def test_a_batch_that_leaves_64_bits_is_refused_with_the_view(options: str, has_feed: bool) -> None:
    """The number of triangles is 160¹² by then, of copies of one row that another view makes of 40."""
    db = ev.Database()
    db.sql(f"CREATE TABLE e (a INT, b INT); CREATE MATERIALIZED VIEW m AS {COPIES}")
    query = f"SELECT x.a AS p, COUNT(*) AS n {TRIANGLES} GROUP BY x.a"
    db.sql(f"CREATE MATERIALIZED VIEW corners {options} AS {query}")
    db.insert("e", [(0, 0)] * 10)
    view = db.view("corners")
    feed = view.changes() if has_feed else None
    assert list(view) == [(0, 10**12)]
    with pytest.raises(DataError, match=r"^corners: .*leaves (the )?64 bits.*nothing has changed"):
        db.insert("e", [(0, 0)] * 150)
    assert list(view) == [(0, 10**12)]
    assert feed is None or not feed.read()
    db.delete("e", [(0, 0)] * 10)
    assert list(view) == []


STEPS = "FROM m x, m y, m z WHERE x.b = y.a AND y.a = z.a"


def of_copies(view: str, has_feed: bool) -> tuple[ev.Database, Any]:
    """A view with a dial over the rows of another one, of which there are n⁴ where its table has n."""
    db = ev.Database()
    db.sql(f"CREATE TABLE e (a INT, b INT); CREATE MATERIALIZED VIEW m AS {COPIES}")
    db.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 0.5) AS {view}")
    assert db.view("v").explain().strategy == "ivm-eps-hierarchical"
    return db, db.view("v").changes() if has_feed else None


@pytest.mark.parametrize("has_feed", [False, True])
def test_rows_of_a_set_may_have_any_number_of_derivations(has_feed: bool) -> None:
    """500¹² of them, which is far beyond 64 bits."""
    db, feed = of_copies(f"SELECT DISTINCT x.a AS p, y.b AS q {STEPS}", has_feed)
    db.insert("e", [(0, 0)] * 500)
    assert list(db.view("v")) == [(0, 0)]
    assert db.view("v").page(offset=0, limit=5) == [(0, 0)]
    db.insert("e", [(0, 1), (1, 0)])
    assert sorted(db.view("v")) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    db.delete("e", [(0, 0)] * 500)
    assert sorted(db.view("v")) == [(0, 0), (1, 1)]
    assert feed is None or sum(1 for _ in feed.read()) == 3


@pytest.mark.parametrize("has_feed", [False, True])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_group_that_cannot_be_counted_is_named(has_feed: bool, is_first: bool, tmp_path: Any) -> None:
    """With the dial, whether or not the batch is the first; a batch may pass through such a number."""
    db, _ = of_copies(f"SELECT x.a AS p, y.b AS q, COUNT(*) AS n {STEPS} GROUP BY x.a, y.b", has_feed)
    rows = [] if is_first else [(0, 0, 30**12)]
    db.insert("e", [(0, 0)] * (0 if is_first else 30))
    with pytest.raises(DataError, match=r"^v: count\(\*\) failed on the data for .* = 0, .* = 0.*64 bits of BIGINT"):
        db.insert("e", [(0, 0)] * 500)
    assert list(db.view("v")) == rows
    with db.batch() as batch:
        batch.insert("e", [(0, 0)] * 500)
        batch.delete("e", [(0, 0)] * (470 if is_first else 500))
    assert list(db.view("v")) == [(0, 0, 30**12)]
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    assert list(again.view("v")) == [(0, 0, 30**12)]
    with pytest.raises(DataError, match=r"^v: "):
        again.insert("e", [(0, 0)] * 500)
    again.insert("e", [(1, 1)])
    assert sorted(again.view("v")) == [(0, 0, 30**12), (1, 1, 1)]


@pytest.mark.parametrize("aggregates", ["AVG(a) AS m", "SUM(a) AS s, AVG(a) AS m", "AVG(a) AS m, SUM(a) AS s"])
def test_one_sum_serves_aggregates_whose_types_hold_less(aggregates: str) -> None:
    """An average has fewer digits before the point than the sum that it is made of."""
    db = ev.Database()
    db.sql(f"CREATE TABLE t (k INT, a DECIMAL(38, 0)); CREATE VIEW v AS SELECT k, {aggregates} FROM t GROUP BY k")
    db.insert("t", [(1, Decimal(5))])
    with pytest.raises(DataError, match=r"avg\(a\) failed on the data for k = 2 .*: it leaves DECIMAL\(38, 4\)"):
        db.insert("t", [(2, Decimal(10) ** 35)])
    assert [row[0] for row in db.view("v")] == [1]
