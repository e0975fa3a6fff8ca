"""QB-ERR-9 over sockets: Ctrl-C at every point of a call that reads or writes.

Each call is interrupted at each of its points, on a new connection. Afterwards the
queue is usable, with all of its capacity; or it has ended at both sides, with a cause:
never half a frame.
"""

from __future__ import annotations

import math
import signal
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from queuebroker import (
    DisconnectedQueueError,
    ReceiveTimeoutError,
    SendTimeoutError,
    _net,
    _sync,
)
from queuebroker._net import sleeper as sleeper_module
from queuebroker.sockets import PeerLostError, SocketMessageQueue, quick_sends
from specs.clauses import clause
from tests.sockets.support import connections, let_nobody_read
from tests.strikes import everywhere
from tests.support import LIMIT_S, Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.strikes import Blow

Ends = tuple[SocketMessageQueue, SocketMessageQueue]

CAPACITY = 4
_EVERYWHERE_S = 120.0
LARGE = bytes(300_000)  # more than a socket takes at once


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Ends]]:
    with connections(monkeypatch, CAPACITY) as make:
        yield make


def apart(case: Callable[[Blow], None]) -> None:
    """Run `everywhere` in its own thread.

    An interpreter that is interrupted at the start or end of an exception handler may
    keep that exception as the one being handled, for as long as the thread lives. Each
    error of later tests would have it as its context.
    """
    with Threads() as threads:
        threads.start(everywhere, case).result(_EVERYWHERE_S)


def lost(act: Callable[[], object]) -> bool:
    """Return whether an operation fails because the peer is lost; else it succeeds."""
    refused: DisconnectedQueueError | None = None
    try:
        act()
    except DisconnectedQueueError as error:
        refused = error
    assert refused is None or isinstance(refused.__cause__, PeerLostError), refused
    return refused is not None


def check(
    local: SocketMessageQueue, remote: SocketMessageQueue
) -> tuple[bool, list[bytes]]:
    """Return whether a connection has ended, and the messages that ``remote`` received.

    If it has not ended, both directions work with full capacity.
    """
    received: list[bytes] = []
    if lost(lambda: local.send(b"after", timeout=LIMIT_S)):
        while not lost(lambda: received.append(remote.receive(timeout=LIMIT_S))):
            pass
        assert lost(lambda: remote.send(b"m"))
        return True, received
    while received[-1:] != [b"after"]:
        received.append(remote.receive(timeout=LIMIT_S))
    for one, other in ((local, remote), (remote, local)):
        for _ in range(3 * CAPACITY):
            one.send(b"m", timeout=LIMIT_S)
            assert other.receive(timeout=LIMIT_S) == b"m"
        for end in (one, other):
            with end._connection.lock:
                end._socket_connection.link.read_owner.rearm_locked()
        assert one.ping(LIMIT_S)
        assert other.ping(LIMIT_S)
        # The peer withholds only the credit for messages it has received since.
        said, arrived = (
            one._socket_connection.link.protocol,
            other._socket_connection.link.protocol,
        )
        assert said.unreceived == arrived.owed == arrived.taken < CAPACITY
    return False, received[:-1]


@clause("QB-ERR-9")
@pytest.mark.parametrize("message", [b"interrupted", LARGE], ids=["small", "large"])
def test_a_send_that_is_interrupted(pair: Callable[[], Ends], message: bytes) -> None:
    """It is sent, or is not, or the connection ends: each occurs at some points."""
    seen = set()

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        interrupted(lambda: local.send(message))
        ended, received = check(local, remote)
        assert received in ([], [message])
        seen.add((ended, len(received)))

    everywhere(case)

    assert {(False, 0), (False, 1)} <= seen


