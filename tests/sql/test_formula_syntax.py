"""Formulas as text: words and symbols, and errors at their places."""

from __future__ import annotations

import pytest

from everview.errors import FormulaSyntaxError, SizeError
from everview.sql.formula_syntax import read_formula

SAME = [
    ("q(x) := !b(x) & c(x)", "q(x) := NOT b(x) AND c(x)"),
    ("q(x) := b(x) -> c(x)", "q(x) := b(x) implies c(x)"),
    ("q(x) := b(x) <-> c(x)", "q(x) := b(x) iff c(x)"),
    ("q(x) := b(x) | c(x)", "q(x) := b(x) or c(x)"),
    ("q(x) := exists y. e(x, y)", "q(x) := Exists y (e(x, y))"),
    ("q(x) := exists 1 mod 2 y.e(x, y)", "q(x) := exists[1 mod 2] y (e(x, y))"),
    ("q(x) := exists >= 2 y (e(x, y))", "q(x) := exists>=2 y (e(x, y))"),
    ("q(x) := forall y, z (e(y, z))", "q(x) := not exists y (exists z (not e(y, z)))"),
    ("q(x) := `b`(x) -- the rest is a comment\n", "q(x) := b(x)"),
    ("q(x) := a(x) and b(x) or c(x)", "q(x) := (a(x) and b(x)) or c(x)"),
    ("q(x) := a(x) implies b(x) implies c(x)", "q(x) := a(x) implies (b(x) implies c(x))"),
    ("q(x) := exists=0 y (e(x, y))", "q(x) := not exists y (e(x, y))"),
    ("q(x) := r(x, 'it''s', -2, 0.5, true, _)", 'q(x) := r(x, "it\'s", -2, 0.50, TRUE, _)'),
]
WRONG = [
    ("q(x) := b(x", "expected ) or a comma, and the text ends", 12),
    ("q(x) := b(x) and", "expected a formula, and the text ends", 17),
    ("q(x) :- b(x)", "expected :=, and this is :", 6),
    ("q(x) := b(x).", "expected 'and', 'iff', 'implies', 'or' or the end, and this is .", 13),
    ("q(x) := b(y)", "y is neither in the head nor bound by a quantifier", 11),
    ("q(x) := exists 3 mod 2 y (e(x, y))", "3 mod 2 is never so", 16),
    ("q(x) := exists[0 mod 1] y (e(x, y))", "one counts modulo 2 or more", 22),
    ("q(x) := exists>=2 y, z (e(y, z))", "one variable is counted at a time", 22),
    ("q(x) := e(x, 'a", "the text in quotes is never closed", 14),
    ("q(x, x) := b(x)", "x stands twice in the head", 6),
    ("q(x) := dist(x, x) >= 2", "a distance is compared by <= or >", 20),
    ("q(x) := x = _", "_ stands for any value", 13),
    ("q(_) := b(_)", "_ is no variable", 3),
    ("", "the text is empty", 1),
]


HINTS = [
    ("q(x) := exists > 3 y (e(x, y))", "write exists>=2 x (…)"),
    ("q(x) := exists != 3 y (e(x, y))", "write exists>=2 x (…)"),
    ("q(x) := dist(x, y) = 1", "a distance is compared by <= or >"),
    ("q(x) := dist(x, 3) <= 1", "a variable that is equal to it"),
    ("q(x) := e(x, NULL)", "a formula knows no NULL"),
    ("q(x) :- b(x)", "write name(x, y) := formula"),
    ("SELECT a FROM b", "SQL with OPTIONS (degree = …)"),
    ("q(x) := b(x);", "a formula ends without a sign"),
]


@pytest.mark.parametrize(("left", "right"), SAME)
def test_words_and_symbols_mean_the_same(left: str, right: str) -> None:
    assert read_formula(left) == read_formula(right)


@pytest.mark.parametrize(("left", "_"), SAME)
def test_what_is_printed_is_read_again(left: str, _: str) -> None:
    query = read_formula(left)
    assert str(read_formula(str(query))) == str(query)


@pytest.mark.parametrize(("text", "message", "column"), WRONG)
def test_errors_have_their_place(text: str, message: str, column: int) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        read_formula(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_errors_say_how_it_is_written(text: str, hint: str) -> None:
    with pytest.raises(FormulaSyntaxError) as caught:
        read_formula(text)
    assert hint in (caught.value.hint or "")


def test_too_much() -> None:
    with pytest.raises((SizeError, Exception), match="SIZE_LIMIT"):
        read_formula("q(x) := " + " iff ".join(f"b{i}(x)" for i in range(30)))
    with pytest.raises(SizeError):
        read_formula("q(x) := " + "b(x) and " * 3_000 + "b(x)")
    with pytest.raises(FormulaSyntaxError):
        read_formula("q(x) := exists>=99999999 y (e(x, y))")
