"""What a checkpoint holds fast: rows go on to where they are, whatever the planner would say now; the rest is refused.

Most of it without Spark: a cluster that is played goes on with the rows of another one. DuckDB says what is right.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from everview.errors import DataFormatError, EverviewError, PipelineError, StateMismatchError
from everview.plan import distribute as planner
from everview.plan import spread as spreading
from everview.plan import weigh as weighing
from everview.plan.placement import distribution_from_data, distribution_to_data
from everview.query.schema import Table
from everview.query.view import View
from everview.spark import maintain, materialize, saved_tables
from everview.spark.checkpoint.folder import Folder
from everview.spark.checkpoint.identity import Identity
from everview.spark.checkpoint.pins import FILE, fitting, hold, plan_over, read_pins
from everview.spark.pipeline.plan import plan as dry_run
from everview.spark.pipeline.read import load
from everview.sql import parse_schema
from tests.engine.bags import plain
from tests.spark.cluster import Cluster, Row
from tests.spark.harness import Stream

SCHEMA = parse_schema(
    """CREATE TABLE orders (id BIGINT, customer BIGINT, price BIGINT, note STRING);
       CREATE TABLE customers (id BIGINT, city STRING, name STRING)"""
)
JOINED = """SELECT o.id, o.customer, o.price, o.note, c.city, c.name FROM orders o JOIN customers c ON o.customer = c.id
            WHERE o.price > 2 AND c.city <> 'x'"""
VIEWS = {
    "joined": JOINED,
    "cities": "SELECT c.city, COUNT(*) AS n, SUM(o.price) AS t FROM orders o JOIN customers c ON o.customer = c.id "
    "GROUP BY c.city",
    "total": "SELECT COUNT(*) AS n, MAX(o.price) AS m FROM orders o JOIN customers c ON o.customer = c.id",
    "pairs": "SELECT a.id, a.customer, b.id AS other FROM orders a JOIN orders b ON a.customer = b.price",
}
SHARDS = (1, 2, 3, 8)


class History:
    """Tables at random, and what DuckDB says of views over them."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.held: dict[str, Counter[Row]] = {"orders": Counter(), "customers": Counter()}

    def batch(self) -> dict[str, list[tuple[Row, int]]]:
        found: dict[str, list[tuple[Row, int]]] = {}
        for name, held in self.held.items():
            for _ in range(self.r.randint(3, 12)):
                there = list(held.elements())
                if there and self.r.random() < 0.4:
                    row, weight = self.r.choice(there), -1
                else:
                    text = self.r.choice(["x", "y", "z", None])
                    numbers = (self.r.choice([1, 2, 3, 4, 5, None]) for _ in range(3 if name == "orders" else 1))
                    row = (*numbers, text) if name == "orders" else (*numbers, text, "n")
                    weight = 1
                held[row] += weight
                found.setdefault(name, []).append((row, weight))
        return found

    def wanted(self, sql: str) -> Counter[Row]:
        with duckdb.connect() as db:
            for name, columns in (
                ("orders", "id BIGINT, customer BIGINT, price BIGINT, note VARCHAR"),
                ("customers", "id BIGINT, city VARCHAR, name VARCHAR"),
            ):
                db.execute(f"CREATE TABLE {name} ({columns})")
                for row in self.held[name].elements():
                    db.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", list(row))
            return Counter(tuple(map(plain, row)) for row in db.sql(sql).fetchall())

    def check(self, cluster: Cluster, views: Mapping[str, str]) -> None:
        for name, sql in views.items():
            assert cluster.results[name] == self.wanted(sql), name


def through_text(identity: Identity) -> Identity:
    return Identity(json.dumps(json.loads(identity.text)))


def other_costs(patch: pytest.MonkeyPatch) -> None:
    """A cost model that has everything the other way round."""
    patch.setattr(planner, "_MERGING", 1e9)
    patch.setattr(weighing, "_FILTERED", 7.0)
    patch.setattr(spreading.Occurrence, "part", lambda self, share, skew: share if self.hashed else 1 / share)


