"""How the aggregates of a rule's head are nested along its tree of variables (q-hierarchical.md 11.2).

Each aggregate is over the values that its own variables have below one assignment of those above them. So the variables
above it must be grouped by, or be those of the aggregate around it, and nothing may stand between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, permutations, product, takewhile
from typing import Final

from everview.errors import Position, UnsupportedError
from everview.query.conjunctive import ConjunctiveQuery
from everview.query.hierarchy import q_violation
from everview.query.terms import Var, names
from everview.sql.rule_syntax import Call, Variable

HINT: Final = "write what is inside as a rule of its own, and read its head here"
MOST_ORDERS: Final = 720
"""So many orders of variables with the same atoms are tried: all of six such."""


@dataclass
class Level:
    """Aggregates over the same rows: those of ``own`` variables, the topmost first, for each value of those above."""

    own: tuple[Var, ...]
    path: tuple[Var, ...]
    """The variables above, the topmost first, and its own."""
    calls: list[Call] = field(default_factory=list)
    below: list[Level] = field(default_factory=list)
    """The levels that its aggregates are made of."""

    @property
    def above(self) -> tuple[Var, ...]:
        """The variables that its groups are told apart by."""
        return self.path[: -len(self.own)]

    @property
    def meaning(self) -> tuple[frozenset[Var], frozenset[Var]]:
        """What its aggregates are over, and for each values of what."""
        return frozenset(self.own), frozenset(self.above)

    def covers(self, path: Sequence[Var]) -> bool:
        """True if it is over what stands at the end of a path."""
        return self.own[0] in path


@dataclass(frozen=True)
class Head:
    """What a tree is made for: a rule's body, the variables that it is grouped by, and its aggregates."""

    query: ConjunctiveQuery
    grouped: tuple[Variable, ...]
    calls: tuple[Call, ...]
    named: Callable[[Variable], Var]
    """What stands for a variable as it is written."""
    source: str

    @cached_property
    def groups(self) -> tuple[Var, ...]:
        """The variables that are grouped by."""
        return tuple(dict.fromkeys(map(self.named, self.grouped)))

    def tree(self) -> HeadTree:
        """The tree that its aggregates fit; raises an UnsupportedError that names what does not, or is left open."""
        violation = q_violation(self.query)
        if violation is not None:
            said = violation.describe(self.query)
            message = f"aggregates are nested along a tree of variables, and there is none: {said}"
            raise self.refused(message, self.calls[0].position)
        found: list[HeadTree] = []
        error: UnsupportedError | None = None
        for order in islice(self._orders(), MOST_ORDERS):
            try:
                tree = HeadTree(self, order)
            except UnsupportedError as refused:
                error = error or refused
                continue
            if all(tree.meaning != other.meaning for other in found):
                found.append(tree)
            if len(found) > 1:
                raise self._open(*found)
        if not found:
            assert error is not None
            raise error
        return found[0]

    def _orders(self) -> Iterator[list[Var]]:
        """How the variables may stand in a tree: those with the same atoms in any order; the one that is meant first.

        That has each aggregate's own variables before those of the aggregates in it.
        """
        written = [v for call in self.calls for v in self._in_order(call)]
        rank = {v: i for i, v in enumerate(dict.fromkeys(written))}
        alike: dict[frozenset[int], list[Var]] = {}
        for variable in sorted(self.query.free - set(self.groups), key=lambda v: (rank.get(v, len(rank)), v.name)):
            alike.setdefault(self.query.atoms_of[variable], []).append(variable)
        for orders in product(*(permutations(variables) for variables in alike.values())):
            yield [*self.groups, *(v for order in orders for v in order)]

    def _in_order(self, call: Call) -> Iterator[Var]:
        own, inner = parts_of(call)
        yield from map(self.named, own)
        for one in inner:
            yield from self._in_order(one)

    def _open(self, one: HeadTree, other: HeadTree) -> UnsupportedError:
        call = next(c for c, level in one.level_of.items() if level.meaning != other.level_of[c].meaning)
        ways = " or ".join(
            f"{names(level.own)} for each {names(level.above) or 'result'}"
            for level in (one.level_of[call], other.level_of[call])
        )
        message = f"{call} may be over {ways}, and the head leaves that open"
        return self.refused(message, call.position)

    def refused(self, message: str, at: Position) -> UnsupportedError:
        """An error that says what does not fit."""
        return UnsupportedError(message, construct="nested aggregate", position=at, source=self.source, hint=HINT)


