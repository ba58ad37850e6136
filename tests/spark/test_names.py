"""The names of ``everview.spark`` are its functions, whatever was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "before", ["", "import everview.spark.maintain, everview.spark.materialize", "import everview.spark.pipeline.run"]
)
def test_functions_not_modules(before: str) -> None:
    code = f"{before}\nfrom everview.spark import maintain, materialize, stats\n"
    code += "print([type(f).__name__ for f in (maintain, materialize, stats)])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['function', 'function', 'function']"
