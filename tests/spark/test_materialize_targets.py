"""Targets without Spark: any feed leads to its bag; replays change nothing; what does not fit is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given

from everview.errors import TargetError
from everview.spark.targets import Batch, DeltaTarget, ParquetTarget, PostgresTarget, Target, named
from everview.spark.targets import base as base_module
from tests.scale import thoroughness
from tests.spark.feeds import COLUMNS, INTS, SCHEMA, Change, bag, batch, histories, ints, result

KINDS = ["parquet", "delta", "postgres"]
Make = Callable[..., Target]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Makes new targets of a kind, or, given a name, the same one again."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres")
        return lambda name="", **_: PostgresTarget(url, name or f"t {token_hex(6)}", 'the "schema"')
    folder = tmp_path_factory.mktemp(request.param)
    kind = ParquetTarget if request.param == "parquet" else DeltaTarget
    return lambda name="", **options: kind(folder / (name or token_hex(6)), **options)


# --- the right rows --------------------------------------------------------------------------------------------------


# The fixture makes a new target for every history.
@thoroughness(25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(history=histories())
def test_any_feed_leads_to_its_bag(make: Make, history: list[list[Change]]) -> None:
    target = make(bucket_rows=2)
    for number, changes in enumerate(history):
        assert target.write(batch(number, changes, pieces=1 + number % 3))
        assert not target.write(batch(number, changes)), "a replay is nothing to do"
        assert bag(target.read_arrow()) == result(history[: number + 1])
    assert target.progress() == base_module.Progress("me", len(history) - 1)


def test_every_value_of_every_type(make: Make) -> None:
    target = make()
    rows = []
    for i, (_, pool) in enumerate(COLUMNS.values()):
        rows += [tuple(v if i == j else None for j in range(len(COLUMNS))) for v in [*pool, None]]
    target.write(batch(0, [(row, "insert", 2) for row in rows]))
    assert bag(target.read_arrow()) == result([[(row, "insert", 2) for row in rows]])
    target.write(batch(1, [(row, "delete", 2) for row in rows[3:]]))
    left = [(row, "insert", 2) for row in rows]
    assert bag(target.read_arrow()) == result([left, [(row, "delete", 2) for row in rows[3:]]])


def test_a_view_that_becomes_empty(make: Make) -> None:
    target = make()
    assert target.progress() is None
    target.write(ints(0))
    assert target.read_arrow().num_rows == 0
    target.write(ints(1, (1, 3), (2, 1)))
    target.write(ints(2, (1, -3), (2, -1)))
    assert target.read_arrow().num_rows == 0
    assert target.read_arrow().schema.names == ["x"]


def test_many_rows_go_to_many_buckets_and_back(make: Make) -> None:
    target = make(bucket_rows=100)
    there: Counter[int] = Counter()
    for number in range(8):
        changes = [(x, 1 + x % 2) for x in range(number * 400, number * 400 + 700) if not there[x]]
        changes += [(x, -c) for x, c in list(there.items())[:: 2 + number % 3]]
        target.write(ints(number, *changes))
        for x, c in changes:
            there[x] += c
        there = +there
        assert bag(target.read_arrow()) == {(x,): c for x, c in there.items()}


# --- what is refused -------------------------------------------------------------------------------------------------


def refused(target: Target, made: Batch, *words: str) -> None:
    """The batch is refused with these words and a hint, and nothing has changed."""
    before = bag(target.read_arrow()) if target.progress() else Counter()
    with pytest.raises(TargetError) as caught:
        target.write(made)
    for word in (target.name, *words):
        assert word in str(caught.value)
    assert caught.value.hint
    assert (bag(target.read_arrow()) if target.progress() else Counter()) == before


def test_batches_out_of_order(make: Make) -> None:
    target = make()
    refused(target, ints(1, (1, 1)), "wants batch 0 next", "batch 1")
    target.write(ints(0, (1, 1)))
    target.write(ints(1, (1, 1)))
    refused(target, ints(3, (1, 1)), "wants batch 2 next", "batch 3")
    refused(target, ints(0, (1, 1)), "has taken batch 1 already", "batch 0")


def test_another_query(make: Make) -> None:
    target = make()
    target.write(ints(0, (1, 1)))
    refused(target, ints(0, (1, 1), owner="you"), "written by another query (me)", "you")
    refused(target, ints(1, (1, 1), owner="you"), "written by another query (me)")
    target.drop()
    target.drop()
    target.write(ints(0, (7, 1), owner="you"))
    assert bag(target.read_arrow()) == {(7,): 1}


def test_other_columns(make: Make) -> None:
    target = make()
    target.write(ints(0, (1, 1)))
    for schema in (
        pa.schema([("y", pa.int64())]),
        pa.schema([("x", pa.int32())]),
        pa.schema([*INTS, ("z", pa.int8())]),
    ):
        refused(target, batch(1, [], schema=schema), "has the columns (x", "but the view has (")
        with pytest.raises(TargetError, match="but the view has"):
            target.check(schema)


def test_a_type_that_no_table_has(make: Make) -> None:
    target = make()
    refused(target, batch(0, [], schema=pa.schema([("l", pa.list_(pa.int8()))])), "the column l of type list")


def test_a_row_that_is_not_there(make: Make) -> None:
    target = make()
    target.write(ints(0, (1, 2)))
    refused(target, ints(1, (1, -3)), "lacks a row", "1")
    refused(target, ints(1, (5, -1)), "lacks a row", "5")
    target.write(ints(1, (1, -2)))


def test_a_feed_that_makes_no_sense(make: Make) -> None:
    target = make()
    refused(target, batch(0, [((1,), "quarantine", 1)], schema=INTS), "_change_type 'quarantine'")
    refused(target, batch(0, [((1,), "insert", 0)], schema=INTS), "_count")
    refused(target, batch(0, [((1,), "insert", None)], schema=INTS), "_count")  # type: ignore[list-item]


def test_nothing_to_read_yet(make: Make) -> None:
    with pytest.raises(TargetError, match="has not taken a batch yet"):
        make().read_arrow()


@pytest.mark.parametrize(("kind", "package"), [("delta:/x", "deltalake"), ("postgresql://h/d?table=t", "psycopg")])
def test_a_missing_package(kind: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str) -> Any:
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(base_module, "import_module", none)
    with pytest.raises(TargetError, match=f"the package {package} is needed") as caught:
        named(kind)
    assert caught.value.hint in ("pip install 'everview[delta]'", "pip install 'everview[postgres]'")


# --- by name ---------------------------------------------------------------------------------------------------------


def test_targets_by_name() -> None:
    for text in ("/a/b", "///a/b", "file:///a/b", "file:/a/b", "file://localhost/a/b"):
        assert isinstance(target := named(f"parquet:{text}"), ParquetTarget)
        assert target.path == Path("/a/b")
        assert isinstance(folder := named(f"delta:{text}"), DeltaTarget)
        assert folder.path == "/a/b"
    assert isinstance(target := named("parquet:file:///a%20b/c?keep=7&bucket_rows=5"), ParquetTarget)
    assert (target.path, target._keep, target._bucket_rows) == (Path("/a b/c"), 7, 5)
    assert isinstance(delta := named("delta:/a/b?history=true"), DeltaTarget)
    assert (delta.path, delta._history) == ("/a/b", True)
    assert isinstance(delta := named("delta:s3://b/t?history=true&aws_region=eu&bucket_rows=9"), DeltaTarget)
    assert (delta.path, delta._options, delta._bucket_rows) == ("s3://b/t", {"aws_region": "eu"}, 9)
    assert isinstance(delta := named("delta:s3://bucket/t"), DeltaTarget)
    assert delta.path == "s3://bucket/t"
    assert isinstance(table := named("postgresql://u:p@h:1/d?table=t&schema=s&sslmode=require"), PostgresTarget)
    assert (table.url, table.table, table.schema) == ("postgresql://u:p@h:1/d?sslmode=require", "t", "s")
    assert named(table) is table


WRONG_OPTIONS = ["parquet:/a?history=true", "parquet:/a?keep=x", "delta:/a?histroy=true", "delta:/a?history=yes"]
ELSEWHERE = ["parquet:file://host/a", "delta:file:a/b"]


@pytest.mark.parametrize(
    "text",
    ["", "x", "parquet", "parquet:", "csv:/x", "/a/b", "postgresql://h/d", 7, None, *WRONG_OPTIONS, *ELSEWHERE],
)
def test_texts_that_name_no_target(text: object) -> None:
    with pytest.raises(TargetError) as caught:
        named(text)
    assert caught.value.hint


# --- one kind only ---------------------------------------------------------------------------------------------------


def test_parquet_is_a_folder_that_anyone_can_read(tmp_path: Path) -> None:
    target = ParquetTarget(tmp_path / "t", keep=2)
    target.write(ints(0, (1, 2)))
    old = target.snapshot
    target.write(ints(1, (2, 1)))
    assert pq.read_table(tmp_path / "t" / "current")["x"].to_pylist().count(1) == 2
    assert pq.read_table(old)["x"].to_pylist() == [1, 1], "a reader's version stays"
    target.write(ints(2, (1, -2)))
    assert not old.exists()
    assert pq.read_table(tmp_path / "t" / "current")["x"].to_pylist() == [2]
    assert len(list((tmp_path / "t" / "versions").iterdir())) == 2


def test_parquet_below_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    target = ParquetTarget(tmp_path / "link" / "t", keep=1)
    for number in range(3):
        target.write(ints(number, (number, 1)))
    assert bag(target.read_arrow()) == {(0,): 1, (1,): 1, (2,): 1}


def test_parquet_files_that_a_batch_does_not_touch_are_not_written(tmp_path: Path) -> None:
    target = ParquetTarget(tmp_path / "t", bucket_rows=100)
    target.write(ints(0, *((x, 1) for x in range(5_000))))
    before = {p.name: p.stat().st_ino for p in target.snapshot.glob("*.parquet")}
    target.write(ints(1, (17, -1)))
    after = {p.name: p.stat().st_ino for p in target.snapshot.glob("*.parquet")}
    assert len(before) > 50
    assert len(before.items() - after.items()) == 1
    assert len(after.items() - before.items()) == 1


def test_parquet_where_something_else_is(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file"):
        with pytest.raises(TargetError, match="was not made by materialize"):
            ParquetTarget(path).write(ints(0))
    with pytest.raises(TargetError, match="object store"):
        ParquetTarget("s3://bucket/x")


def test_parquet_has_one_writer(tmp_path: Path) -> None:
    target = ParquetTarget(tmp_path / "t")
    target.write(ints(0, (1, 1)))

    def chunks() -> Iterator[pa.RecordBatch]:
        with pytest.raises(TargetError, match="another process is writing"):
            ParquetTarget(tmp_path / "t").write(ints(1, (2, 1)))
        yield from ints(1, (3, 1)).chunks()

    target.write(Batch(1, "me", INTS, 1, chunks))
    assert bag(target.read_arrow()) == {(1,): 1, (3,): 1}


def test_parquet_that_is_damaged(tmp_path: Path) -> None:
    target = ParquetTarget(tmp_path / "t")
    target.write(ints(0, (1, 1)))
    (target.snapshot / "_manifest.json").write_text("{")
    with pytest.raises(TargetError, match="damaged"):
        target.read_arrow()


def test_delta_keeps_nothing_but_the_rows(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    target = DeltaTarget(tmp_path / "t")
    target.write(ints(0, (1, 2), (2, 1)))
    target.write(ints(1, (1, -1)))
    table = DeltaTable(tmp_path / "t")
    assert table.version() == 2
    assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == [1, 2]
    assert sorted(DeltaTable(tmp_path / "t", version=1).to_pyarrow_table()["x"].to_pylist()) == [1, 1, 2]
    assert table.transaction_version("everview/me") == 1


def test_delta_that_someone_optimised(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    target = DeltaTarget(tmp_path / "t", bucket_rows=10)
    target.write(ints(0, *((x, 1) for x in range(100))))
    DeltaTable(tmp_path / "t").optimize.compact()
    target.write(ints(1, (5, -1), (5, 3)))
    assert bag(target.read_arrow()) == {(x,): 1 + 2 * (x == 5) for x in range(100)}
    assert len(DeltaTable(tmp_path / "t").file_uris()) > 10


def test_delta_history_is_the_feed_itself(tmp_path: Path) -> None:
    target = DeltaTarget(tmp_path / "t", history=True)
    target.write(ints(0, (1, 2)))
    target.write(ints(1, (1, -1), (1, -1)))
    target.write(ints(1, (1, -1), (1, -1)))
    target.write(ints(2))
    assert bag(target.read_arrow()) == {(1, "insert", 0, 2): 1, (1, "delete", 1, 1): 2}


def test_a_delta_table_of_someone_else(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "t", pa.table({"x": [1]}))
    for action in (lambda t: t.write(ints(0)), lambda t: t.check(INTS), lambda t: t.drop()):
        with pytest.raises(TargetError, match="was not made by materialize"):
            action(DeltaTarget(tmp_path / "t"))


def test_delta_drops_its_own_folder_whatever_that_is_called(tmp_path: Path) -> None:
    for name in ("view#2", "a b", "what?x=1"):
        (tmp_path / name.partition("#")[0].partition("?")[0]).mkdir(exist_ok=True)
        target = DeltaTarget(tmp_path / name)
        target.write(batch(0, [((1,), "insert", 1), ((2,), "insert", 1)], schema=INTS))
        target.drop()
        assert not (tmp_path / name).exists()
    assert (tmp_path / "view").exists()
    assert (tmp_path / "what").exists()
    target = DeltaTarget(f"file://{tmp_path}/c%20d")
    target.write(batch(0, [((1,), "insert", 1)], schema=INTS))
    target.drop()
    assert not (tmp_path / "c d").exists()


def test_delta_reads_with_its_own_reader(tmp_path: Path) -> None:
    target = DeltaTarget(tmp_path / "t")
    rows = [tuple(pool[-1] for _, pool in COLUMNS.values()), (None,) * len(COLUMNS)]
    target.write(batch(0, [(row, "insert", 2) for row in rows]))
    from deltalake import DeltaTable

    read = pa.table(DeltaTable(tmp_path / "t").to_pyarrow_table())
    assert bag(read.cast(SCHEMA)) == bag(target.read_arrow())


def test_a_postgres_table_of_someone_else(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE TABLE others (x bigint)")
    target = PostgresTarget(postgres, "others")
    with pytest.raises(TargetError, match="was not made by materialize"):
        target.write(ints(0, (1, 1)))
    target.drop()
    with psycopg.connect(postgres) as connection:
        assert connection.execute("SELECT count(*) FROM others").fetchone() == (0,)


def test_postgres_finds_rows_by_the_index(postgres: str) -> None:
    import psycopg

    target = PostgresTarget(postgres, "indexed")
    target.write(ints(0, *((x, 1) for x in range(20_000))))
    with psycopg.connect(postgres) as connection:
        connection.execute("ANALYZE indexed")
    target.write(ints(1, *((x, -1) for x in range(0, 100, 2))))
    with psycopg.connect(postgres) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
    with psycopg.connect(postgres) as connection:
        found = connection.execute(
            "SELECT idx_scan, seq_scan FROM pg_stat_user_tables WHERE relname = 'indexed'"
        ).fetchone()
    assert found is not None
    assert found[0] >= 50


def test_postgres_refuses_what_it_cannot_hold(postgres: str) -> None:
    schema = pa.schema([("s", pa.string())])
    target = PostgresTarget(postgres, "nul")
    with pytest.raises(TargetError, match=r"U\+0000 in the column s"):
        target.write(batch(0, [(("a\0b",), "insert", 1)], schema=schema))
    with pytest.raises(TargetError, match="names have 63 bytes"):
        target.check(pa.schema([("x" * 64, pa.int8())]))


def test_postgres_that_is_not_there() -> None:
    target = PostgresTarget("postgresql://u:secret@127.0.0.1:1/d", "t")
    with pytest.raises(TargetError, match="PostgreSQL refused") as caught:
        target.write(ints(0))
    assert "secret" not in str(caught.value)
