"""The kernel: state in flat arrays, and everything that runs once per row.

It knows no queries and no SQL. It is C++ (`cpp/`), compiled to `everview.kernel._kernel`:

- `Table` is a bag of rows of 64-bit words, found by hash and through group indexes;
- `OverDelete` is the error for removing more copies of a row than a table holds.
"""

from everview.kernel._kernel import OverDelete, Table

__all__ = ["OverDelete", "Table"]
