"""The least that a stateful Python operator on Spark can do: what a batch costs before anybody does any work."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle


class Counting(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.total = handle.getValueState("total", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        stored = self.total.get() if self.total.exists() else None
        total = (stored[0] if stored else 0) + sum(map(len, rows))
        self.total.update((total,))
        yield pd.DataFrame({"shard": [int(key[0])], "n": [total]})

    def close(self) -> None:
        pass
