"""Pipelines that run: sources of several kinds, what goes where, and what is said when it goes wrong."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from everview.cli.run import run_planned
from everview.cli.status import Status, line
from everview.errors import PipelineError
from everview.spark.exchange.arrow_blob import WEIGHT
from everview.spark.pipeline import launch
from everview.spark.pipeline.plan import plan
from everview.spark.pipeline.progress import BatchDone, Progress
from everview.spark.pipeline.read import load
from everview.spark.pipeline.run import Ended, Stop, failed, follow, start
from everview.spark.pipeline.verify import verify
from everview.spark.shard.shard import Shard
from everview.spark.targets import named
from tests.spark.shards import spec

CLICKS = """
sources:
  clicks:
    format: json
    path: clicks
    schema: op STRING, who BIGINT, page STRING
    options: {maxFilesPerTrigger: 1}
  people: {format: csv, path: people, schema: "id BIGINT, name STRING", streaming: false}
tables:
  clicks:
    source: clicks
    columns: {person: who, page: page}
    change_type: {column: op, insert: [c, r], delete: d}
  people: {source: people}
views:
  named: SELECT p.name, c.page FROM people p JOIN clicks c ON c.person = p.id
  counted: SELECT name, COUNT(*) AS n FROM named GROUP BY name
targets: {named: "parquet:out/named", counted: "parquet:out/counted"}
checkpoint: checkpoint
shards: 2
trigger: available_now
"""


def clicks(folder: Path, number: int, *rows: tuple[Any, ...]) -> None:
    (folder / "clicks").mkdir(exist_ok=True)
    text = "".join(json.dumps(dict(zip(("op", "who", "page"), row, strict=True))) + "\n" for row in rows)
    hidden = folder / "clicks" / f".{number}.json"
    hidden.write_text(text, encoding="utf-8")
    hidden.rename(folder / "clicks" / f"{number}.json")


def people(folder: Path) -> None:
    (folder / "people").mkdir()
    (folder / "people" / "all.csv").write_text("1,Ada\n2,Bob\n", encoding="utf-8")


def written(folder: Path, text: str) -> Path:
    path = folder / "pipeline.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def bag(target: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(r.values()) for r in named(target).read_arrow().to_pylist())


def run(spark: Any, path: Path) -> list[BatchDone]:
    found: list[BatchDone] = []
    planned = plan(load(path))
    assert follow(start(spark, planned.pipeline), found.append, Stop()) is Ended.DONE
    return found


def test_changes_statics_and_two_views(spark: Any, tmp_path: Path) -> None:
    people(tmp_path)
    clicks(tmp_path, 1, ("c", 1, "a"), ("r", 1, "b"), ("c", 2, "a"), ("c", 3, "a"))
    clicks(tmp_path, 2, ("d", 1, "b"), ("c", 2, "a"))
    path = written(tmp_path, CLICKS)
    batches = run(spark, path)
    assert [b.rows for b in batches] == [4, 2]
    assert [b.batch for b in batches] == [0, 1]
    assert all(b.state_bytes > 0 and b.seconds > 0 for b in batches)
    assert {s["shard"] for s in batches[0].shards} == {0, 1}
    assert bag(f"parquet:{tmp_path}/out/named") == Counter({("Ada", "a"): 1, ("Bob", "a"): 2})
    assert bag(f"parquet:{tmp_path}/out/counted") == Counter({("Ada", 1): 1, ("Bob", 2): 1})
    clicks(tmp_path, 3, ("d", 1, "a"))
    assert [(b.batch, b.rows, b.deltas) for b in run(spark, path)] == [(2, 1, 2)]
    assert bag(f"parquet:{tmp_path}/out/counted") == Counter({("Bob", 2): 1})
    pipeline = load(path)
    compared = verify(spark, pipeline, {n: named(t) for n, t in pipeline.targets.items()})
    assert [(c.view, c.rows, c.equal) for c in compared] == [("named", 2, True), ("counted", 1, True)]
    clicks(tmp_path, 4, ("c", 1, "z"))
    compared = verify(spark, pipeline, {n: named(t) for n, t in pipeline.targets.items()})
    assert [(c.missing, c.extra) for c in compared] == [(1, 0), (1, 0)], "a target that is behind is not equal"


def test_a_bad_row_stops_the_query_in_our_words(spark: Any, tmp_path: Path) -> None:
    people(tmp_path)
    clicks(tmp_path, 1, ("c", 1, "a"), ("x", 1, "b"))
    with pytest.raises(PipelineError) as stopped:
        run(spark, written(tmp_path, CLICKS))
    text = str(stopped.value)
    assert text.startswith("BadRowError: a row of clicks cannot be taken in (batch 0, ")
    assert "unknown _change_type x" in text
    assert "{'person': 1, 'page': 'b'}" in text
    assert "hint: " in text
    assert "org.apache" not in text
    assert len(text.splitlines()) <= 3


def test_quarantine_goes_to_the_dead_letter(spark: Any, tmp_path: Path) -> None:
    people(tmp_path)
    clicks(tmp_path, 1, ("c", 1, "a"), ("x", 1, "b"), ("d", 2, "never"))
    text = CLICKS + "bad_rows: quarantine\ndead_letter: parquet:out/dead\n"
    (batch,) = run(spark, written(tmp_path, text))
    assert batch.bad_rows == 2
    dead = [json.loads(r["_quarantined"]) for r in named(f"parquet:{tmp_path}/out/dead").read_arrow().to_pylist()]
    assert {d["row"]["page"] for d in dead} == {"b", "never"}
    assert bag(f"parquet:{tmp_path}/out/named") == Counter({("Ada", "a"): 1})


def test_a_single_view_as_a_feed(spark: Any, tmp_path: Path) -> None:
    clicks(tmp_path, 1, ("c", 1, "a"), ("c", 1, "a"))
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "1.json").write_text('{"who": 7, "page": "old"}\n', encoding="utf-8")
    text = """
