"""Tables that Spark cannot read as streams of changes by itself, as data sources written in Python.

- ``delta``: a Delta table's change feed, by the ``deltalake`` package, without jars.
"""
