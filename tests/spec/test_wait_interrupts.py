"""QB-WAIT, QB-ERR-9: a Ctrl-C at every point of a wait for several queues."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    DisconnectedError,
    MessageQueue,
    ReceiveTimeoutError,
    _sync,
    receive_any,
)
from specs.clauses import clause
from tests.pairs import look_away, queue_pair
from tests.strikes import Blow, everywhere
from tests.support import Running, Threads, taken, until
from tests.traffic import fits

if TYPE_CHECKING:
    import _thread
    from collections.abc import Callable

    from queuebroker import Observer

both_kinds = pytest.mark.parametrize(
    "observer", [None, look_away], ids=["fast", "locked"]
)


def _listed(end: MessageQueue) -> int:
    return len(end._connection.flows[end._side].buffer.arrived)


def _sound(sender: MessageQueue, receiver: MessageQueue) -> None:
    """Check that no waiter is listed, the lock is free, and all places are usable."""
    assert _listed(receiver) == 0
    assert not taken(receiver._connection.lock)
    room = 3 - receiver.pending
    assert fits(sender) == room
    assert len(receiver.receive_many()) == 3
    assert fits(sender) == 3


@pytest.mark.deep
@clause("QB-WAIT-1", "QB-ERR-9")
@both_kinds
@pytest.mark.parametrize("messages", [0, 2])
def test_an_interrupt_anywhere_costs_no_place(
    observer: Observer | None, messages: int
) -> None:
    """At most one message is missing, and only if the call had taken it."""

    def case(interrupted: Blow) -> None:
        with queue_pair(3) as one, queue_pair(3, observer=observer) as other:
            ends = (one[1], other[1])
            other[0].send_many([b"m"] * messages)

            with suppress(ReceiveTimeoutError):
                interrupted(lambda: receive_any(ends, timeout=0.0005))

            assert other[1].pending >= messages - 1
            assert one[1].stats().received == 0
            _sound(*one)
            _sound(*other)

    everywhere(case)


@pytest.mark.deep
@clause("QB-WAIT-1", "QB-ERR-9", "QB-CONC-4")
@both_kinds
def test_an_interrupt_anywhere_leaves_no_waiter_asleep(
    observer: Observer | None,
) -> None:
    """Two queues wake the interrupted call; the other waiter is woken as well."""

    def case(interrupted: Blow) -> None:
        with (
            queue_pair(3, observer=observer) as (one, first),
            queue_pair(3, observer=observer) as (other, second),
            Threads() as threads,
        ):
            waiters: list[Running[bytes]] = []

            def park(
                lock: _thread.LockType,
                _ready: Callable[[], bool],
                _deadline: float | None,
            ) -> bool:
                # Called in place of sleeping. Other threads act meanwhile, so that only
                # the waiting call's own code is interrupted.
                patch.undo()
                waiters.append(threads.start(second.receive))
                until(lambda: _listed(second) == 2, "the other waits, too")
                threads.start(other.send, b"for one of two").join()
                threads.start(one.send, b"for the first").join()
                return lock.acquire(False)

            patch = pytest.MonkeyPatch()
            patch.setattr(_sync, "park", park)
            try:
                interrupted(lambda: receive_any([first, second]))
            finally:
                patch.undo()

            until(
                lambda: all(each.done for each in waiters) or not second.pending,
                "somebody sleeps on",
            )
            assert _listed(first) == 0
            other.disconnect()
            for each in waiters:
                error = each.error()
                assert error is None or isinstance(error, DisconnectedError)

    everywhere(case)
