"""CROWN: change propagation without joins, over the best free-connex join tree (crown.md).

A core passes through, in this order:

- ``strategy``: whether it fits, and the three calls of the seam;
- ``plan``, with ``search``, ``choose``, ``connex`` and ``tree``: the tree that is taken, over atoms or, of cyclic
  queries, bags (``decomposed``);
- ``keyed``: what keys and foreign keys say of the steps that a change takes up the tree;
- ``show``: what that tree is, for ``explain``; ``enclosureness``: what a recorded log costs along it;
- ``layout``: its nodes get their tables, with levels and indexes; ``alike``, which leaves are kept as one, and
  ``factors``, what measures are products of;
- ``found``: the cursors that find rows by some columns; ``row_log`` and ``difference``: what differences to an earlier
  state are found by;
- ``extremes``: MIN and MAX of groups, kept in order along the tree;
- ``totals``, ``full_join`` and ``bags`` write the procedures, with ``roles``, which of a bag's atoms meet the same
  rows, and ``hubs``, what bags that are triangles keep of long lists;
- ``access`` writes those that keep results in order where that is asked for, and ``compile`` puts them together as one
  program; ``tested`` has one for rows that are never listed.
"""

from everview.strategies.crown.strategy import Crown

STRATEGY = Crown()

__all__ = ["STRATEGY"]
