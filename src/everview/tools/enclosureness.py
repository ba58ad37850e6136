"""``everview.enclosureness``: what a view's updates cost along its join tree, told from a recorded log (crown.md 7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from os import PathLike
from typing import Any

import pyarrow.compute as pc

from everview.engine.batch import encoded
from everview.engine.database import Database
from everview.engine.operators.join import Join
from everview.errors import OverDeleteError, UnsupportedError
from everview.plan.core_plan import CorePlan
from everview.strategies.bounds import ENCLOSURE, Bound
from everview.strategies.crown.enclosureness import Enclosureness, Lifespan, LifespanRecorder, RelationEnclosureness
from everview.strategies.crown.enclosureness import enclosureness as of_tree
from everview.strategies.crown.plan import COUNTING_STEPS, CrownPlan
from everview.strategies.crown.search import SearchCutError, join_trees
from everview.strategies.crown.tree import JoinTree
from everview.tools.change_log import WINDOW, Log, TableUpdates
from everview.tools.replay import log_for, one_view

(LAMBDA,) = ENCLOSURE.terms


@dataclass(frozen=True)
class CoreEnclosureness:
    """λ for the tree of one of a view's cores."""

    plan: CorePlan
    tree: CrownPlan
    found: Enclosureness
    compared: tuple[tuple[JoinTree, float], ...] = ()
    """Other trees with their λ, the least first, if they were asked for."""
    cut: bool = False
    """True if there may be further trees, which took too long to find."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "core": self.plan.core.role,
            "tree": self.tree.summary,
            "height": self.tree.height,
            "lambda": self.found.value,
            "sequence": self.found.sequence,
            "relations": [self._relation(r) for r in self.found.relations],
            "other_trees": [
                {"tree": tree.show(self.tree.labels), "height": tree.height, "lambda": value}
                for tree, value in self.compared
            ],
            "cut": self.cut,
        }

    def _relation(self, found: RelationEnclosureness) -> dict[str, Any]:
        label = self.tree.labels[found.relation]
        return {"relation": label, "depth": found.depth, "rows": found.rows, "mean": found.mean, "most": found.most}

    def lines(self) -> list[str]:
        """As lines of text."""
        data = self.to_dict()
        lines = [f"tree        {data['tree']}, height {data['height']}"]
        wide = max(len(r["relation"]) + 2 * r["depth"] for r in data["relations"])
        for r in data["relations"]:
            name = f"{'  ' * r['depth']}{r['relation']}"
            lines.append(f"            {name:<{wide}}  {r['rows']:>10,} rows  λ {r['mean']:.2f}, at most {r['most']:,}")
        lines.append(f"λ           {data['lambda']:.2f} for the tree, {data['sequence']:.2f} for the updates alone")
        for other in data["other_trees"]:
            lines.append(f"            {other['lambda']:.2f} for {other['tree']}, height {other['height']}")
        if self.cut:
            lines.append("            the search for other trees was cut: there may be more of them")
        return lines


@dataclass(frozen=True)
class ViewEnclosureness:
    """λ for every core of a view, and the cost that it predicts; ``str()`` is text, ``to_dict()`` data."""

    view: str
    bound: Bound
    """What an update costs, as it is known before the run."""
    updates: int
    cores: tuple[CoreEnclosureness, ...]
    left_out: tuple[str, ...]
    """Cores whose λ cannot be told from the log, and why."""

    @property
    def value(self) -> float:
        """The largest λ of the view's cores."""
        return max(c.found.value for c in self.cores)

    @property
    def prediction(self) -> str:
        """What an update of this log costs, in words."""
        if LAMBDA not in self.bound.terms:
            return f"{self.bound.short} an update, whatever λ is"
        rest = tuple(t for t in self.bound.terms if t != LAMBDA)
        if self.value == 1 and self.left_out:
            return f"{self.bound.short} an update, amortised: λ is 1 where it can be told"
        if self.value == 1:
            at_best = Bound(rest, self.bound.exponent if rest else Fraction(0))
            return f"{at_best.short} an update, amortised: λ is 1, as small as it can be"
        return f"{self.bound.short} an update, amortised: λ makes it up to {self.value:.1f} × as dear as where it is 1"

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "view": self.view,
            "updates": self.updates,
            "lambda": self.value,
            "prediction": self.prediction,
            "cores": [c.to_dict() for c in self.cores],
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        lines = [f"view        {self.view}, {self.updates:,} updates"]
        for core in self.cores:
            lines += core.lines()
        lines.append(f"predicts    {self.prediction}")
        lines += [f"left out    {reason}" for reason in self.left_out]
        return "\n".join(lines)


