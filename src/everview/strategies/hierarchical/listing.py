"""How the result is read: cursors that list it, and functions that test a row, weigh it, and count all of them.

Listing goes down the order (hierarchical-tradeoff.md 8): the values of listed nodes are looped over, independent
branches make products, and a split node gives the rows of its light join together with those of one bucket for each
heavy key, each row once. A row's weight is asked for when it has come. Who reads everything reads *pieces* instead: the
same rows bucket by bucket with the weights that they have there, to be added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from everview.kernel.cursors import Ask, Buckets, Concat, Member, Node, Part, Question, Union
from everview.kernel.program import (
    Compute,
    Cursor,
    Find,
    Function,
    If,
    Instruction,
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
from everview.strategies.hierarchical.joins import product
from everview.strategies.hierarchical.layout import ONE, ZERO, Layout, Places, Unit, regs, units_below, words_of
from everview.strategies.hierarchical.order import Leaf, OrderNode, Role
from everview.strategies.hierarchical.updates import copied, regs_of
from everview.strategies.strategy import COUNT, RESULT

PIECES, TEST, WEIGHT = "pieces", "test", "weight"


def shows(unit: Unit) -> bool:
    """True if there is output in a unit, so that listing goes into it."""
    return isinstance(unit, OrderNode) and bool(unit.shown)


def top_units(layout: Layout) -> tuple[Unit, ...]:
    """The units that the whole result is the product of, those without output first."""
    units: tuple[Unit, ...] = (*layout.order.scalars, *layout.order.roots)
    return tuple(sorted(units, key=shows))


def group_step(layout: Layout, row: Reg, table: str, by: Sequence[Var], places: Places) -> Step:
    """A loop over the rows of a table that agree with what is known of some variables."""
    words = tuple(by)
    return Step(row, table, layout.index(table, words), layout.index_key(table, words, places), 0)


def counted(layout: Layout, total: Reg, then: Sequence[Instruction] = ()) -> tuple[Instruction, ...]:
    """total ← how many results there are, copies included; ``then`` is run if there are any."""
    rows = {unit: layout.fresh("row") for unit in top_units(layout)}
    body = (*product(total, [layout.value(row, u, 0) for u, row in rows.items()]), *then)
    for unit, row in rows.items():
        body = (Find(row, layout.table(unit), (), body),)
    return (copied(total, ZERO), *body)


class Listing:
    """The cursor that gives each row once, and the functions it asks."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.functions: list[Function] = []

    def cursor(self) -> Cursor:
        """Each row once, with its measures."""
        layout = self.layout
        steps, places = self._product(top_units(layout), {})
        words = tuple(places[v] for v in layout.outputs)
        if layout.is_set:
            return Cursor(RESULT, (), tuple(steps), (*words, Product(())))
        measures = tuple(layout.fresh("measure") for _ in layout.measures for _ in range(layout.told_width))
        steps.append(Ask(measures, Question(WEIGHT, words)))
        return Cursor(RESULT, (), tuple(steps), (*words, *(Product((m,)) for m in measures)))

    def _product(self, units: Iterable[Unit], places: Places) -> tuple[list[Node], dict[Var, Operand]]:
        """The rows of several units side by side; of those without output it is only asked whether they are there."""
        steps: list[Node] = []
        known = dict(places)
        for unit in units:
            if isinstance(unit, OrderNode) and unit.shown:
                more, found = self._listed(unit, places)
                steps += more
                known.update(found)
            elif not words_of(unit):
                steps.append(group_step(self.layout, self.layout.fresh("there"), self.layout.table(unit), (), {}))
        return steps, known

    def _listed(self, node: OrderNode, places: Places) -> tuple[list[Node], dict[Var, Operand]]:
        layout = self.layout
        row = layout.fresh("at")
        if node.role is Role.JOINED:
            table = layout.light_table(node)
            return [group_step(layout, row, table, node.above, places)], layout.words(row, table)
        table = layout.rows_table(node)
        step = group_step(layout, row, table, node.above, places)
        if node.role is Role.LISTED:
            steps, known = self._product(units_below(node), {**places, **layout.words(row, table)})
            return [step, *steps], known
        union = self._union(node, places, step)
        return [union], dict(zip(node.shown, union.words, strict=True))

    def _union(self, node: OrderNode, places: Places, each: Step) -> Union:
        """The light join and the buckets of heavy keys, each row once."""
        layout = self.layout
        words, inside = (tuple(layout.fresh(what) for _ in node.shown) for what in ("word", "inside"))
        above = tuple(places[v] for v in node.above)
        light_row, light = layout.fresh("light"), layout.light_table(node)
        light_words = layout.words(light_row, light)
        joined = Member(
            (group_step(layout, light_row, light, node.above, places),),
            tuple(light_words[v] for v in node.shown),
            Question(self._in_light(node), (*above, *words)),
        )
        own = layout.words(each.row, layout.rows_table(node))
        steps, known = self._product(units_below(node), {**places, **own})
        keys = tuple(own[v] for v in node.keys)
        bucket = Member(
            tuple(steps), tuple(known[v] for v in node.shown), Question(self._in_bucket(node), (*keys, *inside))
        )
        buckets = Buckets(inside, each, bucket)
        heavy = Member((buckets,), inside, Question(self._in_heavy(node), (*above, *words)))
        return Union(words, (joined, heavy))

    # --- tests -------------------------------------------------------------------------------------------------------

    def _in_light(self, node: OrderNode) -> str:
        layout = self.layout
        found = Reg("found")
        key = regs((*node.above, *node.shown))
        body = (copied(found, ZERO), Find(Reg("row"), layout.light_table(node), key, (copied(found, ONE),)))
        return self._function(f"{node.label}.in_light", key, body, (found,))

    def _in_bucket(self, node: OrderNode) -> str:
        weigher = Weigher(self.layout, (0,))
        words = (*node.keys, *node.shown)
        body, weights = weigher.product(units_below(node), regs_of(words))
        return self._flag(f"{node.label}.in_bucket", words, body, weights[0])

    def _in_heavy(self, node: OrderNode) -> str:
        weigher = Weigher(self.layout, (0,))
        words = (*node.above, *node.shown)
        body, weights = weigher.heavy(node, regs_of(words))
        return self._flag(f"{node.label}.in_heavy", words, body, weights[0])

    def _flag(self, name: str, words: Sequence[Var], body: Sequence[Instruction], weight: Reg) -> str:
        found = Reg("found")
        told = (copied(found, ZERO), If(Test.NOT_EQUAL, weight, ZERO, (copied(found, ONE),)))
        return self._function(name, regs(tuple(words)), (*body, *told), (found,))

    def _function(
        self, name: str, parameters: Sequence[Reg], body: Sequence[Instruction], results: Sequence[Output]
    ) -> str:
        self.functions.append(Function(name, tuple(parameters), tuple(body), tuple(results)))
        return name

    def write_questions(self) -> None:
        """What is asked of a row of the result, and of all of them."""
        layout = self.layout
        places = regs_of(layout.outputs)
        body, weights = Weigher(layout, (0,)).product(top_units(layout), places)
        self._flag(TEST, layout.outputs, body, weights[0])
        body, weights = Weigher(layout, tuple(layout.measures)).product(top_units(layout), places)
        measures = tuple(Product((weights[j],), layout.told_width) for j in layout.measures)
        self._function(WEIGHT, regs(layout.outputs), body, measures)
        total = Reg("total", layout.result_width)
        self._function(COUNT, (Reg("once"),), counted(layout, total), (total,))


