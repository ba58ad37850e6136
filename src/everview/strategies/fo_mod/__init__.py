"""Formulas that count, over data in which every element has few neighbours: kept by the kernel's census (fo-mod.md 6).

A query passes through them in this order:

- `lower` writes a normalised formula as the census takes it, each quantifier with its guard.
"""