@pytest.mark.parametrize("shards", SHARDS)
def test_other_rates_and_another_cost_model_leave_rows_where_they_are(
    shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(shards)
    first = Cluster(VIEWS, SCHEMA, shards, rates={"orders": 100})
    for _ in range(3):
        first.apply(history.batch())
    history.check(first, VIEWS)
    pins = (through_text(first.identity),)
    with monkeypatch.context() as patch:
        other_costs(patch)
        fresh = plan_over(VIEWS, SCHEMA, shards, rates={"customers": 1000})
        assert shards == 1 or fresh.identity.differences(first.identity)  # Else this would show nothing.
        again = Cluster(VIEWS, SCHEMA, None, rates={"customers": 1000}, skew={("orders", "id"): 0.9}, pins=pins)
        assert again.distribution == first.distribution
        again.take(first)
        for _ in range(4):
            again.apply(history.batch())
            history.check(again, VIEWS)
        assert not again.identity.differences(first.identity)


def test_planner_output_in_another_order_and_other_reprs_are_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Cluster(VIEWS, SCHEMA, 4)
    pins = (through_text(first.identity),)
    history = History(7)
    first.apply(history.batch())
    found = spreading.spread

    with monkeypatch.context() as patch:
        patch.setattr(weighing, "spread", lambda view, schema: found(view, schema)[::-1])
        for model in (View, Table):
            patch.setattr(model, "__str__", lambda self: f"another text of {self.name}")
        turned = dict(reversed(VIEWS.items()))
        again = Cluster(turned, SCHEMA, 4, pins=pins)
        again.take(first)
        again.apply(history.batch())
        history.check(again, VIEWS)


@pytest.mark.parametrize(
    "sql",
    [
        JOINED.replace("o.", "x.").replace("orders o", "orders AS x"),
        JOINED.replace("o.price > 2 AND c.city <> 'x'", "c.city <> 'x'\n  AND o.price > 2").lower(),
    ],
)
def test_views_are_compared_by_their_meaning(sql: str) -> None:
    pin = plan_over({"v": JOINED}, SCHEMA, 3).identity
    assert plan_over({"v": sql}, SCHEMA, 3, pins=(pin,)).identity.parts["views"] == pin.parts["views"]


def options_kept(cluster: Cluster) -> dict[str, set[str]]:
    """By which options the shards keep each view, and its first steps."""
    found: dict[str, set[str]] = {}
    for shard in (shard for level in cluster.shards for shard in level):
        for view in shard.spec.views:
            found.setdefault(view.name.removeprefix("__").removesuffix("_0"), set()).add(str(view.options))
    return found


@pytest.mark.parametrize("shards", SHARDS)
def test_a_query_goes_on_with_other_options(shards: int) -> None:
    """Its shards make their views anew, by the options of now; their rows and what was told stay."""
    history = History(shards)
    asked = {"joined": {"epsilon": 0.25}, "total": {"mode": "dynamic"}}
    first = Cluster(VIEWS, SCHEMA, shards, options=asked)
    first.apply(history.batch())
    assert first.identity.parts["options"] == {"joined": {"epsilon": "1/4"}, "total": {"mode": "dynamic"}}
    other = {"joined": {"optimize": "reads"}, "pairs": {"epsilon": 0.5}}
    again = Cluster(VIEWS, SCHEMA, None, pins=(through_text(first.identity),), options=other)
    assert again.identity.digest != first.identity.digest
    assert not again.identity.differences(first.identity)
    assert fitting(again.identity, [first.identity]) == [first.identity]
    assert options_kept(first) == {
        "joined": {"epsilon = 0.25"},
        "cities": {""},
        "total": {"mode = 'dynamic'"},
        "pairs": {""},
    }
    wanted = {"joined": {"optimize = 'reads'"}, "cities": {""}, "total": {""}, "pairs": {"epsilon = 0.5"}}
    assert options_kept(again) == wanted
    again.take(first)
    for _ in range(3):
        again.apply(history.batch())
        history.check(again, VIEWS)


def test_the_same_option_in_other_words_is_no_change() -> None:
    written = "CREATE MATERIALIZED VIEW v OPTIONS (epsilon = 1/2) AS " + JOINED
    first = plan_over(written, SCHEMA, 2)
    assert plan_over(written.replace("1/2", "0.50"), SCHEMA, 2).identity == first.identity
    assert plan_over(written, SCHEMA, 2, options={"epsilon": 0.5}).identity == first.identity
    assert plan_over(JOINED, SCHEMA, 2).identity.parts.get("options") is None


@pytest.mark.parametrize(
    ("sql", "options", "said"),
    [
        (JOINED, {"epsilom": 1}, "there is no option epsilom"),
        (JOINED, {"v": {"epsilon": 1}}, "options for v, and no such view"),
        (VIEWS, {"epsilon": 1}, "options for epsilon, and no such view"),
        (VIEWS, {"total": 3}, "the options of total are 3"),
        (VIEWS, {"total": {"degree": 0}}, "degree is 0"),
        (VIEWS, {"total": {"degree": 3}}, "an output of a formula that is no column is not supported"),
        (JOINED, {"access": True}, "option access of .* is for reads of a result in this process"),
        (JOINED, {"lookup": "city"}, "option lookup of .* is for reads"),
        (VIEWS, {"total": {"history": 3}}, "option history of total is for reads"),
        ("CREATE VIEW v OPTIONS (epsilon = 0.5) AS " + JOINED, {"epsilon": 0.25}, "epsilon is given twice"),
    ],
)
def test_wrong_options_are_refused(sql: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(EverviewError, match=said):
        plan_over(sql, SCHEMA, 2, options=options)


def test_columns_in_another_order_are_the_same() -> None:
    turned = parse_schema(
        """CREATE TABLE customers (name STRING, city STRING, id BIGINT);
           CREATE TABLE orders (extra DATE, note STRING, price BIGINT, customer BIGINT, id BIGINT)"""
    )
    first = plan_over(VIEWS, SCHEMA, 3)
    again = plan_over(VIEWS, turned, 3, pins=(first.identity,))
    assert again.distribution == first.distribution
    assert not again.identity.differences(first.identity)


ABOVE = "SELECT id, note FROM orders WHERE price > (SELECT AVG(id) FROM customers)"
CHEAPER = "SELECT o.id, (SELECT COUNT(*) FROM orders x WHERE x.price < o.price) AS n FROM orders o"


def test_what_is_made_ahead_is_pinned() -> None:
    views = {"above": ABOVE}
    history = History(5)
    first = Cluster(views, SCHEMA, 3)
    assert first.distribution.ahead is not None
    for _ in range(2):
        first.apply(history.batch())
    pins = (through_text(first.identity),)
    again = Cluster(views, SCHEMA, None, rates={"customers": 1e-6}, pins=pins)
    assert Cluster(views, SCHEMA, 3, rates={"customers": 1e-6}).distribution != first.distribution
    assert again.distribution == first.distribution
    again.take(first)
    for _ in range(2):
        again.apply(history.batch())
        history.check(again, views)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ABOVE, "SELECT note FROM orders WHERE price > (SELECT AVG(id) FROM customers)"),
        (ABOVE, "SELECT id FROM orders WHERE price + 1 <= (SELECT MAX(id) FROM customers WHERE id > 1) OR note = 'x'"),
        (CHEAPER, "SELECT o.price FROM orders o WHERE (SELECT SUM(x.id) FROM orders x WHERE x.price <> o.price) > 9"),
        ("SELECT id, SUM(price) OVER () AS s FROM orders", "SELECT id, MAX(price) OVER () AS s FROM orders"),
    ],
    ids=["fewer columns", "another value", "compared otherwise", "another total"],
)
def test_views_with_other_parts_made_ahead_take_over(old: str, new: str) -> None:
    """The step ahead tells all of the new parts, and the shards forget those of the old views."""
    history = History(6)
    first = Cluster({"v": old}, SCHEMA, 5)
    assert first.distribution.ahead is not None
    for _ in range(2):
        first.apply(history.batch())
    pins = (through_text(first.identity),)
    with pytest.raises(StateMismatchError, match="migrate=True"):
        plan_over({"v": new}, SCHEMA, None, pins=pins)
    again = Cluster({"v": new}, SCHEMA, None, pins=pins, migrate=True)
    again.take(first)
    again.results, again.started = {"v": Counter()}, False
    for _ in range(3):
        again.apply(history.batch())
        history.check(again, {"v": new})


