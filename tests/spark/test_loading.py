"""What is there before a query starts, and what a checkpoint is tied to: chunks, keys, bad rows, zones, take-overs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from everview.errors import PipelineError, SchemaError, TargetError
from everview.spark import maintain, materialize, saved_offsets
from everview.spark.checkpoint import pins
from everview.spark.checkpoint.pins import plan_over
from everview.spark.restarting import restarting
from everview.spark.session import PARTITIONS, SPARKS_OWN, configure, shard_keys
from everview.spark.targets import ParquetTarget
from everview.spark.types import tables_of
from tests.spark.feeds import bag

GRAPH = {"g": StructType().add("src", "long").add("dst", "long")}
PEOPLE = {"p": StructType().add("id", "long").add("city", "string")}
PATHS = "SELECT a.src, a.dst AS mid, b.dst FROM g a JOIN g b ON a.dst = b.src"
CHUNK = "spark.sql.execution.arrow.maxRecordsPerBatch"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[Any]:
    """Settings of the session, which are as they were afterwards."""
    kept: dict[str, Any] = {}

    def change(name: str, value: str) -> None:
        kept.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield change
    for name, value in kept.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


# --- static inputs ---------------------------------------------------------------------------------------------------


def test_static_rows_that_come_in_many_chunks_are_all_there(stream: Any, spark: SparkSession, conf: Any) -> None:
    conf(CHUNK, "1")
    s = stream(GRAPH | PEOPLE)
    there = [(i, f"c{i % 7}") for i in range(40)]
    static = spark.createDataFrame(there, PEOPLE["p"]).repartition(5)
    sql = "SELECT g.src, p.city FROM g JOIN p ON g.dst = p.id"
    s.start(sql, shards=1, frames={"p": static})
    s.put({"g": [((100 + i, i), "insert") for i in range(40)]})
    edges = [(100 + i, i) for i in range(40)]
    assert s.result() == s.expected(sql, {"g": edges, "p": there})
    s.stop()
    s.start(sql, shards=1, frames={"p": static})
    s.put({"g": [((7, 3), "insert")]})
    assert s.result() == s.expected(sql, {"g": [*edges, (7, 3)], "p": there})


def test_static_changes_are_one_batch_whatever_chunks_they_come_in(stream: Any, spark: SparkSession, conf: Any) -> None:
    conf(CHUNK, "1")
    s = stream(GRAPH | PEOPLE)
    changes = StructType(list(PEOPLE["p"])).add("_change_type", "string")
    parts = [[(1, "a", "delete")], [(2, "b", "insert")], [(1, "a", "insert"), (1, "c", "insert")]]
    static = reduce(DataFrame.union, (spark.createDataFrame(part, changes).coalesce(1) for part in parts))
    sql = "SELECT g.src, p.city FROM g JOIN p ON g.dst = p.id"
    s.start(sql, shards=1, frames={"p": static})
    s.put({"g": [((10, 1), "insert"), ((20, 2), "insert")]})
    assert s.result() == Counter({(10, "c"): 1, (20, "b"): 1})
    s.stop()


def test_bad_rows_among_static_ones_are_told_and_told_once(stream: Any, spark: SparkSession) -> None:
    s = stream(GRAPH | PEOPLE)
    static = spark.createDataFrame([(1, "Cork"), (None, "Delft"), (2, "Ede")], PEOPLE["p"])
    options = {"shards": 2, "frames": {"p": static}, "schema": "CREATE TABLE p (id BIGINT NOT NULL, city STRING)"}
    sql = "SELECT g.src, p.city FROM g JOIN p ON g.dst = p.id"
    s.start(sql, bad_rows="quarantine", **options)
    s.put({"g": [((10, 1), "insert")]})
    s.put({"g": [((20, 2), "insert")]})
    assert s.result() == Counter({(10, "Cork"): 1, (20, "Ede"): 1})
    (bad,) = s.bad()
    assert (bad["table"], bad["row"]["city"]) == ("p", "Delft")
    assert "id is NULL" in bad["reason"]


def test_static_rows_that_a_shard_refuses_are_put_aside_for_good(stream: Any, spark: SparkSession) -> None:
    """They are not in the log from which the shard is rebuilt."""
    s = stream(GRAPH | PEOPLE)
    static = spark.createDataFrame([(1, "Cork"), (1, "Delft"), (2, "Ede")], PEOPLE["p"]).coalesce(1)
    options = {"shards": 1, "frames": {"p": static}, "bad_rows": "quarantine"}
    schema = "CREATE TABLE p (id BIGINT PRIMARY KEY, city STRING)"
    s.start("SELECT g.src, p.city FROM g JOIN p ON g.dst = p.id", schema=schema, **options)
    s.put({"g": [((10, 1), "insert"), ((20, 2), "insert")]})
    assert len(s.bad()) == 1
    first = s.result()
    s.stop()
    s.start("SELECT g.src, p.city FROM g JOIN p ON g.dst = p.id", schema=schema, **options)
    s.put({"g": [((30, 2), "insert")]})
    assert len(s.bad()) == 1
    assert s.result() == first + Counter({(30, "Ede"): 1})
    assert len(first) == 2
    s.stop()


def test_rows_to_begin_with_are_checked_and_go_where_the_streams_rows_go(stream: Any, spark: SparkSession) -> None:
    s = stream(GRAPH)
    with pytest.raises(PipelineError, match="initial has rows for h, and there is no such table"):
        maintain(spark, PATHS, s.frames(), initial={"h": spark.createDataFrame([(1, 2)], GRAPH["g"])})
    with pytest.raises(SchemaError, match="begins with have no column dst, which the view reads"):
        maintain(spark, PATHS, s.frames(), initial={"g": spark.createDataFrame([(1,)], "src BIGINT")})
    there = [(i, i + 1) for i in range(30)]
    as_text = spark.createDataFrame([(str(a), str(b)) for a, b in there], "src STRING, dst STRING")
    with pytest.raises(SchemaError, match="column src of the rows that g begins with is STRING"):
        maintain(spark, PATHS, s.frames(), initial={"G": as_text})
    s.start(PATHS, shards=2, initial={"G": spark.createDataFrame(there, "src INT, dst INT")})
    s.put({"g": [((30, 31), "insert")]})
    assert s.result() == s.expected(PATHS, {"g": [*there, (30, 31)]})


# --- where state is --------------------------------------------------------------------------------------------------


def test_a_checkpoint_does_not_depend_on_the_sessions_partitions(stream: Any, conf: Any) -> None:
    s = stream(GRAPH)
    there = [(i, i + 1) for i in range(20)]
    s.start(PATHS, shards=3)
    s.put({"g": [(row, "insert") for row in there]})
    s.stop()
    conf(PARTITIONS, "7")
    s.start(PATHS, shards=3)
    s.put({"g": [((20, 21), "insert"), ((3, 4), "delete")]})
    held = [row for row in [*there, (20, 21)] if row != (3, 4)]
    assert s.result() == s.expected(PATHS, {"g": held})


def test_state_of_another_shard_is_refused(stream: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s = stream(GRAPH)
    s.start(PATHS, shards=2)
    s.put({"g": [((1, 2), "insert")]})
    s.stop()
    s.write("g", [((2, 3), "insert")])
    own = shard_keys(2)
    planned = plan_over(PATHS, tables_of(GRAPH, None), 2)
    swapped, foreign = own[::-1], [k + 1 + max(own) for k in own]
    for keys, pin, found in (
        (swapped, None, "its rows are placed otherwise"),  # The pin in the state knows the keys,
        (swapped, planned.identity, "the checkpoint has that of shard"),  # and each shard knows which one it is.
        (foreign, None, "the checkpoint has none"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(pins, "shard_keys", lambda _, keys=keys: keys)
            if pin is not None:
                patch.setattr(pins.Maintained, "identity", pin)
            s.start(PATHS, shards=2)
        with pytest.raises(StreamingQueryException, match="state of another query") as refused:
            s.query.processAllAvailable()
        s.stop()
        assert found in str(refused.value)
        assert ("saved_tables" if "checkpoint has" in found else "checkpoint=...") in str(refused.value)
    s.start(PATHS, shards=2)
    s.query.processAllAvailable()
    assert s.result() == s.expected(PATHS, {"g": [(1, 2), (2, 3)]})


def test_keys_are_spread_and_always_the_same() -> None:
    from everview.spark.session import _murmur3

    for shards in range(1, 40):
        keys = shard_keys(shards)
        assert len(set(keys)) == shards
        assert [_murmur3(k) % shards for k in keys] == list(range(shards))


def test_the_number_of_partitions_is_set_anew_for_each_query_unless_it_was_chosen() -> None:
    class Conf(dict[str, str]):
        def set(self, name: str, value: str) -> None:
            self[name] = value

    class Session:
        conf = Conf({PARTITIONS: SPARKS_OWN})
        sparkContext = SimpleNamespace(getConf=lambda: SimpleNamespace(contains=lambda _: False))

    session: Any = Session()
    for shards in (4, 2):
        configure(session, shards)
        assert session.conf[PARTITIONS] == str(shards)
    session.conf[PARTITIONS] = "9"
    configure(session, 3)
    assert session.conf[PARTITIONS] == "9"


# --- keys over shards ------------------------------------------------------------------------------------------------

KEYED = "CREATE TABLE p (id BIGINT NOT NULL, city STRING, PRIMARY KEY (id))"
CITIES = "SELECT city, COUNT(*) AS n FROM p GROUP BY city"


def test_a_second_row_of_a_key_is_noticed_wherever_it_goes(stream: Any) -> None:
    s = stream(PEOPLE)
    s.start(CITIES, shards=2, schema=KEYED)
    s.put({"p": [((i, f"city {i % 3}"), "insert") for i in range(12)]})
    s.put(
        {
            "p": [
                ((1, "city 1"), "update_preimage"),
                ((1, "elsewhere"), "update_postimage"),
                ((2, "city 2"), "delete"),
            ]
        }
    )
    held = [(i, f"city {i % 3}") for i in range(12) if i not in (1, 2)]
    assert s.result() == s.expected(CITIES, {"p": [*held, (1, "elsewhere")]})
    with pytest.raises(StreamingQueryException, match="key") as stopped:
        s.put({"p": [((1, "city 1"), "insert")]})
    assert "a row of p cannot be taken in (batch 2): it inserts" in str(stopped.value)


# --- rows that cannot be read ----------------------------------------------------------------------------------------


def test_what_spark_could_not_read_is_a_bad_row(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "1.json").write_text('{"src": 1, "dst": 2}\n{"src": "abc", "dst": 2}\n', encoding="utf-8")
    read = spark.readStream.schema("src BIGINT, dst BIGINT, _corrupt_record STRING").json(str(folder))
    sql = "SELECT src, COUNT(*) AS n FROM g GROUP BY src"
    feed = maintain(spark, sql, {"g": read}, shards=1)
    assert feed.columns[:2] == ["src", "n"]
    query = restarting(feed.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "one")).start)
    with pytest.raises(StreamingQueryException, match="cannot be read as declared") as stopped:
        query.processAllAvailable()
    assert '{"src": "abc", "dst": 2}' in str(stopped.value)
    feed = maintain(spark, "SELECT * FROM g", {"g": read}, shards=1, bad_rows="quarantine")
    materialize(
        feed,
        f"parquet:{tmp_path}/out",
        checkpoint=str(tmp_path / "two"),
        dead_letter=f"parquet:{tmp_path}/dead",
        trigger="available now",
    ).awaitTermination()
    assert bag(ParquetTarget(tmp_path / "out").read_arrow()) == Counter({(1, 2): 1})
    (bad,) = ParquetTarget(tmp_path / "dead").read_arrow().to_pylist()
    assert "cannot be read as declared" in bad["_quarantined"]


# --- time zones ------------------------------------------------------------------------------------------------------


def test_views_that_compute_with_instants_are_refused_outside_utc(stream: Any, spark: SparkSession, conf: Any) -> None:
    struct = StructType().add("id", "long").add("at", "timestamp").add("till", "timestamp").add("day", "timestamp_ntz")
    frames = stream({"t": struct}).frames()
    dependent = (
        "SELECT CAST(at AS DATE) AS d, COUNT(*) AS n FROM t GROUP BY CAST(at AS DATE)",
        "SELECT id FROM t WHERE at >= TIMESTAMP '2026-01-01 00:00:00'",
        "SELECT id FROM t WHERE at = TIMESTAMP '2026-01-01 00:00:00'",
        "SELECT id, CAST(day AS TIMESTAMP) AS x FROM t",
        "SELECT CAST(MAX(at) AS DATE) AS x FROM t",
        "SELECT x FROM (SELECT id, MAX(at) AS x FROM t GROUP BY id) m WHERE hour(x) > 3",
        {"v": "SELECT id, at FROM t", "w": "SELECT id FROM v WHERE hour(at) > 3"},
    )
    free = (
        "SELECT id, at FROM t WHERE at < till",
        "SELECT a.id FROM t a JOIN t b ON a.at = b.at",
        "SELECT id, MIN(at) AS first FROM t GROUP BY id",
        "SELECT CAST(day AS DATE) AS d FROM t WHERE day > TIMESTAMP_NTZ '2026-01-01 00:00:00'",
    )
    for sql in (*dependent, *free):
        maintain(spark, sql, frames)
    conf(ZONE, "Europe/Berlin")
    for sql in dependent:
        with pytest.raises(PipelineError, match="time zone is Europe/Berlin"):
            maintain(spark, sql, frames)
    for sql in free:
        maintain(spark, sql, frames)


# --- taking over a checkpoint ----------------------------------------------------------------------------------------


def test_a_view_that_takes_over_a_checkpoint_gets_a_target_of_its_own(stream: Any, spark: SparkSession) -> None:
    s = stream(GRAPH)
    checkpoint = str(s.folder / "checkpoint")
    ends = "SELECT a.src, b.dst FROM g a JOIN g b ON a.dst = b.src"

    def run(sql: str, name: str, **options: Any) -> Counter[Any]:
        feed = maintain(spark, sql, s.frames(), shards=2, **options)
        target = f"parquet:{s.folder}/{name}"
        materialize(feed, target, checkpoint=checkpoint, trigger="available now").awaitTermination()
        return bag(ParquetTarget(s.folder / name).read_arrow())

    s.write("g", [((1, 2), "insert"), ((2, 3), "insert")])
    assert run(PATHS, "old") == Counter({(1, 2, 3): 1})
    s.write("g", [((3, 4), "insert")])
    run(PATHS, "old")
    s.write("g", [((4, 5), "insert"), ((1, 2), "delete")])
    with pytest.raises(TargetError, match="holds the view of before, up to batch 1; the new one begins with batch 2"):
        run(f"{PATHS} WHERE a.src < 100", "old", migrate=True)
    # The same where the old query died after its target's commit, and before Spark's.
    run(PATHS, "old")
    for name in ("2", ".2.crc"):
        (s.folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    with pytest.raises(StreamingQueryException, match="holds the view of before, up to batch 2"):
        run(f"{PATHS} WHERE a.src < 100", "old", migrate=True)
    assert run(ends, "new", migrate=True) == Counter({(2, 4): 1, (3, 5): 1})
    s.write("g", [((5, 6), "insert")])
    for _ in range(2):  # To ask for it again changes nothing.
        assert run(ends, "new", migrate=True) == Counter({(2, 4): 1, (3, 5): 1, (4, 6): 1})
    s.write("g", [((6, 7), "insert")])
    with pytest.raises((TargetError, StreamingQueryException), match="wants batch 0 next"):
        run(ends, "later", migrate=True)


def test_the_files_of_a_log_that_spark_has_compacted(tmp_path: Path) -> None:
    """An entry may be compacted before its batch has ended."""
    log = tmp_path / "sources" / "0"
    for folder in (log, tmp_path / "commits", tmp_path / "offsets"):
        folder.mkdir(parents=True)
    lines = [f'{{"path":"file:///f{i}","timestamp":1,"batchId":{i}}}' for i in range(11)]
    (log / "8").write_text("\n".join(["v1", lines[8]]), encoding="utf-8")
    (log / "9.compact").write_text("\n".join(["v1", *lines[:10]]), encoding="utf-8")
    (log / "10").write_text("\n".join(["v1", lines[10]]), encoding="utf-8")
    for last in (8, 9, 10):
        (tmp_path / "commits" / str(last)).touch()
        (tmp_path / "offsets" / str(last)).write_text(f'v1\n{{}}\n{{"logOffset":{last}}}', encoding="utf-8")
        assert saved_offsets(f"file:{tmp_path}")["files"] == [[f"file:///f{i}" for i in range(last + 1)]]


def test_the_files_that_a_query_has_read_are_listed(stream: Any) -> None:
    s = stream(GRAPH)
    s.write("g", [((1, 2), "insert")])
    s.write("g", [((2, 3), "insert")])
    s.start(PATHS, shards=1)
    s.query.processAllAvailable()
    s.put({"g": [((3, 4), "insert")]})
    s.stop()
    s.write("g", [((4, 5), "insert")])
    found = saved_offsets(f"file://{s.folder / 'checkpoint'}")
    assert [Path(p).name for p in found["files"][0]] == ["000001.parquet", "000002.parquet", "000003.parquet"]
    assert found["batch"] == 1
