"""Random queries: joins, groups, subqueries, set operations, WITH and rules; some have expressions that fail."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.engine.expression_generator import NESTED, Scope
from tests.engine.order_generator import arranged

ALWAYS_FAILS = "SELECT 10 div 0 AS c0"


@dataclass
class Relation:
    """A table or earlier view: columns by name and class."""

    name: str
    columns: list[tuple[str, str]]


class Queries:
    """Writes random SELECTs over some relations; ``relations`` grows as views are made."""

    def __init__(self, r: random.Random, relations: list[Relation]) -> None:
        self.r = r
        self.relations = relations
        self.most = 4
        """Relations in one FROM: few where tables are large, else results explode."""
        self.risk = 0.0
        """How likely each part of a query is to have an expression that fails on some data."""
        self.probes: list[str] = []
        self.inputs: list[str] = []
        self._inside: tuple[list[str], list[str]] | None = None
        """The outputs and the FROM of the last SELECT, if it has no groups."""
        self._inside_cte: tuple[list[str], list[str]] | None = None

    def _fallible(self, scope: Scope) -> str | None:
        return scope.fallible() if self.risk and self.r.random() < self.risk else None

    def _froms(self, most: int, prefix: str) -> tuple[list[str], Scope, list[str]]:
        """FROM entries, their scope, and join conditions."""
        r = self.r
        most = min(most, self.most)
        size = r.choices(range(1, most + 1), (4, 5, 4, 2)[:most])[0]
        froms: list[str] = []
        conditions: list[str] = []
        scope = Scope(r)
        same = r.random() < 0.35
        first = r.choice(self.relations)
        entries: list[list[tuple[str, str]]] = []
        for i in range(size):
            relation = first if same else r.choice(self.relations)
            alias = f"{prefix}{i}"
            froms.append(f"{relation.name} {alias}")
            if relation.name == "cte":
                scope.merge(alias, self._inside_cte)
            mine = [(f"{alias}.{c}", k) for c, k in relation.columns]
            if entries and r.random() < 0.95:
                pairs = [(a, b, k) for e in entries for a, k in e for b, q in mine if k == q and k != "b"]
                for _ in range(r.choice((1, 1, 1, 1, 1, 2))):
                    if pairs:
                        conditions.append(self._join(*r.choice(pairs)))
            entries.append(mine)
            scope.columns += [(c, k, True) for c, k in mine]
        if size >= 3 and r.random() < 0.35:  # close a cycle
            pairs = [(a, b, k) for a, k in entries[0] for b, q in entries[-1] if k == q]
            if pairs:
                conditions.append(self._join(*r.choice(pairs)))
        if size >= 3 and r.random() < 0.3:
            cycle = self._cycle(froms, entries)
            conditions = cycle or conditions
        scope.froms = list(froms)
        return froms, scope, conditions

    def _join(self, a: str, b: str, kind: str) -> str:
        if self.r.random() < 0.92:
            return f"{a} = {b}"
        form = {"n": "{} + 1", "s": "upper({})", "f": "{} * 2"}.get(kind, "{}")
        return f"{a} = {form.format(b)}"

    def _cycle(self, froms: list[str], entries: list[list[tuple[str, str]]]) -> list[str]:
        numbers = [[c for c, k in e if k == "n"] for e in entries]
        if any(len(n) < 2 for n in numbers):
            return []
        size = len(numbers)
        return [f"{numbers[i][1]} = {numbers[(i + 1) % size][0]}" for i in range(size)]

    def select(self, depth: int = 0, shape: str | None = None, most: int = 4) -> tuple[str, list[str]]:
        """A SELECT and its columns' classes; ``shape`` asks for given classes."""
        r = self.r
        froms, scope, conditions = self._froms(most, "xyz"[depth])
        if depth == 0 and r.random() < 0.2:
            inner, kinds = self.select(1, most=2)
            froms.append(f"({inner}) w")
            mine = [(f"w.c{i}", k, True) for i, k in enumerate(kinds)]
            pairs = [(a, b) for a, k, _ in scope.columns for b, q, _ in mine if k == q]
            if pairs:
                conditions.append("{} = {}".format(*r.choice(pairs)))
            scope.columns += mine
            scope.froms.append(froms[-1])
            scope.merge("w", self._inside)
        for _ in range(r.choices((0, 1, 2), (7, 3, 1))[0]):
            conditions.append(scope.condition())
        if depth < 2 and r.random() < 0.18:
            conditions.append(self._subquery(scope, depth))
        r.shuffle(conditions)
        if text := self._fallible(scope):
            if conditions or len(froms) > 1:
                self.probes += scope.probes(text, conditions)
            conditions.append(f"{text} {r.choice(['>', '<=', '<>'])} {r.randint(0, 4)}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        body = f"FROM {', '.join(froms)}{where}"
        scope.conditions = conditions
        if r.random() < (0.6 if self.risk else 0.4):
            text, kinds = self._grouped(scope, body, shape)
            self._inside = None
            if self.risk and (depth or shape):
                self.probes.append(text)
            return text, kinds
        outputs = []
        kinds = []
        if shape is None:
            for _ in range(r.choices((1, 2, 3, 4), (2, 3, 3, 1))[0]):
                text, kind = scope.expression()
                outputs.append(text)
                kinds.append(kind)
            if r.random() < 0.05:
                kinds.append(r.choice("nsd"))
                outputs.append(scope.literal(kinds[-1]))
            if text := self._fallible(scope):
                halved = r.random() < 0.3
                outputs.append(f"12 / ({text})" if halved else text)
                kinds.append("v" if halved else "n")
                if depth:  # It becomes part of whatever reads it, to be computed on the rows of any table there.
                    self.probes.append(ALWAYS_FAILS)
        else:
            for kind in shape:
                fails = self._fallible(scope) if kind == "n" else None
                outputs.append(fails or r.choice(scope.of(kind) or [scope.literal(kind)]))
                kinds.append(kind)
        listed = ", ".join(f"{o} AS c{i}" for i, o in enumerate(outputs))
        distinct = "DISTINCT " if r.random() < 0.35 else ""
        text = f"SELECT {distinct}{listed} {body}"
        self._inside = outputs, froms
        if self.risk and (depth or shape):
            self.probes.append(text)
        return text, kinds

    def _subquery(self, scope: Scope, depth: int) -> str:
        r = self.r
        froms, inner, conditions = self._froms(2, "uvw"[depth])
        left, kind = scope.pick()
        if inner.of(kind) and r.random() < 0.5:
            column = r.choice(inner.of(kind))
            if r.random() < 0.3:
                conditions.append(inner.condition())
            where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
            return f"{left} IN (SELECT {column} FROM {', '.join(froms)}{where})"
        if inner.of(kind):
            conditions.append(f"{r.choice(inner.of(kind))} = {left}")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"EXISTS (SELECT 1 FROM {', '.join(froms)}{where})"

    def _aggregate(self, scope: Scope, kind: str | None = None) -> tuple[str, str]:
        r = self.r
        for _ in range(20):
            text, k = scope.expression(0.75)
            if fails := self._fallible_of_rows(scope):
                text, k = fails, "n"
            options: list[tuple[str, str]] = [
                ("COUNT(*)", "n"),
                (f"COUNT({text})", "n"),
                (f"COUNT(DISTINCT {text})", "n"),
            ]
            options += [(f"MIN({text})", k), (f"MAX({text})", k)] if k not in "b" + NESTED else []
            if k == "n":
                options += [(f"SUM({text})", "n"), (f"SUM({text})", "n"), (f"SUM(DISTINCT {text})", "n")]
                options += [
                    (f"AVG({text})", "f"),
                    (f"{r.choice(['VAR_SAMP', 'STDDEV', 'VAR_POP', 'STDDEV_POP'])}({text})", "v"),
                ]
                options += [(f"SUM({text}) FILTER (WHERE {scope.condition()})", "n")] if r.random() < 0.3 else []
            if k == "f":
                options += [(f"SUM({text})", "f"), (f"AVG({text})", "f"), (f"SUM(DISTINCT {text})", "f")]
                options += [(f"{r.choice(['VARIANCE', 'STDDEV'])}({text})", "v")]
            if k in "dw":
                options += [(f"SUM({text})", k), (f"SUM(DISTINCT {text})", k)]
                options += [(f"AVG({text})", "v")]
            found = r.choice(self._further_aggregates(scope, text, k) if r.random() < 0.3 else options)
            if kind is None or found[1] == kind:
                return found
        return "COUNT(*)", "n"

    def _further_aggregates(self, scope: Scope, text: str, kind: str) -> list[tuple[str, str]]:
        """Those that keep values in order, choose one by another, or are of pairs, bits and conditions.

        They are such that DuckDB, which decides in its own way between equal ones, has no choice.
        """
        r = self.r
        other, other_kind = scope.pick()
        some = f" FILTER (WHERE {scope.condition()})" if r.random() < 0.3 else ""
        options = [
            (f"{r.choice(['MAX_BY', 'MIN_BY'])}({text}, {text}){some}", kind),
            (f"COUNT(DISTINCT ({text}), ({other})){some}", "n"),  # NOT a IS NULL would be NOT (a IS NULL) to DuckDB
            (f"{r.choice(['BOOL_AND', 'BOOL_OR'])}({scope.condition()}){some}", "b"),
        ]
        options = options[1:] if kind in NESTED else options
        if kind == "n":
            share = r.choice(["0.3", "0.5", "1"])
            options += [(f"{r.choice(['BIT_AND', 'BIT_OR', 'BIT_XOR'])}({text}){some}", "n")]
            options += [(f"{r.choice(['MAX_BY', 'MIN_BY'])}({text} + 1, {text}){some}", kind)]
            options += [(f"MEDIAN({text}){some}", "v"), (f"MEDIAN(DISTINCT {text})", "v")]
            for name in ("PERCENTILE_CONT", "PERCENTILE_DISC"):
                options += [(f"{name}({share}) WITHIN GROUP (ORDER BY {text}){some}", "v")]
        if kind in "nf" and other_kind in "nf":
            name = r.choice(["REGR_AVGX", "REGR_AVGY", "REGR_COUNT", "COVAR_POP", "REGR_SXY"])
            options += [(f"{name}({text}, {other}){some}", "v")]
        return options

    def _grouped(self, scope: Scope, body: str, shape: str | None) -> tuple[str, list[str]]:
        r = self.r
        outputs: list[str] = []
        kinds: list[str] = []
        keys: list[str] = []
        if shape is None:
            for _ in range(r.choices((0, 1, 2), (5, 4, 1) if self.risk else (2, 5, 3))[0]):
                text, kind = scope.expression(0.8)
                if fails := self._fallible_of_rows(scope):
                    text, kind = fails, "n"
                keys.append(text)
                if r.random() < 0.9:
                    outputs.append(text)
                    kinds.append(kind)
            for _ in range(r.choices((1, 2, 3), (3, 3, 2))[0]):
                text, kind = self._aggregate(scope)
                if kind == "n" and r.random() < 0.1:
                    text += " + 1"
                outputs.append(text)
                kinds.append(kind)
            if text := self._fallible_of_groups(scope):
                outputs.append(text)
                kinds.append("v")
        else:
            for kind in shape:
                text, found = self._aggregate(scope, kind)
                if found != kind or r.random() < 0.5:
                    text = r.choice(scope.of(kind) or [scope.literal(kind)])
                    if scope.of(kind):
                        keys.append(text)
                outputs.append(text)
                kinds.append(kind)
            if not any("(" in o for o in outputs) and not keys:
                keys.append(scope.pick()[0])
        group = f" GROUP BY {', '.join(dict.fromkeys(keys))}" if keys else ""
        having = ""
        if r.random() < 0.2 and (keys or any("(" in o for o in outputs)):
            text, kind = self._aggregate(scope, "n")
            having = f" HAVING {text} {r.choice(['>', '<=', '<>', '='])} {r.randint(0, 3)}" if kind == "n" else ""
        if not having and (text := self._fallible_of_groups(scope)):
            having = f" HAVING {text} {r.choice(['>', '<='])} {r.randint(0, 4)}"
        if self.risk and not keys:
            self.inputs.append(f"SELECT COUNT(*) {body}")
        distinct = "DISTINCT " if r.random() < 0.08 and "v" not in kinds else ""
        listed = ", ".join(f"{o} AS c{i}" for i, o in enumerate(outputs))
        return f"SELECT {distinct}{listed} {body}{group}{having}", kinds

    def _fallible_of_rows(self, scope: Scope) -> str | None:
        """A key or an argument: computed on a table's rows before they are joined, where it reads one table."""
        text = self._fallible(scope)
        if text and (len(scope.froms) > 1 or any("SELECT" in c for c in scope.conditions)):
            self.probes += scope.probes(text, scope.conditions)
        return text

    def _fallible_of_groups(self, scope: Scope) -> str | None:
        """An expression over aggregates that fails for some groups."""
        r = self.r
        if not self.risk or r.random() >= 2 * self.risk:
            return None
        below, above, numbers = self._count(scope), self._count(scope), scope.of("n")
        forms = [f"10 / {below}", f"{above} / {below}", f"{above} div ({below} - 2)", f"12 / ({above} - {below})"]
        if numbers:
            x = r.choice(numbers)
            forms += [f"10 / SUM({x})", f"SUM({x}) / COUNT({x})", f"{above} div (MAX({x}) - MIN({x}) - 1)"]
        return r.choice(forms)

    def _count(self, scope: Scope) -> str:
        return self.r.choice(["COUNT(*)", f"COUNT({scope.pick()[0]})", f"COUNT(DISTINCT {scope.pick()[0]})"])

    def _ratio(self) -> tuple[str, list[str]]:
        """A ratio of two counts, each of which may be 0."""
        parts = []
        for name in "pq":
            froms, scope, conditions = self._froms(2, name)
            conditions += [scope.condition()] if self.r.random() < 0.5 else []
            body = f"FROM {', '.join(froms)}" + (f" WHERE {' AND '.join(conditions)}" if conditions else "")
            self.inputs.append(f"SELECT COUNT(*) {body}")
            parts.append(f"(SELECT {self._count(scope)} AS n {body}) {name}")
        form = self.r.choice(["p.n / q.n", "p.n div q.n", "10 div (p.n - q.n)"])
        return f"SELECT p.n AS c0, {form} AS c1 FROM {', '.join(parts)}", ["n", "v"]

    def query(self) -> tuple[str, list[str]]:
        """A query, or its first rows in an order, or its rows with the values of window functions."""
        text, kinds = self._query()
        r = random.Random(text)  # Its own, so that what else a seed makes does not depend on this.
        if self.risk or r.random() > 0.12 or not set(kinds) <= set("nsdtzb"):
            return text, kinds
        self._inside = self._inside_cte = None
        return arranged(r, text, kinds)

    def _query(self) -> tuple[str, list[str]]:
        """A SELECT, a set operation, or a CTE."""
        r = self.r
        if self.risk and r.random() < 0.12:
            return self._ratio()
        if r.random() < 0.08:
            inner, kinds = self.select(1, most=3)
            mine = len(self.probes), len(self.inputs)
            self._inside_cte = self._inside
            kept, self.relations = (
                self.relations,
                [
                    *self.relations,
                    *[Relation("cte", [(f"c{i}", k) for i, k in enumerate(kinds)])] * 3,
                ],
            )
            outer, found = self.select(0, most=3)
            self.relations = kept
            for first, queries in zip(mine, (self.probes, self.inputs), strict=True):
                queries[first:] = [f"WITH cte AS ({inner}) {q}" for q in queries[first:]]
            return f"WITH cte AS ({inner}) {outer}", found
        if r.random() < 0.78:
            return self.select()
        size = r.choices((2, 3), (4, 1))[0]
        shape = "".join(r.choices("nsfdb", (8, 3, 1, 1, 1), k=r.choice((1, 1, 2, 3))))
        text, kinds = self.select(shape=shape, most=3)
        for _ in range(size - 1):
            word = r.choice(["UNION", "UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"])
            text = f"({text}) {word} ({self.select(shape=shape, most=3)[0]})"
        return text, kinds

    def rules(self, name: str) -> tuple[str, str, list[str]] | None:
        """Rules over tables with integer columns, and the same in SQL."""
        r = self.r
        usable = [t for t in self.relations if all(k == "n" for _, k in t.columns)]
        if not usable:
            return None
        body = []
        places: dict[str, str] = {}
        conditions = []
        froms = []
        for i in range(r.randint(1, 4)):
            relation = r.choice(usable)
            froms.append(f"{relation.name} x{i}")
            terms = []
            for column, _ in relation.columns:
                variable = r.choice("pqrst")
                terms.append(variable)
                place = f"x{i}.{column}"
                if variable in places:
                    conditions.append(f"{places[variable]} = {place}")
                else:
                    places[variable] = place
            body.append(f"{relation.name}({', '.join(terms)})")
        head = r.sample(sorted(places), r.randint(1, len(places)))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        listed = ", ".join(f"{places[v]} AS {v}" for v in head)
        sql = f"SELECT DISTINCT {listed} FROM {', '.join(froms)}{where}"
        return f"{name}({', '.join(head)}) :- {', '.join(body)}.", sql, head
