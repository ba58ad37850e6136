"""Formulas on shards: spread by components or kept by one shard, and on Spark what they are embedded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import everview as ev
from everview.errors import (
    ComponentError,
    FormulaLimitError,
    NotCountedError,
    OptionError,
    PipelineError,
    QueryError,
)
from everview.query.formula import ANY_VALUE, And, Fact, Formula, FormulaQuery, Not, Or, Quantifier
from everview.spark.checkpoint.pins import plan_over
from everview.sql import parse_schema
from tests.query.formulas import ARITIES, Model, random_query
from tests.scale import scaled
from tests.spark.cluster import Cluster
from tests.spark.harness import Stream

TABLES = parse_schema(
    "; ".join(f"CREATE TABLE {t} ({', '.join(f'c{i} BIGINT' for i in range(n))}, m STRING)" for t, n in ARITIES.items())
)
COMPONENTS = 3
Rows = dict[str, set[tuple[Any, ...]]]


def with_labels(formula: Formula) -> Formula:
    """The formula over tables with one column more."""
    match formula:
        case Fact(relation, terms):
            return Fact(relation, (*terms, ANY_VALUE))
        case Not(body):
            return Not(with_labels(body))
        case And(parts):
            return And(tuple(map(with_labels, parts)))
        case Or(parts):
            return Or(tuple(map(with_labels, parts)))
        case Quantifier(condition, variable, body):
            return Quantifier(condition, variable, with_labels(body))
    return formula


def random_change(random: Random, rows: Rows) -> None:
    """A row more, or less, within a component: elements of one remainder."""
    name = random.choice(tuple(ARITIES))
    if rows[name] and random.random() < 0.4:
        rows[name].discard(random.choice(sorted(rows[name])))
        return
    component = random.randrange(COMPONENTS)
    row = tuple(component + COMPONENTS * random.randint(0, 3) for _ in range(ARITIES[name]))
    every = And(tuple(Fact(r, tuple(f"v{i}" for i in range(n))) for r, n in ARITIES.items()))  # type: ignore[arg-type]
    rows[name].add(row)
    if Model.of(rows, every).degree > 3:
        rows[name].discard(row)


def labelled(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row with its component: one of them is NULL."""
    return (*row, ("a", "b", None)[row[0] % COMPONENTS])


def random_views(random: Random, wanted: int) -> tuple[dict[str, str], dict[str, FormulaQuery]]:
    """Formulas as ``maintain`` takes them, and what they are without components."""
    texts: dict[str, str] = {}
    queries: dict[str, FormulaQuery] = {}
    while len(queries) < wanted:
        name = f"q{len(queries)}"
        found = random_query(random, random.choice((0, 1, 1, 1, 2, 2)), rank=random.randint(1, 2))
        text = str(FormulaQuery(name, found.head, with_labels(found.formula)))
        try:
            ev.explain(text, TABLES, degree=3, component="m")
        except (FormulaLimitError, QueryError):
            continue
        texts[name], queries[name] = text, found
    return texts, queries


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_random_formulas_on_shards(seed: int) -> None:
    """Beside brute force: formulas that are spread, and others, with views that need the same rows elsewhere."""
    random = Random(f"shards {seed}")
    texts, queries = random_views(random, 3)
    joined = "SELECT x.c0 AS a, y.c1 AS b FROM E x JOIN E y ON x.c1 = y.c0"
    options = {name: {"degree": 3, "component": "m"} for name in queries}
    clusters = [Cluster({"j": joined, **texts}, TABLES, n, options=options) for n in (1, 3)]
    rows: Rows = {name: set() for name in ARITIES}
    for step in range(6):
        before = {name: set(found) for name, found in rows.items()}
        for _ in range(random.choice((1, 2, 6))):
            random_change(random, rows)
        for cluster in clusters:
            read = {t.name for t in cluster.schema}
            cluster.apply(
                {
                    name: [
                        (labelled(row), w)
                        for w, s in ((-1, before[name] - rows[name]), (1, rows[name] - before[name]))
                        for row in s
                    ]
                    for name in ARITIES
                    if name in read
                }
            )
            if step == 3:
                cluster.rebuild()
        for name, query in queries.items():
            right = Counter(Model.of(rows, query.formula).answers(query))
            for cluster in clusters:
                assert cluster.results[name] == right, (seed, texts[name], rows)
        pairs = Counter((a, d) for a, b in rows["E"] for c, d in rows["E"] if b == c)
        assert all(cluster.results["j"] == pairs for cluster in clusters)