class HeadTree:
    """The levels of a head's aggregates, where its variables stand in an order."""

    def __init__(self, head: Head, order: Sequence[Var]) -> None:
        self.query = query = head.query
        self.groups = head.groups
        self.named = named = head.named
        self._refused = head.refused
        self.parents = self._parents(order)
        calls = head.calls
        for written in head.grouped:
            above = self.parents[named(written)]
            if above is not None and above not in self.groups:
                message = f"{written.name} is grouped by and {above} is not, which stands above it in all atoms"
                raise self._refused(message, written.position)
        for condition in query.predicates:
            if not condition.variables <= set(self.path_of(condition.variables)):
                raise self._refused(
                    f"the condition {condition} ties {names(condition.variables)}, which are aggregated apart",
                    calls[0].position,
                )
        self.levels: list[Level] = []
        self.level_of: dict[Call, Level] = {}
        self.top = self._of_head(calls)
        self.meaning = {call: level.meaning for call, level in self.level_of.items()}
        for levels in (self.top, *(level.below for level in self.levels)):
            self._unite(levels)

    # --- the tree -----------------------------------------------------------------------------------------------------

    def _parents(self, wanted: Sequence[Var]) -> dict[Var, Var | None]:
        """What stands above each variable: the tightest of those with all of its atoms (q-hierarchical.md 2.3)."""
        atoms_of, free = self.query.atoms_of, self.query.free
        rank = {v: i for i, v in enumerate(wanted)}
        order = sorted(
            self.query.variables,
            key=lambda v: (-len(atoms_of[v]), v not in free, rank.get(v, len(rank)), v.name),
        )
        parents: dict[Var, Var | None] = {}
        for i, v in enumerate(order):
            parents[v] = next((u for u in reversed(order[:i]) if atoms_of[u] >= atoms_of[v]), None)
        return parents

    def path(self, variable: Var | None) -> tuple[Var, ...]:
        """The variables down to this one."""
        found: list[Var] = []
        while variable is not None:
            found.append(variable)
            variable = self.parents[variable]
        return tuple(reversed(found))

    def path_of(self, variables: frozenset[Var]) -> tuple[Var, ...]:
        """The path down to the lowest of some variables."""
        return max(map(self.path, variables), key=len, default=())

    # --- the levels ---------------------------------------------------------------------------------------------------

    def _of_head(self, calls: Sequence[Call]) -> list[Level]:
        found: list[Level] = []
        for call in calls:
            for aggregate in aggregates_of(call):
                level = self._placed(aggregate)
                if not set(level.above) <= set(self.groups):
                    lost = next(v for v in level.above if v not in self.groups)
                    raise self._refused(
                        f"{aggregate} is over values below each {lost}, which is neither grouped by nor aggregated",
                        aggregate.position,
                    )
                if level not in found:
                    found.append(level)
            own, _ = parts_of(call) if call.is_row else ((), ())
            for variable in own:
                if self.named(variable) not in self.groups:
                    raise self._refused(
                        f"{variable.name} stands beside aggregates, and is not grouped by", variable.position
                    )
        return found

    def _placed(self, call: Call) -> Level:
        """The level of an aggregate, and of those in it."""
        variables, inner = parts_of(call)
        below = [self._placed(one) for one in inner]
        own = {self.named(v) for v in variables} - set(self.groups)
        if not own:
            own = self._implied(call, below)
        path = self.path_of(frozenset(own))
        between = tuple(takewhile(lambda v: v not in own, path))
        mine = path[len(between) :]
        for one, level in zip(inner, below, strict=True):
            if level.above != path:
                found, wanted = (", ".join(map(str, p)) for p in (level.above, path))
                message = f"{one} is over values below {found or 'nothing'}, and {call} needs one below {wanted}"
                raise self._refused(message, one.position)
        if set(mine) != own:
            lost = next((v for v in mine if v not in own), None)
            apart = f"{lost} stands between them" if lost else f"{names(own - set(mine))} is in another branch"
            raise self._refused(f"{call} is over {names(own)}, and {apart}", call.position)
        level = next((known for known in self.levels if known.path == path and known.own == mine), Level(mine, path))
        if level not in self.levels:
            self.levels.append(level)
        level.below += [one for one in below if one not in level.below]
        if call not in level.calls:
            level.calls.append(call)
        self.level_of[call] = level
        return level

    def _implied(self, call: Call, below: Sequence[Level]) -> set[Var]:
        """The variable that an aggregate of aggregates alone is over: the one that all of them stand below."""
        above = {level.above[-1] if level.above else None for level in below}
        if not above:
            raise self._refused(f"{call} has one value to aggregate, as the head groups by it", call.position)
        if len(above) != 1:
            raise self._refused(f"the aggregates in {call} stand in different branches", call.position)
        variable = above.pop()
        if variable is None or variable in self.groups:
            raise self._refused(f"{call} has one value to aggregate, as nothing is left that it is over", call.position)
        return {variable}

    def _unite(self, levels: list[Level]) -> None:
        """Have what is over different values of one variable taken from finer rows, where those are there anyway."""
        for level in tuple(levels):
            finer = next((o for o in levels if o.own[0] == level.own[0] and len(o.own) > 1), None)
            if finer is not None and len(level.own) == 1 and all(call.is_plain for call in level.calls):
                levels.remove(level)
                finer.calls += level.calls
                self.level_of.update(dict.fromkeys(level.calls, finer))

    def is_over_finer_rows(self, call: Call) -> bool:
        """True if the rows of its level have its values more than once."""
        return call.is_plain and len(self.level_of[call].own) > 1


def parts_of(call: Call) -> tuple[list[Variable], list[Call]]:
    """The variables that an aggregate, or a row of values, is over itself, and the aggregates in it."""
    variables: list[Variable] = []
    inner: list[Call] = []
    for argument in call.arguments:
        if isinstance(argument, Variable):
            variables.append(argument)
        elif argument.is_row:
            further, deeper = parts_of(argument)
            variables += further
            inner += deeper
        else:
            inner.append(argument)
    return variables, inner


def aggregates_of(call: Call) -> list[Call]:
    """The aggregates that a part of a head is made of: itself, unless it is a row of values."""
    return parts_of(call)[1] if call.is_row else [call]


def implied_variables(query: ConjunctiveQuery) -> frozenset[Var]:
    """The variables on which output ones depend: those with all of one's atoms, and more."""
    atoms_of = query.atoms_of
    return frozenset(w for w in query.bound if any(atoms_of[x] < atoms_of[w] for x in query.free))
