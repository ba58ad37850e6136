"""What each kind of read of a view costs as the view is kept: also of those about which no theorem says anything.

An operator answers what it is asked, or its rows are listed (``engine.operators.answers``). Which of them answers what
is known without data, and a test holds what is said here against what they do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from everview.plan.part_plan import BlockPlan, PartPlan
from everview.plan.unions import Combination
from everview.plan.view_plan import ViewPlan, looked_up
from everview.query.options import ViewOptions
from everview.query.terms import Const, Var
from everview.query.view import Block, Body, Cut, Exploded, SetOperation, SetOperator, Timed, Windowed
from everview.strategies.bounds import CONSTANT, Bound
from everview.strategies.strategy import Cost, Task

PASSED = Bound(("|Q|",), Fraction(1))
"""All rows of the result are passed over."""
WALKED = Bound(("N",), Fraction(1))
"""What is stored is passed over."""
TOLD = Bound(("|Δ|",), Fraction(1))
"""As many rows as have changed."""
MERGED = "sides are merged"
APART = "equal rows are listed apart"
_ASKED = (Task.TEST, Task.COUNT, Task.ACCESS, Task.LOOKUP)
_Times = dict[Task, Bound]


def kept_costs(plan: ViewPlan) -> dict[str, Cost]:
    """What each kind of read costs, and updates for it, by the names that ``explain`` has for them."""
    bounds, main = plan.bounds, plan.main.maintenance
    times = _of_part(plan.result, _asked_for(plan.result, plan.view.options))
    by_index = plan.view.options.lookup is not None and times[Task.LOOKUP] != CONSTANT
    found = {task: Cost(bounds.update, time) for task, time in times.items()}
    ordered = main.tasks.get(Task.ACCESS)
    if times[Task.ACCESS] != PASSED and ordered is not None:
        found[Task.ACCESS] = Cost(bounds.update.plus(ordered.update), times[Task.ACCESS])
    if by_index:
        found[Task.LOOKUP] = Cost(bounds.update.plus(TOLD), CONSTANT)
    logged = len(plan.cores) == 1 and isinstance(plan.result.body, Block) and Task.DIFFERENCE in main.tasks
    found[Task.DIFFERENCE] = Cost(bounds.update, CONSTANT) if logged else Cost(bounds.update.plus(TOLD), TOLD)
    found[Task.LIST] = Cost(bounds.update, bounds.delay)
    costs = {task.value: cost for task, cost in found.items()}
    return {"answer": Cost(bounds.update, bounds.delay), **costs}


def _of_part(part: PartPlan, asked: Sequence[frozenset[int]]) -> _Times:
    body = part.body
    if len(part.blocks) == 1 and isinstance(body, Block | SetOperation):
        return _of_block(part.blocks[0], asked)
    members = [_of_block(block, asked) for block in part.blocks]
    if part.only_concatenates or part.combination is Combination.DISJOINT:
        found = {task: _slowest(times[task] for times in members) for task in _ASKED}
        return found if part.is_disjoint or part.order is not None else {**found, Task.ACCESS: PASSED}
    if part.combination is Combination.TESTED:
        return {
            Task.TEST: CONSTANT,
            Task.COUNT: CONSTANT if part.may_count else PASSED,
            Task.ACCESS: _slowest(times[Task.ACCESS] for times in members) if part.may_access else PASSED,
            Task.LOOKUP: _slowest(times[Task.LOOKUP] for times in members),
        }
    whole = all(len(columns) == len(body.columns) for columns in asked)
    return {
        Task.TEST: CONSTANT if part.combination is Combination.ASKED or _keeps_rows(body) else PASSED,
        Task.COUNT: CONSTANT if _counts(body) else PASSED,
        Task.ACCESS: PASSED,
        Task.LOOKUP: CONSTANT if whole and _keeps_rows(body) else PASSED,
    }


def how_positions_are_found(plan: ViewPlan) -> str:
    """What a read by position lists where rows are kept in no order, in words; empty where one row says where it is."""
    part = plan.result
    if part.order is not None and part.union is None:
        columns = ", ".join(part.body.columns[i].name for i in part.order.columns)
        return f"{MERGED} in the order of {columns}: a row by position, and its rank, in O(log² N)"
    whole = frozenset(range(len(part.body.columns)))
    if not plan.is_listed or _of_part(part, _asked_for(part, plan.view.options))[Task.ACCESS] != PASSED:
        return ""
    if _stand_as_listed(part):
        return "the rows before the position are listed"
    added_up = "the whole list is added up once, and kept until the next batch"
    is_looked_up = _of_part(part, [whole])[Task.LOOKUP] == CONSTANT or whole in looked_up(plan.view)
    looked = "the copies of the rows before the position are looked up, or, where that is cheaper, "
    return f"{APART}: {looked if is_looked_up else ''}{added_up}"


def _stand_as_listed(part: PartPlan) -> bool:
    """True if each row is listed once, or in the order that the view asks for."""
    body = part.body
    if part.only_concatenates or part.combination is not None:
        is_union = part.combination not in (None, Combination.DISJOINT)
        return is_union or (all(map(_lists_once, part.blocks)) and (len(part.blocks) == 1 or part.is_disjoint))
    if isinstance(body, Exploded):
        return body.has_position and _lists_once(part.blocks[0])
    return not isinstance(body, Timed)


def _lists_once(plan: BlockPlan) -> bool:
    """True if no two rows of a block's core, or groups, become one."""
    block, core = plan.block, plan.cores[0]
    terms = [o.expression.term for o in block.outputs]
    if block.grouping is not None:
        return block.distinct or all(key in terms for key in block.grouping.key_names)
    variables = frozenset(t for t in terms if isinstance(t, Var))
    return core.folds_rows or (block.distinct and None in terms) or variables >= core.maintenance.outputs


