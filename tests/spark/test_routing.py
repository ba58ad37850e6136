"""Where rows go: integers' slices, and conditions that keep rows from shards that have no use for them."""

from __future__ import annotations

import traceback
from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.errors import BadRowError, PipelineError
from everview.query.terms import Expression, Var
from everview.query.types import BIGINT, STRING
from everview.spark.checkpoint.pins import plan_over
from everview.spark.exchange.routing import Routing, Slice
from everview.sql import parse_schema
from tests.engine.bags import plain
from tests.scale import thoroughness
from tests.spark.cluster import Cluster, Row

TABLES = "CREATE TABLE r (a BIGINT, b BIGINT); CREATE TABLE s (b BIGINT, c BIGINT); CREATE TABLE t (c BIGINT, d STRING)"
SCHEMA = parse_schema(TABLES)
PATH = "SELECT r.a, r.b, s.c, t.d FROM r JOIN s ON r.b = s.b JOIN t ON s.c = t.c"
GRAPH = parse_schema("CREATE TABLE g (src BIGINT, dst BIGINT)")
HOPS = """SELECT x.src AS a, y.src AS b, z.src AS c, z.dst AS d
          FROM g x JOIN g y ON x.dst = y.src JOIN g z ON y.dst = z.src WHERE z.dst % 10 = 0"""


def conditions(sql: str, table: str, schema: Any = SCHEMA, shards: int = 2) -> list[list[str]]:
    """The texts of the conditions on a table's ways."""
    level = plan_over(sql, schema, shards).distribution.first
    found = next(t for t in level.tables if t.name == table)
    return [[text for text, _ in way.conditions] for way in Routing.of(found, level).ways]


def held(cluster: Cluster, table: str) -> list[set[Row]]:
    """The rows that each shard has."""
    found = []
    for shard in cluster.shards[0]:
        arity = len(next(t for t in cluster.levels[0].tables if t.name == table).columns)
        rows: set[Row] = set()
        for name, blob, _ in shard.dump():
            if name == table:
                rows |= {tuple(r.values())[:arity] for r in pa.ipc.open_stream(blob).read_all().to_pylist()}
        found.append(rows)
    return found


def test_rows_go_where_they_are_needed() -> None:
    """Of paths of three edges, cut between the first two, the last one goes everywhere, if it may be the last."""
    cluster = Cluster({"v": HOPS}, GRAPH, 2)
    edges = [(i, 7 * i % 40) for i in range(40)]
    cluster.apply({"g": [(edge, 1) for edge in edges]})
    one, two = held(cluster, "g")
    assert one | two == set(edges)
    needed = {edge for edge in edges if edge[1] % 10 == 0}
    assert needed <= one & two
    others = set(edges) - needed
    assert others & one != others
    assert others & two != others


def test_occurrences_are_counted_only_where_shards_tell_them_apart() -> None:
    """63 occurrences are too many for a mask; but where all rows go one way, there is none."""
    apart = {f"v{i}": f"SELECT x.a, y.b FROM r x JOIN r y ON x.a = y.b WHERE x.b <> {i}" for i in range(35)}
    with pytest.raises(PipelineError, match="r occurs 70 times in the views of one query, and shards tell 62 apart"):
        plan_over(apart, SCHEMA, 2)
    alike = {f"v{i}": f"SELECT a FROM r WHERE b <> {i}" for i in range(66)}
    for shards, views, name, wanted in ((1, apart, "v34", {(1, 1): 2}), (2, alike, "v65", {(1,): 1})):
        cluster = Cluster(views, SCHEMA, shards)
        cluster.apply({"r": [((1, 65), 1), ((1, 1), 1), ((65, 3), 1)]})
        cluster.apply({"r": [((65, 3), -1)]})
        assert cluster.results[name] == wanted


def test_a_table_that_goes_everywhere_is_whole_in_its_home_only() -> None:
    cluster = Cluster({"v": f"{PATH} WHERE t.d = 'x' AND t.c > 1"}, SCHEMA, 3)
    rows = [(i % 5, "xyz"[i % 3]) for i in range(15)]
    cluster.apply({"t": [(row, 1) for row in rows]})
    home, *others = held(cluster, "t")
    assert home == set(rows)
    assert others == [{row for row in rows if row[1] == "x" and row[0] > 1}] * 2
    with pytest.raises(BadRowError, match=r"deletes \(1, 'nowhere'\), which is not there"):
        cluster.apply({"t": [((1, "nowhere"), -1)]})


def test_messages_show_the_columns_of_the_table_and_no_others() -> None:
    """A row that comes on several ways has a column more in its shard, which says on which."""
    for quarantine in (False, True):
        cluster = Cluster({"v": HOPS}, GRAPH, 2, quarantine)
        if quarantine:
            cluster.apply({"g": [((1, 10), -1)]})
            (told,) = cluster.bad
        else:
            with pytest.raises(BadRowError) as caught:
                cluster.apply({"g": [((1, 10), -1)]})
            told = "".join(traceback.format_exception(caught.value))
        assert "deletes (1, 10), which is not there" in told
        assert "(1, 10, " not in told


