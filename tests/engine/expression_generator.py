"""Random expressions and conditions over what a FROM offers."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field

from tests.engine.schema_generator import STRINGS

NESTED = "AS"
"""Kinds of arrays and structs."""


@dataclass
class Scope:
    """What FROM offers: (expression, class) pairs."""

    r: random.Random
    columns: list[tuple[str, str, bool]] = field(default_factory=list)
    froms: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    inner: dict[str, tuple[str, list[str]]] = field(default_factory=dict)
    """What columns of subqueries are made of, and the FROM of these: a subquery may become part of what reads it."""

    def merge(self, alias: str, inside: tuple[list[str], list[str]] | None) -> None:
        """Know the outputs and the FROM of a subquery, if it can be merged."""
        outputs, froms = inside or ([], [])
        self.inner |= {f"{alias}.c{i}": (output, froms) for i, output in enumerate(outputs)}

    def fallible(self) -> str | None:
        """An expression with an integer's value that fails on some rows: a divisor is 0, text is no number."""
        r = self.r
        numbers, texts = self.of("n"), self.of("s")
        forms: list[str] = []
        if numbers:
            x, y, literal = r.choice(numbers), r.choice(numbers), r.choice((-2, -1, 1, 2, 3, 4, 5))
            shifted = f"({x} {'-' if literal > 0 else '+'} {abs(literal)})"
            forms += [f"10 div {shifted}", f"{y} div {shifted}", f"7 % {shifted}", f"CAST({x} * 50 AS TINYINT)"]
            others = [n for n in numbers if n.split(".")[0] != x.split(".")[0]]
            forms += [f"10 div ({x} - {r.choice(others)} + {r.randint(0, 2)})"] * 3 if others else []
        if texts:
            s, t = r.choice(texts), r.choice(texts)
            forms += [f"CAST(CASE WHEN {s} = 'ab' THEN {s} ELSE '7' END AS INT)"]
            forms += [f"CAST(CASE WHEN {s} > {t} THEN {s} ELSE '1' END AS INT)"]
        return r.choice(forms) if forms else None

    def probes(self, text: str, conditions: list[str]) -> list[str]:
        """Queries that fail where the expression fails on any rows of what it reads, whether those join or not.

        Columns that conditions equate, with others or with what is computed of others, are one: the expression may be
        computed from those of one relation alone, or, where subqueries have literals, of none.
        """
        equal = [found.groups() for c in conditions if (found := re.fullmatch(r"(\w+\.\w+) = ([^\s'].*)", c))]
        ways = [(old, new if re.fullmatch(r"\w+\.\w+", new) else f"({new})") for old, new in equal]
        ways += [(new, old) for old, new in equal if re.fullmatch(r"\w+\.\w+", new)]
        ways = [(old, new) for old, new in ways if re.search(r"\b[a-z]\w*\.", new)]
        ways += [(column, f"({made})") for column, (made, _) in self.inner.items()]
        ways = [(old, new) for old, new in ways if old not in new]
        texts = [text]
        for one in texts:  # it grows
            further = (re.sub(rf"\b{old}\b", new, one) for old, new in ways)
            texts += [t for t in dict.fromkeys(further) if t not in texts] if len(texts) < 24 else []
        found = []
        for one in texts:
            known = dict.fromkeys([*self.froms, *(f for _, inside in self.inner.values() for f in inside)])
            froms = [f for f in known if re.search(rf"\b{f.split()[-1]}\.", one)]
            found.append(f"SELECT COUNT({one})" + (f" FROM {', '.join(froms)}" if froms else ""))
        return found

    def of(self, kinds: str) -> list[str]:
        return [c for c, k, _ in self.columns if k in kinds]

    def pick(self) -> tuple[str, str]:
        column, kind, _ = self.r.choice(self.columns)
        return column, kind

    def expression(self, plainness: float = 0.7) -> tuple[str, str]:
        """An expression and its class."""
        r = self.r
        column, kind = self.pick()
        if r.random() < plainness:
            return column, kind
        other = r.choice(self.of(kind))
        match kind:
            case "n":
                forms = [
                    f"{column} + 1",
                    f"{column} + {other}",
                    f"ABS({column})",
                    f"COALESCE({column}, 2)",
                    f"-{column}",
                    f"{column} * {other}",
                    f"CASE WHEN {column} > 1 THEN {other} ELSE 0 END",
                    f"CAST({column} AS BIGINT)",
                    f"{column} - {other}",
                ]
            case "s":
                forms = [
                    f"upper({column})",
                    f"concat({column}, 'x')",
                    f"COALESCE({column}, 'none')",
                    f"concat({column}, {other})",
                    f"CASE WHEN {column} = 'a' THEN {other} END",
                ]
            case "f":
                forms = [f"{column} * 2", f"{column} + {other}", f"COALESCE({column}, 0.5D)"]
            case "d":
                forms = [f"{column} + {other}", f"CAST({column} AS DECIMAL(10,3))", f"-{column}"]
            case "w":
                forms = [f"-{column}", f"COALESCE({column}, {other})"]
            case "t":
                return r.choice([(f"date_add({column}, 1)", "t"), (f"year({column})", "n"), (f"month({column})", "n")])
            case "b":
                return r.choice(
                    [(f"NOT {column}", "b"), (f"{column} AND {other}", "b"), (f"CAST({column} AS INT)", "n")]
                )
            case _:  # Averages and the like: DuckDB rounds where Spark cuts.
                return column, kind
        return r.choice(forms), kind

    def literal(self, kind: str) -> str:
        r = self.r
        number = r.randint(-1, 4)
        match kind:
            case "n":
                return str(number)
            case "s":
                return "'" + r.choice(STRINGS).replace("'", "''") + "'"
            case "f":
                return f"{number / 2}D"
            case "d" | "w":
                return f"{number * 25 / 100:.2f}"
            case "t":
                return f"DATE '1999-0{abs(number) + 1}-01'"
            case "z":
                return f"TIMESTAMP_NTZ '1999-0{abs(number) + 1}-01 03:30:00'"
            case "A":
                return r.choice(["array(1)", "array(2, 2)", "array(0, 1)"])
            case "S":
                return f"named_struct('x', {abs(number)}, 'y', {self.literal('s')})"
            case _:
                return r.choice(["TRUE", "FALSE"])

    def condition(self) -> str:
        """A condition without subqueries."""
        r = self.r
        left, kind = self.expression(0.8)
        if kind in NESTED:  # the two put NULL elsewhere in their order
            forms = [f"{left} IS NOT NULL", f"{left} IS NULL"]
            forms += [f"{left} {sign} {r.choice(self.of(kind))}" for sign in ("=", "<>", "<=>")]
            forms += [f"{left} = {self.literal(kind)}", f"{left} IN ({self.literal(kind)}, {self.literal(kind)})"]
            return r.choice(forms)
        right = r.choice(self.of(kind) or [self.literal(kind)])
        literal = self.literal(kind)
        forms = [
            f"{left} = {literal}",
            f"{left} {r.choice(['<', '>', '<=', '>=', '<>'])} {literal}",
            f"{left} {r.choice(['<', '<>', '>='])} {right}",
            f"{left} IS NOT NULL",
            f"{left} IS NULL",
            f"{left} IN ({literal}, {self.literal(kind)})",
            f"{left} <=> {right}",
            f"({left} = {literal} OR {right} > {self.literal(kind)})",
            f"NOT ({left} = {literal})",
            f"{left} BETWEEN {literal} AND {self.literal(kind)}",
        ]
        return r.choice(forms)
