"""`run_program`: one job in processes of its own, with a time limit.

`far_program` starts the second process of a job from its first one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["command", "environment", "far_program", "run_program", "start_program"]

_END_S: Final = 5.0  # for the far process to end by itself


def command(module: str, *arguments: object) -> list[str]:
    """Return the command that starts a module of the benchmarks as a program."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return the environment in which that program can import the benchmarks."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def start_program(arguments: list[str], **options: Any) -> subprocess.Popen[str]:
    """Start such a program, with pipes to and from it, and ``options`` of `Popen`."""
    pipe = subprocess.PIPE
    return subprocess.Popen(
        arguments, env=environment(), stdin=pipe, stdout=pipe, text=True, **options
    )


def run_program(what: str, arguments: list[str], limit_s: float) -> list[float]:
    """Run a program to its end; return the numbers that it prints.

    Raises:
        RuntimeError: it failed, or was not done in time; the message names ``what``.
    """
    # A new session, to kill it together with its children.
    with start_program(arguments, start_new_session=True) as process:
        try:
            answer, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{what}: not done after {limit_s:g} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise RuntimeError(f"{what}: ended with exit code {process.returncode}")
    return [float(each) for each in answer.split()]


@contextmanager
def far_program(module: str, *arguments: object) -> Iterator[tuple[str, str]]:
    """Run a module as the far process of a job; yield a folder and its first line.

    Both processes use the folder; it is the last argument of the module. The far
    process prints the line when it is ready. It must end by itself once the near party
    is closed, within 5 s of the end of the block, or is killed.
    """
    # A short prefix, since the path of a socket must be short.
    with (
        tempfile.TemporaryDirectory(prefix="qb-") as folder,
        start_program(command(module, *arguments, folder)) as far,
    ):
        assert far.stdout is not None
        try:
            yield folder, far.stdout.readline()
        finally:
            try:
                far.wait(_END_S)
            except subprocess.TimeoutExpired:
                far.kill()
