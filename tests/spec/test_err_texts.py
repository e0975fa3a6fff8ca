"""QB-ERR-6: the texts of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queuebroker import (
    Broker,
    BrokerClosedError,
    BrokerManager,
    BrokerNameInUseError,
    DisconnectedChannelError,
    DisconnectedQueueError,
    IncompleteReadError,
    QueueBroker,
    ReceiveTimeoutError,
    RendezvousTimeoutError,
    SendTimeoutError,
    UnknownBrokerError,
)
from specs.clauses import clause
from tests.meetings import accepts_wait, connects_wait, meet, meet_bytes
from tests.support import Threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Failing calls in a world of two brokers of each face that are connected on port 7: the
# call, its error, and the words that its text must contain.
World = dict[str, Any]
FAILURES: dict[str, tuple[Callable[[World], object], type[Exception], list[str]]] = {
    "accept, nobody comes": (
        lambda w: w["b"].accept(7, timeout=0),
        RendezvousTimeoutError,
        ["accept", "'b'"],
    ),
    "connect, nobody accepts": (
        lambda w: w["a"].connect("b", 7, timeout=0),
        RendezvousTimeoutError,
        ["connect", "'b'"],
    ),
    "connect to oneself, nobody accepts": (
        lambda w: w["b"].connect("b", 7, timeout=0),
        RendezvousTimeoutError,
        ["connect", "'b'"],
    ),
    "connect, unknown name": (
        lambda w: w["a"].connect("nobody", 7, required=True),
        UnknownBrokerError,
        ["connect", "'nobody'"],
    ),
    "accept on a closed broker": (
        lambda w: w["gone"].accept(7),
        BrokerClosedError,
        ["accept", "'gone'"],
    ),
    "connect from a closed broker": (
        lambda w: w["gone"].connect("b", 7),
        BrokerClosedError,
        ["connect", "'gone'"],
    ),
    "receive, nothing comes": (
        lambda w: w["left"].receive(timeout=0),
        ReceiveTimeoutError,
        ["receive", "'a'"],
    ),
    "send, no room": (
        lambda w: w["full"].send(b"x", timeout=0),
        SendTimeoutError,
        ["send", "'a'"],
    ),
    "send_many, no room": (
        lambda w: w["full"].send_many([b"x"], timeout=0),
        SendTimeoutError,
        ["send", "'a'"],
    ),
    "read, nothing comes": (
        lambda w: w["near"].read(bytearray(1), timeout=0),
        ReceiveTimeoutError,
        ["read", "'a'"],
    ),
    "write, no room": (
        lambda w: w["jammed"].write(b"x", timeout=0),
        SendTimeoutError,
        ["write", "'a'"],
    ),
    "send after own goodbye": (
        lambda w: w["mine"].send(b"x"),
        DisconnectedQueueError,
        ["send", "'b'", "this end"],
    ),
    "receive after own goodbye": (
        lambda w: w["mine"].receive(),
        DisconnectedQueueError,
        ["receive", "'b'", "this end"],
    ),
    "send after the peer's goodbye": (
        lambda w: w["theirs"].send(b"x"),
        DisconnectedQueueError,
        ["send", "'a'", "by 'b'"],
    ),
    "receive after the peer's goodbye": (
        lambda w: w["theirs"].receive(),
        DisconnectedQueueError,
        ["receive", "'a'", "by 'b'"],
    ),
    "write after own goodbye": (
        lambda w: w["cut"].write(b"x"),
        DisconnectedChannelError,
        ["write", "'b'", "this end"],
    ),
    "read after the peer's goodbye": (
        lambda w: w["broken"].read(bytearray(1)),
        DisconnectedChannelError,
        ["read", "'a'", "by 'b'"],
    ),
    "read_exactly after the peer's goodbye": (
        lambda w: w["broken"].read_exactly(2),
        IncompleteReadError,
        ["read", "'a'", "by 'b'", "0 of 2"],
    ),
}


@pytest.fixture
def world() -> Iterator[World]:
    """Yield that world, with free, full and disconnected queues and channels."""
    with BrokerManager() as manager, BrokerManager() as bytewise:
        b, a, gone = (
            QueueBroker(name, manager=manager, capacity=1)
            for name in ("b", "a", "gone")
        )
        d, c = (Broker(name, manager=bytewise, capacity=1) for name in "ba")
        gone.close()
        queues = [meet(b, a, 7) for _ in range(3)]
        pipes = [meet_bytes(d, c, 7) for _ in range(3)]
        (left, _), (full, _), (mine, theirs) = queues
        (near, _), (jammed, _), (cut, broken) = pipes
        full.send(b"x")
        jammed.write(b"x")
        mine.disconnect()
        cut.disconnect()
        yield {
            "a": a,
            "b": b,
            "gone": gone,
            "left": left,
            "full": full,
            "mine": mine,
            "theirs": theirs,
            "near": near,
            "jammed": jammed,
            "cut": cut,
            "broken": broken,
        }
        manager.close(disconnect=True)
        bytewise.close(disconnect=True)


@clause("QB-ERR-6")
@pytest.mark.parametrize("what", FAILURES)
def test_an_error_names_broker_port_and_side(world: World, what: str) -> None:
    """The text has the operation, the broker and the port; there is one argument."""
    call, error, (act, *words) = FAILURES[what]

    with pytest.raises(error) as caught:
        call(world)

    _has_one_argument(caught.value)
    for word in (f"cannot {act}", *words, "port 7"):
        assert word in str(caught.value)


@clause("QB-ERR-6")
def test_an_error_of_a_name_names_it() -> None:
    """The name is in use, or can no longer be registered."""
    with BrokerManager() as manager:
        QueueBroker("b", manager=manager)
        with pytest.raises(BrokerNameInUseError, match="'b'") as taken:
            Broker("b", manager=manager)
        manager.close()
        with pytest.raises(BrokerClosedError, match="'b'") as late:
            Broker("b", manager=manager)

    for caught in (taken, late):
        _has_one_argument(caught.value)


@clause("QB-ERR-6")
def test_an_error_of_a_broker_that_was_closed_names_it() -> None:
    """It is not the broker of the call, if that is another one."""
    with BrokerManager() as manager, Threads() as threads:
        b, a = (QueueBroker(name, manager=manager) for name in "ba")
        accept = threads.start(b.accept, 7)
        connect = threads.start(a.connect, "b", 8)
        accepts_wait(b, {7: 1})
        connects_wait(b, {8: 1})
        b.close()
        errors = [accept.error(), connect.error()]

    for error, words in zip(
        errors, (["accept", "port 7"], ["connect", "port 8"]), strict=True
    ):
        assert isinstance(error, BrokerClosedError)
        _has_one_argument(error)
        for word in (f"cannot {words[0]}", words[1], "broker 'b' was closed"):
            assert word in str(error)


def _has_one_argument(error: BaseException) -> None:
    assert len(error.args) == 1
    if isinstance(error, OSError):
        assert error.errno is None
        assert error.strerror is None
