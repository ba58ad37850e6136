"""Views over tables with constraints: the same rows as DuckDB finds without any, and no superfluous join."""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

import everview as ev
from everview.errors import DataError
from tests.scale import thoroughness

TABLES = {
    "region": "id INT PRIMARY KEY, name STRING",
    "city": "id INT PRIMARY KEY, region INT NOT NULL REFERENCES region, name STRING",
    "person": (
        "id INT PRIMARY KEY, home INT REFERENCES city, friend INT REFERENCES person, kind INT CHECK (kind IN (1, 2))"
    ),
    "visit": "person INT REFERENCES person, city INT NOT NULL REFERENCES city, stars INT",
    "pair": "a INT, b INT, note INT, PRIMARY KEY (a, b)",
    "link": "x INT, y INT, FOREIGN KEY (y, x) REFERENCES pair (b, a)",
    "place": "id INT PRIMARY KEY REFERENCES region",
    "tour": "day INT, city INT NOT NULL REFERENCES city, region INT NOT NULL REFERENCES place",
}
QUERIES = {
    # The query, and the relations that are left to maintain.
    "SELECT v.stars FROM visit v JOIN city c ON v.city = c.id": "visit",
    "SELECT v.stars FROM visit v JOIN person p ON v.person = p.id": "visit",
    "SELECT DISTINCT v.stars FROM visit v JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id": "visit",
    "SELECT v.stars, c.name FROM visit v JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id": "city visit",
    "SELECT v.stars, r.name FROM visit v JOIN city c ON v.city = c.id JOIN region r ON c.region = r.id": (
        "city region visit"
    ),
    "SELECT COUNT(*) AS n FROM visit v JOIN person p ON v.person = p.id JOIN city c ON v.city = c.id": "visit",
    "SELECT c.id, SUM(v.stars) AS s FROM visit v JOIN city c ON v.city = c.id GROUP BY c.id": "visit",
    "SELECT c.name, SUM(v.stars) AS s, MAX(v.stars) AS m FROM visit v JOIN city c ON v.city = c.id GROUP BY c.name": (
        "city visit"
    ),
    "SELECT p.id FROM person p JOIN person f ON p.friend = f.id": "person",
    "SELECT p.id, f.kind FROM person p JOIN person f ON p.friend = f.id": "person person",
    "SELECT p.id, q.kind FROM person p JOIN person q ON p.id = q.id": "person",
    "SELECT p.friend, q.friend AS again FROM person p JOIN person q ON p.id = q.id": "person",
    "SELECT p.kind FROM person p JOIN person q ON p.id = q.id WHERE p.home = 1 AND q.friend = 2": "person",
    "SELECT p.kind, COUNT(*) AS n FROM person p JOIN person q ON p.id = q.id GROUP BY p.kind": "person",
    "SELECT v.stars FROM visit v JOIN city c ON v.city = c.id WHERE c.name = 'a'": "city visit",
    "SELECT v.stars FROM visit v JOIN person p ON v.person = p.id WHERE p.home IS NOT NULL": "person visit",
    "SELECT l.x FROM link l JOIN pair p ON l.x = p.a AND l.y = p.b": "link",
    "SELECT l.x FROM link l JOIN pair p ON l.x = p.b AND l.y = p.a": "link pair",
    "SELECT l.x FROM link l JOIN pair p ON l.x = p.a": "link pair",
    "SELECT l.x FROM link l JOIN visit v ON l.x = v.person JOIN person p ON p.id = l.x": "link visit",
    "SELECT v.stars FROM visit v, city c WHERE v.city = c.id UNION SELECT p.kind FROM person p": "person visit",
    "SELECT p.id FROM person p WHERE p.home IN (SELECT id FROM city)": "city person",
    # By chains of foreign keys, and by several of them together.
    "SELECT v.stars FROM visit v JOIN tour t ON v.city = t.city JOIN region r ON r.id = t.region": "tour visit",
    "SELECT t.day FROM tour t JOIN region r ON r.id = t.region": "tour",
    "SELECT DISTINCT v.stars FROM visit v, person p, link l, pair WHERE v.person = p.id AND l.x = a AND l.y = b": (
        "link visit"
    ),
    "SELECT DISTINCT t.day FROM tour t, city c, region r WHERE c.region = r.id AND t.city = c.id": "tour",
    "SELECT DISTINCT t.day FROM tour t, city c, region r WHERE c.region = r.id AND t.city = c.id AND r.id = t.region": (
        "city tour"
    ),
    # Members of a union that others contain.
    "SELECT v.city FROM visit v UNION SELECT c.id FROM city c": "city",
    "SELECT v.person FROM visit v UNION SELECT p.id FROM person p": "person visit",
    "SELECT v.person FROM visit v WHERE v.person IS NOT NULL UNION SELECT p.id FROM person p": "person",
}


