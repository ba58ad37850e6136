"""Who may talk to a shard's process, and what they say: data, under time limits, and nothing that is run."""

from __future__ import annotations

import ast
import json
import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import signature
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest

from everview import errors
from everview.errors import BadRowError, EverviewError, PipelineError, Position, SubscriberError
from everview.spark.checkpoint.identity import Identity
from everview.spark.shard import channel, messages
from everview.spark.shard.channel import Door, reached
from everview.spark.shard.job_key import job_key, tag
from everview.spark.shard.messages import (
    FEED,
    Apply,
    Done,
    Dump,
    Dumped,
    Failed,
    Leave,
    Load,
    MergeShards,
    Need,
    Ready,
    Rebuild,
    Rebuilt,
)
from everview.spark.shard.operator import ShardOperator
from everview.spark.shard.output.spill_file import SpillFile, Spills
from everview.spark.shard.server import ShardServer, answer_all
from everview.spark.shard.sockets import LOCAL_DIRS, dismiss, socket_of, spill_folder
from everview.spark.shard.wire import Message, WireError, decoded, encoded, send
from tests.spark.shards import FIRST, KEY, SECOND, THIRD, Driver, blobs, end, processes, spec, together, until

SOURCE = Path(messages.__file__).parent


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder of the test's own, for sockets."""
    tmp_path_factory.getbasetemp()  # Made now, it is not in that folder.
    with tempfile.TemporaryDirectory(prefix="ev") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        for process in processes(Path(folder)):
            end(process)


@pytest.fixture
def served(place: Path) -> Iterator[Callable[..., Driver]]:
    """A shard that this process itself serves, in a thread."""
    listeners: list[Listener] = []

    def serve(patience: float = 0.2, handshake: float = 60.0, **settings: Any) -> Driver:
        driver = Driver(spec(**settings))
        path = driver.client().path
        listeners.append(Listener(str(path), "AF_UNIX", backlog=channel.BACKLOG))
        door = Door(listeners[-1], KEY, seconds=handshake)
        host = ShardServer(Spills(path.parent, path.stem))
        threading.Thread(target=answer_all, args=(host, door, [0.0], patience), daemon=True).start()
        return driver

    yield serve
    for listener in listeners:
        listener.close()


# --- who is let in ----------------------------------------------------------------------------------------------------


class Command:
    """A pickle that runs a command where it is read."""

    def __init__(self, made: Path) -> None:
        self.made = made

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.made),)


def all_of(connection: Connection) -> set[bytes]:
    """Everything that still comes, until the other end has gone."""
    found = set()
    with suppress(EOFError, OSError):
        while True:
            found.add(connection.recv_bytes())
    return found


@pytest.mark.parametrize("key", [None, b"another key"])
def test_a_foreign_process_runs_nothing_and_is_not_answered(place: Path, tmp_path: Path, key: bytes | None) -> None:
    driver = Driver()
    driver.run(FIRST)
    made = tmp_path / "made"
    with Client(str(driver.client().path), "AF_UNIX") as stranger:
        stranger.send(Command(made))
        with suppress(BrokenPipeError):  # It may have hung up on the first words.
            stranger.send_bytes(encoded(Dump(driver.token or ""))[0])
        if key is not None:
            with pytest.raises(AuthenticationError):
                Client(str(driver.client().path), "AF_UNIX", authkey=key)
        assert stranger.recv_bytes().startswith(b"#CHALLENGE#")
        assert all_of(stranger) <= {b"#FAILURE#"}
    driver.run(SECOND)
    assert driver.cause is None
    assert not made.exists()
    driver.check(together(FIRST, SECOND))


