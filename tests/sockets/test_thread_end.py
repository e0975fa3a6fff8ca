"""A close returns when the driver's thread has ended, if no other socket needs it.

A thread that is left aborts the process when the program ends its subinterpreter.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

import pytest

from queuebroker.sockets import (
    Driver,
    NotAdmittedError,
    SocketOptions,
    SocketQueueBroker,
)
from queuebroker.sockets import driver as driver_module
from specs.clauses import clause
from tests.kit.systems import needs_unix_sockets
from tests.processes import run
from tests.sockets.support import PORT, brokers, ends, folder, meet
from tests.support import Threads

if TYPE_CHECKING:
    from queuebroker.sockets import Peer

# The interpreters from 3.12 on tell their main interpreter.
_ENDS_AT_EXIT = sys.version_info >= (3, 12)


def driver_threads() -> list[threading.Thread]:
    """Return the threads of background drivers that run now."""
    return [each for each in threading.enumerate() if "sockets" in each.name]


@pytest.mark.parametrize("listen", ["ipc", "tcp://127.0.0.1:0"])
@clause("QB-SOCK-11")
def test_the_last_close_returns_when_the_thread_has_ended(listen: str) -> None:
    """Also if it closes just behind the good-byes of a connection."""
    with brokers(None if listen == "ipc" else listen) as (acceptor, connector):
        left, right = meet(acceptor, connector)
        assert driver_threads()
        right.send(b"x")
        assert left.receive() == b"x"
        left.disconnect()
        right.disconnect()

        acceptor.close()

        assert not driver_threads()


@clause("QB-SOCK-11")
@needs_unix_sockets
def test_a_close_does_not_wait_while_another_socket_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither for a connection, nor for another broker that listens."""

    def waited(*_: object) -> None:
        pytest.fail("it waits")

    with ends() as (left, right):
        with (
            folder() as place,
            monkeypatch.context() as patched,
            SocketQueueBroker("b", listen=f"ipc://{place}/b"),
        ):
            patched.setattr(Driver, "join", waited)

        assert driver_threads()
        left.send(b"x")
        assert right.receive() == b"x"


@clause("QB-SOCK-11")
@needs_unix_sockets
def test_a_close_waits_a_limited_time_for_a_peer_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its connection stays open: the peer may still read its messages."""
    monkeypatch.setattr(driver_module, "_END_S", 0.01)
    code = """
        import sys
        from queuebroker.sockets import SocketQueueBroker
        with SocketQueueBroker("far") as far:
            queue = far.connect(sys.argv[1], 7, required=True)
            print("connected", flush=True)
            sys.stdin.read(1)
            print(queue.receive().decode())
            queue.disconnect()
    """
    with folder() as place, Threads() as threads:
        far = f"ipc://{place}/near"
        with SocketQueueBroker("near", listen=far) as near:
            ran = threads.start(run, code, far)
            queue = near.accept(PORT)
            queue.send(b"unread")
            queue.disconnect()
        # `run` gives the program an empty input, so that it reads on.
        status, answer, complaints = ran.result()
    assert (status, answer, complaints) == (0, "connected\nunread\n", "")


@clause("QB-SOCK-11")
def test_a_callback_of_the_thread_may_close_the_last_broker() -> None:
    """It cannot wait for the end of its own thread."""

    def admit(_: Peer) -> str:
        acceptor.close()
        return "closed"

    options = SocketOptions(admit=admit)
    with brokers(host={"options": options}) as (acceptor, connector):
        assert acceptor.address is not None
        with pytest.raises(NotAdmittedError, match="closed"):
            connector.connect(acceptor.address, PORT)


_IN_A_SUBINTERPRETER = """
    import sys, textwrap
    try:
        import _interpreters as interpreters
    except ImportError:
        import _xxsubinterpreters as interpreters

    code = f"import sys; sys.path[:0] = {sys.path!r}\\n" + sys.argv[2]
    code += textwrap.dedent('''
        import threading
        from queuebroker.sockets import SocketQueueBroker

        got = []
        acceptor = SocketQueueBroker("s", listen="tcp://127.0.0.1:0")
        connector = SocketQueueBroker("c")
        thread = threading.Thread(target=lambda: got.append(acceptor.accept(1)))
        thread.start()
        queue = connector.connect(acceptor.address, 1, required=True)
        thread.join()
    ''') + sys.argv[1]
    if sys.version_info >= (3, 13):
        made = interpreters.create("legacy")
    else:
        made = interpreters.create(isolated=False)
    interpreters.run_string(made, code)
    interpreters.destroy(made)
    print("destroyed")
"""
# The thread of the sockets has done its work, but the end of the program comes first.
_END_SLOWLY = """
import atexit, threading
done, ending = threading.Event(), threading.Event()
run = threading.Thread.run

def run_slowly(thread):
    run(thread)
    if "sockets" in thread.name:
        done.set()
        ending.wait(10)
        sum(range(1_000_000))

threading.Thread.run = run_slowly
"""
_LET_END = "done.wait(10); atexit.register(ending.set)\n"
_DISCONNECT = "queue.disconnect(); got[0].disconnect()\n"
_CLOSE = "connector.close(); acceptor.close()\n"


@clause("QB-SOCK-11")
@pytest.mark.parametrize(
    ("begin", "closes"),
    [
        ("", _DISCONNECT + _CLOSE),
        *(
            [
                # A disconnect does not wait, and a program may close nothing.
                ("", _CLOSE + _DISCONNECT),
                ("", _CLOSE),
                ("", ""),
                (_END_SLOWLY, _CLOSE + _DISCONNECT + _LET_END),
            ]
            if _ENDS_AT_EXIT
            else []
        ),
    ],
)
def test_a_subinterpreter_that_used_sockets_can_be_destroyed(
    begin: str, closes: str
) -> None:
    """At once, without an abort of the process."""
    status, answer, complaints = run(_IN_A_SUBINTERPRETER, closes, begin)

    assert (status, answer) == (0, "destroyed\n"), complaints