def schema(*, constrained: bool = True) -> str:
    found = "; ".join(f"CREATE TABLE {name} ({columns})" for name, columns in TABLES.items())
    if constrained:
        return found
    free = ["CREATE TABLE region (id INT, name STRING)", "CREATE TABLE city (id INT, region INT, name STRING)"]
    free += ["CREATE TABLE person (id INT, home INT, friend INT, kind INT)"]
    free += ["CREATE TABLE visit (person INT, city INT, stars INT)", "CREATE TABLE pair (a INT, b INT, note INT)"]
    free += ["CREATE TABLE place (id INT)", "CREATE TABLE tour (day INT, city INT, region INT)"]
    return "; ".join([*free, "CREATE TABLE link (x INT, y INT)"])


def views(db: ev.Database) -> None:
    for i, query in enumerate(QUERIES):
        db.create_view(f"v{i}", query)


@pytest.mark.parametrize("query", QUERIES)
def test_joins_that_constraints_make_superfluous_are_not_maintained(query: str) -> None:
    db = ev.Database()
    db.sql(schema())
    db.create_view("v", query)
    found = [a.relation for c in db._views["v"].cores for a in c.plan.query.atoms]
    left = set(found) - {s.name for s in db._views["v"].view.stages}
    assert left == set(QUERIES[query].split())
    if "MAX" not in query and " IN (" not in query:
        assert sorted(found) == QUERIES[query].split()


number = st.integers(0, 3)
maybe = st.one_of(st.none(), number)
rows = {
    "region": st.tuples(number, st.sampled_from("ab")),
    "city": st.tuples(number, number, st.sampled_from("ab")),
    "person": st.tuples(number, maybe, maybe, st.sampled_from((None, 1, 2))),
    "visit": st.tuples(maybe, number, number),
    "pair": st.tuples(number, number, maybe),
    "link": st.tuples(maybe, maybe),
    "place": st.tuples(number),
    "tour": st.tuples(number, number, number),
}
change = st.sampled_from(list(TABLES)).flatmap(lambda t: st.tuples(st.just(t), rows[t], st.sampled_from((1, 1, 1, -1))))
everything = [("region", (i, "a"), 1) for i in range(4)]
everything += [("city", (i, i % 2, "ab"[i % 2]), 1) for i in range(4)]
everything += [("person", (i, None, 3 - i, None), 1) for i in range(4)]
everything += [("place", (i,), 1) for i in range(3)]
everything += [("pair", (i, j, None), 1) for i in range(4) for j in range(3)]


@thoroughness(12)
@given(st.lists(st.lists(change, min_size=1, max_size=5), min_size=1, max_size=12), st.booleans())
def test_views_have_the_rows_that_the_query_has_without_constraints(steps: list[list[Any]], filled: bool) -> None:
    db = ev.Database()
    db.sql(schema())
    views(db)
    feeds = {name: db.view(name).changes() for name in db.views[::2]}
    sums: dict[str, Counter[Any]] = {name: Counter() for name in feeds}
    held: dict[str, Counter[Any]] = {name: Counter() for name in TABLES}
    for name in feeds:
        sums[name].update(map(tuple, db.view(name)))
    for step in [everything, *steps] if filled else steps:
        try:
            with db.batch() as batch:
                for table, row, weight in step:
                    (batch.insert if weight > 0 else batch.delete)(table, [row])
        except DataError:
            continue
        for table, row, weight in step:
            held[table][row] += weight
    con = duckdb.connect()
    con.execute(schema(constrained=False).replace("STRING", "VARCHAR"))
    for name, counted in held.items():
        listed = list(counted.elements())
        if listed:
            con.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(listed[0]))})", listed)
    for i, query in enumerate(QUERIES):
        assert Counter(map(tuple, db.view(f"v{i}"))) == Counter(con.execute(query).fetchall()), query
    for name, feed in feeds.items():
        for batch in feed.read():
            for row in batch.to_pylist():
                sign = 1 if row["_change_type"] in ("insert", "update_postimage") else -1
                cells = tuple(v for k, v in row.items() if not k.startswith("_"))
                sums[name][cells] += sign * row["_count"]
        assert +sums[name] == Counter(map(tuple, db.view(name)))


_PLACE = "(region) → place(id) of tour and the foreign key (id) → region(id) of place make the join with region"
_CITY = "(city) → city(id) of tour and the foreign key (region) → region(id) of city make the join with city"
_MEMBER = "member 1 of the union adds nothing to the others, by the foreign key (city) → city(id) of visit, and is"
BOUGHT = {
    "SELECT t.day FROM tour t JOIN region r ON r.id = t.region": [_PLACE],
    "SELECT DISTINCT t.day FROM tour t, city c, region r WHERE c.region = r.id AND t.city = c.id": [_CITY, _PLACE],
    "SELECT v.city FROM visit v UNION SELECT c.id FROM city c": [_MEMBER],
}


@pytest.mark.parametrize("query", BOUGHT)
def test_explain_says_which_constraints_bought_what(query: str) -> None:
    notes = [note for note in ev.explain(query, schema()).notes if note.endswith("not maintained")]
    shown = [note.removeprefix("the foreign key ").removesuffix(" not maintained") for note in notes]
    assert [note.removesuffix(" superfluous: it is") for note in shown] == BOUGHT[query]
