"""Measured exponents of counts: steps per update, as N grows, stay within 0.1 of N^max(ε, 1−ε), and on a hub flat.

Steps are counted by the kernel, so they repeat exactly; they include all rebalancing, from the empty database on. The
sequences, each adversarial for one side of the trade:

- *hub toggle* (triangle.md 20): two hubs share all their neighbours, and the edge between them comes and goes;
- *rotating hub* (triangle.md 20): one hub after the other grows and shrinks, so that keys move all the time;
- *vectors and a matrix* (triangle.md 15): the reduction of OuMv, the workload of the lower bound;
- *hubs beside a dense part*: lists as long as a light key allows, and as many heavy keys as there may be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from random import Random

import pytest

from everview.strategies.triangle.count_program import CountProgram
from tests.strategies.machines import Kernel
from tests.strategies.triangle.counting import CORNERS, HALF, MAKES, B, C, Make, Measure, over, path, shared

TOLERANCE = 0.1
R, S, T = range(3)
Row = tuple[int, ...]
Updates = Iterator[tuple[int, Row, int]]
"""The relation, the row, the change of its copies."""


def hub_toggle(size: int) -> Updates:
    """A third of the updates build R(h, i) and S(i, k); then T(k, h) comes and goes, as often as there are edges."""
    n = size // 2
    for i in range(n):
        yield R, (-1, i), 1
        yield S, (i, -2), 1
    for i in range(2 * n):
        yield T, (-2, -1), -1 if i % 2 else 1


def rotating_hub(size: int) -> Updates:
    """As the vector has it, with more vertices."""
    n = size // 6
    for h in range(3):
        for j in range(n):
            for k in (R, S, T):
                yield k, (h, j), 1
                if j != h:
                    yield k, (j, h), 1
                if h:
                    yield k, (h - 1, j), -1
                if h and j != h - 1:
                    yield k, (j, h - 1), -1


def vectors_and_a_matrix(size: int) -> Updates:
    """A dense random matrix, and then pairs of vectors, each changed to the next one."""
    random, n = Random(size), math.isqrt(size)
    for i, j in product(range(n), repeat=2):
        if random.random() < 0.8:
            yield S, (i, n + j), 1
    held: set[tuple[int, int]] = set()
    for _ in range(n // 2):
        for k in (R, T):
            for i in range(n):
                wanted = random.random() < 0.7
                if wanted != ((k, i) in held):
                    yield k, (-1, i) if k == R else (n + i, -1), 1 if wanted else -1
                    (held.add if wanted else held.remove)((k, i))


def hubs_beside_a_dense_part(size: int) -> Updates:
    """√N hubs with √N neighbours each, which all meet, and two hubs that have all; then every edge goes again."""
    n = math.isqrt(size // 4)
    rows = [(k, (x, y)) for x, y in product(range(n), repeat=2) for k in (R, S, T)]
    for i in range(size // 4):
        rows += [(S, (-1, i)), (T, (i, -2)), (R, (-2 if i == 0 else i, -1))]
    Random(size).shuffle(rows)
    rows = list(dict.fromkeys(rows))
    for sign in (1, -1):
        for k, row in rows:
            yield k, row, sign


SEQUENCES: dict[str, Callable[[int], Updates]] = {
    "hub toggle": hub_toggle,
    "rotating hub": rotating_hub,
    "vectors and a matrix": vectors_and_a_matrix,
    "hubs beside a dense part": hubs_beside_a_dense_part,
}


def steps_of(program: CountProgram, updates: Updates, one_table: bool = False) -> tuple[int, int]:
    """How many steps some updates take, and how many there are; all numbers of a row are 1."""
    maintained = program.compile()
    (entry,) = maintained.entries
    factors = [len(given.sums) + len(given.served_sums) for given in entry.atom_inputs]
    columns: list[list[int]] = [
        [] for r, n in zip(program.relations, factors, strict=True) for _ in (*r.words, 0, *[0] * n)
    ]
    columns.append([])
    known: Counter[tuple[int, Row]] = Counter()
    count = 0
    for k, row, change in updates:
        if one_table:
            # Vertices of the three kinds apart, so that an edge of one relation is none of another.
            row, k = (3 * row[0] + k, 3 * row[1] + (k + 1) % 3), 0
        known[k, row] += change
        assert known[k, row] >= 0
        at = 0
        for j, (relation, n) in enumerate(zip(program.relations, factors, strict=True)):
            own = (*row, 1, *[change] * n) if j == k else (0,) * (len(relation.words) + 1 + n)
            for word in own:
                columns[at].append(word)
                at += 1
        columns[-1].append(change)
        count += 1
    machine = Kernel(maintained.program)
    machine.apply("update r", columns)
    return machine.machine.steps, count


def slope(points: dict[int, float]) -> float:
    """The slope of log cost against log N, by least squares."""
    xs, ys = [math.log(n) for n in points], [math.log(c) for c in points.values()]
    mx, my = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - mx) * (y - my) for x, y in zip(xs, ys, strict=True)) / sum((x - mx) ** 2 for x in xs)


KINDS: dict[str, Make] = {
    "one edge table": shared,
    "heavy views": over(CORNERS, "heavy"),
    "single": over(CORNERS, "single"),
    "double": over(CORNERS, "double"),
}
SIZES = {"0": (64, 256, 1024), "1/2": (512, 2048, 8192), "1": (64, 256, 1024)}


@pytest.mark.parametrize("epsilon", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SEQUENCES)
def test_steps_of_a_triangle_count(name: str, kind: str, epsilon: str) -> None:
    points = {}
    for size in SIZES[epsilon]:
        program, _, _ = KINDS[kind](Fraction(epsilon), [])
        steps, updates = steps_of(program, SEQUENCES[name](size), kind == "one edge table")
        points[size] = steps / updates
    assert slope(points) <= max(Fraction(epsilon), 1 - Fraction(epsilon)) + TOLERANCE, points


PRODUCTS: list[Measure] = [{0: 0, 1: 0, 2: 0}, {0: 0, 2: 0}, {1: 0}]


@pytest.mark.parametrize("epsilon", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rotating hub", "hubs beside a dense part"])
def test_steps_of_sums_of_products(name: str, kind: str, epsilon: str) -> None:
    """They have the count's bound (spec 18.2), and take a constant times its steps."""
    points = {}
    for size in SIZES[epsilon][:2] if epsilon == "1/2" else SIZES[epsilon]:
        steps = []
        for measures in ([], PRODUCTS):
            program, _, _ = KINDS[kind](Fraction(epsilon), measures)
            found, updates = steps_of(program, SEQUENCES[name](size), kind == "one edge table")
            steps.append(found)
        assert steps[1] <= 2 * steps[0]
        points[size] = steps[1] / updates
    assert slope(points) <= max(Fraction(epsilon), 1 - Fraction(epsilon)) + TOLERANCE, points


