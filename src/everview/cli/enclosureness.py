"""``everview enclosureness``: what a log of updates costs for a view."""

from __future__ import annotations

import argparse
import json
from typing import TextIO

from everview.cli.inputs import add_log_arguments, natural, query_and_schema, table_files

OPTION = "--log"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    add_log_arguments(parser, OPTION)
    parser.add_argument(
        "--trees", type=natural, default=0, metavar="N", help="compare with so many other join trees of the query"
    )


def run(options: argparse.Namespace, out: TextIO) -> int:
    """Run the command."""
    from everview.tools.enclosureness import enclosureness

    query, schema = query_and_schema(options)
    files = table_files(options.data, OPTION)
    found = enclosureness(query, files, schema, initial=options.initial, window=options.window, trees=options.trees)
    out.write(f"{json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if options.json else found}\n")
    return 0
