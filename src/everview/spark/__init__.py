"""Everview on Spark: views over streams of changes, kept fresh by shards, exactly once.

>>> from everview.spark import maintain, materialize  # doctest: +SKIP

In the order in which a micro-batch passes:

- ``maintain`` plans a query (``views``, ``statistics``, ``session``, ``types``, ``time_zone``) and builds the stream;
- ``interpreter``, ``worker``, ``restarting``: Spark's Python processes, which and how long, and queries started again;
- ``sources``: tables that Spark cannot read as streams by itself; ``exchange``: rows to shards, and changes back;
- ``shard``: the stateful operator, and the process in which a shard's database lives;
- ``checkpoint``: what a query's folder pins, and how an old one is taken over;
- ``materialize`` writes what changed into ``targets``; ``pipeline`` does all of it from a file; ``metrics`` tell.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everview.spark.checkpoint.migration import saved_identity, saved_offsets, saved_tables
    from everview.spark.maintain import maintain
    from everview.spark.materialize import materialize
    from everview.spark.metrics import stats
    from everview.spark.statistics import Statistics, statistics_of

__all__ = [
    "Statistics",
    "maintain",
    "materialize",
    "saved_identity",
    "saved_offsets",
    "saved_tables",
    "statistics_of",
    "stats",
]

_HOMES = {
    "maintain": "everview.spark.maintain",
    "materialize": "everview.spark.materialize",
    "stats": "everview.spark.metrics",
    "saved_identity": "everview.spark.checkpoint.migration",
    "saved_offsets": "everview.spark.checkpoint.migration",
    "saved_tables": "everview.spark.checkpoint.migration",
    "Statistics": "everview.spark.statistics",
    "statistics_of": "everview.spark.statistics",
}


def __getattr__(name: str) -> Any:
    """Public names are looked up when first used: a shard's process has no need of pyspark."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'everview.spark' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Importing a submodule binds its name in the package: where a function has that name, it is the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _HOMES and isinstance(value, ModuleType):
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
