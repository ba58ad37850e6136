"""The two ways of a batch (docs/batch.md): tests of the one from operator to operator have no batch go directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from everview.engine import batch as batches
from everview.engine.direct.batch import DirectBatch


@contextmanager
def the_other_way() -> Iterator[None]:
    """Have no batch go the direct way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectBatch, "of", staticmethod(lambda *given: None))
        patch.setattr(batches, "given_rows", lambda base, rows, sign: None)
        yield
