"""Programs that this process starts."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "Process",
    "exit_code_of",
    "start_process",
]

Process = subprocess.Popen


def start_process(
    command: Sequence[str], environment: Mapping[str, str]
) -> Process[bytes]:
    """Start a program with a pipe to its ``stdin``.

    It runs in a process group of its own: Ctrl-C at the terminal reaches only this
    process, which ends the program by closing that ``stdin``.

    Raises:
        OSError: the program cannot be started.
    """
    return Process(command, stdin=subprocess.PIPE, env=environment, process_group=0)


def exit_code_of(process: Process[bytes], timeout_s: float) -> int | None:
    """Wait for the end of a program; return its exit code, or None if time is up."""
    try:
        return process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
