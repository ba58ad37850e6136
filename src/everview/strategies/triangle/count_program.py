"""What the programs of all counts have in common: relations, heavy keys, pair views, a total, and rebalancing.

A relation of a count is a table of its stored rows. A *status* is a set of its columns by which keys are heavy or light
(triangle.md 4): the heavy keys stand in a table of their own, so rows need no levels, a graph without heavy keys has
nothing beside its rows, and a key changes its status by one row. Each kind of count says how an update changes the
total, and what a row adds to the pair views under the statuses that hold; the rest is here (triangle.md 12).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from everview.kernel.program import (
    Add,
    Call,
    Compute,
    Count,
    Cursor,
    Emit,
    Find,
    Function,
    If,
    Insert,
    Instruction,
    KeyOf,
    Lit,
    Math,
    Procedure,
    Product,
    Program,
    Reg,
    Remove,
    Scan,
    Step,
    Table,
    Test,
    Update,
    ValueOf,
)
from everview.kernel.verifier import verify
from everview.programs.limits import BEYOND_TABLE, passed
from everview.programs.optimise import optimise
from everview.programs.parts import ThresholdBase
from everview.strategies.strategy import COUNT, DELTA, RESULT, AtomInput, Entry, Gauge, Lookup, Maintained, Parts, Sum
from everview.strategies.triangle.count_measures import Key, Measures, Stored, multiplied, table_of

TOTAL = "total"
REBASE = "rebase"
"""The procedure that begins anew with the data there is: N = 2|D| + 1, and parts strictly by degrees."""
Block = tuple[Instruction, ...]
ONCE, FLAG, COME = Reg("once"), Reg("flag"), Reg("come")


@dataclass(frozen=True)
class Status:
    """The columns of a relation whose values are heavy or light: by how many rows have them."""

    stored: Stored
    columns: tuple[int, ...]

    @property
    def table(self) -> str:
        """The table of the heavy keys."""
        return f"{self.stored.table} heavy {','.join(str(self.stored.words[i]) for i in self.columns) or '()'}"

    def key(self, words: Key) -> Key:
        """The key of a row."""
        return tuple(words[i] for i in self.columns)


def zero(register: Reg, value: int = 0) -> Compute:
    """Set a register to a literal."""
    return Compute(register, Math.ADD, Lit(value), Lit(0))


class CountProgram(Measures, ABC):
    """Writes a count's program."""

    def __init__(self, relations: Sequence[Stored], sums: Sequence[Sum], base: ThresholdBase) -> None:
        super().__init__(relations, sums)
        self.limits: dict[int, int] = {}
        """What measures may be unseen, by their numbers: beyond it, updates that are not told take note of it."""
        self.counts_rows = False
        """True if the count is how many copies one row has, which is a number of one word."""
        self.base = base
        self._indexes: dict[str, list[tuple[int, ...]]] = {r.table: [] for r in relations}

    # --- what each kind says -----------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def statuses(self) -> tuple[Status, ...]:
        """The statuses that it keeps."""

    @property
    @abstractmethod
    def views(self) -> tuple[Table, ...]:
        """The tables that it keeps beside rows and heavy keys."""

    @abstractmethod
    def changed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """Set the registers of ``asked`` to what one copy of a row, and one unit of its factors, counts."""

    @abstractmethod
    def viewed(self, stored: Stored, words: Key, changes: Key) -> Block:
        """Change the views by what a row, which changes so, adds to them under the statuses that hold."""

    def added(self, stored: Stored, words: Key, changes: Key, then: Block) -> Block:
        """Once what is asked for is known, run a block with the change of each measure of the total in ``d``.

        Not if there is none; where an update finds nothing, which is common, nothing is computed.
        """
        change = tuple(
            Compute(self.total_change(s), Math.MULTIPLY, self.changed_by(changes, stored, s), self.asked(stored, s))
            for s in self.measures
        )
        return (If(Test.NOT_EQUAL, self.asked(stored, 0), Lit(0), (*change, self.if_changed(then))),)

    def if_changed(self, then: Block) -> If:
        """Run a block if the number of results changes."""
        return If(Test.NOT_EQUAL, self.total_change(0), Lit(0), then)

    def flipped(self, status: Status, key: Key, sign: Reg) -> Block:
        """What to do before a key's status changes (sign −1) and after it (sign 1): its rows leave and enter views."""
        return self.rows_of(status, key, sign)

    def strict(self, status: Status, degree: Reg, key: Key, heavy: Block, light: Block) -> Block:
        """Which of two blocks a key's degree calls for in a major rebalancing."""
        return (self.base.if_heavy_strictly(degree, heavy, light),)

    # --- tools for them ----------------------------------------------------------------------------------------------

    def total_change(self, s: int) -> Reg:
        """The register of a measure's change."""
        return Reg(f"d{s}", self.width(s, self.atoms))

    def index(self, stored: Stored, columns: tuple[int, ...]) -> int:
        """The number of a relation's index on some columns."""
        known = self._indexes[stored.table]
        if columns not in known:
            known.append(columns)
        return known.index(columns)

    def word(self, row: Reg, stored: Stored, column: int) -> KeyOf:
        """A word of a stored row."""
        return KeyOf(row, stored.table, column)

    def counted(self, target: Reg, stored: Stored, columns: tuple[int, ...], key: Key) -> Count:
        """How many rows have these values."""
        return Count(target, stored.table, self.index(stored, columns), key, 0)

    def scanned(self, row: Reg, stored: Stored, columns: tuple[int, ...], key: Key, body: Block) -> Scan:
        """The rows that have these values."""
        return Scan(row, stored.table, self.index(stored, columns), key, 0, body)

    def if_heavy(self, status: Status, key: Key, then: Block, otherwise: Block = ()) -> Block:
        """Run one of two blocks."""
        return (Find(Reg(f"is {status.table}"), status.table, key, then, otherwise),)

    def if_any_heavy(self, then: Block) -> Block:
        """Run a block unless there are no heavy keys at all, as in a graph without hubs."""
        return (If(Test.EQUAL, self.base.value("heavy"), Lit(0), (), then),)

    def products(self, rows: Sequence[tuple[Reg, Stored]], own: Stored) -> Block:
        """Add the product of rows of the other relations to each register of what is asked for a row of one."""
        body: list[Instruction] = []
        for s, target in self.all_asked(own).items():
            product = Reg(f"product{s}", target.words)
            body += multiplied(product, [self.value(row, r, s) for row, r in rows])
            body.append(Compute(target, Math.ADD, target, product))
        return tuple(body)

    def nothing_asked(self, own: Stored) -> Block:
        """Set the registers of what is asked for to 0."""
        return tuple(map(zero, self.all_asked(own).values()))

    def row_procedure(self, stored: Stored) -> str:
        """The procedure that changes the views by a row."""
        return f"{stored.table}.views"

    def moved(self, row: Reg, stored: Stored, sign: Reg) -> tuple[Block, tuple[Reg, ...]]:
        """The measures of a stored row by a sign: what computes them, and their registers."""
        values = tuple(Reg(f"moved {stored.table}{i}", words) for i, words in enumerate(self.row_widths(stored)))
        body = tuple(Compute(v, Math.MULTIPLY, ValueOf(row, stored.table, i), sign) for i, v in enumerate(values))
        return body, values

    def rows_of(self, status: Status, key: Key, sign: Reg) -> Block:
        """Each row with a key, to the views by its sign."""
        row, stored = Reg("moved row"), status.stored
        signed, values = self.moved(row, stored, sign)
        words = tuple(self.word(row, stored, i) for i in range(len(stored.words)))
        call = Call(self.row_procedure(stored), (*words, *values))
        return (self.scanned(row, stored, status.columns, key, (*signed, call)),)

    # --- the program -------------------------------------------------------------------------------------------------

    def compile(self) -> Maintained:
        """The program, and how it is used."""
        procedures = [*self.base.procedures]
        for stored in self.relations:
            words, changes = self._parameters(stored)
            body = self.base.opened(self.viewed(stored, words, changes))
            procedures.append(Procedure(self.row_procedure(stored), (*words, *changes), body))
        procedures += [self._flip(s) for s in self.statuses]
        procedures.append(Procedure("major", (), tuple(i for s in self.statuses for i in self._strictly(s))))
        procedures += [self._rebalance(r) for r in self.relations]
        for tag in ("", "!"):
            procedures += [self._change(r, tag) for r in self.relations]
        entries, inputs = self._entries()
        procedures += inputs
        rebased = self.base.opened(self.base.begun_anew((Call("major"),)))
        procedures.append(Procedure(REBASE, (ONCE,), rebased))
        procedures += [Procedure(n, (ONCE,), ()) for n in (Maintained.start_deltas, Maintained.stop_deltas)]
        row = Reg("row")
        values = tuple(ValueOf(row, TOTAL, s) for s in self.measures)
        listed = tuple(Product((v,), words) for v, words in zip(values, self.result_widths, strict=True))
        cursor = Cursor(RESULT, (), (Step(row, TOTAL, 0, (), 0),), listed)
        found = Reg("found", self.width(0, self.atoms))
        count = Function(
            COUNT,
            (ONCE,),
            (zero(found), Find(row, TOTAL, (), (Compute(found, Math.ADD, values[0], Lit(0)),))),
            (found,),
        )
        kept = [n for e in entries for n in (e.state_only, e.with_deltas)]
        channels = ((DELTA, sum(self.result_widths) + 1),)
        written = Program(self._tables(), channels, tuple(procedures), (cursor,), (count,))
        program = optimise(written, [Maintained.start_deltas, Maintained.stop_deltas, REBASE, *kept])
        verify(program)
        return Maintained(
            program,
            entries,
            (),
            widths=self.result_widths,
            test=(Lookup(TOTAL, (), 0),),
            count=COUNT,
            parts=self._parts(),
        )

    @property
    def result_widths(self) -> tuple[int, ...]:
        """How many words each measure has in what is told and listed."""
        count, *sums = (self.width(s, self.atoms) for s in self.measures)
        return (1 if self.counts_rows else count, *sums)

    def _parts(self) -> Parts:
        """The numbers of the base, for ``stats``."""
        n, heavy, minor, major, moved = (
            Gauge(self.base.name, (), self.base.column(c)) for c in ("N", "heavy", "minors", "majors", "moved")
        )
        return Parts(self.base.epsilon, n, (heavy,), minor, major, moved)

    def _tables(self) -> tuple[Table, ...]:
        found = [
            table_of(r.table, list(map(str, r.words)), self.row_widths(r), self._indexes[r.table])
            for r in self.relations
        ]
        for s in self.statuses:
            names = tuple(str(s.stored.words[i]) for i in s.columns)
            found.append(Table(s.table, names, (), self.heavy_indexes(s)))
        total = table_of(TOTAL, (), [self.width(s, self.atoms) for s in self.measures], ((),))
        return (*found, *self.views, total, self.base.table, *((BEYOND_TABLE,) if self.limits else ()))

    def heavy_indexes(self, status: Status) -> tuple[tuple[int, ...], ...]:
        """The indexes of a table of heavy keys; the first has them all."""
        return ((),)

    def _parameters(self, stored: Stored) -> tuple[tuple[Reg, ...], tuple[Reg, ...]]:
        words = tuple(Reg(f"@{v}") for v in stored.words)
        return words, tuple(Reg(f"change{i}", width) for i, width in enumerate(self.row_widths(stored)))

    def _change(self, stored: Stored, tag: str) -> Procedure:
        """One update of a relation: the total, the views, the row itself, and then what must be rebalanced."""
        words, changes = self._parameters(stored)
        row = Reg("row")
        d = tuple(map(self.total_change, self.measures))
        outputs = tuple(Product((change,), words) for change, words in zip(d, self.result_widths, strict=True))
        told: Block = (Emit(DELTA, (*outputs, Update())),) if tag else ()
        limited = () if tag else self._limited(row)
        due = Call(f"{stored.table}.rebalance", (*words, COME))
        body: Block = (
            *self.changed(stored, words, changes),
            *self.added(stored, words, changes, (Add(row, TOTAL, (), d, limited, (), limited), *told)),
            *self.noted(stored, words, changes),
            zero(COME),
            Add(row, stored.table, words, changes, self._come(row, stored), self._go(row, stored)),
            If(Test.NOT_EQUAL, COME, Lit(0), (due,)),
        )
        return Procedure(f"{stored.table}.change{tag}", (*words, *changes), self.base.opened(body))

    def _limited(self, row: Reg) -> Block:
        """Take note if a measure of the total may be beyond its limit (``programs.limits``)."""
        body: list[Instruction] = []
        for s, limit in self.limits.items():
            value = ValueOf(row, TOTAL, s)
            below = If(Test.LESS, value, Lit(-limit), passed())
            body.append(If(Test.LESS, Lit(limit), value, passed(), (below,)))
        return tuple(body)

    def noted(self, stored: Stored, words: Key, changes: Key) -> Block:
        """Change the views by an update's row."""
        return self.viewed(stored, words, changes)

    def atom_input(self, stored: Stored) -> AtomInput:
        """How a relation's rows come in."""
        return AtomInput(stored.atom, stored.words, self.kept((stored,))[1:], stored.serves)

    def _own(self, stored: Stored) -> tuple[Status, ...]:
        """The statuses of a relation."""
        return tuple(s for s in self.statuses if s.stored is stored)

    # Parts were settled before an update, so a key may change its status only where its degree comes to a threshold.

    def _come(self, row: Reg, stored: Stored) -> Block:
        """A row has come: it is counted, and COME is 1 if that may call for rebalancing, which is seldom."""
        degree, due = Reg("degree"), (zero(COME, 1),)
        most = self.base.value("heavy_from" if self.base.epsilon == 0 else "light_until")
        block: Block = ()
        for status in reversed(self._own(stored)):
            block = (self._degree_of(row, status, degree), If(Test.EQUAL, most, degree, due, block))
        grown = If(Test.AT_MOST, self.base.value("N"), self.base.value("size"), due, block)
        return (*self.base.counted("size", Lit(1)), grown)

    def _go(self, row: Reg, stored: Stored) -> Block:
        """A row is about to go, and still counted in degrees: COME is −1 if that may call for rebalancing."""
        degree, quarter, due = Reg("degree"), Reg("quarter"), (zero(COME, -1),)
        block: Block = ()
        for status in reversed(self._own(stored)):
            least = If(Test.EQUAL, self.base.value("heavy_until"), degree, due, block)
            block = (self._degree_of(row, status, degree), least)
        shrunk = If(Test.LESS, self.base.value("size"), quarter, due, block)
        count = (*self.base.counted("size", Lit(-1)), Compute(quarter, Math.DIVIDE, self.base.value("N"), Lit(4)))
        return (*count, shrunk)

    def _degree_of(self, row: Reg, status: Status, degree: Reg) -> Count:
        """How many rows have a row's own key."""
        key = tuple(self.word(row, status.stored, i) for i in status.columns)
        return self.counted(degree, status.stored, status.columns, key)

    def _rebalance(self, stored: Stored) -> Procedure:
        """A row has come or gone: N may change, or the status of one of the row's keys."""
        words, _ = self._parameters(stored)
        minor: list[Instruction] = []
        gone: list[Instruction] = []
        moved = Reg("moved")
        for number, status in enumerate(self._own(stored)):
            degree, row = Reg(f"degree{number}"), Reg(f"heavy{number}")
            key = status.key(words)
            flip = (Call(f"{status.table}.flip", (*key,)), Compute(moved, Math.ADD, moved, degree))
            up = (Find(row, status.table, key, (), flip),)
            down = (Find(row, status.table, key, flip),)
            gone += [
                self.counted(degree, stored, status.columns, key),
                If(Test.EQUAL, degree, Lit(0), (Find(row, status.table, key, flip[:1]),)),
            ]
            minor += [
                self.counted(degree, stored, status.columns, key),
                If(
                    Test.EQUAL,
                    COME,
                    Lit(1),
                    (self._if_too_heavy(degree, up),),
                    (self.base.if_too_light(degree, down),),
                ),
            ]
        told = (*self.base.counted("minors", Lit(1)), *self.base.counted("moved", moved))
        if self.base.epsilon == 0:
            told = ()  # A new key is heavy at once: that is no rebalancing.
        checked = self.base.checked(
            (*gone, Call("major")), (zero(moved), *minor, If(Test.NOT_EQUAL, moved, Lit(0), told)) if minor else ()
        )
        return Procedure(f"{stored.table}.rebalance", (*words, COME), self.base.opened(checked))

    def _if_too_heavy(self, degree: Reg, then: Block) -> If:
        """With ε = 0 all keys are heavy from their first row on (triangle.md 12)."""
        if self.base.epsilon == 0:
            return self.base.if_heavy_strictly(degree, then)
        return self.base.if_too_heavy(degree, then)

    def _flip(self, status: Status) -> Procedure:
        """A key changes its status: its rows leave the views, and enter them as what they are now."""
        key = tuple(Reg(f"@{i}") for i in status.columns)
        row, sign = Reg("heavy"), Reg("sign")
        body: Block = (
            zero(sign, -1),
            *self.flipped(status, key, sign),
            Find(
                row,
                status.table,
                key,
                (Remove(row, status.table), *self.base.counted("heavy", Lit(-1))),
                (Insert(row, status.table, key), *self.base.counted("heavy", Lit(1))),
            ),
            zero(sign, 1),
            *self.flipped(status, key, sign),
        )
        return Procedure(f"{status.table}.flip", key, self.base.opened(body))

    def _strictly(self, status: Status) -> Block:
        """Every key heavy from θ on, and no other."""
        row, degree, heavy = Reg("row"), Reg("degree"), Reg("heavy")
        stored = status.stored
        key = tuple(self.word(row, stored, i) for i in status.columns)
        flip = (Call(f"{status.table}.flip", key),)
        body = (
            self.counted(degree, stored, status.columns, key),
            *self.strict(
                status,
                degree,
                key,
                (Find(heavy, status.table, key, (), flip),),
                (Find(heavy, status.table, key, flip),),
            ),
        )
        return self.base.opened((self.scanned(row, stored, (), (), body),))

    def _entries(self) -> tuple[tuple[Entry, ...], list[Procedure]]:
        """One procedure a relation of the database: an update goes to each of its occurrences in turn."""
        relations: dict[str, list[Stored]] = {}
        for stored in self.relations:
            relations.setdefault(stored.relation, []).append(stored)
        entries, procedures = [], []
        for relation, occurrences in relations.items():
            for tag in ("", "!"):
                parameters: list[Reg] = []
                body: list[Instruction] = []
                for o in occurrences:
                    words = tuple(Reg(f"{o.atom}@{v}") for v in o.words)
                    flag, widths = Reg(f"{o.atom}?"), self.row_widths(o)
                    changes = tuple(Reg(f"{o.atom}+{i}", n) for i, n in enumerate(widths) if i)
                    parameters += [*words, flag, *changes]
                    call = Call(f"{o.table}.change{tag}", (*words, Reg("change"), *changes))
                    body.append(If(Test.NOT_EQUAL, flag, Lit(0), (call,)))
                procedures.append(Procedure(f"update {relation}{tag}", (*parameters, Reg("change")), tuple(body)))
            inputs = tuple(map(self.atom_input, occurrences))
            entries.append(Entry(relation, inputs, f"update {relation}", f"update {relation}!"))
        return tuple(entries), procedures