sources:
  clicks: {format: json, path: clicks, schema: "op STRING, who BIGINT, page STRING"}
  first: {format: json, path: first, schema: "who BIGINT, page STRING", streaming: false}
tables:
  clicks:
    source: clicks
    change_type: {column: op, insert: c}
    initial: first
    columns: {who: who, page: {expression: upper(page), type: STRING}}
views:
  pages: SELECT page, COUNT(*) AS n FROM clicks GROUP BY page
feed: {format: json, path: feed}
checkpoint: checkpoint
shards: 1
trigger: available_now
"""
    run(spark, written(tmp_path, text))
    rows = [json.loads(x) for p in sorted((tmp_path / "feed").glob("*.json")) for x in p.read_text().splitlines()]
    assert sorted((r["page"], r["n"], r["_change_type"]) for r in rows) == [("A", 2, "insert"), ("OLD", 1, "insert")]


def test_expression_of_another_type_is_refused(spark: Any, tmp_path: Path) -> None:
    people(tmp_path)
    clicks(tmp_path, 1, ("c", 1, "a"))
    text = CLICKS.replace("page: page}", "page: {expression: length(page), type: STRING}}")
    with pytest.raises(PipelineError, match="is declared as STRING, and its expression gives INT"):
        run(spark, written(tmp_path, text))


def test_format_that_has_other_columns_is_refused(spark: Any, tmp_path: Path) -> None:
    text = """
sources: {ticks: {format: rate, schema: "timestamp TIMESTAMP, value INT"}}
tables: {ticks: {source: ticks}}
views: {v: SELECT COUNT(*) AS n FROM ticks}
targets: {v: "parquet:out"}
checkpoint: checkpoint
"""
    with pytest.raises(PipelineError, match="declares value as INT, and Spark says bigint"):
        run(spark, written(tmp_path, text))


def test_any_format_of_spark(spark: Any, tmp_path: Path) -> None:
    text = """
sources:
  ticks:
    format: rate-micro-batch
    schema: timestamp TIMESTAMP, value BIGINT
    options: {rowsPerBatch: 50, numPartitions: 2, startTimestamp: 1000}