def enclosureness(
    query: str,
    log: Mapping[str, Any] | str | PathLike[str],
    schema: str | None = None,
    *,
    initial: Collection[str] = (),
    window: float = WINDOW,
    trees: int = 0,
) -> ViewEnclosureness:
    """Say what a log's updates cost for a view: λ of its join tree, and where in the tree it comes from.

    Args:
        query: one view, as ``everview.explain`` takes it.
        log: for each table a file or Arrow data, or a folder of such files; see ``everview.tools.change_log``.
        schema: CREATE TABLE statements, if they do not stand before the query.
        initial: tables whose rows are there before the first update.
        window: the share of a table's rows that a sliding window holds, where the data does not say which rows go.
        trees: also compare so many other join trees of the query.

    Example:
        >>> import pyarrow as pa
        >>> follows = pa.table({"src": [1, 2, 1], "dst": [2, 3, 2], "_change_type": ["insert", "insert", "delete"]})
        >>> print(enclosureness("SELECT a.src, b.dst AS far FROM follows a JOIN follows b ON a.dst = b.src",
        ...                     {"follows": follows}, "CREATE TABLE follows (src BIGINT, dst BIGINT)").prediction)
        O(1) an update, whatever λ is
    """
    db = one_view(query, schema)
    return view_enclosureness(db, log_for(db, log, initial=initial, window=window), trees)


def view_enclosureness(db: Database, log: Log, trees: int = 0) -> ViewEnclosureness:
    """λ for the cores of a database's only view, and for so many other trees of each."""
    (runtime,) = db._views.values()
    found: list[CoreEnclosureness] = []
    left_out: list[str] = []
    for core in runtime.cores:
        plan = _tree_for(core, db)
        if isinstance(plan, str):
            left_out.append(plan)
        else:
            lifespans = _lifespans(core, len(plan.relations), db, log)
            chosen = of_tree(plan.tree, lifespans)
            found.append(CoreEnclosureness(core.plan, plan, chosen, *_compared(plan, lifespans, trees)))
    if not found:
        raise UnsupportedError(
            f"λ cannot be told from the log: {left_out[0]}",
            construct="enclosureness",
            hint="everview explain has the bound on an update, everview bench measures it",
        )
    bound = runtime.plan.bounds.update
    return ViewEnclosureness(runtime.view.name, bound, len(log), tuple(found), tuple(left_out))


def _tree_for(core: Join, db: Database) -> CrownPlan | str:
    """The join tree whose updates the log has, or why it does not have them."""
    plan = core.plan.maintenance
    if not isinstance(plan, CrownPlan):
        return f"{core.plan.strategy.name} maintains no join tree"
    if plan.decomposition is not None:
        return f"{plan.summary} has joins as nodes (the query is cyclic)"
    stages = sorted({a.relation for a in core.plan.query.atoms} - set(db.tables))
    return f"{', '.join(stages)} is computed by the view itself" if stages else plan


def _compared(
    plan: CrownPlan, lifespans: Sequence[Sequence[Lifespan]], limit: int
) -> tuple[tuple[tuple[JoinTree, float], ...], bool]:
    """Other trees for the core, with their λ, the least first; and whether the search for them was cut."""
    trees = join_trees(plan.tree.edges, plan.tree.free, None, COUNTING_STEPS)
    found: list[tuple[JoinTree, float]] = []
    cut = False
    try:
        for tree in islice((t for t in trees if t.root != plan.tree.root), limit):
            found.append((tree, of_tree(tree, lifespans).value))
    except SearchCutError:
        cut = True
    return tuple(sorted(found, key=lambda one: (one[1], one[0].height))), cut


def _lifespans(core: Join, relations: int, db: Database, log: Log) -> list[list[Lifespan]]:
    """When the rows of each relation of the core's tree were there, as its atoms see them."""
    recorders = [LifespanRecorder() for _ in range(relations)]
    for name, updates in log.tables.items():
        if not len(updates) or not core.reads(name):
            continue
        changes = encoded(db._tables[name], updates.rows, updates.weights, 0)
        for atom, words, fits in core.atom_inputs(changes):
            mask = pc.equal(fits, 1)
            columns = [c.filter(mask).to_pylist() for c in words]
            weights, places = updates.weights.filter(mask).to_pylist(), updates.at.filter(mask).to_pylist()
            rows = zip(*columns, strict=True) if columns else iter([()] * len(weights))
            recorder = recorders[atom]
            for i, (row, weight, at) in enumerate(zip(rows, weights, places, strict=True)):
                if not recorder.update(row, weight, at):
                    raise _not_there(updates, pc.indices_nonzero(mask)[i].as_py())
    return [r.lifespans() for r in recorders]


def _not_there(updates: TableUpdates, update: int) -> OverDeleteError:
    """The refusal of an update that deletes what no update has inserted."""
    name, row = updates.table.name, updates.row_of(update)
    values = ", ".join(repr(column[update].as_py()) for column in updates.rows.columns)
    return OverDeleteError(
        f"data of {name}, row {row}: deletes ({values}), which is not there",
        table=name,
        row=row,
        hint="delete only rows, and copies of rows, that were inserted",
    )
