"""QB-CONC-10 over sockets: a signal handler at every point of a call.

In the middle of a call on the same end it may disconnect, which takes effect when the
call ends, and read the statistics; a call that would send inside a frame is rejected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import BrokerClosedError, QueueBrokerError, _sync
from queuebroker.meeting import meet as meeting
from queuebroker.sockets import incoming_connect
from specs.clauses import clause
from tests.handlers import Interruption, everywhere_handled
from tests.sockets.support import PORT, brokers, connections
from tests.support import LIMIT_S, Threads, ticking, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queuebroker import Reason
    from queuebroker.meeting.rendezvous import RdV
    from queuebroker.sockets import SocketMessageQueue

    Call = Callable[[SocketMessageQueue], object]
    Ends = tuple[SocketMessageQueue, SocketMessageQueue]

CAPACITY = 4

CALLS: dict[str, Call] = {
    "send": lambda end: end.send(b"m"),
    "receive": lambda end: end.receive(timeout=0),
    "receive_many": lambda end: end.receive_many(2, timeout=0),
    "send_many": lambda end: end.send_many([b"m", b"n"], timeout=0),
    "stats": lambda end: end.stats(),
    "disconnect": lambda end: end.disconnect(),
}

HANDLERS: dict[str, Call] = {
    "send_nowait": lambda end: end.send_nowait(b"h"),
    "receive_nowait": lambda end: end.receive_nowait(),
    "stats": lambda end: end.stats(),
    "disconnect": lambda end: end.disconnect(),
}


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Ends]]:
    with connections(monkeypatch, CAPACITY) as make:
        yield make


@pytest.mark.deep
@clause("QB-CONC-10")
@pytest.mark.parametrize("handled", HANDLERS)
@pytest.mark.parametrize("called", CALLS)
def test_a_handler_anywhere_in_a_call_acts_or_is_refused(
    make: Callable[[], Ends], called: str, handled: str
) -> None:
    """No frame is torn, nothing hangs, and a disconnect is done as the call ends."""

    def case(interrupted: Interruption) -> None:
        local, remote = make()
        remote.send(b"1")
        until(lambda: local.pending == 1, "nothing has come")
        refused: list[str] = []
        ran: list[bool] = []
        sent = [0, 0]

        def act(call: Call, by: int) -> None:
            try:
                done = call(local)
            except QueueBrokerError:
                return
            except RuntimeError as error:
                refused.append(str(error))
                return
            name = called if by == 0 else handled
            sent[by] += done if isinstance(done, int) else name.startswith("send")

        def handler() -> None:
            ran.append(True)
            act(HANDLERS[handled], 1)

        interrupted(lambda: act(CALLS[called], 0), handler)

        assert not _sync.owns(local._connection.lock)
        assert not local._connection.deferred
        assert all("SimpleQueue" in text for text in refused)
        if handled in ("stats", "disconnect"):
            assert not refused
        if ran and handled == "disconnect":
            assert local.closed
        local.disconnect()
        received = list(remote)
        assert len(received) == sum(sent)

    everywhere_handled(case)


@clause("QB-CONC-10")
def test_a_handler_that_hangs_up_ends_the_receive_that_it_interrupted(
    make: Callable[[], Ends],
) -> None:
    """A real signal arrives while the main thread sleeps at the socket."""
    local, _remote = make()
    with (
        ticking(local.disconnect),
        pytest.raises(QueueBrokerError, match="disconnected by this end"),
    ):
        local.receive(timeout=LIMIT_S)
    assert local.closed


@clause("QB-CONC-10")
def test_a_close_while_the_driver_withdraws_a_caller_takes_effect_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A handler may interrupt the main thread while that runs its own driver."""
    withdraw = meeting.withdraw_locked
    with brokers() as (acceptor, connector):
        manager = acceptor.manager

        def close_within(rdv: RdV, reason: Reason) -> None:
            manager.close()
            withdraw(rdv, reason)

        monkeypatch.setattr(incoming_connect, "withdraw_locked", close_within)
        assert acceptor.address is not None
        with Threads() as threads:
            calling = threads.start(connector.connect, acceptor.address, PORT)
            until(lambda: bool(acceptor.waiting_connects()), "the caller waits")
            connector.close()
            with pytest.raises(BrokerClosedError):
                calling.result()

        until(lambda: acceptor.closed, "the broker is closed")
