"""Quoted text is the user's own: no word or sign in it ends, begins or nests anything, in SQL, rules and the CLI."""

from __future__ import annotations

import duckdb
import pytest

import everview as ev
from everview.cli.main import main
from everview.engine.explain import is_rules
from everview.errors import SqlSyntaxError
from everview.sql import parse_rules, parse_script, parse_view
from tests.sql.cases import schema

TEXTS = [
    ";",
    ";;",
    "(",
    ")",
    "case",
    "END",
    "select",
    "'; SELECT",
    ",",
    "FROM",
    "--",
    "/*",
    "on",
    "top",
    ":-",
    "%",
    ".",
]
ROWS = [("a;b",), (";",), ("(case",), ("x:-y",), ("",)]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT s, {} AS n FROM t",
        "SELECT s, concat_ws({}, s, 'z') AS n FROM t",
        "SELECT s, split_part(s, {}, 1) AS n FROM t",
        "SELECT s FROM t WHERE s <> {}",
        "SELECT s FROM t WHERE s IN ('q', {})",
    ],
)
def test_strings_as_in_duckdb(query: str, text: str) -> None:
    sql = query.format(quoted(text))
    database = ev.Database()
    database.sql(f"CREATE TABLE t (s STRING); CREATE VIEW v AS {sql}; CREATE VIEW w AS SELECT s FROM t")
    database.insert("t", ROWS)
    with duckdb.connect() as other:
        other.execute("CREATE TABLE t (s TEXT)")
        other.executemany("INSERT INTO t VALUES (?)", [list(row) for row in ROWS])
        assert sorted(database.view("v")) == sorted(other.execute(sql).fetchall())
    assert sorted(database.view("w")) == sorted(ROWS)


@pytest.mark.parametrize("text", TEXTS)
def test_names(text: str) -> None:
    _, (view, after) = parse_script(
        f"CREATE TABLE t (`{text}` INT); CREATE VIEW v AS SELECT t.`{text}` FROM t; SELECT `{text}` FROM v"
    )
    assert [c.name for c in (*view.columns, *after.columns)] == [text, text]


@pytest.mark.parametrize("text", TEXTS)
def test_rules(text: str) -> None:
    (view,) = parse_rules(f"v(x) :- r(x, {quoted(text)}), x != {quoted(text)}.")
    assert [c.name for c in view.columns] == ["x"]


def test_many_quoted_parentheses_are_no_nesting() -> None:
    parse_view(f"SELECT concat({', '.join(['s', *[quoted('('), quoted('CASE')] * 100])}) FROM t", schema())


def test_a_quoted_word_begins_no_statement() -> None:
    for text in ("`select` k FROM t", "'SELECT' k FROM t"):
        with pytest.raises(SqlSyntaxError, match="a statement cannot begin with"):
            parse_view(text, schema())


def test_rules_are_told_from_sql_outside_quotes() -> None:
    assert not is_rules(r"SELECT 'it\'s :- x' FROM t")
    assert not is_rules("SELECT ':-' FROM t -- :-")
    assert is_rules(r"v(x) :- r(x, 'a\'b').")


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "--sql", "CREATE TABLE t (s STRING); SELECT split_part(s, ';', 1) AS n FROM t"]) == 0
    assert "split_part" in capsys.readouterr().out.lower()