class Weigher:
    """Writes what computes some measures of a row whose words are known (hierarchical-tradeoff.md 8.5)."""

    def __init__(self, layout: Layout, measures: Sequence[int]) -> None:
        self.layout = layout
        self.measures = tuple(measures)

    def _zeros(self, unit: Unit) -> tuple[list[Instruction], dict[int, Reg]]:
        layout = self.layout
        held = [j for j in layout.carried(unit) if j in self.measures]
        found = {j: layout.fresh("weight", layout.width(unit)) for j in held}
        return [copied(r, ZERO) for r in found.values()], found

    def weight(self, unit: Unit, places: Places) -> tuple[list[Instruction], dict[int, Reg]]:
        """A unit's measures for the words that are known; 0 if they are not in it."""
        if isinstance(unit, Leaf) or not unit.shown:
            return self.looked_up(unit, self.layout.table(unit), words_of(unit), places)
        if unit.role is Role.LISTED:
            return self.product(units_below(unit), places)
        light = self.looked_up(unit, self.layout.light_table(unit), (*unit.above, *unit.shown), places)
        if unit.role is Role.JOINED:
            return light
        body, found = self.heavy(unit, places)
        return [
            *light[0],
            *body,
            *(Compute(r, Math.ADD, r, light[1][j]) for j, r in found.items()),
        ], found

    def looked_up(
        self, unit: Unit, table: str, words: Sequence[Var], places: Places
    ) -> tuple[list[Instruction], dict[int, Reg]]:
        """The measures of a table's row; 0 if there is none."""
        body, found = self._zeros(unit)
        row = self.layout.fresh("row")
        copies = tuple(copied(r, self.layout.value(row, unit, j, table)) for j, r in found.items())
        return [*body, Find(row, table, tuple(places[v] for v in words), copies)], found

    def heavy(self, node: OrderNode, places: Places) -> tuple[list[Instruction], dict[int, Reg]]:
        """What the heavy keys of a node have of a row, all together."""
        layout = self.layout
        body, found = self._zeros(node)
        row, table = layout.fresh("row"), layout.rows_table(node)
        inner, weights = self.product(units_below(node), {**places, **layout.words(row, table)})
        added = (Compute(r, Math.ADD, r, weights[j]) for j, r in found.items())
        index, key = layout.index(table, node.above), layout.index_key(table, node.above, places)
        return [*body, Scan(row, table, index, key, 0, (*inner, *added))], found

    def product(self, units: Iterable[Unit], places: Places) -> tuple[list[Instruction], dict[int, Reg]]:
        """The product over several units; those that cost a lookup first, and the others only if these are there."""
        ordered = sorted(units, key=shows)
        parts = [self.weight(u, places) for u in ordered]
        carriers = {j: next((k for k, (_, w) in enumerate(parts) if j and j in w), None) for j in self.measures}
        width = min(self.layout.result_width, sum(max(r.words for r in w.values()) for _, w in parts))
        held = [j for j in self.measures if j == 0 or carriers[j] is not None]
        found = {j: self.layout.fresh("weight", width) for j in held}
        inner: list[Instruction] = []
        for j, target in found.items():
            inner += product(target, [w[j] if k == carriers[j] else w[0] for k, (_, w) in enumerate(parts)])
        for body, weights in reversed(parts):
            inner = [*body, If(Test.NOT_EQUAL, weights[0], ZERO, tuple(inner))]
        return [*(copied(r, ZERO) for r in found.values()), *inner], found


