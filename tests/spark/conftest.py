"""One Spark and one PostgreSQL server for all tests of the Spark pipeline."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from everview.kernel import machine
from everview.spark.interpreter import worker_environment
from everview.spark.session import PATIENT

ROOT = Path(__file__).parent.parent.parent

SETTINGS = {
    # Tests run each plan once or twice: Java's second compiler would only take the processor from them.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    **PATIENT,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}


@pytest.fixture(scope="session", autouse=True)
def programs_are_prepared_once() -> Iterator[None]:
    """Verify and encode equal programs once: shards that are played in one process all have the same ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "verify", lru_cache(maxsize=1_000)(machine.verify))
        patch.setattr(machine, "encode", lru_cache(maxsize=1_000)(machine.encode))
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A local Spark with two cores that talks to nobody."""
    home = subprocess.run([ROOT / "scripts" / "java.sh"], check=True, capture_output=True, text=True).stdout.strip()
    place = tmp_path_factory.mktemp("spark")
    given = {
        "JAVA_HOME": home,
        **worker_environment(),
        "SPARK_LOCAL_IP": "127.0.0.1",
        # Spark's Python workers are started anew, without pytest's path.
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in given.items():
            patch.setenv(name, value)
        with warnings.catch_warnings():
            # PySpark's gateway leaves its log file and sockets to the garbage collector.
            warnings.simplefilter("ignore", ResourceWarning)
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.master("local[2]").appName("everview-tests")
            for name, value in {
                **SETTINGS,
                "spark.sql.warehouse.dir": str(place),
                "spark.local.dir": str(place),
            }.items():
                builder = builder.config(name, value)
            session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a PostgreSQL server of our own, in a folder of its own, on loopback; ended with the tests."""
    found = subprocess.run([ROOT / "scripts" / "postgres.sh"], check=False, capture_output=True, text=True)
    if found.returncode:
        pytest.fail(f"these tests need a PostgreSQL server. {found.stderr}")
    programs = Path(found.stdout.strip())
    folder = Path(tempfile.mkdtemp(prefix="everview-postgres-"))
    user = _unprivileged()
    if user is not None:
        shutil.chown(folder, user["user"], user["group"])
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "everview", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"]
    subprocess.run(initdb, check=True, capture_output=True, cwd=folder, **(user or {}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [programs / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", folder, "-c", "fsync=off"]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, **(user or {}))
    try:
        url = f"postgresql://everview@127.0.0.1:{port}/postgres"
        _wait_for(url, server, folder / "log")
        yield url
    finally:
        if server.poll() is None:
            os.kill(server.pid, signal.SIGINT)  # PostgreSQL's fast shutdown
        server.wait(timeout=600)
        shutil.rmtree(folder)


def _unprivileged() -> dict[str, Any] | None:
    """PostgreSQL refuses to run as root: the user it runs as then."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    return {"user": pwd.getpwnam(name).pw_uid, "group": pwd.getpwnam(name).pw_gid, "extra_groups": []}


def _wait_for(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    import psycopg

    for _ in range(6_000):
        if server.poll() is not None:
            break
        try:
            psycopg.connect(url).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    pytest.fail(f"the PostgreSQL server did not start:\n{log.read_text(encoding='utf-8')}")


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Iterator[Any]:
    """Makes streams over tables of these structs; all are stopped afterwards."""
    from tests.spark.harness import Stream

    made: list[Stream] = []

    def make(tables: dict[str, Any]) -> Stream:
        made.append(Stream(spark, tmp_path / f"stream{len(made)}", tables))
        return made[-1]

    yield make
    for found in made:
        found.stop()
