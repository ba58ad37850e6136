"""CROWN: change propagation without joins, over the best free-connex join tree (crown.md).

``plan`` finds the tree (``search``, ``choose``, ``connex``), ``show`` says what it is, ``layout`` gives its nodes their
tables, ``totals``, ``full_join`` and ``bags`` write the procedures, and ``compile`` puts them together.
"""

from everview.strategies.crown.strategy import Crown

STRATEGY = Crown()

__all__ = ["STRATEGY"]