@dataclass(frozen=True)
class _Factor:
    """What one unit contributes to the measures of a piece."""

    count: Operand
    sums: Mapping[int, Operand]

    def of(self, j: int) -> Operand:
        return self.sums.get(j, self.count)


class Pieces:
    """The cursor for who reads everything: light joins and buckets one after the other, with their own weights."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.functions: dict[str, Function] = {}

    def cursor(self) -> Cursor:
        """Rows and measures; a row may come several times."""
        layout = self.layout
        steps, places, factors = self._product(top_units(layout), {})
        words = tuple(places[v] for v in layout.outputs)
        measures = (Product(tuple(f.of(j) for f in factors), layout.told_width) for j in layout.measures)
        weights = (Product(()),) if layout.is_set else tuple(measures)
        return Cursor(PIECES, (), tuple(steps), (*words, *weights))

    def _factor(self, row: Reg, unit: Unit, table: str) -> tuple[list[Node], _Factor]:
        """The measures of a table's row, and what finds them: steps hold single words, so wider ones are asked for.

        Rows of a set have no measures: each has the weight 1, however many derivations there are.
        """
        layout = self.layout
        if layout.is_set:
            return [], _Factor(ONE, {})
        held = layout.carried(unit)
        steps: list[Node] = []
        values: dict[int, Operand] = {j: layout.value(row, unit, j, table) for j in held}
        if layout.width(unit) > 1:
            targets = {j: layout.fresh("measure") for j in held}
            key = tuple(layout.words(row, table).values())
            steps.append(Ask(tuple(targets.values()), Question(self._measures(unit, table), key)))
            values = dict(targets)
        return steps, _Factor(values[0], {j: v for j, v in values.items() if j})

    def _measures(self, unit: Unit, table: str) -> str:
        """The function that gives the measures of a table's row in one word each, or faults if they do not fit."""
        name = f"{table}.measures"
        words = self.layout.key_of(table)
        held = self.layout.carried(unit)
        body, found = Weigher(self.layout, held).looked_up(unit, table, words, regs_of(words))
        results = tuple(Product((found[j],)) for j in held)
        self.functions[name] = Function(name, regs(words), tuple(body), results)
        return name

    def _product(self, units: Iterable[Unit], places: Places) -> tuple[list[Node], dict[Var, Operand], list[_Factor]]:
        steps: list[Node] = []
        known = dict(places)
        factors: list[_Factor] = []
        for unit in units:
            if isinstance(unit, OrderNode) and unit.shown:
                more, found, weights = self._listed(unit, places)
                steps += more
                known.update(found)
                factors += weights
            else:
                row, table = self.layout.fresh("of"), self.layout.table(unit)
                more, weight = self._factor(row, unit, table)
                steps += [group_step(self.layout, row, table, words_of(unit), places), *more]
                factors.append(weight)
        return steps, known, factors

    def _listed(self, node: OrderNode, places: Places) -> tuple[list[Node], dict[Var, Operand], list[_Factor]]:
        layout = self.layout
        row = layout.fresh("piece")
        if node.role is Role.JOINED:
            table = layout.light_table(node)
            step = group_step(layout, row, table, node.above, places)
            asked, weight = self._factor(row, node, table)
            return [step, *asked], layout.words(row, table), [weight]
        table = layout.rows_table(node)
        step = group_step(layout, row, table, node.above, places)
        known = {**places, **layout.words(row, table)}
        only = layout.only_unit(node)
        if only is not None and not shows(only):
            asked, weight = self._factor(row, only, table)
            return [step, *asked], known, [weight]
        steps, found, factors = self._product(units_below(node), known)
        if node.role is Role.LISTED:
            return [step, *steps], found, factors
        return self._concat(node, places, Part((step, *steps), self._outputs(node, found, factors)))

    def _outputs(self, node: OrderNode, places: Places, factors: Sequence[_Factor]) -> tuple[Output, ...]:
        layout = self.layout
        words = tuple(places[v] for v in node.shown)
        return (*words, *(Product(tuple(f.of(j) for f in factors)) for j in layout.carried(node)))

    def _concat(
        self, node: OrderNode, places: Places, heavy: Part
    ) -> tuple[list[Node], dict[Var, Operand], list[_Factor]]:
        layout = self.layout
        row, table = layout.fresh("light"), layout.light_table(node)
        own = layout.words(row, table)
        asked, weight = self._factor(row, node, table)
        step = group_step(layout, row, table, node.above, places)
        joined = Part((step, *asked), self._outputs(node, own, [weight]))
        words = tuple(layout.fresh("word") for _ in node.shown)
        weights = {j: layout.fresh("weight") for j in layout.carried(node)}
        found: dict[Var, Operand] = dict(zip(node.shown, words, strict=True))
        factor = _Factor(weights[0], {j: r for j, r in weights.items() if j})
        return [Concat((*words, *weights.values()), (joined, heavy))], found, [factor]
