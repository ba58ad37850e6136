"""``drop`` and clean-up remove what the target has made, and nothing of anybody else's, links included."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from everview.errors import TargetError
from everview.spark.targets import DeltaTarget, ParquetTarget, PostgresTarget, Target
from tests.spark.feeds import bag, ints

Put = Callable[[Path], None]


def a_file(place: Path) -> None:
    place.write_text("precious")


def a_folder(place: Path) -> None:
    place.mkdir()
    (place / "file").write_text("precious")


def a_link_to_a_folder(place: Path) -> None:
    root = next(path for path in place.parents if path.name == "t").parent
    outside = root / "outside"
    a_folder(outside)
    place.symlink_to(outside)


def a_link_to_nowhere(place: Path) -> None:
    place.symlink_to("nowhere")


FOREIGN: list[Put] = [a_file, a_folder, a_link_to_a_folder, a_link_to_nowhere]
VERSION = "00000000000000000001-0123abcd"
PARQUET_PLACES = [
    "mine",
    "versions/mine",
    f"versions/{VERSION}",
    "versions/_next",
    "current/mine",
    "current/part.parquet",
]
DELTA_PLACES = ["mine", "part-0.parquet", "_delta_log/mine", "_delta_log/00000000000000000001.txt", "_change_data"]


OURS = re.compile(r"_manifest.json|[0-9a-f]{16}-[0-9a-f]{16}-[0-9a-f]{16}.parquet|\d{20}.json")


def everything(folder: Path) -> dict[str, str]:
    """All that is in a folder, links not followed: what it is, or holds."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {os.readlink(path)}"
        elif path.is_file() and not OURS.fullmatch(path.name):
            found[name] = path.read_text(errors="replace")
    return found


def written(target: Target) -> Target:
    for number in range(5):
        target.write(ints(number, (number, 2), *([(number - 1, -1)] if number else [])))
    return target


@pytest.mark.parametrize("put", FOREIGN, ids=lambda p: p.__name__)
@pytest.mark.parametrize(
    ("kind", "place"), [*(("parquet", p) for p in PARQUET_PLACES), *(("delta", p) for p in DELTA_PLACES)]
)
def test_what_others_have_put_there_stays(
    tmp_path: Path, kind: str, place: str, put: Put, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "t"
    target = written(ParquetTarget(folder, keep=2) if kind == "parquet" else DeltaTarget(folder))
    where = (
        Path(os.path.realpath(folder / place.partition("/")[0])) / place.partition("/")[2]
        if "/" in place
        else folder / place
    )
    put(where)
    before = {n: t for n, t in everything(tmp_path).items() if n not in ("t/current", "t/_lock")}
    mine = {n: t for n, t in before.items() if not n.startswith("t/") or t.startswith(("precious", "->"))}
    assert mine
    if "current" not in place:
        for number in range(5, 9):
            target.write(ints(number, (number, 1)))
        assert {n: t for n, t in everything(tmp_path).items() if n in mine} == mine, "clean-up of old versions"
    with caplog.at_level(logging.WARNING):
        target.drop()
    assert {n: t for n, t in everything(tmp_path).items() if n != "t/current"} == mine
    assert f"the folder {folder} stays" in caplog.text
    assert where.name in caplog.text
    assert target.progress() is None
    target.drop()
    assert everything(tmp_path) == mine


@pytest.mark.parametrize("kind", [ParquetTarget, DeltaTarget])
def test_a_target_that_is_all_ours_goes_with_its_folder(
    tmp_path: Path, kind: type, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "beside").write_text("precious")
    target = written(kind(tmp_path / "t"))
    target.drop()
    assert os.listdir(tmp_path) == ["beside"]
    assert not caplog.records
    assert written(target).progress()
    assert bag(target.read_arrow())


@pytest.mark.parametrize("put", FOREIGN, ids=lambda p: p.__name__)
@pytest.mark.parametrize(
    "place", ["versions", "current", "_lock", "versions/mine", f"versions/{VERSION}", "_delta_log"]
)
@pytest.mark.parametrize("kind", [ParquetTarget, DeltaTarget])
def test_a_folder_that_is_somebody_elses_stays_whole(tmp_path: Path, kind: type, place: str, put: Put) -> None:
    folder = tmp_path / "t"
    (folder / place).parent.mkdir(parents=True)
    put(folder / place)
    before = everything(tmp_path)
    with suppress(TargetError):
        kind(folder).drop()
    assert everything(tmp_path) == before
    if kind is ParquetTarget and place != "_delta_log":
        if not (place == "_lock" and put is a_file):
            with pytest.raises(TargetError):
                ParquetTarget(folder).write(ints(0, (1, 1)))
        assert {n: t for n, t in everything(tmp_path).items() if n in before} == before


def test_of_a_version_goes_what_its_manifest_names(tmp_path: Path) -> None:
    """Also beside a file that is named as ours are."""
    target = written(ParquetTarget(tmp_path / "t"))
    foreign = target.snapshot / "0000000000000000-ffffffffffffffff-0123456789abcdef.parquet"
    foreign.write_text("precious")
    target.drop()
    assert [p for p in (tmp_path / "t").rglob("*") if p.is_file()] == [foreign]
    assert foreign.read_text() == "precious"


def test_a_version_that_names_files_elsewhere(tmp_path: Path) -> None:
    target = ParquetTarget(tmp_path / "t")
    target.write(ints(0, (1, 1)))
    (tmp_path / "precious").write_text("x")
    manifest = target.snapshot / "_manifest.json"
    manifest.write_text(manifest.read_text().replace('"name": "', '"name": "../../../precious", "was": "'))
    target.drop()
    assert (tmp_path / "precious").exists()


def test_what_a_crash_left_is_ours(tmp_path: Path) -> None:
    folder = tmp_path / "t" / "versions" / VERSION
    folder.mkdir(parents=True)
    for name in ("0000000000000000-ffffffffffffffff-0123456789abcdef.parquet", "_manifest.json"):
        (folder / name).write_text("")
    (tmp_path / "t" / "versions" / "_next-01234567").symlink_to(f"versions/{VERSION}")
    ParquetTarget(tmp_path / "t").drop()
    assert not (tmp_path / "t").exists()


def test_a_target_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "t").symlink_to("real")
    target = written(ParquetTarget(tmp_path / "t"))
    target.drop()
    assert os.readlink(tmp_path / "t") == "real"
    assert os.listdir(tmp_path / "real") == []