tables: {ticks: {source: ticks}}
views: {v: "SELECT value % 2 AS odd, COUNT(*) AS n FROM ticks GROUP BY value % 2"}
targets: {v: "parquet:out"}
checkpoint: checkpoint
shards: 2
"""
    stop = Stop()
    path = written(tmp_path, text)

    def done(batch: BatchDone) -> None:
        if batch.batch == 1:
            stop.ask()

    assert follow(start(spark, load(path)), done, stop) is Ended.STOPPED
    (even, odd) = sorted(bag(f"parquet:{tmp_path}/out"))
    assert even[1] == odd[1] >= 50


DECLARED = ', schema: "id BIGINT, city STRING, at TIMESTAMP, day TIMESTAMP_NTZ"'


@pytest.mark.parametrize("more", ["", DECLARED + ", options: {maxVersionsPerTrigger: 1}"], ids=["found", "declared"])
def test_delta_change_feed(spark: Any, tmp_path: Path, more: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    place = str(tmp_path / "people")
    feed = {"delta.enableChangeDataFeed": "true"}

    def people(ids: list[int], cities: list[str]) -> pa.Table:
        noon = datetime(2026, 11, 17, 12, tzinfo=UTC)
        instants = pa.array([noon] * len(ids), pa.timestamp("us", "UTC"))
        days = pa.array([noon.replace(tzinfo=None)] * len(ids), pa.timestamp("us"))
        return pa.table({"id": ids, "city": cities, "at": instants, "day": days})

    write_deltalake(place, people([1, 2, 3], ["Cork", "Cork", "Delft"]), configuration=feed)
    text = f"""
sources: {{people: {{format: delta, path: people{more}}}}}
tables: {{people: {{source: people}}}}
views:
  cities: "SELECT city, COUNT(*) AS n FROM people WHERE at >= TIMESTAMP '2026-01-01' AND day <= at GROUP BY city"
targets: {{cities: "parquet:out"}}
checkpoint: checkpoint
shards: 2
trigger: available_now
"""
    path = written(tmp_path, text)
    run(spark, path)
    assert bag(f"parquet:{tmp_path}/out") == Counter({("Cork", 2): 1, ("Delft", 1): 1})
    write_deltalake(place, people([4], ["Evora"]), mode="append")
    DeltaTable(place).delete("id = 1")
    DeltaTable(place).update(updates={"city": "'Evora'"}, predicate="id = 3")
    run(spark, path)
    assert bag(f"parquet:{tmp_path}/out") == Counter({("Cork", 1): 1, ("Evora", 2): 1})
    assert run(spark, path) == [], "nothing new, no batch"
    for options, why in (
        ("startingVersion: first", "no version of a Delta table"),
        ("maxVersionsPerTrigger: -3", "no number of versions"),
        ("startingVersoin: 3", "startingVersion"),
    ):
        wrong = text.replace(more, "") if more else text
        with pytest.raises(PipelineError, match=why):
            load(written(tmp_path, wrong.replace("path: people", f"path: people, options: {{{options}}}")))


def test_delta_read_once_beside_a_stream(spark: Any, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "people"), pa.table({"id": [1, 2], "name": ["Ada", "Bob"]}))
    clicks(tmp_path, 1, ("c", 1, "a"))
    text = CLICKS.replace(
        '{format: csv, path: people, schema: "id BIGINT, name STRING"', "{format: delta, path: people"
    )
    run(spark, written(tmp_path, text))
    assert bag(f"parquet:{tmp_path}/out/named") == Counter({("Ada", "a"): 1})
    with pytest.raises(PipelineError, match="keeps no change feed"):
        load(written(tmp_path, text.replace(", streaming: false", "")))


def test_the_example_of_the_docs(spark: Any, tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "pipeline.md").read_text(encoding="utf-8")
    path = written(tmp_path, page.partition("```yaml\n")[2].partition("```")[0])
    for name in ("orders", "customers"):
        (tmp_path / "in" / name).mkdir(parents=True)
    (tmp_path / "in" / "customers" / "all.csv").write_text("1,Cork\n2,Delft\n", encoding="utf-8")
    orders = [("c", 1, 1, 20), ("r", 2, 1, 300), ("c", 3, 2, 150), ("u-", 2, 1, 300), ("u+", 2, 1, 30)]
    rows = [dict(zip(("op", "id", "customer", "amount"), o, strict=True)) for o in orders]
    (tmp_path / "in" / "orders" / "1.json").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    run(spark, path)
    assert bag(f"parquet:{tmp_path}/out/by_city") == Counter({("Cork", 2, 50): 1, ("Delft", 1, 150): 1})
    assert bag(f"parquet:{tmp_path}/out/large") == Counter({(3, "Delft", 150): 1})


# --- what is shown ---------------------------------------------------------------------------------------------------

BATCH = BatchDone(3, "2026-01-01T00:00:00.000Z", 4_000, 1_200, 1, 0.5, 3_200_000, 900, ({"shard": 0},), ())


class Broken(StringIO):
    def write(self, _: str) -> int:
        raise BrokenPipeError


@pytest.mark.parametrize(("out", "event"), [(StringIO(), "error"), (Broken(), None)])
def test_a_run_that_ends_by_itself_has_failed(
    out: StringIO, event: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java that has died cannot be stopped, and a pipeline whose output nobody reads has not ended as it should."""

    def gone() -> None:
        raise ConnectionRefusedError

    def failing(*_: Any, **__: Any) -> None:
        if event is not None:
            raise RuntimeError("Java has died")

    people(tmp_path)
    session = SimpleNamespace(stop=gone, sparkContext=None)
    monkeypatch.setattr("everview.spark.pipeline.launch.session", lambda *_: (session, None))
    monkeypatch.setattr("everview.spark.pipeline.run.start", failing)
    monkeypatch.setattr("os.dup2", lambda *_: None)
    planned = plan(load(written(tmp_path, CLICKS)))
    assert run_planned(planned, Status(out, log="json", quiet=event is not None), migrate=False) == 1
    assert (json.loads(out.getvalue())["event"] if event else None) == event


