"""What a census maintains: a formula over numbered relations and slots, and what follows from its shape.

A *slot* holds an element while a formula is evaluated: slots 0 to k - 1 those of the head, and each quantifier has one
of its own. Guards come with the program, from whoever has analysed the formula; radii, sentences and what depends on
the census follow from them (fo-mod.md 6.1, 6.6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

MOST_TYPES = 50_000
"""How many types may be met at one radius."""
MOST_PAIRED_TYPES = 2_000
"""How many of them there may be where all pairs of types are looked at: at the radius of a binary query."""
MOST_STEPS = 10_000_000
"""How many steps an update may take, for each fact that it changes."""


@dataclass(frozen=True)
class CensusRelation:
    """A relation: its facts make edges, or its elements are in the domain, or both.

    Of a relation without edges, only the elements count: its facts are not kept. One whose elements are not in the
    domain for it must be unary, so that nobody has a neighbour outside the domain.
    """

    name: str
    arity: int
    has_edges: bool = True
    is_domain: bool = True

    def __post_init__(self) -> None:
        if self.arity < 1 or not (self.has_edges or self.is_domain):
            raise ValueError(f"{self.name}: a relation has columns, and edges or elements of the domain")
        if not self.is_domain and self.arity > 1:
            raise ValueError(f"{self.name}: only a unary relation can be outside the domain")


@dataclass(frozen=True)
class Fact:
    """``R(x, y, …)``: the elements in these slots are a fact of the relation."""

    relation: int
    slots: tuple[int, ...]


@dataclass(frozen=True)
class Equal:
    """``x = y``."""

    left: int
    right: int


@dataclass(frozen=True)
class Near:
    """``dist(x, y) <= bound``."""

    left: int
    right: int
    bound: int


@dataclass(frozen=True)
class Truth:
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True)
class Not:
    """``not …``."""

    body: Node


@dataclass(frozen=True)
class And:
    """All of them; true if there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """One of them; false if there are none."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Quantify:
    """How many elements of the domain, put into the slot, make the body true: at least so many, or i modulo m of them.

    ``guard`` is a slot and a distance: the body is true only of elements so near to the one in that slot.
    """

    slot: int
    body: Node
    least: int | None = None
    residue: tuple[int, int] | None = None
    guard: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        if (self.least is None) == (self.residue is None):
            raise ValueError("a quantifier has a least number or a residue")

    def is_met(self, total: int) -> bool:
        """Whether so many witnesses are as many as there must be."""
        if self.residue is not None:
            return total % self.residue[1] == self.residue[0]
        assert self.least is not None
        return total >= self.least


Node = Fact | Equal | Near | Truth | Not | And | Or | Quantify


@dataclass(frozen=True)
class Shape:
    """What follows from a sub-formula's form."""

    number: int
    free: frozenset[int]
    radius: int
    sentences: tuple[int, ...]
    """The closed quantifiers in it that are in no other one, by number: its truth may depend on theirs."""
    counts_far: bool
    """True if it has a quantifier that is neither guarded nor closed: its truth may depend on the whole census."""

    @property
    def is_local(self) -> bool:
        """True if it depends on the neighbourhood alone."""
        return not self.sentences and not self.counts_far


@dataclass(frozen=True)
class CensusProgram:
    """A query ``Q(x1 … xk)`` for the census: its relations, its formula, and what data it may meet."""

    relations: tuple[CensusRelation, ...]
    arity: int
    formula: Node
    degree: int
    most_types: int = MOST_TYPES
    most_steps: int = MOST_STEPS
    _shapes: dict[int, Shape] = field(default_factory=dict, init=False, repr=False, compare=False)
    _closed: list[Quantify] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        shape = self._analyse(self.formula, set(range(self.arity)))
        if not shape.free <= set(range(self.arity)):
            raise ValueError("a free variable is not in the head")

    def shape(self, node: Node) -> Shape:
        """What is known of a sub-formula of this very program."""
        return self._shapes[id(node)]

    @property
    def radius(self) -> int:
        """That of the whole formula."""
        return self.shape(self.formula).radius

    @property
    def sentences(self) -> Sequence[Quantify]:
        """The closed quantifiers, each after those in it."""
        return self._closed

    @cached_property
    def slots(self) -> int:
        """How many slots there are."""
        return max([self.arity, *(n.slot + 1 for n in self.nodes() if isinstance(n, Quantify))])

    @cached_property
    def typed_radii(self) -> tuple[int, ...]:
        """The radii at which elements have types, as somebody counts by them."""
        radii = {self.shape(s.body).radius for s in self.sentences if not self.shape(s.body).is_local}
        for node in self.nodes():
            if self.is_unguarded(node):
                assert isinstance(node, Quantify)
                radii.add(self.shape(node.body).radius)
        if self.arity > 1 or (self.arity == 1 and not self.shape(self.formula).is_local):
            radii.add(self.radius)
        return tuple(sorted(radii))

    def types_limit(self, radius: int) -> int:
        """How many types elements may have at a radius."""
        paired = self.arity == 2 and radius == self.radius
        return min(self.most_types, MOST_PAIRED_TYPES) if paired else self.most_types

    def is_unguarded(self, node: Node) -> bool:
        """Whether it is a quantifier whose witnesses may be anywhere, and depend on where one is."""
        return isinstance(node, Quantify) and node.guard is None and bool(self.shape(node).free)

    def nodes(self) -> Iterator[Node]:
        """All sub-formulas, each after its parts."""
        yield from _nodes(self.formula)

    def _analyse(self, node: Node, bound: set[int]) -> Shape:
        parts = [self._analyse(part, bound) for part in parts_of(node)]
        sentences = tuple(dict.fromkeys(s for part in parts for s in part.sentences))
        radius = max((part.radius for part in parts), default=0)
        free = frozenset[int]().union(*(part.free for part in parts))
        far = any(part.counts_far for part in parts)
        match node:
            case Fact():
                relation = self.relations[node.relation]
                if len(node.slots) != relation.arity or not relation.has_edges:
                    raise ValueError(f"{relation.name} is not used as what it is")
                free = frozenset(node.slots)
            case Equal() | Near():
                free = frozenset({node.left, node.right})
                radius = (node.bound + 1) // 2 if isinstance(node, Near) else 0
            case Quantify():
                if node.slot in bound:
                    raise ValueError("a slot is bound twice")
                bound.add(node.slot)
                free -= {node.slot}
                if not free:
                    self._closed.append(node)
                    sentences, radius, far = (len(self._closed) - 1,), 0, False
                elif node.guard is not None:
                    if node.guard[0] not in free:
                        raise ValueError("a guard is not free in what it guards")
                    radius += node.guard[1]
                else:
                    radius, far = 3 * radius + 1, True
            case _:
                pass
        shape = Shape(len(self._shapes), free, radius, sentences, far)
        self._shapes[id(node)] = shape
        return shape


def parts_of(node: Node) -> tuple[Node, ...]:
    """Its immediate sub-formulas."""
    match node:
        case Not() | Quantify():
            return (node.body,)
        case And() | Or():
            return node.parts
        case _:
            return ()


def _nodes(node: Node) -> Iterator[Node]:
    for part in parts_of(node):
        yield from _nodes(part)
    yield node