def test_versions_that_are_a_link(tmp_path: Path) -> None:
    """Another target's versions are not this one's."""
    other = written(ParquetTarget(tmp_path / "other"))
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "versions").symlink_to("../other/versions")
    target = ParquetTarget(tmp_path / "t")
    target.drop()
    with pytest.raises(TargetError, match="not made by materialize"):
        target.write(ints(0, (1, 1)))
    (tmp_path / "t" / "current").symlink_to(os.readlink(tmp_path / "other" / "current"))
    target.drop()
    with pytest.raises(TargetError, match=r"versions is a link|written by another"):
        target.write(ints(5, (1, 1)))
    assert bag(other.read_arrow())


def test_a_postgres_table_that_took_the_targets_name(postgres: str) -> None:
    import psycopg

    target = written(PostgresTarget(postgres, "taken", "drop"))
    with psycopg.connect(postgres) as connection:
        connection.execute('DROP TABLE "drop".taken')
        connection.execute('CREATE TABLE "drop".taken (x bigint)')
        connection.execute('INSERT INTO "drop".taken VALUES (42)')
    with pytest.raises(TargetError, match="was not made by materialize"):
        target.drop()
    with psycopg.connect(postgres) as connection:
        assert connection.execute('SELECT x FROM "drop".taken').fetchall() == [(42,)]


def test_postgres_drops_its_own_table_only(postgres: str) -> None:
    import psycopg

    target = written(PostgresTarget(postgres, "mine", "drop2"))
    other = written(PostgresTarget(postgres, "other", "drop2"))
    with psycopg.connect(postgres) as connection:
        connection.execute("CREATE VIEW drop2.reader AS SELECT x FROM drop2.mine")
    with pytest.raises(TargetError, match="reader"):
        target.drop()
    with psycopg.connect(postgres) as connection:
        connection.execute("DROP VIEW drop2.reader")
    target.drop()
    assert target.progress() is None
    assert bag(other.read_arrow())
