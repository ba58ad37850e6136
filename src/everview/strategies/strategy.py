"""The seam between planner, engine and the maintenance methods: what each side may know of the other.

The planner asks every strategy for its *judgement* of a core, takes the first that fits and is advised, else the first
that fits, and has it *plan* and then *compile*. What comes back is plain data, so nothing outside a strategy's own
folder knows any strategy by its name:

    judge(core, facts)  →  Judgement      does it fit, and why (not); what it promises for each task
    plan(core, facts)   →  StrategyPlan   its own shape, with bounds, a diagram and words for ``explain``
    compile(plan, sums, signatures)
                        →  Maintained     a program for the kernel, and how the engine uses it

A strategy is added by a folder here and a line in ``FOLDERS``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol

from everview.kernel.program import Program
from everview.query.terms import Var
from everview.strategies.bounds import Bound, Bounds
from everview.strategies.core import Core, Facts
from everview.strategies.diagram import Diagram
from everview.strategies.dial import Dial

KINDS = ("any", "fifo", "insert_only", "keyed")
"""The kinds of update sequences that bounds are stated for."""

DELTA = "delta"
"""The channel on which a program tells what changes."""
RESULT = "result"
"""The cursor that lists the result."""
COUNT = "count"
"""The function that counts it."""
MEASURES = "measures"
"""The function that finds the measures of a row."""
ACCESS, RANK, BEFORE = "access", "rank", "before"
"""The functions that find a row by its position, the first position of a row, and how many are before a row."""
MOST_RANKS = 2**63 - 1
"""A result that has so many rows or more cannot be accessed by position, only listed."""


def value_variable(number: int) -> Var:
    """What a value that comes in with rows, and is no variable of the query, is called in a program (``Extreme``)."""
    return Var(f"#value{number}")


def words_of_value(number: int) -> str:
    """The cursor that lists the words of such a value that are kept, with their copies."""
    return f"value{number}"


class Task(Enum):
    """What may be asked of a maintained result."""

    LIST = "list"
    TEST = "test"
    COUNT = "count"
    ACCESS = "access"
    """Also the rank of a row, pages and samples."""
    LOOKUP = "lookup"
    """The rows that have some values in some columns."""
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Cost:
    """What a task costs: each update to be ready for it, and the task itself (listing: each row)."""

    update: Bound
    read: Bound

    def to_dict(self) -> dict[str, str]:
        """As plain data."""
        return {"update": str(self.update), "read": str(self.read)}


def costs_dict(tasks: Mapping[Task, Cost]) -> dict[str, dict[str, str]]:
    """What tasks cost, as plain data."""
    return {task.value: cost.to_dict() for task, cost in tasks.items()}


@dataclass(frozen=True)
class Judgement:
    """Whether a strategy can maintain a core, why or why not, and what it promises for each task, before any data."""

    fits: bool
    reason: str
    tasks: Mapping[Task, Cost] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    """The options of the view (``facts.options``) that guide it here; others have no effect on it."""
    advised: bool = False
    """True if it should be taken before a more general strategy that fits as well.

    It is never worse at what the view is for, or the view's options ask for it.
    """
    dial: Dial | None = None
    """Its dial ε, where it would stand for the view, and what it costs anywhere else; None if it has none."""


class StrategyPlan(Protocol):
    """How a strategy is going to maintain a core: its own shape inside, and what others ask of any plan."""

    @property
    def reason(self) -> str:
        """Why the strategy fits, in words, and what it does here."""

    @property
    def outputs(self) -> frozenset[Var]:
        """The variables of the rows that it maintains: the query's own output, and what it has to add to that."""

    @property
    def bounds(self) -> Bounds:
        """What it costs to keep and list these rows; what follows them is not its concern."""

    @property
    def constant_update_for(self) -> tuple[str, ...]:
        """The kinds of update sequences on which an update takes constant (amortised) time.

        They are ``any``, ``fifo``, ``insert_only`` and ``keyed``: any, as long as no batch replaces a row at which
        others point by a foreign key.
        """

    @property
    def changes_one_row(self) -> bool:
        """True if an update changes at most one of the rows."""

    @property
    def tasks(self) -> Mapping[Task, Cost]:
        """What can be asked beside listing, and what that costs."""

    @property
    def ordered_by(self) -> tuple[Var, ...] | None:
        """The variables by whose values its rows are kept in order, so that they have positions; None if in none."""

    def looks_up(self, variables: frozenset[Var]) -> bool:
        """True if rows can be found by the values of these of its outputs with constant delay (``Facts.lookups``)."""

    @property
    def keeps_extremes(self) -> bool:
        """True if it keeps what its core wants to have in order (``Core.extremes``)."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was cut or is worth knowing."""

    @property
    def height(self) -> int:
        """The most relations on a path of its tree; 1 where there is no tree to speak of."""

    @property
    def diagram(self) -> Diagram:
        """Its shape, for the text and the picture of ``explain``."""

    @property
    def summary(self) -> str:
        """Its shape on one line."""

    def notes(self) -> tuple[tuple[str, str], ...]:
        """Further lines of ``explain``: the word in the margin, and the text."""

    def to_dict(self) -> dict[str, Any]:
        """Its shape as plain data; ``tree`` and ``height`` are among it."""


