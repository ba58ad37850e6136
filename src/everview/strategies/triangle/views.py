"""What is stored for triangles of one, two or three output corners: parts and views over them (triangle.md 9 to 11).

Each relation is cut into parts by whether the values of its first column (and of the second, in a double partition) are
heavy. A part is a range of levels of the relation's table: the first column's status counts 2 in a double partition and
1 in a single one, the second column's counts 1.

A view is a sum of products over some parts of two or three relations, kept by some corners. That is all that there is
to say of it: how it changes with each relation follows (``updates``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

R, S, T = range(3)
ALL = "#"
Parts = tuple[str | None, str | None, str | None]
"""The part of R, S and T that a view is over: H, L (by the first column), HH, HL, LH, LL, or # for all; None: none."""


class Role(Enum):
    """What a view is for."""

    PIECE = "a piece of the result"
    PAIR = "a join of two relations"
    ROOT = "what a tree is listed from"
    TOP = "the buckets of a tree"


@dataclass(frozen=True)
class View:
    """A sum of products over parts, kept by the corners of ``key``, found also by the corners of ``index``."""

    name: str
    parts: Parts
    key: str
    role: Role
    index: str | None = None

    @property
    def relations(self) -> tuple[int, ...]:
        """The relations that it joins."""
        return tuple(k for k in (R, S, T) if self.parts[k] is not None)


@dataclass(frozen=True)
class Tree:
    """A piece of the result that is not stored by its rows: ``root`` says where to look, ``leaf`` has the rows.

    With a ``top`` there is a bucket for each of its rows: the rows of the tree that are found from there.
    """

    root: View
    leaf: View
    top: View | None = None


@dataclass(frozen=True)
class Design:
    """Everything that is stored for results of so many corners."""

    arity: int
    double: frozenset[int]
    """The relations that are partitioned by both columns."""
    pieces: tuple[View, ...]
    pairs: tuple[View, ...]
    trees: tuple[Tree, ...]

    @property
    def views(self) -> tuple[View, ...]:
        """All views."""
        roots = [view for tree in self.trees for view in (tree.root, tree.top) if view is not None]
        return tuple(dict.fromkeys((*self.pieces, *self.pairs, *roots)))

    def levels(self, relation: int, part: str) -> tuple[int, int]:
        """The lowest and the highest level of a part."""
        bits = 2 if relation in self.double else 1
        if part == ALL:
            return 0, 2**bits - 1
        first = 2 ** (bits - 1) if part[0] == "H" else 0
        if len(part) == 1:
            return first, first + 2 ** (bits - 1) - 1
        second = int(part[1] == "H")
        return first + second, first + second

    def has(self, relation: int, part: str, level: int) -> bool:
        """Whether rows on a level are in a part."""
        low, high = self.levels(relation, part)
        return low <= level <= high


def _piece(name: str, parts: Parts, key: str) -> View:
    return View(name, parts, key, Role.PIECE)


def _pair(name: str, parts: Parts, key: str, index: str | None = None) -> View:
    return View(name, parts, key, Role.PAIR, index)


def _root(name: str, parts: Parts, key: str, index: str | None = None) -> View:
    return View(name, parts, key, Role.ROOT, index)


def _listing() -> Design:
    rs = _pair("V_RS", ("H", "L", None), "abc", "ac")
    st = _pair("V_ST", (None, "H", "L"), "abc", "ab")
    tr = _pair("V_TR", ("L", None, "H"), "abc", "bc")
    hats = (
        _pair("VH_RS", ("H", "L", None), "ac"),
        _pair("VH_ST", (None, "H", "L"), "ab"),
        _pair("VH_TR", ("L", None, "H"), "bc"),
    )
    trees = (
        Tree(_root("V^HL#", ("H", "L", ALL), "ac"), rs),
        Tree(_root("V^#HL", (ALL, "H", "L"), "ab"), st),
        Tree(_root("V^L#H", ("L", ALL, "H"), "bc"), tr),
    )
    pieces = (_piece("D^HHH", ("H", "H", "H"), "abc"), _piece("D^LLL", ("L", "L", "L"), "abc"))
    return Design(3, frozenset(), pieces, (rs, st, tr, *hats), trees)


def _by_edge() -> Design:
    rs = _pair("V_RS", ("H", "LH", None), "abc", "ac")
    tr = _pair("V_TR", ("L", None, "HL"), "abc", "bc")
    pairs = (
        rs,
        _pair("VH_RS", ("H", "LH", None), "ac"),
        _pair("V_ST", (None, "H", "L"), "ab"),
        tr,
        _pair("VH_TR", ("L", None, "HL"), "bc"),
    )
    trees = (
        Tree(
            _root("V^H(LH)#", ("H", "LH", ALL), "ac", "c"),
            rs,
            View("ROOT_RS", ("H", "LH", ALL), "c", Role.TOP),
        ),
        Tree(
            _root("V^L#(HL)", ("L", ALL, "HL"), "bc", "c"),
            tr,
            View("ROOT_TR", ("L", ALL, "HL"), "c", Role.TOP),
        ),
    )
    pieces = (
        _piece("D^HHH", ("H", "H", "H"), "ab"),
        _piece("D^LLL", ("L", "L", "L"), "ab"),
        _piece("D^H(LL)#", ("H", "LL", ALL), "ab"),
        _piece("D^L#(HH)", ("L", ALL, "HH"), "ab"),
        _piece("V^#HL", (ALL, "H", "L"), "ab"),
    )
    return Design(2, frozenset((S, T)), pieces, pairs, trees)


def _by_vertex() -> Design:
    tr = _pair("V_TR", ("LH", None, "HL"), "abc", "bc")
    pairs = (
        _pair("V_RS", ("H", "L", None), "ac"),
        _pair("V_ST", (None, "H", "L"), "ab"),
        tr,
        _pair("VH_TR", ("LH", None, "HL"), "bc"),
    )
    pieces = (
        _piece("D^HHH", ("H", "H", "H"), "a"),
        _piece("D^LLL", ("L", "L", "L"), "a"),
        _piece("D^(LL)#H", ("LL", ALL, "H"), "a"),
        _piece("D^(LH)#(HH)", ("LH", ALL, "HH"), "a"),
        _piece("V^HL#", ("H", "L", ALL), "a"),
        _piece("V^#HL", (ALL, "H", "L"), "a"),
    )
    root = _root("V^(LH)#(HL)", ("LH", ALL, "HL"), "bc")
    return Design(1, frozenset((R, T)), pieces, pairs, (Tree(root, tr, root),))


DESIGNS = {3: _listing(), 2: _by_edge(), 1: _by_vertex()}
"""By the number of output corners."""
