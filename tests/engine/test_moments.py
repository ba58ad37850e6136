"""Moments and regression: against numpy over the listed rows, the specification's vectors, doubles, what is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import everview as ev
from everview.engine import moments
from everview.errors import DataError, OptionError, OverDeleteError, SchemaError, SingularMatrix, UnknownNameError
from tests.scale import scaled

E = [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)]
F = [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)]
Q1 = "e.y, x1, f.x2, f.x3 FROM e JOIN f ON e.y = f.y JOIN g ON f.y = g.y AND f.x2 = g.x2 AND f.x3 = g.x3"


def b1() -> ev.Database:
    """The specification's database, with its query as a bag, as a set, and as rules."""
    db = ev.Database()
    db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT)")
    db.sql("CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT); CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
    db.create_view("bag", f"SELECT {Q1}")
    db.create_view("chosen", f"SELECT DISTINCT {Q1}")
    db.rules("rules(y, x1, x2, x3) :- e(y, x1), f(y, x2, x3), g(y, x2, x3).")
    for name, rows in (("e", E), ("f", F), ("g", F)):
        db.insert(name, rows)
    return db


@pytest.mark.parametrize("name", ["bag", "chosen", "rules"])
def test_vector_t16(name: str) -> None:
    view = b1().view(name)
    assert view.moments(2) == {
        (): 22,
        ("y",): 33,
        ("x1",): 89,
        ("x2",): 82,
        ("x3",): 70,
        ("y", "y"): 57,
        ("y", "x1"): 156,
        ("y", "x2"): 102,
        ("y", "x3"): 111,
        ("x1", "x1"): 543,
        ("x1", "x2"): 254,
        ("x1", "x3"): 335,
        ("x2", "x2"): 376,
        ("x2", "x3"): 247,
        ("x3", "x3"): 334,
    }
    found = view.linear_regression("y", ["x1", "x2", "x3"])
    expected = [Fraction(93339, 35195), Fraction(-547, 35195), Fraction(-6572, 21117), Fraction(470, 21117)]
    assert [found.intercept, *found.coefficients.values()] == list(map(float, expected))
    assert found.n == 22
    assert list(found.coefficients) == ["x1", "x2", "x3"]


@pytest.mark.parametrize("name", ["bag", "chosen"])
def test_vector_t16_of_degree_two(name: str) -> None:
    view = b1().view(name)
    found = view.moments(4)
    basis: list[tuple[str, ...]] = [(), ("x1",), ("x3",), ("x1", "x1"), ("x1", "x3"), ("x3", "x3")]
    b = [found["y", *term] for term in basis]
    a = [[found[(*s, *t)] for t in basis] for s in basis]
    assert b == [33, 156, 111, 1034, 612, 579]
    assert a[0] == [22, 89, 70, 543, 335, 334]
    solved = np.linalg.solve(np.array(a, float), np.array(b, float))
    assert solved == pytest.approx([1.122336, 0.267116, -0.229404, -0.014697, -0.001858, 0.027534], abs=1e-5)


def test_the_source_s_example_takes_constant_time_as_a_bag_and_as_a_set() -> None:
    """Whatever the size of the groups, an update takes the same number of steps."""
    found = []
    for size in (10, 100, 1000):
        db = b1()
        db.insert("e", [(7, i) for i in range(size)])
        db.insert("f", [(7, i, i) for i in range(size)])
        db.insert("g", [(7, i, i) for i in range(size)])
        steps = {}
        for name in ("bag", "chosen"):
            view = db.view(name)
            view.linear_regression("y", ["x1", "x2", "x3"])
            (kept,) = view._runtime.companions.values()
            before = kept.unit.steps
            db.insert("e", [(7, size)])
            db.insert("f", [(7, size, 1)])
            db.insert("g", [(7, size, 1)])
            assert len(view) == 22 + (size + 1) ** 2
            steps[name] = kept.unit.steps - before
        found.append(steps)
    assert found[0] == found[1] == found[2]


# --- against numpy ---------------------------------------------------------------------------------------------------

TABLES = (
    "CREATE TABLE r (k BIGINT, a INT, d DOUBLE); CREATE TABLE s (k BIGINT, b DECIMAL(9, 3), g BIGINT);"
    "CREATE TABLE t (g BIGINT, c BIGINT)"
)
VIEWS = {
    "join": "SELECT a, b, d, c FROM r JOIN s ON r.k = s.k JOIN t ON s.g = t.g",
    "star": "SELECT r.k, a, d, b FROM r JOIN s ON r.k = s.k",
    "projected": "SELECT a, b FROM r JOIN s ON r.k = s.k",
    "distinct": "SELECT DISTINCT r.k, a, b FROM r JOIN s ON r.k = s.k",
    "hidden": "SELECT DISTINCT r.k, a FROM r JOIN s ON r.k = s.k WHERE b > 0",
    "computed": "SELECT a + 1 AS a, d * 2 AS d, coalesce(b, 0) AS b FROM r JOIN s ON r.k = s.k WHERE a < 3",
    "across": "SELECT a, b, d FROM r JOIN s ON r.k = s.k WHERE a < b",
    "twice": "SELECT x.a, y.a AS b, y.d FROM r x JOIN r y ON x.k = y.k",
    "cycle": "SELECT r.a, t.c, s.b FROM r JOIN s ON r.k = s.k JOIN t ON s.g = t.g AND t.c = r.a",
    "grouped": "SELECT r.k, SUM(a) AS a, AVG(d) AS d, COUNT(*) AS n FROM r JOIN s ON r.k = s.k GROUP BY r.k",
    "united": "SELECT k, a FROM r UNION SELECT k, g FROM s",
    "one": "SELECT a, d FROM r",
    "fixed": "SELECT a, d, 2 AS two FROM r JOIN s ON r.k = s.k WHERE r.k = 1",
    "stages": "SELECT r.a, q.n FROM r JOIN (SELECT k, COUNT(*) AS n FROM s GROUP BY k) q ON r.k = q.k",
}


def listed(view: Any, names: Sequence[str]) -> list[list[Any]]:
    """The rows of some columns, without those that have a NULL in one of them."""
    places = [view.schema.names.index(name) for name in names]
    rows = [[row[i] for i in places] for row in view]
    return [row for row in rows if None not in row]


def check_moments(view: Any, degree: int) -> None:
    """Compare with sums over the listed rows: exact numbers are the same, floats nearly."""
    names = [f.name for f in view.schema if str(f.type).startswith(("int", "double", "decimal"))]
    rows = listed(view, names)
    found = view.moments(degree)
    keys = [key for size in range(degree + 1) for key in combinations_with_replacement(names, size)]
    assert list(found) == keys
    for key in keys:
        exact = [math.prod((Fraction(row[names.index(n)]) for n in key), start=Fraction(1)) for row in rows]
        if isinstance(found[key], float):
            size = max((abs(float(x)) for x in exact), default=1.0)
            assert found[key] == pytest.approx(float(sum(exact)), rel=1e-12, abs=1e-12 * size), (key, rows)
        else:
            assert found[key] == sum(exact), (key, rows)


def check_regression(view: Any, target: str, features: list[str], *, intercept: bool) -> None:
    rows = listed(view, [target, *features])
    table = np.array(rows, float).reshape(len(rows), 1 + len(features))
    matrix = np.hstack([np.ones((len(rows), 1)), table[:, 1:]]) if intercept else table[:, 1:]
    is_singular = np.linalg.matrix_rank(matrix) < matrix.shape[1] if len(rows) else True
    if is_singular:
        with pytest.raises(SingularMatrix):
            view.linear_regression(target, features, intercept=intercept)
        return
    found = view.linear_regression(target, features, intercept=intercept)
    solved, *_ = np.linalg.lstsq(matrix, table[:, 0], rcond=None)
    mine = [*([found.intercept] if intercept else []), *found.coefficients.values()]
    assert mine == pytest.approx(list(solved), rel=1e-6, abs=1e-7)
    assert found.n == len(rows)
    residual = ((table[:, 0] - matrix @ solved) ** 2).sum()
    variation = ((table[:, 0] - (table[:, 0].mean() if intercept else 0)) ** 2).sum()
    if variation > 1e-9:
        assert found.r2 == pytest.approx(1 - residual / variation, rel=1e-6, abs=1e-6)


def random_row(drawn: random.Random, table: str) -> tuple[Any, ...]:
    def maybe(value: Any) -> Any:
        return None if drawn.random() < 0.1 else value

    if table == "r":
        double = drawn.choice([0.0, 0.1, -2.5, 1e-3, 7.25, drawn.uniform(-50, 50)])
        return maybe(drawn.randrange(3)), maybe(drawn.randrange(-4, 5)), maybe(double)
    if table == "s":
        return drawn.randrange(3), maybe(Decimal(drawn.randrange(-999, 999)) / 100), maybe(drawn.randrange(3))
    return drawn.randrange(3), maybe(drawn.randrange(-3, 4))


def change(db: ev.Database, came: dict[str, Any], gone: dict[str, Any]) -> None:
    """One batch."""
    with db.batch() as batch:
        for table, rows in came.items():
            batch.insert(table, rows)
        for table, rows in gone.items():
            batch.delete(table, rows)


@pytest.mark.parametrize("name", VIEWS)
def test_random_updates(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked again and again, after any updates, a refused batch, and saving and loading."""
    monkeypatch.setattr(moments, "FEWEST_COUNTED", 0)
    for seed in range(scaled(2)):
        drawn = random.Random(seed)
        db = ev.Database()
        db.sql(TABLES)
        db.create_view("v", VIEWS[name])
        rows: dict[str, list[tuple[Any, ...]]] = {"r": [], "s": [], "t": []}
        for step in range(11):
            with db.batch() as batch:
                for _ in range(drawn.randrange(1, 8)):
                    table = drawn.choice(sorted(rows))
                    if rows[table] and drawn.random() < 0.4:
                        batch.delete(table, [rows[table].pop(drawn.randrange(len(rows[table])))])
                    else:
                        row = random_row(drawn, table)
                        copies = drawn.choice([1, 1, 1, 3])
                        rows[table] += [row] * copies
                        batch.insert(table, [row] * copies)
            if step == 6:
                db.save(tmp_path / "db")
                db = ev.Database.load(tmp_path / "db")
            if step == 9:
                with pytest.raises(OverDeleteError):
                    change(db, {"r": [(1, 1, 1.0), (2, 2, 1e9)]}, {"s": [(77, None, None)]})
            if step % 3:
                view = db.view("v")
                check_moments(view, 3 if step == 10 else 2)
                assert view.count() == len(view) == len(list(view))
                numbers = [f.name for f in view.schema if str(f.type).startswith(("int", "double", "decimal"))]
                drawn.shuffle(numbers)
                check_regression(view, numbers[0], numbers[1:3], intercept=drawn.random() < 0.7)
        for table, left in rows.items():
            db.delete(table, left)
        assert all(value == 0 for value in db.view("v").moments(2).values()) or name == "grouped"


# --- doubles ---------------------------------------------------------------------------------------------------------


def doubles(rows: Sequence[tuple[float | None, float | None]]) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE p (x DOUBLE, y DOUBLE)")
    db.create_view("v", "SELECT x, y FROM p")
    db.insert("p", rows)
    return db


def test_a_value_that_came_and_went_leaves_no_trace() -> None:
    """Floats that are added and subtracted again would keep the error of the largest of them."""
    db = doubles([(0.1, 1.0), (0.2, 2.0), (0.4, 3.5)])
    view = db.view("v")
    before = view.moments(2)
    db.insert("p", [(1e300, -1e300)])
    assert view.moments(2)["x",] == 1e300
    db.delete("p", [(1e300, -1e300)])
    for i in range(5):  # so much has changed that smaller units pay
        db.insert("p", [(float(i), 1.0)])
        db.delete("p", [(float(i), 1.0)])
    assert view.moments(2) == pytest.approx(before, rel=1e-12)
    assert view.linear_regression("y", ["x"]).n == 3


def test_values_grow_and_shrink_by_hundreds_of_digits() -> None:
    db = doubles([(1e-300, 1.0)])
    view = db.view("v")
    assert view.moments(1)["x",] == pytest.approx(1e-300, rel=1e-12)
    for exponent in range(-290, 310, 50):
        db.insert("p", [(10.0**exponent, 1.0)])
        assert view.moments(1)["x",] == pytest.approx(sum(row[0] for row in view), rel=1e-12)
    db.insert("p", [(1.7e308, 1.0), (1.7e308, 1.0)])
    assert view.moments(2)["x",] == view.moments(2)["x", "x"] == math.inf


def test_many_updates_do_not_drift() -> None:
    drawn = random.Random(5)
    rows = [(drawn.uniform(-1, 1), drawn.uniform(-1, 1)) for _ in range(50)]
    db = doubles(rows)
    view = db.view("v")
    view.moments(2)
    for _ in range(40):
        gone = [rows.pop(drawn.randrange(len(rows))) for _ in range(20)]
        came = [(drawn.uniform(-1, 1) * 10.0 ** drawn.randrange(-3, 4), drawn.gauss(0, 1)) for _ in range(20)]
        rows += came
        with db.batch() as batch:
            batch.delete("p", gone)
            batch.insert("p", came)
    for key, value in view.moments(2).items():
        exact = sum(math.prod((Fraction(row["xy".index(n)]) for n in key), start=Fraction(1)) for row in rows)
        assert value == pytest.approx(float(exact), rel=1e-11)


def test_what_is_not_finite_is_nan_until_it_goes() -> None:
    db = doubles([(1.0, 2.0), (3.0, 5.0)])
    view = db.view("v")
    before = view.moments(2)
    db.insert("p", [(math.nan, 1.0), (math.inf, 1.0), (None, 9.0), (4.0, None)])
    found = view.moments(2)
    assert found[()] == 4
    assert found["y",] == 9.0
    assert all(math.isnan(found[key]) for key in (("x",), ("x", "x"), ("x", "y")))
    with pytest.raises(DataError, match="2 rows of v have no finite number in x"):
        view.linear_regression("y", ["x"])
    db.delete("p", [(math.nan, 1.0), (math.inf, 1.0)])
    assert view.moments(2) == before


def test_rows_that_are_left_out_do_not_choose_units() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE p (x DOUBLE, ok BOOLEAN)")
    db.create_view("v", "SELECT x FROM p WHERE ok")
    db.insert("p", [(0.1, True), (1e200, False)])
    assert db.view("v").moments(2)["x", "x"] == pytest.approx(0.01, rel=1e-12)


# --- what a user may ask ---------------------------------------------------------------------------------------------


def points(rows: Sequence[tuple[Any, ...]] = ()) -> ev.Database:
    db = ev.Database()
    db.sql("CREATE TABLE p (name STRING, y BIGINT, x1 BIGINT, x2 BIGINT)")
    db.create_view("v", "SELECT name, y, x1, x2 FROM p")
    db.insert("p", [("a", *row) for row in rows])
    return db


def test_a_line_through_points_with_copies() -> None:
    db = points([(1, 0, 0), (3, 1, 0), (3, 1, 0), (5, 2, 7)])
    found = db.view("v").linear_regression("y", ["x1"])
    assert (found.n, found.intercept, found.coefficients, found.r2) == (4, 1.0, {"x1": 2.0}, 1.0)
    db.insert("p", [("b", 0, 3, 1)])
    moved = db.view("v").linear_regression("y", ["x1"])
    slope, intercept = np.polyfit([0, 1, 1, 2, 3], [1, 3, 3, 5, 0], 1)
    assert [moved.intercept, moved.coefficients["x1"]] == pytest.approx([intercept, slope])
    through = db.view("v").linear_regression("y", ["x1"], intercept=False)
    assert through.intercept == 0.0
    assert through.coefficients["x1"] == pytest.approx(16 / 15)


def test_a_key_may_name_columns_in_any_order() -> None:
    found = points([(2, 3, 5)]).view("v").moments(3)
    assert found["x2", "y"] == found["y", "x2"] == 10
    assert found["x1", "y", "x1"] == 18
    with pytest.raises(KeyError):
        found["y", "y", "y", "y"]
    with pytest.raises(KeyError):
        found["name",]


@pytest.mark.parametrize(
    ("rows", "features", "why"),
    [
        ([], ["x1"], "there are no rows without NULL in its columns"),
        ([(1, 2, 3)], ["x1"], "there are 1 rows, and more coefficients"),
        ([(1, 5, 0), (2, 5, 0), (4, 5, 0)], ["x1"], "x1 is the same in all rows"),
        ([(1, 1, 2), (2, 2, 4), (5, 3, 6), (5, 4, 8)], ["x1", "x2"], "x2 follows from x1 in all rows"),
        ([(1, 1, 2), (2, 2, 4), (5, 3, 7), (5, 4, 8)], ["x1", "x1"], "x1 follows from x1 in all rows"),
        ([(None, 1, 2), (2, None, 4)], ["x1"], "there are no rows"),
    ],
)
def test_singular_matrices(rows: list[tuple[Any, ...]], features: list[str], why: str) -> None:
    with pytest.raises(SingularMatrix, match=why):
        points(rows).view("v").linear_regression("y", features)


def test_doubles_that_follow_from_others_up_to_rounding_are_singular() -> None:
    drawn = random.Random(3)
    db = ev.Database()
    db.sql("CREATE TABLE p (y DOUBLE, x1 DOUBLE, x2 DOUBLE)")
    db.create_view("v", "SELECT y, x1, x2 FROM p")
    for x in (drawn.uniform(-9, 9) for _ in range(50)):
        db.insert("p", [(drawn.random(), x, 0.1 * x + 0.3)])
    with pytest.raises(SingularMatrix, match="x2 follows from x1"):
        db.view("v").linear_regression("y", ["x1", "x2"])
    db.insert("p", [(1.0, 0.5, 0.7)])
    assert db.view("v").linear_regression("y", ["x1", "x2"]).n == 51


def test_a_target_that_does_not_vary_has_no_r2() -> None:
    found = points([(4, 1, 0), (4, 2, 0), (4, 9, 0)]).view("v").linear_regression("y", ["x1"])
    assert (found.intercept, found.coefficients, math.isnan(found.r2)) == (4.0, {"x1": 0.0}, True)


def test_what_is_refused() -> None:
    view = points([(1, 2, 3)]).view("v")
    with pytest.raises(UnknownNameError, match="v has no column z"):
        view.linear_regression("z", ["x1"])
    with pytest.raises(SchemaError, match="the column name of v is STRING, which is no number"):
        view.linear_regression("y", ["name"])
    with pytest.raises(TypeError, match=r"\['x1'\]"):
        view.linear_regression("y", "x1")
    for degree in (-1, 1.0, True):
        with pytest.raises(ValueError, match="a degree is a whole number"):
            view.moments(degree)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sums are kept at most"):
        view.moments(40)


def test_options_name_the_columns_and_have_them_kept_from_the_beginning(tmp_path: Path) -> None:
    db = points()
    db.sql("CREATE MATERIALIZED VIEW w OPTIONS (moments = (y, x1)) AS SELECT y, x1, x2 FROM p")
    db.insert("p", [("a", 1, 2, None), ("a", 3, 5, 7)])

    def kept(db: ev.Database) -> list[Any]:
        return list(db._views["w"].companions.values())

    (before,) = kept(db)
    assert db.view("w").moments(2) == {(): 2, ("y",): 4, ("x1",): 7, ("y", "y"): 10, ("y", "x1"): 17, ("x1", "x1"): 29}
    assert kept(db) == [before]
    assert db.view("w").linear_regression("y", ["x1"]).n == 2
    assert kept(db) == [before]
    db.save(tmp_path / "db")
    again = ev.Database.load(tmp_path / "db")
    assert len(kept(again)) == len(kept(db)) == 1
    again.delete("p", [("a", 1, 2, None)])
    assert again.view("w").moments(1) == {(): 1, ("y",): 3, ("x1",): 5}
    db.sql("ALTER MATERIALIZED VIEW w SET OPTIONS (moments = NULL)")
    assert kept(db) == []
    assert db.view("w").moments(1) == {(): 1, ("y",): 3, ("x1",): 5, ("x2",): 7}
    assert str(again.view("w").explain().plan.view.options) == "moments = (y, x1)"


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("moments = (z)", "of z, which is no column"),
        ("moments = (name)", "of name, which is STRING"),
        ("moments = (y, y)", "named twice"),
        ("moments = 3", "names no columns"),
    ],
)
def test_options_that_are_refused(option: str, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        points().sql(f"CREATE MATERIALIZED VIEW w OPTIONS ({option}) AS SELECT name, y FROM p")


def test_more_rows_than_64_bits_count() -> None:
    db = ev.Database()
    for i in range(7):
        db.sql(f"CREATE TABLE t{i} (k BIGINT, x{i} BIGINT)")
    joined = " ".join(f"JOIN t{i} ON t0.k = t{i}.k" for i in range(1, 7))
    db.create_view("v", f"SELECT t0.k, {', '.join(f'x{i}' for i in range(7))} FROM t0 {joined}")
    for i in range(7):
        db.insert(f"t{i}", [(1, x) for x in range(2000)])
    total = sum(range(2000))
    found = db.view("v").moments(2)
    assert found[()] == 2000**7 == db.view("v").count()
    assert found["x0", "x1"] == total**2 * 2000**5
    assert db.view("v").linear_regression("x0", ["x1"]).coefficients == {"x1": 0.0}


@pytest.mark.parametrize("columns", ["a, b, c", "DISTINCT a, b"])
def test_a_count_is_kept_from_the_first_time_on_where_that_takes_constant_time(columns: str) -> None:
    steps = []
    for size in (100, 1_000):
        db = ev.Database()
        db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
        view = db.create_view("v", f"SELECT {columns} FROM r JOIN s USING (a)")
        rows = [(i % 5, i) for i in range(5 * size)]
        db.insert("r", rows)
        db.insert("s", rows)
        each = 5 * size * (1 if "DISTINCT" in columns else size)
        assert len(view) == each
        runtime = db._views["v"]
        kept = [runtime, *runtime.companions.values()]
        before = sum(v.unit.steps for v in kept)
        db.insert("r", [(3, -1)])
        db.delete("s", [(4, 4)])
        count = sum(v.unit.steps for v in kept)
        assert view.count() == each + ("DISTINCT" in columns)  # Else as many rows go as come.
        steps.append((count - before, sum(v.unit.steps for v in kept) - count))
        assert len(runtime.companions) == (size == 1_000)  # Fewer rows are counted by a walk.
    assert steps[1][1] <= 20


def test_no_count_is_kept_where_that_is_hard() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT)")
    view = db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (b) JOIN t USING (c)")
    db.insert("r", [(i, i) for i in range(5_000)])
    db.insert("s", [(i, i) for i in range(5_000)])
    db.insert("t", [(i,) for i in range(5_000)])
    assert len(view) == 5_000
    assert not db._views["v"].companions
