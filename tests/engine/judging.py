"""What DuckDB says of views whose expressions fail on some data, with the meaning that Spark's ANSI mode gives them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

import duckdb
import sqlglot
from sqlglot import exp

from tests.engine.bags import Bag
from tests.engine.case_data import Row, Step
from tests.sql.evaluate import SparkFour

_DIVISIONS: Final = {exp.Div: ("quotient", "x / y"), exp.IntDiv: ("whole", "x // y"), exp.Mod: ("remainder", "x % y")}
_BY_ZERO: Final = "nothing can be divided by zero"
_NOT_CAST: Final = "this cannot be cast"
_STAND_INS: Final = ("NULL", *(f"{number}::TINYINT" for number in (113, *range(-6, 13), -77)))
"""What an expression that fails is given instead, to see whether anything depends on it: what data and literals of the
cases hold, so that each would join or pass a condition, and what they do not."""


_MACROS = {
    "get(a, i)": "CASE WHEN i >= 0 THEN a[i + 1] END",
    "if_there(v)": "CASE WHEN isfinite(v) THEN v END",
    "first_of_most(l)": "list_aggregate(list_sort(l), 'mode')",
    "last_of_most(l)": "list_aggregate(list_reverse_sort(l), 'mode')",
    "values_in(l)": "list_sort(list_filter(l, lambda v: v IS NOT NULL))",
    "number_at(l, p)": "values_in(l)[CAST(greatest(1, ceil(len(values_in(l)) * p)) AS INT)]",
    "power_mean(l, k)": "list_avg(list_transform(l, lambda v: pow(v - list_avg(l), k)))",
    "leaning(l)": "power_mean(l, 3) / nullif(pow(power_mean(l, 2), 1.5), 0)",
    "heaviness(l)": "power_mean(l, 4) / nullif(pow(power_mean(l, 2), 2), 0) - 3",
}
"""What DuckDB does not know by Spark's name for it, or in Spark's meaning."""


def prepare(connection: duckdb.DuckDBPyConnection) -> None:
    """Define the divisions that fail; DuckDB's own give NULL. While ``stand_in`` is set they give that instead."""
    _stand_in(connection, None)
    for name, meaning in _DIVISIONS.values():
        fails = f"CASE WHEN y = 0 AND x IS NOT NULL THEN {_failure(_BY_ZERO)} ELSE {meaning} END"
        connection.execute(f"CREATE MACRO {name}(x, y) AS {fails}")
    for signature, meaning in _MACROS.items():
        connection.execute(f"CREATE MACRO {signature} AS {meaning}")


def _failure(why: str) -> str:
    return f"CASE WHEN getvariable('strict') THEN error('{why}') ELSE getvariable('stand_in') END"


def _stand_in(connection: duckdb.DuckDBPyConnection, value: str | None) -> None:
    """Let expressions that fail have a value; None: let them fail."""
    connection.execute(f"SET VARIABLE strict = {value is None}")
    connection.execute(f"SET VARIABLE stand_in = {value or 'NULL'}")


def independent(connection: duckdb.DuckDBPyConnection, view: str, most: int) -> list[Row] | None:
    """The rows of a view that has none in DuckDB because an expression fails, if they do not depend on its value.

    DuckDB computes expressions on rows that no result needs: of a join one of whose sides is empty, of a member of a
    union whose row another member has. SQL does not say whether they are; so a database may fail, or give these rows.
    None if the rows are others with another value: then the view cannot be computed.
    """
    found: list[list[Row]] = []
    try:
        for value in _STAND_INS:
            _stand_in(connection, value)
            rows = connection.execute(f"SELECT * FROM {view} LIMIT {most}").fetchall()
            if found and Counter(map(repr, rows)) != Counter(map(repr, found[0])):
                return None
            found.append(rows)
    except duckdb.Error:
        return None
    finally:
        _stand_in(connection, None)
    return found[0]


@cache
def strictly(sql: str) -> str:
    """Spark SQL in DuckDB's dialect, in which divisions and casts fail; in WHERE only where all else holds."""
    tree = sqlglot.parse_one(sql, read=SparkFour)
    for where in list(tree.find_all(exp.Where)):
        where.set("this", _guarded(where.this))
    for node in reversed(list(tree.find_all(*_DIVISIONS, exp.TryCast))):  # what is within comes before
        if isinstance(node, exp.TryCast):
            if not node.args.get("safe"):
                node.replace(_strict_cast(node))
        else:
            node.replace(exp.func(_DIVISIONS[type(node)][0], node.this, node.expression))
    return tree.sql("duckdb")


