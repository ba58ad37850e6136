"""Random aggregates that keep values, choose one, or are statistics of them: of groups, and over windows.

DuckDB decides in its own way between equal ones; where Everview has a rule, DuckDB is asked for what the rule says.
"""

from __future__ import annotations

from tests.engine.construct_parts import Found, Parts

_STATISTICS = ("CORR", "COVAR_POP", "COVAR_SAMP", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2", "REGR_SXX", "REGR_SYY")
_LIST = "LIST({c}){w}"


class Aggregates(Parts):
    """Writes them over any query."""

    def _grouped(self, text: str, kinds: list[str], call: str, kind: str, key: str | None = None) -> Found:
        by = key or self.r.choice(self._columns(kinds))
        if key is None and self.r.random() < 0.2:
            return f"SELECT {call} AS c0 FROM ({text}) listed", [kind]
        return f"SELECT {by} AS c0, {call} AS c1 FROM ({text}) listed GROUP BY {by}", [kinds[int(by[1:])], kind]

    def _some(self, kinds: list[str]) -> str:
        """The rows that count: all of them, or some."""
        return f" FILTER (WHERE {self.r.choice(self._columns(kinds))} IS NOT NULL)" if self.r.random() < 0.3 else ""

    def collected(self, text: str, kinds: list[str]) -> Found:
        """Lists and texts of a group's values, in their order."""
        column, kind = self._column(kinds)
        some = self._some(kinds)
        if kind == "s" and self.r.random() < 0.6:
            name = self.r.choice(("LISTAGG", "STRING_AGG"))
            return self._grouped(text, kinds, f"{name}({column}, ',') WITHIN GROUP (ORDER BY {column}){some}", "s")
        distinct = self.r.random() < 0.4
        call = f"sort_array({'COLLECT_SET' if distinct else 'COLLECT_LIST'}({column}){some})"
        where = some.replace(")", f" AND {column} IS NOT NULL)") or f" FILTER (WHERE {column} IS NOT NULL)"
        theirs = f"COALESCE(list({'DISTINCT ' if distinct else ''}{column} ORDER BY {column}){where}, array())"
        return self._told(self._grouped(text, kinds, call, "a"), call, theirs)

    def chosen(self, text: str, kinds: list[str]) -> Found:
        """Aggregates that choose a value of a group, or combine all; of equal ones the least."""
        column, kind = self._column(kinds)
        any_one = ((f"{name}({column}){{w}}", f"MIN({column}){{w}}", kind) for name in ("ANY_VALUE", "FIRST"))
        forms = [*self._choices(kinds), *any_one, (f"LAST({column}){{w}}", f"MAX({column}){{w}}", kind)]
        call, theirs, kind = self.r.choice(forms)
        some = self._some(kinds)
        call, theirs = call.format(w=some), theirs.format(w=some)
        return self._told(self._grouped(text, kinds, call, kind), call, theirs)

    def determined(self, text: str, kinds: list[str]) -> Found:
        """The first or the last value of a group that has one value only."""
        key, kind = self._column(kinds)
        name = self.r.choice(("FIRST", "FIRST_VALUE", "ANY_VALUE", "LAST", "LAST_VALUE"))
        ignores = self.r.choice(("", " IGNORE NULLS"))
        call = f"{name}({key}){ignores}"
        return self._told(self._grouped(text, kinds, call, kind, key), call, f"MIN({key})")

    def described(self, text: str, kinds: list[str]) -> Found | None:
        """Statistics of numbers, and of pairs of them."""
        if not (forms := self._statistics(kinds)):
            return None
        call, theirs = self.r.choice(forms)
        some = self._some(kinds)
        call, theirs = call.format(w=some), theirs.format(w=some)
        return self._told(self._grouped(text, kinds, call, "v"), call, theirs)

    def over_partitions(self, text: str, kinds: list[str]) -> Found:
        """Such aggregates beside each row of their group, where no order of rows says which is the first."""
        forms = [(*form, "v") for form in self._statistics(kinds)]
        call, theirs, kind = self.r.choice([*self._choices(kinds), *forms])
        window = f" OVER (PARTITION BY {self.r.choice(self._columns(kinds))})"
        call, theirs = call.format(w=window), theirs.format(w=window)
        listed = ", ".join(self._columns(kinds))
        found = f"SELECT {listed}, {call} AS c{len(kinds)} FROM ({text}) seen", [*kinds, kind]
        return self._told(found, call, theirs)

    def _choices(self, kinds: list[str]) -> list[tuple[str, str, str]]:
        """Calls, what they are in DuckDB's words, and the kinds of what they give; ``{w}`` is what stands behind."""
        column, kind = self._column(kinds)
        values = _LIST.replace("{c}", column)
        forms = [
            (f"MODE({column}){{w}}", f"first_of_most({values})", kind),
            (f"MODE() WITHIN GROUP (ORDER BY {column} DESC){{w}}", f"last_of_most({values})", kind),
            (f"COUNT_IF({column} IS NOT NULL){{w}}", f"COUNT({column}){{w}}", "n"),
        ]
        truth = f"{column} = {self.r.choice(self._of(kinds, kind))}"
        names = ("BOOL_AND", "BOOL_AND"), ("EVERY", "BOOL_AND"), ("BOOL_OR", "BOOL_OR"), ("SOME", "BOOL_OR")
        forms += [(f"{ours}({truth}){{w}}", f"{theirs}({truth}){{w}}", "b") for ours, theirs in names]
        if kind == "b":
            return forms
        forms += [
            (f"approx_count_distinct({column}){{w}}", f"COUNT(DISTINCT {column}){{w}}", "n"),
            (f"MAX_BY({column}, {column}){{w}}", f"MAX({column}){{w}}", kind),
            (f"MIN_BY({column}, {column}){{w}}", f"MIN({column}){{w}}", kind),
        ]
        if kind == "n":
            bits = (f"{name}({column}){{w}}" for name in ("BIT_AND", "BIT_OR", "BIT_XOR"))
            forms += [(call, call, "n") for call in bits]
            share = self.r.choice(("0.5", "0.3", "0.75"))
            forms += [(f"PERCENTILE_APPROX({column}, {share}){{w}}", f"number_at({values}, {share})", "n")]
        return forms

    def _statistics(self, kinds: list[str]) -> list[tuple[str, str]]:
        """Calls whose results are doubles; where there is none, DuckDB has NaN now and then."""
        numbers = self._of(kinds, "nd")
        if not numbers:
            return []
        x, y = self.r.choice(numbers), self.r.choice(numbers)
        values = _LIST.replace("{c}", x)
        share = self.r.choice(("0.5", "0.3", "1"))
        return [
            *((f"{name}({y}, {x}){{w}}", f"if_there({name}({y}, {x}){{w}})") for name in _STATISTICS),
            (f"SKEWNESS({x}){{w}}", f"leaning({values})"),
            (f"KURTOSIS({x}){{w}}", f"heaviness({values})"),
            (f"MEDIAN({x}){{w}}", f"MEDIAN({x}){{w}}"),
            (f"PERCENTILE({x}, {share}){{w}}", f"QUANTILE_CONT({x}, {share}){{w}}"),
        ]
