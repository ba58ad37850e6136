"""The maintenance methods: each judges a core, plans it in a shape of its own, and compiles that to a kernel program.

A core passes through ``judge``, ``plan`` and ``compile`` of the strategy that is taken:

- ``strategy`` has the seam that planner and engine see, ``core`` what a strategy is given;
- ``dial`` says which ε a strategy with heavy and light parts takes, and whether it pays;
- ``bounds`` and ``diagram`` are what it says of itself, ``explain`` shows them;
- each method is a folder with a ``STRATEGY``; a new one is added by its name in ``FOLDERS``, in order of preference;
- ``judged_only`` has those that this version does not run, so that ``explain`` can say what they would give.
"""

from importlib import import_module

from everview.strategies.judged_only import JUDGED_ONLY
from everview.strategies.strategy import Strategy

FOLDERS = (
    "crown",
    "triangle",
    "hierarchical",
    "fo_mod",
)  # fmt: skip
"""The folders of all methods that this version runs, in the order of preference."""

STRATEGIES: tuple[Strategy, ...] = tuple(import_module(f"{__name__}.{folder}").STRATEGY for folder in FOLDERS)
"""The methods themselves: a core is maintained by the first that fits it and is advised, else the first that fits."""

__all__ = ["FOLDERS", "JUDGED_ONLY", "STRATEGIES"]
