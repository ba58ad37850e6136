"""Where ``materialize`` keeps a view's rows: one module a kind of target.

A batch of the change feed passes through, in this order:

- ``named``: a target as text, such as ``parquet:out/v``, becomes the object;
- ``base``: what each of them must do, and whether a batch is the next one or comes again;
- ``rows``: the batch's rows, with weights, added up;
- ``parquet``, ``delta``, ``postgres``: the batch and its number are written in one atomic step;
- ``buckets``: the files of the first two, by ranges of hashes; ``removal``: what a target has made goes, no more.
"""

from __future__ import annotations

from everview.spark.targets.base import Batch, Target
from everview.spark.targets.delta import DeltaTarget
from everview.spark.targets.named import named
from everview.spark.targets.parquet import ParquetTarget
from everview.spark.targets.postgres import PostgresTarget

__all__ = ["Batch", "DeltaTarget", "ParquetTarget", "PostgresTarget", "Target", "named"]
