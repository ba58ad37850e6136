"""A Spark session for a pipeline: quiet on the terminal, its own log in a file."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from everview.errors import PipelineError
from everview.redaction import redact_file, scrubbed
from everview.spark.interpreter import worker_environment
from everview.spark.pipeline.failure import cause_of
from everview.spark.pipeline.java import check_java
from everview.spark.session import PATIENT

GATEWAY: Final = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit, which has started a Java process, a log and a master already."""
LOCAL: Final = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
"""For a local master: it talks to nobody."""
QUIET: Final = {"spark.ui.showConsoleProgress": "false"}
UTC: Final = {"spark.sql.session.timeZone": "UTC"}
"""Views compute in UTC; so do the expressions of tables, unless the file says otherwise."""


def check_machine() -> None:
    """Raise an error that says what to do if Spark could not start; spark-submit has started it already."""
    if GATEWAY not in os.environ:
        check_java()


def session(name: str, master: str | None, conf: Mapping[str, str]) -> tuple[SparkSession, Path | None]:
    """A session with these settings, and the file with what Java has to say; none under spark-submit."""
    if GATEWAY in os.environ:
        spark = _build(name, None, {**QUIET, **PATIENT, **conf})
        for setting, value in UTC.items():
            if setting not in conf and not spark.sparkContext.getConf().contains(setting):
                spark.conf.set(setting, value)
        return spark, None
    check_java()
    master = master or "local[*]"
    settings = {**QUIET, **UTC, **PATIENT, **conf}
    if master.startswith("local"):
        given = {**worker_environment(), "SPARK_LOCAL_IP": LOCAL["spark.driver.host"]}
        for variable, value in given.items():
            os.environ.setdefault(variable, value)
        settings = {**LOCAL, **settings}
    handle, log = tempfile.mkstemp(prefix="everview-spark-", suffix=".log")
    try:
        with _sent_to(handle):
            return _build(name, master, settings), Path(log)
    except Exception as error:
        redact_file(Path(log))
        raise PipelineError(
            f"Spark did not start with master {master}: {cause_of(error)}", hint=f"Java's own words are in {log}"
        ) from scrubbed(error)
    finally:
        os.close(handle)


def _build(name: str, master: str | None, settings: Mapping[str, str]) -> SparkSession:
    with warnings.catch_warnings():
        # PySpark's gateway leaves sockets and a log file to the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        builder = SparkSession.builder.appName(name)
        if master is not None:
            builder = builder.master(master)
        for key, value in settings.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


@contextmanager
def _sent_to(handle: int) -> Iterator[None]:
    """Standard output and error of processes started meanwhile go to a file: Java's, and its Python workers'."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for stream, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, stream)
            os.close(copy)
