"""Groups beside the rows that they are made of: each row has one, so they cost no more than what is read of them.

``SUM(x) OVER (PARTITION BY p)`` is a column of such groups. A value that nobody reads is not computed. A condition on
nothing but a group is one of HAVING: while it goes on holding nothing is told of the group, and no row looked at. And
groups of which only the keys are read go: each row would find one, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from everview.query.conjunctive import Atom
from everview.query.null_safe import are_same
from everview.query.terms import Const, Expression, Term, Var
from everview.query.types import BOOLEAN, INT
from everview.query.view import (
    Block,
    Grouping,
    Output,
    Stage,
    View,
    aggregate_result,
    blocks,
    each_block,
    without_unread,
)

TOTALS: Final = "totals of partitions beside their rows"
"""The purpose of stages that are such groups."""


def with_fewer_totals(view: View) -> View:
    """The view with nothing in such stages that is not read, and without those of which only the keys are."""
    for name in [s.name for s in view.stages if s.purpose == TOTALS]:
        found = _read_once(view, name)
        view = view if found is None else found.reduced()
    return without_unread(view)


def _read_once(view: View, name: str) -> _Groups | None:
    """A stage of groups that one place alone reads."""
    stage = next(s for s in view.stages if s.name == name)
    bodies = (*(s.body for s in view.stages), view.body)
    readers = [(b, a) for body in bodies for b in blocks(body) for a in b.atoms if a.relation == name]
    if len(readers) != 1 or not isinstance(stage.body, Block) or stage.body.grouping is None:
        return None
    return _Groups(view, stage, stage.body, stage.body.grouping, *readers[0])


@dataclass(frozen=True)
class _Groups:
    """Such a stage, and the one place where it is read: an atom of a block."""

    view: View
    stage: Stage
    body: Block
    grouping: Grouping
    reader: Block
    atom: Atom

    def reduced(self) -> View:
        """The view with no more of the groups than is read."""
        moved = [p for p in self.reader.predicates if self._is_of_groups(p)]
        conditions = [p.substitute(self._values) for p in moved] + self._conditions_of_terms()
        left = replace(self.reader, predicates=tuple(p for p in self.reader.predicates if p not in moved))
        uses = _uses(left)
        kept = [
            i for i, term in enumerate(self.atom.terms) if i in self._keys or (isinstance(term, Var) and uses[term] > 1)
        ]
        if not conditions and len(kept) == len(self._keys) and self._is_always_there():
            return self._replaced(self.stage, _without(left, self.atom))
        terms = tuple(self.atom.terms[i] for i in kept) or (Var(f"{self.stage.name}.is_there"),)
        gone = {t for i, t in enumerate(self.atom.terms) if i not in kept}
        atoms = tuple(replace(a, terms=terms) if a is self.atom else a for a in left.atoms)
        reader = replace(left, atoms=atoms, not_null=left.not_null - gone)
        return self._replaced(replace(self.stage, body=self._with(kept, conditions)), reader)

    @cached_property
    def _keys(self) -> frozenset[int]:
        """The places of the keys."""
        names = set(self.grouping.key_names)
        return frozenset(i for i, o in enumerate(self.body.outputs) if o.expression.term in names)

    @cached_property
    def _values(self) -> dict[Var, Term]:
        """What conditions of HAVING call what the reader has of the groups: keys, and what nothing else is equal to."""
        uses = Counter(t for a in self.reader.atoms for t in a.all_terms)
        return {
            t: o.expression.term
            for i, (t, o) in enumerate(zip(self.atom.terms, self.body.outputs, strict=True))
            if isinstance(t, Var) and o.expression.term is not None and (i in self._keys or uses[t] == 1)
        }

    def _is_of_groups(self, predicate: Expression) -> bool:
        """True of a condition on values of the groups, and on nothing of the rows beside them."""
        keys = {self.atom.terms[i] for i in self._keys}
        return predicate.variables <= self._values.keys() and not predicate.variables <= keys

    def _conditions_of_terms(self) -> list[Expression]:
        """What the reader demands of values of the groups by its terms: that they are constants, or not NULL."""
        found = []
        for i, (term, output) in enumerate(zip(self.atom.terms, self.body.outputs, strict=True)):
            value = output.expression
            if i in self._keys:
                continue
            if isinstance(term, Const):
                found.append(Expression((*value.parts, " = ", term), BOOLEAN))
            elif term in self.reader.not_null and term in self._values:
                found.append(Expression((*value.parts, " IS NOT NULL"), BOOLEAN))
        return found

    def _with(self, kept: Sequence[int], conditions: Sequence[Expression]) -> Block:
        """The groups with some columns, and with more conditions."""
        outputs = tuple(self.body.outputs[i] for i in kept)
        outputs = outputs or (Output("is_there", Expression.of(Const(1), INT), nullable=False),)
        all_of = [*([] if self.grouping.having is None else [self.grouping.having]), *conditions]
        parts = [part for condition in all_of for part in (" AND (", *condition.parts, ")")]
        having = Expression((str(parts[0]).removeprefix(" AND "), *parts[1:]), BOOLEAN) if parts else None
        read = [*(o.expression for o in outputs), *([] if having is None else [having])]
        names = self.grouping.aggregate_names
        used = [i for i, name in enumerate(names) if any(name in e.variables for e in read)]
        numbers: dict[Var, Term] = {names[i]: aggregate_result(number) for number, i in enumerate(used)}
        grouping = Grouping(
            self.grouping.keys,
            tuple(self.grouping.aggregates[i] for i in used),
            None if having is None else having.substitute(numbers),
        )
        shown = tuple(replace(o, expression=o.expression.substitute(numbers)) for o in outputs)
        return replace(self.body, outputs=shown, grouping=grouping)

    def _is_always_there(self) -> bool:
        """True if each row of another atom is one of those that the groups are made of, and is joined with its own."""
        if self.grouping.having is not None or len(self.body.atoms) != 1:
            return False
        (own,) = self.body.atoms
        return any(self._is_of(own, a) for a in self.reader.atoms if a.relation == own.relation)

    def _is_of(self, own: Atom, other: Atom) -> bool:
        same: dict[Var, Term] = {}
        for mine, term in zip(own.terms, other.terms, strict=True):
            if (same.setdefault(mine, term) if isinstance(mine, Var) else mine) != term:
                return False
        made: dict[Term, Expression] = {c.term: c.expression for c in own.computed}
        names = zip(self.grouping.key_names, self.grouping.keys, strict=True)
        keys = {name: k if k.term is None else made.get(k.term, k) for name, k in names}
        computed = {c.expression: c.term for c in other.computed}

        def is_joined(place: int) -> bool:
            name, term = self.body.outputs[place].expression.term, self.atom.terms[place]
            assert isinstance(name, Var)
            value = keys[name].substitute(same)
            return term in (value.term, computed.get(value)) or (
                isinstance(term, Var) and are_same(other, value, self.atom, Expression.of(term))
            )

        return (
            all(map(is_joined, self._keys))
            and all(p.substitute(same) in self.reader.predicates for p in self.body.predicates)
            and all(not isinstance(t := same.get(v, v), Var) or t in self.reader.not_null for v in self.body.not_null)
        )

    def _replaced(self, stage: Stage, reader: Block) -> View:
        def change(block: Block) -> Block:
            return reader if block is self.reader else block

        stages = (stage if s is self.stage else replace(s, body=each_block(s.body, change)) for s in self.view.stages)
        return replace(self.view, stages=tuple(stages), body=each_block(self.view.body, change))


def _uses(block: Block) -> Counter[Term]:
    """How often each variable stands in a block: as a column of an atom, and in what is made of these."""
    expressions = [*block.predicates, *(c.expression for a in block.atoms for c in a.computed)]
    if block.grouping is None:
        expressions += [o.expression for o in block.outputs]
    else:
        expressions += block.grouping.keys
        expressions += [e for a in block.grouping.aggregates for e in (*a.expressions, *a.risky)]
    found: Counter[Term] = Counter(v for e in expressions for v in e.variables)
    found.update(t for a in block.atoms for t in a.all_terms)
    return found


def _without(block: Block, atom: Atom) -> Block:
    """A block without an atom, and without the columns that were computed to be joined with it."""
    left = replace(block, atoms=tuple(a for a in block.atoms if a is not atom))
    uses, joined = _uses(left), atom.variables
    atoms = tuple(
        replace(a, computed=tuple(c for c in a.computed if c.term not in joined or uses[c.term] > 1))
        for a in left.atoms
    )
    held = frozenset[Var]().union(*(a.variables for a in atoms))
    return replace(left, atoms=atoms, not_null=block.not_null & held)
