"""A wide family of short statements that could stand for huge ones: ``make fuzz`` runs all, the tests a handful.

Every shape is written in several sizes, the largest that fits two kilobytes and smaller ones: what is refused at the
largest size may be dearest just below the one from which it is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import NamedTuple

import everview as ev
from everview.errors import EverviewError
from tests.plan.bombs import MOST_BYTES, chain, clique, doubled, nest, star

MOST = 2_000
"""So many characters may a statement have, or all statements of a script together."""

SCHEMA = """
    CREATE TABLE t (a INT, s STRING);
    CREATE TABLE e (a INT, b INT);
    CREATE TABLE w (a INT, b INT, s INT);
    CREATE TABLE n (d DECIMAL(10,2), f DOUBLE);
    CREATE TABLE k (i INT PRIMARY KEY, j INT)
"""
ROWS: dict[str, tuple[object, ...]] = {"t": (1, "x"), "e": (1, 1), "w": (1, 1, 1), "n": (1, 1.0), "k": (1, 1)}
MOST_SHOWN = 10_000

_VALUES = {
    "sum": ("a", "a + a"),
    "difference": ("a", "a - a"),
    "product": ("a", "a * a"),
    "ratio": ("a", "a / a"),
    "whole ratio": ("a", "a div a"),
    "remainder": ("a", "a % a"),
    "bits": ("a", "a & a"),
    "negation": ("a", "-a - a"),
    "CASE": ("a", "CASE WHEN a > 1 THEN a ELSE 0 END"),
    "condition": ("a", "CAST(a > 0 AND a < 9 AS INT)"),
    "COALESCE": ("a", "COALESCE(a, a, 1)"),
    "NULLIF": ("a", "NULLIF(a, a)"),
    "if": ("a", "if(a > 1, a, a)"),
    "greatest": ("a", "greatest(a, a)"),
    "pmod": ("a", "pmod(a, a)"),
    "round": ("a", "round(a, 1) + a"),
    "hash": ("a", "hash(a, a)"),
    "BETWEEN": ("a", "CAST(a BETWEEN a AND a AS INT)"),
    "IN": ("a", "CAST(a IN (a, a, 3) AS INT)"),
    "concat": ("s", "concat(s, s)"),
    "pipes": ("s", "s || s"),
    "replace": ("s", "replace(s, s, s)"),
    "lpad": ("s", "lpad(s, 5, s)"),
    "substring": ("s", "substring(s, 1, length(s))"),
    "upper": ("s", "upper(s || s)"),
    "repeat": ("s", "repeat(s, 100)"),
    "concat_ws": ("s", "concat_ws(',', s, s)"),
    "split_part": ("s", "split_part(s, s, 1)"),
    "translate": ("s", "translate(s, s, s)"),
    "cast": ("s", "CAST(CAST(s AS INT) + CAST(s AS INT) AS STRING)"),
    "LIKE": ("s", "CAST(s LIKE s AS STRING)"),
    "md5": ("s", "md5(concat(s, s))"),
}
_QUERIES = {
    "joins": ("SELECT a, b FROM e", "SELECT l.a, r.b FROM {0} l JOIN {0} r ON l.b = r.a", "SELECT a, b FROM {}"),
    "triangles": (
        "SELECT a, b FROM e",
        "SELECT l.a, r.b FROM {0} l JOIN {0} r ON l.b = r.a JOIN {0} x ON x.a = l.a AND x.b = r.b",
        "SELECT DISTINCT a FROM {}",
    ),
    "products": ("SELECT a FROM e", "SELECT l.a FROM {0} l, {0} r", "SELECT COUNT(*) AS n FROM {}"),
    "EXISTS": (
        "SELECT a FROM e",
        "SELECT a FROM {0} l WHERE EXISTS (SELECT 1 FROM {0} r WHERE r.a = l.a)",
        "SELECT a FROM {}",
    ),
    "NOT EXISTS": (
        "SELECT a FROM e",
        "SELECT a FROM {0} l WHERE NOT EXISTS (SELECT 1 FROM {0} r WHERE r.a = l.a)",
        "SELECT a FROM {}",
    ),
    "IN": ("SELECT a FROM e", "SELECT a FROM {0} WHERE a IN (SELECT a FROM {0})", "SELECT a FROM {}"),
    "UNION": ("SELECT a FROM e", "SELECT a FROM {0} UNION SELECT a + 1 AS a FROM {0}", "SELECT a FROM {}"),
    "UNION ALL": ("SELECT a FROM e", "SELECT a FROM {0} UNION ALL SELECT a FROM {0}", "SELECT a FROM {}"),
    "INTERSECT": ("SELECT a FROM e", "SELECT a FROM {0} INTERSECT SELECT a FROM {0}", "SELECT a FROM {}"),
    "EXCEPT": ("SELECT a FROM e", "SELECT a FROM {0} EXCEPT SELECT a FROM {0}", "SELECT a FROM {}"),
    "groups": (
        "SELECT a, b FROM e",
        "SELECT l.a, SUM(r.b) AS b FROM {0} l JOIN {0} r ON l.a = r.a GROUP BY l.a",
        "SELECT a, b FROM {}",
    ),
    "totals": ("SELECT a FROM e", "SELECT SUM(l.a) AS a FROM {0} l CROSS JOIN {0} r", "SELECT a FROM {}"),
    "outer joins": (
        "SELECT a, b FROM e",
        "SELECT l.a, r.b FROM {0} l LEFT JOIN {0} r ON l.b = r.a",
        "SELECT a, b FROM {}",
    ),
    "semi joins": (
        "SELECT a, b FROM e",
        "SELECT l.a, l.b FROM {0} l LEFT SEMI JOIN {0} r ON l.b = r.a",
        "SELECT a FROM {}",
    ),
    "scalars": ("SELECT a FROM e", "SELECT a FROM {0} WHERE a > (SELECT AVG(a) FROM {0})", "SELECT a FROM {}"),
    "columns": (
        "SELECT a, b FROM e",
        "SELECT a + b AS a, a - b AS b FROM {}",
        "SELECT a, b FROM {} WHERE a > b AND b > a",
    ),
}


def _grid(size: int) -> str:
    names = [f"x{i}_{j}" for i in range(size) for j in range(size)]
    across = [f"x{i}_{j}.b = x{i}_{j + 1}.a" for i in range(size) for j in range(size - 1)]
    down = [f"x{i}_{j}.s = x{i + 1}_{j}.s" for i in range(size - 1) for j in range(size)]
    where = f" WHERE {' AND '.join(across + down)}" if size > 1 else ""
    return f"SELECT x0_0.a FROM {', '.join(f'w {n}' for n in names)}{where}"


def _cycle(size: int) -> str:
    joins = " AND ".join(f"x{i}.b = x{(i + 1) % size}.a" for i in range(size))
    return f"SELECT x0.a, x{size // 2}.b FROM {', '.join(f'e x{i}' for i in range(size))} WHERE {joins}"


def _rule_clique(size: int) -> str:
    return f"v(x0) :- {', '.join(f'e(x{i},x{j})' for i in range(size) for j in range(i))}."


def _rule_chain(size: int) -> str:
    return f"v(x0,x{size}) :- {', '.join(f'e(x{i},x{i + 1})' for i in range(size))}."


def _rules(size: int) -> str:
    steps = " ".join(f"p{i}(x,z) :- p{i - 1}(x,y), p{i - 1}(y,z)." for i in range(1, size))
    return f"p0(x,y) :- e(x,y). {steps}"


def _views(size: int) -> str:
    steps = "; ".join(
        f"CREATE VIEW v{i} AS SELECT l.a, r.b FROM v{i - 1} l JOIN v{i - 1} r ON l.b = r.a" for i in range(1, size)
    )
    return f"CREATE VIEW v0 AS SELECT a, b FROM e; {steps}"


def _sums_of_views(size: int) -> str:
    steps = "; ".join(f"CREATE VIEW v{i} AS SELECT a + a AS a FROM v{i - 1}" for i in range(1, size))
    return f"CREATE VIEW v0 AS SELECT a FROM e; {steps}"


def _listed(text: str, between: str, around: str) -> Callable[[int], str]:
    return lambda size: around.format(between.join(text.format(i) for i in range(size)))


def _nested(before: str, core: str, after: str, around: str) -> Callable[[int], str]:
    return lambda size: around.format(nest(size, before, core, after))


def _alternating(size: int) -> str:
    opened = "".join(f"1 / a > {i} {'AND' if i % 2 else 'OR'} (" for i in range(size))
    return f"SELECT a FROM t WHERE {opened}a > 1{')' * size}"


SHAPES: dict[str, Callable[[int], str]] = {
    **{
        f"doubled {name}": doubled(
            f"SELECT {column} FROM t",
            f"SELECT {text.replace('{0}.', '')} AS {column} FROM {{}}",
            f"SELECT {column} FROM {{}}",
        )
        for name, (column, text) in _VALUES.items()
    },
    **{f"doubled {name} of queries": doubled(*parts) for name, parts in _QUERIES.items()},
    "clique": clique,
    "chain": chain,
    "star": star,
    "grid": _grid,
    "cycle": _cycle,
    "rule of a clique": _rule_clique,
    "rule of a chain": _rule_chain,
    "rules that double": _rules,
    "views that double": _views,
    "views of sums": _sums_of_views,
    "product": _listed("e x{}", ", ", "SELECT x0.a FROM {}"),
    "EXISTS in EXISTS": _nested("EXISTS (SELECT 1 FROM e WHERE ", "a = 1", ")", "SELECT a FROM t WHERE {}"),
    "NOT EXISTS in NOT EXISTS": _nested("NOT EXISTS (SELECT 1 FROM e WHERE ", "a = 1", ")", "SELECT a FROM t WHERE {}"),
    "IN in IN": _nested("a IN (SELECT a FROM e WHERE ", "a = 1", ")", "SELECT a FROM t WHERE {}"),
    "subqueries": _nested("(SELECT a + 1 AS a FROM ", "t", ") x", "SELECT a FROM {}"),
    "grouped subqueries": _nested("(SELECT a, COUNT(*) AS n FROM ", "t", " x GROUP BY a)", "SELECT a FROM {} x"),
    "HAVING": _nested(
        "(SELECT a, COUNT(*) AS n FROM ", "t", " x GROUP BY a HAVING COUNT(*) > 0 AND SUM(a) > 1)", "SELECT a FROM {} x"
    ),
    "DISTINCT subqueries": _nested("(SELECT DISTINCT a FROM ", "t", ") x", "SELECT a FROM {}"),
    "many EXISTS": _listed("EXISTS (SELECT 1 FROM e WHERE e.a = t.a + {})", " AND ", "SELECT a FROM t WHERE {}"),
    "many IN": _listed("a IN (SELECT b FROM e WHERE e.a = {})", " OR ", "SELECT a FROM t WHERE {}"),
    "many NOT IN": _listed("a NOT IN (SELECT b FROM e WHERE e.a = {})", " AND ", "SELECT a FROM t WHERE {}"),
    "UNION": _listed("SELECT a+{} AS a FROM t", " UNION ", "{}"),
    "UNION of joins": _listed("SELECT x.a FROM e x, e y WHERE x.b=y.a", " UNION ", "{}"),
    "INTERSECT": _listed("SELECT a+{} AS a FROM t", " INTERSECT ", "{}"),
    "EXCEPT": _listed("SELECT a+{} AS a FROM t", " EXCEPT ", "{}"),
    "UNION in parentheses": _nested("(SELECT a FROM t UNION ", "SELECT a FROM t", ")", "{}"),
    "CASE": _nested("CASE WHEN a > 1 THEN ", "a", " END", "SELECT {} AS x FROM t"),
    "CASE in conditions": _nested("CASE WHEN ", "a > 1", " THEN a > 2 ELSE a > 3 END", "SELECT a FROM t WHERE {}"),
    "branches": _listed("WHEN a = {0} THEN {0}", " ", "SELECT CASE {} END AS x FROM t"),
    "branches of divisions": _listed("WHEN 1/a={} THEN 1/a", " ", "SELECT CASE {} END AS x FROM t"),
    "BETWEEN": _listed("a BETWEEN {} AND b", " AND ", "SELECT a FROM e WHERE {}"),
    "IN": _listed("{}", ",", "SELECT a FROM t WHERE a IN ({})"),
    "IN lists": _listed("a IN ({},b)", " OR ", "SELECT a FROM e WHERE {}"),
    "OR of AND": _listed("(a={} AND b>1)", " OR ", "SELECT a FROM e WHERE {}"),
    "AND of OR": _listed("(a={0} OR b>{0})", " AND ", "SELECT a FROM e WHERE {}"),
    "OR over a join": _listed("(x.a={0} OR y.b>{0})", " AND ", "SELECT x.a FROM e x, e y WHERE {}"),
    "AND and OR by turns": _alternating,
    "groups": _listed("a+{}", ",", "SELECT COUNT(*) AS n FROM t GROUP BY {}"),
    "sums": _listed("SUM(a+{0}) AS c{0}", ",", "SELECT {} FROM t"),
    "least": _listed("MIN(a+{0}) AS c{0}", ",", "SELECT {} FROM t GROUP BY s"),
    "distinct counts": _listed("COUNT(DISTINCT a+{0}) AS c{0}", ",", "SELECT {} FROM t GROUP BY s"),
    "averages over a join": _listed("AVG(x.a+{0}) AS c{0}", ",", "SELECT {} FROM e x JOIN e y ON x.b=y.a GROUP BY y.b"),
    "HAVING of many": _listed("SUM(a)>{}", " AND ", "SELECT s FROM t GROUP BY s HAVING {}"),
    "columns": _listed("a AS c{}", ",", "SELECT {} FROM t"),
    "stars": _listed("x.*", ",", "SELECT {} FROM t x"),
    "sum": _listed("a", "+", "SELECT {} AS x FROM t"),
    "difference": _listed("a", "-", "SELECT {} AS x FROM t"),
    "product of numbers": _listed("a", "*", "SELECT {} AS x FROM t"),
    "ratio": _listed("a", "/", "SELECT {} AS x FROM t"),
    "remainder": _listed("a", "%", "SELECT {} AS x FROM t"),
    "sum and difference": _listed("a-a", "+", "SELECT {} AS x FROM t"),
    "sum of products": _listed("a*a", "+", "SELECT {} AS x FROM t"),
    "sum of decimals": _listed("d", "+", "SELECT {} AS x FROM n"),
    "product of decimals": _listed("d", "*", "SELECT {} AS x FROM n"),
    "ratio of decimals": _listed("d", "/", "SELECT {} AS x FROM n"),
    "sum of floats": _listed("f", "+", "SELECT {} AS x FROM n"),
    "text": _listed("s", "||", "SELECT {} AS x FROM t"),
    "sum of sums": _listed("SUM(a)", "+", "SELECT {} AS x FROM t"),
    "text of numbers": _listed("a", "||", "SELECT {} AS x FROM t"),
    "compared": _listed("a", "=", "SELECT {} AS x FROM t"),
    "literal": _listed("x", "", "SELECT '{}' AS x FROM t"),
    "digits": _listed("9", "", "SELECT {} AS x FROM t"),
    "name": _listed("x", "", "SELECT a AS {} FROM t"),
    "parentheses": _nested("(", "a", ")", "SELECT {} AS x FROM t"),
    "minus": _nested("- ", "a", "", "SELECT {} AS x FROM t"),
    "tilde": _nested("~", "a", "", "SELECT {} AS x FROM t"),
    "NOT": _nested("NOT ", "a > 1", "", "SELECT a FROM t WHERE {}"),
    "IS NULL": _nested("", "a", " IS NULL", "SELECT a FROM t WHERE {}"),
    "abs": _nested("abs(", "a", ")", "SELECT {} AS x FROM t"),
    "concat": _nested("concat(s,", "s", ")", "SELECT {} AS x FROM t"),
    "COALESCE": _nested("COALESCE(a,", "a", ")", "SELECT {} AS x FROM t"),
    "if": _nested("if(a>1,a,", "a", ")", "SELECT {} AS x FROM t"),
    "replace": _nested("replace(s,", "s", ",s)", "SELECT {} AS x FROM t"),
    "lpad": _nested("lpad(", "s", ",9,s)", "SELECT {} AS x FROM t"),
    "repeat": _nested("repeat(", "s", ",9)", "SELECT {} AS x FROM t"),
    "substring": _nested("substring(", "s", ",2,9)", "SELECT {} AS x FROM t"),
    "CAST": _nested("CAST(", "a", " AS BIGINT)", "SELECT {} AS x FROM t"),
    "CAST to text and back": _nested("CAST(CAST(", "a", " AS STRING) AS INT)", "SELECT {} AS x FROM t"),
    "round": _nested("round(", "d", ",1)", "SELECT {} AS x FROM n"),
    "divisions": _nested("(1/", "a", ")", "SELECT {} AS x FROM t"),
    "decimal divisions": _nested("(d/", "d", ")", "SELECT {} AS x FROM n"),
    "dates": _listed("INTERVAL {} DAYS", " + ", "SELECT DATE'2020-01-01' + {} AS x FROM t"),
    "brackets": _listed("(SELECT 1)", "+", "SELECT {} AS x FROM t"),
    "commas": _listed("", ",", "SELECT {} FROM t"),
    "statements": _listed("SELECT a FROM t", ";", "{}"),
    "WITH": _listed("c{} AS (SELECT a FROM t)", ", ", "WITH {} SELECT a FROM c0"),
    "joined twice": _listed("LEFT JOIN e x{0} ON x{0}.a = t.a", " ", "SELECT t.a FROM t {}"),
    "USING": _listed("JOIN e x{0} USING (a)", " ", "SELECT a FROM t {}"),
    "NATURAL": _listed("NATURAL JOIN e x{0}", " ", "SELECT a FROM t {}"),
    "lookups": _listed("JOIN k k{0} ON k{0}.i = e.b", " ", "SELECT e.a FROM e {}"),
    "lookups of lookups": _listed("JOIN k k{0} ON k{0}.i = e.b AND k{0}.j > {0}", " ", "SELECT e.a, e.b FROM e {}"),
}


def statements() -> Iterator[tuple[str, str]]:
    """A name for each statement, and its text."""
    for name, make in SHAPES.items():
        size = largest(make)
        shares = {max(2, round(size * share)) for share in (1, 0.5, 0.25, 0.12)}
        for part in sorted(shares | (set(range(7, min(size, 12))) if "doubled" in name else set())):
            yield f"{name} of {part}", make(part)


def largest(make: Callable[[int], str]) -> int:
    """The largest size with which a shape fits."""
    size = 2
    while len(make(size + 1)) <= MOST:
        size += 1
    return size


class Step(NamedTuple):
    """What was done with a statement, and what that took."""

    what: str
    seconds: float
    megabytes: float
    error: str

    def is_fine(self, seconds: float) -> bool:
        return self.seconds <= seconds and self.megabytes <= 500 and not self.error.startswith("!")


def tried(text: str) -> list[Step]:
    """A statement explained, spread, defined, filled and read, until one of it is refused."""
    steps: list[Step] = []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def step(what: str, work: Callable[[], object]) -> bool:
        start, error = process_time(), ""
        try:
            work()
        except EverviewError as refused:
            error = f"{type(refused).__name__}: {refused.message[:100]}"
        except Exception as raw:
            error = f"! {type(raw).__name__}: {str(raw)[:100]}"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        steps.append(Step(what, round(process_time() - start, 2), round(grown), error))
        return not error

    def shown(verdict: ev.Explanation) -> None:
        assert str(verdict)
        assert verdict.to_dict()
        assert verdict.to_svg()

    is_script, schema = ";" in text, "CREATE TABLE e (a INT, b INT)" if ":-" in text else SCHEMA
    if not is_script:
        if not step("explain", lambda: shown(ev.explain(text, schema))):
            return steps
        for shards in (2, 6, 60, 64):
            step(f"{shards} shards", lambda shards=shards: shown(ev.explain(text, schema, shards=shards)))
    if ":-" in text:
        return steps
    db = ev.Database()
    db.sql(SCHEMA)

    def read() -> None:
        for view in map(db.view, db.views):
            shown(view.explain())
            if len(view) < MOST_SHOWN:
                assert len(list(view)) == len(view)

    if step("define", lambda: db.sql(text if is_script else f"CREATE VIEW v AS {text}")):
        step("insert", lambda: [db.insert(name, [row]) for name, row in ROWS.items()])
        step("read", read)
        if all(len(db.view(name)) < MOST_SHOWN for name in db.views):
            step("answer", lambda: is_script or db.sql(text))
    return steps


def in_a_child(text: str) -> tuple[list[Step], int]:
    """The same in a process of its own, with limits; and how that ended."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        resource.setrlimit(resource.RLIMIT_CPU, (120, 120))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        status = 1
        try:
            with os.fdopen(into, "w") as file:
                json.dump(tried(text), file)
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out) as file:
        found = file.read()
    _, status = os.waitpid(child, 0)
    return [Step(*one) for one in json.loads(found or "[]")], status


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shapes", nargs="*", help="only these")
    parser.add_argument("--seconds", type=float, default=5.0, help="of processor time, for each step")
    options = parser.parse_args()
    ev.Database()  # What children need is imported once, here.
    broken = 0
    for name, text in statements():
        if options.shapes and name.rpartition(" of ")[0] not in options.shapes:
            continue
        steps, status = in_a_child(text)
        bad = [s for s in steps if not s.is_fine(options.seconds)]
        slowest = max((s.seconds for s in steps), default=0.0)
        largest_ = max((s.megabytes for s in steps), default=0.0)
        refused = next((s.error for s in steps if s.error), "")
        print(f"{name:<42} {slowest:6.2f} s {largest_:5.0f} MB  {refused}", flush=True)
        if bad or status:
            broken += 1
            print(f"  beyond the limits: {bad or f'the process ended with {status}'}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
