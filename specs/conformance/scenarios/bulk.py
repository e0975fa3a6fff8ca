"""QB-BULK: many messages in one call."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import Style, scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario("queue.send_many")
@clause("QB-BULK-1")
def send_many_is_many_sends(stage: Stage) -> None:
    """send_many sends in order and returns how many; nothing to send gives 0."""
    left, right = stage.pair(capacity=4)
    messages = [b"1", b"", b"3"]

    expect(stage.at_once(left.send_many, messages), 3, "send_many() returned")
    expect([right.receive() for _ in messages], messages, "received")
    expect(stage.at_once(left.send_many, iter(messages)), 3, "of an iterator")
    expect([right.receive() for _ in messages], messages, "received")
    expect(stage.at_once(left.send_many, []), 0, "send_many([]) returned")


@scenario("queue.send_many", "bounded")
@clause("QB-BULK-1")
def send_many_waits_for_room(stage: Stage) -> None:
    """More messages than fit: send_many waits, and all arrive in order."""
    left, right = stage.pair(capacity=1)
    messages = [b"%d" % number for number in range(stage.plenty())]

    call = stage.spawn(left.send_many, messages)
    stage.waits(call)

    expect([right.receive() for _ in messages], messages, "received")
    expect(stage.value(call), len(messages), "send_many() returned")


@scenario("queue.send_many", "bounded", style=Style.RACE)
@clause("QB-BULK-1")
def send_many_counts_what_went(stage: Stage) -> None:
    """Interrupted by a goodbye of its own end, it returns how many were accepted."""
    left, right = stage.pair(capacity=1)
    messages = [b"%d" % number for number in range(stage.plenty())]

    call = stage.spawn(left.send_many, messages)
    stage.spawn(left.disconnect)

    received = stage.drain(right)
    stage.join(call)
    expect(received, messages[: len(received)], "received")
    if call.error is None:
        expect(call.value, len(received), "send_many() returned")
    else:
        expect(received, [], "received though the first send raised")
        stage.raises(None, call)


@scenario("queue.send_many")
@clause("QB-BULK-1")
def send_many_fails_as_its_first_send(stage: Stage) -> None:
    """On a disconnected end send_many raises; while half every message is dropped."""
    left, right = stage.pair()
    left.send(b"u")
    left.disconnect()

    stage.refuses(None, left.send_many, [b"1"])
    expect(stage.at_once(right.send_many, [b"1", b"2"]), 2, "send_many() while half")
    right.receive()
    stage.refuses(None, right.send_many, [b"1", b"2"])


@scenario("queue.receive_many")
@clause("QB-BULK-2")
def receive_many_takes_what_is_there(stage: Stage) -> None:
    """receive_many returns what is present, up to the limit, oldest first."""
    left, right = stage.pair(capacity=4)
    for message in (b"1", b"2", b"3"):
        left.send(message)

    expect(stage.at_once(right.receive_many, 2), [b"1", b"2"], "with a limit of 2")
    expect(stage.at_once(right.receive_many), [b"3"], "without a limit")


@scenario("queue.receive_many")
@clause("QB-BULK-2")
def receive_many_waits_for_the_first(stage: Stage) -> None:
    """On an empty buffer receive_many waits; it never returns an empty list."""
    left, right = stage.pair()
    call = stage.spawn(right.receive_many)
    stage.waits(call)

    left.send(b"m")

    expect(stage.value(call), [b"m"], "receive_many() returned")
    waiting = stage.spawn(right.receive_many)
    stage.waits(waiting)
    left.disconnect()
    stage.raises(None, waiting)
    stage.refuses(None, right.receive_many)


@scenario("queue.receive_many", style=Style.RACE)
@clause("QB-BULK-2")
def receive_many_against_a_sender_loses_nothing(stage: Stage) -> None:
    """Taken in bulk while the sender sends and hangs up, all arrive in order."""
    left, right = stage.pair(capacity=2)
    messages = [b"1", b"2", b"3"]

    def send_and_hang_up() -> None:
        for message in messages:
            left.send(message)
        left.disconnect()

    def take() -> list[Any]:
        batches = []
        while True:
            try:
                batches.append(right.receive_many())
            except stage.disconnected_error:
                return batches

    taker = stage.spawn(take)
    stage.value(stage.spawn(send_and_hang_up))

    batches = stage.value(taker)
    require(all(batches), "receive_many() returned an empty list")
    expect([*chain(*batches)], messages, "received in bulk")
