"""QB-ERR-9: a Ctrl-C ends each wait of the main thread, on every system.

Windows needs another kind of test: no signal ends a lock's ``acquire`` there.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerManager,
    QueueBroker,
    ReceiveTimeoutError,
    Task,
    _sync,
    receive_any,
)
from queuebroker._net import sleeper
from specs.clauses import clause
from tests.pairs import look_away, queue_pair
from tests.sockets.support import ends
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import Observer

_EVERY_S = 0.01
_WAITS = {
    (_sync.__file__, "park"),
    (threading.__file__, "join"),
    (sleeper.__file__, "sleep"),
}

both_kinds = pytest.mark.parametrize(
    "observer", [None, look_away], ids=["fast", "locked"]
)


def _interrupt_main() -> None:
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


def _main_waits() -> bool:
    """Return True if the main thread has called a function that waits."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        called = frame.f_code.co_filename, frame.f_code.co_name
        if called in _WAITS:
            return True
        frame = frame.f_back
    return False


@contextmanager
def _struck_once(handle: Callable[[], object] = int) -> Iterator[None]:
    """Interrupt the main thread once it waits, and expect the interrupt.

    handle: the handler calls it first.

    The signals repeat, since the system call may begin just after the first one, and
    only one of them raises.
    """
    # Not an event: the next signal may interrupt the handler while it sets that, and
    # then waits for its lock.
    struck: list[None] = []

    def strike(_number: int, _frame: object) -> None:
        if not struck:
            struck.append(None)
            handle()
            raise KeyboardInterrupt

    def signals() -> None:
        until(_main_waits, "the main thread waits")
        while not struck:
            _interrupt_main()
            time.sleep(_EVERY_S)

    before = signal.signal(signal.SIGINT, strike)
    try:
        with Threads() as threads:
            threads.start(signals)
            with suppress(KeyboardInterrupt):
                yield
            assert struck
    finally:
        signal.signal(signal.SIGINT, before)


@clause("QB-ERR-9")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
@both_kinds
def test_a_ctrl_c_ends_a_receive(
    observer: Observer | None, timeout: float | None
) -> None:
    with queue_pair(1, observer=observer) as (left, right):
        with _struck_once():
            left.receive(timeout=timeout)

        right.send(b"m")
        assert left.receive() == b"m"


@clause("QB-ERR-9", "QB-CONC-10")
@both_kinds
def test_a_handler_that_interrupts_a_receive_may_wait_for_another_queue(
    observer: Observer | None,
) -> None:
    """Without the interpreter lock, both calls sleep on one descriptor."""
    with queue_pair(observer=observer) as (left, right), queue_pair() as (other, _):

        def wait() -> None:
            with pytest.raises(ReceiveTimeoutError):
                other.receive(timeout=0.01)

        with _struck_once(wait):
            left.receive()

        right.send(b"m")
        assert left.receive() == b"m"


@clause("QB-ERR-9")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
@both_kinds
def test_a_ctrl_c_ends_a_send(observer: Observer | None, timeout: float | None) -> None:
    with queue_pair(1, observer=observer) as (left, right):
        left.send(b"m")
        with _struck_once():
            left.send(b"n", timeout=timeout)

        assert right.receive() == b"m"
        assert right.pending == 0


@clause("QB-ERR-9", "QB-WAIT-1")
def test_a_ctrl_c_ends_a_wait_for_several_queues() -> None:
    with queue_pair(1) as one, queue_pair(1) as other:
        with _struck_once():
            receive_any([one[0], other[0]])

        other[1].send(b"m")
        assert receive_any([one[0], other[0]]) == (other[0], b"m")


@clause("QB-ERR-9", "QB-SOCK-1")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
def test_a_ctrl_c_ends_a_receive_from_a_socket(timeout: float | None) -> None:
    with ends() as (left, right):
        with _struck_once():
            left.receive(timeout=timeout)

        right.send(b"m")
        assert left.receive() == b"m"


@clause("QB-ERR-9")
@pytest.mark.parametrize(
    "meet",
    [lambda broker: broker.accept(1), lambda broker: broker.connect("own", 1)],
    ids=["accept", "connect"],
)
def test_a_ctrl_c_ends_a_meeting(meet: Callable[[QueueBroker], object]) -> None:
    with BrokerManager() as manager:
        broker = QueueBroker("own", manager=manager)

        with _struck_once():
            meet(broker)

        assert (broker.waiting_accepts(), broker.outgoing()) == ({}, {})


@clause("QB-ERR-9")
@pytest.mark.parametrize("timeout", [None, LIMIT_S])
def test_a_ctrl_c_ends_a_join(timeout: float | None) -> None:
    end = threading.Event()
    with BrokerManager() as manager:
        task = Task(QueueBroker("own", manager=manager), end.wait)
        task.start()

        with _struck_once():
            task.join(timeout)

        # Up to 3.12 the thread now counts as ended for `Thread.join`.
        end.set()
        task.join()
