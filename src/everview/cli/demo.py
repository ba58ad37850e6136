"""``everview demo``: a shop's tables change while a Spark job keeps three views of them fresh, and is checked."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from everview.cli.shop import Feeder
from everview.cli.status import Status
from everview.errors import EverviewError

if TYPE_CHECKING:
    from everview.spark.pipeline.plan import Planned
    from everview.spark.pipeline.progress import BatchDone
    from everview.spark.pipeline.watch import Watched

UNEQUAL = 1
PAUSE_SECONDS = 0.7
KEPT, SHOWN = 1_000, 4
FILE = "shop.yaml"
_STREAMING = "org.apache.spark.sql.execution.streaming"
SHORT_RUN = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
}
"""A job of a minute on a local disk: Java compiles less, and a checkpoint takes fewer steps."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument(
        "--embedded", action="store_true", help="in this process, without Spark: verdicts of many kinds, views at work"
    )
    parser.add_argument("--quiet", action="store_true", help="leave out the progress, which is never twice the same")
    parser.add_argument("--keep", metavar="FOLDER", type=Path, help="work in this new folder, and leave it there")


def run_demo(options: argparse.Namespace, out: TextIO) -> int:
    """Run the demo; 1 if a view was not what Spark SQL says it should be."""
    if options.embedded:
        from everview.cli.embedded import run_embedded

        return run_embedded(out)
    if options.keep is not None:
        options.keep.mkdir(parents=True)
        return _demo(options.keep, out, quiet=options.quiet)
    with tempfile.TemporaryDirectory(prefix="everview-demo-", ignore_cleanup_errors=True) as folder:
        return _demo(Path(folder), out, quiet=options.quiet)


def _demo(folder: Path, out: TextIO, *, quiet: bool) -> int:
    from everview.cli.embedded import example

    try:
        from everview.spark.pipeline import launch
        from everview.spark.pipeline.plan import plan
        from everview.spark.pipeline.read import load
        from everview.spark.pipeline.run import Ended, Stop, failed, follow, start
        from everview.spark.pipeline.verify import verify
        from everview.spark.pipeline.watch import Watched
        from everview.spark.targets import named
    except ImportError as error:
        raise EverviewError(
            f"the demo runs on Spark, which is not installed: {error}",
            hint="pip install 'everview[spark]', or: everview demo --embedded",
        ) from error

    file = folder / FILE
    file.write_text(example(FILE), encoding="utf-8")
    planned = plan(load(file))
    pipeline = planned.pipeline
    out.write("Everview on Spark: a shop's four tables change, and three views of them are kept fresh.\n\n")
    out.writelines(f"{line}\n" for line in _verdicts(planned))
    out.flush()
    status = Status(out, quiet=quiet)
    status.shards = pipeline.shards or 1
    status.say(f"\nStarting Spark ({pipeline.master}); changes are written as files while the job runs.")
    spark, log = launch.session(pipeline.name, pipeline.master, {**SHORT_RUN, **pipeline.conf})
    feeder = Feeder(folder / "changes", PAUSE_SECONDS)
    targets = {name: Watched(named(text), KEPT) for name, text in pipeline.targets.items()}
    try:
        with Stop().on_signals() as stop:

            def batch_done(batch: BatchDone) -> None:
                status.batch(batch)
                feeder.read += batch.rows

            def look() -> None:
                status.waiting()
                if feeder.is_done and feeder.read >= feeder.written and not stop.asked:
                    stop.ask()

            feeder.start()
            ended = follow(start(spark, pipeline, targets=targets), batch_done, stop, look)
        feeder.halt()
        if ended is Ended.ABORTED or not feeder.is_done or feeder.read < feeder.written:
            status.end("stopped")
            return 130
        status.end("all changes are read")
        out.write("\n")
        out.writelines(f"{line}\n" for line in _result(targets, feeder))
        out.write("\nThe same views, computed afresh by Spark SQL over the final tables\n")
        out.flush()
        equal = True
        for one in verify(spark, pipeline, targets):
            equal = equal and one.equal
            said = "yes" if one.equal else f"NO, {one.missing:,} rows are missing and {one.extra:,} are too many"
            out.write(f"  {one.view:<10} {one.rows:>7,} rows  equal: {said}\n")
    except Exception as error:
        status.clear()
        print(f"everview: the demo failed: {failed(error)}", file=sys.stderr)
        print(f"Spark's own log: {log}", file=sys.stderr)
        return UNEQUAL
    finally:
        feeder.halt()
        spark.stop()
    if log is not None:
        log.unlink(missing_ok=True)
    out.write(
        "\nNext: everview run --dry-run examples/shop.yaml, docs/pipeline.md; without Spark: everview demo --embedded\n"
    )
    return 0 if equal else UNEQUAL


def _verdicts(planned: Planned) -> Iterator[str]:
    """Each view's verdict: what it says of updates and reads."""
    for verdict in planned.verdicts:
        bounds = verdict.plan.bounds
        columns = ", ".join(c.name for c in verdict.plan.view.columns)
        yield f"  {verdict.plan.view.name}({columns})"
        costs = (("update", bounds.update), ("delay", bounds.delay), ("space", bounds.space))
        yield f"      {verdict.strategy}: {', '.join(f'{name} {bound.short}' for name, bound in costs)}"


def _result(targets: Mapping[str, Watched], feeder: Feeder) -> Iterator[str]:
    for name, target in targets.items():
        table = target.read_arrow()
        rows = sorted(tuple(r.values()) for r in table.to_pylist())
        yield f"{name}: {len(rows):,} rows"
        yield from _table(table.column_names, rows[:SHOWN])
        yield ""
    yield f"The last change, and what it changes in the views: {feeder.shop.last}"
    for name, target in targets.items():
        changes = sorted(target.changes, key=lambda c: [v for k, v in c.items() if not k.startswith("_")])
        if target.batch != max(t.batch for t in targets.values()):
            continue
        shown = [{k: v for k, v in c.items() if k != "_commit_version"} for c in changes[:SHOWN]]
        yield f"{name}: {target.count:,} rows of its change feed"
        yield from _table(list(shown[0]), [tuple(c.values()) for c in shown])


def _table(names: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    listed = [list(map(str, row)) for row in rows]
    widths = [max(len(r[i]) for r in [list(names), *listed]) for i in range(len(names))]
    for row in [list(names), *listed]:
        yield "  " + "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
