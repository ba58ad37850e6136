"""From a SELECT block to the conjunctive cores that maintain it (crown.md 8, 9).

Sums and counts live in the core itself, as annotations from a ring. What has no inverse or counts distinct values gets
a core of its own that lists the distinct (group, value) pairs, and a small operator on its changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from everview.query.aggregates import Chosen, Counted, Ordered, Packed, Spread, Summed
from everview.query.conjunctive import ConjunctiveQuery, Semantics
from everview.query.hypergraph import is_acyclic
from everview.query.options import NO_OPTIONS
from everview.query.terms import Expression, Term, Var
from everview.query.types import MOST_DIGITS, Kind
from everview.query.view import Aggregate, Block, View
from everview.strategies.core import Core, Extreme

MOST_FACTORS = 3
"""The sums of so many factors of 64 bits, with the numbers of their rows, fit the words that there are."""


def cores_of(block: Block, name: str, extremes: tuple[Extreme, ...] = ()) -> tuple[Core, ...]:
    """The cores of a block; the first is the one that gives the result's rows, and has these ``extremes``."""
    return _grouped(block, name, extremes) if block.grouping else (_plain(block, name),)


def _plain(block: Block, name: str) -> Core:
    outputs = [o.expression for o in block.outputs]
    semantics = Semantics.SET if block.distinct else Semantics.BAG
    terms = [e.term for e in outputs]
    operators: list[str] = []
    if all(t is not None for t in terms):
        head: tuple[Term, ...] = tuple(t for t in terms if t is not None)
    else:
        head = _variables(outputs)
        computed = ", ".join(str(e) for e in outputs if e.term is None)
        operators.append(f"compute {computed}")
        if block.distinct:
            operators.append("count derivations of each computed row (DISTINCT)")
    return Core("result", _query(block, head, semantics, name), tuple(operators))


def extremes_of(block: Block) -> tuple[Extreme, ...]:
    """What a core might keep in order itself: MIN, MAX and the like of one table's rows, where its rows are groups."""
    grouping = block.grouping
    if grouping is None or not all(isinstance(k.term, Var) for k in grouping.keys):
        return ()
    if any(is_summed(a) and a.argument is not None and not summed_at(block, a) for a in grouping.aggregates):
        return ()
    values: list[Expression] = []
    found = []
    for aggregate in grouping.aggregates:
        made, argument = aggregate.function.made, aggregate.argument
        atom = None if argument is None else covering_atom(block, argument)
        if not isinstance(made, Ordered | Chosen) or argument is None or atom is None:
            continue
        if argument not in values:
            values.append(argument)
        found.append(Extreme(aggregate, atom, values.index(argument), made.highest))
    return tuple(found)


def _grouped(block: Block, name: str, extremes: tuple[Extreme, ...]) -> tuple[Core, ...]:
    grouping = block.grouping
    assert grouping is not None
    keys = _variables(grouping.keys)
    summed = tuple(a for a in grouping.aggregates if is_summed(a))
    after = []
    if any(len(k.variables) > 1 or (k.term is None and k.variables) for k in grouping.keys):
        after.append("group by " + ", ".join(str(k) for k in grouping.keys))
    if grouping.having is not None:
        after.append("filter groups (HAVING)")
    if any(o.expression.term is None for o in block.outputs):
        after.append("compute output columns from groups")
    if block.distinct:
        after.append("count derivations of each row (DISTINCT)")
    if not grouping.keys:
        after.append("one row even over no input")
    spread = tuple(a for a in summed if a.argument and not summed_at(block, a))
    multiplies = any(len(summed_at(block, a)) > 1 for a in summed)
    risks = any(map(is_watched, summed))
    extra = _variables([a.argument for a in spread if a.argument], apart_from=keys)
    in_order = tuple(e.aggregate for e in extremes)
    after += [f"watch the factors of {a}: no row's product may leave its type" for a in summed if is_watched(a)]
    own = [f"sum up {a} over several tables' columns" for a in spread]
    result = _query(block, (*keys, *extra), Semantics.BAG, name)
    listed = [a for a in grouping.aggregates if a not in summed and a not in in_order]
    plain = all(isinstance(k.term, Var) for k in grouping.keys)
    folded = bool(listed or spread or block.distinct or not plain)
    filtered = grouping.having is not None
    operators = (*own, *after)
    main = Core(
        "result",
        result,
        operators,
        (*summed, *in_order),
        grouped=True,
        folded=folded,
        sums_up=True,
        multiplies=multiplies,
        risks=risks,
        filtered=filtered,
        extremes=extremes,
    )
    return (main, *(_listing_core(block, a, keys, name) for a in listed))


