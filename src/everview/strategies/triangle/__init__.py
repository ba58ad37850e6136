"""IVM^ε for triangles and their relatives: heavy and light keys are treated in different ways (triangle.md).

- ``shape`` finds the triangle in a query, whatever its variables are called;
- ``strategy`` judges, and hands a core to the kind that maintains it: each kind has a plan and a program of its own;
- ``listed``: rows of one, two or three corners; ``views`` declares what is stored, ``updates`` writes how it changes,
  ``rebalance`` how keys become heavy and light, ``listing`` how rows are read.
"""

from everview.strategies.triangle.strategy import Triangles

STRATEGY = Triangles()

__all__ = ["STRATEGY"]
