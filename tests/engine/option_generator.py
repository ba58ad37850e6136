"""The dial between updates and reads in random cases, and joins whose keys are heavy and light by turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.engine.case_data import Case, ColumnDef, Row, Step, TableDef

OPTIONS = (
    *(f"epsilon = {epsilon}" for epsilon in ("0", "0.25", "0.3333", "0.5", "0.75", "1")),
    "optimize = 'updates'",
    "optimize = 'reads'",
)
DROPPED = ("epsilon = NULL", "epsilon = NULL, optimize = NULL")
"""What a view is altered to, beside these."""


def dialled(case: Case) -> Case:
    """The case with options for some of its views, which are altered, and saved and loaded amid.

    Every second case has a view more that heavy and light keys suit; half of these views are over tables of their own,
    whose keys are skewed. All choices are its own, so that a seed's case is otherwise as if there were none.
    """
    r = random.Random(f"dial {case.seed}")
    found = [replace(s, options=r.choice(OPTIONS)) if s.kind == "view" and r.random() < 0.3 else s for s in case.steps]
    schema = case.tables
    if case.seed % 2 == 0:
        if r.random() < 0.5:
            own = graphs(r)
            schema += own
            text = split_query(r, own)
            at = 0
            for operations in hubs(r, own):
                at = r.randint(at, len(found))
                found.insert(at, Step("batch", operations=operations, option=r.choice(("plain", "apply"))))
                at += 1
        else:
            text = split_query(r, schema)
        if text:
            _insert_split(r, found, f"d{case.seed % 10}", text)
    for _ in range(r.choices((0, 1, 2), (5, 2, 1))[0]):
        if names := [(i, s.name) for i, s in enumerate(found) if s.kind == "view"]:
            at, name = r.choice(names)
            found.insert(r.randint(at + 1, len(found)), Step("alter", name, options=r.choice((*OPTIONS, *DROPPED))))
    if r.random() < 0.2:
        found.insert(r.randint(0, len(found)), Step("load"))
    return replace(case, tables=schema, steps=tuple(found))


def _insert_split(r: random.Random, steps: list[Step], name: str, text: str) -> None:
    at = r.choice((0, 0, r.randint(0, len(steps))))
    new = [Step("view", name, text, options=r.choice(OPTIONS) if r.random() < 0.85 else "")]
    if r.random() < 0.25:
        new.append(Step("feed", name, option=r.choice(("net", "per_update"))))
    if r.random() < 0.2:
        column = "n" if text.startswith("SELECT COUNT") else "c0"
        over = f"SELECT {column}, COUNT(*) AS m FROM {name} GROUP BY {column}"
        new.append(Step("view", f"over_{name}", over, options=r.choice(OPTIONS)))
    steps[at:at] = new


def graphs(r: random.Random) -> tuple[TableDef, ...]:
    """One, two or three tables of edges, perhaps with something more."""
    nullable = r.random() < 0.3
    columns = tuple(ColumnDef(n, "n", r.choice(("INT", "BIGINT")), nullable) for n in r.choice(("ab", "ab", "abc")))
    return tuple(TableDef(name, columns) for name in "ghk"[: r.randint(1, 3)])


def hubs(r: random.Random, schema: Sequence[TableDef]) -> list[tuple[tuple[str, str, tuple[Row, ...]], ...]]:
    """Batches in which keys become heavy and light again, and the number of rows grows and shrinks by a lot."""
    size, domain = r.choice((6, 12, 24)), r.choice((3, 6, 12))

    def end(column: ColumnDef, share: float) -> int | None:
        if column.nullable and r.random() < 0.05:
            return None
        return 0 if r.random() < share else r.randint(0, domain)

    found: list[tuple[tuple[str, str, tuple[Row, ...]], ...]] = []
    known: dict[str, list[Row]] = {t.name: [] for t in schema}
    for _ in range(r.randint(2, 4)):
        batch = []
        for table in schema:
            rows = known[table.name]
            gone = r.sample(rows, r.choice((0, 0, len(rows) // 2, len(rows) * 9 // 10)))
            out = r.choice((gone, [row for row in rows if row[0] == 0]))
            share = r.choice((0, 0.35, 0.9))
            into = [tuple(end(c, share) for c in table.columns) for _ in range(r.randint(1, size))]
            if r.random() < 0.2:
                into += into[: size // 3]
            for row in out:
                rows.remove(row)
            rows += into
            batch += [(op, table.name, tuple(b)) for op, b in (("delete", out), ("insert", into)) if b]
        found.append(tuple(batch))
    return found


def split_query(r: random.Random, schema: Sequence[TableDef]) -> str | None:
    """Triangles, paths, cycles of four and hierarchical joins, counted or listed in part; over one table or several."""
    edges = [
        (t.name, *columns)
        for t in schema
        for columns in [[c.name for c in t.columns if c.kind == "n"][:3]]
        if len(columns) >= 2
    ]
    if not edges:
        return None
    shape = r.choice(("triangle", "triangle", "triangle", "path", "square", "star", "star", "fork", "nested", "nested"))
    size = {"triangle": 3, "path": 3, "square": 4, "star": r.randint(2, 4), "fork": 3, "nested": 3}[shape]
    chosen = [r.choice(edges)] * size if r.random() < 0.5 else [r.choice(edges) for _ in range(size)]
    firsts, seconds = ([f"x{i}.{edge[column]}" for i, edge in enumerate(chosen)] for column in (1, 2))
    match shape:
        case "triangle" | "square":
            joins = [(seconds[i], firsts[(i + 1) % size]) for i in range(size)]
        case "path":
            joins = [(seconds[i], firsts[i + 1]) for i in range(size - 1)]
        case "star":
            joins = [(firsts[0], other) for other in firsts[1:]]
        case "fork":
            joins = [(firsts[0], firsts[1]), (seconds[1], seconds[2])]
        case _:
            joins = [(firsts[0], firsts[1]), (firsts[1], firsts[2]), (seconds[0], seconds[1])]
    froms = ", ".join(f"{edge[0]} x{i}" for i, edge in enumerate(chosen))
    body = f"FROM {froms} WHERE {' AND '.join(f'{a} = {b}' for a, b in joins)}"
    ends = [*firsts, *seconds, *(f"x{i}.{edge[3]}" for i, edge in enumerate(chosen) if len(edge) > 3)]
    free = [end for end in ends if not any(end in pair for pair in joins)]
    from_ = free if len(free) > 1 and shape in ("star", "nested") and r.random() < 0.75 else ends
    shown = r.sample(from_, r.randint(1, min(3, len(from_))))
    listed = ", ".join(f"{column} AS c{i}" for i, column in enumerate(shown))
    counted = () if from_ is free else ("count", "count", "all")
    match r.choice((*counted, "group", "sum", "distinct", "bag")):
        case "count":
            return f"SELECT COUNT(*) AS n {body}"
        case "group":
            return f"SELECT {listed}, COUNT(*) AS n {body} GROUP BY {', '.join(shown)}"
        case "sum":
            return f"SELECT {listed}, SUM({r.choice(ends)}) AS n {body} GROUP BY {', '.join(shown)}"
        case "distinct":
            return f"SELECT DISTINCT {listed} {body}"
        case "bag":
            return f"SELECT {listed} {body}"
        case _:
            return f"SELECT {', '.join(f'{column} AS c{i}' for i, column in enumerate(ends))} {body}"