@clause("QB-ERR-9")
@pytest.mark.parametrize("before", [0, 1])
def test_a_gathered_send_that_is_interrupted(
    pair: Callable[[], Ends], before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is sent or not; those gathered before it are sent in any case."""
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    monkeypatch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)
    messages = [b"1", b"2"][: before + 1]
    seen = set()

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        for message in messages[:before]:
            local.send(message)
        interrupted(lambda: local.send(messages[-1]))
        ended, received = check(local, remote)
        assert received in (messages[:before], messages) or ended
        seen.add((ended, len(received)))

    everywhere(case)

    assert {(False, before), (False, before + 1)} <= seen


@pytest.mark.parametrize("most", [1, 2])
@clause("QB-ERR-9")
def test_a_write_of_gathered_messages_that_is_interrupted(
    pair: Callable[[], Ends], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    monkeypatch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)
    messages = [b"1", b"2"][:most]

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        link = local._socket_connection.link
        link._quick_sends._due = link._flush_soon  # the driver does not help
        for message in messages:
            local.send(message)
        interrupted(lambda: local.ping(0))
        lost(lambda: local.ping(LIMIT_S))
        link._quick_sends._due = None
        ended, received = check(local, remote)
        assert received == messages or ended

    everywhere(case)


@clause("QB-ERR-9")
# The sockets of an event, on Windows, are closed as they are collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_wait_for_room_that_is_interrupted_before_it_begins(
    pair: Callable[[], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The messages gathered before it are sent, or the connection ends."""
    monkeypatch.setattr(quick_sends, "_QUICK_S", math.inf)
    monkeypatch.setattr(quick_sends, "_IN_A_ROW_MIN", 0)
    messages = [b"%d" % number for number in range(CAPACITY)]

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        for message in messages:
            local.send(message)
        with suppress(SendTimeoutError):
            interrupted(lambda: local.send(b"more", timeout=0.001))
        ended, received = check_received(local, remote, len(messages))
        assert received == messages or ended

    apart(case)


def check_received(
    local: SocketMessageQueue, remote: SocketMessageQueue, count: int
) -> tuple[bool, list[bytes]]:
    """As `check`, after ``remote`` has made room by receiving ``count`` messages."""
    received: list[bytes] = []
    for _ in range(count):
        if lost(lambda: received.append(remote.receive(timeout=LIMIT_S))):
            return True, received
    ended, rest = check(local, remote)
    return ended, received + [each for each in rest if each != b"more"]


@clause("QB-ERR-9")
def test_a_receive_of_a_message_that_arrived_with_others_is_interrupted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes the message or nothing, and returns the credit for it."""
    seen = set()
    with connections(monkeypatch, 16) as pair:

        def case(interrupted: Blow) -> None:
            local, remote = pair()
            remote.send_many([b"1", b"2", b"3"])
            assert local.ping(LIMIT_S)
            assert local.receive() == b"1"
            taken: list[bytes] = []
            interrupted(lambda: taken.append(local.receive()))
            rest = [local.receive(timeout=LIMIT_S)]
            while rest[-1] != b"3":
                rest.append(local.receive(timeout=LIMIT_S))
            assert taken + rest in ([b"2", b"3"], [b"3"])
            seen.add(len(taken + rest))
            protocol = local._socket_connection.link.protocol
            assert (protocol.taken, protocol.owed) == (3, 3)

        everywhere(case)
    assert seen == {1, 2}


@clause("QB-ERR-9")
def test_a_send_of_several_that_is_interrupted(pair: Callable[[], Ends]) -> None:
    """The messages received are a prefix of those sent."""
    messages = [b"1", b"2", b"3"]

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        interrupted(lambda: local.send_many(messages))
        _, received = check(local, remote)
        assert received == messages[: len(received)]

    everywhere(case)


@pytest.mark.deep
@clause("QB-ERR-9")
@pytest.mark.parametrize("reads", [True, False], ids=["reads", "takes"])
@pytest.mark.parametrize("size", [1, len(LARGE)])
def test_a_receive_that_is_interrupted(
    pair: Callable[[], Ends], size: int, *, reads: bool
) -> None:
    """It or the next receive has the message, or the connection ends."""
    seen = set()

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        if reads:
            let_nobody_read(local)
        messages = [b"1" * size, b"2", b"3"]
        remote.send_many(messages)
        if not reads:
            assert local.ping(LIMIT_S)  # they have arrived
        taken: list[bytes] = []
        interrupted(lambda: taken.append(local.receive(timeout=LIMIT_S)))
        assert taken in ([], messages[:1])
        ended = False
        rest: list[bytes] = []
        while not ended and rest[-1:] != messages[-1:]:
            ended = lost(lambda: rest.append(local.receive(timeout=LIMIT_S)))
        assert rest in (messages, messages[1:]) or ended
        ended, nothing = check(local, remote)
        assert not nothing
        seen.add((ended, len(rest)))

    everywhere(case)

    assert {(False, 3), (False, 2)} <= seen
    assert any(ended for ended, _ in seen) is reads


@clause("QB-ERR-9")
# The sockets of an event, on Windows, are closed as they are collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_receive_that_is_interrupted_as_it_begins_to_wait(
    pair: Callable[[], Ends],
) -> None:
    """The next one is still woken; no caller has waited in that socket before."""

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        with suppress(ReceiveTimeoutError):
            interrupted(lambda: local.receive(timeout=0.001))
        with Threads() as threads:
            receiving = threads.start(lost, local.receive)
            until(
                lambda: (
                    local._socket_connection.link.read_owner.leased or receiving.done
                ),
                "it waits",
            )
            if not lost(lambda: remote.send(b"m")) and not receiving.result():
                assert not check(local, remote)[0]

    apart(case)


@pytest.mark.deep
@clause("QB-ERR-9")
def test_a_receiver_interrupted_during_a_peer_loss_notices_the_loss(
    pair: Callable[[], Ends],
) -> None:
    def case(interrupted: Blow) -> None:
        local, remote = pair()
        let_nobody_read(local)
        remote._socket_connection.link.drop()
        interrupted(lambda: lost(lambda: local.receive(timeout=LIMIT_S)))
        assert lost(lambda: local.receive(timeout=LIMIT_S))
        assert local.remote_disconnected
        assert lost(lambda: local.send(b"m"))

    apart(case)


@clause("QB-ERR-9")
def test_a_sleeper_that_is_interrupted_can_be_slept_on() -> None:
    def case(interrupted: Blow) -> None:
        sleeper = _net.Sleeper()
        sleeper.release()
        interrupted(sleeper.renew)
        sleeper.renew()
        now = _sync.monotonic()
        sleeper.sleep(now, now, alone=True)
        assert sleeper.locked()
        sleeper.release()
        sleeper.sleep(None, now, alone=True)
        sleeper.close()

    everywhere(case)


@clause("QB-ERR-9")
@pytest.mark.parametrize("patience_s", [3600, 0], ids=["in the socket", "in a poll"])
@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signal to a thread")
def test_an_exception_of_a_signal_handler_is_no_failure_of_the_socket(
    patience_s: int, pair: Callable[[], Ends], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if it is an `OSError`; the connection is unchanged."""
    monkeypatch.setattr(sleeper_module, "_PATIENCE", struct.pack("@ll", patience_s, 1))
    local, remote = pair()

    def interrupted(*_: object) -> None:
        raise TimeoutError("of the handler")

    before = signal.signal(signal.SIGUSR1, interrupted)
    main = threading.main_thread().ident
    assert main is not None
    try:
        with Threads() as threads:

            def kick() -> None:
                until(
                    lambda: local._socket_connection.link.read_owner.leased, "it waits"
                )
                signal.pthread_kill(main, signal.SIGUSR1)

            threads.start(kick)
            with pytest.raises(TimeoutError, match="of the handler") as caught:
                local.receive()
        assert type(caught.value) is TimeoutError
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert check(local, remote) == (False, [])


@clause("QB-ERR-9")
def test_a_disconnect_that_is_interrupted(pair: Callable[[], Ends]) -> None:
    """A repeat completes it; the peer has all messages, or gets an error."""

    def case(interrupted: Blow) -> None:
        local, remote = pair()
        local.send(b"m")
        interrupted(local.disconnect)
        local.disconnect()
        received: list[bytes] = []
        with pytest.raises(DisconnectedQueueError):
            received.extend(iter(lambda: remote.receive(timeout=LIMIT_S), None))
        assert received == [b"m"]

    everywhere(case)
