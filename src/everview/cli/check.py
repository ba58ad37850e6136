"""``everview check``: whether a saved database is whole, and its views are what its tables make them."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from everview.engine.database import Database


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", metavar="FILE", help="what db.save has written")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace, out: TextIO) -> int:
    """Run the command; a file that is refused raises a SnapshotError."""
    from everview.engine.database import Database

    db = Database.load(options.file, verify=True)
    counts = {name: _rows(db, name) for name in db.views}
    tables = {name: len(db.table(name)) for name in db.tables}
    if options.json:
        out.write(f"{json.dumps({'version': db.version, 'tables': tables, 'views': counts}, ensure_ascii=False)}\n")
        return 0
    out.write(f"{options.file}: version {db.version}, whole; its views follow from its tables\n")
    for what, found in (("table", tables), ("view", counts)):
        for name, rows in found.items():
            out.write(f"  {what} {name}: {'no result now' if rows is None else f'{rows:,} rows'}\n")
    return 0


def _rows(db: Database, name: str) -> int | None:
    """How many rows a view has; None if it has no result now."""
    view = db.view(name)
    return None if db._views[name].why_no_result() is not None else len(view)
