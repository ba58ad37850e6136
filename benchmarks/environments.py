"""The environments of the systems that are compared: one a file of benchmarks/rivals, installed as it pins them.

``python -m benchmarks.environments [system …]`` makes those that are missing or out of date, or the ones named.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from hashlib import sha256
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parent.parent
RIVALS = ROOT / "benchmarks" / "rivals"
ENVIRONMENTS = ROOT / "build" / "bench" / "env"


class Failed(RuntimeError):
    """An environment could not be made."""


def names() -> list[str]:
    """The environments that there are files for."""
    return sorted(path.stem for path in RIVALS.glob("*.txt"))


def python(name: str) -> Path:
    """The interpreter of an environment, made or not."""
    return ENVIRONMENTS / name / "bin" / "python"


def is_current(name: str) -> bool:
    """Whether an environment is there, in this place, with what its file pins now."""
    stamp = _stamp(name)
    return stamp.exists() and stamp.read_text(encoding="utf-8") == _wanted(name)


def make(name: str) -> Path:
    """An environment's interpreter; the environment is made anew if it is not as its file says."""
    if is_current(name):
        return python(name)
    pins, folder = _pins(name), ENVIRONMENTS / name
    say(f"making the environment of {name} in {folder} (once)")
    begun = monotonic()
    _run([sys.executable, "-m", "venv", "--clear", str(folder)])
    install = [str(python(name)), "-m", "pip", "install", "--disable-pip-version-check", "--require-hashes"]
    _run([*install, "--progress-bar", "off", "-r", str(pins)], counted=True)
    _stamp(name).write_text(_wanted(name), encoding="utf-8")
    say(f"{name} is ready after {monotonic() - begun:.0f} s")
    return python(name)


@cache
def java_home() -> str:
    """The home of the Java that Flink and Spark run on, found or installed by scripts/java.sh."""
    found = subprocess.run([ROOT / "scripts" / "java.sh"], check=True, capture_output=True, text=True)
    return found.stdout.strip()


def say(text: str) -> None:
    """A line for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def _pins(name: str) -> Path:
    path = RIVALS / f"{name}.txt"
    if not path.exists():
        raise Failed(f"there is no {path.relative_to(ROOT)}; there are: {', '.join(names())}")
    return path


def _stamp(name: str) -> Path:
    return ENVIRONMENTS / name / ".made"


def _wanted(name: str) -> str:
    """What a made environment records: the pins, the Python, and the place, since an environment cannot be moved."""
    told = "\0".join([_pins(name).read_text(encoding="utf-8"), sys.version, str(ENVIRONMENTS / name)])
    return sha256(told.encode()).hexdigest()


def _run(command: list[str], counted: bool = False) -> None:
    """Run a command of pip or venv, saying which package it is at; its words are told only if it fails."""
    environment = {**os.environ, "PYTHONPATH": ""}
    lines: list[str] = []
    packages = 0
    with subprocess.Popen(
        command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if counted and line.startswith("Collecting "):
                packages += 1
                print(f"\r\033[K  {packages}: {line.split()[1]}", end="", file=sys.stderr, flush=True)
    if counted:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    if process.returncode != 0:
        raise Failed(f"{' '.join(command)} failed:\n{''.join(lines[-30:])}")


def main() -> int:
    """Make the environments that the command line names, or all."""
    for name in sys.argv[1:] or names():
        try:
            make(name)
        except Failed as failed:
            say(str(failed))
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
