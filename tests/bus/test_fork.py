"""A forked child cannot use the bus of its parent."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from specs.clauses import clause
from tests.kit.systems import needs_fork
from tests.support import LIMIT_S

pytestmark = needs_fork

_PROGRAM = """
    import os
    import sys
    import warnings

    from bus import Bus, WrongProcessError, open_bus

    warnings.simplefilter("ignore", DeprecationWarning)  # there are threads, on purpose
    unmade = []
    for _ in range(5):
        try:
            Bus("bus1", process="no name")
        except ValueError as error:
            unmade.append(error)  # which has what was begun of it
    bus = open_bus()
    thread = bus.thread()
    echo = bus.register("echo", on_command=lambda message: message.payload)
    asker = bus.register("asker", thread=thread)
    subscription = asker.subscribe("echo", print)
    assert bus.call("echo", 1) == 1

    attempts = {
        "call": lambda: bus.call("echo", 1),
        "command": lambda: asker.command("echo", 1),
        "deregister": lambda: asker.deregister(),
        "here": lambda: bus.here(),
        "inspect": lambda: bus.inspect(),
        "loan": lambda: asker.loan(1),
        "move": lambda: asker.move(thread),
        "notify": lambda: asker.notify(1),
        "register": lambda: bus.register("child"),
        "stop": lambda: thread.stop(),
        "subscribe": lambda: asker.subscribe("echo", print),
        "thread": lambda: bus.thread(),
    }
    with bus._exchange._lock, thread._manager.inbox.lock, bus._threads.lock:
        child = os.fork()  # whatever is held now is held for ever there
    if child == 0:
        for name, attempt in attempts.items():
            try:
                attempt()
            except WrongProcessError as error:
                assert str(os.getppid()) in str(error), error
                print(name, "is refused", flush=True)
        bus.close()
        with open_bus() as own:
            own.register("other", on_command=lambda message: message.payload)
            print("its own bus answers", own.call("other", 2), flush=True)
            print("so does the parent", own.call("echo", 2), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    assert bus.call("echo", 3) == 3
    assert len(bus.tasks()) == 3
    bus.close()
    print("the parent goes on")
"""


@pytest.mark.deep
@clause("BUS-INIT-16")
def test_a_child_is_refused_and_the_parent_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_PROGRAM)],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=os.environ,
    )

    assert done.stdout.splitlines() == [
        *(
            f"{name} is refused"
            for name in (
                *("call", "command", "deregister", "here", "inspect", "loan"),
                *("move", "notify", "register", "stop", "subscribe", "thread"),
            )
        ),
        "its own bus answers 2",
        "so does the parent 2",
        "the parent goes on",
    ], done.stderr
    assert done.returncode == 0
    assert "Error" not in done.stderr


_IN_A_CALLBACK = """
    import os
    import warnings

    from bus import open_bus

    warnings.simplefilter("ignore", DeprecationWarning)  # as above

    def fork(_):
        if os.fork():
            os.wait()
            return
        try:
            with open_bus() as own:
                own.register("other", on_command=lambda message: message.payload)
                print("its own bus answers", own.call("other", 2), flush=True)
        finally:
            os._exit(0)

    with open_bus() as bus:
        bus.register("forker", on_command=fork)
        bus.call("forker")
"""


@pytest.mark.deep
@clause("BUS-INIT-16")
def test_a_child_that_a_callback_forks_may_wait_on_a_bus_of_its_own() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_IN_A_CALLBACK)],
        check=False,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.stdout.splitlines() == ["its own bus answers 2"], done.stderr