def test_views_without_a_step_ahead_do_not_take_over_from_such_with_one() -> None:
    plain_view = {"v": "SELECT o.id, c.city FROM orders o, customers c WHERE o.customer = c.id"}
    for old, new in (({"v": ABOVE}, plain_view), (plain_view, {"v": ABOVE})):
        pins = (plan_over(old, SCHEMA, 3).identity,)
        with pytest.raises(StateMismatchError, match="one of the two needs a step ahead of its shards"):
            plan_over(new, SCHEMA, None, pins=pins, migrate=True)


def test_texts_are_padded_and_checked_after_a_restart_as_before() -> None:
    """Lengths were lost on the way through the checkpoint: 'ab' of before and 'ab' of after were two groups."""
    tables = "CREATE TABLE t (a CHAR(5), b VARCHAR(3), n BIGINT)"
    sql = {"v": "SELECT a, b, COUNT(*) AS n FROM t GROUP BY a, b"}
    first = plan_over(sql, parse_schema(tables), 2)
    again = plan_over(sql, parse_schema(tables), None, pins=(first.identity,))
    for plan in (first, again):
        (table,) = plan.distribution.first.tables
        assert [str(c.type) for c in table.columns] == ["CHAR(5)", "VARCHAR(3)"]
    assert again.identity.digest == first.identity.digest
    for other in ("CHAR(6)", "VARCHAR(5)", "STRING"):
        with pytest.raises(StateMismatchError, match=r"table t: it has \(a char\(5\)"):
            plan_over(sql, parse_schema(tables.replace("CHAR(5)", other)), None, pins=(first.identity,), migrate=True)


