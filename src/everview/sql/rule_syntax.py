"""The grammar of rules, read by lark: ``hop(a, c) :- follows(a, b), follows(b, c), a != c.`` as data with places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, TypeAlias

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from everview.errors import Position, RuleSyntaxError, SizeError, UnsupportedError, check_text
from everview.query.terms import Const
from everview.sql.lark_tokens import TERMINALS, number_value, string_value
from everview.sql.limits import MOST_LEVELS
from everview.sql.sql_text import position_at

GRAMMAR: Final = r"""
    rules: rule+
    rule: NAME "(" [head_argument ("," head_argument)*] ")" IF part ("," part)* END
    ?head_argument: argument | call
    call: NAME "(" [call_argument ("," call_argument)*] ")"
    ?call_argument: head_argument | STAR | COMPARISON head_argument ("," head_argument)* COMPARISON -> tuple
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
AGGREGATE_NAMES = ("count", "sum", "avg", "min", "max", "prod")
TUPLE_NAMES = ("wavg", "argmax", "argmin")
"""The aggregates over pairs: ``wavg(<value, weight>)``, ``argmax(<key, measure>)``."""
ROW_NAMES = ("sum", "prod", "min", "max", "avg")
"""What may be made of several values beside each other: ``prod(x, sum(y))``."""


@dataclass(frozen=True)
class Variable:
    """A variable in a rule; ``_`` gets a name of its own that no user can write."""

    name: str
    position: Position = field(compare=False)

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
    """An aggregate in a head; without arguments it is count(*).

    What has one argument, or a pair, is over many rows; what has several, such as ``prod(x, sum(y))``, is made of the
    values beside each other.
    """

    function: str
    arguments: tuple[Variable | Call, ...]
    is_pair: bool
    position: Position = field(compare=False)

    @property
    def argument(self) -> Variable | None:
        """The variable that it is over, if it is plain."""
        return next((a for a in self.arguments if isinstance(a, Variable)), None) if self.is_plain else None

    @property
    def is_plain(self) -> bool:
        """True if it is over one variable, or over all rows."""
        return len(self.arguments) <= 1 and not any(isinstance(a, Call) for a in self.arguments)

    @property
    def is_row(self) -> bool:
        """True if it is made of several values beside each other, and no aggregate over many."""
        return len(self.arguments) > 1 and not self.is_pair

    @property
    def variables(self) -> tuple[Variable, ...]:
        """All variables in it, each once, in the order in which they are written."""
        found: list[Variable] = []
        for argument in self.arguments:
            found += argument.variables if isinstance(argument, Call) else [argument]
        return tuple(dict.fromkeys(found))

    @property
    def name(self) -> str:
        """What its column is called: by itself and its variables."""
        return "_".join([self.function, *(v.name for v in self.variables)])

    def __str__(self) -> str:
        inner = ", ".join(str(a) if isinstance(a, Call) else a.name for a in self.arguments) or "*"
        return f"{self.function}({f'<{inner}>' if self.is_pair else inner})"


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
    elif "COMPARISON" in expected and not expected & {"NUMBER", "COMMA"}:
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
    if "COMMA" in expected:
        return ", or > after a part of a pair"
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
        self.depth = 0

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

    def _call(self, name: Any, *items: Any) -> Call:
        self.depth += 1
        found = self._call_within(name, *items)
        self.depth -= 1
        return found

    def _call_within(self, name: Any, *items: Any) -> Call:
        function, at = name.lower(), self._at(name)
        if self.depth > MOST_LEVELS:
            message = f"more than {MOST_LEVELS} aggregates stand in each other"
            raise SizeError(message, position=at, source=self.text, hint="write some of them as a rule of their own")
        if function not in AGGREGATE_NAMES + TUPLE_NAMES:
            hint = f"there are {', '.join(AGGREGATE_NAMES)}, and of pairs {', '.join(TUPLE_NAMES)}"
            raise self._error(f"{name} is not an aggregate", at, hint)
        if items[0] is None:
            raise self._error(f"{function} needs an argument", at)
        first, *others = items
        if isinstance(first, Token) and first.type == "STAR" and not others:
            if function != "count":
                raise self._error(f"* may only stand in count(*), not in {function}", at)
            return Call(function, (), False, at)
        is_pair = isinstance(first, Tree) and first.data == "tuple"
        if is_pair and not others:
            items = self._pair(function, at, *first.children)
        elif function in TUPLE_NAMES:
            raise self._error(f"{function} takes a pair", at, f"write {function}(<x, y>)")
        elif others and function not in ROW_NAMES:
            hint = f"of several values beside each other there are {', '.join(ROW_NAMES)}"
            raise self._error(f"{function} takes one argument", at, hint)
        return Call(function, tuple(self._call_argument(function, at, item) for item in items), is_pair, at)

    def _pair(self, function: str, at: Position, opening: Token, *rest: Any) -> tuple[Any, ...]:
        *items, closing = rest
        if function not in TUPLE_NAMES:
            raise self._error(f"{function} takes no pair", at, f"of pairs there are {', '.join(TUPLE_NAMES)}")
        if (str(opening), str(closing)) != ("<", ">") or len(items) != 2:
            raise self._error(f"{function} takes a pair", self._at(opening), f"write {function}(<x, y>)")
        return tuple(items)

    def _call_argument(self, function: str, at: Position, item: Any) -> Variable | Call:
        if isinstance(item, Tree):
            if item.data == "tuple":
                raise self._error("a pair stands alone in an aggregate", at, f"write {function}(<x, y>)")
            return self._call(*item.children)
        if item.type == "STAR":
            raise self._error("* may only stand in count(*)", self._at(item))
        argument = self._argument(item)
        if not isinstance(argument, Variable) or argument.is_anonymous:
            raise self._error(f"{function} takes a variable", argument.position)
        return argument

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
