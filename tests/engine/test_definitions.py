"""Tables and views that are dropped, replaced, and created if they are not there: all of it or nothing, all freed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import everview as ev
from everview.errors import (
    AmbiguousNameError,
    DataError,
    DependantsError,
    DroppedError,
    EverviewError,
    ExpressionError,
    SchemaError,
    UnknownNameError,
    UnknownTableError,
    UnsupportedError,
)

SHOP = """
CREATE TABLE customers (id BIGINT PRIMARY KEY, city STRING);
CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT REFERENCES customers, note STRING, amount BIGINT);
"""
PER_CITY = (
    "CREATE VIEW per_city AS SELECT upper(c.city) AS city, SUM(o.amount) AS total "
    "FROM customers c JOIN orders o ON c.id = o.customer GROUP BY upper(c.city)"
)
LARGE = "CREATE MATERIALIZED VIEW large AS SELECT city FROM per_city WHERE total > 25"


def shop(*views: str) -> ev.Database:
    db = ev.Database()
    db.sql(SHOP)
    for view in views:
        db.sql(view)
    db.insert("customers", [(i, f"town{i % 3}") for i in range(9)])
    db.insert("orders", [(i, i % 9, f"note {i}", i) for i in range(30)])
    return db


def state(db: ev.Database) -> tuple[Any, ...]:
    """All that a failed statement must not change."""
    rows = {name: Counter(db.view(name)) for name in db.views} | {name: Counter(db.table(name)) for name in db.tables}
    return db.tables, db.views, db.version, rows, uses(db), db.nbytes()


def uses(db: ev.Database) -> dict[Any, int]:
    """How often each string and other wide value is used."""
    found = {}
    for kind, table in db._dictionary.to_state().items():
        found |= {(kind, row["value"]): row["count"] for row in table.to_pylist() if row["count"]}
    return found


# --- dropping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop", ["DROP VIEW large", "DROP MATERIALIZED VIEW IF EXISTS Large", "drop"])
def test_a_view_is_dropped_with_all_that_it_held(drop: str) -> None:
    db = shop(PER_CITY)
    before = state(db)
    db.sql(LARGE)
    assert state(db) != before
    db.drop("large") if drop == "drop" else db.sql(drop)
    assert state(db)[:5] == before[:5]
    assert db.nbytes() <= before[5] + 64  # Of per_city: as many registers as its groups took to be told, and no rows.
    with pytest.raises(UnknownTableError, match="there is no view large"):
        db.view("large")
    db.insert("orders", [(100, 1, "more", 7)])
    assert ("TOWN1", sum(i for i in range(30) if i % 9 % 3 == 1) + 7) in db.view("per_city")


def test_a_table_is_dropped_with_its_rows_and_can_be_created_again() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE customers (id BIGINT PRIMARY KEY, city STRING)")
    db.insert("customers", [(1, "Bonn")])
    before = state(db)
    db.sql("CREATE TABLE names (name STRING, other DECIMAL(30, 2))")
    db.insert("names", [(f"name {i}", i) for i in range(1000)])
    db.sql("DROP TABLE names")
    assert state(db)[:2] + state(db)[3:5] == before[:2] + before[3:5]
    assert db.nbytes() < before[-1] + 10_000
    db.sql("CREATE TABLE names (n INT)")
    db.insert("names", [(5,)])
    assert list(db.table("names")) == [(5,)]


def test_dependants_are_named_and_cascade_takes_them() -> None:
    db = shop(PER_CITY, LARGE)
    before = state(db)
    with pytest.raises(DependantsError, match="orders cannot be dropped: views per_city, large read it") as caught:
        db.sql("DROP TABLE orders")
    assert caught.value.dependants == ("per_city", "large")
    assert (caught.value.line, caught.value.column) == (1, 12)
    with pytest.raises(DependantsError, match="view large reads it"):
        db.drop("per_city")
    assert state(db) == before
    db.sql("DROP TABLE orders CASCADE")
    assert (db.tables, db.views) == (("customers",), ())
    assert uses(db) == {("string", f"town{i}"): 3 for i in range(3)}


def test_a_foreign_key_is_a_dependant_and_goes_with_cascade(tmp_path: Path) -> None:
    db = shop("CREATE VIEW notes AS SELECT note FROM orders")
    before = state(db)
    with pytest.raises(DependantsError, match="a foreign key of table orders points at it") as caught:
        db.drop("customers")
    assert caught.value.dependants == ("orders",)
    assert state(db) == before
    db.drop("customers", cascade=True)
    assert (db.tables, db.views) == (("orders",), ("notes",))
    assert len(db.view("notes")) == 30
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    assert Counter(again.table("orders")) == Counter(db.table("orders"))
    with pytest.raises(DataError, match="key"):
        again.insert("orders", [(1, 1, "", 1)])


def test_tables_that_refer_to_each_other_go_together() -> None:
    db = shop()
    db.sql("DROP TABLE customers, orders")
    assert db.tables == ()
    assert uses(db) == {}


def test_a_foreign_key_to_itself_keeps_no_table() -> None:
    db = ev.Database()
    db.sql("CREATE TABLE staff (id INT PRIMARY KEY, boss INT REFERENCES staff)")
    db.drop("staff")
    assert db.tables == ()


def test_what_cannot_be_dropped() -> None:
    db = shop(PER_CITY)
    before = state(db)
    with pytest.raises(AmbiguousNameError, match="per_city is a view") as caught:
        db.sql("DROP TABLE per_city")
    assert "DROP VIEW per_city" in str(caught.value)
    with pytest.raises(AmbiguousNameError, match="orders is a table"):
        db.sql("DROP VIEW IF EXISTS orders")
    with pytest.raises(UnknownNameError, match="there is no view nothing"):
        db.sql("DROP VIEW nothing")
    with pytest.raises(UnknownNameError, match="there is no table or view nothing"):
        db.drop("nothing")
    with pytest.raises(UnsupportedError, match="DROP FUNCTION"):
        db.sql("DROP FUNCTION f")
    db.sql("DROP VIEW IF EXISTS nothing")
    db.drop("nothing", if_exists=True)
    assert state(db) == before


def test_who_holds_what_was_dropped_is_told() -> None:
    db = shop(PER_CITY)
    view, table = db.view("per_city"), db.table("orders")
    rows = iter(view)
    next(rows)
    with db.batch() as batch:
        batch.insert("customers", [(77, "Kiel")])
        db.drop("orders", cascade=True)
    for use in (view.to_arrow, lambda: len(view), lambda: list(rows), view.changes, view.stats):
        with pytest.raises(DroppedError, match="the view per_city was dropped or replaced"):
            use()
    for use in (table.to_arrow, lambda: len(table), lambda: table.get(1)):
        with pytest.raises(DroppedError, match="the table orders was dropped"):
            use()
    assert db.table("customers").get(77) == (77, "Kiel")


@pytest.mark.parametrize("again", [None, "CREATE TABLE t (b STRING)", "CREATE TABLE t (a INT, b INT)"])
def test_a_batch_for_a_table_that_was_dropped_meanwhile(again: str | None) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")

    def drop_inside() -> None:
        with db.batch() as batch:
            batch.insert("u", [(1,)])
            batch.insert("t", [(1,)])
            db.drop("t")
            if again is not None:
                db.sql(again)

    with pytest.raises(DroppedError, match="t was dropped"):
        drop_inside()
    assert len(db.table("u")) == 0


def test_feeds_hand_out_what_they_have_and_then_raise() -> None:
    db = shop(PER_CITY, LARGE)
    dropped, kept = db.view("large").changes(), db.view("per_city").changes()
    db.insert("orders", [(100, 1, "more", -1000)])
    db.sql("DROP VIEW large")
    db.insert("orders", [(101, 1, "more", 1000)])
    assert [b.column("_commit_version").to_pylist() for b in kept.read()] == [[3, 3], [4, 4]]
    assert [b.column("_change_type").to_pylist() for b in dropped.read()] == [["delete"]]
    with pytest.raises(DroppedError, match="the view large was dropped"):
        dropped.read()
    dropped.close()
    kept.close()


# --- replacing -------------------------------------------------------------------------------------------------------


def test_a_view_is_replaced_and_its_readers_are_filled_again() -> None:
    db = shop(PER_CITY, LARGE)
    held = db.view("large")
    assert len(held) == 3
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, CAST(id AS BIGINT) AS total FROM customers WHERE id > 2")
    assert Counter(held) == Counter()
    db.insert("customers", [(50, "Ulm")])
    assert list(held) == [("Ulm",)]
    db.sql("CREATE OR REPLACE VIEW large AS SELECT city, total FROM per_city WHERE total > 5")
    assert Counter(db.view("large")) == Counter([("town0", 6), ("town1", 7), ("town2", 8), ("Ulm", 50)])
    with pytest.raises(DroppedError, match="dropped or replaced"):
        len(held)


def test_all_that_a_replaced_view_held_is_freed() -> None:
    db = shop(PER_CITY, LARGE)
    before = state(db)
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT concat('the ', city) AS city, id AS total FROM customers")
    assert any("the town" in str(value) for value in uses(db))
    db.sql(PER_CITY.replace("CREATE", "CREATE OR REPLACE"))
    assert state(db)[:5] == before[:5]
    assert db.nbytes() <= before[5]


def test_other_columns_are_refused_while_others_read_them() -> None:
    db = shop(PER_CITY, LARGE)
    before = state(db)
    for query in (
        "SELECT city, id AS total, 1 AS one FROM customers",
        "SELECT city, CAST(id AS INT) AS total FROM customers",
        "SELECT city, id AS sum FROM customers",
    ):
        with pytest.raises(DependantsError, match="view large reads it") as caught:
            db.sql(f"CREATE OR REPLACE VIEW per_city AS {query}")
        assert caught.value.dependants == ("large",)
        assert "city STRING, total BIGINT" in str(caught.value)
    assert state(db) == before
    db.drop("large")
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city FROM customers")
    assert len(db.view("per_city")) == 9


def test_a_view_does_not_come_to_read_itself() -> None:
    db = shop(PER_CITY, LARGE)
    before = state(db)
    with pytest.raises(UnsupportedError, match=r"per_city would read itself \("):
        db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, total FROM per_city")
    with pytest.raises(UnsupportedError, match="per_city would read itself through large"):
        db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, CAST(1 AS BIGINT) AS total FROM large")
    assert state(db) == before


def test_a_replaced_view_may_read_one_that_was_defined_after_it() -> None:
    db = shop(PER_CITY, LARGE, "CREATE VIEW ids AS SELECT id, city FROM customers")
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, id AS total FROM ids")
    db.insert("customers", [(60, "Ulm")])
    assert list(db.view("large")) == [("Ulm",)]
    db.delete("customers", keys=[60])
    assert list(db.view("large")) == []


def test_a_replacement_that_fails_on_the_data_changes_nothing() -> None:
    db = shop(PER_CITY, "CREATE VIEW ratio AS SELECT city, 100 / (total - 6) AS r FROM per_city")
    before = state(db)
    feed = db.view("ratio").changes()
    with pytest.raises(DataError, match="zero"):
        db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, id AS total FROM customers")
    assert state(db) == before
    assert feed.read() == []
    db.insert("orders", [(100, 1, "more", 1000)])
    assert feed.read()
    feed.close()


def test_feeds_of_a_replaced_view_and_of_its_readers_end() -> None:
    db = shop(PER_CITY, LARGE)
    feeds = [db.view(name).changes() for name in ("per_city", "large")]
    db.insert("customers", [(50, "Ulm")])
    db.insert("orders", [(100, 50, "more", 1000)])
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, id AS total FROM customers")
    for feed, says in zip(feeds, ("per_city was replaced", "per_city, which large reads, was replaced"), strict=True):
        assert sum(b.num_rows for b in feed.read()) == 1
        with pytest.raises(DroppedError, match=says):
            feed.read()
        feed.close()
    with db.view("large").changes() as feed:
        db.insert("customers", [(99, "Köln")])
        assert [b.column("city").to_pylist() for b in feed.read()] == [["Köln"]]


def test_if_not_exists_leaves_what_is_there() -> None:
    db = shop(PER_CITY)
    before = state(db)
    db.sql("CREATE VIEW IF NOT EXISTS per_city AS SELECT id FROM orders; CREATE TABLE IF NOT EXISTS orders (a INT)")
    assert state(db) == before
    with pytest.raises(AmbiguousNameError, match="orders is a table"):
        db.sql("CREATE VIEW IF NOT EXISTS orders AS SELECT id FROM customers")
    with pytest.raises(AmbiguousNameError, match="per_city is a view"):
        db.sql("CREATE TABLE IF NOT EXISTS per_city (a INT)")
    with pytest.raises(AmbiguousNameError, match="a view named per_city exists already") as caught:
        db.sql(PER_CITY)
    assert "OR REPLACE" in str(caught.value)
    with pytest.raises(AmbiguousNameError, match="orders is a table"):
        db.sql("CREATE OR REPLACE VIEW orders AS SELECT id FROM customers")


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_a_script_is_all_or_nothing() -> None:
    db = shop(PER_CITY, LARGE)
    before = state(db)
    feed, held = db.view("large").changes(), db.view("large")
    script = """
        DROP VIEW large;
        CREATE TABLE extra (a STRING);
        CREATE OR REPLACE VIEW per_city AS SELECT city FROM customers;
        DROP TABLE orders;
        CREATE VIEW more AS SELECT upper(city) AS u FROM per_city;
        CREATE VIEW wrong AS SELECT 1 / (id - 3) AS x FROM customers
    """
    with pytest.raises(DataError, match="zero"):
        db.sql(script)
    assert state(db) == before
    assert feed.read() == []
    assert Counter(held) == before[3]["large"]
    with pytest.raises(EverviewError, match="no column nothing"):
        db.sql(script.replace("1 / (id - 3)", "nothing"))
    assert state(db) == before
    db.sql(script.replace("id - 3", "id + 3"))
    assert db.views == ("per_city", "more", "wrong")
    feed.close()


def test_what_a_script_drops_it_may_create_again() -> None:
    db = shop(PER_CITY, LARGE)
    for _ in range(2):
        db.sql(f"DROP VIEW IF EXISTS per_city CASCADE; {PER_CITY}; {LARGE}")
    db.sql(f"DROP TABLE orders, customers CASCADE; {SHOP}; {PER_CITY}")
    assert (db.tables, db.views) == (("customers", "orders"), ("per_city",))
    assert len(db.view("per_city")) == 0
    db.insert("customers", [(1, "Bonn")])
    db.insert("orders", [(1, 1, "", 5)])
    assert list(db.view("per_city")) == [("BONN", 5)]


def test_views_by_rules_are_dropped_and_replaced_one_by_one(tmp_path: Path) -> None:
    db = ev.Database()
    db.sql("CREATE TABLE e (a BIGINT, b BIGINT)")
    db.rules("hop(x, z) :- e(x, y), e(y, z). % two steps\nhop(x, y) :- e(x, y).\nloop(x) :- hop(x, x).")
    db.insert("e", [(1, 2), (2, 1), (2, 3)])
    with pytest.raises(DependantsError, match="view loop reads it"):
        db.drop("hop")
    db.sql("CREATE OR REPLACE VIEW hop AS SELECT a AS x, a AS z FROM e")
    assert Counter(db.view("loop")) == Counter([(1,), (2,)])
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    with pytest.raises(AmbiguousNameError, match="a view named loop exists already"):
        again.rules("loop(x) :- e(x, x).")
    again.drop("loop")
    again.rules("loop(x) :- hop(x, y), e(x, y).")
    assert again.views == ("hop", "loop")


def test_dropped_and_replaced_views_are_not_in_a_snapshot(tmp_path: Path) -> None:
    db = shop(PER_CITY, LARGE, "CREATE VIEW other AS SELECT note FROM orders")
    db.sql("CREATE OR REPLACE VIEW per_city AS SELECT city, id AS total FROM customers -- as it is now\n")
    db.sql("DROP VIEW other")
    db.save(tmp_path / "saved")
    again = ev.Database.load(tmp_path / "saved")
    assert state(again)[:5] == state(db)[:5]
    assert again.view("large").stats()["restored"] == "snapshot"
    again.drop("customers", cascade=True)
    assert again.views == ()


def test_defining_many_times_leaves_nothing_behind() -> None:
    db = shop()
    db.sql(PER_CITY)
    db.sql("DROP VIEW per_city")
    before = state(db)
    for _ in range(20):
        db.sql(f"{PER_CITY}; {LARGE}")
        db.sql("DROP VIEW per_city CASCADE")
    assert state(db) == before


def test_a_memory_limit_counts_what_was_dropped_no_more() -> None:
    db = ev.Database(memory_limit=6_000_000)
    db.sql("CREATE TABLE t (a BIGINT, s STRING)")
    db.insert("t", [(i, f"string {i}") for i in range(10_000)])
    for i in range(20):
        db.sql(f"CREATE VIEW v AS SELECT upper(s) || '{i}' AS u, COUNT(*) AS n FROM t GROUP BY upper(s) || '{i}'")
        assert len(db.view("v")) == 10_000
        db.drop("v")


def test_statements_without_a_meaning_elsewhere() -> None:
    with pytest.raises(UnsupportedError, match="DROP has no meaning here"):
        ev.explain("DROP VIEW v", schema=SHOP)
    with pytest.raises(EverviewError, match="DROP has no meaning here"):
        ev.explain("SELECT id FROM orders", schema=f"{SHOP}; DROP TABLE orders")


def test_schema_errors_are_of_their_class() -> None:
    assert issubclass(DependantsError, SchemaError)
    assert issubclass(DroppedError, DataError)


def test_rows_that_were_there_are_no_rows_of_a_batch() -> None:
    """A view that fails on them names the values, and no position that nobody has given."""
    db = ev.Database()
    db.sql("CREATE TABLE t (k STRING, n BIGINT)")
    db.insert("t", [("a", 1), ("b", 0)])
    for query in ("SELECT k, 10 / n AS q FROM t", "SELECT SUM(10 / n) AS s FROM t"):
        with pytest.raises(ExpressionError, match="for n = 0: division by zero; nothing has changed") as caught:
            db.create_view("v", query)
        assert (caught.value.table, caught.value.row, caught.value.refused) == (None, None, ())
    db.create_view("v", "SELECT k, 10 / n AS q FROM t WHERE n > 0")
    db.delete("t", [("b", 0)])
    db.create_view("w", "SELECT k, 10 / n AS q FROM t")
    with pytest.raises(ExpressionError, match="row 1 of the changes to t") as caught:
        db.insert("t", [("c", 1), ("d", 0)])
    assert [refused.row for refused in caught.value.refused] == [1]
