"""A checkpoint that other views take over (``maintain(…, migrate=True)``), as its targets have to know of it.

The batch that takes over tells the whole of the new views. So a target must begin with that batch: with rows of before
in it, it would have them twice; with a later batch, it would lack them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from everview.errors import PipelineError
from everview.spark.checkpoint.folder import Folder
from everview.spark.checkpoint.identity import Identity
from everview.spark.checkpoint.migration import saved_offsets, stored_identity
from everview.spark.checkpoint.pins import hold, need_same_place

_ORIGIN: Final = "_everview_identity"


def origin_of(feed: DataFrame, identity: Identity, checkpoint: str | None = None) -> DataFrame:
    """The feed, which from now on knows whose it is, and for which checkpoint it was planned."""
    setattr(feed, _ORIGIN, (identity, checkpoint))
    return feed


def first_batch(feed: DataFrame, checkpoint: str) -> int:
    """The batch with which the feed's views begin in a checkpoint: 0, unless they are about to take it over.

    What the query is planned as is held fast in the checkpoint; one that does not fit what is there is refused.
    """
    identity, planned = getattr(feed, _ORIGIN, (None, None))
    if not isinstance(identity, Identity):
        return 0
    need_same_place(planned, checkpoint)
    if planned is None:
        hold(checkpoint, identity, feed.sparkSession)
    if not identity.migrate or not Folder.of(checkpoint, feed.sparkSession).names("state"):
        return 0
    try:
        last = int(saved_offsets(checkpoint)["batch"])
    except PipelineError:  # Its first batch has not ended.
        return 0
    stored = stored_identity(feed.sparkSession, checkpoint)
    return last + 1 if identity.differences(stored) else 0
