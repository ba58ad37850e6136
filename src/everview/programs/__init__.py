"""What programs are made of and go through, between those that write them and the kernel that runs them.

- ``base_table``: the program of a table: a bag of rows, and keys that hold one row each;
- ``counts``: the program that keeps a few sums by row: DISTINCT, GROUP BY, set operations, nets;
- ``min_max``: the program that keeps each group's values in order;
- ``limits``: notes when a product of stored numbers may be beyond what an SQL type holds;
- ``parts``: the threshold base of heavy and light parts, exact thresholds, when to rebalance;
- ``unions``: lists what several parts hold, each row once, and asks each of them for a row;
- ``optimise``: rewrites a program into one that does the same in fewer steps, before it runs;
- ``link``: the programs of a view's parts as one, so that the view is one unit.

Strategies and operators of the engine use them; they know no queries.
"""