def test_hubs_are_linear_without_parts() -> None:
    """With ε = 1 nothing is heavy, which is first-order maintenance: so the sequence does show a difference."""
    points = {}
    for size in (256, 1024, 4096):
        steps, updates = steps_of(shared(Fraction(1), [])[0], hub_toggle(size), one_table=True)
        points[size] = steps / updates
    assert slope(points) > 0.9, points


# --- paths and Loomis-Whitney counts ---


def three_path(size: int) -> Updates:
    """The same reduction without a corner: vectors r(b) and t(c) beside a matrix S(b, c) (triangle.md 18.3)."""
    for k, row, change in vectors_and_a_matrix(size):
        yield k, row if k == S else row[1:] if k == R else row[:1], change


def four_path(size: int) -> Updates:
    """Two matrices S(b, c) and T(c, d) with a hub in the middle, vectors at both ends that come and go."""
    random, n = Random(size), math.isqrt(size // 2)
    rows = [(k, (i, j)) for k in (1, 2) for i, j in product(range(n), repeat=2) if random.random() < 0.5]
    rows += [(k, (i, -1) if k == 1 else (-1, i)) for k in (1, 2) for i in range(n, size // 4)]
    random.shuffle(rows)
    for k, row in rows:
        yield k, row, 1
    for _ in range(4):
        for sign in (1, -1):
            for i in range(n):
                yield 0, (i,), sign
                yield 3, (i,), sign


def loomis_whitney(size: int) -> Updates:
    """A hub toggle, where three relations have all values for the variable that the fourth lacks; and a dense cube."""
    n = size // 4
    for z in range(n):
        yield 1, (0, 0, z), 1
        yield 2, (0, z, 0), 1
        yield 3, (z, 0, 0), 1
    side = round((size / 4) ** (1 / 3))
    for row in product(range(1, side + 1), repeat=3):
        for k in range(4):
            yield k, row, 1
    for i in range(2 * n):
        yield 0, (0, 0, 0), -1 if i % 2 else 1


RELATIVES: dict[str, tuple[Make, Callable[[int], Updates]]] = {
    "3-path, views over heavy keys": (over([(C,), (), (B,)], "heavy"), three_path),
    "3-path, pairs": (over([(C,), (), (B,)], "double"), three_path),
    "4-path": (path, four_path),
    "Loomis-Whitney 4": (MAKES["Loomis-Whitney 4"], loomis_whitney),
}


@pytest.mark.parametrize("epsilon", SIZES)
@pytest.mark.parametrize("name", RELATIVES)
def test_steps_of_its_relatives(name: str, epsilon: str) -> None:
    make, sequence = RELATIVES[name]
    for measures in ([], [{0: 0, 1: 0}, {2: 0, 0: 0}]):
        points = {}
        for size in SIZES[epsilon]:
            steps, updates = steps_of(make(Fraction(epsilon), measures)[0], sequence(size))
            points[size] = steps / updates
        assert slope(points) <= max(Fraction(epsilon), 1 - Fraction(epsilon)) + TOLERANCE, points


# --- hubs ---


@pytest.mark.parametrize("kind", ["one edge table", "heavy views", "single", "double"])
def test_a_hub_is_read_in_as_many_steps_at_any_size(kind: str) -> None:
    """An edge between two hubs that share all their neighbours, from 10³ of them to 10⁵ (triangle.md 18.6, 20)."""
    found = set()
    for n in (1_000, 10_000, 100_000):
        program, _, _ = KINDS[kind](HALF, [])
        machine = Kernel(program.compile().program)
        if kind == "one edge table":
            machine.apply("update r", [[*[-1] * n, *range(n)], [*range(n), *[-2] * n], [1] * 2 * n, [1] * 2 * n])
            toggle = [[-2] * 2, [-1] * 2, [1, 1], [1, -1]]
        else:
            none, ones = [0] * n, [1] * n
            hub, values = [-1] * n, list(range(n))
            for own in ([none, none, none, hub, values, ones, none, none, none],
                        [none, none, none, none, none, none, values, [-2] * n, ones]):  # fmt: skip
                machine.apply("update r", [*own, ones])
            toggle = [[-2] * 2, [-1] * 2, [1, 1], *[[0, 0]] * 6, [1, -1]]
        before = machine.machine.steps
        machine.apply("update r", toggle)
        found.add(machine.machine.steps - before)
    assert len(found) == 1


def test_steps_repeat_exactly() -> None:
    first, second = (steps_of(shared(HALF, [])[0], rotating_hub(300), one_table=True) for _ in range(2))
    assert first == second