@pytest.mark.parametrize(
    ("sql", "table", "expected"),
    [
        (f"{PATH} WHERE t.d = 'x'", "t", [["d = 'x'"]]),
        (f"{PATH} WHERE t.d IN ('x', 'y') AND t.c <> 3 AND r.a < s.c", "t", [["d IN ('x', 'y')"]]),
        (f"{PATH} WHERE r.a = 3", "r", [[]]),  # It goes to one shard anyway.
        (f"{PATH} WHERE t.c + 1 > 3", "t", [[]]),  # It may fail.
        (f"{PATH} WHERE length(t.d) > 1", "t", [[]]),  # Arrow does not compute it.
        (PATH, "t", [[]]),
    ],
)
def test_conditions_that_keep_rows_away_are_simple_and_never_fail(
    sql: str, table: str, expected: list[list[str]]
) -> None:
    found = conditions(sql, table)
    assert [[text for text in way if "c <> 3" not in text] for way in found] == expected
    assert conditions(sql, table, shards=1) == [[]]


def test_tables_with_a_key_have_no_conditions() -> None:
    keyed = parse_schema(TABLES.replace("c BIGINT, d STRING", "c BIGINT PRIMARY KEY, d STRING"))
    assert not any(conditions(f"{PATH} WHERE t.d = 'x'", "t", keyed))
    assert any(conditions(f"{PATH} WHERE t.d = 'x'", "t"))


def test_a_checkpoint_with_other_conditions_is_not_taken_over() -> None:
    """The rows that the new ones would need are not in all shards."""

    def identity(condition: str, shards: int) -> Any:
        return replace(plan_over(f"{PATH} WHERE {condition}", SCHEMA, shards).identity, migrate=True)

    assert not identity("t.d = 'x'", 2).can_take_over(identity("t.d = 'y'", 2))
    text = identity("t.d = 'x'", 2).refusal(identity("t.d = 'y'", 2))
    assert "the new views need rows in shards that do not have them" in text
    assert identity("r.a = 1", 2).can_take_over(identity("r.a = 2", 2))  # It is spread, so all shards are homes.
    assert identity("t.d = 'x'", 1).can_take_over(identity("t.d = 'y'", 1))
    assert identity("t.d = 'x'", 2).can_take_over(identity("t.d = 'x' AND r.a <> s.c", 2))


NUMBERS = st.sampled_from([0, 1, 2, 3, None])
ROWS = {
    "r": st.tuples(NUMBERS, NUMBERS),
    "s": st.tuples(NUMBERS, NUMBERS),
    "t": st.tuples(NUMBERS, st.sampled_from([None, "x", "y", ""])),
}
CONDITIONS = ["t.d = 'x'", "t.d <> 'x'", "t.c >= 2", "s.c % 2 = 0", "r.a IS NULL", "t.d IN ('x', 'y')", "r.a = 1"]
BATCH = st.tuples(*(st.lists(rows, min_size=4, max_size=12) for rows in ROWS.values()), st.integers(0, 60))


@thoroughness(60)
@given(st.lists(st.sampled_from(CONDITIONS), max_size=3, unique=True), st.sampled_from([2, 3, 4, 5]), st.data())
def test_any_conditions_and_changes_give_what_duckdb_gives(wanted: list[str], shards: int, data: st.DataObject) -> None:
    sql = PATH + (f" WHERE {' AND '.join(wanted)}" if wanted else "")
    cluster = Cluster({"v": sql}, SCHEMA, shards)
    there: dict[str, Counter[Row]] = {name: Counter() for name in ROWS}
    for *coming, part in data.draw(st.lists(BATCH, min_size=1, max_size=4)):
        batch = {}
        for (name, rows), new in zip(there.items(), coming, strict=True):
            gone = [row for i, row in enumerate(rows.elements()) if i * 37 % 100 < part]
            batch[name] = [(row, 1) for row in new] + [(row, -1) for row in gone]
            rows.update(new)
            rows.subtract(gone)
        cluster.apply(batch)
    with duckdb.connect() as db:
        for name, rows in there.items():
            kind = "VARCHAR" if name == "t" else "BIGINT"
            names = {"r": "ab", "s": "bc", "t": "cd"}[name]
            db.execute(f"CREATE TABLE {name} ({names[0]} BIGINT, {names[1]} {kind})")
            for row in rows.elements():
                db.execute(f"INSERT INTO {name} VALUES (?, ?)", list(row))
        expected = Counter(tuple(map(plain, row)) for row in db.sql(sql).fetchall())
    assert cluster.results["v"] == expected


def test_integers_have_one_slice_whatever_their_type_and_are_spread_evenly() -> None:
    by = Slice((Expression.of(Var("x"), BIGINT),), 4)
    values = [0, 1, -1, 7, 100, None]
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]
    found = [by.of({"x": pa.chunked_array([pa.array(values, k)])}, len(values)).tolist() for k in kinds]
    assert found == [found[0]] * 4
    many = by.of({"x": pa.chunked_array([pa.array(range(0, 40_000, 4))])}, 10_000).tolist()
    assert all(2_300 < count < 2_700 for count in Counter(many).values())
    assert not by.is_given
    assert Slice((Expression.of(Var("x"), STRING),), 4).is_given


def test_slices_are_those_of_checkpoints() -> None:
    """Rows that come again, after a restart with a newer version, must find those that are there."""
    by = Slice((Expression.of(Var("x"), BIGINT), Expression.of(Var("y"), BIGINT)), 1_000)
    columns = {"x": pa.chunked_array([pa.array([0, 1, -5])]), "y": pa.chunked_array([pa.array([0, 2, 2**62])])}
    assert by.of(columns, 3).tolist() == [55, 227, 868]