def test_another_policy_for_bad_rows_is_refused_where_a_step_by_key_comes_or_goes(tmp_path: Path) -> None:
    """Spark would refuse it, in words about operators; or begin with an empty step, which knows of no row."""
    tables = parse_schema("CREATE TABLE p (id BIGINT NOT NULL PRIMARY KEY, city STRING)")
    plain_ = plan_over("SELECT city, COUNT(*) AS n FROM p GROUP BY city", tables, 2)
    stepped = replace(plain_, by_key=("p",))
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").write_text("v1")
    for held, other, said in ((plain_, stepped, "has none, and.*has .*p"), (stepped, plain_, "has .*p.*, and.*none")):
        (tmp_path / "everview").mkdir(exist_ok=True)
        (tmp_path / FILE).write_text(json.dumps({"pin": held.identity.parts, "before": None}))
        pins = read_pins(str(tmp_path))
        assert fitting(held.identity, pins) == list(pins)
        for migrate in (False, True):
            with pytest.raises(StateMismatchError, match=f"(?s)by key first: it {said}.*bad_rows as it was"):
                fitting(replace(other.identity, migrate=migrate), pins)


def test_a_dry_run_says_so_when_a_step_by_key_would_come(tmp_path: Path) -> None:
    text = """sources: {s: {format: json, path: ., schema: "id BIGINT, city STRING"}}
tables: {p: {source: s, key: id}}
views: {v: "SELECT a.id, b.id AS other, a.city FROM p a JOIN p b ON a.city = b.city"}
targets: {v: parquet:out}
checkpoint: checkpoint
shards: 2
"""
    path, place = tmp_path / "p.yaml", tmp_path / "checkpoint"
    path.write_text(text)
    pipeline = load(path)
    (place / "commits").mkdir(parents=True)
    (place / "commits" / "0").write_text("v1")
    (place / "everview").mkdir()
    pin = plan_over(pipeline.sql, pipeline.schema, 2).identity
    (place / FILE).write_text(json.dumps({"pin": pin.parts, "before": None}))
    assert dry_run(pipeline).distribution.shards == 2
    path.write_text(f"{text}bad_rows: quarantine\ndead_letter: parquet:dead\n")
    with pytest.raises(StateMismatchError, match=r"by key first: it has none, and this query has \[.p"):
        dry_run(load(path))


