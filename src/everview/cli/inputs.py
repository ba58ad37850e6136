"""What the commands are given: SQL as text or in files, and tables' rows in files."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path

from everview.errors import EverviewError

SOURCES = (
    "--sql and --schema take SQL text, the name of a file, or - for standard input. A table's file is CSV with a "
    "header or Parquet, compressed or not. It may have a column _change_type (insert, delete) or "
    "_weight (copies that come, or go if below 0), and a column _at (the update's place among those of all tables); "
    "without the first two, the rows come in their order under a sliding window."
)


def text_of(given: str) -> str:
    """The text itself, of the file it names, or of standard input."""
    if given == "-":
        return sys.stdin.read()
    if len(given) < 4096 and "\n" not in given:
        path = Path(given)
        if os.path.isfile(given):  # unlike Path.is_file, says no to text that is too long for a name
            return _read(path)
        if path.suffix in {".sql", ".rules", ".dl"} and " " not in given:
            raise FileNotFoundError(f"no file {given}")
    return given


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise EverviewError(
            f"cannot read {path}: no text in UTF-8 ({error.reason} at byte {error.start})", hint="save it as UTF-8"
        ) from error


def positive(text: str) -> int:
    """A whole number above 0, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def natural(text: str) -> int:
    """A whole number, 0 included, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number")
    return int(text)


def share(text: str) -> float:
    """A number above 0 and at most 1, for argparse."""
    number = _number(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share of the rows: give a number above 0 and at most 1")
    return number


def duration(text: str) -> float:
    """Seconds, for argparse."""
    number = _number(text)
    if not 0 < number < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds above 0")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return nan


def add_log_arguments(parser: argparse.ArgumentParser, option: str) -> None:
    """The view, its tables and their updates; ``option`` names the rows' files."""
    parser.add_argument("--sql", required=True, metavar="SQL", help="the view's query")
    parser.add_argument("--schema", metavar="SQL", help="CREATE TABLE statements; --sql may hold them itself")
    parser.add_argument(
        option,
        dest="data",
        required=True,
        action="append",
        metavar="TABLE=FILE",
        help="a table's rows, once for each table; or a folder with a file named for each",
    )
    parser.add_argument(
        "--initial",
        action="append",
        default=[],
        metavar="TABLE",
        help="its rows are there before the first update; may be repeated",
    )
    parser.add_argument(
        "--window",
        type=share,
        default=0.2,
        metavar="SHARE",
        help="the share of a table's rows that the sliding window holds; default: 0.2, and with 1 nothing goes",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def query_and_schema(options: argparse.Namespace) -> tuple[str, str | None]:
    """The texts of --sql and --schema."""
    if options.sql == "-" and options.schema == "-":
        raise EverviewError("only one of --sql and --schema can be standard input")
    return text_of(options.sql), text_of(options.schema) if options.schema is not None else None


def table_files(given: Sequence[str], option: str) -> dict[str, Path] | Path:
    """The file of each table, or the one folder that has them."""
    if len(given) == 1 and Path(given[0]).is_dir():
        return Path(given[0])
    found: dict[str, Path] = {}
    for one in given:
        table, equals, file = one.partition("=")
        if Path(one).is_dir():
            raise EverviewError(
                f"{option} {one} is a folder, and there is another {option}",
                hint=f"give one folder with all tables, or {option} TABLE=FILE for each",
            )
        if not equals or not table.strip() or not file:
            raise EverviewError(
                f"{option} {one} is neither TABLE=FILE nor a folder", hint=f"for example {option} orders=orders.parquet"
            )
        if table.strip() in found:
            raise EverviewError(f"{option} names {table.strip()} twice", hint="put a table's rows into one file")
        found[table.strip()] = Path(file)
        if Path(file).is_dir():
            raise EverviewError(
                f"{option} {one}: {file} is a folder, and one file is expected",
                hint=f"name the file; {option} {file} takes all tables from it",
            )
        if not Path(file).is_file():
            raise FileNotFoundError(f"no file {file}")
    return found
