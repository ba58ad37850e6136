"""Random cases for the engine: a schema, views of every shape, and a script of updates, feeds and failures.

A case is plain data made from a seed, so that it can be printed, run again and made smaller. Steps are lenient: the
runner drops deletes of rows that are not there and second rows of a key, so that any part of a script is a script.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

Row = tuple[Any, ...]

TYPES = {
    "n": ("INT", "BIGINT", "SMALLINT"),
    "s": ("STRING",),
    "f": ("DOUBLE",),
    "d": ("DECIMAL(6,2)",),
    "w": ("DECIMAL(22,3)",),
    "t": ("DATE",),
    "z": ("TIMESTAMP_NTZ",),
    "b": ("BOOLEAN",),
}
STRINGS = ["a", "b", "A", "ab", "it's", "", "ü", "b"]
HUGE = 2**62
ALWAYS_FAILS = "SELECT 10 div 0 AS c0"


@dataclass(frozen=True)
class ColumnDef:
    """A column: its class is the first letter of ``kind``."""

    name: str
    kind: str
    type: str
    nullable: bool


@dataclass(frozen=True)
class TableDef:
    """A table and its primary key, by position."""

    name: str
    columns: tuple[ColumnDef, ...]
    key: tuple[int, ...] = ()

    def ddl(self) -> str:
        inner = [f"{c.name} {c.type}{'' if c.nullable else ' NOT NULL'}" for c in self.columns]
        if self.key:
            inner.append(f"PRIMARY KEY ({', '.join(self.columns[i].name for i in self.key)})")
        return f"CREATE TABLE {self.name} ({', '.join(inner)})"


@dataclass(frozen=True)
class Fallible:
    """What is to be known of a view with expressions that fail on some data, to judge a batch by."""

    probes: tuple[str, ...] = ()
    """Queries over parts of the view. SQL does not say on which rows a condition is computed, nor whether a subquery's
    column that nobody reads is: where only one of these fails, the view may have a result or not."""
    inputs: tuple[str, ...] = ()
    """Counts of what its aggregates without GROUP BY are made of: where one is 0, their row is that over no input."""


@dataclass(frozen=True)
class Step:
    """One step. ``kind``: view, rules, batch, feed, close, bad, alter, load, advance."""

    kind: str
    name: str = ""
    text: str = ""
    operations: tuple[tuple[str, str, tuple[Row, ...]], ...] = ()
    option: str = ""
    fallible: Fallible | None = None
    oracle: str = ""
    """The same query in words that DuckDB knows, where it has others."""
    options: str = ""
    """OPTIONS (…) of a view: they ask for a way of maintenance, and never change its rows."""

    def definition(self) -> str:
        """The statement that makes a view of SQL."""
        options = f" OPTIONS ({self.options})" if self.options else ""
        return f"CREATE MATERIALIZED VIEW {self.name}{options} AS {self.text}"

    def alteration(self) -> str:
        """The statement that gives a view other options."""
        return f"ALTER MATERIALIZED VIEW {self.name} SET OPTIONS ({self.options})"


@dataclass(frozen=True)
class Case:
    """Everything that is needed to run it again."""

    seed: int
    tables: tuple[TableDef, ...]
    steps: tuple[Step, ...]
    check_updates: bool = False
    clock: datetime | None = None
    """What time it is at the beginning, if anything goes by it; steps of the kind ``advance`` have it go on."""

    def show(self) -> str:
        lines = [f"-- seed {self.seed}", *(f"{t.ddl()};" for t in self.tables)]
        for i, s in enumerate(self.steps):
            if s.kind in ("view", "rules"):
                lines.append(f"{i}: {s.definition() if s.options else s.text}")
            elif s.kind == "alter":
                lines.append(f"{i}: {s.alteration()}")
            elif s.operations:
                lines.append(f"{i}: {s.kind} {s.option}")
                lines += [f"     {op} {table} {list(rows)!r}" for op, table, rows in s.operations]
            else:
                lines.append(f"{i}: {s.kind} {s.name} {s.option}")
        return "\n".join(lines)

    def without(self, start: int, stop: int) -> Case:
        return replace(self, steps=self.steps[:start] + self.steps[stop:])


# --- schemas and rows ------------------------------------------------------------------------------------------------


def _columns(r: random.Random, size: int) -> tuple[ColumnDef, ...]:
    found = []
    for i in range(size):
        kind = r.choices("nsfdwtzb", (12, 4, 2, 2, 1, 1, 1, 1))[0]
        type_ = r.choices(TYPES[kind], (5, 4, 1))[0] if kind == "n" else r.choice(TYPES[kind])
        found.append(ColumnDef("abcdefg"[i], kind, type_, r.random() < 0.7))
    return tuple(found)


def tables(r: random.Random) -> tuple[TableDef, ...]:
    found = []
    for i in range(r.choices((1, 2, 3, 4), (2, 4, 3, 1))[0]):
        if r.random() < 0.35:  # edges, for cycles
            columns = tuple(ColumnDef(n, "n", r.choice(("INT", "BIGINT")), r.random() < 0.5) for n in "ab")
        else:
            columns = _columns(r, r.choices((1, 2, 3, 4), (1, 3, 3, 2))[0])
        key: tuple[int, ...] = ()
        if r.random() < 0.2:
            key = tuple(sorted(r.sample(range(len(columns)), r.choice((1, min(2, len(columns)))))))
            key = tuple(k for k in key if columns[k].kind in "nsdt")
        found.append(TableDef(f"t{i}", columns, key))
    return tuple(found)


def value(r: random.Random, column: ColumnDef, key: bool, domain: int) -> Any:
    if column.nullable and not key and r.random() < 0.12:
        return None
    number = min(r.randint(0, domain), r.randint(0, domain))  # skewed to the small ones
    if r.random() < 0.1:
        number = -number
    match column.kind:
        case "n":
            return number
        case "s":
            return r.choice(STRINGS)
        case "f":
            return number / 4 if r.random() < 0.95 else r.choice([-0.0, 0.0, 1e10])
        case "d":
            return Decimal(number * 25).scaleb(-2)
        case "w":
            return Decimal(number * 10**15 + 125).scaleb(-3)
        case "t":
            return date(1999, 1 + abs(number) % 12, 1)
        case "z":
            return datetime(1999, 1 + abs(number) % 12, 1, 3, 30)
        case "y":
            return r.choice([b"", b"a", b"\x00\xff"])
        case _:
            return number % 2 == 0


# --- expressions -----------------------------------------------------------------------------------------------------


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
        computed from those of one relation alone.
        """
        equal = [found.groups() for c in conditions if (found := re.fullmatch(r"(\w+\.\w+) = ([^\s'].*)", c))]
        ways = [(old, new if re.fullmatch(r"\w+\.\w+", new) else f"({new})") for old, new in equal]
        ways += [(new, old) for old, new in equal if re.fullmatch(r"\w+\.\w+", new)]
        ways += [(column, f"({made})") for column, (made, _) in self.inner.items()]
        ways = [(old, new) for old, new in ways if re.search(r"\b[a-z]\w*\.", new) and old not in new]
        texts = [text]
        for one in texts:  # it grows
            further = (re.sub(rf"\b{old}\b", new, one) for old, new in ways)
            texts += [t for t in dict.fromkeys(further) if t not in texts] if len(texts) < 24 else []
        found = []
        for one in texts:
            known = dict.fromkeys([*self.froms, *(f for _, inside in self.inner.values() for f in inside)])
            froms = [f for f in known if re.search(rf"\b{f.split()[-1]}\.", one)]
            found.append(f"SELECT COUNT({one}) FROM {', '.join(froms)}")
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
            case _:
                return r.choice(["TRUE", "FALSE"])

    def condition(self) -> str:
        """A condition without subqueries."""
        r = self.r
        left, kind = self.expression(0.8)
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


