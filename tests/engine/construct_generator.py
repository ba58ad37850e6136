"""Further constructs for random queries: each over a query of any other, and read by any other."""

from __future__ import annotations

import random

from tests.engine.generator import Scope

PLAIN = set("nsdtzb")
"""Kinds whose values both systems put in one order, and count as equal or not alike."""
Found = tuple[str, list[str]]
Spelled = list[tuple[str, str]]


class Constructs:
    """Writes one construct over a query whose columns are c0, c1 and so on, of given kinds.

    ``spelled`` gets what DuckDB has other words for, and those.
    """

    def __init__(self, r: random.Random, spelled: Spelled) -> None:
        self.r = r
        self.spelled = spelled

    def over(self, text: str, kinds: list[str]) -> Found | None:
        """One of them, at random, if the query has the columns that it needs; all kinds are plain."""
        forms = (
            self.with_ties,
            self.qualified,
            self.ranged,
            self.further_windows,
            self.exploded,
            self.exploded_outer,
            self.with_positions,
            self.pivoted,
            self.unpivoted,
            self.with_values,
            self.with_numbers,
            self.collected,
            self.chosen,
            self.as_nested,
            self.taken_apart,
            self.named_before,
            self.semi_joined,
            self.by_name,
        )
        return self.r.choice(forms)(text, kinds)

    # --- parts -------------------------------------------------------------------------------------------------------

    def _columns(self, kinds: list[str]) -> list[str]:
        return [f"c{i}" for i in range(len(kinds))]

    def _of(self, kinds: list[str], wanted: str) -> list[str]:
        return [f"c{i}" for i, k in enumerate(kinds) if k in wanted]

    def _order(self, kinds: list[str]) -> list[str]:
        """All columns in some order, ascending or not, with NULL at either end."""
        ways = (" NULLS FIRST", " DESC NULLS LAST", " NULLS LAST", " DESC NULLS FIRST")
        by = [c + self.r.choice(ways) for c in self._columns(kinds)]
        self.r.shuffle(by)
        return by

    def _partition(self, kinds: list[str]) -> str:
        return f"PARTITION BY {self.r.choice(self._columns(kinds))} " if self.r.random() < 0.6 else ""

    # --- order -------------------------------------------------------------------------------------------------------

    def with_ties(self, text: str, kinds: list[str]) -> Found:
        """FETCH FIRST … WITH TIES, which to DuckDB is a rank."""
        by = self._order(kinds)
        some, listed, k = (
            ", ".join(by[: self.r.randint(1, len(by))]),
            ", ".join(self._columns(kinds)),
            self.r.randint(0, 3),
        )
        ours = f"SELECT {listed} FROM ({text}) tied ORDER BY {some} FETCH FIRST {k} ROWS WITH TIES"
        ranked = f"SELECT {listed}, RANK() OVER (ORDER BY {some}) AS place FROM ({text}) tied"
        self.spelled.append((ours, f"SELECT {listed} FROM ({ranked}) ranked WHERE place <= {k}"))
        return ours, kinds

    def qualified(self, text: str, kinds: list[str]) -> Found:
        """QUALIFY of a rank, or of an aggregate over a partition."""
        by, listed = self._order(kinds), ", ".join(self._columns(kinds))
        some = ", ".join(by[: self.r.randint(1, len(by))])
        call, order = self.r.choice((("ROW_NUMBER", ", ".join(by)), ("RANK", some), ("DENSE_RANK", some)))
        condition = f"{call}() OVER ({self._partition(kinds)}ORDER BY {order}) {self.r.choice(('<= 2', '= 1', '< 3'))}"
        if self.r.random() < 0.25:
            condition = f"COUNT(*) OVER ({self._partition(kinds)}) {self.r.choice(('>', '<='))} 1"
        return f"SELECT {listed} FROM ({text}) qualified QUALIFY {condition}", kinds

    def ranged(self, text: str, kinds: list[str]) -> Found | None:
        """An aggregate over a RANGE frame, by a number."""
        numbers = self._of(kinds, "n")
        if not numbers:
            return None
        key, column = self.r.choice(numbers), self.r.choice(self._columns(kinds))
        order = key + self.r.choice((" NULLS FIRST", " DESC NULLS LAST", " NULLS LAST", " DESC NULLS FIRST"))
        frame = self.r.choice(
            (
                "1 PRECEDING AND CURRENT ROW",
                "CURRENT ROW AND 2 FOLLOWING",
                "1 PRECEDING AND 1 FOLLOWING",
                "UNBOUNDED PRECEDING AND 1 PRECEDING",
                "CURRENT ROW AND UNBOUNDED FOLLOWING",
            )
        )
        call, kind = self.r.choice(
            [("COUNT(*)", "n"), (f"COUNT({column})", "n"), (f"SUM({key})", "n"), (f"MAX({key})", "n")]
        )
        window = f"{call} OVER ({self._partition(kinds)}ORDER BY {order} RANGE BETWEEN {frame})"
        listed = ", ".join(self._columns(kinds))
        return f"SELECT {listed}, {window} AS c{len(kinds)} FROM ({text}) ranged", [*kinds, kind]

    def further_windows(self, text: str, kinds: list[str]) -> Found:
        """Window functions of places and of values at places, by a name of their own now and then."""
        by, columns = self._order(kinds), self._columns(kinds)
        total, some = ", ".join(by), ", ".join(by[: self.r.randint(1, len(by))])
        at = self.r.randrange(len(columns))
        whole = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        call, order, kind = self.r.choice(
            (
                ("PERCENT_RANK()", some, "v"),
                ("CUME_DIST()", some, "v"),
                ("DENSE_RANK()", some, "n"),
                ("NTILE(3)", total, "n"),
                (f"NTH_VALUE({columns[at]}, 2)", total, kinds[at]),
                (f"LAG({columns[at]}, 2)", total, kinds[at]),
                (f"LEAD({columns[at]})", total, kinds[at]),
                (f"FIRST_VALUE({columns[at]} IGNORE NULLS)", total, kinds[at]),
                (f"LAST_VALUE({columns[at]})", f"{total} {whole}", kinds[at]),
                (f"COUNT({columns[at]})", "", "n"),
            )
        )
        window = self._partition(kinds) + (f"ORDER BY {order}" if order else "")
        listed, number = ", ".join(columns), len(kinds)
        if self.r.random() < 0.3:
            return f"SELECT {listed}, {call} OVER w AS c{number} FROM ({text}) seen WINDOW w AS ({window})", [
                *kinds,
                kind,
            ]
        return f"SELECT {listed}, {call} OVER ({window}) AS c{number} FROM ({text}) seen", [*kinds, kind]

    # --- elements ----------------------------------------------------------------------------------------------------

    def _array(self, kinds: list[str]) -> tuple[str, str]:
        """An array of some columns of one kind, or of numbers up to one; and the kind of its elements."""
        kind = self.r.choice(kinds)
        if kind == "n" and self.r.random() < 0.3:
            return f"sequence(0, ABS({self.r.choice(self._of(kinds, 'n'))}) % 3)", "n"
        some = self._of(kinds, kind)
        return f"array({', '.join(self.r.choice(some) for _ in range(self.r.randint(1, 3)))})", kind

    def exploded(self, text: str, kinds: list[str]) -> Found:
        """A row for each element, in LATERAL VIEW or in the SELECT list."""
        array, kind = self._array(kinds)
        kept = self.r.choice(self._columns(kinds))
        own = kinds[int(kept[1:])]
        if self.r.random() < 0.4:
            return f"SELECT {kept} AS c0, explode({array}) AS c1 FROM ({text}) whole", [own, kind]
        return f"SELECT {kept} AS c0, e AS c1 FROM ({text}) whole LATERAL VIEW explode({array}) v AS e", [own, kind]

    def exploded_outer(self, text: str, kinds: list[str]) -> Found:
        """Rows without elements are there once."""
        kept = self.r.choice(self._columns(kinds))
        kind = self.r.choice(kinds)
        elements = f"filter(array({', '.join(self._of(kinds, kind))}), x -> x IS NOT NULL)"
        ours = f"SELECT {kept} AS c0, e AS c1 FROM ({text}) whole LATERAL VIEW OUTER explode({elements}) v AS e"
        some = f"SELECT {kept} AS c0, e AS c1 FROM ({text}) whole LATERAL VIEW explode({elements}) v AS e"
        none = f"SELECT {kept} AS c0, NULL AS c1 FROM ({text}) whole WHERE size({elements}) = 0"
        self.spelled.append((ours, f"({some}) UNION ALL ({none})"))
        return ours, [kinds[int(kept[1:])], kind]

    def with_positions(self, text: str, kinds: list[str]) -> Found:
        """Elements with their places."""
        array, kind = self._array(kinds)
        kept = self.r.choice(self._columns(kinds))
        view = f"LATERAL VIEW posexplode({array}) v AS p, e"
        return f"SELECT {kept} AS c0, p AS c1, e AS c2 FROM ({text}) whole {view}", [kinds[int(kept[1:])], "n", kind]

    def pivoted(self, text: str, kinds: list[str]) -> Found | None:
        """Sums side by side; to DuckDB these are sums of some rows."""
        if len(kinds) < 2 or "n" not in kinds:
            return None
        value = self.r.choice(self._of(kinds, "n"))
        others = [c for c in self._columns(kinds) if c != value]
        by = self.r.choice(others)
        kind = kinds[int(by[1:])]
        literals = list(dict.fromkeys(Scope(self.r).literal(kind) for _ in range(3)))
        call = self.r.choice(("SUM", "MAX"))
        keys = [c for c in others if c != by]
        named = ", ".join(f"{literal} AS p{i}" for i, literal in enumerate(literals))
        outputs = [f"{k} AS c{i}" for i, k in enumerate(keys)]
        outputs += [f"p{i} AS c{len(keys) + i}" for i in range(len(literals))]
        rows = f"SELECT {', '.join([*keys, by, value])} FROM ({text}) pivoted"
        ours = f"SELECT {', '.join(outputs)} FROM ({rows}) PIVOT ({call}({value}) FOR {by} IN ({named}))"
        theirs = [f"{k} AS c{i}" for i, k in enumerate(keys)]
        theirs += [
            f"{call}({value}) FILTER (WHERE {by} = {literal}) AS c{len(keys) + i}" for i, literal in enumerate(literals)
        ]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        self.spelled.append((ours, f"SELECT {', '.join(theirs)} FROM ({text}) pivoted{group}"))
        return ours, [*(kinds[int(k[1:])] for k in keys), *["n"] * len(literals)]

    def unpivoted(self, text: str, kinds: list[str]) -> Found | None:
        """Columns of one kind below each other, which to DuckDB is a UNION ALL."""
        kind = self.r.choice(kinds)
        some = self._of(kinds, kind)
        if len(some) < 2 or kind == "b":
            return None
        some = some[:3]
        rest = [c for c in self._columns(kinds) if c not in some]
        outputs = [f"{c} AS c{i}" for i, c in enumerate([*rest, "name", "held"])]
        ours = f"SELECT {', '.join(outputs)} FROM ({text}) UNPIVOT (held FOR name IN ({', '.join(some)}))"
        members = []
        for column in some:
            listed = [f"{c} AS c{i}" for i, c in enumerate([*rest, f"'{column}'", column])]
            members.append(f"(SELECT {', '.join(listed)} FROM ({text}) one WHERE {column} IS NOT NULL)")
        self.spelled.append((ours, " UNION ALL ".join(members)))
        return ours, [*(kinds[int(c[1:])] for c in rest), "s", kind]

    # --- rows that are written ---------------------------------------------------------------------------------------

    def with_values(self, text: str, kinds: list[str]) -> Found | None:
        """Joined with VALUES, or beside them."""
        column = self.r.choice(self._columns(kinds))
        kind = kinds[int(column[1:])]
        if kind not in "nst":
            return None
        scope = Scope(self.r)
        rows = [f"({scope.literal(kind)}, {scope.literal('n')})" for _ in range(self.r.randint(1, 3))]
        rows.append(f"({self.r.choice(('NULL', scope.literal(kind)))}, NULL)")
        self.r.shuffle(rows)
        if self.r.random() < 0.2:
            return f"(SELECT {column} AS c0 FROM ({text}) stored) UNION ALL (SELECT {scope.literal(kind)} AS c0)", [
                kind
            ]
        join = self.r.choice(("JOIN", "LEFT JOIN"))
        written = f"(VALUES {', '.join(rows)}) AS written(k, v)"
        return f"SELECT {column} AS c0, v AS c1 FROM ({text}) stored {join} {written} ON {column} = k", [kind, "n"]

    def with_numbers(self, text: str, kinds: list[str]) -> Found | None:
        """Joined with the numbers of a range."""
        numbers = self._of(kinds, "n")
        if not numbers:
            return None
        column = self.r.choice(numbers)
        return f"SELECT {column} AS c0, id AS c1 FROM ({text}) stored JOIN range(3) AS up(id) ON {column} > id", [
            "n",
            "n",
        ]

    # --- groups ------------------------------------------------------------------------------------------------------

    def _grouped(self, text: str, kinds: list[str], call: str, kind: str) -> Found:
        key = self.r.choice(self._columns(kinds))
        if self.r.random() < 0.2:
            return f"SELECT {call} AS c0 FROM ({text}) listed", [kind]
        return f"SELECT {key} AS c0, {call} AS c1 FROM ({text}) listed GROUP BY {key}", [kinds[int(key[1:])], kind]

    def collected(self, text: str, kinds: list[str]) -> Found:
        """Lists and texts of a group's values, in their order."""
        column = self.r.choice(self._columns(kinds))
        kind = kinds[int(column[1:])]
        some = f" FILTER (WHERE {self.r.choice(self._columns(kinds))} IS NOT NULL)" if self.r.random() < 0.3 else ""
        if kind == "s" and self.r.random() < 0.6:
            return self._grouped(text, kinds, f"LISTAGG({column}, ',') WITHIN GROUP (ORDER BY {column}){some}", "s")
        distinct = self.r.random() < 0.4
        call = f"sort_array({'COLLECT_SET' if distinct else 'COLLECT_LIST'}({column}){some})"
        where = some.replace(")", f" AND {column} IS NOT NULL)") or f" FILTER (WHERE {column} IS NOT NULL)"
        theirs = f"COALESCE(list({'DISTINCT ' if distinct else ''}{column} ORDER BY {column}){where}, array())"
        found, others = self._grouped(text, kinds, call, "a")
        self.spelled.append((found, found.replace(call, theirs, 1)))
        return found, others

    def chosen(self, text: str, kinds: list[str]) -> Found:
        """Aggregates that choose a value, or are of pairs; of equal ones the least."""
        column = self.r.choice(self._columns(kinds))
        kind = kinds[int(column[1:])]
        forms = [(f"ANY_VALUE({column})", f"MIN({column})", kind), (f"LAST({column})", f"MAX({column})", kind)]
        forms += [(f"approx_count_distinct({column})", f"COUNT(DISTINCT {column})", "n")]
        if kind == "b":
            forms = [(f"{name}({column})", f"{name}({column})", "b") for name in ("BOOL_AND", "BOOL_OR")]
        if kind == "n":
            forms += [(f"{name}({column})", f"{name}({column})", "n") for name in ("BIT_AND", "BIT_OR", "BIT_XOR")]
            forms += [
                (f"PERCENTILE_APPROX({column}, 0.5)", f"PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY {column})", "n")
            ]
        call, theirs, found = self.r.choice(forms)
        made, others = self._grouped(text, kinds, call, found)
        if call != theirs:
            self.spelled.append((made, made.replace(call, theirs, 1)))
        return made, others

    # --- nested values -----------------------------------------------------------------------------------------------

    def as_nested(self, text: str, kinds: list[str]) -> Found:
        """Arrays and structs as rows, keys and what is different."""
        columns = self._columns(kinds)
        kind = self.r.choice(kinds)
        fields = [f"'f{i}', {self.r.choice(columns)}" for i in range(self.r.randint(1, 2))]
        value = self.r.choice((f"array({', '.join(self._of(kinds, kind))})", f"named_struct({', '.join(fields)})"))
        if self.r.random() < 0.5:
            return f"SELECT {value} AS c0, COUNT(*) AS c1 FROM ({text}) flat GROUP BY {value}", ["a", "n"]
        return f"SELECT {self.r.choice(('DISTINCT ', ''))}{value} AS c0 FROM ({text}) flat", ["a"]

    def taken_apart(self, text: str, kinds: list[str]) -> Found:
        """Elements and fields of what was put together in a subquery."""
        columns = self._columns(kinds)
        at, kind = self.r.randrange(len(columns)), self.r.choice(kinds)
        some = self._of(kinds, kind)
        inner = f"SELECT named_struct('p', {columns[at]}) AS s, array({', '.join(some)}) AS l FROM ({text}) flat"
        place = self.r.randint(0, len(some))
        return f"SELECT s.p AS c0, get(l, {place}) AS c1, size(l) AS c2 FROM ({inner}) nested", [kinds[at], kind, "n"]

    # --- names -------------------------------------------------------------------------------------------------------

    def named_before(self, text: str, kinds: list[str]) -> Found | None:
        """Outputs that are made of those before them."""
        numbers = self._of(kinds, "n")
        if not numbers:
            return None
        column = self.r.choice(numbers)
        inner = f"SELECT {column} + 1 AS k0, k0 * 2 AS k1 FROM ({text}) stored"
        return f"SELECT k0 AS c0, k1 AS c1 FROM ({inner}) named", ["n", "n"]

    def semi_joined(self, text: str, kinds: list[str]) -> Found:
        """Rows with, or without, an equal in the rows themselves, by a column."""
        left, right = (self.r.choice(self._columns(kinds)) for _ in range(2))
        if kinds[int(left[1:])] != kinds[int(right[1:])]:
            right = left
        listed = ", ".join(f"x.{c} AS {c}" for c in self._columns(kinds))
        join = self.r.choice(("LEFT SEMI JOIN", "LEFT ANTI JOIN"))
        return (
            f"SELECT {listed} FROM ({text}) x {join} ({text}) y ON x.{left} = y.{right} AND y.{left} IS NOT NULL",
            kinds,
        )

    def by_name(self, text: str, kinds: list[str]) -> Found:
        """Joined with its own groups by a column of one name."""
        column = self.r.choice(self._columns(kinds))
        kind = kinds[int(column[1:])]
        join = self.r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        groups = f"SELECT {column}, COUNT(*) AS n FROM ({text}) counted GROUP BY {column}"
        return f"SELECT {column} AS c0, n AS c1 FROM ({text}) stored {join} ({groups}) numbered USING ({column})", [
            kind,
            "n",
        ]
