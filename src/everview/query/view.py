"""Whole views: SELECT blocks, set operations over them, and the stages that feed them.

A block is a conjunctive body with what SQL puts around it (grouping, aggregates, HAVING, expressions, DISTINCT). What
cannot be folded into the block that uses it (a grouped subquery, a semi-join's right side) is a *stage*: a view of its
own that later stages read as if it were a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from everview.query.aggregates import AggregateFunction
from everview.query.clock import ClockBound
from everview.query.conjunctive import Atom
from everview.query.formula import FormulaQuery
from everview.query.formula_facts import FactRelation, FactSource, bound
from everview.query.options import NO_OPTIONS, ViewOptions
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import DataType

FEED_COLUMNS: Final = ("_change_type", "_commit_version", "_count", "_update")
"""What a feed says of each row beside the view's columns, which must have other names."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate call; ``argument`` None is COUNT(*).

    Where ``argument`` is a sum of values already, ``counts`` says of how many: so counts and averages are put together
    from those of parts. Where it is of type BINARY under SUM, AVG or a variance, it is what ``SUMS`` or ``MOMENTS`` of
    the parts gave. Where it is the product of ``factors``, and has a value whatever values these have, they are said:
    so what is summed up of each table can be multiplied, instead of each row's product being summed up. ``parameters``
    are constants that belong to the function, such as percentages. Where it is the product of ``risky`` factors it may
    leave its type in a row, which is an error; it does not while the product of their largest sizes, as whole numbers
    without their points, is ``most`` or less.
    """

    function: AggregateFunction
    argument: Expression | None
    type: DataType
    distinct: bool = False
    counts: Expression | None = None
    factors: tuple[Expression, ...] = ()
    parameters: tuple[Const, ...] = ()
    risky: tuple[Expression, ...] = ()
    most: int | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """All that it reads."""
        return tuple(e for e in (self.argument, self.counts, *self.factors) if e is not None)

    def substitute(self, mapping: Mapping[Var, Term]) -> Aggregate:
        """The same aggregate with variables replaced."""
        return replace(
            self,
            argument=None if self.argument is None else self.argument.substitute(mapping),
            counts=None if self.counts is None else self.counts.substitute(mapping),
            factors=tuple(factor.substitute(mapping) for factor in self.factors),
            risky=tuple(factor.substitute(mapping) for factor in self.risky),
        )

    def __str__(self) -> str:
        inner = "*" if self.argument is None else str(self.argument)
        further = "".join(f", {p}" for p in self.parameters)
        return f"{self.function.value}({'distinct ' if self.distinct else ''}{inner}{further})"


@dataclass(frozen=True, slots=True)
class Output:
    """A named column of a block or view."""

    name: str
    expression: Expression
    nullable: bool = True

    @property
    def type(self) -> DataType:
        """The column's type."""
        return self.expression.type


@dataclass(frozen=True, slots=True)
class Grouping:
    """GROUP BY: ``keys`` name the groups (empty: one group over everything), ``aggregates`` are computed per group.

    ``outputs`` and ``having`` of the block are expressions over ``key_names`` and ``aggregate_names``, variables that
    stand for the keys and aggregates in their order.
    """

    keys: tuple[Expression, ...]
    aggregates: tuple[Aggregate, ...]
    having: Expression | None = None

    @property
    def key_names(self) -> tuple[Var, ...]:
        """What outputs call the keys."""
        return tuple(group_key(i) for i in range(len(self.keys)))

    @property
    def aggregate_names(self) -> tuple[Var, ...]:
        """What outputs call the aggregates."""
        return tuple(aggregate_result(i) for i in range(len(self.aggregates)))


def group_key(index: int) -> Var:
    """The variable that stands for a group's key in outputs and HAVING."""
    return Var(f"$key{index}")


def aggregate_result(index: int) -> Var:
    """The variable that stands for an aggregate's value in outputs and HAVING."""
    return Var(f"$agg{index}")


