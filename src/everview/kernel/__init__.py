"""The kernel: state in flat arrays, and everything that runs once per row.

It knows no queries and no SQL. It runs programs (docs/programs.md), which pass through in this order:

- `program` defines them, `operations` what they compute and test, and `cursors` what lists rows;
- `effects` says what each instruction reads and writes;
- `printer` shows them; `verifier` checks them, with `cursor_check`; `encode` makes bytes of them for C++;
- `machine` has `Unit`, which runs one in C++ (`cpp/`, compiled to `everview.kernel._kernel`), and `Machine`, which has
  all units of a database;
- `ValueTable` keeps what is no word itself, such as strings, and gives it ids that are;
- `BatchRun` runs a whole batch in one call: rows read by `PythonReader` or `ArrowReader` go through a `BatchTable` and
  the `BatchView`s that read it (`cpp/batch/`, `everview.engine.direct`);
- `wide_numbers` makes words of numbers that take several, and numbers of words; `floats` words of floats;
- `reference.Reference` runs them in plain Python, and says what they mean, over the tables of `reference_tables`;
  `reference_cursors` says what cursors do.

Beside them, `census` keeps formulas that count: they are no programs.
"""

from everview.kernel._kernel import (
    SNAPSHOTS,
    ArrowReader,
    BatchRun,
    BatchTable,
    BatchView,
    Column,
    Cursor,
    PythonReader,
    ReadRows,
    StaleCursor,
    ValueTable,
)
from everview.kernel.machine import Machine, Unit, UpdateFault

__all__ = [
    "SNAPSHOTS",
    "ArrowReader",
    "BatchRun",
    "BatchTable",
    "BatchView",
    "Column",
    "Cursor",
    "Machine",
    "PythonReader",
    "ReadRows",
    "StaleCursor",
    "Unit",
    "UpdateFault",
    "ValueTable",
]
