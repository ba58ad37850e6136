"""Random queries mean the same as text and lowered; random damage to statements only gives Everview's own errors."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from everview.errors import EverviewError
from everview.sql import parse_rules, parse_schema, parse_script, parse_view
from tests.scale import thoroughness
from tests.sql.cases import FOLDER, load, schema
from tests.sql.evaluate import Evaluator, agree

TABLES = """
CREATE TABLE r (a INT, b INT, s STRING);
CREATE TABLE q (b INT, c BIGINT, v DOUBLE);
CREATE TABLE p (c INT, a INT, d DATE);
"""
SCHEMA = parse_schema(TABLES)
NUMBERS = {"r": ["a", "b"], "q": ["b", "c"], "p": ["c", "a"]}
EVALUATORS = [Evaluator(SCHEMA, seed, rows=8) for seed in (7, 8)]


@st.composite
def aliases(draw: st.DrawFn, prefix: str = "x", most: int = 3) -> list[tuple[str, str]]:
    """A FROM list: (table, alias) pairs."""
    tables = draw(st.lists(st.sampled_from(["p", "q", "r"]), min_size=1, max_size=most))
    return [(table, f"{prefix}{i}") for i, table in enumerate(tables)]


def columns(froms: list[tuple[str, str]]) -> list[str]:
    return [f"{alias}.{c}" for table, alias in froms for c in NUMBERS[table]]


@st.composite
def scalars(draw: st.DrawFn, froms: list[tuple[str, str]]) -> str:
    """A number: a column mostly, sometimes a small expression."""
    column = draw(st.sampled_from(columns(froms)))
    other = draw(st.sampled_from(columns(froms)))
    forms = [column] * 5 + [
        f"{column} + 1",
        f"{column} + {other}",
        f"COALESCE({column}, 2)",
        f"-{column}",
        f"ABS({other})",
    ]
    return draw(st.sampled_from(forms))


@st.composite
def conditions(draw: st.DrawFn, froms: list[tuple[str, str]], depth: int = 0) -> str:
    """One conjunct."""
    left, right = draw(scalars(froms)), draw(scalars(froms))
    number = draw(st.integers(0, 3))
    kind = draw(st.integers(0, 11 if depth < 2 else 6))
    if kind <= 2:
        return f"{left} = {right}"
    if kind == 3:
        return f"{left} = {number}"
    if kind == 4:
        return f"{left} {draw(st.sampled_from(['<', '<>', '>=']))} {right}"
    if kind == 5:
        return f"({left} = {number} OR {right} > {number})"
    if kind == 6:
        return draw(
            st.sampled_from(
                [f"{left} IS NOT NULL", f"{left} IS NULL", f"{left} IN (1, {number})", f"{left} <=> {right}"]
            )
        )
    inner = draw(aliases(prefix=f"{'yz'[depth]}", most=2))
    where = [draw(conditions(inner, depth + 1)) for _ in range(draw(st.integers(0, 1)))]
    if kind in (7, 8):
        where += [f"{draw(scalars(inner))} = {draw(scalars(froms))}" for _ in range(draw(st.integers(0, 2)))]
        return f"EXISTS (SELECT 1 FROM {text_of(inner)}{clause('WHERE', where)})"
    if kind == 9:
        where += [f"{draw(scalars(inner))} = {draw(scalars(froms))}" for _ in range(draw(st.integers(0, 1)))]
    if kind == 10:
        key = draw(st.sampled_from(columns(inner)))
        tail = f" GROUP BY {key} HAVING COUNT(*) > {draw(st.integers(0, 2))}"
        return f"{left} IN (SELECT {key} FROM {text_of(inner)}{clause('WHERE', where)}{tail})"
    return f"{left} IN (SELECT {draw(scalars(inner))} FROM {text_of(inner)}{clause('WHERE', where)})"


def text_of(froms: list[tuple[str, str]]) -> str:
    return ", ".join(f"{table} {alias}" for table, alias in froms)


def clause(word: str, parts: list[str]) -> str:
    return f" {word} {' AND '.join(parts)}" if parts else ""


@st.composite
def selects(draw: st.DrawFn, width: int, depth: int = 0) -> str:
    """A SELECT of so many number columns."""
    froms = draw(aliases())
    shown = text_of(froms)
    if depth < 1 and draw(st.booleans()):
        inner = draw(selects(2, depth + 1))
        froms = [*froms, ("sub", "w")]
        shown += f", ({inner}) w"
    where = [draw(conditions(froms)) for _ in range(draw(st.integers(0, 3)))]
    body = f"FROM {shown}{clause('WHERE', where)}"
    kind = draw(st.integers(0, 3))
    if kind == 0:
        keys = [draw(scalars(froms)) for _ in range(width - 1)]
        argument = draw(scalars(froms))
        name = draw(st.sampled_from(["COUNT", "SUM", "MIN", "MAX", "COUNT(DISTINCT", "SUM(DISTINCT"]))
        call = f"{name} {argument})" if "(" in name else f"{name}({argument})"
        outputs = ", ".join(f"{e} AS c{i}" for i, e in enumerate([*keys, call]))
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = draw(st.sampled_from(["", "", f" HAVING {call} > 1", " HAVING COUNT(*) > 1"]))
        return f"SELECT {outputs} {body}{group}{having}"
    outputs = ", ".join(f"{draw(scalars(froms))} AS c{i}" for i in range(width))
    return f"SELECT {'DISTINCT ' if kind == 1 else ''}{outputs} {body}"


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A SELECT, or a set operation of two or three."""
    width = draw(st.integers(1, 3))
    query = draw(selects(width))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        word = draw(st.sampled_from(["UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]))
        query = f"({query}) {word} ({draw(selects(width))})"
    return query


NUMBERS["sub"] = ["c0", "c1"]


@given(queries())
@thoroughness(250)
def test_random_queries(sql: str) -> None:
    view = parse_view(sql, SCHEMA)
    for evaluator in EVALUATORS:
        agree(evaluator, sql, view)


VALID = [case.sql for path in sorted(FOLDER.glob("*.test")) for case in load(path)]
CASE_SCHEMA = schema()
DDL = (FOLDER / "schema.sql").read_text()
RULES = [case.sql for path in sorted(FOLDER.glob("*.rules")) for case in load(path)]
WORDS = re.compile(r"'[^']*'|\w+|\s+|[^\w\s]")


@st.composite
def damaged(draw: st.DrawFn, texts: list[str]) -> str:
    """A valid text with some words deleted, doubled, swapped or replaced by words of another text."""
    words = WORDS.findall(draw(st.sampled_from(texts)))
    others = WORDS.findall(draw(st.sampled_from(texts)))
    for _ in range(draw(st.integers(1, 3))):
        if not words:
            break
        at, to = draw(st.integers(0, len(words) - 1)), draw(st.integers(0, len(words) - 1))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            del words[at]
        elif kind == 1:
            words.insert(at, words[to])
        elif kind == 2:
            words[at], words[to] = words[to], words[at]
        elif kind == 3:
            words[at] = draw(st.sampled_from(others))
        else:
            words.insert(
                at, draw(st.sampled_from(["(", ")", ",", ".", "'", "`", "*", "--", ";", "NOT", "\\", "é", "\x00"]))
            )
    return "".join(words)


def only_our_errors(read: object, text: str) -> None:
    assert callable(read)
    error = None
    try:
        read(text)
    except EverviewError as caught:
        error = caught
    if error is not None:
        shown = str(error)
        assert error.position is not None, shown
        assert error.position.line <= max(1, len(text.splitlines()) + 1)
        assert "<class" not in shown
        assert error.__cause__ is None or error.__cause__.__class__.__module__.startswith("sqlglot"), repr(
            error.__cause__
        )


@given(damaged(VALID))
@thoroughness(1500)
def test_damaged_queries(text: str) -> None:
    only_our_errors(lambda t: parse_view(t, CASE_SCHEMA), text)


@given(damaged([DDL, f"{DDL}\nSELECT a FROM r; CREATE VIEW v AS SELECT b FROM r;"]))
@thoroughness(250)
def test_damaged_scripts(text: str) -> None:
    only_our_errors(parse_script, text)


@given(damaged(RULES))
@thoroughness(500)
def test_damaged_rules(text: str) -> None:
    only_our_errors(lambda t: parse_rules(t, CASE_SCHEMA), text)
    only_our_errors(parse_rules, text)


@given(st.text(max_size=60))
@thoroughness(300)
def test_noise(text: str) -> None:
    only_our_errors(lambda t: parse_view(t, CASE_SCHEMA), text)
    only_our_errors(parse_schema, text)
    only_our_errors(parse_rules, text)
