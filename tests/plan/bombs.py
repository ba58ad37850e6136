"""Short statements that stand for huge ones, each planned in a process of its own: run as a program by test_bombs.

Prints a line of JSON a statement: its name, the seconds of processor time, the megabytes, and the error if it was one.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from time import process_time

import everview as ev
from everview.errors import EverviewError

SCHEMA = "CREATE TABLE t (a INT, s STRING); CREATE TABLE e (a INT, b INT)"
MOST_BYTES = 4 << 30


def doubled(first: str, step: str, last: str) -> Callable[[int], str]:
    """WITH entries each of which reads the one before it twice."""

    def make(size: int) -> str:
        entries = [f"c0 AS ({first})", *(f"c{i} AS ({step.format(f'c{i - 1}')})" for i in range(1, size))]
        return f"WITH {', '.join(entries)} {last.format(f'c{size - 1}')}"

    return make


def clique(size: int) -> str:
    pairs = [(i, j) for i in range(size) for j in range(i)]
    atoms = ", ".join(f"e x{i}_{j}" for i, j in pairs)
    firsts = {v: next(f"x{i}_{j}.{'a' if i == v else 'b'}" for i, j in pairs if v in (i, j)) for v in range(size)}
    equal = [f"x{i}_{j}.a = {firsts[i]} AND x{i}_{j}.b = {firsts[j]}" for i, j in pairs]
    return f"SELECT DISTINCT {firsts[0]} FROM {atoms} WHERE {' AND '.join(equal)}"


def chain(size: int) -> str:
    joins = "".join(f" JOIN e x{i} ON x{i - 1}.b = x{i}.a" for i in range(1, size))
    return f"SELECT x0.a, x{size - 1}.b FROM e x0{joins}"


def star(size: int) -> str:
    outputs = ", ".join(f"x{i}.b AS b{i}" for i in range(size))
    return f"SELECT {outputs} FROM e x0" + "".join(f" JOIN e x{i} ON x0.a = x{i}.a" for i in range(1, size))


JOIN = "SELECT l.a, r.b FROM {0} l JOIN {0} r ON l.b = r.a"


def nest(size: int, before: str, core: str, after: str) -> str:
    """Something within itself."""
    return before * size + core + after * size


ALTERNATING = "".join(f"1 / a > {i} {'AND' if i % 2 else 'OR'} (" for i in range(20))
BOMBS: dict[str, str] = {
    "doubled sums": doubled("SELECT a FROM t", "SELECT a + a AS a FROM {}", "SELECT a FROM {}")(26),
    "doubled texts": doubled("SELECT s FROM t", "SELECT concat(s, s) AS s FROM {}", "SELECT s FROM {}")(26),
    "large sum": doubled("SELECT a FROM t", "SELECT a + a AS a FROM {}", "SELECT a FROM {}")(10),
    "doubled joins": doubled("SELECT a, b FROM e", JOIN, "SELECT a, b FROM {}")(20),
    "64 joined": doubled("SELECT a, b FROM e", JOIN, "SELECT a, b FROM {}")(7),
    "64 joined, counted": doubled("SELECT a, b FROM e", JOIN, "SELECT COUNT(*) AS n FROM {}")(7),
    "64 joined, distinct": doubled("SELECT a, b FROM e", JOIN, "SELECT DISTINCT a, b FROM {}")(7),
    "doubled EXISTS": doubled(
        "SELECT a FROM e", "SELECT a FROM {0} l WHERE EXISTS (SELECT 1 FROM {0} r WHERE r.a = l.a)", "SELECT a FROM {}"
    )(16),
    "clique": clique(10),
    "chain": chain(50),
    "star": star(40),
    "product": f"SELECT x0.a FROM {', '.join(f'e x{i}' for i in range(250))}",
    "parentheses": f"SELECT {nest(900, '(', 'a', ')')} AS x FROM t",
    "CASE": f"SELECT {nest(60, 'CASE WHEN a > 1 THEN ', 'a', ' END')} AS x FROM t",
    "calls": f"SELECT {nest(12, 'lpad(', 's', ', 5)')} AS x FROM t",
    "calls of pure names": f"SELECT {nest(120, 'abs(', 'a', ')')} AS x FROM t",
    "replaced": "SELECT " + nest(8, "replace(", "s", ", 'a', 'b')") + " AS x FROM t",
    "divisions": f"SELECT {nest(40, '(1 / ', 'a', ')')} AS x FROM t",
    "guards": f"SELECT a FROM t WHERE {ALTERNATING}a > 1{')' * 20}",
    "subqueries": f"SELECT a FROM {nest(20, '(SELECT a + 1 AS a FROM ', 't', ') x')}",
    "unions": " UNION ".join(["SELECT a FROM t"] * 100),
    "aggregates": "SELECT " + ", ".join(f"SUM(a + {i}) AS c{i}" for i in range(80)) + " FROM t",
    "conditions": "SELECT a FROM t WHERE " + " OR ".join(f"a = {i}" for i in range(200)),
    "rule": f"v(x0) :- {', '.join(f'e(x{i}, x{j})' for i in range(14) for j in range(i))}.",
    "rule's chain": f"v(x0, x60) :- {', '.join(f'e(x{i}, x{i + 1})' for i in range(60))}.",
}


def plan(text: str) -> None:
    schema = None if ":-" in text else SCHEMA
    verdict = ev.explain(text, schema)
    assert str(verdict)
    assert verdict.to_dict()
    assert verdict.to_svg()
    if schema:
        ev.explain(text, schema, shards=8)
        database = ev.Database()
        database.sql(SCHEMA)
        database.sql(f"CREATE VIEW v AS {text}")


def main(names: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    plan("SELECT a FROM e")  # so that imports do not count
    for name in names:
        before, start, error = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, process_time(), ""
        try:
            plan(BOMBS[name])
        except EverviewError as refused:
            error = f"{type(refused).__name__}: {refused}"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
        print(json.dumps({"name": name, "seconds": process_time() - start, "megabytes": grown, "error": error}))


if __name__ == "__main__":
    main(sys.argv[1:])