def test_the_number_of_shards_is_that_of_the_checkpoint() -> None:
    pin = plan_over(VIEWS, SCHEMA, 3).identity
    assert plan_over(VIEWS, SCHEMA, None, pins=(pin,)).distribution.shards == 3
    with pytest.raises(StateMismatchError, match="shards: it has 3, and this query has 4") as refused:
        plan_over(VIEWS, SCHEMA, 4, pins=(pin,))
    assert "saved_tables" in str(refused.value)


FEWER = """SELECT o.id, o.customer, c.city FROM orders o JOIN customers c ON o.customer = c.id
           WHERE o.price > 2 AND c.city <> 'x'"""


@pytest.mark.parametrize("shards", SHARDS)
def test_a_view_that_reads_fewer_columns_takes_over(shards: int) -> None:
    history = History(shards)
    first = Cluster({"v": JOINED}, SCHEMA, shards)
    first.apply(history.batch())
    pins = (first.identity,)
    with pytest.raises(StateMismatchError, match="migrate=True") as refused:
        plan_over({"v": FEWER}, SCHEMA, shards, pins=pins)
    assert "saved_tables" not in str(refused.value)
    again = Cluster({"v": FEWER}, SCHEMA, None, pins=pins, migrate=True)
    again.take(first)
    again.results, again.started = {"v": Counter()}, False  # The feed begins with all of the new view.
    for _ in range(4):
        again.apply(history.batch())
        history.check(again, {"v": FEWER})
    # And it stays with the wider rows when it is started once more, without migrating.
    third = Cluster({"v": FEWER}, SCHEMA, None, pins=(through_text(again.identity),))
    assert [c.name for t in third.schema for c in t.columns] == [c.name for t in first.schema for c in t.columns]
    third.take(again)
    third.apply(history.batch())
    history.check(third, {"v": FEWER})


def test_a_view_with_more_conditions_takes_over_where_rows_come_on_fewer() -> None:
    history = History(3)
    more = f"{JOINED} AND c.name <> 'q' AND o.note = 'y'"
    first = Cluster({"v": JOINED}, SCHEMA, 4)
    first.apply(history.batch())
    again = Cluster({"v": more}, SCHEMA, None, pins=(first.identity,), migrate=True)
    again.take(first)
    again.results, again.started = {"v": Counter()}, False
    for _ in range(3):
        again.apply(history.batch())
        history.check(again, {"v": more})


WIDE = """CREATE TABLE orders (id BIGINT, customer BIGINT, price BIGINT, note STRING);
          CREATE TABLE customers (id BIGINT, city STRING, name STRING, extra BIGINT)"""


