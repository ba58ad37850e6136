"""Row expressions at work: conditions, computed columns, arguments of aggregates, never evaluated by us.

- ``check_supported``: asked when a view is defined, whether everything in it can be computed here;
- ``evaluate``: some expressions over the same variables, compiled once, run on batch after batch;
- ``by_arrow``: the simple ones, a column at a time; all others are DuckDB's;
- ``window_query``: window functions, over the rows of whole partitions, which DuckDB computes;
- ``parked``: rows and groups that one fails on, which a batch may pass through but must not end with.
"""
