"""A checkpoint that other views take over (``maintain(…, migrate=True)``), as its targets have to know of it.

The batch that takes over tells the whole of the new views. So a target must begin with that batch: with rows of before
in it, it would have them twice; with a later batch, it would lack them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from everview.errors import PipelineError
from everview.spark.identity import Identity
from everview.spark.migration import has_state, saved_identity, saved_offsets

_ORIGIN: Final = "_everview_identity"


def origin_of(feed: DataFrame, identity: Identity) -> DataFrame:
    """The feed, which from now on knows whose it is."""
    setattr(feed, _ORIGIN, identity)
    return feed


def first_batch(feed: DataFrame, checkpoint: str) -> int:
    """The batch with which the feed's views begin in a checkpoint: 0, unless they are about to take it over."""
    identity = getattr(feed, _ORIGIN, None)
    if not isinstance(identity, Identity) or not identity.migrate or not has_state(feed.sparkSession, checkpoint):
        return 0
    try:
        last = int(saved_offsets(checkpoint)["batch"])
    except PipelineError:  # Its first batch has not ended.
        return 0
    return 0 if saved_identity(feed.sparkSession, checkpoint) == identity.parts else last + 1