def test_under_spark_submit_times_are_utc_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(launch.GATEWAY, "1")
    chosen = SimpleNamespace(contains=lambda _: False)
    conf: dict[str, str] = {}
    made = SimpleNamespace(
        conf=SimpleNamespace(set=conf.__setitem__), sparkContext=SimpleNamespace(getConf=lambda: chosen)
    )
    monkeypatch.setattr(launch, "_build", lambda *_: made)
    launch.session("p", None, {})
    assert conf == launch.UTC
    conf.clear()
    launch.session("p", None, {"spark.sql.session.timeZone": "Europe/Berlin"})
    assert conf == {}


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_status_line() -> None:
    assert line(BATCH, 2) == (
        "batch 3 · 4,000 rows, 8,000/s · 1,200 deltas, 2,400/s · state 3.2 MB · took 0.5 s · 2 shards · 1 bad rows"
    )


def test_status_says_why_a_view_has_no_row() -> None:
    """As the figures of a shard say it, in the line of a batch and in JSON."""
    shard = Shard(spec("CREATE TABLE t (x BIGINT); CREATE MATERIALIZED VIEW mean AS SELECT 10 / COUNT(*) AS m FROM t;"))
    entry = {
        "batchId": 4,
        "timestamp": "",
        "numInputRows": 1,
        "durationMs": {"addBatch": 1, "triggerExecution": 500},
        "sources": [],
        "observedMetrics": {},
        "stateOperators": [],
    }
    progress = Progress()
    why = (
        "mean has no result now: its row over no input cannot be computed: column m, 10 / count(*), failed on the data "
        "for count(*) = 0: division by zero"
    )
    for x, failing in ((None, [why]), (5, [])):
        if x is not None:
            shard.apply({"t": [pa.table({"x": [x], WEIGHT: pa.array([1], pa.int64())})]})
        progress.shards[0, 0] = shard.stats()
        progress.last = -1
        (batch,) = progress.new([entry])
        assert line(batch, 1).endswith(f"took 0.5 s · 1 shard{''.join(f' · {w}' for w in failing)}")
        for log in ("text", "json"):
            out = StringIO()
            Status(out, log=log).batch(batch)
            if log == "json":
                assert json.loads(out.getvalue())["failing"] == failing
            else:
                assert out.getvalue() == line(batch, 1) + "\n"


