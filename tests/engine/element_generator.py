"""Random constructs of arrays, structs, maps and JSON: elements as rows, values put together and taken apart."""

from __future__ import annotations

from tests.engine.construct_parts import Found, Parts


class Elements(Parts):
    """Writes them over any query."""

    def _array(self, kinds: list[str]) -> tuple[str, str]:
        """An array of some columns of one kind, or of numbers up to one; and the kind of its elements."""
        kind = self.r.choice(kinds)
        if kind == "n" and self.r.random() < 0.3:
            return f"sequence(0, CAST(ABS({self.r.choice(self._of(kinds, 'n'))}) % 3 AS INT))", "n"
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

    def of_maps(self, text: str, kinds: list[str]) -> Found:
        """A row for each entry of a map, which to DuckDB is a UNION ALL."""
        kind = self.r.choice(kinds)
        first, second = (self.r.choice(self._of(kinds, kind)) for _ in range(2))
        kept, own = self._column(kinds)
        rows = f"FROM ({text}) whole"
        view = f"LATERAL VIEW explode(map('x', {first}, 'y', {second})) v AS k, e"
        ours = f"SELECT {kept} AS c0, k AS c1, e AS c2 {rows} {view}"
        members = (f"(SELECT {kept} AS c0, '{k}' AS c1, {e} AS c2 {rows})" for k, e in (("x", first), ("y", second)))
        self.spelled.append((ours, " UNION ALL ".join(members)))
        return ours, [own, "s", kind]

    def stacked(self, text: str, kinds: list[str]) -> Found:
        """Several rows for each, from STACK, or INLINE of structs; to DuckDB a UNION ALL."""
        (a, kind), (b, other) = self._column(kinds), self._column(kinds)
        c, d = self.r.choice(self._of(kinds, kind)), self.r.choice(self._of(kinds, other))
        rows = f"FROM ({text}) whole"
        structs = ", ".join(f"named_struct('p', {p}, 'q', {q})" for p, q in ((a, b), (c, d)))
        source = self.r.choice((f"stack(2, {a}, {b}, {c}, {d})", f"inline(array({structs}))"))
        ours = f"SELECT p AS c0, q AS c1 {rows} LATERAL VIEW {source} v AS p, q"
        members = (f"(SELECT {p} AS c0, {q} AS c1 {rows})" for p, q in ((a, b), (c, d)))
        self.spelled.append((ours, " UNION ALL ".join(members)))
        return ours, [kind, other]

    def unnested(self, text: str, kinds: list[str]) -> Found:
        """Elements in FROM, by UNNEST, or by LATERAL of a generator."""
        array, kind = self._array(kinds)
        kept, own = self._column(kinds)
        ours = self.r.choice((f", UNNEST({array}) AS u(e)", f", LATERAL explode({array}) AS u(e)"))
        found = f"SELECT {kept} AS c0, e AS c1 FROM ({text}) whole{ours}", [own, kind]
        return self._told(found, ours, f", UNNEST({array}) AS u(e)")

    def with_lambdas(self, text: str, kinds: list[str]) -> Found:
        """What functions with lambdas make of arrays."""
        array, kind = self._array(kinds)
        known = f"filter({array}, x -> x IS NOT NULL)"
        counted = f"aggregate({array}, 0, (n, x) -> n + CASE WHEN x IS NULL THEN 0 ELSE 1 END)"
        forms = (
            (f"size({known})", f"size({known})", "n"),
            (f"transform({array}, x -> x IS NULL)", f"transform({array}, x -> x IS NULL)", "a"),
            (f"exists({array}, x -> x IS NULL)", f"(size(filter({array}, x -> x IS NULL)) > 0)", "b"),
            (counted, f"CAST(size({known}) AS INT)", "n"),
            (f"get(array_distinct({known}), 0)", f"get({known}, 0)", kind),
        )
        made, theirs, found = self.r.choice(forms)
        kept, own = self._column(kinds)
        return self._told((f"SELECT {kept} AS c0, {made} AS c1 FROM ({text}) whole", [own, found]), made, theirs)

    def of_json(self, text: str, kinds: list[str]) -> Found | None:
        """Fields of texts that are JSON."""
        kept, own = self._column(kinds)
        fields = {"n": "COALESCE(CAST({} AS STRING), 'null')", "s": "concat('\"', COALESCE({}, 'none'), '\"')"}
        some = [(c, fields[k]) for c, k in zip(self._columns(kinds), kinds, strict=True) if k in fields]
        if not some:
            return None
        (a, first), (b, second) = self.r.choice(some), self.r.choice(some)
        made = f"concat('{{\"a\": ', {first.format(a)}, ', \"b\": {{\"c\": ', {second.format(b)}, '}}}}')"
        rows = f"FROM (SELECT {kept} AS k, {made} AS j FROM ({text}) whole) texts"
        if self.r.random() < 0.5:
            view = "LATERAL VIEW json_tuple(j, 'a', 'missing') v AS x, y"
            ours = f"SELECT k AS c0, x AS c1, y AS c2 {rows} {view}"
            theirs = f"SELECT k AS c0, json_extract_string(j, '$.a') AS c1, CAST(NULL AS STRING) AS c2 {rows}"
            kinds_found = [own, "s", "s"]
        else:
            ours = f"SELECT k AS c0, get_json_object(j, '$.b.c') AS c1 {rows}"
            theirs = f"SELECT k AS c0, json_extract_string(j, '$.b.c') AS c1 {rows}"
            kinds_found = [own, "s"]
        self.spelled.append((ours, theirs))
        return ours, kinds_found
