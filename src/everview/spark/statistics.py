"""What the tables look like, for choosing shares: how many rows, and how much the most frequent values have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from everview.errors import PipelineError
from everview.spark.types import FEED_COLUMNS, data_type

SAMPLED_ROWS = 1_000_000
"""Tables beyond about this size are sampled for their frequent values."""


@dataclass(frozen=True)
class Statistics:
    """Arguments for ``maintain``: ``maintain(..., rates=s.rates, skew=s.skew)``."""

    rates: dict[str, float]
    """The number of rows of each table."""
    skew: dict[tuple[str, str], float]
    """For (table, column) the part of the rows that the most frequent value has."""


def statistics_of(tables: Mapping[str, DataFrame]) -> Statistics:
    """Measure static DataFrames that look like the tables to come: yesterday's data, or a sample.

    A column whose most frequent value has a large part of the rows is no good for cutting its table: all rows of that
    value land in one shard. With the figures of ``skew`` the shares go to other variables where the views allow it.
    """
    rates: dict[str, float] = {}
    skew: dict[tuple[str, str], float] = {}
    for name, frame in tables.items():
        if frame.isStreaming:
            raise PipelineError(
                f"the DataFrame for {name} is streaming, and statistics need one that ends",
                hint="read the same source with spark.read, or a sample of it",
            )
        rows = frame.count()
        rates[name] = float(rows)
        if not rows:
            continue
        part = frame if rows <= SAMPLED_ROWS else frame.sample(fraction=SAMPLED_ROWS / rows, seed=1)
        total = part.count()
        for field in frame.schema.fields:
            if field.name.lower() in FEED_COLUMNS or data_type(field.dataType, field.metadata) is None:
                continue
            most = part.where(F.col(f"`{field.name}`").isNotNull()).groupBy(f"`{field.name}`").count()
            top = most.agg(F.max("count")).first()
            if top is not None and top[0] is not None and total:
                skew[name, field.name] = top[0] / total
    return Statistics(rates, skew)