def test_strangers_that_say_nothing_keep_nobody_out(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    strangers = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    try:
        for stranger in strangers:
            stranger.connect(str(driver.client().path))
        driver.run(SECOND)
        assert driver.cause is None
    finally:
        for stranger in strangers:
            stranger.close()
    driver.check(together(FIRST, SECOND))


def test_a_worker_tells_nothing_to_a_process_without_the_key(place: Path) -> None:
    driver = Driver()
    heard: list[bytes] = []
    with Listener(str(driver.client().path), "AF_UNIX") as listener:

        def pretend() -> None:
            with listener.accept() as connection:
                connection.send_bytes(b"#CHALLENGE#" + bytes(20))
                heard.append(connection.recv_bytes())
                connection.send_bytes(b"#WELCOME#")
                heard.append(connection.recv_bytes())
                connection.send_bytes(bytes(16))
                heard.append(connection.recv_bytes())

        pretender = threading.Thread(target=pretend)
        pretender.start()
        with pytest.raises(PipelineError, match=f"process {os.getpid()}.* does not have its key"):
            driver.run(FIRST)
        pretender.join()
    assert [len(heard[0]), heard[1][:11], heard[2]] == [16, b"#CHALLENGE#", b"#FAILURE#"]


def test_a_worker_does_not_wait_for_ever_for_who_says_nothing(place: Path) -> None:
    path = place / "x.sock"
    with Listener(str(path), "AF_UNIX"), pytest.raises(PipelineError, match=r"has not answered for 0\.2 seconds"):
        reached(path, KEY, seconds=0.2)


def test_the_key_is_in_no_argument_environment_or_file(place: Path) -> None:
    driver = Driver()
    driver.run(FIRST)
    (process,) = processes(place)
    for what in ("cmdline", "environ"):
        text = Path(f"/proc/{process}/{what}").read_bytes()
        assert KEY not in text
        assert KEY.hex().encode() not in text
    for path in place.rglob("*"):
        if path.is_file():
            assert KEY.hex().encode() not in path.read_bytes()
    assert driver.client().path.stat().st_mode & 0o777 == 0o600


def test_a_driver_has_one_key_which_its_operators_carry_and_do_not_show() -> None:
    one, other = ShardOperator([], Identity("{}"), [0]), ShardOperator([], Identity("{}"), [0])
    assert one.key == other.key == job_key()
    assert len(one.key) == 32
    assert one.key.hex() not in repr(one) + str(one)
    assert pickle.loads(pickle.dumps(one)).key == one.key


def test_other_jobs_sockets_have_other_names(place: Path) -> None:
    assert socket_of("q", "0/0", KEY) == socket_of("q", "0/0", KEY)
    assert socket_of("q", "0/0", KEY).name != socket_of("q", "0/0", b"another job").name
    assert len(tag(KEY, "folder")) == 16


# --- who hangs -------------------------------------------------------------------------------------------------------


def test_who_is_silent_between_two_messages_makes_room(served: Callable[..., Driver]) -> None:
    driver = served(patience=0.2)
    with driver.client() as hanging:
        hanging._ask(Dump("none"))  # It is connected, and has its turn.
        driver.run(FIRST)
        driver.check(FIRST)
    driver.run(SECOND)
    driver.check(together(FIRST, SECOND))


def test_who_is_silent_alone_stays(served: Callable[..., Driver]) -> None:
    driver = served(patience=0.0)
    with driver.client() as slow:
        driver.run(FIRST, client=slow)
        slow._ask(Dump(driver.token or ""))
        threading.Event().wait(1.5)
        found = slow._ask(Dump(driver.token or ""))
    assert isinstance(found, Dumped)
    assert driver.cause == "new"


@pytest.mark.parametrize("half", [b"\0\0", b"\0\0\1\0", b"\0\0\1\0some of it"])
def test_who_stops_in_the_middle_of_a_message_is_cut_off(
    served: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    monkeypatch.setattr(channel, "STALL_SECONDS", 0.3)
    driver = served(patience=600.0)
    hanging = reached(driver.client().path, KEY)
    assert hanging is not None
    with hanging:
        os.write(hanging.fileno(), half)
        driver.run(FIRST)
        driver.check(FIRST)
        with pytest.raises((EOFError, OSError)):
            hanging.recv_bytes()


def test_who_stops_between_a_header_and_its_blobs_is_cut_off(
    served: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel, "STALL_SECONDS", 0.3)
    driver = served(patience=600.0)
    hanging = reached(driver.client().path, KEY)
    assert hanging is not None
    with hanging:
        hanging.send_bytes(encoded(Load([(1, "r", b"rows")]))[0])
        driver.run(FIRST)
    driver.check(FIRST)


def test_who_does_not_take_its_reply_is_cut_off(served: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "STALL_SECONDS", 0.3)
    driver = served(patience=600.0)
    many = {"r": [(i, 1, 1) for i in range(300_000)]}
    driver.run(many)
    hanging = reached(driver.client().path, KEY)
    assert hanging is not None
    with hanging:
        send(hanging, Dump(driver.token or ""))
        driver.run({"s": [(1, 1, 1)]})
    assert driver.cause is None


@pytest.mark.parametrize(
    "garbage",
    [b"", b"garbage", b"[]", b"{}", b'{"kind": "Nothing", "is": {}, "blobs": 0}', pickle.dumps({"kind": "Need"})],
)
def test_what_is_no_message_ends_the_connection_and_nothing_else(served: Callable[..., Driver], garbage: bytes) -> None:
    driver = served()
    driver.run(FIRST)
    wild = reached(driver.client().path, KEY)
    assert wild is not None
    with wild:
        wild.send_bytes(garbage)
        with pytest.raises((EOFError, OSError)):
            wild.recv_bytes()
    driver.run(SECOND)
    assert driver.cause is None


# --- what is said ----------------------------------------------------------------------------------------------------

PARCEL = SpillFile("/local/a.parcel", "mark", 100, 7)
MESSAGES: list[Message] = [
    Rebuild(b'{"format": 1}', "digest"),
    Load([(1, "r", b"\0\xff"), (2, "näme", b"")]),
    Load([]),
    Rebuilt(None),
    Rebuilt("v1", whole=True),
    Apply("digest", None, "v1", [], True, None),
    Apply(
        "d",
        "v1",
        "v2",
        [("r", b"x"), ("r", b"y")],
        False,
        MergeShards({"v": (0, 2), "w": ()}, 3),
        False,
        Leave(4, 5),
        6,
    ),
    Dump("v1", more=True),
    Dumped([("r", b"rows", 3), ("s", b"", 0)]),
    Ready(),
    Need(),
    Done({}, [], {}),
    Done(
        {("v", FEED): [(b"one", 1), (PARCEL, 7), (b"two", 2)], ("w", 0): [(b"three", 3)], ("w", 1): []},
        ["a row"],
        {"rows": {"r": 1}, "seconds": 0.5, "bytes": 10},
        [("r", b"taken")],
    ),
    Done({}, [], {}, []),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_messages_arrive_as_they_were_sent(message: Message) -> None:
    header, blobs = encoded(message)
    json.loads(header)
    assert all(type(blob) is bytes for blob in blobs)
    assert decoded(header, lambda count: blobs[:count]) == message


def test_every_message_is_among_those() -> None:
    kinds = {m for m in vars(messages).values() if isinstance(m, type) and m.__module__ == messages.__name__}
    assert kinds - {type(m) for m in MESSAGES} == {Failed, Leave, MergeShards}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda m: type(m).__name__)
def test_a_message_with_other_blobs_than_it_speaks_of_is_none(message: Message) -> None:
    header, blobs = encoded(message)
    if blobs:
        with pytest.raises(WireError):
            decoded(header, lambda count: blobs[: count - 1])


def arrived(error: Exception) -> Exception:
    header, blobs = encoded(Failed(error, "trace"))
    failed = decoded(header, lambda count: blobs)
    assert isinstance(failed, Failed)
    assert failed.trace == "trace"
    return failed.error


ERRORS = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, EverviewError)]


