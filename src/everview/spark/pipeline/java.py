"""Is there a Java that Spark can run on? Asked before Spark is started, whose own words for it help nobody."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from everview.errors import PipelineError

LEAST: Final = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_HINT: Final = (
    f"install it (Debian, Ubuntu: sudo apt-get install openjdk-{LEAST}-jre-headless; Fedora: sudo dnf install "
    f"java-{LEAST}-openjdk-headless; macOS: brew install openjdk@{LEAST}), or set JAVA_HOME to where it is"
)


def check_java() -> None:
    """Raise an error that says what to do if Spark would find no Java, or one that is too old."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    where = f"JAVA_HOME is {home}" if home else "there is no JAVA_HOME and no java on the PATH"
    if command is None or not Path(command).is_file():
        raise PipelineError(f"Spark needs Java {LEAST} or later, and none was found: {where}", hint=_HINT)
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PipelineError(
            f"Spark needs Java {LEAST} or later, and {command} cannot be run: {error}", hint=_HINT
        ) from error
    found = _VERSION.search(done.stderr + done.stdout)
    if found is None or int(found[1]) < LEAST:
        version = f"Java {found[1]}" if found else "of unknown version"
        raise PipelineError(f"Spark needs Java {LEAST} or later, and {command} is {version}", hint=_HINT)
