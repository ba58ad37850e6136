"""Messages as they travel: a header as JSON, which says what it is, and after it the blobs that it counts.

Nothing that arrives is ever run: JSON and Arrow are data. So neither end uses ``Connection.send`` and ``recv``, which
pickle; whoever could write to such a connection would run what they like in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from multiprocessing.connection import Connection
from numbers import Integral
from typing import Any, Final

from everview import errors
from everview.errors import EverviewError, Position
from everview.spark.shard.messages import (
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
from everview.spark.shard.output.spill_file import SpillFile

Message = Apply | Done | Dump | Dumped | Failed | Load | Need | Ready | Rebuild | Rebuilt
Data = dict[str, Any]
MOST_HEADER: Final = 1 << 30
"""Bytes of a header: the texts of rows that were put aside are in it, blobs are not."""


class WireError(Exception):
    """What has arrived is no message."""


def send(connection: Connection, message: Message) -> None:
    """Send a message; OSError if it cannot be."""
    header, blobs = encoded(message)
    connection.send_bytes(header)
    for blob in blobs:
        connection.send_bytes(blob)


def receive(connection: Connection) -> Message:
    """The next message; EOFError or OSError if there is none, WireError if it is none."""
    header = connection.recv_bytes(MOST_HEADER)
    return decoded(header, lambda count: [connection.recv_bytes() for _ in range(count)])


def encoded(message: Message) -> tuple[bytes, list[bytes]]:
    """The header of a message, and its blobs."""
    blobs: list[bytes] = []
    kind = type(message).__name__
    header = {"kind": kind, "is": _WRITERS[kind](message, blobs), "blobs": len(blobs)}
    return json.dumps(header, default=_plain).encode(), blobs


def decoded(header: bytes, blobs: Callable[[int], Sequence[bytes]]) -> Message:
    """The message with a header; ``blobs`` gives as many as the header says there are."""
    try:
        data = json.loads(header)
        reader, count = _READERS[data["kind"]], data["blobs"]
        if not isinstance(count, int) or count < 0:
            raise WireError(f"a message has {count!r} blobs")
        found = blobs(count)
        return reader(data["is"], found)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise WireError(f"what has arrived is no message: {type(error).__name__}: {error}") from error


def _plain(value: Any) -> Any:
    """What JSON does not know: numpy's numbers as numbers, everything else as text."""
    item = getattr(value, "item", None)
    return item() if callable(item) else str(value)


# --- requests --------------------------------------------------------------------------------------------------------


def _rebuild(m: Rebuild, blobs: list[bytes]) -> Data:
    blobs.append(m.spec)
    return {"digest": m.digest, "clock": m.clock}


def _read_rebuild(data: Data, blobs: Sequence[bytes]) -> Rebuild:
    return Rebuild(blobs[0], str(data["digest"]), _number(data["clock"]))


def _load(m: Load, blobs: list[bytes]) -> Data:
    blobs += [blob for _, _, blob in m.rows]
    return {"rows": [[batch, name] for batch, name, _ in m.rows]}


def _read_load(data: Data, blobs: Sequence[bytes]) -> Load:
    return Load([(int(batch), str(name), blob) for (batch, name), blob in zip(data["rows"], blobs, strict=True)])


def _rebuilt(m: Rebuilt, blobs: list[bytes]) -> Data:
    return {"token": m.token, "whole": m.whole}


def _read_rebuilt(data: Data, blobs: Sequence[bytes]) -> Rebuilt:
    return Rebuilt(_text(data["token"]), bool(data["whole"]))


def _apply(m: Apply, blobs: list[bytes]) -> Data:
    blobs += [blob for _, blob in m.rows]
    return {
        "digest": m.digest,
        "before": m.before,
        "after": m.after,
        "rows": [name for name, _ in m.rows],
        "everything": m.everything,
        "targets": None
        if m.merge_shards is None
        else {"columns": m.merge_shards.columns, "shards": m.merge_shards.shards},
        "stats": m.stats,
        "leave": None if m.leave is None else asdict(m.leave),
        "batch": m.batch,
        "clock": m.clock,
    }


def _read_apply(data: Data, blobs: Sequence[bytes]) -> Apply:
    merge_shards, leave = data["targets"], data["leave"]
    return Apply(
        str(data["digest"]),
        _text(data["before"]),
        str(data["after"]),
        [(str(name), blob) for name, blob in zip(data["rows"], blobs, strict=True)],
        bool(data["everything"]),
        None
        if merge_shards is None
        else MergeShards(
            {str(v): tuple(map(int, c)) for v, c in merge_shards["columns"].items()}, int(merge_shards["shards"])
        ),
        bool(data["stats"]),
        None if leave is None else Leave(int(leave["batch"]), int(leave["least"])),
        int(data["batch"]),
        None if data["clock"] is None else (_number(data["clock"][0]), int(data["clock"][1])),
    )