@pytest.mark.parametrize("kind", ERRORS, ids=lambda e: e.__name__)
def test_errors_of_everview_arrive_as_they_are(kind: type[EverviewError]) -> None:
    extra: dict[str, Any] = {}
    for parameter in signature(kind).parameters.values():
        if parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY:
            extra[parameter.name] = ("thing", "other") if parameter.name == "dependants" else "thing"
    if issubclass(kind, errors.DataError):
        extra |= {"table": "r", "row": 3, "column": "x"}
    elif "position" in signature(kind).parameters:
        extra |= {"position": Position(1, 2, 3), "source": "SELECT"}
    error = kind("what", hint="do", **extra)
    found = arrived(error)
    assert type(found) is kind
    assert (str(found), vars(found), found.args) == (str(error), vars(error), error.args)


def test_other_errors_arrive_as_text_and_no_other_class_is_ever_made() -> None:
    class OwnError(BadRowError):
        """Not one of the module's."""

    assert repr(arrived(MemoryError("no more"))) == "RuntimeError('MemoryError: no more')"
    assert repr(arrived(OwnError("own"))) == "RuntimeError('OwnError: own')"
    nested = SubscriberError("its callback", version=1, view="v", cause=ValueError("x"))
    assert repr(arrived(nested)) == "RuntimeError('SubscriberError: its callback')"
    told = {"error": "Position", "fields": {"message": ""}, "position": None, "trace": ""}
    header = {"kind": "Failed", "blobs": 0, "is": told}
    with pytest.raises(WireError):
        decoded(json.dumps(header).encode(), lambda count: [])


