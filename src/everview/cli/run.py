"""``everview run pipeline.yaml``: views on Spark, from a file.

Exit codes: 0 the trigger had no more to do, or the run was stopped with Ctrl-C or SIGTERM; 1 the query failed;
2 the pipeline was refused before anything was read (also: no Java); 130 stopped at once, by a second signal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from everview.cli.status import Status, standard
from everview.errors import EverviewError
from everview.redaction import redact, redact_file

if TYPE_CHECKING:
    from everview.spark.pipeline.plan import Planned

FAILED, REFUSED, ABORTED = 1, 2, 130
OVERRIDES = ("shards", "master", "trigger", "skip_batch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the pipeline, as YAML; see docs/pipeline.md")
    parser.add_argument(
        "--dry-run", action="store_true", help="check the file, print verdict, plan and shards, start nothing"
    )
    parser.add_argument("--log", choices=("text", "json"), default="text", help="json: one object a batch")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    parser.add_argument("--shards", metavar="N", help="instead of the file's")
    parser.add_argument("--master", metavar="URL", help="instead of the file's")
    parser.add_argument(
        "--trigger", metavar="WHEN", help="instead of the file's: available_now, once, or such as '5 seconds'"
    )
    parser.add_argument(
        "--skip-batch",
        dest="skip_batch",
        metavar="N",
        help="apply nothing of batch N: put each of its rows aside (needs bad_rows: quarantine)",
    )
    parser.add_argument(
        "--migrate", action="store_true", help="take over a checkpoint whose views were others, and rebuild them"
    )


def run(options: argparse.Namespace) -> int:
    """Run the command; errors of the file are raised, those of the running query are shown."""
    try:
        from everview.spark.pipeline import launch
        from everview.spark.pipeline.plan import check_paths, plan
        from everview.spark.pipeline.read import load
    except ImportError as error:
        raise EverviewError(
            f"pipelines need packages that are not installed: {error}", hint="pip install 'everview[spark]'"
        ) from error
    given = {name: getattr(options, name) for name in OVERRIDES if getattr(options, name) is not None}
    planned = plan(load(options.file, given), migrate=options.migrate)
    if options.dry_run:
        text = json.dumps(planned.to_dict(), indent=2, ensure_ascii=False) if options.log == "json" else str(planned)
        print(text)
        check_paths(planned.pipeline)
        return 0
    launch.check_machine()
    check_paths(planned.pipeline)
    return run_planned(planned, standard(options.log, options.quiet), migrate=options.migrate)


def run_planned(planned: Planned, status: Status, *, migrate: bool) -> int:
    """Run a pipeline to its end; one whose output nobody reads has not ended as it should."""
    try:
        return _run(planned, status, migrate=migrate)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed at the end
        print(f"everview: {planned.pipeline.name} was stopped: nobody reads its output any more", file=sys.stderr)
        return FAILED


def _run(planned: Planned, status: Status, *, migrate: bool) -> int:
    from everview.spark.pipeline import launch
    from everview.spark.pipeline.progress import running_tasks
    from everview.spark.pipeline.run import Ended, Stop, failed, follow, shards_of, start

    pipeline = planned.pipeline
    names = ", ".join(pipeline.views)
    status.say(f"{pipeline.name}: starting Spark for {names}")
    try:
        spark, log = launch.session(pipeline.name, pipeline.master, pipeline.conf)
    except EverviewError as error:
        status.event("error", message=str(error))
        raise
    stop = Stop()
    try:
        with stop.on_signals():
            status.shards = shards_of(spark, pipeline)
            status.tasks = partial(running_tasks, spark)
            query = start(spark, pipeline, migrate=migrate)
            status.event("start", pipeline=pipeline.name, views=list(pipeline.views), shards=status.shards)
            status.say(f"{pipeline.name}: running; Ctrl-C stops it after the batch, a new start resumes")
            ended = follow(query, status.batch, stop, status.waiting)
    except BrokenPipeError:
        raise
    except Exception as error:
        found = failed(error)
        with suppress(BrokenPipeError):
            status.clear()
            status.event("error", message=str(found))
        print(redact(f"everview: {pipeline.name} failed: {found}"), file=sys.stderr)
        if log is not None:
            print(f"Spark's own log: {log}", file=sys.stderr)
        return FAILED
    finally:
        with suppress(Exception):  # Where Java has died, there is nothing to stop; what has happened is told already.
            spark.stop()
        if log is not None:
            redact_file(log)
    if log is not None:
        log.unlink(missing_ok=True)
    status.end(ended.value)
    if migrate and not status.batches:
        status.say("nothing was migrated: the new views take over with the first batch, and there was nothing to read")
    return ABORTED if ended is Ended.ABORTED else 0
