"""How a triangle's rows are read: pieces one after the other, or their union, weighed (triangle.md 9.3, 10.4, 11.3).

With three corners the pieces are disjoint. With two or one, a row may be in several pieces, and in several buckets of a
tree: the union by substitution gives it once, and a function adds up what all pieces have for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from everview.kernel.cursors import Ask, Buckets, Concat, Member, Node, Part, Question, Union
from everview.kernel.program import (
    Compute,
    Cursor,
    Find,
    Function,
    GetLevel,
    If,
    Instruction,
    Lit,
    Math,
    Operand,
    Output,
    Product,
    Reg,
    Scan,
    Step,
    Test,
)
from everview.query.terms import Var
from everview.strategies.strategy import COUNT, RESULT, Lookup
from everview.strategies.triangle.deltas import Deltas
from everview.strategies.triangle.layout import (
    BY_KEY,
    FIRST,
    RELATIONS,
    SECOND,
    Layout,
    Places,
    copied,
    multiplied,
    reg,
)
from everview.strategies.triangle.shape import EDGES
from everview.strategies.triangle.views import ALL, Tree, View

PIECES = "pieces"
WEIGH = "weigh"
TEST = "test"
FOUND = Reg("found")
Block = tuple[Instruction, ...]


class Listing:
    """Writes the cursors and the functions that they ask."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.triangle = layout.triangle
        self.design = layout.design
        self.functions: list[Function] = []

    def cursors(self) -> tuple[Cursor, ...]:
        """The cursor that gives each row once, and, where rows come from several pieces, one that gives the pieces."""
        if self.triangle.arity == 3:
            return (self._disjoint(),)
        return (self._union(), self._in_pieces())

    def test(self) -> tuple[Lookup, ...] | str:
        """A triangle is there if its edges are; for fewer corners, a function asks every piece for the row."""
        if self.triangle.arity < 3:
            return self._write_test()
        layout = self.layout
        return tuple(
            Lookup(layout.rows_table(k), layout.rows_key(k), 0)
            if layout.has_rows(k)
            else Lookup(RELATIONS[k], layout.key(k), 0)
            for k in range(3)
        )

    def write_count(self, deltas: Deltas) -> str:
        """How many rows there are, copies included, however many copies each has."""
        total = Reg("total", self.layout.sum_width(0))
        return self._function(COUNT, (Reg("once"),), deltas.counted(total), (total,))

    # --- three corners ---------------------------------------------------------------------------------------------

    def _disjoint(self) -> Cursor:
        layout = self.layout
        words = self.triangle.words("abc")
        parts = [self._stored(view) for view in self.design.pieces]
        parts += [Part(self._tree_steps(tree), self._leaf_words(tree)) for tree in self.design.trees]
        steps: list[Node] = [Concat(tuple(map(reg, words)), tuple(parts))]
        places: dict[Var, Operand] = {v: reg(v) for v in words}
        measured: list[tuple[Reg, int, bool]] = []
        for k in range(3):
            row = Reg(f"row{k}")
            key = tuple(places[v] for v in layout.key(k))
            if layout.has_rows(k):
                steps.append(Step(row, layout.rows_table(k), 0, key, 0))
                places |= {v: place for v, place in layout.rows_places(row, k).items() if v not in places}
            elif not layout.is_set:
                steps.append(Step(row, RELATIONS[k], BY_KEY, key, 0))
            measured.append((row, k, layout.has_rows(k)))
        factors = {j: tuple(layout.measure(row, k, j, rows) for row, k, rows in measured) for j in layout.measures}
        weights = [Product(one, layout.told_width(j)) for j, one in factors.items()]
        listed = [Product(())] if layout.is_set else weights
        return Cursor(RESULT, (), tuple(steps), (*(places[v] for v in self.triangle.outputs), *listed))

    def _stored(self, view: View) -> Part:
        row = Reg(f"of {view.name}")
        return Part((Step(row, view.name, 0, (), 0),), tuple(self.layout.view_places(row, view).values()))

    def _weighed(self, view: View) -> Part:
        """The rows of a piece with its measures, which must fit a word each: a function looks them up.

        Where there are rows under the edges, each of them comes with its share.
        """
        layout = self.layout
        steps = self._stored(view).steps
        corners = self.triangle.words(view.key)
        places = layout.view_places(Reg(f"of {view.name}"), view)
        if self.triangle.private[0]:
            row = Reg(f"under {view.name}")
            steps = (*steps, Step(row, layout.rows_table(0), 0, tuple(places[v] for v in layout.key(0)), 0))
            places = {**layout.rows_places(row, 0), **places}
        outputs = tuple(places[v] for v in self.triangle.outputs)
        if layout.is_set:
            return Part(steps, (*outputs, Lit(1)))
        row = Reg("row")
        found = {j: Reg(f"found{j}", layout.sum_width(j)) for j in layout.measures}
        body: list[Instruction] = [copied(target, Lit(0)) for target in found.values()]
        kept = [copied(target, layout.kept(row, view, j)) for j, target in found.items()]
        body.append(Find(row, view.name, tuple(map(reg, corners)), tuple(kept)))
        results: list[Output] = [Product((target,)) for target in found.values()]
        if self.triangle.private[0]:
            looked_up, factors = self._under(found)
            body += looked_up
            results = list(map(Product, factors.values()))
        name = self._function(f"of {view.name}", tuple(map(reg, self.triangle.outputs)), tuple(body), results)
        targets = tuple(Reg(f"measure{j} of {view.name}") for j in layout.measures)
        return Part((*steps, Ask(targets, Question(name, outputs))), (*outputs, *targets))

    def _tree_steps(self, tree: Tree, above: Places | None = None) -> tuple[Node, ...]:
        """The rows of a tree's root, from a bucket or all of them, and the leaves that each leads to."""
        root, leaf = self._rows(tree)
        shared = self.triangle.words(tree.leaf.index or "")
        if above is None or tree.top is tree.root:
            places = above or self.layout.view_places(root, tree.root)
            steps = () if above is not None else (Step(root, tree.root.name, 0, (), 0),)
        else:
            key = tuple(above[v] for v in self.triangle.words(tree.root.index or ""))
            steps = (Step(root, tree.root.name, 1, key, 0),)
            places = self.layout.view_places(root, tree.root)
        return (*steps, Step(leaf, tree.leaf.name, 1, tuple(places[v] for v in shared), 0))

    def _rows(self, tree: Tree) -> tuple[Reg, Reg]:
        return Reg(f"root {tree.root.name}"), Reg(f"leaf {tree.root.name}")

    def _leaf_words(self, tree: Tree) -> tuple[Operand, ...]:
        places = self.layout.view_places(self._rows(tree)[1], tree.leaf)
        return tuple(places[v] for v in self.triangle.words("abc"[: self.triangle.arity]))

    # --- two corners and one ---------------------------------------------------------------------------------------

    def _union(self) -> Cursor:
        layout = self.layout
        words = self.triangle.words("abc"[: self.triangle.arity])
        regs = tuple(map(reg, words))
        members = [
            Member(part.steps, part.outputs, Question(self._write_stored(view), regs))
            for view in self.design.pieces
            for part in (self._stored(view),)
        ]
        members += [self._tree_member(tree, regs) for tree in self.design.trees]
        steps: list[Node] = [Union(regs, tuple(members))]
        private = self.triangle.private[0]
        places: dict[Var, Operand] = {v: reg(v) for v in words}
        if private:
            row = Reg("row0")
            steps.append(Step(row, layout.rows_table(0), 0, tuple(places[v] for v in layout.key(0)), 0))
            places |= {v: place for v, place in layout.rows_places(row, 0).items() if v not in places}
        outputs: list[Output] = [places[v] for v in self.triangle.outputs]
        if layout.is_set:
            return Cursor(RESULT, (), tuple(steps), (*outputs, Product(())))
        targets = tuple(Reg(f"measure{j} {i}") for j in layout.measures for i in range(layout.told_width(j)))
        question = Question(self._write_weigh(), tuple(places[v] for v in self.triangle.outputs))
        steps.append(Ask(targets, question))
        return Cursor(RESULT, (), tuple(steps), (*outputs, *targets))

    def _write_stored(self, view: View) -> str:
        """Whether a piece has a row."""
        words = tuple(map(reg, self.triangle.words(view.key)))
        body = (copied(FOUND, Lit(0)), Find(Reg("row"), view.name, words, (copied(FOUND, Lit(1)),)))
        return self._function(f"in {view.name}", words, body, (FOUND,))

    def _tree_member(self, tree: Tree, words: tuple[Reg, ...]) -> Member:
        assert tree.top is not None
        top = Reg(f"top {tree.root.name}")
        own = tuple(Reg(f"{w.name} of {tree.root.name}") for w in words)
        above = self.layout.view_places(top, tree.top)
        asked = Question(self._write_bucket(tree), (*above.values(), *own))
        bucket = Member(self._tree_steps(tree, above), self._leaf_words(tree), asked)
        whole = Question(self._write_tree(tree), words)
        return Member((Buckets(own, Step(top, tree.top.name, 0, (), 0), bucket),), own, whole)

    def _write_bucket(self, tree: Tree) -> str:
        """Whether a bucket has a row: the tree's root must lead from there to it, and its leaf must be there."""
        assert tree.top is not None
        top = tuple(Reg(f"top {v.name}") for v in self.triangle.words(tree.top.key))
        words = tuple(map(reg, self.triangle.words("abc"[: self.triangle.arity])))
        places: dict[Var, Operand] = dict(zip(self.triangle.words(tree.top.key), top, strict=True))
        places |= dict(zip(self.triangle.words("abc"[: self.triangle.arity]), words, strict=True))
        found: tuple[Instruction, ...] = (copied(FOUND, Lit(1)),)
        for view in (tree.leaf, tree.root):
            found = (Find(Reg(f"row of {view.name}"), view.name, self._key(view, places), found),)
        same = [
            (t, w)
            for v, t in zip(self.triangle.words(tree.top.key), top, strict=True)
            for u, w in zip(self.triangle.words("abc"[: self.triangle.arity]), words, strict=True)
            if u == v
        ]
        for left, right in same:
            found = (If(Test.EQUAL, left, right, found),)
        body = (copied(FOUND, Lit(0)), *found)
        return self._function(f"in a bucket of {tree.root.name}", (*top, *words), body, (FOUND,))

    def _key(self, view: View, places: dict[Var, Operand]) -> tuple[Operand, ...]:
        return tuple(places[v] for v in self.triangle.words(view.key))

    def _write_tree(self, tree: Tree) -> str:
        """Whether any bucket has a row."""
        words = tuple(map(reg, self.triangle.words("abc"[: self.triangle.arity])))
        body = (copied(FOUND, Lit(0)), *self._candidates(tree, lambda _: (copied(FOUND, Lit(1)),)))
        return self._function(f"in {tree.root.name}", words, body, (FOUND,))

    def _write_test(self) -> str:
        """Whether there is a row: some piece, or some tree, has its corners, and it is one of those under its edge."""
        words = tuple(map(reg, self.triangle.words("abc"[: self.triangle.arity])))
        body: Block = ()
        for view in self.design.pieces:
            body = (*body, Find(Reg(f"of {view.name}"), view.name, words, (copied(FOUND, Lit(1)),)))
        for tree in self.design.trees:
            among = self._candidates(tree, lambda _: (copied(FOUND, Lit(1)),))
            body = (*body, If(Test.EQUAL, FOUND, Lit(0), among))
        if self.triangle.private[0]:
            key = tuple(map(reg, self.layout.rows_key(0)))
            body = (Find(Reg("under"), self.layout.rows_table(0), key, body),)
        parameters = tuple(map(reg, self.triangle.outputs))
        return self._function(TEST, parameters, (copied(FOUND, Lit(0)), *body), (FOUND,))

    def _candidates(self, tree: Tree, then: Callable[[Mapping[int, Reg]], Block]) -> Block:
        """Go through the triangles of a tree that have a row's corners; ``then`` is given the rows of their edges.

        The edges of the tree's leaf come first, those with known corners before others; the third one closes it.
        """
        layout = self.layout
        seen = set("abc"[: self.triangle.arity])
        places: dict[Var, Operand] = {v: reg(v) for v in self.triangle.words(sorted(seen))}
        [third] = {0, 1, 2} - set(tree.leaf.relations)
        leaf = sorted(tree.leaf.relations, key=lambda k: (not set(EDGES[k]) <= seen, k))
        rows = {k: Reg(f"row{k}") for k in range(3)}
        around: list[Callable[[Block], Block]] = []
        for k in (*leaf, third):
            part = tree.root.parts[k]
            assert part is not None
            levels = self.design.levels(k, part)
            if set(EDGES[k]) <= seen:
                around.append(partial(self._found, k, rows[k], tuple(places[v] for v in layout.key(k)), levels))
            else:
                column = FIRST if EDGES[k][0] in seen else SECOND
                key = tuple(places[v] for v in layout.side(k, column))
                around.append(partial(_scanned, k, rows[k], column, key, levels))
            seen |= set(EDGES[k])
            places = {**layout.places(rows[k], k), **places}
        body = then(rows)
        for wrap in reversed(around):
            body = wrap(body)
        return body

    def _found(self, k: int, row: Reg, key: tuple[Operand, ...], levels: tuple[int, int], body: Block) -> Block:
        """A block for an edge, if it is there on one of these levels."""
        low, high = levels
        if levels != self.design.levels(k, ALL):
            level = Reg(f"level{k}")
            tested = If(Test.AT_MOST, Lit(low), level, (If(Test.AT_MOST, level, Lit(high), body),))
            body = (GetLevel(level, row, RELATIONS[k]), tested)
        return (Find(row, RELATIONS[k], key, body),)

    def _write_weigh(self) -> str:
        """The measures of a row: what is stored of it, and what the trees have of it."""
        layout = self.layout
        words = tuple(map(reg, self.triangle.words("abc"[: self.triangle.arity])))
        totals = {j: Reg(f"total{j}", layout.sum_width(j)) for j in layout.measures}
        body: list[Instruction] = [copied(total, Lit(0)) for total in totals.values()]
        for view in self.design.pieces:
            row = Reg(f"of {view.name}")
            more = [Compute(total, Math.ADD, total, layout.kept(row, view, j)) for j, total in totals.items()]
            body.append(Find(row, view.name, words, tuple(more)))

        def summed(rows: Mapping[int, Reg]) -> Block:
            found: list[Instruction] = []
            for j, total in totals.items():
                product = Reg(f"product{j}", layout.sum_width(j))
                found += multiplied(product, *(layout.in_views(row, k, j) for k, row in rows.items()))
                found.append(Compute(total, Math.ADD, total, product))
            return tuple(found)

        for tree in self.design.trees:
            body += self._candidates(tree, summed)
        parameters = tuple(map(reg, self.triangle.outputs))
        factors: dict[int, tuple[Operand, ...]] = {j: (total,) for j, total in totals.items()}
        if self.triangle.private[0]:
            looked_up, factors = self._under(totals)
            body += looked_up
        results = [Product(factors[j], layout.told_width(j)) for j in totals]
        return self._function(WEIGH, parameters, tuple(body), tuple(results))

    def _under(self, totals: Mapping[int, Reg]) -> tuple[list[Instruction], dict[int, tuple[Operand, ...]]]:
        """The measures of a row under an edge, as products: what it gives itself, and what there is for the edge."""
        layout = self.layout
        row, own = Reg("under"), {j: Reg(f"own{j}", layout.own_width(0, j)) for j in totals}
        known = tuple(copied(target, layout.measure(row, 0, j, True)) for j, target in own.items())
        found = Find(row, layout.rows_table(0), tuple(map(reg, layout.rows_key(0))), known)
        return [*(copied(target, Lit(0)) for target in own.values()), found], {j: (own[j], totals[j]) for j in totals}

    def _in_pieces(self) -> Cursor:
        """The same rows in pieces, whose measures, each of one word, are to be added up: nothing is tested."""
        layout = self.layout
        targets = (Reg("measure0"),) if layout.is_set else tuple(Reg(f"measure{j}") for j in layout.measures)
        parts = [self._weighed(view) for view in self.design.pieces]
        for tree in self.design.trees:
            leaf = self._rows(tree)[1]
            places: dict[Var, Operand] = dict(layout.view_places(leaf, tree.leaf))
            steps: list[Node] = list(self._tree_steps(tree))
            rows = {k: Reg(f"row{k} of {tree.root.name}") for k in range(3)}
            for k, row in rows.items():
                key = tuple(places[v] for v in layout.key(k))
                if layout.has_rows(k):
                    steps.append(Step(row, layout.rows_table(k), 0, key, 0))
                    places = {**layout.rows_places(row, k), **places}
                elif not layout.is_set:
                    steps.append(Step(row, RELATIONS[k], BY_KEY, key, 0))
            weights: list[Output] = [Lit(1)] if layout.is_set else []
            narrow = {k: self._narrow(k, tree, places, steps) for k in rows}
            for j in () if layout.is_set else layout.measures:
                factors = (narrow[k].get(j) or layout.measure(row, k, j, layout.has_rows(k)) for k, row in rows.items())
                weights.append(Product(tuple(factors)))
            parts.append(Part(tuple(steps), (*(places[v] for v in self.triangle.outputs), *weights)))
        outputs = (*map(reg, self.triangle.outputs), *targets)
        told = (Product((target,), layout.told_width(j)) for j, target in enumerate(targets))
        return Cursor(PIECES, (), (Concat(outputs, tuple(parts)),), (*map(reg, self.triangle.outputs), *told))

    def _narrow(self, k: int, tree: Tree, places: Places, steps: list[Node]) -> dict[int, Operand]:
        """The sums of an edge that have several words, in one each, asked for in further steps: pieces have no more."""
        layout = self.layout
        wide = [j for j in layout.own(k) if layout.own_width(k, j) > 1]
        if not wide:
            return {}
        has_rows = layout.has_rows(k)
        table, key = (layout.rows_table(k), layout.rows_key(k)) if has_rows else (RELATIONS[k], layout.key(k))
        name = f"sums of {table}"
        if all(f.name != name for f in self.functions):
            row, found = Reg("row"), {j: Reg(f"found{j}") for j in wide}
            body: list[Instruction] = [copied(target, Lit(0)) for target in found.values()]
            kept = tuple(copied(target, layout.measure(row, k, j, has_rows)) for j, target in found.items())
            body.append(Find(row, table, tuple(map(reg, key)), kept))
            self._function(name, tuple(map(reg, key)), body, tuple(found.values()))
        targets = {j: Reg(f"sum{j} of {RELATIONS[k]} in {tree.root.name}") for j in wide}
        steps.append(Ask(tuple(targets.values()), Question(name, tuple(places[v] for v in key))))
        return dict(targets)

    def _function(
        self, name: str, parameters: Sequence[Reg], body: Sequence[Instruction], results: Sequence[Output]
    ) -> str:
        self.functions.append(Function(name, tuple(parameters), tuple(body), tuple(results)))
        return name


def _scanned(k: int, row: Reg, column: int, key: tuple[Operand, ...], levels: tuple[int, int], body: Block) -> Block:
    """A block for each edge of a corner on these levels."""
    return (Scan(row, RELATIONS[k], column, key, levels[0], body, highest=levels[1]),)