@dataclass(frozen=True)
class Block:
    """One SELECT: a conjunctive body, and what is made of its rows."""

    atoms: tuple[Atom, ...]
    predicates: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    grouping: Grouping | None = None
    distinct: bool = False
    not_null: frozenset[Var] = frozenset()

    @property
    def columns(self) -> tuple[Output, ...]:
        """The result's columns."""
        return self.outputs

    def __str__(self) -> str:
        body = ", ".join([*map(str, self.atoms), *map(str, self.predicates)])
        named = {}
        if self.grouping:
            named = dict(zip(self.grouping.key_names, map(str, self.grouping.keys), strict=True))
            named |= dict(zip(self.grouping.aggregate_names, map(str, self.grouping.aggregates), strict=True))
        head = [_named(o.expression, named) for o in self.outputs]
        having = f" having {_named(self.grouping.having, named)}" if self.grouping and self.grouping.having else ""
        return f"({', '.join(head)}){' distinct' if self.distinct else ''} :- {body}{having}."


def _named(expression: Expression, named: dict[Var, str]) -> str:
    return "".join(named.get(p, str(p)) if isinstance(p, Var) else str(p) for p in expression.parts)


class SetOperator(Enum):
    """UNION, EXCEPT, INTERSECT."""

    UNION = "union"
    EXCEPT = "except"
    INTERSECT = "intersect"


@dataclass(frozen=True)
class SetOperation:
    """Two bodies combined, as sets or (``all``) as bags."""

    operator: SetOperator
    all: bool
    left: Body
    right: Body
    columns: tuple[Output, ...]

    def __str__(self) -> str:
        word = f"{self.operator.value}{' all' if self.all else ''}"
        right = f"({self.right})" if isinstance(self.right, SetOperation) else str(self.right)
        return f"{self.left}\n{word}\n{right}"


