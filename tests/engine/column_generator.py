"""Random cases with a table of arrays, structs and maps, and views over it of all constructs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.engine.case_data import Case, ColumnDef, Row, Step, TableDef
from tests.engine.nested_generator import NestedQueries
from tests.engine.query_generator import Relation

TABLE = TableDef(
    "held",
    (
        ColumnDef("k", "n", "INT", True),
        ColumnDef("l", "A", "ARRAY<INT>", True),
        ColumnDef("s", "S", "STRUCT<x: INT, y: STRING>", True),
        ColumnDef("entries", "M", "MAP<STRING, INT>", True),
    ),
)
_PARTS = (("k", "n"), ("l", "A"), ("s", "S"), ("s.x", "n"), ("s.y", "s"), ("entries['a']", "n"))
"""What queries read of a row: columns, and parts of them."""


class ColumnQueries(NestedQueries):
    """Writes all constructs, and elements, over such a table."""

    def _construct(self) -> tuple[str, list[str]]:
        return self._elements() if self.r.random() < 0.35 else super()._construct()

    def _elements(self) -> tuple[str, list[str]]:
        """The elements of what is stored, as rows or one by one."""
        r = self.r
        outer = r.choice(("", "", " OUTER"))
        text, kinds, theirs = r.choice(
            (
                (
                    f"SELECT k AS c0, e AS c1 FROM held LATERAL VIEW{outer} explode(l) v AS e",
                    ["n", "n"],
                    ("k AS c0, e AS c1", "l", "UNNEST(l) AS u(e)", "NULL AS c1"),
                ),
                (
                    f"SELECT k AS c0, p AS c1, e AS c2 FROM held LATERAL VIEW{outer} posexplode(l) v AS p, e",
                    ["n", "n", "n"],
                    (
                        "k AS c0, p AS c1, l[p + 1] AS c2",
                        "l",
                        "UNNEST(range(len(l))) AS u(p)",
                        "NULL AS c1, NULL AS c2",
                    ),
                ),
                (
                    f"SELECT k AS c0, w AS c1, e AS c2 FROM held LATERAL VIEW{outer} explode(entries) v AS w, e",
                    ["n", "s", "n"],
                    (
                        "k AS c0, w AS c1, entries[w] AS c2",
                        "map_keys(entries)",
                        "UNNEST(map_keys(entries)) AS u(w)",
                        "NULL AS c1, NULL AS c2",
                    ),
                ),
                ("SELECT k AS c0, l AS c1, entries['b'] AS c2 FROM held", ["n", "A", "n"], None),
                (
                    "SELECT get(l, 0) AS c0, size(l) AS c1, s.y AS c2 FROM held WHERE l IS NOT NULL",
                    ["n", "n", "s"],
                    None,
                ),
                ("SELECT k AS c0, transform(l, x -> x + k) AS c1 FROM held", ["n", "A"], None),
                ("SELECT DISTINCT s AS c0, filter(l, x -> x > 0) AS c1 FROM held", ["S", "A"], None),
                ("SELECT s AS c0, COUNT(*) AS c1 FROM held GROUP BY s", ["S", "n"], None),
                ("SELECT a.k AS c0, b.k AS c1 FROM held a JOIN held b ON a.l = b.l", ["n", "n"], None),
                (
                    "SELECT k AS c0, COUNT(DISTINCT l) AS c1, SUM(entries['a']) AS c2 FROM held GROUP BY k",
                    ["n"] * 3,
                    None,
                ),
                ("SELECT named_struct('x', k, 'y', s.y) AS c0, array(k, s.x) AS c1 FROM held", ["S", "A"], None),
            )
        )
        if theirs is not None:
            listed, array, source, nothing = theirs
            given = f"(SELECT {listed} FROM held, {source})"
            if outer:
                none = f"SELECT k AS c0, {nothing} FROM held WHERE {array} IS NULL OR size({array}) = 0"
                given = f"{given} UNION ALL ({none})"
            self.spelled.append((text, given))
        return text, kinds


def with_columns(case: Case, tables: Sequence[TableDef]) -> Case:
    """The case with such a table, batches of its rows, and views; all choices are its own."""
    r = random.Random(f"columns {case.seed}")
    held = Relation(TABLE.name, list(_PARTS))
    others = [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in tables]
    queries = ColumnQueries(r, [*others, *[held] * (2 * len(others))])
    steps = list(case.steps)
    for number in range(r.choice((1, 2))):
        text = "SELECT k, l, s, entries FROM held"
        for _ in range(6):
            found, _ = queries.nested()
            if " held " in found:
                text = found
                break
        name, at = f"h{number}", r.choice((0, 0, r.randint(0, len(steps))))
        new = [Step("view", name, text, oracle=queries.oracle(text))]
        if r.random() < 0.7:
            new.append(Step("feed", name, option=r.choice(("net", "per_update"))))
        steps[at:at] = new
    known: list[Row] = []
    at = 0
    for _ in range(r.randint(3, 6)):
        gone = r.sample(known, min(len(known), r.choice((0, 0, 1, 2))))
        come = tuple(_row(r) for _ in range(r.randint(1, 5)))
        for row in gone:
            known.remove(row)
        known += come
        operations = tuple((op, TABLE.name, rows) for op, rows in (("delete", tuple(gone)), ("insert", come)) if rows)
        at = r.randint(at, len(steps))
        steps.insert(at, Step("batch", operations=operations, option=r.choice(("plain", "apply"))))
        at += 1
    return replace(case, tables=(*case.tables, TABLE), steps=tuple(steps))


def _row(r: random.Random) -> Row:
    """A row with NULL, empty and repeated values, and NULL within values."""
    number = (None, 0, 0, 1, 2)
    elements = r.choice((None, (), (1,), (0, None), (2, 2), (r.choice(number), r.choice(number), 1)))
    struct = r.choice((None, (r.choice(number), r.choice((None, "a", "b", "it's")))))
    entries = r.choice((None, (), (("a", r.choice(number)),), (("a", 1), ("b", r.choice(number))), (("b", 2),)))
    return r.choice(number), elements, struct, entries