def test_nothing_is_pickled_on_the_way(served: Callable[..., Driver], monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: Any, **__: Any) -> Any:
        raise AssertionError("a pickle")

    for owner, name in (
        (Connection, "send"),
        (Connection, "recv"),
        (ForkingPickler, "dumps"),
        (ForkingPickler, "loads"),
    ):
        monkeypatch.setattr(owner, name, forbidden)
    for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, forbidden)
    driver = served()
    for batch in (FIRST, SECOND, THIRD):
        driver.run(batch)
    with pytest.raises(BadRowError):
        driver.run({"r": [(77, 7, -1)]})
    with driver.client() as client:
        assert list(client.dump(driver.token or ""))
    driver.check(together(FIRST, SECOND, THIRD))


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_module_of_the_pipeline_pickles(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = {alias.name for alias in node.names} | {getattr(node, "module", "") or ""}
            assert not {"pickle", "cloudpickle", "marshal", "shelve", "dill"} & {n.split(".")[0] for n in names}
        elif isinstance(node, ast.Attribute):
            assert node.attr not in {"recv", "recv_into"}
            assert node.attr != "send" or not isinstance(node.value, ast.Name) or "connection" not in node.value.id


# --- where files lie, and what is read for a schema -------------------------------------------------------------------


def test_large_changes_lie_in_sparks_local_folders(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = [tmp_path / "blockmgr-1", tmp_path / "blockmgr-2"]
    for path in local:
        path.mkdir()
    monkeypatch.setenv(LOCAL_DIRS, ",".join(map(str, local)))
    driver = Driver()
    with driver.client() as client:
        request = Apply(client.digest, None, "v1", [], True, None, leave=Leave(1, 0))
        client.apply(request, list)
    spill = spill_folder(driver.client().path)
    assert spill.parent in local
    assert spill.stat().st_mode & 0o777 == 0o700
    (process,) = processes(place)
    assert Path(os.readlink(f"/proc/{process}/cwd")) == spill
    with driver.client() as client:
        rows = blobs(FIRST, driver.spec)
        reply, _ = client.apply(Apply(client.digest, None, "v2", rows, False, None, leave=Leave(2, 0)), list)
    paths = [Path(part.path) for parts in reply.changes.values() for part, _ in parts if isinstance(part, SpillFile)]
    assert paths
    assert {path.parent for path in paths} == {spill}
    assert not list(place.rglob("*.parcel"))
    dismiss(driver.query, KEY)
    until(lambda: not processes(place))
    assert not list(spill.iterdir())


def test_a_local_folder_that_is_not_there_or_not_ours_is_not_used(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = place / "q-s.sock"
    taken = tmp_path / "taken"
    (taken / "everview").mkdir(parents=True)
    (taken / "everview").chmod(0o777)
    monkeypatch.setenv(LOCAL_DIRS, f"{tmp_path / 'missing'},relative,{taken}")
    assert spill_folder(path) == place
    monkeypatch.delenv(LOCAL_DIRS)
    assert spill_folder(path) == place


def test_the_process_that_tells_the_states_schema_reads_little() -> None:
    """Spark starts one on the driver whenever a query starts, and does not wait long for it."""
    code = """
import sys
import pyspark.sql.streaming.transform_with_state_driver_worker
before = set(sys.modules)
import everview.spark.shard.operator
print(*sorted({m.partition(".")[0] for m in set(sys.modules) - before}))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) <= {"everview", "secrets", "hmac", "random", "base64", "binascii"}
