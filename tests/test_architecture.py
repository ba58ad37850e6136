"""The modules' order, and no import against it.

sql → query → plan → strategies → programs → kernel; engine, spark and cli on top.

A layer may import the model that it reads or writes (``query``) and the layers after it in this order: the planner asks
the strategies, which write programs for the kernel. Nothing imports the front end or the layers on top but those.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "everview"
ALLOWED = {
    "redaction": set(),
    "errors": {"redaction"},
    "query": {"errors"},
    "sql": {"errors", "query"},
    "kernel": {"errors"},
    "programs": {"errors", "kernel"},
    "strategies": {"errors", "query", "programs", "kernel"},
    "plan": {"errors", "query", "strategies"},
    "engine": {"errors", "query", "sql", "plan", "kernel", "programs", "strategies"},
    "tools": {"errors", "query", "sql", "plan", "strategies", "engine"},
    "spark": {"errors", "redaction", "query", "sql", "plan", "kernel", "strategies", "engine"},
    "cli": {
        "errors",
        "redaction",
        "query",
        "sql",
        "plan",
        "kernel",
        "strategies",
        "engine",
        "tools",
        "spark",
        "__init__",
    },
    "__init__": {"errors", "engine", "plan", "tools"},
    "__main__": {"cli"},
}
LIBRARIES = {
    "sqlglot": {"sql"},
    "lark": {"sql"},
    "pyspark": {"spark"},
    "pyarrow": {"engine", "spark", "sql", "strategies", "tools"},
}
MODULES = sorted(SOURCE.rglob("*.py"))
FOLDERS = sorted(p.parent for p in SOURCE.rglob("__init__.py") if p.parent != SOURCE)


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module is not None
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_import_against_the_order(path: Path) -> None:
    mine = layer(path)
    for name in imported(path):
        top, *rest = name.split(".")
        if top == "everview":
            target = rest[0] if rest and rest[0] in ALLOWED else "__init__"
            assert target == mine or target in ALLOWED[mine], f"{mine} imports {name}"
        elif top in LIBRARIES:
            assert mine in LIBRARIES[top], f"{mine} imports {name}"


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_folder_says_what_passes_through_it(folder: Path) -> None:
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    inside = {p.stem for p in folder.glob("*.py") if not p.stem.startswith("_")}
    if folder.name != "strategies":  # a strategy is one folder and one line
        inside |= {p.name for p in folder.iterdir() if (p / "__init__.py").exists()}
    assert {name for name in inside if not re.search(rf"`{name}\b", said)} == set()


def test_every_folder_has_its_place() -> None:
    assert {layer(p) for p in MODULES} <= set(ALLOWED)
    assert len(MODULES) > 30


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, "one idea a module"
