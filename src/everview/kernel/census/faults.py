"""What a census refuses: degrees beyond the bound, and data with too many types or too long updates."""

from __future__ import annotations


class DegreeFault(RuntimeError):
    """An element would have more neighbours than the bound says; nothing has changed."""

    def __init__(self, element: int, degree: int, bound: int) -> None:
        super().__init__(f"element {element} would have {degree} neighbours or more, and may have {bound}")
        self.element = element
        self.degree = degree
        self.bound = bound


class LimitFault(RuntimeError):
    """The data have too many types, or an update takes too many steps: nothing can be read until it has been resumed.

    ``kind`` is "types" or "steps". The facts are what they should be.
    """

    def __init__(self, kind: str, limit: int) -> None:
        super().__init__(f"there are more than {limit} {kind}")
        self.kind = kind
        self.limit = limit


class Steps:
    """How many steps have been taken, and how many may be."""

    def __init__(self) -> None:
        self.count = 0
        self.most: int | None = None

    def take(self, steps: int = 1) -> None:
        """Count some more."""
        self.count += steps
        if self.most is not None and self.count > self.most:
            raise LimitFault("steps", self.most)
