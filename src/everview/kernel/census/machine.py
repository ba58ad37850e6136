"""The census in C++: the same as the one in `reference`, and as quick as it gets.

Nothing of it is saved: it is derived from the facts, and filling it anew from them is linear.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from everview.kernel import _kernel
from everview.kernel.census.faults import DegreeFault, LimitFault
from everview.kernel.census.program import (
    And,
    CensusProgram,
    Equal,
    Fact,
    Near,
    Node,
    Not,
    Or,
    Quantify,
    Truth,
    parts_of,
)

if TYPE_CHECKING:
    from everview.kernel._kernel import Column, InputColumn

IDLE_TYPES: Final = 1024
"""So many types that nobody has may be kept, or as many as there are others."""
MOST_ROWS: Final = 4096
"""How many rows a listing takes out of the kernel at once."""
StaleListing = _kernel.StaleListing
"""What a listing raises once the data have changed."""
KINDS: Final = (Fact, Equal, Near, Truth, Not, And, Or, Quantify)


def encode(program: CensusProgram) -> list[int]:
    """The program as the kernel reads it (`cpp/census/program.h`): numbers, and lists that begin with their lengths."""
    words = [len(program.relations)]
    for relation in program.relations:
        words += [relation.arity, relation.has_edges, relation.is_domain]
    words += [program.arity, program.slots, program.degree, program.most_steps, IDLE_TYPES]
    words += _listed(program.typed_radii)
    words += _listed([program.types_limit(radius) for radius in program.typed_radii])
    nodes = list(program.nodes())
    numbers: dict[int, int] = {}
    words.append(len(nodes))
    for number, node in enumerate(nodes):
        words += _node(program, node, [numbers[id(part)] for part in parts_of(node)])
        numbers[id(node)] = number
    return [int(word) for word in words]


def _node(program: CensusProgram, node: Node, parts: Sequence[int]) -> list[int]:
    shape = program.shape(node)
    quantify = node if isinstance(node, Quantify) else None
    residue, modulus = (quantify.residue if quantify else None) or (0, 0)
    guard = quantify.guard if quantify else None
    slots: Sequence[int] = ()
    match node:
        case Fact():
            slots = node.slots
        case Equal() | Near():
            slots = (node.left, node.right)
        case _:
            pass
    is_closed = quantify is not None and not shape.free
    return [
        KINDS.index(type(node)),
        node.relation if isinstance(node, Fact) else 0,
        *_listed(slots),
        node.bound if isinstance(node, Near) else 0,
        isinstance(node, Truth) and node.value,
        *_listed(parts),
        quantify.slot if quantify else 0,
        (quantify.least if quantify else None) or 0,
        modulus,
        residue,
        guard is not None,
        *(guard or (0, 0)),
        *_listed(sorted(shape.free)),
        shape.radius,
        *_listed(shape.sentences),
        shape.counts_far,
        shape.sentences[0] if is_closed else 0,
    ]


def _listed(items: Sequence[int]) -> list[int]:
    return [len(items), *items]


class Census:
    """A query's answer, kept up to date by the kernel. What its methods do stands with those of ``CensusReference``."""

    def __init__(self, program: CensusProgram) -> None:
        if program.arity > 3:
            raise ValueError("a formula has three columns at most")
        self.program = program
        self.kernel = _kernel.Census(encode(program))

    # --- changes ---

    def begin(self) -> None:
        """Begin a batch."""
        self.kernel.begin()

    def commit(self) -> None:
        """Keep what the batch has changed."""
        self.kernel.commit()

    def roll_back(self) -> None:
        """Hold what was held when the batch began."""
        self.kernel.roll_back()

    def apply(self, relation: int, columns: Sequence[InputColumn], weights: InputColumn) -> None:
        """Add to what is pending: rows of a relation, with the change of their copies."""
        self.kernel.apply(relation, columns, weights)

    def settle(self) -> None:
        """Take over what is pending; raises ``DegreeFault``, after which it is pending still, and ``LimitFault``."""
        self._check(self.kernel.settle())

    def resume(self) -> None:
        """Look at all facts anew, after a limit has been met; differences begin anew, too."""
        self._check(self.kernel.resume())

    # --- differences ---

    def told(self, is_told: bool) -> None:
        """Keep differences from now on, or no longer."""
        self.kernel.told(is_told)

    def take_difference(self) -> tuple[list[Column], Column]:
        """The rows that have come (1) or gone (-1) since this was last asked: columns, and signs."""
        columns, refused = self.kernel.take_difference()
        self._check(refused)
        return columns[:-1], columns[-1]

    # --- answers ---

    def truth(self) -> bool:
        """Whether there is a row."""
        return bool(len(self.fetch(self.cursor(), 1)[1]))

    def count(self) -> int:
        """How many rows there are."""
        low, high, refused = self.kernel.count()
        self._check(refused)
        return high << 64 | low

    def test(self, row: Sequence[int]) -> bool:
        """Whether this is one of them."""
        holds, refused = self.kernel.test(row)
        self._check(refused)
        return holds

    def cursor(self, prefix: Sequence[int] = ()) -> _kernel.CensusCursor:
        """What lists the rows that begin so, until the next change."""
        return self.kernel.open(prefix)

    def fetch(self, cursor: _kernel.CensusCursor, limit: int) -> tuple[list[Column], Column]:
        """So many more of its rows, or all that there are: their columns, and one as long that says nothing."""
        columns, refused = cursor.fetch(limit)
        self._check(refused)
        return columns[:-1], columns[-1]

    def rows(self) -> Iterator[tuple[int, ...]]:
        """All rows, each once, in no order. What is asked of it after the next change raises ``RuntimeError``."""
        return self.rows_with_prefix(())

    def rows_with_prefix(self, prefix: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """All rows that begin so."""
        cursor = self.cursor(prefix)
        limit = 1
        while True:
            columns, told = self.fetch(cursor, limit)
            if not len(told):
                return
            lists = [memoryview(column).cast("B").cast("q").tolist() for column in columns]
            yield from zip(*lists, strict=True) if lists else iter([()])
            limit = min(2 * limit, MOST_ROWS)

    # --- figures ---

    def stats(self) -> dict[str, Any]:
        """What is kept, and what the last change has taken."""
        stats = self.kernel.stats()
        if stats["suspended"] is not None:
            kind, _, limit = stats["suspended"]
            stats["suspended"] = str(LimitFault(kind, limit))
        return stats

    def nbytes(self) -> int:
        """How much memory it has."""
        return self.kernel.nbytes()

    def _check(self, refused: tuple[str, int, int] | None) -> None:
        if refused is None:
            return
        kind, element, number = refused
        if kind == "degree":
            raise DegreeFault(element, number, self.program.degree)
        raise LimitFault(kind, number)
