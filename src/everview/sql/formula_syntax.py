"""The grammar of formulas, as ``lonely(x) := vertex(x) and not exists y (edge(x, y))``, read by lark.

Words and symbols mean the same, and words may be in any case (fo-mod.md section 3).
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

from everview.errors import FormulaSyntaxError, Position, SizeError, check_text
from everview.query.formula import (
    ANY_VALUE,
    AtLeast,
    Distance,
    Equal,
    Fact,
    Formula,
    FormulaQuery,
    Not,
    Quantifier,
    Residue,
    Truth,
    all_of,
    any_of,
    at_most,
    equivalent,
    exactly,
    exists,
    for_all,
    implies,
)
from everview.query.formula_limits import check_size
from everview.query.terms import Const, Term, Var
from everview.sql.lark_tokens import TERMINALS, number_value, string_value
from everview.sql.sql_text import position_at

MOST_CHARACTERS: Final = 20_000
MOST_NUMBER: Final = 1_000_000
"""The largest number that a quantifier or distance may be about."""

GRAMMAR: Final = r"""
    query: NAME "(" [NAME ("," NAME)*] ")" _DEFINED formula
    ?formula: iff
    ?iff: imp (_IFF imp)*
    ?imp: or_ [_IMPLIES imp]
    ?or_: and_ (_OR and_)*
    ?and_: unary (_AND unary)*
    ?unary: _NOT unary -> negated
        | quantified
        | "(" formula ")"
        | atom
    quantified: quantifier NAME ("," NAME)* body
    quantifier: EXISTS -> some
        | FORALL -> every
        | EXISTS COMPARISON INT -> number
        | EXISTS EQUALS INT -> number
        | EXISTS "[" INT _MOD INT "]" -> residue
        | EXISTS INT _MOD INT -> residue
    ?body: "." unary | "(" formula ")"
    ?atom: NAME "(" term ("," term)* ")" -> fact
        | term EQUALS term -> equal
        | term UNEQUAL term -> unequal
        | DIST "(" NAME "," NAME ")" COMPARISON INT -> near
        | DIST "(" NAME "," NAME ")" GREATER INT -> near
        | TRUE -> truth
        | FALSE -> truth
    ?term: NAME -> variable
        | INT -> number_term
        | NUMBER -> number_term
        | STRING -> string

    _DEFINED: ":="
    _IFF: /iff\b|<->/i
    _IMPLIES: /implies\b|->/i
    _OR: /or\b|\|/i
    _AND: /and\b|&/i
    _NOT.3: /not\b|!(?!=)/i
    EXISTS.3: /exists\b/i
    FORALL.3: /forall\b/i
    TRUE.3: /true\b/i
    FALSE.3: /false\b/i
    DIST.3: /dist(?=\s*\()/i
    _MOD.3: /mod\b/i
    COMPARISON: ">=" | "<="
    GREATER: ">"
    EQUALS: "="
    UNEQUAL: "!=" | "<>"
    INT.2: /\d+(?![\d.eE])/
    NUMBER.1: /-?\d+(\.\d+)?([eE][+-]?\d+)?/
    NAME: /[^\W\d]\w*|`[^`\n]+`/
"""

_WORDS: Final = {
    "_DEFINED": ":=",
    "_IFF": "'iff'",
    "_IMPLIES": "'implies'",
    "_OR": "'or'",
    "_AND": "'and'",
    "_NOT": "not",
    "EXISTS": "exists",
    "FORALL": "forall",
    "TRUE": "true",
    "FALSE": "false",
    "DIST": "dist(x, y)",
    "_MOD": "'mod'",
    "COMPARISON": ">= or <=",
    "GREATER": ">",
    "EQUALS": "=",
    "UNEQUAL": "!=",
    "INT": "a whole number",
    "NUMBER": "a number",
    "STRING": "a text in quotes",
    "NAME": "a name",
    "LPAR": "(",
    "RPAR": ")",
    "LSQB": "[",
    "RSQB": "]",
    "COMMA": "a comma",
    "DOT": ".",
    "$END": "the end",
}
_BEGINNINGS: Final = frozenset(("EXISTS", "FORALL", "_NOT", "DIST", "NAME", "LPAR", "TRUE", "FALSE"))


def read_formula(text: str) -> FormulaQuery:
    """The query that a text is; raises FormulaSyntaxError at its place."""
    check_text(text, "a formula")
    if len(text) > MOST_CHARACTERS:
        raise SizeError(f"the formula has {len(text):,} characters, and may have {MOST_CHARACTERS:,}")
    try:
        tree = _parser().parse(text)
        return _Reader(text).read(tree)
    except UnexpectedInput as error:
        raise _refused(text, error) from None
    except RecursionError:
        raise SizeError("the formula is nested too deep", hint="split the query") from None


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR + TERMINALS, start="query", parser="lalr", lexer="contextual", propagate_positions=False)


def _refused(text: str, error: UnexpectedInput) -> FormulaSyntaxError:
    """An error of the parser in our words."""
    start = getattr(error, "pos_in_stream", None)
    if start is None or start < 0 or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        start = len(text.rstrip())
    expected = {str(name) for name in getattr(error, "accepts", None) or getattr(error, "expected", None) or ()}
    expected |= {str(name) for name in getattr(error, "allowed", None) or ()}
    length = len(error.token) if isinstance(error, UnexpectedToken) and error.token.type != "$END" else 1
    found = text[start : start + max(1, length)]
    at = position_at(text, start, max(1, length))
    if found[:1] in ("'", '"') and not isinstance(error, UnexpectedToken):
        return FormulaSyntaxError("the text in quotes is never closed", position=at, source=text)
    what = f"and this is {found}" if found.strip() else "and the text ends"
    hint = _hint(text, found, expected)
    if not text.strip():
        what = "and the text is empty"
    return FormulaSyntaxError(f"expected {_listed(expected)}, {what}", position=at, source=text, hint=hint)


def _hint(text: str, found: str, expected: set[str]) -> str | None:
    """What was probably meant, and how to write it."""
    if not text.strip():
        return "write name(x) := formula"
    if text.split(maxsplit=1)[0].upper() in ("SELECT", "WITH", "CREATE"):
        return "write name(x) := formula; SQL with OPTIONS (degree = …) goes to sql or create_view"
    if found in (":", ":-") or expected == {"_DEFINED"}:
        return "write name(x, y) := formula"
    if found in (".", ";"):
        return "a formula ends without a sign"
    if {"COMPARISON", "LSQB"} <= expected:
        return "write exists>=2 x (…), exists<=2 x (…), exists=2 x (…), or exists[0 mod 2] x (…)"
    if expected == {"COMPARISON", "GREATER"}:
        return "a distance is compared by <= or >"
    if expected == {"NAME"} and (found[:1].isdigit() or found[:1] in ("-", "'", '"')):
        return "no constant can stand here, but a variable that is equal to it: exists z (z = 3 and dist(x, z) <= 2)"
    return None


def _listed(expected: set[str]) -> str:
    """What could have stood there, in words."""
    said = []
    if expected >= {"EXISTS", "FORALL", "_NOT"}:
        said = ["a formula"]
        expected = expected - _BEGINNINGS - {"INT", "NUMBER", "STRING"}
    elif expected >= {"NAME", "INT", "STRING"}:
        said = ["a variable or constant"]
        expected = expected - {"NAME", "INT", "NUMBER", "STRING"}
    said += sorted(_WORDS.get(name, name) for name in expected if name != "COMMENT")
    return " or ".join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else "".join(said) or "something else"


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Makes formulas of a tree, from the inside out."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    # --- terms -----------------------------------------------------------------------------------------------------

    def variable(self, name: Token) -> tuple[Term, Position]:
        """A variable, or ``_``."""
        return (ANY_VALUE if name == "_" else Var(_plain(name))), self._at(name)

    def number_term(self, token: Token) -> tuple[Term, Position]:
        """A number."""
        return Const(number_value(token)), self._at(token)

    def string(self, token: Token) -> tuple[Term, Position]:
        """A text in quotes."""
        return Const(string_value(token)), self._at(token)

    # --- atoms -----------------------------------------------------------------------------------------------------

    def fact(self, name: Token, *terms: tuple[Term, Position]) -> Formula:
        """``R(x, y)``."""
        found = [_truth_value(t) for t, _ in terms]
        return Fact(_plain(name), tuple(found), self._at(name))

    def equal(self, left: tuple[Term, Position], _: Token, right: tuple[Term, Position]) -> Formula:
        """``x = y``."""
        for term, at in (left, right):
            if term == ANY_VALUE:
                raise self._error("_ stands for any value, and is compared with nothing", at, "give it a name")
        return Equal(left[0], right[0], left[1])

    def unequal(self, left: tuple[Term, Position], sign: Token, right: tuple[Term, Position]) -> Formula:
        """``x != y``."""
        return Not(self.equal(left, sign, right))

    def near(self, word: Token, left: Token, right: Token, sign: Token, bound: Token) -> Formula:
        """``dist(x, y) <= r``, or ``> r``."""
        if sign == ">=":
            raise self._error("a distance is compared by <= or >", self._at(sign), f"write > {int(bound) - 1}")
        found = Distance(self._name(left), self._name(right), self._number(bound), self._at(word))
        return Not(found) if sign == ">" else found

    def truth(self, word: Token) -> Formula:
        """``true`` or ``false``."""
        return Truth(word.lower() == "true")

    # --- connectives -----------------------------------------------------------------------------------------------

    def negated(self, body: Formula) -> Formula:
        """``not φ``."""
        return body.body if isinstance(body, Not) else Not(body)

    def and_(self, *parts: Formula) -> Formula:
        """``φ and ψ``."""
        return all_of(parts)

    def or_(self, *parts: Formula) -> Formula:
        """``φ or ψ``."""
        return any_of(parts)

    def imp(self, left: Formula, right: Formula | None) -> Formula:
        """``φ implies ψ``, which is read from the right."""
        return left if right is None else implies(left, right)

    def iff(self, *parts: Formula) -> Formula:
        """``φ iff ψ``."""
        found = parts[0]
        for part in parts[1:]:
            found = equivalent(found, part)
            check_size(found)
        return found

    # --- quantifiers -----------------------------------------------------------------------------------------------

    def some(self, word: Token) -> tuple[Any, ...]:
        """``exists``."""
        return word, "exists"

    def every(self, word: Token) -> tuple[Any, ...]:
        """``forall``."""
        return word, "forall"

    def number(self, word: Token, sign: Token, bound: Token) -> tuple[Any, ...]:
        """``exists >= m``, ``exists <= m`` or ``exists = m``."""
        return word, str(sign), self._number(bound)

    def residue(self, word: Token, residue: Token, modulus: Token) -> tuple[Any, ...]:
        """``exists [i mod m]``."""
        left, right = self._number(residue), self._number(modulus)
        if right < 2:
            raise self._error("one counts modulo 2 or more", self._at(modulus))
        if left >= right:
            raise self._error(f"{left} mod {right} is never so", self._at(residue), f"write {left % right}")
        return word, "mod", left, right

    def quantified(self, quantifier: tuple[Any, ...], *rest: Any) -> Formula:
        """A quantifier, its variables and its body."""
        word, kind, *numbers = quantifier
        *tokens, body = rest
        at = self._at(word)
        variables = [self._name(token) for token in tokens]
        if kind == "exists":
            return exists(variables, body, at)
        if kind == "forall":
            return for_all(variables, body, at)
        if len(variables) > 1:
            hint = f"write exists {variables[0]} (exists… {variables[1]} (…)), as it is meant"
            raise self._error("one variable is counted at a time", self._at(tokens[1]), hint)
        (variable,) = variables
        if kind == "mod":
            return Quantifier(Residue(*numbers), variable, body, at)
        (number,) = numbers
        if kind == "=":
            return exactly(number, variable, body, at)
        return at_most(number, variable, body, at) if kind == "<=" else _at_least(number, variable, body, at)

    def query(self, name: Token, *rest: Any) -> FormulaQuery:
        """The whole text."""
        *tokens, formula = rest
        head = [self._name(token) for token in tokens if token is not None]
        for i, variable in enumerate(head):
            if variable in head[:i]:
                raise self._error(f"{variable} stands twice in the head", self._at(tokens[i]), "give it two names")
        unbound = sorted(v.name for v in formula.free - set(head))
        if unbound:
            at = next((self._at(t) for t in self.tokens_of(unbound[0])), None)
            hint = f"put it in the head, {name}({', '.join([*map(str, head), unbound[0]])}), or under a quantifier"
            if unbound[0].upper() == "NULL":
                hint = "a formula knows no NULL: a row with NULL in a column of elements is no fact, and _ is any value"
            raise self._error(f"{unbound[0]} is neither in the head nor bound by a quantifier", at, hint)
        return FormulaQuery(_plain(name), tuple(head), formula)

    def tokens_of(self, name: str) -> list[Token]:
        """Where a name stands in the text."""
        return [t for t in _parser().lex(self.text) if t.type == "NAME" and _plain(t) == name]

    # --- places ----------------------------------------------------------------------------------------------------

    def _at(self, token: Token) -> Position:
        return position_at(self.text, token.start_pos or 0, len(token))

    def _error(self, message: str, at: Position | None, hint: str | None = None) -> FormulaSyntaxError:
        return FormulaSyntaxError(message, position=at, source=self.text, hint=hint)

    def _name(self, token: Token) -> Var:
        if token == "_":
            raise self._error("_ is no variable", self._at(token), "give it a name")
        return Var(_plain(token))

    def _number(self, token: Token) -> int:
        if len(token) > 7 or int(token) > MOST_NUMBER:
            raise self._error(f"the number is larger than {MOST_NUMBER:,}", self._at(token))
        return int(token)


class _Reader:
    """Reads a tree, and gives our own errors as they are."""

    def __init__(self, text: str) -> None:
        self.builder = _Builder(text)

    def read(self, tree: Any) -> FormulaQuery:
        """The query of a tree."""
        from lark.exceptions import VisitError

        try:
            found = self.builder.transform(tree)
        except VisitError as error:
            raise error.orig_exc from None
        assert isinstance(found, FormulaQuery)
        return found


def _at_least(number: int, variable: Var, body: Formula, at: Position) -> Formula:
    return Quantifier(AtLeast(number), variable, body, at)


def _truth_value(term: Term) -> Term:
    """A term of a fact, in which ``true`` and ``false`` are constants."""
    is_truth = isinstance(term, Var) and term.name.lower() in ("true", "false")
    return Const(str(term).lower() == "true") if is_truth else term


def _plain(token: Token | str) -> str:
    """A name without the signs that it may be quoted by."""
    return str(token).strip("`")
