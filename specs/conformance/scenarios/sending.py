"""QB-SEND: data, waits and side effects of a send."""

from __future__ import annotations

import array
from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage

RANGES = ("queue.send(offset)", "queue.send(length)")


@scenario(*RANGES)
@clause("QB-SEND-1")
def a_send_transmits_exactly_its_range(stage: Stage) -> None:
    """send(data, offset, length) transmits that range; without a length, the rest."""
    left, right = stage.pair()
    data = b"abcde"

    for offset in range(len(data) + 1):
        left.send(data, offset=offset)
        expect(right.receive(), data[offset:], f"sent from offset {offset}")
        for length in range(len(data) - offset + 1):
            left.send(data, offset=offset, length=length)
            wanted = data[offset : offset + length]
            expect(right.receive(), wanted, f"sent from {offset}, length {length}")


@scenario()
@clause("QB-SEND-1")
def a_send_transmits_all_and_returns_none(stage: Stage) -> None:
    """send(data) transmits the whole of data and returns None."""
    left, right = stage.pair()

    expect(left.send(b"whole"), None, "send() returned")

    expect(right.receive(), b"whole", "received")


@scenario(style=Style.RACE)
@clause("QB-SEND-2")
def a_send_is_all_or_nothing(stage: Stage) -> None:
    """Against a disconnect of its end: a send that returned is received, else not."""
    left, right = stage.pair(capacity=2)
    sends = [stage.spawn(left.send, message) for message in (b"one", b"two")]
    hang_up = stage.spawn(left.disconnect)

    received = stage.drain(right)
    stage.value(hang_up)
    stage.join(*sends)
    accepted = [b for b, s in zip((b"one", b"two"), sends, strict=True) if not s.error]
    expect(sorted(received), sorted(accepted), "received, against what send accepted")
    stage.raises(None, *(send for send in sends if send.error))


@scenario()
@clause("QB-SEND-3")
def any_bytes_like_object_is_sent(stage: Stage) -> None:
    """bytes, bytearray, memoryview and array are sent as the bytes they hold."""
    left, right = stage.pair()
    numbers = array.array("I", [1, 2, 3])
    for data, wanted in (
        (b"plain", b"plain"),
        (bytearray(b"mutable"), b"mutable"),
        (memoryview(b"a slice of it")[2:7], b"slice"),
        (numbers, numbers.tobytes()),
    ):
        left.send(data)
        expect(right.receive(), wanted, f"received for a {type(data).__name__}")


@scenario(*RANGES)
@clause("QB-SEND-3")
def offset_and_length_count_bytes(stage: Stage) -> None:
    """Offset and length count bytes, whatever the size of an item."""
    left, right = stage.pair()
    numbers = array.array("I", [1, 2, 3])
    raw = numbers.tobytes()

    left.send(numbers, offset=3, length=6)
    expect(right.receive(), raw[3:9], "bytes 3 to 9 of an array of integers")
    left.send(memoryview(raw)[2:], offset=1, length=4)
    expect(right.receive(), raw[3:7], "bytes 1 to 5 of a sliced view")


@scenario()
@clause("QB-SEND-3")
def what_is_not_bytes_is_refused(stage: Stage) -> None:
    """A str, a number, None or a view with gaps is a TypeError, and nothing is sent."""
    left, right = stage.pair()

    for data in ("text", 5, None, [1, 2], memoryview(b"abcdef")[::2]):
        stage.refuses(TypeError, left.send, data)

    left.send(b"after")
    expect(right.receive(), b"after", "received after refused sends")


@scenario()
@clause("QB-SEND-4")
def lengths_at_the_edges_arrive(stage: Stage) -> None:
    """Messages around the edges of a length byte arrive as they were sent."""
    left, right = stage.pair()
    for length in (0, 1, 2, 127, 128, 129, 254, 255, 256, 257):
        message = bytes(range(256)) * 2
        send = stage.spawn(left.send, message[:length])
        expect(right.receive(), message[:length], f"a message of {length} bytes")
        stage.value(send)


@scenario(style=Style.CROWD)
@clause("QB-SEND-4")
def long_messages_arrive(stage: Stage) -> None:
    """Messages of 64 KiB, a byte less and more, and of a mebibyte arrive unchanged."""
    left, right = stage.pair()
    pattern = bytes(range(251)) * 4200
    for length in (32_767, 32_768, 65_535, 65_536, 65_537, 1_048_577):
        send = stage.spawn(left.send, pattern[:length])
        received = right.receive()
        stage.value(send)
        expect(len(received), length, "length of the message received")
        require(received == pattern[:length], f"{length} bytes came out altered")


@scenario(style=Style.RACE)
@clause("QB-SEND-5")
def a_released_send_shows_no_piece(stage: Stage) -> None:
    """When the sender's end disconnects in mid-send, only whole messages are seen."""
    left, right = stage.pair(capacity=1)
    messages = [bytes([65 + n % 26]) * 300 for n in range(stage.plenty())]

    def send_all() -> None:
        for message in messages:
            left.send(message)

    sender = stage.spawn(send_all)
    stage.spawn(left.disconnect)

    received = stage.drain(right)
    expect(received, messages[: len(received)], "whole messages, in order")
    stage.join(sender)
    if sender.error is not None:
        stage.raises(None, sender)