@pytest.mark.parametrize(
    ("sql", "tables", "said"),
    [
        (f"{JOINED} AND c.extra = 1", WIDE, "table customers"),
        (JOINED, WIDE.replace("orders (id BIGINT", "orders (id BIGINT PRIMARY KEY"), "key id"),
        (JOINED, WIDE.replace("price BIGINT", "price INT"), "price INT"),
        (JOINED, WIDE.replace(", name STRING", ", name STRING NOT NULL"), "name STRING NOT NULL"),
        ("SELECT id, price FROM orders", WIDE, "table customers"),
        (JOINED.replace("c.city <> 'x'", "c.city <> 'y'"), WIDE, "rows in shards that do not have them"),
    ],
    ids=["more columns", "a key", "a type", "no nulls", "fewer tables", "other conditions"],
)
def test_what_does_not_find_its_rows_is_refused(sql: str, tables: str, said: str) -> None:
    """Whether a checkpoint is to be taken over or not."""
    many = {"rates": {"orders": 1000}, "skew": {("orders", "customer"): 1.0}}  # customers go to all shards
    pin = plan_over({"v": JOINED}, parse_schema(WIDE), 4, **many).identity
    for migrate in (False, True):
        with pytest.raises(StateMismatchError) as refused:
            plan_over({"v": sql}, parse_schema(tables), 4, pins=(pin,), migrate=migrate)
        assert said in str(refused.value)
        assert "saved_tables" in str(refused.value)


def test_another_join_needs_rows_elsewhere_unless_one_side_is_everywhere() -> None:
    other = {"v": JOINED.replace("o.customer = c.id", "o.price = c.id")}
    apart = plan_over({"v": JOINED}, SCHEMA, 4).identity
    with pytest.raises(StateMismatchError, match="rows in shards that do not have them"):
        plan_over(other, SCHEMA, 4, pins=(apart,), migrate=True)
    copied = plan_over({"v": JOINED}, SCHEMA, 4, rates={"orders": 1000}, skew={("orders", "customer"): 1.0}).identity
    assert plan_over(other, SCHEMA, 4, pins=(copied,), migrate=True).identity.differences(copied) == ["views"]


def test_a_pin_that_was_written_before_is_still_read() -> None:
    """The file is of the first version that wrote pins; it is not to be written anew."""
    text = (Path(__file__).parent / "pins" / "format-3.json").read_text(encoding="utf-8")
    pin = Identity(json.dumps(json.loads(text)["pin"]))
    found = plan_over(VIEWS, SCHEMA, None, rates={"customers": 1000}, pins=(pin,))
    assert not found.identity.differences(pin)
    assert distribution_to_data(found.distribution) == pin.parts["spread"]
    assert found.distribution == distribution_from_data(pin.parts["spread"])


def test_a_pin_of_another_format_or_hash_is_refused() -> None:
    pin = plan_over(VIEWS, SCHEMA, 2).identity
    for change in ({"format": 4}, {"hash": 2}):
        other = Identity(json.dumps(pin.parts | change))
        with pytest.raises(StateMismatchError, match="saved_tables"):
            plan_over(VIEWS, SCHEMA, 2, pins=(other,), migrate=True)


# --- the file --------------------------------------------------------------------------------------------------------


def finished(folder: Path) -> None:
    (folder / "commits").mkdir(exist_ok=True)
    (folder / "commits" / "0").write_text("v1\n{}")


def test_nothing_is_held_fast_before_a_batch_has_ended(tmp_path: Path) -> None:
    one, other = (plan_over(VIEWS, SCHEMA, n).identity for n in (2, 3))
    place = str(tmp_path)
    session: Any = None
    assert read_pins(place) == ()
    hold(place, one, session)
    assert read_pins(place) == ()
    hold(place, other, session)
    finished(tmp_path)
    assert read_pins(place) == (other,)
    assert read_pins(f"file://{place}") == (other,)
    with pytest.raises(StateMismatchError, match="shards"):
        hold(place, one, session)
    assert [p.name for p in (tmp_path / "everview").iterdir()] == ["pin.json"]


def test_views_that_take_over_stand_beside_those_before_them(tmp_path: Path) -> None:
    """Until a batch has ended the checkpoint is that of the old views, which may come back."""
    place = str(tmp_path)
    session: Any = None
    old = plan_over({"v": JOINED}, SCHEMA, 2)
    hold(place, old.identity, session)
    finished(tmp_path)
    new = plan_over({"v": FEWER}, SCHEMA, 2, pins=read_pins(place), migrate=True)
    hold(place, replace(new.identity, migrate=True), session)
    pins = read_pins(place)
    assert len(pins) == 2
    assert plan_over({"v": FEWER}, SCHEMA, 2, pins=pins).distribution == new.distribution
    assert plan_over({"v": JOINED}, SCHEMA, 2, pins=pins).distribution == old.distribution


