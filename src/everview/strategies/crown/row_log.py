"""What is noted of a row that changes, so that differences can be found later: its words and what it weighed."""

from __future__ import annotations

from everview.kernel.program import Compute, Emit, Instruction, Lit, Math, Operand, Reg
from everview.strategies.crown.layout import Layout, Node, regs

_NOTHING = Lit(0)


def log_of(n: Node) -> str:
    """The channel on which a node notes its rows."""
    return f"{n.label}.log"


def logged(layout: Layout, n: Node, before: Operand, change: Operand = _NOTHING) -> tuple[Instruction, ...]:
    """Note that a row weighed ``before`` less the ``change``; nothing unless the plan asks for it."""
    if not layout.plan.has_log:
        return ()
    weight = Reg("before", layout.width(n, 0))
    noted = Emit(log_of(n), (*regs(n.handed), weight))
    return (Compute(weight, Math.SUBTRACT, before, change), noted)
