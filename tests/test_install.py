"""Installing from a checkout, as ``pip install .`` does it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with its size and when it was changed."""
    return {str(p.relative_to(folder)): (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*")}


def test_the_oldest_versions_that_are_allowed_are_those_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    stated = {}
    for line in [*project["dependencies"], *extras["spark"], *extras["delta"], *extras["postgres"]]:
        found = re.fullmatch(r"([a-z0-9]+)(?:\[[a-z]+\])?[=>]=([0-9.]+)(?:,.*)?", line)
        assert found is not None, f"{line} states no oldest version"
        stated[found[1]] = found[2]
    tested = {}
    for line in (ROOT / "requirements" / "minimum.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            name, version = line.split("==")
            tested[name.partition("[")[0]] = version
    assert stated.keys() == tested.keys()
    for name, version in stated.items():
        assert (tested[name] + ".").startswith(version + "."), f"{name} {version} is stated, {tested[name]} tested"


@pytest.mark.slow
def test_an_install_writes_nothing_into_the_checkout(tmp_path: Path) -> None:
    checkout, target = tmp_path / "checkout", tmp_path / "target"
    checkout.mkdir()
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, checkout)
    shutil.copytree(ROOT / "src", checkout / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    before = listing(checkout)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--no-index"]
    quickly = ["--config-settings=cmake.build-type=Debug", "--config-settings=cmake.define.CMAKE_CXX_FLAGS_DEBUG=-O0"]
    subprocess.run([*pip, *quickly, "--target", str(target), str(checkout)], check=True, cwd=tmp_path)
    assert listing(checkout) == before
    code = "import everview.kernel._kernel as k; print(k.__file__)"
    found = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(target)!r}); {code}"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert Path(found.stdout.strip()).is_relative_to(target)