def _asked_for(part: PartPlan, options: ViewOptions) -> list[frozenset[int]]:
    """The sets of columns that look-ups are judged by: those of the options, else a group's keys, or each column."""
    places = {c.name.lower(): i for i, c in enumerate(part.body.columns)}
    if options.lookup:
        return [frozenset(places[name.lower()] for name in columns) for columns in options.lookup]
    if isinstance(part.body, Block) and part.body.grouping is not None:
        terms = [c.expression.term for c in part.body.outputs]
        keys = frozenset(terms.index(key) for key in part.body.grouping.key_names if key in terms)
        if keys:
            return [keys]
    return [frozenset((i,)) for i in range(len(part.body.columns))]


def _keeps_rows(body: Body) -> bool:
    """True if its operator keeps the rows of the result, or counts of them, and so finds any of them."""
    return isinstance(body, Cut | Windowed) or (
        isinstance(body, SetOperation) and not (body.all and body.operator is SetOperator.UNION)
    )


def _counts(body: Body) -> bool:
    """True if so many rows are kept as there are in the result."""
    if isinstance(body, Windowed):
        return True
    return isinstance(body, SetOperation) and body.operator is SetOperator.UNION and not body.all


def _of_block(plan: BlockPlan, asked: Sequence[frozenset[int]]) -> _Times:
    block, core = plan.block, plan.cores[0]
    terms = [o.expression.term for o in block.outputs]
    kept = core.maintenance.tasks
    if block.grouping is not None:
        names = block.grouping.key_names
        shows_keys = all(key in terms for key in names)
        keys = {terms.index(key) for key in names} if shows_keys else set()
        is_counted = block.distinct or (block.grouping.having is None and not (names and core.residual))
        by_keys = shows_keys and not block.distinct and all(keys <= columns for columns in asked)
        return {
            Task.TEST: CONSTANT if shows_keys or block.distinct else PASSED,
            Task.COUNT: CONSTANT if is_counted else PASSED,
            Task.ACCESS: PASSED,
            Task.LOOKUP: CONSTANT if by_keys else PASSED,
        }
    computes = None in terms
    whole = all(len(columns) == len(terms) for columns in asked)
    if core.folds_rows or (block.distinct and computes):
        return {
            Task.TEST: CONSTANT,
            Task.COUNT: CONSTANT,
            Task.ACCESS: PASSED,
            Task.LOOKUP: CONSTANT if whole else PASSED,
        }
    variables = frozenset(t for t in terms if isinstance(t, Var))
    shows_all = not computes and variables == core.maintenance.outputs
    keeps_all = not core.residual and not computes
    by_tree = all(isinstance(terms[i], Var | Const) for columns in asked for i in columns) and all(
        core.maintenance.looks_up(frozenset(t for t in (terms[i] for i in columns) if isinstance(t, Var)))
        for columns in asked
    )
    return {
        Task.TEST: kept[Task.TEST].read if shows_all and Task.TEST in kept else PASSED,
        Task.COUNT: (kept[Task.COUNT].read if Task.COUNT in kept else WALKED) if keeps_all else PASSED,
        Task.ACCESS: kept[Task.ACCESS].read if shows_all and keeps_all and Task.ACCESS in kept else PASSED,
        Task.LOOKUP: CONSTANT if by_tree else PASSED,
    }


def _slowest(times: Iterable[Bound]) -> Bound:
    """The longest of several times."""
    return max(times, key=lambda time: (time.exponent, len(time.terms)))
