"""Pipelines in a file: sources, tables, views and targets, checked before Spark starts, and run."""

from __future__ import annotations

from everview.spark.pipeline.model import Pipeline
from everview.spark.pipeline.read import load

__all__ = ["Pipeline", "load"]
