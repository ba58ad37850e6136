"""An explanation as text for a terminal: a drawn tree, aligned bounds, one line a reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, fields
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING

from everview.plan.core_plan import CorePlan
from everview.plan.hardness import VERDICTS, Task
from everview.plan.reads import APART, MERGED
from everview.query.show import show_query
from everview.strategies.bounds import power
from everview.strategies.dial import Dial, Exponents

if TYPE_CHECKING:
    from everview.plan.explain import Explanation
    from everview.plan.part_plan import PartPlan

WIDTH = 118
MARGIN = 12
CLASS_NAMES = {
    "acyclic": "acyclic",
    "free_connex": "free-connex",
    "hierarchical": "hierarchical",
    "q_hierarchical": "q-hierarchical",
    "t_hierarchical": "t-hierarchical",
    "self_join_free": "self-join-free",
}
SEQUENCES = {
    "any": "any updates",
    "fifo": "sliding windows (FIFO)",
    "insert_only": "inserts only",
    "keyed": "updates that replace no row at which others point",
}


def render_text(explanation: Explanation) -> str:
    """The whole verdict."""
    plan = explanation.plan
    columns = ", ".join(f"{c.name} {c.type}" for c in plan.view.columns)
    lines = entry("view", f"{plan.view.name}({columns})")
    if plan.view.options:
        lines += entry("options", str(plan.view.options))
    lines += entry("verdict", verdict_line(explanation))
    single = len(plan.cores) == 1
    for part in plan.parts:
        lines += _part(explanation, part, single)
    bounds = plan.bounds.to_dict()
    lines += tables("bounds", bounds.items())
    lines += entry("constant", f"for {_sequences(plan.constant_update_for)}")
    lines += entry("hardness", explanation.lower_bound or "none: constant time is reached, nothing can beat it")
    lines += tables("tasks", tasks_lines(explanation.view_tasks))
    lines += tables("as kept", kept_lines(explanation.view_tasks))
    if (access := explanation.view_tasks.get("access")) is not None and access.how.startswith((APART, MERGED)):
        lines += entry("positions", access.how)
    rejected = [(c.strategy, c.reason) for c in plan.main.candidates if not c.chosen]
    lines += tables("not taken", rejected)
    for note in explanation.notes:
        lines += entry("note", note)
    lines += entry("", _legend("\n".join(lines)))
    for title, text in explanation.sections:
        lines += ["", f"── {title} " + "─" * max(4, 60 - len(title)), *text.splitlines()]
    return "\n".join(lines)


def tasks_lines(tasks: Mapping[str, Task]) -> Iterable[tuple[str, str]]:
    """Which kinds of reads are constant, logarithmic, hard (with the conjecture) or unknown (with the reason)."""
    alike: dict[tuple[str, str], list[str]] = {}
    for name, task in tasks.items():
        said = f"unless {task.unless} fails" if task.unless else task.reason if task.verdict == "unknown" else ""
        alike.setdefault((task.verdict, said), []).append(name)
    for (verdict, said), names in sorted(alike.items(), key=lambda found: VERDICTS.index(found[0][0])):
        if names == ["lookup"] and verdict == "hard":
            said = tasks["lookup"].reason  # By which columns, only it says.
        yield verdict, ", ".join(names) + (f" — {said}" if said else "")


def kept_lines(tasks: Mapping[str, Task]) -> Iterable[tuple[str, str]]:
    """What reads cost as the view is kept, where the verdict does not say so: those that are hard, or unknown."""
    alike: dict[str, list[str]] = {}
    for name, task in tasks.items():
        if task.kept is not None and task.verdict in ("hard", "unknown"):
            alike.setdefault(str(task.kept.read), []).append(name)
    return [(time, ", ".join(names)) for time, names in alike.items()]


def _sequences(kinds: Sequence[str]) -> str:
    if "any" in kinds:
        return SEQUENCES["any"]
    return " and ".join(SEQUENCES[k] for k in kinds) or "no kind of updates"


def verdict_line(explanation: Explanation) -> str:
    """What an update and a read cost, in one sentence."""
    kinds = explanation.plan.constant_update_for
    bounds = explanation.plan.bounds
    if not explanation.plan.is_listed:
        return "every update takes constant time; a row is tested in constant time, and none is listed"
    reading = "constant delay" if not (bounds.delay.terms or bounds.delay.exponent) else f"delay {bounds.delay}"
    if "any" in kinds:
        return f"every update takes constant time; reads with {reading}"
    if explanation.plan.is_constant_as_declared:
        return f"amortised constant time per update, as its tables are declared to change; reads with {reading}"
    if "keyed" in kinds:
        return f"amortised constant time per update, unless a batch replaces a row at which others point; {reading}"
    if kinds:
        return f"constant time per update for {_sequences(kinds)}, {bounds.update.short} for others; {reading}"
    return f"{bounds.update.short} per update; reads with {reading}"


def _part(explanation: Explanation, part: PartPlan, single: bool) -> list[str]:
    lines: list[str] = []
    if not single:
        why = f" — {part.purpose}" if part.purpose else ""
        lines += ["", f"── {part.name}{why} " + "─" * max(4, 60 - len(part.name) - len(why))]
    for operator in part.operators:
        lines += entry("operator", operator)
    if part.union:
        lines += entry("union", _union_line(part))
    if part.union and explanation.plan.view.options.access and part is explanation.plan.result:
        lines += entry("access", _positions_line(part))
    for coefficient, term in part.terms:
        lines += entry("counted", f"{coefficient:+d} · {show_query(term.cores[0].query)}")
    for block in part.blocks:
        for core in block.cores:
            title = block.label if block.label != part.name else ""
            if core.core.role != "result":
                title = f"{title} for {core.core.role}".strip()
            lines += _core(explanation, core, title)
    if not single:
        lines.append("")
    return lines


def _union_line(part: PartPlan) -> str:
    assert part.union is not None
    verdict = part.union
    flags = [
        ("q-hierarchical", verdict.q_hierarchical),
        ("t-hierarchical", verdict.t_hierarchical),
        ("exhaustively q-hierarchical", verdict.exhaustively_q_hierarchical),
        ("strongly exhaustively q-hierarchical", verdict.strongly_exhaustively_q_hierarchical),
    ]
    shown = "  ".join(f"{n} {'?' if f is None else '✓' if f else '✗'}" for n, f in flags)
    return shown + (f"; counting is hard: {verdict.obstacle}" if verdict.obstacle else "")


def _positions_line(part: PartPlan) -> str:
    why = part.why_unordered
    if why is not None:
        return f"positions are found by listing, {why}"
    assert part.order is not None
    names = ", ".join(part.body.columns[i].name for i in part.order.columns)
    return (
        f"members and overlaps are kept in the order of {names}: a row by position in O(log N), its rank in O(log² N)"
    )


def _core(explanation: Explanation, core: CorePlan, title: str) -> list[str]:
    lines = entry("part", title) if title else []
    verdict = core.classification
    lines += entry("query", show_query(core.core.query))
    if core.query.atoms != core.core.query.atoms:
        lines += entry("core", show_query(core.query))
    lines += entry("classes", "  ".join(f"{CLASS_NAMES[n]} {'✓' if f else '✗'}" for n, f in verdict.flags().items()))
    reasons: dict[str, list[str]] = {}
    for name, reason in verdict.witnesses().items():
        reasons.setdefault(reason, []).append(CLASS_NAMES[name])
    for reason, classes in reasons.items():
        lines += entry("", f"✗ {', '.join(classes)}: {reason}")
    if verdict.widths and not verdict.q_hierarchical:
        w = verdict.widths
        tight = f" (tight {w.delta_tight})" if w.delta_tight != w.delta else ""
        lines += entry("widths", f"w = {w.w}, δ = {w.delta}{tight}")
    lines += entry("strategy", f"{core.strategy.name} — {core.maintenance.reason}")
    if core.dial:
        lines += _dial(core.dial)
    for name, text in core.maintenance.notes():
        lines += entry(name, text)
    for condition in core.filters:
        lines += entry("filter", f"{condition} — checked before an update enters")
    for condition in core.residual:
        lines += entry("check", f"{condition} — across relations, on each result as it is listed")
    for operator in core.core.operators:
        lines += entry("then", operator)
    diagram = core.maintenance.diagram
    lines += entry(diagram.kind, diagram.title)
    lines += [" " * MARGIN + line for line in diagram.root.lines()]
    return lines


def _dial(dial: Dial) -> list[str]:
    """What an update, the delay, the state and building it cost along the dial; an arrow shows where it stands."""
    rows = [["ε", *(f.name for f in fields(Exponents))]]
    rows += [[str(e), *(power(x).short for x in astuple(costs))] for e, costs in dial.curve]
    marks = ["", *("←" if e == dial.chosen.epsilon else "" for e, _ in dial.curve)]
    widths = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    lines = ["".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in rows]
    margins = ["dial", *[""] * len(dial.curve)]
    return [f"{m:<{MARGIN}}{line}{mark}".rstrip() for m, line, mark in zip(margins, lines, marks, strict=True)]


def entry(name: str, text: str) -> list[str]:
    """A name in the margin and its text, wrapped beside it."""
    rows = wrap(text, WIDTH - MARGIN, break_long_words=False) or [""]
    return [f"{name:<{MARGIN}}{rows[0]}".rstrip(), *(" " * MARGIN + row for row in rows[1:])]


def tables(name: str, rows: Iterable[tuple[str, str]]) -> list[str]:
    """Pairs beside each other, with a name in the margin of the first; neither side takes more than half of a line."""
    listed = list(rows)
    half = (WIDTH - MARGIN) // 2
    width = min(half, max((len(left) for left, _ in listed), default=0) + 2)
    lines: list[str] = []
    for left, right in listed:
        lefts = wrap(left, width - 2, break_long_words=False)
        rights = wrap(right, WIDTH - MARGIN - width, break_long_words=False)
        for of_left, of_right in zip_longest(lefts, rights, fillvalue=""):
            margin = name if not lines else ""
            lines.append(f"{margin:<{MARGIN}}{of_left:<{width}}{of_right}".rstrip())
    return lines


def _legend(text: str) -> str:
    known = [
        ("N", "N: rows stored"),
        ("←", "←: where the dial stands"),
        ("λ", "λ: enclosureness of the updates, 1 for windows and inserts on shallow trees"),
        ("Δ", "Δ: rows changed"),
        ("|Q|", "|Q|: rows of the result"),
        ("γ", "γ: any positive constant"),
        ("●", "●: listed when the result is read"),
        ("○", "○: only has to match"),
    ]
    return "; ".join(said for symbol, said in known if symbol in text)
