"""Loads the positive cases: a comment, SQL up to a semicolon at a line's end, then the expected rule text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from everview.query.schema import Schema
from everview.sql import parse_schema

FOLDER = Path(__file__).parent / "cases"


@dataclass(frozen=True)
class Case:
    """One case: what to read, and how the view must print."""

    name: str
    sql: str
    expected: str


def load(path: Path) -> list[Case]:
    """The cases of one file; they are separated by blank lines."""
    found = []
    for number, chunk in enumerate(path.read_text().strip().split("\n\n")):
        lines = chunk.strip().splitlines()
        title = " ".join(line.lstrip("# ") for line in lines if line.startswith("#"))
        rest = "\n".join(line for line in lines if not line.startswith("#"))
        sql, _, expected = rest.partition(";\n") if path.suffix == ".test" else rest.partition("\n=>\n")
        found.append(Case(f"{path.stem}-{number + 1}-{title}".replace(" ", "_")[:70], sql, expected))
    return found


def parameters(pattern: str) -> list[object]:
    """All cases of the files that match, as pytest parameters."""
    return [pytest.param(c, id=c.name) for path in sorted(FOLDER.glob(pattern)) for c in load(path)]


def schema() -> Schema:
    """The tables of the cases."""
    return parse_schema((FOLDER / "schema.sql").read_text())
