"""`run_program`: one job in processes of its own, with a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["command", "environment", "run_program"]


def command(module: str, *arguments: object) -> list[str]:
    """Return the command that starts a module of the benchmarks as a program."""
    return [sys.executable, "-m", module, *map(str, arguments)]


def environment() -> dict[str, str]:
    """Return the environment in which that program can import the benchmarks."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def run_program(what: str, arguments: list[str], limit_s: float) -> list[float]:
    """Run a program to its end; return the numbers that it prints.

    Raises:
        RuntimeError: it failed, or was not done in time; the message names ``what``.
    """
    with subprocess.Popen(
        arguments,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # to kill it together with its children
    ) as process:
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
