"""The values of aggregates: what a core sums up by itself, and what needs state of its own.

- ``sums``: SUM, AVG, COUNT and variances of exact numbers, from integer sums that the join keeps with each group;
- ``in_tree``: MIN, MAX, MIN_BY and MAX_BY that it keeps in order itself, read off its tree;
- ``distinct``: COUNT(DISTINCT …), a number that is kept with each group, with its values along a core of their own;
- ``accumulators``: what it cannot sum up: other DISTINCT ones, sums of doubles, bits; ``shapes``: higher powers, pairs;
  ``product``: PRODUCT;
- ``accumulated``: an aggregate with such state, kept along a core of its own;
- ``min_max``: others of these, along a core of their own: each group's values in order, in the kernel;
- ``gathered``: lists, texts, percentiles and the most frequent value: the same, with ranks;
- ``packed``: a part of a group as bytes, for the step that puts parts of several shards together.

What an aggregate is made of stands in its entry (``query/aggregates.py``).
"""
