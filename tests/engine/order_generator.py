"""The first rows of random queries, and window functions over them."""

from __future__ import annotations

import random


def arranged(r: random.Random, text: str, kinds: list[str]) -> tuple[str, list[str]]:
    """The first rows of a query, of all or of partitions, or window functions over it; the total order is written out.

    DuckDB has no other order than what is written; keys that leave it open are for what does not depend on it.
    """
    columns = [f"c{i}" for i in range(len(kinds))]
    by = [c + r.choice([" NULLS FIRST", " DESC NULLS LAST", " NULLS LAST", " DESC NULLS FIRST"]) for c in columns]
    r.shuffle(by)
    total, listed = ", ".join(by), ", ".join(columns)
    some = ", ".join(by[: r.randint(1, len(by))])
    partition = f"PARTITION BY {r.choice(columns)} " if r.random() < 0.6 else ""
    form = r.choice(["limit", "limit", "first", "first", "window", "window", "frame"])
    if form == "limit":
        cut = r.choice([f"LIMIT {r.randint(0, 4)}", f"LIMIT {r.randint(1, 4)} OFFSET {r.randint(0, 3)}", "OFFSET 2"])
        return f"SELECT {listed} FROM ({text}) arranged ORDER BY {total} {cut}", kinds
    number = len(kinds)
    if form == "first":
        call, order = r.choice([("ROW_NUMBER", total), ("RANK", some), ("DENSE_RANK", some)])
        outer, more = r.choice([(f"{listed}, p AS c{number}", ["n"]), (listed, [])])
        condition = r.choice([f"p <= {r.randint(1, 3)}", "p = 1", "p < 3", "p BETWEEN 1 AND 2"])
        inner = f"SELECT {listed}, {call}() OVER ({partition}ORDER BY {order}) AS p FROM ({text}) arranged"
        return f"SELECT {outer} FROM ({inner}) WHERE {condition}", [*kinds, *more]
    place = r.randrange(len(columns))
    column, kind = columns[place], kinds[place]
    if form == "window":
        plain = [(f"{f}({column})", some, kind) for f in ("MIN", "MAX") if kind != "b"]
        plain += [
            ("RANK()", some, "n"),
            ("COUNT(*)", some, "n"),
            ("ROW_NUMBER()", total, "n"),
            ("NTILE(2)", total, "n"),
        ]
        plain += [(f"{f}({column})", total, kind) for f in ("LAG", "LEAD", "FIRST_VALUE")]
        call, order, kind = r.choice(plain)
        window = f"{call} OVER ({partition}ORDER BY {order})"
    else:
        calls = [(f"COUNT({column})", "n"), (f"LAST_VALUE({column})", kind)]
        calls += [(f"SUM({column})", "n")] if kind == "n" else []
        call, kind = r.choice(calls)
        frame = r.choice(
            ["1 PRECEDING AND CURRENT ROW", "CURRENT ROW AND UNBOUNDED FOLLOWING", "2 PRECEDING AND 1 FOLLOWING"]
        )
        window = f"{call} OVER ({partition}ORDER BY {total} ROWS BETWEEN {frame})"
    return f"SELECT {listed}, {window} AS c{number} FROM ({text}) arranged", [*kinds, kind]
