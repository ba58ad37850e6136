"""The results files: benchmarks/results/<name>.jsonl, a measurement a line, each with its machine, date and command."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
KEY = ("case", "data", "system", "mode", "batch", "every", "per_update", "point")
"""What a measurement is of: a newer one of the same replaces the older."""

Record = dict[str, Any]


def read(name: str, folder: Path = RESULTS) -> list[Record]:
    """The measurements of a file; none if it is not there."""
    path = folder / f"{name}.jsonl"
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(name: str, records: Iterable[Record], *, whole: bool, folder: Path = RESULTS) -> None:
    """Keep measurements: as all there is (``whole``), or in the place of older ones of the same."""
    new = {_key(r): r for r in records}
    old = {} if whole else {_key(r): r for r in read(name, folder)}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (old | new).values()), encoding="utf-8")


def _key(record: Record) -> tuple[object, ...]:
    return tuple(record.get(k) for k in KEY)


def circumstances() -> Record:
    """Where, when and how a measurement is made."""
    command = " ".join(["python -m benchmarks", *sys.argv[1:]])
    return {"date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"), "command": command, "machine": machine()}


def machine() -> str:
    """The machine in a line."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    name = cpu[1].strip() if cpu else platform.machine()
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def provenance(records: Iterable[Record], name: str) -> str:
    """The line below a table: the file its numbers are from, and what made that."""
    ways = list(dict.fromkeys((r["command"], r["machine"]) for r in records))
    dates = sorted({r["date"][:10] for r in records})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    told = "; ".join(f"`{command}` on {machine_}" for command, machine_ in ways)
    return f"From [{name}.jsonl](../benchmarks/results/{name}.jsonl), {when}: {told}."