@dataclass(frozen=True)
class Sum:
    """A sum to keep with each row: over the product of numbers that come with the rows of some atoms, times copies.

    ``factors`` has these atoms, mostly one, and in how many words the change of each one's number comes, which hold its
    sum over all rows of the atom. Only a core that ``multiplies`` has sums of several factors. With a ``limit``, which
    may have several words, the program must know when the size of a result's sum may be beyond it
    (``programs.limits``).
    """

    factors: Mapping[int, int]
    limit: int | None = None
    kinds: Mapping[int, Hashable] = field(default_factory=dict)
    """What the factors are, by their atoms: those of equal kinds are the same of a row of the same relation."""
    row_limit: int | None = None
    """Where the product of the largest factors that have come in is beyond it, the table ``products`` has a row."""

    @property
    def atom(self) -> int:
        """The only atom that has a factor."""
        (atom,) = self.factors
        return atom

    @property
    def words(self) -> int:
        """In how many words the change of the only factor comes."""
        (words,) = self.factors.values()
        return words


@dataclass(frozen=True)
class WordOrders:
    """How the words of variables are compared where rows are kept in order; those of all others are numbers.

    Words of ``by_value`` are ids in the table of values, and have the order of their values; those of ``by_float`` are
    the bits of 64-bit floats.
    """

    by_value: frozenset[Var] = frozenset()
    by_float: frozenset[Var] = frozenset()


WORDS_AS_THEY_ARE = WordOrders()


@dataclass(frozen=True)
class AtomInput:
    """How one atom's rows come in: the variables whose words are given, in order, and the sums whose change is.

    ``serves`` are the other atoms that these rows are for, as they take the same ones.
    """

    atom: int
    variables: tuple[Var, ...]
    sums: tuple[int, ...]
    serves: tuple[int, ...] = ()
    served_sums: tuple[tuple[int, int], ...] = ()
    """Further factors that come in after those of ``sums``: which of the atoms that are served has it, and the sum."""
    values: tuple[int, ...] = ()
    """The values to be kept in order that come in after all of these, in a word each that compares as they do."""


@dataclass(frozen=True)
class Entry:
    """How a relation's updates come in, to all its occurrences one after the other.

    The parameters are, for each occurrence: its words, a flag (1: the row belongs to it), the change of its sums, its
    values to be kept in order; and at the end the change of copies. ``state_only`` keeps the state, ``with_deltas``
    also emits each update's delta.

    With ``is_set`` the rows of the relation, which is a base table, are taken as a set, however many copies there are:
    the change is 1 where a row appears, −1 where it vanishes, and an update that does neither belongs to no occurrence
    (its flags and its change are 0).

    ``load`` takes the same parameters and does no more than store the row: see ``Maintained.build``.
    """

    relation: str
    atom_inputs: tuple[AtomInput, ...]
    state_only: str
    with_deltas: str
    is_set: bool = field(default=False, kw_only=True)
    load: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Lookup:
    """A row to find by its key, given as variables of the result, at this level or a higher one."""

    table: str
    key: tuple[Var, ...]
    level: int


@dataclass(frozen=True)
class KeyedCursor:
    """A cursor that lists the rows in which variables of the result have given words: its parameters, in order."""

    name: str
    variables: tuple[Var, ...]


@dataclass(frozen=True)
class DifferenceNode:
    """Stored rows that results are joined of, each below one row of the parent: by them a difference is found.

    Whenever a row's weight changes, its words and what it weighed before go to the channel ``log``. The rest is asked
    when a difference is wanted: ``now`` gives for words of a row its weight, 0 if there is none, and for each child how
    many rows below that one match. ``group`` gives the rows that match below a parent's, with their weights, on the
    channel of its own name, and ``below`` all that a row which matches is joined with below it: ``results`` and the
    weight. Both put the place of the row that they were asked for before that. Weights have so many ``words``.
    """

    variables: tuple[Var, ...]
    key: tuple[Var, ...]
    """The parent's variables, in the order in which ``group`` takes them."""
    parent: int | None
    """By its place among the nodes."""
    words: int
    """0 if its rows weigh 1: they are there because of their children alone, and nothing is noted of them."""
    log: str | None
    now: str
    group: str
    below: str | None
    """None for a leaf, below which there is nothing."""
    results: tuple[Var, ...]


@dataclass(frozen=True)
class Gauge:
    """A number for ``stats()``: a value of a table's row."""

    table: str
    key: tuple[int, ...]
    value: int


@dataclass(frozen=True)
class RowCount:
    """A number for ``stats()``: how many rows a table has."""

    table: str


@dataclass(frozen=True)
class Parts:
    """Where the numbers of a strategy that keeps heavy and light keys apart are found, for ``stats()["parts"]``."""

    epsilon: Fraction
    """The ε that it runs with."""
    base: Gauge | RowCount
    """N, the threshold base."""
    heavy_keys: tuple[Gauge | RowCount, ...]
    """The numbers of heavy keys, which are added up."""
    minor: Gauge | RowCount
    """How many minor rebalances there have been: keys that have become heavy or light."""
    major: Gauge | RowCount
    """How many major rebalances there have been: changes of N."""
    moved: Gauge | RowCount
    """How many tuples rebalances have moved."""


