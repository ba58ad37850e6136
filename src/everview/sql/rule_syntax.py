"""The grammar of rules, read by lark: ``hop(a, c) :- follows(a, b), follows(b, c), a != c.`` as data with places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, TypeAlias

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from everview.errors import Position, RuleSyntaxError, UnsupportedError, check_text
from everview.query.terms import Const
from everview.sql.lark_tokens import TERMINALS, number_value, string_value
from everview.sql.sql_text import position_at

GRAMMAR: Final = r"""
    rules: rule+
    rule: NAME "(" [head_argument ("," head_argument)*] ")" IF part ("," part)* END
    ?head_argument: argument | NAME "(" [call_argument ("," call_argument)*] ")" -> call
    ?call_argument: argument | STAR
    ?part: NAME "(" [argument ("," argument)*] ")" -> goal
        | argument COMPARISON argument -> comparison
        | NEGATION part -> negated
    ?argument: NAME | NUMBER | STRING

    IF.2: ":-" | "<-"
    NEGATION.2: /!(?!=)|~|not(?=\s+[^\W\d])/i
    COMPARISON: /[<>!=]=|<>|[<>=]/
    NUMBER: /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/
    NAME: /[^\W\d]\w*/
    STAR: "*"
    END: "."
"""
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


def read_rules(text: str) -> list[Rule]:
    """All rules of a text; raises RuleSyntaxError."""
    check_text(text, "a text of rules")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _refused(text, error) from None
    return _Reader(text).rules(tree)


@cache
def _parser() -> Lark:
    return Lark(GRAMMAR + TERMINALS, start="rules", parser="lalr", lexer="basic", propagate_positions=False)


def _refused(text: str, error: UnexpectedInput) -> RuleSyntaxError:
    """An error of the parser in our words."""
    if not isinstance(error, UnexpectedToken):
        start = getattr(error, "pos_in_stream", 0)
        what = "the string is never closed" if text[start] in "'\"" else f"unexpected character {text[start]}"
        return RuleSyntaxError(what, position=position_at(text, start), source=text)
    token = error.token
    is_end = token.type == "$END"
    at = position_at(text, len(text.rstrip())) if is_end else _place(text, token)
    stack = error.interactive_parser.parser_state.value_stack
    before = _last_token(stack)
    expected = {str(name) for name in error.accepts}
    hint: str | None = None
    if before is None and is_end:
        message, at, hint = "there is no rule: the text is empty", Position(1, 1), "q(x) :- r(x, y)."
    elif expected == {"IF"}:
        message = "a rule needs a body"
        hint = "write head(x) :- relation(x, y). Facts are data: db.insert(…)"
    elif "COMPARISON" in expected:
        message, hint = "expected an atom or a comparison", "r(x, y), or x < y"
        at = at if before is None else _place(text, before)
    else:
        found = "and the text ends" if is_end else f"and this is {token}"
        message = f"expected {_missing(expected, before)}, {found}"
    return RuleSyntaxError(message, position=at, source=text, hint=hint)


def _missing(expected: set[str], before: Token | None) -> str:
    """What must stand where the parser cannot go on, given the names of the tokens that it would take."""
    if "NUMBER" in expected:
        return "a variable or constant"
    if "END" in expected:
        return ". at the end of the rule"
    if "RPAR" in expected:
        return ", or ) after an argument"
    return f"( after {before}" if "LPAR" in expected else "the name of a rule's head"


def _last_token(stack: Sequence[Any]) -> Token | None:
    """The last token of what has been read."""
    while stack:
        found = stack[-1]
        if isinstance(found, Token):
            return found
        stack = [c for c in (found.children if isinstance(found, Tree) else found) if c]
    return None


def _place(text: str, token: Token) -> Position:
    return position_at(text, token.start_pos or 0, len(token))


class _Reader:
    """Makes rules of the parser's tree, and refuses what the grammar alone lets pass."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.anonymous = 0

    def rules(self, tree: Tree[Token]) -> list[Rule]:
        """All rules, in the order of the text."""
        return [self._rule(*rule.children) for rule in tree.children if isinstance(rule, Tree)]

    def _rule(self, name: Any, *rest: Any) -> Rule:
        sign = next(i for i, item in enumerate(rest) if isinstance(item, Token) and item.type == "IF")
        head = tuple(self._head_argument(item) for item in rest[:sign] if item is not None)
        parts = [self._part(item) for item in rest[sign + 1 : -1]]
        goals = tuple(part for part in parts if isinstance(part, Goal))
        comparisons = tuple(part for part in parts if isinstance(part, Comparison))
        text = self.text[name.start_pos : rest[-1].end_pos]
        return Rule(str(name), head, goals, comparisons, self._at(name), text)

    def _head_argument(self, item: Any) -> HeadArgument:
        if isinstance(item, Tree):
            return self._call(*item.children)
        argument = self._argument(item)
        if isinstance(argument, Variable) and argument.is_anonymous:
            raise self._error("_ cannot stand in a head", argument.position, "give the variable a name")
        return argument

    def _call(self, name: Any, *arguments: Any) -> Call:
        function, at = name.lower(), self._at(name)
        if function not in AGGREGATE_NAMES:
            raise self._error(f"{name} is not an aggregate", at, f"there are {', '.join(AGGREGATE_NAMES)}")
        if len(arguments) > 1 or arguments[0] is None:
            raise self._error(f"{function} takes one variable", at)
        (token,) = arguments
        if token.type == "STAR":
            if function != "count":
                raise self._error(f"* may only stand in count(*), not in {function}", at)
            return Call(function, None, at)
        argument = self._argument(token)
        if not isinstance(argument, Variable) or argument.is_anonymous:
            raise self._error(f"{function} takes a variable", argument.position)
        return Call(function, argument, at)

    def _part(self, item: Any) -> Goal | Comparison:
        first, *rest = item.children
        if item.data == "negated":
            raise UnsupportedError(
                "negation is not supported",
                construct="negation",
                position=self._at(first),
                source=self.text,
                hint="only positive atoms can be maintained",
            )
        if item.data == "goal":
            arguments = tuple(self._argument(token) for token in rest if token is not None)
            return Goal(str(first), arguments, self._at(first))
        operator, right = rest
        return Comparison(self._argument(first), _COMPARISONS[operator], self._argument(right), self._at(first))

    def _argument(self, token: Token) -> Argument:
        at = self._at(token)
        if token.type == "NUMBER":
            return Literal(Const(number_value(token)), at)
        if token.type == "STRING":
            return Literal(Const(string_value(token)), at)
        if token == "_":
            self.anonymous += 1
            return Variable(f"_${self.anonymous}", at)
        if token.lower() in ("true", "false"):
            return Literal(Const(token.lower() == "true"), at)
        if token.lower() == "null":
            raise self._error("null cannot stand in a rule", at, "NULL never joins and equals nothing")
        return Variable(str(token), at)

    def _at(self, token: Token) -> Position:
        return _place(self.text, token)

    def _error(self, message: str, at: Position, hint: str | None = None) -> RuleSyntaxError:
        return RuleSyntaxError(message, position=at, source=self.text, hint=hint)
