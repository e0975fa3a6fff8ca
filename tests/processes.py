"""Separate programs, for behaviour that only the end of a process can show."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["import_path", "run", "start"]


def import_path() -> str:
    """Return a PYTHONPATH by which a program imports the same modules as this process.

    If a mutant is swapped into this process, its copy is the first folder of the path.
    """
    return os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parents[1])])


def start(
    code: str, *arguments: str | Path, prefix: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start a Python program; its output comes on a pipe.

    prefix: a command that runs the command after it, such as `unshare`.
    """
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": import_path()},
    )


def run(code: str, *arguments: str | Path) -> tuple[int, str, str]:
    """Run a Python program to its end; return exit code, output and standard error."""
    with start(code, *arguments) as process:
        try:
            answer, complaints = process.communicate(timeout=60)
        except BaseException:
            process.kill()  # else leaving the block would wait for its end
            raise
    return process.returncode, answer, complaints
