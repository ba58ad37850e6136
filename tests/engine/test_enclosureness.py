"""λ of a recorded log: filters, NULLs and copies as the engine sees them, the paper's cases, what cannot be told."""

from __future__ import annotations

import pyarrow as pa
import pytest

import everview as ev
from everview.errors import OverDeleteError, QueryError, UnsupportedError

SCHEMA = "CREATE TABLE g (src BIGINT, dst BIGINT)"
TWO = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT)"
SEMI = "SELECT DISTINCT a FROM r JOIN s ON r.b = s.b"  # s below r: Theorem 6.7's query
PATH = "SELECT w.src AS a, x.src AS b, y.src AS c, z.src AS d, z.dst AS e FROM g w JOIN g x ON w.dst = x.src \
JOIN g y ON x.dst = y.src JOIN g z ON y.dst = z.src"


def changes(rows: list[tuple[object, ...]], names: str) -> pa.Table:
    return pa.Table.from_pylist([dict(zip((*names.split(), "_change_type", "_at"), row, strict=True)) for row in rows])


def flickering(keys: list[object]) -> dict[str, pa.Table]:
    """One row of r, and rows of s that come and go beneath it, one after the other."""
    s = [(k, kind, 2 * i + j) for i, k in enumerate(keys, 1) for j, kind in enumerate(("insert", "delete"))]
    return {"r": changes([(1, 5, "insert", 0)], "a b"), "s": changes(s, "b")}


def test_rows_that_flicker_below() -> None:
    found = ev.enclosureness(SEMI, flickering([5] * 30), TWO)
    (core,) = found.to_dict()["cores"]
    assert core["tree"] == "r→s"
    assert [(r["relation"], r["rows"], r["mean"]) for r in core["relations"]] == [("r", 1, 30.0), ("s", 30, 0.0)]
    assert found.value == 1.0  # 30 for one row, 0 for 30


def test_many_rows_above_make_it_dear() -> None:
    log = flickering([5] * 30)
    log["r"] = changes([(a, 5, "insert", -1) for a in range(90)], "a b")
    found = ev.enclosureness(SEMI, log, TWO)
    assert found.value == pytest.approx(90 * 30 / 120)
    assert found.prediction == "O(λ) an update, amortised: λ makes it up to 22.5 × as dear as where it is 1"
    assert "λ 30.00, at most 30" in str(found)


def test_trees_are_ranked() -> None:
    """R(a, b) ⋈ S(b), all columns shown: what flickers is dear below, and free beside or above."""
    log = flickering([5] * 30)
    log["r"] = changes([(a, 5, "insert", -1) for a in range(90)], "a b")
    found = ev.enclosureness("SELECT r.a, r.b FROM r JOIN s ON r.b = s.b", log, TWO, trees=10)
    (core,) = found.to_dict()["cores"]
    values = {t["tree"]: t["lambda"] for t in core["other_trees"]} | {core["tree"]: core["lambda"]}
    assert core["tree"] not in [t["tree"] for t in core["other_trees"]]
    assert values == {"[b]→{r, s}": 1, "r→s": pytest.approx(22.5), "s→r": 1}
    assert [t["lambda"] for t in core["other_trees"]] == sorted(t["lambda"] for t in core["other_trees"])


def test_what_is_filtered_at_the_door_has_no_lifespan() -> None:
    log = flickering([None, 5, None, 6])
    log["r"] = changes([(a, 5, "insert", -1) for a in (1, 2)], "a b")
    (core,) = ev.enclosureness(f"{SEMI} WHERE r.a <> 2", log, TWO).to_dict()["cores"]
    assert [(r["rows"], r["most"]) for r in core["relations"]] == [(1, 2), (2, 0)]


def test_windows_and_inserts_on_a_path_of_four() -> None:
    edges = pa.table({"src": [i % 40 for i in range(400)], "dst": [(7 * i + 1) % 40 for i in range(400)]})
    assert ev.enclosureness(PATH, {"g": edges}, SCHEMA).value == 1
    assert ev.enclosureness(PATH, {"g": edges}, SCHEMA, window=1).value == 1


