"""How thorough random tests are: EVERVIEW_TEST_SCALE times what `make test` does; `make unit` sets a fraction."""

from __future__ import annotations

import os
from fractions import Fraction
from typing import Any, Final

from hypothesis import settings

SCALE: Final = Fraction(os.environ.get("EVERVIEW_TEST_SCALE", "1"))


def scaled(count: int, least: int = 1) -> int:
    """So many random cases instead of ``count``, which is what `make test` runs; but ``least`` in any case."""
    return max(least, int(count * SCALE))


def thoroughness(examples: int, **others: Any) -> settings:
    """How a property test draws: always the same examples, or, where there are to be more of them, others each time."""
    return settings(derandomize=SCALE <= 1, deadline=None, max_examples=scaled(examples), **others)