def test_a_damaged_pin_is_refused_with_what_to_do(tmp_path: Path) -> None:
    finished(tmp_path)
    for text in ("", "{", "[]", '{"pin": null, "before": null}', '{"pin": 3, "before": null}'):
        Folder(str(tmp_path)).write(FILE, text)
        with pytest.raises(DataFormatError, match="damaged") as refused:
            read_pins(str(tmp_path))
        assert "remove it" in str(refused.value)


# --- on Spark --------------------------------------------------------------------------------------------------------

TABLES = {
    "orders": StructType().add("id", "long").add("customer", "long").add("price", "long").add("note", "string"),
    "customers": StructType().add("id", "long").add("city", "string").add("name", "string"),
}
KINDS = {1: "insert", -1: "delete"}


def test_on_spark_a_query_is_started_again_as_its_checkpoint_says(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(99)
    stream = Stream(spark, tmp_path, TABLES)
    place = str(tmp_path / "checkpoint")

    def put() -> None:
        batch = history.batch()
        stream.put({name: [(row, KINDS[weight]) for row, weight in rows] for name, rows in batch.items()})

    def check(views: Mapping[str, str]) -> None:
        rows = {name: list(held.elements()) for name, held in history.held.items()}
        for name, sql in views.items():
            assert stream.result(name) == stream.expected(sql, rows), name

    stream.start(VIEWS, shards=3, rates={"orders": 100}, place=place)
    put()
    stream.stop()
    before = (tmp_path / "checkpoint" / FILE).read_text()
    with monkeypatch.context() as patch:
        other_costs(patch)
        with pytest.raises(StateMismatchError, match="shards: it has 3"):
            maintain(spark, VIEWS, stream.frames(), shards=2, checkpoint=place)
        stream.start(VIEWS, rates={"customers": 1000}, place=place)
        put()
        check(VIEWS)
        stream.stop()
        # Without its checkpoint's pin, a query is planned as the planner likes, and refused when it is to start.
        feed = maintain(spark, VIEWS, stream.frames(), shards=3)
        targets = {name: f"parquet:{tmp_path / 'targets' / name}" for name in VIEWS}
        with pytest.raises(StateMismatchError, match="checkpoint="):
            materialize(feed, targets, checkpoint=place)
    assert (tmp_path / "checkpoint" / FILE).read_text() == before
    # A pin that is lost is read from the shards' state.
    (tmp_path / "checkpoint" / FILE).unlink()
    assert set(saved_tables(spark, place)) == set(TABLES)
    (pin,) = read_pins(place, spark)
    assert pin.parts == json.loads(before)["pin"]
    fewer = VIEWS | {"joined": FEWER}
    with pytest.raises(StateMismatchError, match="migrate=True"):
        maintain(spark, fewer, stream.frames(), checkpoint=place)
    stream.batches.clear()
    stream.start(fewer, migrate=True, place=place)
    put()
    check(fewer)
    stream.stop()
    stream.start(fewer, place=place)
    put()
    check(fewer)
    stream.stop()
    with pytest.raises(PipelineError, match="give both the same"):
        materialize(maintain(spark, fewer, stream.frames(), checkpoint=place), targets, checkpoint=str(tmp_path / "x"))


def test_a_folder_that_only_hadoop_reaches(spark: SparkSession, tmp_path: Path) -> None:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(f"file://{tmp_path}")
    java: Any = spark.sparkContext._jsc
    folder = Folder(f"file://{tmp_path}", path.getFileSystem(java.hadoopConfiguration()), spark)
    assert folder.names("everview") == []
    for text in ("{}", '{"a": "é"}\n'):
        folder.write(FILE, text)
        assert folder.text(FILE) == text
        assert [n for n in folder.names("everview") if not n.endswith(".crc")] == ["pin.json"]
