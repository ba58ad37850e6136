"""What explain says reads cost as a view is kept, against what its operators answer without listing."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import pytest

import everview as ev
from everview.engine.operators.answers import Sought
from everview.errors import ScanWarning
from everview.kernel.machine import Part
from tests.engine.samples import VIEWS
from tests.engine.test_operators_answer import MORE, filled

OUTER = {
    "left": "SELECT f.src, p.city FROM follows f LEFT JOIN people p ON f.dst = p.id",
    "anti": "SELECT src FROM follows WHERE dst NOT IN (SELECT id FROM people)",
    "semi_join": "SELECT src FROM follows f WHERE EXISTS (SELECT 1 FROM people p WHERE p.id = f.dst)",
    "first": "SELECT src, dst FROM follows ORDER BY dst DESC LIMIT 3",
    "ranked": "SELECT src, dst, RANK() OVER (PARTITION BY src ORDER BY dst) AS r FROM follows",
    "rollup": "SELECT city, name, COUNT(*) AS n FROM people GROUP BY ROLLUP (city, name)",
    "minus": "SELECT src FROM follows EXCEPT SELECT id FROM people",
    "common": "SELECT src FROM follows INTERSECT ALL SELECT id FROM people",
    "united": "SELECT src, dst FROM follows UNION SELECT dst, src FROM follows",
    "ranges": "SELECT DISTINCT a.src, b.dst FROM follows a, follows b WHERE a.dst = b.src AND a.src < b.dst",
}


@pytest.fixture(scope="module")
def db() -> ev.Database:
    found, _ = filled(11)
    for name, query in OUTER.items():
        found.create_view(name, query)
    found.insert("people", [(i, f"name {i}", "ab"[i % 2], float(i), Decimal(i)) for i in range(8)])
    found.insert("follows", [(i, j) for i in (0, 1, 2, 3, 4, 9) for j in (0, 1, 2, 3, 4, 5, 9)])
    return found


NAMES = [*(name for name in VIEWS if name != "hop"), "hop", "back", *MORE, *OUTER]


def kept(view: ev.View, task: str) -> str:
    return str(view.explain().to_dict()["tasks"][task]["kept"]["time"])


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_is_what_is_done(db: ev.Database, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    view = db.view(name)
    row = next(iter(view))
    words: list[int] = list(view._sought(row).words)  # type: ignore[union-attr]
    answered = view._ask(lambda rows: rows.test(Sought(lambda: words)))
    is_luck = name == "sums"  # Its first side, of two, happens to have the row.
    assert (answered is None) == (kept(view, "test") == "O(|Q|)" and not is_luck)
    said = kept(view, "lookup")
    asked = _looked_up_by(view)
    with warnings.catch_warnings(record=True) as scans:
        warnings.simplefilter("always", ScanWarning)
        for columns in asked:
            view.lookup(**{column: row[view.schema.names.index(column)] for column in columns})
    assert bool(scans) == (said == "O(|Q|)")
    view.page(limit=0)
    positions = view._ask(lambda rows: rows.access(()))
    assert (positions is None) == (kept(view, "access") == "O(|Q|)")
    view.count()
    db._places.clear()  # The list that was made for positions knows the number, too.
    opened: list[str] = []
    open_ = Part.open

    def counted(self: Part, cursor: str, arguments: Any = ()) -> Any:
        opened.append(cursor)
        return open_(self, cursor, arguments)

    monkeypatch.setattr(Part, "open", counted)
    size = view.count()
    assert bool(opened) == (kept(view, "count") == "O(|Q|)")
    assert size == view.to_arrow().num_rows


def _looked_up_by(view: ev.View) -> list[list[str]]:
    """Each column by itself, or the keys of groups that show any."""
    body: Any = view._runtime.view.body
    names = view.schema.names
    grouping = getattr(body, "grouping", None)
    if grouping is None:
        return [[name] for name in names]
    terms = [o.expression.term for o in body.outputs]
    keys = [names[terms.index(key)] for key in grouping.key_names if key in terms]
    return [keys] if keys else [[name] for name in names]


@pytest.mark.parametrize("name", NAMES)
def test_each_task_has_a_price(db: ev.Database, name: str) -> None:
    for task in db.view(name).explain().to_dict()["tasks"].values():
        assert task["update"].startswith("O(")
        assert task["time"].startswith("O(")
        assert task["verdict"] == "hard" or (task["unless"] is None and task["reason"])


def test_verdicts_follow_from_prices_where_no_theorem_is() -> None:
    schema = "CREATE TABLE r (a INT, b INT); CREATE TABLE s (a INT, c INT)"
    grouped = "SELECT r.a, COUNT(*) AS n FROM r JOIN s ON r.a = s.a GROUP BY r.a"
    tasks = ev.explain(grouped, schema).to_dict()["tasks"]
    verdicts = {name: task["verdict"] for name, task in tasks.items()}
    constant = ("answer", "test", "count", "list", "lookup")
    assert all(verdicts[name] == "constant" for name in constant)
    assert verdicts["access"] == "unknown"
    assert tasks["access"]["time"] == "O(|Q|)"
    assert "as kept     O(|Q|)  access" in str(ev.explain(grouped, schema))


UNIONS = [
    ("q(x, y) :- r(x, y).\nq(x, y) :- s(x, y).", "constant"),
    ("q(x, y) :- r(x, z), s(x, y).\nq(x, y) :- s(x, y).", "constant"),
    ("q(x, y) :- r(x), s(x, y).\nq(x, y) :- s(x, y), t(y).", "unknown"),
]


@pytest.mark.parametrize(("rules", "verdict"), UNIONS)
def test_unions_are_looked_up_as_their_members_are(rules: str, verdict: str) -> None:
    assert ev.explain(rules).to_dict()["tasks"]["lookup"]["verdict"] == verdict


def test_rows_that_are_counted_and_in_no_result_are_passed_over() -> None:
    schema = "CREATE TABLE r (a INT); CREATE TABLE s (a INT)"
    for word in ("EXCEPT", "INTERSECT ALL"):
        said = ev.explain(f"SELECT a FROM r {word} SELECT a FROM s", schema).to_dict()
        assert said["bounds"]["delay"] == said["tasks"]["list"]["time"] == "O(|Q1| + |Q2|)"
        assert said["tasks"]["test"]["time"] == "O(1)"


def test_formulas_have_prices() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE v (x BIGINT); CREATE TABLE e (x BIGINT, y BIGINT)")
    view = db.formula("lonely(x) := v(x) and not exists y (e(x, y))", degree=4)
    tasks = view.explain().to_dict()["tasks"]
    assert (kept(view, "test"), kept(view, "access")) == ("O(1)", "O(|Q|)")
    assert all(task["time"] for task in tasks.values())
