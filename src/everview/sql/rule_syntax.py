"""The grammar of rules: ``hop(a, c) :- follows(a, b), follows(b, c), a != c.`` as plain data with places."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from everview.errors import Position, RuleSyntaxError, UnsupportedError
from everview.query.terms import Const
from everview.sql.sql_text import position_at

_TOKEN = re.compile(
    r"""(?P<space>\s+|%[^\n]*|--[^\n]*)
      | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<string>'(?:[^'\\\n]|\\.|'')*'|"(?:[^"\\\n]|\\.|"")*")
      | (?P<name>[^\W\d]\w*)
      | (?P<symbol>:-|<-|<=|>=|<>|!=|==|[(),.<>=!*~])""",
    re.VERBOSE,
)
_COMPARISONS = {"=": "=", "==": "=", "!=": "<>", "<>": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
AGGREGATE_NAMES = ("count", "sum", "avg", "min", "max")


@dataclass(frozen=True)
class Variable:
    """A variable in a rule; ``_`` gets a name of its own that no user can write."""

    name: str
    position: Position

    @property
    def is_anonymous(self) -> bool:
        """True for ``_``."""
        return self.name.startswith("_$")


@dataclass(frozen=True)
class Literal:
    """A constant in a rule."""

    value: Const
    position: Position


@dataclass(frozen=True)
class Call:
    """An aggregate in a head; ``argument`` None is count(*)."""

    function: str
    argument: Variable | None
    position: Position


Argument: TypeAlias = Variable | Literal
HeadArgument: TypeAlias = Variable | Literal | Call


@dataclass(frozen=True)
class Goal:
    """An atom of a body."""

    relation: str
    arguments: tuple[Argument, ...]
    position: Position


@dataclass(frozen=True)
class Comparison:
    """``left operator right`` in a body; the operator is SQL's."""

    left: Argument
    operator: str
    right: Argument
    position: Position


@dataclass(frozen=True)
class Rule:
    """One rule."""

    name: str
    head: tuple[HeadArgument, ...]
    goals: tuple[Goal, ...]
    comparisons: tuple[Comparison, ...]
    position: Position
    text: str
    """The rule as it is written."""


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: Position
    start: int


def read_rules(text: str) -> list[Rule]:
    """All rules of a text; raises RuleSyntaxError."""
    return _Reader(text).rules()


