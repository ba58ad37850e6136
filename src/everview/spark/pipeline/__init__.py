"""Pipelines in a file: sources, tables, views and targets, checked before Spark starts, and run.

A file passes through, in this order:

- ``document``: YAML, every value with its place; ``read``: what the values mean, or where they are wrong;
- ``model``: the pipeline as plain data; ``plan``: its views planned, with the schemas that it declares (``columns``);
- ``launch``, with ``java``: a Spark session, and a Java for it; ``frames``: sources as DataFrames;
- ``run``: the query; ``progress`` and ``watch``: how far it is; ``failure``: why it ended, dug out of Spark's text;
- ``verify``: the targets compared with Spark SQL over all changes so far.
"""

from __future__ import annotations

from everview.spark.pipeline.model import Pipeline
from everview.spark.pipeline.read import load

__all__ = ["Pipeline", "load"]