def test_what_the_view_computes_itself_is_left_out() -> None:
    query = "SELECT a FROM r WHERE b IN (SELECT b FROM s GROUP BY b HAVING COUNT(*) > 1)"
    found = ev.enclosureness(query, flickering([5]), TWO)
    assert len(found.cores) == 1
    assert "computed by the view itself" in found.left_out[0]
    assert "where it can be told" in found.prediction


def test_rows_that_are_not_there_are_named_as_in_the_data() -> None:
    """Not as the tree sees them, without the columns that it does not use and with numbers for texts."""
    schema = "CREATE TABLE g (src STRING, dst STRING, seen BIGINT)"
    rows = [("a", "b", 1, "insert", 0), ("b", None, 2, "insert", 1), ("b", "c", 3, "delete", 2)]
    with pytest.raises(OverDeleteError, match=r"data of g, row 2: deletes \('b', 'c', 3\), which is not there"):
        ev.enclosureness(
            "SELECT x.src FROM g x JOIN g y ON x.dst = y.src", {"g": changes(rows, "src dst seen")}, schema
        )


def test_effective_lifespans_worked_by_hand() -> None:
    """R over S over T, a(b) with b(c) with c: only DISTINCT a is asked for, so no other tree serves.

    r lives from 0 on, s = (5, 6) from 1 to 10. Below s, t lives in [2, 3], [4, 5] and [6, 7]. The parts of s that count
    for r are from its insertion to the first deletion below, [1, 3], and from the last insertion below to its own
    deletion, [6, 10]. For r: [1, 3] or [2, 3], [4, 5], and [6, 7] or [6, 10]: 3. For s: 3. For t, a leaf: 0.
    """
    schema = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT)"
    log = {
        "r": changes([(1, 5, "insert", 0)], "a b"),
        "s": changes([(5, 6, "insert", 1), (5, 6, "delete", 10)], "b c"),
        "t": changes([(6, kind, at) for at, kind in zip(range(2, 8), ("insert", "delete") * 3, strict=True)], "c"),
    }
    found = ev.enclosureness("SELECT DISTINCT a FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c", log, schema)
    (core,) = found.to_dict()["cores"]
    assert core["tree"] == "r→s→t"
    assert [(r["relation"], r["rows"], r["mean"]) for r in core["relations"]] == [("r", 1, 3), ("s", 1, 3), ("t", 3, 0)]
    assert core["lambda"] == (3 + 3 + 0) / 5
    assert core["sequence"] == (3 + 3 + 1 + 1 + 1) / 5


def test_cyclic_queries_are_refused() -> None:
    triangle = "SELECT x.src AS a FROM g x, g y, g z WHERE x.dst = y.src AND y.dst = z.src AND z.dst = x.src"
    edges = {"g": pa.table({"src": [1], "dst": [2]})}
    with pytest.raises(UnsupportedError, match="cyclic"):
        ev.enclosureness(triangle, edges, SCHEMA)


def test_one_view_only() -> None:
    with pytest.raises(QueryError, match="2 views"):
        ev.enclosureness("SELECT src FROM g; SELECT dst FROM g", {"g": pa.table({"src": [1], "dst": [2]})}, SCHEMA)


def test_leaves_that_share_a_table_count_both() -> None:
    """Whether the ends of a path are stored once, as NOT NULL columns allow, changes nothing in what a log costs."""
    edges = [(i % 3, i % 2, "insert" if i % 4 else "delete", i) for i in range(1, 12)]
    seen: set[tuple[object, object]] = set()
    log = []
    for src, dst, kind, at in edges:
        row = (src, dst)
        if kind == "delete" and row not in seen:
            continue
        seen.symmetric_difference_update({row} if kind == "delete" or row not in seen else set())
        log.append((src, dst, kind, at))
    found = [
        ev.enclosureness(PATH, {"g": changes(log, "src dst")}, schema).to_dict()
        for schema in (SCHEMA, "CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL)")
    ]
    assert found[0] == found[1]
    assert all(r["rows"] for r in found[0]["cores"][0]["relations"])
