"""Beside the engine: what measures it, and what it is held to.

- ``change_log``: recorded updates of several tables in one order; ``replay``: a view by itself, and the log for it;
- ``oracle``: the view's query run afresh by DuckDB at any place of the log;
- ``bench``: ``everview bench``, both of them timed and compared;
- ``enclosureness``: what a log's updates cost along a view's join tree, before it is run.
"""
