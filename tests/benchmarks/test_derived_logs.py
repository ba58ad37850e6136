"""SNB-derived and TPC-H-derived logs: rows come before they go, in one order; generated ones are always the same."""

from __future__ import annotations

import gzip
from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.data import snb, tpch
from benchmarks.data.log import BEFORE, Log
from everview.engine.input.read import table_schema
from everview.sql import parse_schema

DAY = 86_400_000_000


def check(log: Log, keys: dict[str, tuple[str, ...]]) -> None:
    """Every place is taken once; a row, known by its key, goes only while it is there and does not come twice."""
    places = np.concatenate([t["_at"].to_numpy() for t in log.tables.values()])
    updates = places[places != BEFORE]
    assert sorted(updates.tolist()) == list(range(log.updates))
    assert log.updates > 0
    for name, key in keys.items():
        rows = log.tables[name]
        at = rows["_at"].to_numpy()
        assert (np.diff(at) >= 0).all()
        there: Counter[tuple[object, ...]] = Counter()
        for *row, weight in zip(*(rows[c].to_pylist() for c in (*key, "_weight")), strict=True):
            there[tuple(row)] += weight
            assert there[tuple(row)] in (0, 1)


SNB_KEYS = {
    "person": ("p_personid",),
    "tag": ("t_tagid",),
    "knows": ("k_person1id", "k_person2id"),
    "message": ("m_messageid",),
    "message_tag": ("mt_messageid", "mt_tagid"),
}


# --- SNB-derived -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return snb.log(0.001, tmp_path_factory.mktemp("snb") / "log")


def test_generated_network_is_well_formed(generated: Log) -> None:
    check(generated, SNB_KEYS)
    tables = generated.tables
    persons = set(tables["person"]["p_personid"].to_pylist())
    assert (
        set(tables["knows"]["k_person1id"].to_pylist()) | set(tables["message"]["m_creatorid"].to_pylist()) <= persons
    )
    message = set(tables["message"]["m_messageid"].to_pylist())
    assert set(tables["message_tag"]["mt_messageid"].to_pylist()) <= message
    assert set(tables["message"]["m_c_replyof"].to_pylist()) - {None} <= message
    assert sum(p % 10 == 0 for p in persons) == pytest.approx(len(persons) / 10, abs=1)


def test_generated_network_is_always_the_same(generated: Log, tmp_path: Path) -> None:
    again = snb.log(0.001, tmp_path / "log")
    assert all(again.tables[t].equals(generated.tables[t]) for t in SNB_KEYS)


def test_rows_live_for_some_days_in_one_order(tmp_path: Path) -> None:
    log = snb.log(0.001, tmp_path / "log", days=30)
    message = log.tables["message"]
    dates = message["m_creationdate"].cast(pa.int64()).to_numpy()
    times = np.where(message["_weight"].to_numpy() > 0, dates, dates + 30 * DAY)
    assert (np.diff(times) >= 0).all()
    ids, comes = message["m_messageid"].to_numpy(), message["_weight"].to_numpy() > 0
    gone = ids[~comes]
    assert 0 < len(gone) < len(message) / 2
    assert (gone == ids[comes][: len(gone)]).all()


def test_some_are_far_more_popular(generated: Log) -> None:
    friends = Counter(generated.tables["knows"]["k_person1id"].to_pylist())
    assert max(friends.values()) > 3 * np.median(list(friends.values()))


FILES = {
    "person": "id|firstName|lastName|gender\n1|A|B|x\n2|C|D|y\n10|E|F|x",
    "tag": 'id|name|url\n7|Say_"so"|u\n8|Eight|v',
    "person_knows_person": "Person.id|Person.id|creationDate\n1|2|2010-01-05T00:00:00.500+0000",
    "post": "id|creationDate|content|creator\n100|2010-01-01T10:00:00.000+0000||1\n"
    "101|2010-01-31T00:00:00.000+0000|hi|2",
    "comment": "id|creationDate|content|creator|replyOfPost|replyOfComment\n"
    "102|2010-01-02T00:00:00.000+0000|yes|2|100|\n103|2010-01-03T00:00:00.000+0000|no|1||102",
    "post_hasTag_tag": "Post.id|Tag.id\n100|7\n101|8",
    "comment_hasTag_tag": "Comment.id|Tag.id\n103|8",
}


