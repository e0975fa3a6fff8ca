"""QB-RECV: results, waits and errors of a receive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario()
@clause("QB-RECV-1")
def a_receive_takes_the_oldest_message_whole(stage: Stage) -> None:
    """Messages come out one by one, oldest first, with their boundaries."""
    left, right = stage.pair()
    messages = [b"a", b"", b"longer than the others", b"a"]

    def send_all() -> None:
        for message in messages:
            left.send(message)

    sender = stage.spawn(send_all)

    expect([right.receive() for _ in messages], messages, "received")
    stage.value(sender)


@scenario()
@clause("QB-RECV-2")
def a_receive_waits_for_a_message(stage: Stage) -> None:
    """On an empty buffer receive waits, and one send releases one receive."""
    left, right = stage.pair()
    receives = [stage.spawn(right.receive) for _ in range(2)]
    stage.waits(*receives)

    left.send(b"one")
    stage.only_one("one send", *receives)
    left.send(b"two")

    expect(sorted(stage.values(*receives)), [b"one", b"two"], "received")


@scenario()
@clause("QB-RECV-3")
def what_was_accepted_is_received_then_it_raises(stage: Stage) -> None:
    """k sends and a disconnect are k receives in order, then the error, for each k."""
    for count in range(4):
        left, right = stage.pair(capacity=4)
        messages = [b"message %d" % number for number in range(count)]
        for message in messages:
            left.send(message)
        left.disconnect()
        expect(stage.drain(right), messages, f"received of {count} messages")
        stage.refuses(None, right.receive)


@scenario(style=Style.RACE)
@clause("QB-RECV-3")
def a_receiver_that_races_the_goodbye_gets_all(stage: Stage) -> None:
    """While one side sends and hangs up, the other side receives every message."""
    left, right = stage.pair(capacity=1)
    messages = [b"1", b"2"]

    def send_and_hang_up() -> None:
        for message in messages:
            left.send(message)
        left.disconnect()

    sender = stage.spawn(send_and_hang_up)

    expect(stage.drain(right), messages, "received before the error")
    stage.value(sender)


@scenario()
@clause("QB-RECV-4")
def a_receive_on_a_disconnected_end_raises(stage: Stage) -> None:
    """A receive that starts on a disconnected end raises each time, for both causes."""
    left, right = stage.pair()
    right.send(b"")
    left.send(b"unread")

    left.disconnect()

    for _ in range(3):
        stage.refuses(None, left.receive)
    expect(right.receive(), b"unread", "received after the peer hung up")
    for _ in range(3):
        stage.refuses(None, right.receive)


@scenario(style=Style.RACE)
@clause("QB-RECV-5")
def a_disconnect_releases_waiting_receives(stage: Stage) -> None:
    """Every receive on an empty buffer raises promptly when either side hangs up."""
    ends = stage.pair()
    receives = [stage.spawn(end.receive) for end in ends for _ in range(2)]

    hung_up_at = stage.now()
    ends[0].disconnect()

    stage.promptly(hung_up_at, *receives)
    stage.raises(None, *receives)


@scenario()
@clause("QB-RECV-5")
def a_disconnect_releases_four_sleepers(stage: Stage) -> None:
    """Four receives that sleep on one end are all released, for both causes."""
    for hangs_up in (0, 1):
        ends = stage.pair()
        receives = [stage.spawn(ends[0].receive) for _ in range(4)]
        stage.waits(*receives)

        hung_up_at = stage.now()
        ends[hangs_up].disconnect()

        stage.promptly(hung_up_at, *receives)
        stage.raises(None, *receives)


@scenario(style=Style.RACE)
@clause("QB-RECV-6")
def a_taken_message_is_returned(stage: Stage) -> None:
    """A receive that found a message returns it though the peer hangs up meanwhile."""
    left, right = stage.pair()
    left.send(b"kept")

    receive = stage.spawn(right.receive)
    hang_up = stage.spawn(left.disconnect)

    expect(stage.value(receive), b"kept", "received")
    stage.value(hang_up)
    stage.refuses(None, right.receive)


@scenario(style=Style.RACE)
@clause("QB-RECV-6")
def a_message_is_taken_whole_or_not_at_all(stage: Stage) -> None:
    """A receive against a disconnect of its own end: the message or the error."""
    left, right = stage.pair()
    left.send(b"kept")

    receive = stage.spawn(right.receive)
    stage.value(stage.spawn(right.disconnect))
    stage.settle(receive)

    require(receive.done, f"{receive.told()} after its end was disconnected")
    if receive.error is None:
        expect(receive.value, b"kept", "received")
    else:
        stage.raises(None, receive)


@scenario()
@clause("QB-RECV-7")
def the_result_is_bytes_of_exact_length(stage: Stage) -> None:
    """A receive returns bytes, whatever was sent, and b'' for an empty message."""
    left, right = stage.pair()
    for data in (b"bytes", bytearray(b"array"), memoryview(b"view"), b""):
        left.send(data)
        received = right.receive()
        expect(type(received), bytes, "type of the received message")
        expect(received, bytes(data), "received")


@scenario()
@clause("QB-RECV-8")
def an_end_does_not_receive_what_it_sent(stage: Stage) -> None:
    """What an end sends, its peer receives and nobody else."""
    left, right = stage.pair()
    own = stage.spawn(left.receive)

    left.send(b"to the right")
    stage.waits(own)

    expect(right.receive(), b"to the right", "received by the peer")
    right.send(b"to the left")
    expect(stage.value(own), b"to the left", "received by the end that waited")


@scenario(style=Style.RACE)
@clause("QB-RECV-8")
def no_message_is_received_twice(stage: Stage) -> None:
    """Several receivers share the messages: each is received exactly once."""
    left, right = stage.pair(capacity=2)
    receives = [stage.spawn(right.receive) for _ in range(3)]
    sends = [stage.spawn(left.send, b"%d" % number) for number in range(3)]

    received = stage.values(*receives)
    stage.values(*sends)
    expect(sorted(received), [b"0", b"1", b"2"], "received by the three together")


@scenario("queue.disconnect(error)")
@clause("QB-RECV-9")
def the_error_says_who_and_why(stage: Stage) -> None:
    """side is local or remote; the cause of an abnormal disconnect is on both ends."""
    left, right = stage.pair()
    reason = RuntimeError("the disk is full")
    left.send(b"unread")

    left.disconnect(error=reason)

    expect(right.receive(), b"unread", "received before the error")
    for end, side in ((left, "local"), (right, "remote")):
        call = stage.spawn(end.receive)
        stage.raises(None, call)
        error = call.error
        expect(getattr(error, "side", None), side, "side of the error")
        require(
            error is not None and error.__cause__ is reason,
            f"__cause__ of the error on the {side} side is not what was given",
        )
        expect(getattr(error, "reason", None), "the disk is full", "reason")


@scenario("queue.disconnect(error)")
@clause("QB-ERR-8")
def an_ordinary_goodbye_has_no_cause(stage: Stage) -> None:
    """After a plain disconnect the errors on both ends have no __cause__."""
    ends = stage.pair()
    ends[0].disconnect()

    for end in ends:
        for call in (stage.spawn(end.receive), stage.spawn(end.send, b"late")):
            stage.raises(None, call)
            require(
                call.error is not None and call.error.__cause__ is None,
                f"{call.told()}, with a cause after an ordinary disconnect",
            )
