"""Further constructs for random queries: each over a query of any other, and read by any other."""

from __future__ import annotations

from tests.engine.aggregate_generator import Aggregates
from tests.engine.construct_parts import Found
from tests.engine.element_generator import Elements
from tests.engine.expression_generator import Scope


class Constructs(Aggregates, Elements):
    """Writes one construct over a query whose columns are c0, c1 and so on, of given kinds."""

    def over(self, text: str, kinds: list[str]) -> Found | None:
        """One of them, at random, if the query has the columns that it needs; all kinds are plain."""
        forms = (
            self.with_ties,
            self.qualified,
            self.ranged,
            self.further_windows,
            self.beside_totals,
            self.exploded,
            self.exploded_outer,
            self.with_positions,
            self.pivoted,
            self.unpivoted,
            self.with_values,
            self.with_numbers,
            self.collected,
            self.chosen,
            self.determined,
            self.described,
            self.over_partitions,
            self.as_nested,
            self.taken_apart,
            self.of_maps,
            self.stacked,
            self.unnested,
            self.with_lambdas,
            self.of_json,
            self.named_before,
            self.semi_joined,
            self.by_name,
            self.naturally,
            self.in_a_chain,
            self.by_rows,
            self.by_patterns,
            self.later,
        )
        return self.r.choice(forms)(text, kinds)

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

    def beside_totals(self, text: str, kinds: list[str]) -> Found:
        """Aggregates over whole partitions, of several partitionings, with a condition on one, or beside ranks."""
        columns, by = self._columns(kinds), self._order(kinds)
        partitions = [self._partition(kinds), self.r.choice(("", self._partition(kinds)))]
        if self.r.random() < 0.3:
            partitions[0] = f"PARTITION BY {self.r.choice(columns)} IS NULL, {self.r.choice(columns)} "
        listed = [*columns] if self.r.random() < 0.6 else [self.r.choice(columns)]
        kinds = [kinds[int(c[1:])] for c in listed]
        for partition in partitions:
            at = self.r.choice(columns)
            calls = [f"COUNT({at})", "COUNT(*)", f"COUNT(DISTINCT {at})", f"COUNT(*) FILTER (WHERE {at} IS NOT NULL)"]
            listed.append(f"{self.r.choice(calls)} OVER ({partition})")
            kinds = [*kinds, "n"]
        if self.r.random() < 0.3:
            listed.append(f"RANK() OVER ({self._partition(kinds[:1])}ORDER BY {by[0]})")
            kinds = [*kinds, "n"]
        found = ", ".join(f"{c} AS t{i}" for i, c in enumerate(listed))
        shown = [i for i in range(len(listed)) if self.r.random() < 0.7] or [0]
        condition = self.r.choice(("", f" WHERE t{len(listed) - 1} {self.r.choice(('>', '=', '<='))} 1"))
        outputs = ", ".join(f"t{i} AS c{n}" for n, i in enumerate(shown))
        return f"SELECT {outputs} FROM (SELECT {found} FROM ({text}) seen) totals{condition}", [kinds[i] for i in shown]

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

    def naturally(self, text: str, kinds: list[str]) -> Found:
        """Joined with itself by all columns that have one name."""
        (key, kind), (left, mine), (right, other) = (self._column(kinds) for _ in range(3))
        join = self.r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        first = f"(SELECT {key} AS k, {left} AS p FROM ({text}) a) x"
        others = f"(SELECT {key} AS k, {right} AS q FROM ({text}) b) y"
        return f"SELECT k AS c0, p AS c1, q AS c2 FROM {first} NATURAL {join} {others}", [kind, mine, other]

    def in_a_chain(self, text: str, kinds: list[str]) -> Found:
        """Three joins in a row by a column of one name, each of which may keep rows without a match."""
        first, second = (self.r.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")) for _ in range(2))
        (a, kind), (c, other) = self._column(kinds), self._column(kinds)
        b = self.r.choice(self._of(kinds, kind))
        scope = Scope(self.r)
        groups = f"(SELECT {b} AS k, COUNT(*) AS n FROM ({text}) counted GROUP BY {b}) j1"
        written = f"(VALUES ({scope.literal(kind)}, 1), ({scope.literal(kind)}, 2)) AS j2(k, v)"
        chain = f"(SELECT {a} AS k, {c} AS p FROM ({text}) s) j0 {first} {groups} USING (k) {second} {written}"
        return f"SELECT k AS c0, p AS c1, n AS c2, v AS c3 FROM {chain} USING (k)", [kind, other, "n", "n"]

    # --- conditions --------------------------------------------------------------------------------------------------

    def by_rows(self, text: str, kinds: list[str]) -> Found | None:
        """Rows whose parts, compared together, are among some."""
        pairs = [(c, k) for c, k in zip(self._columns(kinds), kinds, strict=True) if k in "nst"]
        if not pairs:
            return None
        (a, first), (b, second) = self.r.choice(pairs), self.r.choice(pairs)
        scope = Scope(self.r)
        rows = ", ".join(f"({scope.literal(first)}, {scope.literal(second)})" for _ in range(3))
        asked = f"({a}, {b}) {self.r.choice(('', 'NOT '))}IN ({rows}) AND {a} IS NOT NULL AND {b} IS NOT NULL"
        return f"SELECT {', '.join(self._columns(kinds))} FROM ({text}) rows_ WHERE {asked}", kinds

    def by_patterns(self, text: str, kinds: list[str]) -> Found | None:
        """Texts that are like one of several patterns, or like all of them."""
        texts = self._of(kinds, "s")
        if not texts:
            return None
        column, patterns = self.r.choice(texts), self.r.sample(("'a%'", "'%b'", "'_'", "'%'", "'%''s'", "'A'"), 2)
        negated, word = self.r.choice(("", "NOT ")), self.r.choice(("ANY", "ALL"))
        like = f"{column} {negated}LIKE {word} ({', '.join(patterns)})"
        both = f" {'OR' if word == 'ANY' else 'AND'} ".join(f"{column} {negated}LIKE {p}" for p in patterns)
        found = f"SELECT {', '.join(self._columns(kinds))} FROM ({text}) texts WHERE {like}", kinds
        return self._told(found, like, f"({both})")

    def later(self, text: str, kinds: list[str]) -> Found | None:
        """Times moved by intervals, and compared by how far they are apart."""
        times = self._of(kinds, "z")
        if not times:
            return None
        x, y = self.r.choice(times), self.r.choice(times)
        length = self.r.choice(("INTERVAL 1 MONTH", "INTERVAL 20 DAY", "INTERVAL 36 HOUR"))
        asked = f"{x} - {y} {self.r.choice(('<', '>='))} {self.r.choice(('INTERVAL 40 DAY', 'INTERVAL 0 DAY'))}"
        listed = ", ".join(self._columns(kinds))
        return f"SELECT {listed}, {x} + {length} AS c{len(kinds)} FROM ({text}) timed WHERE {asked}", [*kinds, "z"]
