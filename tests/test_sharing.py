"""The processes that share the tests run every module between them, and none twice."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.sharing import claimed

NAMES = [f"tests/{folder}/test_{n}.py" for folder in ("engine", "spark", "sql") for n in range(4)]
ITEMS: Any = [SimpleNamespace(nodeid=f"{name}::test_{n}") for name in NAMES for n in range(3)]


def test_every_test_is_run_by_one_of_them(tmp_path: Path) -> None:
    front, beside, back = (claimed(ITEMS, end, str(tmp_path)) for end in ("front", "front", "back"))
    mine = [next(front).nodeid for _ in range(4)]
    others = [next(beside).nodeid]
    theirs = [next(back).nodeid for _ in range(8)]
    mine += [item.nodeid for item in front]
    others += [item.nodeid for item in beside]
    theirs += [item.nodeid for item in back]
    assert sorted(mine + others + theirs) == sorted(item.nodeid for item in ITEMS)
    assert mine[0] == "tests/spark/test_0.py::test_0"
    assert others == [f"tests/spark/test_2.py::test_{n}" for n in range(3)], "the module that it had begun, and no more"
    assert theirs[0] == "tests/sql/test_3.py::test_0"
    assert len(theirs) == 9, "the module that it had begun, and no more"


def test_one_that_ends_early_leaves_the_rest_to_the_other(tmp_path: Path) -> None:
    assert len(list(claimed(ITEMS, "back", str(tmp_path)))) == len(ITEMS)
    assert list(claimed(ITEMS, "front", str(tmp_path))) == []
