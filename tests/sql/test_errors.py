"""Every wrong or unsupported statement is refused: by the right error, at the right place, in words.

In the files under ``bad/`` the mark » stands before the place that the error must point at; it is taken out first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from everview import errors
from everview.errors import EverviewError, UnsupportedError
from everview.query.options import ViewOptions
from everview.sql import parse_rules, parse_schema, parse_script, parse_view
from tests.sql.cases import schema

FOLDER = Path(__file__).parent / "bad"
SCHEMA = schema()
FORMULA_TABLES = parse_schema(
    """CREATE TABLE p (a INT NOT NULL, b INT NOT NULL, k STRING, m INT NOT NULL);
    CREATE TABLE r (a INT, b INT);
    CREATE TABLE s (id INT NOT NULL, name STRING);"""
)
READERS: dict[str, Callable[[str], object]] = {
    "view": lambda text: parse_view(text, SCHEMA),
    "schema": parse_schema,
    "script": parse_script,
    "rules": lambda text: parse_rules(text, SCHEMA),
    "free rules": parse_rules,
    "formula": lambda text: parse_view(text, FORMULA_TABLES, options=lambda _: ViewOptions(degree=3, component="m")),
}


@dataclass(frozen=True)
class Bad:
    """One statement and the error that it must give."""

    name: str
    reader: str
    text: str
    line: int
    column: int
    error: str
    says: str
    construct: str
    hint: str


def load() -> list[Bad]:
    found = []
    for path in sorted(FOLDER.glob("*.toml")):
        data = tomllib.loads(path.read_text())
        for number, case in enumerate(data["case"], 1):
            before, mark, after = case["sql"].partition("»")
            assert mark, case
            rows = (before + "^").split("\n")
            found.append(
                Bad(
                    f"{path.stem}-{number}",
                    case.get("reader", data.get("reader", "view")),
                    before + after,
                    len(rows),
                    len(rows[-1]),
                    case["error"],
                    case["says"],
                    case.get("construct", ""),
                    case.get("hint", ""),
                )
            )
    return found


BAD = load()


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name)
def test_refused(bad: Bad) -> None:
    with pytest.raises(EverviewError) as caught:
        READERS[bad.reader](bad.text)
    error = caught.value
    shown = str(error)
    assert type(error) is getattr(errors, bad.error), shown
    assert bad.says in error.message, shown
    assert (error.line, error.column) == (bad.line, bad.column), shown
    if isinstance(error, UnsupportedError):
        assert error.construct == bad.construct, shown
    assert bad.hint in (error.hint or ""), shown
    assert error.source == bad.text
    assert "^" in shown
    assert "<class" not in shown
    assert "Token" not in shown


def test_there_are_many() -> None:
    assert len(BAD) >= 220
    assert len({(b.reader, b.text) for b in BAD}) == len(BAD)
