"""The command ``bus`` on a live bus of real processes, for tests."""

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

    from tests.process.real import Far

__all__ = ["CODE", "MACHINE", "ended_by_notifying", "program", "read", "verb"]

# The machine name of the `Far` processes.
MACHINE = ("--machine", "machine")

# The command as a program. Background jobs of a shell ignore interrupts, and their
# children would, too.
CODE = """
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
    """Run a verb that answers with one JSON document; return the document."""
    result = verb(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    [line] = result.stdout.splitlines()
    return json.loads(line)


def program(name: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a verb as a program of its own."""
    assert sys.executable
    return start(CODE, name, *MACHINE, *arguments)


def ended_by_notifying(listening: subprocess.Popen[str], far: Far, task: str) -> str:
    """Let a task notify until a listening program ends by itself.

    Returns the program's output.
    """

    def over() -> bool:
        far(f"made['{task}'].notify({{'from': '{task}'}})")
        return listening.poll() is not None

    until(over, "it has read enough")
    answer, complaints = listening.communicate(timeout=LIMIT_S)
    assert complaints == ""
    return answer
