"""IVM^ε for triangles and their relatives: heavy and light keys are treated in different ways (triangle.md).

- ``shape`` finds the triangle in a query, whatever its variables are called;
- ``strategy`` judges, and hands a core to the kind that maintains it: each kind has a plan and a program of its own;
- ``listed`` plans rows of one, two or three corners, and ``compile`` puts their program together;
- ``views`` declares the parts and the views over them, ``layout`` their tables;
- ``updates`` writes how views change with an edge, ``rebalance`` how keys become heavy and light;
- ``listing`` writes how rows are read, ``deltas`` how changes are told;
- ``count`` plans counts, ``count_shape`` finds their shape, ``count_measures`` says which sums are kept of which
  relations, ``count_program`` has what their programs share, and ``count_shared``, ``loomis_whitney``, ``count_parts``
  and ``paths`` what is each one's own.
"""

from everview.strategies.triangle.strategy import Triangles

STRATEGY = Triangles()

__all__ = ["STRATEGY"]