class _Reader:
    """A recursive-descent parser, one method a production."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._tokenize()
        self.at = 0
        self.anonymous = 0

    def _tokenize(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self.text):
            match = _TOKEN.match(self.text, at)
            if match is None:
                quote = self.text[at] in "'\""
                what = "the string is never closed" if quote else f"unexpected character {self.text[at]}"
                raise self._error(what, position_at(self.text, at))
            if match.lastgroup != "space":
                kind = match.lastgroup or ""
                tokens.append(_Token(kind, match[0], position_at(self.text, at, len(match[0])), at))
            at = match.end()
        end = len(self.text.rstrip())
        tokens.append(_Token("end", "", position_at(self.text, end), end))
        return tokens

    def _error(self, message: str, position: Position, hint: str | None = None) -> RuleSyntaxError:
        return RuleSyntaxError(message, position=position, source=self.text, hint=hint)

    @property
    def current(self) -> _Token:
        return self.tokens[self.at]

    def _take(self, *texts: str) -> _Token | None:
        token = self.current
        if token.kind in ("symbol", "name") and token.text in texts:
            self.at += 1
            return token
        return None

    def _expect(self, text: str, where: str) -> _Token:
        token = self._take(text)
        if token is None:
            found = f"and this is {self.current.text}" if self.current.text else "and the text ends"
            raise self._error(f"expected {text} {where}, {found}", self.current.position)
        return token

    def _name(self, what: str) -> _Token:
        token = self.current
        if token.kind != "name":
            found = f"and this is {token.text}" if token.text else "and the text ends"
            raise self._error(f"expected {what}, {found}", token.position)
        self.at += 1
        return token

    def rules(self) -> list[Rule]:
        found = []
        while self.current.kind != "end":
            found.append(self._rule())
        if not found:
            raise self._error("there is no rule: the text is empty", Position(1, 1), "q(x) :- r(x, y).")
        return found

    def _rule(self) -> Rule:
        name = self._name("the name of a rule's head")
        self._expect("(", f"after {name.text}")
        head: list[HeadArgument] = self._list(self._head_argument)
        if self._take(":-", "<-") is None:
            raise self._error(
                "a rule needs a body",
                self.current.position,
                "write head(x) :- relation(x, y). Facts are data: db.insert(…)",
            )
        goals: list[Goal] = []
        comparisons: list[Comparison] = []
        while True:
            part = self._body_part()
            if isinstance(part, Goal):
                goals.append(part)
            else:
                comparisons.append(part)
            if self._take(",") is None:
                break
        end = self._expect(".", "at the end of the rule").start + 1
        text = self.text[name.start : end]
        return Rule(name.text, tuple(head), tuple(goals), tuple(comparisons), name.position, text)

    def _list(self, item: object) -> list[HeadArgument]:
        assert callable(item)
        found: list[HeadArgument] = []
        if self._take(")"):
            return found
        while True:
            found.append(item())
            if self._take(")"):
                return found
            self._expect(",", "or ) after an argument")

    def _head_argument(self) -> HeadArgument:
        token, after = self.current, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind != "name" or after.text != "(":
            argument = self._argument()
            if isinstance(argument, Variable) and argument.is_anonymous:
                raise self._error("_ cannot stand in a head", argument.position, "give the variable a name")
            return argument
        function = token.text.lower()
        if function not in AGGREGATE_NAMES:
            raise self._error(
                f"{token.text} is not an aggregate", token.position, f"there are {', '.join(AGGREGATE_NAMES)}"
            )
        self.at += 2
        if self._take("*"):
            if function != "count":
                raise self._error(f"* may only stand in count(*), not in {function}", token.position)
            inner = None
        else:
            argument = self._argument()
            if not isinstance(argument, Variable) or argument.is_anonymous:
                raise self._error(f"{function} takes a variable", argument.position)
            inner = argument
        self._expect(")", f"after the argument of {function}")
        return Call(function, inner, token.position)

    def _body_part(self) -> Goal | Comparison:
        token, after = self.current, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.text in ("!", "~") or (token.kind == "name" and token.text.lower() == "not" and after.kind == "name"):
            raise UnsupportedError(
                "negation is not supported",
                construct="negation",
                position=token.position,
                source=self.text,
                hint="only positive atoms can be maintained",
            )
        if token.kind == "name" and after.text == "(":
            self.at += 2
            arguments = self._list(self._argument)
            return Goal(token.text, tuple(a for a in arguments if not isinstance(a, Call)), token.position)
        left = self._argument()
        operator = self.current
        if operator.kind != "symbol" or operator.text not in _COMPARISONS:
            raise self._error("expected an atom or a comparison", token.position, "r(x, y), or x < y")
        self.at += 1
        return Comparison(left, _COMPARISONS[operator.text], self._argument(), token.position)

    def _argument(self) -> Argument:
        token = self.current
        if token.kind == "number":
            self.at += 1
            text = token.text
            value = float(text) if "e" in text.lower() else Decimal(text) if "." in text else int(text)
            return Literal(Const(value), token.position)
        if token.kind == "string":
            self.at += 1
            quote = token.text[0]
            inner = token.text[1:-1].replace(quote * 2, quote)
            return Literal(Const(re.sub(r"\\(.)", r"\1", inner)), token.position)
        if token.kind != "name":
            found = f"and this is {token.text}" if token.text else "and the text ends"
            raise self._error(f"expected a variable or constant, {found}", token.position)
        self.at += 1
        if token.text == "_":
            self.anonymous += 1
            return Variable(f"_${self.anonymous}", token.position)
        if token.text.lower() in ("true", "false"):
            return Literal(Const(token.text.lower() == "true"), token.position)
        if token.text.lower() == "null":
            raise self._error("null cannot stand in a rule", token.position, "NULL never joins and equals nothing")
        return Variable(token.text, token.position)
