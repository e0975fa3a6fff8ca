"""QB-BUF: the capacity, as far as the two ends of a queue show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from specs.clauses import clause
from specs.conformance.expectation import expect, require
from specs.conformance.scenario import scenario

if TYPE_CHECKING:
    from specs.conformance.stage import Stage


@scenario("broker.accept(capacity)")
@clause("QB-BUF-2")
def exactly_the_capacity_fits(stage: Stage) -> None:
    """Of capacity + 1 sends exactly one waits, also after the buffer went round."""
    for capacity in (1, 2, 3):
        left, right = stage.pair(capacity, capacity=capacity)
        for turn in range(2):
            for number in range(capacity):
                stage.at_once(left.send, b"%d" % number)
            extra = stage.spawn(left.send, b"extra")
            stage.waits(extra)
            wanted = [b"%d" % number for number in range(capacity)] + [b"extra"]
            received = [right.receive() for _ in wanted]
            expect(received, wanted, f"turn {turn} of a buffer of {capacity}")
            stage.value(extra)


@scenario("broker.accept(capacity)")
@clause("QB-BUF-3")
def a_message_takes_one_place_whatever_its_length(stage: Stage) -> None:
    """A message far longer than the capacity is sent without anybody receiving."""
    left, right = stage.pair(capacity=1)
    long = bytes(1 << 20)

    stage.at_once(left.send, long)

    require(right.receive() == long, "a mebibyte came out altered")


@scenario("broker.accept(capacity)", "queue.capacity")
@clause("QB-BUF-10")
def both_directions_have_the_acceptors_capacity(stage: Stage) -> None:
    """The acceptor's capacity holds for both directions, and both ends report it."""
    ends = stage.pair(capacity=2)

    expect([end.capacity for end in ends], [2, 2], "capacity of the two ends")
    for sender, receiver in (ends, ends[::-1]):
        for message in (b"1", b"2"):
            stage.at_once(sender.send, message)
        extra = stage.spawn(sender.send, b"3")
        stage.waits(extra)
        expect([receiver.receive() for _ in range(3)], [b"1", b"2", b"3"], "received")
        stage.value(extra)
