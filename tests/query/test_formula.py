"""Formulas: written in the core language, analysed and normalised, without changing what they mean."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from everview.errors import FormulaLimitError
from everview.query.formula import (
    FALSE,
    TRUE,
    And,
    AtLeast,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Or,
    Quantifier,
    Residue,
    at_most,
    equivalent,
    exactly,
    exists,
    for_all,
    implies,
    quantifiers,
)
from everview.query.formula_limits import balls, check_limits
from everview.query.formula_normal import is_domain_independent, normalised
from everview.query.locality import GUARDED, Guard, Locality, ball_bound, links
from everview.query.terms import Var
from tests.query.formulas import Model, random_query, random_rows
from tests.scale import scaled

a, b, x, y, z, u = map(Var, "abxyzu")


def E(left: Var, right: Var) -> Fact:
    return Fact("E", (left, right))


def B(term: Var) -> Fact:
    return Fact("B", (term,))


def R(term: Var) -> Fact:
    return Fact("R", (term,))


def located(formula: Formula, *head: Var) -> Locality:
    return Locality(normalised(FormulaQuery("q", head, formula)))


def test_printing_and_what_is_written_in_the_core_language() -> None:
    assert str(exists((x, y), And((E(x, y), Not(Equal(x, y)))))) == "exists x (exists y (E(x, y) and x != y))"
    assert str(for_all((x,), implies(B(x), R(x)))) == "forall x (not B(x) or R(x))"
    assert str(Not(Distance(x, y, 3))) == "dist(x, y) > 3"
    assert str(at_most(2, x, B(x))) == "exists<=2 x (B(x))"
    assert str(exactly(2, x, B(x))) == "exists>=2 x (B(x)) and exists<=2 x (B(x))"
    assert str(exactly(0, x, B(x))) == "not exists x (B(x))"
    assert str(Quantifier(Residue(0, 2), x, B(x))) == "exists[0 mod 2] x (B(x))"
    assert str(And((Or((B(x), R(x))), Not(And((B(x), R(x))))))) == "(B(x) or R(x)) and not (B(x) and R(x))"


def test_links_and_guards() -> None:
    assert links(And((E(x, y), E(y, z))))[frozenset((x, z))] == 2
    assert links(And((E(x, y), Equal(y, z))))[frozenset((x, z))] == 1
    assert links(Or((E(x, y), Distance(x, y, 3)))) == {frozenset((x, y)): 3}
    assert links(Not(E(x, y))) == {} == links(Quantifier(Residue(0, 2), z, And((E(x, z), E(z, y)))))
    assert links(Quantifier(Residue(1, 2), z, And((E(x, z), E(z, y))))) == {frozenset((x, y)): 2}
    assert links(Not(Quantifier(Residue(0, 3), z, And((E(x, z), E(z, y)))))) == {frozenset((x, y)): 2}


def test_radius_of_nested_unguarded_quantifiers() -> None:
    """fo-mod.md 10 M10: 0, 1, 4, 13, 40."""
    formula: Formula = And((Not(E(x, y)), Not(Equal(x, y))))
    names = [x, y, *(Var(f"w{i}") for i in range(4))]
    found = []
    for depth in range(5):
        pairs = [Not(E(s, t)) for s, t in pairwise(names)][: depth + 1]
        formula = exists(names[1 : depth + 1], And((*pairs, B(names[depth])))) if depth else B(x)
        found.append(located(formula, x).reach)
    assert found == [0, 1, 4, 13, 40]


def test_radius_of_a_guarded_path_in_either_order() -> None:
    """fo-mod.md 10 M10: 2, whichever way it is written."""
    outward = exists((y,), And((E(x, y), exists((z,), And((E(y, z), R(z)))))))
    inward = exists((z,), And((R(z), exists((y,), And((E(x, y), E(y, z)))))))
    for formula in (outward, inward):
        found = located(formula, x)
        assert (found.radius, found.reach, found.tier, found.caching_class) == (2, 2, "A", "G0")
        assert [q.kind for q in found.quantifiers] == [GUARDED, GUARDED]
    assert Locality(FormulaQuery("q", (x,), inward)).radius == 3


def test_too_large_a_radius_is_refused_with_its_part() -> None:
    """fo-mod.md 10 M10: unguarded rank 3."""
    formula = exists((y, z, u), And((Not(E(x, y)), Not(E(y, z)), Not(E(z, u)))))
    with pytest.raises(FormulaLimitError) as caught:
        check_limits(located(formula, x), 3)
    error = caught.value
    assert (error.limit, error.bound, error.allowed) == ("RADIUS_LIMIT", 13, 4)
    assert error.subformula is not None
    assert error.subformula in str(error)
    assert "guard variable" in str(error.hint)


@pytest.mark.parametrize(
    ("formula", "head", "degree", "limit"),
    [
        (And(tuple(B(v) for v in (x, y, z, u))), (x, y, z, u), 3, "ARITY_LIMIT"),
        (exists((y,), And((Distance(x, y, 2), B(y)))), (x,), 9, "BALL_LIMIT"),
        (Or(tuple(Quantifier(AtLeast(i), x, B(x)) for i in range(1, 18))), (), 3, "SENTENCE_LIMIT"),
        (exists((y,), And((Not(exists((z,), And((Not(E(y, z)), B(z))))), Not(E(x, y))))), (x,), 12, "BALL_LIMIT"),
    ],
)
def test_limits(formula: Formula, head: tuple[Var, ...], degree: int, limit: str) -> None:
    with pytest.raises(FormulaLimitError) as caught:
        check_limits(located(formula, *head), degree)
    error = caught.value
    assert error.limit == limit
    assert error.bound > error.allowed
    assert str(error.bound) in str(error)
    assert str(error.allowed) in str(error)
    assert error.hint


@pytest.mark.parametrize(
    ("degree", "limit", "most"), [(2, "RADIUS_LIMIT", 8), (9, "BALL_LIMIT", 4), (40, "BALL_LIMIT", 2)]
)
def test_a_distance_is_to_be_as_short_as_is_allowed(degree: int, limit: str, most: int) -> None:
    with pytest.raises(FormulaLimitError, match=limit) as caught:
        check_limits(located(Distance(x, y, 8 if limit == "BALL_LIMIT" else 9), x, y), degree)
    assert f"ask for a distance of at most {most}," in str(caught.value.hint)


def test_rank_limit() -> None:
    names = [x, *(Var(f"w{i}") for i in range(5))]
    formula: Formula = B(names[-1])
    for left, right in reversed(list(pairwise(names))):
        formula = Quantifier(AtLeast(2), right, And((E(left, right), formula)))
    with pytest.raises(FormulaLimitError, match="nested 5 deep, and may be 4 deep") as caught:
        check_limits(located(formula, x), 2)
    assert caught.value.limit == "RANK_LIMIT"


def test_ball_sizes() -> None:
    """The table of fo-mod.md 5."""
    table = {2: (3, 5, 9, 27), 3: (4, 10, 46, 24_574), 4: (5, 17, 161, 3_188_645), 10: (11, 101, 8_201)}
    for degree, sizes in table.items():
        assert tuple(ball_bound(degree, r) for r in (1, 2, 4, 13)[: len(sizes)]) == sizes
    assert ball_bound(0, 2) == ball_bound(1, 2) == ball_bound(2, 2)
    assert balls(located(And((B(x), R(y), Not(E(x, y)))), x, y), 3) == (2, 4)


def test_miniscoping() -> None:
    def normal(formula: Formula, *head: Var) -> str:
        return str(normalised(FormulaQuery("q", head, formula)).formula)

    assert normal(exists((y,), And((B(x), R(y)))), x) == "B(x) and exists y (R(y))"
    assert normal(exists((y,), Or((B(y), R(y))))) == "exists y (B(y)) or exists y (R(y))"
    two = Quantifier(AtLeast(2), y, Or((B(y), R(y))))
    assert normal(two) == "exists>=2 y (B(y) or R(y))", "a count does not split"
    assert normal(for_all((y,), implies(E(x, y), R(y))), x) == "not exists y (E(x, y) and not R(y))"
    assert normal(Quantifier(Residue(0, 2), y, And((B(x), E(x, y)))), x) == (
        "B(x) and exists[0 mod 2] y (E(x, y)) or not B(x)".replace(
            "B(x) and exists[0 mod 2] y (E(x, y))", "(B(x) and exists[0 mod 2] y (E(x, y)))"
        )
    )
    assert normal(exists((y,), And((Equal(x, y), B(y)))), x) == "B(x)"
    assert normal(Quantifier(AtLeast(2), y, And((Equal(x, y), B(y)))), x) == "false"
    assert normal(Not(Quantifier(Residue(0, 2), y, B(y)))) == "exists[1 mod 2] y (B(y))"
    assert normal(exists((y,), TRUE)) == "exists y (true)", "there may be no element"
    assert normal(exists((y,), B(x)), x) == "B(x)"
    assert normal(exists((y,), FALSE)) == "false"


def test_guarded_despite_a_disjunction() -> None:
    found = located(exists((y,), And((Or((E(x, y), B(y))), R(y)))), x)
    assert not found.unguarded
    assert found.radius == 1, "multiplied out, one half is guarded and the other is closed"


def test_what_depends_on_the_domain() -> None:
    def independent(formula: Formula, *head: Var) -> bool:
        return is_domain_independent(normalised(FormulaQuery("q", head, formula)))

    assert independent(And((B(x), Not(R(x)))), x)
    assert not independent(Not(B(x)), x)
    assert not independent(exists((y,), And((Not(E(x, y)), B(x)))), x)
    assert independent(And((B(x), Quantifier(Residue(0, 2), y, E(x, y)))), x)
    assert not independent(B(x), x, y)


@pytest.mark.parametrize("seed", range(scaled(120)))
def test_a_normalised_formula_means_the_same(seed: int) -> None:
    random = Random(seed)
    query = random_query(random, random.randint(0, 2), rank=random.randint(1, 3))
    normal = normalised(query)
    bound = [q.variable for q in quantifiers(normal.formula)]
    assert not set(bound) & set(query.head)
    independent = is_domain_independent(normal)
    for _ in range(3):
        rows = random_rows(random, elements=5)
        model = Model.of(rows, query.formula)
        expected = model.answers(query)
        again = Model(rows, model.elements, model.neighbours)
        assert again.answers(normal) == expected, f"{query}\n{normal}"
        if independent:
            larger = Model(rows, model.elements | {99}, {**model.neighbours, 99: set()})
            assert larger.answers(query) == expected, str(query)


@pytest.mark.parametrize("seed", range(scaled(60)))
def test_links_are_bounds(seed: int) -> None:
    random = Random(f"links {seed}")
    query = random_query(random, 2)
    found = links(normalised(query).formula)
    rows = random_rows(random, elements=6)
    model = Model.of(rows, query.formula)
    for row in model.answers(query):
        at = dict(zip(query.head, row, strict=True))
        for pair, bound in found.items():
            first, second = pair
            assert model.distance(at[first], at[second]) <= bound


def test_equivalences() -> None:
    """Derived connectives have their truth tables."""
    for left, right in product((TRUE, FALSE), repeat=2):
        model = Model({}, frozenset(), {})
        assert model.holds(implies(left, right), {}) is (not left.value or right.value)
        assert model.holds(equivalent(left, right), {}) is (left.value is right.value)
    assert Guard(y, 2).distance == 2