# --- what is spread --------------------------------------------------------------------------------------------------

ATOMS = "CREATE TABLE atom (id BIGINT NOT NULL, element STRING, molecule BIGINT NOT NULL)"
BONDS = "CREATE TABLE bond (a BIGINT NOT NULL, b BIGINT NOT NULL, molecule BIGINT NOT NULL)"
ACID = (
    "SELECT DISTINCT id FROM atom WHERE element = 'C' AND (SELECT COUNT(DISTINCT b.b) FROM bond b JOIN atom o "
    "ON o.id = b.b AND o.molecule = b.molecule WHERE b.a = atom.id AND o.element = 'O') >= 2"
)
SPREAD: list[tuple[str, dict[str, Any], str]] = [
    ("q(x) := atom(x, 'C', _) and exists[1 mod 2] y (bond(x, y, _))", {}, "spread over shards by molecule"),
    ("q(x, y) := bond(x, y, _) and not bond(y, x, _)", {}, "spread over shards by molecule"),
    ("q(x) := atom(x, 'C', _)", {"component": None}, "kept by one shard: no component is declared"),
    ("q() := exists x (atom(x, 'C', _))", {}, "kept by one shard: a formula without variables is about all elements"),
    (
        "q(x) := atom(x, 'C', _) and exists[0 mod 2] y (atom(y, 'O', _))",
        {},
        "kept by one shard: exists[0 mod 2] y (atom(y, 'O', _)) counts over all elements",
    ),
    (
        "q(x) := atom(x, 'C', _) and exists>=2 y (not bond(x, y, _))",
        {},
        "kept by one shard: exists>=2 y (not bond(x, y, _)) counts over all elements",
    ),
    ("q(x, y) := atom(x, 'C', _) and atom(y, 'O', _)", {}, "kept by one shard: x and y may be far apart"),
    (
        "q(x) := not atom(x, 'C', _)",
        {"domain": "schema"},
        "kept by one shard: other, of which rows matter, has no column",
    ),
    ("q(x) := not atom(x, 'C', _)", {"domain": "query"}, "spread over shards by molecule"),
]


@pytest.mark.parametrize(("text", "options", "said"), SPREAD, ids=range(len(SPREAD)))
def test_explain_says_how_it_is_spread(text: str, options: dict[str, Any], said: str) -> None:
    schema = f"{ATOMS}; {BONDS}; CREATE TABLE other (z BIGINT)"
    asked = {"degree": 4, "component": "molecule", **options}
    found = ev.explain(text, schema, shards=4, **asked)  # type: ignore[arg-type]
    assert f"on Spark it is {said}" in " ".join(str(found).split())
    grid = found.to_dict()["shards"]["views"]["q"]
    assert grid["shares"] == ({"molecule": 4} if said.startswith("spread") else {"all": 4})
    assert found.to_dict()["shards"]["merged"] == (["q's components"] if said.startswith("spread") else [])


def test_components_that_are_none() -> None:
    with pytest.raises(OptionError, match="no table that q reads has such a column"):
        ev.explain("q(x) := exists y (bond(x, y, _))", BONDS, degree=3, component="molekule")
    tables = f"{BONDS}; CREATE TABLE atom (id BIGINT, molecule STRING)"
    with pytest.raises(OptionError, match=r"the component is STRING in atom.molecule and BIGINT in bond.molecule"):
        ev.explain("q(x) := atom(x, _) and exists y (bond(x, y, _))", tables, degree=3, component="molecule")
    with pytest.raises(PipelineError, match="view p is a formula that calls itself q"):
        plan_over({"p": "q(x) := exists y (bond(x, y, _))"}, parse_schema(BONDS), 2, options={"degree": 3})


def embedded(batch: Callable[[ev.Database], None]) -> None:
    db = ev.Database()
    for statement in (ATOMS, BONDS, f"CREATE VIEW acid OPTIONS (degree = 3, component = molecule) AS {ACID}"):
        db.sql(statement)
    db.insert("bond", [(1, 2, 7), (3, 4, 8)])
    batch(db)


