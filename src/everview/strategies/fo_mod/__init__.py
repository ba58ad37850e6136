"""Formulas that count, over data in which every element has few neighbours: kept by the kernel's census (fo-mod.md 6).

A query passes through them in this order:

- `strategy` says of a core why it is not kept so: cores are bags of joins, and formulas are views of their own;
- `plan` is a formula's verdict before there is data: radii, guards, tier, bounds and promises;
- `lower` writes a normalised formula as the census takes it, each quantifier with its guard.
"""

from everview.strategies.fo_mod.strategy import STRATEGY

__all__ = ["STRATEGY"]
