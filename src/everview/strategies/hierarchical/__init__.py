"""The ε dial for hierarchical queries: updates in N^(δε) and reads with delay N^(1−ε), for any ε from 0 to 1.

What passes through it, in this order:

- ``order``: the canonical variable order, and what each of its nodes is: listed, summed, split, or joined ahead;
- ``layout``: the tables that are kept for the nodes; ``joins``: nested loops over them;
- ``updates``: what an update changes; ``loading``: the state made of all rows at once;
- ``rebalance``: when keys become heavy or light, and what moves then;
- ``listing``: cursors that list the result, and functions that test, weigh and count;
- ``show``: the order in words and boxes; ``plan``: all of it with ε and its bounds;
- ``compile`` puts the program together, ``strategy`` judges, plans and compiles for planner and engine.
"""

from everview.strategies.hierarchical.strategy import Hierarchical

STRATEGY = Hierarchical()

__all__ = ["STRATEGY"]