def is_summed(aggregate: Aggregate) -> bool:
    """True if the core itself can keep it, as exact integer sums: counts, and sums of integers and decimals.

    Squares are kept if they have at most 128 bits.
    """
    if aggregate.distinct or not isinstance(aggregate.function.made, Counted | Summed | Spread | Packed):
        return False
    if aggregate.argument is None or aggregate.counts is not None or aggregate.function.is_count:
        return True
    type_ = aggregate.argument.type
    most = 18 if aggregate.function.has_squares else MOST_DIGITS
    return type_.is_integer or type_.kind is Kind.DAY_TIME or (type_.kind is Kind.DECIMAL and type_.precision <= most)


def _listing_core(block: Block, aggregate: Aggregate, keys: tuple[Var, ...], name: str) -> Core:
    """A core that lists the values of each group: distinct ones, or (sums of doubles) with their copies."""
    assert aggregate.argument is not None
    extra = _variables([aggregate.argument], apart_from=keys)
    as_set = aggregate.distinct or aggregate.function.ignores_copies
    semantics = Semantics.SET if as_set else Semantics.BAG
    kind = "sum up exactly, without rounding on the way,"
    if not aggregate.function.has_inverse:
        kind = "ordered values of each group"
    elif aggregate.distinct:
        kind = "fold in each group's distinct values"
    query = _query(block, (*keys, *extra), semantics, name)
    keeps = not aggregate.function.has_inverse
    return Core(str(aggregate), query, (f"{kind} for {aggregate}",), (aggregate,), keeps, grouped=True, folded=True)


def _query(block: Block, head: Iterable[Term], semantics: Semantics, name: str) -> ConjunctiveQuery:
    return ConjunctiveQuery(tuple(head), block.atoms, block.predicates, semantics, block.not_null, name)


def _variables(expressions: Iterable[Expression], apart_from: Iterable[Var] = ()) -> tuple[Var, ...]:
    """The variables of expressions, in the order in which they are first named."""
    known = set(apart_from)
    named = (p for e in expressions for p in e.parts if isinstance(p, Var))
    return tuple(v for v in dict.fromkeys(named) if v not in known)


def summed_at(block: Block, aggregate: Aggregate) -> dict[int, tuple[Expression, ...]]:
    """The atoms of which a core sums up an aggregate's argument, each with its factors; none if it spans them.

    One atom has all columns of an argument; or each has those of some factors, if it is a product.
    """
    for parts in ((aggregate.argument,), aggregate.factors):
        found: dict[int, tuple[Expression, ...]] = {}
        for part in parts:
            atom = None if part is None else covering_atom(block, part)
            if part is None or atom is None:
                break
            found[atom] = (*found.get(atom, ()), part)
        else:
            if found:
                return found
    return {}


def watched(block: Block) -> Block:
    """The block with risky products summed up as any others, as far as each factor is of another table's row.

    Then the largest size of each factor has to be watched, by what of it comes in with each update.
    """
    if block.grouping is None:
        return block

    aggregates = block.grouping.aggregates
    valued = {a.argument for a in aggregates if is_summed(a) and not a.function.is_count}

    def taken(aggregate: Aggregate) -> Aggregate:
        found = replace(aggregate, factors=aggregate.risky)
        if not aggregate.risky or not is_summed(aggregate) or aggregate.argument not in valued:
            return aggregate
        atoms = summed_at(block, found)
        is_apart = 1 < len(atoms) <= MOST_FACTORS and all(len(factors) == 1 for factors in atoms.values())
        return found if is_apart else aggregate

    if not any(a.risky for a in aggregates) or not is_acyclic([a.variables for a in block.atoms]):
        return block
    aggregates = tuple(map(taken, aggregates))
    return replace(block, grouping=replace(block.grouping, aggregates=aggregates))


def is_watched(aggregate: Aggregate) -> bool:
    """True if it is summed up factor by factor, though a row's product may leave its type."""
    return bool(aggregate.risky) and aggregate.factors == aggregate.risky


def careful(view: View) -> View:
    """The view with each row's product made that may leave its type, and nothing kept but that."""
    assert isinstance(view.body, Block)
    assert view.body.grouping is not None
    grouping = view.body.grouping
    aggregates = tuple(replace(a, risky=(), most=None) for a in grouping.aggregates)
    return replace(view, body=replace(view.body, grouping=replace(grouping, aggregates=aggregates)), options=NO_OPTIONS)


def covering_atom(block: Block, expression: Expression) -> int | None:
    """The first atom that has all variables of an expression."""
    return next((i for i, a in enumerate(block.atoms) if expression.variables <= a.variables), None)
