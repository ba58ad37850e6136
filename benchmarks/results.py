"""The results files: benchmarks/results/<name>.jsonl, a measurement a line, each with its machine, date and command."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
KEY = ("case", "data", "system", "mode", "batch", "every", "per_update", "point")
"""What a measurement is of: a newer one of the same replaces the older."""
RECENT = timedelta(hours=12)
"""How long a run that was stopped can be gone on with."""
RESUME = (
    f"go on with a run that was stopped on this machine in the last {RECENT.seconds // 3600} hours, with the same code"
)

Record = dict[str, Any]


def read(name: str, folder: Path = RESULTS) -> list[Record]:
    """The measurements of a file; none if it is not there. A time is the median of its runs, in older ones as well."""
    path = folder / f"{name}.jsonl"
    if not path.exists():
        return []
    found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for record in found:
        if len(record.get("runs_s", ())) == 2:
            record["run_s"] = median(record["runs_s"])
    return found


def put(name: str, head: Record, records: Iterable[Record], folder: Path = RESULTS) -> None:
    """Keep the measurements of a benchmark that is always run as a whole, below a line with its circumstances."""
    folder.mkdir(exist_ok=True)
    lines = "".join(json.dumps(r) + "\n" for r in [head, *records])
    (folder / f"{name}.jsonl").write_text(lines, encoding="utf-8")


def write(name: str, records: Iterable[Record], *, whole: bool, folder: Path = RESULTS) -> None:
    """Keep measurements: as all there is (``whole``), or in the place of older ones of the same."""
    new = {key(r): r for r in records}
    old = {} if whole else {key(r): r for r in read(name, folder)}
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in (old | new).values()), encoding="utf-8")


def recent(name: str, folder: Path = RESULTS) -> dict[tuple[object, ...], Record]:
    """What a file holds of a run that was stopped: measured on this machine within hours, of the same code.

    By what they are of; what broke down is not among them.
    """
    return {key(r): r for r in read(name, folder) if is_recent(r) and r.get("status") != "error"}


def stands(name: str, folder: Path = RESULTS) -> bool:
    """Whether a benchmark that is always run as a whole need not be, to go on with a run that was stopped; tells so."""
    found = read(name, folder)[:1]
    if not found or not is_recent(found[0]):
        return False
    print(f"{name}: measured already, {found[0]['date']}, by {found[0]['command']}")
    return True


def is_recent(record: Record) -> bool:
    """Whether a measurement, or a file's first line, is of this machine, these hours and this code."""
    if record.get("machine", "").partition(", pyspark")[0] != machine() or "date" not in record:
        return False
    made = datetime.strptime(record["date"], "%Y-%m-%d %H:%M").replace(tzinfo=UTC)
    return datetime.now(UTC) - made < RECENT and _is_same_code(str(record.get("revision", "")).split(" ")[0])


@cache
def _is_same_code(commit: str) -> bool:
    """Whether the product, benchmarks aside, is that of a commit."""
    try:
        return bool(commit) and not _git("diff", "--name-only", commit, "--", "src")
    except (OSError, subprocess.CalledProcessError):
        return False


def key(record: Record) -> tuple[object, ...]:
    """What a measurement is of."""
    return tuple(record.get(k) for k in KEY)


def circumstances(module: str = "benchmarks") -> Record:
    """Where, when and how a measurement is made, and of which code."""
    command = " ".join([f"python -m {module}", *sys.argv[1:]])
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return {"date": date, "command": command, "machine": machine(), "revision": revision()}


def revision() -> str:
    """The commit of the code that is measured, with a mark if it was changed since; nothing outside a repository."""
    code = ["src", "benchmarks", ":!benchmarks/results"]
    try:
        commit = _git("rev-parse", "--short", "HEAD").strip()
        changed = _git("status", "--porcelain", "--", *code)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f"{commit} with changes" if changed else commit


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=RESULTS.parent.parent, check=True, capture_output=True, text=True).stdout


def machine() -> str:
    """The machine in a line."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    name = cpu[1].strip() if cpu else platform.machine()
    system = f"{platform.system()} {platform.release().partition('-')[0]}"
    return f"{name}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}, Python {platform.python_version()}"


def provenance(records: Iterable[Record], name: str) -> str:
    """The line below a table: the file its numbers are from, and what made that."""
    listed = list(records)
    ways = list(dict.fromkeys((r["command"], r["machine"]) for r in listed))
    dates = sorted({r["date"][:10] for r in listed if "date" in r}) or ["earlier"]
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    told = "; ".join(f"`{command}` on {machine_}" for command, machine_ in ways)
    code = sorted({r["revision"] for r in listed if r.get("revision")})
    of = f", code of {' and '.join(code)}" if code else ""
    return f"From [{name}.jsonl](../benchmarks/results/{name}.jsonl), {when}{of}: {told}."
