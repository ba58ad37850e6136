"""What a user may ask of the way in which a view is maintained: options, as plain values that are checked once.

An option never changes a view's rows, only what an update and a read of them cost; but for ``domain``, which says over
which elements the quantifiers of a formula range.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final, Literal, TypedDict

from everview.errors import OptionError

OPTIMIZE: Final = ("updates", "reads", "balanced")
"""What a view can be optimized for: cheap updates, cheap reads and counts, or neither at the other's cost."""
MODES: Final = ("dynamic", "static")
"""Whether tables go on changing, or are filled once and then read."""
DOMAINS: Final = ("schema", "query")
"""Which elements a formula is about: those of all tables, or those of the tables that it names."""
ONLY_TEST: Final = "test"
ANSWERS: Final = ("list", ONLY_TEST)
"""What a view is there for: to be read, or only to be asked whether it has a row."""
MOST_PARTS: Final = 1_000_000
"""The largest denominator of ε: thresholds are powers of N with it as a root."""
MOST_DEGREE: Final = 2**63 - 1
_HUGE: Final = 10**24
_WHOLE: Final = re.compile(r"-?\d{1,30}")
_NUMBER: Final = re.compile(r"-?\d*\.?\d+([eE][+-]?\d{1,9})?")
_PLAIN: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
MOST_LOOKUPS: Final = 16
"""So many sets of columns rows may be looked up by: each takes memory and time of its own."""
_EXACT: Final = re.compile(r"\d{1,30}(/0{0,30}[1-9]\d{0,30})?")
"""How ε is written as data."""


class ReadOptions(TypedDict, total=False):
    """The options that any view may have, as keywords of a call."""

    lookup: str | Sequence[str] | Sequence[Sequence[str]] | None
    """The columns, or several sets of columns, by which rows are going to be looked up."""
    history: int | None
    """Of how many batches what they have changed is kept, for ``diff``."""


class OptionValues(ReadOptions, total=False):
    """The options of a view as keywords of a call."""

    epsilon: float | Fraction | Decimal | None
    """Between fast updates (0) and fast reads (1), for the strategies that have such a dial."""
    optimize: Literal["updates", "reads", "balanced"] | None
    """What to be cheap at, where strategies differ in it."""
    degree: int | None
    """No value has more neighbours than this: a SELECT with it is kept as a formula, or refused."""
    mode: Literal["dynamic", "static"] | None
    """Whether tables go on changing, or are filled once and then read: then updates may be dear."""
    access: bool | None
    """Keep rows in order and counted, where the query allows it, so that positions, ranks and samples are cheap."""
    count: bool | None
    """Keep the number of rows, where the query allows it, so that asking for it takes constant time."""
    answers: Literal["list", "test"] | None
    """Whether rows are read, or only tested: then nothing may be kept to list them, where updates are cheaper so."""
    moments: str | Sequence[str] | None
    """The columns of which moments are kept from the beginning, for ``moments`` and ``linear_regression``."""
    domain: Literal["schema", "query"] | None
    """Which elements a formula is about: those of all tables, or those of the tables that it names."""
    component: str | None
    """The column, of every table that a formula reads, that is the same for all that hangs together."""


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """The options of a view; None where nothing was asked for. A value that an option cannot have is refused."""

    epsilon: Fraction | None = None
    optimize: str | None = None
    degree: int | None = None
    mode: str | None = None
    access: bool | None = None
    count: bool | None = None
    lookup: tuple[tuple[str, ...], ...] | None = None
    """Sets of columns, each in the order of their names."""
    history: int | None = None
    moments: tuple[str, ...] | None = None
    """Columns, each once."""
    domain: str | None = None
    component: str | None = None
    answers: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.given().items():
            object.__setattr__(self, name, _CHECKS[name](value))

    @staticmethod
    def of(values: Mapping[str, Any]) -> ViewOptions:
        """Options by their names; unknown ones are refused, too."""
        for name in values:
            if name not in NAMES:
                raise unknown_option(str(name))
        return ViewOptions(**values)

    def __bool__(self) -> bool:
        """True if any is set."""
        return bool(self.given())

    def given(self) -> dict[str, Any]:
        """Those that are set, by name, in their order."""
        found = {name: getattr(self, name) for name in NAMES}
        return {name: value for name, value in found.items() if value is not None}

    def joined(self, others: ViewOptions) -> ViewOptions:
        """These and others; one that both set must be the same in both."""
        mine = self.given()
        for name, value in others.given().items():
            if mine.get(name, value) != value:
                raise OptionError(
                    f"option {name} is given twice: {_shown(mine[name])} in the SQL, and {_shown(value)} beside it",
                    option=name,
                    hint="leave one of the two out",
                )
        return replace(self, **others.given())

    def to_dict(self) -> dict[str, Any]:
        """Those that are set, as plain data for a reader; ε is a float."""
        return {n: float(v) if isinstance(v, Fraction) else _listed(v) for n, v in self.given().items()}

    def to_data(self) -> dict[str, Any]:
        """Those that are set, as JSON can hold them exactly: ε as text."""
        return {n: str(v) if isinstance(v, Fraction) else _listed(v) for n, v in self.given().items()}

    @staticmethod
    def from_data(data: object) -> ViewOptions:
        """The options that plain data holds; what holds none is refused."""
        if not isinstance(data, dict):
            raise OptionError(f"{data!r} holds no options", option="", hint="it was not written by Everview")
        epsilon = data.get("epsilon")
        if isinstance(epsilon, str) and _EXACT.fullmatch(epsilon):
            data = {**data, "epsilon": Fraction(epsilon)}
        return ViewOptions.of(data)

    def __str__(self) -> str:
        """As they stand in the parentheses of OPTIONS (…)."""
        return ", ".join(f"{name} = {_shown(value)}" for name, value in self.given().items())