@dataclass(frozen=True)
class FormulaBody:
    """A view by formula. ``query`` is as it was written, ``normal`` as it is maintained; both mean the same."""

    query: FormulaQuery
    normal: FormulaQuery
    relations: tuple[FactRelation, ...]
    element: DataType
    """The type of all elements."""
    degree: int
    """No element may have more neighbours."""
    domain: str = "schema"
    component: str | None = None
    """The column, of every table, whose value is the same for all that hangs together."""
    is_independent: bool = True
    """True if no element can matter that stands in no fact of the formula."""
    columns: tuple[Output, ...] = field(init=False)
    """One for each variable of the head: none of a sentence, which has one row while it is true."""

    def __post_init__(self) -> None:
        columns = tuple(Output(v.name, Expression.of(v, self.element), False) for v in self.query.head)
        object.__setattr__(self, "columns", columns)

    @property
    def tables(self) -> frozenset[str]:
        """The tables that it reads."""
        return frozenset(s.table for s in sources(self))

    @cached_property
    def bound(self) -> FormulaQuery:
        """What is maintained, over fact relations: every term is a variable."""
        return replace(self.normal, formula=bound(self.normal.formula))

    def renamed(self, names: Mapping[str, str]) -> FormulaBody:
        """The same over tables of other names."""
        return self.each_source(lambda s: replace(s, table=names.get(s.table, s.table)))

    def each_source(self, change: Callable[[FactSource], FactSource]) -> FormulaBody:
        """The same with each source of its facts changed."""
        relations = tuple(replace(r, sources=tuple(map(change, r.sources))) for r in self.relations)
        return replace(self, relations=relations)

    def __str__(self) -> str:
        return f"{self.query}".removeprefix(self.query.name)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column, by its place, that rows are put in order by."""

    column: int
    descending: bool = False
    nulls_first: bool = True

    @property
    def is_plain(self) -> bool:
        """True if NULL stands where the least value does, as it does where nothing is said of it."""
        return self.nulls_first != self.descending

    def __str__(self) -> str:
        way = " descending" if self.descending else ""
        return f"${self.column}{way}" + ("" if self.is_plain else f" nulls {'first' if self.nulls_first else 'last'}")


class Counting(Enum):
    """What a cut counts up to its limit: rows with their copies, or ranks, or different ranks."""

    ROWS = "rows"
    """ROW_NUMBER: exactly so many copies."""
    RANKS = "ranks"
    """RANK: rows before which there are fewer copies of lesser keys, as in FETCH FIRST … WITH TIES."""
    DENSE_RANKS = "dense ranks"
    """DENSE_RANK: rows before which there are fewer different keys."""


@dataclass(frozen=True)
class Cut:
    """The first rows of a body in a total order, in all or of each partition: ORDER BY … LIMIT, ROW_NUMBER() <= k.

    Rows are in the order of ``keys``, and those with equal keys in that of ``columns``, which are the first of the
    body's: all ascending, NULL first. So a cut follows from the rows alone. Further columns of the body are only there
    to be keys. ``partition`` has places of columns; of each partition, ``offset`` are left out and ``limit`` taken.
    """

    body: Body
    keys: tuple[SortKey, ...]
    columns: tuple[Output, ...]
    limit: int | None
    offset: int = 0
    partition: tuple[int, ...] = ()
    counting: Counting = Counting.ROWS

    @property
    def end(self) -> int | None:
        """The first position that is not taken; None if all are, from the offset on."""
        return None if self.limit is None else self.offset + self.limit

    def __str__(self) -> str:
        by = f" by {', '.join(map(str, self.keys))}" if self.keys else ""
        each = f" of each ({', '.join(f'${p}' for p in self.partition)})" if self.partition else ""
        some = "all" if self.limit is None else f"the first {self.limit} {self.counting.value}"
        after = f" after {self.offset}" if self.offset else ""
        return f"{self.body}\ntake {some}{after}{each}{by}"


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function over the partitions of its ``Windowed``.

    ``text`` is the call in SQL, with ``{0}`` for the first of its ``arguments`` and so on, which are places of columns,
    and ``{order}`` where rows with equal keys must be told apart; ``frame`` is the frame as SQL, or nothing for the
    usual one. Equal keys are told apart by all columns of the body, ascending, NULL first; so it is for all of the call
    if it goes ``by_place``, as ROW_NUMBER and ROWS frames do.
    """

    name: str
    text: str
    arguments: tuple[int, ...]
    keys: tuple[SortKey, ...]
    frame: str
    by_place: bool
    type: DataType
    reading: str = ""
    """What is computed of the call's value, which is ``{0}`` in it; nothing if it is the value itself."""

    @property
    def needs_order(self) -> bool:
        """True if it matters which of several rows with equal keys comes first."""
        return self.by_place or "{order}" in self.text

    def shown(self, names: Sequence[str]) -> str:
        """The call with its arguments by name."""
        if self.reading:
            return f"{self.name}({', '.join(names[a] for a in self.arguments)})"
        return self.text.format(*(names[a] for a in self.arguments), order="").replace(" )", ")")

    def __str__(self) -> str:
        by = f" by {', '.join(map(str, self.keys))}" if self.keys else ""
        columns = [f"${i}" for i in range(max(self.arguments, default=-1) + 1)]
        return self.shown(columns) + by + (f" {self.frame}" if self.frame else "")


@dataclass(frozen=True)
class Windowed:
    """The rows of a body with one further column for each of some window functions over the same partitions."""

    body: Body
    partition: tuple[int, ...]
    calls: tuple[WindowCall, ...]
    columns: tuple[Output, ...]

    def __str__(self) -> str:
        each = f" over ({', '.join(f'${p}' for p in self.partition)})" if self.partition else " over all"
        return f"{self.body}\nwith {', '.join(map(str, self.calls))}{each}"


@dataclass(frozen=True)
class Timed:
    """The rows of one relation for as long as the clock says so: ``WHERE ts > now() - INTERVAL 7 DAYS``.

    Rows come and go as the clock goes on, without any update. The times that ``bounds`` speak of are columns of the
    body, which may be behind ``columns``, its first ones.
    """

    body: Block
    bounds: tuple[ClockBound, ...]
    columns: tuple[Output, ...]

    @property
    def relation(self) -> str:
        """Whose rows they are."""
        return self.body.atoms[0].relation

    @property
    def window(self) -> tuple[ClockBound, ...] | None:
        """What makes rows go in the order of their times; None if they may go in another one."""
        ends = [replace(b, column=0) for b in self.bounds if b.is_end]
        is_one = len(ends) == 1 and len({b.column for b in self.bounds}) == 1
        return tuple(ends) if is_one and all(b.is_plain for b in self.bounds) else None

    def __str__(self) -> str:
        shown = [f"{self.body.outputs[b.column].expression} {b}" for b in self.bounds]
        return f"{self.body}\nwhile {', '.join(shown)}"