def _strict_cast(node: exp.TryCast) -> exp.Expr:
    """A cast that fails, or gives the stand-in."""
    fails = sqlglot.parse_one(_failure(_NOT_CAST), read="duckdb")
    is_failed = exp.and_(node.copy().is_(exp.null()), node.this.copy().is_(exp.null()).not_())
    return exp.Case().when(is_failed, exp.TryCast(this=fails, to=node.args["to"].copy())).else_(node.copy())


def _guarded(condition: exp.Expr) -> exp.Expr:
    conjuncts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    late = [c for c in conjuncts if c.find(*_DIVISIONS, exp.TryCast) and not c.find(exp.Select)]
    first = [c for c in conjuncts if c not in late]
    if not late or not first:
        return condition
    held = exp.and_(*first)
    return exp.and_(held, exp.Case().when(held.copy(), exp.and_(*late)).else_(exp.false()))


def is_failure(error: duckdb.Error) -> bool:
    """True if an expression has failed on the data; else DuckDB cannot compute what Spark can, or the reverse."""
    failures = (_BY_ZERO, _NOT_CAST)
    return any(f in str(error) for f in failures) or isinstance(error, duckdb.ConversionException)


_NEVER = re.compile(r"(\b\w+\.\w+) (?:<|>|<>) \1\b")
"""A condition that never holds: after it DuckDB computes no other, and which come before it SQL does not say."""


class Fails:
    """Instead of a result: an expression fails on the data."""


@dataclass(frozen=True)
class Needless:
    """Instead of a result: an expression fails on rows that the result does not need; the result is this, or none."""

    rows: Bag


class Verdict(Enum):
    """What is to become of a batch, as far as one view has a say, and of the view."""

    RESULT = "the view has a result"
    REFUSED = "the batch is to be refused"
    NO_RESULT = "the view has no result, as there is no input"
    UNKNOWN = "any of these"


class Judge:
    """Judges the views of a case on the tables as DuckDB has them now."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self.known: dict[str, bool | None] = {}
        """What probes gave on the tables as they are."""

    def verdicts(self, views: Sequence[Step], fails: Callable[[str], bool | None]) -> dict[str, Verdict]:
        """One for each view that may fail, in the order of definition; ``fails`` says if DuckDB fails on a view."""
        found: dict[str, Verdict] = {}
        of_nothing: dict[str, bool | None] = {}
        for view in views:
            below = [name for name in found if re.search(rf"\b{name}\b", view.text)]
            inputs = view.fallible.inputs if view.fallible else ()
            of_nothing[view.name] = _any([*(of_nothing[b] for b in below), *map(self._is_empty, inputs)])
            found[view.name] = self._verdict(view, fails(view.name), of_nothing[view.name], [found[b] for b in below])
        return found

    def _verdict(self, view: Step, fails: bool | None, of_nothing: bool | None, below: Sequence[Verdict]) -> Verdict:
        if fails is None or Verdict.UNKNOWN in below:
            return Verdict.UNKNOWN
        partly = any(self._fails(probe) is not False for probe in view.fallible.probes) if view.fallible else False
        if Verdict.NO_RESULT in below:  # DuckDB leaves out what is named and not needed; so may we.
            return Verdict.NO_RESULT if fails and not partly else Verdict.UNKNOWN
        if not fails:
            return Verdict.UNKNOWN if partly or _NEVER.search(view.text) else Verdict.RESULT
        if of_nothing is None:
            return Verdict.UNKNOWN
        if not of_nothing:
            return Verdict.REFUSED
        # Another row than that over no input may fail as well, in a view that has both.
        both = view.text.count("SELECT") > 1 and not view.text.startswith("SELECT p.n")
        return Verdict.UNKNOWN if partly or below or both else Verdict.NO_RESULT

    def _fails(self, query: str) -> bool | None:
        if query not in self.known:
            try:
                self._connection.execute(strictly(query)).fetchall()
                self.known[query] = False
            except duckdb.Error as error:
                self.known[query] = True if is_failure(error) else None
        return self.known[query]

    def _is_empty(self, query: str) -> bool | None:
        """None where that cannot be computed."""
        try:
            found = self._connection.execute(strictly(query)).fetchall()
        except duckdb.Error:
            return None
        return found == [(0,)]


def _any(known: Sequence[bool | None]) -> bool | None:
    """True if one is; None if that is not known."""
    return True if any(known) else None if None in known else False
