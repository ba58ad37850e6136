"""Where ``materialize`` keeps a view's rows: one module a kind of target."""

from __future__ import annotations

from everview.spark.targets.base import Batch, Target
from everview.spark.targets.delta import DeltaTarget
from everview.spark.targets.named import named
from everview.spark.targets.parquet import ParquetTarget
from everview.spark.targets.postgres import PostgresTarget

__all__ = ["Batch", "DeltaTarget", "ParquetTarget", "PostgresTarget", "Target", "named"]