@dataclass(frozen=True)
class Maintained:
    """What the engine runs: a program, how its updates come in, and how its rows are read.

    Rows of channel ``delta`` and of cursor ``result`` are the output variables, then the measures: the weight, and the
    sums asked for (deltas: their change, and at the end the position of the update that made it). ``start_deltas`` is
    run before the first update with deltas, ``stop_deltas`` before the next without; both take one word that they do
    not use, so that one row of input runs them once.
    """

    program: Program
    entries: tuple[Entry, ...]
    outputs: tuple[Var, ...]
    start_deltas: str = "start_deltas"
    stop_deltas: str = "stop_deltas"
    widths: tuple[int, ...] = ()
    """Of how many words the weight and each sum are, in deltas and in what is listed; without it, all are of one.

    The weight of a core that is not summed up by groups (``Core.sums_up``) is one word.
    """
    test: tuple[Lookup, ...] | str | None = None
    """A row is in the result exactly if all of these are found, or if this function, asked with it, does not give 0.

    None: it must be listed to know.
    """
    measures: str | None = None
    """The function that gives for the words of a row 1 and its measures, or 0 and any words if it is not there."""
    lookups: tuple[KeyedCursor, ...] = ()
    """Cursors that list what ``result`` lists where some variables have given words, with constant delay."""
    count: str | None = None
    """The function that gives how many rows there are, copies included, in words; None: they must be listed."""
    recount: str | None = None
    """The function that gives the same where listing cannot tell: a row has more copies than a word holds.

    It may take longer than listing. None: ``count`` is not, or each row is there once.
    """
    counts_at_once: bool = False
    """True if that takes constant time, and no walk through what is stored."""
    access: str | None = None
    """The function that gives for a position 1 and the words of the row there, copies being rows, or 0 and any words.

    Positions are those of ``result``, which lists in the order of ``order``. It may be asked only while there are less
    than ``MOST_RANKS`` rows. None: rows must be listed to know.
    """
    rank: str | None = None
    """The function that gives for the words of a row that is there 1 and its first position; with ``access``."""
    before: str | None = None
    """The function that gives for words how many rows come before a row that has them, there or not; with ``access``.

    Words of values that are in no table of values come in an order of their own.
    """
    order: tuple[Var, ...] = ()
    """The variables by whose values, NULL first, the cursor ``result`` lists in order; () if it lists in none."""
    difference: tuple[DifferenceNode, ...] = ()
    """What differences between states are found by, parents first; () if what changes must be told to know them."""
    extremes: tuple[str, ...] = ()
    """For each of ``Core.extremes`` the function that gives, for the words of a row, 1 and the value; 0 and 0 if none.

    A row must be there, or have been: for others they may give values of rows that join nothing.
    """
    gauges: Mapping[str, Gauge | RowCount] = field(default_factory=dict)
    pieces: str | None = None
    """A cursor that lists the same rows in pieces, as who reads everything likes it: a row may come several times.

    Its measures are to be added up then; of a set, where a row has no copies, the row is there once. Where a measure
    leaves the words that a piece has for it, the cursor ``result`` is read instead. None: that one is as good. It gives
    each row once, so that it serves whoever reads only some of them.
    """
    build: str | None = None
    """Makes the state from rows that were loaded, all at once: run, with one word that it does not use, after them.

    Rows may be loaded only while there are none, and nothing may be read or told before the state is built. None: there
    is no better way than one update after the other.
    """
    parts: Parts | None = None
    """Where the numbers of heavy and light parts are found; None if it has no such parts."""

    def entry(self, relation: str) -> Entry | None:
        """How a relation's updates come in, None if the query does not read it."""
        return next((e for e in self.entries if e.relation == relation), None)


class Strategy(Protocol):
    """A maintenance method."""

    @property
    def name(self) -> str:
        """What ``explain`` calls it."""

    def judge(self, core: Core, facts: Facts) -> Judgement:
        """Whether it can maintain a core; cheap, and without data."""

    def plan(self, core: Core, facts: Facts) -> StrategyPlan:
        """How it would maintain a core that it fits."""

    def compile(
        self,
        plan: StrategyPlan,
        sums: Sequence[Sum],
        signatures: Sequence[Hashable] = (),
        orders: WordOrders = WORDS_AS_THEY_ARE,
    ) -> Maintained:
        """The program for one of its own plans, with these sums kept beside each row's weight.

        ``orders`` says how words are compared where rows are kept in order.

        Atoms of equal ``signatures`` are given the same rows of their relation, with the same words a column, so they
        may share a table; an atom that another one serves needs no entry of its own. While nothing is told, a row may
        have any number of copies. Where rows are groups, the table ``beyond`` has a row (``programs.limits``) once one
        may have more of them than 64 bits hold, or a sum beyond its limit; then every changed row has to be told.
        """
