"""Views kept fresh on Spark: ``maintain`` gives a view's change feed, ``materialize`` keeps a target equal to it."""

from __future__ import annotations

from everview.spark.materialize import materialize

__all__ = ["materialize"]
