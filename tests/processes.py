"""Programs of their own, for what only the end of a process can show."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

__all__ = ["run", "start"]

_ROOT = Path(__file__).parents[1]


def start(code: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start a Python program; its answers come on a pipe."""
    path = os.pathsep.join([str(_ROOT), *filter(None, sys.path)])
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def run(code: str, *arguments: str | Path) -> tuple[int, str, str]:
    """Run a Python program to its end: exit code, answer, complaints."""
    with start(code, *arguments) as process:
        answer, complaints = process.communicate(timeout=60)
    return process.returncode, answer, complaints