def test_on_a_terminal_why_a_view_has_no_row_is_a_line_of_its_own() -> None:
    """The refreshed line is cut at the terminal's width."""
    out = Terminal()
    status = Status(out)
    for failing in ((), ("v has no result now: …",), ("v has no result now: …",), (), ("v has no result now: …",)):
        status.batch(replace(BATCH, failing=failing))
    assert out.getvalue().count("v has no result now: …\n") == 2


def test_status_on_a_terminal_is_one_line_and_elsewhere_plain() -> None:
    for out in (StringIO(), Terminal()):
        status = Status(out)
        status.say("begun")
        status.batch(BATCH)
        status.batch(BATCH)
        status.end("done")
        text = out.getvalue()
        assert text.endswith("done: 2 batches, 8,000 rows, 2,400 deltas, 2 bad rows put aside\n")
        assert ("\x1b" in text) is out.isatty()
        assert text.count("\n") == (2 if out.isatty() else 4)


def test_status_before_the_first_batch_tells_of_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("everview.cli.status.time.monotonic", lambda: now[0])
    for out, log in ((StringIO(), "text"), (Terminal(), "text"), (StringIO(), "json")):
        now[0] = 0.0
        status = Status(out, log=log)
        status.tasks = lambda: (3, 1_200)
        for now[0] in (0.5, 20.0, 20.5):
            status.waiting()
        text = out.getvalue()
        if log == "json":
            assert json.loads(text) == {"event": "loading", "tasks": 1_200, "tasks_done": 3, "seconds": 20.0}
        else:
            assert text.count("first batch: 3 of 1,200 tasks done, 20 s") == 1
        status.batch(BATCH)
        assert "batch" in out.getvalue()


def test_checkpoints_that_spark_refuses_come_with_a_way_out() -> None:
    said = "There are [1] sources in the checkpoint offsets and now there are [2] sources requested by the query."
    for text in (said, "[STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA] Streaming stateful operator name"):
        found = str(failed(StreamingQueryException(text)))
        assert "another query" in found
        assert "saved_tables" in found


def test_text_that_is_not_what_is_declared_is_a_bad_row(spark: Any, tmp_path: Path) -> None:
    people(tmp_path)
    (tmp_path / "clicks").mkdir()
    rows = ['{"op": "c", "who": 1, "page": "a"}', '{"op": "c", "who": "abc", "page": "b"}', "no json at all"]
    (tmp_path / "clicks" / "1.json").write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(PipelineError, match="it cannot be read as declared: ") as stopped:
        run(spark, written(tmp_path, CLICKS))
    assert "abc" in str(stopped.value)
    text = CLICKS.replace("checkpoint: ", "checkpoint: other") + "bad_rows: quarantine\ndead_letter: parquet:out/dead\n"
    (batch,) = run(spark, written(tmp_path, text))
    assert batch.bad_rows == 2
    assert bag(f"parquet:{tmp_path}/out/named") == Counter({("Ada", "a"): 1})


def test_status_json_and_quiet() -> None:
    out = StringIO()
    status = Status(out, log="json")
    status.say("begun")
    status.batch(BATCH)
    status.end("done")
    batch, end = map(json.loads, out.getvalue().splitlines())
    assert (batch["event"], batch["batch"], batch["rows_per_second"], batch["state_bytes"]) == (
        "batch",
        3,
        8000,
        3_200_000,
    )
    assert end == {"event": "end", "reason": "done", "batches": 1, "rows": 4000, "deltas": 1200, "bad_rows": 1}
    out = StringIO()
    status = Status(out, quiet=True)
    status.say("begun")
    status.batch(BATCH)
    status.end("done")
    assert out.getvalue() == ""


def test_failures_keep_their_own_words() -> None:
    own = PipelineError("no", hint="yes")
    assert failed(own) is own
    assert str(failed(ValueError("what"))) == "Spark refused: what"