def test_an_element_in_two_components_is_refused() -> None:
    """Embedded, and on shards, where neither of the two rows' shards has the other's; in one batch it may move."""

    def mixed(db: ev.Database) -> None:
        feed = db.view("acid").changes()
        with pytest.raises(ComponentError, match="acid: element 2 stands in rows of two components, by their molecule"):
            db.insert("bond", [(2, 3, 8)])
        with db.batch() as together:
            together.delete("bond", [(1, 2, 7)])
            together.insert("bond", [(1, 2, 9), (2, 5, 9)])
        assert not feed.read()

    embedded(mixed)
    for shards in (1, 2, 5):
        sql = f"CREATE VIEW acid OPTIONS (degree = 3, component = molecule) AS {ACID}"
        cluster = Cluster(sql, parse_schema(f"{ATOMS}; {BONDS}"), shards)
        cluster.apply({"bond": [((1, 2, 7), 1), ((3, 4, 8), 1)]})
        cluster.apply({"bond": [((1, 2, 7), -1), ((1, 2, 9), 1), ((2, 5, 9), 1)]})
        with pytest.raises(ComponentError, match=r"element 2 stands in rows of two components"):
            cluster.apply({"atom": [((2, "C", 10), 1)]})


# --- on Spark --------------------------------------------------------------------------------------------------------

STRUCTS = {
    "atom": StructType(
        [StructField("id", LongType()), StructField("element", StringType()), StructField("molecule", LongType())]
    ),
    "bond": StructType(
        [StructField("a", LongType()), StructField("b", LongType()), StructField("molecule", LongType())]
    ),
}
VIEWS = {
    "acid": f"CREATE MATERIALIZED VIEW acid OPTIONS (degree = 3, component = molecule) AS {ACID}",
    "odd": "odd(x) := atom(x, 'C', _) and exists[1 mod 2] y (bond(x, y, _))",
    "one_way": "one_way(x, y) := bond(x, y, _) and not bond(y, x, _)",
    "far": "far(x) := atom(x, 'O', _) and exists>=3 y (atom(y, 'C', _) and not bond(x, y, _))",
}
OPTIONS = {n: {"degree": 3, "component": "molecule"} for n in ("odd", "one_way", "far")}


def molecules(random: Random, first: int, number: int) -> tuple[list[Any], list[Any]]:
    atoms, bonds = [], []
    for molecule in range(first, first + number):
        ids = [100 * molecule + i for i in range(random.randint(2, 6))]
        atoms += [(i, random.choice("COO"), molecule) for i in ids]
        bonds += [(a, b, molecule) for a, b in pairwise(ids)]
        bonds += [(b, a, molecule) for a, b in pairwise(ids) if random.random() < 0.7]
    return atoms, bonds


@pytest.mark.slow
@pytest.mark.parametrize("shards", [1, 3])
def test_on_spark_as_embedded(stream: Callable[..., Stream], shards: int) -> None:
    """Embedded and Spark tell the same, before and after a restart; a batch beyond the degree fails."""
    random = Random(shards)
    db = ev.Database()
    for statement in (ATOMS, BONDS, VIEWS["acid"]):
        db.sql(statement)
    for name in OPTIONS:
        db.formula(VIEWS[name], degree=3, component="molecule")
    views = {"acid": ACID, **{name: VIEWS[name] for name in OPTIONS}}
    options = {**OPTIONS, "acid": {"degree": 3, "component": "molecule"}}
    s = stream(STRUCTS)
    s.start(views, shards=shards, schema=f"{ATOMS}; {BONDS}", options=options, place=str(s.folder / "checkpoint"))
    held: list[Any] = []
    seen: set[str] = set()
    for step in range(3):
        atoms, bonds = molecules(random, 10 * step, 8)
        gone = random.sample(held, len(held) // 3)
        held = [row for row in held if row not in gone] + bonds
        with db.batch() as batch:
            batch.insert("atom", atoms)
            batch.delete("bond", gone)
            batch.insert("bond", bonds)
        s.put(
            {
                "atom": [(row, "insert") for row in atoms],
                "bond": [*((row, "delete") for row in gone), *((row, "insert") for row in bonds)],
            }
        )
        for name in views:
            assert s.result(name) == Counter(db.view(name)), (step, name)
            seen |= {name} if len(db.view(name)) else set()
        if step == 1:
            s.stop()
            s.start(views, schema=f"{ATOMS}; {BONDS}", options=options, place=str(s.folder / "checkpoint"))
    assert seen == set(views)
    with pytest.raises(Exception, match=r"DegreeExceeded.* may have 3"):
        s.put({"bond": [((1, i, 0), "insert") for i in range(2, 6)]})


def test_three_variables_are_not_told() -> None:
    with pytest.raises(NotCountedError, match="q has three variables, and what changes in it is not told"):
        plan_over("q(x, y, z) := bond(x, y, _) and bond(y, z, _)", parse_schema(BONDS), 2, options={"degree": 3})
