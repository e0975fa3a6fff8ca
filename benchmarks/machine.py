"""The machine and the versions of a measurement, in one line.

The line contains neither the name of the machine nor a path on it.
"""

from __future__ import annotations

import functools
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from benchmarks.rivals import TABLE
from queuebroker import _net

__all__ = ["machine_line"]


@functools.cache
def machine_line() -> str:
    """Return CPU, cores, system, Python, our version and commit, rivals' versions."""
    packages = [rival.distribution for rival in TABLE.values()]
    return ", ".join(
        [
            f"{_cpu_model()} ({_net.processors()} cores)",
            f"{platform.system()} {platform.release()}",
            f"{platform.python_implementation()} {platform.python_version()}"
            + _free_threading(),
            f"queuebroker {_version('queuebroker')}{_commit()}",
            f"attrs {_version('attrs')}",
            *(f"{each} {_version(each)}" for each in dict.fromkeys(packages) if each),
        ]
    )


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.machine()


def _free_threading() -> str:
    locked = getattr(sys, "_is_gil_enabled", lambda: True)()
    return "" if locked else " without interpreter lock"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    """Return the measured commit, and whether the tree has changed since."""
    here = Path(__file__).parent
    try:
        commit = _git(here, "rev-parse", "--short", "HEAD")
        changed = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" at {commit}" + (" with changes" if changed else "")


def _git(folder: Path, *arguments: str) -> str:
    answer = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    return answer.stdout.strip()
