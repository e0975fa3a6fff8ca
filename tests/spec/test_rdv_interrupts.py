"""QB-RDV-11 and 12 with QB-ERR-9: an interrupt at every point of accept and connect.

These are the points at which the interpreter can deliver one; the points at which a
schedule can are in `test_rdv_leaving`.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    BrokerClosedError,
    BrokerManager,
    DisconnectedError,
    MessageQueue,
    QueueBroker,
    RendezvousTimeoutError,
)
from specs.clauses import clause
from tests.meetings import nobody_waits
from tests.strikes import Blow, everywhere
from tests.support import Threads, taken, until

if TYPE_CHECKING:
    from collections.abc import Callable


@clause("QB-ERR-9", "QB-RDV-11")
@pytest.mark.parametrize("role", ["accept", "connect", "connect to oneself"])
def test_an_interrupt_anywhere_in_a_lonely_call_leaves_no_trace(role: str) -> None:
    """No caller waits anywhere afterwards, and the port works."""

    def case(interrupted: Blow) -> None:
        with BrokerManager() as manager, Threads() as threads:
            b, a = (QueueBroker(name, manager=manager) for name in "ba")

            def call() -> None:
                with suppress(RendezvousTimeoutError):
                    if role == "accept":
                        b.accept(1, timeout=0.0005)
                    else:
                        (a if role == "connect" else b).connect("b", 1, timeout=0.0005)

            interrupted(call)

            assert not taken(manager.lock)
            nobody_waits(a, b)
            accept = threads.start(b.accept, 1)
            with a.connect("b", 1, required=True) as right, accept.result() as left:
                left.send(b"x")
                assert right.receive() == b"x"

    everywhere(case)


@clause("QB-ERR-9", "QB-RDV-12")
@pytest.mark.parametrize("accepts", [True, False])
def test_an_interrupt_anywhere_in_a_match_leaves_no_silent_peer(accepts: bool) -> None:
    """The opposite either still waits, or has an end whose peer disconnected."""

    def case(interrupted: Blow) -> None:
        with BrokerManager() as manager, Threads() as threads:
            b, a = (QueueBroker(name, manager=manager) for name in "ba")

            def accept() -> MessageQueue:
                return b.accept(1)

            def connect() -> MessageQueue:
                return a.connect("b", 1, required=True)

            mine, theirs = (accept, connect) if accepts else (connect, accept)
            opposite = threads.start(theirs)
            until(lambda: len(b._broker.waiting) == 1, "the opposite does not wait")

            with warnings.catch_warnings():
                # No caller got the end, so none can have disconnected it.
                warnings.simplefilter("ignore", ResourceWarning)
                interrupted(lambda: mine().disconnect())

            assert not taken(manager.lock)
            until(
                lambda: opposite.done or len(b._broker.waiting) == 1,
                "the opposite is nowhere",
            )
            if not opposite.done:
                mine().disconnect()
            with opposite.result() as end, pytest.raises(DisconnectedError):
                end.receive(timeout=10)
            nobody_waits(a, b)

    everywhere(case)


def _closed(call: Callable[[], object]) -> None:
    with pytest.raises(BrokerClosedError):
        call()


WAYS: dict[str, Callable[[QueueBroker], object]] = {
    "close": lambda broker: broker.close(),
    "close the manager": lambda broker: broker.manager.close(),
}


@pytest.mark.deep
@clause("QB-ERR-9", "QB-NAME-6")
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupted_close_can_be_repeated(way: str) -> None:
    """At every point, the repeated close releases the callers still waiting."""

    def case(interrupted: Blow) -> None:
        manager = BrokerManager()
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        with Threads() as threads:
            threads.start(_closed, lambda: b.accept(1))
            threads.start(_closed, lambda: b.accept(2))
            threads.start(_closed, lambda: b.connect("a", 3))
            until(lambda: len(b._broker.waiting) == 2, "the accepts do not wait")
            until(lambda: len(a._broker.waiting) == 1, "the connect does not wait")

            interrupted(lambda: WAYS[way](b))
            WAYS[way](b)

            threads.join()
        assert not taken(manager.lock)
        nobody_waits(a, b)
        assert manager.get("b") is None

    everywhere(case)