@dataclass(frozen=True)
class Exploded:
    """The rows of a body, each once for each element of the array in a ``column``: EXPLODE, POSEXPLODE and their like.

    Behind the body's columns stand the element and, with ``has_position``, before that its place, counted from 0. An
    ``outer`` one keeps a row without elements once, with NULL for both.
    """

    body: Block
    column: int
    outer: bool
    has_position: bool
    columns: tuple[Output, ...]

    def __str__(self) -> str:
        which = f"each element of ${self.column}" + (" with its position" if self.has_position else "")
        return f"{self.body}\nonce for {which}{', or NULL' if self.outer else ''}"


Body: TypeAlias = Block | SetOperation | Cut | Windowed | Timed | Exploded | FormulaBody


@dataclass(frozen=True)
class Stage:
    """A part of a view that is maintained on its own and read by the parts after it."""

    name: str
    body: Body
    purpose: str
    """Why it stands apart, as ``explain`` says it."""

    @property
    def columns(self) -> tuple[Output, ...]:
        """The stage's columns."""
        return self.body.columns


@dataclass(frozen=True)
class View:
    """A view: its stages in the order in which they feed each other, and the body that gives the result."""

    name: str
    body: Body
    stages: tuple[Stage, ...] = ()
    remarks: tuple[str, ...] = ()
    """What the front end ignored or changed, and says so."""
    options: ViewOptions = NO_OPTIONS
    """What was asked for of the way in which it is maintained; only ``domain`` says anything about its rows."""

    @property
    def columns(self) -> tuple[Output, ...]:
        """The result's columns."""
        return self.body.columns

    def __str__(self) -> str:
        parts = [f"{s.name}{s.body}" for s in self.stages] + [f"{self.name}{self.body}"]
        if self.options:
            parts.append(f"options ({self.options})")
        return "\n".join(parts)


def blocks(body: Body) -> Iterator[Block]:
    """The blocks of a body, left to right; a formula has none."""
    if isinstance(body, Block):
        yield body
    elif isinstance(body, SetOperation):
        yield from blocks(body.left)
        yield from blocks(body.right)
    elif isinstance(body, Cut | Windowed | Timed | Exploded):
        yield from blocks(body.body)


def sources(body: Body) -> Iterator[FactSource]:
    """The rows that a formula asks for; other bodies have none such."""
    if isinstance(body, FormulaBody):
        for relation in body.relations:
            yield from relation.sources


def arranged(body: Body) -> Iterator[Cut | Windowed | Timed | Exploded]:
    """What of a body goes by the order of rows, the innermost first: cuts, window functions, and what has its time."""
    if isinstance(body, SetOperation):
        yield from arranged(body.left)
        yield from arranged(body.right)
    elif isinstance(body, Cut | Windowed | Timed | Exploded):
        yield from arranged(body.body)
        yield body


def relations_in(body: Body) -> list[str]:
    """The tables, views and stages that a body reads, in the order in which it names them."""
    if isinstance(body, FormulaBody):
        return sorted(body.tables)
    return list(dict.fromkeys(atom.relation for block in blocks(body) for atom in block.atoms))


def without_unread(view: View) -> View:
    """The same view without the stages that nothing of it reads."""
    read = set(relations_in(view.body))
    kept = []
    for stage in reversed(view.stages):
        if stage.name in read:
            read.update(relations_in(stage.body))
            kept.append(stage)
    return replace(view, stages=tuple(reversed(kept)))


def each_block(body: Body, change: Callable[[Block], Block]) -> Body:
    """The same body with each of its blocks changed, left to right."""
    if isinstance(body, FormulaBody):
        return body
    if isinstance(body, Block):
        return change(body)
    if isinstance(body, Cut | Windowed):
        return replace(body, body=each_block(body.body, change))
    if isinstance(body, Timed | Exploded):
        return replace(body, body=change(body.body))
    return replace(body, left=each_block(body.left, change), right=each_block(body.right, change))
