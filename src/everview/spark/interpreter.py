"""Which Python Spark's workers of this machine are: ours, and one that has pyspark as bytecode.

Spark puts ``pyspark.zip`` in front of its workers' path. There is no bytecode in it, and none is kept for it, so every
process that Spark starts compiles most of pyspark: a second of processor time instead of a fifth of one. When a query
starts, the driver starts such a process for each stateful operator, and gives it 10 seconds to connect, whatever else
the machine has to do. Where the same pyspark is installed, ``worker-python`` leaves the zip out.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import pyspark

_SCRIPT: Final = Path(__file__).parent / "worker-python"
REAL: Final = "EVERVIEW_PYTHON"
"""The Python that the script runs."""


def worker_environment() -> dict[str, str]:
    """What a driver with a local master has in its environment, so that its workers are as it is."""
    found = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    installed = Path(pyspark.__file__).parent
    home = os.environ.get("SPARK_HOME", installed)
    if os.access(_SCRIPT, os.X_OK) and installed.is_dir() and installed.resolve() == Path(home).resolve():
        found |= {"PYSPARK_PYTHON": str(_SCRIPT), REAL: sys.executable}
    return found
