"""The ``everview`` command: one module a subcommand, and ``main``, which reads the arguments and prints errors.

- ``inputs``: SQL and rows that are given as text or files;
- ``run``, with ``status``: a pipeline on Spark, from a file, and what it shows meanwhile;
- ``bench``, ``enclosureness``, ``check``: the tools on the user's own data;
- ``demo``, with ``shop``: a job on Spark that is checked; ``embedded``, with ``live``: the same without Spark.
"""
