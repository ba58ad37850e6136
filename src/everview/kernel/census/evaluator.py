"""Whether a formula holds: on the live facts, on representatives of types, and on several of those side by side.

A quantifier that is guarded looks at a ball; a closed one has its truth beside; any other counts what is near, and for
all that is far, by type, how many there are and whether one of them would be a witness (fo-mod.md 6.5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from everview.kernel.census.faults import Steps
from everview.kernel.census.program import And, CensusProgram, Equal, Fact, Near, Node, Not, Or, Quantify, Truth
from everview.kernel.census.registry import Registry
from everview.kernel.census.structure import Storage, Structure, disjoint_union

Env = list[int]
"""The elements in the slots; those that nothing is bound to are arbitrary."""


class Census:
    """How many elements of the domain have which type, at one radius."""

    def __init__(self, radius: int) -> None:
        self.radius = radius
        self.type_of: dict[int, int] = {}
        self.members: dict[int, dict[int, None]] = {}

    def count(self, number: int) -> int:
        """How many elements have it."""
        return len(self.members.get(number, ()))

    def put(self, a: int, number: int) -> None:
        """Say of what type an element is, that has none."""
        self.type_of[a] = number
        self.members.setdefault(number, {})[a] = None

    def take(self, a: int) -> int | None:
        """Forget an element's type, and give it."""
        number = self.type_of.pop(a, None)
        if number is not None:
            del self.members[number][a]
            if not self.members[number]:
                del self.members[number]
        return number


class Evaluator:
    """What holds under the present truths of sentences and the present census.

    What it has found out is kept for as long as it stands: for good, or while the sentences in it are what they are, or
    until the census changes.
    """

    def __init__(self, program: CensusProgram, storage: Storage, steps: Steps) -> None:
        self.program = program
        self.storage = storage
        self.steps = steps
        self.truths: list[bool] = [False] * len(program.sentences)
        self.epoch = 0
        """Counts the changes of the census."""
        self.censuses = {radius: Census(radius) for radius in program.typed_radii}
        self.registries: dict[tuple[int, int], Registry] = {}
        self._kept: dict[tuple[Any, ...], tuple[object, Any]] = {}

    def registry(self, radius: int, centres: int) -> Registry:
        """The types of so many centres at a radius."""
        return self.registries.setdefault((radius, centres), Registry(self.steps))

    def validity(self, node: Node) -> object:
        """What the truth of a sub-formula depends on beside the structure: it stands while this is the same."""
        shape = self.program.shape(node)
        if shape.counts_far:
            return ("census", self.epoch)
        return tuple(self.truths[s] for s in shape.sentences)

    def kept(self, node: Node, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        """What has been computed of a sub-formula, if it still stands; else computed anew."""
        return _remembered(self._kept, (id(node), *key), self.validity(node), compute)

    def forget(self) -> None:
        """Forget all that has been found out, as types are going to be forgotten."""
        self._kept.clear()
        for registry in self.registries.values():
            for known in registry.types.values():
                known.structure.cache = {}

    def holds_on_types(self, node: Node, types: Sequence[tuple[int, int]], slots: Sequence[Sequence[int]]) -> bool:
        """Whether it holds with tuples of these types (a number of centres and a type's number), far from each other.

        ``slots`` says for each of them which slots its centres are in. All are of the radius of the sub-formula.
        """

        def compute() -> bool:
            radius = self.program.shape(node).radius
            known = [self.registry(radius, centres).types[number] for centres, number in types]
            structure, moved = known[0].structure, [0]
            if len(known) > 1:
                structure, moved = disjoint_union([k.structure for k in known])
            env = [0] * self.program.slots
            for k, first, where in zip(known, moved, slots, strict=True):
                for centre, slot in zip(k.centres, where, strict=True):
                    env[slot] = first + centre
            return self.holds(node, structure, env)

        return bool(self.kept(node, (*types, *map(tuple, slots)), compute))

    def total(self, sentence: Quantify) -> int:
        """How many elements of the domain are witnesses of a closed quantifier, by their types."""
        census = self.censuses[self.program.shape(sentence.body).radius]
        total = 0
        for number, members in census.members.items():
            self.steps.take()
            if self.holds_on_types(sentence.body, [(1, number)], [[sentence.slot]]):
                total += len(members)
        return total

    def holds(self, node: Node, structure: Structure, env: Env) -> bool:
        """Whether it holds on a structure that has all that it may look at."""
        self.steps.take()
        match node:
            case Fact():
                return structure.has((node.relation, tuple(env[s] for s in node.slots)))
            case Equal():
                return env[node.left] == env[node.right]
            case Near():
                return env[node.right] in structure.ball([env[node.left]], node.bound, self.steps)
            case Truth():
                return node.value
            case Not():
                return not self.holds(node.body, structure, env)
            case And():
                return all(self.holds(part, structure, env) for part in node.parts)
            case Or():
                return any(self.holds(part, structure, env) for part in node.parts)
            case Quantify():
                if node.guard is not None:
                    near = structure.ball([env[node.guard[0]]], node.guard[1], self.steps)
                    return node.is_met(self._witnesses(node, structure, env, near, node.least))
                if not self.program.shape(node).free:
                    return self.truths[self.program.shape(node).sentences[0]]
                return node.is_met(self._anywhere(node, structure, env))

    def _witnesses(
        self, node: Quantify, structure: Structure, env: Env, among: Mapping[int, int], most: int | None = None
    ) -> int:
        """How many of these elements are witnesses; no more than ``most``, if that many are enough."""
        total = 0
        for a in among:
            env[node.slot] = a
            if self.holds(node.body, structure, env):
                total += 1
                if total == most:
                    break
        return total

    def _anywhere(self, node: Quantify, structure: Structure, env: Env) -> int:
        """How many elements of the domain are witnesses of a quantifier without a guard."""
        radius = self.program.shape(node.body).radius
        ys = sorted(self.program.shape(node).free)
        where = tuple(env[y] for y in ys)

        def around() -> tuple[dict[int, int], Counter[int], int]:
            near = structure.ball(where, 2 * radius + 1, self.steps)
            types = Counter(self._type_within(structure, a, radius) for a in near)
            base = self.registry(radius, len(ys)).type_of(*structure.neighbourhood(where, radius, self.steps))
            return near, types, base

        near, types, base = _remembered(structure.cache, ("around", id(node), where), None, around)
        total: int = _remembered(
            structure.cache,
            ("near", id(node), where),
            self.validity(node.body),
            lambda: self._witnesses(node, structure, env, near),
        )
        census = self.censuses[radius]
        for number, members in census.members.items():
            self.steps.take()
            far = len(members) - types[number]
            if far > 0 and self.holds_on_types(node.body, [(len(ys), base), (1, number)], [ys, [node.slot]]):
                total += far
        return total

    def _type_within(self, structure: Structure, a: int, radius: int) -> int:
        if structure is self.storage:
            return self.censuses[radius].type_of[a]
        registry = self.registry(radius, 1)
        key = ("type", a, radius)
        found: int = _remembered(
            structure.cache,
            key,
            None,
            lambda: registry.type_of(*structure.neighbourhood([a], radius, self.steps)),
        )
        return found


def _remembered(kept: dict[Any, Any] | None, key: object, validity: object, compute: Callable[[], Any]) -> Any:
    """What is kept under the key, if it stands; else computed, and kept where anything is."""
    if kept is None:
        return compute()
    found = kept.get(key)
    if found is None or found[0] != validity:
        found = kept[key] = (validity, compute())
    return found[1]
