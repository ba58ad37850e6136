"""What a view is built of: deltas pass from the join below through what follows it, each operator with its state.

In the order in which a delta passes:

- ``build``: a plan becomes operators, when the view is defined;
- ``join``: a core, its strategy's program in the kernel: updates of tables in, its delta out;
- ``atoms``: what each of its atoms takes of a relation's rows;
- ``fetched``: its rows, chunk by chunk; ``row_test``: whether a row is there; ``gauges``: what its strategy counts;
- ``steps``: what a fault of the kernel means in a batch;
- ``select``: a block without grouping: conditions across relations, computed columns, DISTINCT;
- ``group_by``: a grouped block: sums by group, ``aggregates`` beside them, then ``group_output`` makes rows of groups;
- ``formula``: a view by formula, kept by the kernel's census;
- ``sides``: what has several of these below it; ``united``: UNION of queries, whose members are asked for a row;
  ``union_positions``: which of its rows stands where;
- ``set_operations``: UNION ALL, and UNION, EXCEPT and INTERSECT by counting rows; ``merged``: which row of a UNION ALL
  stands where, if its sides are kept in one order;
- ``moments``: sums over products of a join's columns, beside any of these;
- ``exploded``: the rows of a block, once for each element of an array;
- ``timed``: the rows of a relation that come and go by the clock;
- ``first_rows``: the first rows of any of these in an order; ``windowed``: window functions over them;
- ``indexed``: the rows of any of these with an index, for look-ups that options ask for;
- ``counts``: what several of them keep: a few sums for every distinct row; ``netting``: a batch added up before;
- ``difference``: what a join's result has that it had not, or has not, in an earlier state;
- ``answers``: what each can be asked without listing: count, test, access, rank, look-up.
"""
