"""Rows by position: what is read by position, rank, page and sample is what DuckDB says, in the order of values.

Views of random q-hierarchical queries, over copies and NULLs, with projections, self-joins and products; the vectors of
q-hierarchical.md 18; and how steps grow.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import everview as ev
from everview.engine import positions
from everview.errors import OptionError, RowShapeError, TooManyRowsError
from tests.scale import scaled

Row = tuple[Any, ...]
SCHEMA = (
    "CREATE TABLE t0 (a BIGINT, b STRING, c BIGINT); CREATE TABLE t1 (a BIGINT, b STRING, c BIGINT);"
    "CREATE TABLE t2 (a BIGINT, b STRING, c BIGINT)"
)
TABLES = ("t0", "t1", "t2")
COLUMNS = "abc"
WORDS = [None, "", "a", "aa", "b", "ä"]


def in_order(row: Sequence[Any], columns: Sequence[int]) -> list[tuple[Any, ...]]:
    return [(row[c] is not None, row[c].encode() if isinstance(row[c], str) else row[c] or 0) for c in columns]


def order_of(view: ev.View) -> tuple[int, ...]:
    """The columns by which a view is in order, as ``explain`` says it."""
    parts = view.explain().to_dict()["parts"]
    assert len(parts) == 1
    found = view._ask(lambda rows: rows.order)
    assert found is not None
    return found


def random_query(r: random.Random) -> str:
    """A join of occurrences that all share a beginning of (b, a, c), each in two at most: a q-tree of three levels."""
    count = r.randint(1, 4)
    atoms = [(f"o{i}", r.choice(TABLES)) for i in range(count)]
    path = r.sample(COLUMNS, 3)
    conditions = []
    depth = [r.choice([0, 1, 1, 1, 2, 3]) for _ in atoms]
    for i in range(1, count):
        other = r.randrange(i)
        depth[i] = min(depth[i], depth[other]) if other else depth[i]
        conditions += [f"o{i}.{c} = o{other}.{c}" for c in path[: min(depth[i], depth[other])]]
    if r.random() < 0.2:
        conditions.append("o0.a <> 3")
    columns = [f"{name}.{c}" for name, _ in atoms for c in COLUMNS]
    shown = columns if r.random() < 0.4 else r.sample(columns, r.randint(1, min(6, len(columns))))
    outputs = ", ".join(f"{c} AS x{i}" for i, c in enumerate(shown))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    tables = ", ".join(f"{table} {name}" for name, table in atoms)
    return f"SELECT {r.choice(['', 'DISTINCT '])}{outputs} FROM {tables}{where}"


def batches(r: random.Random, count: int) -> Iterator[list[tuple[str, str, list[Row]]]]:
    held: dict[str, list[Row]] = {t: [] for t in TABLES}
    for _ in range(count):
        batch = []
        for table in TABLES:
            rows = [
                (r.choice([None, 1, 2, -3]), r.choice(WORDS), r.choice([None, 1, 2])) for _ in range(r.randint(0, 4))
            ]
            gone = r.sample(held[table], r.randint(0, min(3, len(held[table]))))
            for row in gone:
                held[table].remove(row)
            held[table] += rows
            batch += [("delete", table, gone), ("insert", table, rows)]
        yield batch


def check(view: ev.View, expected: list[Row], r: random.Random) -> None:
    """All that is asked by position, against the rows that there should be."""
    view.page(limit=0)  # From here on rows are in order, if they can be.
    copies = Counter(expected)
    assert view.count() == len(view) == len(expected)
    if view._ask(lambda rows: rows.order) is not None:
        order = order_of(view)
        wanted = sorted(expected, key=lambda row: in_order(row, order))
        assert list(view) == wanted
        for row in [*r.sample(wanted, min(3, len(wanted))), *([_changed(r, r.choice(wanted))] if wanted else [])]:
            later = [w for w in wanted if in_order(w, order) >= in_order(row, order)]
            assert view.first_at_or_after(row) == (later[0] if later else None)
    else:
        wanted = list(view)
        assert Counter(wanted) == copies
    assert view[:] == wanted
    start, stop, step = (r.choice([None, *range(-5, 6)]) for _ in range(3))
    assert view[start : stop : step or 1] == wanted[start : stop : step or 1]
    for at in r.sample(range(len(wanted)), min(4, len(wanted))):
        assert view[at] == wanted[at] == view[at - len(wanted)]
    for row in r.sample(sorted(copies, key=repr), min(3, len(copies))):
        first = view.rank(row)
        assert first == wanted.index(row)
        if view._ask(lambda rows: rows.order) is not None:
            assert [view[first + i] for i in range(copies[row])] == [row] * copies[row]
    for at in (len(wanted), -len(wanted) - 1):
        with pytest.raises(IndexError):
            view[at]
    drawn = view.sample(min(3, len(wanted)), seed=1)
    assert drawn == view.sample(min(3, len(wanted)), seed=1)
    assert not Counter(drawn) - copies


def _changed(r: random.Random, row: Row) -> Row:
    values = {int: [None, 0, 1, 5], str: [None, "", "aß", "zz"]}
    return tuple(r.choice([v, v, *values.get(type(v), [None])]) for v in row)


@pytest.mark.parametrize("seed", range(scaled(24)))
def test_positions_are_those_of_the_sorted_result(seed: int, tmp_path: Path) -> None:
    r = random.Random(seed)
    db, oracle = ev.Database(), duckdb.connect()
    db.sql(SCHEMA)
    oracle.execute(SCHEMA.replace("STRING", "VARCHAR"))
    queries = [random_query(r) for _ in range(3)]
    for i, query in enumerate(queries):
        db.create_view(f"v{i}", query, **({"access": True} if r.random() < 0.5 else {}))
    feed = db.view("v0").changes() if r.random() < 0.5 else None
    for number, batch in enumerate(batches(r, 6)):
        with db.batch() as changes:
            for kind, table, rows in batch:
                getattr(changes, kind)(table, rows)
        for kind, table, rows in batch:
            for row in rows:
                if kind == "insert":
                    oracle.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", row)
                else:
                    same = " AND ".join(f"{c} IS NOT DISTINCT FROM ?" for c in COLUMNS)
                    oracle.execute(
                        f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table} WHERE {same})", row
                    )
        if number == 3:
            db.save(tmp_path / "saved")
            db, feed = ev.Database.load(tmp_path / "saved"), None
        if number == 4 and feed is not None:
            feed.close()
        for i, query in enumerate(queries):
            if number or i:  # v0 is asked later, when there are rows already.
                check(db.view(f"v{i}"), oracle.execute(query).fetchall(), r)


B1 = {
    "e": [(1, 1), (1, 2), (1, 3), (2, 4), (2, 8), (2, 9), (3, 2)],
    "f": [(1, 4, 1), (1, 5, 2), (1, 6, 3), (1, 6, 4), (2, 2, 1), (2, 2, 8), (2, 2, 4), (3, 1, 1), (4, 5, 6)],
}


def first_example(**options: Any) -> ev.View:
    db = ev.Database()
    db.sql("CREATE TABLE e (y BIGINT, x1 BIGINT); CREATE TABLE f (y BIGINT, x2 BIGINT, x3 BIGINT)")
    db.sql("CREATE TABLE g (y BIGINT, x2 BIGINT, x3 BIGINT)")
    view = db.create_view("v", "SELECT y, x1, x2, x3 FROM e JOIN f USING (y) JOIN g USING (y, x2, x3)", **options)
    for table, rows in {**B1, "g": B1["f"]}.items():
        db.insert(table, rows)
    return view


def test_vectors_t1_t2_and_t13() -> None:
    view = first_example(access=True)
    assert view.count() == 22
    assert ((1, 3, 6, 3) in view, (1, 4, 6, 3) in view, (4, 1, 5, 6) in view) == (True, False, False)
    assert (view[7], view[13], view.rank((2, 8, 2, 8))) == ((1, 2, 6, 4), (2, 4, 2, 4), 17)
    rows = list(view)
    assert rows == sorted(rows)
    # T13 has predecessors: those before the first row after.
    for row, before in {(1, 2, 3, 1): (1, 1, 6, 4), (9, 9, 9, 9): (3, 2, 1, 1), (2, 9, 2, 3): (2, 9, 2, 1)}.items():
        after = view.first_at_or_after(row)
        assert view[(view.rank(after) if after else len(view)) - 1] == before
    assert view.first_at_or_after((0, 9, 9, 9)) == view[0]
    db = view._database
    db.insert("e", [(4, 1)])
    assert (view.count(), view[-1]) == (23, (4, 1, 5, 6))
    db.delete("g", [(3, 1, 1)])
    db.delete("f", [(3, 1, 1)])
    assert view.count() == 22


def test_vector_t12() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (x BIGINT, y1 BIGINT, z1 BIGINT); CREATE TABLE s (x BIGINT, y2 BIGINT, z2 BIGINT)")
    db.sql("CREATE TABLE t (x BIGINT, y2 BIGINT, z3 BIGINT); CREATE TABLE u (x BIGINT, y3 BIGINT)")
    view = db.create_view(
        "v", "SELECT x, y1, z1, y2, z2, z3, y3 FROM r JOIN s USING (x) JOIN t USING (x, y2) JOIN u USING (x)"
    )
    db.insert("r", [(1, 4, 1), (1, 4, 2), (1, 5, 1), (1, 5, 2), (2, 4, 9), (2, 4, 5), (3, 1, 4), (3, 2, 5), (3, 3, 6)])
    db.insert("s", [(1, 1, 3), (1, 2, 5), (2, 1, 2), (3, 7, 7), (3, 7, 8)])
    db.insert("t", [(1, 1, 4), (1, 2, 6), (2, 1, 3), (3, 7, 9), (3, 7, 10)])
    db.insert("u", [(1, 7), (2, 8), (2, 9), (3, 1)])
    assert view[19] == (3, 2, 5, 7, 8, 10, 1)
    assert (view.count(), view[0], view[23]) == (24, (1, 4, 1, 1, 3, 4, 7), (3, 3, 6, 7, 8, 10, 1))
    assert view[8:10] == [(2, 4, 5, 1, 2, 3, 8), (2, 4, 5, 1, 2, 3, 9)]
    assert [view.rank(view[j]) for j in range(24)] == list(range(24))
    with pytest.raises(IndexError):
        view[24]


def test_order_is_kept_from_the_first_question_on_and_nothing_is_before_that(tmp_path: Path) -> None:
    view = first_example()
    db = view._database

    def tables() -> set[str]:
        return {node["table"] for node in view.stats()["nodes"]}

    plain = tables()
    assert (len(view), list(view)[:0]) == (22, [])
    assert tables() == plain
    assert view.explain().to_dict()["bounds"]["update"] == "O(1)"
    feed = view.changes()
    assert view[0] == (1, 1, 4, 1)
    assert tables() > plain
    assert view.explain().to_dict()["bounds"]["update"] == "O(log N)"
    assert "access      kept in the order of y, x1, x2, x3" in str(view.explain())
    db.insert("e", [(0, 0)])
    db.insert("e", [(1, 0)])
    assert view[0] == (1, 0, 4, 1)
    assert sum(batch.num_rows for batch in feed.read()) == 4
    db.save(tmp_path / "saved")
    loaded = ev.Database.load(tmp_path / "saved").view("v")
    assert loaded.stats()["restored"] == "snapshot"
    assert loaded[:] == view[:]
    db.sql("ALTER VIEW v SET OPTIONS (access = false)")
    assert tables() == plain
    view.rank((1, 0, 4, 1))
    assert tables() == plain  # It was refused.


def test_other_views_are_listed_and_say_so() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT)")
    db.insert("r", [(i, i % 3) for i in range(9)])
    db.insert("s", [(b, c) for b in range(3) for c in range(2)])
    db.insert("t", [(0,), (1,), (1,)])
    for query in (
        "SELECT a, b, c FROM r JOIN s USING (b) JOIN t USING (c)",
        "SELECT b, COUNT(*) AS n FROM r GROUP BY b",
        "SELECT a FROM r UNION SELECT c FROM s",
        "SELECT a + b AS x FROM r",
    ):
        view = db.create_view("v", query, access=True)
        rows = list(view)
        assert (view[:], view[3:1:-1], view[-1]) == (rows, rows[3:1:-1], rows[-1])
        assert view.rank(rows[2]) == rows.index(rows[2])
        assert view.first_at_or_after(min(rows)) == min(rows)
        assert view.first_at_or_after(tuple(v + 1 for v in max(rows))) is None
        assert Counter(view.sample(len(rows))) == Counter(rows)
        db.drop("v")
    joined = db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (b) JOIN t USING (c)", access=True)
    assert "not kept in order, as one row of the tree would change the numbers of many" in str(joined.explain())


def test_samples_are_uniform_over_rows_and_their_copies() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (a)")
    db.insert("r", [(1, 1), (1, 1), (1, 2), (2, 1), (3, 1)])
    db.insert("s", [(1, 5), (1, 5), (1, 6), (2, 7), (4, 1)])
    rows = list(view)
    assert len(rows) == 10
    drawn = Counter(row for seed in range(scaled(300)) for row in view.sample(10, seed=seed, replace=True))
    total = drawn.total()
    expected = {row: total * copies / 10 for row, copies in Counter(rows).items()}
    assert drawn.keys() <= expected.keys()
    chi_square = sum((drawn[row] - e) ** 2 / e for row, e in expected.items())
    assert chi_square < 20.5, drawn  # 5 kinds of rows: 99.96 % of all samples have less.
    assert Counter(view.sample(10, seed=3)) == Counter(rows)
    once = Counter(row for seed in range(scaled(1000)) for row in view.sample(1, seed=seed))
    chi_square = sum((once[r] - once.total() * c / 10) ** 2 / (once.total() * c / 10) for r, c in Counter(rows).items())
    assert chi_square < 20.5, once
    for wrong in (11, -1):
        with pytest.raises(ValueError, match="rows"):
            view.sample(wrong)
    db.delete("s", [(1, 5), (1, 5), (1, 6), (2, 7)])
    assert view.sample(0) == view.sample(3, replace=True) == []


@pytest.mark.slow
def test_steps_are_logarithmic() -> None:
    """An update and an access take a number of steps more each time the tables are ten times as large."""
    taken: list[tuple[int, int]] = []
    for size in (1_000, 10_000, 100_000, 1_000_000):
        db = ev.Database()
        db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
        view = db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (a)", access=True)
        half = range(size // 2)
        keys = pa.array([i % (size // 20) for i in half], pa.int64())
        db.insert("r", pa.table({"a": keys, "b": pa.array(half, pa.int64())}))
        db.insert("s", pa.table({"a": keys, "c": pa.array(half, pa.int64())}))
        unit = view._runtime.unit
        before = unit.steps
        db.insert("r", [(5, -1)])
        after = unit.steps
        view[len(view) // 2]
        taken.append((after - before, unit.steps - after))
    for first, second, third, fourth in zip(*taken, strict=True):
        assert 0 < second - first <= 4 * 8, taken
        assert abs((third - second) - (second - first)) <= 8, taken
        assert abs((fourth - third) - (second - first)) <= 8, taken


def test_a_billion_rows_over_a_hundred_thousand_tuples() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (a BIGINT, c BIGINT)")
    view = db.create_view("v", "SELECT a, b, c FROM r JOIN s USING (a)", access=True)
    groups, size = 2, 25_000
    rows = range(groups * size)
    keys = pa.array([i // size for i in rows], pa.int64())
    db.insert("r", pa.table({"a": keys, "b": pa.array(rows, pa.int64())}))
    db.insert("s", pa.table({"a": keys, "c": pa.array(rows, pa.int64())}))
    assert len(view) == view.count() == groups * size**2 > 10**9
    unit = view._runtime.unit
    before = unit.steps
    for j in (0, 1, size, 123_456_789, 625_000_000, 1_249_999_999):
        group, rest = divmod(j, size**2)
        row = (group, group * size + rest // size, group * size + rest % size)
        assert (view[j], view.rank(row)) == (row, j)
        assert view.lookup(a=row[0], b=row[1], c=row[2]).num_rows == 1
    assert unit.steps - before < 6 * 500  # Not a billion.


def test_more_rows_than_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    db = ev.Database()
    db.sql("".join(f"CREATE TABLE t{i} (a BIGINT, b BIGINT);" for i in range(8)))
    joined = " ".join(f"JOIN t{i} USING (a)" for i in range(1, 8))
    view = db.create_view(
        "v", f"SELECT {', '.join(f't{i}.b AS b{i}' for i in range(8))}, a FROM t0 {joined}", access=True
    )
    for i in range(8):
        db.insert(f"t{i}", [(1, b) for b in range(300)])
    assert view.count() == 300**8 > 2**63
    with pytest.raises(OverflowError, match="ask count"):
        len(view)
    assert view[3] == (*(0,) * 7, 3, 1)
    with pytest.raises(OverflowError):
        view.sample(1)
    far = [lambda: view[-1], lambda: view[2**40], lambda: view[-3:], lambda: view.page(offset=2**62, limit=1)]
    for ask in (*far, lambda: view[: 2**40 : 2**39], lambda: view.first_at_or_after((0,) * 9)):
        with pytest.raises(TooManyRowsError, match="positions are kept of less than"):
            ask()
    monkeypatch.setattr(positions, "_REACH", 1_000)
    assert view.rank((*(0,) * 7, 3, 1)) == 3
    with pytest.raises(TooManyRowsError, match="only the first 1,000 can be found"):
        view.rank((299,) * 8 + (1,))
    db.insert("t0", [(1, 300)])
    assert view.count() == 301 * 300**7
    db.delete("t1", [(1, b) for b in range(2, 300)])
    db.delete("t2", [(1, b) for b in range(2, 300)])
    size = 301 * 4 * 300**5
    assert view.count() == len(view) == size < 2**63
    assert view[size - 1] == (300, 1, 1, *(299,) * 5, 1)
    assert view.rank(view[size // 3]) == size // 3
    assert len(view.sample(5)) == 5


@pytest.mark.parametrize("value", ["1", "'yes'", "0.5"])
def test_access_is_true_or_false(value: str) -> None:
    with pytest.raises(OptionError, match=r"access is .*, and can be true or false"):
        ev.Database().sql(f"CREATE TABLE t (a BIGINT); CREATE VIEW v OPTIONS (access = {value}) AS SELECT a FROM t")


def test_wrong_questions_are_refused() -> None:
    view = first_example()
    with pytest.raises(TypeError, match="an integer or a slice"):
        view["x"]  # type: ignore[call-overload]
    with pytest.raises(KeyError):
        view.rank((1, 2, 3, 4))
    with pytest.raises(RowShapeError, match="4 columns"):
        view.first_at_or_after((1, 2))
    with pytest.raises(ValueError, match="not 0"):
        view[::0]