NAMES: Final = tuple(f.name for f in fields(ViewOptions))
"""The options that there are."""


def option_value(text: str) -> bool | int | Decimal | Fraction | str:
    """The value that a text stands for where all values are texts: a number or a truth value if it is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _WHOLE.fullmatch(text):
        return int(text)
    if _EXACT.fullmatch(text):
        return Fraction(text)
    return Decimal(text) if _NUMBER.fullmatch(text) else text


def unknown_option(name: str) -> OptionError:
    """The error for a name that no option has."""
    close = get_close_matches(name.lower(), NAMES, n=1, cutoff=0.6)
    meant = f"did you mean {close[0]}? " if close else ""
    hint = f"{meant}the options of a view are {', '.join(NAMES)}"
    return OptionError(f"there is no option {name}", option=name, hint=hint)


def _shown(value: object) -> str:
    """A value as SQL writes it: ε as a decimal number if it is one that is read again, else as a fraction."""
    if isinstance(value, str):
        return f"'{value}'"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple) and all(isinstance(name, str) for name in value):
        return f"({', '.join(map(_quoted, value))})"
    if isinstance(value, tuple):
        sets = [f"({', '.join(map(_quoted, columns))})" for columns in value]
        return sets[0] if len(sets) == 1 else f"({', '.join(sets)})"
    if isinstance(value, Fraction):
        number = Decimal(value.numerator) / value.denominator
        is_short = Fraction(number) == value and (value * MOST_PARTS).denominator == 1
        return f"{number:f}" if is_short else str(value)
    return str(value)


def _quoted(name: str) -> str:
    """A column's name as SQL writes it."""
    return name if _PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _listed(value: object) -> object:
    """Columns, or sets of columns, as lists; any other value as it is."""
    if not isinstance(value, tuple):
        return value
    return [columns if isinstance(columns, str) else list(columns) for columns in value]


def _said(value: object) -> str:
    """A value for a message; a whole number may have more digits than Python is willing to print."""
    if isinstance(value, int) and not -_HUGE < value < _HUGE:
        return "a huge number"
    text = str(value) if isinstance(value, Decimal | Fraction) else repr(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _epsilon(value: object) -> Fraction:
    hint = "write a number from 0 to 1, such as 0.5"
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        raise OptionError(f"epsilon is a number, and {_said(value)} is none", option="epsilon", hint=hint)
    # A float stands for what it is written as: 0.1 is a tenth.
    number = Decimal(float.__repr__(value)) if isinstance(value, float) else value
    is_finite = not isinstance(number, Decimal) or number.is_finite()
    if not is_finite or not 0 <= number <= 1:
        raise OptionError(f"epsilon is {_said(value)}, which is not between 0 and 1", option="epsilon", hint=hint)
    rounded = number.quantize(Decimal(1) / MOST_PARTS) if isinstance(number, Decimal) else number
    if rounded != number or Fraction(rounded).denominator > MOST_PARTS:
        finer = f"epsilon is {_said(value)}, which is finer than a millionth"
        raise OptionError(finer, option="epsilon", hint="round it")
    return Fraction(rounded)


def _word(name: str, words: Sequence[str]) -> Callable[[object], str]:
    """The check of an option that is one of some words."""

    def check(value: object) -> str:
        if not isinstance(value, str) or value.lower() not in words:
            *others, last = (f"'{word}'" for word in words)
            known = f"{', '.join(others)} or {last}"
            close = get_close_matches(str(value).lower(), words, n=1, cutoff=0.6)
            hint = f"did you mean '{close[0]}'?" if close else f"write {known}"
            raise OptionError(f"{name} is {_said(value)}, and can be {known}", option=name, hint=hint)
        return value.lower()

    return check


def _degree(value: object) -> int:
    hint = "write the largest number of neighbours that a value can have, such as 8"
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"degree is a whole number, and {_said(value)} is none", option="degree", hint=hint)
    if not 1 <= value <= MOST_DEGREE:
        raise OptionError(f"degree is {_said(value)}, which is not between 1 and 2^63 - 1", option="degree", hint=hint)
    return value


