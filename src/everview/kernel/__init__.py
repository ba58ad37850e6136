"""The kernel: state in flat arrays, and everything that runs once per row.

It knows no queries and no SQL. It runs programs (docs/programs.md):

- `program` defines them, `verifier` checks them, `printer` shows them;
- `Machine` runs them in C++ (`cpp/`, compiled to `everview.kernel._kernel`);
- `reference.Reference` runs them in plain Python, and says what they mean.
"""

from everview.kernel._kernel import Column, Cursor, StaleCursor
from everview.kernel.machine import Machine, UpdateFault

__all__ = ["Column", "Cursor", "Machine", "StaleCursor", "UpdateFault"]