def _dump(m: Dump, blobs: list[bytes]) -> Data:
    return {"token": m.token, "more": m.more}


def _read_dump(data: Data, blobs: Sequence[bytes]) -> Dump:
    return Dump(str(data["token"]), bool(data["more"]))


# --- replies ---------------------------------------------------------------------------------------------------------


def _nothing(m: Need | Ready, blobs: list[bytes]) -> Data:
    return {}


def _dumped(m: Dumped, blobs: list[bytes]) -> Data:
    blobs += [blob for _, blob, _ in m.rows]
    return {"rows": [[name, count] for name, _, count in m.rows]}


def _read_dumped(data: Data, blobs: Sequence[bytes]) -> Dumped:
    return Dumped([(str(name), blob, int(count)) for (name, count), blob in zip(data["rows"], blobs, strict=True)])


def _done(m: Done, blobs: list[bytes]) -> Data:
    changes = []
    for (view, target), parts in m.changes.items():
        told: list[Data] = []
        for part, count in parts:
            if isinstance(part, SpillFile):
                told.append({"rows": count, "parcel": asdict(part)})
            else:
                told.append({"rows": count})
                blobs.append(part)
        changes.append([view, target, told])
    if m.accepted is not None:
        blobs += [blob for _, blob in m.accepted]
    accepted = None if m.accepted is None else [name for name, _ in m.accepted]
    return {"changes": changes, "bad": m.bad, "stats": m.stats, "accepted": accepted}


def _read_done(data: Data, blobs: Sequence[bytes]) -> Done:
    left = iter(blobs)
    changes: dict[tuple[str, int], list[tuple[bytes | SpillFile, int]]] = {}
    for view, target, told in data["changes"]:
        changes[str(view), int(target)] = [(_part(part, left), int(part["rows"])) for part in told]
    accepted = data["accepted"]
    rows = None if accepted is None else [(str(name), _next(left)) for name in accepted]
    return Done(changes, list(map(str, data["bad"])), dict(data["stats"]), rows)


def _part(data: Data, blobs: Any) -> bytes | SpillFile:
    spill_file = data.get("parcel")
    return _next(blobs) if spill_file is None else SpillFile(**spill_file)


def _next(blobs: Any) -> bytes:
    found = next(blobs, None)
    if not isinstance(found, bytes):
        raise WireError("a message has fewer blobs than it speaks of")
    return found


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


# --- errors ----------------------------------------------------------------------------------------------------------


def _failed(m: Failed, blobs: list[bytes]) -> Data:
    """An error of Everview's as what it says of itself; any other, and one that is not plain data, as text."""
    kind, fields = type(m.error), dict(vars(m.error))
    position = fields.pop("position", None)
    fields.pop("refused", None)  # Places in what the shard was given, net, which nobody else knows.
    known = isinstance(m.error, EverviewError) and getattr(errors, kind.__name__, None) is kind
    if isinstance(m.error, errors.DegreeExceeded) and not _is_plain(m.error.element):
        fields["element"] = str(m.error.element)
    if not known or not all(map(_is_plain, fields.values())):
        return {"error": None, "text": f"{kind.__name__}: {m.error}", "trace": m.trace}
    place = None if position is None else asdict(position)
    return {"error": kind.__name__, "fields": fields, "position": place, "trace": m.trace}


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | int | float | Integral)


def _read_failed(data: Data, blobs: Sequence[bytes]) -> Failed:
    trace = str(data["trace"])
    if data["error"] is None:
        return Failed(RuntimeError(str(data["text"])), trace)
    kind = getattr(errors, data["error"])
    if not (isinstance(kind, type) and issubclass(kind, EverviewError)):
        raise WireError(f"{data['error']} is no error of Everview's")
    error: EverviewError = kind.__new__(kind)  # Each has an __init__ of its own.
    fields, position = data["fields"], data["position"]
    error.args = (str(fields["message"]),)
    error.position = None if position is None else Position(**position)
    for name, value in fields.items():
        vars(error)[str(name)] = tuple(value) if isinstance(value, list) else value
    return Failed(error, trace)


_WRITERS: Final[dict[str, Callable[[Any, list[bytes]], Data]]] = {
    "Rebuild": _rebuild,
    "Load": _load,
    "Rebuilt": _rebuilt,
    "Apply": _apply,
    "Dump": _dump,
    "Need": _nothing,
    "Ready": _nothing,
    "Dumped": _dumped,
    "Done": _done,
    "Failed": _failed,
}
_READERS: Final[dict[str, Callable[[Data, Sequence[bytes]], Message]]] = {
    "Rebuild": _read_rebuild,
    "Load": _read_load,
    "Rebuilt": _read_rebuilt,
    "Apply": _read_apply,
    "Dump": _read_dump,
    "Need": lambda data, blobs: Need(),
    "Ready": lambda data, blobs: Ready(),
    "Dumped": _read_dumped,
    "Done": _read_done,
    "Failed": _read_failed,
}