# --- queries ---------------------------------------------------------------------------------------------------------


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
            options += [(f"MIN({text})", k), (f"MAX({text})", k)] if k != "b" else []
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
            (f"COUNT(DISTINCT {text}, {other}){some}", "n"),
            (f"{r.choice(['BOOL_AND', 'BOOL_OR'])}({scope.condition()}){some}", "b"),
        ]
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


# --- scripts ---------------------------------------------------------------------------------------------------------


class Script:
    """Makes the steps of a case."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.r = random.Random(seed)
        self.tables = tables(self.r)
        self.domain = self.r.choice((1, 2, 3, 5))
        self.inserted: dict[str, list[Row]] = {t.name: [] for t in self.tables}
        self.queries = Queries(self.r, [Relation(t.name, [(c.name, c.kind) for c in t.columns]) for t in self.tables])
        self.views: list[str] = []
        self.feeds = 0
        self.most = self.r.choice((4, 7, 12))
        self.queries.most = 3 if self.most == 12 else 4
        self.fails = seed % 3 == 1
        """Views have expressions that fail on some data, and batches pass through such states."""
        self.queries.risk = 0.25 if self.fails else 0.0

    def row(self, table: TableDef) -> Row:
        known = self.inserted[table.name]
        if known and not table.key and self.r.random() < 0.2:
            return self.r.choice(known)
        return tuple(value(self.r, c, i in table.key, self.domain) for i, c in enumerate(table.columns))

    def operation(self, style: str) -> tuple[str, str, tuple[Row, ...]]:
        r = self.r
        table = r.choice(self.tables)
        known = self.inserted[table.name]
        full = len(known) >= self.most
        if style == "insert" and not full:
            delete = False
        else:
            delete = bool(known) and (full or r.random() < (0.45 if style != "insert" else 1.0))
        if delete and style == "keys":
            delete = r.random() < 0.8
        if delete:
            count = r.randint(1, min(len(known), 4))
            rows = known[:count] if style == "fifo" else r.sample(known, count)
            for row in rows:
                known.remove(row)
            return "delete", table.name, tuple(rows)
        rows = [self.row(table) for _ in range(r.randint(1, max(2, self.most // 2)))]
        if table.key and r.random() < 0.5:
            gone = {tuple(row[i] for i in table.key) for row in rows}
            self.inserted[table.name] = [k for k in known if tuple(k[i] for i in table.key) not in gone]
            last = {tuple(row[i] for i in table.key): row for row in rows}
            self.inserted[table.name] += last.values()
            return "upsert", table.name, tuple(rows)
        known += rows
        return "insert", table.name, tuple(rows)

    def adversarial(self) -> list[tuple[str, str, tuple[Row, ...]]]:
        """The same rows in and out again, within one batch."""
        table = self.r.choice(self.tables)
        rows = tuple(self.row(table) for _ in range(self.r.randint(1, 3)))
        known = self.inserted[table.name]
        out = tuple(self.r.sample(known, min(len(known), 2)))
        return [
            ("insert", table.name, rows),
            ("delete", table.name, out),
            ("insert", table.name, out),
            ("delete", table.name, rows[:2]),
            ("insert", table.name, rows[:1]),
            ("delete", table.name, rows[2:]),
            ("delete", table.name, rows[:1]),
        ]

    def passing(self) -> list[tuple[str, str, tuple[Row, ...]]]:
        """Several operations over several tables: rows that come and go again, or go and come, and some that stay."""
        r = self.r
        lanes: list[list[tuple[str, str, tuple[Row, ...]]]] = []
        for table in r.sample(self.tables, r.randint(1, min(3, len(self.tables)))):
            known = self.inserted[table.name]
            for _ in range(r.randint(1, 2)):
                row = (self.row(table),)
                lanes.append([("insert", table.name, row), ("delete", table.name, row)])
            if known and r.random() < 0.6:
                out = (r.choice(known),)
                lanes.append([("delete", table.name, out), ("insert", table.name, out)])
            lanes.append([self.operation("random")])
        found = []
        while lanes:
            lane = r.choice(lanes)
            found.append(lane.pop(0))
            lanes = [rest for rest in lanes if rest]
        return found

    def bad(self) -> Step:
        r = self.r
        saved = {k: list(v) for k, v in self.inserted.items()}
        operations = [self.operation("random") for _ in range(r.randint(0, 2))]
        operations = [o for o in operations if o[0] != "upsert"]
        table = r.choice(self.tables)
        kind = r.choice(["over_delete", "duplicate_key", "type", "null", "overflow", "arity", "expression"])
        operations.append((kind, table.name, (self.row(table), self.row(table))))
        operations += [o for o in [self.operation("insert")] if o[0] == "insert"]
        self.inserted = saved
        return Step("bad", option=kind, operations=tuple(operations))

    def filled(self) -> Step:
        """Rows for every table at once, as many as there will be."""
        operations = []
        for table in self.tables:
            rows = tuple(self.row(table) for _ in range(self.r.randint(1, self.most)))
            self.inserted[table.name] += rows
            operations.append(("insert", table.name, rows))
        return Step("batch", operations=tuple(operations), option=self.r.choice(["plain", "apply"]))

    def view(self) -> Step:
        name = f"v{len(self.views)}"
        if self.r.random() < 0.06 and (found := self.queries.rules(name)):
            text, sql, head = found
            self.views.append(name)
            self.queries.relations.append(Relation(name, [(h, "n") for h in head]))
            return Step("rules", name, text, option=sql)
        self.queries.probes, self.queries.inputs = [], []
        text, kinds = self.queries.query()
        self.views.append(name)
        readable = [(f"c{i}", k) for i, k in enumerate(kinds) if k != "v"]
        if readable and self.r.random() < 0.6:
            self.queries.relations.append(Relation(name, readable))
        fallible = Fallible(tuple(self.queries.probes), tuple(self.queries.inputs)) if self.fails else None
        return Step("view", name, text, fallible=fallible)

    def steps(self) -> tuple[Step, ...]:
        r = self.r
        style = r.choice(["insert", "fifo", "random", "random", "keys"])
        found: list[Step] = []
        wanted = r.choices((1, 2, 3), (5, 3, 1))[0]
        late = r.random() < 0.4
        if not late:
            found += [self.view() for _ in range(wanted)]
        if r.random() < 0.75:
            found.append(self.filled())
        for _ in range(r.randint(2, 6)):
            roll = r.random()
            if late and len(self.views) < wanted and roll < 0.5:
                found.append(self.view())
            if self.views and r.random() < 0.35:
                self.feeds += 1
                option = r.choice(["net", "net", "per_update", "subscribe", "subscribe_per_update"])
                found.append(Step("feed", r.choice(self.views), option=option))
            if self.feeds and r.random() < 0.1:
                found.append(Step("close", option=str(r.randrange(self.feeds))))
            if r.random() < 0.12:
                found.append(self.bad())
            if r.random() < 0.12:
                operations = self.adversarial()
            elif self.fails and r.random() < 0.5:
                operations = self.passing()
            else:
                operations = [self.operation(style) for _ in range(r.choices((1, 2, 4), (4, 2, 1))[0])]
            found.append(Step("batch", operations=tuple(operations), option=r.choice(["plain", "plain", "apply"])))
        while len(self.views) < wanted:
            found.append(self.view())
        return tuple(found)


# --- the dial between updates and reads -------------------------------------------------------------------------------

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


def case_for(seed: int, schema: tuple[TableDef, ...], views: tuple[str, ...]) -> Case:
    """A case with given tables and views under random updates; the views are v0, v1, …"""
    script = Script(seed)
    script.tables = schema
    script.inserted = {t.name: [] for t in schema}
    script.most, script.domain = 6, 3
    steps = [Step("view", f"v{i}", text) for i, text in enumerate(views)]
    if seed % 2:
        steps.insert(0, script.filled())
    for option in ("net", "per_update"):
        steps += [Step("feed", f"v{i}", option=option) for i in range(len(views))]
    for i in range(5):
        steps.append(
            script.filled()
            if i == 1
            else script.bad()
            if i == 3
            else Step("batch", operations=(script.operation("random"), script.operation("fifo")), option="plain")
        )
    steps.append(Step("close", option="0"))
    steps.append(Step("batch", operations=tuple(script.adversarial()), option="plain"))
    return Case(seed, schema, tuple(steps), check_updates=True)


def make_case(seed: int) -> Case:
    """The case of a seed."""
    from tests.engine.clocked_generator import with_clock  # which are made of what is above
    from tests.engine.nested_generator import with_nested
    from tests.engine.subquery_generator import with_subqueries

    script = Script(seed)
    steps = script.steps()
    case = dialled(Case(seed, script.tables, steps, script.r.random() < 0.3))
    if script.fails:
        return case
    found = (with_nested if seed % 2 else with_subqueries)(case, script.tables)
    return with_clock(found, script.tables) if seed % 5 == 0 else found
