"""OPEN-21: a program that ends without closing its buses leaves them in order."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bus.journal.reader import open_journals
from bus.model.events import BusOperation
from specs.clauses import clause
from tests.processes import run
from tests.support import until

if TYPE_CHECKING:
    from bus import Bus

_PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "when-something-dies.md"

# A program that does not close its bus: a thread for tasks, and no ``with``.
_OPENS = """
import os, signal, sys
from bus import open_bus

bus = open_bus(process="brief", machine="machine")
got = []
thread = bus.thread()
bus.register("brief", thread=thread, on_command=lambda m: got.append(m.payload))
bus.wait_for("near")
"""

_SENDS = """
def last():
    # Called at the end: all queued messages are sent, to either addressee.
    for number in range(100):
        bus.command("brief", number)
        bus.command("near", number)
    import atexit
    atexit.register(lambda: print("still open"))

last()
"""

# A shell without job control makes its background programs ignore SIGINT; Python then
# sets no handler of its own.
_HEARS_CTRL_C = "signal.signal(signal.SIGINT, signal.default_int_handler)"

# The cause of a program's end -> its code, and its exit code.
ENDS = {
    "the end of main": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "an exception": ("raise ValueError('own')", 1),
    "Ctrl-C": (
        f"{_HEARS_CTRL_C}; os.kill(os.getpid(), signal.SIGINT); signal.pause()",
        -2,
    ),
}


def _received(bus: Bus) -> tuple[list[Any], list[bool]]:
    """Return the messages to the task `near`, and the presence of `brief`."""
    got: list[Any] = []
    seen: list[bool] = []
    task = bus.register("near", on_command=lambda message: got.append(message.payload))
    task.watch("brief", lambda presence: seen.append(presence.here))
    return got, seen


@pytest.mark.deep
@clause("OPEN-21")
@pytest.mark.parametrize("end", ENDS)
def test_a_program_with_a_bus_thread_ends_with_its_code(near: Bus, end: str) -> None:
    """The program used to wait for the thread, and the thread for the program."""
    got, seen = _received(near)
    statement, expected = ENDS[end]

    exit_code, said, complaints = run(_OPENS + _SENDS + statement)

    assert exit_code == expected, complaints
    assert said == "still open\n"
    assert "/bus/" not in complaints  # no traceback through the library
    until(lambda: seen == [True, False], "it came and went")
    assert got == list(range(100))


@pytest.mark.deep
@clause("OPEN-21")
def test_commands_that_are_queued_at_the_end_are_served(near: Bus) -> None:
    """The program's own tasks serve them, in their threads."""
    _received(near)
    code = """
        import threading
        go = threading.Event()
        bus.register("slow", thread=bus.thread("slow"), on_command=lambda m: (
            go.wait(60), print(m.payload)))
        for number in range(3):
            bus.command("slow", number)
        import atexit
        atexit.register(go.set)
        sys.exit(7)
    """

    exit_code, said, complaints = run(_OPENS + textwrap.dedent(code))

    assert (exit_code, said) == (7, "0\n1\n2\n"), complaints


@pytest.mark.deep
@clause("OPEN-21")
def test_the_recipe_of_the_page_turns_a_signal_into_an_orderly_end(near: Bus) -> None:
    got, seen = _received(near)
    blocks = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    [recipe] = [block for block in blocks if "SIGTERM" in block]
    raised = "os.kill(os.getpid(), signal.SIGTERM)\nbus.here().run()\n"

    exit_code, _, complaints = run(recipe + _OPENS + _SENDS + raised)

    assert (exit_code, complaints) == (0, "")
    until(lambda: seen == [True, False], "it came and went")
    assert got == list(range(100))


_FORKS = """
import multiprocessing, os, sys

pytestmark = needs_unix_sockets

def child():
    global bus, got
{opens}
{sends}

if {by_fork}:
    pid = os.fork()
    if not pid:
        child()
        sys.exit(5)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
else:
    def target():
        child()
        sys.exit(5)
    process = multiprocessing.get_context("fork").Process(target=target)
    process.start()
    process.join()
    code = process.exitcode
print("child", code)
"""


@pytest.mark.deep
@clause("OPEN-21", "BUS-INIT-16")
@pytest.mark.parametrize("way", ["os.fork", "multiprocessing"])
def test_a_forked_child_ends_in_order_too(near: Bus, way: str) -> None:
    """`multiprocessing` ends its children without the functions of `atexit`."""
    got, seen = _received(near)
    code = _FORKS.format(
        opens=textwrap.indent(_OPENS, "    "),
        sends=textwrap.indent(_SENDS, "    "),
        by_fork=way == "os.fork",
    )

    exit_code, said, complaints = run(code)

    assert exit_code == 0, complaints
    assert said.splitlines()[-1] == "child 5", complaints
    until(lambda: seen == [True, False], "it came and went")
    assert got == list(range(100))


@pytest.mark.deep
@clause("OPEN-21")
def test_a_journal_is_closed_after_the_bus_that_it_records(
    near: Bus, tmp_path: Path
) -> None:
    """Else it would lack the messages served at the end; its rules would be UNKNOWN."""
    got, _ = _received(near)
    opens = _OPENS.replace(
        "import open_bus", "import open_bus\nfrom bus.journal.writer import Journal"
    ).replace('machine="machine"', 'machine="machine", journal=Journal(sys.argv[1])')

    exit_code, _, complaints = run(opens + _SENDS + "sys.exit(3)", tmp_path)

    assert exit_code == 3, complaints
    until(lambda: got == list(range(100)), "all has come")
    [journal] = open_journals(tmp_path)
    kinds = [record.kind for record in journal.records()]
    # The process itself is registered as well, and never leaves.
    left = kinds.count(BusOperation.DEREGISTER)
    assert left == kinds.count(BusOperation.REGISTER) - 1 > 1
