"""Random core queries that are hard for CROWN: cycles, hidden parts, deep trees, self-joins, products."""

from __future__ import annotations

import random

from everview.query.conjunctive import Atom, ConjunctiveQuery, Semantics
from everview.query.terms import Const, Term, Var

Update = tuple[str, tuple[int, ...], bool]


def query(r: random.Random, semantics: Semantics) -> ConjunctiveQuery:
    """A query of a random shape with a random head."""
    shape = r.choice([_path, _path, _cycle, _cycle, _star, _comb, _tree, _noise, _dumbbell])
    edges = shape(r)
    self_joins = r.random() < 0.35
    atoms = []
    for i, variables in enumerate(edges):
        terms: list[Term] = [Var(v) for v in variables]
        if r.random() < 0.05:
            terms[r.randrange(len(terms))] = Const(1)
        relation = f"g{len(terms)}" if self_joins else f"r{i}_{len(terms)}"
        atoms.append(Atom(relation, tuple(terms)))
    known = sorted({t for a in atoms for t in a.terms if isinstance(t, Var)})
    head = r.sample(known, r.choice([len(known), r.randint(0, len(known)), r.randint(0, min(2, len(known)))]))
    return ConjunctiveQuery(tuple(head), tuple(atoms), semantics=semantics)


def _path(r: random.Random) -> list[str]:
    letters = "abcdefg"[: r.randint(2, 6)]
    edges = [letters[i : i + 2] for i in range(len(letters) - 1)]
    return edges + r.sample(list(letters), r.randint(0, 2))


def _cycle(r: random.Random) -> list[str]:
    letters = "abcd"[: r.choice((3, 3, 4))]
    edges = [letters[i] + letters[(i + 1) % len(letters)] for i in range(len(letters))]
    if r.random() < 0.5:
        edges.append(r.choice(letters) + "e")
    if r.random() < 0.3:
        edges.append("ef" if "e" in "".join(edges) else r.choice(letters))
    return edges


def _dumbbell(r: random.Random) -> list[str]:
    return ["ab", "bc", "ca", "cd"] + (["de", "ef", "fd"] if r.random() < 0.5 else ["de"])


def _star(r: random.Random) -> list[str]:
    return [f"x{letter}" for letter in "abcd"[: r.randint(2, 4)]] + (["x"] if r.random() < 0.3 else [])


def _comb(r: random.Random) -> list[str]:
    spine = "abcd"[: r.randint(2, 4)]
    teeth = [f"{letter}{letter.upper()}" if r.random() < 0.5 else letter for letter in spine]
    return [spine[i : i + 2] for i in range(len(spine) - 1)] + teeth


def _tree(r: random.Random) -> list[str]:
    """A random tree of atoms, each sharing some variables with its parent: often not free-connex, often deep."""
    letters = iter("abcdefghijkl")
    edges = ["".join(next(letters) for _ in range(r.randint(1, 3)))]
    for _ in range(r.randint(1, 4)):
        parent = r.choice(edges[-2:])
        shared = r.sample(parent, r.randint(0 if r.random() < 0.15 else 1, len(parent)))
        fresh = [next(letters) for _ in range(r.randint(0 if shared else 1, 2))]
        edges.append("".join(shared[: 3 - len(fresh)] + fresh))
    return edges


def _noise(r: random.Random) -> list[str]:
    return ["".join(r.choices("abcd", k=r.randint(1, 3))) for _ in range(r.randint(1, 5))]


def updates(r: random.Random, arities: dict[str, int], count: int) -> list[Update]:
    """Rows over a tiny domain, and whether the oldest or any row of the relation goes instead."""
    domain = r.choice((1, 2, 3))
    found = []
    for _ in range(count):
        relation = r.choice(sorted(arities))
        row = tuple(min(r.randint(1, domain), r.randint(1, domain)) for _ in range(arities[relation]))
        found.append((relation, row, r.random() < 0.4))
    return found
