"""A strategy is added by one folder and one line: the tests do that in a copy of the package, and use it everywhere.

The copy comes first on the path of every process, Spark's too; there, all that the differential suite, ``explain``,
snapshots and shards do is done by the added strategy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import everview
from everview.kernel import _kernel

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
FOLDER = "stored_result"
LINE = f'    "{FOLDER}",\n'
FOUND_FIRST = """
import sys
# An editable installation finds the package by a finder of its own, before the path is looked at.
sys.meta_path[:] = [f for f in sys.meta_path if f.__class__.__module__ != "_editable_skbc_everview"]
"""


@pytest.fixture(scope="module")
def with_the_strategy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the strategy is one of Everview's, before all others."""
    return added(tmp_path_factory.mktemp("site"), is_first=True)


@pytest.fixture(scope="module")
def with_it_second(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the strategy comes after CROWN, and before all others with a dial."""
    return added(tmp_path_factory.mktemp("site"), is_first=False)


def added(site: Path, *, is_first: bool) -> dict[str, str]:
    package = site / "everview"
    shutil.copytree(Path(everview.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    kernel = Path(_kernel.__file__)
    shutil.copy(kernel, package / "kernel" / kernel.name)
    shutil.copytree(HERE / FOLDER, package / "strategies" / FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    registry = package / "strategies" / "__init__.py"
    text = registry.read_text(encoding="utf-8")
    place = "FOLDERS = (\n" if is_first else '    "crown",\n'
    before, after = text.split(place)
    registry.write_text(f"{before}{place}{LINE}{after}", encoding="utf-8")
    (site / "sitecustomize.py").write_text(FOUND_FIRST, encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


EXPLAINED = """
import everview as ev
db = ev.Database()
db.sql("CREATE TABLE e (a BIGINT, b BIGINT); CREATE MATERIALIZED VIEW v AS "
       "SELECT x.a, count(*) AS n FROM e x JOIN e y ON x.b = y.a GROUP BY x.a")
v = db.view("v")
feed = v.changes()
db.insert("e", [(1, 2), (2, 3), (2, 2)])
print(v.explain().strategy, *sorted(v), v.stats()["parts"][0]["derivations"], len(feed.read()))
print(v.explain())
assert v.explain().to_svg().startswith("<svg")
assert [c["strategy"] for c in v.explain().to_dict()["strategies"] if c["chosen"]] == ["stored-result"]
assert "stored-result" in str(v.explain(program=True)) and "atom0!" in str(v.explain(program=True))
db.save("{file}")
again = ev.Database.load("{file}")
assert again.view("v").stats()["restored"] == "snapshot"
again.delete("e", [(2, 2)])
print(*sorted(again.view("v")))
"""


def test_it_explains_counts_saves_and_loads(with_the_strategy: dict[str, str], tmp_path: Path) -> None:
    told = run(with_the_strategy, "-c", EXPLAINED.replace("{file}", str(tmp_path / "saved.db")))
    first, *explained, last = told.splitlines()
    assert first.startswith("stored-result")
    assert any(line.startswith("strategy") and "the whole result is stored" in line for line in explained)
    assert any(line.startswith("not taken") and "crown" in line for line in explained)
    assert (first, last) == ("stored-result (1, 2) (2, 2) 4 1", "(1, 1)")


READ = """
import everview as ev
from everview.engine.operators import join as reading
opened = []
fetched = reading.fetched
reading.fetched = lambda unit, cursor, *sizes: (opened.append(cursor), fetched(unit, cursor, *sizes))[1]
db = ev.Database()
db.sql("CREATE TABLE e (a BIGINT, b STRING); CREATE TABLE f (b STRING, c BIGINT)")
db.insert("e", [(1, "x"), (1, "y"), (2, "x"), (2, "x")])
db.insert("f", [("x", 7), ("y", 7), ("x", 8)])
join = "e JOIN f ON e.b = f.b"
bag = db.create_view("bag", f"SELECT e.a, f.c FROM {join}", epsilon=0.25)
unique = db.create_view("uniq", f"SELECT DISTINCT e.a, f.c FROM {join}", epsilon=0.25)
sums = db.create_view("sums", f"SELECT e.a, sum(f.c) AS s, count(*) AS n FROM {join} GROUP BY e.a", epsilon=0.25)
plain = db.create_view("plain", f"SELECT e.a, f.c FROM {join}")
copies = [(1, 7), (1, 7), (1, 8), (2, 7), (2, 7), (2, 8), (2, 8)]
for view, rows in (bag, copies), (unique, sorted(set(copies))), (sums, [(1, 22, 3), (2, 30, 4)]):
    assert view.explain().strategy == "stored-result"
    del opened[:]
    assert sorted(view) == sorted(zip(*view.to_arrow().to_pydict().values())) == rows
    assert set(opened) == {"pieces"}, opened
    del opened[:]
    pages = view.page(offset=0, limit=2) + view.page(offset=2, limit=9)
    assert sorted(pages) == rows and rows[0] in view and view[view.rank(rows[0])] == rows[0] and bool(view)
    assert set(opened) <= {"result"}, opened
    assert view.stats()["bytes"] > 0 and len(view) == len(rows)
over = db.create_view("over", "SELECT a, count(*) AS n FROM bag GROUP BY a")
assert sorted(over) == [(1, 3), (2, 4)]
(part,) = bag.stats()["parts"]
assert part == {
    "core": "result", "strategy": "stored-result", "derivations": 7,
    "epsilon": 0.25, "N": 7, "theta": 7 ** 0.25, "heavy_keys": 4 + 3, "minor": 4, "major": 1, "moved": 7,
}, part
assert plain.explain().strategy == "crown" and sorted(plain) == copies
(crown,) = plain.stats()["parts"]
assert not {"epsilon", "theta", "heavy_keys"} & crown.keys()
folded = "SELECT e.a, max(f.c) AS m FROM e JOIN f ON e.b = f.b GROUP BY e.a"
assert db.create_view("folded", folded, epsilon=0.25).explain().strategy == "crown"
staged = "SELECT a, count(*) AS n FROM (SELECT DISTINCT e.a, f.c FROM e JOIN f ON e.b = f.b) GROUP BY a"
verdict = db.create_view("staged", staged, optimize="reads").explain().to_dict()
print({c["strategy"]: c["reason"] for c in verdict["strategies"]})
schema = "CREATE TABLE e (a BIGINT, b STRING); CREATE TABLE f (b STRING, c BIGINT)"
on_spark = ev.explain(f"SELECT e.a, f.c FROM {join}", schema, epsilon=0.5, shards=2)
assert on_spark.strategy == "crown", on_spark
print(on_spark)
feed = bag.changes()
db.delete("e", [(1, "y")])
db.insert("f", [("y", 9)])
assert sorted(bag) == [(1, 7), (1, 8), (2, 7), (2, 7), (2, 8), (2, 8)] and len(feed.read()) == 1
assert sorted(over) == [(1, 2), (2, 4)]
"""


def test_it_is_taken_where_it_is_advised_and_read_in_pieces(with_it_second: dict[str, str]) -> None:
    told = run(with_it_second, "-c", READ)
    assert "a dial does not pay where every change is told, as on Spark" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        tuple(f"tests/engine/test_differential.py::test_random_cases[{part}]" for part in range(2)),
        ("tests/engine/test_snapshot.py", "-k", "everything_is_there_again or any_history or with_feeds_open"),
        ("tests/spark/test_maintain.py", "-k", "several_views"),
    ],
    ids=["differential", "snapshots", "spark"],
)
def test_it_passes_the_suites(with_the_strategy: dict[str, str], tests: tuple[str, ...]) -> None:
    told = run(with_the_strategy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    assert " passed" in told
