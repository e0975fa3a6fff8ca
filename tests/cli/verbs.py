"""The command ``bus`` on a live bus of real processes, as tests give it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner, Result

from bus.cli import main
from tests.processes import start
from tests.support import LIMIT_S, until

if TYPE_CHECKING:
    import subprocess

    from tests.links.real import Far

__all__ = ["MACHINE", "ended_by_notifying", "program", "read", "verb"]

# What the processes of `Far` call their machine.
MACHINE = ("--machine", "machine")

# Whoever runs tests in the background ignores interrupts, and children would, too.
_CODE = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from bus.cli import main
main()
"""


def verb(*arguments: object) -> Result:
    """Run a verb on the bus of the test, in this process."""
    name, *rest = map(str, arguments)
    result = CliRunner().invoke(main, [name, *MACHINE, *rest])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read(*arguments: object) -> Any:
    """Run a verb that answers with one JSON document; return that."""
    result = verb(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    [line] = result.stdout.splitlines()
    return json.loads(line)


def program(name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a verb as a program of its own."""
    assert sys.executable
    return start(_CODE, name, *MACHINE, *arguments)


def ended_by_notifying(listening: subprocess.Popen[str], far: Far, task: str) -> str:
    """Let a task notify until a program that listens ends by itself.

    Returns what that has printed.
    """

    def over() -> bool:
        far(f"made['{task}'].notify({{'from': '{task}'}})")
        return listening.poll() is not None

    until(over, "it has heard enough")
    answer, complaints = listening.communicate(timeout=LIMIT_S)
    assert complaints == ""
    return answer
