"""Random queries in which every construct stands within every other, as subqueries and WITH entries."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.engine.case_data import Case, Step, TableDef
from tests.engine.construct_generator import Constructs
from tests.engine.construct_parts import PLAIN
from tests.engine.order_generator import arranged
from tests.engine.query_generator import Relation
from tests.engine.subquery_generator import SubqueryQueries


class NestedQueries(SubqueryQueries):
    """Writes queries of grouping sets, LATERAL, spans of time, first rows, windows, subqueries, and ``Constructs``."""

    def __init__(self, r: random.Random, relations: list[Relation]) -> None:
        super().__init__(r, relations)
        self.spelled: list[tuple[str, str]] = []
        """Parts that DuckDB has other words for, and those."""

    def oracle(self, text: str) -> str:
        """The query in words that DuckDB knows."""
        for ours, theirs in reversed(
            self.spelled
        ):  # what is around comes first, and holds what is within as we write it
            text = text.replace(ours, theirs)
        return text

    def nested(self) -> tuple[str, list[str]]:
        """A construct, or one over another one that WITH names."""
        r = self.r
        if r.random() < 0.4:
            return self._construct()
        inner, kinds = self._construct()
        columns = [(f"c{i}", k) for i, k in enumerate(kinds) if k in PLAIN]
        if not columns:
            return inner, kinds
        kept = self.relations
        self.relations = [*kept, *[Relation("cte", columns)] * 3]
        outer, found = self._construct()
        self.relations = kept
        if " cte " not in outer:
            return outer, found
        return f"WITH cte AS ({inner}) {outer}", found

    def _construct(self) -> tuple[str, list[str]]:
        r = self.r
        form = r.choice(("rows", "lateral", "spans", "sets", "arranged", "united", "twice", *["further"] * 9))
        if form == "lateral":
            return self._lateral()
        if form == "spans":
            return self._spans()
        if form == "twice":
            return self._two_out()
        text, kinds = self.select()
        if form == "united":
            more, others = self._lateral() if r.random() < 0.5 else self.select()
            shared = [k for k, q in zip(kinds, others, strict=False) if k == q and k in PLAIN]
            if shared and kinds[: len(shared)] == others[: len(shared)] == shared:
                listed = ", ".join(f"c{i}" for i in range(len(shared)))
                word = r.choice(("UNION ALL", "UNION", "EXCEPT ALL", "INTERSECT"))
                return f"(SELECT {listed} FROM ({text}) p) {word} (SELECT {listed} FROM ({more}) q)", shared
        usable = set(kinds) <= PLAIN
        if form == "further" and usable:
            return Constructs(r, self.spelled).over(text, kinds) or (text, kinds)
        if form == "arranged" and usable:
            return arranged(r, text, kinds)
        return self._sets(text, kinds) if form == "sets" and usable else (text, kinds)

    def _sets(self, text: str, kinds: list[str]) -> tuple[str, list[str]]:
        """GROUPING SETS over a query; as in Spark, they have no row over no input."""
        r = self.r
        keys = [f"c{i}" for i in range(len(kinds))]
        r.shuffle(keys)
        keys = keys[: r.randint(1, min(3, len(keys)))]
        sets = r.choice(
            (
                f"ROLLUP ({', '.join(keys)})",
                f"CUBE ({', '.join(keys[:2])})",
                f"GROUPING SETS (({', '.join(keys)}), ({keys[0]}), ())",
                f"GROUPING SETS (({keys[-1]}), ())",
            )
        )
        keys = [k for k in keys if k in sets]
        outputs, found = list(keys), [kinds[int(k[1:])] for k in keys]
        if r.random() < 0.5:
            outputs.append(f"GROUPING({r.choice(keys)})")
            found.append("n")
        calls = [("COUNT(*)", "n"), *((f"MAX(c{i})", k) for i, k in enumerate(kinds) if k != "b")]
        calls += [(f"SUM(c{i})", "n") for i, k in enumerate(kinds) if k == "n"]
        for call, kind in r.sample(calls, min(len(calls), r.choice((1, 2)))):
            outputs.append(call)
            found.append(kind)
        listed = ", ".join(f"{o} AS c{i}" for i, o in enumerate(outputs))
        least = r.choice((0, 0, 1))
        return f"SELECT {listed} FROM ({text}) grouped GROUP BY {sets} HAVING COUNT(*) > {least}", found

    def _lateral(self) -> tuple[str, list[str]]:
        """Rows with what a subquery in FROM gives for each of them."""
        r = self.r
        froms, scope, conditions = self._froms(1, "x")
        relation = r.choice(self.relations)
        columns = [(f"l.{c}", k) for c, k in relation.columns]
        ties = [(a, b) for a, k, _ in scope.columns for b, q in columns if k == q and k in PLAIN]
        if not ties:
            return self.select()
        where = " AND ".join(f"{b} = {a}" for a, b in r.sample(ties, min(len(ties), r.choice((1, 1, 2)))))
        inner, kind = r.choice(columns)
        distinct = r.choice(("", "", "DISTINCT "))
        gives = f"SELECT {distinct}{inner} AS g FROM {relation.name} l WHERE {where}"
        if r.random() < 0.5:
            gives, kind = f"SELECT COUNT(*) AS g FROM {relation.name} l WHERE {where}", "n"
            if r.random() < 0.4:
                gives += f" GROUP BY {inner}"
        elif kind in PLAIN and r.random() < 0.4:
            order = f"{inner} {r.choice(('NULLS FIRST', 'DESC NULLS LAST'))}"
            gives = (
                f"SELECT {inner} AS g FROM {relation.name} l WHERE {where} ORDER BY {order} LIMIT {r.choice((1, 2))}"
            )
        found = [scope.expression() for _ in range(r.choice((1, 2)))]
        listed = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate([*found, ("lat.g", kind)]))
        asked = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        kinds = [*(k for _, k in found), kind]
        if r.random() < 0.35:
            return f"SELECT {listed} FROM {', '.join(froms)} LEFT JOIN LATERAL ({gives}) AS lat ON TRUE{asked}", kinds
        return f"SELECT {listed} FROM {', '.join(froms)}, LATERAL ({gives}) AS lat{asked}", kinds

    def _spans(self) -> tuple[str, list[str]]:
        """Groups of spans of time: one after the other, overlapping, or sessions."""
        r = self.r
        times = [(t.name, c, t.columns) for t in self.relations for c, k in t.columns if k == "z"]
        if not times:
            return self.select()
        name, time, columns = r.choice(times)
        key, kind = r.choice([(c, k) for c, k in columns if c != time] or [("1", "n")])
        form = r.choice(("one after the other", "overlapping", "sessions"))
        if form == "one after the other":
            days = r.choice((10, 45, 100))
            bucket = f"time_bucket(INTERVAL {days} DAY, {time}, TIMESTAMP_NTZ '1970-01-01 00:00:00')"
            given = f"COUNT(*) AS c2 FROM {name} g"
            ours = f"SELECT {key} AS c0, window.start AS c1, {given} GROUP BY {key}, window({time}, '{days} days')"
            if r.random() < 0.4:
                rows = f"TUMBLE({name}, {time}, INTERVAL {days} DAYS)"
                ours = (
                    f"SELECT {key} AS c0, window_start AS c1, COUNT(*) AS c2 FROM {rows} GROUP BY {key}, window_start"
                )
            theirs = f"SELECT {key} AS c0, {bucket} AS c1, {given} WHERE {time} IS NOT NULL GROUP BY {key}, {bucket}"
        elif form == "overlapping":
            slide, times_ = r.choice((10, 30)), r.choice((2, 3))
            width = slide * times_
            if r.random() < 0.5:
                ours = (
                    f"SELECT {key} AS c0, window.start AS c1, COUNT(*) AS c2 FROM {name} g "
                    f"GROUP BY {key}, window({time}, '{width} days', '{slide} days')"
                )
            else:
                rows = f"HOP({name}, {time}, INTERVAL {slide} DAYS, INTERVAL {width} DAYS)"
                ours = (
                    f"SELECT {key} AS c0, window_start AS c1, COUNT(*) AS c2 FROM {rows} GROUP BY {key}, window_start"
                )
            last = f"time_bucket(INTERVAL {slide} DAY, {time}, TIMESTAMP_NTZ '1970-01-01 00:00:00')"
            begins = (
                f"(SELECT {key} AS k, {last} - INTERVAL {slide * i} DAY AS b FROM {name} g WHERE {time} IS NOT NULL)"
                for i in range(times_)
            )
            theirs = f"SELECT k AS c0, b AS c1, COUNT(*) AS c2 FROM ({' UNION ALL '.join(begins)}) AS w GROUP BY k, b"
        else:
            days = r.choice((20, 45, 70))
            ours = (
                f"SELECT {key} AS c0, session_window.start AS c1, COUNT(*) AS c2 FROM {name} g "
                f"GROUP BY {key}, session_window({time}, '{days} days')"
            )
            rows = f"SELECT {key} AS k, {time} AS ts FROM {name} g WHERE {time} IS NOT NULL"
            late = f"ts <= LAG(ts) OVER (PARTITION BY k ORDER BY ts) + INTERVAL {days} DAY"
            begun = f"SELECT k, ts, CASE WHEN {late} THEN 0 ELSE 1 END AS first FROM ({rows}) AS a"
            numbered = f"SELECT k, ts, SUM(first) OVER (PARTITION BY k ORDER BY ts) AS number FROM ({begun}) AS b"
            theirs = f"SELECT k AS c0, MIN(ts) AS c1, COUNT(*) AS c2 FROM ({numbered}) AS c GROUP BY k, number"
        self.spelled.append((ours, theirs))
        return ours, [kind, "z", "n"]

    def _two_out(self) -> tuple[str, list[str]]:
        """A subquery in a subquery, which reads the query around both."""
        r = self.r
        outer, middle, inner = (r.choice(self.relations) for _ in range(3))
        found = [(f"x.{c}", k) for c, k in outer.columns if k in PLAIN] or [("1", "n")]

        def tie(alias: str, relation: Relation, to: list[tuple[str, str]]) -> str:
            pairs = [(f"{alias}.{c}", b) for c, k in relation.columns for b, q in to if k == q]
            if not pairs:
                return "1 = 1"
            left, right = r.choice(pairs)
            return f"{left} {r.choice(('=', '=', '=', '<>', '<'))} {right}"

        both = [*found, *((f"m.{c}", k) for c, k in middle.columns)]
        deep = f"SELECT 1 FROM {inner.name} i WHERE {tie('i', inner, both)} AND {tie('i', inner, found)}"
        rows = f"FROM {middle.name} m WHERE {tie('m', middle, found)} AND {r.choice(('', 'NOT '))}EXISTS ({deep})"
        listed = ", ".join(f"{c} AS c{i}" for i, (c, _) in enumerate(found))
        kinds = [k for _, k in found]
        if r.random() < 0.5:
            return f"SELECT {listed} FROM {outer.name} x WHERE {r.choice(('', 'NOT '))}EXISTS (SELECT 1 {rows})", kinds
        return f"SELECT {listed}, (SELECT COUNT(*) {rows}) AS c{len(kinds)} FROM {outer.name} x", [*kinds, "n"]


def with_nested(case: Case, tables: Sequence[TableDef]) -> Case:
    """The case with a view more; all choices are its own, so that a seed's case is otherwise the same."""
    r = random.Random(f"nested {case.seed}")
    queries = NestedQueries(r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in tables])
    found = list(case.steps)
    for number in range(r.choice((1, 1, 2))):
        name, at = f"n{case.seed % 10}{number}", r.choice((0, 0, r.randint(0, len(found))))
        text, _ = queries.nested()
        new = [Step("view", name, text, oracle=queries.oracle(text))]
        if r.random() < 0.5:
            new.append(Step("feed", name, option=r.choice(("net", "per_update"))))
        found[at:at] = new
    return replace(case, steps=tuple(found))
