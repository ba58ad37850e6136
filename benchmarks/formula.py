"""Formulas that count, kept over data of a bounded degree: what an update costs as the data grow.

``make bench-formula`` runs over grids of roads and over molecules, of a thousand to a million elements. Each formula is
filled at once, then some thousand rows come and go, one a batch, and the count is asked for. Steps are counted,
so they repeat exactly; times are processor time. The count in the end must be DuckDB's on the final tables, and its
time is what computing it anew takes. ``--write`` keeps the measurements and puts the table into
docs/performance-tables.md. It ends with an error if a count is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from time import process_time

import duckdb
import pyarrow as pa

from benchmarks import report, results
from benchmarks.engine import Wrong
from benchmarks.results import Record
from everview.kernel.census.machine import Census
from everview.kernel.census.program import And, CensusProgram, CensusRelation, Fact, Node, Not, Quantify

MARK, END = "<!-- formula: written by `make bench-formula ARGS=--write` -->", "<!-- end formula -->"
SIZES = (1_000, 10_000, 100_000, 1_000_000)
UPDATES = 2_000
TOLD = 40
"""Of the last so many updates, all rows that change are asked for."""
Row = tuple[int, ...]
Tables = dict[str, list[Row]]


def grid(size: int, random: Random) -> Tables:
    """Roads along a square grid, both ways; every seventh crossing or so is blocked."""
    side = int(size**0.5)
    road = []
    for a in range(side * side):
        row, column = divmod(a, side)
        beside = ([a + 1] if column + 1 < side else []) + ([a + side] if row + 1 < side else [])
        road += [pair for b in beside for pair in ((a, b), (b, a))]
    return {"road": road, "blocked": [(a,) for a in range(side * side) if random.random() < 1 / 7]}


def molecules(size: int, random: Random) -> Tables:
    """Molecules of twenty atoms: trees of valence four with a ring or two, bonds both ways, some of them nitrogen."""
    bond: set[Row] = set()
    first = 0
    while first < size:
        degrees = dict.fromkeys(range(first, first + 20), 0)
        for a in range(first + 1, first + 20):
            b = random.choice([b for b in range(max(first, a - 6), a) if degrees[b] < 3])
            degrees[a] += 1
            degrees[b] += 1
            bond |= {(a, b), (b, a)}
        for _ in range(2):
            a, b = random.sample(range(first, first + 20), 2)
            if degrees[a] < 4 and degrees[b] < 4 and (a, b) not in bond:
                degrees[a] += 1
                degrees[b] += 1
                bond |= {(a, b), (b, a)}
        first += 20
    return {"bond": sorted(bond), "nitrogen": [(a,) for a in range(first) if random.random() < 1 / 8]}


@dataclass(frozen=True)
class Case:
    """A formula over two tables, edges and marks, and the SQL that counts its rows."""

    title: str
    tier: str
    make: Callable[[int, Random], Tables]
    arity: int
    formula: Node
    sql: str


ODD_BLOCKED = And((Fact(1, (0,)), Quantify(1, And((Fact(0, (0, 1)), Fact(1, (1,)))), residue=(1, 2), guard=(0, 1))))
NEAR_NITROGEN = Quantify(2, And((Fact(0, (1, 2)), Fact(1, (2,)))), least=1, guard=(1, 1))
EVEN_NEAR = Quantify(1, And((Fact(0, (0, 1)), NEAR_NITROGEN)), residue=(0, 2), guard=(0, 1))
FAR_BLOCKED = And((Fact(1, (0,)), Quantify(1, And((Fact(1, (1,)), Not(Fact(0, (0, 1))))), residue=(0, 3))))
UNJOINED = And((Fact(1, (0,)), Fact(1, (1,)), Not(Fact(0, (0, 1)))))

CASES = (
    Case(
        "blocked(x) and exists[1 mod 2] y (road(x, y) and blocked(y))",
        "A",
        grid,
        1,
        ODD_BLOCKED,
        """SELECT count(*) FROM blocked b WHERE
           (SELECT count(*) FROM road r JOIN blocked c ON c.a = r.b WHERE r.a = b.a) % 2 = 1""",
    ),
    Case(
        "exists[0 mod 2] y (bond(x, y) and exists z (bond(y, z) and nitrogen(z)))",
        "A",
        molecules,
        1,
        EVEN_NEAR,
        """WITH u AS (SELECT a FROM bond UNION SELECT a FROM nitrogen),
           near AS (SELECT DISTINCT b.a FROM bond b JOIN nitrogen n ON n.a = b.b),
           odd AS (SELECT b.a FROM bond b JOIN near ON near.a = b.b GROUP BY b.a HAVING count(*) % 2 = 1)
           SELECT (SELECT count(*) FROM u) - (SELECT count(*) FROM odd)""",
    ),
    Case(
        "blocked(x) and exists[0 mod 3] y (blocked(y) and not road(x, y))",
        "B",
        grid,
        1,
        FAR_BLOCKED,
        """WITH near AS (SELECT r.a, count(*) AS n FROM road r JOIN blocked c ON c.a = r.b GROUP BY r.a)
           SELECT count(*) FROM blocked b LEFT JOIN near ON near.a = b.a
           WHERE ((SELECT count(*) FROM blocked) - coalesce(n, 0)) % 3 = 0""",
    ),
    Case(
        "nitrogen(x) and nitrogen(y) and not bond(x, y)",
        "B",
        molecules,
        2,
        UNJOINED,
        """SELECT (SELECT count(*) FROM nitrogen) ** 2 - (SELECT count(*) FROM bond r
           JOIN nitrogen c ON c.a = r.a JOIN nitrogen d ON d.a = r.b)""",
    ),
)


def put(census: Census, relation: int, rows: Sequence[Row], weight: int) -> None:
    """Rows that come or go."""
    columns = [array("q", column) for column in zip(*rows, strict=True)]
    census.apply(relation, columns, array("q", [weight]) * len(rows))


def updates_of(tables: Mapping[str, list[Row]], count: int, random: Random) -> Iterator[tuple[int, Row, int]]:
    """Edges that go and come back, and marks that change for good."""
    edges, marks = tables.values()
    marked = set(marks)
    elements = sorted({a for edge in edges for a in edge})
    for i in range(count // 2):
        if i % 2:
            edge = random.choice(edges)
            yield 0, edge, -1
            yield 0, edge, 1
            continue
        for _ in range(2):
            mark = (random.choice(elements),)
            yield 1, mark, -1 if mark in marked else 1
            marked ^= {mark}
    tables["marks"] = sorted(marked)  # type: ignore[index]


def by_duckdb(case: Case, tables: Tables, marks: list[Row]) -> tuple[int, float]:
    """The count by another engine, and what it takes."""
    edges, marked = tables
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for name, rows, columns in ((edges, tables[edges], "ab"), (marked, marks, "a")):
            data = dict(zip(columns, zip(*rows, strict=True), strict=True))
            connection.register("rows", pa.table({c: pa.array(v, pa.int64()) for c, v in data.items()}))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
        start = process_time()
        found = connection.execute(case.sql).fetchone()
        spent = process_time() - start
    assert found is not None
    return int(found[0]), spent


def measure(case: Case, size: int, count: int) -> Record:
    """One formula over data of one size."""
    random = Random(size)
    tables = case.make(size, random)
    edges, marked = tables
    relations = (CensusRelation(edges, 2), CensusRelation(marked, 1))
    census = Census(CensusProgram(relations, case.arity, case.formula, 4))
    start = process_time()
    census.begin()
    for number, name in enumerate((edges, marked)):
        put(census, number, tables[name], 1)
    census.settle()
    census.commit()
    load = process_time() - start
    most, total, told, changed = 0, 0, 0, 0
    work = {edges: tables[edges], marked: tables[marked]}
    made = list(updates_of(work, count, random))
    spent = telling = 0.0
    for i, (relation, row, weight) in enumerate(made):
        if i == count - TOLD:
            census.told(True)
            told = census.count()
        columns, weights = [array("q", [a]) for a in row], array("q", [weight])
        start = process_time()
        census.begin()
        census.apply(relation, columns, weights)
        census.settle()
        census.commit()
        census.count()
        spent += process_time() - start
        total += (steps := census.stats()["steps"])
        most = max(most, steps)
        if i >= count - TOLD:
            start = process_time()
            signs = census.take_difference()[1]
            telling += process_time() - start
            told += sum(memoryview(signs).cast("B").cast("q"))
            changed += len(signs)
    expected, anew = by_duckdb(case, tables, work["marks"])
    if census.count() != expected or told != expected:
        raise Wrong(f"{case.title}: {census.count()} rows, {told} by what was told, {expected} by DuckDB")
    stats = census.stats()
    return {
        "query": case.title,
        "tier": case.tier,
        "data": case.make.__name__,
        "elements": stats["elements"],
        "facts": stats["facts"],
        "types": sum(stats["types"].values()),
        "rows": expected,
        "updates": len(made),
        "told": TOLD,
        "changed": changed,
        "telling_s": telling,
        "load_s": load,
        "bytes": census.nbytes(),
        "steps": total / len(made),
        "most_steps": most,
        "seconds": spent,
        "duckdb_s": anew,
    }


def run(sizes: Sequence[int], count: int) -> Iterator[Record]:
    """Every formula over data of every size."""
    for case in CASES:
        for size in sizes:
            yield measure(case, size, count)


def table(records: list[Record]) -> str:
    """The records as a Markdown table."""
    heads = "formula|tier|data|elements|types|rows|steps an update|most|µs an update|rows told|ns a row|load, s"
    heads += "|bytes an element|DuckDB anew, ms"
    lines = [f"| {heads.replace('|', ' | ')} |", "|---" * (heads.count("|") + 1) + "|"]
    for r in records:
        numbers = (
            f"{r['elements']:,}",
            f"{r['types']:,}",
            f"{r['rows']:,}",
            f"{r['steps']:,.0f}",
            f"{r['most_steps']:,}",
            f"{1e6 * r['seconds'] / r['updates']:,.1f}",
            f"{r['changed'] / r['told']:,.1f}",
            f"{1e9 * r['telling_s'] / max(1, r['changed']):,.0f}",
            f"{r['load_s']:.2f}",
            f"{r['bytes'] / r['elements']:,.0f}",
            f"{1e3 * r['duckdb_s']:,.1f}",
        )
        lines.append(f"| `{r['query']}` | {r['tier']} | {r['data']} | " + " | ".join(numbers) + " |")
    return "\n".join(lines)


def section(head: Record, records: list[Record]) -> str:
    """What the page shows of a run."""
    return f"{table(records)}\n\n{results.provenance([head], 'formula')}"


def main() -> int:
    """Measure, print, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="up to ten thousand elements, to see that it works")
    parser.add_argument(
        "--write", action="store_true", help="keep the results and put the table into docs/performance-tables.md"
    )
    options = parser.parse_args()
    records = []
    for record in run(SIZES[:2] if options.small else SIZES, UPDATES // (10 if options.small else 1)):
        records.append(record)
        print(json.dumps(record), flush=True)
    head = results.circumstances("benchmarks.formula")
    print(section(head, records))
    if options.write:
        results.put("formula", head, records)
        report.fill(MARK, section(head, records), END)
    return 0


if __name__ == "__main__":
    sys.exit(main())
