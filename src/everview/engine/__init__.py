"""The embedded database: what users call, and what happens to a batch on its way through tables and views.

- ``database`` has the public calls, ``definitions`` what CREATE and DROP do, ``run_query`` a SELECT;
- ``explain`` gives a view's verdict;
- ``batch`` is what a user wants changed; ``input`` reads rows of any form, ``values`` are words and rows of words;
- ``transaction`` is the one place in which a batch is run: tables (``base_table``) first, whose foreign keys
  (``references``) and kinds of changes (``update_kinds``) are judged then, and then every view behind them
  (``readers``); ``refusals`` finds all rows because of which it is refused;
- ``clock`` says what time it is, and ``expiry`` what comes and goes by that, before a batch's own changes;
- ``direct``: as much of a batch as can be said in words is done in one call of the kernel;
- ``loading``: the first rows of a view are stored, and its state is made of all of them at once;
- ``view_runtime`` is a view at work: its stages in turn, each built of ``operators``, which ask ``expressions``;
- ``change_feed`` hands on what changed; ``view``, ``table_view`` and ``relation`` are what a user reads,
  ``positions`` by where rows stand (``places``: of rows that are listed several times), ``lookups`` by some columns;
- ``histories``: what has changed since a version is kept as net changes (``history``), or as the stored rows that have
  changed (``row_history``);
- for further questions about a view there are
  ``reasons`` the base rows that a row is made of, ``moments`` sums over products of columns and ``regression`` the
  line that fits best; ``companions`` is what is kept beside a view for such questions, and ``watched`` for products
  of a row that may leave their type;
- ``saved`` has the calls about files, ``storage`` what they do; ``shard_interface`` is how Spark's shards use
  all of it;
- ``memory_limit``, ``progress`` and ``show`` serve the others.
"""
