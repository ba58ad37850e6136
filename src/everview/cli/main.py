"""``everview explain``, ``run``, ``bench``, ``enclosureness``, ``check`` and ``demo``: the command line."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path

from everview import __version__
from everview.cli.bench import add_arguments as add_bench_arguments
from everview.cli.bench import run as run_bench
from everview.cli.check import add_arguments as add_check_arguments
from everview.cli.check import run as run_check
from everview.cli.demo import add_arguments as add_demo_arguments
from everview.cli.demo import run_demo
from everview.cli.enclosureness import add_arguments as add_enclosureness_arguments
from everview.cli.enclosureness import run as run_enclosureness
from everview.cli.inputs import SOURCES, text_of
from everview.cli.run import add_arguments as add_run_arguments
from everview.cli.run import run as run_pipeline
from everview.errors import EverviewError
from everview.redaction import redact, scrubbed

BAD_QUERY = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 0, or 2 for a bad query, schema or file; `run` has more."""
    parser = _parser()
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no λ
    try:
        code = _run(options)
        sys.stdout.flush()
        return code
    except EverviewError as error:
        return _refused(f"{type(error).__name__}: {error}")
    except BrokenPipeError:  # whoever reads the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        return 0
    except (OSError, UnicodeDecodeError) as error:
        return _refused(f"cannot read or write: {error}")
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # a fault of ours: Python prints it, with its causes
        found = scrubbed(error)
        if found is error:
            raise
        raise found from None


def _run(options: argparse.Namespace) -> int:
    if options.command == "demo":
        return run_demo(options, sys.stdout)
    if options.command == "run":
        return run_pipeline(options)
    if options.command == "bench":
        return run_bench(options, sys.stdout)
    if options.command == "enclosureness":
        return run_enclosureness(options, sys.stdout)
    if options.command == "check":
        return run_check(options, sys.stdout)
    return _explain(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="everview", description="Keeps SQL views fresh, at a cost known before the run."
    )
    parser.add_argument("--version", action="version", version=f"everview {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    explain = commands.add_parser(
        "explain",
        help="say what class a view is in and what maintaining it costs",
        description="Say what class a view is in, how it would be maintained, what that costs, and why.",
        epilog="--sql and --schema take SQL text, the name of a file, or - for standard input.",
    )
    explain.add_argument(
        "--sql", required=True, metavar="SQL", help="a view, several views, or rules (q(x) :- r(x, y).)"
    )
    explain.add_argument("--schema", metavar="SQL", help="CREATE TABLE statements; --sql may hold them itself")
    explain.add_argument("--format", choices=("text", "json", "svg"), default="text", help="default: text")
    explain.add_argument(
        "--rates",
        "--updates",
        dest="rates",
        action="append",
        default=[],
        metavar="TABLE=N",
        help="updates to expect at a table; may be repeated",
    )
    explain.add_argument("--output", metavar="FILE", help="write there instead of to standard output")
    run = commands.add_parser(
        "run",
        help="run a pipeline on Spark",
        description="Keep views fresh on Spark: sources, tables, views and targets come from a file.",
        epilog="exit codes: 0 done or stopped, 1 the query failed, 2 the pipeline was refused, 130 stopped at once",
    )
    add_run_arguments(run)
    bench = commands.add_parser(
        "bench",
        help="measure a view on your own data",
        description="Run a view over the updates of your own tables: what an update costs, how long changes take, the "
        "memory, and from which batch size on recomputing the view would be quicker. The result is checked.",
        epilog=f"{SOURCES} Exit codes: 0 measured, 1 the result is wrong, 2 refused",
    )
    add_bench_arguments(bench)
    enclosureness = commands.add_parser(
        "enclosureness",
        help="say what a log of updates costs for a view",
        description="Compute λ, the enclosureness of a log of updates for the view's join tree, which bounds what an "
        "update costs: O(λ), amortised.",
        epilog=f"{SOURCES} Exit codes: 0 computed, 2 refused",
    )
    add_enclosureness_arguments(enclosureness)
    check = commands.add_parser(
        "check",
        help="check a saved database",
        description="Load what db.save has written, fill its views from the rows of its tables, and compare them with "
        "what the file says they are.",
        epilog="exit codes: 0 it is whole, 2 it is damaged, was edited, or cannot be read",
    )
    add_check_arguments(check)
    demo = commands.add_parser("demo", help="see views at work")
    add_demo_arguments(demo)
    return parser


def _explain(options: argparse.Namespace) -> int:
    from everview.engine.explain import explain_all

    if options.sql == "-" and options.schema == "-":
        return _refused("only one of --sql and --schema can be standard input")
    schema = text_of(options.schema) if options.schema is not None else None
    found = explain_all(text_of(options.sql), schema, rates=_rates(options.rates))
    if options.format == "svg":
        if len(found) > 1:
            return _refused(f"a picture shows one view, the text holds {len(found)}: give one, or another --format")
        text = found[0].to_svg()
    elif options.format == "json":
        data = [e.to_dict() for e in found]
        text = json.dumps(data[0] if len(data) == 1 else data, indent=2, ensure_ascii=False)
    else:
        text = "\n\n".join(map(str, found))
    if options.output:
        Path(options.output).write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return 0


def _rates(given: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for one in given:
        table, _, number = one.partition("=")
        try:
            found[table.strip()] = float(number)
        except ValueError:
            raise EverviewError(f"--rates {one} is not TABLE=NUMBER", hint="for example --rates orders=1000") from None
    return found


def _refused(message: str) -> int:
    print(redact(f"everview: {message}"), file=sys.stderr)
    return BAD_QUERY


if __name__ == "__main__":
    sys.exit(main())
