"""What a strategy is given: one conjunctive query to maintain, and what the planner knows of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from everview.query.classify import Classification
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.constraints import NO_CONSTRAINTS, Constraints
from everview.query.options import NO_OPTIONS, ViewOptions
from everview.query.terms import Expression, Var
from everview.query.view import Aggregate


@dataclass(frozen=True)
class Extreme:
    """MIN or MAX of what the rows of one atom have, which is to be read off the core itself."""

    aggregate: Aggregate
    atom: int
    value: int
    """Which of the values that come in with rows it is of: MIN and MAX of the same are of the same one."""
    highest: bool


@dataclass(frozen=True)
class Core:
    """A conjunctive query to maintain, what it is for, and what happens to its changes on the way out.

    Its head holds the variables that the block outputs or groups by, and those that an operator after the core needs.
    """

    role: str
    query: ConjunctiveQuery
    operators: tuple[str, ...] = ()
    aggregates: tuple[Aggregate, ...] = ()
    keeps_values: bool = False
    """True if an operator keeps every (group, value) pair: MIN and MAX."""
    grouped: bool = False
    """True if its rows are groups."""
    folded: bool = False
    """True if an operator after the core needs all its changes and keeps what it makes of them."""
    sums_up: bool = False
    """True if the weights and sums of its rows go into groups: then they may have several words."""
    multiplies: bool = False
    """True if some of its sums are over products of several tables' columns."""
    risks: bool = False
    """True if in some of these a row's product may leave its type, so that the factors' sizes are watched."""
    filtered: bool = False
    """True if groups are dropped when they are listed: HAVING."""
    extremes: tuple[Extreme, ...] = ()
    """What is to be kept in order in the core itself, if its strategy can; without an operator of its own."""


@dataclass(frozen=True)
class Facts:
    """What is known of a core before there is data: its class, the updates expected at each table, the view's options.

    The query to maintain is ``query``, the minimal form of the core's own.
    """

    classification: Classification
    rates: Mapping[str, float] = field(default_factory=dict)
    options: ViewOptions = NO_OPTIONS
    """What was asked for of the view's maintenance."""
    never_null: frozenset[tuple[str, int]] = frozenset()
    """The columns that never hold NULL, by their relation and their place in it."""
    constraints: Constraints = NO_CONSTRAINTS
    """What holds for every database that the core may be asked about; the query has been rewritten by it already."""
    lookups: tuple[frozenset[Var], ...] = ()
    """The sets of output variables by whose values the view's options say that rows are going to be looked up."""
    order: tuple[Var, ...] = ()
    """The output variables in the order in which rows are to be kept, where they are and the strategy has a choice."""
    told: bool = False
    """True if all that changes is always told, as on Spark, where a view is a feed: nothing is saved by not listing."""

    @property
    def query(self) -> ConjunctiveQuery:
        """The query that is maintained."""
        return self.classification.minimal

    @cached_property
    def filters(self) -> tuple[Expression, ...]:
        """Conditions on one relation: checked before an update enters."""
        return tuple(p for p in self.query.predicates if any(p.variables <= e for e in self.query.edges))

    @cached_property
    def residual(self) -> tuple[Expression, ...]:
        """Conditions across relations: checked on results as they are listed."""
        return tuple(p for p in self.query.predicates if p not in self.filters)
