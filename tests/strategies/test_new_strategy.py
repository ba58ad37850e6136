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
    """The environment in which the strategy is one of Everview's."""
    site = tmp_path_factory.mktemp("site")
    package = site / "everview"
    shutil.copytree(Path(everview.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    kernel = Path(_kernel.__file__)
    shutil.copy(kernel, package / "kernel" / kernel.name)
    shutil.copytree(HERE / FOLDER, package / "strategies" / FOLDER, ignore=shutil.ignore_patterns("__pycache__"))
    registry = package / "strategies" / "__init__.py"
    text = registry.read_text(encoding="utf-8")
    before, after = text.split("FOLDERS = (\n")
    registry.write_text(f"{before}FOLDERS = (\n{LINE}{after}", encoding="utf-8")
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "tests",
    [
        tuple(f"tests/engine/test_differential.py::test_random_cases[{part}]" for part in range(4)),
        ("tests/engine/test_snapshot.py", "-k", "everything_is_there_again or any_history or with_feeds_open"),
        ("tests/spark/test_maintain.py", "-k", "several_views"),
    ],
    ids=["differential", "snapshots", "spark"],
)
def test_it_passes_the_suites(with_the_strategy: dict[str, str], tests: tuple[str, ...]) -> None:
    told = run(with_the_strategy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests)
    assert " passed" in told
