"""The rows of a log, each one with its life: for systems that are told which row goes, or when."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa

FOREVER = np.iinfo(np.int64).max


def rows_alike(rows: pa.Table) -> np.ndarray:
    """A number for each row that comes; a row that goes has that of the oldest one alike that is there."""
    values = rows.drop(["_weight", "_at"]).to_pandas()
    alike = values.groupby(list(values.columns), dropna=False, sort=False).ngroup()
    coming = rows.column("_weight").to_numpy() > 0
    nth = pd.DataFrame({"alike": alike, "coming": coming}).groupby(["alike", "coming"]).cumcount()
    return pd.DataFrame({"alike": alike, "nth": nth}).groupby(["alike", "nth"], sort=False).ngroup().to_numpy()


def lives(rows: pa.Table) -> pa.Table:
    """Each row that comes, once, with the positions where it comes and goes, ``_from`` and ``_to`` (or ``FOREVER``)."""
    numbers = rows_alike(rows)
    at = rows.column("_at").to_numpy()
    coming = rows.column("_weight").to_numpy() > 0
    gone = np.full(int(numbers.max(initial=-1)) + 1, FOREVER)
    gone[numbers[~coming]] = at[~coming]
    made = rows.filter(pa.array(coming)).drop(["_weight", "_at"])
    return made.append_column("_from", pa.array(at[coming])).append_column("_to", pa.array(gone[numbers[coming]]))


def in_utc(rows: pa.Table) -> pa.Table:
    """The same rows, timestamps as moments, which is what Spark's TIMESTAMP is."""
    for i, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            rows = rows.set_column(i, field.name, rows.column(i).cast(pa.timestamp("us", "UTC")))
    return rows