def _switch(name: str) -> Callable[[object], bool]:
    """The check of an option that is on or off."""

    def check(value: object) -> bool:
        if not isinstance(value, bool):
            said = f"{name} is {_said(value)}, and can be true or false"
            raise OptionError(said, option=name, hint=f"write {name} = true")
        return value

    return check


def _lookup(value: object) -> tuple[tuple[str, ...], ...]:
    hint = "write columns of the view, as in lookup = (customer), or several sets of them: lookup = ((a), (b, c))"
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        value = [value]
    if not isinstance(value, list | tuple) or not value:
        raise OptionError(f"lookup is {_said(value)}, which names no columns", option="lookup", hint=hint)
    found: dict[tuple[str, ...], None] = {}
    for columns in value:
        if isinstance(columns, str):
            columns = (columns,)
        names = columns if isinstance(columns, list | tuple) else ()
        if not names or not all(isinstance(name, str) and name for name in names) or len(set(names)) < len(names):
            raise OptionError(f"{_said(columns)} is no set of columns to look up by", option="lookup", hint=hint)
        found[tuple(sorted(names))] = None
    if len(found) > MOST_LOOKUPS:
        said = f"rows can be looked up by {MOST_LOOKUPS} sets of columns at most, not {len(found)}"
        raise OptionError(said, option="lookup", hint="leave out those that are asked for rarely: they are listed")
    return tuple(found)


def _history(value: object) -> int:
    hint = "write the number of batches whose changes are to be kept, such as 100"
    if isinstance(value, bool) or not isinstance(value, int):
        raise OptionError(f"history is a whole number, and {_said(value)} is none", option="history", hint=hint)
    if not 1 <= value <= MOST_DEGREE:
        raise OptionError(
            f"history is {_said(value)}, which is not between 1 and 2^63 - 1", option="history", hint=hint
        )
    return value


def _moments(value: object) -> tuple[str, ...]:
    hint = "write columns of the view that hold numbers, as in moments = (y, x1, x2)"
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) and n for n in names):
        raise OptionError(f"moments is {_said(value)}, which names no columns", option="moments", hint=hint)
    if len({name.lower() for name in names}) < len(names):
        raise OptionError(f"moments is {_said(value)}, and a column is named twice", option="moments", hint=hint)
    return tuple(names)


def _component(value: object) -> str:
    if not isinstance(value, str) or not value:
        said = f"component is {_said(value)}, and is the name of a column"
        raise OptionError(said, option="component", hint="write component = 'molecule_id'")
    return value


_CHECKS: Final[dict[str, Callable[[object], Any]]] = {
    "epsilon": _epsilon,
    "optimize": _word("optimize", OPTIMIZE),
    "degree": _degree,
    "mode": _word("mode", MODES),
    "access": _switch("access"),
    "count": _switch("count"),
    "lookup": _lookup,
    "history": _history,
    "moments": _moments,
    "domain": _word("domain", DOMAINS),
    "component": _component,
    "answers": _word("answers", ANSWERS),
}

READING: Final = ("access", "count", "lookup", "history", "moments", "answers")
"""Those that are for reads of the result, which are there embedded only."""
OF_ONE_TREE: Final = ("epsilon", "optimize", "degree", "mode")
"""Those that guide how one query is maintained; the others are as well for a union of several."""
KEPT_BESIDE: Final = ("lookup", "history", "moments")
"""Those that hold whatever strategy maintains the view: what it does not do itself is kept beside it."""
NO_OPTIONS: Final = ViewOptions()
"""Those of a view of which nothing was asked."""