def test_files_of_the_generator(tmp_path: Path) -> None:
    (tmp_path / snb.FILES).mkdir()
    for name, text in FILES.items():
        (tmp_path / snb.FILES / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode() + b"\n"))
    log = snb.log(1, tmp_path / "log", tmp_path, days=10)
    check(log, SNB_KEYS)
    message = log.tables["message"].select(["m_messageid", "m_content", "m_c_replyof", "_weight"]).to_pylist()
    assert [tuple(row.values()) for row in message] == [
        (100, "", None, 1), (102, "yes", 100, 1), (103, "no", 102, 1),
        (100, "", None, -1), (102, "yes", 100, -1), (103, "no", 102, -1), (101, "hi", None, 1),
    ]  # fmt: skip
    assert log.tables["tag"]["t_name"].to_pylist() == ['Say_"so"', "Eight"]
    knows = log.tables["knows"]
    assert set(zip(knows["k_person1id"].to_pylist(), knows["k_person2id"].to_pylist(), strict=True)) == {(1, 2), (2, 1)}
    assert str(knows["k_creationdate"][0].as_py()) == "2010-01-05 00:00:00.500000+00:00"
    assert log.updates == 7 + 4 + 5


# --- TPC-H-derived ---------------------------------------------------------------------------------------------------


def population(orders: int) -> dict[str, pa.Table]:
    """The six tables with a few rows: order k has k % 4 lines."""
    schema = parse_schema(tpch.SCHEMA.read_text(encoding="utf-8"))
    sizes = dict.fromkeys(tpch.STATIC, 2) | {"orders": orders}
    found = {}
    for name in (*tpch.STATIC, *tpch.REFRESHED):
        table = schema.table(name)
        assert table is not None
        wanted = table_schema(table)
        parents = [k for k in range(orders) for _ in range(k % 4)] if name == "lineitem" else range(sizes[name])
        columns = [pa.array([_value(f.type, k) for k in parents], f.type) for f in wanted]
        found[name] = pa.table(columns, names=wanted.names)
    lines = [n for k in range(orders) for n in range(k % 4)]
    at = found["lineitem"].schema.get_field_index("l_linenumber")
    found["lineitem"] = found["lineitem"].set_column(at, "l_linenumber", pa.array(lines, pa.int32()))
    return found


def _value(type_: pa.DataType, number: int) -> object:
    if pa.types.is_string(type_):
        return str(number)
    if pa.types.is_date(type_):
        return date(1995, 1, 1 + number % 28)
    return Decimal(number) if pa.types.is_decimal(type_) else number


def test_refresh_streams(tmp_path: Path) -> None:
    log = tpch.write("small", population(41), tmp_path / "log")
    check(log, {"orders": ("o_orderkey",), "lineitem": ("l_orderkey", "l_linenumber")})
    orders = log.tables["orders"]
    weights, keys = orders["_weight"].to_pylist(), orders["o_orderkey"].to_pylist()
    assert [(k, w) for k, w, at in zip(keys, weights, orders["_at"].to_pylist(), strict=True) if at >= 0][:4] == [
        (20, 1), (0, -1), (21, 1), (1, -1),
    ]  # fmt: skip
    assert len(orders) == 41 + 21
    assert sum(weights) == 20
    assert set(log.initial()) == {*tpch.STATIC, "orders", "lineitem"}


def test_lines_are_there_only_with_their_order(tmp_path: Path) -> None:
    log = tpch.write("small", population(41), tmp_path / "log")
    events = []
    for name, key, rank in (("orders", "o_orderkey", 0), ("lineitem", "l_orderkey", 1)):
        t = log.tables[name]
        events += zip(t["_at"].to_pylist(), [rank] * len(t), t[key].to_pylist(), t["_weight"].to_pylist(), strict=True)
    present: set[int] = set()
    lines: Counter[int] = Counter()
    for _, rank, key, weight in sorted(events, key=lambda e: e[:2]):
        if rank:
            lines[key] += weight
            assert key in present
        else:
            assert not lines[key]
            (present.add if weight > 0 else present.remove)(key)


def test_more_orders_than_functions_go_together(tmp_path: Path) -> None:
    log = tpch.write("large", population(4_000), tmp_path / "log")
    orders = log.tables["orders"]
    later = [w for w, at in zip(orders["_weight"].to_pylist(), orders["_at"].to_pylist(), strict=True) if at >= 0]
    assert later[:12] == [1] * 4 + [-1] * 4 + [1] * 4
