"""Random queries with outer and anti joins, and with subqueries wherever an expression may stand, alone and nested."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from tests.engine.case_data import Case, Step, TableDef
from tests.engine.expression_generator import NESTED, Scope
from tests.engine.query_generator import Queries, Relation

_SIGNS = ("<", "<=", ">", ">=", "<>", "=")


class SubqueryQueries(Queries):
    """Writes SELECTs whose FROM has outer joins, and whose conditions and outputs have subqueries."""

    def __init__(self, r: random.Random, relations: list[Relation]) -> None:
        super().__init__(r, relations)
        self.most = 2

    def _froms(self, most: int, prefix: str) -> tuple[list[str], Scope, list[str]]:
        froms, scope, conditions = super()._froms(most, prefix)
        if self.r.random() < 0.45:
            froms = self._outer_joined(froms, scope, prefix)
        return froms, scope, conditions

    def _outer_joined(self, froms: list[str], scope: Scope, prefix: str) -> list[str]:
        """One or two relations joined to the last one by outer or anti joins."""
        r = self.r
        *others, last = froms
        alias = f"{prefix}{len(froms) - 1}"
        mine = [(c, k) for c, k, _ in scope.columns if c.startswith(f"{alias}.")]
        for i in range(r.choice((1, 1, 2))):
            relation, name = r.choice(self.relations), f"{prefix}o{i}"
            columns = [(f"{name}.{c}", k) for c, k in relation.columns]
            pairs = [(a, b, k) for a, k in mine for b, q in columns if k == q]
            if not pairs:
                break
            a, b, _ = r.choice(pairs)
            parts = [f"{a} {'IS NOT DISTINCT FROM' if r.random() < 0.15 else '='} {b}"]
            own = Scope(r, [(c, k, True) for c, k in (*mine, *columns)])
            if r.random() < 0.35:
                parts.append(own.condition())
            if r.random() < 0.25 and (ordered := [p for p in pairs if p[2] not in NESTED]):
                x, y, _ = r.choice(ordered)
                parts.append(f"{x} {r.choice(_SIGNS)} {y}")
            if r.random() < 0.05:
                parts = parts[1:] or parts
            join = r.choice(("LEFT JOIN", "LEFT JOIN", "LEFT OUTER JOIN", "RIGHT JOIN", "FULL JOIN", "ANTI JOIN"))
            item = f"{relation.name} {name}"
            if join == "ANTI JOIN":
                last = f"{last} LEFT {join} {item} ON {' AND '.join(parts)}"
                continue
            last = f"{last} {join} {item} ON {' AND '.join(parts)}"
            mine += columns
            scope.columns += [(c, k, True) for c, k in columns]
        return [*others, last]

    def _rows(self, scope: Scope, depth: int) -> tuple[str, Scope]:
        """FROM and WHERE of a subquery, tied to the query around it in one way or another."""
        r = self.r
        froms, inner, conditions = self._froms(1 if depth else 2, "uvw"[depth])
        for _ in range(r.choices((0, 1, 2), (3, 6, 2))[0]):
            left, kind = scope.pick()
            if inner.of(kind):
                signs = _SIGNS[4:] if kind in NESTED else _SIGNS
                sign = r.choices(("=", "IS NOT DISTINCT FROM", r.choice(signs)), (7, 1, 3))[0]
                conditions.append(f"{r.choice(inner.of(kind))} {sign} {left}")
        if r.random() < 0.25:
            conditions.append(inner.condition())
        if depth < 1 and r.random() < 0.12:
            conditions.append(self._subquery(inner, depth + 1))
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f"FROM {', '.join(froms)}{where}", inner

    def _truth(self, scope: Scope, depth: int) -> str:
        """A truth value made of a subquery."""
        r = self.r
        rows, inner = self._rows(scope, depth)
        left, kind = scope.pick()
        columns = inner.of(kind)
        if not columns or r.random() < 0.35:
            return f"{r.choice(('', 'NOT '))}EXISTS (SELECT 1 {rows})"
        column = r.choice(columns)
        form = r.random()
        if form < 0.5:  # DuckDB errs where a NULL ties the subquery of an IN to the query around it
            rows, inner = self._rows(_Nothing(r), depth)
            if inner.of(kind):
                return f"{left} {r.choice(('', 'NOT '))}IN (SELECT {r.choice(inner.of(kind))} {rows})"
            return f"EXISTS (SELECT 1 {rows})"
        if form < 0.75 and kind not in "b" + NESTED:
            rows, inner = self._rows(_Nothing(r), depth)
            column = r.choice(inner.of(kind) or [scope.literal(kind)])
            return f"{left} {r.choice(_SIGNS)} {r.choice(('ANY', 'ALL', 'SOME'))} (SELECT {column} {rows})"
        if kind in "b" + NESTED:
            return f"NOT EXISTS (SELECT 1 {rows})"
        if r.random() < 0.2:
            first = f"ORDER BY {column} {r.choice(('NULLS FIRST', 'DESC NULLS LAST'))} LIMIT 1"
            return f"{left} {r.choice(_SIGNS)} (SELECT {column} {rows} {first})"
        return f"{left} {r.choice(_SIGNS)} (SELECT {r.choice(('MIN', 'MAX'))}({column}) {rows})"

    def _subquery(self, scope: Scope, depth: int) -> str:
        r = self.r
        text = self._truth(scope, depth)
        if r.random() < 0.25:
            return f"({text} OR {scope.condition()})"
        if r.random() < 0.1:
            return f"NOT ({text} AND {scope.condition()})"
        return text

    def _value(self, scope: Scope, depth: int) -> tuple[str, str]:
        """A subquery that stands for a value, and its kind."""
        r = self.r
        if r.random() < 0.3:
            return f"({self._truth(scope, depth)})", "b"
        rows, inner = self._rows(scope, depth)
        text, kind = self._aggregate(inner)
        if kind in "vf" or "DISTINCT" in text or "FILTER" in text:
            text, kind = "COUNT(*)", "n"
        plus = " + 1" if kind == "n" and r.random() < 0.2 else ""
        return f"(SELECT {text}{plus} {rows})", kind

    def select(self, depth: int = 0, shape: str | None = None, most: int = 4) -> tuple[str, list[str]]:
        r = self.r
        if shape is not None or depth:
            return super().select(depth, shape, most)
        froms, scope, conditions = self._froms(2, "x")
        conditions += [scope.condition()] if r.random() < 0.3 else []
        conditions += [self._subquery(scope, 0) for _ in range(r.choices((0, 1, 2), (4, 5, 1))[0])]
        r.shuffle(conditions)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        body = f"FROM {', '.join(froms)}{where}"
        if r.random() < 0.35:
            text, kinds = self._grouped(scope, body, None)
            if " HAVING" not in text and " GROUP BY" in text and r.random() < 0.3:
                rows, _ = self._rows(_Nothing(r), 1)
                text += f" HAVING COUNT(*) {r.choice(_SIGNS)} (SELECT COUNT(*) {rows})"
            return text, kinds
        found = [scope.expression() for _ in range(r.choices((1, 2, 3), (3, 4, 2))[0])]
        found += [self._value(scope, 0) for _ in range(r.choices((0, 1, 2), (5, 4, 1))[0])]
        listed = ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(found))
        distinct = "DISTINCT " if r.random() < 0.2 else ""
        return f"SELECT {distinct}{listed} {body}", [kind for _, kind in found]


class _Nothing(Scope):
    """A scope without columns, for subqueries that are tied to nothing."""

    def pick(self) -> tuple[str, str]:
        return "", "?"


def with_subqueries(case: Case, tables: Sequence[TableDef]) -> Case:
    """The case with a view or two more; all choices are its own, so that a seed's case is otherwise the same."""
    r = random.Random(f"subqueries {case.seed}")
    queries = SubqueryQueries(r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in tables])
    found = list(case.steps)
    for number in range(r.choice((1, 1, 2))):
        name, at = f"s{case.seed % 10}{number}", r.choice((0, 0, r.randint(0, len(found))))
        text, kinds = queries.select()
        new = [Step("view", name, text)]
        if r.random() < 0.5:
            new.append(Step("feed", name, option=r.choice(("net", "per_update"))))
        readable = [(f"c{i}", k) for i, k in enumerate(kinds) if k not in "v?"]
        if readable and r.random() < 0.3:
            queries.relations.append(Relation(name, readable))
        found[at:at] = new
        if len(queries.relations) > len(tables):
            break  # what reads it would have to come after it
    return replace(case, steps=tuple(found))