@scenario()
@clause("QB-SEND-5")
def a_waiting_send_shows_no_piece(stage: Stage) -> None:
    """A send that waits for room and is then released shows nothing of its message."""
    left, right = stage.pair(capacity=1)
    messages = [bytes([65 + n % 26]) * 300 for n in range(stage.plenty())]
    sends = []
    for message in messages:
        sends.append(stage.spawn(left.send, message))
        stage.settle()

    left.disconnect()

    received = stage.drain(right)
    stage.join(*sends)
    accepted = [m for m, s in zip(messages, sends, strict=True) if s.error is None]
    expect(received, accepted[: len(received)], "whole messages of sends that returned")


@scenario("bounded")
@clause("QB-SEND-6")
def a_send_waits_while_the_buffer_is_full(stage: Stage) -> None:
    """On a full buffer sends wait; each receive lets exactly one go on, promptly."""
    left, right, sent = stage.full_pair()
    waiting = [stage.spawn(left.send, message) for message in (b"x", b"y")]
    stage.waits(*waiting)

    began = stage.now()
    expect(right.receive(), sent[0], "received from a full buffer")
    stage.promptly(began, stage.only_one("one receive", *waiting))
    right.receive()
    stage.values(*waiting)


@scenario()
@clause("QB-SEND-7")
def the_data_is_copied_when_sent(stage: Stage) -> None:
    """A buffer changed after the send arrives as it was when sent."""
    left, right = stage.pair()
    data = bytearray(b"before")

    left.send(data)
    data[:] = b"after, and longer"

    expect(right.receive(), b"before", "received")


@scenario("bounded")
@clause("QB-SEND-7")
def the_data_is_copied_before_waiting(stage: Stage) -> None:
    """A buffer changed, even resized, while its send waits arrives as it was."""
    left, right, sent = stage.full_pair()
    data = bytearray(b"before")
    waiting = stage.spawn(left.send, data)
    stage.waits(waiting)

    try:
        data[:] = b"after, and longer"
    except BufferError as error:
        raise AssertionError("a waiting send holds the caller's buffer") from error

    received = [right.receive() for _ in range(len(sent) + 1)]
    expect(received[-1], b"before", "received for the send that waited")
    stage.value(waiting)


@scenario()
@clause("QB-SEND-8")
def a_wrong_type_is_found_first(stage: Stage) -> None:
    """Sending a str is a TypeError, be the end connected, half or disconnected."""
    left, right = stage.pair()
    stage.refuses(TypeError, left.send, "text")

    right.send(b"unread")
    right.disconnect()
    stage.refuses(TypeError, left.send, "text")
    left.receive()
    stage.refuses(TypeError, left.send, "text")
    stage.refuses(TypeError, right.send, "text")


@scenario(*RANGES)
@clause("QB-SEND-8")
def a_wrong_range_is_found_first(stage: Stage) -> None:
    """A range outside the data is a ValueError in every state of the end."""
    left, right = stage.pair()
    stage.refuses(ValueError, left.send, b"abc", offset=2, length=2)

    right.send(b"unread")
    right.disconnect()
    stage.refuses(ValueError, left.send, b"abc", offset=2, length=2)
    left.receive()
    stage.refuses(ValueError, left.send, b"abc", offset=2, length=2)
    stage.refuses(ValueError, right.send, b"abc", offset=4, length=0)


@scenario("factory().broker(max_message_size)", "broker.accept(capacity)")
@clause("QB-SEND-9")
def a_message_too_large_is_refused_at_once(stage: Stage) -> None:
    """At the limit a message passes, above it an error comes without waiting."""
    b = stage.world.broker("b", max_message_size=4)
    a = stage.world.broker("a", max_message_size=4)
    accept = stage.spawn(b.accept, 1, capacity=1)
    right = stage.value(stage.spawn(a.connect, "b", 1))
    left = stage.value(accept)
    too_large = stage.error("message_too_large_error")

    for end, peer in ((left, right), (right, left)):
        stage.refuses(too_large, end.send, b"55555")
        stage.at_once(end.send, b"4444")
        stage.refuses(too_large, end.send, b"55555")
        expect(peer.receive(), b"4444", "received")


@scenario()
@clause("QB-SEND-10")
def a_send_on_a_disconnected_end_raises(stage: Stage) -> None:
    """A send that starts on a disconnected end raises, whoever disconnected."""
    left, right = stage.pair()

    left.disconnect()

    for _ in range(2):
        stage.refuses(None, left.send, b"local")
        stage.refuses(None, right.send, b"remote, nothing left to read")


@scenario("bounded")
@clause("QB-SEND-10")
def a_full_buffer_does_not_delay_the_error(stage: Stage) -> None:
    """A send on a disconnected end raises at once though the peer's buffer is full."""
    for hangs_up in (0, 1):
        left, right, _ = stage.full_pair()
        (left, right)[hangs_up].disconnect()
        stage.refuses(None, left.send, b"late")
        stage.refuses(None, left.send, b"late")
