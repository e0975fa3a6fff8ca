"""QB-RECV: received values, and the exceptions of each way to receive."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queuebroker import DisconnectedError, MessageQueue
from specs.clauses import clause
from tests.pairs import channel_pair, queue_pair
from tests.support import Threads, until

if TYPE_CHECKING:
    from collections.abc import Callable

RECEIVES: dict[str, Callable[[MessageQueue], object]] = {
    "receive": lambda end: end.receive(),
    "receive_nowait": lambda end: end.receive_nowait(),
    "receive_many": lambda end: end.receive_many(),
    "receive_into": lambda end: end.receive_into(bytearray(9)),
}


@clause("QB-RECV-7")
def test_a_receiver_gets_plain_bytes_and_no_object_of_the_sender() -> None:
    """A subclass of bytes arrives as bytes: no object of the sender is shared."""

    class Tainted(bytes):
        def __eq__(self, other: object) -> bool:
            raise AssertionError("code of the sender runs at the receiver")

        __hash__ = bytes.__hash__

    with queue_pair(3) as (left, right):
        left.send_many([Tainted(b"abc"), Tainted(b"")])
        left.send(Tainted(b"xyz"), 1)
        received = right.receive_many()

    assert [type(message) for message in received] == [bytes] * 3
    assert received == [b"abc", b"", b"yz"]


@clause("QB-RECV-4")
@pytest.mark.parametrize("way", RECEIVES)
@pytest.mark.parametrize("side", ["local", "remote"])
def test_every_way_to_receive_raises_anew_on_a_disconnected_end(
    way: str, side: str
) -> None:
    """Each receive on a disconnected end raises a new error with the side."""
    with queue_pair() as (left, right):
        (left if side == "local" else right).disconnect()

        for _ in range(3):
            with pytest.raises(DisconnectedError) as caught:
                RECEIVES[way](left)
            assert caught.value.side == side


@clause("QB-RECV-9")
@pytest.mark.parametrize("way", RECEIVES)
def test_every_way_to_receive_tells_the_error_after_draining(way: str) -> None:
    """The peer's error is the cause, after the remaining messages are received."""
    fault = RuntimeError("disk full")
    with queue_pair(2) as (left, right):
        right.send(b"left over")
        right.disconnect(fault)
        RECEIVES[way](left)

        with pytest.raises(DisconnectedError) as caught:
            RECEIVES[way](left)

    assert caught.value.side == "remote"
    assert caught.value.__cause__ is fault
    assert caught.value.reason == "disk full"


@clause("QB-RECV-9")
def test_the_reason_of_an_error_without_a_text_is_its_class_name() -> None:
    """The reason is the error's text, or its class if it has no text."""
    with queue_pair() as (left, right):
        right.disconnect(KeyError())

        with pytest.raises(DisconnectedError) as caught:
            left.receive()

    assert caught.value.reason == "KeyError"


@clause("QB-RECV-9")
def test_an_abnormal_disconnect_releases_waiting_calls_with_its_cause() -> None:
    """An abnormal disconnect releases a send and a receive, with its cause."""
    fault = RuntimeError("disk full")
    with queue_pair() as (left, right), Threads() as threads:
        left.send(b"fills the buffer")
        waiting = (threads.start(left.send, b"waits"), threads.start(left.receive))
        flows = left._connection.flows
        until(lambda: bool(flows[1].buffer.room), "the send waits")
        until(lambda: bool(flows[0].buffer.arrived), "the receive waits")

        right.disconnect(fault)

        for one in waiting:
            error = one.error()
            assert isinstance(error, DisconnectedError)
            assert (error.side, error.__cause__) == ("remote", fault)


@clause("QB-RECV-9", "QB-CHAN-4")
def test_the_error_of_a_channel_has_the_side_the_cause_and_the_reason() -> None:
    """A Channel's exception, too, has the side, the cause and the reason."""
    fault = RuntimeError("disk full")
    with channel_pair(4) as (left, right):
        right.write(b"ab")
        right.disconnect(fault)
        with pytest.raises(DisconnectedError) as at_home:
            right.read(bytearray(1))
        assert left.read_exactly(2) == b"ab"
        with pytest.raises(DisconnectedError) as abroad:
            left.write(b"c")

    for caught, side in ((at_home, "local"), (abroad, "remote")):
        assert caught.value.side == side
        assert caught.value.__cause__ is fault
        assert caught.value.reason == "disk full"


@clause("QB-RECV-9")
def test_each_end_tells_its_own_disconnect_first() -> None:
    """An end that disconnected itself reports that, whatever the peer's error."""
    with queue_pair() as (left, right):
        right.disconnect(RuntimeError("theirs"))
        left.disconnect()

        with pytest.raises(DisconnectedError) as caught:
            left.receive()

    assert caught.value.side == "local"
    assert caught.value.__cause__ is None
    assert caught.value.reason is None
