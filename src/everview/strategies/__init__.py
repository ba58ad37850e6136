"""The maintenance methods: each judges a core, plans it in a shape of its own, and compiles that to a kernel program.

``strategy`` has the seam that planner and engine see, ``core`` what a strategy is given, ``bounds`` and ``diagram``
what it says of itself. Each method is a folder; a new one is added here, in ``STRATEGIES``.
"""

from everview.strategies.crown import Crown
from everview.strategies.judged_only import JUDGED_ONLY
from everview.strategies.strategy import Strategy

STRATEGIES: tuple[Strategy, ...] = (Crown(),)
"""All methods that this version runs, in the order of preference: a core is maintained by the first that fits it."""

__all__ = ["JUDGED_ONLY", "STRATEGIES"]
