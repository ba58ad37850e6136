"""T18 of hierarchical-tradeoff.md 12: what the suite must catch, made wrong on purpose; the checks of 10.5 see it.

Indicators are tables of heavy keys here, so the paper's mistakes have these forms:

- (i) a key changes its side, and what is joined ahead does not follow;
- (ii) the last row of a heavy key goes, and the key is still held to be heavy;
- (iii) an indicator loses a variable of its key;
- (iv) buckets are simply listed one after the other;
- (v) a view that several trees share is changed twice;
- (vi) a view above an output variable forgets what is output below that one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any, get_args

import pytest

from everview.kernel.program import Add, Instruction, Lit, Program
from everview.strategies.hierarchical import order
from everview.strategies.hierarchical.layout import regs
from everview.strategies.hierarchical.listing import Listing
from everview.strategies.hierarchical.order import Mode, OrderNode
from everview.strategies.hierarchical.rebalance import Rebalance
from tests.strategies.hierarchical.driver import Run, query_of
from tests.strategies.machines import Kernel

Update = tuple[str, tuple[int, ...], int]


def t6() -> Iterator[Update]:
    """The trace of T6: W2, whose keys become heavy, lose all rows, and come again."""
    for row in ((1, 1), (2, 1), (1, 2)):
        yield "R", row, 1
    for key, copies in ((1, 1), (2, 2), (3, 1)):
        yield "S", (key,), copies
    for a, change in ((2, 1), (3, 1), (3, -1), (2, -1), (1, -1)):
        yield "R", (a, 2), change
    yield "R", (9, 3), 1
    yield "R", (1, 2), 1


def nested() -> Iterator[Update]:
    """Heavy keys within a heavy key: W10, of which T8 has a database."""
    for b in range(3):
        for i in range(4):
            yield "R", (1, b, i), 1
            yield "S", (1, b, i), 1
    for i in range(3):
        yield "T", (1, 1, i), 1
        yield "U", (1, 1, i), 1


def four_trees() -> Iterator[Update]:
    """W7, whose two splits combine to four trees."""
    for i in range(3):
        for relation in "RSTU":
            yield relation, (1, 1, i), 1


def to_and_fro() -> Iterator[Update]:
    """A key of W1 becomes heavy and light again, twice, while N stays as it is."""
    for i in range(20):
        yield "R", (i, i + 1), 1
    yield "R", (50, 0), 1
    for change in (1, -1, 1, -1):
        for i in range(6):
            yield "S", (0, i), change


def overlapping() -> Iterator[Update]:
    """T12: every pair is in the bucket of every heavy key."""
    for b in range(3):
        for i in range(3):
            yield "R", (i, b), 1
            yield "S", (b, i), 1


def one_atom() -> Iterator[Update]:
    """The data of T9: W9, where one atom has all output, in two levels."""
    for row in ((1, 1, 1), (1, 1, 2), (2, 1, 1), (2, 2, 1)):
        yield "R", row, 1
    for row, copies in (((1, 1, 7), 1), ((1, 2, 8), 1), ((2, 1, 7), 3), ((2, 2, 9), 1)):
        yield "S", row, copies
    for key in ((1, 1), (1, 2), (2, 1), (3, 1)):
        yield "T", key, 1


W1, W9 = ("AC", "RAB", "SBC"), ("BD", "RABC", "SABD", "TAE")
W2, W7 = ("A", "RAB", "SB"), ("ACF", "RABC", "SABD", "TAEF", "UAEG")
W10 = ("CDEF", "RABD", "SABE", "TACF", "UACG")


def ran(shape: tuple[str, ...], updates: Iterator[Update], machine_of: Any = Kernel, mode: Mode = Mode.DYNAMIC) -> None:
    run = Run(query_of(*shape), Fraction(1, 4), mode, machine_of)
    for update in updates:
        run.update(*update)
        run.check()


def twice(block: tuple[Any, ...]) -> tuple[Any, ...]:
    """A block that changes every total twice."""
    found: list[Any] = []
    for i in block:
        inner = {f.name: twice(v) for f in fields(i) if isinstance(v := getattr(i, f.name), tuple) and _is_block(v)}
        made = replace(i, **inner)
        found += [made, made] if isinstance(i, Add) and i.table.startswith("total.") else [made]
    return tuple(found)


def _is_block(value: tuple[Any, ...]) -> bool:
    return bool(value) and isinstance(value[0], get_args(Instruction))


def doubled(program: Program) -> Kernel:
    return Kernel(replace(program, procedures=tuple(replace(p, body=twice(p.body)) for p in program.procedures)))


def test_without_a_mistake_all_is_well() -> None:
    ran(W2, t6())
    ran(W10, nested())
    ran(W7, four_trees())
    ran(W1, to_and_fro())
    ran(W1, overlapping())
    ran(W9, one_atom(), mode=Mode.STATIC)


def test_a_key_moves_with_what_it_has_joined_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """(i)."""
    right = Rebalance._marked
    monkeypatch.setattr(Rebalance, "_marked", lambda *args, **options: right(*args, moves=False))
    with pytest.raises(AssertionError):
        ran(W1, to_and_fro())


def test_a_heavy_key_that_has_gone_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """(ii)."""

    def kept(self: Rebalance, node: Any, leaf: Any) -> None:
        self.layout.procedure(self._name(node, f"gone{leaf.atom}"), regs(node.keys), [])

    monkeypatch.setattr(Rebalance, "_write_gone", kept)
    with pytest.raises(AssertionError):
        ran(W2, t6())


def test_an_indicator_has_all_of_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """(iii)."""
    right = Rebalance._marked

    def cut(*args: Any, **options: Any) -> list[Any]:
        (add,) = right(*args, **options)
        assert isinstance(add, Add)
        return [replace(add, key=(add.key[0],) * len(add.key))]

    monkeypatch.setattr(Rebalance, "_marked", cut)
    with pytest.raises(AssertionError):
        ran(W10, nested())


def test_a_shared_view_changes_once() -> None:
    """(v)."""
    with pytest.raises(AssertionError):
        ran(W7, four_trees(), doubled)


def test_buckets_that_overlap_give_a_row_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """(iv): no bucket is ever found to have a row that another one gives."""

    def never(self: Listing, node: OrderNode) -> str:
        return self._function(f"{node.label}.in_bucket", regs((*node.keys, *node.shown)), (), (Lit(0),))

    monkeypatch.setattr(Listing, "_in_bucket", never)
    with pytest.raises(AssertionError):
        ran(W1, overlapping())


def test_a_view_has_all_output_below_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """(vi): the figure as it was printed looks at one level only, so that D cannot be given."""

    def printed(*args: Any) -> OrderNode:
        number, variables, above, role, shown, leaves, children = args
        nearest = {v for v in (*variables, *(v for c in children for v in c.variables)) if v in shown}
        return OrderNode(number, variables, above, role, tuple(v for v in shown if v in nearest), leaves, children)

    monkeypatch.setattr(order, "OrderNode", printed)
    with pytest.raises((AssertionError, KeyError)):
        ran(W9, one_atom(), mode=Mode.STATIC)
